//! `holdfast restore --into scratch`: a cluster that stays up, in the hands of
//! the program as people call it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use holdfast::base::clock::{Clock, SystemClock};
use holdfast::sandbox::identity::ProcessIdentity;
use serde_json::Value;

use crate::scene::{Scene, host_config, source};

mod ends;
mod fence;
mod find;
mod from_file;
mod kit;
mod member;

/// Long enough for a loaded machine; nothing waits for it when all is well.
const LIMIT: Duration = Duration::from_secs(120);

/// A host with its stores, and the program on it. What is up goes with it.
pub struct Host {
    pub scene: Scene,
}

impl Host {
    pub fn new() -> Self {
        Self { scene: Scene::new() }
    }

    pub fn config(&self) -> PathBuf {
        host_config(self.scene.root.path())
    }

    #[allow(clippy::disallowed_methods)] // the program under test
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(arguments).arg("--config").arg(self.config()).stdin(Stdio::null());
        for name in ["HOLDFAST_LOG", "RUST_BACKTRACE", "KUBECONFIG"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs it to its end, which must be this exit code.
    #[track_caller]
    pub fn run(&self, arguments: &[&str], exit: i32) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        output
    }

    /// Its answer as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &[&str], exit: i32) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat(), exit);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
    }

    /// The error that it ends with.
    #[track_caller]
    pub fn refuses(&self, arguments: &[&str], exit: i32, code: &str) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat(), exit);
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        let line = text(&output.stderr).lines().find(|line| line.contains("\"error\"")).unwrap_or_default().to_owned();
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        assert_eq!(value["error"]["code"], code, "{value}");
        value["error"].clone()
    }

    /// Restores `id` and leaves it up.
    #[track_caller]
    pub fn raise(&self, id: &str, more: &[&str]) -> Up {
        Up::of(&self.json(&[&["restore", id, "--into", "scratch"], more].concat(), 0))
    }

    /// Starts a restore that a test interrupts, and gives it back when this step has ended.
    pub fn climbing_past(&self, step: &str, arguments: &[&str]) -> Child {
        use std::io::{BufRead, BufReader};
        let mut child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = format!("ok      {step}");
        assert!(lines.any(|line| line.unwrap().contains(&wanted)), "{step} was not reached");
        // Whatever it still says is read, so that it does not wait for us.
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    pub fn list(&self) -> Vec<Value> {
        self.json(&["scratch", "list"], 0)["scratch"].as_array().unwrap().clone()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A test that failed leaves nothing running either.
        let _ = self.command(&["scratch", "down", "--all"]).output();
    }
}

/// A machine with a few files and nothing of holdfast: no configuration, store,
/// ledger, state or signing key.
pub struct Bare {
    pub folder: tempfile::TempDir,
}

impl Bare {
    pub fn new() -> Self {
        assert!(!Path::new(holdfast::config::DEFAULT_PATH).exists(), "this machine has a configuration of holdfast");
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn scratch(&self) -> PathBuf {
        self.folder.path().join("scratch")
    }

    /// Writes a file of mode 0600 and gives its path.
    pub fn file(&self, name: &str, content: &[u8]) -> String {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.folder.path().join(name);
        let _ = fs::remove_file(&path);
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        file.write_all(content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[allow(clippy::disallowed_methods)] // the program under test
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(arguments).arg("--scratch-dir").arg(self.scratch()).stdin(Stdio::null());
        for name in ["HOLDFAST_LOG", "RUST_BACKTRACE", "KUBECONFIG"] {
            command.env_remove(name);
        }
        command
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str], exit: i32) -> (Value, String) {
        let output = self.command(&[arguments, &["--json"]].concat()).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}{told}", text(&output.stdout));
        (serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), told)
    }

    /// The run fails in `step`; nothing is up, nothing is left.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str], exit: i32, step: &str, code: &str) -> Value {
        let (document, _) = self.json(arguments, exit);
        let failure = &document["report"]["failures"][0];
        assert_eq!((&failure["step"], &failure["code"]), (&step.into(), &code.into()), "{document:#}");
        assert!(document["up"].is_null());
        self.nothing_is_left();
        failure.clone()
    }

    /// It does not even begin.
    #[track_caller]
    pub fn refuses(&self, arguments: &[&str], exit: i32, code: &str) -> Value {
        let (document, told) = self.json(arguments, exit);
        assert_eq!(document, Value::Null, "{arguments:?}");
        let line = told.lines().find(|line| line.contains("\"error\"")).unwrap_or_default();
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {told}"));
        assert_eq!(value["error"]["code"], code, "{value}");
        self.nothing_is_left();
        value["error"].clone()
    }

    #[track_caller]
    pub fn nothing_is_left(&self) {
        assert_eq!(crate::scene::files(&self.scratch()), Vec::<PathBuf>::new());
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // A test that failed leaves nothing running either.
        let _ = self.command(&["scratch", "down", "--all"]).output();
    }
}

