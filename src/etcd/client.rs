//! The real cluster, over gRPC and TLS.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{Certificate, Client, ConnectOptions, GetOptions, Identity, SnapshotStreaming, TlsOptions};

use super::{MemberStatus, Message, MessageStream, Source};
use crate::base::codes::{self, Code};
use crate::base::failure::{Failure, chain, each_part_once};
use crate::config::EtcdConfig;

/// etcd answers Status from memory; an endpoint that takes longer is as good as gone.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// HashKV reads every revision: minutes on a database of several GiB.
const HASH_TIMEOUT: Duration = Duration::from_secs(300);

/// A member's answer to HashKV, with the numbers it was computed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    pub hash: u32,
    /// -1 when the member never compacted.
    pub compact_revision: i64,
    /// What was really hashed; 0 from a server before 3.6.
    pub revision: i64,
}

/// A member as the cluster lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMember {
    pub id: u64,
    /// Empty until it has started once.
    pub name: String,
    pub client_urls: Vec<String>,
    pub learner: bool,
}

impl ListedMember {
    fn of(member: &etcd_client::Member) -> Self {
        Self {
            id: member.id(),
            name: member.name().to_owned(),
            client_urls: member.client_urls().to_vec(),
            learner: member.is_learner(),
        }
    }
}

/// Clients of a cluster's endpoints, one connection each.
#[derive(Debug)]
pub struct EtcdClient {
    endpoints: Vec<String>,
    tls: Option<TlsOptions>,
    connect_timeout: Duration,
}

impl EtcdClient {
    /// Reads certificates and key; connects to nothing yet.
    ///
    /// # Errors
    /// `etcd.tls` when a file cannot be read.
    pub fn new(config: &EtcdConfig) -> Result<Self, Failure> {
        let mut tls = None;
        if config.endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
            let mut options = TlsOptions::new();
            if let Some(ca) = &config.ca {
                options = options.ca_certificate(Certificate::from_pem(read(ca)?));
            }
            if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
                options = options.identity(Identity::from_pem(read(cert)?, read(key)?));
            }
            tls = Some(options);
        }
        Ok(Self { endpoints: config.endpoints.clone(), tls, connect_timeout: config.connect_timeout })
    }

    /// A client of one member, with certificates that lie in no file.
    #[must_use]
    pub fn of_pem(endpoint: String, ca: &str, cert: &str, key: &str, connect_timeout: Duration) -> Self {
        let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca)).identity(Identity::from_pem(cert, key));
        Self { endpoints: vec![endpoint], tls: Some(tls), connect_timeout }
    }

    /// One endpoint, never balanced: the stream must be of the member asked.
    async fn connect(&self, endpoint: &str, require_leader: bool) -> Result<Client, Failure> {
        let mut options = ConnectOptions::new().with_connect_timeout(self.connect_timeout).with_require_leader(require_leader);
        if let Some(tls) = self.tls.clone().filter(|_| endpoint.starts_with("https://")) {
            options = options.with_tls(tls);
        }
        let connecting = Client::connect([endpoint], Some(options));
        within(self.connect_timeout, endpoint, connecting).await
    }

    /// The hash over all revisions up to `revision`, as that member computes it.
    /// Comparable only between equal compact revisions.
    ///
    /// # Errors
    /// `etcd.*` when the member does not answer.
    pub async fn hash_kv(&self, endpoint: &str, revision: i64) -> Result<HashKv, Failure> {
        let mut client = self.connect(endpoint, false).await?;
        let answer = within(HASH_TIMEOUT, endpoint, client.hash_kv(revision)).await?;
        Ok(HashKv { hash: answer.hash(), compact_revision: answer.compact_version(), revision: answer.hash_revision() })
    }

    /// How many keys are alive at `revision`.
    ///
    /// # Errors
    /// `etcd.*` when the member does not answer.
    pub async fn count(&self, endpoint: &str, revision: i64) -> Result<u64, Failure> {
        let mut client = self.connect(endpoint, false).await?;
        let options = GetOptions::new().with_all_keys().with_count_only().with_revision(revision);
        let answer = within(STATUS_TIMEOUT, endpoint, client.get("", Some(options))).await?;
        Ok(u64::try_from(answer.count()).unwrap_or(0))
    }

    /// All members of the cluster, as the first endpoint that answers knows them.
    /// Asked of its own memory, so that a member without a leader answers, too.
    ///
    /// # Errors
    /// Why the last endpoint gave no answer.
    pub async fn members(&self) -> Result<Vec<ListedMember>, Failure> {
        let mut silent = Failure::new(&codes::ETCD_UNREACHABLE, "etcd.endpoints", "there are none");
        for endpoint in &self.endpoints {
            let listed = async {
                let mut client = self.connect(endpoint, false).await?;
                within(STATUS_TIMEOUT, endpoint, client.member_list()).await
            };
            match listed.await {
                Ok(listed) => return Ok(listed.members().iter().map(ListedMember::of).collect()),
                Err(failure) => silent = failure,
            }
        }
        Err(silent)
    }

    /// The status of one member, and the quota of its database where it tells one.
    ///
    /// # Errors
    /// `etcd.*` when it does not answer.
    pub async fn status(&self, endpoint: &str) -> Result<(MemberStatus, Option<u64>), Failure> {
        let mut client = self.connect(endpoint, false).await?;
        let status = within(STATUS_TIMEOUT, endpoint, client.status()).await?;
        // 0 from a server before 3.6.
        let quota = u64::try_from(status.db_size_quota()).ok().filter(|quota| *quota > 0);
        let header =
            status.header().ok_or_else(|| Failure::new(&codes::ETCD_STREAM_BROKEN, endpoint, "its status has no header"))?;
        let status = MemberStatus {
            endpoint: endpoint.to_owned(),
            cluster_id: header.cluster_id(),
            member_id: header.member_id(),
            version: status.version().to_owned(),
            revision: header.revision(),
            leader: status.leader(),
            raft_index: status.raft_index(),
            raft_applied_index: status.raft_applied_index(),
            db_bytes: u64::try_from(status.db_size()).unwrap_or(0),
            learner: status.is_learner(),
            errors: status.errors().to_vec(),
        };
        Ok((status, quota))
    }
}

