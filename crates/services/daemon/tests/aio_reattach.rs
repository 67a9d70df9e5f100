//! Clients with futures that outlive their daemon: it is killed or stopped under load and comes back. What waits goes on waiting, no
//! message is lost without a word, none changes its place, and none comes twice but those of which the application was told that nobody
//! knows.

mod common;

use barewire_client::aio::{
    AsyncClient, AsyncListener, CallFailure, Caller, DaemonEvent, Flow, Message, RecvError, Request,
    ServeOptions, Unconfirmed, serve,
};
use barewire_client::{Client, ClientConfig, CloseReason, ConnectOptions, Event, Geometry, SendError};
use barewire_daemon::Daemon;
use barewire_engine::counters_path;
use common::child_daemon::ChildDaemon;
use common::{Folder, PATIENCE, config, message_of, number_of, to};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A daemon that comes back with other limits says why it does not let a client in, once; one that does is found all the same.
#[test]
fn who_is_refused_by_the_next_daemon_hears_of_it() {
    run(async {
        let dir = Folder::new("daemon");
        let there = start(dir.path(), 1);
        let asks = ClientConfig {
            socket: there.socket().to_owned(),
            reattach: true,
            geometry: Some(Geometry::default()),
            ..ClientConfig::new("client")
        };
        let client = AsyncClient::attach_with(&asks).await.unwrap();
        there.stop().unwrap();
        assert!(matches!(client.daemon_event().await, Some(DaemonEvent::Gone { .. })));
        let mut smaller = config(dir.path(), &ports(dir.path(), 1, 2), 1);
        smaller.channel.send_bytes = 64 << 10;
        let there = Daemon::start(&smaller).unwrap();
        match client.daemon_event().await {
            Some(DaemonEvent::Refused { why, hint: Some(hint) }) => {
                assert!(why.contains("refused") && hint.contains("[channel]"), "{why} {hint}");
            }
            other => panic!("{other:?}"),
        }
        // Asked again many times meanwhile.
        let told_again = tokio::time::timeout(Duration::from_millis(300), client.daemon_event()).await;
        assert!(told_again.is_err(), "{told_again:?}");
        there.stop().unwrap();
        let _there = start(dir.path(), 1);
        assert_eq!(client.daemon_event().await, Some(DaemonEvent::Back));
    });
}

const MESSAGES: u64 = 6_000;
/// The daemon goes when so many messages were sent.
const GOES_AT: [u64; 2] = [1_500, 4_000];
/// Every hundredth message waits for its fate.
const WAITS: u64 = 100;
const UDP_PORT: u16 = 888;
/// Where the application that outlives its daemon listens.
const OWN_PORT: u16 = 700;

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // The clock first: a `timeout` would ask the test once more, and so hide a wake-up that was lost.
        tokio::select! {
            biased;
            () = tokio::time::sleep(PATIENCE * 2) => panic!("the test hangs"),
            () = test => {}
        }
    });
}

async fn attach(socket: &Path, name: &str, reattach: bool) -> AsyncClient {
    let config = ClientConfig { socket: socket.to_owned(), reattach, ..ClientConfig::new(name) };
    AsyncClient::attach_with(&config).await.unwrap()
}

async fn connect(client: &AsyncClient, host: u8, udp_port: u16) -> Flow {
    loop {
        // The other host may still be busy with the flow that was.
        if let Ok(flow) = client.connect(to(host, udp_port), &ConnectOptions::default()).await {
            return flow;
        }
    }
}

fn ports(dir: &Path, ours: u8, theirs: u8) -> String {
    format!("unix:{0}/{ours}.port,{0}/{theirs}.port", dir.display())
}

fn start(dir: &Path, ours: u8) -> Daemon {
    Daemon::start(&config(dir, &ports(dir, ours, 3 - ours), ours)).unwrap()
}

/// What the server got: which flow brought it, one after the other, and the numbers.
async fn take_all(listener: AsyncListener) -> Vec<(usize, u64)> {
    let (mut got, mut seen) = (Vec::new(), BTreeSet::new());
    for n in 0.. {
        let flow = listener.accept().await.unwrap().unwrap();
        while let Ok(Some(message)) = flow.recv().await {
            let number = number_of(&message.to_vec());
            if got.is_empty() {
                flow.send(&message_of(number)).await.unwrap();
            }
            seen.insert(number);
            got.push((n, number));
        }
        if seen.len() as u64 == MESSAGES {
            break;
        }
    }
    got
}

