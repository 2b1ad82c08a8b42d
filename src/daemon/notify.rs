//! What systemd is told: ready, alive, reloading, stopping, and a line for people.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;

/// Whoever takes messages.
type Manager = dyn Fn(&[NotifyState<'_>]) + Send + Sync;

/// Sends what is told to the service manager, where there is one.
#[derive(Clone)]
pub struct Notifier {
    send: Arc<Manager>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The manager that `NOTIFY_SOCKET` names, which asks for signs of life as
    /// often as `WATCHDOG_USEC` says. Without them nothing is sent.
    #[must_use]
    pub fn of_environment() -> Self {
        let send = |states: &[NotifyState<'_>]| {
            // A manager that does not listen is no reason to stop backups.
            if let Err(error) = sd_notify::notify(states) {
                tracing::debug!(%error, "the service manager was not told");
            }
        };
        Self { send: Arc::new(send), watchdog: sd_notify::watchdog_enabled().filter(|every| !every.is_zero()) }
    }

    /// Hands each message to `sink`, in the form of sd_notify(3).
    #[must_use]
    pub fn to(sink: impl Fn(String) + Send + Sync + 'static, watchdog: Option<Duration>) -> Self {
        let lines = |states: &[NotifyState<'_>]| states.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        Self { send: Arc::new(move |states| sink(lines(states))), watchdog }
    }

    /// How often the loop must turn so that the manager does not lose patience:
    /// half of its limit, as sd_watchdog_enabled(3) advises.
    #[must_use]
    pub fn pings_every(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    pub fn ready(&self, status: &str) {
        (self.send)(&[NotifyState::Ready, NotifyState::Status(&line(status))]);
    }

    pub fn status(&self, status: &str) {
        (self.send)(&[NotifyState::Status(&line(status))]);
    }

    /// A sign of life, where the manager asked for any.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            (self.send)(&[NotifyState::Watchdog]);
        }
    }

    /// The configuration is read again; [`Notifier::ready`] follows.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => (self.send)(&[NotifyState::Reloading, now]),
            Err(_) => (self.send)(&[NotifyState::Reloading]),
        }
    }

    pub fn stopping(&self, status: &str) {
        (self.send)(&[NotifyState::Stopping, NotifyState::Status(&line(status))]);
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").field("watchdog", &self.watchdog).finish_non_exhaustive()
    }
}

/// A message has a line for each of its parts: a status that had two would tell something else.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
