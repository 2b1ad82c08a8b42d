//! Throwaway certificate authorities, leaves and a service account key.
//!
//! Nothing here comes from production or could be accepted there: every key is
//! made in this process, lives in its memory and in the sandbox's private
//! files, and is gone with them.

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::secret::Secret;

/// A run lasts hours at most; a day on each side forgives clocks and midnight.
pub const DAYS_OF_A_RUN: i64 = 1;
/// A cluster that stays up is looked at for days, and forgotten sooner or later:
/// what it shows to clients ends then, too.
pub const DAYS_UP: i64 = 30;

/// A certificate authority that signs for one server and its clients.
pub struct Authority {
    name: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
    validity: (Date, Date),
}

/// A certificate and its key, PEM.
#[derive(Debug, Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: Secret<String>,
}

/// A key that signs service account tokens: PEM, private and public half.
#[derive(Debug, Clone)]
pub struct TokenKey {
    pub private: Secret<String>,
    pub public: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({})", self.name)
    }
}

impl Authority {
    /// # Errors
    /// `sandbox.failed` when the crypto library refuses.
    pub fn new(name: &str, now: Timestamp) -> Result<Self, Failure> {
        Self::lasting(name, now, DAYS_OF_A_RUN)
    }

    /// As [`Authority::new`], for what stays up for some days.
    ///
    /// # Errors
    /// `sandbox.failed` when the crypto library refuses.
    pub fn lasting(name: &str, now: Timestamp, days: i64) -> Result<Self, Failure> {
        let validity = validity(now, days);
        let mut params = params(name, None, validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(|e| failed(name, &e))?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(|e| failed(name, &e))?;
        Ok(Self { name: name.to_owned(), issuer, validity })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    #[must_use]
    pub fn certificate_der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// The last day on which anything signed by it is valid.
    #[must_use]
    pub fn not_after(&self) -> String {
        format!("{}T00:00:00Z", self.validity.1)
    }

    /// A certificate for a server on loopback, which may be its own client.
    ///
    /// # Errors
    /// `sandbox.failed` when the crypto library refuses.
    pub fn server(&self, name: &str) -> Result<Leaf, Failure> {
        let mut params = params(name, None, self.validity);
        let localhost = "localhost".try_into().map_err(|e| failed(name, &e))?;
        params.subject_alt_names = vec![SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()), SanType::DnsName(localhost)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    /// A certificate for a client: user `name`, group `organization`.
    ///
    /// # Errors
    /// `sandbox.failed` when the crypto library refuses.
    pub fn client(&self, name: &str, organization: Option<&str>) -> Result<Leaf, Failure> {
        let mut params = params(name, organization, self.validity);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<Leaf, Failure> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(|e| failed(name, &e))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|e| failed(name, &e))?;
        Ok(Leaf { certificate: certificate.pem(), key: Secret::new(key.serialize_pem()) })
    }
}

impl TokenKey {
    /// # Errors
    /// `sandbox.failed` when the crypto library refuses.
    pub fn new() -> Result<Self, Failure> {
        let key = KeyPair::generate().map_err(|e| failed("service account key", &e))?;
        Ok(Self { private: Secret::new(key.serialize_pem()), public: key.public_key_pem() })
    }
}

fn params(name: &str, organization: Option<&str>, validity: (Date, Date)) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    // rcgen takes another crate's moments, and makes them from numbers for us.
    let numbers = |date: Date| (i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs());
    let ((year, month, day), (to_year, to_month, to_day)) = (numbers(validity.0), numbers(validity.1));
    params.not_before = rcgen::date_time_ymd(year, month, day);
    params.not_after = rcgen::date_time_ymd(to_year, to_month, to_day);
    params
}

fn validity(now: Timestamp, days: i64) -> (Date, Date) {
    let today = TimeZone::UTC.to_datetime(now).date();
    // Tomorrow's midnight may be a second away; the next one is a whole day away.
    (today.saturating_sub(DAYS_OF_A_RUN.days()), today.saturating_add((days + 1).days()))
}

fn failed(name: &str, error: &rcgen::Error) -> Failure {
    Failure::because(&codes::SANDBOX_FAILED, format!("certificate of {name}"), error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rustls::RootCertStore;
    use rustls::pki_types::{CertificateDer, UnixTime, pem::PemObject};
    use rustls::server::WebPkiClientVerifier;

    use super::*;

    fn accepts(authority: &Authority, leaf: &Leaf, seconds: u64) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate_der().into()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        verifier.verify_client_cert(&certificate, &[], at).is_ok()
    }

    #[test]
    fn leaves_are_accepted_by_their_own_authority_for_two_days_and_by_no_other() {
        const NOW: u64 = 1_798_761_599; // 2026-12-31T23:59:59Z
        let now = Timestamp::from_second(NOW.cast_signed()).unwrap();
        let (ours, other) = (Authority::new("ours", now).unwrap(), Authority::new("other", now).unwrap());
        let leaf = ours.client("admin", Some("system:masters")).unwrap();
        assert!(accepts(&ours, &leaf, NOW));
        assert!(!accepts(&other, &leaf, NOW), "another authority's leaf");
        assert!(!accepts(&ours, &leaf, NOW + 3 * 86_400), "a leaf of days ago");
        assert_eq!(ours.not_after(), "2027-01-02T00:00:00Z");
    }

    #[test]
    fn two_token_keys_differ_and_do_not_print() {
        let (one, two) = (TokenKey::new().unwrap(), TokenKey::new().unwrap());
        assert_ne!(one.public, two.public);
        assert!(one.private.expose().contains("PRIVATE KEY"));
        assert!(!format!("{one:?}").contains("PRIVATE KEY"));
    }
}
