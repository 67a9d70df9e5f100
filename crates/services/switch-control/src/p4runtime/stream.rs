//! The stream of one controller: arbitration, packets out, acknowledgements.

use super::arbitration::{Notices, Outbox, QUEUE, Session, send_best_effort};
use super::device::{Device, Lost, lock};
use super::error::{P4Error, Result, denied, invalid};
use super::message::{
    DigestListAck, DigestListAckError, PacketMetadata, PacketOut, PacketOutError, StreamError,
    StreamErrorDetails, StreamMessageRequest, StreamMessageResponse, StreamOtherError, StreamRequest,
    StreamResponse,
};
use super::value::{bytes, number};
use crate::p4info::index::PacketHeader;
use num_bigint::BigUint;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// Digest lists that wait for their acknowledgement: the switch's number of the digest, and when waiting ends
/// (microseconds of the switch's clock), by P4Info's id and the list's number.
#[derive(Debug, Default)]
pub struct Acks {
    waiting: HashMap<(u32, u64), (u32, u64)>,
}

/// Lists that may wait; what comes on top is taken as acknowledged.
const MAX_WAITING: usize = 65_536;

impl Acks {
    /// A list was sent. False when it cannot wait.
    pub fn wait(&mut self, digest: u32, list: u64, number: u32, until_us: u64) -> bool {
        self.waiting.len() < MAX_WAITING && self.waiting.insert((digest, list), (number, until_us)).is_none()
    }

    /// A list was acknowledged: the switch's number of its digest.
    pub fn take(&mut self, digest: u32, list: u64) -> Option<u32> {
        self.waiting.remove(&(digest, list)).map(|(number, _)| number)
    }

    /// Lists whose time is over: number, list.
    pub fn expired(&mut self, now_us: u64) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        self.waiting.retain(|(_, list), (number, until_us)| {
            let over = *until_us <= now_us;
            if over {
                out.push((*number, *list));
            }
            !over
        });
        out
    }
}

/// The next stream's key.
static NEXT_STREAM: AtomicU64 = AtomicU64::new(1);

/// The answers to one controller.
pub type Answers = ReceiverStream<std::result::Result<StreamMessageResponse, Status>>;

/// Serve a stream until it ends.
pub fn serve(device: Arc<Device>, requests: Streaming<StreamMessageRequest>) -> Answers {
    let (outbox, answers) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let key = NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
        let mut session = Session::default();
        let ended = converse(&device, key, &mut session, requests, &outbox).await;
        // First out of the list, then the bad news: whoever reads it finds the id free again.
        let notices = lock(&device.arbiter).leave(key, &session);
        tell(&device, notices).await;
        if let Err(status) = ended {
            let _ = outbox.try_send(Err(status));
        }
    });
    ReceiverStream::new(answers)
}

/// Tell controllers of a change; the new primary after the old one's writes.
async fn tell(device: &Arc<Device>, mut notices: Notices) {
    notices.send_now();
    if notices.after_writes.is_some() {
        let device = Arc::clone(device);
        let _ = tokio::task::spawn_blocking(move || device.wait_for_writes()).await;
        notices.send_after_writes();
    }
}

async fn converse(
    device: &Arc<Device>,
    key: u64,
    session: &mut Session,
    mut requests: Streaming<StreamMessageRequest>,
    outbox: &Outbox,
) -> std::result::Result<(), Status> {
    loop {
        let request = tokio::select! {
            request = requests.message() => request,
            // The controller has gone without closing its side.
            () = outbox.closed() => return Ok(()),
        };
        let Some(request) = request? else { return Ok(()) };
        let (error, details) = match request.update {
            None => {
                (invalid("the message is empty"), StreamErrorDetails::Other(StreamOtherError { other: None }))
            }
            Some(StreamRequest::Arbitration(update)) => {
                let notices = lock(&device.arbiter).update(key, session, &update, outbox)?;
                tell(device, notices).await;
                continue;
            }
            Some(StreamRequest::Packet(packet)) => {
                let primary = lock(&device.arbiter).is_primary_stream(key, session);
                let sent = if primary {
                    device.packet_out(&packet)
                } else {
                    Err(denied("only the primary may send packets"))
                };
                let Err(error) = sent else { continue };
                Lost::count(&device.lost.packets_out);
                (error, StreamErrorDetails::PacketOut(PacketOutError { packet_out: Some(packet) }))
            }
            Some(StreamRequest::DigestAck(ack)) => {
                let primary = lock(&device.arbiter).is_primary_stream(key, session);
                let done = if primary {
                    device.digest_ack(ack)
                } else {
                    Err(denied("only the primary may acknowledge"))
                };
                let Err(error) = done else { continue };
                (error, StreamErrorDetails::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) }))
            }
            Some(StreamRequest::Other(other)) => (
                P4Error::new(Code::Unimplemented, "the switch has no messages of its own"),
                StreamErrorDetails::Other(StreamOtherError { other: Some(other) }),
            ),
        };
        let error = StreamError {
            canonical_code: error.code as i32,
            message: error.message,
            space: String::new(),
            code: error.kind,
            details: Some(details),
        };
        send_best_effort(outbox, StreamResponse::Error(error));
    }
}

impl Device {
    fn packet_out(&self, packet: &PacketOut) -> Result<()> {
        let pipeline = self.pipeline().ok_or_else(|| {
            P4Error::new(Code::FailedPrecondition, "no forwarding pipeline config has been set")
        })?;
        let none = PacketHeader::default();
        let header = pipeline.index.packet_out.as_ref().unwrap_or(&none);
        let mut bytes = header_bytes(header, &packet.metadata)?;
        bytes.extend_from_slice(&packet.payload);
        Ok(self.switch.packet_out(None, bytes)?)
    }

    fn digest_ack(&self, ack: DigestListAck) -> Result<()> {
        let known =
            self.pipeline().is_some_and(|pipeline| pipeline.index.digests.get(ack.digest_id).is_some());
        if !known {
            return Err(invalid(format!("there is no digest {}", ack.digest_id)));
        }
        // A list that is not waited for was acknowledged before, or its time is over.
        match lock(&self.acks).take(ack.digest_id, ack.list_id) {
            Some(number) => Ok(self.switch.ack_digest(number, ack.list_id, None)?),
            None => Ok(()),
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

    #[test]
    fn lists_wait_until_their_time_is_over() {
        let mut acks = Acks::default();
        assert!(acks.wait(1, 10, 3, 100));
        assert!(acks.wait(1, 11, 3, 200));
        assert_eq!(acks.take(1, 12), None);
        assert_eq!(acks.expired(150), [(3, 10)]);
        assert_eq!(acks.take(1, 11), Some(3));
        assert!(acks.expired(1_000).is_empty());
    }
}
