//! Rehearsals on real programs, with keys from escrow alone.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;

use holdfast::base::codes;
use holdfast::base::exit::Exit;
use holdfast::config::FencePolicy;
use holdfast::record::Rung;
use holdfast::rehearsal::{self, RehearsalHost, Rehearsed, Request};
use holdfast::runbook::journal::{Entry, Event, RunResult};
use tokio_util::sync::CancellationToken;

use crate::scene::{Scene, source};

#[tokio::test]
async fn a_snapshot_climbs_to_serve_with_keys_from_escrow_alone() {
    let scene = Scene::new();
    let rehearsed = scene.rehearse(&source().second.id, Rung::Serve).await;
    let report = serde_json::to_string_pretty(&rehearsed.report).unwrap();
    assert_eq!(rehearsed.outcome.result, RunResult::Passed, "{report}");
    assert_eq!((rehearsed.exit(), rehearsed.outcome.reached), (Exit::Good, Some(Rung::Serve)));
    let facts = &rehearsed.report.facts;

    let hash = facts.hash.as_ref().unwrap();
    assert!(hash.equal(), "{hash:?}");
    let read = facts.read.as_ref().unwrap();
    let unread: Vec<_> = read.resources.iter().filter(|resource| !resource.equal()).map(|r| r.resource.as_str()).collect();
    assert_eq!(unread, ["gadgets", "orphans"], "{:#?}", read.resources);
    assert!(read.resources.iter().any(|resource| resource.resource == "widgets" && resource.group == "example.com"));
    let left_out = |what: &str, why: &str| facts.left_out.iter().any(|left| left.what == what && left.why.contains(why));
    for (what, why) in [
        ("gadgets.example.com", "converted by a webhook"),
        ("orphans.gone.example.com", "its definition is gone"),
        ("aggregated group metrics.example.org", "another server"),
        ("keys below /registry/ranges", "no REST endpoint"),
    ] {
        assert!(left_out(what, why), "{what}: {:#?}", facts.left_out);
    }
    let decryption = facts.decryption.as_ref().unwrap();
    assert_eq!(decryption.encrypted, source().secrets as u64 + 1, "every Secret and the widget");
    assert_eq!((decryption.opened, read.encrypted_read), (decryption.encrypted, decryption.encrypted));
    assert!(facts.encryption.as_ref().unwrap().appended.is_empty());
    assert_eq!(facts.keys.as_ref().unwrap().openings.len(), 2);
    assert_eq!(facts.fence.as_ref().unwrap().fenced, rustix::process::geteuid().is_root());
    assert!(rehearsed.report.rto.measured_ms.is_some() && rehearsed.report.rpo.measured_ms.is_some(), "{report}");

    scene.nothing_is_left();
    let catalog = scene.catalog().await;
    let proven = catalog.last_proof(Rung::Serve).unwrap().unwrap();
    assert_eq!(proven.snapshot, source().second.id);
    let attestation = catalog.attestations(&source().second.id).unwrap().remove(0);
    assert!(attestation.passed && attestation.rto_ms > 0 && attestation.escrow_opened.len() == 2, "{attestation:?}");
    assert!(catalog.report(&rehearsed.run).unwrap().is_some());
}

#[tokio::test]
async fn a_withheld_escrow_record_fails_and_names_objects_and_key() {
    let scene = Scene::new();
    let key1 = &source().key1;
    for part in [".age", ".json", ".json.sig"] {
        for file in crate::scene::files(&scene.store(&scene.config.escrow.store)) {
            let path = file.to_str().unwrap();
            if path.contains(key1.as_str()) && path.ends_with(part) {
                std::fs::remove_file(&file).unwrap();
            }
        }
    }
    let rehearsed = scene.rehearse(&source().second.id, Rung::Serve).await;
    let (step, failure) = rehearsed.outcome.failure.clone().unwrap();
    assert_eq!((step.as_str(), rehearsed.exit()), ("open-keys", Exit::Bad));
    assert_eq!(failure.code, codes::ESCROW_KEY_MISSING.name);
    for part in [key1.as_str(), "key1", "/registry/"] {
        assert!(failure.cause.contains(part), "{part}: {}", failure.cause);
    }
    let decryption = rehearsed.report.facts.decryption.as_ref().unwrap();
    assert!(decryption.failures.len() <= 10 && decryption.opened > 0 && decryption.opened < decryption.encrypted);
    assert_eq!(rehearsed.outcome.reached, None);
    scene.nothing_is_left();
    let attestation = scene.catalog().await.attestations(&source().second.id).unwrap().remove(0);
    assert_eq!((attestation.passed, attestation.failure.as_deref()), (false, Some("escrow.key-missing")));
}

