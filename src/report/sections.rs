//! What stands where in the document of a report.

use super::document::{Bar, Card, Cell, Document, Section, Span, Text, Tone};
use super::model::{Attempt, Measure, Report, ReportResult, StepResult};
use super::people;
use super::timing::human;
use crate::base::units::{count, human_bytes};

pub fn document(report: &Report) -> Document {
    let identity = &report.identity;
    let (tone, word) = match report.verdict.result {
        ReportResult::Passed => (Tone::Good, "passed"),
        ReportResult::Failed => (Tone::Bad, "failed"),
        ReportResult::CouldNotTell => (Tone::Doubt, "could not tell"),
        ReportResult::Interrupted => (Tone::Doubt, "interrupted"),
        ReportResult::Unfinished => (Tone::Doubt, "unfinished"),
    };
    let sections = [
        failures(report),
        unreadable(report),
        phases(report),
        people::unforeseen(report),
        people::manual(report),
        keys(report),
        steps(report),
        contents(report),
        resources(report),
        fence(report),
        deviations(report),
        not_covered(report),
        snapshot(report),
        environment(report),
        identity_section(report),
    ];
    Document {
        title: "Restore rehearsal report".into(),
        subtitle: format!("{} · {} to {}", identity.cluster, identity.started, identity.finished).into(),
        tone,
        word: word.into(),
        sentence: (&report.verdict.sentence).into(),
        cards: cards(report),
        bars: bars(report),
        sections: sections.into_iter().flatten().collect(),
        foot: format!(
            "{} · run {} · runbook {} sha256 {}",
            identity.tool, identity.run, identity.runbook, identity.runbook_sha256
        )
        .into(),
    }
}

fn cards(report: &Report) -> Vec<Card> {
    let card = |label: &str, value: String, note: String, tone| Card {
        label: label.into(),
        value: value.into(),
        note: note.into(),
        tone,
    };
    let measure = |label: &str, measure: &Measure| {
        let value = measure.measured_ms.map_or_else(|| "not measured".to_owned(), human);
        let (note, tone) = match (measure.objective_ms, measure.met) {
            (Some(objective), Some(true)) => (format!("objective {}: met", human(objective)), Tone::Good),
            (Some(objective), Some(false)) => (format!("objective {}: not met", human(objective)), Tone::Bad),
            (Some(objective), None) => (format!("objective {}: not shown", human(objective)), Tone::Doubt),
            (None, _) => ("no objective".to_owned(), Tone::Plain),
        };
        card(label, value, note, tone)
    };
    let verdict = &report.verdict;
    let reached = verdict.reached.map_or_else(|| "none".to_owned(), |rung| rung.to_string());
    let tone = if verdict.reached >= Some(verdict.asked) { Tone::Good } else { Tone::Bad };
    let mut cards = vec![measure("RTO, measured", &report.rto), measure("RPO, measured", &report.rpo)];
    cards.extend(people::card(report));
    cards.push(card("Rung reached", reached, format!("asked for {}", verdict.asked), tone));
    if let Some(keys) = &report.facts.keys {
        let opened = keys.keys.iter().filter(|key| key.opened).count();
        let tone = if opened == keys.keys.len() { Tone::Good } else { Tone::Bad };
        cards.push(card("Keys from escrow", format!("{opened} of {}", keys.keys.len()), "opened, of those needed".into(), tone));
    }
    let note = report.facts.snapshot.as_ref().map_or_else(
        || "manifest not read".to_owned(),
        |snapshot| format!("taken {}, revision {}, {}", snapshot.taken_started, snapshot.revision, snapshot.quality),
    );
    cards.push(card("Snapshot", report.identity.snapshot.to_string(), note, Tone::Plain));
    cards
}

/// Each phase that was reached, then its steps with all their attempts.
fn bars(report: &Report) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut rung = None;
    for step in &report.steps {
        if step.rung != rung {
            rung = step.rung;
            let phase = report.phases.iter().find(|phase| Some(phase.rung) == rung);
            if let Some((phase, end)) = phase.and_then(|phase| Some((phase, phase.until_ms?))) {
                let span = Span::new(end - phase.duration_ms.unwrap_or(0), phase.duration_ms, Tone::Plain);
                bars.push(Bar { label: format!("rung {}", phase.rung).into(), is_phase: true, spans: vec![span] });
            }
        }
        let span = |attempt: &Attempt| Span::new(attempt.start_ms, attempt.duration_ms, tone(attempt.result));
        let spans: Vec<_> = match report.manual.iter().find(|line| line.step == step.id) {
            Some(line) => people::spans(line, step),
            None => step.attempts.iter().map(span).collect(),
        };
        if !spans.is_empty() {
            bars.push(Bar { label: (&step.title).into(), is_phase: false, spans });
        }
    }
    bars
}

