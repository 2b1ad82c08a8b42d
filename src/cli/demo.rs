//! `holdfast demo`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, SystemClock};
use crate::base::codes;
use crate::base::entropy::{Entropy, OsEntropy};
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::demo::{self, Demo};
use crate::sandbox::Places;

/// Where everything lies; absent or empty.
const DIRECTORY: &str = "HOLDFAST_DEMO_DIR";
/// `1` keeps the cluster's data, stores, keys and configurations, too.
const KEEP: &str = "HOLDFAST_DEMO_KEEP";

/// Tells the story, in a directory that it prints.
///
/// # Errors
/// Those of [`demo::run`]; no process is left.
pub async fn run(json: bool, out: &mut dyn Write, cancel: CancellationToken) -> Result<Exit, Failure> {
    let clock = SystemClock::new();
    let entropy = Arc::new(OsEntropy);
    let folder = std::env::var_os(DIRECTORY).filter(|name| !name.is_empty()).map_or_else(
        || std::env::temp_dir().join(format!("holdfast-demo-{}-{}", crate::base::ids::compact(clock.now()), entropy.hex(8))),
        PathBuf::from,
    );
    let folder = std::path::absolute(&folder).map_err(|e| Failure::because(&codes::DEMO_DIRECTORY, folder.display(), &e))?;
    let program = std::env::current_exe().map_err(|e| Failure::because(&codes::DEMO_UNEXPECTED, "holdfast", &e))?;
    let keep = std::env::var_os(KEEP).is_some_and(|value| value == "1");
    let places = Places::usual(None, |variable| std::env::var_os(variable));
    demo::run(&Demo { folder, keep, json, program, places, clock, entropy }, out, cancel).await
}
