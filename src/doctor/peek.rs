//! What a server shows of itself before it is believed: its certificates, what
//! it makes of ours, and its clock.
//!
//! The handshake accepts whatever certificate comes, so that one which has
//! expired can be named; nothing secret is sent, and nothing that is read is
//! used for more than to tell of it. Blocking: one connection, with a deadline.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned};

use crate::base::clock::Clock;

/// What of an answer is read: its head is all that is wanted.
const HEAD: usize = 16 << 10;

/// Where to look, and as whom.
#[derive(Debug)]
pub(super) struct Door {
    pub host: String,
    pub port: u16,
    pub tls: Option<Tls>,
    /// What is asked for: something that every such server has for everybody.
    pub path: &'static str,
    pub limit: Duration,
}

/// For `https`.
#[derive(Debug, Default)]
pub(super) struct Tls {
    /// Whom the server's certificate is held against; empty where that is not known here.
    pub authorities: Vec<CertificateDer<'static>>,
    pub identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// The server's own first; empty without TLS.
    pub chain: Vec<CertificateDer<'static>>,
    /// Would this host believe it? None where it has nothing to hold it against.
    pub believed: Option<Result<(), rustls::Error>>,
    /// Its clock and ours at that moment, or why it gave no answer: after a
    /// handshake, because it refuses this client.
    pub clocks: Result<Option<(Timestamp, Timestamp)>, io::Error>,
}

impl Door {
    /// The door of `https://host:port` or `http://host:port`; none for other texts.
    pub fn of(endpoint: &str, tls: impl FnOnce() -> Tls, path: &'static str, limit: Duration) -> Option<Self> {
        let uri: http::Uri = endpoint.parse().ok()?;
        let (encrypted, usual) = match uri.scheme_str()? {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return None,
        };
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self { host, port: uri.port_u16().unwrap_or(usual), tls: encrypted.then(tls), path, limit })
    }

    /// Looks.
    ///
    /// # Errors
    /// When there is no connection, or no handshake.
    pub fn look(self, clock: &dyn Clock) -> Result<Seen, io::Error> {
        let mut socket = connect(&self.host, self.port, self.limit)?;
        let Some(tls) = &self.tls else {
            let clocks = self.ask(&mut socket, clock);
            return Ok(Seen { chain: Vec::new(), believed: None, clocks });
        };
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(Arc::new(tls.config()?), name.clone()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let chain: Vec<_> = connection.peer_certificates().unwrap_or_default().iter().map(|c| c.clone().into_owned()).collect();
        let believed = tls.judge(&chain, &name, clock.now());
        let clocks = self.ask(&mut StreamOwned::new(connection, socket), clock);
        Ok(Seen { chain, believed, clocks })
    }

    /// The server's clock by its `Date`, and ours.
    fn ask(&self, stream: &mut (impl Read + Write), clock: &dyn Clock) -> Result<Option<(Timestamp, Timestamp)>, io::Error> {
        let asked = clock.now();
        write!(stream, "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.path, self.host)?;
        stream.flush()?;
        let head = read_head(stream)?;
        let answered = clock.now();
        let midway = asked.checked_add(answered.duration_since(asked) / 2).unwrap_or(answered);
        Ok(date(&head).map(|theirs| (theirs, midway)))
    }
}

impl Tls {
    fn config(&self) -> Result<ClientConfig, io::Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder =
            builder.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(Arc::new(LookOnly(provider)));
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(io::Error::other),
        }
    }

    fn judge(
        &self,
        chain: &[CertificateDer<'static>],
        name: &ServerName<'_>,
        now: Timestamp,
    ) -> Option<Result<(), rustls::Error>> {
        let (leaf, intermediates) = chain.split_first()?;
        if self.authorities.is_empty() {
            return None;
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.authorities.iter().cloned());
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0)));
        Some(verifier.verify_server_cert(leaf, intermediates, name, &[], at).map(drop))
    }
}

/// Accepts every certificate, for its text alone; signatures are still checked.
#[derive(Debug)]
struct LookOnly(Arc<CryptoProvider>);

impl ServerCertVerifier for LookOnly {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn connect(host: &str, port: u16, limit: Duration) -> Result<TcpStream, io::Error> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => {
                socket.set_read_timeout(Some(limit))?;
                socket.set_write_timeout(Some(limit))?;
                return Ok(socket);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The head of an HTTP answer.
fn read_head(stream: &mut impl Read) -> Result<Vec<u8>, io::Error> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while head.len() < HEAD && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => head.extend_from_slice(&buffer[..read]),
            // A peer that closes without a word has said all that it will.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !head.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

/// The time in an answer's `Date`.
fn date(head: &[u8]) -> Option<Timestamp> {
    let text = String::from_utf8_lossy(head);
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim().to_owned())
    })?;
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_read_from_endpoints() {
        let door = |endpoint: &str| {
            let door = Door::of(endpoint, Tls::default, "/", Duration::from_secs(1))?;
            Some((door.host, door.port, door.tls.is_some()))
        };
        assert_eq!(door("https://[2001:db8::1]:2379"), Some(("2001:db8::1".to_owned(), 2379, true)));
        assert_eq!(door("https://s3.example"), Some(("s3.example".to_owned(), 443, true)));
        assert_eq!(door("http://127.0.0.1:1"), Some(("127.0.0.1".to_owned(), 1, false)));
        assert_eq!(door("unix:///run/x"), None);
        assert_eq!(door("nonsense"), None);
    }

    #[test]
    fn the_time_of_an_answer_is_read_from_its_head() {
        let head = |date: &str| format!("HTTP/1.1 200 OK\r\n{date}\r\nContent-Length: 0\r\n\r\n");
        for (line, expected) in [
            ("Date: Tue, 01 Dec 2026 17:34:04 GMT", Some("2026-12-01T17:34:04Z")),
            ("date:Tue, 01 Dec 2026 17:34:04 GMT", Some("2026-12-01T17:34:04Z")),
            ("Date: tomorrow", None),
            ("X-Date: Tue, 01 Dec 2026 17:34:04 GMT", None),
        ] {
            assert_eq!(date(head(line).as_bytes()).map(|at| at.to_string()).as_deref(), expected, "{line}");
        }
    }
}
