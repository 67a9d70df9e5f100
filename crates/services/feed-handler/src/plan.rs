//! The validated plan: what a handler is made of. Configuration files become one; programs may write one themselves.

use crate::{Connection, FeedType, Side};
use barewire_base::Duration;
use barewire_engine::IdleStrategy;
use barewire_feed::HEARTBEAT_TIMEOUT;
use std::path::PathBuf;

/// Feed channels of one handler, at most: a line names its channel in 16 bits.
pub const CHANNELS_MAX: usize = 1024;
/// Instruments of one feed channel, at most.
pub const INSTRUMENTS_MAX: u32 = 1 << 20;
/// Orders of one feed channel, at most.
pub const ORDERS_MAX: u32 = 1 << 26;
/// Largest UDP payload that a source takes, in bytes.
pub const PACKET_BYTES_MAX: u32 = 65_507;
/// Packets that one system call receives, at most.
pub const BURST_MAX: u32 = 32;

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the handler: of its thread and in messages.
    pub name: String,
    /// What the engine does when idle.
    pub idle: IdleStrategy,
    /// The engine's core.
    pub core: Option<usize>,
    /// Where packets come from.
    pub input: Input,
    /// The feed channels that share the engine.
    pub channels: Vec<ChannelPlan>,
    /// Where packets are recorded.
    pub record: Option<RecordPlan>,
}

/// Where packets come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The kernel's UDP sockets.
    Sockets(SocketOptions),
    /// Ports of ours.
    Ports(PortOptions),
}

/// Which clock shall stamp received packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StampBy {
    /// The kernel, when the driver hands the packet up (`CLOCK_REALTIME`).
    #[default]
    Kernel,
    /// The network card where it stamps (its own clock), else the kernel. The card's stamping must have been switched on.
    Hardware,
    /// Nobody before the engine that finds the packet.
    Engine,
}

/// How the socket source receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Interface name or one of its addresses, for the A lines. `None`: as the kernel's routes say.
    pub interface_a: Option<String>,
    /// The same for the B lines. `None`: that of A.
    pub interface_b: Option<String>,
    /// Size of each socket's receive buffer. The kernel grants up to `net.core.rmem_max` (doubled), or all of it to
    /// `CAP_NET_ADMIN`.
    pub receive_buffer_bytes: u32,
    /// Poll the card's queue this long when a socket is empty (`SO_BUSY_POLL`); zero: not at all.
    pub busy_poll_us: u32,
    /// Who stamps.
    pub stamps: StampBy,
    /// Join only the senders that the channel file names (IGMPv3), where it names any.
    pub source_filter: bool,
    /// Largest UDP payload in bytes; longer ones are counted and dropped.
    pub packet_bytes_max: u32,
    /// Packets received with one system call, at most.
    pub burst: u32,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            interface_a: None,
            interface_b: None,
            receive_buffer_bytes: 8 << 20,
            busy_poll_us: 0,
            stamps: StampBy::Kernel,
            source_filter: true,
            packet_bytes_max: 2048,
            burst: 32,
        }
    }
}

/// How the port source receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// URI of the port that carries the A lines (and the B lines, when there is no other).
    pub port_a: String,
    /// URI of the port that carries the B lines.
    pub port_b: Option<String>,
    /// Join the groups, by the kernel, on the interface that the URI names. Has no effect on other ports.
    pub join: bool,
    /// Join and accept only the senders that the channel file names, where it names any.
    pub source_filter: bool,
    /// Check UDP checksums that the card did not.
    pub verify_checksums: bool,
    /// Frames of each port's pool.
    pub pool_frames: u32,
    /// Bytes of each frame's chunk.
    pub chunk_bytes: u32,
}

impl PortOptions {
    /// The defaults for one port.
    pub fn new(port: &str) -> PortOptions {
        PortOptions {
            port_a: port.to_owned(),
            port_b: None,
            join: true,
            source_filter: true,
            verify_checksums: true,
            pool_frames: 8192,
            chunk_bytes: 2048,
        }
    }
}

/// Which of two lines are listened to, and how they are joined into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LineLayout {
    /// Both at once: the first copy of a packet wins.
    #[default]
    Both,
    /// A alone.
    A,
    /// B alone.
    B,
    /// A; B when A falls silent.
    AThenB,
    /// B; A when B falls silent.
    BThenA,
}

impl LineLayout {
    /// Every layout with its word.
    pub const WORDS: &'static [(&'static str, LineLayout)] = &[
        ("both", LineLayout::Both),
        ("a", LineLayout::A),
        ("b", LineLayout::B),
        ("a_then_b", LineLayout::AThenB),
        ("b_then_a", LineLayout::BThenA),
    ];

    /// Whether packets of that side are received at all.
    pub fn listens_to(self, side: Side) -> bool {
        !matches!((self, side), (LineLayout::A, Side::B) | (LineLayout::B, Side::A))
    }
}

/// How books become right again after lost packets, and at a late start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// From the snapshot loop, instrument by instrument.
    #[default]
    Snapshot,
    /// From the incrementals alone, as they come.
    Natural,
    /// By whichever is done first.
    Either,
}

