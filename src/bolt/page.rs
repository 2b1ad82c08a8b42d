//! Pages and their elements, as checked views of bytes.

use super::Damage;

/// Size of a page header.
pub(super) const HEADER: usize = 16;
/// Size of an element of a branch or leaf page.
const ELEMENT: usize = 16;
/// The longest key that bbolt accepts.
const LONGEST_KEY: u64 = 32_768;

const BRANCH_PAGE: u16 = 0x01;
const LEAF_PAGE: u16 = 0x02;
pub(super) const META_PAGE: u16 = 0x04;
pub(super) const FREELIST_PAGE: u16 = 0x10;
/// Flag of a leaf element whose value is a bucket.
const BUCKET_ELEMENT: u32 = 1;

/// What a page that is walked can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Branch,
    Leaf,
}

/// A branch or leaf page whose header was checked; each element is checked
/// when it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page<'a> {
    /// The header and everything that belongs to the page.
    bytes: &'a [u8],
    /// For messages: an inline page bears the number of the page around it.
    pub id: u64,
    pub kind: Kind,
    pub count: usize,
}

/// One element; `value` is empty on branches, `child` is 0 on leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Key and value, which lie side by side.
    pub pair: &'a [u8],
    pub child: u64,
    pub is_bucket: bool,
    /// Where the element's bytes end in its page: the next must begin later.
    end: usize,
}

impl<'a> Page<'a> {
    /// A view of `bytes`, the page `id` with its overflow pages.
    pub fn new(bytes: &'a [u8], id: u64) -> Result<Self, Damage> {
        if bytes.len() < HEADER {
            return Err(Damage::page(id, "shorter than its header"));
        }
        let kind = match flags(bytes) {
            BRANCH_PAGE => Kind::Branch,
            LEAF_PAGE => Kind::Leaf,
            _ => return Err(Damage::page(id, "neither a branch nor a leaf")),
        };
        let count = usize::from(count(bytes));
        if HEADER + ELEMENT * count > bytes.len() {
            return Err(Damage::page(id, "more elements than it has room for"));
        }
        if kind == Kind::Branch && count == 0 {
            return Err(Damage::page(id, "a branch without children"));
        }
        Ok(Self { bytes, id, kind, count })
    }

    /// The page inside the value of an inline bucket, found on page `around`.
    pub fn inline(bytes: &'a [u8], around: u64) -> Result<Self, Damage> {
        let page = Self::new(bytes, around)?;
        if page.kind == Kind::Branch || overflow(bytes) != 0 {
            return Err(Damage::page(around, "an inline bucket that is no single leaf"));
        }
        Ok(page)
    }

