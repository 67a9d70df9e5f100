//! A daemon that is killed, started again, and stopped: who learns of it, how, and how soon.

mod common;

use barewire_base::Duration as Span;
use barewire_client::{Client, CloseReason, Event, WaitError};
use barewire_daemon::Daemon;
use barewire_engine::{counters_path, now};
use common::child_daemon::ChildDaemon;
use common::*;
use std::path::Path;

fn gone(client: &mut Client) {
    let start = now();
    loop {
        match client.wait_event(Some(PATIENCE)) {
            Ok(Some(_)) => {}
            Err(WaitError::DaemonGone) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(client.is_closed());
    println!("its own application knew after {}", now().since(start));
}

fn attach_there(dir: &Path) -> Client {
    attach_to(&dir.join("1.sock"), "there", None).unwrap()
}

#[test]
fn killed_restarted_stopped() {
    let dir = Folder::new("daemon");
    let path = dir.path().to_owned();
    let name = format!("restart-{}", std::process::id());
    let page = counters_path(&name).unwrap();
    let mut config = config(&path, &format!("unix:{0}/2.port,{0}/1.port", path.display()), 2);
    config.transport.keepalive = Span::from_millis(400);
    config.transport.keepalive_interval = Span::from_millis(300);
    config.transport.keepalive_probes = 3;
    let here = Daemon::start(&config).unwrap();
    let mut server = attach(&here, "server");
    server.listen_wait(888, 0, PATIENCE).unwrap();

    // Killed and away: silence tells.
    let mut other = ChildDaemon::start(&path, &name);
    let mut client = attach_there(&path);
    let ours = connect(&mut client, to(2, 888));
    let flow = accept(&mut server);
    // Messages half-way, in both directions.
    for i in 0..20 {
        client.send(ours, &pattern(i, 1_000_000)).unwrap();
        let _ = server.send(flow, &pattern(i, 1_000_000));
    }
    let start = now();
    other.kill();
    gone(&mut client);
    let ended = loop {
        match next_real(&mut server) {
            Event::Message(m) => server.release(m),
            Event::Closed { flow, reason } => break (flow, reason),
            event => panic!("{event:?}"),
        }
    };
    assert_eq!(ended, (flow, CloseReason::TimedOut));
    println!("its peer gave up after {}, with messages under way", now().since(start));
    drop(client);

    // An idle peer, by asking for signs of life.
    other = ChildDaemon::start(&path, &name);
    let mut client = attach_there(&path);
    let start = now();
    connect(&mut client, to(2, 888));
    let flow = accept(&mut server);
    other.kill();
    assert_eq!(next_real(&mut server), Event::Closed { flow, reason: CloseReason::TimedOut });
    let silence = now().since(start);
    println!("an idle peer gave up after {silence}");
    assert!(silence >= Span::from_millis(1200), "{silence}: no earlier than asked for");
    gone(&mut client);
    drop(client);

    // Killed and started again at the same place, with the dead one's files lying about.
    for round in 0..5 {
        other = ChildDaemon::start(&path, &name);
        let mut client = attach_there(&path);
        let ours = connect(&mut client, to(2, 888));
        let flow = accept(&mut server);
        client.send(ours, b"alive").unwrap();
        assert_eq!(message(&mut server), b"alive");
        assert!(path.join("1.sock").exists() && page.exists());
        other.kill();
        assert!(path.join("1.sock").exists(), "who is killed tidies nothing up");
        let start = now();
        other = ChildDaemon::start(&path, &name);
        let started = now();
        let mut second = attach_there(&path);
        let attached = now();
        let new = connect(&mut second, to(2, 888));
        let connected = now();
        // The peer may hear of the restart first; where it took long, it has given up.
        let heard = std::cell::Cell::new(false);
        let hear = |f, reason| {
            let gave_up = reason == CloseReason::TimedOut && now().since(start) >= Span::from_millis(1200);
            assert!(f == flow && (reason == CloseReason::PeerRestarted || gave_up), "{f:?} {reason:?}");
            assert!(!heard.replace(true), "a flow ends once");
        };
        let new_flow = loop {
            match next_real(&mut server) {
                Event::Accepted { flow, .. } => break flow,
                Event::Closed { flow, reason } => hear(flow, reason),
                event => panic!("{event:?}"),
            }
        };
        server.send(new_flow, b"welcome back").unwrap();
        assert_eq!(message(&mut second), b"welcome back");
        println!(
            "round {round}: up {} after the kill, attached {} later, connected {} later",
            started.since(start),
            attached.since(started),
            connected.since(attached)
        );
        // Who had a flow to the dead one learns of it with the first packet.
        let _ = server.send(flow, b"are you there?");
        second.close(new).unwrap();
        let mut left = None;
        while left.is_none() || !heard.get() {
            match next_real(&mut server) {
                Event::Closed { flow, reason } if flow == new_flow => left = Some(reason),
                Event::Closed { flow, reason } => hear(flow, reason),
                event => panic!("{event:?}"),
            }
        }
        assert_eq!(left, Some(CloseReason::Peer));
        gone(&mut client);
        drop((client, second));
        other.kill();
    }

    // A clean stop: no silence, no files.
    other = ChildDaemon::start(&path, &name);
    let mut client = attach_there(&path);
    connect(&mut client, to(2, 888));
    let flow = accept(&mut server);
    let start = now();
    drop(other.process.stdin.take());
    assert_eq!(next_real(&mut server), Event::Closed { flow, reason: CloseReason::Reset });
    println!("after a clean stop the peer knew within {}", now().since(start));
    gone(&mut client);
    assert!(other.process.wait().unwrap().success());
    assert!(!path.join("1.sock").exists() && !page.exists() && !path.join("1.port").exists());
    drop(server);
    is_empty_again(&here);
}
