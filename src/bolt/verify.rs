//! The strict walk: shows that everything reachable is sound.

use super::Damage;
use super::meta::Database;
use super::page::{FREELIST_PAGE, HEADER, count, flags, u64_at};
use super::tree::{Bucket, DEEPEST, Item, Walk};

/// A count that says: the true count is the first id of the list.
const COUNT_IN_BODY: u16 = 0xFFFF;

/// What the strict walk meets, in the order of the file's keys.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// A bucket begins. What follows is in it, until [`Found::BucketEnd`].
    Bucket(&'a [u8], Bucket<'a>),
    BucketEnd,
    Pair(Item<'a>),
}

/// The proof that a database is whole, and which pages it consists of.
#[derive(Debug)]
pub struct Verified<'a> {
    database: Database<'a>,
    reached: PageSet,
    lost: u64,
}

impl<'a> Verified<'a> {
    #[must_use]
    pub fn database(&self) -> Database<'a> {
        self.database
    }

    /// Bytes of the pages that hold nothing: free or lost.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        (self.database.high_water - self.reached.len()) * self.database.page_size
    }

    /// Pages neither reached nor in the freelist; 0 when none is stored.
    #[must_use]
    pub fn lost_pages(&self) -> u64 {
        self.lost
    }

    #[must_use]
    pub fn reached(&self) -> &PageSet {
        &self.reached
    }
}

impl<'a> Database<'a> {
    /// Walks every bucket, checks every reachable page and the freelist, and
    /// tells `visit` what it meets.
    ///
    /// # Errors
    /// At the first damage; what `visit` was told until then may be wrong.
    pub fn verify(self, visit: &mut impl FnMut(Found<'a>)) -> Result<Verified<'a>, Damage> {
        let mut reached = PageSet::below(self.high_water);
        reached.insert(0);
        reached.insert(1);
        verify_bucket(self.root(), 0, &mut reached, visit)?;
        let lost = match self.freelist {
            Some(page) => self.verify_freelist(page, &mut reached)?,
            None => 0,
        };
        Ok(Verified { database: self, reached, lost })
    }

    /// Checks the freelist at `id`, marks its own pages as reached, and counts
    /// the pages that are neither reached nor free.
    fn verify_freelist(&self, id: u64, reached: &mut PageSet) -> Result<u64, Damage> {
        let fault = |fault| Damage::Freelist { page: id, fault };
        let bytes = self.run(id)?;
        if u64_at(bytes, 0) != id || flags(bytes) != FREELIST_PAGE {
            return Err(fault("is no freelist page"));
        }
        reach_once(reached, id, bytes.len() as u64 / self.page_size)?;
        let (count, first) = match count(bytes) {
            COUNT_IN_BODY if bytes.len() >= HEADER + 8 => (u64_at(bytes, HEADER), HEADER + 8),
            COUNT_IN_BODY => return Err(fault("is cut short")),
            count => (u64::from(count), HEADER),
        };
        let ids = usize::try_from(count).ok().and_then(|count| count.checked_mul(8));
        let Some(ids) = ids.and_then(|length| bytes.get(first..)?.get(..length)) else {
            return Err(fault("more ids than it has room for"));
        };
        let mut free = PageSet::below(self.high_water);
        for id in ids.chunks_exact(8).map(|id| u64_at(id, 0)) {
            if id < 2 || id >= self.high_water {
                return Err(fault("an id outside the file"));
            }
            if reached.contains(id) {
                return Err(fault("a page that is in use"));
            }
            if !free.insert(id) {
                return Err(fault("a page twice"));
            }
        }
        Ok(self.high_water - reached.len() - free.len())
    }
}

/// `depth` counts buckets around this one; it is bounded, so the recursion is.
fn verify_bucket<'a>(
    bucket: Bucket<'a>,
    depth: usize,
    reached: &mut PageSet,
    visit: &mut impl FnMut(Found<'a>),
) -> Result<(), Damage> {
    if depth == DEEPEST {
        return Err(Damage::page(bucket.root_page(), "buckets nested deeper than any real ones"));
    }
    let mut walk = Walk::new(bucket);
    while let Some(item) = walk.next(&mut |id, pages| reach_once(reached, id, pages))? {
        match item.bucket {
            Some(inner) => {
                visit(Found::Bucket(item.key, inner));
                verify_bucket(inner, depth + 1, reached, visit)?;
                visit(Found::BucketEnd);
            }
            None => visit(Found::Pair(item)),
        }
    }
    Ok(())
}

fn reach_once(reached: &mut PageSet, id: u64, pages: u64) -> Result<(), Damage> {
    for page in id..id + pages {
        if !reached.insert(page) {
            return Err(Damage::page(page, "is reached twice"));
        }
    }
    Ok(())
}

/// A set of page numbers below a bound: one bit each.
#[derive(Debug, Clone)]
pub struct PageSet {
    words: Vec<u64>,
    len: u64,
}

impl PageSet {
    /// An empty set for pages below `bound`, a high-water mark that was
    /// compared with the length of the file.
    fn below(bound: u64) -> Self {
        let words = usize::try_from(bound.div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: vec![0; words], len: 0 }
    }

    /// False when the page was there already, or lies outside the bound.
    fn insert(&mut self, page: u64) -> bool {
        let Some(word) = self.words.get_mut((page / 64) as usize) else { return false };
        let bit = 1 << (page % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.len += u64::from(is_new);
        is_new
    }

    #[must_use]
    pub fn contains(&self, page: u64) -> bool {
        self.words.get((page / 64) as usize).is_some_and(|word| word & (1 << (page % 64)) != 0)
    }

    /// How many pages are in the set.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_set_counts_each_page_once_and_refuses_those_outside() {
        let mut set = PageSet::below(65);
        assert!(set.insert(64) && set.insert(0));
        assert!(!set.insert(64));
        assert!(!set.insert(1_000));
        assert_eq!((set.len(), set.contains(64), set.contains(63), set.contains(u64::MAX)), (2, true, false, false));
    }
}