/// What `restore --json` says of a cluster that is up.
pub struct Up {
    pub run: String,
    pub kubeconfig: PathBuf,
    pub address: String,
    pub directory: PathBuf,
    pub document: Value,
}

impl Up {
    #[track_caller]
    pub fn of(document: &Value) -> Self {
        let up = &document["up"];
        let path = |value: &Value| PathBuf::from(value.as_str().unwrap_or_default());
        assert!(up["address"].is_string(), "{document:#}");
        Self {
            run: up["run"].as_str().unwrap().to_owned(),
            kubeconfig: path(&up["kubeconfig"]),
            address: up["address"].as_str().unwrap().to_owned(),
            directory: path(&document["directory"]),
            document: document.clone(),
        }
    }
}

impl Up {
    /// The programs that were started in it, and which processes they are.
    pub fn processes(&self) -> Vec<(String, ProcessIdentity)> {
        let recorded = fs::read_to_string(self.directory.join("processes")).unwrap();
        let line = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            (words[2].to_owned(), words[1].parse().unwrap())
        };
        recorded.lines().map(line).collect()
    }

    pub fn process(&self, program: &str) -> ProcessIdentity {
        self.processes().into_iter().find(|(name, identity)| name == program && identity.is_alive()).unwrap().1
    }

    pub fn supervisor(&self) -> ProcessIdentity {
        let name = self.directory.file_name().unwrap().to_str().unwrap();
        let identity = name.rsplitn(3, '-').take(2).collect::<Vec<_>>();
        format!("{}-{}", identity[1], identity[0]).parse().unwrap()
    }
}

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let clock = SystemClock::new();
    let end = clock.uptime() + LIMIT;
    while !is_so() {
        assert!(clock.uptime() < end, "{what}");
        std::thread::yield_now();
    }
}

/// A program around the one under test.
#[allow(clippy::disallowed_methods)]
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.stdin(Stdio::null());
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A real program that `make tools` provides.
fn provided(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    let tools = cache.join("holdfast/tools");
    let found = fs::read_dir(&tools).into_iter().flatten().flatten().map(|entry| entry.path().join(name));
    found.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no {name} in {}: run make tools", tools.display()))
}

pub fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Output {
    // Its caches go nowhere.
    let home = tempfile::tempdir().unwrap();
    let mut command = program(provided("kubectl").to_str().unwrap());
    command.arg("--kubeconfig").arg(kubeconfig).arg("--request-timeout=60s").args(arguments);
    command.env("HOME", home.path()).env_remove("KUBECONFIG").stdin(Stdio::null());
    command.output().unwrap()
}

