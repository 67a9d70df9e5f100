//! The receiving half of a flow: which segments have arrived, messages being put together, what to acknowledge.

use crate::config::{LATER_LEAVES, WINDOW_SEGMENTS, credit_cost};
use crate::memory::{Memory, RecvBuf, Turn};
use crate::sender::{Packed, before};
use barewire_base::{DropReason, Instant};
use barewire_wire::msg::{Data, PIECES, SACK_RANGES_MAX};

const MASK: u32 = WINDOW_SEGMENTS as u32 - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Stage {
    Empty = 0,
    /// Some segments are here.
    Partial = 1,
    /// All are, but an earlier message is not: it waits its turn.
    Complete = 2,
    /// Handed over before its turn (unordered flows).
    Delivered = 3,
}

/// A message being received. Packed like [`crate::sender::Segment`], and for the same reason.
#[derive(Clone, Copy, Debug)]
struct InMessage {
    offset: u32,
    len: u32,
    /// Segment number of its first segment: with it, each segment number has one place in the message, so that no
    /// message can be declared whole with a hole in it.
    first_seq: u32,
    /// Segments still missing.
    left: u32,
    stage: Stage,
}

impl InMessage {
    fn pack(self) -> Packed {
        [
            u64::from(self.offset) << 32 | u64::from(self.len),
            u64::from(self.first_seq) << 32 | u64::from(self.left) << 2 | self.stage as u64,
        ]
    }

    fn unpack([a, b]: Packed) -> InMessage {
        InMessage {
            offset: (a >> 32) as u32,
            len: a as u32,
            first_seq: (b >> 32) as u32,
            left: (b as u32) >> 2,
            stage: match b & 3 {
                0 => Stage::Empty,
                1 => Stage::Partial,
                2 => Stage::Complete,
                _ => Stage::Delivered,
            },
        }
    }
}

/// One segment's place in its flow, from the header.
pub(crate) struct Arrival<'a> {
    pub seq: u32,
    pub fin: bool,
    /// Which pieces of each segment are here; `None`: the flow has no pieces.
    pub pieces: Option<&'a mut [u32]>,
    pub is_piece: bool,
    pub data: Data,
    pub payload: &'a [u8],
}

pub(crate) struct Receiver {
    /// Next segment expected: all before it are here.
    pub next: u32,
    /// One bit for each segment of the window, at its number modulo the window.
    arrived: [u64; WINDOW_SEGMENTS / 64],
    /// One past the highest segment here.
    high: u32,
    /// First message not yet handed over.
    msg_base: u32,
    fin_seq: Option<u32>,
    /// Segments since the last acknowledgement.
    pub unacked: u32,
    pub ack_now: bool,
    pub ack_at: Instant,
    pub echo: u32,
    pub echo_at: Instant,
    pub has_echo: bool,
    /// Latest stamp heard from the peer: what is older is late or a replay, and times nothing.
    pub heard_stamp: u32,
    /// Congestion was marked since the last acknowledgement.
    pub ce: bool,
    /// A segment was dropped for want of memory and nothing has been freed since.
    pub not_ready: bool,
    /// The first message refused for want of memory: when it has found room, nobody need wait any more.
    starved: Option<u32>,
    credit_window: u32,
    /// Credit for what the application has released.
    consumed: u32,
    /// Limit that the peer was last told.
    advertised: u32,
    /// What all messages cost that have arrived, in whole or in part; and the latest of them with its cost, as that one
    /// alone may overshoot the limit.
    charged: u32,
    latest: u32,
    latest_cost: u32,
    /// Messages whose row is not empty, and those of them that have memory which the application does not have yet: they are not
    /// whole, or wait for one before them.
    open: u32,
    kept: u32,
    /// Since when there has been one of those, and the bytes that came since.
    kept_since: Instant,
    kept_bytes: u64,
    /// A segment that was not here came since somebody last looked.
    pub is_heard: bool,
    /// The last refusal for want of room was of a message that could have been handed over: who keeps room is in its way.
    pub is_in_need: bool,
    /// A segment came in pieces, so that something may stand in their table.
    pub came_in_pieces: bool,
}

