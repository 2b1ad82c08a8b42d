//! From the parsed file to checked types, every mistake noted on the way.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::section::{Section, Walk};
use super::separation::Separation;
use super::{
    BackupConfig, Config, DaemonConfig, EtcdConfig, HostConfig, LedgerConfig, RehearsalConfig, ScheduleConfig, SealedStoreConfig,
    StoreConfig, defaults, s3, value,
};

/// Nothing that an operator waits for takes less than a second or more than a day.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// The smallest etcd database has four pages; nobody holds a terabyte in memory.
const IMAGE_LIMITS: RangeInclusive<u64> = (1 << 20)..=(1 << 40);
/// A single etcd needs more than the least; the most is more than a host has.
const MEMORY_LIMITS: RangeInclusive<u64> = 64 << 20..=16 << 40;

/// zstd's levels 20 to 22 need more memory than a control-plane host has to spare.
const COMPRESSION_LEVELS: RangeInclusive<i32> = 1..=19;

/// Checks a whole file. The answer counts only if the walk noted no mistake.
pub(super) fn check(walk: &Walk, table: &DeTable<'_>) -> Option<Config> {
    let mut file = Section::file(walk, table);
    let mut separation = Separation::default();

    let cluster = file.required("cluster", value::cluster_name);
    let host = host(file.required_section("host"), &mut separation);
    let etcd = etcd(file.section("etcd"), &mut separation);
    let backup = backup(file.section("backup"), &mut separation);
    let takes_snapshots = etcd.is_some();
    let snapshots = sealed_store(file.required_section("snapshots"), takes_snapshots, &mut separation);
    let escrow = sealed_store(file.required_section("escrow"), takes_snapshots, &mut separation);
    let ledger = ledger(file.required_section("ledger"), &mut separation);
    let rehearsal = rehearsal(file.section("rehearsal"));
    let has_identity = |store: &Option<SealedStoreConfig>| store.as_ref().is_none_or(|store| store.identity_file.is_some());
    let opens = has_identity(&snapshots) && has_identity(&escrow);
    let schedule = schedule(file.section("schedule"), takes_snapshots, opens);
    let daemon = daemon(file.section("daemon"), etcd.as_ref());
    file.finish();
    separation.check(walk);

    Some(Config {
        cluster: cluster?.into_inner(),
        host: host?,
        etcd,
        backup,
        snapshots: snapshots?,
        escrow: escrow?,
        ledger: ledger?,
        rehearsal,
        schedule,
        daemon,
    })
}

fn host(mut section: Section<'_, '_>, separation: &mut Separation) -> Option<HostConfig> {
    let name = section.required("name", value::parsed);
    let state_dir = section.or("state_dir", defaults::STATE_DIR.into(), value::path);
    let signing_key = section.optional("signing_key", value::path);
    let allowed_signers = section.or("allowed_signers", defaults::ALLOWED_SIGNERS.into(), value::path);
    section.finish();
    separation.secret("host.signing_key", signing_key.as_ref());
    Some(HostConfig { name: name?.into_inner(), state_dir, signing_key: bare(signing_key), allowed_signers })
}

fn etcd(mut section: Section<'_, '_>, separation: &mut Separation) -> Option<EtcdConfig> {
    let endpoints = section.required_list("endpoints", value::endpoint);
    let ca = section.optional("ca", value::path);
    let cert = section.optional("cert", value::path);
    let key = section.optional("key", value::path);
    let connect_timeout = section.or("connect_timeout", defaults::CONNECT_TIMEOUT, timeout);
    let stall_timeout = section.or("stall_timeout", defaults::STALL_TIMEOUT, timeout);
    let total_timeout = section.or("total_timeout", defaults::TOTAL_TIMEOUT, timeout);
    if endpoints.iter().any(|endpoint| endpoint.get_ref().starts_with("https")) && !section.has("ca") {
        section.missing("ca", ": an https endpoint needs the certificate authority of etcd");
    }
    match (section.has("cert"), section.has("key")) {
        (true, false) => section.missing("key", ": it belongs to etcd.cert"),
        (false, true) => section.missing("cert", ": it belongs to etcd.key"),
        _ => {}
    }
    let present = section.is_present();
    section.finish();
    separation.secret("etcd.key", key.as_ref());
    present.then(|| EtcdConfig {
        endpoints: endpoints.into_iter().map(Spanned::into_inner).collect(),
        ca: bare(ca),
        cert: bare(cert),
        key: bare(key),
        connect_timeout,
        stall_timeout,
        total_timeout,
    })
}

fn backup(mut section: Section<'_, '_>, separation: &mut Separation) -> BackupConfig {
    let encryption_config = section.optional("encryption_config", value::path);
    let image_limit = section.or("image_limit", defaults::IMAGE_LIMIT, |v| value::bytes(v, IMAGE_LIMITS));
    let escrow_deadline = section.or("escrow_deadline", defaults::ESCROW_DEADLINE, timeout);
    let compression_level =
        section.or("compression_level", defaults::COMPRESSION_LEVEL, |v| value::integer(v, COMPRESSION_LEVELS));
    section.finish();
    separation.secret("backup.encryption_config", encryption_config.as_ref());
    BackupConfig { encryption_config: bare(encryption_config), image_limit, escrow_deadline, compression_level }
}

