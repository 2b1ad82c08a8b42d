//! Configurations with mistakes: what an operator reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::config::{self, Checksums, Config, FencePolicy, StoreConfig};

const ONE: &str = "age17xarfy80gcht4hjexgvmkueukv2v6gqfy7dh9rd6p9fhqg849vlqjhgyy9";
const TWO: &str = "age1yrrh5hf93ax32zlgv7kptxwcl9ax7ql8slj0ugyvfwv9gda52uyqr0tgvw";

/// The least that a host which takes snapshots needs.
fn good() -> String {
    format!(
        r#"cluster = "prod-eu1"
[host]
name = "cp-1"
[etcd]
endpoints = ["http://127.0.0.1:2379"]
[snapshots]
recipients = ["{ONE}"]
store.fs.path = "/srv/a"
[escrow]
recipients = ["{TWO}"]
store.fs.path = "/srv/b"
[ledger]
store.fs.path = "/srv/c"
"#
    )
}

fn parse(text: &str) -> Result<Config, Failure> {
    config::parse("holdfast.toml", text)
}

/// The code and the list of a configuration that is refused.
fn refused(text: &str) -> (&'static str, String) {
    let failure = parse(text).unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage);
    (failure.code().name, failure.cause().to_owned())
}

/// One line of the good configuration, changed.
fn changed(from: &str, to: &str) -> String {
    let text = good();
    assert_eq!(text.matches(from).count(), 1, "{from}");
    text.replace(from, to)
}

#[test]
fn limits_of_a_rehearsal_are_bytes_and_thousandths_of_a_cpu() {
    for (written, memory, cpus) in [("\"8GiB\"", 8 << 30, ("2", 2_000)), ("67108864", 64 << 20, ("0.25", 250))] {
        let text = good() + &format!("[rehearsal]\nmemory_limit = {written}\ncpu_limit = {}\n", cpus.0);
        let rehearsal = parse(&text).unwrap().rehearsal;
        assert_eq!((rehearsal.memory_limit, rehearsal.cpu_limit), (Some(memory), Some(cpus.1)));
    }
}

#[test]
fn the_least_configuration_is_good() {
    let config = parse(&good()).unwrap();
    assert_eq!(config.snapshots.store, StoreConfig::Fs { path: "/srv/a".into() });
    assert_eq!((config.backup.image_limit, config.backup.compression_level), (2 << 30, 3));
    assert_eq!(config.backup.escrow_deadline, Duration::from_secs(60));
    assert_eq!(config.rehearsal.fence, FencePolicy::Auto);
    assert_eq!((config.rehearsal.memory_limit, config.rehearsal.cpu_limit), (None, None));
    assert_eq!(config.notes().iter().filter(|note| note.text.contains("no credential separation")).count(), 3);
}

#[test]
fn a_host_without_etcd_needs_no_recipients() {
    let text = format!("{}\n", good().replace("[etcd]\nendpoints = [\"http://127.0.0.1:2379\"]\n", ""));
    let text = text.replace(&format!("recipients = [\"{ONE}\"]\n"), "").replace(&format!("recipients = [\"{TWO}\"]\n"), "");
    let config = parse(&text).unwrap();
    assert!(config.etcd.is_none() && config.snapshots.recipients.is_empty());
    let with_etcd = format!("{text}[etcd]\nendpoints = [\"http://127.0.0.1:2379\"]\n");
    let (_, list) = refused(&with_etcd);
    assert!(list.contains("snapshots.recipients is missing") && list.contains("escrow.recipients is missing"), "{list}");
}

