//! Runs the demo once for all tests of this folder and keeps what it left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// What one run left behind.
pub struct Show {
    pub folder: PathBuf,
    pub code: Option<i32>,
    pub output: String,
    /// Argument lists of every process that ran meanwhile, as far as a look
    /// every few milliseconds sees them.
    pub arguments: BTreeSet<Vec<u8>>,
    /// Processes that had the demo's folder in their arguments and still ran
    /// when the demo had ended.
    pub left: Vec<String>,
    _keep: tempfile::TempDir,
}

/// The one run. Its folder goes away with the test process.
pub fn show() -> &'static Show {
    static SHOW: OnceLock<Show> = OnceLock::new();
    SHOW.get_or_init(run)
}

#[allow(clippy::disallowed_methods)] // the program under test
fn run() -> Show {
    let keep = tempfile::tempdir().unwrap();
    let folder = keep.path().join("demo");
    let watch = Watch::start();
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["demo", "-v"])
        .env("HOLDFAST_DEMO_DIR", &folder)
        .env("HOLDFAST_DEMO_KEEP", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let arguments = watch.stop();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let left = processes_naming(&folder);
    Show { folder, code: output.status.code(), output: text, arguments, left, _keep: keep }
}

/// Looks at the argument lists of all processes until it is stopped.
struct Watch {
    stop: mpsc::Sender<()>,
    seen: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    fn start() -> Self {
        let (stop, stopped) = mpsc::channel();
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let found = seen.clone();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
                found.lock().unwrap().extend(command_lines().into_iter().map(|(_, line)| line));
            }
        });
        Self { stop, seen, thread }
    }

    fn stop(self) -> BTreeSet<Vec<u8>> {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn command_lines() -> Vec<(String, Vec<u8>)> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid.bytes().all(|b| b.is_ascii_digit()) {
            // A process may end between the two looks.
            if let Ok(line) = std::fs::read(entry.path().join("cmdline")) {
                lines.push((pid, line));
            }
        }
    }
    lines
}

pub fn processes_naming(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let lines = command_lines().into_iter().map(|(pid, line)| (pid, String::from_utf8_lossy(&line).into_owned()));
    lines.filter(|(_, line)| line.contains(&name)).map(|(pid, line)| format!("{pid}: {line}")).collect()
}

/// Every file below `folder`.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// The folders of both snapshots in the snapshot store, older first.
pub fn snapshots(show: &Show) -> Vec<PathBuf> {
    let store = show.folder.join("stores/snapshots");
    let mut folders: Vec<_> =
        files(&store).iter().filter(|f| f.ends_with("manifest.json")).map(|f| f.parent().unwrap().to_owned()).collect();
    folders.sort_by_key(|folder| folder.file_name().unwrap().to_owned());
    folders
}
