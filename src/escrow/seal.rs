//! Sealing with age: to recipients, from identities. Nothing leaves a host in clear.

use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use age::stream::{StreamReader, StreamWriter};
use zeroize::Zeroizing;

use crate::base::codes;
use crate::base::failure::{Failure, chain};
use crate::base::secret::Secret;

/// Sealed key documents are a few hundred bytes; anything near this is not one.
const DOCUMENT_LIMIT: u64 = 1 << 20;

/// Whom to seal to: native age recipients, at least one.
#[derive(Clone)]
pub struct Recipients {
    keys: Vec<age::x25519::Recipient>,
    names: Vec<String>,
}

impl std::fmt::Debug for Recipients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}

impl Recipients {
    /// Reads recipients as the configuration has them (`age1…`).
    ///
    /// # Errors
    /// `config.invalid` for a text that is no native recipient, or for none at all.
    pub fn parse(names: &[String]) -> Result<Self, Failure> {
        if names.is_empty() {
            return Err(Failure::new(&codes::CONFIG_INVALID, "recipients", "at least one recipient is needed"));
        }
        let keys = names
            .iter()
            .map(|name| name.parse().map_err(|cause: &str| Failure::new(&codes::CONFIG_INVALID, name, cause)))
            .collect::<Result<_, _>>()?;
        Ok(Self { keys, names: names.to_vec() })
    }

    /// The recipients as records name them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// A writer that seals to `output`. Without [`StreamWriter::finish`] the
    /// result does not open: a cut stream cannot pass for a whole one.
    ///
    /// # Errors
    /// Those of `output` while the header is written.
    pub fn writer<W: Write>(&self, output: W) -> io::Result<StreamWriter<W>> {
        let keys = self.keys.iter().map(|key| key as &dyn age::Recipient);
        age::Encryptor::with_recipients(keys).map_err(io::Error::other)?.wrap_output(output)
    }

    /// Seals a small document.
    ///
    /// # Errors
    /// Only those of memory.
    pub fn seal(&self, document: &[u8]) -> io::Result<Vec<u8>> {
        let mut writer = self.writer(Vec::new())?;
        writer.write_all(document)?;
        writer.finish()
    }
}

/// The secret halves, from a file that `age-keygen` writes.
pub struct Identities {
    keys: Vec<age::x25519::Identity>,
    /// Their public halves, as records name them.
    recipients: Vec<String>,
    object: String,
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identities({})", self.object)
    }
}

impl Identities {
    /// Reads an identity file that only its owner can read.
    ///
    /// # Errors
    /// `identity.unreadable`; the cause never shows the file's content.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let refuse = |cause: &dyn std::fmt::Display| Failure::new(&codes::IDENTITY_UNREADABLE, path.display(), cause);
        let text = Zeroizing::new(std::fs::read(path).map_err(|error| refuse(&error))?);
        refuse_open_permissions(path).map_err(|cause| refuse(&cause))?;
        let keys = parse_identities(&text).map_err(|cause| refuse(&cause))?;
        let recipients = keys.iter().map(|key| key.to_public().to_string()).collect();
        Ok(Self { keys, recipients, object: path.display().to_string() })
    }

    /// All identities of several files, where somebody named more than one.
    #[must_use]
    pub fn join(all: Vec<Self>) -> Self {
        let mut joined = Self { keys: Vec::new(), recipients: Vec::new(), object: String::new() };
        let names: Vec<_> = all.iter().map(|one| one.object.clone()).collect();
        for one in all {
            joined.keys.extend(one.keys);
            joined.recipients.extend(one.recipients);
        }
        joined.object = names.join(" and ");
        joined
    }

    /// `identity.not-a-recipient` for something whose recipients nothing names.
    #[must_use]
    pub fn opens_nothing_of(&self, object: &str) -> Failure {
        let cause = format!("it is sealed to others than {}, whose identity {} holds", some_of(&self.recipients), self.object);
        Failure::new(&codes::IDENTITY_NOT_A_RECIPIENT, object, cause)
    }

    /// Is one of these identities among the recipients that a record names?
    #[must_use]
    pub fn are_among(&self, sealed_to: &[String]) -> bool {
        self.recipients.iter().any(|own| sealed_to.contains(own))
    }

    /// Their public halves.
    #[must_use]
    pub fn recipients(&self) -> &[String] {
        &self.recipients
    }

    /// `identity.not-a-recipient` for `object`: these identities cannot tell
    /// whether it opens. It names public halves only.
    #[must_use]
    pub fn not_a_recipient(&self, object: &str, sealed_to: &[String]) -> Failure {
        let (theirs, own) = (some_of(sealed_to), some_of(&self.recipients));
        let cause = format!("it is sealed to {theirs}, and {} holds the identity of {own}", self.object);
        Failure::new(&codes::IDENTITY_NOT_A_RECIPIENT, object, cause)
    }

    /// A reader of what was sealed. It fails at the first altered byte, and at
    /// the end of a cut stream.
    ///
    /// # Errors
    /// [`OpenError`] when no identity fits or the header is altered.
    pub fn reader<R: BufRead>(&self, sealed: R) -> Result<StreamReader<R>, OpenError> {
        let keys = self.keys.iter().map(|key| key as &dyn age::Identity);
        age::Decryptor::new_buffered(sealed).and_then(|decryptor| decryptor.decrypt(keys)).map_err(OpenError::from)
    }

    /// Opens a small sealed document.
    ///
    /// # Errors
    /// [`OpenError`] when no identity fits, or the document is altered or cut.
    pub fn open(&self, sealed: &[u8]) -> Result<Secret<Vec<u8>>, OpenError> {
        let mut document = Vec::new();
        let mut reader = self.reader(sealed)?.take(DOCUMENT_LIMIT);
        let read = reader.read_to_end(&mut document);
        let document = Secret::new(document);
        read.map_err(|_| OpenError::Altered("the sealed document is altered or cut".to_owned()))?;
        Ok(document)
    }
}

