//! All integration tests in one binary, one module per area.

#![allow(clippy::unwrap_used)] // fixtures are as free to unwrap as tests

mod backup;
mod bolt;
mod capture;
mod catalog;
mod config;
mod daemon;
mod data;
mod doctor;
mod encryption_config;
mod escrow;
mod etcd_image;
mod inspect;
mod k8s_hostile;
mod k8s_vectors;
mod ledger;
mod node;
mod record;
mod report;
#[path = "../rig/mod.rs"]
mod rig;
mod runbook;
mod s3_rig;
mod sandbox;
mod store;
mod test_key;
mod tools;
