//! Live objects one by one, with their plaintext, for proofs.
//!
//! Plaintext is lent to the visitor and wiped when it returns; nothing of it
//! stays in what is returned.

use super::contents::{Broken, Contents};
use super::data_clock::{ClockReader, DataClock};
use super::examine::{Class, Examined, Fault, KeyRing, Trial};
use super::mapped::learn_prefix;
use super::row::Row;
use crate::base::ids::Fingerprint;
use crate::k8s::encryption_config::NamedConfig;
use crate::k8s::resource::Located;

/// Failures that are kept with their names; beyond it they are only counted.
const MAX_FAILURES: usize = 1000;

/// What a live object is stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectClass {
    Plain,
    /// Encrypted with a key of the configuration.
    Local,
    /// Encrypted through a KMS, which is not asked.
    Kms,
    /// Marked as encrypted by an unknown provider, or no object at all.
    Unknown,
}

/// A live object under the API server's prefix.
#[derive(Debug, Clone, Copy)]
pub struct LiveObject<'o> {
    pub etcd_key: &'o [u8],
    /// Of its last write: what the API calls its resource version.
    pub revision: i64,
    /// Empty for core.
    pub group: &'o str,
    /// The API plural; `masterleases` or `ranges` for what has no REST endpoint.
    pub resource: &'o str,
    /// Empty when cluster-wide.
    pub namespace: &'o str,
    pub name: &'o str,
    pub has_endpoint: bool,
    pub class: ObjectClass,
    /// The key that opened it; none when it is in the clear or closed.
    pub opened_by: Option<&'o Fingerprint>,
    /// The object's bytes; none when they could not be read.
    pub body: Option<&'o [u8]>,
}

/// How reading all live objects went.
#[derive(Debug, Default)]
pub struct ObjectsRead {
    pub plain: u64,
    /// Encrypted, and opened to the object that belongs there.
    pub opened: u64,
    /// Under a KMS: not tried.
    pub untried: u64,
    pub failed: u64,
    /// The first of those that failed, in key order.
    pub failures: Vec<ObjectFailure>,
    pub clock: Option<DataClock>,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFailure {
    pub etcd_key: String,
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// Empty when the value is not encrypted, or by something unknown.
    pub provider: String,
    pub key_name: String,
    pub reason: String,
}

impl Contents<'_> {
    /// Reads every live object under the API server's prefix with the keys of
    /// all `configs`, in key order.
    pub fn read_objects(&self, configs: &[NamedConfig], visit: &mut dyn FnMut(&LiveObject<'_>)) -> ObjectsRead {
        let (ring, prefix) = (KeyRing::of(configs), learn_prefix(self));
        let mut read = ObjectsRead::default();
        let mut clock = ClockReader::default();
        for row in self.live_rows() {
            let Some(examined) = ring.examine(prefix.as_deref(), &row) else { continue };
            let object = live_object(&row, &examined);
            if let Some(body) = object.body {
                clock.look_at(object.group, object.resource, object.namespace, object.name, body);
            }
            read.count(&object, &examined);
            visit(&object);
        }
        read.clock = clock.newest();
        read
    }
}

/// [`Contents::read_objects`] of an image without its digest trailer.
///
/// # Errors
/// At the first damage; nothing was visited then.
pub fn read_objects(
    image: &[u8],
    configs: &[NamedConfig],
    visit: &mut dyn FnMut(&LiveObject<'_>),
) -> Result<ObjectsRead, Broken> {
    Ok(Contents::read(image)?.read_objects(configs, visit))
}

fn live_object<'o>(row: &Row<'o>, examined: &'o Examined<'o, 'o>) -> LiveObject<'o> {
    let (namespace, name, has_endpoint) = match examined.located {
        Located::Resource(place) => (place.namespace, place.name, true),
        Located::Internal(_) | Located::Outside => ("", "", false),
    };
    let (class, opened_by, body) = match &examined.class {
        Class::Plain => (ObjectClass::Plain, None, Some(row.value)),
        Class::Local(_, Trial::Opened(key, plaintext)) => (ObjectClass::Local, Some(key.fingerprint()), Some(plaintext.expose())),
        Class::Local(..) => (ObjectClass::Local, None, None),
        Class::KmsV1(_) | Class::KmsV2(_) => (ObjectClass::Kms, None, None),
        Class::UnknownProvider | Class::UnknownBody => (ObjectClass::Unknown, None, None),
    };
    LiveObject {
        etcd_key: row.key,
        revision: row.revision.main,
        group: &examined.group,
        resource: examined.resource,
        namespace,
        name,
        has_endpoint,
        class,
        opened_by,
        body,
    }
}

impl ObjectsRead {
    fn count(&mut self, object: &LiveObject<'_>, examined: &Examined<'_, '_>) {
        let (provider, key_name, reason) = match &examined.class {
            Class::Plain => {
                self.plain += 1;
                return;
            }
            Class::Local(_, Trial::Opened(..)) => {
                self.opened += 1;
                return;
            }
            Class::KmsV1(_) => {
                self.untried += 1;
                return;
            }
            Class::KmsV2(value) if value.envelope.is_ok() => {
                self.untried += 1;
                return;
            }
            Class::KmsV2(value) => ("kmsv2", value.name.to_string(), "its envelope is damaged".to_owned()),
            Class::Local(value, Trial::Failed(key, fault)) => (value.provider.as_str(), key.name().to_owned(), explain(*fault)),
            Class::Local(value, Trial::NoKey) => {
                let name = value.name_guess().map(|guess| guess.name.into_owned()).unwrap_or_default();
                (value.provider.as_str(), name, "no key of this provider and name was given".to_owned())
            }
            Class::UnknownProvider => ("", String::new(), "encrypted by an unknown provider".to_owned()),
            Class::UnknownBody => ("", String::new(), "neither encrypted nor a Kubernetes object".to_owned()),
        };
        self.failed += 1;
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(ObjectFailure {
                etcd_key: String::from_utf8_lossy(object.etcd_key).into_owned(),
                group: object.group.to_owned(),
                resource: object.resource.to_owned(),
                namespace: object.namespace.to_owned(),
                name: object.name.to_owned(),
                provider: provider.to_owned(),
                key_name,
                reason,
            });
        }
    }
}

/// In words of our own, since those of the API server mislead.
fn explain(fault: Fault) -> String {
    match fault {
        Fault::Closed(error) => format!("the key of this name does not open it: {error}"),
        Fault::Misfit => fault.to_string(),
    }
}
