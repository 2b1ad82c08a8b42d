//! Which process a number means: a pid is reused, a pid with its start time in
//! one boot is not.

use std::fmt;
use std::fs;
use std::str::FromStr;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process of this boot, told apart from later ones with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    pub pid: i32,
    /// Clock ticks between boot and the process's start.
    pub start: u64,
}

impl ProcessIdentity {
    /// The process that has this pid now; none if there is none.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, start: read_start(pid)? })
    }

    /// This very process of holdfast.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Does it still run? A zombie does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Kills it, if it is still this process. True when a signal was sent.
    #[must_use]
    pub fn kill(self) -> bool {
        self.signal(Signal::KILL)
    }

    /// Asks it to end, if it is still this process. True when a signal was sent.
    #[must_use]
    pub fn terminate(self) -> bool {
        self.signal(Signal::TERM)
    }

    /// Bytes of memory that it and no file accounts for; zero when it is gone.
    #[must_use]
    pub fn memory(self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let kibibytes =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.filter(|_| self.is_alive()).unwrap_or(0).saturating_mul(1024)
    }

    fn signal(self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        // The descriptor is opened before the identity is checked: from then on
        // the pid cannot come to mean another process.
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        self.is_alive() && pidfd_send_signal(descriptor, signal).is_ok()
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.start)
    }
}

impl FromStr for ProcessIdentity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, start) = text.split_once('-').ok_or(())?;
        Ok(Self { pid: pid.parse().map_err(drop)?, start: start.parse().map_err(drop)? })
    }
}

/// The id of this boot; empty where the kernel tells none, which compares
/// unequal to every recorded one.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Field 22 of `/proc/PID/stat`; none when the process is gone or a zombie.
fn read_start(pid: i32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold anything, so fields are counted after its last parenthesis.
    let end = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself_and_nobody_with_another_start() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.is_alive());
        assert!(!ProcessIdentity { start: own.start + 1, ..own }.is_alive());
        assert!(!ProcessIdentity { start: own.start + 1, ..own }.kill(), "another process's pid is never signalled");
    }

    #[test]
    fn an_identity_survives_its_text() {
        let own = ProcessIdentity::own().unwrap();
        assert_eq!(own.to_string().parse(), Ok(own));
        for text in ["", "-", "12", "a-b", "12-", "-12"] {
            assert!(text.parse::<ProcessIdentity>().is_err(), "{text:?}");
        }
    }
}
