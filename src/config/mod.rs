//! Stub until merged.
#[derive(Debug, Clone)]
pub struct EtcdConfig {
    pub endpoints: Vec<String>,
    pub ca: Option<std::path::PathBuf>,
    pub cert: Option<std::path::PathBuf>,
    pub key: Option<std::path::PathBuf>,
    pub connect_timeout: std::time::Duration,
    pub stall_timeout: std::time::Duration,
    pub total_timeout: std::time::Duration,
}
