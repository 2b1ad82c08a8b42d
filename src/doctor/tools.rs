//! What a rehearsal needs of this machine: programs, a fence, memory.

use async_trait::async_trait;

use super::roles::rehearses;
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::base::units::human_bytes;
use crate::config::FencePolicy;
use crate::rehearsal::{apiserver, member};
use crate::sandbox::{Fencing, Sandbox, Versions, tools};
use crate::scan::capture::active_swap;

/// Where nothing is known of the snapshots yet: the etcd of every Kubernetes that is supported.
const ETCD_USUAL: [(u32, u32); 2] = [(3, 6), (3, 5)];

/// Programs in versions that fit the newest snapshot.
pub(super) struct Programs;

/// Namespaces without a way out.
pub(super) struct FenceCheck;

/// Memory for an opened image.
pub(super) struct Memory;

#[async_trait]
impl Check for Programs {
    fn area(&self) -> Area {
        Area::Tools
    }

    fn name(&self) -> String {
        "etcd, etcdutl and kube-apiserver".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        if !rehearses(&host.station.config) {
            return findings.not_applicable("programs", "nothing is rehearsed here");
        }
        let manifest = host.recorded().await.latest.as_ref().map(|latest| &latest.manifest);
        let of_etcd = match manifest {
            None => Versions::of(&ETCD_USUAL),
            Some(manifest) => {
                match member::wanted_versions(manifest.image.storage_version.as_deref(), &manifest.taken.member.version) {
                    Ok(versions) => versions,
                    Err(failure) => return findings.failed(&failure),
                }
            }
        };
        let wanted = [
            (member::ETCD, of_etcd.clone()),
            (member::ETCDUTL, of_etcd),
            (apiserver::KUBE_APISERVER, apiserver::wanted_versions()),
        ];
        for (program, versions) in wanted {
            match tools::find(program, &versions, &host.places).await {
                Ok(found) => findings.good(program.name, format!("{} at {}", found.version, found.path.display())),
                Err(failure) => findings.failed(&failure),
            }
        }
    }
}

#[async_trait]
impl Check for FenceCheck {
    fn area(&self) -> Area {
        Area::Tools
    }

    fn name(&self) -> String {
        "the fence".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let config = &host.station.config;
        if !rehearses(config) {
            return findings.not_applicable("fence", "nothing is rehearsed here");
        }
        if config.rehearsal.fence == FencePolicy::Off {
            return findings.found(
                &codes::FENCE_OFF,
                "rehearsal.fence",
                "is false: rehearsals run beside everything else on this host",
            );
        }
        let sandbox = match Sandbox::up(&config.rehearsal.scratch_dir, "doctor", Fencing::IfPossible).await {
            Ok(sandbox) => sandbox,
            Err(failure) => return findings.failed(&failure),
        };
        // Key files go where children read them: into the fence's own memory, or into /dev/shm.
        let memory = sandbox.write_private("probe", b"holdfast doctor\n");
        let (raised, words) = (sandbox.fence().is_raised(), sandbox.fence().to_string());
        let down = sandbox.down().await;
        match (raised, config.rehearsal.fence) {
            (true, _) => findings.good("fence", words),
            (false, FencePolicy::Required) => findings.found(&codes::FENCE_REQUIRED, "fence", words),
            (false, _) => findings.found(&codes::NO_FENCE, "fence", words),
        }
        for failure in [memory.map(drop), down].into_iter().filter_map(Result::err) {
            findings.failed(&failure);
        }
    }
}

#[async_trait]
impl Check for Memory {
    fn area(&self) -> Area {
        Area::Tools
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        // Taking and rehearsing both hold the image in memory; before the first
        // snapshot nobody knows how large it is.
        let Some(image) = host.recorded().await.newest_image() else {
            return findings.not_applicable("memory", "no image is known whose size could be compared");
        };
        let Kernel { available, swaps } = blocking(Kernel::ask).await;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        let size = human_bytes(image);
        match available {
            Some(available) if available < image => {
                findings.found(
                    &codes::MEMORY_SHORT,
                    "memory",
                    format!("{} are available, and the newest image has {size}", human_bytes(available)),
                );
            }
            Some(available) => {
                findings.good("memory", format!("{} are available, and the newest image has {size}", human_bytes(available)))
            }
            None => findings.found(&codes::NO_ANSWER, "/proc/meminfo", "does not tell how much memory is available"),
        }
        match limit {
            Some(limit) if limit < image && !swaps.is_empty() => {
                let text = format!(
                    "{} may be locked, the newest image has {size}, and {} is in use",
                    human_bytes(limit),
                    swaps.join(", ")
                );
                findings.found(&codes::MEMORY_SWAPS, "locked memory", text);
            }
            Some(limit) if limit < image => {
                findings.good("locked memory", format!("is limited to {}, and nothing is swapped here", human_bytes(limit)))
            }
            _ => findings.good("locked memory", "holds the newest image"),
        }
    }
}

/// What the kernel tells of memory.
struct Kernel {
    available: Option<u64>,
    /// Active swap files and devices.
    swaps: Vec<String>,
}

impl Kernel {
    fn ask() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self { available: available(&read("/proc/meminfo")), swaps: active_swap(&read("/proc/swaps")) }
    }
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let meminfo = "MemTotal:       16384 kB\nMemFree:  12 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(available(meminfo), Some(8 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }
}
