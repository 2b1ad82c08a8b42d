//! `aesgcm`: twelve random bytes, then AES-GCM whose associated data is the
//! whole etcd key, prefix included. A moved value does not open.

use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm};

use super::trial::{OpenError, Plaintext};

type Aes192Gcm = AesGcm<aes::Aes192, U12>;

const NONCE: usize = 12;

pub(super) fn open(material: &[u8], body: &[u8], etcd_key: &[u8]) -> Result<Plaintext, OpenError> {
    match material.len() {
        16 => decrypt::<Aes128Gcm>(material, body, etcd_key),
        24 => decrypt::<Aes192Gcm>(material, body, etcd_key),
        _ => decrypt::<Aes256Gcm>(material, body, etcd_key),
    }
}

fn decrypt<C: Aead + KeyInit>(material: &[u8], body: &[u8], etcd_key: &[u8]) -> Result<Plaintext, OpenError> {
    let (nonce, ciphertext) = body.split_at_checked(NONCE).ok_or(OpenError::TooShort)?;
    let cipher = C::new_from_slice(material).map_err(|_| OpenError::Authentication)?;
    let nonce = nonce.try_into().map_err(|_| OpenError::Authentication)?;
    let opened = cipher.decrypt(nonce, Payload { msg: ciphertext, aad: etcd_key });
    opened.map(Plaintext::new).map_err(|_| OpenError::Authentication)
}
