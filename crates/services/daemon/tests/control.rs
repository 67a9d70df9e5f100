//! The control socket and what one user may have: nobody shuts the others out.

mod common;

use barewire_channel::message::{FromApp, FromDaemon, Hello, Refused};
use barewire_channel::{ControlConn, ControlError, ControlListener, Geometry, VERSION};
use barewire_client::{AttachError, ConnectFailure, ConnectOptions, ConnectWaitError};
use common::*;

const SMALL: Option<Geometry> =
    Some(Geometry { sq_entries: 8, cq_entries: 64, send_bytes: 4096, recv_bytes: 4096 });

#[test]
fn who_connects_and_says_nothing_shuts_nobody_out() {
    let pair = pair();
    let mut silent: Vec<ControlConn> = Vec::new();
    // More than the daemon keeps, and more than wait in its queue.
    for _ in 0..200 {
        silent.push(ControlConn::connect_within(pair.a.socket(), PATIENCE).unwrap());
    }
    let mut client = attach_with(&pair.a, "client", SMALL);
    client.listen_wait(888, 0, PATIENCE).unwrap();
    // Those that stayed are ended after a while.
    let last = silent.pop().unwrap();
    assert!(last.wait_readable(Some(PATIENCE)).unwrap(), "it says nothing for ever");
    // Who is in is silent for as long as it likes.
    client.listen_wait(889, 0, PATIENCE).unwrap();
}

