//! Readers of single values. A message says what a value must be and never
//! repeats it: the line with its caret does, where it may be shown.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::de::DeValue;

use super::FencePolicy;
use crate::base::ids::ClusterName;
use crate::base::object_key::Key;
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

/// `"auto"`, `true` or `false`.
pub(super) fn fence(value: &DeValue<'_>) -> Result<FencePolicy, String> {
    match value {
        DeValue::String(text) if text == "auto" => Ok(FencePolicy::Auto),
        DeValue::Boolean(true) => Ok(FencePolicy::Required),
        DeValue::Boolean(false) => Ok(FencePolicy::Off),
        _ => Err("must be \"auto\", true or false".to_owned()),
    }
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
    let uri: http::Uri = text(value)?.parse().map_err(|_| FORM.to_owned())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(FORM.to_owned()) };
    if authority.as_str().contains('@') {
        return Err("must not hold a user or password; etcd knows this host by its client certificate".to_owned());
    }
    if !uri.path().trim_end_matches('/').is_empty() || uri.query().is_some() {
        return Err(format!("{FORM}, without a path"));
    }
    if authority.host().is_empty() || authority.port_u16().is_none_or(|port| port == 0) {
        return Err(format!("{FORM}, with both a host and a port"));
    }
    match scheme {
        "https" => {}
        "http" if is_loopback(authority.host()) => {}
        "http" => {
            return Err(
                "must be https: whoever can read or alter this stream has the whole cluster (http is for loopback)".to_owned()
            );
        }
        _ => return Err(FORM.to_owned()),
    }
    Ok(format!("{scheme}://{authority}"))
}

fn is_loopback(host: &str) -> bool {
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
