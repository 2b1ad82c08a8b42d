//! ledger: see ARCHITECTURE.md.
