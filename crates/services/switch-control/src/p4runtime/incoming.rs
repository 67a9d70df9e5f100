//! Connections as they come: a bounded number, of clients that greet and are there.

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
/// How long a client may take for what begins a connection.
pub(super) const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes with which HTTP/2 begins; TLS begins with more.
const PREFACE_LEN: usize = 24;
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
        if to.send(Ok(Connection::new(stream, place, PREFACE_TIMEOUT))).await.is_err() {
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
    /// Bytes of the preface that are still to come, and when it must be there.
    preface: Option<(usize, Pin<Box<Sleep>>)>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit, preface: Duration) -> Connection {
        let preface = Some((PREFACE_LEN, Box::pin(tokio::time::sleep(preface))));
        Connection { stream, preface, _place: place }
    }
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
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        let Some((left, until)) = &mut self.preface else { return read };
        *left = left.saturating_sub(into.filled().len() - before);
        if *left == 0 {
            self.preface = None;
        } else if read.is_pending() && until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
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
    fn who_does_not_greet_in_time_has_to_go() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            for (said, ends) in [(0, true), (10, true), (24, false), (100, false)] {
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
                let mut connection = Connection::new(stream, place, Duration::from_millis(50));
                write(&mut client, &vec![7; said]).await;
                let mut heard = 0;
                let reading = async {
                    loop {
                        match read(&mut connection).await {
                            Ok(len) => heard += len,
                            Err(error) => return error.kind(),
                        }
                    }
                };
                let patience = Duration::from_millis(if ends { 60_000 } else { 300 });
                let ended = tokio::time::timeout(patience, reading).await.ok();
                assert_eq!(ended, ends.then_some(io::ErrorKind::TimedOut), "after {said} bytes");
                assert_eq!(heard, said);
            }
        });
    }

    async fn write(client: &mut TcpStream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            client.writable().await.unwrap();
            if let Ok(len) = client.try_write(bytes) {
                bytes = &bytes[len..];
            }
        }
    }

    /// How many bytes come next.
    async fn read(connection: &mut Connection) -> io::Result<usize> {
        std::future::poll_fn(|context| {
            let mut room = [0; 7];
            let mut into = ReadBuf::new(&mut room);
            let read = Pin::new(&mut *connection).poll_read(context, &mut into);
            read.map(|done| done.map(|()| into.filled().len()))
        })
        .await
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
