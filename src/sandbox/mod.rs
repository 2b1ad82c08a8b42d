//! sandbox: see ARCHITECTURE.md.