fn failures(report: &Report) -> Option<Section> {
    let mut section = Section::new("What failed", "").columns(&["Step", "What happened", "Do next"]);
    for failed in &report.failures {
        let what = Cell::plain(format!("{}: {}", failed.failure.object, failed.failure.cause)).note(&failed.failure.code);
        section.row(Tone::Bad, [Cell::plain(title(report, &failed.step)), what, Cell::plain(&failed.failure.next)]);
    }
    (!section.rows.is_empty()).then_some(section)
}

/// Objects that no key from escrow opened: what would be lost today.
fn unreadable(report: &Report) -> Option<Section> {
    let decryption = report.facts.decryption.as_ref().filter(|decryption| !decryption.failures.is_empty())?;
    let failed = decryption.encrypted.saturating_sub(decryption.opened);
    let shown = decryption.failures.len() as u64;
    let mut text = format!("{} did not open.", count(failed, "object"));
    if failed > shown {
        text = format!("{} did not open; the first {shown} are shown.", count(failed, "object"));
    }
    let mut section = Section::new("Objects that cannot be read", text).columns(&["Object", "Key it names", "Why"]);
    for failure in &decryption.failures {
        let key = format!("{} \u{201c}{}\u{201d}", failure.provider, failure.key_name);
        section.row(Tone::Plain, [Cell::code(&failure.object), Cell::plain(key), Cell::plain(&failure.cause)]);
    }
    Some(section)
}

fn phases(report: &Report) -> Option<Section> {
    let text = format!("RTO: {}. RPO: {}.", report.rto.how, report.rpo.how);
    let people = !report.manual.is_empty();
    let titles: &[&str] = match people {
        true => &["Phase", "What it proves", "Machine#", "People#", "Carried#", "Since start#"],
        false => &["Phase", "What it proves", "Duration#", "Since start#"],
    };
    let mut section = Section::new("Time", text).columns(titles);
    let mut found = false;
    for phase in &report.phases {
        let proves = match phase.rung.as_str() {
            "open" => "the stored bytes are whole and escrow opens them",
            "boot" => "etcd runs it, with the same content",
            "serve" => "Kubernetes reads every object of it",
            _ => "an operator can run it",
        };
        let time = |ms: Option<u64>| Cell::plain(ms.map_or_else(|| "not reached".to_owned(), human));
        // The first that was not reached is the finding; those after it follow from it.
        let tone = match (phase.reached, found) {
            (true, _) => Tone::Plain,
            (false, false) => Tone::Bad,
            (false, true) => Tone::Muted,
        };
        found |= !phase.reached;
        let mut cells = vec![Cell::plain(phase.rung), Cell::plain(proves)];
        cells.push(time(phase.duration_ms.map(|ms| ms.saturating_sub(phase.people.total()))));
        if people {
            cells.extend([phase.people, phase.carried].map(people::cell));
        }
        cells.push(time(phase.until_ms));
        section.row(tone, cells);
    }
    for resumed in &report.resumed {
        let what = Cell::plain("another process went on with the run, after a gap by the wall clock");
        let mut cells = vec![Cell::plain("resumed"), what, Cell::plain(human(resumed.gap_ms))];
        if people {
            cells.extend([Cell::plain(""), Cell::plain("")]);
        }
        cells.push(Cell::plain(&resumed.at));
        section.row(Tone::Doubt, cells);
    }
    Some(section)
}

fn keys(report: &Report) -> Option<Section> {
    let keys = report.facts.keys.as_ref()?;
    let text = match keys.openings.len() as u64 {
        0 => "No escrow record was opened.".to_owned(),
        n => format!("{} lay open in memory on host {} during this run.", count(n, "escrow record"), report.identity.host),
    };
    let mut section =
        Section::new("Keys this snapshot needs", text).columns(&["Key", "Fingerprint", "Objects#", "Resources", "Escrow"]);
    for key in &keys.keys {
        let escrow = match (&key.escrow_record, key.opened) {
            (Some(record), true) => Cell::plain("opened").note(&record.key),
            (_, true) => Cell::plain("opened"),
            (_, false) => Cell::plain("NOT OPENED").note(key.cause.as_deref().unwrap_or("no record")),
        };
        let cells = [
            Cell::plain(&key.name).note(&key.provider),
            Cell::code(key.fingerprint.as_deref().unwrap_or("unknown")),
            Cell::plain(key.live_objects),
            Cell::plain(key.resources.join(", ")),
            escrow,
        ];
        section.row(if key.opened { Tone::Good } else { Tone::Bad }, cells);
    }
    if keys.keys.is_empty() {
        section.text = "None: no live object of this snapshot lies encrypted.".into();
        section.columns.clear();
    }
    Some(section)
}

