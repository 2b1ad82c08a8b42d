//! report: see ARCHITECTURE.md.
