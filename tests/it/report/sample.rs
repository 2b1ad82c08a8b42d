//! Runs made up in full: one that passes, one whose key is gone, one that was
//! killed and gone on with.

use std::collections::BTreeMap;

use holdfast::base::digest::Sha256;
use holdfast::base::entropy::SeededEntropy;
use holdfast::record::Rung;
use holdfast::record::attestation::Opening;
use holdfast::record::manifest::{Problem, RecordRef, ResourceCount, Severity};
use holdfast::report::model::Report;
use holdfast::runbook::engine::{self, Decision};
use holdfast::runbook::facts::*;
use holdfast::runbook::journal::{Carried, Entry, Event, FailureText, History, ProcessMark, RunHead};
use holdfast::runbook::model::Runbook;
use jiff::{SignedDuration, Timestamp};

use holdfast::rehearsal::ACTIONS;

pub fn runbook() -> Runbook {
    Runbook::parse(include_bytes!("../../../runbooks/etcd-restore.md"), ACTIONS).unwrap()
}

/// A run that is played event by event.
pub struct Play {
    pub runbook: Runbook,
    pub head: RunHead,
    pub history: History,
    pub carried: BTreeMap<String, Carried>,
    at: Timestamp,
    uptime_ms: u64,
    process: u64,
}

fn mark(process: u64) -> ProcessMark {
    ProcessMark::new(&SeededEntropy::new(process))
}

impl Play {
    pub fn new(until: Rung) -> Self {
        Self::of(runbook(), until)
    }

    pub fn of(runbook: Runbook, until: Rung) -> Self {
        let at: Timestamp = "2026-12-01T13:05:09Z".parse().unwrap();
        let head = RunHead {
            run: "20261201T130509Z-01234567".parse().unwrap(),
            runbook: runbook.id.clone(),
            // Fixed, so that golden files do not follow every word of the runbook.
            runbook_digest: Sha256::of(b"runbook"),
            until,
            cluster: "prod-east".parse().unwrap(),
            snapshot: "20261201T120003Z-89abcdef".parse().unwrap(),
            trigger: "person".into(),
            host: "rehearsal-1.example.org".parse().unwrap(),
            tool: "holdfast 0.1.0".into(),
            started: at,
            uptime_ms: 5_000,
            process: mark(1),
            attended: false,
            incident: None,
        };
        Self { runbook, head, history: History::default(), carried: BTreeMap::new(), at, uptime_ms: 5_000, process: 1 }
    }

    /// Time passes for the process and on the wall.
    pub fn pass(&mut self, ms: u64) {
        self.uptime_ms += ms;
        self.at += SignedDuration::from_millis(i64::try_from(ms).unwrap());
    }

    /// Somebody sets the wall clock back.
    pub fn turn_back(&mut self, ms: u64) {
        self.at -= SignedDuration::from_millis(i64::try_from(ms).unwrap());
    }

    /// The process is killed, and another begins after a while by the wall clock.
    pub fn killed(&mut self, gap_ms: u64) {
        self.process += 1;
        self.pass(gap_ms);
        self.uptime_ms = 40;
    }

    pub fn write(&mut self, entry: Entry) {
        self.write_as(self.process, self.uptime_ms, entry);
    }

    /// A process that drives nothing writes, with a monotonic clock of its own.
    pub fn write_elsewhere(&mut self, entry: Entry) {
        self.write_as(1000 + self.history.events().len() as u64, 3, entry);
    }

    fn write_as(&mut self, process: u64, uptime_ms: u64, entry: Entry) {
        let number = self.history.events().len() as u64 + 1;
        let (run, at) = (self.head.run.clone(), self.at);
        self.history.admit(Event { run, number, at, uptime_ms, process: mark(process), entry }).unwrap();
    }

