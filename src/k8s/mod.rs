//! Kubernetes byte formats: what the API server keeps in etcd.

pub mod encryption_config;
