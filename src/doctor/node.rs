//! Whether this machine makes a host of its own for rung `cluster`: asked by
//! making one, and taking it down again.

use std::net::Ipv4Addr;

use async_trait::async_trait;

use super::roles::rehearses;
use super::{Area, Check, Findings, Host, blocking, codes};
use crate::config::FencePolicy;
use crate::sandbox::node::{Lack, lack_in, lacks};
use crate::sandbox::{Limits, NodeWish, Sandbox};

/// Of TEST-NET-2 (RFC 5737), and of a network that leads nowhere besides.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 10);

/// A sandbox that stands for a host.
pub(super) struct NodeCheck;

#[async_trait]
impl Check for NodeCheck {
    fn area(&self) -> Area {
        Area::Tools
    }

    fn name(&self) -> String {
        "a node".to_owned()
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let rehearsal = &host.station.config.rehearsal;
        if !rehearses(&host.station.config) {
            return findings.not_applicable("node", "nothing is rehearsed here");
        }
        if rehearsal.fence == FencePolicy::Off {
            return findings.not_applicable("node", "rehearsal.fence is false, and there is no node without one");
        }
        let lacks = blocking(lacks).await;
        if !lacks.is_empty() {
            return lacks.into_iter().for_each(|lack| tell(findings, lack));
        }
        let cpus = rehearsal.cpu_limit.map(|thousandths| f64::from(thousandths) / 1000.0);
        let limits = Limits { memory_bytes: rehearsal.memory_limit, cpus };
        let wish = NodeWish { hostname: "holdfast-doctor".to_owned(), address: ADDRESS, limits };
        let sandbox = match Sandbox::up_node(&rehearsal.scratch_dir, "doctor-node", &wish).await {
            Ok(sandbox) => sandbox,
            Err(failure) => return tell(findings, lack_in(&failure)),
        };
        if let Some(node) = sandbox.node() {
            let cgroups = node.cgroups.as_str();
            findings.good("node", format!("control groups {cgroups}; interfaces: {}", node.interfaces.join(", ")));
        }
        if let Err(failure) = sandbox.down().await {
            findings.failed(&failure);
        }
    }
}

fn tell(findings: &Findings, lack: Lack) {
    match lack {
        Lack::Overlay => findings.found(&codes::NO_OVERLAY, "node", "/proc/filesystems names no overlay"),
        Lack::Controllers(absent) => findings.found(&codes::NO_CONTROLLERS, "node", format!("missing: {absent}")),
        Lack::Ip => findings.found(&codes::NO_IP, "node", "ip is in none of the system's directories"),
        Lack::Bridge(cause) => findings.found(&codes::NO_BRIDGE, "node", cause),
        Lack::Other(cause) => findings.found(&codes::NO_NODE, "node", cause),
    }
}
