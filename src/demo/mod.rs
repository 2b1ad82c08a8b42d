//! The demo: the whole product on a real etcd and a real API server.
//!
//! Owns: a production cluster in miniature ([`rig`]), two hosts' configurations
//! around it ([`site`]), what is written into it ([`workload`]) and the story
//! that `make demo` tells ([`story`], [`telling`]). Must never: fake a step. What it shows
//! is the program itself, run as an operator runs it, with its exit codes.

pub mod rig;
pub mod site;
pub mod story;
pub mod telling;
pub mod workload;

pub use story::{Demo, run};
