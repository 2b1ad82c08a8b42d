//! Reads the file and hands out a checked configuration, or all its mistakes.

use std::io::Read;
use std::path::Path;

use toml::de::DeTable;

use super::Config;
use super::check::check;
use super::mistake::{self, Kind, Mistake};
use super::section::Walk;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::count;

/// A hundred times what a person writes.
const LARGEST_FILE: u64 = 1 << 20;

/// Reads and checks the configuration at `path`. Blocking: called once, before
/// anything else runs.
///
/// # Errors
/// `config.unreadable`; else as [`parse`].
pub fn load(path: &Path) -> Result<Config, Failure> {
    let unreadable = |cause: &dyn std::fmt::Display| Failure::new(&codes::CONFIG_UNREADABLE, path.display(), cause);
    let file = std::fs::File::open(path).map_err(|e| unreadable(&e))?;
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(unreadable(&"larger than a configuration can be (1 MiB)"));
    }
    let text = String::from_utf8(bytes).map_err(|_| unreadable(&"not UTF-8 text"))?;
    parse(&path.display().to_string(), &text)
}

/// Checks the configuration `text`; `file` names it in messages.
///
/// # Errors
/// `config.not-separated` when nothing is wrong but that snapshots and keys
/// would share something; else `config.invalid`. The cause lists all mistakes,
/// one below the other, each with its line and a caret.
pub fn parse(file: &str, text: &str) -> Result<Config, Failure> {
    let (config, mistakes, known) = examine(text);
    if let (Some(config), true) = (config, mistakes.is_empty()) {
        return Ok(config);
    }
    let well_formed = mistakes.iter().all(|m| m.kind == Kind::NotSeparated);
    let code = if well_formed { &codes::CONFIG_NOT_SEPARATED } else { &codes::CONFIG_INVALID };
    let list = mistake::render(file, text, &mistakes, &|key| known.iter().any(|k| k == key));
    Err(Failure::new(code, file, format!("{}\n{list}", count(mistakes.len() as u64, "mistake"))))
}

/// The configuration if it could be built, what is wrong, and every key that
/// this version knows.
pub(super) fn examine(text: &str) -> (Option<Config>, Vec<Mistake>, Vec<String>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let walk = Walk::default();
    for error in errors {
        walk.note(Mistake::new(Kind::Syntax, error.span(), error.message()));
    }
    let config = check(&walk, table.get_ref());
    let (mistakes, known) = walk.finish();
    (config, mistake::settle(text, mistakes), known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../config.example.toml");

    /// The example with all lines uncommented that `wanted` picks, but for the
    /// kind of store that stands there in place of another.
    fn uncommented(wanted: impl Fn(&str) -> bool) -> String {
        let setting = |line: &&str| line.starts_with('#') && line[1..].starts_with(|c: char| c.is_ascii_lowercase());
        let line = |line: &str| match Some(line).filter(setting).filter(|l| wanted(l)) {
            Some(setting) => format!("{}\n", &setting[1..]),
            None => format!("{line}\n"),
        };
        let mut in_place_of_another = false;
        let lines = EXAMPLE.lines().map(|text| {
            in_place_of_another = text.starts_with("#[") || (in_place_of_another && text.starts_with('#'));
            if in_place_of_another { format!("{text}\n") } else { line(text) }
        });
        lines.collect()
    }

    /// The example with directories in place of the ledger's bucket.
    fn with_a_directory() -> String {
        let start = EXAMPLE.find("[ledger.store.s3]").unwrap();
        let end = EXAMPLE.find("#[ledger.store.fs]").unwrap();
        format!("{}{}", &EXAMPLE[..start], EXAMPLE[end..].replace("#[ledger", "[ledger").replace("#path", "path"))
    }

    #[test]
    fn the_example_is_a_good_configuration() {
        let config = parse("config.example.toml", EXAMPLE).unwrap();
        assert_eq!(config.cluster.as_str(), "prod-eu1");
        // Nobody may run with the recipients of the example and not be told.
        assert!(config.notes().len() == 2 && config.notes().iter().all(|note| note.text.contains("nobody can open")));
        let notes = parse("config.example.toml", &with_a_directory()).unwrap().notes();
        assert!(notes.iter().any(|note| note.about == "ledger.store.fs" && note.text.contains("no credential separation")));
    }

    #[test]
    fn the_example_shows_every_default_as_it_is() {
        let with_defaults = uncommented(|line| !line.contains("# no default"));
        assert_ne!(with_defaults, EXAMPLE);
        assert_eq!(parse("example", &with_defaults).unwrap(), parse("example", EXAMPLE).unwrap());
    }

    #[test]
    fn the_example_covers_every_key() {
        let (text, directory) = (uncommented(|_| true), with_a_directory());
        let (config, mistakes, known) = examine(&text);
        assert!(config.is_some() && mistakes.is_empty(), "{mistakes:?}");
        let tables: Vec<toml::Table> = [text, directory].iter().map(|text| text.parse().unwrap()).collect();
        let has = |key: &str| {
            let (first, rest) = key.split_once('.').unwrap_or((key, ""));
            let steps = |table: &toml::Table| {
                let mut steps = rest.split('.').filter(|step| !step.is_empty());
                steps.try_fold(table.get(first).cloned(), |at, step| Some(at?.get(step).cloned())).flatten().is_some()
            };
            tables.iter().any(steps)
        };
        // A store knows the same keys in all three places: they are shown once.
        let shown = |key: &str| match key.split_once(".store.") {
            Some((_, rest)) => ["snapshots", "escrow", "ledger"].iter().any(|place| has(&format!("{place}.store.{rest}"))),
            None => has(key),
        };
        let missing: Vec<_> = known.iter().filter(|key| !shown(key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(known.len() > 80, "{known:?}");
    }
}
