//! `allowed_signers`: whose key is believed, for what, and when.
//!
//! The format is that of `ssh-keygen -Y verify`, read more strictly: one
//! mistake refuses the file, so that it is seen when the file is written and
//! not when a backup is needed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ssh_key::{HashAlg, PublicKey, SshSig};

use super::MAX_SIGNATURE_BYTES;
use super::pattern::list_matches;
use crate::base::clock::rfc3339;
use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::ids::Principal;

/// Longest file that is read: thousands of signers.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Keys that may sign, as one file lists them.
#[derive(Debug, Clone)]
pub struct AllowedSigners {
    lines: Vec<Line>,
}

/// One key, with whom it speaks for.
#[derive(Debug, Clone)]
struct Line {
    principals: String,
    namespaces: Option<String>,
    valid_after: Option<Timestamp>,
    valid_before: Option<Timestamp>,
    key: PublicKey,
}

impl AllowedSigners {
    /// Reads a file. Times without `Z` are in the system's time zone, as
    /// ssh-keygen takes them.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let refuse = |cause: String| Failure::new(&codes::ALLOWED_SIGNERS_INVALID, path.display(), cause);
        let mut text = String::new();
        let file = File::open(path).map_err(|e| refuse(e.to_string()))?;
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|e| refuse(e.to_string()))?;
        Self::parse(&path.display().to_string(), &text, &TimeZone::system())
    }

    /// Reads text that came from `object`; `zone` is for times without `Z`.
    pub fn parse(object: &str, text: &str, zone: &TimeZone) -> Result<Self, Failure> {
        let refuse = |cause: String| Failure::new(&codes::ALLOWED_SIGNERS_INVALID, object, cause);
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(refuse(format!("larger than {MAX_FILE_BYTES} bytes")));
        }
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                lines.push(Line::parse(line, zone).map_err(|cause| refuse(format!("line {}: {cause}", index + 1)))?);
            }
        }
        Ok(Self { lines })
    }

    /// Does `signature` show that `principal` signed exactly `bytes` for
    /// `namespace`, with a key that was good for this at `at`? `object` is
    /// what the failure names.
    pub fn verify(
        &self,
        object: &str,
        principal: &Principal,
        namespace: &str,
        bytes: &[u8],
        signature: &[u8],
        at: Timestamp,
    ) -> Result<(), Failure> {
        let refuse = |cause: String| Failure::new(&codes::RECORD_BAD_SIGNATURE, object, cause);
        let signature = parse_signature(object, signature)?;
        if signature.namespace() != namespace {
            return Err(refuse(format!("signed for another namespace than {namespace}: {:?}", signature.namespace())));
        }
        let key = self.key_of(principal, namespace, &signature, at).map_err(refuse)?;
        key.verify(namespace, bytes, &signature).map_err(|_| refuse(format!("not the bytes that {principal} signed")))
    }

    /// The listed key that `signature` names, if it may speak for `principal`.
    fn key_of(&self, principal: &Principal, namespace: &str, signature: &SshSig, at: Timestamp) -> Result<&PublicKey, String> {
        let of_principal: Vec<_> = self.lines.iter().filter(|line| list_matches(principal.as_str(), &line.principals)).collect();
        if of_principal.is_empty() {
            return Err(format!("{principal} is not in allowed_signers"));
        }
        let with_key: Vec<_> = of_principal.into_iter().filter(|line| line.key.key_data() == signature.public_key()).collect();
        if with_key.is_empty() {
            let fingerprint = signature.public_key().fingerprint(HashAlg::Sha256);
            return Err(format!("its key {fingerprint} is not allowed to sign as {principal}"));
        }
        let for_namespace: Vec<_> = with_key
            .into_iter()
            .filter(|line| line.namespaces.as_ref().is_none_or(|list| list_matches(namespace, list)))
            .collect();
        if for_namespace.is_empty() {
            return Err(format!("the key of {principal} is not allowed to sign for {namespace}"));
        }
        let in_time = for_namespace.into_iter().find(|line| line.is_valid(at));
        in_time.map(|line| &line.key).ok_or_else(|| format!("the key of {principal} was not valid at {}", rfc3339(at)))
    }
}

/// What a signature says that it is for. Nothing of it is verified.
pub fn namespace_of(object: &str, signature: &[u8]) -> Result<String, Failure> {
    parse_signature(object, signature).map(|signature| signature.namespace().to_owned())
}

