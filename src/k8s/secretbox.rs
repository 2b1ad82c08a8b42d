//! `secretbox`: twenty-four random bytes, then an XSalsa20-Poly1305 box, tag
//! first. Authenticated, not bound to the etcd key.

use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Nonce, XSalsa20Poly1305};

use super::trial::{OpenError, Plaintext};

const NONCE: usize = 24;
const TAG: usize = 16;

pub(super) fn open(material: &[u8], body: &[u8]) -> Result<Plaintext, OpenError> {
    if body.len() < NONCE + TAG {
        return Err(OpenError::TooShort);
    }
    let (nonce, sealed) = body.split_at_checked(NONCE).ok_or(OpenError::TooShort)?;
    let cipher = XSalsa20Poly1305::new_from_slice(material).map_err(|_| OpenError::Box)?;
    let opened = cipher.decrypt(Nonce::from_slice(nonce), sealed);
    opened.map(Plaintext::new).map_err(|_| OpenError::Box)
}
