//! The command line: arguments, one file per subcommand, rendering.

pub mod report;

use std::process::ExitCode;

use crate::base::exit::Exit;

/// Runs the program and maps its outcome to an exit code.
#[must_use]
pub fn main() -> ExitCode {
    Exit::Usage.into()
}