fn parse_signature(object: &str, signature: &[u8]) -> Result<SshSig, Failure> {
    let refuse = |cause: String| Failure::new(&codes::RECORD_BAD_SIGNATURE, object, cause);
    if signature.len() as u64 > MAX_SIGNATURE_BYTES {
        return Err(refuse(format!("its signature is larger than {MAX_SIGNATURE_BYTES} bytes")));
    }
    SshSig::from_pem(signature).map_err(|_| refuse("its signature is no SSH signature".into()))
}

impl Line {
    fn is_valid(&self, at: Timestamp) -> bool {
        self.valid_after.is_none_or(|from| from <= at) && self.valid_before.is_none_or(|until| at <= until)
    }

    /// `principals [options] keytype base64 [comment]`
    fn parse(line: &str, zone: &TimeZone) -> Result<Self, String> {
        let (principals, rest) = principals(line)?;
        let (word, after) = first_word(rest)?;
        let (options, key) = if is_key_type(word) { ("", rest) } else { (word, after) };
        let mut fields = key.split_ascii_whitespace();
        let (kind, material) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        if !is_key_type(kind) {
            return Err("no key after the principals and options".into());
        }
        if kind != "ssh-ed25519" {
            return Err(format!("a key of type {kind}; only ssh-ed25519 keys are verified"));
        }
        let key = PublicKey::from_openssh(&format!("{kind} {material}")).map_err(|_| "not an ssh-ed25519 key".to_owned())?;
        let principals = principals.to_owned();
        let mut line = Self { principals, namespaces: None, valid_after: None, valid_before: None, key };
        for option in split_options(options)? {
            line.set(option, zone)?;
        }
        match (line.valid_after, line.valid_before) {
            (Some(after), Some(before)) if after >= before => Err("valid-before is not later than valid-after".into()),
            _ => Ok(line),
        }
    }

    /// Takes one option; twice the same one is a mistake.
    fn set(&mut self, option: &str, zone: &TimeZone) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let name = name.to_ascii_lowercase();
        let quoted = || {
            let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            inner.map(|text| text.replace("\\\"", "\"")).ok_or_else(|| format!("the value of {name} must be in double quotes"))
        };
        let doubled = match name.as_str() {
            "namespaces" => self.namespaces.replace(quoted()?).is_some(),
            "valid-after" => self.valid_after.replace(timestamp(&quoted()?, zone)?).is_some(),
            "valid-before" => self.valid_before.replace(timestamp(&quoted()?, zone)?).is_some(),
            "cert-authority" => return Err("cert-authority: certificates are not supported, list each key".into()),
            _ => return Err(format!("unknown option {name:?}")),
        };
        if doubled { Err(format!("{name} is given twice")) } else { Ok(()) }
    }
}

/// The first field, which may stand in quotes, and what follows it.
fn principals(line: &str) -> Result<(&str, &str), String> {
    let (list, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or("the principals have no closing quote")?,
        None => line.split_once([' ', '\t']).ok_or("nothing follows the principals")?,
    };
    if list.is_empty() { Err("no principals".into()) } else { Ok((list, rest.trim_start())) }
}

/// Up to the first space outside quotes, and what follows it.
fn first_word(text: &str) -> Result<(&str, &str), String> {
    let mut inside = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => inside = !inside,
            b' ' | b'\t' if !inside => return Ok((&text[..at], text[at..].trim_start())),
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
    }
    if inside { Err("a quote is not closed".into()) } else { Ok((text, "")) }
}

/// Splits at commas outside quotes.
fn split_options(text: &str) -> Result<Vec<&str>, String> {
    let mut options = Vec::new();
    let (mut start, mut inside, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => inside = !inside,
            b',' if !inside => {
                options.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
    }
    if !text.is_empty() {
        options.push(&text[start..]);
    }
    if options.iter().any(|option| option.is_empty()) { Err("an empty option".into()) } else { Ok(options) }
}

fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-"].iter().any(|start| word.starts_with(start))
}