/// What the rows of one flow hold.
#[derive(Default)]
pub(crate) struct Rows {
    pub used: u32,
    /// Those whose memory the application does not have yet.
    pub kept: u32,
}

/// Counts them.
pub(crate) fn rows(msgs: &[Packed]) -> Rows {
    let mut rows = Rows::default();
    for stage in msgs.iter().map(|m| InMessage::unpack(*m).stage) {
        rows.used += u32::from(stage != Stage::Empty);
        rows.kept += u32::from(matches!(stage, Stage::Partial | Stage::Complete));
    }
    rows
}

impl Receiver {
    pub(crate) fn new(first: u32, credit_window: u32) -> Receiver {
        Receiver {
            next: first,
            arrived: [0; WINDOW_SEGMENTS / 64],
            high: first,
            msg_base: 0,
            fin_seq: None,
            unacked: 0,
            ack_now: false,
            ack_at: Instant::FAR_FUTURE,
            echo: 0,
            echo_at: Instant::ZERO,
            has_echo: false,
            heard_stamp: 0,
            ce: false,
            not_ready: false,
            starved: None,
            credit_window,
            consumed: 0,
            advertised: credit_window,
            charged: 0,
            latest: u32::MAX,
            latest_cost: 0,
            open: 0,
            kept: 0,
            kept_since: Instant::ZERO,
            kept_bytes: 0,
            is_heard: false,
            is_in_need: false,
            came_in_pieces: false,
        }
    }

    /// Messages that have begun and are not behind the application's turn yet.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Those of them whose memory the application does not have yet.
    pub(crate) fn kept(&self) -> u32 {
        self.kept
    }

    /// Since when some message has kept memory that the application does not have, if one does, and the bytes that came meanwhile.
    pub(crate) fn keeps_since(&self) -> Option<(Instant, u64)> {
        (self.kept > 0).then_some((self.kept_since, self.kept_bytes))
    }

    /// Whether the peer ended its half although a message of it is not whole: no honest sender does, as every segment
    /// belongs to a message and the end comes after all of them.
    pub(crate) fn ended_unfinished(&self) -> bool {
        self.open > 0 && self.is_finished()
    }

    /// The most segments in a row that are missing before `end`: a message of which nothing is here is no longer.
    fn longest_gap(&self, end: u32) -> u32 {
        let (mut longest, mut run, mut seq) = (0, 0, self.next);
        while before(seq, end) {
            run = if self.bit(seq) { 0 } else { run + 1 };
            longest = longest.max(run);
            seq = seq.wrapping_add(1);
        }
        longest
    }

    /// Charges the peer's credit with a message that begins. False: the message began beyond what was granted. Messages
    /// begin while any credit is left; so all that came, without the latest, is less than the limit.
    fn charge(&mut self, msg_id: u32, len: u32) -> bool {
        let cost = credit_cost(len);
        let is_latest = before(self.latest, msg_id);
        let latest_cost = if is_latest { cost } else { self.latest_cost };
        let charged = self.charged.wrapping_add(cost);
        if !before(charged.wrapping_sub(latest_cost), self.advertised) {
            return false;
        }
        self.charged = charged;
        if is_latest {
            (self.latest, self.latest_cost) = (msg_id, cost);
        }
        true
    }

    fn bit(&self, seq: u32) -> bool {
        self.arrived[((seq & MASK) / 64) as usize] >> (seq % 64) & 1 != 0
    }

