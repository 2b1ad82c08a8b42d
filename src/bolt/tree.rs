//! Buckets and the walk over their pairs in key order.

use super::Damage;
use super::meta::Database;
use super::page::{self, Element, HEADER, Kind, Page, overflow, u64_at};

/// Size of a bucket's header in the value that names it.
const BUCKET_HEADER: usize = 16;
/// No real tree comes near: each level multiplies by at least two.
pub(super) const DEEPEST: usize = 64;

/// A bucket: pairs and buckets in key order.
#[derive(Debug, Clone, Copy)]
pub struct Bucket<'a> {
    database: Database<'a>,
    sequence: u64,
    place: Place<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    /// The page at which its tree starts.
    Tree(u64),
    /// A whole leaf inside the bucket's value, and the page around it.
    Inline { leaf: &'a [u8], around: u64 },
}

/// A pair, or a bucket under its name.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    pub key: &'a [u8],
    /// Of a pair; empty for a bucket.
    pub value: &'a [u8],
    /// Key and value as they lie side by side in the file.
    pub pair: &'a [u8],
    pub bucket: Option<Bucket<'a>>,
}

impl<'a> Bucket<'a> {
    pub(super) fn at(database: Database<'a>, root: u64, sequence: u64) -> Self {
        Self { database, sequence, place: Place::Tree(root) }
    }

    /// The bucket that a leaf element's value describes, found on page `around`.
    fn of_value(database: Database<'a>, value: &'a [u8], around: u64) -> Result<Self, Damage> {
        let Some((header, leaf)) = value.split_at_checked(BUCKET_HEADER) else {
            return Err(Damage::page(around, "a bucket shorter than its header"));
        };
        let root = u64_at(header, 0);
        let place = if root == 0 { Place::Inline { leaf, around } } else { Place::Tree(root) };
        Ok(Self { database, sequence: u64_at(header, 8), place })
    }

    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The page its tree starts at; 0 for an inline bucket.
    #[must_use]
    pub fn root_page(&self) -> u64 {
        match self.place {
            Place::Tree(root) => root,
            Place::Inline { .. } => 0,
        }
    }

    /// Everything in the bucket, in key order, each page checked as it is
    /// entered. After the first error there is nothing more.
    #[must_use]
    pub fn items(&self) -> Items<'a> {
        Items { walk: Walk::new(*self), budget: self.database.high_water, failed: false }
    }

    /// The bucket called `name` in this one.
    ///
    /// # Errors
    /// When a page on the way is damaged.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Self>, Damage> {
        for item in self.items() {
            let item = item?;
            if item.key >= name {
                return Ok(item.bucket.filter(|_| item.key == name));
            }
        }
        Ok(None)
    }

    /// The value of the pair `key`.
    ///
    /// # Errors
    /// When a page on the way is damaged.
    pub fn value(&self, key: &[u8]) -> Result<Option<&'a [u8]>, Damage> {
        for item in self.items() {
            let item = item?;
            if item.key >= key {
                return Ok((item.key == key && item.bucket.is_none()).then_some(item.value));
            }
        }
        Ok(None)
    }
}

/// Iterator over a bucket.
#[derive(Debug)]
pub struct Items<'a> {
    walk: Walk<'a>,
    /// Pages that may still be entered: a cycle ends here, should the file
    /// change after it was verified.
    budget: u64,
    failed: bool,
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let budget = &mut self.budget;
        let next = self.walk.next(&mut |id, pages| {
            *budget = budget.checked_sub(pages).ok_or(Damage::page(id, "more pages than the file has"))?;
            Ok(())
        });
        self.failed = next.is_err();
        next.transpose()
    }
}

/// A page on the way from the root to the current element.
#[derive(Debug)]
struct Frame<'a> {
    page: Page<'a>,
    next: usize,
    before: Option<Element<'a>>,
    /// Every key below is at least this.
    lower: Option<&'a [u8]>,
    /// Every key below is less than this.
    upper: Option<&'a [u8]>,
}

/// The walk over one bucket's tree, with all checks of a page and of the order
/// of keys in and across pages. Who walks decides what entering a page means.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    bucket: Bucket<'a>,
    stack: Vec<Frame<'a>>,
    started: bool,
}

impl<'a> Walk<'a> {
    pub fn new(bucket: Bucket<'a>) -> Self {
        Self { bucket, stack: Vec::new(), started: false }
    }

