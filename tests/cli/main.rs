//! Recorded transcripts of commands: what an operator types and sees.
