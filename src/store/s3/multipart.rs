//! Putting an object in parts: a few on their way at once, aborted unless it
//! gets its name.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::runtime::Handle;

use super::connection;
use super::put::{Body, MOST_PARTS, Placed, must_be_s3, version};
use super::trouble::Trouble;
use super::watch::Watch;
use super::{ErrorKind, Key, S3Store};
use crate::config::S3Config;

/// Enough to keep a line busy while the next part fills; each costs its memory.
const PARTS_IN_FLIGHT: usize = 3;

/// For the one request that removes the parts. Whoever waits for it has failed already.
const ABORT_LIMIT: Duration = Duration::from_secs(10);

impl S3Store {
    pub(super) async fn put_parts(&self, key: &Key, first: Bytes, body: &mut Body<'_>) -> Result<Placed, Trouble> {
        let upload = self.begin(key).await?;
        match self.fill(&upload, first, body).await {
            Ok(placed) => {
                upload.keep();
                Ok(placed)
            }
            Err(trouble) => {
                upload.abort(self).await;
                Err(trouble)
            }
        }
    }

    async fn begin(&self, key: &Key) -> Result<Upload, Trouble> {
        let watch = Watch::over("CreateMultipartUpload", key.as_str());
        let begun = self.request(|client: Client| {
            let create = client.create_multipart_upload().bucket(&self.config.bucket).key(key.as_str());
            create.customize().interceptor(watch.clone()).send()
        });
        let id = begun.await?.upload_id.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Trouble::new(ErrorKind::Broken, "an upload without an id: this is no S3 server"))?;
        Ok(Upload { config: self.config.clone(), key: key.clone(), id, is_open: true })
    }

    async fn fill(&self, upload: &Upload, first: Bytes, body: &mut Body<'_>) -> Result<Placed, Trouble> {
        let mut on_their_way = FuturesUnordered::from_iter([self.send(upload, 1, first)]);
        let (mut sent, mut ended, mut done) = (1_u64, false, Vec::new());
        while !ended || !on_their_way.is_empty() {
            tokio::select! {
                Some(part) = on_their_way.next() => done.push(part?),
                part = body.next_part(), if !ended && on_their_way.len() < PARTS_IN_FLIGHT => {
                    let (part, is_last) = part?;
                    (ended, sent) = (is_last, sent + 1);
                    if sent > MOST_PARTS {
                        return Err(Trouble::new(ErrorKind::Full, format!("more than {MOST_PARTS} parts; raise part_size of the store")));
                    }
                    on_their_way.push(self.send(upload, sent, part));
                }
            }
        }
        done.sort_by_key(|part| part.part_number());
        self.complete(upload, done, body.bytes()).await
    }

    async fn send(&self, upload: &Upload, number: u64, bytes: Bytes) -> Result<CompletedPart, Trouble> {
        let number = i32::try_from(number).map_err(|e| Trouble::new(ErrorKind::Full, e))?;
        let watch = Watch::over("UploadPart", format!("{} part {number}", upload.key));
        let sent = self.request(|client: Client| {
            let part = client.upload_part().bucket(&self.config.bucket).key(upload.key.as_str()).upload_id(&upload.id);
            part.part_number(number).body(ByteStream::from(bytes.clone())).customize().interceptor(watch.clone()).send()
        });
        let output = sent.await.map_err(not_the_object)?;
        must_be_s3(output.e_tag())?;
        let part = CompletedPart::builder().part_number(number).set_e_tag(output.e_tag).set_checksum_crc32(output.checksum_crc32);
        Ok(part.set_checksum_crc64_nvme(output.checksum_crc64_nvme).build())
    }

    /// Gives the object its name. A server that answers 200 and an error has
    /// failed: the client reads the body to know.
    async fn complete(&self, upload: &Upload, parts: Vec<CompletedPart>, bytes: u64) -> Result<Placed, Trouble> {
        let watch = Watch::over("CompleteMultipartUpload", upload.key.as_str());
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = |condition: Option<String>| {
            let (parts, watch) = (parts.clone(), watch.clone());
            self.request(move |client: Client| {
                let complete = client.complete_multipart_upload().bucket(&self.config.bucket).key(upload.key.as_str());
                let complete =
                    complete.upload_id(&upload.id).multipart_upload(parts.clone()).set_if_none_match(condition.clone());
                complete.customize().interceptor(watch.clone()).send()
            })
        };
        let answer = match complete(self.condition()).await {
            Err(trouble) if self.knows_no_condition(&trouble) => complete(None).await,
            answer => answer,
        };
        match answer {
            Ok(output) => {
                must_be_s3(output.e_tag())?;
                if output.key().is_some_and(|key| key != upload.key.as_str()) {
                    return Err(Trouble::new(ErrorKind::Broken, "the answer names another object"));
                }
                Ok(Placed { version_id: version(output.version_id()), watch })
            }
            Err(trouble) if trouble.kind == ErrorKind::Exists && watch.lost() => Ok(Placed { version_id: None, watch }),
            Err(trouble) if trouble.is("NoSuchUpload") && watch.lost() => self.look(upload, bytes, watch).await,
            Err(trouble) => Err(not_the_object(trouble)),
        }
    }

    /// The upload is gone after an answer that was lost: it got its name, or
    /// somebody removed it. Who may not look cannot know.
    async fn look(&self, upload: &Upload, bytes: u64, watch: Watch) -> Result<Placed, Trouble> {
        let found =
            self.request(|client: Client| client.head_object().bucket(&self.config.bucket).key(upload.key.as_str()).send());
        match found.await {
            Ok(head) if head.content_length() == i64::try_from(bytes).ok() => {
                Ok(Placed { version_id: version(head.version_id()), watch })
            }
            _ => Err(Trouble::new(ErrorKind::Transient, "the last answer was lost, and the object cannot be looked for")),
        }
    }
}

