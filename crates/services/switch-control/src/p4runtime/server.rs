//! The gRPC server: P4Runtime and gNMI on one address, with a runtime and threads of its own.

use super::device::{Device, Lost};
use super::error::P4Error;
use super::message::ForwardingPipelineConfig;
use super::service::P4Runtime;
use super::{incoming, notify};
use crate::gnmi::Gnmi;
use barewire_switch::control::Switch;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Threads that serve connections.
const WORKERS: usize = 2;
/// Threads on which requests wait for the switch.
const MAX_BLOCKING: usize = 64;
/// Streams of one connection.
const MAX_STREAMS: u32 = 256;
/// Notifications that may wait for the thread that passes them on.
const NOTIFICATIONS: usize = 65_536;
/// Of these that may wait for requests that are under way.
const NOTIFICATIONS_LATER: usize = 16_384;
/// How long the end waits for requests under way.
const SHUTDOWN: Duration = Duration::from_millis(500);

/// TLS: files in PEM.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// The server's certificate, chain included (`--grpc-server-cert`).
    pub cert: PathBuf,
    /// Its key (`--grpc-server-key`).
    pub key: PathBuf,
    /// Authorities whose clients are let in (`--grpc-server-cacert`).
    pub ca_cert: Option<PathBuf>,
    /// Clients must show a certificate (`--grpc-server-with-client-auth`).
    pub client_auth: bool,
}

/// Connections at one time, unless asked otherwise; one more is closed at once.
pub const MAX_CONNECTIONS: usize = 256;

/// Options of the server.
#[derive(Debug, Clone)]
pub struct GrpcOptions {
    /// The device id that requests must name; P4Runtime knows no device 0.
    pub device_id: u64,
    /// TLS; plain TCP without.
    pub tls: Option<Tls>,
    /// The P4Info of the program that runs from the start, so that a controller need not push it.
    pub config: Option<ForwardingPipelineConfig>,
    /// Connections at one time; one more is closed at once.
    pub max_connections: usize,
}

impl Default for GrpcOptions {
    fn default() -> Self {
        GrpcOptions { device_id: 0, tls: None, config: None, max_connections: MAX_CONNECTIONS }
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrpcError {
    /// The address.
    #[error("{address}: {error}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// Why it cannot.
        error: std::io::Error,
    },
    /// A file for TLS.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why it cannot be read.
        error: std::io::Error,
    },
    /// TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// Threads.
    #[error("runtime: {0}")]
    Runtime(std::io::Error),
    /// The P4Info given does not go with the program.
    #[error("{0}")]
    Config(#[from] P4Error),
}

/// A running server. Dropping it stops it.
pub struct GrpcServer {
    address: SocketAddr,
    device: Arc<Device>,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    notify: Notify,
    flag: AtomicBool,
}

impl fmt::Debug for GrpcServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn file(path: &PathBuf) -> Result<Vec<u8>, GrpcError> {
    std::fs::read(path).map_err(|error| GrpcError::File { path: path.clone(), error })
}

fn tls_config(tls: &Tls) -> Result<ServerTlsConfig, GrpcError> {
    let identity = Identity::from_pem(file(&tls.cert)?, file(&tls.key)?);
    let mut config = ServerTlsConfig::new().timeout(incoming::PREFACE_TIMEOUT).identity(identity);
    match &tls.ca_cert {
        Some(path) => {
            let authority = Certificate::from_pem(file(path)?);
            config = config.client_ca_root(authority).client_auth_optional(!tls.client_auth);
        }
        None if tls.client_auth => {
            return Err(GrpcError::Tls(
                "clients are to show a certificate, but no authority was named".into(),
            ));
        }
        None => {}
    }
    Ok(config)
}

impl GrpcServer {
    /// Listen and serve. Port 0 takes any free port: see [`GrpcServer::local_addr`].
    ///
    /// # Errors
    /// [`GrpcError`].
    pub fn start(address: SocketAddr, switch: Switch, options: GrpcOptions) -> Result<GrpcServer, GrpcError> {
        // A program that Thrift has staged is no controller's concern before it runs.
        let switch = switch.of_running();
        let notifications = switch.subscribe_dated(NOTIFICATIONS);
        let device = Arc::new(Device::new(switch.clone(), options.device_id, options.config)?);
        let mut builder = tonic::transport::Server::builder()
            .max_concurrent_streams(Some(MAX_STREAMS))
            .http2_keepalive_interval(Some(Duration::from_secs(30)))
            .http2_keepalive_timeout(Some(Duration::from_secs(20)));
        if let Some(tls) = &options.tls {
            builder = builder.tls_config(tls_config(tls)?).map_err(|error| GrpcError::Tls(text(&error)))?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(MAX_BLOCKING)
            .thread_name("grpc")
            .enable_all()
            .build()
            .map_err(GrpcError::Runtime)?;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(|error| GrpcError::Listen { address, error })?;
        let address = listener.local_addr().map_err(|error| GrpcError::Listen { address, error })?;
        let stop = Arc::new(Stop::default());
        let router = builder.add_service(P4Runtime(Arc::clone(&device))).add_service(Gnmi::new(switch));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(work).map_err(GrpcError::Runtime)
        };
        let (ending, of) = (Arc::clone(&stop), Arc::clone(&device));
        let max_connections = options.max_connections;
        let (to, connections) = mpsc::channel(1);
        let serve = move || {
            runtime.block_on(async {
                let serving = router.serve_with_incoming(ReceiverStream::new(connections));
                let accepting = incoming::accept(|| listener.accept(), max_connections, &to, &of.lost);
                tokio::select! {
                    _ = serving => {}
                    () = accepting => {}
                    () = ending.notify.notified() => {}
                }
            });
            runtime.shutdown_timeout(SHUTDOWN);
        };
        let both = || (Arc::clone(&device), Arc::clone(&stop));
        let (to, later) = notify::later(NOTIFICATIONS_LATER);
        let (of, stopped) = both();
        let pass_on = move || notify::pass_on(&of, &notifications, NOTIFICATIONS, &to, &stopped.flag);
        let (of, stopped) = both();
        let pass_on_later = move || notify::pass_on_later(&of, &later, &stopped.flag);
        let (of, stopped) = both();
        let send_out = move || of.run_outgoing(&stopped.flag);
        let mut server = GrpcServer { address, device, stop, threads: Vec::new() };
        server.threads.push(spawn("grpc-serve", Box::new(serve))?);
        server.threads.push(spawn("grpc-notify", Box::new(pass_on))?);
        server.threads.push(spawn("grpc-later", Box::new(pass_on_later))?);
        server.threads.push(spawn("grpc-out", Box::new(send_out))?);
        Ok(server)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What went wrong without anybody being told.
    pub fn lost(&self) -> &Lost {
        &self.device.lost
    }

    /// A port went up or down, for those who watch wires themselves; the switch's own notifications do the same. Members
    /// of groups that watch the port come and go.
    pub fn port_changed(&self, port: u32, up: bool) {
        self.device.port_changed(port, up);
    }

    /// Stop: streams end, requests under way have half a second.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.flag.store(true, Ordering::Relaxed);
        // One permit is kept for a thread that does not wait yet.
        self.stop.notify.notify_one();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// An error with what is behind it.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        text = format!("{text}: {error}");
        behind = error.source();
    }
    text
}
