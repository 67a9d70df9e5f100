//! What a port can do, and what it has done.

use barewire_base::{Counter, DropCounters};
use barewire_frame::StampSource;

/// An Ethernet address.
pub type MacAddr = barewire_wire::MacAddr;

/// Transport checksums (UDP, TCP) that the device takes off the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumOffload {
    /// It checks those of received frames.
    pub rx: bool,
    /// It completes those of sent frames that are left unfinished.
    pub tx: bool,
}

/// What a port can do. Fixed when the port is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCaps {
    /// Largest IP packet in bytes, without the Ethernet header: what `ip link` calls the MTU.
    pub mtu: u32,
    /// Largest frame that the port takes or gives, in bytes, Ethernet header included, FCS not.
    pub frame_max: u32,
    /// The interface's own address, where there is one.
    pub mac: Option<MacAddr>,
    /// Best receive stamp that the port gives.
    pub rx_stamp: StampSource,
    /// Receive queues that this port object serves.
    pub queues: u16,
    /// Frames of the port's pool are received and sent without a copy in user space.
    pub in_place: bool,
    /// The kernel hands frames to the card without a copy either.
    pub zero_copy: bool,
    /// Frames may be sent with an unfinished transport checksum; the port completes it.
    pub tx_checksum: bool,
    /// Which of that, and of the checks on receipt, the port leaves to the device.
    pub checksum_offload: ChecksumOffload,
    /// Frames that the medium itself cannot corrupt (memory between two threads or processes).
    pub lossless_bits: bool,
    /// What was chosen and why, for people: one line.
    pub description: String,
}

/// Counts of one port. The port's engine writes them, anybody reads.
#[derive(Debug, Default)]
pub struct PortCounters {
    /// Frames received.
    pub rx_frames: Counter,
    /// Bytes received.
    pub rx_bytes: Counter,
    /// Frames sent.
    pub tx_frames: Counter,
    /// Bytes sent.
    pub tx_bytes: Counter,
    /// System calls made for I/O, the count that explains most latencies.
    pub syscalls: Counter,
    /// Times that a transmit found no room.
    pub tx_full: Counter,
    /// Frames dropped by the port, by reason.
    pub drops: DropCounters,
}

impl PortCounters {
    /// Every count but those of drops, with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("rx_frames", &self.rx_frames),
            ("rx_bytes", &self.rx_bytes),
            ("tx_frames", &self.tx_frames),
            ("tx_bytes", &self.tx_bytes),
            ("syscalls", &self.syscalls),
            ("tx_full", &self.tx_full),
        ]
        .map(|(name, counter)| (name, counter.get()))
        .into_iter()
    }
}