    /// Whether the peer's FIN and everything before it has arrived.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin_seq.is_some_and(|fin| before(fin, self.next))
    }

    pub(crate) fn has_gaps(&self) -> bool {
        self.high != self.next
    }

    /// The limit to advertise now.
    pub(crate) fn credit(&mut self) -> u32 {
        self.advertised = self.consumed.wrapping_add(self.credit_window);
        self.advertised
    }

    /// The application gave a message of `len` bytes back. True when the peer should hear of the new credit at once.
    pub(crate) fn release(&mut self, len: u32) -> bool {
        self.consumed = self.consumed.wrapping_add(credit_cost(len));
        let news = self.consumed.wrapping_add(self.credit_window).wrapping_sub(self.advertised);
        std::mem::take(&mut self.not_ready) || news >= self.credit_window.div_ceil(2)
    }

    /// Takes in a segment and calls `deliver` with each message that is now whole and whose turn it is.
    pub(crate) fn on_segment<M: Memory>(
        &mut self,
        msgs: &mut [Packed],
        memory: &mut M,
        room: &mut impl FnMut(Turn) -> bool,
        flow: FlowTraits,
        arrival: Arrival<'_>,
        deliver: &mut impl FnMut(RecvBuf),
    ) -> Result<(), DropReason> {
        let Arrival { seq, fin, is_piece, pieces, .. } = arrival;
        let ahead = seq.wrapping_sub(self.next);
        if ahead >= WINDOW_SEGMENTS as u32 {
            self.ack_now = true;
            return Err(if before(seq, self.next) { DropReason::Duplicate } else { DropReason::OutOfWindow });
        }
        if self.bit(seq) {
            self.ack_now = true;
            return Err(DropReason::Duplicate);
        }
        if self.fin_seq.is_some_and(|f| !before(seq, f)) {
            return Err(DropReason::Malformed);
        }
        if fin {
            if before(seq, self.high) || !arrival.payload.is_empty() || is_piece {
                return Err(DropReason::Malformed);
            }
            self.fin_seq = Some(seq);
        } else if is_piece && pieces.is_none() {
            return Err(DropReason::Malformed);
        } else if !self.place(msgs, memory, room, flow, Arrival { pieces, ..arrival }, deliver)? {
            // More of it is to come.
            self.is_heard = true;
            return Ok(());
        }

        self.arrived[((seq & MASK) / 64) as usize] |= 1 << (seq % 64);
        if before(self.high, seq.wrapping_add(1)) {
            self.high = seq.wrapping_add(1);
        }
        let in_order = seq == self.next;
        let had_gaps = !in_order || self.high != seq.wrapping_add(1);
        while self.bit(self.next) {
            self.arrived[((self.next & MASK) / 64) as usize] &= !(1 << (self.next % 64));
            self.next = self.next.wrapping_add(1);
        }
        self.unacked += 1;
        self.ack_now |= had_gaps || fin;
        self.is_heard = true;
        Ok(())
    }

    /// True: the segment is here, all of it.
    fn place<M: Memory>(
        &mut self,
        msgs: &mut [Packed],
        memory: &mut M,
        room: &mut impl FnMut(Turn) -> bool,
        flow: FlowTraits,
        arrival: Arrival<'_>,
        deliver: &mut impl FnMut(RecvBuf),
    ) -> Result<bool, DropReason> {
        let Arrival { seq, data, payload, is_piece, pieces, .. } = arrival;
        let FlowTraits { mss, ordered, owner, .. } = flow;
        let mss = u32::from(mss);
        if data.msg_id.wrapping_sub(self.msg_base) >= WINDOW_SEGMENTS as u32 {
            return Err(DropReason::OutOfWindow);
        }
        // Every segment but the last is full, so its offset follows from its number and nothing overlaps.
        let (index, at) = (data.offset / mss, data.offset % mss);
        let segment_len = (data.msg_len - (data.offset - at)).min(mss);
        let here = match is_piece {
            false if at == 0 && payload.len() as u32 == segment_len => Piece::ALL,
            true => Piece::new(at, payload.len() as u32, segment_len, mss).ok_or(DropReason::Malformed)?,
            false => return Err(DropReason::Malformed),
        };
        // Where a message ends no segment of it begins, but for that of an empty one.
        if data.offset == data.msg_len && data.msg_len > 0 {
            return Err(DropReason::Malformed);
        }
        let at_row = (data.msg_id & MASK) as usize;
        let mut missing = here.these;
        let mut row = None;
        if let Some(pieces) = pieces
            && (is_piece || self.came_in_pieces)
        {
            // Of one message: pieces of two must not make up one segment.
            let known = &mut pieces[(seq & MASK) as usize];
            let (of, bits) = (*known >> 16, *known as u16);
            if bits != 0 && of != at_row as u32 {
                return Err(DropReason::Malformed);
            }
            missing &= !bits;
            if missing == 0 {
                // No acknowledgement of its own: who sends a segment again asks for one with its last piece.
                return Err(DropReason::Duplicate);
            }
            row = Some(known);
        }
        let mut m = InMessage::unpack(msgs[at_row]);
        match m.stage {
            Stage::Empty => m = self.begin(memory, room, flow, &data, seq.wrapping_sub(index))?,
            Stage::Partial if m.len == data.msg_len && m.first_seq.wrapping_add(index) == seq => {}
            _ => return Err(DropReason::Malformed),
        }
        let buf = RecvBuf { owner, offset: m.offset, len: m.len };
        memory.write(buf, data.offset, payload);
        // What comes again is no progress.
        let new =
            if is_piece { missing.count_ones() * mss.div_ceil(PIECES.into()) } else { payload.len() as u32 };
        self.kept_bytes += u64::from(new);
        if let Some(row) = row {
            let bits = *row as u16 | here.these;
            if bits & here.all != here.all {
                self.came_in_pieces = true;
                *row = (at_row as u32) << 16 | u32::from(bits);
                msgs[at_row] = m.pack();
                return Ok(false);
            }
            *row = 0;
        }
        m.left -= 1;
        if m.left == 0 {
            m.stage = Stage::Complete;
            if !ordered {
                deliver(buf);
                self.kept -= 1;
                m.stage = Stage::Delivered;
            }
        }
        msgs[at_row] = m.pack();
        self.deliver_in_turn(msgs, owner, deliver);
        Ok(true)
    }

    /// The first segment of a message that may begin: takes memory for all of it.
    #[inline]
    fn begin<M: Memory>(
        &mut self,
        memory: &mut M,
        room: &mut impl FnMut(Turn) -> bool,
        flow: FlowTraits,
        data: &Data,
        first_seq: u32,
    ) -> Result<InMessage, DropReason> {
        let FlowTraits { mss, owner, now, app_holds, .. } = flow;
        let segments = data.msg_len.div_ceil(mss.into()).max(1);
        let turn = self.turn_of(memory, flow, data, first_seq, segments);
        let buf = if room(turn) { memory.alloc(owner, data.msg_len, turn) } else { None };
        let Some(buf) = buf else {
            let largest = memory.message_max(owner);
            if data.msg_len > largest {
                return Err(DropReason::TooLarge);
            }
            self.is_in_need = !matches!(turn, Turn::Later { .. });
            // It came, and in such a pause its sender repeats no other: nobody is to be ended for what we refuse.
            self.is_heard = true;
            // What waits for this one does so since we have no room for it, not since nothing comes: it is the application that
            // does not read. But who asks for more than is ever left to it may be asking in order to wait.
            if turn == Turn::Awaited && (data.msg_len <= largest / LATER_LEAVES || app_holds) {
                (self.kept_since, self.kept_bytes) = (now, 0);
            }
            if self.starved.is_none_or(|first| before(data.msg_id, first)) {
                self.starved = Some(data.msg_id);
            }
            self.not_ready = true;
            self.ack_now = true;
            return Err(DropReason::NoCredit);
        };
        if !self.charge(data.msg_id, data.msg_len) {
            memory.free(buf);
            return Err(DropReason::OverCredit);
        }
        if self.starved == Some(data.msg_id) {
            self.starved = None;
            self.not_ready = false;
        }
        if self.kept == 0 {
            (self.kept_since, self.kept_bytes) = (now, 0);
        }
        self.open += 1;
        self.kept += 1;
        Ok(InMessage {
            offset: buf.offset,
            len: data.msg_len,
            first_seq,
            left: segments,
            stage: Stage::Partial,
        })
    }

    /// How a message that begins stands to those before it: what it has to leave free.
    #[inline]
    fn turn_of<M: Memory>(
        &self,
        memory: &M,
        flow: FlowTraits,
        data: &Data,
        first_seq: u32,
        segments: u32,
    ) -> Turn {
        let FlowTraits { mss, ordered, owner, leaves_room, .. } = flow;
        // What cannot be handed over, or cannot come whole, before an earlier message leaves room for that one, whichever
        // of those that are missing it is: what is here would else keep for good what the missing one needs.
        let missing_until = if ordered {
            (data.msg_id != self.msg_base)
                .then(|| if before(self.high, first_seq) { first_seq } else { self.high })
        } else {
            let ahead = first_seq.wrapping_sub(self.next);
            let is_behind_a_gap = before(self.next, first_seq);
            // Its end comes only when the window has moved over the gap.
            (is_behind_a_gap && ahead.saturating_add(segments) > WINDOW_SEGMENTS as u32).then_some(first_seq)
        };
        match missing_until {
            Some(end) => {
                let largest = memory.message_max(owner);
                let gap = self.longest_gap(end).max(1).saturating_mul(mss.into()).min(largest);
                Turn::Later { spare: gap.max(largest / LATER_LEAVES) }
            }
            None if leaves_room => Turn::Later { spare: memory.message_max(owner) / LATER_LEAVES },
            None if self.kept > 0 => Turn::Awaited,
            None => Turn::Next,
        }
    }

    /// Hands over what is complete and whose turn it is.
    #[inline]
    fn deliver_in_turn(&mut self, msgs: &mut [Packed], owner: u32, deliver: &mut impl FnMut(RecvBuf)) {
        loop {
            let at = (self.msg_base & MASK) as usize;
            let m = InMessage::unpack(msgs[at]);
            match m.stage {
                Stage::Complete => {
                    deliver(RecvBuf { owner, offset: m.offset, len: m.len });
                    self.kept -= 1;
                }
                Stage::Delivered => {}
                Stage::Empty | Stage::Partial => return,
            }
            msgs[at] = [0; 2];
            self.open -= 1;
            self.msg_base = self.msg_base.wrapping_add(1);
        }
    }

    /// Gives the memory of messages that were never handed over back; says how many.
    pub(crate) fn abandon<M: Memory>(&mut self, msgs: &mut [Packed], memory: &mut M, owner: u32) -> u32 {
        if self.open == 0 {
            return 0;
        }
        (self.open, self.kept) = (0, 0);
        let mut freed = 0;
        for packed in msgs {
            let m = InMessage::unpack(*packed);
            if matches!(m.stage, Stage::Partial | Stage::Complete) {
                memory.free(RecvBuf { owner, offset: m.offset, len: m.len });
                freed += 1;
            }
            *packed = [0; 2];
        }
        freed
    }

    /// What lies beyond the first hole, as ranges of segment numbers, lowest first.
    pub(crate) fn ranges(&self) -> ([(u32, u32); SACK_RANGES_MAX], usize) {
        let (mut out, mut n) = ([(0, 0); SACK_RANGES_MAX], 0);
        let mut seq = self.next;
        while n < SACK_RANGES_MAX && before(seq, self.high) {
            while before(seq, self.high) && !self.bit(seq) {
                seq = seq.wrapping_add(1);
            }
            let first = seq;
            while before(seq, self.high) && self.bit(seq) {
                seq = seq.wrapping_add(1);
            }
            if first != seq {
                out[n] = (first, seq);
                n += 1;
            }
        }
        (out, n)
    }
}

