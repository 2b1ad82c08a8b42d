//! The client of one bucket: made from the configuration, the credential and
//! the authorities as they are on disk, and made anew when those change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    AppName, BehaviorVersion, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation, SharedHttpClient,
    StalledStreamProtectionConfig,
};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::ErrorKind;
use super::trouble::Trouble;
use crate::config::credential::Credential;
use crate::config::{Checksums, S3Config};

/// Of one request: where bytes are at hand, a lost packet must not end a put.
const TRIES: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The client in use, and what it was made from.
#[derive(Debug)]
pub(super) struct Connections {
    config: Arc<S3Config>,
    current: Mutex<Option<Connection>>,
}

/// A client and the bucket it is for.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub client: Client,
    credential: Arc<Credential>,
    files: Files,
}

/// The files behind a client as they were when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files(Vec<Option<Stamp>>);

/// Changes when a file is written or replaced: inode, length, change time.
type Stamp = (u64, u64, i64, i64);

impl Connections {
    pub fn new(config: Arc<S3Config>) -> Self {
        Self { config, current: Mutex::default() }
    }

    /// The client for the next request.
    ///
    /// # Errors
    /// [`ErrorKind::Credential`] and [`ErrorKind::Tls`] for what cannot be read;
    /// a client that was made before stays for when its files are back.
    pub async fn current(&self) -> Result<Connection, Trouble> {
        let (config, known) = (self.config.clone(), self.known());
        let made = blocking(move || match known {
            Some(known) if known.files == Files::of(&config) => Ok(known),
            known => Connection::make(&config, known.as_ref()),
        });
        self.keep(made.await?)
    }

    /// Another client, if the credential is another than that of `refused`.
    pub async fn after_denial(&self, refused: &Connection) -> Option<Connection> {
        let (config, refused) = (self.config.clone(), refused.clone());
        let made = blocking(move || {
            Connection::make(&config, Some(&refused)).map(|made| (made.credential != refused.credential).then_some(made))
        });
        self.keep(made.await.ok()??).ok()
    }

    fn known(&self) -> Option<Connection> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, made: Connection) -> Result<Connection, Trouble> {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.clone());
        Ok(made)
    }
}

/// Runs one request on this thread, with a client and a runtime of its own: the
/// runtime of the others may be ending. Says whether it succeeded.
pub(super) fn apart<F: Future<Output = bool>>(config: &S3Config, request: impl FnOnce(Client) -> F) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match (runtime, Connection::make(config, None)) {
        (Ok(runtime), Ok(connection)) => runtime.block_on(async { request(connection.client).await }),
        _ => false,
    }
}

impl Connection {
    /// Blocking: reads the credential and the authorities.
    fn make(config: &S3Config, known: Option<&Self>) -> Result<Self, Trouble> {
        // Before they are read: what changes meanwhile is read again by the next.
        let files = Files::of(config);
        let credential = config.credentials.read(&variable);
        let credential = credential.map_err(|none| Trouble::here(ErrorKind::Credential, none.object, none.cause, none.next))?;
        if let Some(known) = known.filter(|known| *known.credential == credential && known.files.0[1] == files.0[1]) {
            return Ok(Self { files, ..known.clone() });
        }
        let client = Client::from_conf(client_config(config, &credential, http_client(config)?));
        Ok(Self { client, credential: Arc::new(credential), files })
    }
}

fn client_config(config: &S3Config, credential: &Credential, http: SharedHttpClient) -> aws_sdk_s3::Config {
    let token = credential.session_token.as_ref().map(|token| token.expose().clone());
    let credentials = Credentials::new(
        credential.access_key_id.expose().clone(),
        credential.secret_access_key.expose().clone(),
        token,
        None,
        "holdfast",
    );
    let (requests, responses) = match config.checksums {
        Checksums::WhenRequired => (RequestChecksumCalculation::WhenRequired, ResponseChecksumValidation::WhenRequired),
        Checksums::WhenSupported => (RequestChecksumCalculation::WhenSupported, ResponseChecksumValidation::WhenSupported),
    };
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(config.connect_timeout)
        .operation_attempt_timeout(config.request_timeout)
        .operation_timeout(config.request_timeout.saturating_mul(TRIES + 1));
    let retries =
        RetryConfig::standard().with_max_attempts(TRIES).with_initial_backoff(FIRST_WAIT).with_max_backoff(LONGEST_WAIT);
    let mut builder = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(config.region.clone()))
        .force_path_style(config.path_style)
        .credentials_provider(credentials)
        .request_checksum_calculation(requests)
        .response_checksum_validation(responses)
        .retry_config(retries)
        .timeout_config(timeouts.build())
        // Bodies that are read have a guard of their own, in `read`; those that are sent lie in memory.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .http_client(http);
    builder.set_app_name(AppName::new(concat!("holdfast-", env!("CARGO_PKG_VERSION"))).ok());
    builder.set_endpoint_url(config.endpoint.clone());
    builder.build()
}

/// Where the configuration names authorities, those and no others.
fn http_client(config: &S3Config) -> Result<SharedHttpClient, Trouble> {
    let encrypted = !config.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    let trusted = match &config.ca {
        Some(path) => TrustStore::empty().with_pem_certificate(authorities(path)?),
        None => TrustStore::empty().with_native_roots(encrypted),
    };
    let context = TlsContext::builder().with_trust_store(trusted).build();
    let context = context.map_err(|e| Trouble::new(ErrorKind::Tls, e))?;
    Ok(Builder::new().tls_provider(Provider::rustls(CryptoMode::Ring)).tls_context(context).build_https())
}

/// The file of authorities, if a client can be made from it: it panics on others.
fn authorities(path: &Path) -> Result<Vec<u8>, Trouble> {
    let refuse =
        |cause: String| Trouble::here(ErrorKind::Tls, path.display(), cause, "correct the file that ca of the store names");
    let pem = fs::read(path).map_err(|e| refuse(e.to_string()))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|e| refuse(format!("not PEM: {e}")))?;
    if certificates.is_empty() {
        return Err(refuse("there is no certificate in it".to_owned()));
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|e| refuse(format!("a certificate in it cannot be used: {e}")))?;
    }
    Ok(pem)
}

impl Files {
    /// First that of the credential, then that of the authorities.
    fn of(config: &S3Config) -> Self {
        let stamp = |path: Option<PathBuf>| {
            let metadata = fs::metadata(path?).ok()?;
            Some((metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec()))
        };
        Self(vec![stamp(config.credentials.file(&variable)), stamp(config.ca.clone())])
    }
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Trouble> + Send + 'static) -> Result<T, Trouble> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(Trouble::new(ErrorKind::Broken, e)))
}
