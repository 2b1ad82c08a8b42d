//! Delivery: sending waiting records until every store has them.
//!
//! Within one store, records go in the order of appending, and each signature
//! goes before its record. A store that does not answer holds up its own
//! records and no others. The same bytes are sent until they are stored, so a
//! name that is taken means that an earlier attempt came through.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::outbox::{Outbox, Place};
use super::spool::{Destination, Spool, Waiting};
use crate::base::codes;
use crate::base::failure::Failure;
use crate::record::canonical;
use crate::store::{ErrorKind, Key, PutOptions, Store, StoreError, read_small};

/// Records are small: a store that needs longer for one is down.
const PUT_TIMEOUT: Duration = Duration::from_secs(30);

/// The stores that this process may put to.
#[derive(Debug, Clone, Default)]
pub struct Stores {
    pub snapshots: Option<Arc<dyn Store>>,
    pub escrow: Option<Arc<dyn Store>>,
    pub ledger: Option<Arc<dyn Store>>,
}

impl Stores {
    fn at(&self, place: Place) -> Option<&dyn Store> {
        match place {
            Place::Snapshots => self.snapshots.as_deref(),
            Place::Escrow => self.escrow.as_deref(),
            Place::Ledger => self.ledger.as_deref(),
        }
    }
}

/// What one round of delivery did.
#[derive(Debug, Default)]
pub struct Delivery {
    /// Objects that a store has now.
    pub delivered: Vec<(Place, String)>,
    /// Objects that still wait, in order.
    pub waiting: Vec<Undelivered>,
}

#[derive(Debug)]
pub struct Undelivered {
    pub place: Place,
    pub object: String,
    pub why: Failure,
}

impl Delivery {
    /// Why records wait for `place`, where they do.
    #[must_use]
    pub fn blocked(&self, place: Place) -> Option<&Failure> {
        self.waiting.iter().find(|waiting| waiting.place == place).map(|waiting| &waiting.why)
    }
}

impl Outbox {
    /// Sends what waits. Stores that fail are in the answer, not an error;
    /// an error means that the state directory failed, and records wait on.
    /// Safe beside other deliveries and appends on the same state directory.
    pub async fn deliver(&self, stores: &Stores) -> Result<Delivery, Failure> {
        let mut delivery = Delivery::default();
        let mut blocked: BTreeMap<Place, Failure> = BTreeMap::new();
        for ordinal in self.spooled(|spool| spool.list()).await? {
            let Some(waiting) = self.spooled(move |spool| spool.read(ordinal)).await? else { continue };
            for destination in waiting.destinations.clone() {
                let Destination { place, key: object } = destination.clone();
                if let Some(why) = blocked.get(&place).cloned() {
                    delivery.waiting.push(Undelivered { place, object, why });
                    continue;
                }
                match send(stores.at(place), &destination, &waiting).await {
                    Ok(()) => {
                        self.spooled(move |spool| spool.lock()?.settle(ordinal, &destination)).await?;
                        delivery.delivered.push((place, object));
                    }
                    Err(why) => {
                        // Another object under the name will never give way:
                        // it is told each time, and holds up nothing else.
                        if why.code() != &codes::STORE_EXISTS {
                            blocked.insert(place, why.clone());
                        }
                        delivery.waiting.push(Undelivered { place, object, why });
                    }
                }
            }
        }
        Ok(delivery)
    }

    /// Runs file work on a thread that may block.
    async fn spooled<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Spool) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let spool = self.spool.clone();
        let joined = tokio::task::spawn_blocking(move || work(&spool)).await;
        joined.map_err(|e| Failure::new(&codes::STATE_UNUSABLE, "outbox", e))?
    }
}

/// The signature first: a record exists when its own object appears.
async fn send(store: Option<&dyn Store>, destination: &Destination, waiting: &Waiting) -> Result<(), Failure> {
    let Destination { place, key } = destination;
    let Some(store) = store else {
        return Err(Failure::new(&codes::CONFIG_SECTION_MISSING, key, format!("no {place} store is configured here")));
    };
    let bad_key = |e| Failure::because(&codes::STATE_UNUSABLE, key, &e);
    let key: Key = key.parse().map_err(bad_key)?;
    put(store, *place, &key.with_suffix(".sig").map_err(bad_key)?, waiting.signature.as_bytes()).await?;
    put(store, *place, &key, waiting.bytes.as_bytes()).await
}

async fn put(store: &dyn Store, place: Place, key: &Key, bytes: &[u8]) -> Result<(), Failure> {
    let options = PutOptions { expected_bytes: Some(bytes.len() as u64) };
    let mut body = bytes;
    match in_time(store, key, "put", store.put(key, &mut body, &options)).await {
        Ok(_) => Ok(()),
        Err(e) if e.kind == ErrorKind::Exists => has_our_bytes(store, place, key, bytes, e).await,
        Err(e) => Err(failure(place, e)),
    }
}

/// The name is taken: by our own bytes, as far as this host may look. Hosts
/// may read the ledger; the other stores are put-only, and names are unique.
async fn has_our_bytes(store: &dyn Store, place: Place, key: &Key, bytes: &[u8], exists: StoreError) -> Result<(), Failure> {
    if place != Place::Ledger {
        return Ok(());
    }
    match in_time(store, key, "open", read_small(store, key, canonical::MAX_BYTES)).await {
        Ok(stored) if stored == bytes => Ok(()),
        Ok(_) => Err(Failure::new(&codes::STORE_EXISTS, exists.object, "another object has the name of this record")
            .next("find out who wrote it; the record waits in the outbox")),
        Err(e) if e.kind == ErrorKind::Denied => Ok(()),
        Err(e) => Err(failure(place, e)),
    }
}

async fn in_time<T>(
    store: &dyn Store,
    key: &Key,
    operation: &'static str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(PUT_TIMEOUT, call).await.unwrap_or_else(|_| {
        let source = Some(format!("no answer within {} s", PUT_TIMEOUT.as_secs()).into());
        Err(StoreError { kind: ErrorKind::Transient, operation, object: format!("{}: {key}", store.describe()), source })
    })
}

fn failure(place: Place, error: StoreError) -> Failure {
    let transient = error.kind == ErrorKind::Transient;
    let failure = Failure::from(error);
    if transient && place == Place::Ledger {
        return Failure::new(&codes::LEDGER_UNREACHABLE, failure.object(), failure.cause());
    }
    failure
}
