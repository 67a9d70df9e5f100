//! The sending half of a flow: messages cut into numbered segments, what became of each, what to send next.

use crate::config::{WINDOW_SEGMENTS, credit_cost};
use crate::memory::SendBuf;
use barewire_base::{Duration, Instant};
use barewire_wire::msg::STAMP_UNIT_NS;

pub(crate) const NONE: u32 = u32::MAX;
const MASK: u32 = WINDOW_SEGMENTS as u32 - 1;
/// Segments acknowledged above a hole that make it a loss, while the path has shown no reordering (RFC 8985, 6.2).
const REORDER_SEGMENTS: u32 = 3;

/// The clock as it stands in headers.
#[inline]
pub(crate) fn stamp_of(now: Instant) -> u32 {
    (now.as_nanos() / STAMP_UNIT_NS) as u32
}

/// A span in stamp units.
pub(crate) fn units(d: Duration) -> u32 {
    u32::try_from(d.as_nanos() / STAMP_UNIT_NS).unwrap_or(u32::MAX)
}

/// `a` is before `b`, on a circle.
#[inline]
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

pub(crate) const SACKED: u8 = 1;
pub(crate) const LOST: u8 = 2;
pub(crate) const RESENT: u8 = 4;
pub(crate) const FIN: u8 = 8;
/// Sent again because it was given up, not to probe.
const WAS_LOST: u8 = 16;
/// Sent in larger packets than are known to pass.
const PROBE: u8 = 32;

/// One numbered segment in flight. Kept packed as two words, so that the table of all flows is zeroed memory that the
/// system hands out when it is first touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Slot of its message.
    pub msg: u32,
    pub offset: u32,
    /// Stamp of the last transmission.
    pub sent: u32,
    pub len: u16,
    pub flags: u8,
}

pub(crate) type Packed = [u64; 2];

impl Segment {
    fn pack(self) -> Packed {
        [
            u64::from(self.msg) << 32 | u64::from(self.offset),
            u64::from(self.sent) << 32 | u64::from(self.len) << 8 | u64::from(self.flags),
        ]
    }

    pub(crate) fn unpack([a, b]: Packed) -> Segment {
        Segment {
            msg: (a >> 32) as u32,
            offset: a as u32,
            sent: (b >> 32) as u32,
            len: (b >> 8) as u16,
            flags: b as u8,
        }
    }
}

/// A message accepted for sending.
#[derive(Clone, Copy)]
pub(crate) struct OutMessage {
    pub buf: SendBuf,
    pub token: u64,
    pub id: u32,
    /// Segments not yet acknowledged, unsent ones included; known from the first transmission on, when the segment size
    /// is agreed.
    pub left: u32,
    pub next: u32,
}

/// All messages of an endpoint, in one array with a free list.
pub(crate) struct OutMessages {
    slots: Vec<OutMessage>,
    free: u32,
    used: u32,
}

impl OutMessages {
    pub(crate) fn new(n: u32) -> OutMessages {
        let slots = (0..n)
            .map(|i| OutMessage {
                buf: SendBuf::default(),
                token: 0,
                id: 0,
                left: 0,
                next: if i + 1 < n { i + 1 } else { NONE },
            })
            .collect();
        OutMessages { slots, free: 0, used: 0 }
    }

    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    fn take(&mut self, message: OutMessage) -> Option<u32> {
        let slot = self.free;
        let entry = self.slots.get_mut(slot as usize)?;
        self.free = entry.next;
        *entry = message;
        self.used += 1;
        Some(slot)
    }

    fn put(&mut self, slot: u32) -> OutMessage {
        let message = self.slots[slot as usize];
        self.slots[slot as usize].next = self.free;
        self.free = slot;
        self.used -= 1;
        message
    }