/// `YYYYMMDD`, `YYYYMMDDhhmm` or `YYYYMMDDhhmmss`, with `Z` for UTC.
fn timestamp(text: &str, zone: &TimeZone) -> Result<Timestamp, String> {
    let refuse = || format!("{text:?} is no time; write YYYYMMDD, YYYYMMDDhhmm or YYYYMMDDhhmmss, and Z for UTC");
    let utc = text.strip_suffix(['Z', 'z']);
    let digits = utc.unwrap_or(text);
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refuse());
    }
    let full = format!("{digits:0<14}");
    let civil = DateTime::strptime("%Y%m%d%H%M%S", &full).map_err(|_| refuse())?;
    let zone = if utc.is_some() { &TimeZone::UTC } else { zone };
    zone.to_ambiguous_timestamp(civil).compatible().map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJhY9pAAmFsZwiO9ZSs0lzvtGr2MmBa4nkRBPHYCZmqa";

    fn parse(text: &str) -> Result<AllowedSigners, Failure> {
        AllowedSigners::parse("allowed_signers", text, &TimeZone::UTC)
    }

    #[test]
    fn comments_blank_lines_quotes_and_trailing_comments_are_read() {
        let text = format!(
            "# who\n\n  # more\ncp-1 {KEY} a comment here\n\"cp-2,cp-3\" {KEY}\n\trh-*\tnamespaces=\"holdfast-*\",VALID-AFTER=\"20260101Z\"\t{KEY}\r\n"
        );
        let signers = parse(&text).unwrap();
        assert_eq!(signers.lines.iter().map(|line| line.principals.as_str()).collect::<Vec<_>>(), ["cp-1", "cp-2,cp-3", "rh-*"]);
        assert_eq!(signers.lines[2].namespaces.as_deref(), Some("holdfast-*"));
        assert_eq!(signers.lines[2].valid_after.unwrap().to_string(), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn times_are_read_in_all_their_forms() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        for (text, expected) in [
            ("20260102Z", Some("2026-01-02T00:00:00Z")),
            ("202601020304Z", Some("2026-01-02T03:04:00Z")),
            ("20260102030405z", Some("2026-01-02T03:04:05Z")),
            ("20260102", Some("2026-01-01T22:00:00Z")),
            ("202601020304", Some("2026-01-02T01:04:00Z")),
            ("20260102030405", Some("2026-01-02T01:04:05Z")),
            ("2026010203", None),
            ("20261302Z", None),
            ("20260102T030405Z", None),
            ("", None),
            ("Z", None),
            ("+2026010", None),
        ] {
            assert_eq!(timestamp(text, &zone).ok().map(|t| t.to_string()).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn each_mistake_refuses_the_file_and_names_its_line() {
        for (line, cause) in [
            ("cp-1".to_owned(), "nothing follows the principals"),
            ("cp-1 ssh-ed25519".to_owned(), "not an ssh-ed25519 key"),
            ("cp-1 ssh-ed25519 AAAA".to_owned(), "not an ssh-ed25519 key"),
            ("cp-1 namespaces=\"x\"".to_owned(), "no key after"),
            (format!("cp-1 namespaces=x {KEY}"), "must be in double quotes"),
            (format!("cp-1 namespaces=\"x {KEY}"), "a quote is not closed"),
            (format!("cp-1 namespaces=\"x\",namespaces=\"y\" {KEY}"), "namespaces is given twice"),
            (format!("cp-1 valid-after=\"tomorrow\" {KEY}"), "is no time"),
            (format!("cp-1 valid-after=\"20270101Z\",valid-before=\"20260101Z\" {KEY}"), "valid-before is not later"),
            (format!("cp-1 cert-authority {KEY}"), "certificates are not supported"),
            (format!("cp-1 no-such-option {KEY}"), "unknown option \"no-such-option\""),
            (format!("cp-1 namespaces=\"x\",, {KEY}"), "an empty option"),
            (format!("\"\" {KEY}"), "no principals"),
            ("cp-1 ssh-rsa AAAAB3NzaC1yc2E=".to_owned(), "only ssh-ed25519 keys are verified"),
            ("cp-1 \u{fc}\u{1f600}".to_owned(), "no key after"),
        ] {
            let failure = parse(&format!("# first\n{line}\n")).unwrap_err();
            assert_eq!(failure.code().name, "signing.allowed-signers", "{line}");
            assert!(failure.cause().starts_with("line 2: ") && failure.cause().contains(cause), "{line}: {failure}");
        }
    }

    #[test]
    fn an_empty_file_allows_nobody() {
        let failure = parse("").unwrap().verify("r", &"cp-1".parse().unwrap(), "n", b"", b"", Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(failure.code().name, "record.bad-signature");
    }
}
