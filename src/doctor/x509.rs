//! Certificates and keys in PEM, and what a certificate says of itself.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Nobody renews in less than a month without hurry, and kubeadm's last a year.
pub(super) const NOTICE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// What matters of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// As `openssl x509 -subject` shows it.
    pub subject: String,
    pub from: Timestamp,
    pub to: Timestamp,
    /// May it prove a client? One without extended usages may prove anything.
    pub for_clients: bool,
}

/// A certificate's days, seen from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    Early,
    EndsSoon,
    Expired,
}

impl Facts {
    /// None for bytes that are no certificate.
    pub fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let second = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let for_clients = match certificate.extended_key_usage() {
            Ok(Some(usage)) => usage.value.client_auth || usage.value.any,
            Ok(None) => true,
            Err(_) => false,
        };
        Some(Self {
            subject: certificate.subject().to_string(),
            from: second(certificate.validity().not_before)?,
            to: second(certificate.validity().not_after)?,
            for_clients,
        })
    }

    pub fn standing(&self, now: Timestamp) -> Standing {
        match () {
            () if now > self.to => Standing::Expired,
            () if now < self.from => Standing::Early,
            () if self.to.duration_since(now) < NOTICE => Standing::EndsSoon,
            () => Standing::Good,
        }
    }
}

/// All certificates of a file, at least one. Blocking.
///
/// # Errors
/// Why there are none, as a phrase that follows the file's name.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match read {
        Ok(found) if found.is_empty() => Err("holds no certificate in PEM".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("holds no certificates in PEM: {error}")),
    }
}

/// The first private key of a file. Blocking; the cause never holds text of it.
///
/// # Errors
/// Why there is none, as a phrase that follows the file's name.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|_| "holds no private key in PEM".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_early_good_near_its_end_and_expired() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (from, to) = (at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
        let facts = Facts { subject: "CN=x".into(), from, to, for_clients: true };
        for (now, expected) in [
            ("2025-12-31T23:59:59Z", Standing::Early),
            ("2026-01-01T00:00:00Z", Standing::Good),
            ("2026-12-01T00:00:00Z", Standing::Good),
            ("2026-12-03T00:00:00Z", Standing::EndsSoon),
            ("2027-01-01T00:00:00Z", Standing::EndsSoon),
            ("2027-01-01T00:00:01Z", Standing::Expired),
        ] {
            assert_eq!(facts.standing(at(now)), expected, "{now}");
        }
    }

    #[test]
    fn what_is_no_pem_is_refused_without_showing_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "-----BEGIN PRIVATE KEY-----\nNONSENSE\n-----END PRIVATE KEY-----\n").unwrap();
        assert_eq!(certificates(&path).unwrap_err(), "holds no certificate in PEM");
        std::fs::write(&path, "NONSENSE").unwrap();
        let refused = private_key(&path).unwrap_err();
        assert!(!refused.contains("NONSENSE"), "{refused}");
        assert!(certificates(&folder.path().join("absent")).is_err());
    }
}
