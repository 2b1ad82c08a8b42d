//! What a step may state in the journal, in one place: the report is built from
//! these types alone.
//!
//! Every step fills only the groups it is about; a later statement of a group
//! replaces an earlier one, lists are joined. Never a key's bytes, a decrypted
//! value or a credential: names, counts, digests and fingerprints only.

use serde::{Deserialize, Serialize};

use crate::base::digest::Sha256;
use crate::record::attestation::Opening;
use crate::record::manifest::{Manifest, Problem, RecordRef, ResourceCount};

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident: $group:ident,)*) => {
        /// All that one step states; all that a whole run stated, when joined.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Facts {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$group>,)*
            /// Where this run differed from a restore of production.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub deviations: Vec<Deviation>,
            /// What this run did not cover.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub left_out: Vec<LeftOut>,
            /// Programs that were used.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub tools: Vec<ToolVersion>,
            /// What an auditor may ask to see.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub evidence: Vec<Evidence>,
        }

        impl Facts {
            /// Takes over what `later` states.
            pub fn absorb(&mut self, later: Facts) {
                $(if later.$name.is_some() { self.$name = later.$name; })*
                join(&mut self.deviations, later.deviations);
                join(&mut self.left_out, later.left_out);
                join(&mut self.tools, later.tools);
                join(&mut self.evidence, later.evidence);
            }
        }
    };
}

