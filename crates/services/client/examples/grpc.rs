//! gRPC over the message service: tonic's client and server as they are, but for where their bytes come from.
//!
//! ```text
//! grpc serve 50051                  answers on UDP port 50051 of the daemon, and on TCP port 50051
//! grpc ask 10.0.0.2:50051 1000      asks a thousand times over each, in turns, and says how long half of them took
//! ```
//!
//! A daemon has to run on each host (`barewire up`). What `tonic-build` would write from a `.proto` file stands here by hand, so that
//! the example needs no `protoc`: [`Echo`] is the message of both directions, `/barewire.Example/Echo` the method. The times are a first look:
//! cores, CPU and the wire of each are the business of the example `stacks` of `barewire-bench`, which has this service, too.

use barewire_client::ConnectOptions;
use barewire_client::aio::{AsyncClient, AsyncListener, ByteStream};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, Uri, uri::PathAndQuery};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_prost::ProstCodec;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
pub const METHOD: &str = "/barewire.Example/Echo";

/// `message Echo { string text = 1; }`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Echo {
    #[prost(string, tag = "1")]
    pub text: String,
}

/// The service: what comes goes back.
#[derive(Clone)]
pub struct Example;

impl UnaryService<Echo> for Example {
    type Response = Echo;
    type Future = BoxFuture<tonic::Response<Echo>, tonic::Status>;

    fn call(&mut self, request: tonic::Request<Echo>) -> Self::Future {
        Box::pin(async move { Ok(tonic::Response::new(request.into_inner())) })
    }
}

impl NamedService for Example {
    const NAME: &'static str = "barewire.Example";
}

impl Service<Request<Body>> for Example {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() != METHOD {
                return Ok(tonic::Status::unimplemented("no such method").into_http());
            }
            Ok(Grpc::new(ProstCodec::<Echo, Echo>::default()).unary(Example, request).await)
        })
    }
}

/// All that tonic's server asks of a connection beside bytes.
pub struct Accepted(ByteStream);

impl Connected for Accepted {
    type ConnectInfo = std::net::SocketAddr;
    fn connect_info(&self) -> Self::ConnectInfo {
        self.0.flow().remote()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, out)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The flows that come to a listener, as tonic wants them.
pub fn flows(listener: AsyncListener) -> impl Stream<Item = io::Result<Accepted>> {
    let (out, flows) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok(Some(flow)) = listener.accept().await {
            if out.send(Ok(Accepted(ByteStream::new(flow)))).await.is_err() {
                break;
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(flows)
}

/// Flows to `address`, as tonic wants them.
pub fn connector(
    client: &AsyncClient,
    address: &str,
) -> impl Service<
    Uri,
    Response = TokioIo<ByteStream>,
    Error = io::Error,
    Future = impl Future<Output = io::Result<TokioIo<ByteStream>>> + Send,
> + Send
+ 'static {
    let (client, address) = (client.clone(), address.to_owned());
    tower::service_fn(move |_| {
        let (client, address) = (client.clone(), address.clone());
        async move {
            let flow = client.connect(address, &ConnectOptions::default()).await.map_err(io::Error::other)?;
            Ok(TokioIo::new(ByteStream::new(flow)))
        }
    })
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", port] => serve(port.parse()?).await,
        ["ask", address] => ask(address, 1).await,
        ["ask", address, count] => ask(address, count.parse()?).await,
        _ => Err("usage: grpc serve PORT | grpc ask ADDRESS:PORT [COUNT]".into()),
    }
}

async fn serve(port: u16) -> Outcome<()> {
    let client = AsyncClient::attach("grpc-server").await?;
    let listener = client.listen(port).await?;
    let tcp = tokio::net::TcpListener::bind(("0.0.0.0", port)).await?;
    println!("serving on port {port}, of barewire and of TCP");
    let over_flows = Server::builder().add_service(Example).serve_with_incoming(flows(listener));
    let over_tcp = Server::builder()
        .add_service(Example)
        .serve_with_incoming(tonic::transport::server::TcpIncoming::from(tcp).with_nodelay(Some(true)));
    tokio::select! {
        ended = over_flows => Ok(ended?),
        ended = over_tcp => Ok(ended?),
        _ = tokio::signal::ctrl_c() => Ok(client.close(Duration::from_secs(1)).await?),
    }
}

#[expect(clippy::disallowed_methods, reason = "the example's own clock: no protocol hears of it")]
async fn once(channel: &Channel) -> Outcome<(Duration, Echo)> {
    let begin = Instant::now();
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await?;
    let request = tonic::Request::new(Echo { text: "hello".into() });
    let answer = grpc
        .unary(request, PathAndQuery::from_static(METHOD), ProstCodec::<Echo, Echo>::default())
        .await?
        .into_inner();
    Ok((begin.elapsed(), answer))
}

async fn ask(address: &str, count: usize) -> Outcome<()> {
    let client = AsyncClient::attach("grpc-client").await?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    // The one line that makes it another network: where the channel gets its bytes from.
    let over_flow = endpoint.connect_with_connector(connector(&client, address)).await?;
    let over_tcp = endpoint.tcp_nodelay(true).connect().await?;
    let (_, answer) = once(&over_flow).await?;
    println!("{}", answer.text);
    let (mut flow_times, mut tcp_times) = (Vec::new(), Vec::new());
    for _ in 0..count.max(1) {
        let (flow, tcp) = (once(&over_flow).await?, once(&over_tcp).await?);
        if flow.1 != answer || tcp.1 != answer {
            return Err(format!("other answers: {:?} over barewire, {:?} over TCP", flow.1, tcp.1).into());
        }
        flow_times.push(flow.0);
        tcp_times.push(tcp.0);
    }
    for (name, times) in [("barewire", &mut flow_times), ("TCP", &mut tcp_times)] {
        times.sort_unstable();
        println!("{name}: half of {} calls took {:.1?} or less", times.len(), times[times.len() / 2]);
    }
    drop(over_flow);
    client.close(Duration::from_secs(1)).await?;
    Ok(())
}
