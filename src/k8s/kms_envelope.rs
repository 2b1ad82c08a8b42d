//! The envelopes of KMS v1 and v2: which key service and which of its keys a
//! value needs. They are read, never opened.

use super::wire::{Malformed, fields};

/// The API server's bound on a key id and on an encrypted DEK source.
const MAX_ID_BYTES: usize = 1024;
/// The API server's bound on all annotations, keys and values together.
const MAX_ANNOTATION_BYTES: usize = 32 * 1024;

/// A KMS v1 envelope: a data encryption key, sealed by the plugin, and the data under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V1Envelope<'v> {
    pub encrypted_dek: &'v [u8],
    pub data: &'v [u8],
}

/// A KMS v2 envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V2Envelope<'v> {
    pub key_id: &'v str,
    pub source_type: SourceType,
    pub encrypted_dek_source: &'v [u8],
    /// In stored order; the last of equal keys counts.
    pub annotations: Vec<(&'v str, &'v [u8])>,
    pub encrypted_data: &'v [u8],
}

/// What the plugin seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceType {
    /// 0: the key of the data itself.
    AesGcmKey,
    /// 1: a seed from which each value's key is derived.
    HkdfSeed,
}

/// Why bytes are no envelope; the texts are the API server's where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum BadEnvelope {
    #[error("invalid data encountered by envelope transformer: failed to read uint16 length prefixed data")]
    DekLength,
    #[error("failed to proto.Unmarshal")]
    Protobuf,
    #[error("unknown encryptedDEKSourceType: {0}")]
    SourceType(u64),
    #[error("encrypted data is empty")]
    NoData,
    #[error("encrypted DEK source is {0} bytes, allowed are 1 to {MAX_ID_BYTES}")]
    DekSource(usize),
    #[error("keyID is {0} bytes, allowed are 1 to {MAX_ID_BYTES}")]
    KeyId(usize),
    #[error("total size of annotations exceeds the max size of {MAX_ANNOTATION_BYTES}")]
    Annotations,
    #[error("annotation key is not a fully qualified domain name")]
    AnnotationKey,
}

impl From<Malformed> for BadEnvelope {
    fn from(_: Malformed) -> Self {
        Self::Protobuf
    }
}

impl<'v> V1Envelope<'v> {
    /// # Errors
    /// The bytes are no envelope.
    pub fn parse(body: &'v [u8]) -> Result<Self, BadEnvelope> {
        let (length, rest) = body.split_first_chunk::<2>().ok_or(BadEnvelope::DekLength)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (encrypted_dek, data) = rest.split_at_checked(length).ok_or(BadEnvelope::DekLength)?;
        Ok(Self { encrypted_dek, data })
    }
}

impl<'v> V2Envelope<'v> {
    /// # Errors
    /// The bytes are no envelope, or one that the API server refuses.
    pub fn parse(body: &'v [u8]) -> Result<Self, BadEnvelope> {
        let mut envelope = Self {
            key_id: "",
            source_type: SourceType::AesGcmKey,
            encrypted_dek_source: &[],
            annotations: Vec::new(),
            encrypted_data: &[],
        };
        let mut annotation_bytes = 0_usize;
        for field in fields(body) {
            let field = field?;
            match field.number {
                1 => envelope.encrypted_data = field.bytes()?,
                2 => envelope.key_id = field.text()?,
                3 => envelope.encrypted_dek_source = field.bytes()?,
                4 => {
                    let annotation = annotation(field.bytes()?)?;
                    annotation_bytes = annotation_bytes.saturating_add(annotation.0.len() + annotation.1.len());
                    if annotation_bytes > MAX_ANNOTATION_BYTES {
                        return Err(BadEnvelope::Annotations);
                    }
                    envelope.annotations.push(annotation);
                }
                5 => envelope.source_type = SourceType::of(field.varint()?)?,
                _ => {}
            }
        }
        envelope.check()?;
        Ok(envelope)
    }

    fn check(&self) -> Result<(), BadEnvelope> {
        if self.encrypted_data.is_empty() {
            return Err(BadEnvelope::NoData);
        }
        if !(1..=MAX_ID_BYTES).contains(&self.encrypted_dek_source.len()) {
            return Err(BadEnvelope::DekSource(self.encrypted_dek_source.len()));
        }
        if !(1..=MAX_ID_BYTES).contains(&self.key_id.len()) {
            return Err(BadEnvelope::KeyId(self.key_id.len()));
        }
        if !self.annotations.iter().all(|(key, _)| is_qualified_domain(key)) {
            return Err(BadEnvelope::AnnotationKey);
        }
        Ok(())
    }
}

impl SourceType {
    fn of(number: u64) -> Result<Self, BadEnvelope> {
        match number {
            0 => Ok(Self::AesGcmKey),
            1 => Ok(Self::HkdfSeed),
            other => Err(BadEnvelope::SourceType(other)),
        }
    }
}

fn annotation(entry: &[u8]) -> Result<(&str, &[u8]), BadEnvelope> {
    let (mut key, mut value) = ("", &[][..]);
    for field in fields(entry) {
        let field = field?;
        match field.number {
            1 => key = field.text()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// At least two DNS labels, as Kubernetes asks of annotation keys; a final dot is allowed.
fn is_qualified_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = label.as_bytes();
        bytes.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}