/// Pieces of a segment, as bits: those that came, and all of it.
#[derive(Clone, Copy)]
struct Piece {
    these: u16,
    all: u16,
}

impl Piece {
    const ALL: Piece = Piece { these: u16::MAX, all: u16::MAX };

    /// The pieces at `at` of a segment. `None`: they are cut where no sender cuts.
    fn new(at: u32, len: u32, segment_len: u32, mss: u32) -> Option<Piece> {
        let unit = mss.div_ceil(PIECES.into());
        let end = at + len;
        let is_cut_well = at.is_multiple_of(unit) && (end.is_multiple_of(unit) || end == segment_len);
        if len == 0 || end > segment_len || !is_cut_well {
            return None;
        }
        let bits = |units: u32| ((1u32 << units) - 1) as u16;
        Some(Piece {
            these: bits(end.div_ceil(unit)) & !bits(at / unit),
            all: bits(segment_len.div_ceil(unit)),
        })
    }
}

/// What the receiving half has to know of its flow.
#[derive(Clone, Copy)]
pub(crate) struct FlowTraits {
    pub mss: u16,
    pub ordered: bool,
    pub owner: u32,
    pub now: Instant,
    /// The application has messages of the flow that it has not released.
    pub app_holds: bool,
    /// Its host let memory lie: what it begins leaves room for others.
    pub leaves_room: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::HeapMemory;
    use barewire_base::Prng;

