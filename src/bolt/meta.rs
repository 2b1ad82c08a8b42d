//! Meta pages: which state of the file is read, and how large its pages are.

use super::Damage;
use super::page::{self, HEADER, u32_at, u64_at};
use super::tree::Bucket;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Size of the meta struct that follows the page header.
const META: usize = 64;
/// The freelist is not stored: etcd on Linux never stores it.
const NO_FREELIST: u64 = u64::MAX;
/// bbolt never wrote smaller pages than a disk sector.
const SMALLEST_PAGE: u64 = 512;
/// Four times the largest page size of any system that etcd runs on, and what
/// bbolt's own search for a damaged file's page size ends at.
const LARGEST_PAGE: u64 = 16 << 20;

/// A database whose meta is chosen and sound; its pages are not checked yet.
#[derive(Debug, Clone, Copy)]
pub struct Database<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) page_size: u64,
    pub(super) root: u64,
    pub(super) sequence: u64,
    pub(super) freelist: Option<u64>,
    /// One more than the highest page in use.
    pub(super) high_water: u64,
    txid: u64,
    damaged_meta: Option<u8>,
}

impl<'a> Database<'a> {
    /// Chooses the newest valid meta of `bytes`, as bbolt does.
    ///
    /// # Errors
    /// When neither meta is valid, or the chosen one does not fit the bytes.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Damage> {
        let first = Meta::read(bytes, 0, 0);
        let second = match &first {
            Ok(meta) => Meta::read(bytes, meta.page_size, 1),
            Err(_) => find_second(bytes),
        };
        let (meta, damaged) = match (first, second) {
            (Ok(first), Ok(second)) if first.page_size != second.page_size => {
                return Err(Damage::Meta("the two metas differ in page size"));
            }
            (Ok(first), Ok(second)) if second.txid > first.txid => (second, None),
            (Ok(first), Ok(_)) => (first, None),
            (Ok(first), Err(_)) => (first, Some(1)),
            (Err(_), Ok(second)) => (second, Some(0)),
            (Err(first), Err(_)) => return Err(first),
        };
        meta.into_database(bytes, damaged)
    }

    #[must_use]
    pub fn page_size(&self) -> u32 {
        u32::try_from(self.page_size).unwrap_or(u32::MAX)
    }

    /// Bytes of all pages below the high-water mark: what bbolt calls the size.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.high_water * self.page_size
    }

    /// One more than the highest page in use.
    #[must_use]
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Number of the transaction that this state belongs to.
    #[must_use]
    pub fn txid(&self) -> u64 {
        self.txid
    }

    /// The meta page that is damaged, when the state is that of the other one.
    /// In a copy made by a snapshot both metas name the same tree; in a raw
    /// copy the state may be one transaction behind.
    #[must_use]
    pub fn damaged_meta(&self) -> Option<u8> {
        self.damaged_meta
    }

    /// The bucket that holds all others. Reading it checks each page as it is
    /// entered; only [`Database::verify`] shows that all of them are sound.
    #[must_use]
    pub fn root(&self) -> Bucket<'a> {
        Bucket::at(*self, self.root, self.sequence)
    }
}

#[derive(Debug, Clone, Copy)]
struct Meta {
    page_size: u64,
    root: u64,
    sequence: u64,
    freelist: u64,
    high_water: u64,
    txid: u64,
    header_fits: bool,
}

impl Meta {
    /// Validates in bbolt's order: magic, version, checksum.
    fn read(bytes: &[u8], offset: u64, id: u64) -> Result<Self, Damage> {
        let needed = offset.saturating_add((HEADER + META) as u64);
        let too_short = Damage::TooShort { bytes: bytes.len() as u64, needed };
        let start = usize::try_from(offset).map_err(|_| too_short.clone())?;
        let Some(page) = bytes.get(start..).and_then(|rest| rest.get(..HEADER + META)) else { return Err(too_short) };
        let meta = &page[HEADER..];
        match u32_at(meta, 0) {
            MAGIC => {}
            swapped if swapped == MAGIC.swap_bytes() => return Err(Damage::BigEndian),
            _ => return Err(Damage::NotADatabase),
        }
        match u32_at(meta, 4) {
            VERSION => {}
            version => return Err(Damage::Version(version)),
        }
        if u64_at(meta, 56) != fnv1a(&meta[..56]) {
            return Err(Damage::MetaChecksum);
        }
        Ok(Self {
            page_size: u64::from(u32_at(meta, 8)),
            root: u64_at(meta, 16),
            sequence: u64_at(meta, 24),
            freelist: u64_at(meta, 32),
            high_water: u64_at(meta, 40),
            txid: u64_at(meta, 48),
            header_fits: u64_at(page, 0) == id && page::flags(page) == page::META_PAGE,
        })
    }

