//! Readers of single values. A message says what a value must be and never
//! repeats it: the line with its caret does, where it may be shown.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::de::DeValue;

use super::{Checksums, FencePolicy};
use crate::base::cron::CronLine;
use crate::base::ids::ClusterName;
use crate::base::object_key::Key;
use crate::base::rung::Rung;
use crate::base::units::{human_duration, parse_bytes};

/// Leaves room for the longest name that is built below a prefix.
const LONGEST_PREFIX: usize = 256;

/// Any text.
pub(super) fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    match value {
        DeValue::String(text) => Ok(text),
        _ => Err("must be text in quotes".to_owned()),
    }
}

/// Anything that reads itself from text and says what it must be.
pub(super) fn parsed<T: FromStr<Err: Display>>(value: &DeValue<'_>) -> Result<T, String> {
    text(value)?.parse().map_err(|must: T::Err| format!("is wrong: {must}"))
}

/// A cluster's name. kubeadm calls every cluster `kubernetes`: two of them
/// would share their place in every store.
pub(super) fn cluster_name(value: &DeValue<'_>) -> Result<ClusterName, String> {
    let name: ClusterName = parsed(value)?;
    if name.as_str() == "kubernetes" {
        return Err(
            "must not be kubeadm's default name, which every cluster has; choose one that no other cluster has".to_owned()
        );
    }
    Ok(name)
}

/// A path that means the same in a shell and in a service.
pub(super) fn path(value: &DeValue<'_>) -> Result<PathBuf, String> {
    let text = text(value)?;
    let path = PathBuf::from(text);
    if path.is_absolute() && !text.contains('\0') { Ok(path) } else { Err("must be an absolute path".to_owned()) }
}

/// `"60s"`, `"30m"`, `"1h 30m"`.
pub(super) fn duration(value: &DeValue<'_>, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let must = || "must be a duration in quotes, such as \"30s\", \"5m\" or \"1h 30m\"".to_owned();
    let signed: jiff::SignedDuration = text(value).map_err(|_| must())?.parse().map_err(|_| must())?;
    let duration = Duration::try_from(signed).map_err(|_| must())?;
    if range.contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("must lie between {} and {}", human_duration(*range.start()), human_duration(*range.end())))
    }
}

/// `"2GiB"`, `"512 MiB"` or plain bytes.
pub(super) fn bytes(value: &DeValue<'_>, range: RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = match value {
        DeValue::String(text) => parse_bytes(text),
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| "must be a size, such as \"512MiB\" or \"2GiB\"".to_owned())?;
    let human = crate::base::units::human_bytes;
    if range.contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("must lie between {} and {}", human(*range.start()), human(*range.end())))
    }
}

