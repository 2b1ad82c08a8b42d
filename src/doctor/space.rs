//! Room on file systems: that of the scratch directory, and the words for all.

use std::io;
use std::path::Path;

use async_trait::async_trait;

use super::roles::rehearses;
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::base::units::human_bytes;

/// A restored member has the image twice: etcdutl writes it, and etcd grows it.
const IMAGES_IN_SCRATCH: u64 = 2;
/// Where no snapshot is known yet: etcd's write-ahead log alone takes 64 MiB.
const SMALLEST: u64 = 256 << 20;

/// How much room there is, against what is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    Low,
    Full,
}

impl Room {
    pub fn of(free: u64, needed: u64, wanted: u64) -> Self {
        match free {
            free if free < needed => Self::Full,
            free if free < wanted => Self::Low,
            _ => Self::Enough,
        }
    }
}

/// Bytes that a user without privileges may still write below `path`.
pub(super) fn free(path: &Path) -> io::Result<u64> {
    let told = rustix::fs::statvfs(path)?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

/// Says that there is little room, or none.
pub(super) fn tell(findings: &Findings, object: &str, free: u64, room: Room) {
    let text = format!("only {} are free", human_bytes(free));
    match room {
        Room::Enough => {}
        Room::Low => findings.found(&codes::SPACE_LOW, object, text),
        Room::Full => findings.found(&codes::SPACE_FULL, object, text),
    }
}

/// Where a rehearsal restores.
pub(super) struct Scratch;

#[async_trait]
impl Check for Scratch {
    fn area(&self) -> Area {
        Area::Tools
    }

    fn name(&self) -> String {
        "the scratch directory".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let config = &host.station.config;
        let path = config.rehearsal.scratch_dir.clone();
        let object = path.display().to_string();
        if !rehearses(config) {
            return findings.not_applicable(object, "nothing is rehearsed here");
        }
        let image = host.recorded().await.newest_image().unwrap_or(0);
        let needed = image.saturating_mul(IMAGES_IN_SCRATCH).max(SMALLEST);
        // A run makes the directory: before the first one its parent has the room.
        let room = move || free(path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")));
        match blocking(room).await {
            Ok(free) => match Room::of(free, needed, needed.saturating_mul(2)) {
                Room::Enough => findings
                    .good(object, format!("{} are free, and a rehearsal needs {}", human_bytes(free), human_bytes(needed))),
                room => tell(findings, &object, free, room),
            },
            Err(error) => findings.found(&codes::NO_ANSWER, object, format!("does not tell its free space: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_judged_against_what_is_needed() {
        for (free, expected) in [(0, Room::Full), (9, Room::Full), (10, Room::Low), (19, Room::Low), (20, Room::Enough)] {
            assert_eq!(Room::of(free, 10, 20), expected, "{free}");
        }
    }
}
