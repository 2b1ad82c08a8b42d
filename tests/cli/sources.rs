//! What the scripted members stream, and the keys that open it.

use data_encoding::BASE64;
use holdfast::etcd::MemberStatus;
use holdfast::etcd::scripted::ScriptedSource;
use holdfast::scan::contents::Contents;
use serde_json::Value;

use crate::data;
use crate::etcd_image::EtcdImage;

/// The local providers: their keys can be deposited.
const LOCAL: [&str; 3] = ["aescbc", "aesgcm", "secretbox"];

pub struct Source {
    pub member: ScriptedSource,
}

/// A real store that holds values whose key is lost, or that were moved.
pub fn doubtful() -> Source {
    let mut file = data::bytes("tiny.snap");
    file.truncate(file.len() - 32);
    source(&file)
}

/// A store in which every encrypted value opens: two keys, four of its Secrets.
pub fn good() -> Source {
    let mut image = EtcdImage::new();
    for number in 0..40 {
        image.object(&format!("configmaps/shop/page-{number}"), "v1", "ConfigMap");
    }
    for secret in secrets().iter().filter(|secret| ["cbc-old", "cbc-new", "gcm", "box"].iter().any(|name| is(secret, name))) {
        let stored = BASE64.decode(secret["stored_b64"].as_str().unwrap().as_bytes()).unwrap();
        image.put(secret["etcd_key"].as_str().unwrap(), &stored);
    }
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "node-1", "namespace": "kube-node-lease"},
        "spec": {"renewTime": "2001-01-01T13:59:55.000000Z"}});
    image.put("/registry/leases/kube-node-lease/node-1", lease.to_string().as_bytes());
    source(&image.image())
}

fn source(image: &[u8]) -> Source {
    let member = MemberStatus {
        endpoint: "https://127.0.0.1:2379".into(),
        cluster_id: 0xfeed,
        member_id: 0xbeef,
        version: "3.6.16".into(),
        revision: Contents::read(image).unwrap().revision(),
        leader: 0xbeef,
        raft_index: 40,
        raft_applied_index: 40,
        db_bytes: image.len() as u64,
        learner: false,
        errors: vec![],
    };
    Source { member: ScriptedSource::new(vec![member], ScriptedSource::healthy(image)) }
}

fn is(secret: &Value, name: &str) -> bool {
    secret["etcd_key"].as_str().unwrap().ends_with(&format!("/{name}"))
}

fn secrets() -> Vec<Value> {
    data::json("snapshot-secrets.json").as_array().unwrap().clone()
}

/// An EncryptionConfiguration with every local key, each once.
pub fn encryption() -> String {
    let mut providers: Vec<String> = Vec::new();
    for secret in secrets() {
        let text = |field: &str| secret[field].as_str().map(str::to_owned);
        let (Some(provider), Some(name), Some(key)) = (text("provider"), text("key_name"), text("key_b64")) else { continue };
        let line = format!("  - {provider}: {{keys: [{{name: {name:?}, secret: {key:?}}}]}}\n");
        if LOCAL.contains(&provider.as_str()) && !providers.contains(&line) {
            providers.push(line);
        }
    }
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n  providers:\n{}  - identity: {{}}\n",
        providers.concat()
    )
}