    fn decide(&self) -> Decision<'_> {
        engine::next(&self.runbook, self.history.events(), self.head.until, &mark(self.process))
    }

    /// Plays on until `stop` is due, or a person is waited for, or to the end;
    /// `broken` fails there.
    pub fn play(&mut self, stop: Option<&str>, broken: Option<(&str, FailureText, Facts)>) {
        loop {
            let (id, attempt) = match self.decide() {
                Decision::Settle { step, attempt } => {
                    let cause = "the process ended before it could say how the step ended".into();
                    self.write(Entry::Unknown { step, attempt, cause });
                    continue;
                }
                Decision::Finish(outcome) => {
                    return self.write(Entry::Finished { result: outcome.result, reached: outcome.reached });
                }
                Decision::Ask { step, attempt } if self.head.attended => {
                    let (step, ask) = (step.id.clone(), step.hands().unwrap().kind);
                    return self.write(Entry::Asked { step, attempt, ask });
                }
                Decision::Ask { step, .. } => {
                    let step = step.id.clone();
                    let carried = self.carried.get(&step).cloned();
                    self.write(Entry::Unasked { step, carried });
                    continue;
                }
                Decision::Wait { step, .. } => panic!("nobody answered {step}"),
                Decision::Run { step, attempt } => (step.id.clone(), attempt),
            };
            self.write(Entry::Started { step: id.clone(), attempt });
            if stop == Some(&id) {
                return self.pass(700);
            }
            let (ms, summary, facts) = statement(&id);
            self.pass(ms);
            self.write(match &broken {
                Some((step, failure, facts)) if *step == id => {
                    Entry::Failed { step: id, attempt, failure: failure.clone(), facts: Box::new(facts.clone()) }
                }
                _ => Entry::Succeeded { step: id, attempt, summary: summary.into(), facts: Box::new(facts) },
            });
        }
    }

    pub fn report(&self) -> Report {
        Report::build(&self.head, &self.runbook, self.history.events())
    }
}

pub fn passed() -> Report {
    let mut play = Play::new(Rung::Serve);
    play.pass(35);
    play.play(None, None);
    play.report()
}

/// key1's escrow record is withheld: what the product exists to catch.
pub fn key_withheld() -> Report {
    let mut keys = key_facts();
    let key1 = &mut keys.keys[0];
    (key1.opened, key1.escrow_record, key1.cause) = (false, None, Some("escrow holds no record of this fingerprint".into()));
    keys.openings.remove(0);
    let failure = FailureText {
        code: "escrow.key-missing".into(),
        object: "aescbc key \u{201c}key1\u{201d} hf1-0123456789abcdef0123456789abcdef".into(),
        cause: "escrow holds no record that opens to it; 17 objects of secrets and configmaps cannot be read without it".into(),
        next: "on a control-plane host put the key into backup.encryption_config and take a snapshot: that deposits it".into(),
    };
    let mut play = Play::new(Rung::Serve);
    play.pass(35);
    play.play(None, Some(("open-keys", failure, Facts { keys: Some(keys), ..Facts::default() })));
    play.report()
}

/// Both keys came out of escrow, and some objects open with neither.
pub fn undecryptable() -> Report {
    let unreadable = |object: &str, key: &str, cause: &str| UnreadableObject {
        object: object.into(),
        provider: "aescbc".into(),
        key_name: key.into(),
        cause: cause.into(),
    };
    let failures = vec![
        unreadable("/registry/secrets/default/db", "key1", "the padding is wrong under every key of this name"),
        unreadable("/registry/secrets/default/a|b<c>", "key0", "no key of this name is known"),
    ];
    let cause = "3 live objects cannot be read: /registry/secrets/default/db (aescbc key1: the padding is wrong)";
    let failure = FailureText {
        code: "rehearsal.undecryptable".into(),
        object: "20261201T120003Z-89abcdef".into(),
        cause: cause.into(),
        next: "find the key named".into(),
    };
    let decryption = DecryptionFacts { encrypted: 31, opened: 28, plaintext: 125, failures };
    let mut play = Play::new(Rung::Serve);
    play.pass(35);
    play.play(None, Some(("decrypt-objects", failure, Facts { decryption: Some(decryption), ..decryption_facts() })));
    play.report()
}

pub fn killed_and_gone_on() -> Report {
    let mut play = Play::new(Rung::Serve);
    play.play(Some("start-apiserver"), None);
    play.killed(95_000);
    play.play(None, None);
    play.report()
}

fn record(key: &str) -> RecordRef {
    RecordRef { key: key.into(), sha256: Sha256::of(key.as_bytes()) }
}

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn tool(name: &str, version: &str) -> ToolVersion {
    ToolVersion { name: name.into(), version: version.into() }
}

