//! The program itself with stores in buckets: credentials from its environment,
//! and what it writes about them.
#![allow(clippy::disallowed_methods, reason = "tests run the program")]

use std::path::PathBuf;
use std::process::{Command, Output};

use super::Site;
use super::script::{Script, answer};

/// What stands in no output.
const SECRETS: [&str; 3] = ["hunter2hunter2hunter2", "hunter3hunter3hunter3", "tokentokentokentoken"];

/// A host whose three buckets lie at one endpoint.
struct Host {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Host {
    fn at(endpoint: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().display();
        let store = |bucket: &str, prefix: &str| {
            format!(
                "[{bucket}.store.s3]\nendpoint = \"{endpoint}\"\nbucket = \"{bucket}\"\n\
                 [{bucket}.store.s3.credentials]\nenvironment = \"{prefix}\"\n"
            )
        };
        let text = format!(
            "cluster = \"bench\"\n[host]\nname = \"cp-1\"\nstate_dir = \"{state}/state\"\nallowed_signers = \"{state}/allowed\"\n{}{}{}",
            store("snapshots", "HF_SNAPSHOTS"),
            store("escrow", "HF_ESCROW"),
            store("ledger", "HF_LEDGER")
        );
        std::fs::write(folder.path().join("holdfast.toml"), text).unwrap();
        std::fs::write(folder.path().join("allowed"), "").unwrap();
        Self { folder, variables: Vec::new() }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("holdfast.toml")
    }

    async fn list(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.arg("--config").arg(self.config()).args(["list", "--json"]).env("HOLDFAST_LOG", "trace");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let written = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        let written = String::from_utf8_lossy(&written).into_owned();
        for secret in SECRETS {
            let line = written.lines().find(|line| line.contains(secret));
            assert_eq!(line, None);
        }
        output
    }
}

fn failure(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rfind(|line| line.starts_with("{\"error\"")).unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str::<serde_json::Value>(line).unwrap()["error"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_from_the_environment_opens_the_store_and_without_one_the_variable_is_named() {
    let mut site = Site::empty(crate::rig::s3::S3Server::start().await);
    site.server.bucket("ledger", true).await;
    let user = site.user("ledger", "host", crate::rig::s3::Grant::Append).await;
    let mut host = Host::at(&site.server.endpoint());
    let output = host.list().await;
    let told = failure(&output);
    assert_eq!((output.status.code(), told["code"].as_str()), (Some(3), Some("store.credential")), "{told}");
    assert_eq!(told["object"].as_str(), Some("HF_LEDGER_ACCESS_KEY_ID"));

    host.set("HF_LEDGER_ACCESS_KEY_ID", &user.access);
    let told = failure(&host.list().await);
    assert_eq!(told["object"].as_str(), Some("HF_LEDGER_SECRET_ACCESS_KEY"), "{told}");

    host.set("HF_LEDGER_SECRET_ACCESS_KEY", SECRETS[0]);
    let output = host.list().await;
    let told = failure(&output);
    assert_eq!((output.status.code(), told["code"].as_str()), (Some(2), Some("store.denied")), "{told}");
    assert!(told["cause"].as_str().unwrap().contains("SignatureDoesNotMatch"), "{told}");

    host.set("HF_LEDGER_SECRET_ACCESS_KEY", &user.secret);
    let output = host.list().await;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!log.contains(&user.secret) && log.contains("ListObjectsV2"), "the log is on and says no secret");
    assert!(!log.contains("\"error\""), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_and_escrow_with_one_key_in_the_environment_are_refused() {
    let mut host = Host::at("https://s3.example");
    for (store, secret) in [("SNAPSHOTS", SECRETS[0]), ("ESCROW", SECRETS[1])] {
        host.set(&format!("HF_{store}_ACCESS_KEY_ID"), "AKIAONE");
        host.set(&format!("HF_{store}_SECRET_ACCESS_KEY"), secret);
    }
    let output = host.list().await;
    let told = failure(&output);
    assert_eq!((output.status.code(), told["code"].as_str()), (Some(3), Some("config.not-separated")), "{told}");
    let cause = told["cause"].as_str().unwrap();
    assert!(cause.contains("[escrow.store.s3] has the credential of [snapshots.store.s3]"), "{cause}");
    assert!(cause.contains("environment = \"HF_SNAPSHOTS\"") && !cause.contains("AKIAONE"), "{cause}");
}

/// Whatever a server answers, and however much is logged.
#[tokio::test(flavor = "multi_thread")]
async fn no_line_of_any_log_level_holds_a_credential() {
    let script = Script::answering(|_, before| match before {
        0 => answer(503, "", "<Error><Code>SlowDown</Code></Error>"),
        _ => answer(403, "", "<Error><Code>SignatureDoesNotMatch</Code><Message>wrong</Message></Error>"),
    });
    let script = script.await;
    let mut host = Host::at(&script.endpoint());
    host.set("HF_LEDGER_ACCESS_KEY_ID", "AKIAONE");
    host.set("HF_LEDGER_SECRET_ACCESS_KEY", SECRETS[0]);
    host.set("HF_LEDGER_SESSION_TOKEN", SECRETS[2]);
    let output = host.list().await;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("request to the store") && log.contains("attempt=2") && log.contains("aws_smithy"), "the log is on");
    let seen = script.seen();
    assert!(!seen.is_empty() && seen.iter().all(|request| request.header("x-amz-security-token") == Some(SECRETS[2])));
}