pub(super) fn integer(value: &DeValue<'_>, range: RangeInclusive<i32>) -> Result<i32, String> {
    let number = match value {
        DeValue::Integer(number) => i32::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    number.filter(|n| range.contains(n)).ok_or_else(|| format!("must be a number from {} to {}", range.start(), range.end()))
}

/// `2`, `1.5`: in thousandths.
pub(super) fn cpus(value: &DeValue<'_>) -> Result<u32, String> {
    /// A tenth of one, to more than a host has.
    const RANGE: RangeInclusive<u32> = 100..=1_024_000;
    let number = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    // Saturates, and takes what is no number for 0.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let thousandths = number.map(|number| (number * 1000.0).round() as u32);
    thousandths
        .filter(|n| RANGE.contains(n))
        .ok_or_else(|| "must be a number of CPUs from 0.1 to 1024, such as 2 or 1.5".to_owned())
}

/// `"auto"`, `true` or `false`.
pub(super) fn fence(value: &DeValue<'_>) -> Result<FencePolicy, String> {
    match value {
        DeValue::String(text) if text == "auto" => Ok(FencePolicy::Auto),
        DeValue::Boolean(true) => Ok(FencePolicy::Required),
        DeValue::Boolean(false) => Ok(FencePolicy::Off),
        _ => Err("must be \"auto\", true or false".to_owned()),
    }
}

/// A cron line of five fields.
pub(super) fn cron(value: &DeValue<'_>) -> Result<CronLine, String> {
    text(value)?.parse().map_err(|bad| format!("is no cron line: {bad}"))
}

/// A rung that this version climbs to.
pub(super) fn rung(value: &DeValue<'_>) -> Result<Rung, String> {
    let known = [Rung::Open, Rung::Boot, Rung::Serve];
    let named = text(value).ok().and_then(|text| known.into_iter().find(|rung| rung.as_str() == text));
    named.ok_or_else(|| "must be \"open\", \"boot\" or \"serve\"".to_owned())
}

/// `"127.0.0.1:9127"`, `"[::1]:9127"`. Port 0 is any that is free.
pub(super) fn listen(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let must = "must be an IP address and a port in quotes, such as \"127.0.0.1:9127\" or \"[::1]:9127\"";
    text(value).ok().and_then(|text| text.parse().ok()).ok_or_else(|| must.to_owned())
}

/// Empty, or a name below which all others lie.
pub(super) fn prefix(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    let fits = text.is_empty() || (text.len() <= LONGEST_PREFIX && text.parse::<Key>().is_ok());
    let must = "must be empty or names of letters, digits, '.', '_', '@', '+' and '-', joined by '/', none starting with '.'";
    fits.then(|| text.to_owned()).ok_or_else(|| must.to_owned())
}

/// A native age recipient in its one canonical form.
pub(super) fn recipient(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    if text.to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
        return Err(
            "is an age identity, which is secret: put its public recipient here (age-keygen -y), and treat the identity as lost"
                .to_owned(),
        );
    }
    let recipient = age::x25519::Recipient::from_str(text);
    recipient.map(|r| r.to_string()).map_err(|_| "must be a native age recipient: age1 and 58 more characters".to_owned())
}

/// `https://host:port`, or `http://host:port` on loopback.
pub(super) fn endpoint(value: &DeValue<'_>) -> Result<String, String> {
    const FORM: &str = "must be https://host:port";
    let address = Address::read(value, FORM, "etcd knows this host by its client certificate")?;
    if address.port.is_none() {
        return Err(format!("{FORM}, with both a host and a port"));
    }
    address.encrypted("whoever can read or alter this stream has the whole cluster")
}

/// `https://host` or `https://host:port`, or `http://` on loopback.
pub(super) fn s3_endpoint(value: &DeValue<'_>) -> Result<String, String> {
    const FORM: &str = "must be https://host or https://host:port";
    let address = Address::read(value, FORM, "the credential stands elsewhere")?;
    address.encrypted("whoever can read this traffic learns which objects there are, and can alter answers")
}

/// An address of a server.
struct Address {
    /// `http` or `https`.
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Address {
    fn read(value: &DeValue<'_>, form: &str, instead: &str) -> Result<Self, String> {
        let uri: http::Uri = text(value)?.parse().map_err(|_| form.to_owned())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(form.to_owned()) };
        if authority.as_str().contains('@') {
            return Err(format!("must not hold a user or password; {instead}"));
        }
        if !uri.path().trim_end_matches('/').is_empty() || uri.query().is_some() {
            return Err(format!("{form}, without a path"));
        }
        // A colon after which no number stands is not a port, and not nothing.
        let port = authority.port_u16();
        let colon = authority.as_str().len() > authority.host().len();
        if authority.host().is_empty() || port == Some(0) || (colon && port.is_none()) {
            return Err(form.to_owned());
        }
        match scheme {
            "http" | "https" => Ok(Self { scheme: scheme.to_owned(), host: authority.host().to_owned(), port }),
            _ => Err(form.to_owned()),
        }
    }

    /// The address without a trailing slash, unless others could listen.
    fn encrypted(self, danger: &str) -> Result<String, String> {
        let Self { scheme, host, port } = self;
        if scheme == "http" && !is_loopback(&host) {
            return Err(format!("must be https: {danger} (http is for loopback)"));
        }
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        Ok(format!("{scheme}://{host}{port}"))
    }
}

