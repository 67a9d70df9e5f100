//! Who may send how much: the memory to send from and the messages under way, shared out among flows.
//!
//! A flow whose peer does not read keeps what it has for as long as it lives. So no flow gets the last of it:
//! - One that has nothing under way may send whenever there is room.
//! - One that has may send while it has less under way than is free (in messages, and in bytes), less what is set aside. One
//!   alone that takes all it can get leaves half; a second one half of that.
//! - Set aside is one message and [`ASIDE_BYTES`] for each open flow with nothing under way, in all at most half of the messages
//!   and an eighth of the bytes.
//!
//! Refusals are remembered by flow, and each is taken back once there is room for it, or once its flow takes no more messages: who waits
//! for room hears of both, and learns by trying again which it is.

use crate::error::SendError;
use barewire_transport::FlowId;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes set aside for each open flow that has nothing under way.
pub const ASIDE_BYTES: u64 = 16 << 10;
/// The part of all messages under way that may be set aside: one in so many.
const ASIDE_MESSAGES_PART: u32 = 2;
/// The part of the memory that may be set aside: one in so many bytes.
const ASIDE_BYTES_PART: u64 = 8;
/// No refusal waits.
const NONE: u32 = u32::MAX;

/// Flow ids are counted numbers: spread by one multiplication.
#[derive(Default)]
pub(crate) struct FlowHasher(u64);

impl Hasher for FlowHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    #[inline]
    fn write_u64(&mut self, n: u64) {
        let n = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table takes its bits from both ends.
        self.0 = n ^ n >> 32;
    }
}

pub(crate) type ByFlow<T> = HashMap<FlowId, T, BuildHasherDefault<FlowHasher>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// No more messages from here.
    Closing,
    /// It has ended; the fate of some messages is not told yet.
    Ended,
}

struct Share {
    state: State,
    messages: u32,
    bytes: u64,
    /// Bytes of the message that was refused (the fewest, of several), or [`NONE`].
    refused: u32,
}

/// What is free at the moment.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Bytes of memory that are free, and all.
    pub free: u64,
    pub capacity: u64,
}

/// What all flows have together.
#[derive(Clone, Copy)]
struct Totals {
    messages_max: u32,
    messages: u32,
    /// Open flows with nothing under way.
    idle: u32,
}

impl Totals {
    /// Whether a message with a block of `block` bytes may go on a flow; `taken`: the block is out of `room` already.
    #[inline]
    fn check(self, share: &Share, block: u64, room: Room, taken: bool) -> Result<(), SendError> {
        match share.state {
            State::Open => {}
            State::Closing => return Err(SendError::Closing),
            State::Ended => return Err(SendError::NoSuchFlow),
        }
        let free = room.free + if taken { block } else { 0 };
        let places = self.messages_max.saturating_sub(self.messages);
        let idle = self.idle.saturating_sub(u32::from(share.messages == 0));
        let aside = (u64::from(idle) * ASIDE_BYTES).min(room.capacity / ASIDE_BYTES_PART);
        let may = if share.messages == 0 {
            // Its own place is among those set aside. A large message leaves the others' bytes alone while any are in use.
            places > 0
                && block <= free
                && (block <= ASIDE_BYTES || self.messages == 0 || block + aside <= free)
        } else {
            let places = places.saturating_sub(idle.min(self.messages_max / ASIDE_MESSAGES_PART));
            let free = free.saturating_sub(aside);
            share.messages < places && share.bytes < free && block <= free
        };
        if may { Ok(()) } else { Err(SendError::WouldBlock) }
    }
}

pub(crate) struct Shares {
    flows: ByFlow<Share>,
    all: Totals,
    /// Flows with a refusal, in the order of refusals.
    refused: VecDeque<FlowId>,
    /// Flows with a refusal that closed or ended before there was room.
    moot: VecDeque<FlowId>,
    /// A refusal of what names no flow: its bytes (the fewest, of several), or [`NONE`].
    refused_nameless: u32,
    /// Something became free since refusals were last looked at.
    pub freed: bool,
}

impl Shares {
    pub(crate) fn new(messages_max: u32) -> Shares {
        Shares {
            flows: HashMap::default(),
            all: Totals { messages_max, messages: 0, idle: 0 },
            refused: VecDeque::new(),
            moot: VecDeque::new(),
            refused_nameless: NONE,
            freed: false,
        }
    }

