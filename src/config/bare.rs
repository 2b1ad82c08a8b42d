//! What holds where there is no configuration file: the defaults of a
//! rehearsal, and stores that do not exist.

use super::{Config, parse};
use crate::base::failure::Failure;

/// Names that nobody has. Whoever uses a store of these is told that it does not answer.
const TEXT: &str = r#"
cluster = "unnamed"
[host]
name = "unnamed"
[snapshots.store.fs]
path = "/nonexistent/snapshots"
[escrow.store.fs]
path = "/nonexistent/escrow"
[ledger.store.fs]
path = "/nonexistent/ledger"
"#;

/// The configuration of a machine that has none, for what needs no store.
///
/// # Errors
/// None that a test does not see first.
pub fn bare() -> Result<Config, Failure> {
    parse("built in", TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::defaults;

    #[test]
    fn a_machine_without_a_file_has_the_defaults_of_a_rehearsal() {
        let rehearsal = bare().unwrap().rehearsal;
        assert_eq!(rehearsal.scratch_dir, std::path::Path::new(defaults::SCRATCH_DIR));
        assert_eq!((rehearsal.fence, rehearsal.tools), (defaults::FENCE, None));
    }
}
