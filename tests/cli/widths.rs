//! Eighty columns, whatever the names: every page is printed with the longest
//! and widest that can be in it, and measured as a terminal would show it.

use std::path::Path;

use holdfast::base::digest::Sha256;
use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::catalog::Catalog;
use holdfast::cli;
use holdfast::cli::layout::width;
use holdfast::ledger::{Document, Entry, Finding, History};
use holdfast::record::manifest::{KeyNeed, Manifest, Problem, Proof, ResourceCount, Severity};
use holdfast::record::{Rung, canonical};
use holdfast::rehearsal::Rehearsed;
use holdfast::report::json;
use holdfast::report::manual::{ManualResult, ManualStep, Unforeseen};
use holdfast::report::model::Report;
use holdfast::runbook::engine::Outcome;
use holdfast::runbook::facts::{Deviation, FenceFacts, UnreadableObject};
use holdfast::runbook::journal::{Carried, Entry as Step, Event, FailureText, RunResult};

use holdfast::runbook::model::{HandsKind, Work};

use crate::etcd_image::EtcdImage;
use crate::sample;
use crate::site::Site;
use crate::sources;

/// As long as a cluster's name may be.
const CLUSTER: &str = "c12345678901234567890123456789012345678901234567890123456789012";
const KMS: &str = "kms:a-plugin-with-a-long-name:projects/p/locations/europe-west3/keyRings/r/cryptoKeys/k/cryptoKeyVersions/17";

/// As long as a signer's name may be.
fn principal(first: &str) -> String {
    format!("{first}{}.example.org", "-host".repeat(40)).chars().take(253).collect()
}

/// Words that are as wide as a line, without a place to wrap them.
fn wide(columns: usize) -> String {
    "日本語".chars().cycle().take(columns / 2).collect()
}

/// Each line fits, but for one that holds nothing else than a thing to copy and its brackets;
/// and everything to copy is there in one piece.
#[track_caller]
fn fits(page: &str, copied: &[&str]) {
    let misfits = misfits(page, copied);
    assert!(misfits.is_empty(), "{misfits:#?}\n{page}");
}

fn misfits(page: &str, copied: &[&str]) -> Vec<String> {
    let thing = |line: &str| line.trim().trim_matches(|c: char| "\"():;,".contains(c)).to_owned();
    let is_wide = |line: &&str| width(line) > 80 && !copied.contains(&thing(line).as_str());
    let wide = page.lines().filter(is_wide).map(|line| format!("{} columns: {line}", width(line)));
    let spaced = page.lines().filter(|line| *line != line.trim_end()).map(|line| format!("spaces at its end: {line}"));
    let cut = copied.iter().filter(|thing| !page.contains(**thing)).map(|thing| format!("cut: {thing}"));
    wide.chain(spaced).chain(cut).collect()
}

fn sentence() -> String {
    format!("{} of {} and {} more", "words that go on ".repeat(9), wide(120), principal("x"))
}

fn key(provider: &str, name: &str, fingerprint: Option<&str>) -> KeyNeed {
    KeyNeed {
        provider: provider.into(),
        name: name.into(),
        kms_key_id: None,
        fingerprint: fingerprint.map(str::to_owned),
        material: None,
        live_objects: u64::MAX >> 1,
        resources: vec!["secrets".into()],
        proof: Proof::NotTried,
        escrow_record: None,
    }
}

fn manifest(site: &Site) -> Manifest {
    let mut manifest = site.good.as_ref().unwrap().manifest.clone();
    manifest.cluster.name = CLUSTER.parse().unwrap();
    manifest.signer.name = principal("a").parse().unwrap();
    manifest.taken.host = principal("a").parse().unwrap();
    manifest.taken.member.name = wide(100);
    manifest.taken.member.version = "3.6.16-with-a-long-suffix-of-a-distribution".into();
    manifest.object.key = object(&manifest);
    manifest.image.revision = i64::MAX;
    manifest.image.live_keys = u64::MAX >> 1;
    manifest.keys.push(key("kmsv2", "a-plugin-with-a-long-name", Some(KMS)));
    manifest.keys.push(key("secretbox", &wide(90), None));
    manifest.keys.push(key("aesgcm", &"k".repeat(253), None));
    let resource = |group: &str, resource: &str| ResourceCount {
        group: group.into(),
        resource: resource.into(),
        live: u64::MAX >> 1,
        encrypted: u64::MAX >> 1,
        plaintext: u64::MAX >> 1,
    };
    manifest.resources.push(resource(&format!("{}.example.org", "g".repeat(200)), &"r".repeat(63)));
    manifest.problems.push(Problem { code: "escrow-gap".into(), severity: Severity::Error, message: sentence(), count: 1 });
    manifest
}

