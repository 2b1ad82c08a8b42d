//! Buckets, and whether two names are one of them.

use std::ops::Range;

use toml::Spanned;

use crate::config::value::is_loopback;

/// Every region's endpoint ends so, and a bucket's name is one in all regions.
const AWS: &str = "amazonaws.com";

/// A bucket of a store.
#[derive(Debug)]
pub(in crate::config) struct Bucket {
    pub section: String,
    /// Without scheme and port: one server may listen in several ways.
    host: String,
    name: String,
    pub span: Range<usize>,
}

impl Bucket {
    /// The bucket `name` at `endpoint`; at AWS without one.
    pub fn new(section: String, endpoint: Option<&str>, name: &Spanned<String>) -> Self {
        let host = endpoint.map_or(AWS.to_owned(), host);
        Self { section, host, name: name.get_ref().clone(), span: name.span() }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.host == other.host && self.name == other.name
    }
}

fn host(endpoint: &str) -> String {
    let authority = endpoint.split_once("://").map_or(endpoint, |(_, authority)| authority);
    let end = authority.rfind(']').map_or_else(|| authority.find(':').unwrap_or(authority.len()), |bracket| bracket + 1);
    let host = authority[..end].trim_end_matches('.').to_ascii_lowercase();
    match host {
        host if host == AWS || host.ends_with(".amazonaws.com") => AWS.to_owned(),
        host if is_loopback(&host) => "localhost".to_owned(),
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(endpoint: Option<&str>, name: &str) -> Bucket {
        Bucket::new("x".to_owned(), endpoint, &Spanned::new(0..1, name.to_owned()))
    }

    #[test]
    fn a_bucket_is_one_under_every_name_of_its_server() {
        for (a, b, same) in [
            (Some("https://s3.example"), Some("https://S3.example:9000"), true),
            (Some("https://s3.example"), Some("https://s3.example.:443"), true),
            (Some("http://127.0.0.1:7070"), Some("http://localhost:7071"), true),
            (Some("http://[::1]:7070"), Some("http://127.0.0.2"), true),
            (None, Some("https://s3.eu-central-1.amazonaws.com"), true),
            (None, None, true),
            (Some("https://s3.example"), Some("https://s4.example"), false),
            (Some("https://s3.example"), None, false),
            (Some("https://[2001:db8::1]:1"), Some("https://[2001:db8::2]:1"), false),
        ] {
            assert_eq!(bucket(a, "one").is_same(&bucket(b, "one")), same, "{a:?} {b:?}");
            assert!(!bucket(a, "one").is_same(&bucket(b, "two")));
        }
    }
}
