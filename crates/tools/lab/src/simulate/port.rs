//! A port of the real kind in virtual time.

use barewire_base::Instant;
use barewire_frame::{Burst, Frame, StampSource};
use barewire_port::{ChecksumOffload, Port, PortCaps, PortCounters, PortError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Frames between the world and a port.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) arrived: VecDeque<Frame>,
    pub(super) leaving: VecDeque<Frame>,
}

/// A port whose wire is the world.
pub(super) struct WorldPort {
    caps: PortCaps,
    counters: PortCounters,
    queues: Rc<RefCell<Queues>>,
}

impl WorldPort {
    /// One for packets of `mtu` bytes.
    pub(super) fn new(mtu: u32, queues: Rc<RefCell<Queues>>) -> WorldPort {
        let caps = PortCaps {
            mtu,
            frame_max: mtu + 22,
            mac: None,
            rx_stamp: StampSource::Engine,
            queues: 1,
            in_place: true,
            zero_copy: false,
            tx_checksum: false,
            checksum_offload: ChecksumOffload::default(),
            lossless_bits: true,
            description: "simulated".into(),
        };
        WorldPort { caps, counters: PortCounters::default(), queues }
    }
}

impl Port for WorldPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, _now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let mut queues = self.queues.borrow_mut();
        let mut n = 0;
        while burst.room() > 0 {
            let Some(frame) = queues.arrived.pop_front() else { break };
            self.counters.rx_frames.add(1);
            self.counters.rx_bytes.add(frame.len() as u64);
            // There is room: it was asked.
            let _ = burst.push(frame);
            n += 1;
        }
        Ok(n)
    }

    fn tx_burst(&mut self, _now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let mut queues = self.queues.borrow_mut();
        let mut n = 0;
        while let Some(frame) = burst.pop() {
            self.counters.tx_frames.add(1);
            self.counters.tx_bytes.add(frame.len() as u64);
            queues.leaving.push_back(frame);
            n += 1;
        }
        Ok(n)
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}
