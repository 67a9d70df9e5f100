//! Each application's channel, quota and books.

use crate::users::UserShare;
use barewire_channel::{Completion, DaemonChannel, Request};
use barewire_transport::buddy::{BLOCK_MIN, Buddy};
use barewire_transport::{FlowId, LATER_LEAVES, Memory, RecvBuf, SendBuf, Turn};
use std::collections::VecDeque;

/// Completions that a flow may cause besides those of its messages: connecting, connected or accepted, closed; and who the peer is,
/// where flows may be encrypted.
const COMPLETIONS_PER_FLOW: usize = 3;
/// One in so many places in the table of messages is left even by those that others wait for.
const RESERVE: u32 = 8;
/// Fewest entries of a ring of completions that can be shared out as below.
pub(crate) const COMPLETIONS_MIN: u32 = 16;

/// One application.
///
/// Every completion that is sure to come is promised room in the ring beforehand. Half of the ring is for flows, a quarter for
/// messages being sent; what is left is for messages received, so that two applications which both send without end never
/// wait for each other's room.
pub(crate) struct Application {
    pub name: String,
    pub channel: DaemonChannel,
    /// Who has which part of the receive memory. The application's own view of it is never consulted.
    books: Buddy,
    /// For each block of the receive memory that the application holds, by first unit: the flow that the message came on,
    /// and its length plus one.
    held: Vec<[u64; 2]>,
    /// Completions that are sure to come and must find room.
    promised: usize,
    /// Its flows and listeners, which count for its user.
    pub share: UserShare,
    flows_max: u32,
    /// Messages in its receive memory, whole or not.
    received: u32,
    /// Messages being sent.
    sending: u32,
    sending_max: u32,
    /// Sends, and closes behind them, that wait for room in the endpoint's tables or for acknowledgements. Requests behind
    /// them go on: what the application releases may be what its peer waits for.
    pub waiting: VecDeque<Request>,
    /// A request that has to wait, and those behind it, in order. What gives room back passes them: they may wait for just
    /// that.
    pub stalled: VecDeque<Request>,
    /// It broke a rule that its library keeps; it is to go.
    pub condemned: bool,
}

impl Application {
    pub(crate) fn new(name: String, channel: DaemonChannel, share: UserShare) -> Application {
        let geometry = channel.geometry();
        let waiting = geometry.cq_entries as usize / 2;
        Application {
            name,
            books: Buddy::new(geometry.recv_bytes as usize),
            held: vec![[0; 2]; (geometry.recv_bytes / BLOCK_MIN) as usize],
            channel,
            promised: 0,
            share,
            flows_max: geometry.cq_entries / 2,
            received: 0,
            sending: 0,
            // What the library keeps to as well, so that its sends are refused there and not held up here.
            sending_max: geometry.sends_max(),
            waiting: VecDeque::with_capacity(waiting),
            stalled: VecDeque::with_capacity(waiting),
            condemned: false,
        }
    }

    /// Promises `n` completions, if there is room for them beside all promised before.
    #[inline]
    pub(crate) fn promise(&mut self, n: usize) -> bool {
        let fits = self.channel.cq_has_room(self.promised + n);
        if fits {
            self.promised += n;
        }
        fits
    }

    /// Promises `n` completions, if there is room for them and for `left` more.
    #[inline]
    pub(crate) fn promise_leaving(&mut self, n: usize, left: usize) -> bool {
        let fits = self.promise(n + left);
        if fits {
            self.promised -= left;
        }
        fits
    }

    /// Entries of the ring that are for flows and for messages being sent, and not taken by these now.
    fn not_for_received(&self) -> usize {
        let entries = self.channel.geometry().cq_entries as usize;
        (entries - entries / 4).saturating_sub((self.share.flows() + self.sending) as usize)
    }

    /// Writes a completion that was promised.
    #[inline]
    pub(crate) fn keep_promise(&mut self, completion: &Completion) {
        self.promised = self.promised.saturating_sub(1);
        if !self.channel.complete(completion) {
            // Room was promised, so the application has scribbled over its ring.
            self.condemned = true;
        }
    }

    /// Promised completions that will not come after all.
    pub(crate) fn forget_promises(&mut self, n: usize) {
        self.promised = self.promised.saturating_sub(n);
    }

