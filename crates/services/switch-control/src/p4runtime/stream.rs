//! The stream of one controller: arbitration, packets out, acknowledgements.

use super::arbitration::Session;
use super::device::{Device, Lost, lock};
use super::error::{P4Error, Result, denied, invalid};
use super::message::{
    DigestListAck, DigestListAckError, PacketMetadata, PacketOut, PacketOutError, StreamError,
    StreamErrorDetails, StreamMessageRequest, StreamOtherError, StreamRequest, StreamResponse,
};
use super::outbox::{Outbox, Sent, encode};
use super::value::{bytes, number};
use crate::p4info::index::PacketHeader;
use barewire_switch::control::ErrorKind;
use num_bigint::BigUint;
use prost::Message;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// The next stream's key.
static NEXT_STREAM: AtomicU64 = AtomicU64::new(1);

/// The answers to one controller.
pub type Answers = ReceiverStream<Sent>;

/// Packets and acknowledgements from controllers that may wait for the engines.
const OUTGOING: usize = 1024;
/// How long a stream waits for a place among those. One that waited in vain does not wait again before it had one, so that what
/// comes behind is not held up for longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest packet from a controller: longer than any frame.
pub(super) const MAX_PACKET: usize = 1 << 16;
/// Bytes of a refused message that are sent back with the error.
pub(super) const MAX_ECHO: usize = 2048;
/// How often it is looked for lists of digests whose time is over.
const TICK: Duration = Duration::from_millis(20);

/// What a controller sends to the engines. They may have to be waited for, which no thread that serves connections may.
pub(super) struct Outgoing {
    key: u64,
    session: Session,
    outbox: Outbox,
    what: ToEngines,
    /// Its place among those that wait; none when there was none.
    place: Option<OwnedSemaphorePermit>,
}

enum ToEngines {
    Packet(PacketOut),
    Ack(DigestListAck),
}

#[cfg(test)]
impl Outgoing {
    /// A packet of a stream.
    pub(super) fn packet(
        (key, session, outbox): (u64, &Session, &Outbox),
        packet: PacketOut,
        place: Option<OwnedSemaphorePermit>,
    ) -> Outgoing {
        let (session, outbox) = (session.clone(), outbox.clone());
        Outgoing { key, session, outbox, what: ToEngines::Packet(packet), place }
    }
}

/// The way to the engines, and where it ends, until somebody goes it.
pub(super) struct OutgoingQueue {
    places: Arc<Semaphore>,
    to: SyncSender<Outgoing>,
    from: Mutex<Receiver<Outgoing>>,
}

impl Default for OutgoingQueue {
    fn default() -> Self {
        let (to, from) = sync_channel(OUTGOING);
        OutgoingQueue { places: Arc::new(Semaphore::new(OUTGOING)), to, from: Mutex::new(from) }
    }
}

impl OutgoingQueue {
    /// A place, if there is one.
    pub(super) fn try_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// A place, if there is one soon.
    async fn place(&self, patience: Duration) -> Option<OwnedSemaphorePermit> {
        match self.try_place() {
            None if !patience.is_zero() => {
                let place = Arc::clone(&self.places).acquire_owned();
                tokio::time::timeout(patience, place).await.ok()?.ok()
            }
            place => place,
        }
    }
}

/// Serve a stream until it ends.
pub fn serve(device: Arc<Device>, requests: Streaming<StreamMessageRequest>) -> Answers {
    let (outbox, answers) = Outbox::new();
    tokio::spawn(async move {
        let key = NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
        let mut session = Session::default();
        let ended = converse(&device, key, &mut session, requests, &outbox).await;
        // First out of the list, then the bad news: whoever reads it finds the id free again.
        lock(&device.arbiter).leave(key, &session);
        if let Err(status) = ended {
            outbox.end(status);
        }
    });
    ReceiverStream::new(answers)
}

