//! Progress of work that may take long: told by whoever does the work, read by
//! whoever shows it.
//!
//! Nothing here draws, waits or reads a clock; telling costs one addition.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whoever wants to know of work in progress.
pub trait Progress: fmt::Debug + Send + Sync {
    /// A stage begins, of `total` bytes where that is known. It ends when it is dropped.
    fn stage(&self, name: &str, total: Option<u64>) -> Stage;
}

/// Nobody watches: in a daemon, behind a pipe, and in most tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn stage(&self, name: &str, total: Option<u64>) -> Stage {
        Stage::begin(name, total).0
    }
}

/// What the worker holds.
#[derive(Debug)]
pub struct Stage(Arc<Meter>);

/// What the watcher reads.
#[derive(Debug)]
pub struct Meter {
    name: String,
    done: AtomicU64,
    /// Of no byte: not known.
    total: AtomicU64,
    ended: AtomicBool,
}

impl Stage {
    /// A stage, and the meter that shows it.
    #[must_use]
    pub fn begin(name: &str, total: Option<u64>) -> (Self, Arc<Meter>) {
        let meter = Arc::new(Meter {
            name: name.to_owned(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(total.unwrap_or(0)),
            ended: AtomicBool::new(false),
        });
        (Self(Arc::clone(&meter)), meter)
    }

    /// So many bytes more are done.
    pub fn advance(&self, bytes: u64) {
        self.0.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The total turned out to be this.
    pub fn expect(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

impl Meter {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn total(&self) -> Option<u64> {
        Some(self.total.load(Ordering::Relaxed)).filter(|total| *total > 0)
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_shows_what_its_stage_tells_until_it_ends() {
        let (stage, meter) = Stage::begin("streaming", None);
        assert_eq!((meter.name(), meter.done(), meter.total(), meter.has_ended()), ("streaming", 0, None, false));
        stage.advance(3);
        stage.expect(7);
        stage.advance(4);
        assert_eq!((meter.done(), meter.total(), meter.has_ended()), (7, Some(7), false));
        drop(stage);
        assert!(meter.has_ended());
    }
}
