//! The three stores: in reach, with the rights that this host must have, and
//! without those that it must not have. Every answer is the store's own to the
//! request itself.

use async_trait::async_trait;
use jiff::tz::TimeZone;

use super::roles::{rehearses, takes_snapshots};
use super::{Area, Check, Findings, Host, codes};
use crate::base::failure::Failure;
use crate::config::{Config, StoreConfig};
use crate::ledger::Place;
use crate::record::layout::Layout;
use crate::store::rights::{self, Answer, Right, Rights};
use crate::store::{Key, Prefix, StoreError};

/// The rights of this host's credential at one store.
pub(super) struct StoreRights(pub Place);

/// What this host needs of a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Must,
    MustNot,
    /// Better not; it is only told.
    Rather,
    /// It is not asked for.
    Indifferent,
}

/// Put, get and list; deleting is for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wants {
    put: Want,
    get: Want,
    list: Want,
}

#[async_trait]
impl Check for StoreRights {
    fn area(&self) -> Area {
        Area::Stores
    }

    fn name(&self) -> String {
        format!("the {} store", self.0)
    }

    async fn examine(&self, host: &Host, findings: &Findings) {
        let config = &host.station.config;
        let rights = rights::of(store(config, self.0));
        let object = format!("{} ({})", self.0, rights.describe());
        let Some(wants) = wants(config, self.0) else {
            return findings.not_applicable(object, "this host uses it for nothing");
        };
        let Some(names) = Names::of(host, self.0, &rights.describe()).await else {
            return findings.found(&codes::NO_ANSWER, object, "cannot be asked: no name for it can be made");
        };
        let asked = Asked { rights: rights.as_ref(), object: &object, names: &names, findings, wants };
        if let Err(error) = asked.all(self.0).await {
            findings.failed(&Failure::from(error));
        }
    }
}

/// Names to ask about.
pub(super) struct Names {
    /// Nothing else has it. One a day, so that what stays stays small.
    pub probe: Key,
    /// The newest object that is known to be there.
    pub known: Option<Key>,
    pub below: Prefix,
}

impl Names {
    pub async fn of(host: &Host, place: Place, store: &str) -> Option<Self> {
        let (config, recorded) = (&host.station.config, host.recorded().await);
        let layout = Layout::new(prefix(config, place), &config.cluster);
        let day = TimeZone::UTC.to_datetime(host.station.clock.now()).date();
        let probe = format!("{}/doctor/{}-{}", layout.root(), config.host.name, day.strftime("%Y%m%d"));
        let newest = recorded.latest.as_ref().map(|latest| &latest.manifest);
        let known = match place {
            Place::Snapshots => newest.map(|manifest| manifest.path.clone()),
            Place::Ledger => newest.map(|manifest| layout.ledger_manifest(&manifest.cluster.lineage, &manifest.id)),
            Place::Escrow => {
                recorded.deposits.iter().find(|receipt| receipt.store == store).map(|receipt| receipt.escrow_record.key.clone())
            }
        };
        let root: Key = layout.root().parse().ok()?;
        Some(Self { probe: probe.parse().ok()?, known: known.and_then(|known| known.parse().ok()), below: Prefix::below(&root) })
    }
}

/// One store while it is asked.
struct Asked<'a> {
    rights: &'a dyn Rights,
    object: &'a str,
    names: &'a Names,
    findings: &'a Findings,
    wants: Wants,
}

