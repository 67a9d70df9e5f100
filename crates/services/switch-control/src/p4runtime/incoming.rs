//! Connections as they come: a bounded number, of clients that say something and are there.

use super::device::Lost;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

/// How long nothing is accepted when that has failed: without file descriptors it fails at once, again and again.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a client may take for its first byte.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// A client that has been silent for so long is asked whether it is there, by the kernel.
const ALIVE_AFTER: Duration = Duration::from_secs(60);
/// Between two such questions.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// Accept connections, so many at one time, and pass them on until nobody takes them.
pub(super) async fn accept<F>(
    mut next: impl FnMut() -> F,
    most: usize,
    to: &mpsc::Sender<io::Result<Connection>>,
    lost: &Lost,
) where
    F: Future<Output = io::Result<(TcpStream, SocketAddr)>>,
{
    let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    loop {
        let Ok((stream, _)) = next().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            Lost::count(&lost.connections);
            continue;
        };
        prepare(&stream);
        let silent = Some(Box::pin(tokio::time::sleep(FIRST_BYTE)));
        if to.send(Ok(Connection { stream, silent, _place: place })).await.is_err() {
            return;
        }
    }
}

/// A socket that refuses any of these is dead, which the first read shows.
fn prepare(stream: &TcpStream) {
    // Answers are small and waited for.
    let _ = stream.set_nodelay(true);
    let asked =
        socket2::TcpKeepalive::new().with_time(ALIVE_AFTER).with_interval(ALIVE_EVERY).with_retries(3);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&asked);
}

/// A connection, which has one of the places as long as it is there.
pub(super) struct Connection {
    stream: TcpStream,
    /// Until the client has said something: when it must have.
    silent: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if read.is_ready() {
            self.silent = None;
        }
        let late = self.silent.as_mut().is_some_and(|silent| silent.as_mut().poll(context).is_ready());
        if late { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { read }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use tokio::net::TcpListener;

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
    }

    #[test]
    fn accepting_that_fails_is_not_tried_again_at_once() {
        run(async {
            let (to, _connections) = mpsc::channel(1);
            let (mut tried, lost) = (0, Lost::default());
            let fails = || {
                tried += 1;
                std::future::ready(Err(io::Error::from_raw_os_error(24)))
            };
            let accepting = accept(fails, 4, &to, &lost);
            let _ = tokio::time::timeout(Duration::from_millis(200), accepting).await;
            assert!((2..=21).contains(&tried), "{tried} times");
        });
    }

    #[test]
    fn one_more_than_there_are_places_is_closed_until_one_goes() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (to, mut connections) = mpsc::channel(1);
            let lost = Lost::default();
            let accepting = accept(|| listener.accept(), 2, &to, &lost);
            let test = async {
                let mut clients = Vec::new();
                let mut taken = Vec::new();
                for _ in 0..2 {
                    clients.push(TcpStream::connect(address).await.unwrap());
                    taken.push(connections.recv().await.unwrap().unwrap());
                }
                let more = TcpStream::connect(address).await.unwrap();
                more.readable().await.unwrap();
                let ended = more.try_read(&mut [0]);
                assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
                assert_eq!(lost.connections.load(Ordering::Relaxed), 1);
                taken.pop();
                let _again = TcpStream::connect(address).await.unwrap();
                assert!(connections.recv().await.unwrap().unwrap().stream.nodelay().unwrap());
            };
            tokio::select! {
                () = accepting => panic!("it goes on"),
                () = test => {}
            }
        });
    }
}
