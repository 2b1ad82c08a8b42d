//! The API server's rules for a KMS provider.

use super::KmsProvider;

/// Each field that is wrong, with the reason; `earlier` are the names of the KMS providers above.
pub(super) fn mistakes(kms: &KmsProvider, earlier: &[String]) -> Vec<(&'static str, String)> {
    let mut mistakes = Vec::new();
    let is_v1 = kms.api_version == "v1";
    if !is_v1 && kms.api_version != "v2" {
        mistakes.push(("apiVersion", "unsupported apiVersion for KMS provider, only v1 and v2 are supported".to_owned()));
    }
    if !is_v1 && kms.name.contains(':') {
        mistakes.push(("name", format!("invalid KMS provider name {}, must not contain ':'", kms.name)));
    }
    // Names of v1 must be unique, too, but only with automatic reload, which the file does not tell.
    if !is_v1 && earlier.contains(&kms.name) {
        mistakes.push(("name", format!("duplicate KMS provider name {}, names must be unique", kms.name)));
    }
    match kms.timeout.as_deref().map(nanoseconds) {
        None => {}
        Some(None) => mistakes.push(("timeout", "invalid duration; write it like 3s".to_owned())),
        Some(Some(length)) if length <= 0 => mistakes.push(("timeout", "timeout should be a positive value".to_owned())),
        Some(Some(_)) => {}
    }
    mistakes.extend(endpoint(&kms.endpoint).map(|why| ("endpoint", why)));
    match kms.cachesize {
        Some(0) if is_v1 => {
            mistakes.push(("cachesize", "cachesize should be a positive value, or negative to disable".to_owned()));
        }
        Some(_) if !is_v1 => mistakes.push(("cachesize", "cachesize is not supported in v2".to_owned())),
        _ => {}
    }
    mistakes
}

/// Why this is no address of a Unix socket, as far as Go's URL parser goes.
fn endpoint(endpoint: &str) -> Option<String> {
    let invalid = |why: &str| Some(format!("invalid endpoint for kms provider, error: {why}"));
    if endpoint.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return invalid("invalid control character in URL");
    }
    let (url, fragment) = endpoint.split_once('#').unwrap_or((endpoint, ""));
    let Some(scheme) = scheme(url) else { return invalid("missing protocol scheme") };
    if !scheme.eq_ignore_ascii_case("unix") {
        return Some(format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported"));
    }
    let rest = url.get(scheme.len() + 1..).unwrap_or_default().split('?').next().unwrap_or_default();
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None if rest.starts_with('/') => ("", rest),
        // Go calls this form opaque and looks no further.
        None => ("", ""),
    };
    if !escapes_are_whole(path) || !escapes_are_whole(fragment) {
        return invalid("invalid URL escape");
    }
    host_mistake(host).and_then(invalid)
}

fn host_mistake(host: &str) -> Option<&'static str> {
    if host.contains([' ', '\\', '^', '`', '{', '|', '}', '%']) {
        return Some("invalid character in host name");
    }
    let (is_closed, port) = match host.strip_prefix('[') {
        Some(rest) => (rest.contains(']'), rest.rsplit_once(']').map_or("", |(_, port)| port)),
        None => (true, host.rfind(':').and_then(|at| host.get(at..)).unwrap_or_default()),
    };
    if !is_closed {
        return Some("missing ']' in host");
    }
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if is_port { None } else { Some("invalid port after host") }
}

/// What stands before the first colon; empty when the text has no scheme, none when it begins with a colon.
fn scheme(url: &str) -> Option<&str> {
    for (at, byte) in url.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return url.get(..at),
            _ => break,
        }
    }
    Some("")
}

fn escapes_are_whole(text: &str) -> bool {
    let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' && !(is_hex(bytes.next()) && is_hex(bytes.next())) {
            return false;
        }
    }
    true
}

/// A duration as Go writes it, such as `1m30s`, `.5s`, `-2h`, `0`; none when it is none or does not fit 64 bits.
fn nanoseconds(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (part, after) = one_part(rest)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    let total = i64::try_from(total).ok()?;
    Some(if is_negative { -total } else { total })
}

/// Number and unit at the start of a duration, in nanoseconds, and what follows.
fn one_part(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at_checked(digits(text))?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at_checked(digits(rest))?,
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_length = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(unit_length)?;
    let unit: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut part = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        part = part.checked_add(u64::from(digit - b'0').checked_mul(place)?)?;
    }
    Some((part, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("3s", Some(3_000_000_000)),
            ("1m30s", Some(90_000_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("-1.5h", Some(-5_400_000_000_000)),
            ("+2ms", Some(2_000_000)),
            ("5µs", Some(5_000)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("", None),
            ("3", None),
            ("s", None),
            (".s", None),
            ("3 s", None),
            ("3d", None),
            ("-", None),
            ("9999999999h", None),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text:?}");
        }
    }

    #[test]
    fn endpoints_are_unix_sockets() {
        for good in ["unix:///run/kms.sock", "unix:///@abstract", "UNIX:///x", "unix:relative", "unix://a:1/x", "unix:///x?%zz"] {
            assert_eq!(endpoint(good), None, "{good}");
        }
        for bad in [
            "/run/kms.sock",
            "http://x",
            ":x",
            "unix:///a\u{1}",
            "unix:///%zz",
            "unix://a b/c",
            "1unix:///x",
            "unix://[::1/x",
            "unix://a:b/x",
        ] {
            assert!(endpoint(bad).is_some(), "{bad:?}");
        }
    }
}
