//! The sandbox with real processes and real namespaces.
//!
//! Programs that run inside, and the holdfast that is killed, are this very
//! test binary, started again with `HOLDFAST_TEST_ROLE`: see `role`.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use holdfast::base::codes;
use holdfast::sandbox::identity::ProcessIdentity;
use holdfast::sandbox::{Command, Fencing, Process, Sandbox, scratch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Long enough for a loaded machine; nothing waits for it when all is well.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

async fn up(root: &Path, wish: Fencing) -> Sandbox {
    let sandbox = Sandbox::up(root, "test", wish).await.unwrap();
    let fence = sandbox.fence().to_string();
    let possible = wish == Fencing::IfPossible && rustix::process::geteuid().is_root();
    assert_eq!(sandbox.fence().is_raised(), possible, "{fence}");
    sandbox
}

pub(crate) fn shell(script: &str) -> Command {
    Command::new("shell", "/bin/sh").args(["-c", script])
}

/// This test binary in a role of its own.
pub(crate) fn in_role(role: &str, argument: impl std::fmt::Display) -> Command {
    let binary = std::env::current_exe().unwrap();
    let script = format!(
        "HOLDFAST_TEST_ROLE={role} HOLDFAST_TEST_ARGUMENT={argument} exec {} --exact sandbox::role --nocapture",
        binary.display()
    );
    Command::new(role, "/bin/sh").args(["-c", &script])
}

/// Ends when the process has ended, whoever its parent is.
pub(crate) async fn gone(pid: u32) {
    let ended = async {
        while ProcessIdentity::of(pid.cast_signed()).is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, ended).await.unwrap_or_else(|_| panic!("process {pid} still runs"));
}

pub(crate) async fn log_of(process: Process) -> String {
    tokio::time::timeout(LIMIT, process.wait()).await.unwrap().unwrap();
    std::fs::read_to_string(process.log()).unwrap()
}

/// Not a test: what this binary does when it is started by the tests below.
#[tokio::test]
async fn role() {
    let Ok(role) = std::env::var("HOLDFAST_TEST_ROLE") else { return };
    let argument = std::env::var("HOLDFAST_TEST_ARGUMENT").unwrap_or_default();
    match role.as_str() {
        "echo" | "echo-anywhere" => {
            let address = if role == "echo" { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
            let listener = TcpListener::bind((address, argument.parse().unwrap())).unwrap();
            println!("listening");
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let mut line = String::new();
                BufReader::new(connection.try_clone().unwrap()).read_line(&mut line).unwrap();
                connection.write_all(format!("inside heard {line}").as_bytes()).unwrap();
            }
        }
        "reach" => {
            let to: SocketAddr = argument.parse().unwrap();
            println!("reached: {}", TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok());
        }
        "fenced-holdfast" | "unfenced-holdfast" => {
            let wish = if role.starts_with("un") { Fencing::Never } else { Fencing::IfPossible };
            let sandbox = Sandbox::up(Path::new(&argument), "killed", wish).await.unwrap();
            sandbox.write_private("key", b"key material").unwrap();
            let child = sandbox.start(shell("exec sleep 1000")).await.unwrap();
            println!("memory {}", sandbox.scratch().unwrap().shared_memory().display());
            println!("child {}", child.pid());
            std::future::pending::<()>().await;
        }
        "node-holdfast" => {
            let wish = crate::node::wish("198.51.100.10");
            let sandbox = Sandbox::up_node(Path::new(&argument), "killed", &wish).await.unwrap();
            let child = sandbox.start(shell("mkdir -p /sys/fs/cgroup/pids/below/deeper; exec sleep 1000")).await.unwrap();
            println!("child {}", child.pid());
            std::future::pending::<()>().await;
        }
        _ => panic!("no such role: {role}"),
    }
}

#[tokio::test]
async fn a_forwarder_passes_bytes_inward_and_nothing_else_does() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::IfPossible).await;
    let port = sandbox.free_port().unwrap();
    let server = sandbox.start(in_role("echo", port)).await.unwrap();
    let door = sandbox.forward(port).await.unwrap();

    let asking = async {
        loop {
            // The server may not listen yet: then the door closes the connection.
            let mut connection = tokio::net::TcpStream::connect(door.address()).await.unwrap();
            let mut answer = String::new();
            let sent = connection.write_all(b"hello\n").await;
            if sent.is_ok() && connection.read_to_string(&mut answer).await.is_ok() && !answer.is_empty() {
                return answer;
            }
        }
    };
    assert_eq!(tokio::time::timeout(LIMIT, asking).await.unwrap(), "inside heard hello\n");

    if sandbox.fence().is_raised() {
        let direct = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        assert!(direct.is_err(), "the port is open inside only");
        let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        for target in [door.address(), outside] {
            let seen = log_of(sandbox.start(in_role("reach", target)).await.unwrap()).await;
            assert!(seen.contains("reached: false"), "{target}: {seen}");
        }
    }
    let address = door.address();
    drop(door);
    assert!(TcpStream::connect(address).is_err(), "a dropped door is closed");
    server.stop().await.unwrap();
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn a_fence_has_only_loopback_and_no_route() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::IfPossible).await;
    if let Some(proof) = sandbox.fence().proof() {
        assert!(proof.holds(), "{proof}");
        let devices = log_of(sandbox.start(shell("cat /proc/self/net/dev")).await.unwrap()).await;
        let names: Vec<_> = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
        assert_eq!(names, ["lo"]);
        let processes = log_of(
            sandbox.start(shell("ls -d /proc/[0-9]*; hostname 2>/dev/null || cat /proc/sys/kernel/hostname")).await.unwrap(),
        )
        .await;
        let own = std::process::id();
        assert!(!processes.contains(&format!("/proc/{own}\n")), "processes outside are not seen: {processes}");
        assert!(processes.contains("holdfast-scratch"), "{processes}");
        // What `mount` notes for itself is all that is there.
        let sockets = log_of(sandbox.start(shell("ls -A /run | grep -vx mount")).await.unwrap()).await;
        assert_eq!(sockets, "", "the host's daemons are not reached by their sockets");
    } else {
        assert_eq!(sandbox.fence().to_string(), "not fenced: not root");
    }
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn without_a_fence_the_sandbox_says_so() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::Never).await;
    assert_eq!(sandbox.fence().to_string(), "not fenced: switched off");
    assert_eq!(sandbox.fence().proof(), None);
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn a_required_fence_is_raised_or_there_is_no_sandbox() {
    let root = tempfile::tempdir().unwrap();
    match Sandbox::up(root.path(), "test", Fencing::Required).await {
        Ok(sandbox) => {
            assert!(sandbox.fence().is_raised());
            sandbox.down().await.unwrap();
        }
        Err(failure) => {
            assert!(!rustix::process::geteuid().is_root(), "{failure}");
            assert_eq!(failure.code(), &codes::SANDBOX_FAILED);
            assert!(failure.cause().contains("not root"), "{failure}");
        }
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn private_files_lie_in_memory_and_only_we_can_read_them() {
    for wish in [Fencing::IfPossible, Fencing::Never] {
        let root = tempfile::tempdir().unwrap();
        let sandbox = up(root.path(), wish).await;
        let path = sandbox.write_private("config.yaml", b"planted-key-material").unwrap();
        let script = format!("cat {0}; echo; stat -c %a {0}; stat -f -c %T {0}", path.display());
        let seen = log_of(sandbox.start(shell(&script)).await.unwrap()).await;
        assert_eq!(seen, "planted-key-material\n600\ntmpfs\n");
        assert!(sandbox.write_private("config.yaml", b"other").is_err(), "a name is not taken twice");
        if sandbox.fence().is_raised() {
            assert!(!path.exists(), "the fence's memory is not seen outside");
        }
        let memory = sandbox.scratch().unwrap().shared_memory();
        assert_eq!(memory.exists(), !sandbox.fence().is_raised());
        sandbox.down().await.unwrap();
        assert!(!path.exists() && !memory.exists());
    }
}

#[tokio::test]
async fn down_leaves_no_process_mount_namespace_or_file() {
    for wish in [Fencing::IfPossible, Fencing::Never] {
        let root = tempfile::tempdir().unwrap();
        let sandbox = up(root.path(), wish).await;
        let child = sandbox.start(shell("exec sleep 1000")).await.unwrap();
        let pid = child.pid();
        let network = std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
        let door = sandbox.forward(1).await.unwrap();
        drop((child, door));
        sandbox.down().await.unwrap();
        assert_eq!(ProcessIdentity::of(pid.cast_signed()), None);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(root.path().to_str().unwrap()), "{mounts}");
        if wish == Fencing::IfPossible && rustix::process::geteuid().is_root() {
            let own = std::fs::read_link("/proc/self/ns/net").unwrap();
            assert_ne!(network, own);
            let holders = std::fs::read_dir("/proc").unwrap().flatten();
            let left =
                holders.filter(|entry| std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|space| space == network));
            assert_eq!(left.count(), 0, "somebody still holds {network:?}");
        }
    }
}

