//! A way to etcd that stops carrying answers after so many bytes, as a network
//! that hangs: the snapshot stream stays open and nothing comes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A test that waits longer than this is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct StallingProxy {
    address: SocketAddr,
    stalled: Receiver<()>,
    /// Held open so that a stalled connection is not closed either.
    _held: Arc<Mutex<Vec<TcpStream>>>,
}

impl StallingProxy {
    /// Carries at most `limit` bytes of answers of the server behind `endpoint`.
    pub fn start(endpoint: &str, limit: usize) -> Self {
        let server: SocketAddr = endpoint.trim_start_matches("https://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, stalled) = mpsc::channel();
        let (carried, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let holding = held.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(server).unwrap();
                holding.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (questions, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || copy(questions, server));
                let (carried, tell) = (carried.clone(), tell.clone());
                std::thread::spawn(move || carry(answers, client, limit, &carried, &tell));
            }
        });
        Self { address, stalled, _held: held }
    }

    pub fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn wait_until_it_stalls(&self) {
        self.stalled.recv_timeout(PATIENCE).expect("the stream reaches the limit");
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
}

fn carry(mut from: TcpStream, mut to: TcpStream, limit: usize, carried: &AtomicUsize, tell: &Sender<()>) {
    let mut buffer = [0; 4096];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer) else { return };
        if carried.fetch_add(length, Ordering::SeqCst) + length > limit {
            let _ = tell.send(());
            return;
        }
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
