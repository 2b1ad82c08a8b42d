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

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
