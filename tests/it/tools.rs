//! `tools/provide` on a bare machine: a PATH with little on it, an empty cache,
//! and a stand-in server for the official archives. The stand-in Go "builds" a
//! program that prints the version it was asked for.
#![allow(clippy::disallowed_methods, reason = "the script under test is run as a developer would run it")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
const TOOLS: [&str; 6] = ["etcd", "etcdctl", "etcdutl", "kube-apiserver", "kubectl", "versitygw"];

/// What the script itself is written with; every bare Debian has it, curl and xz apart.
const BASE: [&str; 22] = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "curl",
    "cut",
    "dirname",
    "env",
    "gzip",
    "id",
    "mkdir",
    "mktemp",
    "mv",
    "readlink",
    "rm",
    "sed",
    "sha256sum",
    "sh",
    "tar",
    "timeout",
    "uname",
    "xz",
];

/// What the packages bring, as empty stand-ins.
const PACKAGED: [&str; 10] = ["age", "cc", "ip", "nsenter", "protoc", "ps", "ssh-keygen", "systemd-analyze", "unshare", "zstd"];

#[test]
fn a_bare_machine_gets_toolchains_and_tools_once() {
    let machine = Machine::with_archives();
    let first = machine.provide(&[]);
    assert_eq!(first.code, 0, "{}", first.text);
    for what in [
        "fetch rust 1.95.0",
        "fetch go ",
        "build etcd 3.6.",
        "build etcdctl 3.6.",
        "build etcdutl 3.6.",
        "build kube-apiserver 1.34.",
        "build kubectl 1.34.",
        "build versitygw 1.8.",
    ] {
        assert!(
            first.text.lines().any(|line| line.starts_with(what) && line.ends_with(" s")),
            "no time for {what}: {}",
            first.text
        );
    }
    for tool in TOOLS {
        assert!(machine.cached_tool(tool).is_some(), "{tool} is not in the cache");
    }
    let requests = machine.server.requests().len();

    let second = machine.provide(&[]);
    assert_eq!(second.code, 0, "{}", second.text);
    assert!(!second.text.contains("fetch ") && !second.text.contains("build "), "{}", second.text);
    assert_eq!(machine.server.requests().len(), requests, "nothing is fetched twice");
    assert_eq!(machine.staging_left(), 0);
}

#[test]
fn the_environment_names_the_toolchains_that_were_fetched() {
    let machine = Machine::with_archives();
    assert_eq!(machine.provide(&["--env"]).text, "", "an empty cache adds nothing to PATH");
    assert_eq!(machine.provide(&[]).code, 0);
    let environment = machine.provide(&["--env"]).text;
    assert!(environment.starts_with("export PATH=") && environment.trim_end().ends_with("\"$PATH\""), "{environment}");
    for program in ["rustc --version", "cargo --version", "go version"] {
        let output = machine.shell(&format!("{environment} {program}"));
        assert_eq!(output.code, 0, "{program}: {}", output.text);
    }
}

#[test]
fn compiling_alone_needs_no_go_and_no_tools() {
    let machine = Machine::with_archives();
    let output = machine.provide(&["--build"]);
    assert_eq!(output.code, 0, "{}", output.text);
    assert!(machine.server.requests().iter().all(|path| path.starts_with("/rust-")), "{:?}", machine.server.requests());
}

#[test]
fn an_archive_with_another_digest_is_refused_and_leaves_nothing() {
    for toolchain in ["rust-", "go1"] {
        let machine = Machine::with_archives();
        machine.server.corrupt(toolchain);
        let output = machine.provide(&[]);
        assert_eq!(output.code, 2, "{}", output.text);
        assert!(
            output.text.contains("is missing, and http://") && output.text.contains("is refused: its sha256 is"),
            "{}",
            output.text
        );
        assert!(machine.cached().iter().all(|name| !name.starts_with(&toolchain[..2])), "{:?}", machine.cached());
        assert_eq!(machine.staging_left(), 0);
    }
}

