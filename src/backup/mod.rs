//! backup: see ARCHITECTURE.md.
