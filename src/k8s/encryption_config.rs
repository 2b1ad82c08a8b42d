//! EncryptionConfiguration, read as the API server reads it.

/// A configuration with the name it is known by in messages: a path or a host.
#[derive(Debug, Clone)]
pub struct NamedConfig {
    pub name: String,
    pub config: EncryptionConfig,
}

/// A checked EncryptionConfiguration.
#[derive(Debug, Clone)]
pub struct EncryptionConfig {}
