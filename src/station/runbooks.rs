//! The pages of this host: those in the binary, or those of `rehearsal.runbooks`.

use std::path::Path;

use super::Station;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::rehearsal::ACTIONS;
use crate::runbook::model::Runbook;

/// The pages in the binary, by their file names.
const SHIPPED: &[(&str, &[u8])] = &[
    ("etcd-restore.md", include_bytes!("../../runbooks/etcd-restore.md")),
    ("etcd-member.md", include_bytes!("../../runbooks/etcd-member.md")),
];

/// A page that was found.
#[derive(Debug)]
pub struct Page {
    /// Its file, or its name in the binary.
    pub place: String,
    pub runbook: Result<Runbook, Failure>,
}

impl Station {
    /// The page with this id.
    ///
    /// # Errors
    /// `runbook.unknown`, and `runbook.invalid` with all its mistakes.
    pub fn runbook(&self, id: &str) -> Result<Runbook, Failure> {
        let unknown = |object: &str, cause: &str| {
            Failure::new(&codes::RUNBOOK_UNKNOWN, object, cause).next("holdfast runbook list shows the runbooks of this host")
        };
        // An id becomes part of a path.
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
            return Err(unknown(id, "no runbook has this id: it has lower-case letters, digits and hyphens"));
        }
        let file = format!("{id}.md");
        let (place, bytes) = match &self.config.rehearsal.runbooks {
            Some(folder) => {
                let path = folder.join(&file);
                let bytes = std::fs::read(&path).map_err(|e| Failure::because(&codes::RUNBOOK_UNKNOWN, path.display(), &e))?;
                (path.display().to_string(), bytes)
            }
            None => {
                let found = SHIPPED.iter().find(|(name, _)| *name == file);
                let (_, bytes) = found.ok_or_else(|| unknown(id, "the binary has no runbook with this id"))?;
                (file, bytes.to_vec())
            }
        };
        let runbook = parse(&place, &bytes)?;
        if runbook.id != id {
            let cause =
                format!("line 2: `id` is {:?}; a page is found by its file's name, so that it must be {id:?}", runbook.id);
            return Err(Failure::new(&codes::RUNBOOK_INVALID, place, cause));
        }
        Ok(runbook)
    }

    /// The page with this id; the binary's own where this host's directory, which
    /// may be older than the page, has none.
    ///
    /// # Errors
    /// As [`Station::runbook`].
    pub fn runbook_or_shipped(&self, id: &str) -> Result<Runbook, Failure> {
        let file = format!("{id}.md");
        let missing = |folder: &std::path::PathBuf| !folder.join(&file).exists();
        match SHIPPED.iter().find(|(name, _)| *name == file) {
            Some((_, bytes)) if self.config.rehearsal.runbooks.as_ref().is_some_and(missing) => parse(&file, bytes),
            _ => self.runbook(id),
        }
    }

    /// All pages of this host, by name, those with mistakes too.
    ///
    /// # Errors
    /// `runbook.unknown` where the directory cannot be read.
    pub fn runbooks(&self) -> Result<Vec<Page>, Failure> {
        let Some(folder) = &self.config.rehearsal.runbooks else {
            let page = |(name, bytes): &(&str, &[u8])| Page { place: (*name).to_owned(), runbook: parse(name, bytes) };
            return Ok(SHIPPED.iter().map(page).collect());
        };
        let unreadable = |e| Failure::because(&codes::RUNBOOK_UNKNOWN, folder.display(), &e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
            let is_page = path.extension().is_some_and(|ending| ending == "md") && name.as_deref() != Some("README");
            names.extend(name.filter(|_| is_page));
        }
        names.sort();
        let page =
            |name: String| Page { place: folder.join(format!("{name}.md")).display().to_string(), runbook: self.runbook(&name) };
        Ok(names.into_iter().map(page).collect())
    }
}

fn parse(place: &str, bytes: &[u8]) -> Result<Runbook, Failure> {
    Runbook::parse(bytes, ACTIONS).map_err(|mistakes| mistakes.into_failure(Path::new(place).display()))
}
