//! From what the client says to the few kinds that callers tell apart, with a
//! cause that an operator understands.
//!
//! The client's own texts are `dispatch failure` and `service error`; what
//! happened lies in the chain below them. A server's text is shown cut and
//! without control characters; it never holds the secret half of a credential,
//! which no request contains.

use std::error::Error;
use std::fmt::Display;
use std::io;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};

use super::ErrorKind;
use crate::base::failure::each_part_once;
use crate::store::Cause;

/// Longer texts of a server are a page, not a message.
const LONGEST_TEXT: usize = 200;

/// Why a request did not succeed.
#[derive(Debug)]
pub(super) struct Trouble {
    pub kind: ErrorKind,
    /// What it is about, where that is not the object in the store.
    pub object: Option<String>,
    pub cause: Cause,
    /// The answer, if there was one.
    pub status: Option<u16>,
    /// S3's own name of the error.
    pub code: Option<String>,
}

impl Trouble {
    pub fn new(kind: ErrorKind, cause: impl Display) -> Self {
        Self { kind, object: None, cause: Cause::new(cause), status: None, code: None }
    }

    /// About a file or variable of this host, with what to do about it.
    pub fn here(kind: ErrorKind, object: impl Display, cause: impl Display, next: impl Into<String>) -> Self {
        Self { object: Some(object.to_string()), cause: Cause::new(cause).next(next), ..Self::new(kind, "") }
    }

    pub fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    fn answered(status: u16, code: Option<&str>, message: Option<&str>) -> Self {
        let (kind, text, next) = known(code.unwrap_or_default()).unwrap_or_else(|| by_status(status));
        let name = code.map_or_else(|| format!("status {status}"), printable);
        // A server may tell us what we sent: who signed it, and the signature.
        let told = message.filter(|message| !message.trim().is_empty() && !repeats_the_credential(message));
        let cause = match (text, told) {
            ("", Some(message)) => format!("{name}: {}", printable(message)),
            ("", None) => name,
            (text, _) => format!("{text} ({name})"),
        };
        let cause = if next.is_empty() { Cause::new(cause) } else { Cause::new(cause).next(next) };
        Self { kind, object: None, cause, status: Some(status), code: code.map(str::to_owned) }
    }
}

impl<E> From<SdkError<E, HttpResponse>> for Trouble
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        match &error {
            SdkError::ServiceError(answer) => {
                Self::answered(answer.raw().status().as_u16(), answer.err().code(), answer.err().message())
            }
            SdkError::ResponseError(answer) if !broke_off(&error) => {
                let status = answer.raw().status().as_u16();
                let kind = if status >= 500 { ErrorKind::Transient } else { ErrorKind::Broken };
                Self { status: Some(status), ..Self::new(kind, format!("status {status} with an answer that is not S3's")) }
            }
            SdkError::ConstructionFailure(_) => Self::new(ErrorKind::Broken, words(&error)),
            _ => unanswered(&error),
        }
    }
}

