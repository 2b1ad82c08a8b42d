//! The command line: arguments, one file per subcommand, rendering.

pub mod catalog;
pub mod inspect;
mod inspect_page;
pub mod list;
pub mod report;
pub mod show;
pub mod table;

use std::process::ExitCode;

use crate::base::exit::Exit;

/// Runs the program and maps its outcome to an exit code.
#[must_use]
pub fn main() -> ExitCode {
    Exit::Usage.into()
}
