//! Snapshots and keys never share a place or a recipient: the refusals.
//!
//! Owns: comparing the places, recipients and secret files of one
//! configuration. Directories are compared as the kernel knows them, so that
//! symbolic links, `..`, trailing slashes and bind mounts hide nothing that is
//! there when the file is read. Rules for buckets and credentials join here.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use toml::Spanned;

use super::mistake::{Kind, Mistake};
use super::section::Walk;

/// What must be kept apart, gathered while the file is checked.
#[derive(Debug, Default)]
pub(super) struct Separation {
    places: Vec<Directory>,
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
        for (i, second) in self.sealed.iter().enumerate() {
            for first in &self.sealed[..i] {
                shared_recipients(walk, first, second);
            }
        }
    }
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

/// How the directory `a` meets `b`, if it does.
fn overlap(a: &Path, b: &Path) -> Option<&'static str> {
    let (a, b) = (Known::of(a), Known::of(b));
    if a.is_same(&b) {
        Some("is the same directory as")
    } else if contains(&b, &a) {
        Some("lies inside")
    } else if contains(&a, &b) {
        Some("lies around")
    } else {
        None
    }
}

fn contains(outer: &Known, inner: &Known) -> bool {
    inner.path.starts_with(&outer.path) || outer.id.is_some_and(|id| inner.above.contains(&id))
}

/// Device and inode.
type FileId = (u64, u64);

/// A path as the kernel knows it.
#[derive(Debug)]
struct Known {
    /// Without links and `..`, as far as it exists.
    path: PathBuf,
    /// If it exists.
    id: Option<FileId>,
    /// Of itself and all directories above it.
    above: BTreeSet<FileId>,
}

impl Known {
    fn of(path: &Path) -> Self {
        let path = resolve(path);
        let above = path.ancestors().filter_map(file_id).collect();
        Self { id: file_id(&path), above, path }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.path == other.path || (self.id.is_some() && self.id == other.id)
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Follows what exists; of the rest `..` takes away the name before it.
fn resolve(path: &Path) -> PathBuf {
    let mut rest: Vec<OsString> = Vec::new();
    let mut existing = path.to_path_buf();
    loop {
        if let Ok(real) = existing.canonicalize() {
            let path = rest.iter().rev().fold(real, |path, name| if name == ".." { up(path) } else { path.join(name) });
            // What `..` led to may exist, and be a link.
            return if rest.iter().any(|name| name == "..") { resolve(&path) } else { path };
        }
        let Some(last) = existing.components().next_back() else { return path.to_path_buf() };
        rest.extend(match last {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        });
        existing = existing.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    }
}

fn up(mut path: PathBuf) -> PathBuf {
    path.pop();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_directory_is_found_under_every_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("a/inner")).unwrap();
        std::fs::create_dir(root.join("ab")).unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        let at = |text: &str| PathBuf::from(format!("{}/{text}", root.display()));
        for (a, b, how) in [
            ("a", "a/", Some("is the same directory as")),
            ("a/./inner/..", "a", Some("is the same directory as")),
            ("link", "a", Some("is the same directory as")),
            ("link/inner", "a", Some("lies inside")),
            ("a", "link/inner", Some("lies around")),
            ("a/later", "link", Some("lies inside")),
            ("a/later/x", "link/later", Some("lies inside")),
            ("later/../a", "a", Some("is the same directory as")),
            ("later/../link", "a", Some("is the same directory as")),
            ("later/x", "later", Some("lies inside")),
            ("ab", "a", None),
            ("a/inner", "a/inner2", None),
            ("later", "later2", None),
        ] {
            assert_eq!(overlap(&at(a), &at(b)), how, "{a} and {b}");
        }
    }

    #[test]
    fn a_hard_link_to_an_identity_is_the_same_identity() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, c) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        std::fs::write(&a, "").unwrap();
        std::fs::write(&c, "").unwrap();
        std::fs::hard_link(&a, &b).unwrap();
        assert!(Known::of(&a).is_same(&Known::of(&b)));
        assert!(!Known::of(&a).is_same(&Known::of(&c)));
    }
}