#[test]
fn all_mistakes_are_shown_at_once_with_line_and_caret() {
    let text = good()
        .replace("prod-eu1", "kubernetes")
        .replace("name = \"cp-1\"", "nmae = \"cp-1\"")
        .replace("http://127.0.0.1:2379", "http://10.0.0.1:2379")
        .replace("[escrow]\n", "[escrow]\nprefix = 7\n")
        .replace("/srv/c", "srv/c")
        + "[rehersal]\nfence = true\n[backup]\nescrow_deadline = \"soon\"\nimage_limit = \"1KiB\"\n";
    let (code, list) = refused(&text);
    assert_eq!(code, "config.invalid");
    let expected = r#"9 mistakes
holdfast.toml:1:11: cluster must not be kubeadm's default name, which every cluster has; choose one that no other cluster has
  1 | cluster = "kubernetes"
    |           ^^^^^^^^^^^^
holdfast.toml:2:2: host.name is missing
  2 | [host]
    |  ^^^^
holdfast.toml:3:1: unknown key in [host]; did you mean name?
  3 | nmae = …
    | ^^^^
holdfast.toml:5:14: etcd.endpoints must be https: whoever can read or alter this stream has the whole cluster (http is for loopback)
  5 | endpoints = ["http://10.0.0.1:2379"]
    |              ^^^^^^^^^^^^^^^^^^^^^^
holdfast.toml:10:10: escrow.prefix must be text in quotes
  10 | prefix = 7
     |          ^
holdfast.toml:14:17: ledger.store.fs.path must be an absolute path
  14 | store.fs.path = "srv/c"
     |                 ^^^^^^^
holdfast.toml:15:2: unknown key; did you mean rehearsal?
  15 | [rehersal]
     |  ^^^^^^^^
holdfast.toml:18:19: backup.escrow_deadline must be a duration in quotes, such as "30s", "5m" or "1h 30m"
  18 | escrow_deadline = "soon"
     |                   ^^^^^^
holdfast.toml:19:15: backup.image_limit must lie between 1.0 MiB and 1.0 TiB
  19 | image_limit = "1KiB"
     |               ^^^^^^"#;
    assert_eq!(list, expected);
}

#[test]
fn broken_syntax_is_shown_with_the_mistakes_that_do_not_follow_from_it() {
    let text = changed("name = \"cp-1\"", "name = \"cp-1").replace("/srv/c", "srv/c") + "[backup]\nimage_limit = 2GiB\n";
    let (code, list) = refused(&text);
    assert_eq!(code, "config.invalid");
    assert!(list.contains("holdfast.toml:3:") && list.contains("holdfast.toml:15:"), "{list}");
    assert!(list.contains("ledger.store.fs.path must be an absolute path"), "{list}");
    assert!(!list.contains("missing"), "{list}");
}