/// No answer, or half of one.
fn unanswered(error: &(dyn Error + 'static)) -> Trouble {
    if let Some(tls) = find::<rustls::Error>(error) {
        return match tls {
            rustls::Error::InvalidCertificate(_) => {
                Trouble::new(ErrorKind::Tls, format!("the endpoint's certificate is not accepted: {tls}"))
            }
            _ => Trouble::new(ErrorKind::Tls, format!("TLS with the endpoint failed: {tls}")),
        };
    }
    let words = words(error);
    let refused = find::<io::Error>(error).is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    let cause = match words.to_ascii_lowercase() {
        _ if refused => "the connection was refused: nothing listens there".to_owned(),
        text if text.contains("dns error") || text.contains("failed to lookup") => {
            format!("the endpoint's name has no address: {words}")
        }
        text if text.contains("timeout") || text.contains("timed out") => format!("no answer in time: {words}"),
        _ => words,
    };
    Trouble::new(ErrorKind::Transient, cause)
}

/// Did the connection end in the middle of an answer?
fn broke_off(error: &(dyn Error + 'static)) -> bool {
    find::<io::Error>(error).is_some()
}

/// All texts of the chain but the client's own first one.
fn words(error: &(dyn Error + 'static)) -> String {
    let text = match error.source() {
        Some(source) => crate::base::failure::chain(source),
        None => DisplayErrorContext(error).to_string(),
    };
    printable(&each_part_once(&text))
}

/// The first error of a type in the chain. Errors of I/O hide what they wrap.
pub(super) fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(found) = find::<T>(inner)
        {
            return Some(found);
        }
        at = error.source();
    }
    None
}

pub(super) fn printable(text: &str) -> String {
    let shown = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    shown.take(LONGEST_TEXT).collect()
}

fn repeats_the_credential(message: &str) -> bool {
    ["AWS4-HMAC", "Credential=", "Signature=", "Authorization"].iter().any(|mark| message.contains(mark))
}

type Known = (ErrorKind, &'static str, &'static str);

/// What S3's codes mean. An empty text leaves the word to the server.
fn known(code: &str) -> Option<Known> {
    const REGION: &str = "set region of the store to the bucket's region";
    Some(match code {
        "NoSuchKey" | "NoSuchVersion" => (ErrorKind::NotFound, "", ""),
        "NoSuchBucket" => {
            (ErrorKind::Broken, "there is no such bucket", "make the bucket, or correct bucket and endpoint of the store")
        }
        "InvalidAccessKeyId" => (
            ErrorKind::Denied,
            "the store does not know this access key",
            "correct the access key id where the credentials section of the store says that it is",
        ),
        "SignatureDoesNotMatch" => (
            ErrorKind::Denied,
            "the secret key is not that of the access key",
            "correct the secret access key where the credentials section of the store says that it is",
        ),
        "RequestTimeTooSkewed" => (
            ErrorKind::Denied,
            "the clocks of this host and of the store are too far apart",
            "set this host's clock; a time service keeps it right",
        ),
        "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => (
            ErrorKind::Denied,
            "the session token is not valid any more",
            "provide a new credential; it is read without a restart",
        ),
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" | "UnauthorizedAccess" => (ErrorKind::Denied, "", ""),
        "AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException" | "TemporaryRedirect" => {
            (ErrorKind::Broken, "the bucket lies in another region, or at another endpoint", REGION)
        }
        "PreconditionFailed" => (ErrorKind::Exists, "", ""),
        "QuotaExceeded" | "XMinioStorageFull" | "InsufficientStorage" | "EntityTooLarge" | "TooManyObjects" => {
            (ErrorKind::Full, "", "")
        }
        "SlowDown"
        | "InternalError"
        | "ServiceUnavailable"
        | "RequestTimeout"
        | "OperationAborted"
        | "BadDigest"
        | "ConditionalRequestConflict"
        | "XAmzContentSHA256Mismatch"
        | "IncompleteBody"
        | "Throttling" => (ErrorKind::Transient, "", ""),
        _ => return None,
    })
}

/// What the status means where the code says nothing.
fn by_status(status: u16) -> Known {
    let kind = match status {
        404 => ErrorKind::NotFound,
        401 | 403 => ErrorKind::Denied,
        412 => ErrorKind::Exists,
        413 | 507 => ErrorKind::Full,
        408 | 429 | 500 | 502..=504 => ErrorKind::Transient,
        _ => ErrorKind::Broken,
    };
    (kind, "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_kinds_with_words() {
        for (status, code, message, kind, cause) in [
            (404, Some("NoSuchKey"), Some("gone"), ErrorKind::NotFound, "NoSuchKey: gone"),
            (404, None, None, ErrorKind::NotFound, "status 404"),
            (404, Some("NoSuchBucket"), Some("x"), ErrorKind::Broken, "there is no such bucket (NoSuchBucket)"),
            (404, Some("NoSuchUpload"), None, ErrorKind::NotFound, "NoSuchUpload"),
            (403, None, None, ErrorKind::Denied, "status 403"),
            (403, Some("RequestTimeTooSkewed"), None, ErrorKind::Denied, "the clocks of this host and of the store"),
            (412, None, None, ErrorKind::Exists, "status 412"),
            (507, None, None, ErrorKind::Full, "status 507"),
            (503, Some("SlowDown"), Some("less"), ErrorKind::Transient, "SlowDown: less"),
            (502, None, None, ErrorKind::Transient, "status 502"),
            (409, Some("ConditionalRequestConflict"), None, ErrorKind::Transient, "ConditionalRequestConflict"),
            (418, Some("Teapot"), Some("\u{1b}[31m short"), ErrorKind::Broken, "Teapot:  [31m short"),
            (418, Some("Teapot"), Some("got AWS4-HMAC-SHA256 Credential=KEY/x, Signature=ab"), ErrorKind::Broken, "Teapot"),
        ] {
            let trouble = Trouble::answered(status, code, message);
            assert_eq!(trouble.kind, kind, "{status} {code:?}");
            assert!(trouble.cause.to_string().starts_with(cause), "{}", trouble.cause);
            assert!(!trouble.cause.to_string().contains("KEY"), "{}", trouble.cause);
        }
        let long = Trouble::answered(400, Some("Odd"), Some(&"x".repeat(5000)));
        assert!(long.cause.to_string().len() < 300);
    }

    #[test]
    fn what_an_error_of_io_wraps_is_found() {
        let wrapped = io::Error::other(io::Error::other(rustls::Error::DecryptError));
        assert_eq!(find::<rustls::Error>(&wrapped), Some(&rustls::Error::DecryptError));
        assert!(find::<rustls::Error>(&io::Error::other("x")).is_none());
    }
}