/// Sends everything, again what is unconfirmed. Gives the numbers of that.
async fn send_all(
    client: AsyncClient,
    sent: Arc<AtomicU64>,
    first: tokio::sync::oneshot::Sender<Message>,
) -> BTreeSet<u64> {
    let (mut again, mut unconfirmed) = (VecDeque::<Vec<u8>>::new(), BTreeSet::new());
    let (mut next, mut first) = (0, Some(first));
    loop {
        let flow = connect(&client, 2, UDP_PORT).await;
        let done = loop {
            let message = match again.front() {
                Some(message) => message.clone(),
                None if next < MESSAGES => message_of(next),
                None => break flow.close().await.is_ok(),
            };
            let number = number_of(&message);
            let result = match number % WAITS {
                0 => flow.send_acknowledged(&message).await,
                _ => flow.send(&message).await.map(|()| true),
            };
            match result {
                Ok(is_there) => {
                    match again.is_empty() {
                        true => next += 1,
                        false => drop(again.pop_front()),
                    }
                    sent.store(next, Ordering::Relaxed);
                    if !is_there {
                        break false;
                    }
                }
                Err(SendError::DaemonGone | SendError::NoSuchFlow | SendError::Closing) => break false,
                Err(e) => panic!("{e}"),
            }
            if let Some(first) = first.take() {
                let _ = first.send(flow.recv().await.unwrap().unwrap());
            }
        };
        let lost = flow.take_unconfirmed();
        if done {
            assert_eq!(lost, Vec::<Vec<u8>>::new(), "a flow that was closed has nothing under way");
            return unconfirmed;
        }
        // What was sent before comes before what was not, in its order.
        let numbers: Vec<_> = lost.iter().map(|m| number_of(m)).collect();
        assert!(numbers.is_sorted() && numbers.iter().all(|n| *n < next), "{numbers:?}");
        assert_eq!(flow.ended(), Some(CloseReason::LocalReset));
        unconfirmed.extend(numbers);
        for message in lost.into_iter().rev() {
            again.push_front(message);
        }
        assert_eq!(flow.take_unconfirmed(), Vec::<Vec<u8>>::new(), "each is given once");
    }
}

/// Takes connections on the own port, one after each start of the daemon, and says of each how it ended.
async fn accept_all(listener: AsyncListener, accepted: tokio::sync::mpsc::UnboundedSender<Flow>) {
    while let Ok(Some(flow)) = listener.accept().await {
        let _ = accepted.send(flow);
    }
}

