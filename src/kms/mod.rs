//! A KMS plugin that serves keys out of escrow.
//!
//! Owns: the scheme of barbican-kms-plugin, the services `v2` and `v1beta1`
//! that an API server speaks, and the socket they lie on.
//! Must never: ask another KMS, log a key or what it opens, or answer with
//! bytes that the key asked for does not open.

/// Messages and services, made from `proto/kms`.
#[allow(clippy::all, clippy::pedantic, missing_debug_implementations)]
pub mod proto {
    pub mod v1beta1 {
        tonic::include_proto!("v1beta1");
    }
    pub mod v2 {
        tonic::include_proto!("v2");
    }
}
