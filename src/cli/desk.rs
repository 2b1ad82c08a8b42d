//! The desk at which `runbook run` asks: this terminal, where there is one, and
//! the commands that answer from any other.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::mpsc::{self, Receiver};

use super::layout::{behind, parts_behind};
use super::render::{self, printable};
use super::runbook_page::prose;
use crate::base::units::round_duration;
use crate::config;
use crate::runbook::answer::{Answer, Name, Note};
use crate::runbook::desk::{Desk, Said};
use crate::runbook::journal::{Event, RunHead, Word};
use crate::runbook::model::{HandsKind, Step};

/// Lines that were typed before they were asked for; nobody types faster.
const LINES: usize = 64;

#[derive(Debug)]
pub struct TerminalDesk {
    /// What somebody types; none where nobody sits here.
    lines: Option<AsyncMutex<Receiver<String>>>,
    dialogue: Mutex<Dialogue>,
    config: Option<PathBuf>,
    json: bool,
}

impl TerminalDesk {
    /// `seated` where somebody sees what is asked, and can type.
    #[must_use]
    pub fn open(config: &Path, name: Option<Name>, json: bool, seated: bool) -> Self {
        let config = (config != Path::new(config::DEFAULT_PATH)).then(|| config.to_owned());
        Self { lines: seated.then(|| AsyncMutex::new(typed())), dialogue: Mutex::new(Dialogue::new(name)), config, json }
    }

    /// Whatever is printed next does not stand behind a question.
    pub fn clear_prompt(&self) {
        let mut dialogue = self.dialogue();
        if std::mem::take(&mut dialogue.prompted) {
            self.print("\n");
        }
    }

    fn dialogue(&self) -> MutexGuard<'_, Dialogue> {
        self.dialogue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With JSON, questions are for a person who watches, on standard error.
    fn print(&self, text: &str) {
        // A terminal that went away stops no run: answers come from elsewhere.
        let _ = if self.json {
            render::Output(io::stderr()).write_all(text.as_bytes())
        } else {
            let mut out = render::Output(io::stdout());
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
    }

    /// Puts the question, unless it stands there already.
    fn ask(&self) {
        let mut dialogue = self.dialogue();
        let asked = std::mem::replace(&mut dialogue.prompted, true) || dialogue.ended;
        let prompt = dialogue.prompt();
        drop(dialogue);
        if !asked {
            self.print(&prompt);
        }
    }

    /// The command line that answers from another terminal, as it is copied.
    fn command(&self, verb: &str, head: &RunHead, step: &Step) -> String {
        let config = self.config.as_ref().map(|config| format!(" --config {}", config.display())).unwrap_or_default();
        format!("holdfast{config} runbook {verb} {} {}", head.run, step.id)
    }
}

#[async_trait]
impl Desk for TerminalDesk {
    fn opens(&self, head: &RunHead, step: &Step, begun: Option<&str>) {
        let Some(hands) = step.hands() else { return };
        let (begin, done) = (self.command("begin", head, step), self.command("done", head, step));
        if self.json && !io::stderr().is_terminal() {
            let waits = json!({
                "run": head.run, "step": step.id, "title": step.title, "kind": hands.kind.as_str(), "who": hands.who,
                "begun_by": begun, "begin": begin, "done": done,
            });
            return self.print(&format!("{}\n", json!({ "waits": waits })));
        }
        let expect = round_duration(hands.expect);
        let mut text = behind(&format!("  waits   {:<24} ", step.id), 35, &format!("for {}, about {expect}", hands.who));
        if self.lines.is_some() {
            text += &format!("\n{}\n{}", behind("", 0, &step.title), prose(&step.prose));
            text += &format!("\n{}", behind("good when: ", 11, &step.acceptance.pass));
        }
        let refuse = if hands.kind == HandsKind::Approval { "--refuse" } else { "--failed" };
        text += &format!("    answer in any terminal, by NAME; {refuse} where it is not so:\n");
        text += &parts_behind("    ", 4, &[&begin]);
        text += &parts_behind("    ", 4, &[&done]);
        self.print(&text);
        if let Some(lines) = &self.lines {
            // What was typed before the question answers another one.
            if let Ok(mut lines) = lines.try_lock() {
                while lines.try_recv().is_ok() {}
            }
            self.dialogue().opens(hands.kind, begun.is_some());
        }
    }

    async fn hear(&self, _: &Step) -> Said {
        let Some(lines) = &self.lines else { return std::future::pending().await };
        let mut lines = lines.lock().await;
        loop {
            self.ask();
            let Some(line) = lines.recv().await else { break };
            let mut dialogue = self.dialogue();
            dialogue.prompted = false;
            if let Some(said) = dialogue.hear(&line) {
                return said;
            }
        }
        if !std::mem::replace(&mut self.dialogue().ended, true) {
            self.clear_prompt();
            self.print("note: standard input has ended: the answer comes from elsewhere\n");
        }
        std::future::pending().await
    }

    fn closes(&self, _: &Step, _: &Event) {
        self.clear_prompt();
        self.dialogue().stage = Stage::Idle;
    }
}

/// Lines of standard input, read by a thread that ends with the process: a read
/// cannot be called off.
fn typed() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Where a conversation about one step stands.
#[derive(Debug)]
struct Dialogue {
    stage: Stage,
    kind: HandsKind,
    name: Option<Name>,
    /// Does the cursor stand behind a question?
    prompted: bool,
    /// Is there nobody any more who could answer here?
    ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Idle,
    Begin,
    End,
    By(Word),
    Note(Word, Name),
}

impl Dialogue {
    fn new(name: Option<Name>) -> Self {
        Self { stage: Stage::Idle, kind: HandsKind::Manual, name, prompted: false, ended: false }
    }

