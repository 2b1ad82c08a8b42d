//! Our reader beside etcd's own tools, on snapshots of a member that just ran.

// These tests start etcd and its tools themselves: they compare, they rehearse nothing.
#![allow(clippy::disallowed_methods)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use holdfast::base::exit::Exit;
use holdfast::sandbox::tools::{Places, Program, Versions, find};
use holdfast::scan::Mapped;
use holdfast::scan::inspection::{EtcdFacts, Inspection, Trailer, Verdict};
use serde_json::Value;

/// A single etcd member on loopback, killed when it goes out of scope.
struct Member {
    process: Child,
    endpoint: String,
    etcdctl: PathBuf,
    etcdutl: PathBuf,
    directory: tempfile::TempDir,
}

impl Member {
    /// Starts a member; a port that was taken meanwhile is tried again elsewhere.
    async fn start() -> Self {
        let [etcd, etcdctl, etcdutl] = [tool("etcd").await, tool("etcdctl").await, tool("etcdutl").await];
        for _ in 0..3 {
            let directory = tempfile::tempdir().unwrap();
            let (client, peer) = (free_url(), free_url());
            let log = std::fs::File::create(directory.path().join("etcd.log")).unwrap();
            let process = Command::new(&etcd)
                .args(["--name", "m1", "--unsafe-no-fsync", "--data-dir"])
                .arg(directory.path().join("data"))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("m1={peer}")])
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            let (etcdctl, etcdutl) = (etcdctl.clone(), etcdutl.clone());
            let mut member = Self { process, endpoint: client, etcdctl, etcdutl, directory };
            if member.answers() {
                return member;
            }
        }
        panic!("etcd did not start on three pairs of ports");
    }

    /// Asks until the member answers or has ended; each question waits up to ten seconds by itself.
    fn answers(&mut self) -> bool {
        for _ in 0..12 {
            let is_healthy = self.ask(&["endpoint", "health"]).is_ok();
            if is_healthy || self.process.try_wait().unwrap().is_some() {
                return is_healthy;
            }
        }
        false
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.etcdctl);
        command.args(["--endpoints", &self.endpoint, "--command-timeout=10s"]).args(arguments);
        output(&mut command)
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        self.ask(arguments).unwrap()
    }

    fn put(&self, key: &str, value: &str) {
        self.ctl(&["put", key, value]);
    }

    fn revision(&self) -> i64 {
        let status = json(&self.ctl(&["endpoint", "status", "-w", "json"]));
        status[0]["Status"]["header"]["revision"].as_i64().unwrap()
    }

    fn save(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        self.ctl(&["snapshot", "save", path.to_str().unwrap()]);
        path
    }

    fn status(&self, file: &Path) -> Value {
        json(&output(Command::new(&self.etcdutl).args(["snapshot", "status", "-w", "json"]).arg(file)).unwrap())
    }

    /// Hash, revision and compact revision as the running member answers.
    fn hash_kv(&self) -> (u32, i64, i64) {
        let answer = json(&self.ctl(&["endpoint", "hashkv", "-w", "json"]));
        let hash = &answer[0]["HashKV"];
        let number = |name: &str| hash[name].as_i64().unwrap_or_else(|| panic!("{name} in {answer}"));
        (u32::try_from(number("hash")).unwrap(), number("hash_revision"), number("compact_revision"))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn tool(name: &'static str) -> PathBuf {
    let version_arguments = if name == "etcd" { &["--version"][..] } else { &["version"] };
    let places = Places::usual(None, |name| std::env::var_os(name));
    find(Program { name, version_arguments }, &Versions::of(&[(3, 6)]), &places).await.unwrap().path
}

fn free_url() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(format!("{command:?}: {}", text(&output.stderr))) }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn inspect(path: &Path) -> Inspection {
    Mapped::open(path).unwrap().inspect(&[])
}

/// Every number that `etcdutl snapshot status` prints.
fn assert_agrees(etcd: &EtcdFacts, status: &Value) {
    assert_eq!(etcd.status_hash, status["hash"], "{status}");
    assert_eq!(etcd.revision, status["revision"], "{status}");
    assert_eq!(etcd.live_keys, status["totalKey"], "{status}");
    assert_eq!(etcd.db_bytes, status["totalSize"], "{status}");
    assert_eq!(etcd.storage_version.as_deref().unwrap_or_default(), status["version"], "{status}");
}

