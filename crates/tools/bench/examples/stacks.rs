//! hyper and tonic over flows, beside the same over TCP: what HTTP and gRPC cost on each, with the CPU of both ends.
//!
//! ```text
//! stacks [--over mem|packet|xdp] [--stacks hyper,tonic] [--size BYTES] [--warmup S] [--seconds S] [--runs N] [--cores A,B|none]
//!        [--binary PATH] [--json] [--run FOLDER]
//! ```
//!
//! Each end is a thread with a runtime of one thread, on one core with the daemon of its host. Over flows and over TCP all of that is the
//! same: the libraries, the runtime, the cores, one request in flight, no delay in TCP, and bytes that are compared. Over `packet` and `xdp`
//! TCP goes over a second pair of interfaces with offloads on, without a program of ours on it (root is needed); over `mem` it goes over the
//! loopback interface. Nobody spins but the daemons in their usual mode, which yield: rows of daemons that sleep (`daemon-park`) stand beside
//! TCP with cores that are kept awake and with cores that sleep. All systems take turns, A B B A, run by run.

#[path = "record/grpc.rs"]
#[allow(dead_code, reason = "its service is measured, its own command line is not")]
mod grpc;
#[path = "record/mod.rs"]
mod record;

use barewire_bench::bindings::{Carrier, Settings, Wire};
use barewire_bench::messages::plan::{core_allowed, default_cores};
use barewire_bench::render::table;
use barewire_bench::run::Workload;
use barewire_bench::stacks::{Place, Serving, Stack, StackWorkload, Trips, compare};
use barewire_bench::{BenchError, IdleState};
use barewire_client::aio::{AsyncClient, AsyncListener, ByteStream};
use barewire_client::{ClientConfig, ConnectOptions};
use barewire_engine::IdleStrategy;
use grpc::{Echo, Example, METHOD, connector, flows};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use record::{Leave, Outcome, Words};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_prost::ProstCodec;

/// A server looks so often whether its client has ended.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Runs an end in a runtime of this thread alone.
fn alone<T>(end: impl Future<Output = Outcome<T>>) -> Result<T, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(end));
    ended.map_err(|error| error.downcast::<BenchError>().map_or_else(BenchError::Other, |error| *error))
}

async fn attach(socket: &Path, name: &str) -> Outcome<AsyncClient> {
    let mut config = ClientConfig::new(name);
    config.socket = socket.to_owned();
    Ok(AsyncClient::attach_with(&config).await?)
}

/// Any port that the kernel has for TCP.
async fn tcp() -> Outcome<(TcpListener, u16)> {
    let listener = TcpListener::bind(("0.0.0.0", 0)).await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Until the client has ended, or the server has by itself.
async fn until_asked(serving: &Serving<'_>, server: impl Future<Output = Outcome<()>>) -> Outcome<()> {
    let asked = async {
        while !serving.asked() {
            tokio::time::sleep(STOP_CHECK).await;
        }
    };
    tokio::select! {
        () = asked => Ok(()),
        ended = server => ended,
    }
}

/// HTTP/1.1 by hyper.
struct Hyper;

/// One connection's requests, whatever carries it.
async fn answer(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let echo = service_fn(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await?.to_bytes();
        Ok::<_, hyper::Error>(Response::new(Full::new(body)))
    });
    // The client goes when its time is over.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), echo).await;
}

async fn answer_connections(listener: TcpListener) -> Outcome<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(answer(stream));
    }
}

async fn answer_flows(listener: AsyncListener) -> Outcome<()> {
    while let Some(flow) = listener.accept().await? {
        tokio::spawn(answer(ByteStream::new(flow)));
    }
    Ok(())
}

async fn post(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    size: u32,
    trips: &mut Trips<'_>,
) -> Outcome<()> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await?;
    tokio::spawn(connection);
    let body = Bytes::from(vec![b'x'; size as usize]);
    loop {
        let sent = trips.send();
        sender.ready().await?;
        let request = Request::post("/echo").header("host", "example").body(Full::new(body.clone()))?;
        let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        if answer != body {
            return Err("another answer than the request".into());
        }
        if !trips.record(sent)? {
            return Ok(());
        }
    }
}

impl Stack for Hyper {
    fn name(&self) -> &'static str {
        "hyper"
    }

    fn serve(&self, at: &Place<'_>, serving: &Serving<'_>) -> Result<(), BenchError> {
        alone(async {
            let Some(socket) = at.daemon else {
                let (listener, port) = tcp().await?;
                serving.ready(port);
                return until_asked(serving, answer_connections(listener)).await;
            };
            let client = attach(socket, "stacks server").await?;
            let listener = client.listen(at.port()).await?;
            serving.ready(at.port());
            until_asked(serving, answer_flows(listener)).await
        })
    }

    fn ask(&self, at: &Place<'_>, server: SocketAddr, trips: &mut Trips<'_>) -> Result<(), BenchError> {
        alone(async {
            let Some(socket) = at.daemon else {
                let stream = TcpStream::connect(server).await?;
                stream.set_nodelay(true)?;
                return post(stream, at.size, trips).await;
            };
            let client = attach(socket, "stacks client").await?;
            let flow = client.connect(server, &ConnectOptions::default()).await?;
            post(ByteStream::new(flow), at.size, trips).await
        })
    }
}

/// gRPC by tonic: the service of the client's example `grpc`.
struct Tonic;

