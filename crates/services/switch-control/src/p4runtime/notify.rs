//! What happens without a controller asking, on its way to controllers: packets, digests, idle entries, ports.

use super::device::{Current, Device, Lost, lock};
use super::message::{DigestList as WireDigestList, IdleTimeoutNotification, PacketIn, StreamResponse};
use super::outbox::encode;
use super::stream::header_fields;
use super::value::shaped_data;
use crate::p4info::index::PacketHeader;
use barewire_p4::ir::TableId;
use barewire_switch::control::{DigestList, Notification};
use num_bigint::BigUint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// How often it is looked for lost notifications while none comes.
const TICK: Duration = Duration::from_millis(20);

/// After how many notifications without a pause it is looked for lost ones.
const LOST_EVERY: usize = 256;

/// Lists of digests that nobody enabled which are remembered.
const MAX_UNCLAIMED: usize = 4096;

/// A notification with the epoch at which the program began that it is of.
pub(super) type Dated = (u64, Notification);

/// What waits until writes and reads that are under way have ended.
pub(super) enum Later {
    Notification(Dated),
    /// Notifications were lost.
    CatchUp,
}

/// The way to who passes on what has to wait.
pub(super) fn later(most: usize) -> (SyncSender<Later>, Receiver<Later>) {
    sync_channel(most.max(1))
}

