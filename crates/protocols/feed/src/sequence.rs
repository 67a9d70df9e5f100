//! The order of incremental packets: the first good copy of each number is processed, in turn.
//!
//! A packet before its turn is held, for a time and up to a count; then what is missing is declared lost. A number far ahead,
//! or back with a later SendingTime (numbers start over each week), is believed when a second packet confirms it: one packet
//! with a wrong number must not throw the channel off. Within one numbering SendingTime never goes back as numbers go up; so
//! what is still under way of the numbering before is told by its time, whatever its number.

use crate::channel::Channel;
use crate::counters::Reason;
use crate::line::{Feed, LineSide};
use crate::listener::{Gap, GapCause, Listener, PacketInfo, Reset};
use crate::window::Held;
use barewire_base::Instant;

/// A packet whose number is not believed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    held: Held,
    /// Back, not ahead.
    back: bool,
}

impl Channel {
    /// An incremental packet that has been checked.
    #[inline]
    pub(crate) fn incremental_packet<L: Listener>(
        &mut self,
        now: Instant,
        packet: &PacketInfo<'_>,
        listener: &mut L,
    ) {
        if packet.seq == self.expected && self.synced && packet.sending_time_ns >= self.numbered_ns {
            self.first_copy(now, packet);
            self.process(packet, listener);
            if self.window.count() > 0 {
                self.drain(now, listener);
            }
        } else {
            self.out_of_order(now, packet, listener);
        }
        self.report_recovery(listener);
    }

    /// Counts the first copy of a packet.
    #[inline]
    fn first_copy(&mut self, now: Instant, packet: &PacketInfo<'_>) {
        let side = packet.line.side;
        let track = &mut self.lines[Feed::Incremental as usize][side as usize];
        track.sequence(packet.seq);
        track.stats.first += 1;
        self.recent.first(packet.seq, side, now);
    }

    #[inline(never)]
    fn out_of_order<L: Listener>(&mut self, now: Instant, packet: &PacketInfo<'_>, listener: &mut L) {
        let seq = packet.seq;
        if !self.synced {
            self.join(now, packet, listener);
            return;
        }
        if self.is_of_old_numbering(packet, self.numbered_ns, listener) {
            return;
        }
        self.gap_timeout(now, listener);
        if seq == self.expected {
            self.first_copy(now, packet);
            self.process(packet, listener);
            self.drain(now, listener);
        } else if seq < self.expected {
            self.behind(now, packet, listener);
        } else if seq - self.expected < self.window.len() {
            self.hold(now, packet, listener);
        } else if !self.is_of_old_numbering(packet, self.last_time_ns, listener) {
            self.doubt(now, packet, false, listener);
        }
    }

