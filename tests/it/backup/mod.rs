//! Taking snapshots from a scripted member into stores that fail on demand.

mod bench;
mod buckets;
mod faults;
mod order;
mod progress;
mod streams;
