//! What `make demo` shows, in order. Every command is the program itself.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::rig::{self, Rig, Tools};
use super::site::{self, Site};
use super::telling::Telling;
use super::workload;
use crate::base::clock::Clock;
use crate::base::codes;
use crate::base::entropy::Entropy;
use crate::base::exit::Exit;
use crate::base::failure::Failure;
use crate::base::ids::Fingerprint;
use crate::base::secret::Secret;
use crate::k8s::encryption_config::{EncryptionConfig, Provider, Rule};
use crate::k8s::local_key::{LocalKey, LocalProvider};
use crate::sandbox::{Command, Fencing, Places, Process, Sandbox};

/// How often the output of a running command is shown.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// What an interrupted step may take to end by itself.
const INTERRUPTION_LIMIT: Duration = Duration::from_secs(30);

/// Where and how the demo runs.
#[derive(Debug)]
pub struct Demo {
    /// Absent or empty when it begins.
    pub folder: PathBuf,
    /// Keep the cluster's data, the stores, keys and configurations, too.
    pub keep: bool,
    /// Tell the story to programs.
    pub json: bool,
    /// The program to show.
    pub program: PathBuf,
    pub places: Places,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

/// Runs the whole story. The reports stay in `folder/reports`.
///
/// # Errors
/// `demo.unexpected` when a command did not end as it should: then the folder
/// stays as it is for whoever looks into it. `interrupted` when `cancel` says
/// so: then only the reports stay. No process is left either way.
pub async fn run(demo: &Demo, out: &mut dyn Write, cancel: CancellationToken) -> Result<Exit, Failure> {
    let tools = Tools::find(&demo.places).await?;
    prepare(&demo.folder)?;
    // Declared first, so that it is dropped after all that runs has ended.
    let mut litter = Litter { folder: &demo.folder, keep: demo.keep };
    let mut tale = Tale { telling: Telling { out, json: demo.json }, commands: None, demo, cancel: cancel.clone() };
    tale.telling.said(&format!("holdfast demo: everything lies in {}", demo.folder.display()))?;
    let mut rig = Rig::start(&demo.folder.join("production"), tools.clone(), demo.clock.now()).await?;
    tale.commands = Some(Sandbox::up(&demo.folder.join("commands"), "demo", Fencing::Never).await?);
    let told = {
        let telling = tale.tell(&mut rig, &tools);
        tokio::pin!(telling);
        tokio::select! {
            told = &mut telling => told,
            // A command that runs tears down what it made before it ends.
            () = cancel.cancelled() => {
                tokio::time::timeout(INTERRUPTION_LIMIT, &mut telling).await.unwrap_or_else(|_| Err(interrupted()))
            }
        }
    };
    if let Some(commands) = tale.commands.take() {
        commands.down().await?;
    }
    rig.stop().await?;
    tale.collect_reports()?;
    if let Err(failure) = &told {
        // Whoever looks for the reason finds everything where it was.
        litter.keep |= failure.code() != &codes::INTERRUPTED;
    }
    told?;
    tale.end()?;
    Ok(Exit::Good)
}

/// What a demo leaves when it ends or is interrupted: its reports, unless all is kept.
struct Litter<'a> {
    folder: &'a Path,
    keep: bool,
}

impl Drop for Litter<'_> {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let reports = self.folder.join("reports");
        for entry in fs::read_dir(self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // What cannot be removed is the demo's own folder, which it named.
            let _ = match path == reports {
                true => Ok(()),
                false if path.is_dir() => fs::remove_dir_all(path),
                false => fs::remove_file(path),
            };
        }
        // Empty where no rehearsal came to its report.
        let _ = fs::remove_dir(&reports).and_then(|()| fs::remove_dir(self.folder));
    }
}

fn prepare(folder: &Path) -> Result<(), Failure> {
    let used = |cause: &str| Failure::new(&codes::DEMO_DIRECTORY, folder.display(), cause);
    match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(true) => return Err(used("it is not empty")),
        Ok(false) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(used(&error.to_string())),
    }
    rig::make_folder(folder)?;
    rig::make_folder(&folder.join("reports"))
}

struct Tale<'a> {
    telling: Telling<'a>,
    commands: Option<Sandbox>,
    demo: &'a Demo,
    cancel: CancellationToken,
}

