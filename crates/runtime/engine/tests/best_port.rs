//! The port that is chosen for an interface, on real ones. Needs root, and says so when it is not.

use barewire_engine::best_port;
use barewire_frame::{Pool, PoolConfig};
use barewire_netns::{LinkConfig, TwoHosts, TwoHostsConfig, is_root_capable};
use barewire_port::OpenError;
use barewire_testing::{Needs, have};

fn pool(frames: u32, chunk_len: u32) -> Pool {
    Pool::new(PoolConfig { frames, chunk_len, ..PoolConfig::default() }).expect("a pool")
}

fn hosts(mtu: u32) -> Option<TwoHosts> {
    have(Needs::Root, is_root_capable())?;
    let link = LinkConfig { mtu, ..LinkConfig::default() };
    Some(
        TwoHosts::create(&TwoHostsConfig { link, label: None, ..TwoHostsConfig::default() })
            .expect("two hosts"),
    )
}

/// What is chosen for `eth0` of the first host, and why; the ports are closed again.
fn chosen(hosts: &TwoHosts, frames: u32, chunk_len: u32) -> (String, String) {
    let choose = || {
        let p = pool(frames, chunk_len);
        let (port, uri, why) = best_port("eth0", &p).expect("a port");
        assert_eq!(port.caps().in_place, uri.scheme == "xdp");
        drop(port);
        assert_eq!(p.available(), frames as usize);
        (uri.to_string(), why)
    };
    hosts.ns_a.enter(choose).expect("the namespace")
}

#[test]
fn the_choice_follows_from_pool_and_interface() {
    let Some(hosts) = hosts(1500) else { return };
    let (uri, why) = chosen(&hosts, 4096, 2048);
    assert_eq!(uri, "xdp:eth0?fill_frames=1024");
    assert!(why.contains("stay where they are") && why.contains("AF_XDP on eth0"), "{why}");
    assert_eq!(chosen(&hosts, 65536, 2048).0, "xdp:eth0?fill_frames=2048");
    let (uri, why) = chosen(&hosts, 64, 65536);
    assert_eq!(uri, "packet:eth0?gso=1");
    assert!(why.contains("64 KiB") && why.contains("AF_PACKET on eth0"), "{why}");
}

#[test]
fn a_hook_that_is_taken_is_said() {
    let Some(hosts) = hosts(1500) else { return };
    let choose = || {
        let p = pool(4096, 2048);
        let _owner = best_port("eth0", &p).expect("a port");
        // The hook is taken: the next one goes another way, and says why.
        let (_port, uri, why) = best_port("eth0", &p).expect("a port");
        assert_eq!(uri.to_string(), "packet:eth0?tx=0");
        assert!(why.contains("not AF_XDP") && why.contains("another XDP program"), "{why}");
    };
    hosts.ns_a.enter(choose).expect("the namespace");
}

#[test]
fn a_large_mtu_needs_the_other_port_and_a_missing_interface_is_named() {
    let Some(hosts) = hosts(1800) else { return };
    let (uri, why) = chosen(&hosts, 1024, 2048);
    assert_eq!(uri, "packet:eth0?tx=0");
    assert!(why.contains("not AF_XDP") && why.contains("chunk_len=4096"), "{why}");
    assert_eq!(chosen(&hosts, 1024, 4096).0, "xdp:eth0?fill_frames=256");
    let choose = || match best_port("eth9", &pool(1024, 2048)) {
        Err(e @ OpenError::NotFound { .. }) => e.to_string(),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("there is no such interface"),
    };
    let why = hosts.ns_a.enter(choose).expect("the namespace");
    assert!(why.contains("did you mean `eth0`?"), "{why}");
}