#[async_trait]
impl Source for EtcdClient {
    async fn statuses(&self) -> Vec<Result<MemberStatus, Failure>> {
        let asked = self.endpoints.iter().map(async |endpoint| Ok(self.status(endpoint).await?.0));
        futures::future::join_all(asked).await
    }

    async fn stream(&self, endpoint: &str, require_leader: bool) -> Result<Box<dyn MessageStream>, Failure> {
        let client = self.connect(endpoint, require_leader).await?;
        let mut maintenance = client.maintenance_client();
        let stream = within(self.connect_timeout, endpoint, maintenance.snapshot()).await?;
        Ok(Box::new(GrpcStream { endpoint: endpoint.to_owned(), stream, _client: client }))
    }
}

struct GrpcStream {
    endpoint: String,
    stream: SnapshotStreaming,
    /// The connection lives as long as the stream is read.
    _client: Client,
}

#[async_trait]
impl MessageStream for GrpcStream {
    async fn next(&mut self) -> Result<Option<Message>, Failure> {
        let message = self.stream.message().await.map_err(|error| {
            let cause = explain(&error);
            Failure::new(refused(&error).unwrap_or(&codes::ETCD_STREAM_BROKEN), &self.endpoint, cause)
        })?;
        Ok(message.map(|m| Message { remaining: m.remaining_bytes(), blob: Bytes::copy_from_slice(m.blob()) }))
    }
}

/// Waits for an answer of `endpoint` and says in our terms why there is none.
async fn within<T>(
    timeout: Duration,
    endpoint: &str,
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failure(endpoint, &error)),
        Err(_) => {
            let cause = format!("no answer within {}", crate::base::units::human_duration(timeout));
            Err(Failure::new(&codes::ETCD_UNREACHABLE, endpoint, cause))
        }
    }
}

/// Why there is no connection, and what to do about it.
fn failure(endpoint: &str, error: &etcd_client::Error) -> Failure {
    let cause = explain(error);
    if let Some(code) = refused(error) {
        return Failure::new(code, endpoint, cause);
    }
    match tls_advice(&cause, endpoint.starts_with("https://")) {
        Some(advice) => Failure::new(&codes::ETCD_TLS, endpoint, cause).next(advice),
        None => Failure::new(&codes::ETCD_UNREACHABLE, endpoint, cause),
    }
}

/// What a TLS library's words mean for the three files of the configuration.
fn tls_advice(cause: &str, https: bool) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    match () {
        () if says(&["KeyMismatch"]) => Some("etcd.cert and etcd.key do not belong together: name a pair"),
        () if says(&["UnknownIssuer"]) => Some("etcd.ca is not the authority of this member's certificate: name the one that is"),
        () if says(&["Expired", "NotValidYet"]) => Some("renew the certificate that is out of its time, or set the clock"),
        () if says(&["NotValidForName"]) => Some("name the endpoint as the member's certificate does"),
        () if says(&["CertificateRequired", "AccessDenied", "connection closed", "broken pipe"]) && https => {
            Some("etcd asks for a client certificate: set etcd.cert and etcd.key to a pair that its authority signed")
        }
        () if says(&["broken pipe", "connection closed", "HTTP_1_1_REQUIRED", "frame with invalid size"]) => {
            Some("the member speaks TLS: write the endpoint with https")
        }
        () if says(&["certificate", "tls", "handshake"]) => {
            Some("check etcd.ca, etcd.cert and etcd.key against the member's certificate")
        }
        () => None,
    }
}

/// Answers that no second attempt changes.
fn refused(error: &etcd_client::Error) -> Option<&'static Code> {
    let etcd_client::Error::GRpcStatus(status) = error else { return None };
    match status.code() {
        tonic::Code::PermissionDenied | tonic::Code::Unauthenticated | tonic::Code::InvalidArgument => Some(&codes::ETCD_DENIED),
        tonic::Code::Unavailable if status.message().contains("no leader") => Some(&codes::ETCD_NO_MEMBER),
        _ => None,
    }
}

/// The whole chain of causes: the client's own text ends at "transport error".
fn explain(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => {
            let source = std::error::Error::source(status).map(chain);
            match source {
                Some(source) => each_part_once(&format!("{}: {source}", status.message())),
                None => status.message().to_owned(),
            }
        }
        etcd_client::Error::TransportError(error) => chain(error),
        other => other.to_string(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::because(&codes::ETCD_TLS, path.display(), &error).next("check the path and who may read it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_tls_become_advice_about_the_configuration() {
        for (cause, https, advice) in [
            ("keys may not be consistent: KeyMismatch", true, Some("belong together")),
            ("transport error: invalid peer certificate: UnknownIssuer", true, Some("etcd.ca is not")),
            ("operation was canceled: connection closed", true, Some("client certificate")),
            ("transport error: broken pipe", false, Some("https")),
            ("tcp connect error: Connection refused (os error 111)", true, None),
        ] {
            let said = tls_advice(cause, https);
            assert_eq!(said.is_some(), advice.is_some(), "{cause}");
            assert!(said.unwrap_or_default().contains(advice.unwrap_or_default()), "{cause}: {said:?}");
        }
    }
}
