//! The client with futures where something is given up: a listen, a runtime, a wait, a request; and where there is little room.
#![allow(clippy::disallowed_methods, reason = "tests give up by the clock")]

mod common;

use barewire_client::aio::{
    AsyncClient, AsyncListener, ByteStream, ConnectError, DEADLINE_PASSED, Flow, HANDLER_GONE, RecvError,
    Request, ServeOptions, serve,
};
use barewire_client::{
    AttachError, Client, ClientConfig, CloseReason, ConnectFailure, ConnectOptions, Geometry,
};
use barewire_daemon::Daemon;
use common::{PATIENCE, attach as attach_polled, connect, pair, to};
use futures_util::Stream;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};

const PORT: u16 = 888;
/// Time for what must not happen.
const A_WHILE: Duration = Duration::from_millis(100);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs a test with an end to its patience.
fn run(test: impl Future<Output = ()>) {
    runtime().block_on(async {
        // The clock first: a `timeout` would ask the test once more, and so hide a wake-up that was lost.
        tokio::select! {
            biased;
            () = tokio::time::sleep(PATIENCE) => panic!("the test hangs"),
            () = test => {}
        }
    });
}

async fn attach(daemon: &Daemon, name: &str, geometry: Option<Geometry>) -> AsyncClient {
    let config = ClientConfig { socket: daemon.socket().to_owned(), geometry, ..ClientConfig::new(name) };
    AsyncClient::attach_with(&config).await.unwrap()
}

async fn both(a: &AsyncClient, b: &AsyncClient) -> (Flow, Flow) {
    flow(a, &b.listen(PORT).await.unwrap()).await
}

/// A flow, at both ends.
async fn flow(a: &AsyncClient, listener: &AsyncListener) -> (Flow, Flow) {
    let options = ConnectOptions::default();
    let (there, here) = tokio::join!(a.connect(to(2, PORT), &options), listener.accept());
    (there.unwrap(), here.unwrap().unwrap())
}

/// Polls a future once, and says whether it has to wait. One that asks the daemon may have its answer already.
fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin), waker: &Waker) -> bool {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(waker)).is_pending()
}

