//! The random-access face over a mapped file.