#[test]
fn an_absent_server_names_what_is_missing_and_stops() {
    let machine = Machine::with_archives();
    machine.server.withdraw("go1");
    let output = machine.provide(&[]);
    assert_eq!(output.code, 2, "{}", output.text);
    assert!(output.text.contains("go 1.") && output.text.contains("cannot be fetched: install it yourself"), "{}", output.text);

    let unreachable = machine.provide_from("http://127.0.0.1:1", &[]);
    assert_eq!(unreachable.code, 2, "{}", unreachable.text);
    assert!(unreachable.text.contains("cannot be fetched: install it yourself"), "{}", unreachable.text);
    assert_eq!(machine.staging_left(), 0);
}

#[test]
fn an_archive_without_a_pinned_digest_is_never_fetched() {
    let machine = Machine::with_archives();
    let pins = machine.repository().join("tools/toolchains.sha256");
    let without_rust: String = fs::read_to_string(&pins)
        .unwrap()
        .lines()
        .filter(|line| !line.contains("rust-"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&pins, without_rust).unwrap();
    let output = machine.provide(&["--build"]);
    assert_eq!(output.code, 2, "{}", output.text);
    assert!(output.text.contains("rust 1.95.0 is missing, and tools/toolchains.sha256 pins no digest"), "{}", output.text);
    assert_eq!(machine.server.requests(), Vec::<String>::new());
}

#[test]
fn missing_packages_are_named_without_root() {
    let machine = Machine::with_archives();
    machine.remove_program("age");
    machine.remove_program("ip");
    machine.program("id", "echo 1000");
    machine.program("apt-get", "echo must not run; exit 1");
    let output = machine.provide(&[]);
    assert_eq!(output.code, 2, "{}", output.text);
    assert!(output.text.contains("missing: age iproute2;"), "{}", output.text);
    assert_eq!(machine.cached(), Vec::<String>::new(), "nothing was begun");
}

#[test]
fn missing_packages_are_installed_by_root() {
    let machine = Machine::with_archives();
    machine.remove_program("age");
    machine.program("id", "echo 0");
    let age = machine.bin().join("age");
    machine.program(
        "apt-get",
        &format!("[[ $* != *install* ]] || {{ [[ $* == *' age' ]] && printf '' >{0} && chmod +x {0}; }}", age.display()),
    );
    let output = machine.provide(&["--build"]);
    assert_eq!(output.code, 0, "{}", output.text);
    assert!(output.text.contains("install age: "), "{}", output.text);
}

#[test]
fn a_package_that_apt_does_not_bring_stops_the_command() {
    let machine = Machine::with_archives();
    machine.remove_program("zstd");
    machine.program("id", "echo 0");
    machine.program("apt-get", "exit 0");
    let silent = machine.provide(&[]);
    assert_eq!((silent.code, silent.text.contains("still missing after apt-get install: zstd")), (2, true), "{}", silent.text);
    machine.program("apt-get", "exit 100");
    let failing = machine.provide(&[]);
    assert_eq!((failing.code, failing.text.contains("these packages are missing: zstd")), (2, true), "{}", failing.text);
}

#[test]
fn a_fitting_program_is_used_and_another_version_is_not() {
    let machine = Machine::with_archives();
    let chosen = machine.root.path().join("chosen");
    fs::create_dir(&chosen).unwrap();
    script(&chosen.join("etcd"), "echo etcd Version: 3.6.4");
    script(&chosen.join("etcdctl"), "echo etcdctl version: 3.5.9");
    machine.program("etcdctl", "echo etcdctl version: 3.6.8");
    machine.program("etcdutl", "echo etcdutl version: 3.7.0");
    let output = machine.provide_with_tools(&chosen);
    assert_eq!(output.code, 0, "{}", output.text);
    assert!(output.text.contains(&format!("etcd 3.6.4: {}", chosen.join("etcd").display())), "{}", output.text);
    assert!(output.text.contains(&format!("etcdctl 3.6.8: {}", machine.bin().join("etcdctl").display())), "{}", output.text);
    assert!(output.text.contains("does not fit, 3.6 is needed"), "{}", output.text);
    assert_eq!(TOOLS.map(|tool| machine.cached_tool(tool).is_some()), [false, false, true, true, true, true]);
}

#[test]
fn a_build_that_fails_or_lies_leaves_no_program() {
    for (build, message) in [
        ("exit 1", "etcd 3.6.16 cannot be built"),
        ("printf '#!/usr/bin/env bash\necho 9.9.9' >\"$out\"; chmod +x \"$out\"", "does not say that it is"),
    ] {
        let machine = Machine::with_archives();
        machine.program("go", &go_stand_in(build));
        let output = machine.provide(&[]);
        assert_eq!((output.code, output.text.contains(message)), (2, true), "{}", output.text);
        assert_eq!((machine.cached_tool("etcd"), machine.staging_left()), (None, 0));
    }
}

#[test]
fn builds_leave_the_pinning_files_alone() {
    let machine = Machine::with_archives();
    let before = machine.pinning_files();
    assert_eq!(machine.provide(&[]).code, 0);
    assert_eq!(machine.pinning_files(), before);
}

#[test]
fn continuous_integration_runs_three_parts_and_says_how_long_each_took() {
    let machine = Machine::with_archives();
    machine.program("make", "echo \"making $1\"");
    let output = machine.continuous_integration();
    assert_eq!(output.code, 0, "{}", output.text);
    let made: Vec<&str> = output.text.lines().filter(|line| line.starts_with("making ")).collect();
    assert_eq!(made, ["making tools", "making lint", "making test"]);
    for part in [" s  make tools", " s  make lint", " s  make test", " s  in all"] {
        assert!(output.text.lines().any(|line| line.ends_with(part)), "no time for{part}: {}", output.text);
    }
}

#[test]
fn continuous_integration_stops_at_the_first_failure() {
    let machine = Machine::with_archives();
    machine.program("make", "echo \"making $1\"; [[ $1 != lint ]] || exit 7");
    let output = machine.continuous_integration();
    assert_eq!(output.code, 7, "{}", output.text);
    assert!(!output.text.contains("making test"), "{}", output.text);
    assert!(output.text.contains(" s  make lint (exit 7)") && output.text.contains(" s  in all"), "{}", output.text);
}

#[test]
fn every_archive_is_pinned_for_both_architectures() {
    let pins = fs::read_to_string(Path::new(REPOSITORY).join("tools/toolchains.sha256")).unwrap();
    let toolchain = fs::read_to_string(Path::new(REPOSITORY).join("rust-toolchain.toml")).unwrap();
    let toolchain: toml::Table = toml::from_str(&toolchain).unwrap();
    let rust = toolchain["toolchain"]["channel"].as_str().unwrap();
    let mut names: Vec<&str> = Vec::new();
    for line in pins.lines() {
        let (digest, name) = line.split_once("  ").unwrap();
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        names.push(name);
    }
    let go = names.iter().find_map(|name| name.strip_suffix(".linux-amd64.tar.gz")).unwrap();
    for wanted in [
        format!("{go}.linux-arm64.tar.gz"),
        format!("rust-{rust}-x86_64-unknown-linux-gnu.tar.xz"),
        format!("rust-{rust}-aarch64-unknown-linux-gnu.tar.xz"),
    ] {
        assert!(names.contains(&wanted.as_str()), "no digest of {wanted}");
    }
}

struct Output {
    code: i32,
    /// Standard output, then standard error.
    text: String,
}

/// A machine with nothing but the base programs, in one temporary directory.
struct Machine {
    root: TempDir,
    server: ArchiveServer,
}

impl Machine {
    /// All packages are there, both archives can be fetched, the cache is empty.
    fn with_archives() -> Self {
        let root = tempfile::tempdir().unwrap();
        let machine = Self { server: ArchiveServer::start(root.path().join("served")), root };
        for directory in ["bin", "cache", "include/google/protobuf"] {
            fs::create_dir_all(machine.root.path().join(directory)).unwrap();
        }
        for program in BASE {
            symlink(find_on_path(program), machine.bin().join(program)).unwrap();
        }
        for program in PACKAGED {
            machine.program(program, "exit 0");
        }
        fs::write(machine.root.path().join("include/google/protobuf/descriptor.proto"), "").unwrap();
        machine.copy_scripts();
        machine.pack_archives();
        machine
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    fn repository(&self) -> PathBuf {
        self.root.path().join("repository")
    }

    fn copy_scripts(&self) {
        for name in PINNING_FILES.iter().chain(&["tools/provide", "tools/toolchains.sha256", "rust-toolchain.toml", ".ci/run"]) {
            let copy = self.repository().join(name);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(Path::new(REPOSITORY).join(name), copy).unwrap();
        }
    }

    /// Packs stand-ins under the pinned names and pins their digests instead.
    fn pack_archives(&self) {
        let pins_path = self.repository().join("tools/toolchains.sha256");
        let mut pins = String::new();
        for name in fs::read_to_string(&pins_path).unwrap().lines().map(|line| line.split_once("  ").unwrap().1.to_string()) {
            let tree = self.root.path().join("tree");
            if name.starts_with("go") {
                script(&tree.join("go/bin/go"), &go_stand_in(GO_BUILD));
            } else {
                script(&tree.join(name.trim_end_matches(".tar.xz")).join("install.sh"), RUST_INSTALLER);
            }
            let archive = self.server.directory.join(&name);
            let status = Command::new("tar").arg("-caf").arg(&archive).arg("-C").arg(&tree).arg(".").status().unwrap();
            assert!(status.success());
            let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(fs::read(&archive).unwrap()));
            pins.push_str(&format!("{digest}  {name}\n"));
            fs::remove_dir_all(tree).unwrap();
        }
        fs::write(pins_path, pins).unwrap();
    }

    fn program(&self, name: &str, body: &str) {
        script(&self.bin().join(name), body);
    }

    fn remove_program(&self, name: &str) {
        fs::remove_file(self.bin().join(name)).unwrap();
    }

    fn provide(&self, arguments: &[&str]) -> Output {
        self.provide_from(&self.server.url, arguments)
    }

    fn provide_from(&self, url: &str, arguments: &[&str]) -> Output {
        run(self
            .command()
            .arg(self.repository().join("tools/provide"))
            .args(arguments)
            .env("HOLDFAST_GO_URL", url)
            .env("HOLDFAST_RUST_URL", url))
    }

    fn provide_with_tools(&self, tools: &Path) -> Output {
        let url = &self.server.url;
        run(self
            .command()
            .arg(self.repository().join("tools/provide"))
            .env("HOLDFAST_TOOLS", tools)
            .env("HOLDFAST_GO_URL", url)
            .env("HOLDFAST_RUST_URL", url))
    }

    fn continuous_integration(&self) -> Output {
        run(self.command().arg(self.repository().join(".ci/run")))
    }

    fn shell(&self, line: &str) -> Output {
        run(self.command().arg("-c").arg(line))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.bin().join("bash"));
        command
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.root.path())
            .env("XDG_CACHE_HOME", self.root.path().join("cache"))
            .env("SSL_CERT_FILE", "/dev/null")
            .stdin(std::process::Stdio::null());
        command
    }

    fn cache(&self) -> PathBuf {
        self.root.path().join("cache/holdfast/tools")
    }

    /// The names of finished directories in the tools cache.
    fn cached(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.cache()) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| !name.starts_with('.')).collect()
    }

    fn cached_tool(&self, name: &str) -> Option<PathBuf> {
        let prefix = format!("{name}-");
        let directory = self.cached().into_iter().find(|entry| entry.starts_with(&prefix))?;
        Some(self.cache().join(directory).join(name)).filter(|path| path.exists())
    }

    fn staging_left(&self) -> usize {
        let Ok(entries) = fs::read_dir(self.cache()) else { return 0 };
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.')).count()
    }

    fn pinning_files(&self) -> Vec<Vec<u8>> {
        PINNING_FILES.iter().map(|name| fs::read(self.repository().join(name)).unwrap()).collect()
    }
}

