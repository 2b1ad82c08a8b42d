//! Reports: what is built from a journal, and how its three faces tell it.

mod faces;
mod model;
mod people;
mod sample;
