//! Finds programs by name and version.
//!
//! Looked at in this order: the directories that the operator names, `PATH`,
//! the cache that `make tools` fills (`CACHE/NAME-VERSION/NAME`). A program
//! counts by what it says its version is, wherever it lies. The first fitting
//! place wins, among several versions that fit the one wanted most.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::base::codes;
use crate::base::failure::Failure;

/// A program that tells its version.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub name: &'static str,
    /// What makes it print its version and end.
    pub version_arguments: &'static [&'static str],
}

/// Which releases will do: minor versions, the best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions(Vec<(u32, u32)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Named by the operator, in order.
    pub directories: Vec<PathBuf>,
    pub path: Vec<PathBuf>,
    /// What `make tools` fills.
    pub cache: Option<PathBuf>,
}

/// A program that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub version: Version,
}

/// Printing a version takes a cold, loaded machine a second or two.
const VERSION_LIMIT: Duration = Duration::from_secs(30);
/// What a program prints as its version fits a screen.
const MAX_VERSION_OUTPUT: usize = 64 << 10;

impl Places {
    /// The usual places: `configured` (`rehearsal.tools`), `HOLDFAST_TOOLS`,
    /// `PATH`, and the cache. `variable` reads the environment.
    pub fn usual(configured: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let directories = configured.map(Path::to_owned).into_iter().chain(set("HOLDFAST_TOOLS").map(PathBuf::from)).collect();
        let path = set("PATH").map_or_else(Vec::new, |path| std::env::split_paths(&path).collect());
        let cache = set("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(Path::new(&set("HOME")?).join(".cache")));
        Self { directories, path, cache: cache.map(|cache| cache.join("holdfast").join("tools")) }
    }

    /// All files that could be the program, in the order of places.
    fn candidates(&self, name: &str) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = self.directories.iter().chain(&self.path).map(|directory| directory.join(name)).collect();
        let mut cached: Vec<PathBuf> = self
            .cache
            .iter()
            .flat_map(|cache| fs::read_dir(cache).into_iter().flatten().flatten())
            .filter(|entry| is_version_of(&entry.file_name(), name))
            .map(|entry| entry.path().join(name))
            .collect();
        cached.sort();
        found.extend(cached);
        found.retain(|path| is_program(path));
        let mut seen = std::collections::HashSet::new();
        found.retain(|path| seen.insert(path.clone()));
        found
    }
}

/// Finds `program` in a version that will do.
///
/// # Errors
/// `tool.missing` when it is nowhere, `tool.version` when no version that was
/// found will do; both name what was wanted, what was found and `make tools`.
pub async fn find(program: Program, wanted: &Versions, places: &Places) -> Result<Found, Failure> {
    let mut best: Option<(usize, Found)> = None;
    let mut unfit = Vec::new();
    for path in places.candidates(program.name) {
        let version = match ask_version(&path, program.version_arguments).await {
            Ok(version) => version,
            Err(why) => {
                unfit.push(format!("{} ({why})", path.display()));
                continue;
            }
        };
        match wanted.rank(version) {
            Some(0) => return Ok(Found { path, version }),
            Some(rank) if best.as_ref().is_none_or(|(other, _)| rank < *other) => best = Some((rank, Found { path, version })),
            Some(_) => {}
            None => unfit.push(format!("{} ({version})", path.display())),
        }
    }
    if let Some((_, found)) = best {
        return Ok(found);
    }
    let next = format!("run make tools, or name a directory with {} {wanted} in rehearsal.tools or HOLDFAST_TOOLS", program.name);
    let failure = if unfit.is_empty() {
        Failure::new(&codes::TOOL_MISSING, program.name, format!("wanted {wanted}, found none"))
    } else {
        Failure::new(&codes::TOOL_VERSION, program.name, format!("wanted {wanted}, found {}", unfit.join(", ")))
    };
    Err(failure.next(next))
}

impl Versions {
    /// Minor versions as (major, minor), the best first.
    #[must_use]
    pub fn of(minors: &[(u32, u32)]) -> Self {
        Self(minors.to_vec())
    }

    fn rank(&self, version: Version) -> Option<usize> {
        self.0.iter().position(|(major, minor)| (*major, *minor) == (version.major, version.minor))
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minors: Vec<_> = self.0.iter().map(|(major, minor)| format!("{major}.{minor}.x")).collect();
        f.write_str(&minors.join(" or "))
    }
}

