//! A bare machine with the offline kit: addresses, credentials that read,
//! identities, `allowed_signers` and the authority of the store's certificate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holdfast::config::StoreConfig;
use holdfast::store::{self, Prefix};
use tokio::io::AsyncReadExt;

use super::{Bare, Up, text};
use crate::rig::s3::{Grant, S3Server};
use crate::scene::{Scene, source};

/// Puts every object of a directory's store into a bucket.
async fn upload(server: &S3Server, bucket: &str, from: &StoreConfig) {
    let from = store::open(from);
    for listed in from.list(&Prefix::below(&"holdfast".parse().unwrap())).await.unwrap() {
        let mut bytes = Vec::new();
        from.open(&listed.key, None, None).await.unwrap().read_to_end(&mut bytes).await.unwrap();
        let put = server.root_client().put_object().bucket(bucket).key(listed.key.as_str());
        put.body(bytes.into()).send().await.unwrap();
    }
}

fn section(folder: &Path, server: &S3Server, store: &str) -> String {
    let at = |name: &str| folder.join(format!("{store}{name}"));
    let endpoint = if store == "ledger" { "https://127.0.0.1:1".to_owned() } else { server.endpoint() };
    let identity = if store == "ledger" { String::new() } else { format!("[{store}]\nidentity_file = {:?}\n", at(".identity")) };
    format!(
        "{identity}[{store}.store.s3]\nbucket = {store:?}\nendpoint = {endpoint:?}\nca = {:?}\n\
         [{store}.store.s3.credentials]\nfile = {:?}\n",
        server.ca().unwrap(),
        at(".credentials"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_machine_with_the_offline_kit_restores_from_buckets_without_the_ledger() {
    let (scene, bare) = (Scene::new(), Bare::new());
    let folder = bare.folder.path();
    let mut server = S3Server::start_with_tls().await;
    let mut stores = String::new();
    for (name, from) in [("snapshots", &scene.config.snapshots.store), ("escrow", &scene.config.escrow.store)] {
        server.bucket(name, false).await;
        let reader = server.user(&format!("{name}-reader"));
        server.grant(name, &reader, Grant::Read).await;
        upload(&server, name, from).await;
        reader.write(&folder.join(format!("{name}.credentials")));
        let identity = folder.join(format!("{name}.identity"));
        fs::copy(scene.identity(name), &identity).unwrap();
        fs::set_permissions(&identity, fs::Permissions::from_mode(0o600)).unwrap();
        stores.push_str(&section(folder, &server, name));
    }
    // The ledger is gone with the cluster: its address is all that is left.
    server.user("ledger").write(&folder.join("ledger.credentials"));
    stores.push_str(&section(folder, &server, "ledger"));
    fs::copy(&scene.config.host.allowed_signers, folder.join("allowed_signers")).unwrap();
    fs::create_dir(folder.join("state")).unwrap();
    let (state, signers) = (folder.join("state"), folder.join("allowed_signers"));
    let host = format!("[host]\nname = \"bare\"\nstate_dir = {state:?}\nallowed_signers = {signers:?}\n");
    let config = bare.file("holdfast.toml", format!("cluster = \"demo\"\n{host}{stores}").as_bytes());

    let arguments = ["restore", "latest", "--into", "scratch", "--config", &config];
    let output = bare.command(&[&arguments[..], &["--json"]].concat()).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}{told}", text(&output.stdout));
    let document = serde_json::from_slice(&output.stdout).unwrap();
    let up = Up::of(&document);
    assert_eq!((&document["up"]["snapshot"], &document["recorded"]), (&source().second.id.as_str().into(), &false.into()));
    assert!(told.contains("found in the snapshot store") && told.contains("no signing key"), "{told}");
    let secret = super::kubectl(&up.kubeconfig, &["get", "secrets", "-A", "-o", "name"]);
    assert_eq!(text(&secret.stdout).lines().count(), source().secrets, "{}", text(&secret.stderr));
    bare.json(&["scratch", "down", &up.run, "--config", &config], 0);
    bare.nothing_is_left();
    server.stop().await;
}
