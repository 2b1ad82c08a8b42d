//! The sandbox that stands for a host: its directories, its network, its
//! control groups, and that nothing of them is left. Needs root, as the fence
//! does; without it there is no node, and that is what is tested then.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use holdfast::base::codes;
use holdfast::sandbox::{Command, Limits, NodeWish, Sandbox, scratch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::sandbox::{LIMIT, gone, in_role, log_of, shell};

pub(crate) fn wish(address: &str) -> NodeWish {
    NodeWish { hostname: "rehearsal-1".to_owned(), address: address.parse().unwrap(), limits: Limits::default() }
}

/// None where this user cannot have one, which is said.
async fn up(root: &Path, wish: &NodeWish) -> Option<Sandbox> {
    match Sandbox::up_node(root, "node", wish).await {
        Ok(sandbox) => Some(sandbox),
        Err(failure) => {
            assert!(!rustix::process::geteuid().is_root(), "{failure:?}");
            assert_eq!(failure.code(), &codes::SANDBOX_FAILED);
            assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
            None
        }
    }
}

async fn said(sandbox: &Sandbox, script: &str) -> String {
    log_of(sandbox.start(shell(script)).await.unwrap()).await
}

/// Groups of this process's sandboxes, or of others below `root`.
fn groups_of(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path().join("cgroups")).unwrap_or_default();
        found.extend(text.lines().map(PathBuf::from));
    }
    found
}

fn host_values() -> Vec<String> {
    let names = [
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    ];
    names.iter().map(|name| std::fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap()).collect()
}

#[tokio::test]
async fn a_node_has_directories_of_its_own_and_the_host_s_stay_as_they_were() {
    let root = tempfile::tempdir().unwrap();
    let Some(sandbox) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let marks = "echo mark > /etc/mark; echo mark > /opt/mark; echo mark > /var/lib/kubelet/mark; echo mark > /run/mark; \
                 (cd /root; echo mark > mark); echo mark > /home/mark; cat /etc/mark /opt/mark /var/lib/kubelet/mark /run/mark";
    assert_eq!(said(&sandbox, marks).await, "mark\n".repeat(4));
    for path in ["/etc/mark", "/opt/mark", "/var/lib/kubelet/mark", "/run/mark", "/home/mark"] {
        assert!(!Path::new(path).exists(), "{path} reached the host");
        assert_eq!(std::fs::read_to_string(sandbox.inside(Path::new(path))).unwrap(), "mark\n", "{path}");
    }
    assert_eq!(said(&sandbox, "ls -A /etc/holdfast /etc/kubernetes").await, "/etc/holdfast:\n\n/etc/kubernetes:\n");
    assert_eq!(said(&sandbox, "hostname").await, "rehearsal-1\n");
    // What overlays need below them is real; what may hold keys is memory.
    let kinds = said(&sandbox, "stat -f -c %T /etc /var /run /root /var/lib/containerd /var/lib/etcd").await;
    let kinds: Vec<_> = kinds.lines().collect();
    assert_eq!(kinds[..4], ["overlayfs", "tmpfs", "tmpfs", "tmpfs"]);
    assert!(!kinds[4..].iter().any(|kind| ["overlayfs", "tmpfs"].contains(kind)), "{kinds:?}");
    let upper = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!upper.contains(root.path().to_str().unwrap()), "nothing is mounted outside");
    let written = walk(root.path()).into_iter().filter(|path| path.ends_with("mark")).collect::<Vec<_>>();
    assert_eq!(written, [sandbox.directory().join("node/kubelet/mark")], "no file of /etc lies on a disk");
    let shared = said(&sandbox, "grep ' / / ' /proc/self/mountinfo").await;
    assert!(shared.contains("shared:"), "{shared}");
    sandbox.down().await.unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        at += 1;
        if path.is_dir() && !path.is_symlink() {
            found.extend(std::fs::read_dir(path).unwrap().flatten().map(|entry| entry.path()));
        }
    }
    found
}

#[tokio::test]
async fn a_node_is_shown_the_directory_of_programs_that_lies_below_a_hidden_one_and_cannot_write_it() {
    let root = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(tools.path().join("tool"), "of the host").unwrap();
    let Some(sandbox) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let script = format!("cat {0}/tool; (echo x > {0}/tool) 2>/dev/null && echo written", tools.path().display());
    assert!(!said(&sandbox, &script).await.contains("of the host"));
    sandbox.show(tools.path()).await.unwrap();
    assert_eq!(said(&sandbox, &script).await, "of the host");
    assert!(sandbox.show(Path::new("/var/tmp/absent")).await.is_err());
    sandbox.down().await.unwrap();
    assert_eq!(std::fs::read_to_string(tools.path().join("tool")).unwrap(), "of the host");
}

