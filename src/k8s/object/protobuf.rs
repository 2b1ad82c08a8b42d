//! Objects in Kubernetes' protobuf envelope: four magic bytes, then a message
//! with the type, then the object's own message, whose field 1 is its metadata.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Encoding, ObjectIdentity};
use crate::base::secret::Secret;
use crate::k8s::wire::{Malformed, fields};

const MAGIC: &[u8] = b"k8s\0";

/// The envelope's parts.
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    /// The object's own message.
    raw: &'a [u8],
}

pub(super) fn identity(bytes: &[u8]) -> Option<ObjectIdentity<'_>> {
    let envelope = open(bytes).ok()?;
    let mut identity = ObjectIdentity {
        encoding: Encoding::Protobuf,
        api_version: Cow::Borrowed(envelope.api_version),
        kind: Cow::Borrowed(envelope.kind),
        namespace: Cow::Borrowed(""),
        name: Cow::Borrowed(""),
        uid: Cow::Borrowed(""),
        created: None,
    };
    read_object(envelope.raw, &mut identity).ok()?;
    Some(identity)
}

pub(super) fn lease_renewed(bytes: &[u8]) -> Option<Timestamp> {
    let envelope = open(bytes).ok()?;
    let spec = last_bytes(envelope.raw, 2).ok()??;
    let renewed = last_bytes(spec, 4).ok()??;
    timestamp(renewed).ok()?
}

pub(super) fn secret_data(bytes: &[u8]) -> Option<BTreeMap<String, Secret<Vec<u8>>>> {
    let envelope = open(bytes).ok()?;
    let mut data = BTreeMap::new();
    for field in fields(envelope.raw) {
        let field = field.ok()?;
        if field.number == 2 {
            let entry = field.bytes().ok()?;
            let key = last_bytes(entry, 1).ok()?.unwrap_or_default();
            let value = last_bytes(entry, 2).ok()?.unwrap_or_default();
            data.insert(std::str::from_utf8(key).ok()?.to_owned(), Secret::new(value.to_vec()));
        }
    }
    Some(data)
}

pub(super) fn secret_type(bytes: &[u8]) -> Option<String> {
    let envelope = open(bytes).ok()?;
    let kind = last_bytes(envelope.raw, 3).ok()?.unwrap_or_default();
    Some(std::str::from_utf8(kind).ok()?.to_owned())
}

fn open(bytes: &[u8]) -> Result<Envelope<'_>, Malformed> {
    let message = bytes.strip_prefix(MAGIC).ok_or(Malformed)?;
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[] };
    for field in fields(message) {
        let field = field?;
        match field.number {
            1 => {
                for part in fields(field.bytes()?) {
                    let part = part?;
                    match part.number {
                        1 => envelope.api_version = part.text()?,
                        2 => envelope.kind = part.text()?,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = field.bytes()?,
            _ => {}
        }
    }
    Ok(envelope)
}

fn read_object<'a>(raw: &'a [u8], identity: &mut ObjectIdentity<'a>) -> Result<(), Malformed> {
    // Every field is passed, so that cut bytes are not taken for an object.
    for field in fields(raw) {
        let field = field?;
        if field.number != 1 {
            continue;
        }
        for part in fields(field.bytes()?) {
            let part = part?;
            match part.number {
                1 => identity.name = Cow::Borrowed(part.text()?),
                3 => identity.namespace = Cow::Borrowed(part.text()?),
                5 => identity.uid = Cow::Borrowed(part.text()?),
                8 => identity.created = timestamp(part.bytes()?)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// A time as seconds and nanoseconds; none for the zero time, which stands for "not set".
#[allow(clippy::cast_possible_wrap)] // protobuf int64 and int32 are written as their 64-bit two's complement
fn timestamp(message: &[u8]) -> Result<Option<Timestamp>, Malformed> {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    let mut is_set = false;
    for field in fields(message) {
        let field = field?;
        match field.number {
            1 => seconds = field.varint()? as i64,
            2 => nanos = field.varint()? as i64,
            _ => continue,
        }
        is_set = true;
    }
    let nanos = i32::try_from(nanos).map_err(|_| Malformed)?;
    Ok(if is_set { Timestamp::new(seconds, nanos).ok() } else { None })
}

/// The last field of this number: protobuf lets later ones replace earlier ones.
fn last_bytes(message: &[u8], number: u32) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for field in fields(message) {
        let field = field?;
        if field.number == number {
            found = Some(field.bytes()?);
        }
    }
    Ok(found)
}
