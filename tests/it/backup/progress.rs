//! What a take tells whoever watches it.

use std::sync::{Arc, Mutex};

use holdfast::base::progress::{Meter, Progress, Stage};
use holdfast::etcd::scripted::ScriptedSource;

use super::bench::{Bench, Keys, healthy, image, member};

/// Remembers every stage.
#[derive(Debug, Default)]
pub struct Watcher(Mutex<Vec<Arc<Meter>>>);

impl Progress for Watcher {
    fn stage(&self, name: &str, total: Option<u64>) -> Stage {
        let (stage, meter) = Stage::begin(name, total);
        self.0.lock().unwrap().push(meter);
        stage
    }
}

impl Watcher {
    fn meter(&self, name: &str) -> Arc<Meter> {
        let meters = self.0.lock().unwrap();
        let found: Vec<_> = meters.iter().filter(|meter| meter.name() == name).collect();
        assert_eq!(found.len(), 1, "{meters:?}");
        Arc::clone(found[0])
    }
}

#[tokio::test]
async fn a_take_tells_how_much_came_of_what_the_stream_announced() {
    let bench = Bench::new(Keys::All);
    // The member's file is larger than what it streams.
    let mut larger = member();
    larger.db_bytes *= 10;
    bench.take_from(&ScriptedSource::new(vec![larger], ScriptedSource::healthy(&image()))).await.unwrap();
    let meter = bench.progress.meter("streaming");
    let bytes = image().len() as u64;
    assert_eq!((meter.done(), meter.total(), meter.has_ended()), (bytes, Some(bytes), true));
    assert!(bench.progress.meter("storing the rest").has_ended());
}

#[tokio::test]
async fn a_take_that_fails_ends_its_stages() {
    let mut turns = ScriptedSource::healthy(&image());
    turns.truncate(turns.len() / 2);
    let bench = Bench::new(Keys::All);
    bench.take_from(&super::bench::scripted(turns)).await.unwrap_err();
    let meter = bench.progress.meter("streaming");
    assert!(meter.has_ended() && meter.done() < image().len() as u64, "{meter:?}");
    bench.take_from(&healthy()).await.unwrap();
}
