//! What the client with futures does, with two clients of hosts 1 and 2: through daemons, or with engines of their own.
#![allow(dead_code, reason = "each test file uses its own part")]

use super::common::{PATIENCE, v4};
use barewire_client::aio::{
    AsyncClient, ByteStream, CallFailure, Caller, ConnectError, Flow, HANDLER_GONE, Request, ServeOptions,
    serve,
};
use barewire_client::{CloseReason, ConnectFailure, ConnectOptions, Geometry};
use futures_util::SinkExt;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

pub const PORT: u16 = 888;
/// Time-outs that no test sees the end of.
pub const LONGER: Duration = PATIENCE.saturating_mul(2);

/// The cases of this file, for a macro that makes a test of each: what holds for any two clients, and the memory that the first one has.
macro_rules! of_any_two_clients {
    ($cases:ident) => {
        $cases! {
            messages_go_both_ways_and_a_close_is_an_end None;
            a_flow_in_many_tasks_loses_and_repeats_nothing_though_receives_are_dropped None;
            a_connect_that_fails_or_is_dropped_leaves_nothing None;
            names_are_looked_up None;
            a_byte_stream_carries_bytes_and_both_ends None;
            a_sink_waits_for_room Some(futures::small());
            calls_are_answered_refused_late_and_cancelled None;
            cancellations_are_heard_though_every_place_is_taken None;
            everything_sent_arrives_before_a_close_is_done None;
        }
    };
}
pub(crate) use of_any_two_clients;

/// A channel of a megabyte each way.
pub fn small() -> Geometry {
    Geometry { send_bytes: 1 << 20, recv_bytes: 1 << 20, ..Geometry::default() }
}

pub fn at(host: u8) -> SocketAddr {
    SocketAddr::new(v4(host).into(), PORT)
}

/// Runs a test with an end to its patience.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // The clock first: a `timeout` would ask the test once more, and so hide a wake-up that was lost.
        tokio::select! {
            biased;
            () = tokio::time::sleep(PATIENCE) => panic!("the test hangs"),
            () = test => {}
        }
    });
}

/// A flow from host 1 to host 2, both ends, with the clients that hold them.
pub async fn both(a: &AsyncClient, b: &AsyncClient) -> (Flow, Flow) {
    both_at(a, b, 2).await
}

pub async fn both_at(a: &AsyncClient, b: &AsyncClient, host: u8) -> (Flow, Flow) {
    let listener = b.listen(PORT).await.unwrap();
    let options = ConnectOptions::default();
    let (there, here) = tokio::join!(a.connect(at(host), &options), listener.accept());
    (there.unwrap(), here.unwrap().unwrap())
}

/// A message that says which it is, in its first bytes and in its last.
pub fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![n as u8; len.max(8)];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&n.to_le_bytes());
    bytes
}

pub fn number_of(bytes: &[u8]) -> u32 {
    let n = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(bytes, numbered(n, bytes.len()));
    n
}

/// Takes messages until the flow is closed: numbered from zero, in order. Says how many.
pub async fn count_in_order(flow: Flow) -> u32 {
    let mut next = 0;
    while let Some(message) = flow.recv().await.unwrap() {
        assert_eq!(number_of(&message.to_vec()), next);
        next += 1;
    }
    next
}

pub async fn messages_go_both_ways_and_a_close_is_an_end(a: AsyncClient, b: AsyncClient) {
    let (there, here) = both(&a, &b).await;
    assert_eq!(there.remote(), at(2));
    there.send(b"hello").await.unwrap();
    let message = here.recv().await.unwrap().unwrap();
    assert_eq!(message.to_vec(), b"hello");
    here.send(&message.to_vec()).await.unwrap();
    drop(message);
    assert_eq!(there.recv().await.unwrap().unwrap().to_vec(), b"hello");
    assert!(there.send_acknowledged(&numbered(7, 300_000)).await.unwrap());
    assert_eq!(number_of(&here.recv().await.unwrap().unwrap().to_vec()), 7);
    drop(there);
    assert!(here.recv().await.unwrap().is_none());
    assert_eq!(here.ended(), Some(CloseReason::Peer));
    assert!(here.send(b"late").await.is_err());
}

