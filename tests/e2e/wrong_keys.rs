//! What a real API server does over real data when its keys are wrong: never
//! ready, and its log says why.

use std::io::{Read, Write};
use std::time::Duration;

use holdfast::base::clock::SystemClock;
use holdfast::base::codes;
use holdfast::base::failure::Failure;
use holdfast::base::secret::Secret;
use holdfast::escrow::seal::Identities;
use holdfast::k8s::encryption_config::{EncryptionConfig, Provider, Rule};
use holdfast::k8s::local_key::{LocalKey, LocalProvider};
use holdfast::rehearsal::apiserver::{self, ApiPki, ApiSetup};
use holdfast::rehearsal::member::{self, MemberPki};
use holdfast::sandbox::{Fencing, Sandbox, tools};
use rustix::fd::OwnedFd;
use rustix::fs::MemfdFlags;

use crate::scene::{Scene, files, source};

const LIMIT: Duration = Duration::from_secs(120);

/// The first snapshot, opened into memory.
fn image(scene: &Scene) -> OwnedFd {
    let ending = format!("{}/etcd.db.zst.age", source().first.id);
    let stored = files(&scene.store(&scene.config.snapshots.store));
    let object = stored.iter().find(|path| path.to_str().unwrap().ends_with(&ending)).unwrap();
    let identities = Identities::load(scene.config.snapshots.identity_file.as_ref().unwrap()).unwrap();
    let sealed = std::io::BufReader::new(std::fs::File::open(object).unwrap());
    let mut bytes = Vec::new();
    zstd::Decoder::new(identities.reader(sealed).unwrap()).unwrap().read_to_end(&mut bytes).unwrap();
    let memory = rustix::fs::memfd_create("image", MemfdFlags::CLOEXEC).unwrap();
    std::fs::File::from(memory.try_clone().unwrap()).write_all(&bytes).unwrap();
    memory
}

/// Starts etcd on the snapshot and an API server with this configuration over it.
async fn serve(scene: &Scene, name: &str, config: Option<EncryptionConfig>) -> Failure {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let clock = SystemClock::new();
    let sandbox = Sandbox::up(scene.root.path(), name, Fencing::IfPossible).await.unwrap();
    let versions = member::wanted_versions(Some("3.6.0"), "3.6.0").unwrap();
    let etcdutl = tools::find(member::ETCDUTL, &versions, &scene.places).await.unwrap();
    let etcd = tools::find(member::ETCD, &versions, &scene.places).await.unwrap();
    let data = member::restore(&sandbox, &etcdutl, image(scene), "wrong-keys", LIMIT).await.unwrap();
    let pki = MemberPki::new(clock.as_ref(), 1).unwrap();
    let files = pki.write(&sandbox).unwrap();
    let member = member::start(&sandbox, &etcd, &data, 0, &pki, &files, LIMIT).await.unwrap();
    let program = tools::find(apiserver::KUBE_APISERVER, &apiserver::wanted_versions(), &scene.places).await.unwrap();
    let yaml = config.map(|config| sandbox.write_private("encryption.yaml", config.to_yaml().expose().as_bytes()).unwrap());
    let setup = ApiSetup {
        program: &program,
        etcd_port: member.port,
        etcd_files: &files,
        prefix: "/registry",
        encryption_config: yaml.as_ref(),
        pki: &ApiPki::new(clock.as_ref(), 1).unwrap(),
    };
    let failure = apiserver::start(&sandbox, &setup, clock.as_ref(), LIMIT).await.unwrap_err();
    member.stop().await.unwrap();
    sandbox.down().await.unwrap();
    failure
}

fn config(name: &str, material: u8) -> EncryptionConfig {
    let key = LocalKey::new(LocalProvider::Aescbc, name, Secret::new(vec![material; 32])).unwrap();
    let providers = vec![Provider::Aescbc(vec![key]), Provider::Identity];
    EncryptionConfig { rules: vec![Rule { resources: vec!["secrets".to_owned()], providers }] }
}

#[tokio::test]
async fn c_017_an_api_server_without_the_right_keys_is_never_called_ready_and_the_cause_is_named() {
    let scene = Scene::new();
    let (none, other_name, other_material) = tokio::join!(
        serve(&scene, "none", None),
        serve(&scene, "name", Some(config("key9", 9))),
        serve(&scene, "material", Some(config("key1", 9)))
    );
    for (failure, cause) in
        [(none, "no rule for encrypted data"), (other_name, "no key of the name"), (other_material, "other material")]
    {
        assert_eq!(failure.code(), &codes::REHEARSAL_NOT_READY);
        assert!(failure.cause().contains(cause), "{cause}: {failure}");
    }
}