    pub(crate) fn get(&self, slot: u32) -> &OutMessage {
        &self.slots[slot as usize]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fin {
    No,
    Queued,
    Sent,
    Acked,
}

/// What an acknowledgement brought about.
#[derive(Default, Debug)]
pub(crate) struct AckOutcome {
    pub acked: u32,
    /// A segment that had been repeated is among them.
    pub acked_resent: bool,
    /// Bytes of the longest one among those that were sent at the echoed time, and of the longest of all.
    pub echoed_len: u16,
    pub longest: u16,
    /// The probe for a larger packet is among them.
    pub probe_arrived: bool,
    /// When the latest among those left that were sent once only.
    pub latest: Option<u32>,
    /// It acknowledges what was never sent.
    pub bogus: bool,
}

/// Segments that were given up.
#[derive(Default, Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// How many, probes for larger packets aside, which say nothing of congestion.
    pub count: u32,
    /// Bytes of the longest of these.
    pub longest: u16,
}

/// When an acknowledgement came and the least time it can have taken, in stamp units.
#[derive(Clone, Copy)]
pub(crate) struct AckTime {
    pub now: u32,
    pub floor: u32,
    /// The stamp that came back.
    pub echo: u32,
}

pub(crate) struct Sender {
    /// First segment not acknowledged.
    pub una: u32,
    /// Next new segment number.
    pub nxt: u32,
    unsent_head: u32,
    unsent_tail: u32,
    /// Bytes of the first unsent message that are segments already.
    unsent_offset: u32,
    next_msg_id: u32,
    /// Sent, neither acknowledged nor given up as lost.
    pub in_flight: u32,
    /// Given up as lost, not yet sent again.
    pub lost: u32,
    /// Stamp of the latest segment, if nothing was outstanding before it.
    pub alone: Option<u32>,
    /// One past the highest segment acknowledged selectively.
    high: u32,
    /// Latest transmission time among acknowledged segments (RACK, RFC 8985).
    rack: u32,
    /// When that segment's acknowledgement came.
    rack_acked: u32,
    has_rack: bool,
    reordering: bool,
    pub credit_limit: u32,
    pub credit_used: u32,
    pub fin: Fin,
    /// When doubtful segments are looked at again.
    pub reorder_at: Instant,
    /// Repeats to a receiver without room, and the segment that comes next among them.
    turn: u32,
    next_turn: u32,
    /// The probe for a larger packet is lost, or was sent again before anything was known of it.
    pub probe_gone: bool,
}

impl Sender {
    pub(crate) fn new(first: u32) -> Sender {
        Sender {
            una: first,
            nxt: first,
            unsent_head: NONE,
            unsent_tail: NONE,
            unsent_offset: 0,
            next_msg_id: 0,
            in_flight: 0,
            lost: 0,
            alone: None,
            high: first,
            rack: 0,
            rack_acked: 0,
            has_rack: false,
            reordering: false,
            credit_limit: 0,
            credit_used: 0,
            fin: Fin::No,
            reorder_at: Instant::FAR_FUTURE,
            turn: 0,
            next_turn: first,
            probe_gone: false,
        }
    }

    /// Queues a message. False when the endpoint's table of messages is full.
    pub(crate) fn push(&mut self, out: &mut OutMessages, buf: SendBuf, token: u64) -> bool {
        let message = OutMessage { buf, token, id: self.next_msg_id, left: 0, next: NONE };
        let Some(slot) = out.take(message) else {
            return false;
        };
        self.next_msg_id = self.next_msg_id.wrapping_add(1);
        if self.unsent_tail == NONE {
            self.unsent_head = slot;
        } else {
            out.slots[self.unsent_tail as usize].next = slot;
        }
        self.unsent_tail = slot;
        true
    }

    /// Whether a flow that is not open yet has anything to open for.
    pub(crate) fn wants_to_open(&self) -> bool {
        self.unsent_head != NONE
    }

