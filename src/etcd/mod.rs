//! etcd: see ARCHITECTURE.md.
