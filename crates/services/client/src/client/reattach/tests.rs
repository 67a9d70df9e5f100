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
    let daemon = welcome(&control);
    (client.join().unwrap(), daemon, listener)
}

/// What the daemon answers.
fn welcome(control: &ControlConn) -> DaemonChannel {
    let geometry = Geometry { sq_entries: 64, cq_entries: 64, send_bytes: 1 << 16, recv_bytes: 1 << 16 };
    let (daemon, fds) = DaemonChannel::create(geometry).unwrap();
    let welcome = Welcome { version: VERSION, application: 1, addresses: vec![], geometry, mtu: 1500 };
    control.send(&FromDaemon::Welcome(welcome), &fds.as_fds()).unwrap();
    daemon
}

/// Lets the client find another daemon, which the test plays, too.
fn reattached(client: &mut Client, listener: &ControlListener) -> DaemonChannel {
    let mut daemon = None;
    for _ in 0..1000 {
        let event = client.wait_event(Some(Duration::from_millis(10))).unwrap();
        if let Some(control) = listener.accept().unwrap() {
            daemon = Some(welcome(&control));
        }
        match event {
            Some(Event::Reattached) => return daemon.expect("it was asked"),
            event => assert!(event.is_none(), "{event:?}"),
        }
    }
    panic!("it finds no daemon");
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

/// Something holds the daemon's place and does not answer: looks for events go on, and when it answers at last, there is a daemon.
#[test]
fn nobody_waits_for_a_daemon_that_does_not_answer() {
    let (mut client, mut daemon, listener) = played("silent", true);
    daemon.mark_closed();
    assert!(matches!(client.next_event(), Some(Event::Detached { .. })));
    let timed = |client: &mut Client, look: fn(&mut Client)| {
        let start = barewire_engine::now();
        look(client);
        barewire_engine::now().since(start)
    };
    let longest = barewire_base::Duration::from_millis(200);
    let mut control = None;
    for _ in 0..20 {
        let took = timed(&mut client, |client| assert!(!client.try_reattach().unwrap()));
        assert!(took < longest, "{took}");
        let took = timed(&mut client, |client| {
            assert!(client.wait_event(Some(Duration::from_millis(10))).unwrap().is_none());
        });
        assert!(took < longest, "{took}");
        control = control.or_else(|| listener.accept().unwrap());
    }
    let _daemon = welcome(&control.expect("it was asked"));
    let event = client.wait_event(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(event, Some(Event::Reattached)), "{event:?}");
    assert!(!client.is_detached() && client.next_event().is_none());
}

/// Who waits for room, on a flow or for a reservation, hears that the daemon is gone.
#[test]
fn refusals_outlive_the_daemon() {
    let (mut client, mut daemon, _listener) = played("refusals", true);
    let (local, remote) = ("10.0.0.1:9".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
    assert!(daemon.complete(&Completion::Accepted { token: 3, flow: 7, local, remote }));
    daemon.flush();
    assert!(matches!(client.next_event(), Some(Event::Accepted { .. })));
    let flow = FlowId::from_raw(7);
    while client.send(flow, &[0; 1000]).is_ok() {}
    assert_eq!(client.send(flow, &[0; 1000]), Err(SendError::WouldBlock));
    let mut kept = vec![];
    while let Ok(buf) = client.reserve(1000) {
        kept.push(buf);
    }
    daemon.mark_closed();
    let told: Vec<Event> = std::iter::from_fn(|| client.next_event()).collect();
    let of = |told: &[Event], flow| told.iter().filter(|e| **e == Event::Writable { flow }).count();
    assert_eq!((of(&told, Some(flow)), of(&told, None)), (1, 1), "{told:?}");
    assert_eq!(client.send(flow, b"x"), Err(SendError::DaemonGone));
}

/// A port that is given up while there is no daemon is not asked for again.
#[test]
fn who_stops_to_listen_without_a_daemon_is_heard() {
    let (mut client, mut daemon, listener) = played("unlisten", true);
    for udp_port in [700, 701] {
        client.listen(udp_port, udp_port.into()).unwrap();
        assert!(daemon.complete(&Completion::Listening { token: udp_port.into(), udp_port }));
        daemon.flush();
        assert!(matches!(client.next_event(), Some(Event::Listening { .. })));
    }
    daemon.mark_closed();
    assert!(matches!(client.next_event(), Some(Event::Detached { .. })));
    client.unlisten(700).unwrap();
    let mut next = reattached(&mut client, &listener);
    let asked: Vec<Request> = std::iter::from_fn(|| next.next_request()).map(Result::unwrap).collect();
    assert_eq!(asked, [Request::Listen { token: 701, udp_port: 701, local: None }]);
}

/// Who has closed everything listens nowhere at the next daemon, whenever the old one went.
#[test]
fn who_has_closed_everything_is_not_asked_to_listen_again() {
    for goes_first in [true, false] {
        let (mut client, mut daemon, listener) = played(&format!("closed-{goes_first}"), true);
        for udp_port in [700, 701] {
            client.listen(udp_port, udp_port.into()).unwrap();
        }
        // One is answered, one is not.
        assert!(daemon.complete(&Completion::Listening { token: 700, udp_port: 700 }));
        daemon.flush();
        assert!(matches!(client.next_event(), Some(Event::Listening { .. })));
        if goes_first {
            daemon.mark_closed();
            assert!(matches!(client.next_event(), Some(Event::Detached { .. })));
        }
        client.close_and_wait(Duration::from_secs(1)).unwrap();
        if !goes_first {
            let asked: Vec<Request> =
                std::iter::from_fn(|| daemon.next_request()).map(Result::unwrap).collect();
            let unlistens = [700, 701].map(|udp_port| Request::Unlisten { udp_port });
            assert_eq!(asked[2..], unlistens);
            daemon.mark_closed();
            assert!(matches!(client.next_event(), Some(Event::Detached { .. })));
        }
        let mut next = reattached(&mut client, &listener);
        assert_eq!(next.next_request(), None);
    }
}

/// A message that is dropped, not released, keeps no channel.
#[cfg(feature = "tokio")]
#[test]
fn what_is_dropped_holds_no_memory_of_a_daemon_that_is_gone() {
    let (mut client, mut daemon, listener) = played("dropped", true);
    client.keep_unread();
    for keeps in [true, false] {
        assert!(daemon.complete(&Completion::Received { flow: 7, offset: 64, len: 5 }));
        daemon.flush();
        let Some(Event::Message(message)) = client.next_event() else { panic!("no message") };
        let kept = keeps.then_some(message);
        daemon.mark_closed();
        assert!(matches!(client.next_event(), Some(Event::Detached { .. })));
        // Who drops a message ends a sleep.
        client.take_woken();
        daemon = reattached(&mut client, &listener);
        let retired = client.steady.as_ref().unwrap().retired.len();
        assert_eq!(retired, usize::from(kept.is_some()));
        if let Some(message) = kept {
            assert_eq!(client.to_vec(&message).len(), 5);
            client.release(message);
        }
    }
}

/// Ends are never refused: with the ring full they go when it has room, before what is asked for later.
#[test]
fn an_end_waits_for_room_in_the_ring_and_nobody_waits_for_it() {
    let (mut client, mut daemon, _listener) = played("ends", false);
    let (local, remote) = ("10.0.0.1:9".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
    for flow in [7, 8] {
        assert!(daemon.complete(&Completion::Accepted { token: 3, flow, local, remote }));
        daemon.flush();
        assert!(matches!(client.next_event(), Some(Event::Accepted { .. })));
    }
    client.listen(700, 0).unwrap();
    let flow = FlowId::from_raw;
    while client.connect(remote, &ConnectOptions::default()).is_ok() {}
    // Each of them once, however often it is asked for.
    for _ in 0..3 {
        client.close(flow(7)).unwrap();
        client.reset(flow(8)).unwrap();
        client.reset(flow(9)).unwrap();
    }
    client.unlisten(700).unwrap();
    assert_eq!(client.send(flow(7), b"x"), Err(SendError::Closing));
    assert_eq!(client.listen(700, 1), Err(SendError::WouldBlock));
    let before = std::iter::from_fn(|| daemon.next_request()).count();
    assert!(before > 1);
    daemon.flush();
    client.listen(700, 1).unwrap();
    let asked: Vec<Request> = std::iter::from_fn(|| daemon.next_request()).map(Result::unwrap).collect();
    let ends = [
        Request::Close { flow: 7 },
        Request::Reset { flow: 8 },
        Request::Unlisten { udp_port: 700 },
        Request::Listen { token: 1, udp_port: 700, local: None },
    ];
    assert_eq!(asked, ends);
}

/// The daemon empties the ring after somebody found it full and before that one sleeps: nothing rings, so there is no sleep.
#[test]
fn room_that_comes_just_before_a_sleep_is_not_slept_over() {
    let (mut client, mut daemon, _listener) = played("room", false);
    let remote = "10.0.0.2:9".parse().unwrap();
    while client.connect(remote, &ConnectOptions::default()).is_ok() {}
    let end = barewire_engine::now() + Duration::from_secs(20).into();
    let mut tries = 0;
    let asked = client.wait_for(end, |client| {
        tries += 1;
        let is_full = client.listen(700, 1) == Err(SendError::WouldBlock);
        if is_full {
            while daemon.next_request().is_some() {}
            daemon.flush();
        }
        (!is_full).then_some(())
    });
    assert!(asked.is_ok() && tries == 2, "{asked:?}, {tries}");
    assert!(barewire_engine::now() < end, "it slept");
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