/// The keys of the story, and where key1 lies in escrow.
struct Keys {
    key1: LocalKey,
    key2: LocalKey,
}

impl Tale<'_> {
    async fn tell(&mut self, rig: &mut Rig, tools: &Tools) -> Result<(), Failure> {
        let keys = Keys { key1: self.make_key("key1")?, key2: self.make_key("key2")? };
        self.telling.chapter("A Kubernetes API server with encryption at rest (aescbc, key1), on a real etcd")?;
        rig.serve(&encryption(vec![keys.key1.clone()])).await?;
        let written = workload::write(&rig.client()?, self.demo.entropy.as_ref()).await?;
        self.telling.said(&format!(
            "wrote {} namespaces, {} Secrets and as many ConfigMaps",
            workload::NAMESPACES.len(),
            written.len()
        ))?;
        let site = Site::build(&self.demo.folder, rig, &self.link_tools(tools)?, self.demo.entropy.as_ref())?;

        self.telling.chapter("A snapshot: sealed, its key in escrow, its manifest signed")?;
        self.expect(&site, site::CONTROL_PLANE, &["snapshot"], Exit::Good).await?;

        self.telling.chapter("The key is rotated to key2, and half of the Secrets are rewritten")?;
        rig.serve(&encryption(vec![keys.key2.clone(), keys.key1.clone()])).await?;
        let rewritten = workload::rewrite_half(&rig.client()?).await?;
        self.telling.said(&format!("rewrote {rewritten} of {} Secrets", written.len()))?;
        self.expect(&site, site::CONTROL_PLANE, &["snapshot"], Exit::Good).await?;

        self.telling.chapter("What each snapshot needs, and what still hangs on key1")?;
        self.expect(&site, site::REHEARSAL, &["list"], Exit::Good).await?;
        self.expect(&site, site::REHEARSAL, &["show", "latest"], Exit::Good).await?;

        self.telling.chapter("Both snapshots are rehearsed, on another host, with keys from escrow alone")?;
        let [older, newer] = self.snapshots(&site)?;
        self.expect(&site, site::REHEARSAL, &["rehearse", &older, "--to", "serve"], Exit::Good).await?;
        self.expect(&site, site::REHEARSAL, &["rehearse", &newer, "--to", "serve"], Exit::Good).await?;

        self.telling
            .chapter("The failure that holdfast exists to catch: the image is whole, and key1's escrow record is gone")?;
        let withheld = withhold(&site, keys.key1.fingerprint())?;
        let failed = self.expect(&site, site::REHEARSAL, &["rehearse", &newer, "--to", "serve"], Exit::Bad).await;
        withheld.put_back()?;
        failed?;
        self.expect(&site, site::REHEARSAL, &["list"], Exit::Good).await
    }

    fn make_key(&self, name: &str) -> Result<LocalKey, Failure> {
        let mut material = vec![0; 32];
        self.demo.entropy.fill(&mut material);
        LocalKey::new(LocalProvider::Aescbc, name, Secret::new(material))
            .map_err(|error| Failure::because(&codes::DEMO_UNEXPECTED, name, &error))
    }

    /// A directory with the programs found, for the rehearsal host's configuration.
    fn link_tools(&self, tools: &Tools) -> Result<PathBuf, Failure> {
        let folder = self.demo.folder.join("tools");
        rig::make_folder(&folder)?;
        for (name, found) in [("etcd", &tools.etcd), ("etcdutl", &tools.etcdutl), ("kube-apiserver", &tools.apiserver)] {
            std::os::unix::fs::symlink(&found.path, folder.join(name))
                .map_err(|error| Failure::because(&codes::DEMO_DIRECTORY, folder.display(), &error))?;
        }
        Ok(folder)
    }

    /// Runs the program as `host` would, shows what it prints, and checks how it ends.
    async fn expect(&mut self, site: &Site, host: &str, arguments: &[&str], exit: Exit) -> Result<(), Failure> {
        self.telling.command(host, arguments)?;
        let commands = self.commands.as_ref().ok_or_else(|| unexpected("demo", "it is over"))?;
        let config = site.config(host).display().to_string();
        let command = Command::new("holdfast", &self.demo.program).args(["--config", &config]).args(arguments.iter().copied());
        let mut process = commands.start(command).await?;
        let cancel = self.cancel.clone();
        let code = tokio::select! {
            code = self.follow(&mut process) => code?,
            () = cancel.cancelled() => {
                process.stop().await?;
                return Err(interrupted());
            }
        };
        self.telling.ended(code)?;
        if code == Some(exit as i32) {
            return Ok(());
        }
        Err(unexpected(
            &format!("holdfast {}", arguments.join(" ")),
            &format!("it should have ended with exit code {}", exit as i32),
        ))
    }

    async fn follow(&mut self, process: &mut Process) -> Result<Option<i32>, Failure> {
        let mut log = fs::File::open(process.log()).map_err(|e| unexpected("log", &e.to_string()))?;
        let mut text = Vec::new();
        loop {
            let ended = tokio::time::timeout(FOLLOW_INTERVAL, process.wait()).await;
            log.read_to_end(&mut text).map_err(|e| unexpected("log", &e.to_string()))?;
            let lines = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            let whole = if ended.is_ok() { text.len() } else { lines };
            self.telling.output(&String::from_utf8_lossy(&text.drain(..whole).collect::<Vec<_>>()))?;
            if let Ok(status) = ended {
                return Ok(status?.code());
            }
        }
    }

    /// Older and newer snapshot, by their names in the store.
    fn snapshots(&self, site: &Site) -> Result<[String; 2], Failure> {
        let mut ids = Vec::new();
        for lineage in folders(&site.store("snapshots").join("holdfast").join(site::CLUSTER))? {
            ids.extend(folders(&lineage)?.iter().filter_map(|f| Some(f.file_name()?.to_str()?.to_owned())));
        }
        ids.sort();
        ids.try_into().map_err(|ids: Vec<_>| unexpected("snapshots", &format!("expected two, found {}", ids.len())))
    }

    /// Copies the reports of the rehearsal host, as many as there are.
    fn collect_reports(&mut self) -> Result<(), Failure> {
        let from = Site::at(&self.demo.folder).host(site::REHEARSAL).join("state").join("reports");
        let to = self.demo.folder.join("reports");
        for entry in fs::read_dir(&from).into_iter().flatten().flatten() {
            fs::copy(entry.path(), to.join(entry.file_name()))
                .map_err(|e| Failure::because(&codes::DEMO_DIRECTORY, to.display(), &e))?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.telling.chapter("All went as expected. The reports, newest last")?;
        let reports = self.demo.folder.join("reports");
        let mut pages: Vec<_> = fs::read_dir(&reports).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        pages.sort();
        for page in pages.iter().filter(|page| page.extension().is_some_and(|e| e == "html")) {
            self.telling.report(page)?;
        }
        if self.demo.keep {
            self.telling.kept(&self.demo.folder)?;
        }
        Ok(())
    }
}