async fn call(channel: Channel, size: u32, trips: &mut Trips<'_>) -> Outcome<()> {
    let message = Echo { text: "x".repeat(size as usize) };
    loop {
        let sent = trips.send();
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await?;
        let (request, path) = (tonic::Request::new(message.clone()), PathAndQuery::from_static(METHOD));
        let answer = grpc.unary(request, path, ProstCodec::<Echo, Echo>::default()).await?.into_inner();
        if answer != message {
            return Err("another answer than the request".into());
        }
        if !trips.record(sent)? {
            return Ok(());
        }
    }
}

impl Stack for Tonic {
    fn name(&self) -> &'static str {
        "tonic"
    }

    fn serve(&self, at: &Place<'_>, serving: &Serving<'_>) -> Result<(), BenchError> {
        alone(async {
            let router = Server::builder().add_service(Example);
            let Some(socket) = at.daemon else {
                let (listener, port) = tcp().await?;
                serving.ready(port);
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let server = async { Outcome::<()>::Ok(router.serve_with_incoming(incoming).await?) };
                return until_asked(serving, server).await;
            };
            let client = attach(socket, "stacks server").await?;
            let listener = client.listen(at.port()).await?;
            serving.ready(at.port());
            let server = async { Outcome::<()>::Ok(router.serve_with_incoming(flows(listener)).await?) };
            until_asked(serving, server).await
        })
    }

    fn ask(&self, at: &Place<'_>, server: SocketAddr, trips: &mut Trips<'_>) -> Result<(), BenchError> {
        alone(async {
            let endpoint = Endpoint::from_shared(format!("http://{server}"))?.tcp_nodelay(true);
            let Some(socket) = at.daemon else {
                return call(endpoint.connect().await?, at.size, trips).await;
            };
            let client = attach(socket, "stacks client").await?;
            let channel = endpoint.connect_with_connector(connector(&client, &server.to_string())).await?;
            call(channel, at.size, trips).await
        })
    }
}

fn stack(name: &str) -> Outcome<Arc<dyn Stack>> {
    match name {
        "hyper" => Ok(Arc::new(Hyper)),
        "tonic" => Ok(Arc::new(Tonic)),
        other => Err(format!("unknown stack `{other}`; there are hyper, tonic").into()),
    }
}

fn wire(name: &str) -> Outcome<Wire> {
    match name {
        "mem" => Ok(Wire::Mem),
        "packet" => Ok(Wire::Packet),
        "xdp" => Ok(Wire::Xdp),
        other => Err(format!("`--over {other}`: there are mem, packet, xdp").into()),
    }
}

/// The client's core and the server's.
fn cores(text: Option<&str>) -> Outcome<Option<(usize, usize)>> {
    match text {
        None => Ok(Some(default_cores()?)),
        Some("none") => Ok(None),
        Some(text) => {
            let (a, b) = text.split_once(',').ok_or("`--cores` takes two, such as 0,1, or none")?;
            let both = (a.parse()?, b.parse()?);
            match [both.0, both.1].into_iter().find(|core| !core_allowed(*core)) {
                Some(core) => Err(format!("this process may not run on core {core}").into()),
                None => Ok(Some(both)),
            }
        }
    }
}

/// Beside the folder that this example is in.
fn binary() -> Outcome<PathBuf> {
    let program = std::env::current_exe()?;
    let found = program.parent().and_then(Path::parent).map(|folder| folder.join("barewire"));
    found.filter(|path| path.exists()).ok_or_else(|| {
        "no `barewire` for the daemons beside the folder of this example: build barewire-cli in the same profile, or say `--binary PATH`".into()
    })
}

fn main() -> Outcome<ExitCode> {
    let mut words = Words::of_command();
    let leave = Leave::of(&mut words)?;
    let wire = wire(&words.value("--over", "packet".to_owned())?)?;
    let stacks = words.value("--stacks", "hyper,tonic".to_owned())?;
    let stacks = stacks.split(',').map(stack).collect::<Outcome<Vec<_>>>()?;
    let runs: u32 = words.value("--runs", 5)?;
    let size = words.value("--size", 64)?;
    let (warmup, seconds) = (words.seconds("--warmup", 0.3)?, words.seconds("--seconds", 1.0)?);
    let cores = cores(words.text("--cores")?.as_deref())?;
    let binary = words.text("--binary")?.map_or_else(binary, |path| Ok(path.into()))?;
    if let Some(word) = words.rest()?.first() {
        return Err(format!("`{word}` is not known here").into());
    }
    if runs == 0 {
        return Err("`--runs 0`: one at least".into());
    }
    let results = leave.begin();
    let hosts = wire.hosts()?;
    let command = results.fingerprint().run.command_line.clone();
    let asked = |idle, idle_state| Settings {
        binary: binary.clone(),
        wire,
        size,
        warmup,
        seconds,
        idle,
        idle_state,
        cores,
        command: command.clone(),
    };
    let (park, warm, cold) = (IdleStrategy::default(), IdleState::Warm, IdleState::Cold);
    // Daemons that yield keep their cores awake by themselves: there is no cold row of them.
    let systems = [
        (Carrier::Barewire, park, warm),
        (Carrier::Tcp, park, warm),
        (Carrier::Barewire, park, cold),
        (Carrier::Tcp, park, cold),
        (Carrier::Barewire, IdleStrategy::Yield, warm),
    ];
    let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
    for stack in &stacks {
        for (carrier, idle, state) in systems {
            let asked = asked(idle, state);
            workloads.push(Box::new(StackWorkload::new(Arc::clone(stack), carrier, hosts.as_ref(), asked)));
        }
    }
    drop(hosts);
    leave.measured("stacks", workloads, runs, results, compare, table)
}
