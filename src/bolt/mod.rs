//! bolt: see ARCHITECTURE.md.
