//! What happens without a controller asking, on its way to controllers: packets, digests, idle entries, ports.

use super::arbitration::send_best_effort;
use super::device::{Device, Lost, lock};
use super::message::{DigestList as WireDigestList, IdleTimeoutNotification, PacketIn, StreamResponse};
use super::stream::header_fields;
use super::value::shaped_data;
use crate::p4info::index::PacketHeader;
use barewire_p4::ir::TableId;
use barewire_switch::control::{DigestList, Notification};
use num_bigint::BigUint;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often acknowledgements that are overdue are looked for.
const TICK: Duration = Duration::from_millis(20);

/// After how many notifications without a pause it is looked for lost ones.
const LOST_EVERY: usize = 256;

/// Lists of digests that nobody enabled which are remembered.
const MAX_UNCLAIMED: usize = 4096;

/// Pass notifications on until told to stop, or until the switch is gone. `most` may wait.
pub(super) fn run(
    device: &Arc<Device>,
    notifications: &Receiver<Notification>,
    most: usize,
    stop: &AtomicBool,
) {
    // How many were lost, and how many that are older than the last of them may still wait.
    let (mut lost, mut older) = (0, None);
    let mut passed: usize = 0;
    while !stop.load(Ordering::Relaxed) {
        let idle = match notifications.recv_timeout(TICK) {
            Ok(notification) => {
                device.notify(notification);
                older = older.map(|older: usize| older.saturating_sub(1));
                passed = passed.wrapping_add(1);
                false
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if older.is_none() && (idle || passed.is_multiple_of(LOST_EVERY)) {
            let now = device.switch.notifications_lost();
            older = (std::mem::replace(&mut lost, now) != now).then_some(most);
        }
        if older.is_some_and(|older| idle || older == 0) {
            device.catch_up();
            older = None;
        }
        let expired = lock(&device.acks).expired(device.switch.time_us());
        for (number, list) in expired {
            // The program may have been swapped meanwhile: there is nothing to acknowledge then.
            let _ = device.switch.ack_digest(number, list, None);
        }
    }
}

impl Device {
    fn notify(&self, notification: Notification) {
        match notification {
            Notification::PacketIn { bytes } => self.packet_in(bytes),
            Notification::Digest(list) => self.digest(&list),
            Notification::Idle(table, handles) => self.idle(table, &handles),
            Notification::Port { port, up } => self.port_changed(port, up),
            Notification::ProgramSwapped => self.program_swapped(),
            _ => {}
        }
    }

    /// A port went up or down.
    pub(super) fn port_changed(&self, port: u32, up: bool) {
        let mut forwarding = lock(&self.forwarding);
        self.refresh(&mut forwarding);
        if let Some(live) = &mut forwarding.live {
            live.port_changed(port, up);
        }
    }

    /// Notifications were lost: find out what they may have said of programs and ports.
    fn catch_up(&self) {
        let mut forwarding = lock(&self.forwarding);
        self.refresh(&mut forwarding);
        if let Some(live) = &mut forwarding.live {
            live.look_at_ports();
        }
    }

    /// Send to every role's primary. False when nobody took it.
    fn to_primaries(&self, update: &StreamResponse) -> bool {
        let primaries = lock(&self.arbiter).primaries();
        // To all of them, whoever has taken it already.
        primaries.iter().filter(|outbox| send_best_effort(outbox, update.clone())).count() > 0
    }

    fn packet_in(&self, mut bytes: Vec<u8>) {
        let pipeline = self.pipeline();
        let none = PacketHeader::default();
        let header =
            pipeline.as_ref().and_then(|pipeline| pipeline.index.packet_in.as_ref()).unwrap_or(&none);
        let Some(metadata) = header_fields(header, &bytes) else {
            return Lost::count(&self.lost.short_packets_in);
        };
        bytes.drain(..header.bytes);
        if !self.to_primaries(&StreamResponse::Packet(PacketIn { payload: bytes, metadata })) {
            Lost::count(&self.lost.packets_in);
        }
    }

    fn digest(&self, list: &DigestList) {
        let (id, config) = {
            let mut unclaimed = lock(&self.unclaimed);
            let enabled =
                self.digests.read().unwrap_or_else(PoisonError::into_inner).get(&list.list).copied();
            let Some(enabled) = enabled else {
                // Another control plane's, perhaps.
                if unclaimed.len() == MAX_UNCLAIMED {
                    unclaimed.pop_front();
                }
                return unclaimed.push_back((list.list, list.buffer));
            };
            enabled
        };
        let Some(pipeline) = self.pipeline() else { return };
        let Some(digest) = pipeline.index.digests.get(id) else { return };
        let data = list
            .samples
            .iter()
            .map(|sample| {
                shaped_data(&digest.shape, &mut sample.iter().map(|item| BigUint::from_bytes_be(item)))
            })
            .collect();
        let message = WireDigestList { digest_id: id, list_id: list.buffer, data, timestamp: self.now_ns() };
        let until_us = self.switch.time_us() + u64::try_from(config.ack_timeout_ns).unwrap_or(0) / 1000;
        let waits = config.ack_timeout_ns > 0 && lock(&self.acks).wait(id, list.buffer, list.list, until_us);
        let taken = self.to_primaries(&StreamResponse::Digest(message));
        if !taken {
            Lost::count(&self.lost.notices);
            lock(&self.acks).take(id, list.buffer);
        }
        if !taken || !waits {
            // Nobody will acknowledge it: the same data may be learned again at once.
            let _ = self.switch.ack_digest(list.list, list.buffer, None);
        }
    }

    fn idle(&self, table: TableId, handles: &[u64]) {
        let mut entries = Vec::new();
        {
            let forwarding = lock(&self.forwarding);
            let Some(live) = &forwarding.live else { return };
            let Some(known) = live.index().table_at(table).filter(|known| known.idle) else { return };
            for &handle in handles {
                // Deleted meanwhile: nothing to tell.
                let Ok(entry) = self.switch.entry(table, handle) else { continue };
                let mut message = live.bare_message(known, &entry);
                message.action = None;
                entries.push(message);
            }
        }
        if entries.is_empty() {
            return;
        }
        let message = IdleTimeoutNotification { table_entry: entries, timestamp: self.now_ns() };
        if !self.to_primaries(&StreamResponse::IdleTimeoutNotification(message)) {
            Lost::count(&self.lost.notices);
        }
    }
}
