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

/// The type of a Secret, such as `Opaque`; none for other objects.
#[must_use]
pub fn secret_type(bytes: &[u8]) -> Option<String> {
    let identity = identity(bytes)?;
    if identity.kind != "Secret" || identity.api_version != "v1" {
        return None;
    }
    match identity.encoding {
        Encoding::Protobuf => protobuf::secret_type(bytes),
        Encoding::Json => json::secret_type(bytes),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::k8s::resource::locate;

    // All of these were written by the encoders of Kubernetes 1.34.
    const LEASE: &str = "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRJFCiwKBGNwLTESABoPa3ViZS1ub2RlLWxlYXNlIgAqAXUyADgAQggI0Im72AYQABIVCgRjcC0xECgiCwjlpbvYBhCAlO86GgAiAA==";
    const LEASE_JSON: &[u8] = br#"{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"cp-1","namespace":"kube-node-lease","uid":"u","creationTimestamp":"2026-12-01T13:00:00Z"},"spec":{"holderIdentity":"cp-1","leaseDurationSeconds":40,"renewTime":"2026-12-01T14:00:05.123456Z"}}"#;
    const SECRET: &str = "azhzAAoMCgJ2MRIGU2VjcmV0EloKHgoCZGISABoEc2hvcCIAKgAyADgAQggI0Im72AYQABIKCgNiaW4SAwD/ChIJCgVlbXB0eRIAEhkKCHBhc3N3b3JkEg1jb3JyZWN0IGhvcnNlGgZPcGFxdWUaACIA";
    const SECRET_JSON: &[u8] = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"db","namespace":"shop","creationTimestamp":"2026-12-01T13:00:00Z"},"data":{"bin":"AP8K","empty":"","password":"Y29ycmVjdCBob3JzZQ=="},"type":"Opaque"}"#;
    const MASTER_LEASE: &str = "azhzAAoPCgJ2MRIJRW5kcG9pbnRzEiIKEAoAEgAaACIAKgAyADgAQgASDgoMCggxMC4wLjAuMRoAGgAiAA==";
    const ALLOCATOR: &str = "azhzAAoVCgJ2MRIPUmFuZ2VBbGxvY2F0aW9uEiQKEAoAEgAaACIAKgAyADgAQgASDDEwLjk2LjAuMC8xMhoCAQIaACIA";
    const ISSUER_CBOR: &str = "d9d9f7a4446b696e64464973737565724473706563a2426361a14a7365637265744e616d65426361446c6973748520f93e00f5f6a0486d65746164617461a643756964582461616161616161612d303030302d343030302d383030302d303030303030303030303035446e616d65426361466c6162656c73a141614162496e616d6573706163654473686f704a67656e65726174696f6e19012c516372656174696f6e54696d657374616d7054323032362d31322d30315431333a30303a30305a4a61706956657273696f6e52636572742d6d616e616765722e696f2f7631";

    fn base64(text: &str) -> Vec<u8> {
        data_encoding::BASE64.decode(text.as_bytes()).unwrap()
    }

    fn cbor() -> Vec<u8> {
        data_encoding::HEXLOWER.decode(ISSUER_CBOR.as_bytes()).unwrap()
    }

    fn check_fit(bytes: &[u8], etcd_key: &str, expected: bool) {
        let identity = identity(bytes).unwrap();
        assert_eq!(fits(&identity, &locate("/registry", etcd_key.as_bytes())), expected, "{etcd_key}");
    }

    #[test]
    fn a_lease_tells_when_it_was_renewed() {
        let renewed = "2026-12-01T14:00:05.123456Z".parse().ok();
        assert_eq!(lease_renewed(&base64(LEASE)), renewed);
        assert_eq!(lease_renewed(LEASE_JSON), renewed);
        assert_eq!(lease_renewed(&base64(SECRET)), None);
        assert_eq!(identity(LEASE_JSON).unwrap().created, identity(&base64(LEASE)).unwrap().created);
    }

    #[test]
    fn a_secret_gives_the_same_data_from_protobuf_and_json() {
        for bytes in [base64(SECRET), SECRET_JSON.to_vec()] {
            let data = secret_data(&bytes).unwrap();
            let pairs: Vec<_> = data.iter().map(|(key, value)| (key.as_str(), value.expose().as_slice())).collect();
            assert_eq!(pairs, [("bin", &[0, 255, 10][..]), ("empty", b""), ("password", b"correct horse")]);
        }
        assert!(secret_data(&base64(LEASE)).is_none());
        assert!(secret_data(br#"{"kind":"Secret","apiVersion":"v1","data":{"x":"not base64"}}"#).is_none());
    }

    #[test]
    fn cbor_objects_say_who_they_are_too() {
        let bytes = cbor();
        let issuer = identity(&bytes).unwrap();
        assert_eq!((&*issuer.api_version, &*issuer.kind, issuer.group()), ("cert-manager.io/v1", "Issuer", "cert-manager.io"));
        assert_eq!(issuer.uid, "aaaaaaaa-0000-4000-8000-000000000005");
        assert_eq!(issuer.created, "2026-12-01T13:00:00Z".parse().ok());
        check_fit(&bytes, "/registry/cert-manager.io/issuers/shop/ca", true);
        check_fit(&bytes, "/registry/cert-manager.io/issuers/shop/cb", false);
        for cut in 0..bytes.len() {
            assert_eq!(identity(&bytes[..cut]), None, "cut at {cut}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(identity(&longer), None);
    }

    #[test]
    fn an_object_fits_only_where_kind_namespace_and_name_agree() {
        for (etcd_key, expected) in [
            ("/registry/secrets/shop/db", true),
            ("/registry/secrets/shop/other", false),
            ("/registry/secrets/prod/db", false),
            ("/registry/secrets/db", false),
            ("/registry/configmaps/shop/db", false),
            ("/registry/example.com/secrets/shop/db", true), // a kind of a custom resource is not known
            ("/registry/masterleases/10.0.0.1", false),
            ("/calico/shop/db", true), // nothing is known of other users
        ] {
            check_fit(&base64(SECRET), etcd_key, expected);
        }
        check_fit(&base64(MASTER_LEASE), "/registry/masterleases/10.0.0.1", true);
        check_fit(&base64(ALLOCATOR), "/registry/ranges/serviceips", true);
        check_fit(&base64(ALLOCATOR), "/registry/masterleases/10.0.0.1", false);
    }

    #[test]
    fn bytes_that_are_no_object_have_no_identity() {
        for bytes in [
            &b""[..],
            b"3",
            b"{}",
            b"{",
            b"k8s\0",
            b"k8s\0\x0a\x02\x0a\x00",
            b"k8s:enc:aescbc:v1:k:x",
            b"\xd9\xd9\xf7",
            br#"{"kind":"Secret"}"#,
            br#"{"apiVersion":"v1","kind":1}"#,
            br#"{"apiVersion":"v1","kind":"Secret"} {}"#,
            br#"{"apiVersion":"v1","kind":"Secret","metadata":"x"}"#,
            b"[1]",
        ] {
            assert_eq!(identity(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