    const MSS: u16 = 100;

    struct Rig {
        r: Receiver,
        msgs: Vec<Packed>,
        memory: HeapMemory,
        got: Vec<Vec<u8>>,
        ordered: bool,
        pieces: Vec<u32>,
    }

    impl Rig {
        fn new(ordered: bool) -> Rig {
            Rig {
                r: Receiver::new(u32::MAX - 3, 1000),
                msgs: vec![[0; 2]; WINDOW_SEGMENTS],
                memory: HeapMemory::new(0, 1 << 16),
                got: vec![],
                ordered,
                pieces: vec![0; WINDOW_SEGMENTS],
            }
        }
        fn give(&mut self, i: u32, fin: bool, data: Data, payload: &[u8]) -> Result<(), DropReason> {
            self.give_any(i, fin, data, payload, false)
        }
        fn give_any(
            &mut self,
            i: u32,
            fin: bool,
            data: Data,
            payload: &[u8],
            is_piece: bool,
        ) -> Result<(), DropReason> {
            let seq = (u32::MAX - 3).wrapping_add(i);
            let mut bufs = vec![];
            let flow = FlowTraits {
                mss: MSS,
                ordered: self.ordered,
                owner: 0,
                now: Instant::ZERO,
                app_holds: false,
                leaves_room: false,
            };
            let result = self.r.on_segment(
                &mut self.msgs,
                &mut self.memory,
                &mut |_| true,
                flow,
                Arrival { seq, fin, data, payload, is_piece, pieces: Some(&mut self.pieces) },
                &mut |b| bufs.push(b),
            );
            for b in bufs {
                self.got.push(self.memory.recv_bytes(b).to_vec());
                self.memory.free(b);
            }
            result
        }
    }

