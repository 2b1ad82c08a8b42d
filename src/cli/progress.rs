//! The line that shows work in progress, on a terminal only: how much is done,
//! how fast, and how long it will take.
//!
//! Owns: the one moving line of the process. Lines that are printed while it
//! stands go above it: whoever prints does so aside of it.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::base::progress::{Meter, Progress, Stage, Unwatched};
use crate::base::units::{human_bytes, human_duration};
use crate::telemetry::terminal;

/// What ends sooner needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// Fluent for the eye, and no load.
const INTERVAL: Duration = Duration::from_millis(100);
/// What takes longer than this by its last rate has stopped.
const FARTHEST: Duration = Duration::from_secs(100 * 3_600);

static SCREEN: OnceLock<Arc<Screen>> = OnceLock::new();

/// Makes this process's screen, if its standard error is one.
pub fn start(json: bool) {
    if json || !terminal::can_redraw(&io::stderr()) {
        return;
    }
    let screen = SCREEN.get_or_init(Arc::default);
    terminal::draws(|write| screen.aside(write));
}

/// Where this process's work is told to.
#[must_use]
pub fn watcher() -> Arc<dyn Progress> {
    match SCREEN.get() {
        Some(screen) => Arc::clone(screen) as Arc<dyn Progress>,
        None => Arc::new(Unwatched),
    }
}

/// Takes off the screen what has ended.
pub fn clear() {
    if let Some(screen) = SCREEN.get() {
        screen.lock().sweep();
    }
}

/// What is known of running stages, and the line that shows one.
#[derive(Debug, Default)]
struct Screen {
    state: Mutex<State>,
    tick: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The innermost last. Each measures with a bar that is never drawn.
    stages: Vec<(Arc<Meter>, ProgressBar)>,
    shown: Option<(Arc<Meter>, ProgressBar)>,
    ticks: bool,
}

impl Progress for Screen {
    fn stage(&self, name: &str, total: Option<u64>) -> Stage {
        let (stage, meter) = Stage::begin(name, total);
        let mut state = self.lock();
        state.stages.push((meter, ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden())));
        let runs = std::mem::replace(&mut state.ticks, true);
        if let (false, Some(screen)) = (runs, SCREEN.get()) {
            // It ends with the last stage.
            std::thread::spawn(|| screen.tick());
        }
        stage
    }
}

impl Screen {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) {
        let mut state = self.lock();
        loop {
            state.sweep();
            if state.stages.is_empty() {
                state.ticks = false;
                return;
            }
            state.draw();
            state = self.tick.wait_timeout(state, INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lines that are printed go where the bar was, and the bar below them.
    fn aside(&self, write: &mut dyn FnMut()) {
        let mut state = self.lock();
        state.sweep();
        match &state.shown {
            Some((_, bar)) => bar.suspend(write),
            None => write(),
        }
    }
}

impl State {
    fn sweep(&mut self) {
        self.stages.retain(|(meter, _)| !meter.has_ended());
        if let Some((_, bar)) = self.shown.take_if(|(meter, _)| meter.has_ended()) {
            bar.finish_and_clear();
        }
    }

    fn draw(&mut self) {
        for (meter, measure) in &self.stages {
            measure.set_length(meter.total().unwrap_or(0));
            measure.set_position(meter.done());
        }
        let due = self.stages.iter().rev().find(|(_, measure)| measure.elapsed() >= PATIENCE);
        let Some((meter, measure)) = due else { return };
        if let Some((_, bar)) = self.shown.take_if(|(shown, _)| !Arc::ptr_eq(shown, meter)) {
            bar.finish_and_clear();
        }
        let is_new = self.shown.is_none();
        let (_, bar) = self.shown.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            (Arc::clone(meter), bar.with_prefix(meter.name().to_owned()))
        });
        let rate = Rate { per_second: measure.per_sec(), left: measure.eta(), elapsed: measure.elapsed() };
        bar.set_style(style(meter.total().is_some()));
        bar.set_length(meter.total().unwrap_or(0));
        bar.set_position(meter.done());
        bar.set_message(text(meter.done(), meter.total(), &rate));
        // Drawn for the first time when all of it is known.
        if is_new {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.tick();
    }
}

/// How fast a stage was of late.
struct Rate {
    per_second: f64,
    left: Duration,
    elapsed: Duration,
}

fn style(has_total: bool) -> ProgressStyle {
    let template = if has_total { "{prefix}  [{wide_bar}]  {msg}" } else { "{spinner} {prefix}  {wide_msg}" };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Plain characters: what they mean is seen in any font.
    style.progress_chars("=> ").tick_chars("|/-\\ ")
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate is no negative number
fn text(done: u64, total: Option<u64>, rate: &Rate) -> String {
    let per_second = format!("{}/s", human_bytes(rate.per_second.max(0.0) as u64));
    let since = whole_seconds(rate.elapsed);
    match (done, total) {
        (_, Some(total)) => {
            let left = match rate.left {
                // Nothing came of late: nobody knows.
                left if left > FARTHEST || rate.per_second < 1.0 => "stalled".to_owned(),
                left => format!("{} left", whole_seconds(left)),
            };
            format!("{} of {}, {per_second}, {left}", human_bytes(done), human_bytes(total))
        }
        (0, None) => since,
        (_, None) => format!("{}, {per_second}, {since}", human_bytes(done)),
    }
}

/// `7 s`, `3 min 7 s`: a number that is looked at while it changes has no tenths.
fn whole_seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(60) { format!("{} s", duration.as_secs()) } else { human_duration(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: f64, left: u64, elapsed: u64) -> Rate {
        Rate { per_second, left: Duration::from_secs(left), elapsed: Duration::from_secs(elapsed) }
    }

    #[test]
    fn the_line_says_how_much_how_fast_and_how_long() {
        let mib = 1 << 20;
        let fast = rate(10.5 * f64::from(mib), 75, 4);
        assert_eq!(text(42 << 20, Some(1 << 30), &fast), "42.0 MiB of 1.0 GiB, 10.5 MiB/s, 1 min 15 s left");
        assert_eq!(text(42 << 20, None, &fast), "42.0 MiB, 10.5 MiB/s, 4 s");
        assert_eq!(text(0, None, &rate(0.0, 0, 7)), "7 s");
    }

    #[test]
    fn what_does_not_move_is_called_stalled() {
        assert_eq!(text(10, Some(100), &rate(0.0, 0, 9)), "10 B of 100 B, 0 B/s, stalled");
        assert_eq!(text(10, Some(100), &rate(1.0, 1_000_000, 9)), "10 B of 100 B, 1 B/s, stalled");
    }
}
