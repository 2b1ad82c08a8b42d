//! Progress on a terminal, and none anywhere else.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regex::Regex;

use crate::site::{REHEARSER, Site, write};
use crate::transcript::program;

/// What is waited for comes long before; a machine may be busy.
const LIMIT: Duration = Duration::from_secs(120);

/// Gives a site's snapshots as a bucket, and holds back the second half of an image until it is let go.
struct SlowBucket {
    port: u16,
    /// Told when half of an image was sent.
    half: Receiver<()>,
    go_on: Sender<()>,
}

impl SlowBucket {
    fn of(site: &Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ((half, told), (go_on, waits)) = (channel(), channel());
        let (root, waits) = (site.path("snapshots"), Arc::new(Mutex::new(waits)));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (root, half, waits) = (root.clone(), half.clone(), Arc::clone(&waits));
                std::thread::spawn(move || answer(stream.unwrap(), &root, &half, &waits));
            }
        });
        Self { port, half: told, go_on }
    }

    fn serves(&self, site: &Site) {
        let credential = site.path("bucket.credential");
        write(&credential, "[default]\naws_access_key_id = bucket-reader\naws_secret_access_key = 0123456789abcdef\n");
        let store = format!("[snapshots.store.fs]\npath = {:?}\n", site.path("snapshots"));
        let bucket = format!(
            "[snapshots.store.s3]\nendpoint = \"http://127.0.0.1:{}\"\nbucket = \"snapshots\"\n\
             [snapshots.store.s3.credentials]\nfile = {credential:?}\n",
            self.port
        );
        site.edit(REHEARSER, &store, &bucket);
    }
}

/// One request, one answer.
fn answer(mut stream: TcpStream, root: &Path, half: &Sender<()>, waits: &Mutex<Receiver<()>>) {
    let mut request = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let first = request.next().unwrap_or_default();
    let path = first.split([' ', '?']).nth(1).unwrap_or_default().trim_start_matches("/snapshots/").to_owned();
    request.find(String::is_empty);
    let bytes = fs::read(root.join(&path)).unwrap_or_default();
    let status = if bytes.is_empty() { "404 Not Found" } else { "200 OK" };
    let head = format!("HTTP/1.1 {status}\r\nETag: \"x\"\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
    stream.write_all(head.as_bytes()).unwrap();
    let middle = if path.ends_with(".age") { bytes.len() / 2 } else { bytes.len() };
    stream.write_all(&bytes[..middle]).unwrap();
    if middle < bytes.len() {
        // A test that has ended, or was interrupted, wants no more.
        let _ = half.send(());
        if waits.lock().unwrap().recv_timeout(LIMIT).is_ok() {
            let _ = stream.write_all(&bytes[middle..]);
        }
    }
}

/// A program on a terminal, and what it has shown so far.
struct Terminal {
    child: Child,
    shown: Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    /// Runs `holdfast` on a terminal of so many columns.
    #[allow(clippy::disallowed_methods)] // `script` of util-linux makes the terminal
    fn of(site: &Site, columns: u16, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let program = program().get_program().to_str().unwrap().to_owned();
        let command =
            format!("stty cols {columns} rows 24; exec {program} --config {} {arguments}", site.config(REHEARSER).display());
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"]);
        script.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
        let script = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = script.unwrap_or_else(|error| panic!("script (apt-get install bsdutils): {error}"));
        let (pieces, shown) = channel();
        let mut output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                let _ = pieces.send(buffer[..read].to_vec());
            }
        });
        Self { child, shown, text: String::new() }
    }

    /// Waits until the terminal has shown this.
    #[track_caller]
    fn shows(&mut self, pattern: &str) -> &mut Self {
        let pattern = Regex::new(pattern).unwrap();
        while !pattern.is_match(&self.text) {
            let piece = self.shown.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{pattern}: {error}: {:?}", self.text));
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
        self
    }

    /// As the terminal does for a key: to the program, not to who started it.
    fn interrupt(&self) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let pid: i32 = fs::read_to_string(children).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::INT).unwrap();
    }

    /// Waits for the end; gives all that was shown, and the exit code.
    fn ends(mut self) -> (String, Option<i32>) {
        while let Ok(piece) = self.shown.recv_timeout(LIMIT) {
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
        (self.text, self.child.wait().unwrap().code())
    }
}

/// A bar with what is done, how fast, and how long it takes.
const BAR: &str = r"fetching  \[=*>? *\]  \d+(\.\d)? (B|KiB) of \d\.\d KiB, \d+(\.\d)? (B|KiB)/s, (\d+ s left|stalled)";

