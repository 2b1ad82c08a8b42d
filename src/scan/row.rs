//! Rows of etcd's bucket `key`: a revision, and what happened to one key there.

use crate::k8s::wire;

/// `main`, an underscore, `sub`.
const PUT_KEY: usize = 17;
/// The same and [`TOMBSTONE`].
const TOMBSTONE_KEY: usize = 18;
const SEPARATOR: u8 = b'_';
const TOMBSTONE: u8 = b't';

/// Bytes that etcd itself would refuse to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadRow(pub &'static str);

/// A store revision and the place within its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    pub main: i64,
    pub sub: i64,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub revision: Revision,
    /// The key was deleted at this revision.
    pub is_tombstone: bool,
    /// Empty in the row that `etcdutl snapshot restore --bump-revision` adds.
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> Row<'a> {
    pub(super) fn read(bolt_key: &[u8], record: &'a [u8]) -> Result<Self, BadRow> {
        let (revision, is_tombstone) = Revision::read_key(bolt_key)?;
        let (key, value) = read_key_value(record)?;
        Ok(Self { revision, is_tombstone, key, value })
    }

    /// The row of a put whose bolt key and value lie side by side.
    pub(super) fn of_put(pair: &'a [u8]) -> Result<Self, BadRow> {
        let (key, record) = pair.split_at_checked(PUT_KEY).ok_or(BadRow("a revision is cut short"))?;
        Self::read(key, record)
    }
}

impl Revision {
    /// Reads 17 bytes, as buckets `key` and `meta` hold them.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, BadRow> {
        match Self::read_key(bytes)? {
            (revision, false) => Ok(revision),
            (_, true) => Err(BadRow("a revision of impossible length")),
        }
    }

    fn read_key(bytes: &[u8]) -> Result<(Self, bool), BadRow> {
        let is_tombstone = match (bytes.len(), bytes.last()) {
            (PUT_KEY, _) => false,
            (TOMBSTONE_KEY, Some(&TOMBSTONE)) => true,
            _ => return Err(BadRow("a revision of impossible length")),
        };
        let (Some(main), Some(sub)) = (bytes.first_chunk(), bytes.get(9..17).and_then(<[u8]>::first_chunk)) else {
            return Err(BadRow("a revision is cut short"));
        };
        let revision = Self { main: i64::from_be_bytes(*main), sub: i64::from_be_bytes(*sub) };
        if bytes.get(8) != Some(&SEPARATOR) || revision.main < 0 || revision.sub < 0 {
            return Err(BadRow("an impossible revision"));
        }
        Ok((revision, is_tombstone))
    }
}

/// Key and value of an `mvccpb.KeyValue`; absent fields are empty.
fn read_key_value(record: &[u8]) -> Result<(&[u8], &[u8]), BadRow> {
    let bad = BadRow("a record is no key-value message");
    let (mut key, mut value) = (&[][..], &[][..]);
    for field in wire::fields(record) {
        let field = field.map_err(|_| bad)?;
        match field.number {
            1 => key = field.bytes().map_err(|_| bad)?,
            5 => value = field.bytes().map_err(|_| bad)?,
            2 | 3 | 4 | 6 => {
                field.varint().map_err(|_| bad)?;
            }
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(main: i64, sub: i64, tail: &[u8]) -> Vec<u8> {
        [&main.to_be_bytes()[..], b"_", &sub.to_be_bytes(), tail].concat()
    }

    #[test]
    fn rows_read_as_etcd_writes_them() {
        let record = b"\x0a\x0fcompact_rev_key\x10\x02\x18\x02\x20\x01\x2a\x012";
        let row = Row::read(&key(2, 0, b""), record).unwrap();
        assert_eq!((row.revision, row.is_tombstone), (Revision { main: 2, sub: 0 }, false));
        assert_eq!((row.key, row.value), (&b"compact_rev_key"[..], &b"2"[..]));
        assert!(Row::read(&key(3, 1, b"t"), b"\x0a\x01k").unwrap().is_tombstone);
        let bump = Row::read(&key(1028, 0, b""), b"").unwrap();
        assert_eq!((bump.key, bump.value), (&b""[..], &b""[..]));
    }

    #[test]
    fn impossible_rows_are_refused() {
        for bad in [key(2, 0, b"x"), key(2, 0, b"tt"), key(-1, 0, b""), key(2, -1, b""), vec![], vec![0; 17]] {
            assert!(Row::read(&bad, b"").is_err(), "{bad:?}");
        }
        for bad in [&b"\x0a\x05abc"[..], b"\x08\x01", b"\x2a", b"\x12\x01x"] {
            assert_eq!(Row::read(&key(2, 0, b""), bad).unwrap_err(), BadRow("a record is no key-value message"));
        }
    }
}