    fn d(msg_id: u32, msg_len: u32, offset: u32) -> Data {
        Data { msg_id, msg_len, offset }
    }

    #[test]
    fn ordered_waits_unordered_does_not() {
        for ordered in [true, false] {
            let mut rig = Rig::new(ordered);
            rig.give(1, false, d(1, 1, 0), b"b").unwrap();
            assert!(rig.r.ack_now && rig.r.has_gaps());
            assert_eq!(rig.got.len(), usize::from(!ordered));
            rig.give(0, false, d(0, 1, 0), b"a").unwrap();
            assert_eq!(rig.got, if ordered { [b"a", b"b"] } else { [b"b", b"a"] });
            assert!(!rig.r.has_gaps());
            assert_eq!(rig.give(0, false, d(0, 1, 0), b"a"), Err(DropReason::Duplicate));
        }
    }

    #[test]
    fn lies_about_a_message_are_refused() {
        let mut rig = Rig::new(true);
        rig.give(1, false, d(0, 250, 100), &[1; 100]).unwrap();
        assert_eq!(
            rig.give(2, false, d(0, 260, 200), &[1; 60]),
            Err(DropReason::Malformed),
            "another length"
        );
        assert_eq!(rig.give(3, false, d(0, 250, 200), &[1; 50]), Err(DropReason::Malformed), "another place");
        assert_eq!(rig.give(2, false, d(0, 250, 150), &[1; 100]), Err(DropReason::Malformed), "odd offset");
        assert_eq!(rig.give(2, false, d(0, 250, 200), &[1; 49]), Err(DropReason::Malformed), "short segment");
        assert_eq!(rig.give(300, false, d(0, 250, 200), &[1; 50]), Err(DropReason::OutOfWindow));
        assert_eq!(rig.give(2, false, d(256, 1, 0), &[1; 1]), Err(DropReason::OutOfWindow));
        rig.give(2, false, d(0, 250, 200), &[2; 50]).unwrap();
        rig.give(0, false, d(0, 250, 0), &[0; 100]).unwrap();
        assert_eq!(rig.got[0], [&[0u8; 100][..], &[1; 100], &[2; 50]].concat());
    }

