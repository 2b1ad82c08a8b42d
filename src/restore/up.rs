//! What is up on this host, and what a crash left: the directories below
//! `rehearsal.scratch_dir`, and in each the note that its supervisor wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::codes;
use crate::base::failure::Failure;
use crate::base::units::count;
use crate::rehearsal::standing::{Access, NAME};
use crate::sandbox::scratch::{self, Inhabited};

/// In the scratch directory, mode 0600; there when the cluster answers.
const NOTE: &str = "up.json";
/// A note is a few hundred bytes.
const NOTE_LIMIT: u64 = 64 << 10;
/// Two programs with ten seconds each to end, on a busy host.
const DOWN_LIMIT: Duration = Duration::from_secs(90);
/// A killed process is gone when the kernel has closed its files.
const KILL_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// What the supervisor of a cluster that answers says of it. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub run: String,
    pub snapshot: String,
    /// Where it came from a file.
    pub file: Option<PathBuf>,
    pub cluster: String,
    pub rung: String,
    /// RFC 3339, UTC.
    pub since: String,
    /// `https://127.0.0.1:PORT`: of the API server, else of etcd.
    pub address: String,
    /// In memory, never on a disk; null where there is no API server.
    pub kubeconfig: Option<PathBuf>,
    /// For etcdctl, where there is no API server: its authority, certificate and key.
    pub etcdctl: Option<[PathBuf; 3]>,
    /// When the certificates run out.
    pub not_after: String,
    /// What keeps it from the world.
    pub fence: String,
}

/// One directory, looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scratch {
    /// The run's id; of what is no run, the directory's own name.
    pub name: String,
    pub state: State,
    pub directory: PathBuf,
    /// The process that keeps it, if it lives.
    pub supervisor: Option<i32>,
    /// Null until the cluster answers.
    pub up: Option<Note>,
    /// Programs that run in it.
    pub running: Vec<String>,
    /// Programs that ran in it and have ended.
    pub ended: Vec<String>,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// A restored cluster that answers.
    Up,
    /// A program of a restored cluster has ended by itself.
    Broken,
    /// A restore that is not there yet.
    Climbing,
    /// A rehearsal or another run at work; it tears itself down.
    Busy,
    /// Its process was killed: what it left waits to be removed.
    Leftover,
}

/// How something came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ended {
    pub name: String,
    pub directory: PathBuf,
    pub state: State,
    /// The supervisor did not end when asked to, and was killed.
    pub killed: bool,
}

impl Note {
    /// What is to be said of a cluster that answers.
    #[must_use]
    pub fn access(mut self, access: &Access) -> Self {
        match access {
            Access::Kubernetes { address, kubeconfig, not_after } => {
                (self.address, self.not_after) = (address.clone(), not_after.clone());
                self.kubeconfig = Some(kubeconfig.clone());
            }
            Access::Etcd { address, authority, certificate, key, not_after } => {
                (self.address, self.not_after) = (address.clone(), not_after.clone());
                self.etcdctl = Some([authority.clone(), certificate.clone(), key.clone()]);
            }
        }
        self
    }

    /// Leaves it in the scratch directory, whole or not at all.
    ///
    /// # Errors
    /// `sandbox.failed`; no note is there then.
    pub fn leave(&self, directory: &Path) -> Result<(), Failure> {
        let failed = |e: &(dyn std::error::Error + 'static)| Failure::because(&codes::SANDBOX_FAILED, directory.display(), e);
        let text = serde_json::to_vec(self).map_err(|e| failed(&e))?;
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|e| failed(&e))?;
        std::io::Write::write_all(&mut file, &text).map_err(|e| failed(&e))?;
        file.persist(directory.join(NOTE)).map(drop).map_err(|e| failed(&e.error))
    }

    fn read(directory: &Path) -> Option<Self> {
        let path = directory.join(NOTE);
        // Somebody else's words, or half of ours, are no note.
        let short = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= NOTE_LIMIT);
        serde_json::from_slice(&fs::read(path).ok().filter(|_| short)?).ok()
    }
}

/// Everything of ours below the scratch root.
///
/// # Errors
/// `sandbox.failed` when it cannot be read.
pub fn list(root: &Path) -> Result<Vec<Scratch>, Failure> {
    Ok(scratch::inhabited(root)?.iter().map(look).collect())
}

fn look(found: &Inhabited) -> Scratch {
    let up = Note::read(&found.path);
    let (running, ended): (Vec<_>, Vec<_>) = found.processes.iter().partition(|child| child.identity.is_alive());
    let names = |children: &[&scratch::Recorded]| children.iter().map(|child| child.program.clone()).collect::<Vec<_>>();
    let run = found.name.strip_prefix(NAME);
    let runs = |program: &str| running.iter().any(|child| child.program == program);
    let is_broken = up.as_ref().is_some_and(|up| !runs("etcd") || (up.kubeconfig.is_some() && !runs("kube-apiserver")));
    let state = match (found.is_alive, run.is_some(), up.is_some()) {
        (false, ..) => State::Leftover,
        (true, false, _) => State::Busy,
        (true, true, false) => State::Climbing,
        (true, true, true) if is_broken => State::Broken,
        (true, true, true) => State::Up,
    };
    let supervisor = found.is_alive.then_some(found.owner);
    let memory = supervisor.iter().chain(running.iter().map(|child| &child.identity)).map(|process| process.memory()).sum();
    Scratch {
        name: run.unwrap_or(&found.name).to_owned(),
        state,
        directory: found.path.clone(),
        supervisor: supervisor.map(|owner| owner.pid),
        up,
        running: names(&running),
        ended: names(&ended),
        memory_bytes: memory,
        disk_bytes: disk(&found.path),
    }
}

