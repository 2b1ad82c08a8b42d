//! Directories as the kernel knows them, so that symbolic links, `..`, trailing
//! slashes and bind mounts hide nothing that is there when the file is read.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// How the directory `a` meets `b`, if it does.
pub(super) fn overlap(a: &Path, b: &Path) -> Option<&'static str> {
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

pub(super) fn contains(outer: &Known, inner: &Known) -> bool {
    inner.path.starts_with(&outer.path) || outer.id.is_some_and(|id| inner.above.contains(&id))
}

/// Device and inode.
type FileId = (u64, u64);

/// A path as the kernel knows it.
#[derive(Debug)]
pub(super) struct Known {
    /// Without links and `..`, as far as it exists.
    path: PathBuf,
    /// If it exists.
    id: Option<FileId>,
    /// Of itself and all directories above it.
    above: BTreeSet<FileId>,
}

impl Known {
    pub fn of(path: &Path) -> Self {
        let path = resolve(path);
        let above = path.ancestors().filter_map(file_id).collect();
        Self { id: file_id(&path), above, path }
    }

    pub fn is_same(&self, other: &Self) -> bool {
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
