//! What a credential may do with a store, asked for with the very requests.
//!
//! A store is used through [`super::Store`], which has no way to delete or to
//! overwrite. That somebody who takes this host's credential has none either is
//! the store's to say, and here it is asked.
//!
//! Must never: delete or alter an object that counts. What is asked for is done
//! to a name that the caller keeps for this and for nothing else.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::fs::FsStore;
use super::s3::S3Store;
use super::{Key, Prefix, StoreError, VersionId};
use crate::config::StoreConfig;

/// Something that a credential may do or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Right {
    /// Puts a few bytes under the name.
    Put(Key),
    /// Opens the object and reads at most one byte of it.
    Get(Key),
    /// Asks for the first names below the prefix.
    List(Prefix),
    /// Deletes the object: only ever one that [`Right::Put`] made.
    Delete(Key),
    /// Deletes a version of the object that never was: the right that destroys
    /// what a store of versions keeps, without a thing to destroy.
    DeleteVersion(Key),
    /// Begins an upload in parts and gives it up.
    Multipart(Key),
}

/// What the store answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// With the version that was made, where the store keeps versions.
    Allowed(Option<VersionId>),
    /// In the store's words.
    Denied(String),
    /// There is no such object, which a store tells only those who may know.
    Absent,
}

/// What a store says of how it keeps objects; an error is why it does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// Does a put over a name leave the object before it?
    pub versions: Result<bool, String>,
    /// For how long nobody may delete, where it says so.
    pub lock: Result<Option<String>, String>,
}

/// A store that can be asked.
#[async_trait]
pub trait Rights: Debug + Send + Sync {
    /// Kind and address for messages, as of the store itself.
    fn describe(&self) -> String;

    /// Can it grant one right without the others?
    fn separates(&self) -> bool;

    /// Asks for one thing. An error means that the store gave no answer to this.
    async fn ask(&self, right: &Right) -> Result<Answer, StoreError>;

    async fn keeping(&self) -> Keeping;
}

/// The rights of the credential that the configuration names.
#[must_use]
pub fn of(config: &StoreConfig) -> Arc<dyn Rights> {
    match config {
        StoreConfig::Fs { path } => Arc::new(FsStore::at(path)),
        StoreConfig::S3(config) => Arc::new(S3Store::of(config)),
    }
}

/// What the credential of `other` may do with the store of `config`; none where
/// credentials do not decide, or where both stores have the same one.
#[must_use]
pub fn across(config: &StoreConfig, other: &StoreConfig) -> Option<Arc<dyn Rights>> {
    let (StoreConfig::S3(config), StoreConfig::S3(other)) = (config, other) else { return None };
    let variables = |name: &str| std::env::var_os(name);
    let (own, foreign) = (config.credentials.read(&variables), other.credentials.read(&variables));
    let same = own.is_ok() && own == foreign;
    let crossed = crate::config::S3Config { credentials: other.credentials.clone(), ..config.clone() };
    (!same).then(|| Arc::new(S3Store::of(&crossed)) as Arc<dyn Rights>)
}
