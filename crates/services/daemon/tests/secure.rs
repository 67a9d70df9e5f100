//! Two daemons that encrypt: who their applications learn is at the other end, who is refused and how that is counted, and where
//! users may listen and connect.

mod common;

use barewire_client::security::{Peer, Security};
use barewire_client::{Client, ConnectFailure, ConnectOptions, ConnectWaitError, Event, PeerIdentity};
use barewire_daemon::{Config, Daemon, UserRules};
use barewire_netns::{LinkConfig, Namespace, VethPair};
use barewire_testing::{Needs, have};
use barewire_verbs::context::{ConnectTo, ContextError, Refusal};
use common::rdma::{End, join, rdma_pair_with};
use common::*;
use std::sync::Arc;

fn host_of(config: &Config) -> u8 {
    config.interface.ipv4[0].0.octets()[3]
}

fn identity(host: u8) -> PeerIdentity {
    PeerIdentity { name: format!("host {host}"), key: key(host).public() }
}

/// Messages of several sizes there and back, and what each end knows of the other.
fn exchange(client: &mut Client, server: &mut Client) {
    server.listen_wait(888, 5, PATIENCE).unwrap();
    let flow = connect(client, to(2, 888));
    assert_eq!(client.peer(flow), Some(&identity(2)));
    let back = loop {
        if let Event::Accepted { flow, .. } = next(server) {
            break flow;
        }
    };
    assert_eq!(server.peer(back), Some(&identity(1)));
    for len in [0, 1, 1024, 70_000] {
        let sent: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        client.send(flow, &sent).unwrap();
        client.flush();
        let Event::Message(m) = next(server) else { panic!("a message") };
        assert_eq!(server.to_vec(&m), sent);
        server.send(back, &sent).unwrap();
        server.release(m);
        server.flush();
        loop {
            if let Event::Message(m) = next(client) {
                assert_eq!(client.to_vec(&m), sent);
                break client.release(m);
            }
        }
    }
    client.close(flow).unwrap();
    assert!(matches!(next(server), Event::Closed { .. }));
    assert_eq!(server.peer(back), None);
}

#[test]
fn applications_learn_who_is_at_the_other_end() {
    for known in [true, false] {
        let pair = pair_with(|config| secure(config, host_of(config), known));
        let (mut client, mut server) = (attach(&pair.a, "client"), attach(&pair.b, "server"));
        exchange(&mut client, &mut server);
        drop((client, server));
        for daemon in [&pair.a, &pair.b] {
            assert_eq!(counter(daemon, "transport.flows_encrypted"), 1);
            is_empty_again(daemon);
        }
    }
}

#[test]
fn over_af_xdp_too() {
    if have(Needs::Root, barewire_netns::is_root_capable()).is_none() {
        return;
    }
    let dir = Folder::new("daemon");
    let hosts = [Namespace::anonymous().unwrap(), Namespace::anonymous().unwrap()];
    VethPair::create(&hosts[0], "eth0", &hosts[1], "eth0", &LinkConfig::default()).unwrap();
    let daemons = [1u8, 2].map(|host| {
        hosts[usize::from(host) - 1].set_up("eth0").unwrap();
        let mut config = config(dir.path(), "xdp:eth0", host);
        secure(&mut config, host, true);
        hosts[usize::from(host) - 1].enter(|| Daemon::start(&config)).unwrap().unwrap()
    });
    let (mut client, mut server) = (attach(&daemons[0], "client"), attach(&daemons[1], "server"));
    exchange(&mut client, &mut server);
}

