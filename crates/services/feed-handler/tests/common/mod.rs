//! What the integration tests share: a consumer that keeps everything, plans for emulated channels.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod link;

use barewire_base::{Duration, Instant};
use barewire_engine::IdleStrategy;
use barewire_feed_emulator::{EmulatorConfig, connections, order_connections};
use barewire_feed_handler::{ChannelPlan, Consumer, Input, LineId, Packet, Plan, RecordPlan, SocketOptions};
use barewire_frame::Stamp;
use std::path::PathBuf;

/// UDP port of the first line.
pub const FIRST_UDP_PORT: u16 = 19_100;

/// Keeps every packet.
#[derive(Default)]
pub struct Keep {
    pub packets: Vec<(LineId, Stamp, Vec<u8>)>,
    pub now: Vec<Instant>,
}

impl Consumer for Keep {
    fn on_packet(&mut self, now: Instant, packet: &Packet<'_>) {
        self.packets.push((packet.line, packet.stamp, packet.payload.to_vec()));
        self.now.push(now);
    }
}

/// Keeps nothing, counts.
#[derive(Default)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Consumer for Count {
    fn on_packet(&mut self, _: Instant, packet: &Packet<'_>) {
        self.packets += 1;
        self.bytes += packet.payload.len() as u64;
    }
}

/// A short emulation.
pub fn emulation(seed: u64) -> EmulatorConfig {
    EmulatorConfig {
        seed,
        instruments: 20,
        active: Duration::from_millis(300),
        events_per_s: 3_000,
        conflation: Duration::from_millis(5),
        definition_gap: Duration::from_millis(2),
        snapshot_gap: Duration::from_millis(2),
        heartbeat: Duration::from_millis(50),
        ..EmulatorConfig::default()
    }
}

/// The channel of an emulation.
pub fn channel(config: &EmulatorConfig) -> ChannelPlan {
    let mut lines = connections(config.channel_id, FIRST_UDP_PORT);
    if config.every_order {
        lines.extend(order_connections(config.channel_id, FIRST_UDP_PORT));
    }
    ChannelPlan::new(u32::from(config.channel_id), lines)
}

/// A plan of one emulated channel.
pub fn plan(config: &EmulatorConfig, input: Input, record: Option<PathBuf>) -> Plan {
    Plan {
        name: "test".into(),
        idle: IdleStrategy::default(),
        core: None,
        input,
        channels: vec![channel(config)],
        record: record.map(|path| RecordPlan { path, rotate_bytes: 0 }),
    }
}

/// Sockets on this interface.
pub fn sockets(interface: &str) -> Input {
    Input::Sockets(SocketOptions { interface_a: Some(interface.into()), ..SocketOptions::default() })
}

/// False, and loudly so, where no network namespaces can be made.
pub fn privileged() -> bool {
    barewire_testing::have(barewire_testing::Needs::Root, barewire_netns::is_root_capable()).is_some()
}
