use super::*;
use barewire_channel::message::{FromApp, FromDaemon, Welcome};
use barewire_channel::{ControlListener, DaemonChannel, VERSION};

/// A client, and the daemon's side of its channel, which the test plays.
fn played(name: &str, reattach: bool) -> (Client, DaemonChannel, ControlListener) {
    let socket = std::env::temp_dir().join(format!("barewire-{name}-{}.sock", std::process::id()));
    let listener = ControlListener::bind(&socket).unwrap();
    let config = ClientConfig { socket, reattach, ..ClientConfig::new(name) };
    let client = std::thread::spawn(move || Client::attach_with(&config).unwrap());
    let patience = Some(Duration::from_secs(10));
    let control = loop {
        match listener.accept().unwrap() {
            Some(control) => break control,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    while control.recv_message::<FromApp>().unwrap().is_none() {
        assert!(control.wait_readable(patience).unwrap());
    }
    let geometry = Geometry { sq_entries: 64, cq_entries: 64, send_bytes: 1 << 16, recv_bytes: 1 << 16 };
    let (daemon, fds) = DaemonChannel::create(geometry).unwrap();
    let welcome = Welcome { version: VERSION, application: 1, addresses: vec![], geometry, mtu: 1500 };
    control.send(&FromDaemon::Welcome(welcome), &fds.as_fds()).unwrap();
    (client.join().unwrap(), daemon, listener)
}

/// The daemon speaks and goes between the client's look at the ring and its look at the daemon's end.
#[test]
fn what_the_daemon_says_last_is_heard_before_its_end() {
    let (mut client, mut daemon, _listener) = played("last-words", true);
    let flow = FlowId::from_raw(7);
    let (local, remote) = ("10.0.0.1:9".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
    assert!(daemon.complete(&Completion::Accepted { token: 3, flow: 7, local, remote }));
    daemon.flush();
    assert!(matches!(client.next_event(), Some(Event::Accepted { .. })));
    client.send(flow, b"arrives").unwrap();
    client.send(flow, b"nobody knows").unwrap();
    let Some(Ok(Request::Send { offset, token, .. })) = daemon.next_request() else { panic!("no request") };

    assert!(client.take_completion().is_none());
    assert!(daemon.complete(&Completion::Received { flow: 7, offset: 64, len: 5 }));
    assert!(daemon.complete(&Completion::Sent { flow: 7, token, offset, delivered: true }));
    daemon.mark_closed();
    assert!(client.is_closed());
    client.mourn();

    let Some(Event::Message(message)) = client.next_event() else { panic!("the message is lost") };
    assert_eq!((message.flow(), message.len()), (flow, 5));
    assert!(matches!(client.next_event(), Some(Event::Detached { flows: 1, unconfirmed: 1 })));
    match client.next_event() {
        Some(Event::Unconfirmed { bytes, .. }) => assert_eq!(bytes, b"nobody knows"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(client.next_event(), Some(Event::Closed { .. })));
    assert!(client.next_event().is_none());
    assert_eq!(client.send_books.available(), client.send_books.capacity(), "what was under way is free");
}

/// A reservation that was not sent is still its owner's when the memory of what was is free.
#[test]
fn a_reservation_outlives_the_daemon() {
    let (mut client, mut daemon, _listener) = played("reserved", true);
    let buf = client.reserve(1000).unwrap();
    daemon.mark_closed();
    assert!(matches!(client.next_event(), Some(Event::Detached { .. })));
    assert!(client.send_books.available() < client.send_books.capacity());
    assert!(client.write(&buf, 0, b"still ours"));
    client.abandon(buf);
    assert_eq!(client.send_books.available(), client.send_books.capacity());
}

/// An end that is seen in the middle of a look at events is not taken for one for good.
#[cfg(feature = "tokio")]
#[test]
fn who_looks_for_another_daemon_is_never_done_with_all() {
    for reattach in [true, false] {
        let (client, mut daemon, _listener) = played(&format!("done-{reattach}"), reattach);
        assert!(!client.is_gone());
        daemon.mark_closed();
        assert!(client.is_closed() && !client.is_detached());
        assert_eq!(client.is_gone(), !reattach);
    }
}
