//! Every stable code that an operator can meet, with its exit code, meaning and
//! usual next action. `docs/errors.md` is generated from this table by a test.

use super::exit::Exit;

/// A stable error code.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// `area.object.what`, never changed once released.
    pub name: &'static str,
    pub exit: Exit,
    /// May the same call succeed later without anyone changing anything?
    pub transient: bool,
    pub meaning: &'static str,
    /// The one thing to do next.
    pub next: &'static str,
}

macro_rules! codes {
    ($($ident:ident = $name:literal, $exit:ident, $transient:literal, $meaning:literal, $next:literal;)*) => {
        $(#[doc = $meaning]
        pub static $ident: Code = Code { name: $name, exit: Exit::$exit, transient: $transient, meaning: $meaning, next: $next };)*

        /// All codes, in the order of the table.
        pub static ALL: &[&Code] = &[$(&$ident),*];
    };
}

// ident = name, exit, may succeed later by itself, meaning, next action
codes! {
    CONFIG_INVALID = "config.invalid", Usage, false, "the configuration has mistakes; all of them are listed", "correct the lines shown; config.example.toml explains every key";
    CONFIG_UNREADABLE = "config.unreadable", Usage, false, "the configuration file cannot be read", "check the path given by --config and its permissions";
    CONFIG_NOT_SEPARATED = "config.not-separated", Usage, false, "snapshots and keys would share a place, a credential or a recipient", "give the two sections named different places, credentials and recipients";
    CONFIG_SECTION_MISSING = "config.section-missing", Usage, false, "this command needs a section that the configuration does not have", "add what is named to the configuration, or run the command on a host that has it";
    USAGE = "usage", Usage, false, "the command line is wrong", "see holdfast --help";
    OUTPUT = "output", CouldNotRun, false, "the answer could not be written", "check where the output goes";
    INTERRUPTED = "interrupted", Interrupted, true, "stopped by a signal; nothing half done is visible", "run the command again";
    STATE_UNUSABLE = "state.unusable", CouldNotRun, false, "the state directory cannot be used", "check that the directory exists, is writable and has free space";
    STATE_LOCKED = "state.locked", CouldNotRun, true, "another holdfast holds the lock on the state directory", "wait until the other command ends";
    STORE_NOT_FOUND = "store.not-found", CouldNotRun, false, "the object does not exist in the store", "check the name; holdfast list shows what exists";
    STORE_DENIED = "store.denied", CouldNotRun, false, "the store refused the credential for this operation", "grant the operation named to this credential, or use another host";
    STORE_EXISTS = "store.exists", CouldNotRun, false, "the name is taken; objects are never overwritten", "run the command again: it chooses a new name";
    STORE_UNREACHABLE = "store.unreachable", CouldNotRun, true, "the store did not answer", "check the store and the network, then run the command again";
    STORE_FULL = "store.full", CouldNotRun, false, "the store has no room for the object", "free space in the store";
    STORE_BROKEN = "store.broken", CouldNotRun, false, "the store answered with something that makes no sense", "check the store named";
    STORE_CREDENTIAL = "store.credential", Usage, false, "the credential of a store is missing or malformed", "correct what the credentials section of the store names";
    STORE_TLS = "store.tls", CouldNotRun, false, "the store's certificate was not accepted", "check the certificate of the endpoint, and name its authority as ca of the store";
    STORE_ALTERED = "store.altered", Bad, false, "an object differs from what its signed record says", "treat the store as damaged or tampered with; choose another snapshot";
    ETCD_UNREACHABLE = "etcd.unreachable", CouldNotRun, true, "no etcd endpoint answered", "check that etcd runs and that endpoints and certificates are right";
    ETCD_TLS = "etcd.tls", CouldNotRun, false, "TLS with etcd failed", "check etcd.ca, etcd.cert and etcd.key against the member's certificate";
    ETCD_NO_MEMBER = "etcd.no-member", CouldNotRun, true, "no member is fit to stream from", "repair the cluster, or say why it must be taken all the same with --degraded";
    ETCD_DENIED = "etcd.denied", CouldNotRun, false, "etcd refused the client", "use a certificate or user with the root role";
    ETCD_STREAM_BROKEN = "etcd.stream.broken", CouldNotRun, true, "the snapshot stream ended with an error", "look at the member's log, then run the command again";
    ETCD_STREAM_STALLED = "etcd.stream.stalled", CouldNotRun, true, "the snapshot stream stopped moving", "look at the member's disk and log, then run the command again";
    ETCD_STREAM_EMPTY = "etcd.stream.empty-messages", CouldNotRun, false, "the member sends empty messages: it cannot read its own database", "check the member's disk; take the snapshot from another member";
    ETCD_STREAM_SHORT = "etcd.stream.short", CouldNotRun, true, "the stream ended before the announced length", "run the command again; look at the member's log if it repeats";
    ETCD_STREAM_DIGEST = "etcd.stream.digest", CouldNotRun, false, "the image does not match the digest that etcd sent with it", "check the member's memory and disk; take the snapshot from another member";
    BACKUP_IMAGE_TOO_LARGE = "backup.image.too-large", CouldNotRun, false, "the image is larger than the limit for memory", "raise backup.image_limit, or defragment etcd";
    BACKUP_IMAGE_BROKEN = "backup.image.broken", CouldNotRun, false, "the image's structure is damaged", "take the snapshot from another member and check this one";
    BACKUP_ENCRYPTION_CONFIG = "backup.encryption-config.unreadable", Bad, false, "the EncryptionConfiguration cannot be read", "check backup.encryption_config";
    BACKUP_CLOCK = "backup.clock", Bad, false, "this host's clock and the snapshot store's are apart", "set this host's clock; a time service keeps it right";
    BACKUP_RESTORE_MD = "backup.restore-md", CouldNotRun, false, "RESTORE.md cannot be written", "report this as a defect of holdfast";
    ESCROW_UNREACHABLE = "escrow.unreachable", Bad, true, "keys could not be deposited before the deadline", "repair the escrow store; the deposit is tried again by the next snapshot";
    ESCROW_GAP = "escrow.gap", Bad, false, "live objects need a key that escrow does not hold, or that does not open them", "on a control-plane host put the key into backup.encryption_config and take a snapshot: that deposits it";
    ESCROW_KEY_MISSING = "escrow.key-missing", Bad, false, "escrow has no record that opens to this key", "on a control-plane host put the key into backup.encryption_config and take a snapshot: that deposits it";
    ESCROW_NOT_OPENED = "escrow.not-opened", Bad, false, "no sealed record of the key opens to it with the identity given", "on a control-plane host put the key into backup.encryption_config and take a snapshot: that deposits it";
    IDENTITY_UNREADABLE = "identity.unreadable", CouldNotRun, false, "an age identity cannot be read", "check the identity file and its permissions";
    IDENTITY_NOT_A_RECIPIENT = "identity.not-a-recipient", CouldNotRun, false, "nothing is sealed to the identity given, so it cannot tell whether it opens", "use the identity file that belongs to one of the recipients named";
    SIGNING_KEY_UNUSABLE = "signing.key-unusable", CouldNotRun, false, "the signing key cannot be used", "make one with ssh-keygen -t ed25519 -N '' and name it in host.signing_key";
    ALLOWED_SIGNERS_INVALID = "signing.allowed-signers", Usage, false, "the list of allowed signers cannot be read or has mistakes", "correct the line named; ssh-keygen(1), ALLOWED SIGNERS, explains the format";
    SIGNING_NOT_ALLOWED = "signing.not-allowed", Usage, false, "records signed by this host would not be believed", "add this host's name and its public key to allowed_signers, on every host";
    RECORD_UNSIGNED = "record.unsigned", Bad, false, "a record has no signature", "find out who wrote it; it is not believed";
    RECORD_BAD_SIGNATURE = "record.bad-signature", Bad, false, "a record's signature is wrong or its signer is not allowed", "find out who wrote it; check allowed_signers";
    RECORD_MISPLACED = "record.misplaced", Bad, false, "a record lies at another path than it says", "find out who moved it; it is not believed";
    RECORD_INVALID = "record.invalid", Bad, false, "a record cannot be parsed", "check the version of holdfast that wrote it";
    LEDGER_UNREACHABLE = "ledger.unreachable", CouldNotRun, true, "the ledger did not answer; records wait in the outbox", "repair the ledger; the next command delivers what waits";
    LEDGER_CHAIN_GAP = "ledger.chain.gap", Bad, false, "records of a signer are missing from the ledger", "find out who removed them; a record that still waits in an outbox closes the gap when it is delivered";
    LEDGER_CHAIN_FORK = "ledger.chain.fork", Bad, false, "a signer has two records with one number", "find out whether its key or its state directory was copied";
    LEDGER_CHAIN_BROKEN = "ledger.chain.broken", Bad, false, "a record is not the one that the signer's next record was written after", "find out who overwrote it; the ledger was changed after the fact";
    LEDGER_RECORD_VANISHED = "ledger.record-vanished", Bad, false, "a record that this host has seen in the ledger is not there any more", "find out who removed or replaced it";
    CATALOG_BROKEN = "catalog.broken", CouldNotRun, false, "the catalog cannot be used", "run holdfast catalog rebuild";
    SNAPSHOT_UNKNOWN = "snapshot.unknown", CouldNotRun, false, "no snapshot has this id", "holdfast list shows what exists";
    SNAPSHOT_AMBIGUOUS = "snapshot.ambiguous", Usage, false, "more than one snapshot has an id that starts so", "give more of the id";
    SNAPSHOT_NONE = "snapshot.none", CouldNotRun, false, "there is no snapshot yet", "take one with holdfast snapshot";
    SNAPSHOT_ALTERED = "snapshot.altered", Bad, false, "the stored object differs from its signed manifest", "treat the object as lost; rehearse another snapshot";
    SNAPSHOT_NOT_OPENED = "snapshot.not-opened", Bad, false, "the stored object does not open with an identity that its manifest names", "treat the object as lost; rehearse another snapshot";
    INSPECT_UNREADABLE = "inspect.unreadable", CouldNotRun, false, "the file cannot be read", "check the path and its permissions";
    INSPECT_CONFIG = "inspect.encryption-config", Usage, false, "an EncryptionConfiguration given has mistakes", "correct the file named";
    RUNBOOK_INVALID = "runbook.invalid", Usage, false, "a runbook has mistakes; all of them are listed", "correct the lines shown";
    RUNBOOK_UNKNOWN = "runbook.unknown", Usage, false, "no runbook has this id", "check the id and the runbooks directory";
    RUN_UNKNOWN = "run.unknown", CouldNotRun, false, "no run has this id", "holdfast show ID lists the runs of a snapshot";
    RUN_AMBIGUOUS = "run.ambiguous", Usage, false, "more than one run has an id that starts so", "give more of the id";
    RUN_JOURNAL = "run.journal", CouldNotRun, false, "the journal refuses an illegal transition", "run holdfast catalog rebuild and start a new run";
    RUN_STEP_TIMEOUT = "run.step-timeout", CouldNotRun, true, "a step of the run did not end in its time", "look at what the step waits for, or raise its timeout in the runbook";
    RUN_REFUSED = "run.refused", Bad, false, "a person refused to approve a step", "read the note in the report; start another run when what it names is settled";
    RUN_BY_HAND = "run.by-hand", Bad, false, "a person could not do a step, or found its criterion not met", "read the note in the report, and do the step as the runbook says";
    RUN_STEP_UNKNOWN = "run.step-unknown", Usage, false, "the runbook has no such step", "holdfast runbook show ID lists the steps of a runbook";
    RUN_STEP_NOT_OPEN = "run.step-not-open", CouldNotRun, false, "the step waits for nobody", "holdfast runbook list shows what waits, and for whom";
    RUN_ANSWERED = "run.answered", CouldNotRun, false, "the step has its answer already", "holdfast runbook list shows what waits; what else there is to say can be noted with holdfast runbook note";
    RUN_FINISHED = "run.finished", CouldNotRun, false, "the run has finished: nothing is added to its journal any more", "read its report with holdfast report RUN";
    RUN_ASKS_PEOPLE = "run.asks-people", Usage, false, "the run asks people, and this command asks nobody", "go on with it by holdfast runbook resume RUN";
    REPORT_TEMPLATE = "report.template", CouldNotRun, false, "the report cannot be rendered as HTML", "render it as Markdown or JSON, and report the mistake";
    TOOL_MISSING = "tool.missing", CouldNotRun, false, "a program that this step needs is not there", "run make tools, or set rehearsal.tools or HOLDFAST_TOOLS";
    TOOL_VERSION = "tool.version", CouldNotRun, false, "a program has a version that does not fit the snapshot", "provide the version named";
    TOOL_FAILED = "tool.failed", CouldNotRun, false, "a program that this step runs failed", "read the lines of its log that are shown";
    SANDBOX_FAILED = "sandbox.failed", CouldNotRun, false, "the scratch environment could not be made", "check that the host allows namespaces, or run without root";
    RESTORE_FILE_SEALED = "restore.file-sealed", CouldNotRun, false, "the file is sealed, and no identity was given to open it", "name the identity file of one of its recipients with --identity";
    RESTORE_KEY_MISSING = "restore.key-missing", Bad, false, "live objects need a key that was not given with the file", "give the EncryptionConfiguration that has the key named with --encryption-config, or its sealed record with --escrow-record";
    RESTORE_TARGET = "restore.target", CouldNotRun, false, "the place cannot take what is to be written; nothing was touched", "name a directory that is absent or empty, with room, and that this user can write to";
    RESTORE_MEMBER = "restore.member", Usage, false, "the member's name or URLs make no cluster", "name the member as it stands in --initial-cluster, with URLs as https://HOST:PORT";
    SCRATCH_UNKNOWN = "scratch.unknown", CouldNotRun, false, "no scratch environment has this name", "holdfast scratch list shows what is up and what a crash left";
    SCRATCH_AMBIGUOUS = "scratch.ambiguous", Usage, false, "more than one scratch environment is meant", "name one that holdfast scratch list shows, or say --all";
    SCRATCH_BUSY = "scratch.busy", CouldNotRun, false, "a rehearsal is at work there", "let it end, or interrupt the command or daemon that runs it";
    REHEARSAL_UNDECRYPTABLE = "rehearsal.undecryptable", Bad, false, "live objects do not open with the keys in escrow", "find the key named; on a control-plane host put the key into backup.encryption_config and take a snapshot: that deposits it";
    REHEARSAL_STRUCTURE = "rehearsal.structure", Bad, false, "the stored image is damaged", "rehearse another snapshot; treat this one as lost";
    REHEARSAL_HASH = "rehearsal.hash", Bad, false, "the restored member's contents differ from the manifest", "rehearse another snapshot; check the etcd versions";
    REHEARSAL_COUNT = "rehearsal.count", Bad, false, "the API server returns other objects than the snapshot holds", "read the resources named in the report";
    REHEARSAL_NOT_READY = "rehearsal.not-ready", Bad, false, "a restored component did not become ready", "read the lines of its log that are shown";
    REHEARSAL_NO_OBJECTS = "rehearsal.no-objects", CouldNotRun, false, "the snapshot holds no object that the API server could return", "check that etcd.endpoints names the etcd of a Kubernetes cluster";
    REHEARSAL_KMS = "rehearsal.kms", CouldNotRun, false, "live objects are encrypted through a KMS that a rehearsal cannot ask", "prove this snapshot where the KMS answers";
    DEMO_DIRECTORY = "demo.directory", Usage, false, "the demo directory must be absent or empty", "choose another HOLDFAST_DEMO_DIR";
    DEMO_UNEXPECTED = "demo.unexpected", Bad, false, "a step of the demo did not end as it should", "read the output above";
    SNAPSHOT_NOT_GOOD = "snapshot.not-good", Bad, false, "a snapshot was stored that cannot be counted on", "holdfast show ID names its problems; take another when they are solved";
    WORK_RUNNING = "work.running", CouldNotRun, true, "another holdfast on this host does the same work", "wait until it ends, then run the command again";
    DAEMON_RUNNING = "daemon.running", CouldNotRun, false, "another daemon works on this state directory", "use the daemon that runs; a second one needs a state directory of its own";
    DAEMON_LISTEN = "daemon.listen", CouldNotRun, false, "the address for /healthz and /metrics cannot be used", "free the port, or set daemon.listen to another one";
    DAEMON_NOTHING_SCHEDULED = "daemon.nothing-scheduled", Usage, false, "the configuration gives the daemon nothing to do", "set schedule.snapshot or schedule.rehearsal; config.example.toml shows both";
    DAEMON_RESTART_NEEDED = "daemon.restart-needed", Usage, false, "a running daemon cannot take this change over", "restart the daemon, or take the change back";
    DAEMON_JOB_DEADLINE = "daemon.job-deadline", CouldNotRun, true, "a scheduled job did not end in its time and was stopped", "look at what it waits for, or raise the deadline in [daemon]";
    DAEMON_JOB_PANICKED = "daemon.job-panicked", CouldNotRun, false, "a scheduled job hit a defect of holdfast", "report the message as a defect; the job is tried again";
}

impl Code {
    /// Is this a person's word, which ends a run and judges no data?
    #[must_use]
    pub fn is_of_people(&self) -> bool {
        [&RUN_REFUSED, &RUN_BY_HAND].contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let mut names: Vec<_> = ALL.iter().map(|code| code.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for code in ALL {
            assert!(code.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'-'), "{}", code.name);
            assert!(!code.next.is_empty() && !code.meaning.is_empty());
        }
    }
}