/// Why a sealed document does not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("sealed to other recipients")]
    NoMatchingIdentity,
    #[error("{0}")]
    Altered(String),
}

impl From<age::DecryptError> for OpenError {
    fn from(error: age::DecryptError) -> Self {
        match error {
            age::DecryptError::NoMatchingKeys => Self::NoMatchingIdentity,
            other => Self::Altered(chain(&other)),
        }
    }
}

/// Native identities, one a line, between comments and empty lines. The causes
/// never show a line: whatever it is, it was meant to be secret.
fn parse_identities(text: &[u8]) -> Result<Vec<age::x25519::Identity>, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "it holds no age identity")?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<_> = lines.map(str::parse).collect::<Result<_, _>>().map_err(|_| "a line of it is no native age identity")?;
    if keys.is_empty() { Err("it holds no age identity") } else { Ok(keys) }
}

/// Recipients for a sentence: a record may name hundreds, and a file hold them.
fn some_of(recipients: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = recipients.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match recipients.len().saturating_sub(SHOWN) {
        0 if shown.is_empty() => "nobody".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// ssh and age-keygen keep secret keys to their owner; a wider mode is a leak
/// that nobody notices.
fn refuse_open_permissions(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(format!("its mode {mode:04o} lets others read it")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret;
    use std::os::unix::fs::PermissionsExt;

    fn pair(dir: &Path, name: &str) -> (Recipients, std::path::PathBuf) {
        let identity = age::x25519::Identity::generate();
        let path = dir.join(name);
        std::fs::write(&path, identity.to_string().expose_secret()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        (Recipients::parse(&[identity.to_public().to_string()]).unwrap(), path)
    }

    #[test]
    fn what_is_sealed_opens_with_its_identity_and_with_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (recipients, own) = pair(dir.path(), "own");
        let (_, other) = pair(dir.path(), "other");
        let sealed = recipients.seal(b"key document").unwrap();
        assert_eq!(Identities::load(&own).unwrap().open(&sealed).unwrap().expose(), b"key document");
        assert_eq!(Identities::load(&other).unwrap().open(&sealed).unwrap_err(), OpenError::NoMatchingIdentity);
    }

    #[test]
    fn an_altered_or_cut_document_never_opens() {
        let dir = tempfile::tempdir().unwrap();
        let (recipients, own) = pair(dir.path(), "own");
        let identities = Identities::load(&own).unwrap();
        let sealed = recipients.seal(b"key document").unwrap();
        for i in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[i] ^= 1;
            assert!(identities.open(&altered).is_err(), "byte {i}");
            assert!(identities.open(&sealed[..i]).is_err(), "cut at {i}");
        }
    }

    #[test]
    fn identities_know_their_own_recipients_and_name_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let (recipients, path) = pair(dir.path(), "own");
        let (others, second) = pair(dir.path(), "second");
        let secret = std::fs::read_to_string(&path).unwrap();
        let both = format!("# created: today\n\n{secret}\r\n{}\n", std::fs::read_to_string(&second).unwrap());
        let identities = Identities::load(&path).unwrap();
        assert!(identities.are_among(recipients.names()) && !identities.are_among(others.names()));
        assert!(!identities.are_among(&[]));
        let failure = identities.not_a_recipient("cluster/x.age", others.names());
        assert!(failure.cause().contains(&others.names()[0]) && failure.cause().contains(&recipients.names()[0]));
        assert!(!format!("{failure:?} {identities:?}").contains("SECRET"));
        std::fs::write(&path, both).unwrap();
        let identities = Identities::load(&path).unwrap();
        assert!(identities.are_among(recipients.names()) && identities.are_among(others.names()));
        assert_eq!(identities.open(&others.seal(b"document").unwrap()).unwrap().expose(), b"document");
    }

    #[test]
    fn recipients_without_end_do_not_fill_a_sentence() {
        let names: Vec<_> = (0..1_000).map(|n| format!("age1{n}")).collect();
        assert_eq!(some_of(&names), "age10, age11, age12, age13 and 996 more");
        assert_eq!((some_of(&names[..1]), some_of(&[])), ("age10".to_owned(), "nobody".to_owned()));
    }

    #[test]
    fn an_identity_file_open_to_others_is_refused_without_showing_it() {
        let dir = tempfile::tempdir().unwrap();
        let (_, path) = pair(dir.path(), "own");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let failure = Identities::load(&path).unwrap_err();
        assert_eq!(failure.code().name, "identity.unreadable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for content in ["AGE-SECRET-KEY-1NONSENSE", "NONSENSE\n", "# NONSENSE\n", "", "NONSENSE\u{0}\u{7f}"] {
            std::fs::write(&path, content).unwrap();
            let failure = Identities::load(&path).unwrap_err();
            assert_eq!(failure.code().name, "identity.unreadable");
            assert!(!format!("{failure:?}").contains("NONSENSE"));
        }
    }
}
