//! The files that the configuration names: there, and with the right modes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{Area, Check, Findings, Host, blocking, codes};
use crate::base::units::count;
use crate::config::{Config, StoreConfig};

pub(super) struct Files;

/// What a file is to holdfast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nobody else may read it.
    Secret,
    /// Nobody else may write it: it says whom to believe.
    Trust,
    /// Refused by its own reader when its mode is wrong, which other checks ask.
    Guarded,
}

#[async_trait]
impl Check for Files {
    fn area(&self) -> Area {
        Area::Config
    }

    fn name(&self) -> String {
        "the files that the configuration names".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let files = named(&host.station.config, &host.file);
        let looked =
            blocking(move || files.into_iter().map(|(key, path, kind)| (key, look(&path, kind), path)).collect::<Vec<_>>());
        let mut good = 0;
        for (key, seen, path) in looked.await {
            match seen {
                Seen::Good => good += 1,
                Seen::Unreadable(cause) => {
                    findings.found(&codes::FILE_MISSING, path.display(), format!("{key} names it: {cause}"))
                }
                Seen::ReadableByOthers(mode) => findings.found_next(
                    &codes::SECRET_READABLE,
                    path.display(),
                    format!("mode {mode:04o} lets other users at the secret of {key}"),
                    format!("run chmod 600 {}", path.display()),
                ),
                Seen::WritableByOthers(mode) => findings.found_next(
                    &codes::TRUST_WRITABLE,
                    path.display(),
                    format!("mode {mode:04o} lets other users change whom {key} makes holdfast believe"),
                    format!("run chmod go-w {}", path.display()),
                ),
            }
        }
        if good > 0 {
            let text = format!("{} that the configuration names can be read, with modes that will do", count(good, "file"));
            findings.good("files", text);
        }
    }
}

enum Seen {
    Good,
    Unreadable(String),
    ReadableByOthers(u32),
    WritableByOthers(u32),
}

/// Every file of a configuration, with the key that names it.
fn named(config: &Config, file: &Path) -> Vec<(String, PathBuf, Kind)> {
    let etcd = config.etcd.as_ref();
    let files = [
        ("--config", Some(file.to_owned()), Kind::Trust),
        ("host.allowed_signers", Some(config.host.allowed_signers.clone()), Kind::Trust),
        ("host.signing_key", config.host.signing_key.clone(), Kind::Guarded),
        ("etcd.ca", etcd.and_then(|etcd| etcd.ca.clone()), Kind::Trust),
        ("etcd.cert", etcd.and_then(|etcd| etcd.cert.clone()), Kind::Trust),
        ("etcd.key", etcd.and_then(|etcd| etcd.key.clone()), Kind::Secret),
        ("backup.encryption_config", config.backup.encryption_config.clone(), Kind::Secret),
        ("snapshots.identity_file", config.snapshots.identity_file.clone(), Kind::Guarded),
        ("escrow.identity_file", config.escrow.identity_file.clone(), Kind::Guarded),
    ];
    let stores = [("snapshots", &config.snapshots.store), ("escrow", &config.escrow.store), ("ledger", &config.ledger.store)];
    let of_stores = stores.into_iter().flat_map(|(section, store)| of_store(section, store));
    let files = files.into_iter().map(|(key, path, kind)| (key.to_owned(), path, kind)).chain(of_stores);
    files.filter_map(|(key, path, kind)| Some((key, path?, kind))).collect()
}

fn of_store(section: &str, store: &StoreConfig) -> Vec<(String, Option<PathBuf>, Kind)> {
    let StoreConfig::S3(s3) = store else { return Vec::new() };
    let credential = s3.credentials.file(&|name| std::env::var_os(name));
    vec![
        (format!("{section}.store.s3.credentials"), credential, Kind::Guarded),
        (format!("{section}.store.s3.ca"), s3.ca.clone(), Kind::Trust),
    ]
}

fn look(path: &Path, kind: Kind) -> Seen {
    let opened = std::fs::File::open(path).and_then(|file| file.metadata());
    let metadata = match opened {
        Ok(metadata) if metadata.is_file() => metadata,
        Ok(_) => return Seen::Unreadable("it is no file".to_owned()),
        Err(error) => return Seen::Unreadable(error.to_string()),
    };
    let mode = metadata.permissions().mode() & 0o7777;
    match kind {
        Kind::Secret if mode & 0o077 != 0 => Seen::ReadableByOthers(mode),
        Kind::Trust if mode & 0o022 != 0 => Seen::WritableByOthers(mode),
        _ => Seen::Good,
    }
}
