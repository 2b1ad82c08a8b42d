//! Writes an EncryptionConfiguration.

use super::EncryptionConfig;
use crate::base::secret::Secret;

pub(super) fn to_yaml(_config: &EncryptionConfig) -> Secret<String> {
    Secret::new(String::new())
}