#[tokio::test]
async fn a_node_in_a_scratch_directory_below_var_sees_it_where_it_is() {
    let root = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(sandbox) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let private = sandbox.write_private("key", b"planted").unwrap();
    let script = format!("pwd; cat {}; echo; echo x > here; ls /var/lib", private.display());
    let seen = said(&sandbox, &script).await;
    assert_eq!(seen, format!("{}\nplanted\ncni\ncontainerd\netcd\nkubelet\n", sandbox.directory().display()));
    assert!(sandbox.directory().join("here").exists());
    sandbox.down().await.unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_node_s_network_leads_nowhere_and_is_reached_by_its_door() {
    let root = tempfile::tempdir().unwrap();
    let Some(sandbox) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let proof = sandbox.fence().proof().unwrap();
    assert!(proof.holds(), "{proof}");
    assert_eq!(sandbox.node().unwrap().interfaces, ["lo", "node0", "node0p", "node0q"]);
    assert_eq!(said(&sandbox, "cat /proc/sys/net/ipv4/ip_forward").await, "1\n");
    assert!(said(&sandbox, "ip route show default").await.contains("dev node0"));

    let server = sandbox.start(in_role("echo-anywhere", 4242)).await.unwrap();
    let door = sandbox.forward_to("198.51.100.10:4242".parse::<SocketAddr>().unwrap()).await.unwrap();
    let asking = async {
        loop {
            let mut connection = tokio::net::TcpStream::connect(door.address()).await.unwrap();
            let mut answer = String::new();
            let sent = connection.write_all(b"hello\n").await;
            if sent.is_ok() && connection.read_to_string(&mut answer).await.is_ok() && !answer.is_empty() {
                return answer;
            }
        }
    };
    assert_eq!(tokio::time::timeout(LIMIT, asking).await.unwrap(), "inside heard hello\n");
    let outside = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let seen = log_of(sandbox.start(in_role("reach", format!("127.0.0.1:{outside}"))).await.unwrap()).await;
    assert!(seen.contains("reached: false"), "{seen}");
    server.stop().await.unwrap();
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn a_door_to_another_address_needs_a_fence() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::up(root.path(), "open", holdfast::sandbox::Fencing::Never).await.unwrap();
    let failure = sandbox.forward_to("198.51.100.10:1".parse().unwrap()).await.unwrap_err();
    assert!(failure.cause().contains("not inside"), "{failure}");
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn the_kernel_s_values_stay_as_they_were_whatever_is_written_inside() {
    let root = tempfile::tempdir().unwrap();
    let before = host_values();
    let Some(sandbox) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let script = "cd /proc/sys; for f in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
                  kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do cat $f; (echo 2 > $f) 2>/dev/null && echo written; done";
    assert_eq!(said(&sandbox, script).await, "1\n0\n10\n1\n1000000\n25000000\n", "a kubelet reads what it wants");
    assert_eq!(host_values(), before);
    sandbox.down().await.unwrap();
    assert_eq!(host_values(), before);
}

#[tokio::test]
async fn a_node_s_processes_live_in_groups_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let Some(sandbox) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let groups = groups_of(root.path());
    assert!(!groups.is_empty() && groups.iter().all(|group| group.is_dir()), "{groups:?}");
    let seen = said(&sandbox, "cat /proc/self/cgroup").await;
    for line in seen.lines().filter(|line| !line.starts_with("0::")) {
        assert!(line.ends_with(":/"), "inside it is the root of its tree: {seen}");
    }
    let made = said(&sandbox, "mkdir /sys/fs/cgroup/pids/kubepods && echo made").await;
    if made == "made\n" {
        assert!(groups.iter().any(|group| group.join("kubepods").is_dir()), "{groups:?}");
    }
    sandbox.down().await.unwrap();
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
}

#[tokio::test]
async fn two_nodes_at_once_do_not_collide() {
    let root = tempfile::tempdir().unwrap();
    let Some(first) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let other = tempfile::tempdir().unwrap();
    let second = up(other.path(), &wish("198.51.100.10")).await.unwrap();
    let servers =
        (first.start(in_role("echo-anywhere", 4242)).await.unwrap(), second.start(in_role("echo-anywhere", 4242)).await.unwrap());
    let groups = groups_of(root.path());
    first.down().await.unwrap();
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    assert_eq!(servers.1.exited().unwrap(), None, "the other one goes on");
    assert!(groups_of(other.path()).iter().all(|group| group.is_dir()));
    second.down().await.unwrap();
    for place in [root.path(), other.path()] {
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 0);
    }
}

#[allow(clippy::disallowed_methods)] // the holdfast that is killed is a process of the test's own
#[tokio::test]
async fn a_killed_holdfast_s_node_is_gone_after_the_next_sweep() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut holdfast = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::role", "--nocapture"])
        .env("HOLDFAST_TEST_ROLE", "node-holdfast")
        .env("HOLDFAST_TEST_ARGUMENT", root.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holdfast.stdout.take().unwrap()).lines().map(Result::unwrap);
    let child = lines.find_map(|line| line.split_once("child ").map(|(_, pid)| pid.parse::<u32>().unwrap())).unwrap();
    let groups = groups_of(root.path());
    assert!(!groups.is_empty() && groups.iter().all(|group| group.is_dir()), "{groups:?}");
    let sweep = || {
        let mut swept = scratch::sweep(root.path()).unwrap();
        swept.retain(|leftover| leftover.directory.starts_with(root.path()));
        swept
    };
    assert_eq!(sweep(), [], "a living run is not swept");
    assert!(groups.iter().all(|group| group.is_dir()), "nor are its groups");

    holdfast.kill().unwrap();
    holdfast.wait().unwrap();
    gone(child).await;
    assert_eq!(sweep().len(), 1);
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(root.path().to_str().unwrap()), "{mounts}");
}

