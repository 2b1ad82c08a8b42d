//! Members that stream badly: exit 2, and no object anywhere.

use holdfast::base::codes;
use holdfast::base::exit::Exit;
use holdfast::base::failure::Failure;
use holdfast::etcd::scripted::{ScriptedSource, Turn};
use holdfast::etcd::{MemberStatus, Message};
use holdfast::record::manifest::Quality;
use holdfast::store::read_small;

use super::bench::{Bench, Keys, healthy, image, member, scripted};

async fn refused(turns: Vec<Turn>) -> &'static str {
    let bench = Bench::new(Keys::All);
    let failure = bench.take_from(&scripted(turns)).await.unwrap_err();
    assert_eq!(failure.exit(), Exit::CouldNotRun);
    assert_eq!(Bench::names(&bench.snapshots).await, Vec::<String>::new(), "no object may stay");
    failure.code().name
}

fn cut(turns: usize) -> Vec<Turn> {
    let mut all = ScriptedSource::healthy(&image());
    all.truncate(turns);
    all
}

#[tokio::test]
async fn a_stream_that_stops_moving_is_given_up() {
    let mut turns = cut(1);
    turns.push(Turn::Hang);
    assert_eq!(refused(turns).await, "etcd.stream.stalled");
}

#[tokio::test]
async fn a_stream_that_ends_early_stores_nothing() {
    assert_eq!(refused(cut(1)).await, "etcd.stream.short");
    assert_eq!(refused(cut(0)).await, "etcd.stream.short");
}

#[tokio::test]
async fn a_stream_that_breaks_stores_nothing() {
    let mut turns = cut(1);
    turns.push(Turn::Fail(Failure::new(&codes::ETCD_STREAM_BROKEN, "member", "connection reset")));
    assert_eq!(refused(turns).await, "etcd.stream.broken");
}

#[tokio::test]
async fn empty_messages_without_end_are_seen_at_the_second() {
    let mut turns = cut(1);
    let empty = Turn::Message(Message { remaining: 4096, blob: bytes::Bytes::new() });
    turns.extend(std::iter::repeat_n(empty, 1_000));
    assert_eq!(refused(turns).await, "etcd.stream.empty-messages");
}

#[tokio::test]
async fn an_image_that_does_not_match_its_digest_stores_nothing() {
    let mut turns = ScriptedSource::healthy(&image());
    let Some(Turn::Message(digest)) = turns.last_mut() else { panic!("the digest comes last") };
    digest.blob = bytes::Bytes::from(vec![0; 32]);
    assert_eq!(refused(turns).await, "etcd.stream.digest");
}

#[tokio::test]
async fn an_image_with_a_broken_structure_stores_nothing_even_with_a_right_digest() {
    let mut broken = image();
    // The root page of both metas: its flags become those of no page at all.
    broken[2 * 4096 + 8] = 0xff;
    assert_eq!(refused(ScriptedSource::healthy(&broken)).await, "backup.image.broken");
}

#[tokio::test]
async fn an_image_over_the_limit_stores_nothing() {
    let mut bench = Bench::new(Keys::All);
    bench.config.backup.image_limit = 4096;
    let failure = bench.take().await.unwrap_err();
    assert_eq!((failure.code().name, failure.exit()), ("backup.image.too-large", Exit::CouldNotRun));
    assert_eq!(Bench::names(&bench.snapshots).await, Vec::<String>::new());
}

#[tokio::test]
async fn no_endpoint_that_answers_is_exit_2() {
    let bench = Bench::new(Keys::All);
    let mut source = ScriptedSource::new(vec![], vec![]);
    source.unreachable.push(Failure::new(&codes::ETCD_UNREACHABLE, "https://gone", "connection refused"));
    let failure = bench.take_from(&source).await.unwrap_err();
    assert_eq!((failure.code().name, failure.exit()), ("etcd.unreachable", Exit::CouldNotRun));
}

#[tokio::test]
async fn a_member_with_a_corrupt_alarm_gives_a_doubtful_snapshot_and_a_healthy_one_does_not() {
    let problems = async |member: MemberStatus| {
        let bench = Bench::new(Keys::All);
        let source = ScriptedSource::new(vec![member], ScriptedSource::healthy(&image()));
        let taken = bench.take_from(&source).await.unwrap();
        assert_ne!(taken.manifest.quality, Quality::Good);
        taken.manifest.problems.into_iter().map(|problem| problem.code).collect::<Vec<_>>()
    };
    let corrupt = MemberStatus { errors: vec!["memberID:1 alarm:CORRUPT ".into()], ..member() };
    assert!(problems(corrupt).await.contains(&"alarm-corrupt".to_owned()));
    assert!(!problems(member()).await.contains(&"alarm-corrupt".to_owned()));
}

#[tokio::test]
async fn an_encryption_configuration_that_cannot_be_read_leaves_the_snapshot_incomplete_and_keeps_the_image() {
    let bench = Bench::new(Keys::All);
    std::fs::write(bench.config.backup.encryption_config.as_ref().unwrap(), "kind: Nonsense").unwrap();
    let taken = bench.take_from(&healthy()).await.unwrap();
    assert_eq!((taken.manifest.quality, taken.exit()), (Quality::Incomplete, Exit::Bad));
    assert!(taken.manifest.problems.iter().any(|problem| problem.code == "encryption-config-unreadable"));
    assert!(taken.warnings.iter().any(|warning| warning.code().name == "backup.encryption-config.unreadable"));
    assert!(bench.shows_a_snapshot().await);
    let page = taken.manifest.object.key.replace("etcd.db.zst.age", "RESTORE.md").parse().unwrap();
    let page = read_small(bench.snapshots.as_ref(), &page, 1 << 20).await.unwrap();
    assert!(String::from_utf8_lossy(&page).contains("could not be read when this snapshot was taken"));
}
