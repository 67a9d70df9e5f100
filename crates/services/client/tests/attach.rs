//! What an embedded endpoint's host is attached with.

use barewire_client::{ConnectOptions, Embedded, EmbeddedConfig, Event};
use barewire_frame::PoolConfig;
use std::net::Ipv4Addr;

fn open(port: &str, last: u8, vlan: Option<u16>) -> Embedded {
    let mut config = EmbeddedConfig::new(port, Ipv4Addr::new(10, 0, 0, last));
    config.interface.vlan = vlan;
    config.pool = PoolConfig { frames: 512, ..PoolConfig::default() };
    Embedded::open(&config).unwrap()
}

#[test]
fn neighbours_are_hashed_with_a_key_that_nobody_knows() {
    let ends = [open("mem:client-key-a", 1, None), open("mem:client-key-b", 2, None)];
    let keys = ends.map(|end| end.stack().host().config().hash_key);
    assert!(keys[0] != 0 && keys[1] != 0 && keys[0] != keys[1]);
}

/// Whether `a` connects to `b` within some thousand duty cycles of both.
fn connects(a: &mut Embedded, b: &mut Embedded) -> bool {
    b.listen(9000, 0).unwrap();
    a.connect("10.0.0.2:9000".parse().unwrap(), &ConnectOptions::default()).unwrap();
    (0..5000).any(|_| {
        b.poll().unwrap();
        a.poll().unwrap();
        matches!(a.next_event(), Some(Event::Connected { .. }))
    })
}

#[test]
fn endpoints_meet_in_their_vlan_only() {
    let both = |link, va, vb| {
        let port = format!("mem:client-vlan-{link}");
        connects(&mut open(&port, 1, va), &mut open(&port, 2, vb))
    };
    assert!(both("same", Some(7), Some(7)));
    assert!(!both("other", Some(7), Some(8)));
    assert!(!both("none", Some(7), None));
}