fn secret(kubeconfig: &Path, object: &Value) -> Value {
    let (namespace, name) = (object["metadata"]["namespace"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    let output = kubectl(kubeconfig, &["get", "secret", name, "-n", namespace, "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn kubectl_reads_a_secret_through_the_printed_kubeconfig_until_the_cluster_is_ended() {
    let host = Host::new();
    let id = source().second.id.as_str();
    let up = host.raise(id, &[]);
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(up.kubeconfig.starts_with("/dev/shm"), "never on a disk: {}", up.kubeconfig.display());
    assert_eq!((mode(&up.kubeconfig), mode(up.kubeconfig.parent().unwrap())), (0o600, 0o700));
    assert_eq!((&up.document["recorded"], &up.document["report"]["verdict"]["reached"]), (&true.into(), &"serve".into()));
    assert!(up.document["report"]["rto"]["measured_ms"].as_u64().unwrap() > 0);

    let all = kubectl(&up.kubeconfig, &["get", "secrets", "-A", "-o", "json"]);
    assert!(all.status.success(), "{}", text(&all.stderr));
    let all: Value = serde_json::from_slice(&all.stdout).unwrap();
    let written: Vec<_> =
        all["items"].as_array().unwrap().iter().filter(|object| source().values.contains_key(&key(object))).collect();
    assert_eq!(written.len(), source().secrets);
    for object in written.iter().take(2) {
        assert_eq!(secret(&up.kubeconfig, object)["data"], source().values[&key(object)]);
    }

    let listed = host.list();
    assert_eq!(listed.len(), 1, "{listed:#?}");
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&up.run.as_str().into(), &"up".into()));
    assert_eq!(listed[0]["up"]["snapshot"], id);
    assert!(listed[0]["memory_bytes"].as_u64().unwrap() > 1 << 20 && listed[0]["disk_bytes"].as_u64().unwrap() > 1 << 12);
    let page = text(&host.run(&["scratch", "list"], 0).stdout);
    for part in [up.run.as_str(), up.kubeconfig.to_str().unwrap(), "scratch down", &up.address] {
        assert!(page.contains(part), "{part}: {page}");
    }

    // A copy still names the address: the door is closed, not only the file gone.
    let copy = tempfile::NamedTempFile::new().unwrap();
    fs::copy(&up.kubeconfig, copy.path()).unwrap();
    let ended = host.json(&["scratch", "down", &up.run], 0);
    assert_eq!((&ended["ended"][0]["name"], &ended["ended"][0]["killed"]), (&up.run.as_str().into(), &false.into()));
    assert!(!up.kubeconfig.exists() && !up.kubeconfig.parent().unwrap().exists() && !up.directory.exists());
    let after = kubectl(copy.path(), &["get", "secrets", "-A"]);
    assert!(!after.status.success() && text(&after.stderr).contains("refused"), "{}", text(&after.stderr));
    host.scene.nothing_is_left();
    assert_eq!(host.list(), Vec::<Value>::new());
    host.refuses(&["scratch", "down", &up.run], 2, "scratch.unknown");
}

/// `namespace/name`.
fn key(object: &Value) -> String {
    format!("{}/{}", object["metadata"]["namespace"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
}

#[test]
fn etcd_alone_answers_etcdctl_with_the_certificates_that_are_printed() {
    let host = Host::new();
    for fence in [true, false] {
        let config = host.config();
        let text_of = fs::read_to_string(&config).unwrap();
        if !fence {
            fs::write(&config, text_of.replace("[rehearsal]\n", "[rehearsal]\nfence = false\n")).unwrap();
        }
        let printed = text(&host.run(&["restore", source().first.id.as_str(), "--into", "scratch", "--to", "boot"], 0).stdout);
        let mut etcdctl = program(provided("etcdctl").to_str().unwrap());
        for line in printed.lines().filter_map(|line| line.trim().strip_prefix("export ")) {
            let (name, value) = line.split_once('=').unwrap();
            etcdctl.env(name, value);
        }
        let output = etcdctl.args(["get", "/registry/secrets/", "--prefix", "--keys-only"]).output().unwrap();
        let keys = text(&output.stdout);
        let found = keys.lines().filter(|line| line.starts_with("/registry/secrets/")).count();
        assert_eq!(found, source().secrets, "{}", text(&output.stderr));
        // Nobody else is let in.
        let mut other = program(provided("etcdctl").to_str().unwrap());
        let address = printed.lines().find_map(|line| line.trim().strip_prefix("export ETCDCTL_ENDPOINTS=")).unwrap();
        other.args(["--endpoints", address, "--insecure-skip-tls-verify", "--command-timeout=5s", "get", "/"]);
        assert!(!other.output().unwrap().status.success());
        host.run(&["scratch", "down"], 0);
        host.scene.nothing_is_left();
    }
}

#[test]
fn the_key_of_a_kubeconfig_is_in_no_output_argument_or_file_but_its_home() {
    let host = Host::new();
    let output = host.run(&["restore", source().first.id.as_str(), "--into", "scratch", "--json"], 0);
    let up = Up::of(&serde_json::from_slice(&output.stdout).unwrap());
    let kubeconfig = fs::read_to_string(&up.kubeconfig).unwrap();
    let key = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ")).unwrap();
    let pem = data_encoding::BASE64.decode(key.as_bytes()).unwrap();
    let body = text(&pem).lines().nth(1).unwrap().to_owned();
    let holds = |bytes: &[u8]| [key, body.as_str()].iter().any(|secret| text(bytes).contains(secret));
    assert!(holds(kubeconfig.as_bytes()), "the search finds it at home");
    assert!(!holds(&output.stdout) && !holds(&output.stderr));
    assert!(!holds(&host.run(&["scratch", "list"], 0).stdout) && !holds(&host.run(&["scratch", "list", "--json"], 0).stdout));
    for file in crate::scene::files(host.scene.root.path()) {
        assert!(!holds(&fs::read(&file).unwrap_or_default()), "{}", file.display());
    }
    for (program, identity) in up.processes().into_iter().chain([("supervisor".to_owned(), up.supervisor())]) {
        for part in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{}/{part}", identity.pid)).unwrap_or_default();
            assert!(!holds(&bytes), "{part} of {program}");
        }
    }
    host.run(&["scratch", "down"], 0);
}
