//! `aescbc`: sixteen random bytes, then AES-CBC with PKCS#7 padding. Neither
//! authenticated nor bound to the etcd key.

use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};

use super::trial::{OpenError, Plaintext};

/// The block size of AES and the length of the initialisation vector.
const BLOCK: usize = 16;

pub(super) fn open(material: &[u8], body: &[u8]) -> Result<Plaintext, OpenError> {
    match material.len() {
        16 => decrypt::<aes::Aes128>(material, body),
        24 => decrypt::<aes::Aes192>(material, body),
        _ => decrypt::<aes::Aes256>(material, body),
    }
}

fn decrypt<C: BlockCipherDecrypt + KeyInit>(material: &[u8], body: &[u8]) -> Result<Plaintext, OpenError> {
    let (vector, ciphertext) = body.split_at_checked(BLOCK).ok_or(OpenError::TooShort)?;
    if !ciphertext.len().is_multiple_of(BLOCK) {
        return Err(OpenError::BlockSize);
    }
    let cipher = cbc::Decryptor::<C>::new_from_slices(material, vector).map_err(|_| OpenError::BlockSize)?;
    let mut plaintext = Plaintext::new(ciphertext.to_vec());
    plaintext
        .decrypt_in_place(|buffer| cipher.decrypt_padded::<NoPadding>(buffer).map(|_| ()).map_err(|_| OpenError::BlockSize))?;
    let padding = padding(plaintext.expose())?;
    plaintext.shorten_by(padding);
    Ok(plaintext)
}

/// The length of the padding, checked in the API server's order. It takes any
/// length up to the whole text, not only up to a block. (Without a block of
/// ciphertext the API server dies; here that is an error.)
fn padding(text: &[u8]) -> Result<usize, OpenError> {
    let last = *text.last().ok_or(OpenError::Unpadded)?;
    let length = usize::from(last);
    if length == 0 || length > text.len() {
        return Err(OpenError::Unpadded);
    }
    if text.iter().rev().take(length).any(|byte| *byte != last) {
        return Err(OpenError::Padding);
    }
    Ok(length)
}
