//! Runbooks: a page a person can follow, and that holdfast can run.
//!
//! Owns: reading Markdown into steps ([`model`], [`parse`]), the decision what
//! runs next ([`engine`], pure), the journal and its legal transitions
//! ([`journal`], [`history`]), the loop that runs steps and journals each before
//! and after ([`run`]), what people answer, from whatever process
//! ([`answer`], [`desk`]), and what a step may state ([`facts`]).
//! Must never: know what a step does (that is [`run::Actions`]), keep a journal
//! itself, or count a step as done that did not say so.
//!
//! Invariants: a step that began and did not end is unknown, never done; it is
//! run again as the next attempt. A person's step is open until a person
//! answers it, whatever process ends meanwhile. Steps marked `always` run whatever happened
//! before them. From any prefix of a legal journal the engine goes on.

pub mod answer;
pub mod desk;
pub mod engine;
pub mod facts;
mod fields;
pub mod history;
pub mod journal;
pub mod mistakes;
pub mod model;
mod page;
pub mod parse;
pub mod print;
pub mod run;
mod wait;