#[tokio::test]
async fn a_dropped_sandbox_leaves_nothing_either() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::IfPossible).await;
    let child = sandbox.start(shell("exec sleep 1000")).await.unwrap();
    let pid = child.pid();
    drop(child);
    drop(sandbox);
    assert_eq!(ProcessIdentity::of(pid.cast_signed()), None);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[allow(clippy::disallowed_methods)] // the holdfast that is killed is a process of the test's own
#[tokio::test]
async fn children_die_with_a_killed_holdfast_and_the_next_run_removes_the_rest() {
    for role in ["fenced-holdfast", "unfenced-holdfast"] {
        let root = tempfile::tempdir().unwrap();
        let mut holdfast = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sandbox::role", "--nocapture"])
            .env("HOLDFAST_TEST_ROLE", role)
            .env("HOLDFAST_TEST_ARGUMENT", root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(holdfast.stdout.take().unwrap()).lines().map(Result::unwrap);
        let memory = lines.find_map(|line| line.split_once("memory ").map(|(_, path)| std::path::PathBuf::from(path))).unwrap();
        let fenced = role == "fenced-holdfast" && rustix::process::geteuid().is_root();
        assert_eq!(memory.exists(), !fenced, "a fence brings memory of its own");
        let child = lines.find_map(|line| line.split_once("child ").map(|(_, pid)| pid.parse::<u32>().unwrap())).unwrap();
        assert!(ProcessIdentity::of(child.cast_signed()).is_some());
        // Memory of dead runs is swept wherever they ran: other tests' is not counted here.
        let sweep = || {
            let mut swept = scratch::sweep(root.path()).unwrap();
            swept.retain(|leftover| leftover.directory.starts_with(root.path()));
            swept
        };
        assert_eq!(sweep(), [], "a living run is not swept");
        assert_eq!(memory.exists(), !fenced, "nor is its memory");

        holdfast.kill().unwrap();
        holdfast.wait().unwrap();
        gone(child).await;

        let swept = sweep();
        assert_eq!(swept.len(), 1, "{role}: {swept:?}");
        let name = swept[0].directory.file_name().unwrap();
        assert!(name.to_str().unwrap().starts_with("holdfast-run-killed-"), "{name:?}");
        assert!(!swept[0].directory.exists() && !memory.exists(), "{role}");
        assert_eq!(sweep(), []);
    }
}

#[tokio::test]
async fn a_failed_program_shows_the_end_of_its_log() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::IfPossible).await;
    sandbox.run(shell("echo fine"), LIMIT).await.unwrap();
    let failure = sandbox.run(shell("echo first; echo 'boom: no such thing' >&2; exit 3"), LIMIT).await.unwrap_err();
    assert_eq!(failure.code(), &codes::TOOL_FAILED);
    assert!(failure.cause().contains("exit status: 3") && failure.cause().contains("boom: no such thing"), "{failure}");
    let missing = sandbox.run(Command::new("absent", "/nowhere/absent"), LIMIT).await.unwrap_err();
    assert_eq!(missing.code(), &codes::TOOL_FAILED);
    assert!(missing.cause().contains("/nowhere/absent"), "{missing}");
    let mode = std::fs::metadata(sandbox.directory().join("logs/shell.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::IfPossible).await;
    let failure = sandbox.run(shell("exec sleep 1000"), Duration::from_millis(200)).await.unwrap_err();
    assert!(failure.cause().contains("did not end within"), "{failure}");
    let recorded = std::fs::read_to_string(sandbox.directory().join("processes")).unwrap();
    let identity =
        recorded.lines().find_map(|line| line.strip_suffix(" shell")?.split_once(' ')?.1.parse::<ProcessIdentity>().ok());
    assert!(!identity.unwrap().is_alive(), "{recorded}");
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn a_process_is_asked_to_end_before_it_is_killed() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::IfPossible).await;
    let script = "trap 'exit 7' TERM; : > armed; while :; do sleep 1 & wait $!; done";
    let polite = sandbox.start(shell(script)).await.unwrap();
    let armed = sandbox.directory().join("armed");
    let arming = async {
        while !armed.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, arming).await.unwrap();
    assert_eq!(polite.stop().await.unwrap().code(), Some(7));
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn a_program_reads_a_sealed_image_and_no_environment_of_ours() {
    let root = tempfile::tempdir().unwrap();
    let sandbox = up(root.path(), Fencing::IfPossible).await;
    let image = rustix::fs::memfd_create("image", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    std::fs::File::from(image.try_clone().unwrap()).write_all(b"image bytes").unwrap();
    // The descriptor stands at the end; opened by path it is read from the start.
    let seen = log_of(sandbox.start(shell("cat /dev/stdin; echo; env").input(image)).await.unwrap()).await;
    assert!(seen.starts_with("image bytes\n"), "{seen}");
    let names: Vec<_> = seen
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name))
        .collect();
    for name in &names {
        assert!(["PATH", "HOME", "TMPDIR"].contains(name), "{seen}");
    }
    sandbox.down().await.unwrap();
}

#[tokio::test]
async fn memory_of_a_dead_run_is_removed_even_where_its_directory_is_gone() {
    let memory = Path::new("/dev/shm").join(format!("holdfast-run-{:032x}-1-1", std::process::id()));
    std::fs::create_dir(&memory).unwrap();
    std::fs::write(memory.join("key"), "key material").unwrap();
    let root = tempfile::tempdir().unwrap();
    let swept = scratch::sweep(&root.path().join("absent")).unwrap();
    assert!(swept.iter().any(|leftover| leftover.directory == memory), "{swept:?}");
    assert!(!memory.exists());
}
