//! The accepting end.

use super::SERVICE_ID;
use super::idle::Idle;
use crate::error::BenchError;
use barewire_base::Instant;
use barewire_rdma_tools::Advert;
use barewire_roce::{Access, CqId, Event, Pd, QpInit, Terms};
use barewire_verbs::{Device, Memory};

/// Requests that may wait: as many as there are.
const BACKLOG: u32 = u32::MAX;
/// Entries of a connection's own completion queue, as in the benchmark's present form.
pub(crate) const CQ_ENTRIES: u32 = 128;
/// Bytes of the memory whose key goes to every client.
const MEMORY_LEN: usize = 4096;

/// Where the peer's memory is, as it said in private data that came with the event taken last. The published server says the same.
pub(super) fn offered(device: &Device) -> Result<Advert, BenchError> {
    let advert = Advert::of_private(device.stack().endpoint().private_data());
    match advert.len {
        0 => Err(BenchError::Plan("the peer did not say where its memory is".to_owned())),
        _ => Ok(advert),
    }
}

/// One device that accepts whoever comes, and forgets who leaves.
pub(crate) struct Server {
    device: Device,
    pd: Pd,
    shared_cq: CqId,
    own_cq: bool,
    offer: [u8; Advert::LEN],
    _memory: Memory,
    pub established: u64,
    pub failed: u64,
}

impl Server {
    pub(crate) fn new(device: Device, own_cq: bool) -> Result<Server, BenchError> {
        Server::of_service(device, own_cq, SERVICE_ID)
    }

    /// One that listens elsewhere.
    pub(crate) fn of_service(mut device: Device, own_cq: bool, service: u64) -> Result<Server, BenchError> {
        let verbs = device.verbs();
        let pd = verbs.alloc_pd();
        let shared_cq = verbs.create_cq(1 << 16)?;
        let memory = Memory::register(verbs, pd, MEMORY_LEN, Access::ALL)?;
        let offer = Advert { addr: memory.addr(), rkey: memory.rkey(), len: MEMORY_LEN as u32 }.bytes();
        verbs.listen(service, BACKLOG)?;
        Ok(Server { device, pd, shared_cq, own_cq, offer, _memory: memory, established: 0, failed: 0 })
    }

    /// Frames sent.
    pub(crate) fn tx_frames(&self) -> u64 {
        self.device.stack().endpoint().counters().tx_frames.get()
    }

    /// Does what a thread does when nothing has moved.
    pub(crate) fn rest(&mut self, idle: Idle, now: Instant) {
        idle.rest(self.device.stack_mut(), now);
    }

    /// One duty cycle: what has arrived is answered in it. Says how much moved.
    #[inline]
    pub(crate) fn cycle(&mut self, now: Instant) -> Result<usize, BenchError> {
        let mut work = self.device.stack_mut().receive(now)?;
        while let Some(event) = self.device.stack_mut().poll_event() {
            self.handle(now, event)?;
        }
        work += self.device.stack_mut().transmit(now)?;
        Ok(work)
    }

    fn handle(&mut self, now: Instant, event: Event) -> Result<(), BenchError> {
        let verbs = self.device.verbs();
        match event {
            Event::ConnectRequest { conn, .. } => {
                let cq = if self.own_cq { verbs.create_cq(CQ_ENTRIES)? } else { self.shared_cq };
                let qpn = verbs.create_qp(&QpInit::rc(self.pd, cq))?;
                verbs.accept(now, conn, qpn, &Terms { private: &self.offer })?;
            }
            Event::Established { .. } => self.established += 1,
            Event::Disconnected { qpn, .. } => self.destroy(now, qpn)?,
            Event::ConnectFailed { qpn, .. } => {
                self.failed += 1;
                self.destroy(now, qpn)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn destroy(&mut self, now: Instant, qpn: barewire_roce::Qpn) -> Result<(), BenchError> {
        let verbs = self.device.verbs();
        let cq = verbs.query_qp(qpn)?.send_cq;
        verbs.destroy_qp(now, qpn)?;
        if self.own_cq {
            verbs.destroy_cq(cq)?;
        }
        Ok(())
    }
}