    /// Completions that are sure to come.
    pub(crate) fn promised(&self) -> usize {
        self.promised
    }

    /// Whether it has as many flows as its ring of completions can serve, or its user as many as one may have.
    pub(crate) fn has_all_flows(&self) -> bool {
        self.share.flows() >= self.flows_max || !self.share.may_open()
    }

    /// Puts a request among the waiting. False when too many wait.
    pub(crate) fn wait(&mut self, request: Request) -> bool {
        let fits = self.waiting.len() < self.waiting.capacity();
        if fits {
            self.waiting.push_back(request);
        }
        fits
    }

    /// Whether no more requests can be put behind one that is stalled.
    pub(crate) fn is_stalled_full(&self) -> bool {
        self.stalled.len() == self.stalled.capacity()
    }

    /// Notes that the application now holds a received message.
    #[inline]
    pub(crate) fn note_held(&mut self, flow: FlowId, buf: RecvBuf) {
        let Some(held) = self.held.get_mut((buf.offset / BLOCK_MIN) as usize) else {
            // No message of this application's: whatever went wrong is not to take the engine along.
            debug_assert!(false, "a message beyond the receive memory");
            self.condemned = true;
            return;
        };
        *held = [flow.to_raw(), u64::from(buf.len) + 1];
    }

    /// Takes a message back from the application, if it holds that very one. Says on which flow it came: credit goes where
    /// it came from, whatever the application claims.
    #[inline]
    pub(crate) fn take_back(&mut self, offset: u32, len: u32) -> Option<FlowId> {
        let held = self.held.get_mut((offset / BLOCK_MIN) as usize)?;
        let [flow, len_plus_one] = *held;
        if !offset.is_multiple_of(BLOCK_MIN) || len_plus_one != u64::from(len) + 1 {
            return None;
        }
        *held = [0; 2];
        // `Memory::free` will take a promise back: this message's own was kept when it was handed over.
        self.promised += 1;
        Some(FlowId::from_raw(flow))
    }

    /// Whether a message to send lies in the application's send memory.
    #[inline]
    pub(crate) fn is_in_send_memory(&self, offset: u32, len: u32) -> bool {
        u64::from(offset) + u64::from(len) <= u64::from(self.channel.geometry().send_bytes)
    }

    /// Bytes of receive memory in use.
    pub(crate) fn recv_used(&self) -> u64 {
        self.books.capacity() - self.books.available()
    }
}

/// The applications of one engine, by number.
///
/// The endpoint's tables of messages are shared. An application may add to one while it has less in it than is free: one
/// that takes all it can get leaves half, two leave a third, and whoever has nothing in it always finds room.
pub(crate) struct Applications {
    slots: Vec<Option<Box<Application>>>,
    /// One past the highest number in use.
    used: usize,
    /// Messages in all receive memories, and places for them in the endpoint's table.
    received: u32,
    received_max: u32,
    /// Messages being sent, and places for them.
    sending: u32,
    sending_max: u32,
    /// Completions that are promised for a flow before it is there.
    per_flow: usize,
}

impl Applications {
    /// Completions that a flow may cause besides those of its messages.
    pub(crate) fn per_flow(&self) -> usize {
        self.per_flow
    }

