//! Each application's channel, quota and books.

use barewire_channel::{Completion, DaemonChannel};
use barewire_transport::buddy::{BLOCK_MIN, Buddy};
use barewire_transport::{Memory, RecvBuf, SendBuf};

/// Completions that a flow may cause besides those of its messages: connecting, connected or accepted, closed.
pub(crate) const COMPLETIONS_PER_FLOW: usize = 3;

/// One application.
pub(crate) struct Application {
    pub name: String,
    pub channel: DaemonChannel,
    /// Who has which part of the receive memory. The application's own view of it is never consulted.
    books: Buddy,
    /// For each block of the receive memory that the application holds: length of the message plus one, by first unit.
    held: Vec<u32>,
    /// Completions that are sure to come and must find room.
    promised: usize,
    pub flows: u32,
    /// A request that has to wait: for room among the completions, or in the endpoint's tables.
    pub stalled: Option<barewire_channel::Request>,
    /// It broke a rule that its library keeps; it is to go.
    pub condemned: bool,
    pub messages_in: u64,
    pub messages_out: u64,
}

impl Application {
    pub(crate) fn new(name: String, channel: DaemonChannel) -> Application {
        let bytes = channel.geometry().recv_bytes;
        Application {
            name,
            books: Buddy::new(bytes as usize),
            held: vec![0; (bytes / BLOCK_MIN) as usize],
            channel,
            promised: 0,
            flows: 0,
            stalled: None,
            condemned: false,
            messages_in: 0,
            messages_out: 0,
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

    /// Notes that the application now holds a received message.
    #[inline]
    pub(crate) fn hand_over(&mut self, buf: RecvBuf) {
        self.held[(buf.offset / BLOCK_MIN) as usize] = buf.len + 1;
        self.messages_in += 1;
    }

    /// Takes a message back from the application, if it holds that very one.
    #[inline]
    pub(crate) fn take_back(&mut self, offset: u32, len: u32) -> bool {
        let Some(held) = self.held.get_mut((offset / BLOCK_MIN) as usize) else {
            return false;
        };
        let holds = offset.is_multiple_of(BLOCK_MIN) && *held == len.wrapping_add(1) && *held != 0;
        if holds {
            *held = 0;
            // `Memory::free` will take a promise back: this message's own was kept when it was handed over.
            self.promised += 1;
        }
        holds
    }

    /// Whether a message to send lies in the application's send memory.
    #[inline]
    pub(crate) fn owns_send(&self, offset: u32, len: u32) -> bool {
        u64::from(offset) + u64::from(len) <= u64::from(self.channel.geometry().send_bytes)
    }

    /// Bytes of receive memory in use.
    pub(crate) fn recv_used(&self) -> u64 {
        self.books.capacity() - self.books.available()
    }
}

/// The applications of one engine, by number.
pub(crate) struct Applications {
    slots: Vec<Option<Application>>,
}

impl Applications {
    pub(crate) fn new(max: usize) -> Applications {
        Applications { slots: (0..max).map(|_| None).collect() }
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Application> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn put(&mut self, number: u32, application: Application) {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            *slot = Some(application);
        }
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Application> {
        self.slots.get_mut(number as usize)?.take()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Application)> {
        self.slots.iter_mut().enumerate().filter_map(|(i, a)| Some((i as u32, a.as_mut()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Application)> {
        self.slots.iter().enumerate().filter_map(|(i, a)| Some((i as u32, a.as_ref()?)))
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
    fn alloc(&mut self, owner: u32, len: u32) -> Option<RecvBuf> {
        let a = self.get(owner)?;
        if a.condemned || !a.promise(1) {
            return None;
        }
        match a.books.alloc(len) {
            Some(offset) => Some(RecvBuf { owner, offset, len }),
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
        }
    }

    fn admit_flow(&mut self, owner: u32) -> bool {
        let Some(a) = self.get(owner) else {
            return false;
        };
        let admitted = !a.condemned && a.promise(COMPLETIONS_PER_FLOW);
        a.flows += u32::from(admitted);
        admitted
    }

    fn forget_flow(&mut self, owner: u32) {
        if let Some(a) = self.get(owner) {
            a.flows = a.flows.saturating_sub(1);
            a.forget_promises(COMPLETIONS_PER_FLOW);
        }
    }
}