fn encryption(keys: Vec<LocalKey>) -> EncryptionConfig {
    let providers = Provider::of_keys(keys).into_iter().chain([Provider::Identity]).collect();
    EncryptionConfig { rules: vec![Rule { resources: vec!["secrets".to_owned()], providers }] }
}

/// A key's escrow records, moved out of the store.
struct Withheld {
    place: PathBuf,
    aside: PathBuf,
}

fn withhold(site: &Site, fingerprint: &Fingerprint) -> Result<Withheld, Failure> {
    let place = site.store("escrow").join("holdfast").join(site::CLUSTER).join("keys").join(fingerprint.as_str());
    let aside = site.host(site::CONTROL_PLANE).join("withheld");
    let withheld = Withheld { place, aside };
    fs::rename(&withheld.place, &withheld.aside)
        .map_err(|error| Failure::because(&codes::DEMO_UNEXPECTED, withheld.place.display(), &error))?;
    Ok(withheld)
}

impl Withheld {
    fn put_back(self) -> Result<(), Failure> {
        fs::rename(&self.aside, &self.place)
            .map_err(|error| Failure::because(&codes::DEMO_UNEXPECTED, self.place.display(), &error))
    }
}

fn folders(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(path).map_err(|e| Failure::because(&codes::DEMO_UNEXPECTED, path.display(), &e))?;
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

fn interrupted() -> Failure {
    Failure::new(&codes::INTERRUPTED, "holdfast demo", "interrupted; its reports stay, and nothing else")
        .next("run it again, in another directory")
}

fn unexpected(object: &str, cause: &str) -> Failure {
    Failure::new(&codes::DEMO_UNEXPECTED, object, cause)
}
