//! Behaviour around any store: each layer is a store that wraps one.

pub mod fault;
pub mod put_only;
pub mod retry;

pub use fault::{Fault, FaultStore, Operation, OperationKind};
pub use put_only::PutOnly;
pub use retry::Retry;
