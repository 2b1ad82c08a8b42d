//! The S3 store against a real server with users and bucket policies.

mod commands;
mod credentials;
mod failures;
mod rights;
mod script;
mod scripted;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holdfast::config::credential::CredentialSource;
use holdfast::config::{Checksums, S3Config};
use holdfast::store::Store;
use holdfast::store::s3::S3Store;

use super::shared;
use crate::rig::s3::{Credential, Grant, S3Server};

/// The smallest that S3 takes, so that bodies of tests have several.
pub const PART: u64 = 5 << 20;

/// A server with a plain and a versioned bucket, and who may do what in them.
pub struct Site {
    pub server: S3Server,
    folder: tempfile::TempDir,
}

impl Site {
    pub async fn start() -> Self {
        Self::with(S3Server::start().await).await
    }

    pub async fn start_with_tls() -> Self {
        Self::with(S3Server::start_with_tls().await).await
    }

    async fn with(server: S3Server) -> Self {
        let mut site = Self::empty(server);
        for (bucket, versioned) in [("plain", false), ("versioned", true)] {
            site.server.bucket(bucket, versioned).await;
            site.user(bucket, &format!("{bucket}-writer"), Grant::Write).await;
            site.user(bucket, &format!("{bucket}-reader"), Grant::Read).await;
        }
        site
    }

    /// A server without buckets.
    pub fn empty(server: S3Server) -> Self {
        Self { server, folder: tempfile::tempdir().unwrap() }
    }

    /// Makes a user who may do this in the bucket, and the file of its credential.
    pub async fn user(&mut self, bucket: &str, name: &str, grant: Grant) -> Credential {
        let user = self.server.user(name);
        user.write(&self.file(name));
        self.server.grant(bucket, &user, grant).await;
        user
    }

    pub fn writer(&self, bucket: &str) -> Arc<dyn Store> {
        shared(S3Store::of(&self.config(bucket, &format!("{bucket}-writer"))))
    }

    pub fn reader(&self, bucket: &str) -> Arc<dyn Store> {
        shared(S3Store::of(&self.config(bucket, &format!("{bucket}-reader"))))
    }

    /// How the user of this name sees the bucket.
    pub fn config(&self, bucket: &str, user: &str) -> S3Config {
        config(&self.server.endpoint(), bucket, self.file(user), self.server.ca())
    }

    /// The file of a user's credential.
    pub fn file(&self, user: &str) -> PathBuf {
        self.folder.path().join(user)
    }
}

pub fn config(endpoint: &str, bucket: &str, file: PathBuf, ca: Option<PathBuf>) -> S3Config {
    S3Config {
        endpoint: Some(endpoint.to_owned()),
        region: "us-east-1".to_owned(),
        bucket: bucket.to_owned(),
        path_style: true,
        ca,
        checksums: Checksums::WhenRequired,
        credentials: CredentialSource::File { path: file, profile: "default".to_owned() },
        part_size: PART,
        connect_timeout: Duration::from_secs(5),
        stall_timeout: Duration::from_secs(30),
        request_timeout: Duration::from_secs(60),
    }
}