impl Version {
    /// The first `N.N.N` in a text; what follows a patch, such as `-rc.1`, is not kept.
    #[must_use]
    pub fn find_in(text: &str) -> Option<Self> {
        text.split(|c: char| c.is_whitespace() || c == ',').find_map(|word| {
            let word = word.strip_prefix('v').unwrap_or(word);
            let mut parts = word.splitn(3, '.');
            let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
            let patch = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()?, patch: patch.parse().ok()? })
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[allow(clippy::disallowed_methods)] // this module is where processes come from
async fn ask_version(path: &Path, arguments: &[&str]) -> Result<Version, String> {
    let mut command = tokio::process::Command::new(path);
    command.args(arguments).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(VERSION_LIMIT, command.output())
        .await
        .map_err(|_| "does not print its version".to_owned())?
        .map_err(|e| e.to_string())?;
    let bytes = &output.stdout[..output.stdout.len().min(MAX_VERSION_OUTPUT)];
    Version::find_in(&String::from_utf8_lossy(bytes)).ok_or_else(|| "prints no version".to_owned())
}

/// `etcd-3.6.16` is a version of `etcd`; `etcd-dump-3.6` is not.
fn is_version_of(entry: &OsStr, name: &str) -> bool {
    entry
        .to_str()
        .and_then(|entry| entry.strip_prefix(name)?.strip_prefix('-'))
        .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETCD: Program = Program { name: "etcd", version_arguments: &["--version"] };

    fn program(directory: &Path, name: &str, says: &str) -> PathBuf {
        fs::create_dir_all(directory).unwrap();
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, version) in [
            ("etcd Version: 3.6.16\nGit SHA: x\nGo Version: go1.26.8\n", Some((3, 6, 16))),
            ("Kubernetes v1.34.4\n", Some((1, 34, 4))),
            ("etcdutl version: 3.7.0-rc.1\nAPI version: 3.7\n", Some((3, 7, 0))),
            ("3.6\n", None),
            ("", None),
            ("99999999999.1.1", None),
        ] {
            let wanted = version.map(|(major, minor, patch)| Version { major, minor, patch });
            assert_eq!(Version::find_in(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn the_usual_places_come_from_the_environment() {
        let variable = |name: &str| match name {
            "HOLDFAST_TOOLS" => Some("/tools".into()),
            "PATH" => Some("/bin:/usr/bin".into()),
            "HOME" => Some("/home/op".into()),
            _ => None,
        };
        let places = Places::usual(Some(Path::new("/configured")), variable);
        assert_eq!(places.directories, [Path::new("/configured"), Path::new("/tools")]);
        assert_eq!(places.path.len(), 2);
        assert_eq!(places.cache.as_deref(), Some(Path::new("/home/op/.cache/holdfast/tools")));
        assert_eq!(Places::usual(None, |_| None).cache, None);
    }

    #[tokio::test]
    async fn the_version_decides_and_not_the_place() {
        let root = tempfile::tempdir().unwrap();
        let old = program(&root.path().join("bin"), "etcd", "etcd Version: 3.5.9");
        let cache = root.path().join("cache");
        let fit = program(&cache.join("etcd-3.6.16"), "etcd", "etcd Version: 3.6.16");
        program(&cache.join("etcdutl-3.6.16"), "etcd", "etcd Version: 3.6.1");
        let places = Places { path: vec![root.path().join("bin")], cache: Some(cache), ..Places::default() };

        let found = find(ETCD, &Versions::of(&[(3, 6), (3, 5)]), &places).await.unwrap();
        assert_eq!(found, Found { path: fit, version: Version { major: 3, minor: 6, patch: 16 } });
        let found = find(ETCD, &Versions::of(&[(3, 7), (3, 5)]), &places).await.unwrap();
        assert_eq!(found.path, old, "the second best is taken where the best is not there");
    }

    #[tokio::test]
    async fn what_is_missing_or_unfit_is_named_with_make_tools() {
        let root = tempfile::tempdir().unwrap();
        let places = Places { directories: vec![root.path().to_owned()], ..Places::default() };
        let missing = find(ETCD, &Versions::of(&[(3, 6)]), &places).await.unwrap_err();
        assert_eq!(missing.code(), &codes::TOOL_MISSING);
        assert_eq!(missing.object(), "etcd");
        assert!(missing.cause().contains("3.6.x") && missing.next_action().contains("make tools"), "{missing:?}");

        let path = program(root.path(), "etcd", "etcd Version: 3.5.9");
        let unfit = find(ETCD, &Versions::of(&[(3, 6), (3, 7)]), &places).await.unwrap_err();
        assert_eq!(unfit.code(), &codes::TOOL_VERSION);
        for part in ["3.6.x or 3.7.x", "3.5.9", path.to_str().unwrap()] {
            assert!(unfit.cause().contains(part), "{unfit:?}");
        }
        assert!(unfit.next_action().contains("make tools"));
    }
}