/// How long a step takes, its summary and its facts.
fn statement(step: &str) -> (u64, &'static str, Facts) {
    let none = Facts::default;
    match step {
        "fetch-manifest" => (58, "signed by cp-1, quality good", Facts { snapshot: Some(snapshot_facts()), ..none() }),
        "fetch-image" => (1_840, "3.1 MiB read, 21.4 MiB opened", Facts { image: Some(image_facts()), ..none() }),
        "check-structure" => {
            (212, "revision 4711, 214 live keys, trailer ok", Facts { structure: Some(structure_facts()), ..none() })
        }
        "open-keys" => (96, "2 of 2 keys opened", Facts { keys: Some(key_facts()), ..none() }),
        "decrypt-objects" => (41, "31 of 31 encrypted objects open", decryption_facts()),
        "restore-data" => (1_320, "data directory written by etcdutl 3.6.16", restore_facts()),
        "start-etcd" => (1_105, "etcd 3.6.16 leads a cluster of one", etcd_facts()),
        "compare-hash" => (74, "HashKV 263810052 at revision 4711, 214 live keys", Facts { hash: Some(hash_facts()), ..none() }),
        "build-encryption-config" => (3, "2 keys in the order of cp-1", Facts { encryption: Some(encryption_facts()), ..none() }),
        "make-certificates" => (48, "3 authorities, 2 leaf certificates", certificate_facts()),
        "start-apiserver" => (6_920, "kube-apiserver 1.34.4 is ready", apiserver_facts()),
        "read-everything" => (2_310, "200 objects of 6 resources, counts equal", read_facts()),
        _ => (
            640,
            "nothing is left",
            Facts { tear_down: Some(TearDownFacts { processes_ended: 2, directories_removed: 1 }), ..none() },
        ),
    }
}

fn snapshot_facts() -> SnapshotFacts {
    SnapshotFacts {
        id: "20261201T120003Z-89abcdef".into(),
        cluster: "prod-east".into(),
        lineage: "2089a0106116e0fd".into(),
        quality: "good".into(),
        taken_started: "2026-12-01T12:00:03Z".into(),
        taken_finished: "2026-12-01T12:00:05Z".into(),
        host: "cp-1.example.org".into(),
        member_id: "0a37423fad3b4a4a".into(),
        member_name: "cp-1".into(),
        etcd_version: "3.6.16".into(),
        storage_version: Some("3.6.0".into()),
        revision: 4711,
        compact_revision: 4200,
        hash_kv: 263_810_052,
        live_keys: 214,
        image_bytes: 22_439_936,
        image_sha256: Sha256::of(b"image"),
        object_key: "holdfast/prod-east/2089a0106116e0fd/20261201T120003Z-89abcdef/etcd.db.zst.age".into(),
        object_version: None,
        object_bytes: 3_250_586,
        object_sha256: Sha256::of(b"object"),
        manifest: record("holdfast/prod-east/2089a0106116e0fd/20261201T120003Z-89abcdef/manifest.json"),
        signer: "cp-1.example.org".into(),
        problems: vec![Problem {
            code: "weak-key".into(),
            severity: Severity::Warning,
            message: "key \u{201c}key1\u{201d} is printable text".into(),
            count: 1,
        }],
    }
}

fn image_facts() -> ImageFacts {
    let (object_sha256, image_sha256) = (Sha256::of(b"object"), Sha256::of(b"image"));
    ImageFacts {
        store: "fs:/srv/snapshots".into(),
        object_bytes: 3_250_586,
        object_sha256,
        image_bytes: 22_439_936,
        image_sha256,
    }
}

fn resource(group: &str, resource: &str, live: u64, encrypted: u64) -> ResourceCount {
    ResourceCount { group: group.into(), resource: resource.into(), live, encrypted, plaintext: live - encrypted }
}

fn structure_facts() -> StructureFacts {
    StructureFacts {
        trailer: "ok".into(),
        revision: 4711,
        live_keys: 214,
        hash_kv: 263_810_052,
        resources: vec![
            resource("", "configmaps", 14, 8),
            resource("", "namespaces", 9, 0),
            resource("", "secrets", 23, 23),
            resource("rbac.authorization.k8s.io", "clusterroles", 71, 0),
            resource("apiregistration.k8s.io", "apiservices", 33, 0),
            resource("coordination.k8s.io", "leases", 4, 0),
            resource("example.org", "widgets", 2, 0),
        ],
        other: vec![
            OtherKeys { prefix: "/registry/ranges".into(), live: 2 },
            OtherKeys { prefix: "compact_rev_key".into(), live: 1 },
        ],
        alarms: Vec::new(),
    }
}

fn key_facts() -> KeysFacts {
    let key = |name: &str, fingerprint: &str, live_objects, resources: &[&str]| KeyFacts {
        provider: "aescbc".into(),
        name: name.into(),
        fingerprint: Some(fingerprint.into()),
        live_objects,
        resources: strings(resources),
        escrow_record: Some(record(&format!(
            "prod-east/keys/{fingerprint}/20261130T220000Z-cp-1.example.org-{}.json",
            &fingerprint[4..12]
        ))),
        opened: true,
        cause: None,
    };
    let keys = vec![
        key("key1", "hf1-0123456789abcdef0123456789abcdef", 17, &["configmaps", "secrets"]),
        key("key2", "hf1-fedcba9876543210fedcba9876543210", 14, &["configmaps", "secrets"]),
    ];
    let opening = |key: &KeyFacts| Opening {
        fingerprint: key.fingerprint.clone().unwrap().parse().unwrap(),
        escrow_record: key.escrow_record.clone().unwrap(),
    };
    let openings = keys.iter().map(opening).collect();
    KeysFacts { keys, openings }
}