async fn outlives(here: &Daemon, socket: &Path, mut goes: impl FnMut(), mut comes: impl FnMut()) {
    let server = attach(here.socket(), "server", false).await;
    let taker = tokio::spawn(take_all(server.listen(UDP_PORT).await.unwrap()));
    let client = attach(socket, "steady", true).await;
    let (accepted, mut flows) = tokio::sync::mpsc::unbounded_channel();
    let acceptor = tokio::spawn(accept_all(client.listen(OWN_PORT).await.unwrap(), accepted));
    let sent = Arc::new(AtomicU64::new(0));
    let (first, held) = tokio::sync::oneshot::channel();
    let sender = tokio::spawn(send_all(client.clone(), sent.clone(), first));
    let held = held.await.unwrap();
    let mut told = 0;
    for goes_at in GOES_AT {
        // A flow that somebody waits on while the daemon goes.
        let _there = connect(&server, 1, OWN_PORT).await;
        let waiting = flows.recv().await.unwrap();
        let waiting = tokio::spawn(async move { waiting.recv().await.map(|_| ()) });
        while sent.load(Ordering::Relaxed) < goes_at {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        goes();
        match client.daemon_event().await {
            Some(DaemonEvent::Gone { unconfirmed, unclaimed, flows }) => {
                assert!((1..=2).contains(&flows), "{flows}");
                assert_eq!(unclaimed, []);
                told += unconfirmed;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(waiting.await.unwrap(), Err(RecvError::Ended(CloseReason::LocalReset)));
        assert!(client.is_detached());
        comes();
        assert_eq!(client.daemon_event().await, Some(DaemonEvent::Back));
    }
    let unconfirmed = sender.await.unwrap();
    // It came over the first daemon, two daemons ago, and was not let go.
    assert_eq!(number_of(&held.to_vec()), 0);
    drop(held);
    // The listener is there again, and was all the time.
    let _there = connect(&server, 1, OWN_PORT).await;
    drop(flows.recv().await.unwrap());
    client.close(PATIENCE).await.unwrap();
    acceptor.await.unwrap();
    let got = taker.await.unwrap();

    let all: BTreeSet<u64> = got.iter().map(|(_, number)| *number).collect();
    assert_eq!(all.len() as u64, MESSAGES, "a message is lost");
    assert!(got.windows(2).all(|w| w[0].0 < w[1].0 || w[0].1 < w[1].1), "out of order");
    let mut seen = BTreeSet::new();
    let twice: Vec<_> = got.iter().map(|(_, n)| *n).filter(|n| !seen.insert(*n)).collect();
    assert!(twice.iter().all(|n| unconfirmed.contains(n)), "twice without a word: {twice:?}");
    println!("{told} messages were unconfirmed when the daemon went, {} of them had arrived", twice.len());
    assert!(
        told >= unconfirmed.len() && !unconfirmed.is_empty(),
        "nothing was under way when the daemon went"
    );
}

#[test]
fn a_daemon_that_is_killed_under_load_takes_no_message_along_without_a_word() {
    let dir = Folder::new("daemon");
    let here = start(dir.path(), 2);
    let name = format!("aio-reattach-{}", std::process::id());
    let other = std::cell::RefCell::new(Some(ChildDaemon::start(dir.path(), &name)));
    let goes = || other.borrow_mut().take().unwrap().kill();
    let comes = || *other.borrow_mut() = Some(ChildDaemon::start(dir.path(), &name));
    run(outlives(&here, &dir.file("1.sock"), goes, comes));
    drop(other);
    here.stop().unwrap();
    let _ = std::fs::remove_file(counters_path(&name).unwrap());
}

#[test]
fn a_daemon_that_is_stopped_under_load_takes_no_message_along_without_a_word() {
    let dir = Folder::new("daemon");
    let here = start(dir.path(), 2);
    let there = std::cell::RefCell::new(Some(start(dir.path(), 1)));
    let goes = || there.borrow_mut().take().unwrap().stop().unwrap();
    let comes = || *there.borrow_mut() = Some(start(dir.path(), 1));
    run(outlives(&here, &dir.file("1.sock"), goes, comes));
    drop(there);
    here.stop().unwrap();
}

/// What is asked for while there is no daemon is done by the next one.
#[test]
fn who_asks_while_there_is_no_daemon_waits_for_the_next_one() {
    let dir = Folder::new("daemon");
    let here = start(dir.path(), 2);
    let there = start(dir.path(), 1);
    run(async {
        let server = attach(here.socket(), "server", false).await;
        let listener = server.listen(UDP_PORT).await.unwrap();
        let handler = |request: Request| async move {
            match request.body().to_vec() {
                body if body == b"two" => std::future::pending().await,
                body => Ok(body),
            }
        };
        tokio::spawn(serve(listener, ServeOptions::default(), handler));
        let client = attach(there.socket(), "steady", true).await;
        let caller = Caller::new(connect(&client, 2, UDP_PORT).await);
        assert_eq!(caller.call(b"one", None).await.unwrap().to_vec(), b"one");
        // Flows nobody has: what they sent is the client's to tell.
        let lonely = connect(&client, 2, UDP_PORT).await;
        let lonely_id = lonely.id();

        lonely.send(b"nobody knows").await.unwrap();
        let other = caller.clone();
        let asked = tokio::spawn(async move { other.call(b"two", None).await.map(|_| ()) });
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(lonely);
        there.stop().unwrap();
        assert!(matches!(asked.await.unwrap(), Err(CallFailure::Ended(_))));
        match client.daemon_event().await {
            Some(DaemonEvent::Gone { unclaimed, .. }) => {
                assert!(unclaimed.len() <= 1);
                for Unconfirmed { flow, bytes } in unclaimed {
                    assert_eq!((flow, &bytes[..]), (lonely_id, &b"nobody knows"[..]));
                }
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(caller.call(b"three", None).await, Err(CallFailure::Send(SendError::DaemonGone))));
        let mut connecting = tokio::spawn({
            let client = client.clone();
            async move { connect(&client, 2, UDP_PORT).await.send_acknowledged(b"late").await }
        });
        let mut listening = tokio::spawn({
            let client = client.clone();
            async move { client.listen(OWN_PORT).await.map(|l| l.udp_port()) }
        });
        // An attempt that is given up meanwhile is nobody's.
        let given_up = connect(&client, 2, UDP_PORT);
        assert!(tokio::time::timeout(Duration::from_millis(20), given_up).await.is_err());
        let wait = Duration::from_millis(120);
        assert!(tokio::time::timeout(wait, &mut connecting).await.is_err(), "there is no daemon");
        assert!(tokio::time::timeout(wait, &mut listening).await.is_err(), "there is no daemon");

        let there = start(dir.path(), 1);
        assert_eq!(client.daemon_event().await, Some(DaemonEvent::Back));
        assert_eq!(listening.await.unwrap().unwrap(), OWN_PORT);
        assert!(connecting.await.unwrap().unwrap());

        let own = client.listen(OWN_PORT + 1).await.unwrap();
        let accepting = tokio::spawn(async move { own.accept().await.map(|_| ()) });
        there.stop().unwrap();
        assert!(matches!(client.daemon_event().await, Some(DaemonEvent::Gone { .. })));
        // The last handle goes while there is no daemon: nothing looks for one any more.
        accepting.abort();
        drop((client, caller));
        let there = start(dir.path(), 1);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(common::counter(&there, "applications.count"), 0);
        drop(server);
        there.stop().unwrap();
        here.stop().unwrap();
    });
}

/// A client is taken over as it is, without a daemon as well.
#[test]
fn a_client_that_has_lost_its_daemon_is_taken_over_and_finds_the_next_one() {
    let dir = Folder::new("daemon");
    let there = start(dir.path(), 1);
    let steady =
        ClientConfig { socket: there.socket().to_owned(), reattach: true, ..ClientConfig::new("steady") };
    let mut client = Client::attach_with(&steady).unwrap();
    there.stop().unwrap();
    assert!(matches!(client.wait_event(Some(PATIENCE)), Ok(Some(Event::Detached { .. }))));
    run(async {
        let client = AsyncClient::from_client(client).unwrap();
        assert!(client.is_detached());
        let there = start(dir.path(), 1);
        let back = tokio::time::timeout(PATIENCE, client.daemon_event()).await;
        assert_eq!(back.unwrap(), Some(DaemonEvent::Back));
        assert!(!client.is_detached());
        drop(client);
        there.stop().unwrap();
    });
}

/// Nobody waits for memory to send on a flow that is no more.
#[test]
fn who_waits_for_memory_learns_that_the_flow_or_the_daemon_is_gone() {
    for reattach in [false, true] {
        let dir = Folder::new("daemon");
        let (here, there) = (start(dir.path(), 2), start(dir.path(), 1));
        run(async {
            let server = attach(here.socket(), "server", false).await;
            let listener = server.listen(UDP_PORT).await.unwrap();
            let geometry = Some(Geometry { send_bytes: 1 << 20, recv_bytes: 1 << 20, ..Geometry::default() });
            let socket = there.socket().to_owned();
            let small = ClientConfig { socket, reattach, geometry, ..ClientConfig::new("small") };
            let client = AsyncClient::attach_with(&small).await.unwrap();
            let mut flows = vec![];
            for _ in 0..3 {
                let flow = connect(&client, 2, UDP_PORT).await;
                flows.push((flow, listener.accept().await.unwrap().unwrap()));
            }
            let [(full, _unread), (ends, peer), (stays, _peer)] = <[_; 3]>::try_from(flows).unwrap();
            // Each takes all the memory. Nobody reads the first ones, so the last is under way for ever.
            let long = vec![7; 600_000];
            let mut under_way = tokio::spawn(async move {
                let mut n = 0;
                while full.send_acknowledged(&long).await? {
                    n += 1;
                }
                Ok::<_, SendError>(n)
            });
            let pause = Duration::from_millis(500);
            assert!(tokio::time::timeout(pause, &mut under_way).await.is_err());
            let wait = |flow: Flow| tokio::spawn(async move { flow.send_acknowledged(b"short").await });
            let (mut first, mut second) = (wait(ends), wait(stays));
            assert!(tokio::time::timeout(pause, &mut first).await.is_err());
            drop(peer);
            let first = tokio::time::timeout(PATIENCE, first).await.expect("its flow is gone");
            assert!(matches!(first.unwrap(), Err(SendError::NoSuchFlow | SendError::Closing)));
            assert!(!second.is_finished());
            there.stop().unwrap();
            let second = tokio::time::timeout(PATIENCE, &mut second).await.expect("the daemon is gone");
            assert!(matches!(second.unwrap(), Err(SendError::DaemonGone)));
            let ended = tokio::time::timeout(PATIENCE, under_way).await.unwrap().unwrap();
            assert!(matches!(ended, Ok(_) | Err(SendError::DaemonGone)), "{ended:?}");
            drop((client, server));
        });
        here.stop().unwrap();
    }
}