impl Asked<'_> {
    /// Asks for everything, the put first: what it made is what the others ask about.
    async fn all(&self, place: Place) -> Result<(), StoreError> {
        let Wants { put, get, list } = self.wants;
        let (mut granted, mut denied) = (Vec::new(), Vec::new());
        let mut note = |word: &'static str, answer: &Answer| match answer {
            Answer::Denied(_) => denied.push(word),
            Answer::Allowed(_) | Answer::Absent => granted.push(word),
        };
        let mut probe_is_there = false;
        if put != Want::Indifferent {
            let answer = self.rights.ask(&Right::Put(self.names.probe.clone())).await?;
            probe_is_there = matches!(answer, Answer::Allowed(_)) && self.rights.separates();
            self.judge(put, &answer, &codes::STORE_PUT_DENIED, &codes::STORE_PUT_ALLOWED, "put");
            note("put", &answer);
        }
        // Of a name that is not there a store may say "denied" to hide just that.
        let readable = self.names.known.clone().or_else(|| probe_is_there.then(|| self.names.probe.clone()));
        if let (Some(readable), true) = (readable, get != Want::Indifferent) {
            let answer = self.rights.ask(&Right::Get(readable)).await?;
            self.judge(get, &answer, &codes::STORE_READ_DENIED, &codes::STORE_READ_ALLOWED, "read");
            note("get", &answer);
        }
        if list != Want::Indifferent {
            let answer = self.rights.ask(&Right::List(self.names.below.clone())).await?;
            self.judge(list, &answer, &codes::STORE_LIST_DENIED, &codes::STORE_LIST_ALLOWED, "list");
            note("list", &answer);
        }
        if !self.rights.separates() {
            let text = format!("is a directory: who may {} there may also destroy what is there", granted.join(" and "));
            self.findings.found(&codes::STORE_NOT_SEPARATED, self.object, text);
            return Ok(());
        }
        let deletes = self.deletes().await?;
        note("delete", &deletes);
        if place == Place::Snapshots && put == Want::Must {
            self.multipart().await?;
        }
        if self.findings.troubles() == 0 {
            let text = format!("grants {}, and denies {}", granted.join(", "), denied.join(", "));
            self.findings.good(self.object, text);
        }
        if put == Want::Must {
            self.keeping().await;
        }
        Ok(())
    }

    fn judge(&self, want: Want, answer: &Answer, denied: &'static codes::Code, allowed: &'static codes::Code, word: &str) {
        // Of a directory one finding says all that it cannot keep apart.
        if want != Want::Must && !self.rights.separates() {
            return;
        }
        match (want, answer) {
            (Want::Must, Answer::Denied(cause)) => {
                self.findings.found(denied, self.object, format!("denies this host to {word}: {cause}"));
            }
            (Want::Must, Answer::Absent) => {
                self.findings.found(denied, self.object, format!("has lost what this host wants to {word}"));
            }
            (Want::MustNot | Want::Rather, Answer::Allowed(_)) => {
                self.findings.found(allowed, self.object, format!("lets this host {word}, which it must not need"));
            }
            // It tells that the object is not there, and only who may look is told.
            (Want::MustNot | Want::Rather, Answer::Absent) => {
                self.findings.found(allowed, self.object, format!("tells this host what is not there: it may {word}, or list"));
            }
            _ => {}
        }
    }

    /// Deletes the probe, and a version of it that never was.
    async fn deletes(&self) -> Result<Answer, StoreError> {
        let (probe, mut worst) = (&self.names.probe, Answer::Denied(String::new()));
        for right in [Right::Delete(probe.clone()), Right::DeleteVersion(probe.clone())] {
            match self.rights.ask(&right).await {
                Ok(Answer::Denied(_)) => {}
                Ok(answer) => worst = answer,
                // A server that keeps no versions may not know the question.
                Err(_) if matches!(right, Right::DeleteVersion(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if !matches!(worst, Answer::Denied(_)) {
            let text = "lets this host delete: whoever takes it over can destroy the history";
            self.findings.found(&codes::STORE_DELETE_ALLOWED, self.object, text);
        }
        Ok(worst)
    }

    async fn multipart(&self) -> Result<(), StoreError> {
        if let Answer::Denied(cause) = self.rights.ask(&Right::Multipart(self.names.probe.clone())).await? {
            let text = format!("denies this host to begin an upload in parts, or to give one up: {cause}");
            self.findings.found(&codes::STORE_MULTIPART_DENIED, self.object, text);
        }
        Ok(())
    }

    async fn keeping(&self) {
        let keeping = self.rights.keeping().await;
        match keeping.versions {
            Ok(true) => {
                let lock = keeping.lock.ok().flatten().map(|lock| format!(", and locks objects: {lock}")).unwrap_or_default();
                self.findings.good(self.object, format!("keeps versions{lock}"));
            }
            Ok(false) => {
                let text = "keeps no versions: whoever may put can overwrite what is there";
                self.findings.found(&codes::STORE_VERSIONS_OFF, self.object, text);
            }
            Err(cause) => {
                let text = format!("does not tell whether it keeps versions: asked, not proven ({cause})");
                self.findings.found(&codes::STORE_VERSIONS_UNTOLD, self.object, text);
            }
        }
    }
}

/// What a host of this configuration needs at a store; none where it has no business there.
fn wants(config: &Config, place: Place) -> Option<Wants> {
    use Want::{Indifferent, Must, MustNot, Rather};
    let (takes, opens) = (takes_snapshots(config), rehearses(config));
    let (put, get, list) = match (place, takes, opens) {
        (Place::Ledger, false, false) => (Indifferent, Must, Must),
        (Place::Ledger, ..) | (_, true, true) => (Must, Must, Must),
        (_, true, false) => (Must, MustNot, Rather),
        (_, false, true) => (MustNot, Must, Must),
        (_, false, false) => return None,
    };
    Some(Wants { put, get, list })
}

pub(super) fn store(config: &Config, place: Place) -> &StoreConfig {
    match place {
        Place::Snapshots => &config.snapshots.store,
        Place::Escrow => &config.escrow.store,
        Place::Ledger => &config.ledger.store,
    }
}

fn prefix(config: &Config, place: Place) -> &str {
    match place {
        Place::Snapshots => &config.snapshots.prefix,
        Place::Escrow => &config.escrow.prefix,
        Place::Ledger => &config.ledger.prefix,
    }
}
