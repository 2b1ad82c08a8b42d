//! `[….store.s3]`: a bucket, how to reach it, and whose credential opens it.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;

use super::check::{bare, timeout};
use super::credential::CredentialSource;
use super::section::Section;
use super::separation::{Bucket, Separation};
use super::{defaults, value};

/// S3 takes no smaller part but the last one, and four parts lie in memory.
const PART_SIZES: RangeInclusive<u64> = (5 << 20)..=(256 << 20);

/// A bucket of an S3 server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Config {
    /// `https://host`, or `http://` on loopback, without a trailing slash. Without one: AWS.
    pub endpoint: Option<String>,
    pub region: String,
    pub bucket: String,
    /// `https://host/bucket/key` instead of `https://bucket.host/key`.
    pub path_style: bool,
    /// Certificates of authorities, as PEM. They replace those of the system.
    pub ca: Option<PathBuf>,
    pub checksums: Checksums,
    pub credentials: CredentialSource,
    /// The length of a part of a large object.
    pub part_size: u64,
    /// For a connection.
    pub connect_timeout: Duration,
    /// Without an answer, or without a byte of an object that is read.
    pub stall_timeout: Duration,
    /// For one try of one request that carries data, a part's bytes included.
    pub request_timeout: Duration,
}

/// When checksums beside the signed ones go with requests and are asked of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// Only where S3 demands one: servers that are not AWS have refused more.
    WhenRequired,
    /// Wherever S3 knows one.
    WhenSupported,
}

/// Checks one `s3` table.
pub(super) fn check(mut section: Section<'_, '_>, separation: &mut Separation) -> Option<S3Config> {
    let endpoint = section.optional("endpoint", value::s3_endpoint);
    let custom = section.has("endpoint");
    let region = section.optional("region", value::region);
    if section.is_present() && !custom && !section.has("region") {
        section.missing("region", ": without an endpoint the bucket lies at AWS, in a region");
    }
    let bucket = section.required("bucket", value::bucket);
    let path_style = section.or("path_style", custom, value::boolean);
    let ca = section.optional("ca", value::path);
    let usual = if custom { Checksums::WhenRequired } else { Checksums::WhenSupported };
    let checksums = section.or("checksums", usual, value::checksums);
    let part_size = section.or("part_size", defaults::PART_SIZE, |v| value::bytes(v, PART_SIZES));
    let connect_timeout = section.or("connect_timeout", defaults::CONNECT_TIMEOUT, timeout);
    let stall_timeout = section.or("stall_timeout", defaults::STALL_TIMEOUT, timeout);
    let request_timeout = section.or("request_timeout", defaults::REQUEST_TIMEOUT, timeout);
    let name = section.name().to_owned();
    let credentials = credentials(section.required_section("credentials"), separation);
    section.finish();

    if let Some(bucket) = &bucket {
        let host = endpoint.as_ref().map(|endpoint| endpoint.get_ref().as_str());
        separation.bucket(Bucket::new(name.clone(), host, bucket));
    }
    if let Some(source) = &credentials {
        separation.credential(name, source);
    }
    Some(S3Config {
        endpoint: bare(endpoint),
        region: bare(region).unwrap_or_else(|| defaults::REGION.to_owned()),
        bucket: bucket?.into_inner(),
        path_style,
        ca: bare(ca),
        checksums,
        credentials: credentials?.into_inner(),
        part_size,
        connect_timeout,
        stall_timeout,
        request_timeout,
    })
}

/// Exactly one place of a credential.
fn credentials(mut section: Section<'_, '_>, separation: &mut Separation) -> Option<Spanned<CredentialSource>> {
    let file = section.optional("file", value::path);
    let profile = section.optional("profile", value::profile);
    let environment = section.optional("environment", value::environment);
    let systemd = section.optional("systemd", value::credential_name);
    let given = ["file", "environment", "systemd"].into_iter().filter(|key| section.has(key)).count();
    if section.is_present() && given == 0 {
        section.missing("file", ": one of file, environment and systemd says where the credential is");
    } else if given > 1 {
        section.wrong_itself("must have one of file, environment and systemd, and no other beside it");
    } else if section.has("profile") && section.has("environment") {
        section.wrong_itself("must not have a profile: variables hold one credential");
    }
    separation.secret(&format!("{}.file", section.name()), file.as_ref());
    section.finish();
    let profile = bare(profile).unwrap_or_else(|| defaults::PROFILE.to_owned());
    let spanned = |span, source| Some(Spanned::new(span, source));
    match (file, environment, systemd) {
        (Some(path), None, None) => spanned(path.span(), CredentialSource::File { path: path.into_inner(), profile }),
        (None, Some(prefix), None) => spanned(prefix.span(), CredentialSource::Environment { prefix: prefix.into_inner() }),
        (None, None, Some(name)) => spanned(name.span(), CredentialSource::Systemd { name: name.into_inner(), profile }),
        _ => None,
    }
}