/// A bucket's name by the rules of S3.
pub(super) fn bucket(value: &DeValue<'_>) -> Result<String, String> {
    let text = text(value)?;
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let label = |l: &str| !l.is_empty() && !l.starts_with('-') && !l.ends_with('-');
    let is_name = (3..=63).contains(&text.len()) && text.bytes().all(inner) && text.split('.').all(label);
    if !is_name || text.parse::<IpAddr>().is_ok() {
        return Err(
            "must be a bucket's name: 3 to 63 lower-case letters, digits, '-' and '.', with a letter or digit at both ends \
                    and around each '.', and no IP address"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// A region's name: it goes into signatures, and servers of one's own choose it.
pub(super) fn region(value: &DeValue<'_>) -> Result<String, String> {
    let must = "must be a region's name, such as eu-central-1: letters, digits, '-' and '_'";
    name(value, 64, |b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_').ok_or_else(|| must.to_owned())
}

/// The name of a section of a credentials file.
pub(super) fn profile(value: &DeValue<'_>) -> Result<String, String> {
    let must = "must be the name in brackets in that file: letters, digits, '.', '_', '-' and '@'";
    name(value, 64, |b| b.is_ascii_alphanumeric() || b"._-@".contains(&b)).ok_or_else(|| must.to_owned())
}

/// What names of environment variables begin with.
pub(super) fn environment(value: &DeValue<'_>) -> Result<String, String> {
    let must = "must be what the variables' names begin with, such as HOLDFAST_SNAPSHOTS: upper-case letters, digits and '_'";
    let prefix = name(value, 64, |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    prefix.filter(|p| !p.starts_with(|c: char| c.is_ascii_digit()) && !p.ends_with('_')).ok_or_else(|| must.to_owned())
}

/// The name of a credential of systemd.
pub(super) fn credential_name(value: &DeValue<'_>) -> Result<String, String> {
    let must = "must be the name that LoadCredential= gives it: letters, digits, '.', '_' and '-', not starting with '.'";
    let found = name(value, 64, |b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    found.filter(|name| !name.starts_with('.')).ok_or_else(|| must.to_owned())
}

fn name(value: &DeValue<'_>, longest: usize, fits: impl Fn(u8) -> bool) -> Option<String> {
    let text = text(value).ok()?;
    ((1..=longest).contains(&text.len()) && text.bytes().all(fits)).then(|| text.to_owned())
}

pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    match value {
        DeValue::Boolean(value) => Ok(*value),
        _ => Err("must be true or false".to_owned()),
    }
}

/// `"when-required"` or `"when-supported"`.
pub(super) fn checksums(value: &DeValue<'_>) -> Result<Checksums, String> {
    match value {
        DeValue::String(text) if text == "when-required" => Ok(Checksums::WhenRequired),
        DeValue::String(text) if text == "when-supported" => Ok(Checksums::WhenSupported),
        _ => Err("must be \"when-required\" or \"when-supported\"".to_owned()),
    }
}

pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> DeValue<'_> {
        DeValue::String(text.into())
    }

    #[test]
    fn endpoints_are_https_or_loopback_with_host_and_port() {
        for (text, good) in [
            ("https://10.0.0.1:2379", true),
            ("https://[2001:db8::1]:2379", true),
            ("https://etcd.example:2379/", true),
            ("http://127.0.0.1:2379", true),
            ("http://[::1]:2379", true),
            ("http://localhost:2379", true),
            ("http://10.0.0.1:2379", false),
            ("http://localhost.example:2379", false),
            ("http://127.0.0.1.example:2379", false),
            ("https://10.0.0.1", false),
            ("https://:2379", false),
            ("https://10.0.0.1:0", false),
            ("https://10.0.0.1:99999", false),
            ("https://10.0.0.1:2379/v3", false),
            ("https://10.0.0.1:2379?x", false),
            ("https://root:hunter2@10.0.0.1:2379", false),
            ("unix:///run/etcd", false),
            ("10.0.0.1:2379", false),
            ("", false),
        ] {
            assert_eq!(endpoint(&string(text)).is_ok(), good, "{text:?}: {:?}", endpoint(&string(text)));
        }
        assert_eq!(endpoint(&string("https://etcd.example:2379/")).unwrap(), "https://etcd.example:2379");
    }

    #[test]
    fn endpoints_of_s3_need_no_port() {
        for (text, good) in [
            ("https://s3.example", Some("https://s3.example")),
            ("https://s3.example/", Some("https://s3.example")),
            ("https://s3.example:9000", Some("https://s3.example:9000")),
            ("http://127.0.0.1:7070", Some("http://127.0.0.1:7070")),
            ("http://[::1]", Some("http://[::1]")),
            ("http://s3.example", None),
            ("https://s3.example:", None),
            ("https://s3.example:0", None),
            ("https://s3.example/bucket", None),
            ("https://key:hunter2@s3.example", None),
            ("s3://bucket", None),
            ("s3.example", None),
        ] {
            let read = s3_endpoint(&string(text));
            assert_eq!(read.as_deref().ok(), good, "{text:?}: {read:?}");
            assert!(!format!("{read:?}").contains("hunter2"));
        }
    }

    #[test]
    fn buckets_have_names_that_every_server_takes() {
        for (text, good) in [
            ("abc", true),
            ("holdfast-snapshots.eu1", true),
            ("1a2", true),
            ("ab", false),
            ("Upper", false),
            ("under_score", false),
            ("-abc", false),
            ("abc-", false),
            ("a..b", false),
            ("a.-b", false),
            ("192.168.0.1", false),
            ("a/b", false),
            ("", false),
        ] {
            assert_eq!(bucket(&string(text)).is_ok(), good, "{text:?}");
        }
        assert!(bucket(&string(&"a".repeat(63))).is_ok() && bucket(&string(&"a".repeat(64))).is_err());
    }

    #[test]
    fn places_of_credentials_have_names() {
        for (text, prefix, credential) in [
            ("HOLDFAST_ESCROW", true, true),
            ("holdfast-escrow", false, true),
            ("1A", false, true),
            ("A_", false, true),
            (".hidden", false, false),
            ("a/b", false, false),
            ("", false, false),
        ] {
            assert_eq!(environment(&string(text)).is_ok(), prefix, "{text:?}");
            assert_eq!(credential_name(&string(text)).is_ok(), credential, "{text:?}");
        }
    }

    #[test]
    fn durations_read_as_people_write_them_and_have_bounds() {
        let range = Duration::from_secs(1)..=Duration::from_secs(3600);
        for (text, seconds) in [
            ("60s", Some(60)),
            ("30m", Some(1800)),
            ("1h", Some(3600)),
            ("5m 30s", Some(330)),
            ("1 minute", Some(60)),
            ("0s", None),
            ("-5s", None),
            ("2h", None),
            ("60", None),
            ("soon", None),
            ("", None),
            ("9999999999999999999h", None),
        ] {
            assert_eq!(duration(&string(text), range.clone()).ok().map(|d| d.as_secs()), seconds, "{text:?}");
        }
    }

    #[test]
    fn only_native_recipients_are_recipients() {
        let identity = age::x25519::Identity::generate();
        let public = identity.to_public().to_string();
        assert_eq!(recipient(&string(&public)).unwrap(), public);
        let mut altered = public.clone();
        altered.replace_range(10..11, if &public[10..11] == "q" { "p" } else { "q" });
        for text in ["", "age1", &altered, "ssh-ed25519 AAAA", "age1yubikey1q0000"] {
            assert!(recipient(&string(text)).is_err(), "{text:?}");
        }
        let secret = "AGE-SECRET-KEY-1QQQQ";
        let message = recipient(&string(secret)).unwrap_err();
        assert!(message.contains("secret") && !message.contains("1QQQQ"), "{message}");
    }

    #[test]
    fn a_prefix_is_empty_or_a_name() {
        for (text, good) in
            [("", true), ("holdfast", true), ("a/b", true), ("/a", false), ("a/", false), ("..", false), ("a b", false)]
        {
            assert_eq!(prefix(&string(text)).is_ok(), good, "{text:?}");
        }
    }
}
