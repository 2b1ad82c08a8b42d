//! `holdfast completions SHELL`: what a shell needs to complete a command line.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use super::args::Arguments;
use super::render;
use crate::base::exit::Exit;
use crate::base::failure::Failure;

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell that will read the script.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// `output` when it cannot be written.
pub fn print(arguments: &Completions, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "holdfast", &mut script);
    let printed = if json {
        let document = json!({ "shell": arguments.shell.to_string(), "script": String::from_utf8_lossy(&script) });
        writeln!(out, "{document}")
    } else {
        out.write_all(&script)
    };
    printed.map_err(render::unprinted)?;
    Ok(Exit::Good)
}
