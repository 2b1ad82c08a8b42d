//! `holdfast man`: the manual pages, made from the same words as `--help`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use super::args::Arguments;
use super::render;
use crate::base::codes;
use crate::base::exit::Exit;
use crate::base::failure::Failure;

#[derive(Debug, Args)]
pub struct ManArguments {
    /// Write a page for the program and one for each command into this directory.
    ///
    /// It is made where it is missing; pages of an earlier version are replaced.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Prints the page of the program, or writes all pages and says where.
///
/// # Errors
/// `output` when a page cannot be written; those before it are there.
pub fn run(arguments: &ManArguments, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let pages = pages();
    let printed = match &arguments.out {
        Some(folder) => {
            let written = write(&pages, folder)?;
            let names: Vec<_> = written.iter().map(|path| path.display().to_string()).collect();
            if json {
                writeln!(out, "{}", json!({ "written": names }))
            } else {
                names.iter().try_for_each(|name| writeln!(out, "{name}"))
            }
        }
        None if json => writeln!(out, "{}", json!({ "page": String::from_utf8_lossy(&pages[0].roff) })),
        None => out.write_all(&pages[0].roff),
    };
    printed.map_err(render::unprinted)?;
    Ok(Exit::Good)
}

struct Page {
    /// Such as `holdfast-list.1`.
    file: String,
    roff: Vec<u8>,
}

/// The program's page, then those of its commands, each before its own.
fn pages() -> Vec<Page> {
    // Every command has `help`; a page for each would say nothing.
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add(program, &mut pages);
    pages
}

fn add(command: Command, pages: &mut Vec<Page>) {
    let below: Vec<Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let man = Man::new(command).manual("holdfast");
    let mut roff = Vec::new();
    man.render(&mut roff).expect("a vector takes everything");
    pages.push(Page { file: man.get_filename(), roff });
    for command in below {
        add(command, pages);
    }
}

fn write(pages: &[Page], folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |path: &Path, error: io::Error| Failure::because(&codes::OUTPUT, path.display(), &error);
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let write = |page: &Page| {
        let path = folder.join(&page.file);
        fs::write(&path, &page.roff).map_err(|error| failed(&path, error))?;
        Ok(path)
    };
    pages.iter().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_the_program_and_for_each_command_down_to_the_last() {
        let pages = pages();
        let files: Vec<_> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(files[0], "holdfast.1");
        for file in ["holdfast-list.1", "holdfast-catalog.1", "holdfast-catalog-rebuild.1"] {
            assert!(files.contains(&file), "{files:?}");
        }
        assert!(!files.iter().any(|file| file.contains("help")), "{files:?}");
        for page in &pages {
            let text = String::from_utf8(page.roff.clone()).unwrap();
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{}: {text}", page.file);
        }
    }
}
