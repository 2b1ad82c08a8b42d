//! Bytes that mean harm.

use super::*;
use crate::etcd_image::with_digest;
use holdfast::scan::mapped::inspect;

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(150))]

    /// Mutations behind a right digest, where only the reader stands between them and a panic.
    #[test]
    fn mutated_snapshots_never_panic_or_hang(
        changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 1..16),
    ) {
        let mut image = data::bytes("tiny.snap");
        image.truncate(TINY);
        for (at, byte) in changes {
            let at = at.index(image.len());
            image[at] = byte;
        }
        let inspection = inspect(&with_digest(&image), &[config("all", local_keys())]);
        proptest::prop_assert_eq!(inspection.etcd.is_none(), codes(&inspection).contains(&"structure-broken"));
    }
}
