//! The arguments, as `--help` shows them.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

/// Backs up a Kubernetes cluster's etcd, escrows the keys that make each backup
/// readable, and proves that both can be restored.
///
/// Exit codes: 0 good; 1 it ran and the answer is bad; 2 it could not run or
/// cannot tell; 3 usage or configuration; 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    /// The configuration file.
    #[arg(long, global = true, value_name = "FILE", default_value = "/etc/holdfast/holdfast.toml")]
    pub config: PathBuf,

    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,

    /// Log more: -v info, -vv debug, -vvv trace.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Answer(Answer),
    /// Read a snapshot file: whole or not, which keys it needs, would it restore.
    Inspect(super::inspect::Inspect),
    /// Restore a snapshot in a scratch environment, step by step, and report.
    Rehearse(super::rehearse::Rehearse),
    /// The same as `rehearse --to open`.
    Verify {
        /// A snapshot id, the start of one, or `latest`.
        #[arg(default_value = "latest")]
        id: String,
    },
    /// Restore step by step with the people who take part, and count their time.
    Runbook {
        #[command(subcommand)]
        command: super::runbook::RunbookCommand,
    },
    /// Restore for somebody who needs the data: a cluster that stays up, or a data directory.
    ///
    /// With `--into scratch` it climbs as `rehearse` does and leaves the cluster
    /// running, fenced off, with a KUBECONFIG that works on this host, until
    /// `holdfast scratch down`. With `--into DIR` it makes the data directory of
    /// an etcd member, after it has shown its plan.
    Restore(Box<super::restore::Restore>),
    /// Restored clusters that are up, and what a crash left of them.
    Scratch {
        #[command(subcommand)]
        command: super::scratch::ScratchCommand,
    },
    /// Take snapshots and rehearse on the schedule of the configuration.
    ///
    /// Serves /healthz and /metrics at daemon.listen. SIGHUP reads the configuration
    /// again; SIGTERM stops what runs, cleanly, and ends with exit code 0. The log
    /// goes to standard error, with --json one object a line.
    Daemon,
    /// Show the whole product on a real etcd and API server, in one directory.
    ///
    /// HOLDFAST_DEMO_DIR names the directory, absent or empty; without it one is
    /// made and printed. HOLDFAST_DEMO_KEEP=1 keeps the cluster's data, stores,
    /// keys and configurations beside the reports. HOLDFAST_TOOLS names a
    /// directory with etcd, etcdutl and kube-apiserver.
    Demo,
    /// Print the completion script of a shell.
    ///
    /// For bash: `holdfast completions bash > /etc/bash_completion.d/holdfast`, or in a
    /// running shell `source <(holdfast completions bash)`.
    Completions(super::completions::Completions),
    /// Print the manual page, or write a page for each command.
    Man(super::man::ManArguments),
}

/// The commands that work with a host's configuration and may be stopped at any moment.
#[derive(Debug, Subcommand)]
pub enum Answer {
    /// Take a snapshot now.
    Snapshot(Snapshot),
    /// Examine this host: is all that it promises true?
    ///
    /// Every answer comes from a real request, also from those that must be
    /// denied. Exit code 0: nothing worse than a warning; 1: an error was
    /// found; 2: something gave no answer; 3: the configuration has mistakes.
    Doctor,
    /// List snapshots: what each needs, and how far it has been proven.
    List,
    /// Show one snapshot with its keys, proofs and problems.
    Show {
        /// A snapshot id, the start of one, or `latest`.
        id: String,
    },
    /// Print a rehearsal's report.
    Report(super::report::ReportArgs),
    /// The local catalog, a fold of the ledger.
    Catalog {
        #[command(subcommand)]
        command: CatalogCommand,
    },
}

#[derive(Debug, Args)]
pub struct Snapshot {
    /// Stream from a member that has no leader, and say why.
    #[arg(long, value_name = "REASON")]
    pub degraded: Option<String>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub enum CatalogCommand {
    /// Build the catalog anew from the ledger.
    Rebuild,
}
