//! Every stable code that `holdfast doctor` can answer with, how bad it is, what
//! it means and what to do. `docs/doctor.md` is generated from this table by a
//! test. Where a check meets a failure that every command would meet, it answers
//! with that failure's own code.

use super::finding::Status;

/// A stable code of a finding.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// `doctor.area.what`, never changed once released.
    pub name: &'static str,
    pub status: Status,
    pub meaning: &'static str,
    /// The one thing to do next; empty where there is nothing to do.
    pub next: &'static str,
}

macro_rules! codes {
    ($($ident:ident = $name:literal, $status:ident, $meaning:literal, $next:literal;)*) => {
        $(pub const $ident: Code = Code { name: $name, status: Status::$status, meaning: $meaning, next: $next };)*

        /// All codes, in the order of this file.
        pub const ALL: &[&Code] = &[$(&$ident),*];
    };
}

codes! {
    NO_ANSWER = "doctor.no-answer", Unknown,
        "a check got no answer in time",
        "find out what hangs, and run holdfast doctor again";

    CONFIG_NOTE = "doctor.config.note", Note,
        "the configuration allows something that weakens a promise",
        "";
    CONFIG_EXAMPLE = "doctor.config.example-recipient", Error,
        "a recipient is still that of config.example.toml: nobody can open what is sealed to it",
        "make an identity with age-keygen, and put its recipient there";
    CONFIG_BOTH_ROLES = "doctor.config.both-roles", Warning,
        "one host takes snapshots and opens them: whoever is root on it reads every snapshot and every key",
        "rehearse on another host, which has no way to etcd, and remove the identity files here";
    CONFIG_READS_EVERYTHING = "doctor.config.reads-everything", Note,
        "a rehearsal host can read every snapshot and every key while its identity files are there",
        "guard it like the control plane itself";
    CONFIG_HALF_REHEARSAL = "doctor.config.half-rehearsal", Warning,
        "one of the two identity files is set: nothing can be rehearsed with one alone",
        "set both identity_file keys on a rehearsal host, and neither elsewhere";
    CONFIG_READER = "doctor.config.reader", Note,
        "this host neither takes snapshots nor rehearses them",
        "";
    FILE_MISSING = "doctor.config.file-missing", Error,
        "a file that the configuration names cannot be read",
        "put it there, or correct the key that names it";
    SECRET_READABLE = "doctor.config.secret-readable", Warning,
        "users other than its owner can read a file that holds a secret",
        "take the rights away with chmod 600";
    TRUST_WRITABLE = "doctor.config.trust-writable", Error,
        "users other than its owner can change a file that says whom to believe",
        "take the right away with chmod go-w";
    STATE_MISSING = "doctor.state.missing", Warning,
        "the state directory is not there yet: the first command that needs it makes it, if it may",
        "make it with install -d -m 700, owned by the user that runs holdfast";
    STATE_UNWRITABLE = "doctor.state.unwritable", Error,
        "nothing can be written in the state directory",
        "give it to the user that runs holdfast, on a file system that is mounted read-write";
    STATE_OPEN = "doctor.state.open-to-others", Warning,
        "other users can write in the state directory, and so decide what this host says next",
        "take the right away with chmod go-w";
    SPACE_LOW = "doctor.space.low", Warning,
        "a file system has little room left for what holdfast keeps there",
        "make room, or move the directory";
    SPACE_FULL = "doctor.space.full", Error,
        "a file system has no room left for what holdfast keeps there",
        "make room, or move the directory";
    STATE_HELD = "doctor.state.held", Note,
        "a process holds a lock in the state directory",
        "";
    NO_DAEMON = "doctor.state.no-daemon", Warning,
        "the configuration has a schedule, and no daemon works by it",
        "start it: systemctl enable --now holdfast";

    MEMBER_UNSEEN = "doctor.etcd.member-unseen", Warning,
        "a member of the cluster that is no configured endpoint does not answer from here",
        "start it, or let this host reach it: a snapshot is taken from whichever member is well";
    MEMBER_UNSTARTED = "doctor.etcd.member-unstarted", Warning,
        "a member was added to the cluster and has never started",
        "start it, or remove it with etcdctl member remove";
    ENDPOINTS_FEW = "doctor.etcd.endpoints", Note,
        "not every member is a configured endpoint",
        "list all members in etcd.endpoints: a snapshot is then taken even while one is down";
    TWO_CLUSTERS = "doctor.etcd.two-clusters", Error,
        "the configured endpoints belong to different clusters",
        "list the endpoints of one cluster only";
    NO_LEADER = "doctor.etcd.no-leader", Error,
        "a member knows no leader: the cluster takes no writes, and no snapshot is taken of it",
        "bring back a majority of the members";
    MEMBER_LAGS = "doctor.etcd.lagging", Warning,
        "a member applies entries later than others: a snapshot of it is suspect",
        "look at its disk and network";
    MEMBER_LEARNS = "doctor.etcd.learner", Note,
        "a member is a learner: no snapshot is taken of it",
        "promote it with etcdctl member promote once it has caught up";
    VERSIONS_DIFFER = "doctor.etcd.versions", Warning,
        "members run different versions",
        "finish the upgrade";
    ALARM_CORRUPT = "doctor.etcd.alarm-corrupt", Error,
        "a member found its own data damaged: every snapshot of the cluster is suspect",
        "replace the member that the alarm names, then etcdctl alarm disarm";
    ALARM_NOSPACE = "doctor.etcd.alarm-nospace", Error,
        "the cluster refuses writes, because a database reached its quota",
        "compact and defragment, then etcdctl alarm disarm";
    QUOTA_NEAR = "doctor.etcd.quota-near", Warning,
        "a database fills most of its quota: beyond it etcd refuses writes",
        "compact and defragment, or raise --quota-backend-bytes";
    IMAGE_LIMIT = "doctor.etcd.image-limit", Error,
        "the database is larger than backup.image_limit: no snapshot is taken",
        "raise backup.image_limit to what the host's memory allows, or defragment";
    IMAGE_LIMIT_NEAR = "doctor.etcd.image-limit-near", Warning,
        "the database is nearly as large as backup.image_limit, beyond which no snapshot is taken",
        "raise backup.image_limit to what the host's memory allows, or defragment";
    CERTIFICATE_UNREADABLE = "doctor.etcd.certificate-unreadable", Error,
        "a file that should hold certificates or a key in PEM does not",
        "put a PEM file there, or correct the key that names it";
    CERTIFICATE_EXPIRED = "doctor.etcd.certificate-expired", Error,
        "a certificate is beyond its last day",
        "renew it: kubeadm certs renew all, then restart the static pods; kubeadm certs check-expiration shows all of them";
    CERTIFICATE_EARLY = "doctor.etcd.certificate-early", Error,
        "a certificate's first day is yet to come, or this host's clock is wrong",
        "compare the clock with the certificate's first day";
    CERTIFICATE_ENDS = "doctor.etcd.certificate-ends", Warning,
        "a certificate ends within 30 days",
        "renew it: kubeadm certs renew all, then restart the static pods; kubeadm certs check-expiration shows all of them";
    AUTHORITY_EXPIRED = "doctor.etcd.authority-expired", Error,
        "an authority is beyond its last day: nothing that it signed is accepted",
        "replace the authority and all that it signed; kubeadm certs renew does not renew authorities";
    AUTHORITY_ENDS = "doctor.etcd.authority-ends", Warning,
        "an authority ends within 30 days",
        "replace the authority and all that it signed; kubeadm certs renew does not renew authorities";
    CERTIFICATE_USAGE = "doctor.etcd.certificate-usage", Error,
        "the certificate is not one for clients",
        "name one with the extended key usage clientAuth, such as kubeadm's etcd/healthcheck-client.crt";
    KEY_MISMATCH = "doctor.etcd.key-mismatch", Error,
        "etcd.key is not the key of etcd.cert",
        "name a pair: both change when kubeadm renews them";
    CERTIFICATE_REFUSED = "doctor.etcd.certificate-refused", Error,
        "a member refuses this host's client certificate",
        "set etcd.cert and etcd.key to a pair that etcd's authority signed and that has not expired";
    CERTIFICATE_WRONG = "doctor.etcd.certificate-wrong", Error,
        "a member's certificate is not one that this host believes",
        "name the endpoint as its certificate does, and in etcd.ca the authority that signed it";

    STORE_PUT_DENIED = "doctor.store.put-denied", Error,
        "this host must put to a store, which denies it",
        "grant its credential PutObject and AbortMultipartUpload (deploy/s3 has the policies)";
    STORE_READ_DENIED = "doctor.store.read-denied", Error,
        "this host must read from a store, which denies it",
        "grant its credential GetObject and GetObjectVersion (deploy/s3 has the policies)";
    STORE_LIST_DENIED = "doctor.store.list-denied", Error,
        "this host must list a store, which denies it",
        "grant its credential ListBucket (deploy/s3 has the policies)";
    STORE_READ_ALLOWED = "doctor.store.read-allowed", Warning,
        "a host that only puts can read back what it put: whoever takes it over has all that is sealed",
        "take GetObject from its credential (deploy/s3 has the policies)";
    STORE_LIST_ALLOWED = "doctor.store.list-allowed", Note,
        "a host that only puts can list the names in a store",
        "take ListBucket from its credential, where the store can deny it apart";
    STORE_PUT_ALLOWED = "doctor.store.put-allowed", Warning,
        "a host that only reads can put to a store: whoever takes it over can alter what others rely on",
        "take PutObject from its credential (deploy/s3 has the policies)";
    STORE_DELETE_ALLOWED = "doctor.store.delete-allowed", Error,
        "this host can delete from a store: whoever takes it over can destroy the history",
        "take DeleteObject and DeleteObjectVersion from its credential (deploy/s3 has the policies)";
    STORE_MULTIPART_DENIED = "doctor.store.multipart-denied", Warning,
        "an upload in parts cannot be begun and given up: a large image is not stored, or leaves parts behind",
        "grant its credential AbortMultipartUpload beside PutObject (deploy/s3 has the policies)";
    STORE_VERSIONS_OFF = "doctor.store.versions-off", Warning,
        "the store keeps no versions: whoever may put can overwrite, and what was there is gone",
        "switch versioning on in the bucket, with a lifecycle rule for old versions";
    STORE_VERSIONS_UNTOLD = "doctor.store.versions-untold", Note,
        "the store does not tell this credential whether it keeps versions: asked, not proven",
        "ask with the bucket owner's credential: aws s3api get-bucket-versioning";
    STORE_NOT_SEPARATED = "doctor.store.not-separated", Warning,
        "a directory grants reading, writing and deleting together: what this host put it can also destroy",
        "use a bucket whose credential may only put";
    STORE_CROSSED = "doctor.store.crossed", Error,
        "the credential of one store opens another: snapshots and keys are to be had with one theft",
        "give each bucket a policy that names its own users alone (deploy/s3 has the policies)";
    STORE_CERTIFICATE_ENDS = "doctor.store.certificate-ends", Warning,
        "the certificate of a store's endpoint ends within a week",
        "renew it at the store";

    KEY_WEAK = "doctor.keys.weak", Warning,
        "an encryption key is text: it can be guessed, and so can its fingerprint",
        "rotate to a key of random bytes: head -c 32 /dev/urandom | base64";
    KEY_NOT_IN_ESCROW = "doctor.keys.not-in-escrow", Error,
        "the API server encrypts with a key that escrow does not have",
        "run holdfast snapshot, which deposits it; if it was deposited, let holdfast doctor read the ledger";
    KEY_LOST = "doctor.keys.lost", Error,
        "a rehearsal did not find the key in escrow, and nobody deposited it since",
        "run holdfast snapshot on a host that has the key, which deposits it again";
    KEY_NEEDED = "doctor.keys.needed", Error,
        "the newest snapshot needs a key that escrow does not have",
        "find the key (an old EncryptionConfiguration, another control-plane host) and put it in the file: the next snapshot deposits it";
    KEY_NEEDED_BEFORE = "doctor.keys.needed-before", Warning,
        "older snapshots need a key that escrow does not have: they cannot be restored whole",
        "find the key (an old EncryptionConfiguration, another control-plane host) and put it in the file: the next snapshot deposits it";
    KEY_OTHER_RECIPIENTS = "doctor.keys.other-recipients", Warning,
        "a key lies in escrow for other recipients than those configured",
        "run holdfast snapshot, which deposits it for the present ones";
    KEY_OTHER_STORE = "doctor.keys.other-store", Warning,
        "a key was deposited in another store than the one that is escrow now",
        "run holdfast snapshot, which deposits it where escrow is now";
    KEY_EXTERNAL = "doctor.keys.external", Note,
        "a key cannot leave its service: a restore needs that service",
        "keep the service's own backup as long as the snapshots";
    NO_ENCRYPTION = "doctor.keys.no-encryption", Note,
        "no EncryptionConfiguration is configured: Secrets lie in etcd, and in each snapshot before it is sealed, in clear",
        "where the API server encrypts at rest, set backup.encryption_config to its file";
    SIGNS_NOTHING = "doctor.keys.signs-nothing", Error,
        "this host has no signing key, and what it does must be signed",
        "make one with ssh-keygen -t ed25519 -N '', set host.signing_key, and add its line to allowed_signers on every host";
    IDENTITY_FOREIGN = "doctor.keys.identity-foreign", Error,
        "an identity opens nothing of what is sealed",
        "name the identity file whose recipients the control-plane hosts seal to";
    IDENTITY_SHARED = "doctor.keys.identity-shared", Error,
        "one identity opens snapshots and keys",
        "make a second identity with age-keygen, for escrow alone";
    RECIPIENT_SHARED = "doctor.keys.recipient-shared", Error,
        "a snapshot and a key in escrow are sealed to the same recipient",
        "give escrow recipients of its own on the host that sealed them, and take a snapshot there";

    LEDGER_FINDING = "doctor.ledger.finding", Error,
        "something in the ledger is not believed, or is missing from it",
        "holdfast list names all of it; find out who wrote there";
    LEDGER_WAITING = "doctor.ledger.waiting", Warning,
        "records wait in the outbox of this host: other hosts do not know of them",
        "mend the store that does not take them; the next snapshot, rehearsal or daemon round delivers them";
    NO_SNAPSHOT = "doctor.ledger.no-snapshot", Warning,
        "the ledger has no snapshot of this cluster",
        "take one with holdfast snapshot";
    SLOT_MISSED = "doctor.ledger.slot-missed", Error,
        "a scheduled snapshot was due and there is no good one since",
        "run holdfast snapshot and read why it fails, and the daemon's log";
    SNAPSHOT_OLD = "doctor.ledger.snapshot-old", Warning,
        "the newest good snapshot is more than a day old, and this host has no schedule",
        "set schedule.snapshot on a control-plane host, and run holdfast daemon there";
    NO_GOOD_SNAPSHOT = "doctor.ledger.no-good-snapshot", Error,
        "no snapshot of this cluster is of good quality",
        "holdfast show latest says what is wrong with the newest";
    NOT_RESTORABLE = "doctor.ledger.not-restorable", Error,
        "the newest snapshot cannot be restored",
        "holdfast show latest says what is missing";
    NEVER_PROVEN = "doctor.ledger.never-proven", Warning,
        "no rehearsal has shown that a snapshot can be restored",
        "run holdfast rehearse on the rehearsal host";
    PROOF_OLD = "doctor.ledger.proof-old", Warning,
        "the last proven restore is long ago",
        "run holdfast rehearse on the rehearsal host, and read why its timer does not";

    CLOCK_NOT_TOLD = "doctor.clocks.not-told", Note,
        "nothing here tells whether the clock is synchronised",
        "run an NTP client such as chrony or systemd-timesyncd";
    CLOCK_OFF = "doctor.clocks.off", Warning,
        "this host's clock differs from another by more than a minute",
        "find out which of the two is wrong, and synchronise it";
    CLOCK_WRONG = "doctor.clocks.wrong", Error,
        "this host's clock differs from another by more than ten minutes: snapshots are suspect, certificates look invalid",
        "find out which of the two is wrong, and synchronise it";

    NO_FENCE = "doctor.tools.no-fence", Warning,
        "this machine raises no fence: a rehearsal runs without one, and its report says so",
        "run rehearsals as root with util-linux and iproute2 installed";
    FENCE_REQUIRED = "doctor.tools.fence-required", Error,
        "this machine raises no fence, and rehearsal.fence requires one",
        "run rehearsals as root with util-linux and iproute2 installed";
    FENCE_OFF = "doctor.tools.fence-off", Note,
        "rehearsals run without a fence, as configured",
        "set rehearsal.fence = \"auto\" where the machine allows it";
    NO_OVERLAY = "doctor.tools.no-overlay", Warning,
        "the kernel has no overlay file system: no host of its own can be made for rung cluster",
        "load it with modprobe overlay";
    NO_BRIDGE = "doctor.tools.no-bridge", Warning,
        "the kernel makes no bridge or no pair of virtual cables: no host of its own can be made for rung cluster",
        "load them with modprobe bridge and modprobe veth";
    NO_CONTROLLERS = "doctor.tools.no-controllers", Warning,
        "control groups lack what a kubelet or a limit of a rehearsal needs",
        "mount or delegate the controllers, as with Delegate=yes in the unit of holdfast";
    NO_IP = "doctor.tools.no-ip", Warning,
        "there is no ip to set up a network with: neither a fence nor a host of its own can be made",
        "install iproute2";
    NO_NODE = "doctor.tools.no-node", Warning,
        "this machine makes no host of its own for a rehearsal: rung cluster cannot be reached here",
        "see what the finding names, and run rehearsals as root";
    MEMORY_SWAPS = "doctor.tools.memory-swaps", Warning,
        "an opened image may reach the swap space: the limit on locked memory is smaller than it",
        "raise the limit (LimitMEMLOCK= of the unit, ulimit -l), or switch swap off";
    MEMORY_SHORT = "doctor.tools.memory-short", Warning,
        "less memory is free than an image needs",
        "give the host memory for the image and what else runs there";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_there_once_and_what_is_bad_says_what_to_do() {
        for (at, code) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != code.name), "{}", code.name);
            assert!(code.name.starts_with("doctor.") && !code.meaning.is_empty(), "{}", code.name);
            assert!(!code.next.is_empty() || code.status == Status::Note, "{}", code.name);
            assert!(!matches!(code.status, Status::Ok | Status::NotApplicable), "{}", code.name);
        }
    }
}