async fn converse(
    device: &Arc<Device>,
    key: u64,
    session: &mut Session,
    mut requests: Streaming<StreamMessageRequest>,
    outbox: &Outbox,
) -> std::result::Result<(), Status> {
    let mut patience = PATIENCE;
    loop {
        let request = tokio::select! {
            request = requests.message() => request,
            // The controller has gone without closing its side.
            () = outbox.closed() => return Ok(()),
        };
        let Some(request) = request? else { return Ok(()) };
        let what = match request.update {
            None => {
                let details = StreamErrorDetails::Other(StreamOtherError { other: None });
                report(outbox, invalid("the message is empty"), details);
                continue;
            }
            Some(StreamRequest::Arbitration(update)) => {
                let elected = lock(&device.arbiter).update(key, session, &update, outbox)?;
                if let Some(elected) = elected {
                    let for_writes = Arc::clone(device);
                    let _ = tokio::task::spawn_blocking(move || for_writes.wait_for_writes()).await;
                    lock(&device.arbiter).confirm(&elected);
                }
                continue;
            }
            Some(StreamRequest::Packet(packet)) => ToEngines::Packet(packet),
            Some(StreamRequest::DigestAck(ack)) => ToEngines::Ack(ack),
            Some(StreamRequest::Other(other)) => {
                let error = P4Error::new(Code::Unimplemented, "the switch has no messages of its own");
                let other = Some(other).filter(|other| other.encoded_len() <= MAX_ECHO);
                report(outbox, error, StreamErrorDetails::Other(StreamOtherError { other }));
                continue;
            }
        };
        let place = device.outgoing.place(patience).await;
        patience = if place.is_some() { PATIENCE } else { Duration::ZERO };
        let (session, outbox) = (session.clone(), outbox.clone());
        device.take_outgoing(Outgoing { key, session, outbox, what, place });
    }
}

/// Tell a controller of an error, if it reads.
fn report(outbox: &Outbox, error: P4Error, details: StreamErrorDetails) {
    let error = StreamError {
        canonical_code: error.code as i32,
        message: error.message,
        space: String::new(),
        code: error.kind,
        details: Some(details),
    };
    outbox.send_best_effort(encode(StreamResponse::Error(error)));
}

/// As much of a packet as is sent back.
fn echo(mut packet: PacketOut) -> PacketOut {
    packet.payload.truncate(MAX_ECHO);
    let metadata: usize = packet.metadata.iter().map(Message::encoded_len).sum();
    if metadata > MAX_ECHO {
        packet.metadata.clear();
    }
    packet
}

impl ToEngines {
    /// Tell the controller that it was refused.
    fn refuse(self, device: &Device, outbox: &Outbox, error: P4Error) {
        let details = match self {
            ToEngines::Packet(packet) => {
                Lost::count(&device.lost.packets_out);
                StreamErrorDetails::PacketOut(PacketOutError { packet_out: Some(echo(packet)) })
            }
            ToEngines::Ack(ack) => {
                StreamErrorDetails::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) })
            }
        };
        report(outbox, error, details);
    }

    /// What is refused without the engines.
    fn check(&self) -> Result<()> {
        let ToEngines::Packet(packet) = self else { return Ok(()) };
        let len = packet.encoded_len();
        if len <= MAX_PACKET {
            return Ok(());
        }
        Err(invalid(format!("the packet has {len} bytes with its metadata, {MAX_PACKET} are the most")))
    }
}

impl Device {
    fn check_primary(&self, key: u64, session: &Session, what: &ToEngines) -> Result<()> {
        if lock(&self.arbiter).is_primary_stream(key, session) {
            return Ok(());
        }
        Err(match what {
            ToEngines::Packet(_) => denied("only the primary may send packets"),
            ToEngines::Ack(_) => denied("only the primary may acknowledge"),
        })
    }