    /// In the place of these, which go with their flows: the refusals stay, and each is taken back.
    pub(crate) fn reset(&mut self, messages_max: u32) {
        let mut next = Shares::new(messages_max);
        next.moot = self.moot.drain(..).chain(self.refused.drain(..)).collect();
        next.refused_nameless = self.refused_nameless;
        next.freed = true;
        *self = next;
    }

    /// Messages whose fate is not told.
    #[inline]
    pub(crate) fn messages(&self) -> u32 {
        self.all.messages
    }

    /// Whether one more message may be under way at all.
    #[inline]
    pub(crate) fn has_place(&self) -> bool {
        self.all.messages < self.all.messages_max
    }

    /// A flow is there.
    pub(crate) fn open(&mut self, flow: FlowId) {
        let share = Share { state: State::Open, messages: 0, bytes: 0, refused: NONE };
        // A daemon gone mad may open it twice.
        if self.flows.insert(flow, share).is_none_or(|old| old.state != State::Open || old.messages > 0) {
            self.all.idle += 1;
        }
    }

    /// Nothing more is to be sent on it.
    pub(crate) fn close(&mut self, flow: FlowId) {
        self.end_as(flow, State::Closing);
    }

    /// It has ended.
    pub(crate) fn ended(&mut self, flow: FlowId) {
        self.end_as(flow, State::Ended);
        if self.flows.get(&flow).is_some_and(|s| s.messages == 0) {
            self.flows.remove(&flow);
        }
    }

    fn end_as(&mut self, flow: FlowId, state: State) {
        let Some(share) = self.flows.get_mut(&flow).filter(|s| s.state != State::Ended) else { return };
        if share.state == State::Open && share.messages == 0 {
            self.all.idle = self.all.idle.saturating_sub(1);
            self.freed = true;
        }
        share.state = state;
        if std::mem::replace(&mut share.refused, NONE) != NONE {
            self.refused.retain(|f| *f != flow);
            self.moot.push_back(flow);
            self.freed = true;
        }
    }

    /// Whether more may be sent on it; `None`: it is not there, or has ended.
    pub(crate) fn is_open(&self, flow: FlowId) -> Option<bool> {
        let state = self.flows.get(&flow)?.state;
        (state != State::Ended).then_some(state == State::Open)
    }

    /// How many flows have not ended.
    pub(crate) fn live(&self) -> usize {
        self.flows.values().filter(|s| s.state != State::Ended).count()
    }

    /// Flows that have not ended, in the order of their numbers.
    pub(crate) fn flows(&self) -> Vec<FlowId> {
        let live = self.flows.iter().filter(|(_, s)| s.state != State::Ended);
        let mut flows: Vec<_> = live.map(|(flow, _)| *flow).collect();
        flows.sort_unstable_by_key(|flow| flow.to_raw());
        flows
    }

    /// Flows that messages may be sent on.
    pub(crate) fn open_flows(&self) -> Vec<FlowId> {
        self.flows.iter().filter(|(_, s)| s.state == State::Open).map(|(flow, _)| *flow).collect()
    }