/// What a terminal would hold in the end.
fn lines_left(text: &str) -> Vec<String> {
    let erased = Regex::new(r"\x1b\[2K|\x1b\[0?K").unwrap();
    let up = Regex::new(r"^\x1b\[(\d+)A").unwrap();
    let (mut lines, mut at) = (vec![String::new()], 0);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(found) = erased.find(rest).filter(|found| found.start() == 0) {
            lines[at].clear();
            rest = &rest[found.end()..];
        } else if let Some(found) = up.captures(rest) {
            at -= found[1].parse::<usize>().unwrap().min(at);
            rest = &rest[found[0].len()..];
        } else {
            rest = &rest[c.len_utf8()..];
            match c {
                '\n' => {
                    at += 1;
                    if at == lines.len() {
                        lines.push(String::new());
                    }
                }
                // What is drawn over a line is as long as the line, or the line is erased first.
                '\r' if !rest.starts_with('\n') => lines[at].clear(),
                '\r' => {}
                c => lines[at].push(c),
            }
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_terminal_shows_a_bar_with_rate_and_time_and_keeps_the_lines_whole() {
    let site = Site::with_snapshots();
    let bucket = SlowBucket::of(&site);
    bucket.serves(&site);
    let mut terminal = Terminal::of(&site, 80, "verify -v", &[]);
    bucket.half.recv_timeout(LIMIT).unwrap();
    terminal.shows(BAR).shows(r"/s, \d+ s left");
    bucket.go_on.send(()).unwrap();
    let (text, exit) = terminal.ends();
    assert_eq!(exit, Some(0), "{text}");
    let left = lines_left(&text);
    assert!(!left.iter().any(|line| line.contains("fetching")), "the bar is taken away: {left:#?}");
    for step in ["fetch-manifest", "fetch-image", "check-structure", "open-keys", "decrypt-objects", "tear-down"] {
        let lines: Vec<_> = left.iter().filter(|line| line.starts_with(&format!("  ok      {step} "))).collect();
        assert_eq!(lines.len(), 1, "{step}: {left:#?}");
    }
    assert!(left.iter().any(|line| line.starts_with("report ")), "{left:#?}");
}

#[test]
fn without_colours_the_bar_stays_and_a_narrow_terminal_keeps_it_on_one_line() {
    let site = Site::with_snapshots();
    let bucket = SlowBucket::of(&site);
    bucket.serves(&site);
    let mut terminal = Terminal::of(&site, 60, "verify", &[("NO_COLOR", "1")]);
    terminal.shows(BAR);
    bucket.go_on.send(()).unwrap();
    let (text, exit) = terminal.ends();
    assert_eq!(exit, Some(0), "{text}");
    let colours = Regex::new(r"\x1b\[[\d;]*m").unwrap();
    assert!(!colours.is_match(&text), "{text:?}");
    for bar in Regex::new(r"fetching  \[[^\r\n\x1b]*").unwrap().find_iter(&text) {
        assert!(bar.as_str().trim_end().chars().count() <= 60, "{bar:?}");
    }
}

#[test]
fn a_dumb_terminal_json_and_a_pipe_show_no_bar() {
    for (arguments, variables) in [("verify", [("TERM", "dumb")]), ("verify --json", [("TERM", "xterm")])] {
        let site = Site::with_snapshots();
        let bucket = SlowBucket::of(&site);
        bucket.serves(&site);
        let terminal = Terminal::of(&site, 80, arguments, &variables);
        bucket.half.recv_timeout(LIMIT).unwrap();
        // For longer than a bar would take to appear.
        assert!(bucket.half.recv_timeout(Duration::from_millis(1_500)).is_err());
        bucket.go_on.send(()).unwrap();
        let (text, exit) = terminal.ends();
        assert_eq!(exit, Some(0), "{text}");
        assert!(!text.contains("fetching") && !text.contains('\u{1b}') && !text.contains('\u{8}'), "{text:?}");
    }
    let site = Site::with_snapshots();
    let bucket = SlowBucket::of(&site);
    bucket.serves(&site);
    let child = site.command(REHEARSER, &["verify"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    bucket.half.recv_timeout(LIMIT).unwrap();
    assert!(bucket.half.recv_timeout(Duration::from_millis(1_500)).is_err());
    bucket.go_on.send(()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
    assert!(!String::from_utf8(output.stdout).unwrap().contains("fetching"));
}

#[test]
fn a_restore_in_a_process_of_its_own_shows_its_bar_here() {
    let site = Site::with_snapshots();
    let bucket = SlowBucket::of(&site);
    bucket.serves(&site);
    let mut terminal = Terminal::of(&site, 80, "restore --into scratch --to boot", &[]);
    terminal.shows(BAR).shows(r"/s, \d+ s left");
    // Before a program of this machine would be started.
    terminal.interrupt();
    let (text, exit) = terminal.ends();
    assert_eq!(exit, Some(130), "{text}");
    let left = lines_left(&text);
    assert!(!left.iter().any(|line| line.contains("fetching")), "{left:#?}");
    assert!(left.iter().any(|line| line.starts_with("  ok      tear-down ")), "{left:#?}");
}

#[test]
fn an_interrupted_command_takes_its_bar_away() {
    let site = Site::with_snapshots();
    let bucket = SlowBucket::of(&site);
    bucket.serves(&site);
    let mut terminal = Terminal::of(&site, 80, "verify", &[]);
    terminal.shows(BAR);
    terminal.interrupt();
    let (text, exit) = terminal.ends();
    assert_eq!(exit, Some(130), "{text}");
    let left = lines_left(&text);
    assert!(!left.iter().any(|line| line.contains("fetching")), "{left:#?}");
    assert!(left.iter().any(|line| line.contains("interrupted; it says nothing")), "{left:#?}");
}
