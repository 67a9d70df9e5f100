//! One function that does everything that can be done with bytes, for fuzz targets and smoke tests alike.

use crate::dynamic::{self, Value, Visitor};
use crate::layout::{Field, Schema};
use crate::{AnyMessage, Message, Messages, Packet};

/// Room for the longest message.
const ROOM: usize = 1 << 16;

/// Takes `bytes` for a packet, for messages without a packet, and for a schema's XML. Must return, whatever the bytes;
/// returns how many messages it framed. Panics when two ways to read a message differ.
pub fn fuzz_all(bytes: &[u8]) -> u64 {
    let mut framed = 0;
    let packet = Packet::parse(bytes).map(|packet| packet.messages());
    for messages in [packet.ok(), Some(Messages::of_body(bytes, 0))].into_iter().flatten() {
        for message in messages.flatten() {
            read(&message);
            framed += 1;
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Schema::from_xml(text);
        let _ = Schema::from_layout(&[("fuzz", text)]);
    }
    framed
}

/// Reads `message` in every way. Returns whether a typed view took it; what one takes, the dynamic decoder takes too.
pub fn read(message: &Message<'_>) -> bool {
    let schema = crate::mdp3::schema();
    let dynamic = dynamic::visit(schema, message, &mut Shown::default());
    let mut line = String::from("before");
    let written = dynamic::json(schema, message, &mut line);
    assert_eq!(written.is_ok(), dynamic.is_ok(), "the line and the visit agree");
    assert!(
        line.starts_with("before") && (written.is_ok() || line == "before"),
        "an error leaves the line as it was"
    );
    match AnyMessage::decode(message) {
        Ok(view) => {
            assert_eq!(dynamic, Ok(view.trailing()), "{}", view.name());
            assert!(!format!("{view:?}").is_empty());
            again(&view);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Writes the message again and reads that: the same values, as far as a message of that version can be written at all.
fn again(view: &AnyMessage<'_>) {
    let mut buf = vec![0xa5; ROOM];
    let Ok(len) = view.encode(&mut buf) else { return };
    let written = Message::parse(&buf[..len]).map(|message| (message, AnyMessage::decode(&message)));
    let (message, Ok(same)) = written.expect("an encoder frames what it writes") else {
        panic!("{}: an encoder writes what its view reads", view.name());
    };
    assert!(same.trailing().is_empty() && message.size() == len);
    let mut twice = vec![0x5a; ROOM];
    assert_eq!(same.encode(&mut twice), Ok(len));
    assert!(buf[..len] == twice[..len], "{}: written twice, the same bytes", view.name());
}

/// Shows every value, so that a decoder that is lazy is not spared.
#[derive(Default)]
struct Shown(usize);

impl Visitor for Shown {
    fn field(&mut self, _: &Field, value: Value<'_>) {
        self.0 += value.to_string().len();
    }
}
