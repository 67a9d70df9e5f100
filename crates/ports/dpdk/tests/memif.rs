//! `net_memif` with two queues: two devices of this process over one socket, each with two ports that share it, each port with a pool of its
//! own. What goes out on a queue comes in on the queue of the same number at the other end.
#![cfg(feature = "dpdk")]

#[path = "../../packet/tests/common/mod.rs"]
mod common;

use barewire_dpdk::{DpdkConfig, DpdkPort};
use barewire_frame::{Burst, Pool, PoolConfig, leaked_pools};
use barewire_port::Port;
use common::{PATIENCE, eventually, now};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// More than any ring between the devices holds, so that senders have to wait.
const FRAMES: u32 = 5_000;
/// Chunks of a pool.
const CHUNKS: u32 = 1024;

/// Devices are plugged in one after the other: DPDK's list of them is the process's.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: CHUNKS, ..PoolConfig::default() }).expect("a pool")
}

/// A device with two queues, whole.
fn device(number: u32, role: &str, socket: &Path) -> DpdkConfig {
    let socket = socket.display();
    let device = format!("net_memif{number},role={role},id=0,socket-abstract=no,socket={socket}");
    DpdkConfig { rx_slots: 64, tx_slots: 64, queues: 2, ..DpdkConfig::new(&device) }
}

/// The part of it that has one queue.
fn half(whole: &DpdkConfig, own: u16) -> DpdkConfig {
    DpdkConfig { own: vec![own], share: true, ..whole.clone() }
}

/// A port with what it still has to send, and the queue that each sender's frames are expected from.
struct End {
    name: u8,
    port: DpdkPort,
    pool: Pool,
    burst: Burst,
    sent: u32,
    /// Of each sender by its name: the number of the next frame.
    heard: [u32; 4],
}

impl End {
    fn open(name: u8, config: DpdkConfig) -> End {
        let (pool, device) = (pool(), config.device.clone());
        let port = DpdkPort::open(config, pool.clone()).unwrap_or_else(|error| panic!("{device}: {error}"));
        End { name, port, pool, burst: Burst::new(), sent: 0, heard: [0; 4] }
    }

    /// Frames of every length, each with its sender and its number, and bytes that follow from them.
    fn frame(name: u8, number: u32) -> Vec<u8> {
        let len = 60 + (number as usize * 37) % 1400;
        let mut bytes = vec![name ^ number as u8; len];
        bytes[0] = name;
        bytes[1..5].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn send(&mut self) {
        while self.sent < FRAMES && self.burst.room() > 0 {
            let Some(frame) = self.pool.alloc_from(&End::frame(self.name, self.sent)) else { break };
            assert!(self.burst.push(frame).is_ok());
            self.sent += 1;
        }
        self.port.tx_burst(now(), &mut self.burst).expect("the link stays up");
    }

    /// Each frame once and in the order of its sender.
    fn receive(&mut self) {
        let mut burst = Burst::new();
        self.port.rx_burst(now(), &mut burst).expect("the link stays up");
        while let Some(frame) = burst.pop() {
            let name = frame.data()[0];
            let heard = &mut self.heard[usize::from(name)];
            assert!(frame.data() == End::frame(name, *heard), "{name}'s frame {heard} at {}", self.name);
            *heard += 1;
        }
    }

    fn has_sent_all(&self) -> bool {
        self.sent == FRAMES && self.burst.is_empty() && self.port.next_deadline().is_none()
    }
}

/// All of them send and receive in turns until everything has arrived at whom it is meant for: of each end the numbers by sender.
fn exchange(ends: &mut [End], expected: &[[u32; 4]]) {
    let until = now() + PATIENCE.into();
    let heard = |ends: &[End]| ends.iter().map(|end| end.heard).collect::<Vec<_>>();
    while heard(ends) != expected || !ends.iter().all(End::has_sent_all) {
        for end in ends.iter_mut() {
            end.send();
            end.receive();
            // What the device has, what is free, and what waits in our own burst is all there is.
            let held = u64::from(end.port.held()) + end.pool.available() as u64 + end.burst.len() as u64;
            assert_eq!(held, u64::from(CHUNKS), "chunks of {}", end.name);
        }
        assert!(now() < until, "{:?} of {expected:?}", heard(ends));
    }
    // Nothing comes twice, and nothing comes late.
    for _ in 0..100 {
        ends.iter_mut().for_each(End::receive);
    }
    assert_eq!(heard(ends), expected);
    for end in ends.iter() {
        let counters = end.port.counters();
        let (sent, received) = (counters.tx_frames.get(), counters.rx_frames.get());
        assert_eq!(sent, u64::from(FRAMES), "sent by {}", end.name);
        assert_eq!(received, u64::from(end.heard.iter().sum::<u32>()), "received by {}", end.name);
        assert_eq!(counters.drops.total(), 0, "drops of {}", end.name);
    }
}

fn close(ends: Vec<End>) {
    let pools: Vec<Pool> = ends.iter().map(|end| end.pool.clone()).collect();
    drop(ends);
    assert!(pools.iter().all(|pool| pool.available() == CHUNKS as usize), "every chunk comes back");
}

/// Two ports at each end: four queues in all, each way, and none has another's frames.
#[test]
fn each_queue_carries_its_own_frames_and_loses_none() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("queues");
    let (server, client) = (device(60, "server", &socket), device(61, "client", &socket));
    let mut ends: Vec<End> = [&server, &client]
        .iter()
        .flat_map(|whole| [half(whole, 0), half(whole, 1)])
        .zip(0..)
        .map(|(config, name)| End::open(name, config))
        .collect();
    assert!(ends.iter().all(|end| end.port.runs() && end.port.caps().queues == 1));
    let said = &ends[3].port.caps().description;
    assert!(said.contains("queues 1 of 2 as the device deals"), "{said}");
    // The two devices find each other in a thread of DPDK.
    eventually("the link comes up", || ends.iter().all(|end| end.port.link_is_up()));
    let from = |name: usize| {
        let mut heard = [0; 4];
        heard[name] = FRAMES;
        heard
    };
    exchange(&mut ends, &[from(2), from(3), from(0), from(1)]);
    close(ends);
    assert_eq!(leaked_pools(), 0);
}

/// Two ports at one end, and one at the other that has both queues: that one hears both, and sends on its first queue.
#[test]
fn one_port_with_both_queues_hears_two_at_the_other_end() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("both");
    let (server, client) = (device(62, "server", &socket), device(63, "client", &socket));
    let mut ends = vec![End::open(0, server), End::open(1, half(&client, 0)), End::open(2, half(&client, 1))];
    assert_eq!(ends[0].port.caps().queues, 2);
    eventually("the link comes up", || ends.iter().all(|end| end.port.link_is_up()));
    exchange(&mut ends, &[[0, FRAMES, FRAMES, 0], [FRAMES, 0, 0, 0], [0; 4]]);
    close(ends);
    assert_eq!(leaked_pools(), 0);
}
