//! Certificates of any age and for any name, from an authority of the test's own.

use std::path::{Path, PathBuf};

use holdfast::base::clock::{Clock, SystemClock};
use jiff::ToSpan;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Far longer than a test, and than any warning about an end that is near.
pub const YEAR: i64 = 365;

/// Who signs.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// What a certificate says. Days count from now, the past below zero.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub name: &'a str,
    pub hosts: &'a [&'a str],
    pub from_day: i64,
    pub to_day: i64,
    pub server: bool,
    pub client: bool,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

impl Default for Wanted<'_> {
    /// Good for a member of etcd on loopback and for its clients.
    fn default() -> Self {
        Self { name: "loopback", hosts: &["127.0.0.1", "localhost"], from_day: -YEAR, to_day: YEAR, server: true, client: true }
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        Self::between(name, -2 * YEAR, 2 * YEAR)
    }

    pub fn between(name: &str, from_day: i64, to_day: i64) -> Self {
        let mut params = params(name, &[], from_day, to_day);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    pub fn leaf(&self, wanted: &Wanted<'_>) -> Leaf {
        let mut params = params(wanted.name, wanted.hosts, wanted.from_day, wanted.to_day);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let usages = [(wanted.server, ExtendedKeyUsagePurpose::ServerAuth), (wanted.client, ExtendedKeyUsagePurpose::ClientAuth)];
        params.extended_key_usages = usages.into_iter().filter_map(|(is_wanted, usage)| is_wanted.then_some(usage)).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Leaf { certificate, key: key.serialize_pem() }
    }
}

impl Leaf {
    /// Writes `NAME.crt` and `NAME.key` into `folder`.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        write(&certificate, &self.certificate);
        write(&key, &self.key);
        (certificate, key)
    }
}

/// Writes a file that only its owner reads.
pub fn write(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn params(name: &str, hosts: &[&str], from_day: i64, to_day: i64) -> CertificateParams {
    let mut params = CertificateParams::new(hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>()).unwrap();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    let today = TimeZone::UTC.to_datetime(SystemClock::new().now()).date();
    // rcgen takes another crate's moments, and makes them from numbers for us.
    let midnight = |days: i64| {
        let date = today.saturating_add(days.days());
        rcgen::date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    (params.not_before, params.not_after) = (midnight(from_day), midnight(to_day));
    params.use_authority_key_identifier_extension = true;
    params
}
