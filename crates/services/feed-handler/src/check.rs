//! Captures read message by message, without channels or books: is every byte understood?

use crate::SourceError;
use crate::source::datagram::parse_any;
use barewire_base::DropReason;
use barewire_port::{LINK_ETHERNET, PcapPacket, PcapReader};
use barewire_sbe::layout::Schema;
use barewire_sbe::{Message, Packet, dynamic};
use std::path::Path;

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
    let mut checker = Checker { schema, each, counts: CheckCounts::default(), json: String::new() };
    while let Some(captured) = reader.next_packet().map_err(damaged)? {
        if captured.link_type != LINK_ETHERNET {
            return Err(SourceError::LinkType { path: shown, link_type: captured.link_type });
        }
        if !checker.frame(&captured) {
            break;
        }
    }
    Ok(checker.counts)
}

struct Checker<'c> {
    schema: &'c Schema,
    each: &'c mut dyn FnMut(Found<'_>) -> bool,
    counts: CheckCounts,
    json: String,
}

/// Each says whether to go on.
impl Checker<'_> {
    fn frame(&mut self, captured: &PcapPacket<'_>) -> bool {
        self.counts.frames += 1;
        let payload = match parse_any(captured.data) {
            Ok(datagram) => datagram.payload,
            Err(DropReason::Truncated) if captured.is_truncated() => {
                return self.fault("the capture holds only its beginning".to_owned());
            }
            Err(_) => {
                self.counts.others += 1;
                return true;
            }
        };
        match Packet::parse(payload) {
            Err(error) => self.fault(error.to_string()),
            Ok(packet) => packet.messages().all(|message| match message {
                Err(error) => self.fault(error.to_string()),
                Ok(message) => self.message(captured.ns, &packet, &message),
            }),
        }
    }

    fn message(&mut self, stamp_ns: u64, packet: &Packet<'_>, message: &Message<'_>) -> bool {
        let (at, id) = (message.at, message.template_id);
        self.json.clear();
        match dynamic::json(self.schema, message, &mut self.json) {
            Err(error) => self.fault(format!("message at byte {at}: {error}")),
            Ok(0) => {
                self.counts.messages += 1;
                (self.each)(Found::Message {
                    frame: self.counts.frames,
                    stamp_ns,
                    seq_num: packet.seq_num(),
                    sending_time_ns: packet.sending_time_ns(),
                    message,
                    name: self.schema.template(id).map_or("", |template| template.name.as_str()),
                    json: &self.json,
                })
            }
            Ok(left) => self
                .fault(format!("message at byte {at}: {left} bytes of template {id} are not in the schema")),
        }
    }

    fn fault(&mut self, why: String) -> bool {
        self.counts.faulty += 1;
        (self.each)(Found::Faulty { frame: self.counts.frames, why })
    }
}
