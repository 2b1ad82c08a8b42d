//! Real etcd and kube-apiserver. A missing program fails the test with its name and `make tools`.

#![allow(clippy::unwrap_used)] // fixtures are as free to unwrap as tests

mod daemon;
mod demo;
mod doctor;
mod etcd_cluster;
mod inspect;
mod operated;
mod rehearse;
mod rehearse_bad_input;
mod restore;
#[path = "../rig/mod.rs"]
mod rig;
mod scene;
mod snapshot;
mod wrong_keys;
