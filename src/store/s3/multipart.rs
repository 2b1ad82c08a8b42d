//! Putting an object in parts: a few on their way at once, aborted unless it
//! gets its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::connection;
use super::put::{Body, MOST_PARTS, Placed, must_be_s3, version};
use super::trouble::Trouble;
use super::watch::Watch;
use super::{Bucket, ErrorKind, Key};
use crate::config::{Checksums, S3Config};

/// Enough to keep a line busy while the next part fills; each costs its memory.
const PARTS_IN_FLIGHT: usize = 3;

/// For the one request that removes the parts. Whoever waits for it has failed already.
const ABORT_LIMIT: Duration = Duration::from_secs(10);

/// A server notices within these waits that the connection of a part was closed.
const MILLISECONDS_AFTER_A_DROP: [u64; 5] = [200, 400, 800, 1600, 0];

/// Uploads of dropped puts that are being aborted, and who waits for them.
static ABORTING: AtomicUsize = AtomicUsize::new(0);
static ENDED: Notify = Notify::const_new();

/// Waits until no upload of a dropped put is being aborted: the last thing that
/// a program which was stopped does.
pub(super) async fn aborted() {
    loop {
        let ended = ENDED.notified();
        if ABORTING.load(Ordering::SeqCst) == 0 {
            return;
        }
        ended.await;
    }
}

impl Bucket {
    pub(super) async fn put_parts(self: &Arc<Self>, key: &Key, first: Bytes, body: &mut Body<'_>) -> Result<Placed, Trouble> {
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

    /// In a task of its own: a put that is dropped meanwhile has an upload to
    /// abort when the answer comes.
    async fn begin(self: &Arc<Self>, key: &Key) -> Result<Upload, Trouble> {
        let (bucket, key) = (self.clone(), key.clone());
        let begun = tokio::spawn(async move {
            let watch = Watch::over("CreateMultipartUpload", key.as_str());
            // What the client sends with each part has to be announced.
            let checksums = (bucket.config.checksums == Checksums::WhenSupported).then_some(ChecksumAlgorithm::Crc32);
            let begun = bucket.request(|client: Client| {
                let create = client.create_multipart_upload().bucket(&bucket.config.bucket).key(key.as_str());
                create.set_checksum_algorithm(checksums.clone()).customize().interceptor(watch.clone()).send()
            });
            let id = begun.await?.upload_id.filter(|id| !id.is_empty());
            let id = id.ok_or_else(|| Trouble::new(ErrorKind::Broken, "an upload without an id: this is no S3 server"))?;
            Ok(Upload { config: bucket.config.clone(), key, id, is_open: true })
        });
        begun.await.unwrap_or_else(|e| Err(Trouble::new(ErrorKind::Broken, e)))
    }

    async fn fill(&self, upload: &Upload, first: Bytes, body: &mut Body<'_>) -> Result<Placed, Trouble> {
        let mut on_their_way = FuturesUnordered::from_iter([self.send(upload, 1, first)]);
        let (mut sent, mut ended, mut done) = (1_u64, false, Vec::new());
        while !ended || !on_their_way.is_empty() {
            let next = tokio::select! {
                Some(part) = on_their_way.next() => part.map(|part| done.push(part)),
                part = body.next_part(), if !ended && on_their_way.len() < PARTS_IN_FLIGHT => part.and_then(|(part, is_last)| {
                    (ended, sent) = (is_last, sent + 1);
                    if sent > MOST_PARTS {
                        let cause = format!("more than {MOST_PARTS} parts; raise part_size of the store");
                        return Err(Trouble::new(ErrorKind::Full, cause));
                    }
                    on_their_way.push(self.send(upload, sent, part));
                    Ok(())
                }),
            };
            if let Err(trouble) = next {
                // A part that arrives after the abort would stay.
                let rest = async { while on_their_way.next().await.is_some() {} };
                let _ended = tokio::time::timeout(ABORT_LIMIT, rest).await;
                return Err(trouble);
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
        let part = CompletedPart::builder().part_number(number).set_e_tag(output.e_tag);
        Ok(part.set_checksum_crc32(output.checksum_crc32).build())
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
    async fn abort(mut self, bucket: &Bucket) {
        let watch = Watch::over("AbortMultipartUpload", self.key.as_str());
        let aborted = bucket.request(|client: Client| self.request(&client).customize().interceptor(watch.clone()).send());
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

    /// Parts were on their way when the put was dropped, and one may arrive after
    /// an abort that succeeded: aborts are sent until the server has twice said
    /// that it knows no such upload.
    async fn until_gone(&self, client: Client) -> bool {
        let (mut answered, mut gone) = (false, false);
        for wait in MILLISECONDS_AFTER_A_DROP {
            match self.request(&client).send().await.map_err(Trouble::from) {
                Ok(_) => (answered, gone) = (true, false),
                Err(trouble) if trouble.is("NoSuchUpload") && gone => return true,
                Err(trouble) if trouble.is("NoSuchUpload") => (answered, gone) = (true, true),
                // As versitygw does while it writes a part.
                Err(trouble) if trouble.kind == ErrorKind::Transient => gone = false,
                Err(_) => return false,
            }
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        answered
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
            let gone = connection::apart(&upload.config, |client| {
                let until_gone = upload.until_gone(client);
                async { tokio::time::timeout(ABORT_LIMIT, until_gone).await.unwrap_or(false) }
            });
            if !gone {
                upload.told(&"the put was dropped, and the store did not answer");
            }
            ABORTING.fetch_sub(1, Ordering::SeqCst);
            ENDED.notify_waiters();
        };
        ABORTING.fetch_add(1, Ordering::SeqCst);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(abort)),
            Err(_) => drop(std::thread::spawn(abort)),
        }
    }
}