#[test]
fn each_mistake_has_its_message() {
    for (from, to, message) in [
        ("cluster = \"prod-eu1\"", "", "holdfast.toml: cluster is missing"),
        ("cluster = \"prod-eu1\"", "cluster = \"Prod\"", "cluster is wrong: a cluster name must be"),
        ("[host]", "host = \"x\"\n[hots]", "host must be a table"),
        ("endpoints = [\"http://127.0.0.1:2379\"]", "endpoints = []", "etcd.endpoints must have at least one item"),
        ("endpoints = [\"http://127.0.0.1:2379\"]", "endpoints = \"http://127.0.0.1:2379\"", "etcd.endpoints must be a list"),
        ("http://127.0.0.1", "https://127.0.0.1", "etcd.ca is missing: an https endpoint needs"),
        ("[etcd]", "[etcd]\ncert = \"/x\"", "etcd.key is missing: it belongs to etcd.cert"),
        ("[etcd]", "[etcd]\nkey = \"/x\"", "etcd.cert is missing: it belongs to etcd.key"),
        ("[etcd]", "[etcd]\nstall_timeout = 30", "etcd.stall_timeout must be a duration"),
        ("[etcd]", "[etcd]\nstall_timeout = \"0s\"", "etcd.stall_timeout must lie between 1.0 s and 1 d 0 h"),
        ("[etcd]", "[backup]\ncompression_level = 22\n[etcd]", "backup.compression_level must be a number from 1 to 19"),
        ("[etcd]", "[rehearsal]\nmemory_limit = \"1MiB\"\n[etcd]", "rehearsal.memory_limit must lie between 64.0 MiB and"),
        ("[etcd]", "[rehearsal]\nmemory_limit = \"much\"\n[etcd]", "rehearsal.memory_limit must be a size"),
        ("[etcd]", "[rehearsal]\ncpu_limit = 0\n[etcd]", "rehearsal.cpu_limit must be a number of CPUs from 0.1 to 1024"),
        ("[etcd]", "[rehearsal]\ncpu_limit = nan\n[etcd]", "rehearsal.cpu_limit must be a number of CPUs"),
        ("[etcd]", "[rehearsal]\ncpu_limit = \"2\"\n[etcd]", "rehearsal.cpu_limit must be a number of CPUs"),
        ("[etcd]", "[rehearsal]\nfence = \"maybe\"\n[etcd]", "rehearsal.fence must be \"auto\", true or false"),
        ("store.fs.path = \"/srv/a\"", "", "snapshots.store is missing"),
        ("store.fs.path = \"/srv/a\"", "store.swift = {}", "snapshots.store must say what kind of store it is: fs or s3"),
        ("store.fs.path = \"/srv/a\"", "store.swift = {}", "unknown key in [snapshots.store]; known here: fs, s3"),
        ("store.fs.path = \"/srv/a\"", "store.fs = {}", "snapshots.store.fs.path is missing"),
        (
            "store.fs.path = \"/srv/a\"",
            "store.fs.path = \"/srv/a\"\nstore.s3.bucket = \"b\"",
            "snapshots.store must be one kind of store",
        ),
        (ONE, "age1notarecipient", "snapshots.recipients must be a native age recipient"),
    ] {
        let (code, list) = refused(&changed(from, to));
        assert_eq!(code, "config.invalid", "{list}");
        assert!(list.contains(message), "{to}: {list}");
    }
}