    #[test]
    fn a_segment_is_here_when_all_its_pieces_are() {
        let mut rig = Rig::new(true);
        // 100 bytes are 15 units of 7, but for the last of 2.
        let piece = |rig: &mut Rig, i, at: u32, len: usize| {
            rig.give_any(i, false, d(0, 150, i * 100 + at), &vec![i as u8 + 1; len], true)
        };
        for (at, len) in [(1, 7), (0, 8), (0, 0), (7, 94), (98, 3)] {
            assert_eq!(piece(&mut rig, 0, at, len), Err(DropReason::Malformed), "{len} at {at}");
        }
        piece(&mut rig, 0, 7, 70).unwrap();
        piece(&mut rig, 0, 0, 7).unwrap();
        assert_eq!(piece(&mut rig, 0, 0, 49), Err(DropReason::Duplicate), "nothing new");
        assert!(!rig.r.ack_now, "the last piece of a repeat asks for an answer, not each");
        // Pieces of another message do not fill it.
        assert_eq!(rig.give_any(0, false, d(7, 100, 77), &[9; 23], true), Err(DropReason::Malformed));
        assert_eq!(rig.give(0, false, d(7, 100, 0), &[9; 100]), Err(DropReason::Malformed));
        piece(&mut rig, 1, 0, 49).unwrap();
        assert!(!rig.r.has_gaps() && rig.r.next == u32::MAX - 3 && rig.r.unacked == 0);
        piece(&mut rig, 0, 77, 23).unwrap();
        assert_eq!(rig.r.next, u32::MAX - 2);
        assert_eq!(piece(&mut rig, 0, 77, 23), Err(DropReason::Duplicate));
        // The whole of what came in part is as good as the rest.
        rig.give(1, false, d(0, 150, 100), &[2; 50]).unwrap();
        assert_eq!(rig.got, [[&[1u8; 100][..], &[2; 50]].concat()]);
        assert!(rig.pieces.iter().all(|p| *p == 0));
        // A segment where its message has ended would make up for one that is missing.
        rig.give(3, false, d(1, 200, 100), &[4; 100]).unwrap();
        assert_eq!(rig.give(4, false, d(1, 200, 200), &[]), Err(DropReason::Malformed));
        assert_eq!(rig.give_any(2, true, d(0, 0, 0), b"", true), Err(DropReason::Malformed), "half an end");
    }

