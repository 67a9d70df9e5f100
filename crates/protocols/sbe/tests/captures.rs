//! Real packets, where they are: every message to the last byte, typed and dynamic, and written again.

mod support;

use barewire_sbe::dynamic::{self, Value, Visitor};
use barewire_sbe::layout::{Field, Group, Schema};
use barewire_sbe::mdp3::{MdIncrementalRefreshBook46, MdUpdateAction};
use barewire_sbe::{AnyMessage, Message, MessageView, Packet};

/// What the captures hold: (file, templates of its messages).
const EXPECTED: &[(&str, &[u16])] = &[
    ("v5-instrument-definition-spread.pcap", &[29, 29, 27, 29, 27]),
    ("v5-trade-summary.pcap", &[42]),
    ("v8-trade-summary.pcap", &[42, 37, 32]),
    ("v9-book.pcap", &[46, 46]),
    ("v9-volume.pcap", &[37, 46, 46, 48, 37, 46, 46]),
];

/// Adds up the bytes that the blocks and group headers of a message take.
struct Bytes {
    body: usize,
    groups: Vec<String>,
}

impl Visitor for Bytes {
    fn field(&mut self, field: &Field, value: Value<'_>) {
        assert!(!field.name.is_empty());
        // A capture holds no value that the schema of its day did not name.
        if let Value::Enum(value) = value {
            assert!(value.name().is_some(), "{}: {}", field.name, value.raw);
        }
    }

    fn begin_group(&mut self, group: &Group, count: usize) {
        self.groups.push(format!("{}:{count}", group.name));
        self.body += group.dimension.len;
    }
}

#[test]
fn captures_decode_to_the_last_byte() {
    let schema = barewire_sbe::mdp3::schema();
    for (name, payloads) in support::captures() {
        for payload in payloads {
            let packet = Packet::parse(&payload).unwrap();
            assert!(packet.seq_num() > 0 && packet.sending_time_ns() > 1_400_000_000_000_000_000, "{name}");
            let messages: Vec<Message> = packet.messages().map(Result::unwrap).collect();
            let templates: Vec<u16> = messages.iter().map(|message| message.template_id).collect();
            if let Some((_, expected)) = EXPECTED.iter().find(|(file, _)| *file == name) {
                assert_eq!(templates, *expected, "{name}");
            }
            for message in &messages {
                let view = AnyMessage::decode(message).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(view.trailing().is_empty(), "{name}: {} at {}", view.name(), message.at);
                let mut bytes = Bytes { body: usize::from(message.block_length), groups: Vec::new() };
                assert_eq!(dynamic::visit(schema, message, &mut bytes), Ok(&[][..]), "{name}");
                // Written again, the message reads the same, field by field.
                let mut again = vec![0; message.size()];
                let len = view.encode(&mut again).unwrap();
                let again = Message::parse(&again[..len]).unwrap();
                let (mut there, mut back) = (String::new(), String::new());
                assert_eq!(dynamic::json(schema, message, &mut there), Ok(0));
                assert_eq!(dynamic::json(schema, &again, &mut back), Ok(0));
                assert_eq!(there, back, "{name}: {}", view.name());
                let parsed = there.matches('{').count() == there.matches('}').count();
                assert!(parsed && there.starts_with("{\"template\":"), "{there}");
            }
        }
    }
}

#[test]
fn captures_decode_by_the_schemas_xml_as_by_our_description() {
    let Some(folder) = support::shared("schema") else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let xml = Schema::from_xml(&std::fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
        for (name, payloads) in support::captures() {
            for payload in &payloads {
                for message in Packet::parse(payload).unwrap().messages().map(Result::unwrap) {
                    // Older schemas lack later templates, newer ones names of earlier versions.
                    if message.version != xml.version {
                        continue;
                    }
                    let (mut by_xml, mut ours) = (String::new(), String::new());
                    assert_eq!(dynamic::json(&xml, &message, &mut by_xml), Ok(0), "{name}");
                    let at_version = barewire_sbe::mdp3::schema().at_version(xml.version);
                    assert_eq!(dynamic::json(&at_version, &message, &mut ours), Ok(0), "{name}");
                    let renamed = ours
                        .replace("OpenPrice", "OpeningPrice")
                        .replace("FinalDaily", "Final")
                        .replace("BookReset", "EmptyBook");
                    assert!(by_xml == ours || by_xml == renamed, "{name}\n{by_xml}\n{ours}");
                }
            }
        }
    }
}

/// The numbers of the book packet, as an independent reading of its bytes gives them.
#[test]
fn the_book_capture_field_by_field() {
    for (_, payloads) in support::captures().into_iter().filter(|(name, _)| name == "v9-book.pcap") {
        let payload = &payloads[0];
        let message = Packet::parse(payload).unwrap().messages().next().unwrap().unwrap();
        assert_eq!((message.version, message.size()), (9, 1152));
        let book = MdIncrementalRefreshBook46::decode(&message).unwrap();
        let raw = |at: usize, len: usize| &payload[at..at + len];
        assert_eq!(book.md_entries().len(), 23);
        let mut at = 12 + 10 + 11 + 3;
        for entry in book.md_entries() {
            assert_eq!(entry.md_entry_px_raw().0.to_le_bytes(), raw(at, 8));
            assert_eq!(entry.md_entry_size_raw().to_le_bytes(), raw(at + 8, 4));
            assert_eq!(entry.security_id().to_le_bytes(), raw(at + 12, 4));
            assert_eq!(entry.rpt_seq().to_le_bytes(), raw(at + 16, 4));
            assert_eq!(entry.md_price_level(), payload[at + 24]);
            assert_eq!(entry.md_update_action(), MdUpdateAction(payload[at + 25]));
            assert_eq!(entry.md_entry_type().0, payload[at + 26]);
            assert_eq!(entry.tradeable_size(), None, "version 9 has none");
            at += 32;
        }
        let orders = book.order_id_entries();
        assert_eq!(at + 8 + 24 * orders.len(), 12 + message.size());
        for order in orders {
            let of = usize::from(order.reference_id().unwrap());
            assert!((1..=23).contains(&of), "{of}");
        }
        assert_eq!(
            book.md_entries().get(22).map(|entry| entry.rpt_seq()),
            book.md_entries().iter().last().map(|e| e.rpt_seq())
        );
        assert!(book.md_entries().get(23).is_none());
    }
}
