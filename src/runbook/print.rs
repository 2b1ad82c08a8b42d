//! A runbook as a page again: what `parse` reads back to the same steps.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::SignedDuration;

use super::model::{OnFailure, Runbook, Step, Work};

impl Runbook {
    /// Markdown in the canonical order of fields.
    #[must_use]
    pub fn print(&self) -> String {
        let mut page = String::from("+++\n");
        for (key, value) in [("id", &self.id), ("title", &self.title), ("owner", &self.owner), ("environment", &self.environment)]
        {
            field(&mut page, key, value);
        }
        if let Some(rto) = self.objectives.rto {
            field(&mut page, "objectives.rto", &friendly(rto));
        }
        if let Some(rpo) = self.objectives.rpo {
            field(&mut page, "objectives.rpo", &friendly(rpo));
        }
        page.push_str("+++\n");
        if !self.introduction.is_empty() {
            let _ = writeln!(page, "\n{}", self.introduction);
        }
        for step in &self.steps {
            print_step(&mut page, step);
        }
        page
    }
}

fn print_step(page: &mut String, step: &Step) {
    let _ = writeln!(page, "\n## {}\n\n{}\n\n```step", step.title, step.prose);
    field(page, "id", &step.id);
    match &step.work {
        Work::Action(action) => fields(page, &[("kind", "action"), ("action", action)]),
        Work::Command(command) => fields(page, &[("kind", "command"), ("command", command)]),
        Work::Person(hands) => {
            fields(page, &[("kind", hands.kind.as_str()), ("who", &hands.who), ("expect", &friendly(hands.expect))]);
        }
    }
    if let Some(rung) = step.rung {
        field(page, "rung", rung.as_str());
    }
    field(page, "acceptance.pass", &step.acceptance.pass);
    if let Some(check) = &step.acceptance.check {
        field(page, "acceptance.check", check);
    }
    field(page, "timeout", &friendly(step.timeout));
    if step.on_failure != OnFailure::Stop {
        field(page, "on_failure", step.on_failure.as_str());
    }
    for (key, set) in [("always", step.always), ("durable", step.durable)] {
        if set {
            let _ = writeln!(page, "{key} = true");
        }
    }
    page.push_str("```\n");
}

fn fields(page: &mut String, fields: &[(&str, &str)]) {
    for (key, value) in fields {
        field(page, key, value);
    }
}

fn field(page: &mut String, key: &str, value: &str) {
    let _ = writeln!(page, "{key} = {}", toml::Value::from(value));
}

/// `1h 30m`: what the parser reads.
fn friendly(duration: Duration) -> String {
    SignedDuration::try_from(duration).map_or_else(|_| format!("{}s", duration.as_secs()), |duration| format!("{duration:#}"))
}