#[test]
fn one_user_has_its_part() {
    let mut is_first = true;
    let pair = pair_with(|c| {
        c.user.applications = Some(3);
        c.user.listeners = Some(4);
        // The other daemon's user is asked by one host alone, which leaves some.
        c.user.flows = Some(if std::mem::take(&mut is_first) { 5 } else { 20 });
    });
    let mut apps: Vec<_> = (0..3).map(|_| attach_with(&pair.a, "one of three", SMALL)).collect();
    match attach_to(pair.a.socket(), "the fourth", SMALL) {
        Err(AttachError::Refused { code: 4, message, hint }) => {
            assert!(
                message.contains("3 applications") && hint.contains("user_applications_max"),
                "{message}; {hint}"
            );
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a fourth was let in"),
    }
    for (i, app) in [0, 1, 2, 0].into_iter().enumerate() {
        apps[app].listen_wait(1000 + i as u16, 0, PATIENCE).unwrap();
    }
    for app in &mut apps {
        let more = app.listen_wait(2000, 0, PATIENCE);
        assert!(matches!(more, Err(ConnectWaitError::Failed(ConnectFailure::Refused))), "{more:?}");
    }
    apps[0].unlisten(1000).unwrap();
    apps[2]
        .listen_wait(2000, 0, PATIENCE)
        .or_else(|_| {
            // Requests of two applications are served in no order.
            eventually("a listener is free", || apps[2].listen_wait(2000, 0, PATIENCE).is_ok());
            Ok::<(), ()>(())
        })
        .unwrap();

    let mut server = attach(&pair.b, "server");
    server.listen_wait(888, 0, PATIENCE).unwrap();
    let mut flows = Vec::new();
    for app in [0, 1, 2, 0, 1] {
        flows.push((app, connect(&mut apps[app], to(2, 888))));
    }
    for app in &mut apps {
        let more = app.connect_wait(to(2, 888), &ConnectOptions::default(), PATIENCE);
        assert!(matches!(more, Err(ConnectWaitError::Failed(ConnectFailure::TableFull))), "{more:?}");
    }
    // Nor does it get more from outside, and what it ends it may have again; also when an application goes.
    let (app, flow) = flows.remove(0);
    apps[app].reset(flow).unwrap();
    eventually("a flow is free", || {
        apps[2].connect_wait(to(2, 888), &ConnectOptions::default(), PATIENCE).is_ok()
    });
    apps.truncate(1);
    eventually("flows and listeners are free", || {
        apps[0].connect_wait(to(2, 888), &ConnectOptions::default(), PATIENCE).is_ok()
            && apps[0].listen_wait(2001, 0, PATIENCE).is_ok()
    });
    let mut again = None;
    eventually("a place is free", || {
        again = attach_to(pair.a.socket(), "again", SMALL).ok();
        again.is_some()
    });
    drop((apps, again, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

/// A library of another release learns so in words, and takes up no place; the daemon goes on.
#[test]
fn another_version_is_told_which_one_the_daemon_speaks() {
    let pair = pair();
    for version in [0, VERSION - 1, VERSION + 1, u32::MAX] {
        let conn = ControlConn::connect_within(pair.a.socket(), PATIENCE).unwrap();
        let hello = Hello { version, name: "of another release".into(), geometry: SMALL };
        conn.send(&FromApp::Hello(hello), &[]).unwrap();
        assert!(conn.wait_readable(Some(PATIENCE)).unwrap());
        let Some((FromDaemon::Refused(refused), fds)) = conn.recv::<FromDaemon>().unwrap() else {
            panic!("version {version} was let in");
        };
        assert_eq!((refused.code, fds.len()), (Refused::VERSION, 0));
        let said = format!("version {VERSION} of the channel, not {version}");
        assert!(refused.message.contains(&said) && !refused.hint.is_empty(), "{refused:?}");
        assert!(conn.wait_readable(Some(PATIENCE)).unwrap());
        assert!(matches!(conn.recv::<FromDaemon>(), Err(ControlError::Closed)));
    }
    let mut client = attach_with(&pair.a, "client", SMALL);
    client.listen_wait(888, 0, PATIENCE).unwrap();
    eventually("one has a place", || counter(&pair.a, "applications.count") == 1);
}

/// And a library that meets a daemon of another release says what the daemon said.
#[test]
fn a_refusal_for_the_version_reaches_the_application_with_its_hint() {
    let dir = Folder::new("version");
    let listener = ControlListener::bind(dir.path().join("other.sock")).unwrap();
    let path = listener.path().to_owned();
    let daemon = std::thread::spawn(move || {
        let conn = loop {
            match listener.accept().unwrap() {
                Some(conn) => break conn,
                None => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        };
        assert!(conn.wait_readable(Some(PATIENCE)).unwrap());
        let Some((FromApp::Hello(hello), _)) = conn.recv::<FromApp>().unwrap() else { panic!("no hello") };
        assert_eq!(hello.version, VERSION);
        let message = "the daemon speaks version 9 of the channel".to_owned();
        let refused = Refused { code: Refused::VERSION, message, hint: "take one release".to_owned() };
        conn.send(&FromDaemon::Refused(refused), &[]).unwrap();
    });
    let Err(e) = attach_to(&path, "app", None) else { panic!("it was let in") };
    assert!(e.to_string().contains("version 9"), "{e}");
    assert_eq!(e.hint().as_deref(), Some("take one release"));
    daemon.join().unwrap();
}

/// Who speaks from a listener's port is taken for the one that listens there: nobody else opens flows from it.
#[test]
fn nobody_sends_from_the_port_of_anothers_listener() {
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    server.listen_wait(888, 0, PATIENCE).unwrap();
    let (mut service, mut other) = (attach(&pair.a, "service"), attach(&pair.a, "other"));
    let from = |local_udp_port| ConnectOptions { local_udp_port, ..ConnectOptions::default() };
    let is_refused = |result| matches!(result, Err(ConnectWaitError::Failed(ConnectFailure::NotPermitted)));
    for at in [None, Some(v4(1).into())] {
        match at {
            None => service.listen_wait(7000, 0, PATIENCE).unwrap(),
            Some(ip) => service.listen_on_wait(ip, 7000, 0, PATIENCE).unwrap(),
        }
        let refused = other.connect_wait(to(2, 888), &from(7000), PATIENCE);
        assert!(is_refused(refused), "{at:?}");
        service.connect_wait(to(2, 888), &from(7000), PATIENCE).unwrap();
        other.connect_wait(to(2, 888), &from(7001), PATIENCE).unwrap();
        service.unlisten(7000).unwrap();
        let mut again = || other.connect_wait(to(2, 888), &from(7000), PATIENCE);
        eventually("the port is anybody's", || again().is_ok());
    }
    drop((server, service, other));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}
