//! `holdfast inspect FILE`: reads a snapshot natively.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use zeroize::Zeroizing;

use super::inspect_page;
use super::render::unprinted;
use crate::base::codes::INSPECT_CONFIG;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::k8s::encryption_config::{EncryptionConfig, NamedConfig};
use crate::scan::Mapped;

/// A file with thousands of keys is a fraction of this; more is no configuration.
const LARGEST_CONFIG: u64 = 4 << 20;

/// The arguments of `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// A snapshot as `etcdctl snapshot save` writes it, or a raw db file.
    pub file: PathBuf,

    /// An EncryptionConfiguration whose keys are tried; repeat it for each host.
    #[arg(long = "encryption-config", value_name = "FILE")]
    pub encryption_configs: Vec<PathBuf>,
}

/// Prints what the snapshot says. A damaged snapshot is an answer, not a failure.
///
/// # Errors
/// `inspect.encryption-config` for a configuration that the API server would
/// refuse, `inspect.unreadable` for a path that is no readable file.
pub fn run(arguments: &Inspect, json: bool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let configs: Vec<NamedConfig> =
        arguments.encryption_configs.iter().map(|path| read_config(path)).collect::<Result<_, _>>()?;
    let mapped = Mapped::open(&arguments.file)?;
    let inspection = mapped.inspect_watched(&configs, super::progress::watcher().as_ref());
    let printed = if json {
        serde_json::to_string_pretty(&inspection).map_err(io::Error::from).and_then(|json| writeln!(out, "{json}"))
    } else {
        let unreadable = inspect_page::first_unreadable(&mapped, &configs, &inspection);
        inspect_page::print(out, &arguments.file.display().to_string(), &inspection, configs.len(), &unreadable)
    };
    printed.map_err(unprinted)?;
    Ok(inspection.exit())
}

fn read_config(path: &Path) -> Result<NamedConfig, Failure> {
    let name = path.display().to_string();
    let unusable = |cause: String| Failure::new(&INSPECT_CONFIG, &name, cause);
    let unread = |error: io::Error| unusable(error.to_string()).next("check the path given by --encryption-config");
    let yaml = read_bounded(path).map_err(unread)?;
    let config = EncryptionConfig::parse(&yaml).map_err(|mistakes| unusable(mistakes.to_string()))?;
    Ok(NamedConfig { name, config })
}

/// The bytes hold keys, so they are wiped. A pipe will do: keys often come from one.
fn read_bounded(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    // With room for all of it from the start nothing is copied and left behind.
    let size = file.metadata()?.len().clamp(64 << 10, LARGEST_CONFIG);
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1));
    file.take(LARGEST_CONFIG + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_CONFIG {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too large to be an EncryptionConfiguration"));
    }
    Ok(bytes)
}
