//! Every default, each with its reason. `config.example.toml` shows them all,
//! and a test compares the two.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::FencePolicy;
use crate::base::rung::Rung;

/// Where packages keep state that must survive a reboot.
pub const STATE_DIR: &str = "/var/lib/holdfast";
/// Beside the configuration: it is public, and changed by the same hands.
pub const ALLOWED_SIGNERS: &str = "/etc/holdfast/allowed_signers";

/// A member on the same network answers in milliseconds; five seconds outlast
/// a lost packet and a leader election.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A healthy member sends without pause; a busy disk has been seen to rest for
/// some seconds, never for half a minute.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// 8 GiB, the most that etcd supports, at 5 MiB/s.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// etcd's own default quota: larger images exist only where somebody raised it.
pub const IMAGE_LIMIT: u64 = 2 << 30;
/// Long enough for a store to fail over, short enough that a snapshot is not late.
pub const ESCROW_DEADLINE: Duration = Duration::from_secs(60);
/// zstd's own default: higher levels cost etcd's host processor time for little.
pub const COMPRESSION_LEVEL: i32 = 3;

/// The first part of every object's name, so that a store can be shared with other programs.
pub const PREFIX: &str = "holdfast";

/// Where servers of one's own say nothing else; it goes into signatures only.
pub const REGION: &str = "us-east-1";
/// As every program that reads such a file.
pub const PROFILE: &str = "default";
/// Four of them lie in memory at once; 10,000 of them are ten times what etcd supports.
pub const PART_SIZE: u64 = 8 << 20;
/// A part at 70 KiB/s; a busy server has been seen to take a minute to join parts.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Large files that may vanish at a reboot, and not `/tmp`, which is often memory.
pub const SCRATCH_DIR: &str = "/var/tmp/holdfast";
/// A rehearsal without root is worth more than none, and says that it had no fence.
pub const FENCE: FencePolicy = FencePolicy::Auto;
/// etcd opens an 8 GiB database in under a minute on a slow disk.
pub const ETCD_READY_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// An API server fills its caches from all stored objects before it is ready.
pub const APISERVER_READY_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The highest rung that this version climbs to: the daemon proves as much as it can.
pub const REHEARSAL_RUNG: Rung = Rung::Serve;
/// Loopback: there is neither TLS nor a password. The port is not one that
/// Prometheus' list of exporters gives to somebody else's daemon on such a host.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9127);
/// An etcd that elects a leader or a store that fails over is back after a minute.
pub const RETRY_FIRST: Duration = Duration::from_secs(60);
/// Two attempts an hour keep the log readable while somebody repairs.
pub const RETRY_LONGEST: Duration = Duration::from_secs(30 * 60);
/// What other hosts proved is in the metrics before anybody asks twice. Each look reads the
/// whole ledger, and buckets count requests.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(15 * 60);
/// Twice the time that a stream and its store may take by their own limits.
pub const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(2 * 60 * 60);
/// More than the steps of the runbook may take by their own limits.
pub const REHEARSAL_DEADLINE: Duration = Duration::from_secs(6 * 60 * 60);

/// The recipients in `config.example.toml`: their identities were thrown away.
pub const EXAMPLE_RECIPIENTS: [&str; 2] = [
    "age17xarfy80gcht4hjexgvmkueukv2v6gqfy7dh9rd6p9fhqg849vlqjhgyy9",
    "age1yrrh5hf93ax32zlgv7kptxwcl9ax7ql8slj0ugyvfwv9gda52uyqr0tgvw",
];
