//! What an object says of itself, in the three encodings that the API server stores.
//!
//! Only the identity is read, and of two kinds a little more: the renew time of
//! a Lease (the data's own clock) and the data of a Secret (to compare with an
//! API server's answer). No schema is needed for that.

mod cbor;
mod json;
mod protobuf;

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::base::secret::Secret;
use crate::k8s::resource::{Internal, Located};

/// How an object is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
    Cbor,
}

/// What an object says it is. Kind and API version are never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIdentity<'a> {
    pub encoding: Encoding,
    pub api_version: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub namespace: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub uid: Cow<'a, str>,
    pub created: Option<Timestamp>,
}

impl ObjectIdentity<'_> {
    /// The API group: what stands before the slash of the API version, empty for core.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Reads an object's identity; none when the bytes are no Kubernetes object.
#[must_use]
pub fn identity(bytes: &[u8]) -> Option<ObjectIdentity<'_>> {
    let identity = match encoding(bytes)? {
        Encoding::Protobuf => protobuf::identity(bytes)?,
        Encoding::Json => json::identity(bytes)?,
        Encoding::Cbor => cbor::identity(bytes)?,
    };
    (!identity.kind.is_empty() && !identity.api_version.is_empty()).then_some(identity)
}

/// The encoding that the first bytes announce; they alone do not make an object.
#[must_use]
pub fn encoding(bytes: &[u8]) -> Option<Encoding> {
    match bytes {
        [b'k', b'8', b's', 0, ..] => Some(Encoding::Protobuf),
        [b'{', ..] => Some(Encoding::Json),
        [0xd9, 0xd9, 0xf7, ..] => Some(Encoding::Cbor),
        _ => None,
    }
}

/// Does an object lie where it says it lies: kind (of built-ins), namespace, name?
///
/// Outside the API server's prefix nothing is known, so any object fits.
#[must_use]
pub fn fits(identity: &ObjectIdentity<'_>, located: &Located<'_>) -> bool {
    match located {
        Located::Resource(place) => {
            place.kind.is_none_or(|kind| identity.kind == kind)
                && identity.namespace == place.namespace
                && identity.name == place.name
        }
        Located::Internal(Internal { kind, .. }) => kind.is_none_or(|kind| identity.kind == kind),
        Located::Outside => true,
    }
}

/// When a Lease of `coordination.k8s.io` was last renewed; none for other objects.
#[must_use]
pub fn lease_renewed(bytes: &[u8]) -> Option<Timestamp> {
    let identity = identity(bytes)?;
    if identity.kind != "Lease" || identity.group() != "coordination.k8s.io" {
        return None;
    }
    match identity.encoding {
        Encoding::Protobuf => protobuf::lease_renewed(bytes),
        Encoding::Json => json::lease_renewed(bytes),
        Encoding::Cbor => None,
    }
}

/// The data of a Secret, decoded; none for other objects and for data that does not parse.
#[must_use]
pub fn secret_data(bytes: &[u8]) -> Option<BTreeMap<String, Secret<Vec<u8>>>> {
    let identity = identity(bytes)?;
    if identity.kind != "Secret" || identity.api_version != "v1" {
        return None;
    }
    match identity.encoding {
        Encoding::Protobuf => protobuf::secret_data(bytes),
        Encoding::Json => json::secret_data(bytes),
        Encoding::Cbor => None,
    }
}
