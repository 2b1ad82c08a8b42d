//! escrow: see ARCHITECTURE.md.
