//! A signer: a principal and its ed25519 key.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::Principal;

/// Longest key file that is read: an ed25519 key has about 400 bytes.
const MAX_KEY_BYTES: u64 = 16 << 10;

/// Signs in one principal's name. The key never leaves it.
pub struct Signer {
    principal: Principal,
    key: PrivateKey,
    /// `ssh-ed25519` and the key, without the comment of its file.
    public_key: String,
}

impl Signer {
    /// Reads an OpenSSH ed25519 private key that has no passphrase and that
    /// only its owner can read.
    pub fn load(path: &Path, principal: Principal) -> Result<Self, Failure> {
        let refuse = |cause: String| Failure::new(&codes::SIGNING_KEY_UNUSABLE, path.display(), cause);
        let file = File::open(path).map_err(|e| refuse(e.to_string()))?;
        let metadata = file.metadata().map_err(|e| refuse(e.to_string()))?;
        // As ssh does: the group of a file that another user owns may be a
        // mask, as for credentials that systemd hands to a service.
        let own = metadata.uid() == rustix::process::geteuid().as_raw();
        let others = metadata.mode() & if own { 0o077 } else { 0o007 };
        if others != 0 {
            let cause = format!("mode {:04o} lets other users at the key", metadata.mode() & 0o7777);
            return Err(refuse(cause).next(format!("run chmod 600 {}", path.display())));
        }
        let mut pem = Zeroizing::new(String::new());
        file.take(MAX_KEY_BYTES).read_to_string(&mut pem).map_err(|e| refuse(e.to_string()))?;
        Self::parse(&pem, principal).map_err(|cause| refuse(cause.to_owned()))
    }

    /// The cause never holds text of the key.
    fn parse(pem: &str, principal: Principal) -> Result<Self, &'static str> {
        let key = PrivateKey::from_openssh(pem).map_err(|_| "not an OpenSSH ed25519 private key")?;
        if key.is_encrypted() {
            return Err("has a passphrase, and nobody is there to type it");
        }
        if key.algorithm() != Algorithm::Ed25519 {
            return Err("not an OpenSSH ed25519 private key");
        }
        let public = PublicKey::new(key.public_key().key_data().clone(), "");
        let public_key = public.to_openssh().map_err(|_| "its public half cannot be written")?;
        Ok(Self { principal, key, public_key })
    }

    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// A PEM SSHSIG of `bytes`.
    pub fn sign(&self, namespace: &str, bytes: &[u8]) -> Result<String, Failure> {
        self.key
            .sign(namespace, HashAlg::Sha512, bytes)
            .and_then(|signature| signature.to_pem(LineEnding::LF))
            .map_err(|e| Failure::because(&codes::SIGNING_KEY_UNUSABLE, &self.principal, &e))
    }

    /// The line that makes others believe this signer in `allowed_signers`.
    #[must_use]
    pub fn public_line(&self) -> String {
        format!("{} {}", self.principal, self.public_key)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("principal", &self.principal).finish_non_exhaustive()
    }
}