#[test]
fn a_listen_that_is_given_up_takes_no_port_from_who_listens_there() {
    run(async {
        let pair = pair();
        let (a, b) = (attach(&pair.a, "a", None).await, attach(&pair.b, "b", None).await);
        let listener = b.listen(PORT).await.unwrap();
        poll_once(&mut pin!(b.listen(PORT)), Waker::noop());
        // Long enough for the daemon to have heard of all.
        assert!(matches!(b.listen(PORT).await, Err(ConnectError::Listen(PORT))));
        let options = ConnectOptions::default();
        let (there, here) = tokio::join!(a.connect(to(2, PORT), &options), listener.accept());
        assert!(there.is_ok() && here.unwrap().is_some());
        // One that is given up alone leaves the port free, whoever asked meanwhile.
        drop(listener);
        poll_once(&mut pin!(b.listen(PORT)), Waker::noop());
        let other = attach(&pair.b, "other", None).await;
        while other.listen(PORT).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn of_two_listens_under_way_the_first_given_up_leaves_nothing_behind() {
    run(async {
        let pair = pair();
        let (b, other) = (attach(&pair.b, "b", None).await, attach(&pair.b, "other", None).await);
        let mut second = Box::pin(b.listen(PORT));
        let answered = {
            let mut first = pin!(b.listen(PORT));
            poll_once(&mut first, Waker::noop());
            // The answer to the first one may be there already.
            second.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        // It is refused, as the first was still listening when the daemon heard of it, or has the port.
        match answered {
            Poll::Ready(listener) => drop(listener),
            Poll::Pending => drop(second.await),
        }
        while other.listen(PORT).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn with_its_runtime_a_client_ends_for_all_others() {
    let pair = pair();
    let (first, second) = (runtime(), runtime());
    let (a, there, _here) = first.block_on(async {
        let (a, b) = (attach(&pair.a, "a", None).await, attach(&pair.b, "b", None).await);
        let (there, here) = both(&a, &b).await;
        (a, there, (here, b))
    });
    let waiting = second.spawn(async move { there.recv().await.map(|_| ()) });
    std::thread::sleep(A_WHILE);
    drop(first);
    let ended = second.block_on(async { tokio::time::timeout(PATIENCE, waiting).await });
    assert_eq!(ended.expect("it waits for ever").unwrap(), Err(RecvError::DaemonGone));
    assert_eq!(second.block_on(a.daemon_event()), None);
}

#[test]
fn who_attaches_while_the_runtime_ends_is_told() {
    let pair = pair();
    let config = ClientConfig { socket: pair.a.socket().to_owned(), ..ClientConfig::new("late") };
    let ends = runtime();
    let handle = ends.handle().clone();
    ends.shutdown_background();
    let _inside = handle.enter();
    let mut attaches = Box::pin(AsyncClient::attach_with(&config));
    let answer = loop {
        match attaches.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => break answer,
            Poll::Pending => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert!(matches!(answer.err(), Some(AttachError::Wait(_))));
}

#[test]
fn what_a_client_had_begun_ends_when_it_is_used_with_futures() {
    let pair = pair();
    let mut peer = attach_polled(&pair.b, "peer");
    peer.listen_wait(PORT, 0, PATIENCE).unwrap();
    let mut client: Client = attach_polled(&pair.a, "client");
    client.listen_wait(700, 1, PATIENCE).unwrap();
    let flow = connect(&mut client, to(2, PORT));
    client.send(flow, b"a word").unwrap();
    let theirs = common::accept(&mut peer);
    run(async move {
        let client = AsyncClient::from_client(client).unwrap();
        // The first number that is given: that of the listener which was.
        let listener = client.listen(701).await.unwrap();
        // The peer stays: with it its flow would end, perhaps before somebody took the connection.
        let (told, ended, _peer) = tokio::task::spawn_blocking(move || {
            // The flow is reset, so that nobody believes that somebody reads.
            let ended = loop {
                match common::next(&mut peer) {
                    barewire_client::Event::Closed { flow, reason } if flow == theirs => break reason,
                    _ => {}
                }
            };
            let refused = peer.connect_wait(to(1, 700), &ConnectOptions::default(), PATIENCE);
            connect(&mut peer, to(1, 701));
            let is_refused =
                matches!(refused, Err(e) if e.to_string() == ConnectFailure::Refused.to_string());
            (is_refused, ended, peer)
        })
        .await
        .unwrap();
        assert_eq!((told, ended), (true, CloseReason::Reset));
        assert_eq!(listener.accept().await.unwrap().unwrap().local().port(), 701);
    });
}

/// A waker whose users can be counted.
struct Counted;

impl Wake for Counted {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn who_no_longer_waits_keeps_no_task() {
    run(async {
        let pair = pair();
        let small = Geometry { send_bytes: 64 << 10, recv_bytes: 64 << 10, ..Geometry::default() };
        let (a, b) = (attach(&pair.a, "a", Some(small)).await, attach(&pair.b, "b", Some(small)).await);
        let (there, here) = both(&a, &b).await;
        let listener = a.listen(PORT).await.unwrap();
        // Until there is no room, here or at the peer, who takes messages until its memory is full.
        let mut taken = std::time::Instant::now();
        while taken.elapsed() < A_WHILE {
            if there.try_send(&[7; 16 << 10]).is_ok() {
                taken = std::time::Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let task = Arc::new(Counted);
        let waker = Waker::from(task.clone());
        for _ in 0..3 {
            assert!(poll_once(&mut pin!(a.daemon_event()), &waker));
            assert!(poll_once(&mut pin!(there.recv()), &waker));
            assert!(poll_once(&mut pin!(there.send(&[7; 16 << 10])), &waker));
            assert!(poll_once(&mut pin!(there.send_acknowledged(&[7; 32 << 10])), &waker));
            assert!(poll_once(&mut pin!(listener.accept()), &waker));
            let mut stream = there.clone();
            assert!(pin!(&mut stream).poll_next(&mut Context::from_waker(&waker)).is_pending());
        }
        assert!(poll_once(&mut pin!(there.close()), &waker));
        drop(waker);
        assert_eq!(Arc::strong_count(&task), 1);
        drop(here);
    });
}

/// As [`run`], where what is tested would hold up the runtime for good.
fn run_apart(test: impl Future<Output = ()> + Send + 'static) {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        run(test);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(2 * PATIENCE).expect("the test hangs, or has failed");
}

/// A task that uses the client as soon as it is woken, and lets go of a flow with its last waker.
struct Uses {
    flow: Flow,
    is_woken: AtomicUsize,
}

impl Wake for Uses {
    fn wake(self: Arc<Self>) {
        assert_eq!(self.flow.ended(), None);
        self.is_woken.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_is_woken_may_use_the_client_at_once() {
    run_apart(async {
        let pair = pair();
        let (a, b) = (attach(&pair.a, "a", None).await, attach(&pair.b, "b", None).await);
        let (there, here) = both(&a, &b).await;
        let task = Arc::new(Uses { flow: there.clone(), is_woken: AtomicUsize::new(0) });
        let waker = Waker::from(task.clone());
        let mut receives = Box::pin(there.recv());
        assert!(poll_once(&mut receives, &waker));
        here.send(b"a word").await.unwrap();
        let mut acknowledged = Box::pin(there.send_acknowledged(b"another"));
        let all = 1 + usize::from(poll_once(&mut acknowledged, &waker));
        while task.is_woken.load(Ordering::Relaxed) < all {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn the_last_waker_of_a_task_may_take_a_flow_along() {
    run_apart(async {
        let pair = pair();
        let (a, b) = (attach(&pair.a, "a", None).await, attach(&pair.b, "b", None).await);
        let listener = b.listen(PORT).await.unwrap();
        let (mut there, _here) = flow(&a, &listener).await;
        let own = || async {
            let (flow, _theirs) = flow(&a, &listener).await;
            Waker::from(Arc::new(Uses { flow, is_woken: AtomicUsize::new(0) }))
        };
        // A stream that goes from task to task, and a wait for the fate of a message that does.
        let first = own().await;
        assert!(pin!(&mut there).poll_next(&mut Context::from_waker(&first)).is_pending());
        drop(first);
        assert!(pin!(&mut there).poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
        let last = own().await;
        let mut acknowledged = Box::pin(there.send_acknowledged(b"a word"));
        poll_once(&mut acknowledged, &last);
        drop(last);
        drop(acknowledged);
    });
}

/// A request as it travels: see `barewire_client::requests`.
fn request(id: u8, left_us: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    (bytes[0], bytes[1], bytes[8]) = (1, 1, id);
    bytes[4..8].copy_from_slice(&left_us.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Of an answer: whether it is a failure, its code, the request's number.
async fn answer(flow: &Flow) -> (bool, u16, u8) {
    let bytes = flow.recv().await.unwrap().unwrap().to_vec();
    (bytes[1] == 3, u16::from_le_bytes([bytes[2], bytes[3]]), bytes[8])
}

#[test]
fn a_request_that_waited_beyond_its_deadline_is_not_handled() {
    run(async {
        let pair = pair();
        let (a, b) = (attach(&pair.a, "a", None).await, attach(&pair.b, "b", None).await);
        let listener = b.listen(PORT).await.unwrap();
        let (handled, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let handler = {
            let (handled, gate) = (handled.clone(), gate.clone());
            move |_: Request| {
                handled.fetch_add(1, Ordering::Relaxed);
                let gate = gate.clone();
                async move {
                    gate.acquire().await.unwrap().forget();
                    Ok(vec![])
                }
            }
        };
        tokio::spawn(serve(listener, ServeOptions { concurrent_max: 1 }, handler));
        let flow = a.connect(to(2, PORT), &ConnectOptions::default()).await.unwrap();
        flow.send(&request(1, 0, b"first")).await.unwrap();
        flow.send(&request(2, 20_000, b"second")).await.unwrap();
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(handled.load(Ordering::Relaxed), 1);
        gate.add_permits(2);
        assert_eq!(answer(&flow).await, (false, 0, 1));
        assert_eq!(answer(&flow).await, (true, DEADLINE_PASSED, 2));
        assert_eq!(handled.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_failure_is_told_as_soon_as_there_is_room() {
    run(async {
        let pair = pair();
        let small = Geometry { send_bytes: 128 << 10, recv_bytes: 128 << 10, ..Geometry::default() };
        let (a, b) = (attach(&pair.a, "a", Some(small)).await, attach(&pair.b, "b", Some(small)).await);
        let listener = b.listen(PORT).await.unwrap();
        let (begun, mut begins) = mpsc::unbounded_channel();
        let handler = move |request: Request| {
            begun.send(()).unwrap();
            async move {
                assert!(request.body().to_vec() != b"fail", "a handler of the test");
                Ok(vec![7; 16 << 10])
            }
        };
        tokio::spawn(serve(listener, ServeOptions { concurrent_max: 1000 }, handler));
        let flow = a.connect(to(2, PORT), &ConnectOptions::default()).await.unwrap();
        const LARGE: u8 = 40;
        for id in 0..LARGE {
            flow.send(&request(id, 0, b"large")).await.unwrap();
            begins.recv().await.unwrap();
        }
        // Nobody reads: by now the answers fill what there is on both sides.
        tokio::time::sleep(A_WHILE).await;
        flow.send(&request(LARGE, 0, b"fail")).await.unwrap();
        begins.recv().await.unwrap();
        tokio::time::sleep(A_WHILE).await;
        let mut answers = Vec::new();
        for _ in 0..=LARGE {
            answers.push(answer(&flow).await);
        }
        answers.sort_unstable_by_key(|(.., id)| *id);
        let want = (0..=LARGE).map(|id| match id {
            LARGE => (true, HANDLER_GONE, id),
            _ => (false, 0, id),
        });
        assert!(answers.into_iter().eq(want));
    });
}

#[test]
fn a_byte_stream_fits_into_a_small_channel() {
    run(async {
        let pair = pair();
        let small = Geometry { send_bytes: 32 << 10, ..Geometry::default() };
        let (a, b) = (attach(&pair.a, "a", Some(small)).await, attach(&pair.b, "b", None).await);
        let (there, here) = both(&a, &b).await;
        let reader = tokio::spawn(async move {
            let mut bytes = Vec::new();
            ByteStream::new(here).read_to_end(&mut bytes).await.unwrap();
            bytes
        });
        let sent: Vec<u8> = (0..300_000u32).map(|n| ((n * 7) >> 3) as u8).collect();
        let mut stream = ByteStream::new(there);
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(reader.await.unwrap() == sent);
    });
}
