//! Objects as CBOR: custom resources of API servers with that alpha feature on.
//!
//! Kubernetes writes items of definite length only, and text as byte strings.
//! Skipping is a loop, not a recursion, so nesting costs nothing.

use std::borrow::Cow;

use super::{Encoding, ObjectIdentity};

/// The tag "self-described CBOR".
const MAGIC: &[u8] = &[0xd9, 0xd9, 0xf7];

pub(super) fn identity(bytes: &[u8]) -> Option<ObjectIdentity<'_>> {
    let mut items = Items { rest: bytes.strip_prefix(MAGIC)? };
    let mut identity = ObjectIdentity {
        encoding: Encoding::Cbor,
        api_version: Cow::Borrowed(""),
        kind: Cow::Borrowed(""),
        namespace: Cow::Borrowed(""),
        name: Cow::Borrowed(""),
        uid: Cow::Borrowed(""),
        created: None,
    };
    for _ in 0..items.map()? {
        match items.text()? {
            "apiVersion" => identity.api_version = Cow::Borrowed(items.text()?),
            "kind" => identity.kind = Cow::Borrowed(items.text()?),
            "metadata" => metadata(&mut items, &mut identity)?,
            _ => items.skip()?,
        }
    }
    // Bytes after the object would make it another one to another reader.
    items.rest.is_empty().then_some(identity)
}

fn metadata<'a>(items: &mut Items<'a>, identity: &mut ObjectIdentity<'a>) -> Option<()> {
    for _ in 0..items.map()? {
        match items.text()? {
            "name" => identity.name = Cow::Borrowed(items.text()?),
            "namespace" => identity.namespace = Cow::Borrowed(items.text()?),
            "uid" => identity.uid = Cow::Borrowed(items.text()?),
            "creationTimestamp" => {
                let start = items.rest;
                items.skip()?;
                // Null when it was never set.
                identity.created = Items { rest: start }.text().and_then(|text| text.parse().ok());
            }
            _ => items.skip()?,
        }
    }
    Some(())
}

struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// The number of entries of the map that begins here.
    fn map(&mut self) -> Option<u64> {
        match self.head()? {
            (5, entries) => Some(entries),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&'a str> {
        match self.head()? {
            (2 | 3, length) => std::str::from_utf8(self.take(length)?).ok(),
            _ => None,
        }
    }

    /// Passes one item with all that it holds. Each turn takes a byte at least, so it ends.
    fn skip(&mut self) -> Option<()> {
        let mut pending = 1_u64;
        while pending > 0 {
            pending -= 1;
            let inside = match self.head()? {
                (0 | 1 | 7, _) => 0,
                (2 | 3, length) => {
                    self.take(length)?;
                    0
                }
                (4, items) => items,
                (5, entries) => entries.checked_mul(2)?,
                _ => 1,
            };
            pending = pending.checked_add(inside)?;
        }
        Some(())
    }

    /// Major type and argument of the next item.
    fn head(&mut self) -> Option<(u8, u64)> {
        let first = *self.take(1)?.first()?;
        let width = match first & 0x1f {
            small @ 0..24 => return Some((first >> 5, u64::from(small))),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            // 31 is an indefinite length, which Kubernetes forbids; the others do not exist.
            _ => return None,
        };
        let argument = self.take(width)?.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some((first >> 5, argument))
    }

    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(taken)
    }
}
