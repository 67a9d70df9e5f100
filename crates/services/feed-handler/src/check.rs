//! Captures read message by message, without channels or books: is every byte understood?

use crate::SourceError;
use barewire_base::DropReason;
use barewire_port::PcapReader;
use barewire_sbe::layout::Schema;
use barewire_sbe::{Message, Packet, dynamic};
use barewire_wire::{EtherType, Protocol, ipv4, ipv6, udp, vlan};
use std::path::Path;

const LINK_ETHERNET: u32 = 1;

/// One thing that was found in a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found<'a> {
    /// A message that was decoded to its last byte.
    Message {
        /// The frame's number in the file, from 1.
        frame: u64,
        /// When it was captured, in nanoseconds since 1970.
        stamp_ns: u64,
        /// The packet's MsgSeqNum.
        seq_num: u32,
        /// The packet's SendingTime, in nanoseconds since 1970.
        sending_time_ns: u64,
        /// The message.
        message: &'a Message<'a>,
        /// The template's name.
        name: &'a str,
        /// All of it as a JSON object.
        json: &'a str,
    },
    /// Something that could not be read to its last byte.
    Faulty {
        /// The frame's number in the file, from 1.
        frame: u64,
        /// Where and why.
        why: String,
    },
}

/// What was in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    /// Frames of the file.
    pub frames: u64,
    /// Frames that were no UDP datagram over IP, and were passed over.
    pub others: u64,
    /// Messages decoded to the last byte.
    pub messages: u64,
    /// Packets and messages that were not.
    pub faulty: u64,
}

/// Reads a capture of market data and tells `each` what was found; false from it ends the reading.
///
/// # Errors
/// [`SourceError::Capture`] where the file is damaged, [`SourceError::LinkType`] when it is not of Ethernet frames.
pub fn check(
    path: &Path,
    schema: &Schema,
    each: &mut dyn FnMut(Found<'_>) -> bool,
) -> Result<CheckCounts, SourceError> {
    let shown = path.display().to_string();
    let damaged = |source| SourceError::Capture { path: shown.clone(), source };
    let mut reader = PcapReader::open(path).map_err(damaged)?;
    let mut counts = CheckCounts::default();
    let (mut json, mut messages) = (String::new(), 0);
    while let Some(captured) = reader.next_packet().map_err(damaged)? {
        if captured.link_type != LINK_ETHERNET {
            return Err(SourceError::LinkType { path: shown, link_type: captured.link_type });
        }
        counts.frames += 1;
        let frame = counts.frames;
        let payload = match payload(captured.data) {
            Ok(payload) => payload,
            Err(DropReason::Truncated) if captured.is_truncated() => {
                counts.faulty += 1;
                if !each(Found::Faulty { frame, why: "the capture holds only its beginning".to_owned() }) {
                    return Ok(CheckCounts { messages, ..counts });
                }
                continue;
            }
            Err(_) => {
                counts.others += 1;
                continue;
            }
        };
        let stamp_ns = captured.ns;
        let mut fault = |each: &mut dyn FnMut(Found<'_>) -> bool, why: String| {
            counts.faulty += 1;
            each(Found::Faulty { frame, why })
        };
        let packet = match Packet::parse(payload) {
            Ok(packet) => packet,
            Err(error) => {
                if !fault(each, error.to_string()) {
                    return Ok(CheckCounts { messages, ..counts });
                }
                continue;
            }
        };
        for message in packet.messages() {
            let go_on = match message {
                Err(error) => fault(each, error.to_string()),
                Ok(message) => {
                    json.clear();
                    let at = message.at;
                    match dynamic::json(schema, &message, &mut json) {
                        Err(error) => fault(each, format!("message at byte {at}: {error}")),
                        Ok(0) => {
                            messages += 1;
                            let name = schema.template(message.template_id).map_or("", |t| t.name.as_str());
                            each(Found::Message {
                                frame,
                                stamp_ns,
                                seq_num: packet.seq_num(),
                                sending_time_ns: packet.sending_time_ns(),
                                message: &message,
                                name,
                                json: &json,
                            })
                        }
                        Ok(left) => {
                            let id = message.template_id;
                            let why = format!(
                                "message at byte {at}: {left} bytes of template {id} are not in the schema"
                            );
                            fault(each, why)
                        }
                    }
                }
            };
            if !go_on {
                return Ok(CheckCounts { messages, ..counts });
            }
        }
    }
    Ok(CheckCounts { messages, ..counts })
}

/// The payload of a UDP datagram to anybody.
fn payload(frame: &[u8]) -> Result<&[u8], DropReason> {
    let untagged = vlan::untag(frame)?;
    let packet = frame.get(untagged.payload_at..).unwrap_or_default();
    match untagged.ethertype {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_checked(packet)?;
            if packet.protocol() != Protocol::UDP || packet.is_fragment() {
                return Err(DropReason::UnknownProtocol);
            }
            Ok(udp::Packet::new_checked(packet.payload())?.payload())
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new_checked(packet)?;
            let upper = packet.upper()?;
            if upper.protocol != Protocol::UDP || upper.fragment {
                return Err(DropReason::UnknownProtocol);
            }
            Ok(udp::Packet::new_checked(packet.upper_payload(&upper))?.payload())
        }
        _ => Err(DropReason::UnknownEtherType),
    }
}
