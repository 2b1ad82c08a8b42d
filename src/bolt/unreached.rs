//! Old leaves in pages that nothing reaches. bbolt does not wipe what it
//! frees, so they can hold whole old pairs. They are never live data.

use super::page::Page;
use super::tree::Item;
use super::verify::Verified;

/// Iterator over the pairs of old leaves; ill-formed pages are skipped.
#[derive(Debug)]
pub struct UnreachedLeaves<'a, 'v> {
    verified: &'v Verified<'a>,
    next_page: u64,
    /// Bytes of ill-formed candidates that may still be looked at. A crafted
    /// file can make every page look like the start of a huge leaf; without a
    /// bound the work would grow with the square of the file's length.
    budget: u64,
    leaf: Option<(Page<'a>, usize)>,
}

impl<'a> Verified<'a> {
    /// Pairs in pages that are neither reached nor reused, in file order.
    #[must_use]
    pub fn unreached_leaves(&self) -> UnreachedLeaves<'a, '_> {
        UnreachedLeaves { verified: self, next_page: 2, budget: self.database().size(), leaf: None }
    }
}

impl<'a> Iterator for UnreachedLeaves<'a, '_> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some((page, index)) = &mut self.leaf {
                // The whole page was found well formed when it was taken.
                if let Ok(element) = page.element(*index, None) {
                    *index += 1;
                    if element.is_bucket {
                        continue;
                    }
                    return Some(Item { key: element.key, value: element.value, pair: element.pair, bucket: None });
                }
                self.leaf = None;
            }
            let page = self.next_leaf()?;
            self.leaf = Some((page, 0));
        }
    }
}

impl<'a> UnreachedLeaves<'a, '_> {
    /// The next page that is a well-formed leaf with all its overflow pages
    /// unreached. Pages inside it are not looked at again.
    fn next_leaf(&mut self) -> Option<Page<'a>> {
        let database = self.verified.database();
        while self.next_page < database.high_water() && self.budget > 0 {
            let id = self.next_page;
            self.next_page += 1;
            if self.verified.reached().contains(id) {
                continue;
            }
            let Some((page, pages)) = database.loose_leaf(id) else { continue };
            let is_unreached = (id..id + pages).all(|page| !self.verified.reached().contains(page));
            if is_unreached && is_well_formed(&page) {
                self.next_page = id + pages;
                return Some(page);
            }
            self.budget = self.budget.saturating_sub(pages * u64::from(database.page_size()));
        }
        None
    }
}

/// Are all elements inside the page, apart and in order?
fn is_well_formed(page: &Page<'_>) -> bool {
    let mut before = None;
    for index in 0..page.count {
        let Ok(element) = page.element(index, before.as_ref()) else { return false };
        if before.as_ref().is_some_and(|before: &super::page::Element<'_>| before.key >= element.key) {
            return false;
        }
        before = Some(element);
    }
    true
}
