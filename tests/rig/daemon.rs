//! `holdfast daemon` as a process of a test: its log as it grows, its pages, its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks at a page.
const PAUSE: Duration = Duration::from_millis(50);

/// A daemon that runs. Dropping it kills it.
pub struct Daemon {
    child: Child,
    lines: Receiver<String>,
    /// Every line so far, parsed.
    pub log: Vec<Value>,
    /// How much of the log `wait_for` has passed.
    passed: usize,
    pub address: SocketAddr,
}

impl Daemon {
    /// Starts the daemon of a configuration and waits until it is ready.
    /// `daemon.listen` should have port 0.
    pub fn start(config: &Path) -> Self {
        Self::start_with(config, |_| {})
    }

    /// The same, with a process that `change` prepares further.
    #[allow(clippy::disallowed_methods, reason = "the program under test")]
    pub fn start_with(config: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        for name in ["HOLDFAST_LOG", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM"] {
            command.env_remove(name);
        }
        command.arg("--config").arg(config).args(["daemon", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let (tell, lines) = channel();
        let reader = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || reader.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut daemon = Self { child, lines, log: Vec::new(), passed: 0, address: ([127, 0, 0, 1], 0).into() };
        let ready = daemon.wait_for("daemon ready");
        daemon.address = ready["listen"].as_str().unwrap().parse().unwrap();
        daemon
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of the log with this message; those before it are passed over.
    #[track_caller]
    pub fn wait_for(&mut self, message: &str) -> Value {
        self.wait_until(message, |line| line["message"] == message)
    }

    /// The next line of the log of which this is true.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = now() + PATIENCE;
        loop {
            while let Some(line) = self.log.get(self.passed) {
                self.passed += 1;
                if is_it(line) {
                    return line.clone();
                }
            }
            match self.lines.recv_timeout(deadline.saturating_duration_since(now())) {
                Ok(line) => self.keep(&line),
                Err(RecvTimeoutError::Timeout) => panic!("no {what:?} in {:#?}", self.log),
                Err(RecvTimeoutError::Disconnected) => panic!("the daemon ended without {what:?}: {:#?}", self.log),
            }
        }
    }

    /// Lines with this message so far.
    pub fn count(&mut self, message: &str) -> usize {
        while let Ok(line) = self.lines.try_recv() {
            self.keep(&line);
        }
        self.log.iter().filter(|line| line["message"] == message).count()
    }

    /// Every line is one JSON object, whatever happens.
    fn keep(&mut self, line: &str) {
        self.log.push(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    }

    /// Status code and body.
    pub fn ask(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The value of one sample, as `holdfast_outbox_records` or `holdfast_job_running{kind="snapshot"}`.
    #[track_caller]
    pub fn metric(&self, sample: &str) -> f64 {
        let (status, shown) = self.ask("/metrics");
        assert_eq!(status, 200, "{shown}");
        let value = shown.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {sample} in {shown}")).parse().unwrap()
    }

    /// Waits until a sample has a value of which this is true.
    #[track_caller]
    pub fn until_metric(&self, sample: &str, is_it: impl Fn(f64) -> bool) -> f64 {
        let deadline = now() + PATIENCE;
        loop {
            let value = self.metric(sample);
            if is_it(value) {
                return value;
            }
            assert!(now() < deadline, "{sample} is {value}: {:#?}", self.log);
            std::thread::park_timeout(PAUSE);
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it with a signal; gives its exit code and its whole log.
    pub fn end(mut self, signal: Signal) -> (i32, Vec<Value>) {
        self.signal(signal);
        let code = self.child.wait().unwrap().code().unwrap();
        while let Ok(line) = self.lines.recv() {
            self.keep(&line);
        }
        (code, std::mem::take(&mut self.log))
    }

    /// As a power cut does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[allow(clippy::disallowed_methods, reason = "deadlines of a test")]
fn now() -> Instant {
    Instant::now()
}