fn decryption_facts() -> Facts {
    let decryption = DecryptionFacts { encrypted: 31, opened: 31, plaintext: 125, failures: Vec::new() };
    let data_clock = DataClockFacts { newest: "2026-12-01T12:00:01Z".into(), rule: "newest renew time of 3 node leases".into() };
    Facts { decryption: Some(decryption), data_clock: Some(data_clock), ..Facts::default() }
}

fn restore_facts() -> Facts {
    let restore = RestoreFacts { token: "restore-6c1f".into(), data_bytes: 86_443_008, tool: "etcdutl 3.6.16".into() };
    let why = "contents are compared at the manifest's own revision";
    let deviations = vec![Deviation { what: "the revision was not bumped".into(), why: why.into() }];
    Facts { restore: Some(restore), deviations, tools: vec![tool("etcdutl", "3.6.16")], ..Facts::default() }
}

fn etcd_facts() -> Facts {
    let etcd =
        EtcdFacts { version: "3.6.16".into(), cluster_id: "9d1c8b6a5f4e3d2c".into(), member_id: "17aa3fbb2c90d1e4".into() };
    let statement = "etcd and the API server ran in namespaces of their own with loopback only: no route leads out of them.";
    let namespaces = strings(&["network", "mount", "pid", "ipc", "uts"]);
    let fence = FenceFacts { fenced: true, statement: statement.into(), namespaces };
    Facts { etcd: Some(etcd), fence: Some(fence), tools: vec![tool("etcd", "3.6.16")], ..Facts::default() }
}

fn hash_facts() -> HashFacts {
    HashFacts {
        revision: 4711,
        compact_revision: 4200,
        hash_expected: 263_810_052,
        hash_measured: 263_810_052,
        count_expected: 214,
        count_measured: 214,
    }
}

fn encryption_facts() -> EncryptionFacts {
    let providers =
        ["aescbc key2 (hf1-fedcba9876543210fedcba9876543210)", "aescbc key1 (hf1-0123456789abcdef0123456789abcdef)", "identity"];
    let rules = vec![EncryptionRule { resources: strings(&["secrets", "configmaps"]), providers: strings(&providers) }];
    let host_record = Some(record("prod-east/hosts/cp-1.example.org/20261201T115900Z-00112233.json"));
    EncryptionFacts { host: Some("cp-1.example.org".into()), host_record, rules, appended: Vec::new() }
}

fn certificate_facts() -> Facts {
    let certificates = CertificateFacts {
        authorities: strings(&["scratch CA", "scratch front proxy CA", "scratch etcd CA"]),
        leaf_certificates: 2,
        not_after: "2026-12-02T13:05:09Z".into(),
        production_authority: false,
    };
    Facts { certificates: Some(certificates), ..Facts::default() }
}

fn apiserver_facts() -> Facts {
    let apiserver = ApiServerFacts { version: "1.34.4".into(), prefix: "/registry".into(), ready_ms: 6_702 };
    let why = "their backends are not part of a scratch API server";
    let deviations = vec![Deviation { what: "webhook admission was switched off".into(), why: why.into() }];
    Facts { apiserver: Some(apiserver), deviations, tools: vec![tool("kube-apiserver", "1.34.4")], ..Facts::default() }
}

fn read_facts() -> Facts {
    let read = |line: ResourceCount, api: Option<u64>, note: Option<&str>| ResourceRead {
        group: line.group,
        resource: line.resource,
        snapshot: line.live,
        api,
        note: note.map(str::to_owned),
    };
    let lines = structure_facts().resources.into_iter().map(|line| match line.resource.as_str() {
        "widgets" => read(line, None, Some("no definition of this resource is in the snapshot")),
        _ => read(line.clone(), Some(line.live), None),
    });
    let read = ReadFacts { revision: 4711, resources: lines.collect(), encrypted_read: 31 };
    let why = "its definition is gone, so the API server has no list of it";
    let left_out = vec![LeftOut { what: "widgets.example.org".into(), objects: Some(2), why: why.into() }];
    Facts { read: Some(read), left_out, ..Facts::default() }
}