/// What the files below a directory take, links not followed.
fn disk(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { disk(&entry.path()) } else { metadata.blocks().saturating_mul(512) })
    });
    sizes.sum()
}

/// Which of them `name` means: the start of a name, or the only one there is.
///
/// # Errors
/// `scratch.unknown` where none does, `scratch.ambiguous` where several do,
/// `scratch.busy` for a run at work, which ends itself.
pub fn choose(all: &[Scratch], name: Option<&str>) -> Result<Scratch, Failure> {
    let is_ours = |scratch: &&Scratch| match name {
        Some(name) => !name.is_empty() && scratch.name.starts_with(name),
        None => scratch.state != State::Busy,
    };
    let meant: Vec<_> = all.iter().filter(is_ours).collect();
    let object = name.unwrap_or("scratch environments");
    match meant.as_slice() {
        [] => Err(Failure::new(&codes::SCRATCH_UNKNOWN, object, "nothing of this name is up, and no leftover has it")),
        [one] if one.state == State::Busy => {
            let cause = "a rehearsal or another run is at work in it, and tears it down itself";
            Err(Failure::new(&codes::SCRATCH_BUSY, &one.name, cause))
        }
        [one] => Ok((*one).clone()),
        [first, second, ..] => {
            let cause = format!("{} could be meant, {} and {} among them", meant.len(), first.name, second.name);
            Err(Failure::new(&codes::SCRATCH_AMBIGUOUS, object, cause))
        }
    }
}

/// Ends a restored cluster, or removes what a crash left, and sees to it that
/// nothing of it remains.
///
/// # Errors
/// `scratch.unknown` when it is gone already, `sandbox.failed` names what could
/// not be ended or removed.
pub async fn down(root: &Path, scratch: &Scratch) -> Result<Ended, Failure> {
    let found = scratch::inhabited(root)?.into_iter().find(|found| found.path == scratch.directory);
    let gone = || Failure::new(&codes::SCRATCH_UNKNOWN, &scratch.name, "it is gone already");
    let Some(found) = found else { return Err(gone()) };
    let mut killed = false;
    if found.is_alive {
        let owner = found.owner;
        let _ = owner.terminate();
        if !ends(DOWN_LIMIT, || !owner.is_alive()).await {
            killed = owner.kill();
            if !ends(KILL_LIMIT, || !owner.is_alive()).await {
                return Err(Failure::new(&codes::SANDBOX_FAILED, format!("process {}", owner.pid), "it cannot be ended"));
            }
        }
    }
    let (processes, directory) = (found.processes.clone(), found.path.clone());
    let still_there = scratch::inhabited(root)?.into_iter().find(|still| still.path == directory);
    if let Some(still) = still_there {
        tokio::task::spawn_blocking(move || still.remove())
            .await
            .map_err(|e| Failure::because(&codes::SANDBOX_FAILED, directory.display(), &e))??;
    }
    let alive = || processes.iter().filter(|child| child.identity.is_alive()).count() as u64;
    if !ends(KILL_LIMIT, || alive() == 0).await {
        let cause = format!("{} of it cannot be ended", count(alive(), "process"));
        return Err(Failure::new(&codes::SANDBOX_FAILED, scratch.directory.display(), cause));
    }
    Ok(Ended { name: scratch.name.clone(), directory: scratch.directory.clone(), state: scratch.state, killed })
}

/// Waits until it is so; false when the time is up.
async fn ends(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str, state: State) -> Scratch {
        Scratch {
            name: name.to_owned(),
            state,
            directory: PathBuf::from("/scratch").join(name),
            supervisor: None,
            up: None,
            running: vec![],
            ended: vec![],
            memory_bytes: 0,
            disk_bytes: 0,
        }
    }

    #[test]
    fn a_name_means_one_restored_cluster_or_none() {
        let all = [scratch("2026a", State::Up), scratch("2026b", State::Leftover), scratch("2027", State::Busy)];
        let chosen = |name| choose(&all, name).map(|one| one.name).map_err(|failure| failure.code().name);
        assert_eq!(chosen(Some("2026a")), Ok("2026a".to_owned()));
        assert_eq!(chosen(Some("2026")), Err("scratch.ambiguous"));
        assert_eq!(chosen(None), Err("scratch.ambiguous"));
        assert_eq!(chosen(Some("2027")), Err("scratch.busy"));
        for unknown in ["", "x", "../2026a", "/scratch/2026a"] {
            assert_eq!(chosen(Some(unknown)), Err("scratch.unknown"), "{unknown:?}");
        }
        assert_eq!(choose(&all[1..], None).unwrap().name, "2026b");
        assert_eq!(choose(&all[2..], None).unwrap_err().code().name, "scratch.unknown", "a run at work is not meant by silence");
    }

    #[test]
    fn half_a_note_is_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Note::read(directory.path()), None);
        fs::write(directory.path().join(NOTE), b"{\"run\":").unwrap();
        assert_eq!(Note::read(directory.path()), None);
    }
}
