//! The inward door: a loopback port outside that leads to one address inside.
//!
//! Connections are made inward only. The listener belongs to the network
//! outside; one thread enters the network inside and connects from there.
//! Nothing ever listens inside for the outside, so there is no way back.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::fd::{AsFd, OwnedFd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

use crate::base::codes;
use crate::base::failure::Failure;

/// One client reads with a handful of connections; more wait.
const MAX_CONNECTIONS: usize = 64;

/// An open door. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Forwarder {
    address: SocketAddr,
    close: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Opens a door to `to` as `network` reaches it, or our own network where
    /// there is no other.
    ///
    /// # Errors
    /// `sandbox.failed`; no listener is left.
    pub fn open(to: SocketAddr, network: Option<OwnedFd>) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::because(&codes::SANDBOX_FAILED, format!("door to {to}"), &e);
        // Bound before the thread enters: a socket stays in the network it was made in.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let close = Arc::new(Notify::new());
        let closing = close.clone();
        let (report, started) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("door-{}", to.port()))
            .spawn(move || {
                let entered = network.map_or(Ok(()), |space| enter(&space));
                let runtime = entered.and_then(|()| tokio::runtime::Builder::new_current_thread().enable_io().build());
                match runtime {
                    Ok(runtime) => {
                        let _ = report.send(Ok(()));
                        let _ = runtime.block_on(serve(listener, to, &closing));
                    }
                    Err(error) => {
                        let _ = report.send(Err(error));
                    }
                }
            })
            .map_err(failed)?;
        let door = Self { address, close, thread: Some(thread) };
        started.recv().map_err(|_| failed(io::Error::other("its thread has ended")))?.map_err(failed)?;
        Ok(door)
    }

    /// Where to connect from outside.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.close.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn enter(network: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Runs on the thread that is inside: what it connects, it connects inside.
async fn serve(listener: TcpListener, to: SocketAddr, close: &Notify) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = close.notified() => return Ok(()),
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        // A client that is gone before it is accepted is no reason to close the door.
        let Ok((mut outer, _)) = accepted else { continue };
        let places = places.clone();
        connections.spawn(async move {
            let Ok(_place) = places.acquire().await else { return };
            // With nothing listening inside, the client sees its connection close.
            if let Ok(mut inner) = TcpStream::connect(to).await {
                let _ = copy_bidirectional(&mut outer, &mut inner).await;
            }
        });
    }
}
