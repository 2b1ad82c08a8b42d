//! rehearsal: see ARCHITECTURE.md.