    /// Takes a share for a message of `len` bytes in a block of `block`; a refusal for want of room is remembered.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        flow: FlowId,
        len: u32,
        block: u64,
        room: Room,
        taken: bool,
    ) -> Result<(), SendError> {
        let share = self.flows.get_mut(&flow).ok_or(SendError::NoSuchFlow)?;
        if let Err(e) = self.all.check(share, block, room, taken) {
            if e == SendError::WouldBlock {
                self.refuse(Some(flow), len);
            }
            return Err(e);
        }
        self.all.idle = self.all.idle.saturating_sub(u32::from(share.messages == 0));
        share.messages += 1;
        share.bytes += block;
        self.all.messages += 1;
        Ok(())
    }

    /// A message is the application's again.
    #[inline]
    pub(crate) fn end(&mut self, flow: FlowId, block: u64) {
        self.freed = true;
        self.all.messages = self.all.messages.saturating_sub(1);
        let Some(share) = self.flows.get_mut(&flow) else { return };
        share.messages = share.messages.saturating_sub(1);
        share.bytes = share.bytes.saturating_sub(block);
        if share.messages == 0 {
            match share.state {
                State::Open => self.all.idle += 1,
                State::Closing => {}
                State::Ended => drop(self.flows.remove(&flow)),
            }
        }
    }

    /// Remembers that `len` bytes on a flow, or something that names none, found no room.
    pub(crate) fn refuse(&mut self, flow: Option<FlowId>, len: u32) {
        let len = len.min(NONE - 1);
        match flow {
            None => self.refused_nameless = self.refused_nameless.min(len),
            Some(flow) => {
                if let Some(share) = self.flows.get_mut(&flow) {
                    // Of several that wait for room, each tries again when one of them may go.
                    let smallest = share.refused.min(len);
                    if std::mem::replace(&mut share.refused, smallest) == NONE {
                        self.refused.push_back(flow);
                    }
                }
            }
        }
    }

    #[inline]
    pub(crate) fn has_refusals(&self) -> bool {
        !self.refused.is_empty() || self.refused_nameless != NONE || !self.moot.is_empty()
    }

    /// The next flow that closed or ended with a refusal. It is forgotten if `take`.
    pub(crate) fn next_moot(&mut self, take: bool) -> Option<FlowId> {
        if take { self.moot.pop_front() } else { self.moot.front().copied() }
    }

    /// The next refusal that there is room for now, if anything became free, or whose flow takes no more messages: the flow, or that it
    /// named none. `fits` says whether the memory has a block for so many bytes, and how long that is. It is forgotten if `take`.
    pub(crate) fn next_writable(
        &mut self,
        room: Room,
        take: bool,
        mut fits: impl FnMut(u32) -> Option<u64>,
    ) -> Option<Option<FlowId>> {
        if let Some(flow) = self.next_moot(take) {
            return Some(Some(flow));
        }
        if !self.freed {
            return None;
        }
        if self.refused_nameless != NONE && self.has_place() && fits(self.refused_nameless).is_some() {
            if take {
                self.refused_nameless = NONE;
            }
            return Some(None);
        }
        for i in 0..self.refused.len() {
            let flow = self.refused[i];
            let Some(share) = self.flows.get(&flow) else { continue };
            let Some(block) = fits(share.refused) else { continue };
            if self.all.check(share, block, room, false).is_ok() {
                if take {
                    self.refused.remove(i);
                    if let Some(share) = self.flows.get_mut(&flow) {
                        share.refused = NONE;
                    }
                }
                return Some(Some(flow));
            }
        }
        self.freed = false;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 64 << 20;

    fn flow(n: u64) -> FlowId {
        FlowId::from_raw(n)
    }

    /// As many messages with blocks of `block` bytes as a flow gets.
    fn take_all(shares: &mut Shares, free: &mut u64, of: FlowId, block: u64) -> u32 {
        let mut n = 0;
        while *free >= block
            && shares.begin(of, block as u32, block, Room { free: *free, capacity: CAPACITY }, false).is_ok()
        {
            *free -= block;
            n += 1;
        }
        n
    }

    #[test]
    fn however_many_peers_do_not_read_the_next_flow_can_send() {
        for block in [64, 16 << 10, 1 << 20] {
            let mut shares = Shares::new(2048);
            let mut free = CAPACITY;
            for n in 1..=400 {
                shares.open(flow(n));
            }
            for n in 1..=399 {
                assert!(
                    take_all(&mut shares, &mut free, flow(n), block) >= u32::from(block <= ASIDE_BYTES),
                    "{n}"
                );
            }
            assert!(shares.messages() < 2048);
            let got = take_all(&mut shares, &mut free, flow(400), ASIDE_BYTES);
            assert!(got >= 1, "blocks of {block}: {got}, {} under way, {free} free", shares.messages());
        }
    }

    #[test]
    fn alone_it_gets_half_and_the_largest_message_always_goes() {
        let mut shares = Shares::new(2048);
        shares.open(flow(1));
        let mut free = CAPACITY;
        assert_eq!(take_all(&mut shares, &mut free, flow(1), 64), 1024);
        for _ in 0..1024 {
            shares.end(flow(1), 64);
        }
        let mut free = CAPACITY;
        assert_eq!(take_all(&mut shares, &mut free, flow(1), CAPACITY), 1);
        shares.end(flow(1), CAPACITY);
        for n in 2..1000 {
            shares.open(flow(n));
        }
        let mut free = CAPACITY;
        assert_eq!(take_all(&mut shares, &mut free, flow(7), CAPACITY), 1);
    }

    #[test]
    fn each_refusal_is_taken_back_once_when_its_flow_may_send() {
        let mut shares = Shares::new(4);
        let room = Room { free: CAPACITY, capacity: CAPACITY };
        let fits = |len: u32| Some(u64::from(len));
        for n in 1..=3 {
            shares.open(flow(n));
        }
        shares.begin(flow(1), 64, 64, room, false).unwrap();
        // Its second would take a place that is set aside for the two others.
        for _ in 0..3 {
            assert_eq!(shares.begin(flow(1), 64, 64, room, false), Err(SendError::WouldBlock));
        }
        assert_eq!(shares.next_writable(room, true, fits), None);
        shares.begin(flow(2), 64, 64, room, false).unwrap();
        assert_eq!(shares.next_writable(room, true, fits), None);
        shares.end(flow(1), 64);
        assert_eq!(shares.next_writable(room, false, fits), Some(Some(flow(1))));
        assert_eq!(shares.next_writable(room, true, fits), Some(Some(flow(1))));
        assert_eq!(shares.next_writable(room, true, fits), None);
        // Who waits for room on a flow that has ended hears of it once, and its messages come back all the same.
        assert_eq!(shares.begin(flow(2), 64, 64, room, false), Err(SendError::WouldBlock));
        shares.ended(flow(2));
        assert!(shares.has_refusals() && shares.freed);
        assert_eq!(shares.next_writable(room, false, fits), Some(Some(flow(2))));
        assert_eq!(shares.next_writable(room, true, fits), Some(Some(flow(2))));
        assert_eq!(shares.next_writable(room, true, fits), None);
        // Who closes it only now is late.
        shares.close(flow(2));
        assert_eq!(shares.begin(flow(2), 64, 64, room, false), Err(SendError::NoSuchFlow));
        shares.end(flow(2), 64);
        assert_eq!(shares.next_writable(room, true, fits), None);
        assert_eq!((shares.messages(), shares.all.idle, shares.flows.len()), (0, 2, 2));
        shares.close(flow(1));
        assert_eq!(shares.begin(flow(1), 64, 64, room, false), Err(SendError::Closing));
        shares.ended(flow(1));
        shares.ended(flow(3));
        assert_eq!((shares.all.idle, shares.flows.len(), shares.has_refusals()), (0, 0, false));
    }

    #[test]
    fn who_waits_for_room_hears_of_the_end_of_its_flow_whatever_it_is() {
        let room = Room { free: CAPACITY, capacity: CAPACITY };
        let full = Room { free: 0, ..room };
        type End = fn(&mut Shares);
        let ends: [End; 4] = [
            |s| s.close(flow(1)),
            |s| s.ended(flow(1)),
            |s| {
                s.close(flow(1));
                s.ended(flow(1));
            },
            |s| s.reset(4),
        ];
        for (n, end) in ends.into_iter().enumerate() {
            let mut shares = Shares::new(4);
            shares.open(flow(1));
            shares.begin(flow(1), 64, 64, room, false).unwrap();
            assert_eq!(shares.begin(flow(1), 64, 64, full, false), Err(SendError::WouldBlock));
            end(&mut shares);
            assert!(shares.has_refusals() && shares.freed, "{n}");
            // Though nothing is free.
            assert_eq!(shares.next_writable(full, true, |_| None), Some(Some(flow(1))), "{n}");
            assert_eq!(shares.next_writable(full, true, |_| None), None, "{n}");
            assert_ne!(shares.begin(flow(1), 64, 64, room, false), Ok(()));
            assert!(!shares.has_refusals(), "{n}");
        }
    }

    /// What was refused last may have been given up since: it must not keep a smaller one from what there is room for.
    #[test]
    fn of_several_refusals_on_a_flow_the_smallest_is_what_room_is_told_for() {
        let mut shares = Shares::new(4);
        shares.open(flow(1));
        let full = Room { free: 0, capacity: 1 << 20 };
        for len in [100, 1 << 20] {
            let refused = shares.begin(flow(1), len, 1 << 20, full, false);
            assert_eq!(refused, Err(SendError::WouldBlock));
        }
        // The rest of the memory is what a peer of another flow does not read.
        let some = Room { free: 1 << 10, capacity: 1 << 20 };
        let fits = |len: u32| (len <= 1 << 10).then_some(128);
        shares.freed = true;
        assert_eq!(shares.next_writable(some, true, fits), Some(Some(flow(1))));
        assert_eq!(shares.next_writable(some, true, fits), None);
        assert!(!shares.has_refusals());
    }

    #[test]
    fn of_several_refusals_without_a_flow_the_smallest_is_what_room_is_told_for() {
        let mut shares = Shares::new(4);
        let room = Room { free: 100, capacity: CAPACITY };
        for len in [100, 1 << 20] {
            shares.refuse(None, len);
        }
        shares.freed = true;
        let fits = |len: u32| (len <= 100).then_some(128);
        assert_eq!(shares.next_writable(room, true, fits), Some(None));
        assert_eq!(shares.next_writable(room, true, fits), None);
    }
}
