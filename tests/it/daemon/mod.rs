//! The daemon's loop under a clock that a test moves, and its pages over a real socket.

mod pages;
mod scripted;
mod stopping;
mod turning;
