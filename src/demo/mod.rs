//! demo: see ARCHITECTURE.md.
