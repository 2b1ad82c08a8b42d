//! `snapshot` where there is nothing to take one from.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast::cli::snapshot::print;
use serde_json::Value;

use crate::site::{Site, TAKER};
use crate::transcript::recorded;

/// Nothing was put anywhere, and nothing waits to be.
fn nothing_is_stored(site: &Site) {
    for store in ["snapshots", "escrow", "ledger"] {
        assert_eq!(site.files(store), Vec::<std::path::PathBuf>::new());
    }
    let waiting: Vec<_> = site.files(TAKER).into_iter().filter(|path| path.to_str().unwrap().contains("outbox")).collect();
    assert!(waiting.iter().all(|path| !path.to_str().unwrap().ends_with(".json")), "{waiting:#?}");
}

/// A port of this host where nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn what_was_taken_is_printed_with_its_keys_and_what_is_missing() {
    let site = Site::with_snapshots();
    for (name, taken) in [("snapshot-good", &site.good), ("snapshot-incomplete", &site.doubtful)] {
        let taken = taken.as_ref().unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        print(taken, false, &mut out, &mut err).unwrap();
        let [out, err] = [out, err].map(|bytes| String::from_utf8(bytes).unwrap());
        recorded(name, format!("{out}\nstandard error:\n{err}\nexit {}", taken.exit() as u8));
        let (mut out, mut err) = (Vec::new(), Vec::new());
        print(taken, true, &mut out, &mut err).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(document["manifest"]["id"], taken.manifest.id.as_str());
        assert_eq!(document["warnings"].as_array().unwrap().len(), taken.warnings.len());
        assert!(err.is_empty(), "warnings are in the document");
    }
}

#[test]
fn without_etcd_nothing_is_stored() {
    let site = Site::new();
    let port = closed_port().to_string();
    site.edit(TAKER, "127.0.0.1:1\"", &format!("127.0.0.1:{port}\""));
    let run = site.run(TAKER, &["snapshot"]).exits(2).is("snapshot-no-etcd");
    assert!(run.stderr.contains(&port), "{run:#?}");
    site.run(TAKER, &["snapshot", "--json"]).exits(2).refuses("etcd.unreachable");
    nothing_is_stored(&site);
}

#[test]
fn a_member_of_another_authority_is_refused() {
    let site = Site::new();
    let mut ours = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    ours.distinguished_name.push(rcgen::DnType::CommonName, "etcd-ca");
    let ours = ours.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let theirs = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    fs::write(site.path("ca.crt"), ours.pem()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(theirs.signing_key.serialize_der().into());
    let server = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![theirs.cert.der().clone()], key)
        .unwrap();
    let (server, done) = (Arc::new(server), AtomicBool::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ca = format!("[\"https://{address}\"]\nca = {:?}", site.path("ca.crt"));
    site.edit(TAKER, "[\"http://127.0.0.1:1\"]", &ca);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take_while(|_| !done.load(Ordering::SeqCst)) {
                let mut session = rustls::ServerConnection::new(Arc::clone(&server)).unwrap();
                // It ends with the client's refusal, which is what is asked for.
                let _ = session.complete_io(&mut stream.unwrap());
            }
        });
        let run = site.run(TAKER, &["snapshot"]);
        let machine = site.run(TAKER, &["snapshot", "--json"]);
        done.store(true, Ordering::SeqCst);
        std::net::TcpStream::connect(address).unwrap();
        run.exits(2).is("snapshot-wrong-ca");
        machine.exits(2).refuses("etcd.tls");
    });
    nothing_is_stored(&site);
}

#[test]
fn a_rehearsal_host_takes_no_snapshot() {
    let site = Site::new();
    site.ask(&["snapshot"]).exits(3).is("snapshot-no-etcd-section");
    site.ask(&["snapshot", "--json"]).exits(3).refuses("config.section-missing");
    nothing_is_stored(&site);
}

#[test]
fn a_signing_key_that_is_missing_stops_before_anything_is_asked() {
    let site = Site::new();
    let path = site.path(TAKER).join("signing.key");
    fs::remove_file(&path).unwrap();
    site.run(TAKER, &["snapshot"]).exits(2).is("snapshot-signing-key-gone");
    site.edit(TAKER, &format!("signing_key = {path:?}\n"), "");
    site.run(TAKER, &["snapshot"]).exits(3).is("snapshot-no-signing-key");
    nothing_is_stored(&site);
}