impl Recovery {
    /// Each with its word.
    pub const WORDS: &'static [(&'static str, Recovery)] =
        &[("snapshot", Recovery::Snapshot), ("natural", Recovery::Natural), ("either", Recovery::Either)];
}

/// Which instruments are wanted. All of it empty: every one. Else whatever any of the lists names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// By the exchange's number.
    pub security_ids: Vec<i32>,
    /// By symbol.
    pub symbols: Vec<String>,
    /// By security group.
    pub groups: Vec<String>,
    /// By asset.
    pub assets: Vec<String>,
}

impl Selection {
    /// Whether nothing was said, so that all are wanted.
    pub fn is_all(&self) -> bool {
        self.security_ids.is_empty()
            && self.symbols.is_empty()
            && self.groups.is_empty()
            && self.assets.is_empty()
    }
}

/// One feed channel.
#[derive(Clone, PartialEq, Debug)]
pub struct ChannelPlan {
    /// The exchange's number.
    pub id: u32,
    /// What the exchange calls it.
    pub label: String,
    /// Its lines.
    pub connections: Vec<Connection>,
    /// Which lines are listened to.
    pub lines: LineLayout,
    /// How books become right again.
    pub recovery: Recovery,
    /// Learn the instruments from the definition loop first.
    pub definitions: bool,
    /// Keep books by order: the best ten where the feed has these, all of them where it publishes every order. Then the feed `SMBO`
    /// is received where the channel has one, and recovery waits for it.
    pub orders: bool,
    /// Instruments that memory is set aside for.
    pub instruments_max: u32,
    /// Orders that memory is set aside for, 33 bytes each. `None`: as [`barewire_feed::order_room`] says, which is 128 for each
    /// instrument where the channel has the feed `SMBO` (44 MB with 10,000 instruments), and 32 where it has not (11 MB).
    pub orders_max: Option<u32>,
    /// Packets that are held back while an earlier one is missing; one more declares the gap.
    pub out_of_order_packets_max: u32,
    /// How long an earlier packet is waited for.
    pub lost_packet_wait: Duration,
    /// How long a line may be silent before it counts as down. The exchange sends a heartbeat after 30 s of silence.
    pub heartbeat_timeout: Duration,
    /// Leave the groups of the loops while nothing is to be learned from them, and join them again when there is. Sockets
    /// only.
    pub leave_loops: bool,
    /// Rehearse while nothing arrives, so that the first packet after a pause finds its code and data in the caches. For engines
    /// that poll; one that parks does not rehearse while it sleeps.
    pub keep_warm: bool,
    /// Which instruments are wanted.
    pub selection: Selection,
}

impl ChannelPlan {
    /// A channel with the defaults.
    pub fn new(id: u32, connections: Vec<Connection>) -> ChannelPlan {
        ChannelPlan {
            id,
            label: String::new(),
            connections,
            lines: LineLayout::Both,
            recovery: Recovery::Snapshot,
            definitions: true,
            orders: true,
            instruments_max: 10_000,
            orders_max: None,
            out_of_order_packets_max: 64,
            lost_packet_wait: Duration::from_millis(2),
            heartbeat_timeout: HEARTBEAT_TIMEOUT,
            leave_loops: true,
            keep_warm: true,
            selection: Selection::default(),
        }
    }

    /// The lines that packets are received from: UDP, of the sides that are listened to, as far as they are needed.
    pub fn received(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter(|connection| {
            let needed = match connection.feed {
                FeedType::Incremental => true,
                FeedType::Snapshot => self.recovery != Recovery::Natural,
                FeedType::Instrument => self.definitions,
                FeedType::SnapshotMbo => self.orders && self.recovery != Recovery::Natural,
                FeedType::Historical => false,
            };
            needed && self.lines.listens_to(connection.side)
        })
    }
}

/// Where packets are recorded: classic pcap with nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordPlan {
    /// The file. Later ones of a rotation have `.1`, `.2` before the extension.
    pub path: PathBuf,
    /// Begin a new file when one has this many bytes; zero: never.
    pub rotate_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_receives_what_its_recovery_and_layout_need() {
        let line = |feed, side| Connection {
            id: String::new(),
            feed,
            side,
            to: "239.0.0.1:1".parse().unwrap(),
            sources: vec![],
        };
        let all = [
            line(FeedType::Incremental, Side::A),
            line(FeedType::Incremental, Side::B),
            line(FeedType::Snapshot, Side::A),
            line(FeedType::Instrument, Side::B),
            line(FeedType::Historical, Side::A),
            line(FeedType::SnapshotMbo, Side::B),
        ];
        let mut plan = ChannelPlan::new(1, all.to_vec());
        assert_eq!(plan.received().count(), 5);
        assert!(plan.core_config(1_500).order_loop);
        plan.orders = false;
        assert_eq!(plan.received().count(), 4);
        assert!(!plan.core_config(1_500).orders);
        plan.orders = true;
        plan.recovery = Recovery::Natural;
        assert_eq!(plan.received().count(), 3);
        plan.lines = LineLayout::A;
        assert_eq!(
            plan.received().map(|c| (c.feed, c.side)).collect::<Vec<_>>(),
            [(FeedType::Incremental, Side::A)]
        );
    }
}
