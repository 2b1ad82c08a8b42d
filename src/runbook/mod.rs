//! runbook: see ARCHITECTURE.md.