    /// Whether a packet was sent before the numbering began that is in use; counts it then. Many in a row, and it is the time
    /// in use that is wrong.
    fn is_of_old_numbering<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        since_ns: u64,
        listener: &mut L,
    ) -> bool {
        if packet.sending_time_ns >= since_ns {
            return false;
        }
        self.strays = self.strays.saturating_add(1);
        if self.strays > self.window.len() {
            (self.numbered_ns, self.last_time_ns) = (0, 0);
            return false;
        }
        self.drop(packet.line, Reason::OldNumbering, listener);
        true
    }

    /// The first packet.
    fn join<L: Listener>(&mut self, now: Instant, packet: &PacketInfo<'_>, listener: &mut L) {
        self.synced = true;
        self.expected = packet.seq;
        let (last_seq, sent_ns) = self.before_join;
        if last_seq >= packet.seq && sent_ns < packet.sending_time_ns {
            // What the snapshots knew of was of the numbering before: a week has begun since.
            self.store.forget_all(None, 0, listener);
            (self.store.snap_max, self.reset_time_ns) = (0, packet.sending_time_ns);
            self.snapshots_restart();
        } else if packet.seq > 1 {
            // Between those that do not reach up to it and the packet lies a hole of any length, resets and all: a RptSeq that
            // goes on over it shows nothing.
            self.store.forget_all(Some(packet.seq - 1), 0, listener);
        }
        self.start_at(packet.seq);
        if packet.seq > 1 {
            self.doubt_definitions(packet.sending_time_ns);
        }
        self.first_copy(now, packet);
        self.process(packet, listener);
    }

    /// What is known of the instruments when `seq` is the first packet: with 1, that everything is empty.
    fn start_at(&mut self, seq: u32) {
        if seq <= 1 {
            self.store.assume_empty();
            (self.books.wanted, self.order_books.wanted) = (false, false);
        } else {
            self.store.gap(seq - 1);
            self.books.wanted = self.config.recovery.uses_snapshots() && self.store.undefined;
            self.order_books.wanted = self.store.order_loop && self.store.undefined;
        }
    }

    /// A packet whose number has had its turn: a copy, a late one, or the numbers have started over.
    fn behind<L: Listener>(&mut self, now: Instant, packet: &PacketInfo<'_>, listener: &mut L) {
        if packet.seq <= self.last_seq && packet.sending_time_ns > self.last_time_ns {
            self.doubt(now, packet, true, listener);
            return;
        }
        let side = packet.line.side;
        self.lines[Feed::Incremental as usize][side as usize].sequence(packet.seq);
        let came = self.recent.knows(packet.seq);
        self.copy(now, packet.seq, side);
        self.drop(packet.line, if came { Reason::Duplicate } else { Reason::Late }, listener);
    }

    /// Counts a copy of a packet that had come before.
    fn copy(&mut self, now: Instant, seq: u32, side: LineSide) {
        let lines = &mut self.lines[Feed::Incremental as usize];
        lines[side as usize].stats.duplicates += 1;
        if let Some((winner, lead)) = self.recent.lead(seq, side, now)
            && let Some(line) = lines.get_mut(winner)
        {
            line.stats.leads += 1;
            line.stats.lead_ns_total += lead.as_nanos();
            line.stats.lead_ns_max = line.stats.lead_ns_max.max(lead.as_nanos());
        }
    }

    fn held(packet: &PacketInfo<'_>) -> Held {
        Held {
            seq: packet.seq,
            sending_time_ns: packet.sending_time_ns,
            side: packet.line.side,
            stamp: packet.stamp,
            len: packet.bytes.len(),
        }
    }

    /// Keeps a packet until its turn.
    fn hold<L: Listener>(&mut self, now: Instant, packet: &PacketInfo<'_>, listener: &mut L) {
        if packet.bytes.len() > self.window.stride() {
            self.drop(packet.line, Reason::TooLongToHold, listener);
            return;
        }
        if self.window.contains(packet.seq) {
            self.lines[Feed::Incremental as usize][packet.line.side as usize].sequence(packet.seq);
            self.copy(now, packet.seq, packet.line.side);
            self.drop(packet.line, Reason::Duplicate, listener);
            return;
        }
        self.first_copy(now, packet);
        self.window.insert(Self::held(packet), packet.bytes);
        self.store.counters.held_packets += 1;
        if self.window.count() == 1 {
            self.hold_deadline = now + self.config.gap_wait;
        }
        while self.window.count() >= self.config.gap_packets {
            self.declare_to_lowest(GapCause::Count, now, listener);
        }
    }

    /// Processes packets held whose turn has come.
    pub(crate) fn drain<L: Listener>(&mut self, now: Instant, listener: &mut L) {
        while let Some((held, at)) = self.window.take(self.expected) {
            let buffer = std::mem::take(&mut self.window.bytes);
            let info = PacketInfo {
                line: crate::Line::new(Feed::Incremental, held.side),
                seq: held.seq,
                sending_time_ns: held.sending_time_ns,
                stamp: held.stamp,
                held: true,
                bytes: buffer.get(at..at + held.len).unwrap_or(&[]),
            };
            self.process(&info, listener);
            self.window.bytes = buffer;
        }
        self.hold_deadline =
            if self.window.count() == 0 { Instant::FAR_FUTURE } else { now + self.config.gap_wait };
    }

    /// Declares lost what has been missing for too long.
    pub(crate) fn gap_timeout<L: Listener>(&mut self, now: Instant, listener: &mut L) {
        if now >= self.hold_deadline {
            self.declare_to_lowest(GapCause::Time, now, listener);
        }
        if let Some(ahead) = self.ahead
            && (now >= ahead.at || ahead.seq < self.expected)
        {
            self.ahead = None;
            // One snapshot may be wrong about its number; of several, the least counts.
            if ahead.seq >= self.expected && ahead.count > 1 {
                self.declare(ahead.seq, ahead.sent_ns, GapCause::Snapshot, now, listener);
            }
        }
    }

    fn declare_to_lowest<L: Listener>(&mut self, cause: GapCause, now: Instant, listener: &mut L) {
        match self.window.lowest() {
            Some((lowest, sent_ns)) if lowest > self.expected => {
                self.declare(lowest - 1, sent_ns, cause, now, listener);
            }
            _ => self.drain(now, listener),
        }
    }

    /// Declares the packets up to `last` lost; they were sent at `until_ns` at the latest.
    fn declare<L: Listener>(
        &mut self,
        last: u32,
        until_ns: u64,
        cause: GapCause,
        now: Instant,
        listener: &mut L,
    ) {
        // Packets held within what is declared come first.
        while let Some((lowest, sent_ns)) = self.window.lowest().filter(|&(lowest, _)| lowest <= last) {
            self.lost(lowest - 1, sent_ns, cause, listener);
            self.drain(now, listener);
        }
        self.lost(last, until_ns, cause, listener);
        self.drain(now, listener);
    }

    fn lost<L: Listener>(&mut self, last: u32, until_ns: u64, cause: GapCause, listener: &mut L) {
        if last < self.expected {
            return;
        }
        let first = self.expected;
        self.store.counters.gaps += 1;
        self.store.counters.lost_packets += u64::from(last - first) + 1;
        let cut_instruments = self.store.gap(last);
        self.expected = last.wrapping_add(1);
        // What the loops have said so far is older than the loss, and they may have been left meanwhile.
        self.books.restart();
        self.order_books.restart();
        self.doubt_definitions(until_ns);
        listener.on_gap(&Gap { first, last, cause, cut_instruments });
        self.report_recovery(listener);
    }

    /// A packet far ahead or back: believed when another of the same numbering confirms it.
    fn doubt<L: Listener>(&mut self, now: Instant, packet: &PacketInfo<'_>, back: bool, listener: &mut L) {
        let (seq, time) = (packet.seq, packet.sending_time_ns);
        if packet.bytes.len() > self.window.stride() {
            self.drop(packet.line, Reason::TooLongToHold, listener);
            return;
        }
        let confirmed = self.candidate.filter(|c| {
            let (other, other_time) = (c.held.seq, c.held.sending_time_ns);
            let in_step = match seq.cmp(&other) {
                std::cmp::Ordering::Less => time <= other_time,
                std::cmp::Ordering::Equal => time == other_time && packet.line.side != c.held.side,
                std::cmp::Ordering::Greater => time >= other_time,
            };
            // Once packets sent later have been processed, it is no part of what follows them.
            let current = other_time >= self.last_time_ns;
            c.back == back && current && seq.abs_diff(other) < self.window.len() && in_step
        });
        let Some(Candidate { held, .. }) = confirmed else {
            let same = self.candidate.is_some_and(|c| c.held.seq == seq && c.held.sending_time_ns == time);
            if self.candidate.is_some() && !same {
                self.drop(packet.line, Reason::Unconfirmed, listener);
            }
            self.window.set_spare(packet.bytes);
            self.candidate = Some(Candidate { held: Self::held(packet), back });
            return;
        };
        self.candidate = None;
        let first = held.seq.min(seq);
        if back {
            self.restart(first, time.min(held.sending_time_ns), listener);
        } else if first > self.expected {
            self.declare(first - 1, time.min(held.sending_time_ns), GapCause::Jump, now, listener);
        }
        if held.seq >= self.expected {
            self.window.insert_spare(held);
            self.recent.first(held.seq, held.side, now);
            let track = &mut self.lines[Feed::Incremental as usize][held.side as usize];
            track.sequence(held.seq);
            track.stats.first += 1;
            self.drain(now, listener);
        }
        self.out_of_order(now, packet, listener);
    }

    /// The numbers start over.
    pub(crate) fn restart<L: Listener>(&mut self, first: u32, time_ns: u64, listener: &mut L) {
        self.window.clear();
        self.hold_deadline = Instant::FAR_FUTURE;
        self.recent.clear();
        self.lines[Feed::Incremental as usize].iter_mut().for_each(|line| line.restart());
        self.expected = first;
        self.last_seq = 0;
        self.last_time_ns = 0;
        self.reset_time_ns = time_ns;
        self.numbered_ns = time_ns;
        self.strays = 0;
        self.store.counters.resets += 1;
        self.store.abandon_event();
        self.store.forget_all(None, 0, listener);
        (self.store.seq, self.store.lost_seq, self.store.reset_seq, self.store.snap_max) = (0, 0, 0, 0);
        (self.store.deleted_seq, self.store.swept_seq) = (0, 0);
        self.start_at(first);
        self.snapshots_restart();
        // A week begins with instruments of its own.
        self.doubt_definitions(time_ns);
        listener.on_reset(Reset::Sequence);
    }
}