fn steps(report: &Report) -> Option<Section> {
    let text = "Each step with the criterion that its runbook states, and what was measured.";
    let mut section =
        Section::new("Steps and acceptance", text).columns(&["Step", "Result", "Started", "Took#", "Criterion and measurement"]);
    for step in &report.steps {
        let result = match (step.result, step.attempts.len()) {
            (StepResult::NotRun, _) => "not run".to_owned(),
            (StepResult::NotAsked, _) => "not asked".to_owned(),
            (StepResult::NotExercised, _) => "not exercised".to_owned(),
            (result, 0 | 1) => word(result).to_owned(),
            (result, attempts) => format!("{}, attempt {attempts}", word(result)),
        };
        let last = step.attempts.last();
        let took = last.map_or(String::new(), |last| last.duration_ms.map_or_else(|| "?".to_owned(), human));
        let started = last.map_or("", |last| last.started.get(11..).unwrap_or_default());
        let rung = step.rung.map_or("always".to_owned(), |rung| format!("rung {rung}"));
        let cells = [
            Cell::plain(&step.title).note(rung),
            Cell::plain(result),
            Cell::plain(started),
            Cell::plain(took),
            Cell::plain(&step.pass).note(&step.summary),
        ];
        section.row(tone(step.result), cells);
    }
    Some(section)
}

/// Numbers that must be equal, side by side.
fn contents(report: &Report) -> Option<Section> {
    let facts = &report.facts;
    let mut section = Section::new("Integrity", "").columns(&["What", "Expected", "Measured", ""]);
    let mut compare = |what: &str, expected: String, measured: String| {
        let equal = expected == measured;
        let tone = if equal { Tone::Good } else { Tone::Bad };
        let digest = expected.len() == 64;
        let cell = |text: String| if digest { Cell::code(text) } else { Cell::plain(text) };
        section
            .row(tone, [Cell::plain(what), cell(expected), cell(measured), Cell::plain(if equal { "equal" } else { "DIFFERS" })]);
    };
    if let (Some(snapshot), Some(image)) = (&facts.snapshot, &facts.image) {
        compare("sha256 of the stored object", snapshot.object_sha256.to_string(), image.object_sha256.to_string());
        compare("sha256 of the opened image", snapshot.image_sha256.to_string(), image.image_sha256.to_string());
    }
    if let (Some(snapshot), Some(structure)) = (&facts.snapshot, &facts.structure) {
        compare("revision in the bytes", snapshot.revision.to_string(), structure.revision.to_string());
        compare("live keys in the bytes", snapshot.live_keys.to_string(), structure.live_keys.to_string());
    }
    if let Some(decryption) = &facts.decryption {
        compare("encrypted objects that open", decryption.encrypted.to_string(), decryption.opened.to_string());
    }
    if let Some(hash) = &facts.hash {
        compare(
            &format!("HashKV of the running etcd at revision {}", hash.revision),
            hash.hash_expected.to_string(),
            hash.hash_measured.to_string(),
        );
        compare("live keys of the running etcd", hash.count_expected.to_string(), hash.count_measured.to_string());
    }
    if let (Some(read), Some(decryption)) = (&facts.read, &facts.decryption) {
        compare(
            "encrypted objects read through the API server",
            decryption.encrypted.to_string(),
            read.encrypted_read.to_string(),
        );
    }
    (!section.rows.is_empty()).then_some(section)
}

fn resources(report: &Report) -> Option<Section> {
    let text = match &report.facts.read {
        Some(read) => format!("Every list was asked for at revision {} exactly.", read.revision),
        None => "As the bytes say; the API server was not asked.".to_owned(),
    };
    let mut section = Section::new("Objects by resource", text).columns(&[
        "Resource",
        "In the snapshot#",
        "Encrypted#",
        "Plain#",
        "From the API server#",
        "",
    ]);
    for line in &report.resources {
        let count = &line.count;
        let name = if count.group.is_empty() { count.resource.clone() } else { format!("{}.{}", count.resource, count.group) };
        let (tone, word) = match line.api {
            None if report.facts.read.is_none() => (Tone::Plain, ""),
            None => (Tone::Muted, "left out"),
            Some(api) if api == count.live => (Tone::Plain, "equal"),
            Some(_) => (Tone::Bad, "DIFFERS"),
        };
        let cells = [
            Cell::plain(name),
            Cell::plain(count.live),
            Cell::plain(count.encrypted),
            Cell::plain(count.plaintext),
            Cell::plain(line.api.map_or_else(|| "–".to_owned(), |api| api.to_string())),
            Cell::plain(word).note(line.note.as_deref().unwrap_or_default()),
        ];
        section.row(tone, cells);
    }
    (!section.rows.is_empty()).then_some(section)
}