    fn into_database(self, bytes: &[u8], damaged_meta: Option<u8>) -> Result<Database<'_>, Damage> {
        let length = bytes.len() as u64;
        if !self.header_fits {
            return Err(Damage::Meta("its page header is damaged"));
        }
        if !self.page_size.is_power_of_two() || !(SMALLEST_PAGE..=LARGEST_PAGE).contains(&self.page_size) {
            return Err(Damage::Meta("impossible page size"));
        }
        if length < 2 * self.page_size {
            return Err(Damage::TooShort { bytes: length, needed: 2 * self.page_size });
        }
        if self.high_water <= 2 {
            return Err(Damage::Meta("no page in use"));
        }
        match self.high_water.checked_mul(self.page_size) {
            Some(needed) if needed <= length => {}
            Some(needed) => return Err(Damage::TooShort { bytes: length, needed }),
            None => return Err(Damage::Meta("impossible high-water mark")),
        }
        Ok(Database {
            bytes,
            page_size: self.page_size,
            root: self.root,
            sequence: self.sequence,
            freelist: (self.freelist != NO_FREELIST).then_some(self.freelist),
            high_water: self.high_water,
            txid: self.txid,
            damaged_meta,
        })
    }
}

/// With the first meta gone the page size is unknown: a second meta is looked
/// for where each possible size would put it, and must confirm that size.
fn find_second(bytes: &[u8]) -> Result<Meta, Damage> {
    let mut size = SMALLEST_PAGE;
    while size <= LARGEST_PAGE {
        match Meta::read(bytes, size, 1) {
            Ok(meta) if meta.page_size == size => return Ok(meta),
            _ => size *= 2,
        }
    }
    Err(Damage::NotADatabase)
}

/// FNV-1a, 64 bits: the checksum of metas.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    fn meta_page(id: u64, page_size: u32, high_water: u64, txid: u64) -> Vec<u8> {
        let mut page = vec![0_u8; 512];
        page[..8].copy_from_slice(&id.to_le_bytes());
        page[8] = 4;
        page[16..20].copy_from_slice(&MAGIC.to_le_bytes());
        page[20..24].copy_from_slice(&VERSION.to_le_bytes());
        page[24..28].copy_from_slice(&page_size.to_le_bytes());
        page[32..40].copy_from_slice(&2_u64.to_le_bytes());
        page[48..56].copy_from_slice(&NO_FREELIST.to_le_bytes());
        page[56..64].copy_from_slice(&high_water.to_le_bytes());
        page[64..72].copy_from_slice(&txid.to_le_bytes());
        let sum = fnv1a(&page[16..72]);
        page[72..80].copy_from_slice(&sum.to_le_bytes());
        page
    }

    fn file(first: &[u8], second: &[u8]) -> Vec<u8> {
        [first, second, &[0; 1024]].concat()
    }

    #[test]
    fn the_higher_transaction_wins_and_a_damaged_one_gives_way() {
        let (old, new) = (meta_page(0, 512, 3, 4), meta_page(1, 512, 4, 5));
        let bytes = file(&old, &new);
        let database = Database::open(&bytes).unwrap();
        assert_eq!((database.txid(), database.damaged_meta()), (5, None));
        let mut damaged = bytes.clone();
        damaged[512 + 70] ^= 1;
        let database = Database::open(&damaged).unwrap();
        assert_eq!((database.txid(), database.damaged_meta()), (4, Some(1)));
        let mut damaged = bytes;
        damaged[16] ^= 1;
        let database = Database::open(&damaged).unwrap();
        assert_eq!((database.txid(), database.damaged_meta(), database.page_size()), (5, Some(0), 512));
    }

    #[test]
    fn a_meta_that_does_not_fit_the_file_is_refused() {
        let cases: [(u32, u64, &str); 6] = [
            (512, 5, "2048 bytes where at least 2560 are needed"),
            (512, 2, "meta page: no page in use"),
            (512, 0, "meta page: no page in use"),
            (512, u64::MAX, "meta page: impossible high-water mark"),
            (768, 3, "meta page: impossible page size"),
            (0, 3, "meta page: impossible page size"),
        ];
        for (page_size, high_water, text) in cases {
            let bytes = file(&meta_page(0, page_size, high_water, 9), &meta_page(1, 512, 4, 5));
            assert_eq!(Database::open(&bytes).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn a_byte_swapped_magic_names_the_big_endian_host() {
        let mut bytes = file(&meta_page(0, 512, 3, 4), &meta_page(1, 512, 4, 5));
        bytes[16..20].reverse();
        bytes[528..532].reverse();
        assert_eq!(Database::open(&bytes).unwrap_err(), Damage::BigEndian);
    }

    #[test]
    fn a_valid_meta_under_a_wrong_page_header_is_damage_not_a_fallback() {
        let bytes = file(&meta_page(0, 512, 3, 4), &meta_page(7, 512, 4, 5));
        assert_eq!(Database::open(&bytes).unwrap_err(), Damage::Meta("its page header is damaged"));
    }

    #[test]
    fn short_inputs_are_errors() {
        for length in [0, 1, 15, 16, 79] {
            assert!(matches!(Database::open(&vec![0; length]), Err(Damage::TooShort { .. })), "{length}");
        }
        assert_eq!(Database::open(&[0; 4096]).unwrap_err(), Damage::NotADatabase);
    }
}
