//! HTTP over the message service: hyper as it is, on a byte stream over a flow, beside the same on TCP.
//!
//! ```text
//! http serve 8080                  answers on UDP port 8080 of the daemon, and on TCP port 8080
//! http get 10.0.0.2:8080 1000      asks a thousand times over each, in turns, and says how long half of them took
//! ```
//!
//! A daemon has to run on each host (`barewire up`). Nothing of hyper knows what it runs on. The times are a first look: cores, CPU and the
//! wire of each are the business of the example `stacks` of `barewire-bench`.

use barewire_client::ConnectOptions;
use barewire_client::aio::{AsyncClient, ByteStream};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", port] => serve(port.parse()?).await,
        ["get", address] => get(address, 1).await,
        ["get", address, count] => get(address, count.parse()?).await,
        _ => Err("usage: http serve PORT | http get ADDRESS:PORT [COUNT]".into()),
    }
}

/// One connection's requests, whatever it runs on.
async fn answer(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let hello = service_fn(|request: Request<Incoming>| async move {
        let body = format!("{} to you, too\n", request.uri().path());
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
    });
    if let Err(e) = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), hello).await
    {
        eprintln!("a connection ended: {e}");
    }
}

async fn serve(port: u16) -> Outcome<()> {
    let client = AsyncClient::attach("http-server").await?;
    let listener = client.listen(port).await?;
    let tcp = TcpListener::bind(("0.0.0.0", port)).await?;
    println!("serving on port {port}, of barewire and of TCP");
    loop {
        tokio::select! {
            flow = listener.accept() => match flow? {
                Some(flow) => drop(tokio::spawn(answer(ByteStream::new(flow)))),
                None => return Ok(()),
            },
            accepted = tcp.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                tokio::spawn(answer(stream));
            }
            _ = tokio::signal::ctrl_c() => return Ok(client.close(Duration::from_secs(1)).await?),
        }
    }
}

/// hyper's own client on anything that carries bytes.
async fn open(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Outcome<SendRequest<Full<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(io)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

#[expect(clippy::disallowed_methods, reason = "the example's own clock: no protocol hears of it")]
async fn ask(sender: &mut SendRequest<Full<Bytes>>) -> Outcome<(Duration, Bytes)> {
    let begin = Instant::now();
    sender.ready().await?;
    let request = Request::get("/hello").header("host", "example").body(Full::default())?;
    let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    Ok((begin.elapsed(), body))
}

async fn get(address: &str, count: usize) -> Outcome<()> {
    let client = AsyncClient::attach("http-client").await?;
    let flow = client.connect(address, &ConnectOptions::default()).await?;
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let mut over_flow = open(ByteStream::new(flow)).await?;
    let mut over_tcp = open(tcp).await?;
    let (_, body) = ask(&mut over_flow).await?;
    print!("{}", String::from_utf8_lossy(&body));
    let (mut flow_times, mut tcp_times) = (Vec::new(), Vec::new());
    for _ in 0..count.max(1) {
        let (flow, tcp) = (ask(&mut over_flow).await?, ask(&mut over_tcp).await?);
        if flow.1 != body || tcp.1 != body {
            return Err(format!("other answers: {:?} over barewire, {:?} over TCP", flow.1, tcp.1).into());
        }
        flow_times.push(flow.0);
        tcp_times.push(tcp.0);
    }
    for (name, times) in [("barewire", &mut flow_times), ("TCP", &mut tcp_times)] {
        times.sort_unstable();
        println!("{name}: half of {} requests took {:.1?} or less", times.len(), times[times.len() / 2]);
    }
    drop(over_flow);
    client.close(Duration::from_secs(1)).await?;
    Ok(())
}
