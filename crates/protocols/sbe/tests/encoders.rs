//! What encoders refuse, and what they leave.

use barewire_sbe::mdp3::md_incremental_refresh_book46::MdEntry;
use barewire_sbe::mdp3::{
    MdIncrementalRefreshBook32Encoder, MdIncrementalRefreshBook46, MdIncrementalRefreshBook46Encoder,
};
use barewire_sbe::mdp3::{MdInstrumentDefinitionRepo58, MdInstrumentDefinitionRepo58Encoder};
use barewire_sbe::mdp3::{SecurityStatus30, SecurityStatus30Encoder, SecurityTradingStatus};
use barewire_sbe::{EncodeError, Message, MessageView, PacketEncoder, Price9};

/// Writes a book of two entries and one order into `buf`.
fn book(buf: &mut [u8]) -> Result<usize, EncodeError> {
    let mut book = MdIncrementalRefreshBook46Encoder::new(buf)?;
    book.transact_time(5);
    let mut entries = book.md_entries()?;
    entries.push()?.security_id(1).md_entry_px(Price9(-1));
    entries.push()?.security_id(2).tradeable_size(3);
    book.order_id_entries()?.push()?.order_id(9).reference_id(2);
    book.finish()
}

#[test]
fn a_buffer_of_any_size_is_full_or_holds_the_message() {
    let mut whole = [0xa5; 256];
    let len = book(&mut whole).unwrap();
    assert_eq!(len, 10 + 11 + 3 + 2 * 32 + 8 + 24);
    assert!(whole[len..].iter().all(|&byte| byte == 0xa5), "nothing behind the message is touched");
    for room in 0..len {
        let mut buf = vec![0xa5; room];
        assert!(matches!(book(&mut buf), Err(EncodeError::Full { .. })), "{room}");
    }
    let mut exact = vec![0xa5; len];
    assert_eq!(book(&mut exact), Ok(len));
    assert_eq!(exact, whole[..len]);
}

#[test]
fn fields_that_are_not_set_are_null() {
    let mut buf = [0xa5; 256];
    let len = book(&mut buf).unwrap();
    let view = MdIncrementalRefreshBook46::decode(&Message::parse(&buf[..len]).unwrap()).unwrap();
    let entries: Vec<MdEntry> = view.md_entries().iter().collect();
    assert_eq!((entries[0].md_entry_px(), entries[0].md_entry_px_raw()), (Some(Price9(-1)), Price9(-1)));
    assert_eq!((entries[1].md_entry_px(), entries[1].md_entry_px_raw()), (None, Price9::NULL));
    assert_eq!((entries[0].md_entry_size(), entries[0].tradeable_size()), (None, None));
    assert_eq!((entries[1].tradeable_size(), entries[1].rpt_seq()), (Some(3), 0));
    let order = view.order_id_entries().get(0).unwrap();
    assert_eq!((order.md_order_priority(), order.reference_id()), (None, Some(2)));
}

#[test]
fn groups_come_in_order_and_once() {
    let mut buf = [0; 256];
    let mut book = MdIncrementalRefreshBook46Encoder::new(&mut buf).unwrap();
    // The first group is left out: it becomes an empty one.
    book.order_id_entries().unwrap().push().unwrap().order_id(1);
    assert_eq!(book.md_entries().err(), Some(EncodeError::GroupOrder { group: "NoMDEntries" }));
    assert_eq!(book.order_id_entries().err(), Some(EncodeError::GroupOrder { group: "NoOrderIDEntries" }));
    let len = book.finish().unwrap();
    let view = MdIncrementalRefreshBook46::decode(&Message::parse(&buf[..len]).unwrap()).unwrap();
    assert_eq!((view.md_entries().len(), view.order_id_entries().len()), (0, 1));
}

#[test]
fn a_group_counts_to_254() {
    let mut buf = vec![0; 65_536];
    let mut book = MdIncrementalRefreshBook46Encoder::new(&mut buf).unwrap();
    let mut entries = book.md_entries().unwrap();
    for i in 0..254 {
        entries.push().unwrap().security_id(i);
    }
    assert_eq!(entries.push().err(), Some(EncodeError::TooManyEntries { group: "NoMDEntries" }));
    let len = book.finish().unwrap();
    let view = MdIncrementalRefreshBook46::decode(&Message::parse(&buf[..len]).unwrap()).unwrap();
    assert!(view.md_entries().iter().map(|entry| entry.security_id()).eq(0..254));
}

#[test]
fn older_versions_have_what_they_had() {
    let mut buf = [0; 512];
    let mut repo = MdInstrumentDefinitionRepo58Encoder::with_version(&mut buf, 12).unwrap();
    repo.security_id(7).term_code("ON").broken_date_term_type(1);
    let refusal = EncodeError::GroupVersion { group: "NoBrokenDates", since: 13, version: 12 };
    assert_eq!(repo.broken_dates().err(), Some(refusal));
    let len = repo.finish().unwrap();
    let message = Message::parse(&buf[..len]).unwrap();
    assert_eq!((message.version, message.block_length), (12, 275));
    let view = MdInstrumentDefinitionRepo58::decode(&message).unwrap();
    assert_eq!((view.security_id(), view.term_code().to_str()), (7, Some("ON")));
    assert_eq!((view.broken_date_term_type(), view.broken_dates().len()), (None, 0));

    let mut old = MdIncrementalRefreshBook32Encoder::with_version(&mut buf, 6).unwrap();
    assert!(matches!(old.order_id_entries(), Err(EncodeError::GroupVersion { since: 7, .. })));
}

#[test]
fn text_is_cut_and_filled_up() {
    let mut buf = [0xa5; 64];
    let mut status = SecurityStatus30Encoder::new(&mut buf).unwrap();
    status.security_group("LONGER THAN SIX").asset("ES").security_trading_status(SecurityTradingStatus(77));
    let len = status.finish().unwrap();
    let view = SecurityStatus30::decode(&Message::parse(&buf[..len]).unwrap()).unwrap();
    assert_eq!((view.security_group().to_str(), view.asset().to_str()), (Some("LONGER"), Some("ES")));
    assert_eq!(view.asset().raw(), b"ES\0\0\0\0");
    assert_eq!((view.security_id(), view.trade_date()), (None, None));
    // A value that the schema does not name is kept.
    let unknown = view.security_trading_status();
    assert_eq!((unknown.0, unknown.name(), unknown.to_string().as_str()), (77, None, "77"));
}

#[test]
fn a_packet_takes_messages_until_it_is_full() {
    let mut message = [0; 256];
    let len = book(&mut message).unwrap();
    let mut buf = [0; 300];
    let mut packet = PacketEncoder::new(&mut buf, 1, 2).unwrap();
    packet.push(&message[..len]).unwrap();
    packet.push(&message[..len]).unwrap();
    let (used, full) = (packet.len(), packet.push(&message[..len]));
    assert_eq!(full, Err(EncodeError::Full { needed: len, room: 300 - used }));
    assert_eq!(packet.finish().len(), 12 + 2 * len);
    assert!(matches!(
        PacketEncoder::new(&mut [0; 11], 1, 2),
        Err(EncodeError::Full { needed: 12, room: 11 })
    ));
}