    fn opens(&mut self, kind: HandsKind, begun: bool) {
        self.kind = kind;
        // Nobody begins without a name; the answer will have one.
        self.stage = if begun || self.name.is_none() { Stage::End } else { Stage::Begin };
    }

    fn prompt(&self) -> String {
        match (&self.stage, self.kind) {
            (Stage::Idle, _) => String::new(),
            (Stage::Begin, _) => "Enter when you begin: ".to_owned(),
            (Stage::End, HandsKind::Manual) => "Enter when it is done, f if it failed: ".to_owned(),
            (Stage::End, HandsKind::Approval) => "y to approve, n to refuse: ".to_owned(),
            (Stage::By(_), _) => match &self.name {
                Some(name) => format!("Who did it? Enter for {}: ", printable(name.as_str())),
                None => "Who did it? ".to_owned(),
            },
            (Stage::Note(..), _) => "Anything to note? Enter for nothing: ".to_owned(),
        }
    }

    /// Takes a line; what is not understood is asked again.
    fn hear(&mut self, line: &str) -> Option<Said> {
        let line = line.trim();
        match (&self.stage, self.kind, line) {
            (Stage::Begin, _, "") => {
                self.stage = Stage::End;
                return self.name.clone().map(Said::Begun);
            }
            (Stage::End, HandsKind::Manual, "") | (Stage::End, HandsKind::Approval, "y" | "yes") => {
                self.stage = Stage::By(Word::Done);
            }
            (Stage::End, HandsKind::Manual, "f") => self.stage = Stage::By(Word::Failed),
            (Stage::End, HandsKind::Approval, "n" | "no") => self.stage = Stage::By(Word::Refused),
            (Stage::By(word), _, _) => {
                let name = if line.is_empty() { self.name.clone() } else { line.parse().ok() };
                if let Some(name) = name {
                    self.stage = Stage::Note(*word, name);
                }
            }
            (Stage::Note(word, name), ..) => {
                let note = if line.is_empty() { Some(None) } else { line.parse::<Note>().ok().map(Some) };
                let (word, by) = (*word, name.clone());
                if let Some(note) = note {
                    self.stage = Stage::Idle;
                    return Some(Said::Answered(Answer { word, by, note, hands_on: None }));
                }
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// What is said after each line, and the last question.
    fn talk(kind: HandsKind, begun: bool, lines: &[&str]) -> (Vec<Option<Said>>, String) {
        let mut dialogue = Dialogue::new(Some(name("alice")));
        dialogue.opens(kind, begun);
        let said = lines.iter().map(|line| dialogue.hear(line)).collect();
        (said, dialogue.prompt())
    }

    fn answered(word: Word, by: &str, note: Option<&str>) -> Option<Said> {
        let note = note.map(|note| note.parse().unwrap());
        Some(Said::Answered(Answer { word, by: name(by), note, hands_on: None }))
    }

    #[test]
    fn a_manual_step_is_begun_and_done_by_enter_alone() {
        let (said, prompt) = talk(HandsKind::Manual, false, &["", "", "", ""]);
        assert_eq!(said, [Some(Said::Begun(name("alice"))), None, None, answered(Word::Done, "alice", None)]);
        assert_eq!(prompt, "");
    }

    #[test]
    fn an_approval_is_never_given_by_enter_alone() {
        let (said, prompt) = talk(HandsKind::Approval, false, &["", "", "", "maybe"]);
        assert_eq!(said, [Some(Said::Begun(name("alice"))), None, None, None]);
        assert_eq!(prompt, "y to approve, n to refuse: ");
        let (said, _) = talk(HandsKind::Approval, true, &["n", "bob", "data is older than we can afford"]);
        assert_eq!(said[2], answered(Word::Refused, "bob", Some("data is older than we can afford")));
        let (said, _) = talk(HandsKind::Approval, true, &["yes", "", ""]);
        assert_eq!(said[2], answered(Word::Done, "alice", None));
    }

    #[test]
    fn what_failed_is_said_with_who_and_why() {
        let (said, _) = talk(HandsKind::Manual, true, &["f", " carol ", "the custodian did not answer"]);
        assert_eq!(said[2], answered(Word::Failed, "carol", Some("the custodian did not answer")));
        let long = "x".repeat(5000);
        let (said, prompt) = talk(HandsKind::Manual, true, &["", &long, "", &long]);
        assert_eq!(said, [None, None, None, None]);
        assert!(prompt.starts_with("Anything to note?"), "{prompt}");
    }

    #[test]
    fn nobody_answers_without_a_name() {
        let mut dialogue = Dialogue::new(None);
        dialogue.opens(HandsKind::Manual, false);
        assert_eq!(dialogue.stage, Stage::End);
        assert!(dialogue.hear("").is_none() && dialogue.hear("").is_none());
        assert_eq!(dialogue.prompt(), "Who did it? ");
        assert!(dialogue.hear("dave").is_none());
        assert_eq!(dialogue.hear(""), answered(Word::Done, "dave", None));
    }
}