    /// Whether the peer has every message, so that at most our FIN is left to be sent or acknowledged.
    pub(crate) fn has_only_fin(&self) -> bool {
        self.unsent_head == NONE && self.outstanding() <= u32::from(self.fin == Fin::Sent)
    }

    /// Sent and not acknowledged, lost ones included.
    pub(crate) fn outstanding(&self) -> u32 {
        self.nxt.wrapping_sub(self.una)
    }

    /// Whether the next message waits for credit alone.
    pub(crate) fn is_blocked_by_credit(&self) -> bool {
        self.unsent_head != NONE && self.unsent_offset == 0 && !before(self.credit_used, self.credit_limit)
    }

    /// Whether a new segment may be numbered now, the congestion window aside.
    fn may_send_new(&self) -> bool {
        self.outstanding() < WINDOW_SEGMENTS as u32
            && if self.unsent_head == NONE { self.fin == Fin::Queued } else { !self.is_blocked_by_credit() }
    }

    /// Whether there is anything to send if the congestion window allows.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.lost > 0 || self.may_send_new()
    }

    /// The first lost segment, if any: it goes before new ones.
    pub(crate) fn take_lost(&mut self, segs: &mut [Packed], now: Instant) -> Option<(u32, Segment)> {
        if self.lost == 0 {
            return None;
        }
        let mut seq = self.una;
        while seq != self.nxt {
            let seg = Segment::unpack(segs[(seq & MASK) as usize]);
            if seg.flags & (LOST | SACKED) == LOST {
                return Some((seq, self.mark_resent(segs, seq, now)));
            }
            seq = seq.wrapping_add(1);
        }
        debug_assert!(false, "lost segments are counted but none is marked");
        self.lost = 0;
        None
    }

    /// A segment that was just numbered is a probe for a larger packet.
    pub(crate) fn mark_probe(&mut self, segs: &mut [Packed], seq: u32) {
        segs[(seq & MASK) as usize][1] |= u64::from(PROBE);
    }

    /// The segment with this number, while it is not acknowledged with all before it.
    pub(crate) fn outstanding_segment(&self, segs: &[Packed], seq: u32) -> Option<Segment> {
        (seq.wrapping_sub(self.una) < self.outstanding())
            .then(|| Segment::unpack(segs[(seq & MASK) as usize]))
    }

    fn mark_resent(&mut self, segs: &mut [Packed], seq: u32, now: Instant) -> Segment {
        let at = (seq & MASK) as usize;
        let mut seg = Segment::unpack(segs[at]);
        if seg.flags & LOST != 0 {
            self.lost -= 1;
            self.in_flight += 1;
            seg.flags |= WAS_LOST;
        }
        self.probe_gone |= seg.flags & PROBE != 0;
        seg.flags = seg.flags & !(LOST | PROBE) | RESENT;
        seg.sent = stamp_of(now);
        // An earlier copy may be on its way, too.
        self.alone = None;
        segs[at] = seg.pack();
        seg
    }

    /// The segment a time-out or a probe repeats: the first one outstanding, or the last for a probe.
    pub(crate) fn repeat(&mut self, segs: &mut [Packed], now: Instant, last: bool) -> Option<(u32, Segment)> {
        let outstanding = self.outstanding();
        for i in 0..outstanding {
            let seq = if last { self.nxt.wrapping_sub(1 + i) } else { self.una.wrapping_add(i) };
            if Segment::unpack(segs[(seq & MASK) as usize]).flags & SACKED == 0 {
                return Some((seq, self.mark_resent(segs, seq, now)));
            }
        }
        None
    }