facts! {
    /// `fetch-manifest`: the snapshot that this run is about.
    snapshot: SnapshotFacts,
    /// `fetch-image`: the stored object, read back.
    image: ImageFacts,
    /// `check-structure`: what the bytes say.
    structure: StructureFacts,
    /// `open-keys`: every key version needed, and whether escrow gave it.
    keys: KeysFacts,
    /// `decrypt-objects`: every encrypted live object, tried.
    decryption: DecryptionFacts,
    /// `decrypt-objects`: the data's own clock, for the RPO.
    data_clock: DataClockFacts,
    /// `restore-data`: the data directory.
    restore: RestoreFacts,
    /// `start-etcd`: the member that runs it.
    etcd: EtcdFacts,
    /// `compare-hash`: contents compared at the manifest's revision.
    hash: HashFacts,
    /// `build-encryption-config`: how the API server reads.
    encryption: EncryptionFacts,
    /// `make-certificates`: throwaway authorities.
    certificates: CertificateFacts,
    /// `start-apiserver`.
    apiserver: ApiServerFacts,
    /// `read-everything`: every resource, listed.
    read: ReadFacts,
    /// Any step that starts a process: what keeps it from production.
    fence: FenceFacts,
    /// `tear-down`: what was removed.
    tear_down: TearDownFacts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFacts {
    pub id: String,
    pub cluster: String,
    /// 16 hex digits: the etcd cluster id.
    pub lineage: String,
    /// `good`, `suspect` or `incomplete`.
    pub quality: String,
    pub taken_started: String,
    pub taken_finished: String,
    pub host: String,
    pub member_id: String,
    pub member_name: String,
    pub etcd_version: String,
    pub storage_version: Option<String>,
    pub revision: i64,
    pub compact_revision: i64,
    pub hash_kv: u32,
    pub live_keys: u64,
    pub image_bytes: u64,
    pub image_sha256: Sha256,
    pub object_key: String,
    pub object_version: Option<String>,
    pub object_bytes: u64,
    pub object_sha256: Sha256,
    /// The manifest that was believed.
    pub manifest: RecordRef,
    /// Who signed the manifest; the signature was verified before parsing.
    pub signer: String,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// How the store is called by its configuration, without credentials.
    pub store: String,
    pub object_bytes: u64,
    pub object_sha256: Sha256,
    pub image_bytes: u64,
    pub image_sha256: Sha256,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructureFacts {
    /// `ok`, `missing` or `mismatch`.
    pub trailer: String,
    pub revision: i64,
    pub live_keys: u64,
    pub hash_kv: u32,
    pub resources: Vec<ResourceCount>,
    /// Live keys that are no resource, such as leases of API servers.
    pub other: Vec<OtherKeys>,
    /// `NOSPACE on <member>`: alarms survive a restore.
    pub alarms: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherKeys {
    pub prefix: String,
    pub live: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysFacts {
    pub keys: Vec<KeyFacts>,
    /// Every escrow record opened, needed or not: each opening is on record.
    pub openings: Vec<Opening>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFacts {
    pub provider: String,
    pub name: String,
    /// Null when nothing ever opened these objects.
    pub fingerprint: Option<String>,
    pub live_objects: u64,
    pub resources: Vec<String>,
    /// The record that gave the key.
    pub escrow_record: Option<RecordRef>,
    pub opened: bool,
    /// Why not, when not opened.
    pub cause: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecryptionFacts {
    /// Live objects that lie encrypted.
    pub encrypted: u64,
    /// How many of them opened to the object that their key in etcd names.
    pub opened: u64,
    /// Live objects that lie in clear text.
    pub plaintext: u64,
    /// The first of those that did not open; `encrypted - opened` is the whole number.
    pub failures: Vec<UnreadableObject>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableObject {
    /// Its key in etcd.
    pub object: String,
    pub provider: String,
    pub key_name: String,
    pub cause: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataClockFacts {
    /// RFC 3339, UTC.
    pub newest: String,
    /// Which time stamps were used, as a phrase: `newest renew time of 3 node leases`.
    pub rule: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreFacts {
    /// A fresh token keeps the member from ever joining its source.
    pub token: String,
    pub data_bytes: u64,
    /// The program and version that wrote the data directory.
    pub tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdFacts {
    pub version: String,
    /// 16 hex digits; differs from the lineage.
    pub cluster_id: String,
    pub member_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashFacts {
    pub revision: i64,
    pub compact_revision: i64,
    pub hash_expected: u32,
    pub hash_measured: u32,
    pub count_expected: u64,
    pub count_measured: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionFacts {
    /// The host whose order of providers was used; null when none was found.
    pub host: Option<String>,
    pub host_record: Option<RecordRef>,
    pub rules: Vec<EncryptionRule>,
    /// Keys that the host's order lacks and the snapshot needs; each is a deviation, too.
    pub appended: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionRule {
    pub resources: Vec<String>,
    /// In order: `aescbc key1 (hf1-…)`, `identity`.
    pub providers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFacts {
    /// Names of the throwaway authorities.
    pub authorities: Vec<String>,
    pub leaf_certificates: u64,
    /// RFC 3339, UTC.
    pub not_after: String,
    /// Does any escrowed authority or signing key take part?
    pub production_authority: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiServerFacts {
    pub version: String,
    /// `/registry`, learnt from the snapshot.
    pub prefix: String,
    /// From the start of the process to readyz.
    pub ready_ms: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFacts {
    /// All lists were asked for at exactly this revision.
    pub revision: i64,
    pub resources: Vec<ResourceRead>,
    /// Objects that lie encrypted and were read back through the API server.
    pub encrypted_read: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceRead {
    pub group: String,
    pub resource: String,
    /// Live objects in the snapshot.
    pub snapshot: u64,
    /// Objects that the API server returned; null when it could not be asked.
    pub api: Option<u64>,
    /// Why it could not be asked, or why the counts differ.
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceFacts {
    pub fenced: bool,
    /// One sentence for the report.
    pub statement: String,
    /// `network`, `mount`, `pid`, …
    pub namespaces: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TearDownFacts {
    pub processes_ended: u64,
    pub directories_removed: u64,
}

/// Where a run differed from a restore of production, and why that is right here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    pub what: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub what: String,
    pub objects: Option<u64>,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolVersion {
    pub name: String,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub name: String,
    pub sha256: Sha256,
}

impl SnapshotFacts {
    /// What a verified manifest says; `record` is where it lay and its digest.
    #[must_use]
    pub fn of(manifest: &Manifest, record: RecordRef) -> Self {
        Self {
            id: manifest.id.to_string(),
            cluster: manifest.cluster.name.to_string(),
            lineage: manifest.cluster.lineage.to_string(),
            quality: manifest.quality.as_str().to_owned(),
            taken_started: manifest.taken.started.clone(),
            taken_finished: manifest.taken.finished.clone(),
            host: manifest.taken.host.to_string(),
            member_id: manifest.taken.member.id.clone(),
            member_name: manifest.taken.member.name.clone(),
            etcd_version: manifest.taken.member.version.clone(),
            storage_version: manifest.image.storage_version.clone(),
            revision: manifest.image.revision,
            compact_revision: manifest.image.compact_revision,
            hash_kv: manifest.image.hash_kv,
            live_keys: manifest.image.live_keys,
            image_bytes: manifest.image.bytes,
            image_sha256: manifest.image.sha256,
            object_key: manifest.object.key.clone(),
            object_version: manifest.object.version_id.clone(),
            object_bytes: manifest.object.bytes,
            object_sha256: manifest.object.sha256,
            manifest: record,
            signer: manifest.signer.name.to_string(),
            problems: manifest.problems.clone(),
        }
    }
}

impl HashFacts {
    #[must_use]
    pub fn equal(&self) -> bool {
        self.hash_expected == self.hash_measured && self.count_expected == self.count_measured
    }
}

impl ResourceRead {
    #[must_use]
    pub fn equal(&self) -> bool {
        self.api == Some(self.snapshot)
    }
}

/// Appends what is not there yet: a step that ran twice states things once.
fn join<T: PartialEq>(all: &mut Vec<T>, later: Vec<T>) {
    for item in later {
        if !all.contains(&item) {
            all.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> ToolVersion {
        ToolVersion { name: name.into(), version: "1".into() }
    }

    #[test]
    fn a_later_statement_replaces_and_lists_are_joined_once() {
        let clock = |newest: &str| DataClockFacts { newest: newest.into(), rule: "r".into() };
        let mut all = Facts { data_clock: Some(clock("a")), tools: vec![tool("etcd")], ..Facts::default() };
        all.absorb(Facts { data_clock: Some(clock("b")), tools: vec![tool("etcd"), tool("age")], ..Facts::default() });
        all.absorb(Facts::default());
        assert_eq!(all.data_clock.unwrap().newest, "b");
        assert_eq!(all.tools, [tool("etcd"), tool("age")]);
    }

    #[test]
    fn facts_of_a_later_version_are_read_without_what_is_unknown() {
        let facts: Facts = serde_json::from_str(r#"{"comet":{"tail":1},"tools":[{"name":"age","version":"1"}]}"#).unwrap();
        assert_eq!(facts.tools, [tool("age")]);
        assert_eq!(serde_json::to_string(&Facts::default()).unwrap(), "{}");
    }
}
