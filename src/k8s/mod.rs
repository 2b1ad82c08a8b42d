//! Kubernetes byte formats: what the API server keeps in etcd, and the
//! EncryptionConfiguration that says how it is encrypted.
//!
//! Owns: stored values and their encryption prefixes, EncryptionConfiguration,
//! key fingerprints, trial decryption, the identity of objects, the paths of
//! resources. Must never: talk to an API server, do I/O, decrypt through a KMS,
//! or take a key's name as proof of anything: only decryption to an object that
//! fits its etcd key binds a key to a value. Every input is hostile: readers
//! are bounded and never panic, and no error holds key material or plaintext.

pub mod encryption_config;
pub mod fingerprint;
pub mod kms_envelope;
pub mod local_key;
pub mod object;
pub mod reading;
pub mod resource;
pub mod stored;
pub mod trial;

mod aescbc;
mod aesgcm;
mod secretbox;
// etcd's own records use the same wire format, so `scan` reads them with it.
pub(crate) mod wire;

pub use encryption_config::{EncryptionConfig, NamedConfig};
pub use local_key::{LocalKey, LocalProvider};
pub use stored::{Stored, classify};
pub use trial::{OpenError, Plaintext, object_fits, open};
