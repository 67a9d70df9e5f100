//! What waits for clients: messages as they travel, whose bytes are counted.
//!
//! A client that reads slowly, or not at all, makes what is for it wait in memory. So it waits as bytes, not as messages of many
//! small allocations, and takes its part of a [`Budget`] until it has left.

use super::message::{MasterArbitrationUpdate, StreamMessageResponse, StreamResponse};
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{WireType, decode_key, decode_varint};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::ProstCodec;

/// Messages that may wait for a controller.
pub const QUEUE: usize = 4096;
/// Of these only so many may be packets, digests and notices; the rest is kept for arbitration.
const RESERVED: usize = 64;
/// Bytes of packets, digests and notices that may wait for a controller.
pub const QUEUE_BYTES: usize = 8 << 20;

/// Bytes that may wait, together.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    taken: AtomicUsize,
}

impl Budget {
    /// So many.
    pub fn new(most: usize) -> Arc<Budget> {
        Arc::new(Budget { most, taken: AtomicUsize::new(0) })
    }

    /// How many may wait.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many wait.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// A part of a budget, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// Nothing yet.
    pub fn new(of: &Arc<Budget>) -> Share {
        Share { of: Arc::clone(of), bytes: 0 }
    }

    /// Take so many more. False when there are not that many left.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let sum = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= self.of.most);
        let taken = self.of.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok();
        if taken {
            self.bytes += bytes;
        }
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A message as it travels.
#[derive(Debug)]
pub struct Encoded {
    bytes: Bytes,
    _share: Option<Share>,
}

impl Encoded {
    /// These bytes, which are a part of a budget.
    pub fn new(bytes: impl Into<Bytes>, share: Option<Share>) -> Encoded {
        Encoded { bytes: bytes.into(), _share: share }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Messages that are answered with what is encoded already.
pub(crate) struct Ready<Q> {
    /// How many fields a message may have: empty ones take two bytes on the wire, and hundreds when they are decoded.
    most: usize,
    of: PhantomData<fn() -> Q>,
}

impl<Q> Ready<Q> {
    /// Messages of so many fields, repeated ones counted each.
    pub(crate) fn of_fields(most: usize) -> Ready<Q> {
        Ready { most, of: PhantomData }
    }
}

impl<Q> Default for Ready<Q> {
    fn default() -> Self {
        Ready::of_fields(usize::MAX)
    }
}

/// Decodes messages that do not have too many fields.
pub(crate) struct Checked<D> {
    most: usize,
    decoder: D,
}

impl<D: Decoder<Error = Status>> Decoder for Checked<D> {
    type Item = D::Item;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<D::Item>, Status> {
        if has_more_fields(from.chunk(), self.most) {
            return Err(Status::invalid_argument(format!(
                "the message has more than {} elements: ask for less in one",
                self.most
            )));
        }
        self.decoder.decode(from)
    }
}

/// Whether a message has more than so many fields. Of what is no message it says nothing: decoding does.
fn has_more_fields(mut bytes: &[u8], most: usize) -> bool {
    if bytes.len() <= most {
        return false;
    }
    let mut fields = 0;
    while let Ok((_, kind)) = decode_key(&mut bytes) {
        fields += 1;
        if fields > most {
            return true;
        }
        let skipped = match kind {
            WireType::Varint => decode_varint(&mut bytes).map(|_| 0),
            WireType::SixtyFourBit => Ok(8),
            WireType::ThirtyTwoBit => Ok(4),
            WireType::LengthDelimited => decode_varint(&mut bytes),
            WireType::StartGroup | WireType::EndGroup => return false,
        };
        let rest = skipped.ok().and_then(|len| usize::try_from(len).ok()).and_then(|len| bytes.get(len..));
        match rest {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    false
}

/// Copies bytes.
pub(crate) struct Copy;

impl<Q: Message + Default + Send + 'static> Codec for Ready<Q> {
    type Encode = Encoded;
    type Decode = Q;
    type Encoder = Copy;
    type Decoder = Checked<<ProstCodec<Q, Q> as Codec>::Decoder>;

    fn encoder(&mut self) -> Copy {
        Copy
    }

    fn decoder(&mut self) -> Self::Decoder {
        Checked { most: self.most, decoder: ProstCodec::<Q, Q>::default().decoder() }
    }
}

impl Encoder for Copy {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, item: Encoded, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.reserve(item.bytes.len());
        to.put_slice(&item.bytes);
        Ok(())
    }
}

/// What is sent to a controller.
pub type Sent = Result<Encoded, Status>;

/// The way to one controller.
#[derive(Debug, Clone)]
pub struct Outbox {
    to: mpsc::Sender<Sent>,
    budget: Arc<Budget>,
}

/// Bytes of a message to controllers, for as many of them as there are.
pub fn encode(update: StreamResponse) -> Bytes {
    StreamMessageResponse { update: Some(update) }.encode_to_vec().into()
}

impl Outbox {
    /// A way, and where it ends.
    pub fn new() -> (Outbox, mpsc::Receiver<Sent>) {
        let (to, inbox) = mpsc::channel(QUEUE);
        (Outbox { to, budget: Budget::new(QUEUE_BYTES) }, inbox)
    }

    /// Send what may be lost. False when the controller reads too slowly, or is gone.
    pub fn send_best_effort(&self, bytes: Bytes) -> bool {
        let mut share = Share::new(&self.budget);
        self.to.capacity() > RESERVED
            && share.grow(bytes.len())
            && self.to.try_send(Ok(Encoded::new(bytes, Some(share)))).is_ok()
    }

    /// Tell who is primary. A controller that lets even the reserved places fill up does not hear of it.
    pub fn tell(&self, update: MasterArbitrationUpdate) {
        let _ = self.to.try_send(Ok(Encoded::new(encode(StreamResponse::Arbitration(update)), None)));
    }

    /// The stream ends, and why.
    pub fn end(&self, status: Status) {
        let _ = self.to.try_send(Err(status));
    }

    /// Wait until the controller is gone.
    pub async fn closed(&self) {
        self.to.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::PacketIn;
    use super::*;

    #[test]
    fn what_waits_for_a_controller_is_bounded_in_bytes() {
        let (outbox, mut inbox) = Outbox::new();
        let packet =
            |len| encode(StreamResponse::Packet(PacketIn { payload: vec![7; len], metadata: vec![] }));
        let large = packet(1 << 20);
        let most = QUEUE_BYTES / large.len();
        for at in 0..most {
            assert!(outbox.send_best_effort(large.clone()), "{at}");
        }
        assert!(!outbox.send_best_effort(large.clone()) && outbox.budget.taken() <= QUEUE_BYTES);
        assert!(!outbox.send_best_effort(packet(QUEUE_BYTES)));
        // Who is primary is told all the same.
        outbox.tell(MasterArbitrationUpdate::default());
        // One that has left makes room for another, and nothing is counted that does not wait.
        drop(inbox.try_recv().unwrap());
        assert!(outbox.send_best_effort(large.clone()) && !outbox.send_best_effort(large));
        drop(inbox);
        assert_eq!(outbox.budget.taken(), 0);
        assert!(!outbox.send_best_effort(packet(1)));
        assert_eq!(outbox.budget.taken(), 0);
    }

    #[test]
    fn fields_are_counted_before_they_are_decoded() {
        // Empty ones, as cheap as they come.
        let empty = [0x1a, 0].repeat(100);
        assert!(has_more_fields(&empty, 99) && !has_more_fields(&empty, 100));
        let all_kinds = [
            &[0x08, 0xac, 0x02][..],
            &[0x11, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1d, 1, 2, 3, 4],
            &[0x22, 3, 0x1a, 0, 0x1a],
        ]
        .concat();
        assert!(has_more_fields(&all_kinds, 3) && !has_more_fields(&all_kinds, 4));
        // What is no message is left to who decodes it.
        for wrong in [&[0x1a, 0x7f, 0, 0][..], &[0x0b, 0x0c, 0x0b], &[0xff; 30], &[0x1a, 0xff, 0xff]] {
            assert!(!has_more_fields(wrong, 1));
        }
    }

    #[test]
    fn a_budget_is_shared() {
        let budget = Budget::new(10);
        let (mut a, mut b) = (Share::new(&budget), Share::new(&budget));
        assert!(a.grow(6) && b.grow(4) && !b.grow(1) && !a.grow(usize::MAX));
        assert_eq!(budget.taken(), 10);
        drop(a);
        assert!(b.grow(6) && !b.grow(1));
        drop(b);
        assert_eq!((budget.taken(), budget.most()), (0, 10));
    }
}