    /// Element `index`, which must begin after `before` ends. Elements that
    /// overlap or stand in another order than their bytes are damage: bbolt
    /// writes them in order, and a crafted page could otherwise make a reader
    /// go over the same bytes tens of thousands of times.
    pub fn element(&self, index: usize, before: Option<&Element<'a>>) -> Result<Element<'a>, Damage> {
        let fault = |fault| Damage::page(self.id, fault);
        let start = HEADER + ELEMENT * index;
        let Some(header) = self.bytes.get(start..start + ELEMENT).filter(|_| index < self.count) else {
            return Err(fault("an element outside the page"));
        };
        let (position, key_size, value_size) = match self.kind {
            Kind::Branch => (u32_at(header, 0), u32_at(header, 4), 0),
            Kind::Leaf => (u32_at(header, 4), u32_at(header, 8), u32_at(header, 12)),
        };
        let (key_size, value_size) = (u64::from(key_size), u64::from(value_size));
        if key_size == 0 || key_size > LONGEST_KEY {
            return Err(fault("an impossible key length"));
        }
        let begin = start as u64 + u64::from(position);
        let end = begin + key_size + value_size;
        let free_from = before.map_or(HEADER + ELEMENT * self.count, |element| element.end);
        if begin < free_from as u64 {
            return Err(fault("elements overlap"));
        }
        let pair = match (usize::try_from(begin), usize::try_from(end)) {
            (Ok(begin), Ok(end)) => self.bytes.get(begin..end),
            _ => None,
        };
        // The key's length fits: it is at most LONGEST_KEY and inside the pair.
        let Some((key, value)) = pair.and_then(|pair| pair.split_at_checked(key_size as usize)) else {
            return Err(fault("an element reaches outside the page"));
        };
        let is_bucket = match (self.kind, u32_at(header, 0)) {
            (Kind::Branch, _) | (Kind::Leaf, 0) => false,
            (Kind::Leaf, BUCKET_ELEMENT) => true,
            (Kind::Leaf, _) => return Err(fault("unknown element flags")),
        };
        let child = if self.kind == Kind::Branch { u64_at(header, 8) } else { 0 };
        Ok(Element { key, value, pair: pair.unwrap_or_default(), child, is_bucket, end: end as usize })
    }
}

pub(super) fn flags(page: &[u8]) -> u16 {
    u16::from_le_bytes(array(page, 8))
}

pub(super) fn count(page: &[u8]) -> u16 {
    u16::from_le_bytes(array(page, 10))
}

/// How many further pages belong to this one.
pub(super) fn overflow(page: &[u8]) -> u32 {
    u32_at(page, 12)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// `N` bytes at `at`; zeros where there are none, so that no input panics.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// flags, pos, ksize, vsize
    type Words = (u32, u32, u32, u32);

    /// A leaf of one page with these elements.
    fn leaf(elements: &[Words], length: usize) -> Vec<u8> {
        let mut page = vec![b'x'; length];
        page[..16].fill(0);
        page[8] = 2;
        page[10..12].copy_from_slice(&u16::try_from(elements.len()).unwrap().to_le_bytes());
        for (index, (flags, pos, ksize, vsize)) in elements.iter().enumerate() {
            let words = [flags, pos, ksize, vsize].map(|word| word.to_le_bytes()).concat();
            page[16 + 16 * index..32 + 16 * index].copy_from_slice(&words);
        }
        page
    }

    fn read(elements: &[Words]) -> Result<(), Damage> {
        let bytes = leaf(elements, 64);
        let page = Page::new(&bytes, 3)?;
        let mut before = None;
        for index in 0..page.count {
            before = Some(page.element(index, before.as_ref())?);
        }
        Ok(())
    }

    #[test]
    fn elements_must_lie_inside_their_page_and_apart() {
        let cases: [(&[Words], Option<&str>); 9] = [
            (&[(0, 16, 1, 31)], None),
            (&[(0, 16, 1, 32)], Some("an element reaches outside the page")),
            (&[(0, 15, 1, 0)], Some("elements overlap")),
            (&[(0, u32::MAX, 1, u32::MAX)], Some("an element reaches outside the page")),
            (&[(0, 16, 0, 1)], Some("an impossible key length")),
            (&[(0, 16, 32_769, 1)], Some("an impossible key length")),
            (&[(2, 16, 1, 1)], Some("unknown element flags")),
            (&[(0, 32, 4, 4), (0, 24, 4, 4)], None),
            (&[(0, 32, 4, 4), (0, 23, 4, 4)], Some("elements overlap")),
        ];
        for (elements, fault) in cases {
            let expected = fault.map_or(Ok(()), |fault| Err(Damage::page(3, fault)));
            assert_eq!(read(elements), expected, "{elements:?}");
        }
    }

    #[test]
    fn headers_are_checked() {
        let good = leaf(&[], 64);
        assert!(Page::new(&good, 3).is_ok());
        assert!(Page::new(&good[..15], 3).is_err());
        for flags in [0, 3, 4, 0x10] {
            let mut page = good.clone();
            page[8] = flags;
            assert!(Page::new(&page, 3).is_err(), "{flags}");
        }
        let mut page = good.clone();
        page[10] = 4;
        assert_eq!(Page::new(&page, 3).unwrap_err(), Damage::page(3, "more elements than it has room for"));
        let mut branch = good;
        branch[8] = 1;
        assert_eq!(Page::new(&branch, 3).unwrap_err(), Damage::page(3, "a branch without children"));
    }
}