    #[test]
    fn the_end_comes_after_everything_and_once() {
        let mut rig = Rig::new(true);
        rig.give(2, true, d(0, 0, 0), b"").unwrap();
        assert!(!rig.r.is_finished());
        assert_eq!(rig.give(3, false, d(2, 1, 0), b"x"), Err(DropReason::Malformed), "beyond the end");
        rig.give(0, false, d(0, 1, 0), b"a").unwrap();
        rig.give(1, false, d(1, 0, 0), b"").unwrap();
        assert!(rig.r.is_finished());
        assert_eq!(rig.got, [b"a".to_vec(), vec![]]);
    }

    #[test]
    fn what_ends_beyond_the_window_leaves_room_for_what_is_missing_before_it() {
        for ordered in [true, false] {
            let mut rig = Rig::new(ordered);
            // It would take all memory, and its end waits until the window has moved over message 0.
            let long = d(1, 60_000, 0);
            assert_eq!(rig.give(1, false, long, &[1; 100]), Err(DropReason::NoCredit));
            rig.give(0, false, d(0, 1, 0), b"a").unwrap();
            assert_eq!(rig.got, [b"a"]);
            rig.give(1, false, long, &[1; 100]).unwrap();
        }
        // An end within the window needs nobody.
        let mut rig = Rig::new(false);
        rig.memory = HeapMemory::new(0, 1 << 14);
        rig.give(1, false, d(1, 16_000, 0), &[1; 100]).unwrap();
    }

    #[test]
    fn no_memory_means_not_ready_never_lost() {
        let mut rig = Rig::new(true);
        rig.memory = HeapMemory::new(0, 1024);
        let full = rig.memory.alloc(0, 1000, Turn::Next).unwrap();
        assert_eq!(rig.give(0, false, d(0, 100, 0), &[7; 100]), Err(DropReason::NoCredit));
        assert!(rig.r.not_ready && rig.r.ack_now && rig.r.next == u32::MAX - 3);
        rig.memory.free(full);
        assert!(rig.r.release(100), "the peer has to hear that there is room again");
        // A later message must not take the room that the first one, of up to seven segments, needs; beside it, it may.
        assert_eq!(rig.give(7, false, d(1, 600, 0), &[8; 100]), Err(DropReason::NoCredit));
        assert_eq!(rig.give(7, false, d(1, 100, 0), &[8; 100]), Err(DropReason::NoCredit));
        rig.give(1, false, d(1, 100, 0), &[8; 100]).unwrap();
        rig.give(0, false, d(0, 100, 0), &[7; 100]).unwrap();
        assert!(!rig.r.not_ready);
        assert_eq!(rig.got, [[7; 100], [8; 100]]);
        assert_eq!(rig.give(2, false, d(2, 2000, 0), &[9; 100]), Err(DropReason::TooLarge));
    }

    #[test]
    fn ranges_describe_exactly_what_is_beyond_the_hole() {
        let mut p = Prng::new(9);
        for _ in 0..200 {
            let mut rig = Rig::new(false);
            let mut have = [false; 200];
            for _ in 0..p.below(200) {
                let i = p.below(200) as u32;
                if rig.give(i, false, d(i, 0, 0), b"").is_ok() {
                    have[i as usize] = true;
                }
            }
            let base = u32::MAX - 3;
            let next = have.iter().take_while(|h| **h).count() as u32;
            assert_eq!(rig.r.next, base.wrapping_add(next));
            let (ranges, n) = rig.r.ranges();
            let mut said = [false; 200];
            said[..next as usize].fill(true);
            for &(a, b) in &ranges[..n] {
                let (a, b) = (a.wrapping_sub(base) as usize, b.wrapping_sub(base) as usize);
                said[a..b].fill(true);
            }
            let known = if n == SACK_RANGES_MAX { ranges[n - 1].1.wrapping_sub(base) as usize } else { 200 };
            assert_eq!(said[..known], have[..known]);
        }
    }
}
