//! Where message bytes live: the one thing the transport asks of its surroundings.
//!
//! The transport never owns message bytes. It copies a segment out of the sender's memory straight into a frame, and out
//! of a frame straight into the receiver's memory. In an embedded endpoint both are a [`HeapMemory`]; in the daemon they
//! are the shared memory of each application's channel.

use crate::buddy::Buddy;

/// A message to send: a piece of its owner's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendBuf {
    /// Whose memory: the application's number.
    pub owner: u32,
    /// Where it starts in that memory.
    pub offset: u32,
    /// Its length in bytes.
    pub len: u32,
}

/// Room for a received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecvBuf {
    /// Whose memory: the application's number.
    pub owner: u32,
    /// Where it starts in that memory.
    pub offset: u32,
    /// The message's length in bytes.
    pub len: u32,
}

/// What room is asked for, as seen from its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// For a message that is handed over when it is whole.
    Next,
    /// For such a one, on which others that are here wait.
    Awaited,
    /// For one that cannot be handed over before another, or whose host let memory lie: it has to leave a block of `spare` bytes,
    /// and one part in [`LATER_LEAVES`](crate::LATER_LEAVES) of all else, to those that can.
    Later {
        /// Bytes.
        spare: u32,
    },
}

impl Turn {
    /// Bytes to leave in one block.
    pub fn spare(self) -> u32 {
        if let Turn::Later { spare } = self { spare } else { 0 }
    }
}

/// Message memory.
pub trait Memory {
    /// Copies `out.len()` bytes of `buf`, from `offset` within it, into `out`. False when the owner is gone.
    fn read(&mut self, buf: SendBuf, offset: u32, out: &mut [u8]) -> bool;
    /// Room for a message of `len` bytes for `owner`; `None` when its quota is used up, which holds up that owner's
    /// senders and nobody else. `turn` says what has to be left to others.
    fn alloc(&mut self, owner: u32, len: u32, turn: Turn) -> Option<RecvBuf>;
    /// Copies `bytes` to `offset` within `buf`.
    fn write(&mut self, buf: RecvBuf, offset: u32, bytes: &[u8]);
    /// Takes back room that no application will see.
    fn free(&mut self, buf: RecvBuf);
    /// Longest message that `owner` can ever take, in bytes, however empty its memory is. A longer one ends its flow with
    /// [`CloseReason::MessageTooLarge`](crate::CloseReason::MessageTooLarge): to wait for room would be to wait for ever.
    fn message_max(&self, owner: u32) -> u32 {
        let _ = owner;
        u32::MAX
    }
    /// Flows that `owner` can take besides those it has.
    fn flow_room(&self, owner: u32) -> u32 {
        let _ = owner;
        u32::MAX
    }
    /// Whether `owner` can take another flow (its event ring has room for what a flow may say).
    fn admit_flow(&mut self, owner: u32) -> bool {
        let _ = owner;
        true
    }
    /// An admitted flow ended before `owner` heard of it.
    fn forget_flow(&mut self, owner: u32) {
        let _ = owner;
    }
}

/// Message memory on the heap, for an endpoint embedded in its application: one region to send from, one to receive
/// into, allocated once.
pub struct HeapMemory {
    send: Vec<u8>,
    send_books: Buddy,
    recv: Vec<u8>,
    recv_books: Buddy,
}

impl HeapMemory {
    /// Regions of the given sizes in bytes. Pages are touched when first used.
    pub fn new(send_len: usize, recv_len: usize) -> HeapMemory {
        HeapMemory {
            send: vec![0; send_len],
            send_books: Buddy::new(send_len),
            recv: vec![0; recv_len],
            recv_books: Buddy::new(recv_len),
        }
    }

    /// Room for a message to send.
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Option<SendBuf> {
        Some(SendBuf { owner: 0, offset: self.send_books.alloc(len)?, len })
    }

    /// The bytes of a reserved message, to build it in place.
    #[inline]
    pub fn send_bytes(&mut self, buf: SendBuf) -> &mut [u8] {
        &mut self.send[buf.offset as usize..][..buf.len as usize]
    }

    /// Gives a sent (or abandoned) message's room back.
    #[inline]
    pub fn release_send(&mut self, buf: SendBuf) -> bool {
        self.send_books.free(buf.offset)
    }

    /// Longest message that can ever be sent, in bytes, however empty the memory is.
    pub fn send_max(&self) -> u32 {
        self.send_books.largest()
    }

    /// Bytes to send from, free or not.
    pub fn send_capacity(&self) -> u64 {
        self.send_books.capacity()
    }

    /// Bytes of the block that a reserved message occupies; 0 when there is none.
    #[inline]
    pub fn send_block_len(&self, offset: u32) -> u64 {
        self.send_books.block_len(offset).map_or(0, u64::from)
    }

    /// The bytes of a received message.
    #[inline]
    pub fn recv_bytes(&self, buf: RecvBuf) -> &[u8] {
        &self.recv[buf.offset as usize..][..buf.len as usize]
    }

    /// Copies a received message into a reserved one of at least its length: the echo's shortest way.
    #[inline]
    pub fn copy_to_send(&mut self, from: RecvBuf, to: SendBuf) {
        let len = from.len.min(to.len) as usize;
        self.send[to.offset as usize..][..len].copy_from_slice(&self.recv[from.offset as usize..][..len]);
    }

    /// Free bytes to send from and to receive into.
    pub fn available(&self) -> (u64, u64) {
        (self.send_books.available(), self.recv_books.available())
    }
}

impl Memory for HeapMemory {
    #[inline]
    fn read(&mut self, buf: SendBuf, offset: u32, out: &mut [u8]) -> bool {
        out.copy_from_slice(&self.send[(buf.offset + offset) as usize..][..out.len()]);
        true
    }

    #[inline]
    fn alloc(&mut self, owner: u32, len: u32, turn: Turn) -> Option<RecvBuf> {
        Some(RecvBuf { owner, offset: self.recv_books.alloc_sparing(len, turn.spare())?, len })
    }

    #[inline]
    fn write(&mut self, buf: RecvBuf, offset: u32, bytes: &[u8]) {
        self.recv[(buf.offset + offset) as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn free(&mut self, buf: RecvBuf) {
        self.recv_books.free(buf.offset);
    }

    fn message_max(&self, _owner: u32) -> u32 {
        self.recv_books.largest()
    }
}
