//! Real servers on loopback for tests of any binary: `#[path = "../rig/mod.rs"] mod rig;`.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod apiserver;
pub mod certificates;
pub mod daemon;
pub mod etcd;
pub mod s3;
