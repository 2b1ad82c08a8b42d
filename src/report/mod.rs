//! Reports: one model from the journal, three faces.
//!
//! Owns: [`model::Report`], built by a pure function from a run's head, its
//! runbook and its events; the document that Markdown and HTML both render, so
//! that they cannot tell different things; JSON.
//! Must never: do I/O, ask a clock, or know anything that the journal does not
//! say. No JavaScript, no file beside the HTML one.
//!
//! Invariants: the same events give the same bytes; text from outside (object
//! names, causes) is escaped in every face and cannot reorder what is around it.

pub mod document;
pub mod html;
pub mod json;
pub mod manual;
pub mod markdown;
pub mod model;
mod people;
mod sections;
mod svg;
mod timing;
mod verdict;
