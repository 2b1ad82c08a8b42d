//! How the story is told: to people as text, to programs as one JSON object a line.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::base::codes;
use crate::base::failure::Failure;

/// Where the story goes. Every event is there as soon as it happened.
pub struct Telling<'a> {
    pub out: &'a mut dyn Write,
    pub json: bool,
}

impl std::fmt::Debug for Telling<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telling").field("json", &self.json).finish_non_exhaustive()
    }
}

impl Telling<'_> {
    pub fn chapter(&mut self, title: &str) -> Result<(), Failure> {
        self.tell(&format!("\n== {title}\n"), || json!({ "event": "chapter", "title": title }))
    }

    pub fn said(&mut self, text: &str) -> Result<(), Failure> {
        self.tell(&format!("{text}\n"), || json!({ "event": "said", "text": text }))
    }

    /// A command begins, as somebody would type it.
    pub fn command(&mut self, host: &str, arguments: &[&str]) -> Result<(), Failure> {
        let text = format!("\n{host}$ holdfast {}\n", arguments.join(" "));
        self.tell(&text, || json!({ "event": "command", "host": host, "arguments": arguments }))
    }

    /// What a command printed since the last time.
    pub fn output(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() { Ok(()) } else { self.tell(text, || json!({ "event": "output", "text": text })) }
    }

    pub fn ended(&mut self, code: Option<i32>) -> Result<(), Failure> {
        let text = format!("(exit code {})\n", code.map_or("none".to_owned(), |code| code.to_string()));
        self.tell(&text, || json!({ "event": "ended", "exit": code }))
    }

    pub fn report(&mut self, page: &Path) -> Result<(), Failure> {
        self.tell(&format!("  {}\n", page.display()), || json!({ "event": "report", "page": page.display().to_string() }))
    }

    pub fn kept(&mut self, folder: &Path) -> Result<(), Failure> {
        self.tell(&format!("kept: {}\n", folder.display()), || json!({ "event": "kept", "folder": folder.display().to_string() }))
    }

    fn tell(&mut self, text: &str, event: impl FnOnce() -> Value) -> Result<(), Failure> {
        let told = if self.json { writeln!(self.out, "{}", event()) } else { self.out.write_all(text.as_bytes()) };
        told.and_then(|()| self.out.flush()).map_err(|error| Failure::because(&codes::OUTPUT, "standard output", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: bool) -> String {
        let mut out = Vec::new();
        let mut telling = Telling { out: &mut out, json };
        telling.chapter("A snapshot").unwrap();
        telling.said("wrote 2 Secrets").unwrap();
        telling.command("cp-1", &["snapshot", "--degraded", "no leader"]).unwrap();
        telling.output("snapshot\ntaken\n").unwrap();
        telling.output("").unwrap();
        telling.ended(Some(0)).unwrap();
        telling.report(Path::new("/demo/reports/1.html")).unwrap();
        telling.kept(Path::new("/demo")).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_read_a_text() {
        let text = "\n== A snapshot\nwrote 2 Secrets\n\ncp-1$ holdfast snapshot --degraded no leader\nsnapshot\ntaken\n(exit code 0)\n  \
                    /demo/reports/1.html\nkept: /demo\n";
        assert_eq!(told(false), text);
    }

    #[test]
    fn programs_read_an_object_a_line() {
        let events: Vec<Value> = told(true).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["chapter", "said", "command", "output", "ended", "report", "kept"]);
        assert_eq!((&events[2]["arguments"][2], &events[4]["exit"]), (&"no leader".into(), &0.into()));
    }
}
