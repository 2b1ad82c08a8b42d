//! Where people are asked: the terminal of this process, or nowhere.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use super::answer::{Answer, Name};
use super::journal::{Carried, Event, RunHead};
use super::model::Step;

/// Who does the steps that people do.
#[derive(Debug)]
pub enum People<'a> {
    /// Nobody is asked, and nothing waits: what earlier runs measured, by the
    /// step's id, is carried.
    Unattended(BTreeMap<String, Carried>),
    /// Each step waits until somebody answers: at this desk, or from any other process.
    Attended(&'a dyn Desk),
}

/// Nobody is asked, and nothing is known of what people took before.
pub static NOBODY: People<'static> = People::Unattended(BTreeMap::new());

/// A person's place in this process. Also told of what happens elsewhere.
#[async_trait]
pub trait Desk: Debug + Send + Sync {
    /// A step waits from now on, or waits still.
    fn opens(&self, head: &RunHead, step: &Step, begun: Option<&str>);

    /// The next thing that somebody says here; never ends where nobody is here.
    /// The future is dropped and asked for again while the step waits: nothing
    /// that was said may be lost with it.
    async fn hear(&self, step: &Step) -> Said;

    /// The step has an end, from here or from elsewhere.
    fn closes(&self, step: &Step, end: &Event);
}

/// What somebody says at a desk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Hands are on the step now.
    Begun(Name),
    Answered(Answer),
}

/// A desk at which nobody sits: every answer comes from elsewhere.
#[derive(Debug, Default)]
pub struct EmptyDesk;

#[async_trait]
impl Desk for EmptyDesk {
    fn opens(&self, _: &RunHead, _: &Step, _: Option<&str>) {}

    async fn hear(&self, _: &Step) -> Said {
        std::future::pending().await
    }

    fn closes(&self, _: &Step, _: &Event) {}
}
