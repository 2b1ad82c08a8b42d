//! The identity of key material: a keyed digest of provider and bytes.
//!
//! A name may point at other material tomorrow; the fingerprint cannot. It is
//! safe to print for random keys. For a key that is text it is as guessable as
//! the text, which is why such keys are called weak.

use hmac::{Hmac, KeyInit, Mac};

use crate::base::ids::Fingerprint;

/// Separates these digests from every other use of HMAC-SHA-256.
const DOMAIN: &[u8] = b"holdfast key fingerprint v1";

/// The fingerprint of `material` under a provider's name (`aescbc`, `aesgcm`,
/// `secretbox`, `barbican`); `material` is what the API server decodes, not base64.
#[must_use]
pub fn of(provider: &str, material: &[u8]) -> Fingerprint {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(DOMAIN).expect("never fails because HMAC takes keys of any length");
    mac.update(provider.as_bytes());
    mac.update(&[0]);
    mac.update(material);
    Fingerprint::of_digest(&mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_depends_on_material_and_provider_alone() {
        // Computed with: printf 'aescbc\0AAAAAAAAAAAAAAAA' | openssl dgst -sha256 -hmac 'holdfast key fingerprint v1'
        assert_eq!(of("aescbc", &[b'A'; 16]).as_str(), "hf1-01ab2e93fad786495ee2877b22567ce4");
        assert_ne!(of("aescbc", &[b'A'; 16]), of("aesgcm", &[b'A'; 16]));
        assert_ne!(of("aescbc", &[b'A'; 16]), of("aescbc", &[b'A'; 24]));
    }
}