/// Pass packets and digests on, whatever requests are under way, and give the rest to who may wait for those, until told to stop or
/// until the switch is gone. `most` may wait.
pub(super) fn pass_on(
    device: &Device,
    notifications: &Receiver<Dated>,
    most: usize,
    to: &SyncSender<Later>,
    stop: &AtomicBool,
) {
    // How many were lost, and how many that are older than the last of them may still wait.
    let (mut lost, mut older) = (0, None);
    let mut passed: usize = 0;
    while !stop.load(Ordering::Relaxed) {
        let idle = match notifications.recv_timeout(TICK) {
            Ok(notification) => {
                if let Some(later) = device.notify(notification)
                    && let Err(TrySendError::Full(Later::Notification(later))) =
                        to.try_send(Later::Notification(later))
                {
                    // As good as lost: what it may have said is found out.
                    device.give_up(later);
                    older = Some(0);
                }
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
        // Without room now, it is tried the next time.
        if older.is_some_and(|older| idle || older == 0) && to.try_send(Later::CatchUp).is_ok() {
            older = None;
        }
    }
}

/// Pass on what has to wait for requests that are under way, until told to stop or until nothing more can come.
pub(super) fn pass_on_later(device: &Device, later: &Receiver<Later>, stop: &AtomicBool) {
    while let Ok(what) = later.recv() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match what {
            Later::Notification(notification) => device.notify_later(notification),
            Later::CatchUp => device.catch_up(),
        }
    }
}

impl Device {
    /// Pass a notification on, or give it back when it has to wait for requests that are under way.
    fn notify(&self, (epoch, notification): Dated) -> Option<Dated> {
        let current = self.current();
        let began = current.as_ref().map_or(epoch, |current| current.began);
        match notification {
            // It is read by what its program says, and that is not known yet.
            Notification::PacketIn { .. } | Notification::Digest(_) if epoch > began => {
                return Some((epoch, notification));
            }
            Notification::PacketIn { .. } | Notification::Digest(_) if epoch < began => {
                Lost::count(&self.lost.outdated);
            }
            Notification::PacketIn { bytes } => self.packet_in(current.as_deref(), bytes),
            Notification::Digest(list) => self.digest(current.as_deref(), epoch, &list),
            _ => return Some((epoch, notification)),
        }
        None
    }

    /// Pass on what had to wait.
    fn notify_later(&self, (epoch, notification): Dated) {
        match notification {
            Notification::Idle(table, handles) => self.idle(epoch, table, &handles),
            Notification::Port { port, up } => self.port_changed(port, up),
            Notification::ProgramSwapped => self.program_swapped(),
            notification => {
                self.program_swapped();
                if let Some(notification) = self.notify((epoch, notification)) {
                    self.give_up(notification);
                }
            }
        }
    }

    /// A notification cannot be passed on. A list of digests may be acknowledged when its program is known.
    fn give_up(&self, (epoch, notification): Dated) {
        match notification {
            Notification::Digest(list) => self.keep_unclaimed(epoch, &list),
            Notification::PacketIn { .. } => Lost::count(&self.lost.packets_in),
            _ => Lost::count(&self.lost.notices),
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
    fn to_primaries(&self, update: StreamResponse) -> bool {
        let primaries = lock(&self.arbiter).primaries();
        if primaries.is_empty() {
            return false;
        }
        let bytes = encode(update);
        // To all of them, whoever has taken it already.
        primaries.iter().filter(|outbox| outbox.send_best_effort(bytes.clone())).count() > 0
    }

    fn packet_in(&self, current: Option<&Current>, mut bytes: Vec<u8>) {
        let none = PacketHeader::default();
        let header = current.and_then(|current| current.pipeline.index.packet_in.as_ref()).unwrap_or(&none);
        let Some(metadata) = header_fields(header, &bytes) else {
            return Lost::count(&self.lost.short_packets_in);
        };
        bytes.drain(..header.bytes);
        if !self.to_primaries(StreamResponse::Packet(PacketIn { payload: bytes, metadata })) {
            Lost::count(&self.lost.packets_in);
        }
    }

    fn digest(&self, current: Option<&Current>, epoch: u64, list: &DigestList) {
        let enabled = |current: &Current| current.digests.get(&list.list).copied();
        let Some((id, config)) = current.and_then(enabled) else { return self.keep_unclaimed(epoch, list) };
        let digest = current.and_then(|current| current.pipeline.index.digests.get(id));
        let Some(digest) = digest else { return };
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
        let taken = self.to_primaries(StreamResponse::Digest(message));
        if !taken {
            Lost::count(&self.lost.notices);
            lock(&self.acks).take(id, list.buffer);
        }
        if !taken || !waits {
            // Nobody will acknowledge it: the same data may be learned again.
            lock(&self.acks).acknowledge((list.list, list.buffer));
        }
    }

    /// Nobody has enabled the digest of a list.
    fn keep_unclaimed(&self, epoch: u64, list: &DigestList) {
        let mut unclaimed = lock(&self.unclaimed);
        // Asked again: whoever enabled it meanwhile has looked at those that are here.
        let enabled =
            self.current().is_some_and(|now| now.began == epoch && now.digests.contains_key(&list.list));
        let list = (list.list, list.buffer);
        let gone = match enabled {
            true => Some(list),
            false => {
                // Another control plane's, perhaps.
                unclaimed.push_back((epoch, list));
                let many = unclaimed.len() > MAX_UNCLAIMED;
                if many { unclaimed.pop_front().map(|(_, oldest)| oldest) } else { None }
            }
        };
        drop(unclaimed);
        if let Some(list) = gone {
            lock(&self.acks).acknowledge(list);
        }
    }

    fn idle(&self, epoch: u64, table: TableId, handles: &[u64]) {
        let mut entries = Vec::new();
        {
            let mut forwarding = lock(&self.forwarding);
            self.refresh(&mut forwarding);
            let Some(live) = &forwarding.live else { return };
            if live.began() != epoch {
                return Lost::count(&self.lost.outdated);
            }
            let Some(known) = live.index().table_at(table).filter(|known| known.idle) else { return };
            for &handle in handles {
                // Deleted meanwhile: nothing to tell.
                let Ok(entry) = live.switch.entry(table, handle) else { continue };
                let mut message = live.bare_message(known, &entry);
                message.action = None;
                entries.push(message);
            }
        }
        if entries.is_empty() {
            return;
        }
        let message = IdleTimeoutNotification { table_entry: entries, timestamp: self.now_ns() };
        if !self.to_primaries(StreamResponse::IdleTimeoutNotification(message)) {
            Lost::count(&self.lost.notices);
        }
    }
}
