//! What every store promises, and what the directory store promises besides.

mod contract;
mod fs;
mod layers;
mod retry;
pub mod s3;

use std::sync::Arc;

use holdfast::base::entropy::OsEntropy;
use holdfast::store::layers::Retry;
use holdfast::store::{ErrorKind, Key, PutOptions, Reader, Store, StoreError, Stored};
use tokio::io::AsyncReadExt;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

async fn put(store: &dyn Store, name: &str, mut bytes: &[u8]) -> Result<Stored, StoreError> {
    store.put(&key(name), &mut bytes, &PutOptions::default()).await
}

async fn read(mut reader: Reader) -> Vec<u8> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await.unwrap();
    bytes
}

async fn get(store: &dyn Store, name: &str) -> Result<Vec<u8>, ErrorKind> {
    match store.open(&key(name), None, None).await {
        Ok(reader) => Ok(read(reader).await),
        Err(error) => Err(error.kind),
    }
}

async fn names(store: &dyn Store) -> Vec<String> {
    let listed = store.list(&holdfast::store::Prefix::all()).await.unwrap();
    listed.into_iter().map(|object| object.key.to_string()).collect()
}

/// Bytes that differ at every place a chunk could be lost or swapped.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn shared(store: impl Store + 'static) -> Arc<dyn Store> {
    Arc::new(store)
}

/// The retry layer, with waits that vary as they do in the program.
fn retry(inner: Arc<dyn Store>) -> Retry {
    Retry::new(inner, Arc::new(OsEntropy))
}