#[tokio::test]
async fn without_a_fence_the_same_is_proven_and_the_report_says_that_there_was_none() {
    let mut scene = Scene::new();
    scene.config.rehearsal.fence = FencePolicy::Off;
    let rehearsed = scene.rehearse(&source().first.id, Rung::Serve).await;
    assert_eq!(rehearsed.outcome.reached, Some(Rung::Serve), "{:?}", rehearsed.outcome.failure);
    let fence = rehearsed.report.facts.fence.as_ref().unwrap();
    assert!(!fence.fenced && fence.statement == "not fenced: switched off" && fence.namespaces.is_empty(), "{fence:?}");
    scene.nothing_is_left();
}

#[tokio::test]
async fn an_interrupted_rehearsal_tears_down_and_is_on_record() {
    let scene = Scene::new();
    let subject = scene.subject(&source().first.id).await.unwrap();
    let cancel = CancellationToken::new();
    let stop = |event: &Event| {
        if matches!(&event.entry, Entry::Started { step, .. } if step == "start-apiserver") {
            cancel.cancel();
        }
    };
    let rehearsed = scene
        .with_host(
            async |host, request| {
                let request = Request { cancel: cancel.clone(), runbook: request.runbook, ..*request };
                rehearsal::rehearse(host, &subject, scene.journal(), &request).await.unwrap()
            },
            Rung::Serve,
            &stop,
        )
        .await;
    assert_eq!((rehearsed.exit(), rehearsed.outcome.result), (Exit::Interrupted, RunResult::Interrupted));
    assert_eq!(rehearsed.outcome.reached, Some(Rung::Boot));
    scene.nothing_is_left();
    let attestation = scene.catalog().await.attestations(&source().first.id).unwrap().remove(0);
    assert!(!attestation.passed && attestation.escrow_opened.len() == 1, "{attestation:?}");
    assert_eq!(attestation.failure.as_deref(), Some("interrupted"));
}

/// Not a test: a rehearsal in a process of its own, which tells its steps and
/// is killed by the test below.
#[tokio::test(flavor = "multi_thread")]
async fn role() {
    let Some(root) = std::env::var_os("HOLDFAST_TEST_REHEARSE") else { return };
    let scene = Scene::existing(root.into());
    let subject = scene.subject(&std::env::var("HOLDFAST_TEST_SNAPSHOT").unwrap().parse().unwrap()).await.unwrap();
    let tell = |event: &Event| {
        if let Entry::Started { step, .. } = &event.entry {
            println!("started {step} of {}", event.run);
        }
    };
    let work = async |host: &RehearsalHost<'_>, request: &Request<'_>| {
        rehearsal::rehearse(host, &subject, scene.journal(), request).await.unwrap()
    };
    scene.with_host(work, Rung::Serve, &tell).await;
}

#[allow(clippy::disallowed_methods)] // the holdfast that is killed is a process of the test's own
#[tokio::test]
async fn a_killed_rehearsal_is_gone_on_with_and_leaves_nothing_behind() {
    let scene = Scene::new();
    let id = &source().second.id;
    let mut killed = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rehearse::role", "--nocapture"])
        .env("HOLDFAST_TEST_REHEARSE", scene.root.path())
        .env("HOLDFAST_TEST_SNAPSHOT", id.as_str())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines().map(Result::unwrap);
    let run = lines.find_map(|line| Some(line.split_once("started start-apiserver of ")?.1.to_owned())).unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();

    let journal = scene.journal();
    let unfinished = rehearsal::rehearse::unfinished(journal.as_ref()).unwrap();
    assert_eq!(unfinished.iter().map(|head| head.run.as_str()).collect::<Vec<_>>(), [run.as_str()]);
    assert_eq!(scene.catalog().await.attestations(id).unwrap(), [], "nothing is attested that has no end");

    let subject = scene.subject(id).await.unwrap();
    let run = run.parse().unwrap();
    let work = async |host: &RehearsalHost<'_>, request: &Request<'_>| {
        rehearsal::resume(host, &subject, Arc::clone(&journal), request, &run, None).await.unwrap()
    };
    let resumed = scene.with_host(work, Rung::Serve, &|_| ()).await;
    assert_eq!((&resumed.run, resumed.outcome.reached), (&run, Some(Rung::Serve)), "{:?}", resumed.outcome.failure);
    let below = |rehearsed: &Rehearsed| {
        let root = &scene.config.rehearsal.scratch_dir;
        rehearsed.leftovers.iter().filter(|leftover| leftover.directory.starts_with(root)).count()
    };
    assert_eq!(below(&resumed), 1, "what the killed process left is named: {:?}", resumed.leftovers);
    let step = resumed.report.steps.iter().find(|step| step.id == "start-apiserver").unwrap();
    assert_eq!(step.attempts.len(), 2, "the step that was cut off is done again: {step:?}");
    scene.nothing_is_left();

    let fresh = scene.rehearse(id, Rung::Serve).await;
    assert_eq!((fresh.exit(), below(&fresh)), (Exit::Good, 0));
    assert_eq!(scene.catalog().await.attestations(id).unwrap().len(), 2);
    scene.nothing_is_left();
}
