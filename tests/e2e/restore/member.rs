//! `restore --into DIR`: a data directory for a named member, planned first,
//! whole or not there at all.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use holdfast::k8s::encryption_config::EncryptionConfig;
use holdfast::rehearsal::member::{ETCD, wanted_versions};
use holdfast::sandbox::{Command, Fencing, Places, Process, Sandbox, tools};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Bare, Host, LIMIT, program, text, until};
use crate::scene::{files, source};

/// Where the directory goes, in a folder of the test's own.
fn place(host: &Host, name: &str) -> PathBuf {
    host.scene.root.path().join("members").join(name)
}

fn arguments<'a>(into: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let member = ["--name", "m1", "--peer-url", "https://10.0.0.1:2380"];
    [&["restore", source().second.id.as_str(), "--into", into.to_str().unwrap()], &member[..], more].concat()
}

fn host() -> Host {
    let host = Host::new();
    fs::create_dir(host.scene.root.path().join("members")).unwrap();
    host
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// A real etcd on a data directory, under a name, as an operator would start it.
async fn start(sandbox: &Sandbox, name: &str, data: &Path, client: u16, peer: u16) -> Process {
    let places = Places::usual(None, |name| std::env::var_os(name));
    let etcd = tools::find(ETCD, &wanted_versions(Some("3.6.0"), "3.6.0").unwrap(), &places).await.unwrap();
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let command = Command::new(name, &etcd.path).args(["--name", name, "--data-dir"]).args([data]).args([
        "--listen-client-urls",
        &client,
        "--advertise-client-urls",
        &client,
        "--listen-peer-urls",
        &peer,
    ]);
    sandbox.start(command).await.unwrap()
}

async fn led(endpoint: &str) -> etcd_client::Client {
    let asking = async {
        loop {
            if let Ok(mut client) = etcd_client::Client::connect([endpoint], None).await
                && client.status().await.is_ok_and(|status| status.leader() != 0)
            {
                return client;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, asking).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_members_made_by_their_plans_start_as_one_cluster_and_have_the_data() {
    let host = host();
    let ports = free_ports(4);
    let list = format!("m1=http://127.0.0.1:{},m2=http://127.0.0.1:{}", ports[1], ports[3]);
    let (one, two) = (place(&host, "m1"), place(&host, "m2"));
    let id = source().second.id.as_str();
    let into = |data: &Path| data.to_str().unwrap().to_owned();
    let document = host.json(&["restore", id, "--into", &into(&one), "--name", "m1", "--initial-cluster", &list], 0);
    assert_eq!((&document["written"], &document["recorded"]), (&true.into(), &true.into()), "{document:#}");
    let plan = &document["plan"];
    assert_eq!(
        (&plan["snapshot"], &plan["place"], &plan["bump_revision"]),
        (&id.into(), &"absent".into(), &1_000_000_000.into())
    );
    assert!(plan["checks"].as_array().unwrap().iter().all(|check| check["is_good"] == true), "{plan:#}");
    // The plan says how the other one is made.
    let other = plan["others"][0].as_str().unwrap().replace("--into DIR", &format!("--into {}", into(&two)));
    host.json(&other.split(' ').skip(1).collect::<Vec<_>>(), 0);
    host.scene.nothing_is_left();
    for data in [&one, &two] {
        assert_eq!(fs::metadata(data).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(entries(data), ["member"]);
    }

    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::up(folder.path(), "members", Fencing::Never).await.unwrap();
    let running = [start(&sandbox, "m1", &one, ports[0], ports[1]).await, start(&sandbox, "m2", &two, ports[2], ports[3]).await];
    let mut client = led(&format!("http://127.0.0.1:{}", ports[0])).await;
    let members: Vec<String> =
        client.member_list().await.unwrap().members().iter().map(|member| member.name().to_owned()).collect();
    assert_eq!(members.len(), 2, "{members:?}");
    let prefix = Some(etcd_client::GetOptions::new().with_prefix());
    let found = client.get("/registry/secrets/", prefix).await.unwrap();
    assert_eq!(found.kvs().len(), source().secrets);
    assert!(found.header().unwrap().revision() >= source().second.image.revision + 1_000_000_000, "revisions went up");
    let cluster = found.header().unwrap().cluster_id();
    assert_ne!(format!("{cluster:016x}"), source().second.cluster.lineage.as_str(), "a new cluster, which the old cannot join");
    for process in running {
        process.stop().await.unwrap();
    }
    sandbox.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_becomes_a_member_in_an_empty_directory_that_keeps_its_owner() {
    let bare = Bare::new();
    let mut image = crate::scene::Scene::new().opened(&source().second.id);
    image.truncate(image.len() - 32);
    let file = bare.file("db", &image);
    let data = bare.folder.path().join("etcd");
    fs::create_dir(&data).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&data, Some(1234), Some(1234)).unwrap();
    }
    let ports = free_ports(2);
    let url = format!("http://127.0.0.1:{}", ports[1]);
    let arguments = [
        "restore",
        "--from",
        &file,
        "--into",
        data.to_str().unwrap(),
        "--name",
        "alone",
        "--peer-url",
        &url,
        "--bump-revision",
        "0",
    ];
    let (document, _) = bare.json(&arguments, 0);
    let plan = &document["plan"];
    assert_eq!((&plan["place"], &plan["bump_revision"], &plan["quality"]), (&"empty".into(), &Value::Null, &"suspect".into()));
    let warnings: Vec<_> = plan["checks"].as_array().unwrap().iter().filter(|check| check["is_good"] == false).collect();
    assert_eq!(warnings.len(), 2, "no digest, and keys that were not tried: {plan:#}");
    if is_root {
        for path in files(&data).iter().chain([&data, &data.join("member")]) {
            assert_eq!(fs::metadata(path).unwrap().uid(), 1234, "{}", path.display());
        }
        // Back to whoever runs etcd here.
        program("chown").args(["-R", "0"]).arg(&data).output().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::up(folder.path(), "member", Fencing::Never).await.unwrap();
    let running = start(&sandbox, "alone", &data, ports[0], ports[1]).await;
    let mut client = led(&format!("http://127.0.0.1:{}", ports[0])).await;
    let revision = client.status().await.unwrap().header().unwrap().revision();
    assert!((source().second.image.revision..1_000_000).contains(&revision), "as it was: {revision}");
    running.stop().await.unwrap();
    sandbox.down().await.unwrap();
}

#[test]
fn what_cannot_be_a_member_or_take_one_is_refused_before_anything_is_touched() {
    let host = host();
    let folder = host.scene.root.path().join("members");
    let at = |name: &str| folder.join(name);
    fs::create_dir_all(at("filled/data")).unwrap();
    fs::create_dir_all(at("running/member")).unwrap();
    fs::write(at("file"), "x").unwrap();
    let before = files(&folder);
    for name in ["filled", "running", "file", "absent/below", "file/below"] {
        let path = at(name);
        let error = host.refuses(&arguments(&path, &[]), 2, "restore.target");
        assert!(error["object"].as_str().unwrap().contains("members"), "{error}");
    }
    let path = at("m1");
    for (more, object) in [
        (&["--initial-cluster", "m2=https://10.0.0.2:2380"][..], "m1"),
        (&["--initial-cluster", "m1=https://10.0.0.9:2380"], "m1"),
        (&["--peer-url", "10.0.0.1:2380"], "--peer-url"),
        (&["--initial-cluster-token", "two words"], "--initial-cluster-token"),
    ] {
        let error = host.refuses(&arguments(&path, more), 3, "restore.member");
        assert_eq!(error["object"], object, "{error}");
    }
    let id = source().second.id.as_str();
    let into = path.to_str().unwrap();
    host.refuses(&["restore", id, "--into", into, "--name", "m 1", "--peer-url", "https://a:2380"], 3, "restore.member");
    host.refuses(&["restore", id, "--into", into, "--name", "m1"], 3, "restore.member");
    host.refuses(&["restore", id, "--into", into], 3, "restore.member");
    host.refuses(&arguments(&path, &["--to", "boot"]), 3, "usage");
    host.refuses(&["restore", id, "--into", "scratch", "--name", "m1"], 3, "usage");
    host.refuses(&arguments(&path, &["--write-encryption-config", at("file").to_str().unwrap()]), 2, "restore.target");
    host.refuses(&arguments(&path, &["--encryption-config", "/nonexistent"]), 3, "usage");
    assert_eq!(files(&folder), before);
    assert!(!path.exists());
    host.scene.nothing_is_left();
}

/// The run fails in `step` with `code`, and nothing lies where the directory would.
#[track_caller]
fn fails(host: &Host, output: &Output, exit: i32, step: &str, code: &str) -> Value {
    assert_eq!(output.status.code(), Some(exit), "{}{}", text(&output.stdout), text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failure = document["report"]["failures"][0].clone();
    assert_eq!(
        (&failure["step"], &failure["code"], &document["written"]),
        (&step.into(), &code.into(), &false.into()),
        "{document:#}"
    );
    assert_eq!(entries(&host.scene.root.path().join("members")), Vec::<String>::new());
    host.scene.nothing_is_left();
    failure
}

#[test]
fn an_image_that_is_not_whole_writes_nothing() {
    let host = host();
    let object = host.scene.sealed(&source().second.id);
    let mut bytes = fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::remove_file(&object).unwrap();
    fs::write(&object, bytes).unwrap();
    let path = place(&host, "m1");
    let output = host.command(&arguments(&path, &["--json"])).output().unwrap();
    fails(&host, &output, 1, "fetch-image", "snapshot.altered");
}

/// A directory with one program that says it is etcdutl of some version.
fn pretender(host: &Host, version: &str, rest: &str) -> PathBuf {
    let folder = host.scene.root.path().join("tools");
    fs::create_dir_all(&folder).unwrap();
    let script = format!("#!/bin/sh\nif [ \"$1\" = version ]; then echo 'etcdutl version: {version}'; exit; fi\n{rest}\n");
    fs::write(folder.join("etcdutl"), script).unwrap();
    fs::set_permissions(folder.join("etcdutl"), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn with_tools(host: &Host, tools: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = host.command(arguments);
    command.env("HOLDFAST_TOOLS", tools).env("HOME", host.scene.root.path()).env_remove("XDG_CACHE_HOME");
    command
}

#[test]
fn an_etcdutl_of_another_version_is_never_run() {
    let host = host();
    let path = place(&host, "m1");
    let ran = host.scene.root.path().join("ran");
    for version in ["3.5.35", "3.8.0"] {
        let tools = pretender(&host, version, &format!("touch {}", ran.display()));
        let output = with_tools(&host, &tools, &arguments(&path, &["--json"])).output().unwrap();
        let failure = fails(&host, &output, 2, "write-member", "tool.version");
        assert!(failure["cause"].as_str().unwrap().contains(version), "{failure}");
    }
    assert!(!ran.exists());
    let empty = host.scene.root.path().join("no-tools");
    fs::create_dir(&empty).unwrap();
    let output = with_tools(&host, &empty, &arguments(&path, &["--json"])).output().unwrap();
    fails(&host, &output, 2, "write-member", "tool.missing");
}

#[test]
fn an_etcdutl_that_fails_or_writes_nothing_leaves_nothing() {
    let host = host();
    let path = place(&host, "m1");
    for (rest, part) in [("echo 'no luck' >&2; exit 1", "no luck"), ("exit 0", "wrote no database")] {
        let tools = pretender(&host, "3.6.16", rest);
        let output = with_tools(&host, &tools, &arguments(&path, &["--json"])).output().unwrap();
        let failure = fails(&host, &output, 2, "write-member", "tool.failed");
        assert!(failure["cause"].as_str().unwrap().contains(part), "{failure}");
    }
}

/// An etcdutl that has begun and never ends, in a restore that is running.
fn stuck(host: &Host, path: &Path) -> Child {
    let begun = host.scene.root.path().join("begun");
    let _ = fs::remove_file(&begun);
    let tools = pretender(host, "3.6.16", &format!("touch {}; exec sleep 1000", begun.display()));
    let mut command = with_tools(host, &tools, &arguments(path, &[]));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("etcdutl was not started", || begun.exists());
    child
}

#[test]
fn an_interrupted_restore_leaves_nothing_and_what_a_killed_one_left_is_removed() {
    let host = host();
    let (path, folder) = (place(&host, "m1"), host.scene.root.path().join("members"));
    let mut child = stuck(&host, &path);
    assert_eq!(entries(&folder).len(), 1, "written beside its place");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(entries(&folder), Vec::<String>::new());
    host.scene.nothing_is_left();

    let mut child = stuck(&host, &path);
    host.refuses(&arguments(&path, &[]), 2, "restore.target");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!path.exists() && entries(&folder).len() == 1, "what a crash leaves is not where the directory goes");
    let document = host.json(&arguments(&path, &[]), 0);
    assert!(document["plan"]["checks"].to_string().contains("a restore that was killed left"), "{document:#}");
    assert_eq!(entries(&folder), ["m1"]);
    // The directory is there now, and is never written over.
    host.refuses(&arguments(&path, &[]), 2, "restore.target");
    host.scene.nothing_is_left();
}

#[test]
fn a_plan_alone_writes_and_records_nothing() {
    let host = host();
    let path = place(&host, "m1");
    let document = host.json(&arguments(&path, &["--plan"]), 0);
    assert_eq!((&document["written"], &document["report"], &document["recorded"]), (&false.into(), &Value::Null, &false.into()));
    assert!(document["plan"]["proven"].is_null());
    assert_eq!(entries(&host.scene.root.path().join("members")), Vec::<String>::new());
    let shown = host.json(&["show", source().second.id.as_str()], 0);
    assert_eq!(shown["attestations"], serde_json::json!([]));
    let page = text(&host.run(&arguments(&path, &["--dry-run"]), 0).stdout);
    for part in
        ["plan: a data directory for etcd member m1", "https://10.0.0.1:2380", "watchers begin anew", "nothing was written"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    host.scene.nothing_is_left();
}

fn withhold(host: &Host) {
    for file in files(&host.scene.store(&host.scene.config.escrow.store)) {
        if file.to_str().unwrap().contains(source().key1.as_str()) {
            fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn keys_are_written_in_clear_only_where_that_was_asked_for_and_all_are_there() {
    let host = host();
    let path = place(&host, "m1");
    let keys = host.scene.root.path().join("keys.yaml");
    let more = ["--write-encryption-config", keys.to_str().unwrap()];
    let output = host.run(&[arguments(&path, &more), vec!["--json"]].concat(), 0);
    assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
    let written = EncryptionConfig::parse(&fs::read(&keys).unwrap()).unwrap();
    assert_eq!(written, source().encryption, "the source's own, in its own order");
    for key in written.keys() {
        let secret = data_encoding::BASE64.encode(key.secret().expose());
        assert!(!text(&output.stdout).contains(&secret) && !text(&output.stderr).contains(&secret));
    }
    fs::remove_dir_all(&path).unwrap();
    host.refuses(&arguments(&path, &more), 2, "restore.target");
    fs::remove_file(&keys).unwrap();

    // Only the ledger knows the order: without it the file is as good, and who takes it is told.
    let ledger = host.scene.store(&host.scene.config.ledger.store);
    fs::rename(&ledger, ledger.with_extension("away")).unwrap();
    let state = host.scene.root.path().join("state-away");
    let _ = fs::rename(&host.scene.config.host.state_dir, &state);
    let document = host.json(&arguments(&path, &more), 0);
    assert!(document["plan"]["checks"].to_string().contains("order of the source's keys is not known"), "{document:#}");
    let unordered = EncryptionConfig::parse(&fs::read(&keys).unwrap()).unwrap();
    assert_eq!(unordered.keys().len(), 3, "both keys for Secrets, and the widget's");
    fs::rename(ledger.with_extension("away"), &ledger).unwrap();
    fs::remove_dir_all(&path).unwrap();
    fs::remove_file(&keys).unwrap();

    // A key that escrow lacks: with the file nothing, without it a directory and a bad answer.
    withhold(&host);
    let output = host.command(&[arguments(&path, &more), vec!["--json"]].concat()).output().unwrap();
    fails(&host, &output, 1, "open-keys", "escrow.key-missing");
    assert!(!keys.exists());
    let document = host.json(&arguments(&path, &[]), 1);
    assert_eq!(document["written"], true);
    assert!(document["plan"]["checks"].to_string().contains("NOT shown to be right"), "{document:#}");
    assert!(path.join("member/snap/db").exists());
    let attested = host.json(&["show", source().second.id.as_str()], 0)["attestations"][0].clone();
    assert_eq!((&attested["passed"], &attested["failure"]), (&false.into(), &"escrow.key-missing".into()));
}

#[test]
fn a_place_that_is_too_small_or_not_ours_to_write_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Only root can make a small disk, or has rights to lose.
        return;
    }
    let host = host();
    let folder = host.scene.root.path().join("members");
    let path = folder.join("m1");
    let inner = host.command(&arguments(&path, &["--json"]));
    let mut small = program("unshare");
    small.args(["--mount", "sh", "-c", r#"mount -t tmpfs -o size=8m small "$0" && exec "$@""#]).arg(&folder);
    let output = small.arg(inner.get_program()).args(inner.get_args()).output().unwrap();
    let failure = fails(&host, &output, 2, "write-member", "restore.target");
    assert!(failure["cause"].as_str().unwrap().contains("are needed"), "{failure}");

    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let mut bounded = program("setpriv");
    bounded.args(["--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search"]);
    let output = bounded.arg(inner.get_program()).args(inner.get_args()).output().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("restore.target") && text(&output.stderr).contains("cannot be written"),
        "{}",
        text(&output.stderr)
    );
}