    /// What to send to a receiver that has no room for all of it: first what belongs to a message of which it has a part,
    /// and so has the memory. Then the first one outstanding; where messages need not come in order, in turn with the
    /// others, as a smaller one may find room.
    pub(crate) fn repeat_or_go_on(
        &mut self,
        segs: &mut [Packed],
        out: &mut OutMessages,
        flow: (u16, bool),
        now: Instant,
    ) -> Option<(u32, Segment)> {
        let (mss, ordered) = flow;
        let has_memory = |m: &OutMessage| m.left < m.buf.len.div_ceil(u32::from(mss)).max(1);
        for i in 0..self.outstanding() {
            let seq = self.una.wrapping_add(i);
            let seg = Segment::unpack(segs[(seq & MASK) as usize]);
            if seg.flags & (SACKED | FIN) == 0 && has_memory(out.get(seg.msg)) {
                return Some((seq, self.mark_resent(segs, seq, now)));
            }
        }
        if self.unsent_offset > 0
            && has_memory(out.get(self.unsent_head))
            && let Some(new) = self.take_new(segs, out, mss, now)
        {
            return Some(new);
        }
        self.turn = self.turn.wrapping_add(1);
        if !ordered && self.turn.is_multiple_of(2) {
            let outstanding = self.outstanding();
            let from = self.next_turn.wrapping_sub(self.una);
            let from = if from < outstanding { from } else { 0 };
            for i in 0..outstanding {
                let seq = self.una.wrapping_add((from + i) % outstanding);
                if Segment::unpack(segs[(seq & MASK) as usize]).flags & SACKED == 0 {
                    self.next_turn = seq.wrapping_add(1);
                    return Some((seq, self.mark_resent(segs, seq, now)));
                }
            }
        }
        self.repeat(segs, now, false)
    }

    /// Numbers the next new segment, or says that there is none to send now.
    pub(crate) fn take_new(
        &mut self,
        segs: &mut [Packed],
        out: &mut OutMessages,
        mss: u16,
        now: Instant,
    ) -> Option<(u32, Segment)> {
        if !self.may_send_new() {
            return None;
        }
        let seg = if self.unsent_head == NONE {
            self.fin = Fin::Sent;
            Segment { msg: NONE, offset: 0, sent: stamp_of(now), len: 0, flags: FIN }
        } else {
            let slot = self.unsent_head;
            let message = &mut out.slots[slot as usize];
            let offset = self.unsent_offset;
            if offset == 0 {
                message.left = message.buf.len.div_ceil(u32::from(mss)).max(1);
                self.credit_used = self.credit_used.wrapping_add(credit_cost(message.buf.len));
            }
            let len = (message.buf.len - offset).min(u32::from(mss));
            if offset + len == message.buf.len {
                self.unsent_head = message.next;
                self.unsent_offset = 0;
                if self.unsent_head == NONE {
                    self.unsent_tail = NONE;
                }
            } else {
                self.unsent_offset = offset + len;
            }
            Segment { msg: slot, offset, sent: stamp_of(now), len: len as u16, flags: 0 }
        };
        let seq = self.nxt;
        if seq == self.una {
            // Stamps are compared on a circle of 69 s: what was acknowledged before a long silence is no measure.
            self.has_rack = false;
        }
        segs[(seq & MASK) as usize] = seg.pack();
        self.nxt = seq.wrapping_add(1);
        self.alone = (seq == self.una).then_some(seg.sent);
        self.in_flight += 1;
        Some((seq, seg))
    }

