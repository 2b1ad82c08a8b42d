//! Time as an argument: wall time for display, monotonic time for durations.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Where time comes from.
///
/// Wall time can jump; durations are always differences of [`Clock::uptime`].
pub trait Clock: Debug + Send + Sync {
    /// Wall time in UTC, for display and for names.
    fn now(&self) -> Timestamp;
    /// Monotonic time since an arbitrary start, for durations.
    fn uptime(&self) -> Duration;
}

/// The operating system's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    #[must_use]
    #[allow(clippy::disallowed_methods)] // the one place that asks the system
    pub fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now() })
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that moves only when a test says so.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<(Timestamp, Duration)>,
}

impl ManualClock {
    #[must_use]
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new((now, Duration::ZERO)) })
    }

    /// Moves wall and monotonic time forward together.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.0 += by;
        state.1 += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    fn uptime(&self) -> Duration {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1
    }
}

/// Wall time as it appears in records: seconds, UTC, `2026-12-01T13:00:00Z`.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
