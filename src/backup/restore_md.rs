//! `RESTORE.md`: how a person restores this snapshot with stock tools only.

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use crate::base::codes;
use crate::base::failure::Failure;

const TEMPLATE: &str = include_str!("templates/RESTORE.md");

/// Everything the page says. Holds no secret: it lies beside the snapshot.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    pub id: String,
    pub cluster: String,
    pub quality: String,
    pub taken_started: String,
    pub taken_finished: String,
    /// `taken_finished` in the form of `ssh-keygen -Overify-time`, UTC.
    pub verify_time: String,
    pub host: String,
    pub member: String,
    pub member_version: String,
    pub revision: i64,
    pub compact_revision: i64,
    pub storage_version: String,
    /// `3.6`, or `of the member's version` where the file does not say.
    pub storage_minor: String,
    pub live_keys: u64,
    pub image_bytes: u64,
    pub image_sha256: String,
    /// The stores as the host that took the snapshot knows them.
    pub snapshot_store: String,
    pub escrow_store: String,
    pub snapshot_folder: String,
    /// The keys of this cluster in the escrow store.
    pub escrow_folder: String,
    pub object_key: String,
    pub object_bytes: u64,
    pub object_sha256: String,
    /// Where the store keeps versions.
    pub object_version: Option<String>,
    pub sealed_to: Vec<String>,
    pub keys: Vec<PageKey>,
    pub kms_keys: Vec<PageKms>,
    /// The configuration could not be read when the snapshot was taken.
    pub configuration_unread: bool,
    /// The EncryptionConfiguration with placeholders for secrets.
    pub configuration: String,
    pub shape_host: String,
    pub prefix: String,
    pub alarms: Vec<String>,
    pub auth_enabled: bool,
}

/// A key of the configuration, and where it lies in escrow.
#[derive(Debug, Clone, Serialize)]
pub struct PageKey {
    pub fingerprint: String,
    pub provider: String,
    pub name: String,
    pub live_objects: u64,
    /// The escrow record's path without its ending.
    pub record: Option<String>,
    pub record_sha256: String,
    pub signer: String,
    pub verify_time: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct PageKms {
    pub name: String,
    pub fingerprint: String,
    pub objects: u64,
}

impl Page {
    /// # Errors
    /// Never for a page that this version made; the template is strict, so a
    /// mistake in it is an error and not a hole in the text.
    pub fn render(&self) -> Result<String, Failure> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment
            .render_str(TEMPLATE, minijinja::value::Serde(self))
            .map_err(|error| Failure::because(&codes::BACKUP_RESTORE_MD, "RESTORE.md", &error))
    }
}