fn fence(report: &Report) -> Option<Section> {
    let mut section = Section::new("Isolation", "").pairs();
    if let Some(fence) = &report.facts.fence {
        section.text = (&fence.statement).into();
        let tone = if fence.fenced { Tone::Good } else { Tone::Doubt };
        section.row(tone, [Cell::plain("Fenced"), Cell::plain(if fence.fenced { "yes" } else { "NO" })]);
        section.pair("Namespaces of its own", Cell::plain(listed(&fence.namespaces)));
    }
    if let Some(certificates) = &report.facts.certificates {
        let text = if certificates.production_authority { "a PRODUCTION authority took part" } else { "throwaway ones only" };
        section.pair("Authorities", Cell::plain(text).note(certificates.authorities.join(", ")));
    }
    if let (Some(etcd), Some(snapshot)) = (&report.facts.etcd, &report.facts.snapshot) {
        section.pair("etcd cluster id", Cell::code(&etcd.cluster_id).note(format!("the source's is {}", snapshot.lineage)));
    }
    if let Some(done) = &report.facts.tear_down {
        let ended = count(done.processes_ended, "process");
        let removed = count(done.directories_removed, "directory");
        section.pair("Tear-down", Cell::plain(format!("{ended} ended, {removed} removed")));
    }
    (!section.rows.is_empty()).then_some(section)
}

fn deviations(report: &Report) -> Option<Section> {
    let mut section =
        Section::new("Deviations", "Where this run differed from a restore of production.").columns(&["What", "Why"]);
    for deviation in &report.facts.deviations {
        section.row(Tone::Plain, [Cell::plain(&deviation.what), Cell::plain(&deviation.why)]);
    }
    (!section.rows.is_empty()).then_some(section)
}

fn not_covered(report: &Report) -> Option<Section> {
    let mut section = Section::new("Not covered", "What this report does not show.").columns(&["What", "Objects#", "Why"]);
    for left_out in &report.not_covered {
        let objects = left_out.objects.map(|objects| objects.to_string()).unwrap_or_default();
        section.row(Tone::Plain, [Cell::plain(&left_out.what), Cell::plain(objects), Cell::plain(&left_out.why)]);
    }
    Some(section)
}

fn snapshot(report: &Report) -> Option<Section> {
    let snapshot = report.facts.snapshot.as_ref()?;
    let mut section = Section::new("Snapshot", "").pairs();
    section.pair("Id", Cell::code(&snapshot.id));
    section.pair(
        "Taken",
        Cell::plain(format!("{} to {}", snapshot.taken_started, snapshot.taken_finished))
            .note(format!("by host {}", snapshot.host)),
    );
    let storage = snapshot.storage_version.as_deref().map(|version| format!(", storage version {version}")).unwrap_or_default();
    let member = format!("{} ({})", snapshot.member_name, snapshot.member_id);
    section.pair("From member", Cell::plain(member).note(format!("etcd {}{storage}", snapshot.etcd_version)));
    section.pair("etcd cluster id", Cell::code(&snapshot.lineage));
    section.pair("Revision", Cell::plain(snapshot.revision).note(format!("compacted at {}", snapshot.compact_revision)));
    section.pair("Image", Cell::plain(human_bytes(snapshot.image_bytes)).note(format!("sha256 {}", snapshot.image_sha256)));
    section.pair(
        "Stored object",
        Cell::code(&snapshot.object_key).note(format!(
            "{}, sha256 {}",
            human_bytes(snapshot.object_bytes),
            snapshot.object_sha256
        )),
    );
    if let Some(image) = &report.facts.image {
        section.pair("Read from", Cell::plain(&image.store));
    }
    section.pair("Manifest", Cell::code(&snapshot.manifest.key).note(format!("sha256 {}", snapshot.manifest.sha256)));
    section.pair("Verified", Cell::plain(format!("signature of {}, before a field was read", snapshot.signer)));
    section.pair("Quality", Cell::plain(&snapshot.quality));
    for problem in &snapshot.problems {
        section.row(
            Tone::Doubt,
            [
                Cell::plain("Problem when taken"),
                Cell::plain(&problem.message).note(format!("{}, {} times", problem.code, problem.count)),
            ],
        );
    }
    for alarm in report.facts.structure.iter().flat_map(|structure| &structure.alarms) {
        section.row(Tone::Doubt, [Cell::plain("Alarm in the snapshot"), Cell::plain(alarm)]);
    }
    Some(section)
}