    /// Pass on what a controller sends, without waiting.
    pub(super) fn take_outgoing(&self, message: Outgoing) {
        let full = || {
            let why = format!("{OUTGOING} packets and acknowledgements wait for the engines already");
            P4Error::new(Code::ResourceExhausted, why)
        };
        let checked = message.what.check();
        let checked = checked.and_then(|()| self.check_primary(message.key, &message.session, &message.what));
        let checked = checked.and_then(|()| message.place.is_some().then_some(()).ok_or_else(full));
        if let Err(error) = checked {
            return message.what.refuse(self, &message.outbox, error);
        }
        if let Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) =
            self.outgoing.to.try_send(message)
        {
            message.what.refuse(self, &message.outbox, full());
        }
    }

    /// Bring to the engines what controllers send, and acknowledge digests whose time is over, until told to stop.
    pub(super) fn run_outgoing(&self, stop: &AtomicBool) {
        let from = lock(&self.outgoing.from);
        let mut looked_us = self.switch.time_us();
        while !stop.load(Ordering::Relaxed) {
            match from.recv_timeout(TICK) {
                Ok(message) => self.send_outgoing(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now_us = self.switch.time_us();
            if u128::from(now_us.saturating_sub(looked_us)) >= TICK.as_micros() {
                looked_us = now_us;
                self.acknowledge_overdue(now_us);
            }
        }
    }

    fn send_outgoing(&self, message: Outgoing) {
        let Outgoing { key, session, outbox, what, place: _place } = message;
        // It may have been deposed while the message waited.
        let done = self.check_primary(key, &session, &what).and_then(|()| match &what {
            ToEngines::Packet(packet) => self.packet_out(packet),
            ToEngines::Ack(ack) => self.digest_ack(*ack),
        });
        if let Err(error) = done {
            what.refuse(self, &outbox, error);
        }
    }

    fn packet_out(&self, packet: &PacketOut) -> Result<()> {
        let current = self.current().ok_or_else(|| {
            P4Error::new(Code::FailedPrecondition, "no forwarding pipeline config has been set")
        })?;
        let none = PacketHeader::default();
        let header = current.pipeline.index.packet_out.as_ref().unwrap_or(&none);
        let mut bytes = header_bytes(header, &packet.metadata)?;
        bytes.extend_from_slice(&packet.payload);
        Ok(self.switch.packet_out(None, bytes)?)
    }

    fn digest_ack(&self, ack: DigestListAck) -> Result<()> {
        let known = self.current().is_some_and(|now| now.pipeline.index.digests.get(ack.digest_id).is_some());
        if !known {
            return Err(invalid(format!("there is no digest {}", ack.digest_id)));
        }
        // A list that is not waited for was acknowledged before, or its time is over.
        let mut acks = lock(&self.acks);
        if let Some(number) = acks.take(ack.digest_id, ack.list_id) {
            acks.acknowledge((number, ack.list_id));
            drop(acks);
            self.acknowledge_overdue(self.switch.time_us());
        }
        Ok(())
    }

    /// Tell the switch of lists that are acknowledged or whose time is over. What it cannot be told now it is told the next time.
    pub(super) fn acknowledge_overdue(&self, now_us: u64) {
        // Lists are of the program that is known, and another one's may have the same numbers.
        let switch = self.current().map_or_else(|| self.switch.clone(), |current| current.switch.clone());
        loop {
            let Some(list) = lock(&self.acks).next_overdue(now_us) else { return };
            match switch.ack_digest(list.0, list.1, None) {
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    lock(&self.acks).put_back(list);
                    return;
                }
                // Refused: the program is another one, which has learned nothing of it.
                _ => {}
            }
        }
    }
}

/// The header in front of a packet from the controller. Each field must be there once.
fn header_bytes(header: &PacketHeader, metadata: &[PacketMetadata]) -> Result<Vec<u8>> {
    let mut values: Vec<Option<BigUint>> = vec![None; header.fields.len()];
    for field in metadata {
        let Some(at) = header.fields.iter().position(|known| known.id == field.metadata_id) else {
            let known: Vec<String> =
                header.fields.iter().map(|f| format!("{} ('{}')", f.id, f.name)).collect();
            let message =
                format!("there is no metadata field {}; fields are {}", field.metadata_id, known.join(", "));
            return Err(invalid(message));
        };
        let place = |error: P4Error| {
            error.at(&format!("metadata field {} ('{}')", field.metadata_id, header.fields[at].name))
        };
        let value =
            number(&field.value, header.fields[at].width).map_err(|error| place(invalid(error.message)))?;
        if values[at].replace(value).is_some() {
            return Err(place(invalid("it is given twice")));
        }
    }
    let mut all = BigUint::ZERO;
    let mut bits = 0;
    for (field, value) in header.fields.iter().zip(values) {
        let missing = || invalid(format!("metadata field {} ('{}') is missing", field.id, field.name));
        all = all << field.width | value.ok_or_else(missing)?;
        bits += field.width as usize;
    }
    if bits == 0 {
        return Ok(Vec::new());
    }
    // Fields stand at the front; what fills the last byte is behind them.
    let raw = (all << (header.bytes * 8 - bits)).to_bytes_be();
    let mut out = vec![0; header.bytes.saturating_sub(raw.len())];
    out.extend_from_slice(&raw);
    Ok(out.split_off(out.len() - header.bytes))
}