pub async fn a_flow_in_many_tasks_loses_and_repeats_nothing_though_receives_are_dropped(
    a: AsyncClient,
    b: AsyncClient,
) {
    let (there, here) = both(&a, &b).await;
    const TASKS: u32 = 4;
    const EACH: u32 = 500;
    let mut senders = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let flow = there.clone();
        senders.spawn(async move {
            for n in 0..EACH {
                flow.send(&numbered(task * EACH + n, 100 + n as usize)).await.unwrap();
            }
        });
    }
    let (out, mut seen) = mpsc::unbounded_channel();
    for _ in 0..3 {
        let (flow, out) = (here.clone(), out.clone());
        tokio::spawn(async move {
            loop {
                // Dropped again and again, before and after something is there.
                match timeout(Duration::from_micros(50), flow.recv()).await {
                    Ok(Ok(Some(message))) => out.send(number_of(&message.to_vec())).unwrap(),
                    Ok(_) => return,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
    }
    let mut numbers = Vec::new();
    while numbers.len() < (TASKS * EACH) as usize {
        numbers.push(seen.recv().await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..TASKS * EACH).collect::<Vec<_>>());
    drop((there, senders));
}

pub async fn a_connect_that_fails_or_is_dropped_leaves_nothing(a: AsyncClient, b: AsyncClient) {
    let nobody = a.connect(SocketAddr::new(v4(2).into(), 999), &ConnectOptions::default()).await;
    assert!(matches!(nobody, Err(ConnectError::Failed(ConnectFailure::Refused))), "{nobody:?}");
    assert!(matches!(
        a.connect("no.such.name.invalid:1", &ConnectOptions::default()).await,
        Err(ConnectError::Name(_))
    ));
    let listener = b.listen(PORT).await.unwrap();
    assert!(matches!(b.listen(PORT).await, Err(ConnectError::Listen(PORT))));
    for _ in 0..50 {
        let options = ConnectOptions::default();
        let mut attempt = std::pin::pin!(a.connect(at(2), &options));
        // Once or twice, so that it was asked for.
        let _ = timeout(Duration::from_micros(20), &mut attempt).await;
    }
    let last = a.connect(at(2), &ConnectOptions::default()).await.unwrap();
    last.send(b"the last").await.unwrap();
    // Those that opened all the same were ended unseen.
    loop {
        let flow = listener.accept().await.unwrap().unwrap();
        if let Ok(Some(message)) = flow.recv().await {
            assert_eq!(message.to_vec(), b"the last");
            break;
        }
    }
    drop(last);
    a.close(LONGER).await.unwrap();
}

pub async fn names_are_looked_up(a: AsyncClient, _b: AsyncClient) {
    // The address is the machine's own, where no daemon of ours is: the name was understood.
    let refused =
        timeout(Duration::from_millis(1), a.connect("localhost:1", &ConnectOptions::default())).await;
    assert!(!matches!(refused, Ok(Err(ConnectError::Name(_)))), "{refused:?}");
    assert!(a.addresses().contains(&v4(1).into()));
}

pub async fn a_byte_stream_carries_bytes_and_both_ends(a: AsyncClient, b: AsyncClient) {
    let (there, here) = both(&a, &b).await;
    let server = tokio::spawn(async move {
        let mut stream = ByteStream::new(here);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        // Its own way is open after the other's end.
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(stream.write_all(b"more").await.is_err());
        bytes.len()
    });
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut stream = ByteStream::new(there);
    for chunk in sent.chunks(100_003) {
        stream.write_all(chunk).await.unwrap();
    }
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    assert!(back == sent);
    assert_eq!(server.await.unwrap(), sent.len());
}

pub async fn a_sink_waits_for_room(a: AsyncClient, b: AsyncClient) {
    let (mut there, here) = both(&a, &b).await;
    let reader = tokio::spawn(count_in_order(here));
    for n in 0..300 {
        SinkExt::send(&mut there, numbered(n, 20_000)).await.unwrap();
    }
    SinkExt::close(&mut there).await.unwrap();
    assert_eq!(reader.await.unwrap(), 300);
}

/// A call whose handler hangs, in a task of its own.
pub fn hang(caller: &Caller) -> tokio::task::JoinHandle<Result<(), CallFailure>> {
    let caller = caller.clone();
    tokio::spawn(async move { caller.call(b"hang", None).await.map(|_| ()) })
}

/// Says that it was dropped.
pub struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

pub async fn calls_are_answered_refused_late_and_cancelled(a: AsyncClient, b: AsyncClient) {
    let listener = b.listen(PORT).await.unwrap();
    let (gone, mut dropped) = mpsc::unbounded_channel();
    let (begun, mut hangs) = mpsc::unbounded_channel();
    let handler = move |request: Request| {
        let body = request.body().to_vec();
        // Not inside the future, which may be dropped before it runs at all.
        let dropped = (body == b"hang").then(|| Dropped(gone.clone()));
        if dropped.is_some() {
            begun.send(()).unwrap();
        }
        async move {
            let _dropped = dropped;
            match body.as_slice() {
                b"refuse" => Err((42, "not today".to_owned())),
                b"panic" => panic!("a handler of the test"),
                b"hang" => std::future::pending().await,
                _ => Ok(body.iter().rev().copied().collect()),
            }
        }
    };
    let server = tokio::spawn(serve(listener, ServeOptions::default(), handler));
    let caller = Caller::new(a.connect(at(2), &ConnectOptions::default()).await.unwrap());

    let mut calls = tokio::task::JoinSet::new();
    for n in 0..300u32 {
        let caller = caller.clone();
        calls.spawn(async move {
            let body = numbered(n, 8 + n as usize);
            let answer = caller.call(&body, Some(LONGER)).await.unwrap().to_vec();
            assert!(answer.iter().rev().eq(body.iter()));
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    assert!(caller.call(b"", None).await.unwrap().is_empty());

    let refused = caller.call(b"refuse", None).await;
    assert_eq!(refused.unwrap_err(), CallFailure::Server { code: 42, text: "not today".into() });
    let panicked = caller.call(b"panic", None).await;
    assert!(matches!(panicked, Err(CallFailure::Server { code: HANDLER_GONE, .. })), "{panicked:?}");

    let late = caller.call(b"hang", Some(Duration::from_millis(20))).await;
    assert!(matches!(late, Err(CallFailure::Deadline | CallFailure::Server { .. })), "{late:?}");
    hangs.recv().await.unwrap();
    dropped.recv().await.unwrap();

    // Without a deadline, only the cancellation ends it.
    let hanging = hang(&caller);
    hangs.recv().await.unwrap();
    hanging.abort();
    let _ = hanging.await;
    dropped.recv().await.unwrap();

    // The end of the flow ends its handlers.
    let hanging = hang(&caller);
    hangs.recv().await.unwrap();
    caller.flow().close().await.unwrap();
    assert!(matches!(hanging.await.unwrap(), Err(CallFailure::Ended(_))));
    dropped.recv().await.unwrap();

    b.close(LONGER).await.unwrap();
    server.await.unwrap().unwrap();
}

pub async fn cancellations_are_heard_though_every_place_is_taken(a: AsyncClient, b: AsyncClient) {
    let listener = b.listen(PORT).await.unwrap();
    let (begun, mut hangs) = mpsc::unbounded_channel();
    let handler = move |request: Request| {
        let begun = begun.clone();
        async move {
            if request.body().to_vec() == b"hang" {
                begun.send(()).unwrap();
                std::future::pending::<()>().await;
            }
            Ok(vec![1])
        }
    };
    let server = tokio::spawn(serve(listener, ServeOptions { concurrent_max: 2 }, handler));
    let caller = Caller::new(a.connect(at(2), &ConnectOptions::default()).await.unwrap());
    let hanging = [hang(&caller), hang(&caller)];
    for _ in &hanging {
        hangs.recv().await.unwrap();
    }
    // One waits for a place and is cancelled there, one waits and gets it.
    let waiting = hang(&caller);
    let other = caller.clone();
    let next = tokio::spawn(async move { other.call(b"next", None).await.map(|r| r.to_vec()) });
    tokio::task::yield_now().await;
    waiting.abort();
    let [first, second] = hanging;
    first.abort();
    assert_eq!(next.await.unwrap().unwrap(), [1]);
    // The flow's end is heard as well.
    caller.flow().close().await.unwrap();
    assert!(matches!(second.await.unwrap(), Err(CallFailure::Ended(_))));
    b.close(LONGER).await.unwrap();
    server.await.unwrap().unwrap();
}

pub async fn everything_sent_arrives_before_a_close_is_done(a: AsyncClient, b: AsyncClient) {
    let (there, here) = both(&a, &b).await;
    for n in 0..200 {
        there.send(&numbered(n, 5000)).await.unwrap();
    }
    let reader = tokio::spawn(count_in_order(here));
    a.close(LONGER).await.unwrap();
    assert_eq!(reader.await.unwrap(), 200);
    assert!(there.recv().await.unwrap().is_none());
}
