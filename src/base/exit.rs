//! Exit codes, the same for every subcommand.

/// What the process tells its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// It ran and the answer is good.
    Good = 0,
    /// It ran and the answer is bad: an unrestorable snapshot, a failed rehearsal.
    Bad = 1,
    /// It could not run, or it cannot tell.
    CouldNotRun = 2,
    /// Usage or configuration.
    Usage = 3,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl Exit {
    /// The meaning of a code that another process of this program ended with.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        [Self::Good, Self::Bad, Self::CouldNotRun, Self::Usage, Self::Interrupted].into_iter().find(|exit| *exit as u8 == code)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
