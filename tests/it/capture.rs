//! An image captured in memory while it streams.

use holdfast::base::digest::Sha256;
use holdfast::base::exit::Exit;
use holdfast::scan::capture::{Captured, ImageSink, MemfdSink, MemoryLock};
use holdfast::scan::inspection::Trailer;

use crate::data;
use crate::etcd_image::EtcdImage;

fn capture(image: &[u8], chunk: usize, limit: u64) -> Result<Captured, holdfast::base::failure::Failure> {
    let mut sink = Box::new(MemfdSink::new(limit)?);
    image.chunks(chunk).try_for_each(|chunk| sink.chunk(chunk))?;
    sink.finish(&[])
}

#[test]
fn a_captured_image_is_inspected_like_the_file_it_came_from() {
    let file = data::bytes("tiny.snap");
    let image = &file[..36_864];
    let captured = capture(image, 32_768, 36_864).unwrap().inspection;
    let of_file = holdfast::scan::mapped::inspect(&file, &[]);
    assert_eq!(captured.file.trailer, Trailer::Ok, "the digest was compared before it was cut off");
    assert_eq!((captured.file.bytes, captured.file.sha256), (36_864, Sha256::of(image)));
    assert_eq!(captured, holdfast::scan::Inspection { file: captured.file.clone(), ..of_file });
}

#[test]
fn an_image_over_the_limit_is_refused_at_the_chunk_that_passes_it() {
    let file = data::bytes("tiny.snap");
    let failure = capture(&file[..36_864], 4096, 36_863).unwrap_err();
    assert_eq!((failure.code().name, failure.exit()), ("backup.image.too-large", Exit::CouldNotRun));
    assert!(failure.cause().contains("36.0 KiB"), "{failure}");
}

#[test]
fn a_damaged_or_empty_image_is_refused() {
    let mut image = data::bytes("tiny.snap");
    image.truncate(36_864);
    image[8 * 4096] ^= 1;
    for image in [&image[..], &image[..4096], b""] {
        let failure = capture(image, 1000, 1 << 20).unwrap_err();
        assert_eq!((failure.code().name, failure.exit()), ("backup.image.broken", Exit::CouldNotRun), "{failure}");
    }
}

#[test]
fn an_image_of_several_extents_is_captured_whole() {
    let mut image = EtcdImage::new();
    for n in 0..40 {
        image.put(&format!("/registry/configmaps/shop/c{n}"), &vec![b'x'; 1 << 20]);
    }
    let bytes = image.image();
    assert!(bytes.len() > 2 * (16 << 20));
    let captured = capture(&bytes, 32_768, 64 << 20).unwrap();
    assert_eq!(captured.inspection.file.sha256, Sha256::of(&bytes));
    // Locked, or not, as this machine allows; but always told.
    match captured.memory {
        MemoryLock::Locked => {}
        MemoryLock::Unlocked { active_swap } => assert!(active_swap.iter().all(|device| !device.is_empty())),
    }
}

#[test]
fn a_limit_on_locked_memory_is_told_and_stops_nothing() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Holds for this process alone; other tests here only ever report the lock.
    let before = getrlimit(Resource::Memlock);
    setrlimit(Resource::Memlock, Rlimit { current: Some(0), maximum: before.maximum }).unwrap();
    let captured = capture(&data::bytes("tiny.snap")[..36_864], 4096, 1 << 20);
    setrlimit(Resource::Memlock, before).unwrap();
    let captured = captured.unwrap();
    assert_eq!(captured.inspection.etcd.unwrap().revision, 28);
    if !is_privileged() {
        assert!(matches!(captured.memory, MemoryLock::Unlocked { .. }));
    }
}

/// May this process lock memory whatever the limit says?
fn is_privileged() -> bool {
    const IPC_LOCK: u64 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & (1 << IPC_LOCK) != 0
}
