//! Listing a bucket, page by page.

use aws_sdk_s3::Client;

use super::trouble::Trouble;
use super::watch::Watch;
use super::{Bucket, ErrorKind, Listed, Prefix};

/// More objects than a century of hourly snapshots makes; a listing is held in memory.
const MOST_LISTED: usize = 5_000_000;

impl Bucket {
    /// Names that no object of ours can have are not ours.
    pub(super) async fn list_objects(&self, prefix: &Prefix) -> Result<Vec<Listed>, Trouble> {
        let mut listed: Vec<Listed> = Vec::new();
        let mut token: Option<String> = None;
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
                next if next == token => return Err(Trouble::new(ErrorKind::Broken, "a listing that goes in a circle")),
                next => token = next,
            }
        }
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }
}