/// Objects, overwritten, deleted and made anew, one of many pages, one on a lease.
fn write_objects(member: &Member) {
    let object = |name: &str, data: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"shop"}},"data":{{"x":"{data}"}}}}"#
        )
    };
    for n in 0..60 {
        member.put(&format!("/registry/configmaps/shop/c{n}"), &object(&format!("c{n}"), &"x".repeat(n * 40)));
    }
    member.put("/registry/configmaps/shop/c7", &object("c7", "again"));
    member.put("/registry/configmaps/shop/long", &object("long", &"y".repeat(100_000)));
    member.put("compact_rev_key", "7");
    let lease = member.ctl(&["lease", "grant", "3600"]);
    let lease = lease.split_whitespace().nth(1).unwrap();
    member.ctl(&["put", "--lease", lease, "/registry/configmaps/shop/leased", &object("leased", "")]);
    member.ctl(&["del", "/registry/configmaps/shop/c8"]);
    member.ctl(&["del", "/registry/configmaps/shop/c9"]);
    member.put("/registry/configmaps/shop/c9", &object("c9", "reborn"));
}

#[tokio::test]
async fn inspect_agrees_with_etcdutl_and_with_the_running_member() {
    let member = Member::start().await;
    write_objects(&member);

    let before = member.save("before.snap");
    let inspection = inspect(&before);
    let etcd = inspection.etcd.as_ref().unwrap();
    assert_agrees(etcd, &member.status(&before));
    assert_eq!((etcd.hash_kv, etcd.revision, etcd.compact_revision), member.hash_kv());
    assert_eq!((inspection.file.trailer, inspection.verdict, inspection.exit()), (Trailer::Ok, Verdict::Restorable, Exit::Good));
    assert_eq!(inspection.prefix.as_deref(), Some("/registry"));
    assert_eq!((inspection.resources[0].live, inspection.other[0].prefix.as_str()), (61, "compact_rev_key"));
    assert_eq!((etcd.members.len(), etcd.members[0].name.as_str()), (1, "m1"));

    // The last thing that is compacted is a deletion: servers differ in whether they keep its row.
    member.ctl(&["del", "/registry/configmaps/shop/c10"]);
    let compacted = member.revision();
    member.ctl(&["compaction", "--physical", &compacted.to_string()]);
    member.put("/registry/configmaps/shop/c11", "neither encrypted nor an object");
    let after = member.save("after.snap");
    let inspection = inspect(&after);
    let etcd = inspection.etcd.as_ref().unwrap();
    assert_agrees(etcd, &member.status(&after));
    assert_eq!(etcd.compact_revision, compacted);
    assert_eq!((etcd.hash_kv, etcd.revision, etcd.compact_revision), member.hash_kv());
    assert_eq!((inspection.verdict, inspection.exit()), (Verdict::Unrestorable, Exit::Bad));
    assert_eq!(inspection.problems[0].code, "unknown-body");
}

#[tokio::test]
async fn a_restored_and_bumped_database_is_read_as_etcdutl_reads_it() {
    let member = Member::start().await;
    write_objects(&member);
    let snapshot = member.save("source.snap");
    let data = member.directory.path().join("restored");
    let mut restore = Command::new(&member.etcdutl);
    restore.args(["snapshot", "restore", "--bump-revision", "1000", "--mark-compacted", "--data-dir"]).arg(&data);
    output(restore.arg(&snapshot)).unwrap();

    let database = data.join("member/snap/db");
    let inspection = inspect(&database);
    let etcd = inspection.etcd.as_ref().unwrap();
    assert_agrees(etcd, &member.status(&database));
    assert_eq!((etcd.revision, etcd.compact_revision), (member.revision() + 1000, member.revision() + 1000));
    assert_eq!(inspection.resources[0].live, 61);
    assert_eq!(inspection.problems[0].code, "trailer-missing", "a database in its directory has no digest");
}

#[tokio::test]
async fn etcdutl_and_inspect_both_refuse_a_snapshot_whose_pages_are_damaged() {
    let member = Member::start().await;
    write_objects(&member);
    let path = member.save("damaged.snap");
    let mut bytes = std::fs::read(&path).unwrap();
    // The page that both metas name as the root, 16 bytes of header and 16 of the struct into the file.
    let root = usize::try_from(u64::from_le_bytes(bytes[32..40].try_into().unwrap())).unwrap();
    bytes[root * 4096] ^= 0x55;
    std::fs::write(&path, &bytes).unwrap();
    let refused = output(Command::new(&member.etcdutl).args(["snapshot", "status"]).arg(&path));
    let inspection = inspect(&path);
    assert_eq!(inspection.file.trailer, Trailer::Mismatch);
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!((inspection.etcd.is_none(), inspection.exit()), (true, Exit::Bad));
}
