//! Snapshots and keys never share a place or a recipient: the refusals.
//!
//! Owns: comparing the places, recipients and secret files of one
//! configuration ([`directories`], [`buckets`] and credentials). No two stores
//! share a directory or a bucket. Snapshots and escrow share no credential
//! either, as far as it can be read where this runs: a command that uses one
//! store must not fail for the credential of another.

mod buckets;
mod directories;

use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;

use super::credential::{Credential, CredentialSource};
use super::mistake::{Kind, Mistake};
use super::section::Walk;
pub(super) use buckets::Bucket;
use directories::{Known, contains, overlap};

/// What must be kept apart, gathered while the file is checked.
#[derive(Debug, Default)]
pub(super) struct Separation {
    places: Vec<Directory>,
    buckets: Vec<Bucket>,
    credentials: Vec<Used>,
    sealed: Vec<Sealed>,
    secrets: Vec<SecretFile>,
}

/// The root of an `fs` store.
#[derive(Debug)]
struct Directory {
    section: String,
    path: PathBuf,
    span: Range<usize>,
}

/// The credential of an S3 store.
#[derive(Debug)]
struct Used {
    section: String,
    source: CredentialSource,
    span: Range<usize>,
}

/// To whom a section is sealed.
#[derive(Debug)]
struct Sealed {
    section: String,
    recipients: Vec<Spanned<String>>,
    identity_file: Option<Spanned<PathBuf>>,
}

/// A file with a secret in it.
#[derive(Debug)]
struct SecretFile {
    key: String,
    path: PathBuf,
    span: Range<usize>,
}

impl Separation {
    pub fn place(&mut self, section: String, path: Option<&Spanned<PathBuf>>) {
        self.places.extend(path.map(|path| Directory { section, path: path.get_ref().clone(), span: path.span() }));
    }

    pub fn bucket(&mut self, bucket: Bucket) {
        self.buckets.push(bucket);
    }

    pub fn credential(&mut self, section: String, source: &Spanned<CredentialSource>) {
        self.credentials.push(Used { section, source: source.get_ref().clone(), span: source.span() });
    }

    pub fn sealed(&mut self, section: String, recipients: &[Spanned<String>], identity_file: Option<&Spanned<PathBuf>>) {
        self.sealed.push(Sealed { section, recipients: recipients.to_vec(), identity_file: identity_file.cloned() });
    }

    pub fn secret(&mut self, key: &str, path: Option<&Spanned<PathBuf>>) {
        self.secrets.extend(path.map(|path| SecretFile { key: key.to_owned(), path: path.get_ref().clone(), span: path.span() }));
    }

    /// Notes every pair that is not apart, with both places.
    pub fn check(&self, walk: &Walk) {
        for (i, second) in self.places.iter().enumerate() {
            for first in &self.places[..i] {
                if let Some(how) = overlap(&second.path, &first.path) {
                    let message = format!("[{}] {how} [{}]", second.section, first.section);
                    walk.note(apart(message, &second.span, &first.span, &first.section));
                }
            }
            for secret in self.secrets.iter().filter(|secret| contains(&Known::of(&second.path), &Known::of(&secret.path))) {
                let message = format!(
                    "{} lies in the directory of [{}]: whoever gets the store gets the secret",
                    secret.key, second.section
                );
                walk.note(apart(message, &secret.span, &second.span, &second.section));
            }
        }
        for (i, second) in self.buckets.iter().enumerate() {
            for first in self.buckets[..i].iter().filter(|first| first.is_same(second)) {
                let message = format!("[{}] is the same bucket as [{}], whatever their prefixes", second.section, first.section);
                walk.note(apart(message, &second.span, &first.span, &first.section));
            }
        }
        self.shared_credentials(walk);
        for (i, second) in self.sealed.iter().enumerate() {
            for first in &self.sealed[..i] {
                shared_recipients(walk, first, second);
            }
        }
    }

    /// The ledger's credential may be that of another store: it holds no secret,
    /// and every host may read it.
    fn shared_credentials(&self, walk: &Walk) {
        let of = |section: &str| self.credentials.iter().find(|used| used.section.starts_with(section));
        let (Some(first), Some(second)) = (of("snapshots."), of("escrow.")) else { return };
        let same = first.source == second.source
            || matches!((read(first), read(second)), (Some(a), Some(b)) if a.access_key_id == b.access_key_id);
        if same {
            let message = format!("[{}] has the credential of [{}]: whoever gets one gets both", second.section, first.section);
            walk.note(apart(message, &second.span, &first.span, &first.section));
        }
    }
}

/// A credential that cannot be read here is told by the command that needs it.
fn read(used: &Used) -> Option<Credential> {
    used.source.read(&|name| std::env::var_os(name)).ok()
}

fn shared_recipients(walk: &Walk, first: &Sealed, second: &Sealed) {
    for recipient in &second.recipients {
        if let Some(other) = first.recipients.iter().find(|other| other.get_ref() == recipient.get_ref()) {
            let message = format!("{}.recipients shares a recipient with {}.recipients", second.section, first.section);
            walk.note(apart(message, &recipient.span(), &other.span(), &first.section));
        }
    }
    if let (Some(a), Some(b)) = (&second.identity_file, &first.identity_file)
        && Known::of(a.get_ref()).is_same(&Known::of(b.get_ref()))
    {
        let message = format!("{}.identity_file is the identity of {} too", second.section, first.section);
        walk.note(apart(message, &a.span(), &b.span(), &first.section));
    }
}

fn apart(message: String, here: &Range<usize>, there: &Range<usize>, section: &str) -> Mistake {
    let mut mistake = Mistake::new(Kind::NotSeparated, Some(here.clone()), message);
    mistake.other = Some((there.clone(), format!("[{section}] says so here")));
    mistake
}
