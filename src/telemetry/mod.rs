//! What the program says about itself while it works.
//!
//! Owns: setting up the log. Must never: write to standard output, which
//! belongs to answers, or hold a value that could be a secret.

pub mod log;
