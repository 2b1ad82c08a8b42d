//! What the tests take for granted of the S3 server that they run against.

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;

use crate::rig::s3::{Grant, S3Server};

#[tokio::test(flavor = "multi_thread")]
async fn the_server_keeps_policies_exactly_and_survives_a_restart() {
    let mut server = S3Server::start_with_tls().await;
    let (writer, reader) = (server.user("writer"), server.user("reader"));
    server.bucket("snapshots", true).await;
    server.grant("snapshots", &writer, Grant::Write).await;
    server.grant("snapshots", &reader, Grant::Read).await;
    let (writing, reading) = (server.client(&writer), server.client(&reader));
    let put = |client: &aws_sdk_s3::Client| {
        client.put_object().bucket("snapshots").key("a/b").body(ByteStream::from_static(b"one")).send()
    };
    put(&writing).await.unwrap();
    let denied = |code: Option<&str>| assert_eq!(code, Some("AccessDenied"));
    denied(put(&reading).await.unwrap_err().code());
    denied(writing.get_object().bucket("snapshots").key("a/b").send().await.unwrap_err().code());
    denied(writing.list_objects_v2().bucket("snapshots").send().await.unwrap_err().code());
    denied(writing.delete_object().bucket("snapshots").key("a/b").send().await.unwrap_err().code());
    denied(reading.delete_object().bucket("snapshots").key("a/b").send().await.unwrap_err().code());

    server.stop().await;
    assert!(reading.list_objects_v2().bucket("snapshots").send().await.is_err());
    server.restart().await;
    let object = reading.get_object().bucket("snapshots").key("a/b").send().await.unwrap();
    assert!(object.version_id().is_some());
    assert_eq!(object.body.collect().await.unwrap().to_vec(), b"one");
    assert_eq!((server.names("snapshots").await, server.open_uploads("snapshots").await), (vec!["a/b".to_owned()], 0));
}