fn environment(report: &Report) -> Option<Section> {
    let facts = &report.facts;
    let mut section = Section::new("Restored with", "").pairs();
    if let Some(restore) = &facts.restore {
        section.pair(
            "Data directory",
            Cell::plain(human_bytes(restore.data_bytes)).note(format!("by {}, token {}", restore.tool, restore.token)),
        );
    }
    if let Some(etcd) = &facts.etcd {
        section.pair("etcd", Cell::plain(&etcd.version).note(format!("member {}", etcd.member_id)));
    }
    if let Some(apiserver) = &facts.apiserver {
        section.pair(
            "kube-apiserver",
            Cell::plain(&apiserver.version).note(format!(
                "ready after {}, prefix {}",
                human(apiserver.ready_ms),
                apiserver.prefix
            )),
        );
    }
    if let Some(encryption) = &facts.encryption {
        let from = encryption.host.as_deref().map_or_else(|| "no host record".to_owned(), |host| format!("order of host {host}"));
        section.pair("EncryptionConfiguration", Cell::plain(from));
        for rule in &encryption.rules {
            section.pair("", Cell::plain(rule.resources.join(", ")).note(rule.providers.join(" → ")));
        }
    }
    for tool in &facts.tools {
        section.pair("Program", Cell::plain(format!("{} {}", tool.name, tool.version)));
    }
    for evidence in &facts.evidence {
        section.pair("Evidence", Cell::plain(&evidence.name).note(format!("sha256 {}", evidence.sha256)));
    }
    (!section.rows.is_empty()).then_some(section)
}

fn identity_section(report: &Report) -> Option<Section> {
    let identity = &report.identity;
    let mut section = Section::new("Identity", "").pairs();
    section.pair("Report and run", Cell::code(&identity.run));
    let short = identity.cluster_short_id.as_deref().unwrap_or("not read");
    section.pair("Cluster", Cell::plain(&identity.cluster).note(format!("short id {short}")));
    section.pair("Environment", Cell::plain(&identity.environment));
    section.pair(
        "Type of test",
        Cell::plain(format!("rehearsal to rung {}", report.verdict.asked)).note(format!(
            "started by: {}, {}",
            identity.trigger,
            if identity.attended { "attended" } else { "unattended" }
        )),
    );
    if let Some(incident) = &identity.incident {
        section.pair("Incident declared for", Cell::plain(incident));
    }
    section.pair(
        "Runbook",
        Cell::plain(&identity.runbook_title).note(format!("{}, sha256 {}", identity.runbook, identity.runbook_sha256)),
    );
    section.pair("Owner of the runbook", Cell::plain(&identity.runbook_owner));
    section.pair("Host", Cell::plain(&identity.host).note(&identity.tool));
    section.pair("Times", Cell::plain("UTC by this host's clock; durations are monotonic"));
    section.pair("Exit code", Cell::plain(report.verdict.exit));
    Some(section)
}

fn title<'r>(report: &'r Report, step: &'r str) -> &'r str {
    report.steps.iter().find(|known| known.id == step).map_or(step, |known| known.title.as_str())
}

fn word(result: StepResult) -> &'static str {
    match result {
        StepResult::Passed => "passed",
        StepResult::Failed => "FAILED",
        StepResult::Unknown => "unknown",
        StepResult::NotRun => "not run",
        StepResult::NotAsked => "not asked",
        StepResult::Waiting => "waiting",
        StepResult::NotExercised => "not exercised",
    }
}

fn tone(result: StepResult) -> Tone {
    match result {
        StepResult::Passed => Tone::Good,
        StepResult::Failed => Tone::Bad,
        StepResult::Unknown | StepResult::Waiting => Tone::Doubt,
        StepResult::NotRun | StepResult::NotAsked | StepResult::NotExercised => Tone::Muted,
    }
}

fn listed(items: &[String]) -> Text {
    if items.is_empty() { "none".into() } else { items.join(", ").into() }
}
