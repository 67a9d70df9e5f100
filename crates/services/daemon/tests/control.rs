//! The control socket and what one user may have: nobody shuts the others out.

mod common;

use barewire_channel::{ControlConn, Geometry};
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