/// An upload that is gone is not an object that is not there.
fn not_the_object(trouble: Trouble) -> Trouble {
    match trouble.kind {
        ErrorKind::NotFound => Trouble { kind: ErrorKind::Transient, ..trouble },
        _ => trouble,
    }
}

/// An upload that was begun. Dropped while it is open, it is aborted.
struct Upload {
    config: Arc<S3Config>,
    key: Key,
    id: String,
    is_open: bool,
}

impl Upload {
    fn keep(mut self) {
        self.is_open = false;
    }

    /// Waits for the answer, within limits. What cannot be removed is left to
    /// the bucket's lifecycle rule, and said.
    async fn abort(mut self, store: &S3Store) {
        let watch = Watch::over("AbortMultipartUpload", self.key.as_str());
        let aborted = store.request(|client: Client| self.request(&client).customize().interceptor(watch.clone()).send());
        let aborted = tokio::time::timeout(ABORT_LIMIT, aborted).await;
        self.is_open = false;
        match aborted {
            Ok(Ok(_)) => {}
            Ok(Err(trouble)) if trouble.is("NoSuchUpload") => {}
            Ok(Err(trouble)) => self.told(&trouble.cause),
            Err(_) => self.told(&"no answer in time"),
        }
    }

    fn request(
        &self,
        client: &Client,
    ) -> aws_sdk_s3::operation::abort_multipart_upload::builders::AbortMultipartUploadFluentBuilder {
        client.abort_multipart_upload().bucket(&self.config.bucket).key(self.key.as_str()).upload_id(&self.id)
    }

    fn told(&self, cause: &dyn std::fmt::Display) {
        tracing::warn!(object = self.key.as_str(), %cause, "parts of an upload stay in the store until its lifecycle rule removes them");
    }
}

impl Drop for Upload {
    /// The put was dropped, perhaps with its runtime: a thread of its own sends
    /// the abort, and a runtime that ends waits for it.
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let upload = Self { config: self.config.clone(), key: self.key.clone(), id: self.id.clone(), is_open: false };
        let abort = move || {
            let sent = connection::apart(&upload.config, |client| {
                let request = upload.request(&client);
                async move { tokio::time::timeout(ABORT_LIMIT, request.send()).await.is_ok_and(|answer| answer.is_ok()) }
            });
            if !sent {
                upload.told(&"the put was dropped, and the store did not answer");
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(abort)),
            Err(_) => drop(std::thread::spawn(abort)),
        }
    }
}