    fn acknowledge(
        &mut self,
        segs: &mut [Packed],
        out: &mut OutMessages,
        seq: u32,
        at_time: AckTime,
        outcome: &mut AckOutcome,
        done: &mut impl FnMut(OutMessage),
    ) {
        let at = (seq & MASK) as usize;
        let mut seg = Segment::unpack(segs[at]);
        if seg.flags & SACKED != 0 {
            return;
        }
        outcome.acked += 1;
        if seg.flags & LOST != 0 {
            // Given up, not sent again, and here it is: the path reorders.
            self.lost -= 1;
            self.reordering = true;
        } else {
            self.in_flight -= 1;
        }
        // An acknowledgement that comes sooner after a repeat than any round trip takes is for the original.
        let resent = seg.flags & RESENT != 0;
        outcome.acked_resent |= resent;
        if !resent && outcome.latest.is_none_or(|latest| before(latest, seg.sent)) {
            outcome.latest = Some(seg.sent);
        }
        outcome.longest = outcome.longest.max(seg.len);
        outcome.probe_arrived |= seg.flags & PROBE != 0;
        if seg.sent == at_time.echo {
            outcome.echoed_len = outcome.echoed_len.max(seg.len);
        }
        let trusted = !resent || at_time.now.wrapping_sub(seg.sent) >= at_time.floor;
        // Given up too soon, then: the path reorders.
        self.reordering |= !trusted && seg.flags & WAS_LOST != 0;
        if trusted && (!self.has_rack || !before(seg.sent, self.rack)) {
            self.rack = seg.sent;
            self.rack_acked = at_time.now;
            self.has_rack = true;
        }
        seg.flags = seg.flags & !LOST | SACKED;
        segs[at] = seg.pack();
        if seg.flags & FIN != 0 {
            self.fin = Fin::Acked;
            return;
        }
        let message = &mut out.slots[seg.msg as usize];
        message.left -= 1;
        if message.left == 0 {
            done(out.put(seg.msg));
        }
    }

