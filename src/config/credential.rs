//! Where the credential of a store is, and reading it from there.
//!
//! A credential never stands in the configuration. It is read when a client is
//! made, so that one which is missing troubles only the commands that use its
//! store. Must never: put a part of a credential, or a line of the file that
//! holds it, into a message.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::base::secret::Secret;

/// A thousand times what a credential needs.
const LARGEST_FILE: u64 = 1 << 20;

/// Where systemd lays the credentials of a service.
const SYSTEMD_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Where a credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialSource {
    /// A file in the form of `~/.aws/credentials`.
    File { path: PathBuf, profile: String },
    /// The variables `PREFIX_ACCESS_KEY_ID`, `PREFIX_SECRET_ACCESS_KEY` and `PREFIX_SESSION_TOKEN`.
    Environment { prefix: String },
    /// A file of that form in `$CREDENTIALS_DIRECTORY`.
    Systemd { name: String, profile: String },
}

/// An S3 credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub access_key_id: Secret<String>,
    pub secret_access_key: Secret<String>,
    pub session_token: Option<Secret<String>>,
}

/// Why there is no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {cause}")]
pub struct NoCredential {
    /// The file or variable.
    pub object: String,
    /// Never a part of the credential.
    pub cause: String,
    /// The one thing to do.
    pub next: String,
}

/// A variable of the environment, by its name.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl CredentialSource {
    /// The file that holds the credential, if one does.
    #[must_use]
    pub fn file(&self, variables: Variables<'_>) -> Option<PathBuf> {
        match self {
            Self::File { path, .. } => Some(path.clone()),
            Self::Environment { .. } => None,
            Self::Systemd { name, .. } => Some(PathBuf::from(variables(SYSTEMD_DIRECTORY)?).join(name)),
        }
    }

    /// Reads the credential. Blocking, for as long as a small file takes.
    ///
    /// # Errors
    /// What is missing or malformed, and where.
    pub fn read(&self, variables: Variables<'_>) -> Result<Credential, NoCredential> {
        match self {
            Self::Environment { prefix } => from_environment(prefix, variables),
            Self::File { path, profile } => from_file(path, profile),
            Self::Systemd { name, profile } => {
                let path = self.file(variables).ok_or_else(|| NoCredential {
                    object: format!("systemd credential {name}"),
                    cause: format!("{SYSTEMD_DIRECTORY} is not set: systemd started no service here"),
                    next: format!("add LoadCredential={name}:FILE to the unit, and run this as that service"),
                })?;
                from_file(&path, profile)
            }
        }
    }
}

fn from_environment(prefix: &str, variables: Variables<'_>) -> Result<Credential, NoCredential> {
    let optional = |name: &str| -> Result<Option<Secret<String>>, NoCredential> {
        let variable = format!("{prefix}_{name}");
        let Some(value) = variables(&variable).filter(|value| !value.is_empty()) else { return Ok(None) };
        let wrong = |cause: &str| NoCredential {
            object: variable.clone(),
            cause: cause.to_owned(),
            next: format!("set {variable} to the value that the store's operator gave, and nothing else"),
        };
        let value = value.into_string().map_err(|_| wrong("not text"))?;
        word(&value).map(Some).map_err(wrong)
    };
    let required = |name: &str| {
        optional(name)?.ok_or_else(|| NoCredential {
            object: format!("{prefix}_{name}"),
            cause: "this environment variable is not set".to_owned(),
            next: format!("set {prefix}_ACCESS_KEY_ID and {prefix}_SECRET_ACCESS_KEY"),
        })
    };
    Ok(Credential {
        access_key_id: required("ACCESS_KEY_ID")?,
        secret_access_key: required("SECRET_ACCESS_KEY")?,
        session_token: optional("SESSION_TOKEN")?,
    })
}

fn from_file(path: &Path, profile: &str) -> Result<Credential, NoCredential> {
    let refuse = |cause: String, next: String| NoCredential { object: path.display().to_string(), cause, next };
    let unreadable = |e: std::io::Error| refuse(e.to_string(), "check the path and its permissions".to_owned());
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    // As ssh does: the group of a file that another user owns may be a mask,
    // as for credentials that systemd hands to a service.
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.mode() & if own { 0o077 } else { 0o007 } != 0 {
        let cause = format!("mode {:04o} lets other users at the credential", metadata.mode() & 0o7777);
        return Err(refuse(cause, format!("run chmod 600 {}", path.display())));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(LARGEST_FILE).read_to_string(&mut text).map_err(unreadable)?;
    parse(&text, profile).map_err(|cause| {
        let form = format!("write [{profile}], aws_access_key_id = … and aws_secret_access_key = …, each on a line of its own");
        refuse(cause, form)
    })
}

/// The `[profile]` of a file in the form of `~/.aws/credentials`.
fn parse(text: &str, profile: &str) -> Result<Credential, String> {
    let (mut inside, mut found) = (false, false);
    let [mut id, mut key, mut token] = [const { None }; 3];
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        // Indented lines belong to nested settings of other programs.
        if line.starts_with([' ', '\t']) || line.trim().is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let (name, _) = header.split_once(']').ok_or_else(|| format!("line {number} has no closing bracket"))?;
            inside = name.trim() == profile;
            found |= inside;
            continue;
        }
        let (name, value) =
            line.split_once('=').ok_or_else(|| format!("line {number} is neither a [profile] nor name = value"))?;
        let place = match name.trim() {
            _ if !inside => continue,
            "aws_access_key_id" => &mut id,
            "aws_secret_access_key" => &mut key,
            "aws_session_token" => &mut token,
            _ => continue,
        };
        *place = Some(word(value.trim()).map_err(|cause| format!("line {number}: the value is {cause}"))?);
    }
    if !found {
        return Err(format!("there is no [{profile}] in it"));
    }
    let missing = |name: &str| format!("[{profile}] has no {name}");
    Ok(Credential {
        access_key_id: id.ok_or_else(|| missing("aws_access_key_id"))?,
        secret_access_key: key.ok_or_else(|| missing("aws_secret_access_key"))?,
        session_token: token,
    })
}