    /// The next item. `enter` is told each page and how many pages it spans.
    pub fn next(&mut self, enter: &mut impl FnMut(u64, u64) -> Result<(), Damage>) -> Result<Option<Item<'a>>, Damage> {
        if !self.started {
            self.started = true;
            let page = match self.bucket.place {
                Place::Inline { leaf, around } => Page::inline(leaf, around)?,
                Place::Tree(root) => self.bucket.database.enter(root, enter)?,
            };
            self.stack.push(Frame { page, next: 0, before: None, lower: None, upper: None });
        }
        loop {
            let Some(frame) = self.stack.last_mut() else { return Ok(None) };
            if frame.next == frame.page.count {
                self.stack.pop();
                continue;
            }
            let element = frame.take()?;
            match frame.page.kind {
                Kind::Leaf => {
                    let around = frame.page.id;
                    return self.item(&element, around).map(Some);
                }
                Kind::Branch => {
                    let upper = frame.upper_of_child()?;
                    let id = frame.page.id;
                    if self.stack.len() == DEEPEST {
                        return Err(Damage::page(id, "a tree deeper than any real one"));
                    }
                    let page = self.bucket.database.enter(element.child, enter)?;
                    self.stack.push(Frame { page, next: 0, before: None, lower: Some(element.key), upper });
                }
            }
        }
    }

    fn item(&self, element: &Element<'a>, around: u64) -> Result<Item<'a>, Damage> {
        let bucket = if element.is_bucket {
            if matches!(self.bucket.place, Place::Inline { .. }) {
                return Err(Damage::page(around, "a bucket inside an inline bucket"));
            }
            Some(Bucket::of_value(self.bucket.database, element.value, around)?)
        } else {
            None
        };
        let value = if bucket.is_some() { &[][..] } else { element.value };
        Ok(Item { key: element.key, value, pair: element.pair, bucket })
    }
}

impl<'a> Frame<'a> {
    /// The next element, its key checked against its neighbours.
    fn take(&mut self) -> Result<Element<'a>, Damage> {
        let element = self.page.element(self.next, self.before.as_ref())?;
        let after_left = match &self.before {
            Some(before) => before.key < element.key,
            None => self.lower.is_none_or(|lower| lower <= element.key),
        };
        if !after_left || self.upper.is_some_and(|upper| element.key >= upper) {
            return Err(Damage::page(self.page.id, "keys out of order"));
        }
        self.next += 1;
        self.before = Some(element);
        Ok(element)
    }

    /// The bound of the child just taken: its right neighbour's key, else the
    /// bound of the branch itself.
    fn upper_of_child(&self) -> Result<Option<&'a [u8]>, Damage> {
        if self.next == self.page.count {
            return Ok(self.upper);
        }
        Ok(Some(self.page.element(self.next, self.before.as_ref())?.key))
    }
}

impl<'a> Database<'a> {
    /// Checks that `id` is a whole page of a tree and returns it.
    fn enter(&self, id: u64, enter: &mut impl FnMut(u64, u64) -> Result<(), Damage>) -> Result<Page<'a>, Damage> {
        let bytes = self.run(id)?;
        if u64_at(bytes, 0) != id {
            return Err(Damage::page(id, "bears another page's number"));
        }
        enter(id, bytes.len() as u64 / self.page_size)?;
        Page::new(bytes, id)
    }

    /// The bytes of page `id` with its overflow pages.
    pub(super) fn run(&self, id: u64) -> Result<&'a [u8], Damage> {
        if id < 2 || id >= self.high_water {
            return Err(Damage::page(id, "is referred to but lies outside the file"));
        }
        // Below the high-water mark, whose bytes were compared with the length.
        let start = id * self.page_size;
        let outside = || Damage::page(id, "reaches outside the file");
        let rest = usize::try_from(start).ok().and_then(|start| self.bytes.get(start..)).ok_or_else(outside)?;
        if rest.len() < HEADER {
            return Err(outside());
        }
        let pages = u64::from(overflow(rest)) + 1;
        if pages > self.high_water - id {
            return Err(outside());
        }
        usize::try_from(pages * self.page_size).ok().and_then(|length| rest.get(..length)).ok_or_else(outside)
    }

    /// The leaf with elements that begins at page `id`, if one does, and how
    /// many pages it spans.
    pub(super) fn loose_leaf(&self, id: u64) -> Option<(Page<'a>, u64)> {
        let bytes = self.run(id).ok()?;
        let is_own = u64_at(bytes, 0) == id && page::count(bytes) > 0;
        let page = Page::new(bytes, id).ok().filter(|page| is_own && page.kind == Kind::Leaf)?;
        Some((page, bytes.len() as u64 / self.page_size))
    }
}