fn sealed_store(mut section: Section<'_, '_>, takes_snapshots: bool, separation: &mut Separation) -> Option<SealedStoreConfig> {
    let store = store(section.required_section("store"), separation);
    let prefix = section.or("prefix", defaults::PREFIX.to_owned(), value::prefix);
    // Who only reads seals nothing.
    let recipients = match takes_snapshots {
        true => section.required_list("recipients", value::recipient),
        false => section.list("recipients", value::recipient),
    };
    let identity_file = section.optional("identity_file", value::path);
    let name = section.name().to_owned();
    section.finish();
    separation.secret(&format!("{name}.identity_file"), identity_file.as_ref());
    separation.sealed(name, &recipients, identity_file.as_ref());
    Some(SealedStoreConfig {
        store: store?,
        prefix,
        recipients: recipients.into_iter().map(Spanned::into_inner).collect(),
        identity_file: bare(identity_file),
    })
}

fn ledger(mut section: Section<'_, '_>, separation: &mut Separation) -> Option<LedgerConfig> {
    let store = store(section.required_section("store"), separation);
    let prefix = section.or("prefix", defaults::PREFIX.to_owned(), value::prefix);
    section.finish();
    Some(LedgerConfig { store: store?, prefix })
}

/// Each kind is a table of its own, so that every mistake has its place and two
/// kinds at once are one.
fn store(mut section: Section<'_, '_>, separation: &mut Separation) -> Option<StoreConfig> {
    let (is_fs, is_s3) = (section.has("fs"), section.has("s3"));
    if section.is_present() && !is_fs && !is_s3 {
        section.wrong_itself("must say what kind of store it is: fs or s3");
    } else if is_fs && is_s3 {
        section.wrong_itself("must be one kind of store: fs or s3");
    }
    let mut fs = section.section("fs");
    let path = fs.required("path", value::path);
    let name = fs.name().to_owned();
    fs.finish();
    let s3 = s3::check(section.section("s3"), separation);
    section.finish();
    separation.place(name, path.as_ref());
    match path {
        Some(path) => Some(StoreConfig::Fs { path: path.into_inner() }),
        None => s3.map(StoreConfig::S3),
    }
}

fn rehearsal(mut section: Section<'_, '_>) -> RehearsalConfig {
    let rehearsal = RehearsalConfig {
        scratch_dir: section.or("scratch_dir", defaults::SCRATCH_DIR.into(), value::path),
        tools: bare(section.optional("tools", value::path)),
        runbooks: bare(section.optional("runbooks", value::path)),
        memory_limit: bare(section.optional("memory_limit", |v| value::bytes(v, MEMORY_LIMITS))),
        cpu_limit: bare(section.optional("cpu_limit", value::cpus)),
        fence: section.or("fence", defaults::FENCE, value::fence),
        etcd_ready_timeout: section.or("etcd_ready_timeout", defaults::ETCD_READY_TIMEOUT, timeout),
        apiserver_ready_timeout: section.or("apiserver_ready_timeout", defaults::APISERVER_READY_TIMEOUT, timeout),
    };
    section.finish();
    rehearsal
}

/// What a host cannot do, it cannot do on a schedule.
fn schedule(mut section: Section<'_, '_>, takes_snapshots: bool, opens: bool) -> ScheduleConfig {
    let snapshot = section.optional("snapshot", value::cron);
    let rehearsal = section.optional("rehearsal", value::cron);
    let rehearsal_rung = section.or("rehearsal_rung", defaults::REHEARSAL_RUNG, value::rung);
    if let (Some(line), false) = (&snapshot, takes_snapshots) {
        section.wrong("snapshot", line.span(), "needs [etcd]: that is where a snapshot is taken from");
    }
    if let (Some(line), false) = (&rehearsal, opens) {
        let must = "needs snapshots.identity_file and escrow.identity_file: a rehearsal opens what is sealed";
        section.wrong("rehearsal", line.span(), must);
    }
    section.finish();
    ScheduleConfig { snapshot: bare(snapshot), rehearsal: bare(rehearsal), rehearsal_rung }
}

fn daemon(mut section: Section<'_, '_>, etcd: Option<&EtcdConfig>) -> DaemonConfig {
    let listen = section.or("listen", defaults::LISTEN, value::listen);
    let retry_first = section.or("retry_first", defaults::RETRY_FIRST, timeout);
    let retry_longest = section.optional("retry_longest", timeout);
    let refresh_interval = section.or("refresh_interval", defaults::REFRESH_INTERVAL, timeout);
    let snapshot_deadline = section.optional("snapshot_deadline", timeout);
    let rehearsal_deadline = section.or("rehearsal_deadline", defaults::REHEARSAL_DEADLINE, timeout);
    if let Some(longest) = retry_longest.as_ref().filter(|longest| *longest.get_ref() < retry_first) {
        section.wrong("retry_longest", longest.span(), "must not be shorter than daemon.retry_first");
    }
    let stream = etcd.map_or(Duration::ZERO, |etcd| etcd.total_timeout);
    if let Some(deadline) = snapshot_deadline.as_ref().filter(|deadline| *deadline.get_ref() <= stream) {
        section.wrong(
            "snapshot_deadline",
            deadline.span(),
            "must be longer than etcd.total_timeout, which is for the stream alone",
        );
    }
    section.finish();
    DaemonConfig {
        listen,
        retry_first,
        retry_longest: bare(retry_longest).unwrap_or(defaults::RETRY_LONGEST.max(retry_first)),
        refresh_interval,
        snapshot_deadline: bare(snapshot_deadline).unwrap_or(defaults::SNAPSHOT_DEADLINE.max(stream * 2)),
        rehearsal_deadline,
    }
}

pub(super) fn timeout(value: &DeValue<'_>) -> Result<Duration, String> {
    value::duration(value, TIMEOUTS)
}

pub(super) fn bare<T>(found: Option<Spanned<T>>) -> Option<T> {
    found.map(Spanned::into_inner)
}
