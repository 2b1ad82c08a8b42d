//! Listing a bucket, page by page.

use aws_sdk_s3::Client;

use super::trouble::Trouble;
use super::watch::Watch;
use super::{Bucket, ErrorKind, Listed, Prefix};

/// More objects than a century of hourly snapshots makes; a listing is held in memory.
const MOST_LISTED: usize = 5_000_000;

/// A bucket full of delete markers may answer with some pages that hold no name.
const MOST_EMPTY_PAGES: u32 = 1_000;

/// Whether a listing gets on: names come in order, page after page.
#[derive(Debug, Default)]
struct Progress {
    last: Option<String>,
    empty_pages: u32,
}

impl Progress {
    /// Refuses a page after which nothing was gained.
    fn over(&mut self, greatest: Option<&str>) -> Result<(), Trouble> {
        match greatest {
            None => self.empty_pages += 1,
            Some(name) if self.last.as_deref().is_some_and(|last| name <= last) => {
                return Err(Trouble::new(ErrorKind::Broken, "a listing that goes in a circle"));
            }
            Some(name) => (self.last, self.empty_pages) = (Some(name.to_owned()), 0),
        }
        if self.empty_pages > MOST_EMPTY_PAGES {
            return Err(Trouble::new(ErrorKind::Broken, "a listing that goes on and names nothing"));
        }
        Ok(())
    }
}

impl Bucket {
    /// Names that no object of ours can have are not ours.
    pub(super) async fn list_objects(&self, prefix: &Prefix) -> Result<Vec<Listed>, Trouble> {
        let mut listed: Vec<Listed> = Vec::new();
        let mut token: Option<String> = None;
        let mut progress = Progress::default();
        loop {
            let watch = Watch::over("ListObjectsV2", prefix.as_str());
            let page = self.request(|client: Client| {
                let list = client.list_objects_v2().bucket(&self.config.bucket).prefix(prefix.as_str());
                let list = list.set_continuation_token(token.clone());
                list.customize().config_override(self.quick()).interceptor(watch.clone()).send()
            });
            let page = page.await?;
            // The client takes any XML for a page, and reads an empty one out of it.
            if page.name() != Some(self.config.bucket.as_str()) {
                return Err(Trouble::new(ErrorKind::Broken, "a listing that does not name the bucket: this is no S3 server"));
            }
            progress.over(page.contents().iter().filter_map(|object| object.key()).max())?;
            for object in page.contents() {
                let ours = object.key().filter(|key| key.starts_with(prefix.as_str())).and_then(|key| key.parse().ok());
                let Some(key) = ours else { continue };
                let bytes = object.size().and_then(|size| u64::try_from(size).ok());
                let bytes = bytes.ok_or_else(|| Trouble::new(ErrorKind::Broken, "an object without a length in a listing"))?;
                listed.push(Listed { key, bytes });
            }
            if listed.len() > MOST_LISTED {
                return Err(Trouble::new(ErrorKind::Broken, format!("more than {MOST_LISTED} objects")));
            }
            let next = page.next_continuation_token.filter(|_| page.is_truncated == Some(true));
            match next {
                None if page.is_truncated == Some(true) => {
                    return Err(Trouble::new(ErrorKind::Broken, "a listing that goes on and does not say where"));
                }
                None => break,
                next => token = next,
            }
        }
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a listing of these pages, by their greatest names, comes to.
    fn listing<'n>(pages: impl IntoIterator<Item = Option<&'n str>>) -> Result<(), String> {
        let mut progress = Progress::default();
        pages.into_iter().try_for_each(|page| progress.over(page).map_err(|trouble| format!("{:?}", trouble.kind)))
    }

    #[test]
    fn a_listing_without_end_is_refused_whatever_its_tokens_are() {
        assert_eq!(listing([Some("a"), None, Some("b"), None, Some("c")]), Ok(()));
        assert_eq!(listing([Some("a"), Some("b"), Some("a")]), Err("Broken".to_owned()), "a circle of two");
        assert_eq!(listing([Some("a"), Some("a")]), Err("Broken".to_owned()));
        assert_eq!(listing(std::iter::repeat(None)), Err("Broken".to_owned()), "new tokens for ever");
    }
}
