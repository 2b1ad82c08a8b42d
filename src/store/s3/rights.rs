//! Rights in a bucket, by the requests themselves.

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::types::{BucketVersioningStatus, DefaultRetention, ObjectLockEnabled};

use super::trouble::Trouble;
use super::{Bucket, ErrorKind, Key, PutOptions, S3Store, VersionId};
use crate::store::rights::{Answer, Keeping, Right, Rights};
use crate::store::{Prefix, Store, StoreError};

/// For whoever finds it.
const PROBE: &[u8] = b"holdfast doctor was here to see whether this host may put. This object may be deleted.\n";

/// In the form of AWS's own, and never given.
const NO_VERSION: &str = "holdfastdoctorasksforthisversion";

#[async_trait]
impl Rights for S3Store {
    fn describe(&self) -> String {
        Store::describe(self)
    }

    fn separates(&self) -> bool {
        true
    }

    async fn ask(&self, right: &Right) -> Result<Answer, StoreError> {
        let (operation, object, asked) = match right {
            Right::Put(key) => ("put", key.as_str(), self.bucket.ask_put(key).await),
            Right::Get(key) => ("open", key.as_str(), self.bucket.ask_get(key).await),
            Right::List(prefix) => ("list", prefix.as_str(), self.bucket.ask_list(prefix).await),
            Right::Delete(key) => ("delete", key.as_str(), self.bucket.ask_delete(key, None).await),
            Right::DeleteVersion(key) => ("delete", key.as_str(), self.bucket.ask_delete(key, Some(NO_VERSION)).await),
            Right::Multipart(key) => ("put", key.as_str(), self.bucket.ask_multipart(key).await),
        };
        let answer = asked.map(Answer::Allowed).or_else(|trouble| match trouble.kind {
            // A bucket that is not there, or a credential that is not known, says nothing of rights.
            ErrorKind::Denied if !is_unknown(&trouble) => Ok(Answer::Denied(trouble.cause.to_string())),
            ErrorKind::NotFound => Ok(Answer::Absent),
            _ => Err(trouble),
        });
        answer.map_err(|trouble| self.error(operation, object, trouble))
    }

    async fn keeping(&self) -> Keeping {
        let words = |trouble: Trouble| trouble.cause.to_string();
        Keeping {
            versions: self.bucket.versions().await.map_err(words),
            lock: match self.bucket.lock().await {
                Err(trouble) if trouble.status == Some(404) => Ok(None),
                lock => lock.map_err(words),
            },
        }
    }
}

/// Is it the credential itself that the server does not take?
fn is_unknown(trouble: &Trouble) -> bool {
    const CODES: [&str; 4] = ["InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "ExpiredToken"];
    CODES.iter().any(|code| trouble.is(code))
}

impl Bucket {
    async fn ask_put(self: &std::sync::Arc<Self>, key: &Key) -> Result<Option<VersionId>, Trouble> {
        let options = PutOptions { expected_bytes: Some(PROBE.len() as u64) };
        match self.put_object(key, &mut &PROBE[..], &options).await {
            Ok(stored) => Ok(stored.version_id),
            // Only who may put is told that the name is taken: by an earlier probe.
            Err(trouble) if trouble.kind == ErrorKind::Exists => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    async fn ask_get(&self, key: &Key) -> Result<Option<VersionId>, Trouble> {
        self.read_object(key, None, Some(0..1)).await.map(|_| None)
    }

    async fn ask_list(&self, prefix: &Prefix) -> Result<Option<VersionId>, Trouble> {
        let listed = self.request(|client: Client| {
            let list = client.list_objects_v2().bucket(&self.config.bucket).prefix(prefix.as_str()).max_keys(1);
            list.customize().config_override(self.quick()).send()
        });
        match listed.await?.name() {
            Some(name) if name == self.config.bucket => Ok(None),
            _ => Err(Trouble::new(ErrorKind::Broken, "a listing that does not name the bucket: this is no S3 server")),
        }
    }

    async fn ask_delete(&self, key: &Key, version: Option<&str>) -> Result<Option<VersionId>, Trouble> {
        let version = version.map(str::to_owned);
        let deleted = self.request(|client: Client| {
            let delete = client.delete_object().bucket(&self.config.bucket).key(key.as_str());
            delete.set_version_id(version.clone()).customize().config_override(self.quick()).send()
        });
        deleted.await.map(|_| None)
    }

    async fn ask_multipart(&self, key: &Key) -> Result<Option<VersionId>, Trouble> {
        let begun = self.request(|client: Client| {
            let create = client.create_multipart_upload().bucket(&self.config.bucket).key(key.as_str());
            create.customize().config_override(self.quick()).send()
        });
        let upload = begun.await?.upload_id.filter(|id| !id.is_empty());
        let upload = upload.ok_or_else(|| Trouble::new(ErrorKind::Broken, "an upload without an id: this is no S3 server"))?;
        let aborted = self.request(|client: Client| {
            let abort = client.abort_multipart_upload().bucket(&self.config.bucket).key(key.as_str()).upload_id(&upload);
            abort.customize().config_override(self.quick()).send()
        });
        aborted.await.map(|_| None)
    }

    async fn versions(&self) -> Result<bool, Trouble> {
        let told = self.request(|client: Client| {
            let ask = client.get_bucket_versioning().bucket(&self.config.bucket);
            ask.customize().config_override(self.quick()).send()
        });
        Ok(told.await?.status() == Some(&BucketVersioningStatus::Enabled))
    }

    async fn lock(&self) -> Result<Option<String>, Trouble> {
        let told = self.request(|client: Client| {
            let ask = client.get_object_lock_configuration().bucket(&self.config.bucket);
            ask.customize().config_override(self.quick()).send()
        });
        let told = told.await?;
        let Some(lock) = told.object_lock_configuration() else { return Ok(None) };
        if lock.object_lock_enabled() != Some(&ObjectLockEnabled::Enabled) {
            return Ok(None);
        }
        let retention = lock.rule().and_then(|rule| rule.default_retention());
        Ok(Some(retention.map_or_else(|| "no default retention".to_owned(), in_words)))
    }
}

fn in_words(retention: &DefaultRetention) -> String {
    let mode = retention.mode().map_or("no mode", |mode| mode.as_str());
    match (retention.days(), retention.years()) {
        (Some(days), _) => format!("{mode} for {days} days"),
        (None, Some(years)) => format!("{mode} for {years} years"),
        (None, None) => mode.to_owned(),
    }
}