#[test]
fn what_could_be_a_secret_is_not_repeated() {
    let identity = "AGE-SECRET-KEY-1HUNTER2";
    for (from, to) in [
        ("[etcd]", "[etcd]\npassword = \"hunter2\"".to_owned()),
        ("[etcd]", "[etcd]\npassword = \"hunter2".to_owned()),
        ("[etcd]", "[vault]\ntoken = 'hunter2'\nca = \"hunter2\"\n[etcd]".to_owned()),
        ("127.0.0.1", "root:hunter2@127.0.0.1".to_owned()),
        (ONE, identity.to_owned()),
        ("[host]", format!("[host]\nsigning_key = \"{identity}\"")),
        ("[host]", "[host]\nsigning_key = \"hunter2\"".to_owned()),
        ("[host]", "[host]\nsigning_key = \"\"\"\n-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n\"\"\"".to_owned()),
        ("[host]", "hunter2\n[host]".to_owned()),
        ("store.fs.path = \"/srv/a\"", "[snapshots.store.s3.credentials]\nfile = \"hunter2\"".to_owned()),
        ("store.fs.path = \"/srv/a\"", "[snapshots.store.s3.credentials]\nenvironment = \"hunter2/+hunter2\"".to_owned()),
        ("store.fs.path = \"/srv/a\"", format!("[snapshots.store.s3.credentials]\nsystemd = \"{}\"", "hunter2".repeat(6))),
        ("store.fs.path = \"/srv/a\"", "[snapshots.store.s3]\nsecret_access_key = \"hunter2\"".to_owned()),
        ("store.fs.path = \"/srv/a\"", "store = { s3 = { bucket = \"b\", secret_key = \"hunter2\" } }".to_owned()),
    ] {
        let failure = parse(&changed(from, &to)).unwrap_err();
        let text = format!("{failure:?}{failure}").to_lowercase();
        assert!(!text.contains("hunter2"), "{to}: {text}");
        assert!(text.contains("holdfast.toml:"), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_a_mistake_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("holdfast.toml");
    let code = |path: &Path| config::load(path).unwrap_err().code().name;
    assert_eq!(code(&path), "config.unreadable");
    assert_eq!(code(dir.path()), "config.unreadable");
    fs::write(&path, b"cluster = \"\xff\"").unwrap();
    assert_eq!(code(&path), "config.unreadable");
    fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
    assert_eq!(code(&path), "config.unreadable");
    fs::write(&path, "").unwrap();
    assert_eq!(code(&path), "config.invalid");
    fs::write(&path, good()).unwrap();
    assert!(config::load(&path).is_ok());
}

#[test]
fn no_input_makes_the_parser_panic() {
    let text = good();
    for cut in (0..text.len()).step_by(5) {
        let _ = parse(&text[..cut]);
        let _ = parse(&format!("{}\u{0}ü\"{}", &text[..cut], &text[cut..]));
    }
    let deep = format!("a = {}", "[".repeat(50_000));
    assert!(parse(&deep).is_err());
    assert!(parse(&"x=1\n".repeat(10_000)).unwrap_err().cause().len() < 100_000);
}

/// Keys stored beside the snapshot: whoever gets the folder has all.
#[test]
fn c_020_keys_and_snapshots_share_no_place() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("a/inner")).unwrap();
    fs::create_dir(root.join("b")).unwrap();
    fs::create_dir(root.join("ab")).unwrap();
    symlink(root.join("a"), root.join("link")).unwrap();
    let at = |snapshots: &str, escrow: &str, ledger: &str| {
        let path = |name: &str| format!("\"{}/{name}\"", root.display());
        good().replace("\"/srv/a\"", &path(snapshots)).replace("\"/srv/b\"", &path(escrow)).replace("\"/srv/c\"", &path(ledger))
    };
    for (snapshots, escrow, ledger) in [
        ("a", "a", "b"),
        ("a", "a/", "b"),
        ("a", "./b/../a", "ab"),
        ("a", "a/inner", "b"),
        ("a/inner", "a", "b"),
        ("link", "a", "b"),
        ("link/inner", "a", "b"),
        ("a/not/yet", "link/not", "b"),
        ("a", "b", "a"),
        ("a", "b", "b/ledger"),
        ("later", "b", "later/ledger"),
    ] {
        let (code, list) = refused(&at(snapshots, escrow, ledger));
        assert_eq!(code, "config.not-separated", "{list}");
        assert_eq!(list.matches("store.fs.path = ").count(), 2, "both places are named: {list}");
    }
    for (snapshots, escrow, ledger) in [("a", "b", "ab"), ("a/inner", "a/inner2", "b"), ("later", "later2", "b")] {
        assert!(parse(&at(snapshots, escrow, ledger)).is_ok(), "{snapshots} {escrow} {ledger}");
    }
}