const PINNING_FILES: [&str; 6] = [
    "tools/etcd/go.mod",
    "tools/etcd/go.sum",
    "tools/kubernetes/go.mod",
    "tools/kubernetes/go.sum",
    "tools/versitygw/go.mod",
    "tools/versitygw/go.sum",
];

/// Writes a program that prints the version pinned by the go.mod beside it.
const GO_BUILD: &str = r#"version=$(sed -nE 's/^.*(server\/v3|require k8s.io\/kubernetes|require github.com\/versity\/versitygw) v([0-9.]+)$/\2/p' go.mod)
printf '#!/usr/bin/env bash\necho version: %s\n' "$version" >"$out"
chmod +x "$out""#;

/// A Go that insists on how builds must be run, then runs `build` with `out` set.
fn go_stand_in(build: &str) -> String {
    format!(
        r#"case $1 in
  version) echo 'go version go1.26.8 linux/amd64' ;;
  list) [[ -f go.mod ]] ;;
  build)
    [[ $CGO_ENABLED == 0 && $GOWORK == off && $* == *' -mod=readonly -trimpath '* ]] || exit 3
    while [[ $1 != -o ]]; do shift; done
    out=$2
    {build} ;;
esac"#
    )
}

/// Takes the options of the official installer and no others.
const RUST_INSTALLER: &str = r#"[[ $1 == --prefix=* && $2 == --disable-ldconfig && $3 == --components=rustc,cargo,rust-std-*-unknown-linux-gnu,rustfmt-preview,clippy-preview ]] || exit 3
bin=${1#--prefix=}/bin
mkdir -p "$bin"
for program in rustc cargo rustfmt cargo-clippy; do
  printf '#!/usr/bin/env bash\necho %s 1.95.0 "(stand-in)"\n' "$program" >"$bin/$program"
  chmod +x "$bin/$program"
done"#;

fn script(path: &Path, body: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // A link to the real program may be in the way: never write through it.
    let _ = fs::remove_file(path);
    fs::write(path, format!("#!/usr/bin/env bash\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Output { code: output.status.code().unwrap(), text }
}

fn find_on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|directory| directory.join(program)).find(|candidate| candidate.exists());
    found.unwrap_or_else(|| panic!("{program} is missing: run make tools"))
}

/// Serves one directory over HTTP on loopback until dropped.
struct ArchiveServer {
    url: String,
    directory: PathBuf,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ArchiveServer {
    fn start(directory: PathBuf) -> Self {
        fs::create_dir_all(&directory).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let server = Self { url, directory: directory.clone(), requests: Arc::clone(&requests) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(path) = answer(stream, &directory) else { break };
                requests.lock().unwrap().push(path);
            }
        });
        server
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn corrupt(&self, prefix: &str) {
        self.each(prefix, |path| fs::write(path, "not the archive that was pinned").unwrap());
    }

    fn withdraw(&self, prefix: &str) {
        self.each(prefix, |path| fs::remove_file(path).unwrap());
    }

    fn each(&self, prefix: &str, change: impl Fn(&Path)) {
        let mut changed = 0;
        for entry in fs::read_dir(&self.directory).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                change(&entry.path());
                changed += 1;
            }
        }
        assert!(changed > 0, "no archive begins with {prefix}");
    }
}

impl Drop for ArchiveServer {
    fn drop(&mut self) {
        // A connection without a request ends the accept loop.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

/// Answers one request and returns its path; none if there was no request.
fn answer(mut stream: TcpStream, directory: &Path) -> Option<String> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_string();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    // A client that hangs up early is the client's affair.
    let _ = match fs::read(directory.join(path.trim_start_matches('/'))) {
        Ok(body) => stream
            .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len()).as_bytes())
            .and_then(|()| stream.write_all(&body)),
        Err(_) => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    };
    Some(path)
}