/// The fields of the header in front of a packet to the controller; none when the packet is too short.
pub(super) fn header_fields(header: &PacketHeader, packet: &[u8]) -> Option<Vec<PacketMetadata>> {
    let raw = packet.get(..header.bytes)?;
    let all = BigUint::from_bytes_be(raw);
    let mut left = header.bytes as u64 * 8;
    Some(
        header
            .fields
            .iter()
            .map(|field| {
                left -= u64::from(field.width);
                let value = (&all >> left) & super::value::ones(field.width);
                PacketMetadata { metadata_id: field.id, value: bytes(&value) }
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4info::index::ParamIndex;

    fn header(widths: &[u32]) -> PacketHeader {
        let fields: Vec<ParamIndex> = widths
            .iter()
            .zip(1..)
            .map(|(&width, id)| ParamIndex { id, name: format!("f{id}"), width })
            .collect();
        let bits: u32 = widths.iter().sum();
        PacketHeader { fields, bytes: bits.div_ceil(8) as usize }
    }

    fn field(metadata_id: u32, value: &[u8]) -> PacketMetadata {
        PacketMetadata { metadata_id, value: value.to_vec() }
    }

    #[test]
    fn a_header_is_its_fields_bits_in_order() {
        let header = header(&[9, 7, 16]);
        let metadata = [field(2, &[0x55]), field(1, &[1, 0x01]), field(3, &[0xab])];
        let bytes = header_bytes(&header, &metadata).unwrap();
        assert_eq!(bytes, [0x80, 0xd5, 0x00, 0xab]);
        let fields = header_fields(&header, &[0x80, 0xd5, 0x00, 0xab, 0xff]).unwrap();
        assert_eq!(fields, [field(1, &[1, 0x01]), field(2, &[0x55]), field(3, &[0xab])]);
        assert_eq!(header_fields(&header, &[0x80, 0xd5, 0x00]), None);
        for wrong in [
            &metadata[..2],
            &[field(1, &[2, 0]), field(2, &[0]), field(3, &[0])],
            &[field(1, &[0]), field(1, &[0]), field(3, &[0])],
            &[field(7, &[0]), field(2, &[0]), field(3, &[0])],
        ] {
            assert_eq!(header_bytes(&header, wrong).unwrap_err().code, Code::InvalidArgument, "{wrong:?}");
        }
    }

    #[test]
    fn any_header_comes_back_as_it_was_sent() {
        let seed = 21;
        let mut random = barewire_base::Prng::new(seed);
        for _ in 0..2_000 {
            let widths: Vec<u32> = (0..random.below(6)).map(|_| 1 + random.below(70) as u32).collect();
            let header = header(&widths);
            let metadata: Vec<PacketMetadata> = header
                .fields
                .iter()
                .map(|f| {
                    let mut raw = [0; 9];
                    random.fill(&mut raw);
                    field(f.id, &bytes(&(BigUint::from_bytes_be(&raw) & super::super::value::ones(f.width))))
                })
                .collect();
            let bytes = header_bytes(&header, &metadata).unwrap();
            assert_eq!(bytes.len(), header.bytes, "seed {seed}, {widths:?}");
            assert_eq!(header_fields(&header, &bytes).unwrap(), metadata, "seed {seed}, {widths:?}");
        }
    }
}
