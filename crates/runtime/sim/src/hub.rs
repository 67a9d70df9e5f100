//! A switch that learns nothing: it forwards by a table that the test wrote.

use crate::Node;
use barewire_base::Instant;
use barewire_frame::Frame;
use std::collections::{BTreeMap, VecDeque};

/// An Ethernet switch with a fixed table from destination MAC to port. It takes no time; queues are the links'.
///
/// A group address (broadcast or multicast) goes out by every attached port but the one it came in on. An unknown
/// unicast address is dropped and counted, not flooded: the test wrote the table, so it is damage or a mistake.
#[derive(Default)]
pub struct Hub {
    table: BTreeMap<[u8; 6], u16>,
    ports: Vec<u16>,
    queue: VecDeque<Frame>,
    stats: HubStats,
}

/// What a hub has done with frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HubStats {
    /// Frames sent on, copies counted.
    pub forwarded: u64,
    /// Unicast frames to an address that the table does not have.
    pub unknown: u64,
    /// Unicast frames whose destination is where they came from.
    pub hairpin: u64,
    /// Frames without a whole Ethernet header.
    pub runt: u64,
    /// Copies of a flooded frame not made because the pool was empty.
    pub copies_failed: u64,
}

impl Hub {
    /// A hub with an empty table.
    pub fn new() -> Hub {
        Hub::default()
    }

    /// Sends frames for `mac` out by `port`, the ordinal of one of the hub's links. Attaching an address again moves it.
    pub fn attach(&mut self, mac: [u8; 6], port: u16) {
        self.table.insert(mac, port);
        if !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }

    /// What it has done.
    pub fn stats(&self) -> HubStats {
        self.stats
    }

    fn forward(&mut self, mut frame: Frame, port: u16) {
        frame.set_port(port);
        self.stats.forwarded += 1;
        self.queue.push_back(frame);
    }
}

impl Node for Hub {
    fn handle_frame(&mut self, _now: Instant, frame: Frame) {
        let from = frame.port();
        let Some(&[a, b, c, d, e, f]) = frame.data().get(..14).and_then(|h| h.first_chunk::<6>()) else {
            self.stats.runt += 1;
            return;
        };
        if a & 1 == 0 {
            match self.table.get(&[a, b, c, d, e, f]) {
                None => self.stats.unknown += 1,
                Some(&port) if port == from => self.stats.hairpin += 1,
                Some(&port) => self.forward(frame, port),
            }
            return;
        }
        for i in 0..self.ports.len() {
            let port = self.ports[i];
            if port == from {
                continue;
            }
            match frame.try_clone() {
                Some(copy) => self.forward(copy, port),
                None => self.stats.copies_failed += 1,
            }
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, _now: Instant) -> Option<Frame> {
        self.queue.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
