//! `barewire msg listen --echo` against a peer that does not read for a while, or ever.

#[allow(dead_code, reason = "its processes run beside the test")]
mod common;

use barewire_client::{Client, ClientConfig, ConnectOptions, Event, FlowId, SendError};
use barewire_daemon::{Config, Daemon};
use barewire_testing::{Folder, Running};
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    // Ends first: its daemon goes afterwards.
    echo: Running,
    _daemons: [Daemon; 2],
    dir: Folder,
}

impl Rig {
    fn start(label: &str) -> Rig {
        let dir = Folder::new("msg");
        let daemon = |host| {
            let mut config =
                Config::new(&format!("mem:{}", dir.path().display()), Ipv4Addr::new(10, 0, 0, host), 24);
            config.name = format!("msg-{label}-{}-{host}", std::process::id());
            config.socket = dir.file(format!("{host}.sock"));
            Daemon::start(&config).unwrap()
        };
        let daemons = [daemon(1), daemon(2)];
        let there = dir.file("2.sock");
        let mut echo =
            common::barewire(&["msg", "listen", "888", "--echo", "--socket", there.to_str().unwrap()]);
        let echo = Running::start(echo.stderr(Stdio::null()));
        Rig { dir, _daemons: daemons, echo }
    }

    fn client(&self) -> Client {
        let mut config = ClientConfig::new("client");
        config.socket = self.dir.file("1.sock");
        Client::attach_with(&config).unwrap()
    }
}

/// Connects as soon as it listens.
fn connect(client: &mut Client) -> FlowId {
    for _ in 0..3000 {
        let to = (Ipv4Addr::new(10, 0, 0, 2), 888).into();
        if let Ok(flow) = client.connect_wait(to, &ConnectOptions::default(), PATIENCE) {
            return flow;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody listens");
}

fn message(i: u32) -> Vec<u8> {
    i.to_le_bytes().repeat(16 << 10)
}

/// Sends until nothing moves any more, and reads nothing; says how many went.
fn send_until_stuck(client: &mut Client, flow: FlowId, most: u32, held: &mut Vec<Event>) -> u32 {
    let mut sent = 0;
    while sent < most {
        match client.send(flow, &message(sent)) {
            Ok(()) => sent += 1,
            Err(SendError::WouldBlock) => match client.wait_event(Some(Duration::from_secs(1))).unwrap() {
                Some(Event::Writable { .. }) => {}
                Some(event @ Event::Message(_)) => held.push(event),
                Some(event) => panic!("{event:?}"),
                None => break,
            },
            Err(e) => panic!("{e}"),
        }
    }
    sent
}

#[test]
fn everything_comes_back_to_who_reads_late() {
    const COUNT: u32 = 4000;
    let rig = Rig::start("late");
    let mut client = rig.client();
    let flow = connect(&mut client);
    let mut held = Vec::new();
    let mut sent = send_until_stuck(&mut client, flow, COUNT, &mut held);
    assert!(sent < COUNT, "it was held up");
    let (mut back, mut next) = (0, held.into_iter());
    while back < COUNT {
        while sent < COUNT && client.send(flow, &message(sent)) == Ok(()) {
            sent += 1;
        }
        match next.next().map_or_else(|| client.wait_event(Some(PATIENCE)).unwrap(), Some) {
            Some(Event::Message(m)) => {
                assert!(client.to_vec(&m) == message(back), "message {back}");
                client.release(m);
                back += 1;
            }
            Some(Event::Writable { .. }) => {}
            other => panic!("{other:?} after {back} of {sent}"),
        }
    }
}

#[test]
fn who_never_reads_holds_up_nobody_else_and_a_signal_ends_it() {
    let mut rig = Rig::start("never");
    let mut sleeper = rig.client();
    let flow = connect(&mut sleeper);
    let mut held = Vec::new();
    assert!(send_until_stuck(&mut sleeper, flow, 4000, &mut held) < 4000);
    let mut client = rig.client();
    let flow = connect(&mut client);
    for i in 0..100 {
        client.send(flow, &message(i)).unwrap();
        match client.wait_event(Some(PATIENCE)).unwrap() {
            Some(Event::Message(m)) => assert!(client.to_vec(&m) == message(i), "message {i}"),
            other => panic!("{other:?}"),
        }
    }
    let pid = rig.echo.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        rig.echo.child.try_wait().unwrap().is_some()
    });
    assert!(ended, "it heeds no signal");
}
