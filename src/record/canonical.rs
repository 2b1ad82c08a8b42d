//! The exact bytes of a document: sorted keys, no spaces, one final newline.
//!
//! Sorting is done here and not left to the JSON library, whose maps keep
//! insertion order as soon as any dependency switches that feature on.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::Record;
use crate::base::codes;
use crate::base::failure::Failure;

/// Longest record that is written or read. A manifest of a cluster with every
/// built-in resource has about 30 KiB and a report a few hundred; the rest is
/// room for custom resources, not for hostile input.
pub const MAX_BYTES: u64 = 4 << 20;

/// The bytes that are signed and stored.
pub fn to_bytes<R: Record>(record: &R) -> Result<Vec<u8>, Failure> {
    let refuse = |cause: String| Failure::new(&codes::RECORD_INVALID, record.path(), cause);
    let bytes = encode(record).map_err(|e| refuse(e.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(format!("{} bytes, more than the {MAX_BYTES} that a record may have", bytes.len())));
    }
    Ok(bytes)
}

/// Reads stored bytes whose signature is verified already. Fields that this
/// version does not know are refused: what they change cannot be known.
pub fn from_bytes<R: Record>(object: &str, bytes: &[u8]) -> Result<R, Failure> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::new(&codes::RECORD_INVALID, object, format!("larger than {MAX_BYTES} bytes")));
    }
    serde_json::from_slice(bytes).map_err(|e| Failure::new(&codes::RECORD_INVALID, object, e))
}

/// Canonical JSON of any document.
pub fn encode<T: Serialize>(document: &T) -> Result<Vec<u8>, serde_json::Error> {
    let value = serde_json::to_value(document)?;
    let mut bytes = Vec::new();
    write(&mut bytes, &value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Depth is bounded by the document types, and by the parser's limit of 128
/// for values that were read.
fn write(out: &mut Vec<u8>, value: &Value) -> Result<(), serde_json::Error> {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                write(out, item)?;
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            out.push(b'{');
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            for (index, (name, field)) in sorted.into_iter().enumerate() {
                separate(out, index);
                serde_json::to_writer(&mut *out, name)?;
                out.push(b':');
                write(out, field)?;
            }
            out.push(b'}');
        }
        scalar => serde_json::to_writer(out, scalar)?,
    }
    Ok(())
}

fn separate(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Link;
    use crate::record::manifest::RecordRef;
    use crate::record::receipt::Receipt;

    fn receipt() -> Receipt {
        Receipt {
            schema: 1,
            path: "prod/receipts/r.json".into(),
            signer: Link { name: "cp-1".parse().unwrap(), seq: 1, prev: None },
            fingerprint: "hf1-00112233445566778899aabbccddeeff".parse().unwrap(),
            provider: "aescbc".into(),
            name: "key \"1\" — ünïcode\n".into(),
            store: "fs /srv/escrow".to_owned(),
            escrow_record: RecordRef { key: "k".into(), sha256: crate::base::digest::Sha256::of(b"") },
            sealed_to: vec![],
            deposited: "2026-12-01T13:00:00Z".into(),
            tool: "holdfast 0.1.0".into(),
        }
    }

    #[test]
    fn keys_are_sorted_without_spaces_and_end_in_one_newline() {
        let text = r#"{"b": [1, {"z": null, "a": "ü\n"}], "a": -1, "B": 1.5}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            String::from_utf8(encode(&value).unwrap()).unwrap(),
            "{\"B\":1.5,\"a\":-1,\"b\":[1,{\"a\":\"ü\\n\",\"z\":null}]}\n"
        );
    }

    #[test]
    fn a_record_reads_back_equal_and_in_the_same_bytes() {
        let bytes = to_bytes(&receipt()).unwrap();
        let back: Receipt = from_bytes("r", &bytes).unwrap();
        assert_eq!(back, receipt());
        assert_eq!(to_bytes(&back).unwrap(), bytes);
    }

    #[test]
    fn unknown_missing_doubled_and_trailing_content_is_refused() {
        let good = String::from_utf8(to_bytes(&receipt()).unwrap()).unwrap();
        for bad in [
            good.replacen('{', "{\"extra\":1,", 1),
            good.replace("\"provider\":\"aescbc\",", ""),
            good.replacen('{', "{\"schema\":1,", 1),
            format!("{good}{{}}"),
            good.replace("hf1-0", "hf1-/"),
            good[..good.len() / 2].to_owned(),
            String::new(),
        ] {
            let failure = from_bytes::<Receipt>("prod/r.json", bad.as_bytes()).unwrap_err();
            assert_eq!((failure.code().name, failure.object()), ("record.invalid", "prod/r.json"), "{bad}");
        }
    }

    #[test]
    fn a_record_over_the_size_limit_is_neither_written_nor_read() {
        let mut large = receipt();
        large.name = "x".repeat(usize::try_from(MAX_BYTES).unwrap());
        assert_eq!(to_bytes(&large).unwrap_err().code().name, "record.invalid");
        let spaces = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
        assert_eq!(from_bytes::<Receipt>("r", &spaces).unwrap_err().code().name, "record.invalid");
    }
}
