//! What lies inside a sealed image, opened with stock tools and read natively.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use holdfast::k8s::encryption_config::{EncryptionConfig, NamedConfig};
use holdfast::k8s::object::secret_data;
use holdfast::scan::objects::read_objects;

use super::show::Show;

/// The image of a snapshot, opened with `age` and `zstd`, without its digest.
#[allow(clippy::disallowed_methods)] // stock tools
pub fn open(show: &Show, snapshot: &Path) -> Vec<u8> {
    let identity = show.folder.join("hosts/rehearsal-1/snapshots-identity.txt");
    let script = "set -o pipefail; age --decrypt -i \"$1\" \"$2\" | zstd -dqc";
    let object = snapshot.join("etcd.db.zst.age");
    let output =
        Command::new("bash").args(["-c", script, "open"]).arg(identity).arg(object).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut image = output.stdout;
    image.truncate(image.len() - 32);
    image
}

/// Every value of every Secret in an image, as `namespace/name/entry`.
pub fn secret_values(image: &[u8], config: EncryptionConfig) -> BTreeMap<String, Vec<u8>> {
    let configs = [NamedConfig { name: "test".into(), config }];
    let mut values = BTreeMap::new();
    let read = read_objects(image, &configs, &mut |object| {
        let data = object.body.filter(|_| object.resource == "secrets").and_then(secret_data);
        for (entry, value) in data.into_iter().flatten() {
            values.insert(format!("{}/{}/{entry}", object.namespace, object.name), value.expose().clone());
        }
    });
    assert_eq!(read.unwrap().failed, 0);
    values
}
