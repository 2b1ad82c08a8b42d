//! The binary: TLS provider, runtime, arguments, exit code. Nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdfast::cli::main()
}
