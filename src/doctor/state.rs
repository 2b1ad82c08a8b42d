//! The state directory: there, writable, with room, and who holds its locks.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use async_trait::async_trait;

use super::space::{self, Room};
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::base::units::human_bytes;
use crate::station::lock;

/// Records and reports are small, and the catalog grows by a few KiB a snapshot:
/// below this a busy year no longer fits.
const ROOM_WANTED: u64 = 256 << 20;
/// Below this the next record may not fit.
const ROOM_NEEDED: u64 = 16 << 20;

/// Held for moments by whoever reads or writes a record or opens the catalog, this
/// process too; one that does not give them up is told by its own code.
const MOMENTARY: [&str; 2] = ["outbox.lock", "catalog.lock"];

pub(super) struct StateDirectory;

#[async_trait]
impl Check for StateDirectory {
    fn area(&self) -> Area {
        Area::Config
    }

    fn name(&self) -> String {
        "the state directory".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let path = host.station.state_dir().to_owned();
        let object = path.display().to_string();
        let State { mode, written, room, holders } = match blocking(move || look(&path)).await {
            Ok(state) => state,
            Err(error) => return findings.found(&codes::STATE_MISSING, object, format!("is not there yet: {error}")),
        };
        if let Err(error) = &written {
            findings.found(&codes::STATE_UNWRITABLE, &object, format!("nothing can be written in it: {error}"));
        }
        if mode & 0o022 != 0 {
            let next = format!("run chmod go-w {object}");
            findings.found_next(&codes::STATE_OPEN, &object, format!("mode {mode:04o} lets other users write in it"), next);
        }
        match room {
            Ok(free) => match Room::of(free, ROOM_NEEDED, ROOM_WANTED) {
                Room::Enough if written.is_ok() => {
                    findings.good(&object, format!("can be written, {} are free", human_bytes(free)))
                }
                room => space::tell(findings, &object, free, room),
            },
            Err(error) => findings.found(&codes::NO_ANSWER, &object, format!("does not tell its free space: {error}")),
        }
        let schedule = &host.station.config.schedule;
        let wants_daemon = schedule.snapshot.is_some() || schedule.rehearsal.is_some();
        if wants_daemon && !holders.iter().any(|(held, ..)| held == lock::DAEMON) {
            findings.found(&codes::NO_DAEMON, "[schedule]", "is set, and no daemon works by it on this state directory");
        }
        for (lock, pid, name) in holders {
            findings.found(&codes::STATE_HELD, format!("{object}/{lock}"), format!("is held by process {pid} ({name})"));
        }
    }
}

struct State {
    mode: u32,
    written: io::Result<()>,
    room: io::Result<u64>,
    /// Lock, process and its program.
    holders: Vec<(String, u32, String)>,
}

fn look(path: &Path) -> io::Result<State> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is no directory"));
    }
    // It goes when it is dropped; a kill in between leaves a few bytes under a name that says so.
    let written = tempfile::Builder::new().prefix(".holdfast-doctor-").tempfile_in(path).and_then(|mut file| {
        io::Write::write_all(&mut file, b"holdfast doctor\n")?;
        file.as_file().sync_all()
    });
    Ok(State {
        mode: metadata.permissions().mode() & 0o7777,
        written,
        room: space::free(path),
        holders: holders(path, &std::fs::read_to_string("/proc/locks").unwrap_or_default()),
    })
}

/// Who holds a lock on a file in `directory`. The kernel's own list is read,
/// because taking a lock to look would keep somebody else from it.
fn holders(directory: &Path, locks: &str) -> Vec<(String, u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(metadata) = entry.metadata() else { continue };
        if !name.ends_with(".lock") || MOMENTARY.contains(&name.as_str()) {
            continue;
        }
        for pid in locks.lines().filter_map(holder).filter(|(_, inode)| *inode == metadata.ino()).map(|(pid, _)| pid) {
            let program =
                std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_else(|_| "not seen from here".to_owned());
            found.push((name.clone(), pid, program.trim_end().to_owned()));
        }
    }
    found.sort();
    found
}

/// `1: FLOCK  ADVISORY  WRITE 4711 08:02:131123 0 EOF` gives 4711 and 131123. A
/// line with `->` is somebody who waits. Device numbers are not compared: some
/// file systems show others here than in `stat`.
fn holder(line: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[_, kind, _, _, pid, place, ..] = fields.as_slice() else { return None };
    if kind != "FLOCK" {
        return None;
    }
    Some((pid.parse().ok()?, place.rsplit(':').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_name_holders_and_not_those_who_wait() {
        for (line, expected) in [
            ("1: FLOCK  ADVISORY  WRITE 4711 08:02:131123 0 EOF", Some((4711, 131_123))),
            ("1: -> FLOCK  ADVISORY  WRITE 4712 08:02:131123 0 EOF", None),
            ("2: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF", None),
            ("3: OFDLCK ADVISORY  WRITE -1 08:01:8713209 128 191", None),
            ("", None),
        ] {
            assert_eq!(holder(line), expected, "{line}");
        }
    }

    #[test]
    fn a_lock_that_is_held_names_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("daemon.lock")).unwrap();
        let locks = || std::fs::read_to_string("/proc/locks").unwrap();
        assert_eq!(holders(folder.path(), &locks()), []);
        let momentary = MOMENTARY.map(|name| std::fs::File::create(folder.path().join(name)).unwrap());
        momentary.iter().for_each(|file| file.lock().unwrap());
        assert_eq!(holders(folder.path(), &locks()), []);
        file.lock().unwrap();
        let held = holders(folder.path(), &locks());
        assert_eq!(held.len(), 1, "{held:?}");
        assert_eq!((held[0].0.as_str(), held[0].1), ("daemon.lock", std::process::id()));
    }
}
