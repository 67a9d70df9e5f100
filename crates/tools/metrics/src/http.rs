//! The endpoint that is scraped: HTTP/1.1 on a thread of its own.
//!
//! Whoever connects may be slow, silly or hostile. Headers are bounded in bytes, number and time, a connection in its whole life,
//! connections in number, each peer's on their own; and however many ask, the pages are looked at a few times a second. Who comes
//! when there is no place takes that of whoever never asked, or has been silent for the longest time, so that nobody keeps others
//! out by being silent. Nothing can be changed through it.

use crate::page::{Page, Which};
use crate::text::{Format, render};
use barewire_base::{Duration, Instant};
use barewire_measure::stamp;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 32;
/// Connections of one address at a time.
pub const CONNECTIONS_PER_PEER: usize = 8;
/// Bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;
/// Header lines of a request.
const HEADERS_MAX: usize = 64;
/// For the first head to come: a client asks as soon as it is there.
const FIRST_HEAD_TIME: std::time::Duration = std::time::Duration::from_secs(2);
/// For the next one on a connection that is kept.
const HEAD_TIME: std::time::Duration = std::time::Duration::from_secs(10);
/// A connection's whole life.
const LIFE: std::time::Duration = std::time::Duration::from_secs(120);
/// After a failed accept: descriptors may have run out.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
/// A text that is not older is given again.
const FRESH: Duration = Duration::from_millis(200);

const ROOT_TEXT: &str = "barewire: counters are at /metrics\n";

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address.
    #[error("metrics at {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The thread.
    #[error("starting a thread for metrics: {0}")]
    Thread(std::io::Error),
}

/// A running endpoint. Dropping it stops it.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address` and answers with the counters of `which`.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn start(address: SocketAddr, which: Which) -> Result<MetricsServer, ServeError> {
        let fail = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let bound = listener.local_addr().map_err(fail)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServeError::Thread)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(fail)?
        };
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, which) => {}
                    _ = stopped => {}
                }
            });
            // Connections end with their runtime.
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(serve)
            .map_err(ServeError::Thread)?;
        Ok(MetricsServer { address: bound, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The texts, and when they were made.
struct Answers {
    which: Which,
    made: Mutex<[Option<(Instant, Bytes)>; 2]>,
}

impl Answers {
    fn text(&self, format: Format) -> Bytes {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut made[usize::from(format == Format::OpenMetrics)];
        match place {
            Some((at, text)) if stamp().since(*at) < FRESH => text.clone(),
            _ => {
                let text = Bytes::from(render(&Page::look_at(&self.which), format));
                place.insert((stamp(), text)).1.clone()
            }
        }
    }
}

/// A connection while it lasts.
struct Connection {
    peer: IpAddr,
    /// When it asked last.
    heard: Arc<Mutex<Option<Instant>>>,
    began: Instant,
    task: AbortHandle,
}

impl Connection {
    fn asked(&self) -> Option<Instant> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who has the least claim to its place comes first: who never asked, then who has been silent for longest.
    fn claim(&self) -> (bool, Instant) {
        let asked = self.asked();
        (asked.is_some(), asked.unwrap_or(self.began))
    }
}

/// Ends the connection of `of` that has the least claim to its place.
fn end_oldest(connections: &mut Vec<Connection>, of: impl Fn(&Connection) -> bool) {
    let among = connections.iter().enumerate().filter(|(_, connection)| of(connection));
    if let Some((oldest, _)) = among.min_by_key(|(_, connection)| connection.claim()) {
        connections.swap_remove(oldest).task.abort();
    }
}

async fn serve(listener: tokio::net::TcpListener, which: Which) {
    let answers = Arc::new(Answers { which, made: Mutex::new([None, None]) });
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let peer = peer.ip().to_canonical();
        connections.retain(|connection| !connection.task.is_finished());
        if connections.iter().filter(|connection| connection.peer == peer).count() >= CONNECTIONS_PER_PEER {
            end_oldest(&mut connections, |connection| connection.peer == peer);
        }
        if connections.len() >= CONNECTIONS_MAX {
            end_oldest(&mut connections, |_| true);
        }
        let (heard, began) = (Arc::new(Mutex::new(None)), stamp());
        let task = tokio::spawn(talk(stream, Arc::clone(&answers), Arc::clone(&heard))).abort_handle();
        connections.push(Connection { peer, heard, began, task });
    }
}

/// Talks to one client until it leaves, makes no sense, or is too slow, which is no news to anybody.
async fn talk(stream: tokio::net::TcpStream, answers: Arc<Answers>, heard: Arc<Mutex<Option<Instant>>>) {
    let note = Arc::clone(&heard);
    let service = service_fn(move |request| {
        *note.lock().unwrap_or_else(PoisonError::into_inner) = Some(stamp());
        let answer = answer(&request, &answers);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(false);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let first_head = async {
        tokio::time::sleep(FIRST_HEAD_TIME).await;
        if heard.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = tokio::time::timeout(LIFE, connection) => {}
        () = first_head => {}
    }
}

fn answer(request: &Request<Incoming>, answers: &Answers) -> Response<Full<Bytes>> {
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let accept: Vec<&str> =
                request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
            let format = Format::of_accept(&accept.join(","));
            (StatusCode::OK, format.content_type(), answers.text(format))
        }
        (&Method::GET | &Method::HEAD, "/") => {
            (StatusCode::OK, PLAIN, Bytes::from_static(ROOT_TEXT.as_bytes()))
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, PLAIN, Bytes::from_static(ROOT_TEXT.as_bytes()))
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, Bytes::from_static(b"GET and HEAD only\n")),
    };
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";