    /// Room for `max` applications, on an endpoint with these limits.
    pub(crate) fn new(max: usize, limits: &barewire_transport::Config) -> Applications {
        Applications {
            slots: (0..max).map(|_| None).collect(),
            used: 0,
            received: 0,
            received_max: limits.recv_messages_max,
            sending: 0,
            sending_max: limits.send_messages_max,
            per_flow: COMPLETIONS_PER_FLOW + usize::from(limits.security.is_some()),
        }
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Application> {
        self.slots.get_mut(number as usize)?.as_deref_mut()
    }

    pub(crate) fn put(&mut self, number: u32, application: Box<Application>) {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            *slot = Some(application);
            self.used = self.used.max(number as usize + 1);
        }
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Box<Application>> {
        let gone = self.slots.get_mut(number as usize)?.take()?;
        self.received -= gone.received;
        self.sending -= gone.sending;
        while self.used > 0 && self.slots[self.used - 1].is_none() {
            self.used -= 1;
        }
        Some(gone)
    }

    /// One past the highest number in use.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Application)> {
        let slots = self.slots[..self.used].iter_mut();
        slots.enumerate().filter_map(|(i, a)| Some((i as u32, a.as_deref_mut()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Application)> {
        let slots = self.slots[..self.used].iter();
        slots.enumerate().filter_map(|(i, a)| Some((i as u32, a.as_deref()?)))
    }

    /// Takes a place and a promise for a message that an application sends. False when it has to wait.
    #[inline]
    pub(crate) fn begin_send(&mut self, number: u32) -> bool {
        let free = self.sending_max - self.sending;
        let Some(a) = self.get(number) else {
            return false;
        };
        if a.sending >= free || a.sending >= a.sending_max || !a.promise(1) {
            return false;
        }
        a.sending += 1;
        self.sending += 1;
        true
    }

    /// A message is sent, or was refused: its place is free. The promise is the caller's to keep or to forget.
    #[inline]
    pub(crate) fn end_send(&mut self, number: u32) {
        if let Some(a) = self.get(number) {
            a.sending -= 1;
            self.sending -= 1;
        }
    }
}

impl Memory for Applications {
    #[inline]
    fn read(&mut self, buf: SendBuf, offset: u32, out: &mut [u8]) -> bool {
        match self.get(buf.owner) {
            Some(a) => a.channel.send_memory().read((buf.offset + offset) as usize, out),
            None => false,
        }
    }

    #[inline]
    fn alloc(&mut self, owner: u32, len: u32, turn: Turn) -> Option<RecvBuf> {
        let (free, max) = (self.received_max - self.received, self.received_max);
        let a = self.get(owner)?;
        let (has_place, left) = match turn {
            Turn::Next => (a.received < free, 0),
            // Others may have grown since those that wait for it came; without it their places are never free again.
            Turn::Awaited => (a.received < free || free > max / RESERVE, 0),
            // What it waits for has to find a place and a completion, whatever the application sends meanwhile.
            Turn::Later { .. } => {
                let places = (max / 2 / LATER_LEAVES).max(1);
                (a.received + places < free.saturating_sub(places), 1 + a.not_for_received())
            }
        };
        if a.condemned || !has_place || !a.promise_leaving(1, left) {
            return None;
        }
        match a.books.alloc_sparing(len, turn.spare()) {
            Some(offset) => {
                a.received += 1;
                self.received += 1;
                Some(RecvBuf { owner, offset, len })
            }
            None => {
                a.forget_promises(1);
                None
            }
        }
    }

    #[inline]
    fn write(&mut self, buf: RecvBuf, offset: u32, bytes: &[u8]) {
        if let Some(a) = self.get(buf.owner) {
            // In bounds: the offset came from the books, and the transport writes within the message's length.
            let _ = a.channel.recv_memory().write((buf.offset + offset) as usize, bytes);
        }
    }

    #[inline]
    fn free(&mut self, buf: RecvBuf) {
        if let Some(a) = self.get(buf.owner)
            && a.books.free(buf.offset)
        {
            a.forget_promises(1);
            a.received -= 1;
            self.received -= 1;
        }
    }

    fn message_max(&self, owner: u32) -> u32 {
        let a = self.slots.get(owner as usize).and_then(Option::as_deref);
        a.map_or(u32::MAX, |a| a.books.largest())
    }

    fn flow_room(&self, owner: u32) -> u32 {
        let a = self.slots.get(owner as usize).and_then(Option::as_deref);
        // An eighth is for flows that the application, or another of its user, opens itself.
        a.map_or(0, |a| (a.flows_max - a.flows_max / 8).saturating_sub(a.share.flows()).min(a.share.room()))
    }

    fn admit_flow(&mut self, owner: u32) -> bool {
        let per_flow = self.per_flow;
        let Some(a) = self.get(owner) else {
            return false;
        };
        let admitted = !a.condemned && !a.has_all_flows() && a.promise(per_flow);
        if admitted {
            a.share.open();
        }
        admitted
    }

    fn forget_flow(&mut self, owner: u32) {
        let per_flow = self.per_flow;
        if let Some(a) = self.get(owner) {
            a.share.close();
            a.forget_promises(per_flow);
        }
    }
}