fn failure(client: &mut Client, udp_port: u16) -> ConnectFailure {
    match client.connect_wait(to(2, udp_port), &ConnectOptions::default(), PATIENCE) {
        Err(ConnectWaitError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_is_refused_is_told_and_counted_by_reason() {
    // A host without keys, and one with a key that nobody trusts.
    for (change, why, reason) in [
        (None, ConnectFailure::SecurityRequired, "transport.drop.downgrade"),
        (Some(9), ConnectFailure::NotTrusted, "transport.drop.not_trusted"),
    ] {
        let pair = pair_with(|config| {
            let host = host_of(config);
            match (host, change) {
                (1, None) => {}
                (1, Some(own)) => {
                    let mut security = Security::new(key(own));
                    let addresses = vec![std::net::IpAddr::from(v4(2)).into()];
                    assert!(security.trust(Peer { name: "host 2".into(), key: key(2).public(), addresses }));
                    config.transport.security = Some(Arc::new(security));
                }
                _ => secure(config, host, true),
            }
        });
        let (mut client, mut server) = (attach(&pair.a, "client"), attach(&pair.b, "server"));
        server.listen_wait(888, 5, PATIENCE).unwrap();
        assert_eq!(failure(&mut client, 888), why);
        eventually("it is counted", || counter(&pair.b, reason) > 0);
        assert!(is_quiet(&mut server), "its application hears nothing");
        drop((client, server));
        is_empty_again(&pair.a);
        is_empty_again(&pair.b);
    }
}

#[test]
fn users_listen_and_connect_where_they_may() {
    let uid = rustix::process::geteuid().as_raw();
    let pair = pair_with(|config| {
        let network = barewire_client::security::Network { address: v4(2).into(), prefix: 32 };
        let rules = UserRules { listen: Some(vec![888..=890]), connect: Some(vec![(network, 888..=889)]) };
        config.rules.insert(uid, rules);
    });
    let (mut client, mut server) = (attach(&pair.a, "client"), attach(&pair.b, "server"));
    server.listen_wait(890, 5, PATIENCE).unwrap();
    server.listen_wait(888, 5, PATIENCE).unwrap();
    assert!(server.listen_wait(891, 5, PATIENCE).is_err());
    connect(&mut client, to(2, 888));
    assert_eq!(failure(&mut client, 890), ConnectFailure::NotPermitted);
    assert_eq!(failure(&mut client, 889), ConnectFailure::Refused, "nobody is there, but it was asked");
    // Nor does it speak from where it may not listen, but for the ports that anybody is given.
    for (local_udp_port, may) in [(887, false), (890, true), (40_000, true)] {
        let from = ConnectOptions { local_udp_port, ..ConnectOptions::default() };
        match client.connect_wait(to(2, 888), &from, PATIENCE) {
            Ok(_) => assert!(may, "from port {local_udp_port}"),
            Err(ConnectWaitError::Failed(ConnectFailure::NotPermitted)) => assert!(!may),
            Err(other) => panic!("from port {local_udp_port}: {other}"),
        }
    }
    drop((client, server));
    is_empty_again(&pair.a);
    is_empty_again(&pair.b);
}

#[test]
fn rdma_obeys_the_rules_for_users() {
    let uid = rustix::process::geteuid().as_raw();
    for (udp_port, may) in [(888, false), (4791, true)] {
        let pair = rdma_pair_with(|config| {
            let network = barewire_client::security::Network { address: v4(2).into(), prefix: 32 };
            let ports = udp_port..=udp_port;
            let rules =
                UserRules { listen: Some(vec![ports.clone()]), connect: Some(vec![(network, ports)]) };
            config.rules.insert(uid, rules);
        });
        let (mut a, mut b) = (End::new(&pair.a, "a", 1 << 16), End::new(&pair.b, "b", 1 << 16));
        if may {
            join(&mut a, &mut b, 2, 77);
            continue;
        }
        let listened = b.context.listen(77, 1);
        assert!(matches!(listened, Err(ContextError::Refused(Refusal::NotPermitted))), "{listened:?}");
        let asked = a.context.start_connect(a.qp, &ConnectTo::new(v4(2).into(), 77), PATIENCE);
        assert!(matches!(asked, Err(ContextError::Refused(Refusal::NotPermitted))), "{asked:?}");
    }
}

#[test]
fn rdma_beside_messages_that_have_to_be_encrypted_is_refused_at_start() {
    for wanted in [false, true] {
        let dir = Folder::new("daemon");
        let mut config = config(dir.path(), &format!("mem:{}", dir.path().display()), 1);
        secure(&mut config, 1, true);
        config.rdma.enabled = true;
        config.rdma.unencrypted = wanted;
        match Daemon::start(&config) {
            Ok(_) => assert!(wanted),
            Err(e) => assert!(!wanted && e.to_string().contains("rdma.unencrypted = true"), "{e}"),
        }
    }
}
