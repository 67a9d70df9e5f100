//! A port whose interface is not there yet, or not up: closed until it is, while the daemon's other ports serve.
//!
//! Who watches the interface has it opened as any port whose interface comes back ([`Port::reopen`]).

use barewire_base::{DropReason, Instant};
use barewire_engine::{engine_port, open_port};
use barewire_frame::{Burst, Pool, StampSource};
use barewire_port::{ChecksumOffload, OpenError, Port, PortCaps, PortCounters, PortError, PortUri};
use barewire_wire::eth::HEADER_LEN;
use barewire_wire::vlan::TAG_LEN as VLAN_LEN;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub(crate) struct PendingPort {
    uri: PortUri,
    /// Which engine's it is, of how many: with several, each has receive queues of its own.
    share: (u8, u8),
    pool: Pool,
    caps: PortCaps,
    counters: PortCounters,
    /// Something to sleep on while nothing can come: who has no descriptor is polled.
    nothing: OwnedFd,
    open: Option<Box<dyn Port>>,
}

impl PendingPort {
    /// Counts on packets of `mtu` bytes, or what a frame of the pool holds.
    pub(crate) fn new(uri: PortUri, share: (u8, u8), pool: Pool, mtu: u16) -> Result<PendingPort, OpenError> {
        let carried = pool.frame_max().saturating_sub(HEADER_LEN + VLAN_LEN);
        let mtu = mtu.min(u16::try_from(carried).unwrap_or(u16::MAX));
        let caps = PortCaps {
            mtu: mtu.into(),
            frame_max: u32::from(mtu) + HEADER_LEN as u32,
            mac: None,
            rx_stamp: StampSource::Engine,
            queues: 1,
            in_place: false,
            zero_copy: false,
            tx_checksum: false,
            checksum_offload: ChecksumOffload::default(),
            lossless_bits: false,
            description: format!("{}: closed until its interface is up", uri.text()),
        };
        let failed =
            |e: Errno| OpenError::Io { uri: uri.text().to_owned(), call: "eventfd", source: e.into() };
        let nothing = eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?;
        Ok(PendingPort { uri, share, pool, caps, counters: PortCounters::default(), nothing, open: None })
    }
}

impl Port for PendingPort {
    fn caps(&self) -> &PortCaps {
        self.open.as_ref().map_or(&self.caps, |port| port.caps())
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.open.as_mut().map_or(Ok(0), |port| port.rx_burst(now, burst))
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        if let Some(port) = &mut self.open {
            return port.tx_burst(now, burst);
        }
        // What waited would be old when the interface is there.
        let lost = burst.len();
        for _ in 0..lost {
            self.counters.drops.count(DropReason::PortDown);
        }
        burst.clear();
        Ok(lost)
    }

    fn tx_waiting(&self) -> usize {
        self.open.as_ref().map_or(0, |port| port.tx_waiting())
    }

    fn counters(&self) -> &PortCounters {
        self.open.as_ref().map_or(&self.counters, |port| port.counters())
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.open.as_ref().map_or(Some(self.nothing.as_raw_fd()), |port| port.wait_fd())
    }

    fn prepare_wait(&mut self) -> bool {
        self.open.as_mut().is_none_or(|port| port.prepare_wait())
    }

    fn finish_wait(&mut self) {
        if let Some(port) = &mut self.open {
            port.finish_wait();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.open.as_ref()?.next_deadline()
    }

    fn is_finished(&self) -> bool {
        self.open.as_ref().is_some_and(|port| port.is_finished())
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        match &mut self.open {
            Some(port) => port.reopen(),
            None => {
                let (engine, engines) = self.share;
                let uri = engine_port(self.uri.clone(), engine, engines)?;
                self.open = Some(open_port(&uri, &self.pool)?);
                Ok(())
            }
        }
    }
}
