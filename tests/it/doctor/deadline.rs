//! One check that hangs is one finding, and holds up nothing else.

use std::time::Duration;

use async_trait::async_trait;
use holdfast::doctor::{self, Area, Check, Findings, Host, Status};

use super::bench::{Bench, Diagnosis, Role};

struct Hangs;
struct Answers;

#[async_trait]
impl Check for Hangs {
    fn area(&self) -> Area {
        Area::Stores
    }

    fn name(&self) -> String {
        "a store that hangs".to_owned()
    }

    async fn examine(&self, _: &Host, findings: &Findings) {
        findings.good("first half", "was found before");
        std::future::pending().await
    }
}

#[async_trait]
impl Check for Answers {
    fn area(&self) -> Area {
        Area::Tools
    }

    fn name(&self) -> String {
        "a tool".to_owned()
    }

    async fn examine(&self, _: &Host, findings: &Findings) {
        findings.good("tool", "answers");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_is_unknown_and_keeps_what_it_had_found() {
    let bench = Bench::new(Role::Reader);
    let checks: Vec<Box<dyn Check>> = vec![Box::new(Hangs), Box::new(Answers)];
    let found = Diagnosis(doctor::examine(&bench.host(), &checks, Duration::from_secs(30)).await);
    let silent = found.one("doctor.no-answer");
    assert_eq!((silent.object.as_str(), silent.status), ("a store that hangs", Status::Unknown));
    assert!(silent.finding.contains("30.0 s"), "{found}");
    found.good("first half");
    found.good("tool");
    assert_eq!(doctor::exit(&found.0), holdfast::base::exit::Exit::CouldNotRun);
    // The worst area comes first, and in it the worst finding.
    assert_eq!(found.0.iter().map(|f| f.object.as_str()).collect::<Vec<_>>(), ["a store that hangs", "first half", "tool"]);
}
