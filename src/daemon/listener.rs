//! Connections to the pages: a few at a time, each for a short while.
//!
//! Whoever reaches the address must not be able to use up the daemon's file
//! descriptors, which snapshots need.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Two monitors and a person with three windows.
const MOST_CONNECTIONS: usize = 32;

/// A connection is closed after this time, in whatever state it is. A monitor
/// that keeps its connection makes a new one.
pub const LIFETIME: Duration = Duration::from_secs(60);

/// A listener that lets so many in at a time and no more.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

/// A connection that ends in time.
#[derive(Debug)]
pub struct Limited<S> {
    stream: S,
    end: Pin<Box<Sleep>>,
    /// Given back when the connection is dropped.
    _place: Option<OwnedSemaphorePermit>,
}

impl Bounded {
    #[must_use]
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(MOST_CONNECTIONS)) }
    }
}

impl Listener for Bounded {
    type Io = Limited<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // The semaphore is never closed; without a place the connection still has an end.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Limited::new(stream, place), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl<S> Limited<S> {
    #[must_use]
    pub fn new(stream: S, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, end: Box::pin(tokio::time::sleep(LIFETIME)), _place: place }
    }

    /// Fails when the time is up; else arranges to be woken then.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_stays_silent_ends_in_time() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut limited = Limited::new(near, None);
        far.write_all(b"GET").await.unwrap();
        let mut three = [0; 3];
        limited.read_exact(&mut three).await.unwrap();
        let begin = tokio::time::Instant::now();
        let error = limited.read_exact(&mut three).await.unwrap_err();
        assert_eq!((error.kind(), begin.elapsed().as_secs()), (io::ErrorKind::TimedOut, LIFETIME.as_secs()));
        // One that does not read what it asked for, too.
        assert_eq!(limited.write_all(&[0; 64]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn no_more_than_so_many_are_let_in_until_one_goes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut bounded = Bounded::new(listener);
        let (mut clients, mut held) = (Vec::new(), Vec::new());
        for _ in 0..MOST_CONNECTIONS {
            clients.push(TcpStream::connect(address).await.unwrap());
            held.push(bounded.accept().await.0);
        }
        clients.push(TcpStream::connect(address).await.unwrap());
        assert!(futures::future::poll_immediate(Box::pin(bounded.accept())).await.is_none());
        drop(held.pop());
        bounded.accept().await;
    }
}