fn object(manifest: &Manifest) -> String {
    format!("{}/{CLUSTER}/{}/{}/etcd.db.zst.age", "prefix/".repeat(10), manifest.cluster.lineage, manifest.id)
}

fn catalog(site: &Site, manifest: Manifest) -> (Catalog, History) {
    let path = format!("holdfast/{CLUSTER}/manifests/{}/{}.json", manifest.cluster.lineage, manifest.id);
    let bytes = canonical::encode(&manifest).unwrap();
    let document = Document::Manifest(Box::new(manifest));
    let entry = Entry { path: path.clone(), sha256: Sha256::of(&bytes), bytes, signature: String::new(), document };
    let finding = Finding { object: path, code: "record.bad-signature".into(), message: sentence() };
    let history = History { entries: vec![entry], findings: vec![finding] };
    let mut catalog = Catalog::open(&site.path("elsewhere")).unwrap();
    catalog.fold(&history).unwrap();
    (catalog, history)
}

#[test]
fn list_show_and_rebuild_fit() {
    let site = Site::with_snapshots();
    let manifest = manifest(&site);
    let (catalog, history) = catalog(&site, manifest.clone());
    let (path, id, now) = (history.entries[0].path.as_str(), manifest.id.as_str(), "2026-12-01T16:05:00Z".parse().unwrap());
    let (long, wide_name, kind) = ("k".repeat(253), wide(90), format!("{}.{}.example.org", "r".repeat(63), "g".repeat(200)));
    let printed = |print: &dyn Fn(&mut Vec<u8>) -> Result<Exit, Failure>| {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let list = printed(&|out| cli::list::print(&catalog, false, out, now));
    fits(&list, &[path, id, KMS, &long, &wide_name, &principal("x"), &wide(120)]);
    let show = printed(&|out| cli::show::print(&catalog, "latest", false, out, now));
    let fingerprint = manifest.keys[0].fingerprint.as_deref().unwrap();
    let digest = manifest.image.sha256.to_string();
    let pieces = [id, KMS, &long, &wide_name, &kind, &manifest.object.key, &digest, fingerprint];
    fits(&show, &[&pieces[..], &[&principal("a"), &principal("x"), &wide(100), &wide(120)]].concat());
    let rebuilt = Catalog::rebuild(&site.path("elsewhere"), &history).unwrap();
    let rebuilt = printed(&|out| cli::catalog::print_rebuilt(&rebuilt, &history, false, out));
    fits(&rebuilt, &[path, &principal("x"), &wide(120)]);
}

#[test]
fn what_was_taken_fits() {
    let site = Site::with_snapshots();
    let mut taken = site.good.as_ref().unwrap().clone();
    taken.manifest = manifest(&site);
    let mut out = Vec::new();
    cli::snapshot::print(&taken, false, &mut out, &mut Vec::new()).unwrap();
    let pieces = [CLUSTER, taken.manifest.id.as_str(), &taken.manifest.object.key, &"k".repeat(253), &wide(90)];
    fits(&String::from_utf8(out).unwrap(), &[&pieces[..], &[KMS]].concat());
}

/// A report whose every text is long, wide or without a space.
fn report() -> Report {
    let mut report = sample::undecryptable();
    report.identity.cluster = CLUSTER.parse().unwrap();
    report.identity.host = principal("a").parse().unwrap();
    report.verdict.sentence = sentence();
    for step in &mut report.steps {
        (step.title, step.summary, step.pass) = (sentence(), sentence(), sentence());
    }
    for failed in &mut report.failures {
        (failed.failure.object, failed.failure.cause, failed.failure.next) = (wide(200), sentence(), sentence());
    }
    let facts = &mut report.facts;
    let decryption = facts.decryption.as_mut().unwrap();
    decryption.failures.push(UnreadableObject {
        object: format!("/registry/secrets/{}/{}", "n".repeat(63), "s".repeat(253)),
        cause: sentence(),
        ..decryption.failures[0].clone()
    });
    facts.deviations.push(Deviation { what: sentence(), why: sentence() });
    if let Some(keys) = &mut facts.keys {
        for key in &mut keys.keys {
            (key.name, key.fingerprint, key.cause) = (wide(90), Some(KMS.into()), Some(sentence()));
        }
    }
    if let Some(snapshot) = &mut facts.snapshot {
        snapshot.object_key = "prefix/".repeat(30);
    }
    let statement = sentence();
    facts.fence = Some(FenceFacts { fenced: true, namespaces: vec!["mount and network of its own".into(); 9], statement });
    let line = ManualStep {
        step: "s".repeat(63),
        title: sentence(),
        kind: HandsKind::Approval,
        rung: Some(Rung::Open),
        who: sentence(),
        expect_ms: 601_000,
        result: ManualResult::Refused,
        by: Some(principal("b")),
        begun_by: Some(wide(90)),
        note: Some(sentence()),
        asked: Some("2026-12-01T13:05:09Z".into()),
        begun: Some("2026-12-01T13:05:09Z".into()),
        answered: Some("2026-12-01T13:05:09Z".into()),
        waiting_ms: Some(3_601_000),
        hands_on_ms: Some(100_001_000),
        stated: true,
        took_ms: Some(1),
        by_wall: true,
        carried: None,
    };
    let carried =
        Carried { run: report.identity.run.clone(), at: "2026-12-01T13:05:09Z".into(), waiting_ms: 61_000, hands_on_ms: 1 };
    let unasked = ManualStep { result: ManualResult::NotExercised, carried: Some(carried), ..line.clone() };
    report.manual = vec![line, unasked];
    let (at, during) = ("2026-12-01T13:05:09Z".into(), Some("s".repeat(63)));
    report.unforeseen = vec![Unforeseen { at, by: principal("b"), text: sentence(), hands_on_ms: None, during }];
    report.resources[0].count.resource = "r".repeat(63);
    report.resources[0].count.group = "g".repeat(253);
    report
}

#[test]
fn a_report_fits() {
    let report = report();
    let page = cli::report::render(&json::value(&report).unwrap(), cli::report::Format::Text).unwrap();
    let object = format!("/registry/secrets/{}/{}", "n".repeat(63), "s".repeat(253));
    let kind = format!("{}.{}", "r".repeat(63), "g".repeat(253));
    let (stored, objects) = ("prefix/".repeat(30), wide(200));
    let (people, step) = (principal("b"), "s".repeat(63));
    let names = [
        KMS,
        &kind,
        &object,
        &stored,
        &objects,
        &wide(90),
        &wide(120),
        &principal("a"),
        &principal("x"),
        CLUSTER,
        &people,
        &step,
    ];
    let records = report.facts.keys.iter().flat_map(|keys| &keys.keys).filter_map(|key| key.escrow_record.as_ref());
    let records: Vec<_> = records.map(|record| record.key.as_str()).collect();
    assert!(!records.is_empty());
    fits(&page, &[&names[..], &records].concat());
    for digest in [report.identity.run.as_str(), &report.identity.runbook_sha256.to_string()] {
        assert!(page.contains(digest), "{digest}: {page}");
    }
}

#[test]
fn a_rehearsal_fits() {
    let report = report();
    let object = report.facts.decryption.as_ref().unwrap().failures.last().unwrap().object.clone();
    let outcome = Outcome { result: RunResult::Passed, reached: Some(Rung::Open), failure: None };
    let run = report.identity.run.clone();
    let rehearsed = Rehearsed { run: run.clone(), outcome, report, leftovers: vec![], warnings: vec![] };
    let page = format!("/a/state directory/{}/{run}.html", "deep/".repeat(30));
    let mut out = Vec::new();
    cli::rehearse::print(&mut out, &rehearsed, Path::new(&page)).unwrap();
    fits(&String::from_utf8(out).unwrap(), &[&page, &object, &wide(120), &principal("x"), run.as_str()]);
    let text = sentence();
    let failure = FailureText { code: "x".repeat(90), object: String::new(), cause: String::new(), next: String::new() };
    for entry in [
        Step::Succeeded { step: "s".repeat(63), attempt: 1, summary: text, facts: Box::default() },
        Step::Failed { step: "fetch-image".into(), attempt: 1, failure, facts: Box::default() },
    ] {
        let event = Event { entry, ..event() };
        let line = cli::rehearse::line_of(&event).unwrap();
        let copied = match &event.entry {
            Step::Succeeded { .. } => vec![wide(120), principal("x")],
            _ => vec!["x".repeat(90)],
        };
        fits(&line, &copied.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_runbook_fits() {
    let mut runbook = sample::runbook();
    (runbook.title, runbook.owner, runbook.environment) = (sentence(), principal("a"), wide(90));
    runbook.steps[0].id = "s".repeat(63);
    for step in &mut runbook.steps {
        (step.title, step.acceptance.pass) = (sentence(), sentence());
        step.acceptance.check = step.acceptance.check.as_ref().map(|_| sentence());
        if let Work::Person(hands) = &mut step.work {
            hands.who = sentence();
        }
    }
    let mut out = Vec::new();
    cli::runbook_page::show(&runbook, false, &mut out).unwrap();
    fits(&String::from_utf8(out).unwrap(), &[&wide(90), &wide(120), &principal("a"), &principal("x")]);
    let text = format!("{0}\n{0}\n\n- {0}\n- b\n\n```sh\nkept  as it is\n```\nend", sentence());
    let page = cli::runbook_page::prose(&text);
    fits(&page, &[&wide(120), &principal("x")]);
    assert!(page.contains("    kept  as it is\n") && page.contains("\n- b\n"), "{page}");
}

fn event() -> Event {
    let mut play = sample::Play::new(Rung::Open);
    play.play(None, None);
    play.history.events()[0].clone()
}

#[test]
fn an_inspection_fits() {
    let mut image = EtcdImage::new();
    image.object(&format!("configmaps/{}/{}", "n".repeat(63), "c".repeat(253)), "v1", "ConfigMap");
    image.put(&format!("/registry/secrets/{}/{}", "n".repeat(63), "s".repeat(253)), b"neither");
    let group = format!("{}.example.org", "g".repeat(200));
    image.object(&format!("{group}/{}/shop/one", "r".repeat(63)), &format!("{group}/v1"), "R");
    let name = wide(90);
    for key in [name.as_str(), "key-with-a-name-of-more-than-twenty-letters"] {
        let sealed = format!("k8s:enc:aescbc:v1:{key}:0123456789abcdef0123456789abcdef");
        image.put(&format!("/registry/secrets/shop/{key}"), sealed.as_bytes());
    }
    image.put(&format!("/elsewhere/{}/x", "p".repeat(100)), b"1");
    let site = Site::new();
    let folder = site.path(&"a folder with spaces ".repeat(5));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("snapshot.db");
    std::fs::write(&path, image.snapshot()).unwrap();
    let config = site.path("encryption.yaml");
    std::fs::write(&config, sources::encryption()).unwrap();
    let arguments = cli::inspect::Inspect { file: path.clone(), encryption_configs: vec![config] };
    let mut out = Vec::new();
    cli::inspect::run(&arguments, false, &mut out).unwrap();
    let object = format!("/registry/secrets/{}/{}", "n".repeat(63), "s".repeat(253));
    let kind = format!("{}.{group}", "r".repeat(63));
    let named = format!("/registry/secrets/shop/{name}");
    let pieces = [path.to_str().unwrap(), &object, &kind, &name, &named, "key-with-a-name-of-more-than-twenty-letters"];
    fits(&String::from_utf8(out).unwrap(), &pieces);
}

#[test]
fn wide_lines_and_names_that_are_cut_are_found() {
    let line = format!("{}x", wide(80));
    assert_eq!(misfits(&format!("{line}\n"), &[]), [format!("81 columns: {line}")]);
    assert_eq!(misfits(&format!("  ({line}):\n"), &[&line]), Vec::<String>::new());
    assert_eq!(misfits("kms:bar…c223a8 \n", &["kms:x"]), ["spaces at its end: kms:bar…c223a8 ", "cut: kms:x"]);
}
