//! Applications that die in the middle of everything, two hundred times, on plain flows and on encrypted ones: the daemon goes on and nothing
//! is left over. Alone in its file, as it counts the descriptors of its process.

mod common;

use barewire_base::Prng;
use barewire_client::{CloseReason, Event, SendError};
use common::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const DEATHS: u64 = 200;
/// Of those, in a process that is killed.
const KILLED: u64 = 20;
/// Descriptors are the process's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The part that the child plays: sends without end, reads what comes and holds it, until it is killed.
#[test]
fn child() {
    let Some(socket) = std::env::var_os("BAREWIRE_TEST_SOCKET") else {
        return;
    };
    let mut client = attach_to(socket.as_ref(), "child", None).unwrap();
    let flow = connect(&mut client, to(2, 888));
    println!("connected");
    for i in 0.. {
        if client.send(flow, &pattern(i, 50_000)).is_err() {
            let _ = client.wait_event(Some(Duration::from_millis(1)));
        }
        while let Some(event) = client.next_event() {
            if let Event::Message(m) = event {
                let _kept = m;
            }
        }
    }
}

fn spawn_child(socket: &std::path::Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("BAREWIRE_TEST_SOCKET", socket)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("connected")), "the child has not connected");
    child
}

#[test]
fn two_hundred_deaths_leave_nothing_behind() {
    deaths_leave_nothing_behind(4, false);
}

#[test]
fn two_hundred_deaths_on_encrypted_flows_leave_nothing_behind() {
    deaths_leave_nothing_behind(5, true);
}

fn deaths_leave_nothing_behind(seed: u64, is_secure: bool) {
    if std::env::var_os("BAREWIRE_TEST_SOCKET").is_some() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut prng = Prng::new(seed);
    let pair = pair_with(|c| {
        if is_secure {
            secure_host(c);
        }
    });
    // A server that outlives them all, and one connection that has nothing to do with it.
    let mut server = attach(&pair.b, "server");
    let mut steady_server = attach(&pair.b, "steady server");
    let mut steady = attach(&pair.a, "steady");
    let (steady_flow, _) = flow(&mut steady, &mut steady_server, 2, 889);
    let steady_server = thread::spawn(move || echo(&mut steady_server));
    server.listen_wait(888, 0, PATIENCE).unwrap();
    // Once, so that whatever is opened for good is open.
    drop(attach(&pair.a, "first"));
    let quiet = |daemon: &barewire_daemon::Daemon, count: u64, promised: u64| {
        eventually("it is as before", || {
            let c = counters(daemon);
            c["applications.count"] == count
                && c["applications.recv_bytes_used"] == 0
                && c["transport.messages_under_way"] == 0
                && c["transport.received_messages"] == 0
                && c["applications.waiting"] == 0
                && c["applications.promised"] == promised
                && c["transport.flows"] == 1
        });
    };
    quiet(&pair.a, 1, 1);
    quiet(&pair.b, 2, 1);
    let descriptors_before = descriptors();
    let (mut open, mut reset, mut received) = (0, 0, 0);
    for death in 0..DEATHS {
        let mut child = None;
        let mut clients = vec![];
        if death % (DEATHS / KILLED) == 0 {
            child = Some(spawn_child(pair.a.socket()));
        } else {
            let mut client = attach(&pair.a, "mortal");
            if prng.chance(0.9) {
                let flow = connect(&mut client, to(2, 888));
                let len = [0, 100, 1400, 30_000, 3_000_000][prng.below(5) as usize];
                for i in 0..prng.below(60) {
                    match client.send(flow, &pattern(i, len)) {
                        Ok(()) => {}
                        Err(SendError::WouldBlock) => break,
                        Err(e) => panic!("{e}"),
                    }
                }
                // Sometimes with a reservation, a connection under way, or half closed.
                match prng.below(4) {
                    0 => drop(client.reserve(1000)),
                    1 => {
                        client.connect(to(2, 888), &Default::default()).unwrap();
                    }
                    2 => client.close(flow).unwrap(),
                    _ => {}
                }
            }
            clients.push(client);
        }
        // The server answers some of it, and holds some while the other dies.
        let mut held = vec![];
        for _ in 0..prng.below(40) {
            match server.wait_event(Some(Duration::from_millis(2))).unwrap() {
                Some(Event::Message(m)) => {
                    received += 1;
                    if prng.chance(0.5) {
                        let _ = server.send(m.flow(), &pattern(0, 1 + prng.below(20_000) as usize));
                    }
                    if prng.chance(0.5) { held.push(m) } else { server.release(m) }
                }
                Some(Event::Accepted { .. }) => open += 1,
                Some(Event::Closed { .. }) => open -= 1,
                _ => {}
            }
        }
        drop(clients);
        if let Some(mut child) = child {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // Peers hear of it.
        let mut silent = 0;
        while silent < 3 {
            match server.wait_event(Some(Duration::from_millis(10))).unwrap() {
                Some(Event::Accepted { .. }) => open += 1,
                Some(Event::Closed { reason, .. }) => {
                    assert!(
                        matches!(reason, CloseReason::Reset | CloseReason::Peer | CloseReason::PeerRestarted),
                        "{reason}"
                    );
                    reset += u64::from(reason == CloseReason::Reset);
                    open -= 1;
                }
                Some(Event::Message(m)) => server.release(m),
                Some(_) => {}
                None if open == 0 => silent += 1,
                None => {}
            }
        }
        for m in held {
            server.release(m);
        }
        server.flush();
        steady.send(steady_flow, &pattern(death, 2000)).unwrap();
        assert!(message(&mut steady) == pattern(death, 2000), "after death {death}");
        quiet(&pair.a, 1, 1);
        quiet(&pair.b, 2, 1);
    }
    eventually("descriptors are as before", || descriptors() <= descriptors_before);
    println!(
        "seed {seed}: {DEATHS} deaths, {KILLED} by kill, {reset} resets heard, {received} messages received"
    );
    println!("descriptors: {descriptors_before} before, {} after", descriptors());
    assert!(reset > DEATHS / 3, "{reset}");
    let encrypted = counter(&pair.a, "transport.flows_encrypted");
    assert!(if is_secure { encrypted > DEATHS / 2 } else { encrypted == 0 }, "{encrypted}");
    steady.close(steady_flow).unwrap();
    assert_eq!(steady_server.join().unwrap(), DEATHS);
    drop((steady, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}