#[test]
fn c_020_keys_and_snapshots_share_no_recipient_and_no_identity() {
    let (code, list) = refused(&changed(TWO, ONE));
    assert_eq!(code, "config.not-separated");
    let expected = format!(
        "1 mistake
holdfast.toml:10:15: escrow.recipients shares a recipient with snapshots.recipients
  10 | recipients = [\"{ONE}\"]
     |               {carets}
holdfast.toml:7:15: [snapshots] says so here
  7 | recipients = [\"{ONE}\"]
    |               {carets}",
        carets = "^".repeat(64)
    );
    assert_eq!(list, expected);

    let with_identities = |one: &str, two: &str| {
        changed("[snapshots]", &format!("[snapshots]\nidentity_file = \"{one}\""))
            .replace("[escrow]", &format!("[escrow]\nidentity_file = \"{two}\""))
    };
    assert_eq!(refused(&with_identities("/etc/id", "/etc/../etc/id")).0, "config.not-separated");
    assert!(parse(&with_identities("/etc/id1", "/etc/id2")).is_ok());
}

/// The good configuration with three buckets, each with a credential of its own.
fn buckets() -> String {
    let s3 = |name: &str| {
        format!("store.s3 = {{ endpoint = \"https://s3.example\", bucket = \"{name}\", credentials.file = \"/etc/{name}\" }}\n")
    };
    good()
        .replace("store.fs.path = \"/srv/a\"\n", &s3("snap"))
        .replace("store.fs.path = \"/srv/b\"\n", &s3("escrow"))
        .replace("store.fs.path = \"/srv/c\"\n", &s3("ledger"))
}

#[test]
fn the_least_of_a_bucket_is_good() {
    let config = parse(&buckets()).unwrap();
    let StoreConfig::S3(s3) = &config.snapshots.store else { panic!("{config:?}") };
    assert_eq!((s3.endpoint.as_deref(), s3.bucket.as_str(), s3.path_style), (Some("https://s3.example"), "snap", true));
    assert_eq!((s3.region.as_str(), s3.checksums, s3.part_size), ("us-east-1", Checksums::WhenRequired, 8 << 20));
    let aws = buckets().replace("endpoint = \"https://s3.example\"", "region = \"eu-central-1\"");
    let config = parse(&aws).unwrap();
    let StoreConfig::S3(s3) = &config.escrow.store else { panic!("{config:?}") };
    assert_eq!((s3.endpoint.as_deref(), s3.path_style, s3.checksums), (None, false, Checksums::WhenSupported));
    assert_eq!(config.notes().iter().filter(|note| note.text.contains("no credential separation")).count(), 0);
}

#[test]
fn each_mistake_of_a_bucket_has_its_message() {
    const FILE: &str = "credentials.file = \"/etc/snap\"";
    for (from, to, message) in [
        ("\"snap\"", "\"Snap\"", "snapshots.store.s3.bucket must be a bucket's name"),
        ("bucket = \"snap\", ", "", "snapshots.store.s3.bucket is missing"),
        ("bucket = \"snap\"", "bucket = \"snap\", buckett = 1", "unknown key in [snapshots.store.s3]; did you mean bucket?"),
        (FILE, "credentials.file = \"snap\"", "snapshots.store.s3.credentials.file must be an absolute path"),
        (FILE, "credentials = {}", "one of file, environment and systemd says where the credential is"),
        (FILE, "region = \"x\"", "snapshots.store.s3.credentials is missing"),
        (FILE, "credentials = { file = \"/x\", systemd = \"x\" }", "must have one of file, environment and systemd"),
        (FILE, "credentials = { environment = \"X\", profile = \"y\" }", "must not have a profile"),
        (FILE, "credentials.environment = \"hold-fast\"", "credentials.environment must be what the variables' names begin with"),
        (FILE, "credentials.systemd = \"../x\"", "credentials.systemd must be the name that LoadCredential= gives it"),
        (FILE, "credentials.password = \"hunter2\"", "unknown key in [snapshots.store.s3.credentials]"),
        ("bucket = \"snap\"", "bucket = \"snap\", path_style = \"yes\"", "path_style must be true or false"),
        ("bucket = \"snap\"", "bucket = \"snap\", checksums = \"all\"", "checksums must be \"when-required\" or"),
        ("bucket = \"snap\"", "bucket = \"snap\", part_size = \"1MiB\"", "part_size must lie between 5.0 MiB and 256 MiB"),
    ] {
        let text = buckets();
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let (code, list) = refused(&text.replace(from, to));
        assert_eq!(code, "config.invalid", "{list}");
        assert!(list.contains(message), "{to}: {list}");
        assert!(!list.contains("hunter2"), "{list}");
    }
    let (_, list) = refused(&buckets().replace("endpoint = \"https://s3.example\", ", ""));
    assert!(list.contains("snapshots.store.s3.region is missing: without an endpoint the bucket lies at AWS"), "{list}");
    let (_, list) = refused(&buckets().replace("https://", "http://"));
    assert!(list.contains("ledger.store.s3.endpoint must be https") && list.contains("(http is for loopback)"), "{list}");
}

#[test]
fn c_020_no_two_stores_share_a_bucket() {
    for (from, to) in [("\"escrow\"", "\"snap\""), ("\"ledger\"", "\"snap\""), ("\"ledger\"", "\"escrow\"")] {
        let text = buckets().replace(&format!("bucket = {from}"), &format!("bucket = {to}"));
        // What lies under another prefix of a bucket lies in the same bucket.
        let (code, list) = refused(&text.replace("[escrow]", "[escrow]\nprefix = \"elsewhere\""));
        assert_eq!(code, "config.not-separated", "{list}");
        assert_eq!(list.matches("holdfast.toml:").count(), 2, "both places are named: {list}");
    }
    let other_server = buckets().replace("bucket = \"escrow\"", "bucket = \"snap\"").replacen("s3.example", "s4.example", 1);
    assert!(parse(&other_server).is_ok());
}

#[test]
fn c_020_snapshots_and_escrow_share_no_credential_that_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, id: &str| {
        let path = dir.path().join(name);
        fs::write(&path, format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = hunter2\n")).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    let text = ["snap", "escrow", "ledger"]
        .into_iter()
        .fold(buckets(), |text, name| text.replace(&format!("\"/etc/{name}\""), &format!("\"{}/{name}\"", dir.path().display())));
    // None of the files is there: that troubles the commands that use the stores.
    assert!(parse(&text).is_ok());
    write("snap", "AKIAONE");
    assert!(parse(&text).is_ok());
    write("escrow", "AKIAONE");
    let (code, list) = refused(&text);
    assert_eq!(code, "config.not-separated", "{list}");
    assert!(list.contains("[escrow.store.s3] has the credential of [snapshots.store.s3]"), "{list}");
    assert!(!list.contains("AKIAONE") && !list.contains("hunter2"), "{list}");
    write("escrow", "AKIATWO");
    write("ledger", "AKIAONE");
    assert!(parse(&text).is_ok(), "the ledger holds no secret");
    // The same file is the same credential, whether it can be read or not.
    let (code, _) = refused(&buckets().replace("\"/etc/escrow\"", "\"/etc/snap\""));
    assert_eq!(code, "config.not-separated");
}

#[test]
fn c_020_no_secret_file_lies_in_a_store() {
    for (from, to) in [
        ("[host]", "[host]\nsigning_key = \"/srv/c/key\""),
        ("[etcd]", "[backup]\nencryption_config = \"/srv/a/encryption.yaml\"\n[etcd]"),
        ("[snapshots]", "[snapshots]\nidentity_file = \"/srv/b/../a/identity\""),
        ("[etcd]", "[etcd]\ncert = \"/x\"\nkey = \"/srv/a/pki/client.key\""),
        (
            "store.fs.path = \"/srv/b\"",
            "[escrow.store.s3]\nbucket = \"escrow\"\nregion = \"eu1\"\ncredentials.file = \"/srv/a/credential\"",
        ),
    ] {
        let (code, list) = refused(&changed(from, to));
        assert_eq!(code, "config.not-separated", "{list}");
        assert!(list.contains("whoever gets the store gets the secret"), "{list}");
    }
    assert!(parse(&changed("[host]", "[host]\nsigning_key = \"/srv/key\"")).is_ok());
}

#[test]
fn a_mistake_elsewhere_is_shown_together_with_what_is_not_apart() {
    let (code, list) = refused(&changed(TWO, ONE).replace("cp-1", "cp 1"));
    assert_eq!(code, "config.invalid");
    assert!(list.starts_with("2 mistakes") && list.contains("shares a recipient"), "{list}");
}

#[test]
fn a_host_schedules_what_it_can_do_and_every_mistake_of_it_has_its_place() {
    let text = good().replace("[etcd]\nendpoints = [\"http://127.0.0.1:2379\"]\n", "")
        + "[schedule]\nsnapshot = \"0 * * * *\"\nrehearsal = \"30 3 * * MON-\"\nrehearsal_rung = \"cluster\"\n\
           [daemon]\nlisten = \"localhost:9127\"\nretry_first = \"10m\"\nretry_longest = \"5m\"\n";
    let (code, list) = refused(&text);
    assert_eq!(code, "config.invalid");
    let expected = r#"5 mistakes
holdfast.toml:13:12: schedule.snapshot needs [etcd]: that is where a snapshot is taken from
  13 | snapshot = "0 * * * *"
     |            ^^^^^^^^^^^
holdfast.toml:14:13: schedule.rehearsal is no cron line: day of week must be 0 to 7 or SUN to SAT, not ""
  14 | rehearsal = "30 3 * * MON-"
     |             ^^^^^^^^^^^^^^^
holdfast.toml:15:18: schedule.rehearsal_rung must be "open", "boot" or "serve"
  15 | rehearsal_rung = "cluster"
     |                  ^^^^^^^^^
holdfast.toml:17:10: daemon.listen must be an IP address and a port in quotes, such as "127.0.0.1:9127" or "[::1]:9127"
  17 | listen = "localhost:9127"
     |          ^^^^^^^^^^^^^^^^
holdfast.toml:19:17: daemon.retry_longest must not be shorter than daemon.retry_first
  19 | retry_longest = "5m"
     |                 ^^^^"#;
    assert_eq!(list, expected);
}

#[test]
fn a_rehearsal_is_scheduled_only_with_both_identities() {
    let with = |identities: [&str; 2]| {
        good()
            .replace("store.fs.path = \"/srv/a\"", &format!("{}store.fs.path = \"/srv/a\"", identities[0]))
            .replace("store.fs.path = \"/srv/b\"", &format!("{}store.fs.path = \"/srv/b\"", identities[1]))
            + "[schedule]\nrehearsal = \"@daily\"\n"
    };
    let (one, other) = ("identity_file = \"/etc/a\"\n", "identity_file = \"/etc/b\"\n");
    assert_eq!(parse(&with([one, other])).unwrap().schedule.rehearsal.unwrap().to_string(), "@daily");
    for identities in [["", other], [one, ""], ["", ""]] {
        let (_, list) = refused(&with(identities));
        assert!(list.contains("schedule.rehearsal needs snapshots.identity_file and escrow.identity_file"), "{list}");
    }
}

#[test]
fn deadlines_of_the_daemon_leave_room_for_what_they_bound() {
    let with =
        |etcd: &str, daemon: &str| changed("[snapshots]\n", &format!("{etcd}[snapshots]\n")) + &format!("[daemon]\n{daemon}");
    let (_, list) = refused(&with("total_timeout = \"2h\"\n", "snapshot_deadline = \"2h\"\n"));
    assert!(list.contains("daemon.snapshot_deadline must be longer than etcd.total_timeout"), "{list}");
    // What was not written follows what was.
    let config = parse(&with("total_timeout = \"2h\"\n", "retry_first = \"1h\"\n")).unwrap();
    assert_eq!(config.daemon.snapshot_deadline, Duration::from_secs(4 * 3600));
    assert_eq!(config.daemon.retry_longest, Duration::from_secs(3600));
}

#[test]
fn pages_that_others_can_reach_are_noted() {
    let notes = |listen: &str| {
        let config = parse(&(good() + &format!("[daemon]\nlisten = {listen:?}\n"))).unwrap();
        config.notes().into_iter().filter(|note| note.about == "daemon.listen").count()
    };
    assert_eq!(["127.0.0.1:9127", "[::1]:0", "0.0.0.0:9127", "10.0.0.1:9127", "[::]:9127"].map(notes), [0, 0, 1, 1, 1]);
}