#[tokio::test]
async fn a_sweep_removes_no_group_that_is_not_called_after_its_run() {
    let root = tempfile::tempdir().unwrap();
    let Some(sandbox) = up(root.path(), &wish("198.51.100.10")).await else { return };
    let groups = groups_of(root.path());
    let parent = groups[0].parent().unwrap().to_owned();
    let foreign = parent.join(format!("foreign-{}", std::process::id()));
    std::fs::create_dir(&foreign).unwrap();
    let elsewhere = root.path().join(groups[0].file_name().unwrap());
    std::fs::create_dir(&elsewhere).unwrap();
    let record = sandbox.directory().join("cgroups");
    let mut text = std::fs::read_to_string(&record).unwrap();
    for path in [&foreign, &elsewhere, &groups[0].join("..").join(foreign.file_name().unwrap()), &parent] {
        text.push_str(&format!("{}\n", path.display()));
    }
    std::fs::write(&record, text).unwrap();
    sandbox.down().await.unwrap();
    assert!(foreign.is_dir() && elsewhere.is_dir() && parent.is_dir());
    assert!(groups.iter().all(|group| !group.exists()));
    std::fs::remove_dir(&foreign).unwrap();
}

#[tokio::test]
async fn a_program_finds_others_in_the_directories_it_is_given_first() {
    let root = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/echo", tools.path().join("true")).unwrap();
    let sandbox = Sandbox::up(root.path(), "search", holdfast::sandbox::Fencing::Never).await.unwrap();
    let command = || Command::new("shell", "/bin/sh").args(["-c", "env true found; echo $PATH"]);
    let with = log_of(sandbox.start(command().search([tools.path().to_owned()])).await.unwrap()).await;
    assert!(with.starts_with("found\n") && with.contains(&format!("{}:/usr/sbin", tools.path().display())), "{with}");
    let without = log_of(sandbox.start(command()).await.unwrap()).await;
    assert!(without.starts_with("/usr/sbin:"), "{without}");
    sandbox.down().await.unwrap();
}

/// Fills memory until it is ended, or all is written.
const HUNGRY: &str = "head -c 400M /dev/zero | tail -c 1G > /dev/null";

#[tokio::test]
async fn a_process_that_exceeds_the_memory_limit_is_ended_and_the_failure_says_so() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for fencing in [holdfast::sandbox::Fencing::IfPossible, holdfast::sandbox::Fencing::Never] {
        let root = tempfile::tempdir().unwrap();
        let limits = Limits { memory_bytes: Some(64 << 20), cpus: Some(1.5) };
        let sandbox = Sandbox::up_within(root.path(), "limited", fencing, limits).await.unwrap();
        let groups = groups_of(root.path());
        sandbox.run(shell("echo modest"), LIMIT).await.unwrap();
        let failure = sandbox.run(shell(HUNGRY), LIMIT).await.unwrap_err();
        assert_eq!(failure.code(), &codes::TOOL_FAILED);
        assert!(failure.cause().contains("rehearsal.memory_limit, which is 64.0 MiB"), "{failure}");
        let later = sandbox.run(shell("exit 3"), LIMIT).await.unwrap_err();
        assert!(!later.cause().contains("memory_limit"), "it is no reason for another's end: {later}");
        sandbox.down().await.unwrap();
        assert!(!groups.is_empty() && groups.iter().all(|group| !group.exists()), "{groups:?}");

        let free = Sandbox::up(root.path(), "free", fencing).await.unwrap();
        assert!(groups_of(root.path()).is_empty(), "without a limit no group is made");
        free.run(shell(HUNGRY), LIMIT).await.unwrap();
        free.down().await.unwrap();
    }
}

#[tokio::test]
async fn a_node_has_its_limits_in_its_groups() {
    let root = tempfile::tempdir().unwrap();
    let limits = Limits { memory_bytes: Some(512 << 20), cpus: Some(0.5) };
    let Some(sandbox) = up(root.path(), &NodeWish { limits, ..wish("198.51.100.10") }).await else { return };
    assert_eq!(sandbox.node().unwrap().limits, limits);
    let read = |name: &str| groups_of(root.path()).iter().find_map(|group| std::fs::read_to_string(group.join(name)).ok());
    let one = read("memory.limit_in_bytes").or_else(|| read("memory.max"));
    assert_eq!(one.unwrap().trim(), "536870912");
    let half = read("cpu.cfs_quota_us").or_else(|| read("cpu.max"));
    assert!(half.unwrap().starts_with("50000"));
    sandbox.down().await.unwrap();
}
