//! Signers for tests, from keys that are checked in and protect nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use holdfast::record::signature::{AllowedSigners, Signer};
use jiff::tz::TimeZone;

/// A file of the golden records.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/records").join(name)
}

/// A copy of a checked-in key with the mode that a private key must have,
/// which a checkout does not keep.
pub fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, std::fs::read(data(name)).unwrap()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    (dir, path)
}

/// Signs as `principal` with the key that tests allow.
pub fn signer(principal: &str) -> Signer {
    let (_dir, path) = copy("test-key");
    Signer::load(&path, principal.parse().unwrap()).unwrap()
}

/// Signs as `principal` with a key that nobody allows.
pub fn stranger(principal: &str) -> Signer {
    let (_dir, path) = copy("other-key");
    Signer::load(&path, principal.parse().unwrap()).unwrap()
}

/// Allows the signers given, for everything and forever.
pub fn allowed(signers: &[&Signer]) -> AllowedSigners {
    let text: String = signers.iter().map(|signer| signer.public_line() + "\n").collect();
    AllowedSigners::parse("allowed_signers", &text, &TimeZone::UTC).unwrap()
}
