//! Progress of work in the supervisor, told to the one who started it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::supervisor::Frame;
use crate::base::progress::{Meter, Progress, Stage};

/// Fluent for the eye, and no load.
const INTERVAL: Duration = Duration::from_millis(200);

/// Tells of the innermost stage that runs, in frames.
pub struct Relayed {
    send: Arc<dyn Fn(Frame) + Send + Sync>,
    stages: Arc<Mutex<Stages>>,
}

#[derive(Debug, Default)]
struct Stages {
    /// The innermost last.
    running: Vec<Arc<Meter>>,
    ticks: bool,
}

impl Relayed {
    /// Frames go to `send`.
    #[must_use]
    pub fn to(send: impl Fn(Frame) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { send: Arc::new(send), stages: Arc::default() })
    }
}

impl fmt::Debug for Relayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relayed").field("stages", &self.stages).finish_non_exhaustive()
    }
}

impl Progress for Relayed {
    fn stage(&self, name: &str, total: Option<u64>) -> Stage {
        let (stage, meter) = Stage::begin(name, total);
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        stages.running.push(meter);
        if !std::mem::replace(&mut stages.ticks, true) {
            let (send, stages) = (Arc::clone(&self.send), Arc::clone(&self.stages));
            // It ends with the last stage.
            std::thread::spawn(move || tick(send.as_ref(), &stages));
        }
        stage
    }
}

fn tick(send: &(dyn Fn(Frame) + Send + Sync), stages: &Mutex<Stages>) {
    loop {
        let innermost = {
            let mut stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
            stages.running.retain(|meter| !meter.has_ended());
            stages.ticks = !stages.running.is_empty();
            stages.running.last().cloned()
        };
        let Some(meter) = innermost else { return send(Frame::Rest) };
        send(Frame::Work { name: meter.name().to_owned(), done: meter.done(), total: meter.total() });
        std::thread::sleep(INTERVAL);
    }
}

/// The other end: stages that follow what frames tell.
#[derive(Debug, Default)]
pub struct Followed {
    stage: Option<(String, u64, Stage)>,
}

impl Followed {
    /// Follows one frame; true where it told of work.
    pub fn follow(&mut self, frame: &Frame, progress: &dyn Progress) -> bool {
        match frame {
            Frame::Rest => self.stage = None,
            Frame::Work { name, done, total } => {
                self.stage.take_if(|(known, ..)| known != name);
                let (_, told, stage) = self.stage.get_or_insert_with(|| (name.clone(), 0, progress.stage(name, *total)));
                stage.advance(done.saturating_sub(*told));
                *told = *done;
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<Arc<Meter>>>);

    impl Progress for Seen {
        fn stage(&self, name: &str, total: Option<u64>) -> Stage {
            let (stage, meter) = Stage::begin(name, total);
            self.0.lock().unwrap().push(meter);
            stage
        }
    }

    #[test]
    fn what_one_process_does_another_follows_to_its_end() {
        let (send, frames) = mpsc::channel();
        let send = Mutex::new(send);
        let relayed = Relayed::to(move |frame| send.lock().unwrap().send(frame).unwrap());
        let (seen, mut followed) = (Seen::default(), Followed::default());
        let stage = relayed.stage("fetching", Some(100));
        stage.advance(40);
        let done = |meter: &Meter| meter.done();
        while seen.0.lock().unwrap().first().map(|meter| done(meter)) != Some(40) {
            assert!(followed.follow(&frames.recv().unwrap(), &seen));
        }
        let meter = Arc::clone(&seen.0.lock().unwrap()[0]);
        assert_eq!((meter.name(), meter.total(), meter.has_ended()), ("fetching", Some(100), false));
        drop(stage);
        while !meter.has_ended() {
            assert!(followed.follow(&frames.recv().unwrap(), &seen));
        }
        assert_eq!(seen.0.lock().unwrap().len(), 1);
        assert!(!followed.follow(&Frame::Up, &seen));
    }
}
