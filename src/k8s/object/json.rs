//! Objects as JSON: every custom resource, and whatever was written with JSON as storage format.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::{Encoding, ObjectIdentity};
use crate::base::secret::Secret;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "apiVersion", default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, rename = "creationTimestamp", default)]
    created: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Lease<'a> {
    #[serde(borrow)]
    spec: LeaseSpec<'a>,
}

#[derive(Deserialize)]
struct LeaseSpec<'a> {
    #[serde(borrow, rename = "renewTime")]
    renewed: Cow<'a, str>,
}

#[derive(Deserialize)]
struct SecretBody {
    #[serde(default)]
    data: Option<BTreeMap<String, Option<Encoded>>>,
    #[serde(default, rename = "type")]
    kind: String,
}

/// A value in base64, wiped on drop like what it decodes to.
struct Encoded(Zeroizing<String>);

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

pub(super) fn identity(bytes: &[u8]) -> Option<ObjectIdentity<'_>> {
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).ok()?;
    let metadata = envelope.metadata;
    Some(ObjectIdentity {
        encoding: Encoding::Json,
        api_version: envelope.api_version,
        kind: envelope.kind,
        namespace: metadata.namespace,
        name: metadata.name,
        uid: metadata.uid,
        created: metadata.created.and_then(|text| text.parse().ok()),
    })
}

pub(super) fn lease_renewed(bytes: &[u8]) -> Option<Timestamp> {
    let lease: Lease<'_> = serde_json::from_slice(bytes).ok()?;
    lease.spec.renewed.parse().ok()
}

pub(super) fn secret_type(bytes: &[u8]) -> Option<String> {
    Some(serde_json::from_slice::<SecretBody>(bytes).ok()?.kind)
}

pub(super) fn secret_data(bytes: &[u8]) -> Option<BTreeMap<String, Secret<Vec<u8>>>> {
    let body: SecretBody = serde_json::from_slice(bytes).ok()?;
    let mut data = BTreeMap::new();
    for (key, value) in body.data.unwrap_or_default() {
        let decoded = value.map(|value| data_encoding::BASE64.decode(value.0.as_bytes()).ok()).unwrap_or(Some(Vec::new()))?;
        data.insert(key, Secret::new(decoded));
    }
    Some(data)
}
