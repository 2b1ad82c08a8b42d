//! A store that does as it is told and remembers in which order it was asked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use holdfast::base::digest::Sha256;
use holdfast::store::{ErrorKind, Key, Listed, Prefix, PutOptions, Reader, Store, StoreError, Stored, VersionId};
use tokio::io::{AsyncRead, AsyncReadExt};

#[derive(Debug, Default)]
pub struct Shelf {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// Successful puts, in order.
    puts: Vec<String>,
    calls: usize,
    rules: Rules,
}

#[derive(Debug, Default, Clone)]
pub struct Rules {
    /// Every call answers so.
    pub down: Option<ErrorKind>,
    /// Open and list are denied.
    pub put_only: bool,
    /// Puts store the object and then answer `Transient`, as when the answer is lost.
    pub answer_lost: bool,
    /// The n-th call from now on fails, counted from 1.
    pub fail_call: Option<usize>,
    /// Names that are listed, though nothing is there.
    pub ghosts: Vec<String>,
    /// Calls never answer.
    pub silent: bool,
}

impl Shelf {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn rule(&self, rules: Rules) {
        let mut state = self.state();
        state.calls = 0;
        state.rules = rules;
    }

    /// The names that were put, in order, and forgets them.
    pub fn take_puts(&self) -> Vec<String> {
        std::mem::take(&mut self.state().puts)
    }

    pub fn names(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        self.state().objects[name].clone()
    }

    /// What no writer can do through the trait: overwrite, move, delete.
    pub fn plant(&self, name: &str, bytes: &[u8]) {
        self.state().objects.insert(name.into(), bytes.into());
    }

    pub fn remove(&self, name: &str) -> Vec<u8> {
        self.state().objects.remove(name).unwrap()
    }

    async fn admit(&self, operation: &'static str, object: &str) -> Result<Rules, StoreError> {
        let (rules, call) = {
            let mut state = self.state();
            state.calls += 1;
            (state.rules.clone(), state.calls)
        };
        if rules.silent {
            std::future::pending::<()>().await;
        }
        let kind = match rules.down {
            Some(kind) => Some(kind),
            None if rules.fail_call == Some(call) => Some(ErrorKind::Transient),
            None if rules.put_only && operation != "put" => Some(ErrorKind::Denied),
            None => None,
        };
        kind.map_or(Ok(rules), |kind| Err(error(kind, operation, object)))
    }
}

fn error(kind: ErrorKind, operation: &'static str, object: &str) -> StoreError {
    StoreError { kind, operation, object: format!("shelf: {object}"), source: None }
}

#[async_trait]
impl Store for Shelf {
    fn describe(&self) -> String {
        "shelf".into()
    }

    async fn put(
        &self,
        key: &Key,
        body: &mut (dyn AsyncRead + Send + Unpin),
        _options: &PutOptions,
    ) -> Result<Stored, StoreError> {
        let rules = self.admit("put", key.as_str()).await?;
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes).await.map_err(|_| error(ErrorKind::Body, "put", key.as_str()))?;
        let sha256 = Sha256::of(&bytes);
        let stored =
            Stored { key: key.clone(), version_id: None, bytes: bytes.len() as u64, sha256, parts: vec![], server_time: None };
        let mut state = self.state();
        if state.objects.contains_key(key.as_str()) {
            return Err(error(ErrorKind::Exists, "put", key.as_str()));
        }
        state.objects.insert(key.to_string(), bytes);
        state.puts.push(key.to_string());
        if rules.answer_lost { Err(error(ErrorKind::Transient, "put", key.as_str())) } else { Ok(stored) }
    }

    async fn open(&self, key: &Key, _version: Option<&VersionId>, _range: Option<Range<u64>>) -> Result<Reader, StoreError> {
        self.admit("open", key.as_str()).await?;
        let bytes = self.state().objects.get(key.as_str()).cloned();
        let bytes = bytes.ok_or_else(|| error(ErrorKind::NotFound, "open", key.as_str()))?;
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Listed>, StoreError> {
        let ghosts = self.admit("list", prefix.as_str()).await?.ghosts;
        let state = self.state();
        let below = state.objects.iter().filter(|(name, _)| name.starts_with(prefix.as_str()));
        let listed = below.map(|(name, bytes)| (name, bytes.len() as u64)).chain(ghosts.iter().map(|name| (name, 190)));
        Ok(listed.map(|(name, bytes)| Listed { key: name.parse().unwrap(), bytes }).collect())
    }
}
