//! What the port does while its interface is down, away or without a carrier. Needs root, and says so when it is not.

#[path = "../../packet/tests/common/mod.rs"]
mod common;

use barewire_base::DropReason;
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_port::{Port, PortError};
use barewire_xdp::{Attach, XdpConfig, XdpPort};
use common::{FAR, NEAR, arp_request, eventually, ip, now, with_xdp_veth as with_veth};

const FRAMES: u32 = 256;

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: FRAMES, ..PoolConfig::default() }).expect("a pool")
}

fn config(interface: &str, attach: Attach) -> XdpConfig {
    XdpConfig { attach, tx_ring: 8, completion_ring: 8, ..XdpConfig::new(interface) }
}

fn open(config: XdpConfig, pool: &Pool) -> XdpPort {
    XdpPort::open(config, pool.clone()).unwrap_or_else(|e| panic!("{e}"))
}

/// Offers `bytes` once; whatever the port says.
fn offer(port: &mut XdpPort, pool: &Pool, bytes: &[u8]) {
    let mut burst = Burst::new();
    if let Some(frame) = pool.alloc_from(bytes) {
        burst.push(frame).expect("room");
    }
    let _ = port.tx_burst(now(), &mut burst);
}

/// Whether a frame like `bytes` is there.
fn arrived(port: &mut XdpPort, bytes: &[u8]) -> bool {
    let mut burst = Burst::new();
    let _ = port.rx_burst(now(), &mut burst);
    burst.iter().any(|f| f.data() == bytes)
}

#[test]
fn a_link_that_was_down_under_load_works_again_and_lets_sleep_meanwhile() {
    for attach in [Attach::Generic, Attach::Native] {
        with_veth("xdp_down", 1, move || {
            let (p, q) = (pool(), pool());
            let (mut near, mut far) = (open(config(NEAR, attach), &p), open(config(FAR, attach), &q));
            for round in 0..3u8 {
                ip(&["link", "set", NEAR, "down"]);
                let before = near.counters().drops.get(DropReason::PortDown);
                let asked = near.counters().syscalls.get();
                let begin = now();
                for _ in 0..1000 {
                    offer(&mut near, &p, &arp_request([1; 4], [2; 4]));
                    let _ = near.rx_burst(now(), &mut Burst::new());
                    assert!(near.prepare_wait(), "nothing can be done until the link is up");
                }
                // Ring and completion ring hold 8: the others are gone, and counted.
                let lost = near.counters().drops.get(DropReason::PortDown) - before;
                assert!(lost >= 1000 - 8, "{lost}");
                // What waits is tried again, from time to time.
                assert!(near.next_deadline().is_some_and(|at| at > begin));
                let (asked, took) = (near.counters().syscalls.get() - asked, now().since(begin));
                assert!(asked < 100 + took.as_nanos() / 1_000_000, "{asked} system calls in {took}");
                ip(&["link", "set", NEAR, "up"]);
                let bytes = arp_request([3; 4], [round; 4]);
                eventually("a frame after the link is up again", || {
                    offer(&mut near, &p, &bytes);
                    arrived(&mut far, &bytes)
                });
                eventually("nothing is left to send", || {
                    let _ = near.rx_burst(now(), &mut Burst::new());
                    near.next_deadline().is_none()
                });
            }
            drop((near, far));
            assert_eq!((p.available(), q.available()), (FRAMES as usize, FRAMES as usize));
        });
    }
}

/// However long it is down: what is sent meanwhile is lost, and holds no chunks that other ports of the pool want.
#[test]
fn a_link_that_stays_down_holds_no_more_of_the_pool() {
    with_veth("xdp_stays_down", 1, || {
        let p = pool();
        let config = XdpConfig { tx_ring: 64, completion_ring: 64, ..XdpConfig::new(NEAR) };
        let mut near = open(config, &p);
        ip(&["link", "set", NEAR, "down"]);
        let held = near.held_by_kernel();
        for _ in 0..20 {
            offer(&mut near, &p, &arp_request([1; 4], [2; 4]));
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        let more = near.held_by_kernel() - held;
        assert!(more <= 1, "{more} frames wait");
        drop(near);
        assert_eq!(p.available(), FRAMES as usize);
    });
}

#[test]
fn an_interface_that_was_deleted_and_made_again_is_opened_again() {
    for attach in [Attach::Generic, Attach::Native] {
        with_veth("xdp_deleted", 1, move || {
            let p = pool();
            let mut near = open(config(NEAR, attach), &p);
            let old = near.caps().mac;
            ip(&["link", "del", NEAR]);
            for _ in 0..20 {
                offer(&mut near, &p, &arp_request([1; 4], [2; 4]));
            }
            let why = near.reopen().unwrap_err().to_string();
            assert!(why.contains("`bw-near` not found"), "{why}");
            // Closed, it has nothing of the pool, loses what it is given, and sleeps.
            assert_eq!((near.held_by_kernel(), p.available()), (0, FRAMES as usize));
            let mut burst = Burst::new();
            burst.push(p.alloc_from(&arp_request([1; 4], [2; 4])).unwrap()).unwrap();
            assert!(matches!(near.tx_burst(now(), &mut burst), Err(PortError::Down { .. })));
            assert!(burst.is_empty() && near.prepare_wait() && near.wait_fd().is_some());
            let lost = near.counters().drops.get(DropReason::PortDown);
            assert!(lost > 10, "{lost}");
            ip(&["link", "add", NEAR, "type", "veth", "peer", "name", FAR]);
            assert!(near.reopen().unwrap_err().to_string().contains("bring it up"));
            ip(&["link", "set", NEAR, "up"]);
            ip(&["link", "set", FAR, "up"]);
            near.reopen().unwrap_or_else(|e| panic!("{e}"));
            assert!(near.caps().mac.is_some() && near.caps().mac != old);
            assert_eq!(near.counters().drops.get(DropReason::PortDown), lost, "counters go on");
            let q = pool();
            let mut far = open(config(FAR, attach), &q);
            for (round, to_far) in [(1, true), (2, false), (3, true)] {
                let bytes = arp_request([3; 4], [round; 4]);
                let (from, to, pool) =
                    if to_far { (&mut near, &mut far, &p) } else { (&mut far, &mut near, &q) };
                eventually("a frame over the new interface", || {
                    offer(from, pool, &bytes);
                    arrived(to, &bytes)
                });
            }
            drop((near, far));
            assert_eq!((p.available(), q.available()), (FRAMES as usize, FRAMES as usize));
        });
    }
}
