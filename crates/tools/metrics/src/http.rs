//! The endpoint that is scraped: HTTP/1.1 on a thread of its own.
//!
//! Whoever connects may be slow, silly or hostile. Headers are bounded in bytes, number and time, a connection in its whole life,
//! connections in number; and however many ask, the pages are looked at a few times a second. Nothing can be changed through it.

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
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, oneshot};

/// Connections at a time; who comes then is turned away.
pub const CONNECTIONS_MAX: usize = 32;
/// Bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;
/// Header lines of a request.
const HEADERS_MAX: usize = 64;
/// For a head to come, also for the next one on a connection that is kept.
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

async fn serve(listener: tokio::net::TcpListener, which: Which) {
    let answers = Arc::new(Answers { which, made: Mutex::new([None, None]) });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Without a place the stream is dropped here, which closes it.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
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
            // A client that makes no sense, or is too slow, is no news to anybody.
            let _ = tokio::time::timeout(LIFE, connection).await;
            drop(place);
        });
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
