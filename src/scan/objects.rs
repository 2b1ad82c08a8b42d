//! Live objects with their plaintext, for proofs.
