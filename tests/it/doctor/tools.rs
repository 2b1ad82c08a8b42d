//! What a rehearsal needs of the machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holdfast::doctor::{Area, Status};
use holdfast::sandbox::Places;

use super::bench::{Bench, Role};

fn program(directory: &Path, name: &str, says: &str) {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn places(directory: &Path) -> Places {
    Places { directories: vec![directory.to_owned()], ..Places::default() }
}

#[tokio::test]
async fn programs_that_fit_the_newest_snapshot_are_good_and_others_are_not() {
    let tools = tempfile::tempdir().unwrap();
    program(tools.path(), "etcd", "etcd Version: 3.6.16");
    program(tools.path(), "etcdutl", "etcdutl version: 3.5.9");
    let mut bench = Bench::new(Role::Rehearsal);
    bench.places = places(tools.path());
    bench.site.manifest("13:05", 10, vec![]);
    bench.deliver().await;
    let found = bench.examine(Area::Tools).await;
    assert!(found.good("etcd").finding.starts_with("3.6.16 at "), "{found}");
    // The snapshot is of etcd 3.6, which an older etcdutl would spoil without a word.
    assert_eq!(found.one("tool.version").object, "etcdutl", "{found}");
    assert_eq!(found.one("tool.missing").object, "kube-apiserver", "{found}");
    assert!(found.good("memory").finding.contains("20.0 KiB"), "{found}");
}

#[tokio::test]
async fn a_fence_is_raised_and_dropped_and_nothing_of_it_is_left() {
    let bench = Bench::new(Role::Rehearsal);
    let found = bench.examine(Area::Tools).await;
    if rustix::process::geteuid().is_root() {
        assert!(found.good("fence").finding.starts_with("fenced: own network"), "{found}");
        assert!(found.good("node").finding.contains("interfaces: lo, node0"), "{found}");
    } else {
        assert_eq!(found.one("doctor.tools.no-fence").status, Status::Warning, "{found}");
        assert_eq!(found.one("doctor.tools.no-node").status, Status::Warning, "{found}");
    }
    let left: Vec<_> = std::fs::read_dir(bench.path("scratch")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    let off = bench.edit("scratch_dir", "fence = false\nscratch_dir").examine(Area::Tools).await;
    off.one("doctor.tools.fence-off");
}

#[tokio::test]
async fn a_host_that_rehearses_nothing_needs_nothing() {
    let bench = Bench::new(Role::ControlPlane);
    let found = bench.examine(Area::Tools).await;
    assert!(found.0.iter().all(|finding| finding.status == Status::NotApplicable), "{found}");
    assert!(!bench.path("scratch").exists());
}
