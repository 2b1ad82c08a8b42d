//! The certificates between this host and etcd: those in files, and those that
//! members show.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use super::peek::{Door, Seen, Tls};
use super::x509::{self, Facts, Standing};
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::config::EtcdConfig;

/// Of etcd's client port: its version, for everybody who may speak to it at all.
const ETCD_PATH: &str = "/version";

/// The files of this host.
pub(super) struct ClientCertificates;

/// What members show.
pub(super) struct ServerCertificates;

#[async_trait]
impl Check for ClientCertificates {
    fn area(&self) -> Area {
        Area::Etcd
    }

    fn name(&self) -> String {
        "the certificates in files".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let Some(etcd) = host.station.config.etcd.clone() else { return };
        let now = host.station.clock.now();
        if let Some(ca) = etcd.ca.clone() {
            let path = ca.clone();
            match blocking(move || x509::certificates(&path)).await {
                Ok(authorities) => {
                    authorities.iter().for_each(|der| tell_authority(findings, &ca.display().to_string(), der, now))
                }
                Err(cause) => findings.found(&codes::CERTIFICATE_UNREADABLE, ca.display(), cause),
            }
        }
        if let (Some(cert), Some(key)) = (etcd.cert, etcd.key) {
            client_pair(findings, &cert, &key, now).await;
        }
    }
}

async fn client_pair(findings: &Findings, cert: &Path, key: &Path, now: Timestamp) {
    let (object, paths) = (cert.display().to_string(), (cert.to_owned(), key.to_owned()));
    let (chain, private) = blocking(move || (x509::certificates(&paths.0), x509::private_key(&paths.1))).await;
    let chain = match chain {
        Ok(chain) => chain,
        Err(cause) => return findings.found(&codes::CERTIFICATE_UNREADABLE, object, cause),
    };
    // etcd is shown the first; what follows are authorities.
    match Facts::of(&chain[0]) {
        Some(facts) => {
            tell_leaf(findings, &object, &facts, now);
            if !facts.for_clients {
                findings.found(&codes::CERTIFICATE_USAGE, &object, format!("({}) is not one for clients", facts.subject));
            }
        }
        None => findings.found(&codes::CERTIFICATE_UNREADABLE, &object, "holds something else than a certificate"),
    }
    match private {
        Err(cause) => findings.found(&codes::CERTIFICATE_UNREADABLE, key.display(), cause),
        Ok(private) => {
            let provider = rustls::crypto::ring::default_provider();
            match CertifiedKey::from_der(chain, private, &provider) {
                Ok(_) => findings.good(key.display(), "is the key of etcd.cert"),
                Err(rustls::Error::InconsistentKeys(_)) => {
                    findings.found(&codes::KEY_MISMATCH, key.display(), format!("is not the key of {object}"));
                }
                Err(error) => findings.found(&codes::CERTIFICATE_UNREADABLE, key.display(), format!("cannot be used: {error}")),
            }
        }
    }
}

#[async_trait]
impl Check for ServerCertificates {
    fn area(&self) -> Area {
        Area::Etcd
    }

    fn name(&self) -> String {
        "the certificates of members".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let Some(etcd) = &host.station.config.etcd else { return };
        let now = host.station.clock.now();
        for (endpoint, seen) in look_at_members(host, etcd).await {
            match seen {
                // The members' own check says why.
                Err(_) => findings.not_applicable(endpoint, "shows no certificate, because it does not answer"),
                Ok(seen) if seen.chain.is_empty() => findings.not_applicable(endpoint, "speaks without TLS, on loopback"),
                Ok(seen) => tell_server(findings, &endpoint, &seen, now),
            }
        }
    }
}

/// Looks at each configured endpoint, as the client that this host is.
pub(super) async fn look_at_members(host: &Host, etcd: &EtcdConfig) -> Vec<(String, Result<Seen, std::io::Error>)> {
    let etcd = Arc::new(etcd.clone());
    let looks = etcd.endpoints.iter().map(|endpoint| {
        let (etcd, clock, endpoint) = (etcd.clone(), host.station.clock.clone(), endpoint.clone());
        blocking(move || {
            let door = Door::of(&endpoint, || tls(&etcd), ETCD_PATH, etcd.connect_timeout);
            let door = door.ok_or_else(|| std::io::Error::other("it is no address"));
            let seen = door.and_then(|door| door.look(clock.as_ref()));
            (endpoint, seen)
        })
    });
    join_all(looks).await
}

/// What can be read of it: what cannot is told of its file.
fn tls(etcd: &EtcdConfig) -> Tls {
    let authorities = etcd.ca.as_deref().and_then(|ca| x509::certificates(ca).ok()).unwrap_or_default();
    let identity = etcd.cert.as_deref().zip(etcd.key.as_deref());
    let identity = identity.and_then(|(cert, key)| Some((x509::certificates(cert).ok()?, x509::private_key(key).ok()?)));
    Tls { authorities, identity }
}

fn tell_server(findings: &Findings, endpoint: &str, seen: &Seen, now: Timestamp) {
    let Some(facts) = Facts::of(&seen.chain[0]) else {
        return findings.found(&codes::CERTIFICATE_WRONG, endpoint, "shows something else than a certificate");
    };
    let object = format!("certificate of {endpoint}");
    tell_leaf(findings, &object, &facts, now);
    // What is out of its time was told; then anything else that is wrong.
    if let Some(Err(error)) = &seen.believed
        && matches!(facts.standing(now), Standing::Good | Standing::EndsSoon)
    {
        findings.found(&codes::CERTIFICATE_WRONG, &object, format!("({}) is not believed: {error}", facts.subject));
    }
    if let Err(error) = &seen.clocks
        && is_refusal(error)
    {
        findings.found(&codes::CERTIFICATE_REFUSED, endpoint, format!("refuses this host after the handshake: {error}"));
    }
}

/// A server judges its client only after the client's part of the handshake:
/// what comes then is an alert, or a connection that closes. Silence is neither.
fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::AlertReceived(_)))
        || matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// The days of a certificate that kubeadm renews.
fn tell_leaf(findings: &Findings, object: &str, facts: &Facts, now: Timestamp) {
    let Facts { subject, from, to, .. } = facts;
    match facts.standing(now) {
        Standing::Good => findings.good(object, format!("({subject}) is valid until {to}")),
        Standing::Early => findings.found(&codes::CERTIFICATE_EARLY, object, format!("({subject}) is valid from {from}")),
        Standing::EndsSoon => findings.found(&codes::CERTIFICATE_ENDS, object, format!("({subject}) ends {to}")),
        Standing::Expired => findings.found(&codes::CERTIFICATE_EXPIRED, object, format!("({subject}) expired {to}")),
    }
}

fn tell_authority(findings: &Findings, object: &str, der: &CertificateDer<'_>, now: Timestamp) {
    let Some(facts) = Facts::of(der) else {
        return findings.found(&codes::CERTIFICATE_UNREADABLE, object, "holds something else than a certificate");
    };
    let (subject, to) = (&facts.subject, facts.to);
    match facts.standing(now) {
        Standing::EndsSoon => findings.found(&codes::AUTHORITY_ENDS, object, format!("({subject}) ends {to}")),
        Standing::Expired => findings.found(&codes::AUTHORITY_EXPIRED, object, format!("({subject}) expired {to}")),
        Standing::Good | Standing::Early => tell_leaf(findings, object, &facts, now),
    }
}
