//! The port on virtual devices of DPDK: two ends of a shared-memory link, and a veth pair through packet sockets.
#![cfg(feature = "dpdk")]

#[path = "../../packet/tests/common/mod.rs"]
mod common;

use barewire_base::{DropReason, Duration};
use barewire_dpdk::{DpdkConfig, DpdkPort};
use barewire_frame::{Burst, Pool, PoolConfig, leaked_pools};
use barewire_port::Port;
use barewire_port::conformance::{ConformancePair, run_all};
use common::{FAR, NEAR, eventually, now, with_veth};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Devices are plugged in one after the other: DPDK's list of them is the process's.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).expect("a pool")
}

fn open(device: &str, pool: &Pool) -> DpdkPort {
    let config = DpdkConfig { rx_slots: 64, tx_slots: 64, ..DpdkConfig::new(device) };
    DpdkPort::open(config, pool.clone()).unwrap_or_else(|error| panic!("{device}: {error}"))
}

/// A number that no device of this process had.
fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn pair(a: &str, b: &str, wait: impl Fn(&DpdkPort, &DpdkPort)) -> ConformancePair {
    let (a_pool, b_pool) = (pool(512), pool(512));
    let (a, b) = (open(a, &a_pool), open(b, &b_pool));
    wait(&a, &b);
    ConformancePair::on_a_wire(a, a_pool, b, b_pool)
}

#[test]
fn conformance_on_packet_sockets() {
    with_veth("dpdk_packet_sockets", 1, || {
        let _turn = alone();
        run_all("dpdk:net_af_packet", &mut || {
            let n = number();
            let device = |side, interface| format!("net_af_packet{n}{side},iface={interface}");
            pair(&device(0, NEAR), &device(1, FAR), |_, _| ())
        });
        assert_eq!(leaked_pools(), 0);
    });
}

#[test]
fn conformance_on_a_link_in_shared_memory() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    run_all("dpdk:net_memif", &mut || {
        let n = number();
        let socket = folder.path().join(format!("{n}")).display().to_string();
        let device =
            |side, role| format!("net_memif{n}{side},role={role},id=0,socket-abstract=no,socket={socket}");
        pair(&device(0, "server"), &device(1, "client"), |a, b| {
            // The two find each other in a thread of DPDK.
            eventually("the link comes up", || a.link_is_up() && b.link_is_up());
        })
    });
    assert_eq!(leaked_pools(), 0);
}

#[test]
fn what_cannot_be_opened_is_said_and_leaves_nothing() {
    let _turn = alone();
    let pool = pool(512);
    let why = |device: &str| {
        let refused = DpdkPort::open(DpdkConfig { rx_slots: 64, ..DpdkConfig::new(device) }, pool.clone());
        refused.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let said = why("net_nul0");
    assert!(said.contains("dpdk:net_nul0") && said.contains("plugging the device in"), "{said}");
    let said = why("0000:ff:1f.7");
    assert!(said.contains("plugging the device in"), "{said}");
    // A driver's own -1 is no lack of rights of root's.
    if barewire_testing::is_root() {
        for device in ["net_null9,sice=64", "net_af_packet9,iface=bw-nosuch", "net_memif9,role=both"] {
            let said = why(device);
            assert!(said.contains("its driver refuses it") && said.contains("hint: "), "{said}");
        }
    }
    assert_eq!(pool.available(), 512);
    let small = Pool::new(PoolConfig { frames: 100, ..PoolConfig::default() }).unwrap();
    let said = DpdkPort::open(DpdkConfig::new("net_null9"), small).unwrap_err().to_string();
    assert!(said.contains("100 free frames, and 640 are needed"), "{said}");
    let large = Pool::new(PoolConfig { frames: 8, chunk_len: 65_536, ..PoolConfig::default() }).unwrap();
    let said = DpdkPort::open(DpdkConfig::new("net_null9"), large).unwrap_err().to_string();
    assert!(said.contains("chunks of 65536 bytes"), "{said}");
}

/// A device that receives without end and takes everything: every chunk comes back, and a second opening finds it as the first did.
#[test]
fn chunks_come_back_whatever_is_under_way() {
    let _turn = alone();
    let pool = pool(512);
    let mut port = open("net_null8,size=64", &pool);
    let mut burst = Burst::new();
    for round in 0..1000 {
        let got = port.rx_burst(now(), &mut burst).unwrap();
        assert_eq!(got, burst.len());
        if round % 3 == 0 {
            assert_eq!(port.tx_burst(now(), &mut burst).unwrap(), got);
        }
        burst.clear();
    }
    assert!(port.counters().rx_frames.get() >= 32_000, "{}", port.counters().rx_frames.get());
    assert_eq!(u64::from(port.held()) + pool.available() as u64, 512);
    port.reopen().unwrap();
    assert_eq!(port.rx_burst(now(), &mut burst).unwrap(), 32);
    drop(port);
    assert_eq!(pool.available(), 480, "what the burst holds is not the port's");
    burst.clear();
    assert_eq!(pool.available(), 512);
}

#[test]
fn a_pool_that_is_empty_receives_again_when_it_is_not() {
    let _turn = alone();
    let pool = pool(512);
    let mut port = open("net_null7,size=1000", &pool);
    let mut held = Vec::new();
    let mut burst = Burst::new();
    for _ in 0..40 {
        port.rx_burst(now(), &mut burst).unwrap();
        while let Some(frame) = burst.pop() {
            held.push(frame);
        }
    }
    assert!(held.len() > 300 && pool.available() == 0, "{}", held.len());
    assert_eq!(port.rx_burst(now(), &mut burst).unwrap(), 0);
    assert!(port.counters().drops.get(DropReason::PoolEmpty) >= 32);
    held.clear();
    assert_eq!(port.rx_burst(now() + Duration::from_secs(1), &mut burst).unwrap(), 32);
}