/// What goes into a header: visible ASCII without blanks.
fn word(value: &str) -> Result<Secret<String>, &'static str> {
    match value {
        "" => Err("empty"),
        _ if !value.bytes().all(|b| b.is_ascii_graphic()) => Err("not one word of visible ASCII characters"),
        _ => Ok(Secret::new(value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const GOOD: &str = "# ours\n[default]\naws_access_key_id = AKIAFIRST\naws_secret_access_key=hunter2/+=\n\n\
                        [other]\naws_access_key_id = AKIAOTHER\naws_secret_access_key = hunter3\naws_session_token = hunter4==\n\
                        region = eu1\ns3 =\n  max_concurrent_requests = 2\n";

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, CredentialSource) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (dir, CredentialSource::File { path, profile: "default".to_owned() })
    }

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    #[test]
    fn a_profile_of_a_file_is_read_and_no_other() {
        let (_dir, source) = file(GOOD, 0o600);
        let credential = source.read(&nothing).unwrap();
        assert_eq!(credential.access_key_id.expose(), "AKIAFIRST");
        assert_eq!(credential.secret_access_key.expose(), "hunter2/+=");
        assert_eq!(credential.session_token, None);
        let other = parse(GOOD, "other").unwrap();
        assert_eq!(other.access_key_id.expose(), "AKIAOTHER");
        assert_eq!(other.session_token.unwrap().expose(), "hunter4==");
        assert!(!format!("{credential:?}").contains("hunter2"));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_without_its_content() {
        for (text, cause) in [
            ("", "there is no [default] in it"),
            ("[default]\naws_access_key_id = hunter2\n", "[default] has no aws_secret_access_key"),
            ("[default]\naws_secret_access_key = hunter2\n", "[default] has no aws_access_key_id"),
            ("[default]\nhunter2\n", "line 2 is neither a [profile] nor name = value"),
            ("[default\nhunter2\n", "line 1 has no closing bracket"),
            ("[default]\naws_secret_access_key =\n", "line 2: the value is empty"),
            ("[default]\naws_secret_access_key = hunter2 hunter2\n", "line 2: the value is not one word"),
            ("[other]\naws_access_key_id = hunter2\naws_secret_access_key = hunter2\n", "there is no [default] in it"),
        ] {
            let (_dir, source) = file(text, 0o600);
            let error = source.read(&nothing).unwrap_err();
            assert!(error.cause.starts_with(cause), "{text}: {error}");
            assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
        }
        let gone = CredentialSource::File { path: "/nonexistent/credentials".into(), profile: "default".to_owned() };
        let error = gone.read(&nothing).unwrap_err();
        assert!(error.object == "/nonexistent/credentials" && error.cause.contains("No such file"), "{error}");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        for mode in [0o640, 0o604, 0o666, 0o620] {
            let (dir, source) = file(GOOD, mode);
            let error = source.read(&nothing).unwrap_err();
            assert!(error.cause.contains("lets other users at the credential"), "{mode:o}: {error}");
            assert_eq!(error.next, format!("run chmod 600 {}/credentials", dir.path().display()));
        }
        assert!(file(GOOD, 0o400).1.read(&nothing).is_ok());
    }

    #[test]
    fn variables_of_one_prefix_are_a_credential() {
        let source = CredentialSource::Environment { prefix: "HF".to_owned() };
        let all = |name: &str| match name {
            "HF_ACCESS_KEY_ID" => Some("AKIAFIRST".into()),
            "HF_SECRET_ACCESS_KEY" => Some("hunter2".into()),
            _ => None,
        };
        assert_eq!(source.read(&all).unwrap().secret_access_key.expose(), "hunter2");
        for (name, value, cause) in [
            ("HF_ACCESS_KEY_ID", None, "is not set"),
            ("HF_SECRET_ACCESS_KEY", None, "is not set"),
            ("HF_SECRET_ACCESS_KEY", Some(""), "is not set"),
            ("HF_SECRET_ACCESS_KEY", Some("hunter2\n"), "not one word"),
        ] {
            let altered = |asked: &str| if asked == name { value.map(Into::into) } else { all(asked) };
            let error = source.read(&altered).unwrap_err();
            assert!(error.object == name && error.cause.contains(cause), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn a_credential_of_systemd_lies_in_its_directory() {
        let (dir, _) = file(GOOD, 0o400);
        let source = CredentialSource::Systemd { name: "credentials".to_owned(), profile: "default".to_owned() };
        let directory = |name: &str| (name == SYSTEMD_DIRECTORY).then(|| dir.path().into());
        assert_eq!(source.read(&directory).unwrap().access_key_id.expose(), "AKIAFIRST");
        let error = source.read(&nothing).unwrap_err();
        assert!(error.cause.contains("CREDENTIALS_DIRECTORY is not set") && error.next.contains("LoadCredential"), "{error:?}");
    }
}