    /// Takes in an acknowledgement: everything before `ack`, and the `ranges` beyond it. Calls `done` with each message
    /// that has arrived whole.
    pub(crate) fn on_ack(
        &mut self,
        segs: &mut [Packed],
        out: &mut OutMessages,
        ack: u32,
        ranges: impl Iterator<Item = (u32, u32)>,
        at_time: AckTime,
        done: &mut impl FnMut(OutMessage),
    ) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        if before(self.nxt, ack) {
            outcome.bogus = true;
            return outcome;
        }
        while before(self.una, ack) {
            self.acknowledge(segs, out, self.una, at_time, &mut outcome, done);
            self.una = self.una.wrapping_add(1);
        }
        if before(self.high, self.una) {
            self.high = self.una;
        }
        for (first, end) in ranges {
            // A range that is empty, behind, or beyond what was sent says nothing; the rest of it is clipped. Distances are
            // taken from `una`, as "before" is no order on numbers half a circle apart.
            let reach = end.wrapping_sub(self.una);
            if reach == 0 || reach > self.outstanding() || !before(first, end) {
                outcome.bogus |= before(self.nxt, end);
                continue;
            }
            let mut seq = if first.wrapping_sub(self.una) < reach { first } else { self.una };
            while seq != end {
                self.acknowledge(segs, out, seq, at_time, &mut outcome, done);
                seq = seq.wrapping_add(1);
            }
            if before(self.high, end) {
                self.high = end;
            }
        }
        outcome
    }

    /// Gives up segments that must be lost, judged by what arrived that was sent after them (RACK, RFC 8985). Called
    /// after an acknowledgement that leaves holes or covers a repeat, and again at `reorder_at`.
    pub(crate) fn detect_lost(&mut self, segs: &mut [Packed], now: Instant, rtt_floor: Duration) -> Lost {
        self.reorder_at = Instant::FAR_FUTURE;
        let mut lost = Lost::default();
        if !self.has_rack {
            return lost;
        }
        // On a path that reorders, a quarter of a round trip is not patience enough.
        let patience = if self.reordering { rtt_floor } else { rtt_floor.div(4) };
        let patience = units(patience).max(1);
        let waited = stamp_of(now).wrapping_sub(self.rack_acked);
        let (mut arrived_above, mut soonest) = (0, u32::MAX);
        let mut seq = self.nxt;
        while seq != self.una {
            seq = seq.wrapping_sub(1);
            let at = (seq & MASK) as usize;
            let mut seg = Segment::unpack(segs[at]);
            if seg.flags & SACKED != 0 {
                arrived_above += 1;
                continue;
            }
            // Segments of one burst share a stamp; among those sent once, the numbers tell the order.
            let same_burst = seg.sent == self.rack && seg.flags & RESENT == 0 && arrived_above > 0;
            if seg.flags & LOST != 0 || !(same_burst || before(seg.sent, self.rack)) {
                continue;
            }
            let by_count = !self.reordering && arrived_above >= REORDER_SEGMENTS;
            let overdue = self.rack.wrapping_sub(seg.sent).saturating_add(waited);
            if by_count || overdue > patience {
                if seg.flags & PROBE != 0 {
                    self.probe_gone = true;
                } else {
                    lost.count += 1;
                    lost.longest = lost.longest.max(seg.len);
                }
                seg.flags = seg.flags & !PROBE | LOST;
                segs[at] = seg.pack();
                self.in_flight -= 1;
                self.lost += 1;
            } else {
                soonest = soonest.min(patience + 1 - overdue);
            }
        }
        if soonest != u32::MAX {
            self.reorder_at = now + Duration::from_nanos(u64::from(soonest) * STAMP_UNIT_NS);
        }
        lost
    }

    /// Gives up all that is outstanding and was sent at least `age` stamp units ago: the receiver has said that it
    /// dropped segments for want of room, and now that it has room again.
    pub(crate) fn give_up_older(&mut self, segs: &mut [Packed], now: Instant, age: u32) {
        let now = stamp_of(now);
        let mut seq = self.una;
        while seq != self.nxt {
            let at = (seq & MASK) as usize;
            let mut seg = Segment::unpack(segs[at]);
            if seg.flags & (SACKED | LOST) == 0 && now.wrapping_sub(seg.sent) >= age {
                self.probe_gone |= seg.flags & PROBE != 0;
                seg.flags = seg.flags & !PROBE | LOST;
                segs[at] = seg.pack();
                self.in_flight -= 1;
                self.lost += 1;
            }
            seq = seq.wrapping_add(1);
        }
    }

    /// Whether something arrived beyond a hole.
    pub(crate) fn has_holes(&self) -> bool {
        self.una != self.nxt && self.high != self.una
    }

    /// Messages of this flow that are not acknowledged whole, counted from the tables.
    pub(crate) fn messages(&self, segs: &[Packed], out: &OutMessages) -> u32 {
        let (mut count, mut previous, mut seq) = (0, NONE, self.una);
        while seq != self.nxt {
            let seg = Segment::unpack(segs[(seq & MASK) as usize]);
            if seg.flags & (SACKED | FIN) == 0 && seg.msg != previous && seg.msg != self.unsent_head {
                previous = seg.msg;
                count += 1;
            }
            seq = seq.wrapping_add(1);
        }
        let mut slot = self.unsent_head;
        while slot != NONE {
            count += 1;
            slot = out.slots[slot as usize].next;
        }
        count
    }

    /// Gives every outstanding and unsent message to `failed` and forgets them.
    pub(crate) fn abandon(
        &mut self,
        segs: &[Packed],
        out: &mut OutMessages,
        failed: &mut impl FnMut(OutMessage),
    ) {
        let mut previous = NONE;
        while self.una != self.nxt {
            let seg = Segment::unpack(segs[(self.una & MASK) as usize]);
            // The first unsent message may have segments in flight: it goes with the unsent ones. A message's segments
            // follow each other, so comparing with the last one seen finds every message once.
            if seg.flags & (SACKED | FIN) == 0 && seg.msg != previous && seg.msg != self.unsent_head {
                previous = seg.msg;
                failed(out.put(seg.msg));
            }
            self.una = self.una.wrapping_add(1);
        }
        while self.unsent_head != NONE {
            let message = out.put(self.unsent_head);
            self.unsent_head = message.next;
            failed(message);
        }
        self.unsent_tail = NONE;
        self.in_flight = 0;
        self.lost = 0;
    }
}

#[cfg(test)]
mod tests;
