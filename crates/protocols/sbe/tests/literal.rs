//! Literal bytes: a packet read field by field, and the same message written.

use barewire_sbe::mdp3::{MatchEventIndicator, MdEntryTypeBook, MdUpdateAction};
use barewire_sbe::mdp3::{MdIncrementalRefreshBook46, MdIncrementalRefreshBook46Encoder, template};
use barewire_sbe::{AnyMessage, Message, MessageView, Packet, PacketEncoder, Price9};

/// A packet with a Book46 of one entry and no orders, then a heartbeat.
#[rustfmt::skip]
const PACKET: &[u8] = &[
    0x2a, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1,
    67, 0, 11, 0, 46, 0, 1, 0, 13, 0,
    1, 0, 0, 0, 0, 0, 0, 0, 0x84, 0, 0,
    32, 0, 1,
    0, 0x94, 0x35, 0x77, 0, 0, 0, 0, 5, 0, 0, 0, 0x39, 0x30, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 1, 1, b'0', 0xff, 0xff, 0xff, 0x7f, 0,
    24, 0, 0, 0, 0, 0, 0, 0,
    // 13 bytes that a later version may have put here
    1, 2, 3,
    10, 0, 0, 0, 12, 0, 1, 0, 13, 0,
];

#[test]
fn a_packet_is_read_field_by_field() {
    let packet = Packet::parse(PACKET).unwrap();
    assert_eq!((packet.seq_num(), packet.sending_time_ns()), (42, 0x0102_0304_0506_0708));
    let messages: Vec<Message> = packet.messages().map(Result::unwrap).collect();
    assert_eq!(messages.len(), 2);
    assert_eq!((messages[0].at, messages[1].at), (12, 79));
    let book = MdIncrementalRefreshBook46::decode(&messages[0]).unwrap();
    assert_eq!(book.transact_time(), 1);
    assert_eq!(
        book.match_event_indicator(),
        MatchEventIndicator::END_OF_EVENT | MatchEventIndicator::LAST_QUOTE_MSG
    );
    assert_eq!(book.md_entries().len(), 1);
    assert_eq!(book.trailing(), [1, 2, 3]);
    let entry = book.md_entries().get(0).unwrap();
    assert_eq!(entry.md_entry_px(), Some(Price9(2_000_000_000)));
    assert_eq!(entry.md_entry_px().unwrap().to_string(), "2");
    assert_eq!(entry.md_entry_size(), Some(5));
    assert_eq!(entry.security_id(), 12345);
    assert_eq!(entry.rpt_seq(), 7);
    assert_eq!(entry.number_of_orders(), Some(2));
    assert_eq!(entry.md_price_level(), 1);
    assert_eq!(entry.md_update_action(), MdUpdateAction::CHANGE);
    assert_eq!(entry.md_entry_type(), MdEntryTypeBook::BID);
    assert_eq!((entry.tradeable_size(), entry.tradeable_size_raw()), (None, i32::MAX));
    assert!(book.order_id_entries().is_empty());
    assert!(matches!(AnyMessage::decode(&messages[1]), Ok(AnyMessage::AdminHeartbeat12(_))));
}

#[test]
fn the_same_message_is_written() {
    let mut buf = [0xa5; 128];
    let mut packet = PacketEncoder::new(&mut buf, 42, 0x0102_0304_0506_0708).unwrap();
    let mut book = MdIncrementalRefreshBook46Encoder::new(packet.room()).unwrap();
    book.transact_time(1);
    book.match_event_indicator(MatchEventIndicator::END_OF_EVENT | MatchEventIndicator::LAST_QUOTE_MSG);
    let mut entries = book.md_entries().unwrap();
    entries
        .push()
        .unwrap()
        .md_entry_px(Price9(2_000_000_000))
        .md_entry_size(5)
        .security_id(12345)
        .rpt_seq(7)
        .number_of_orders(2)
        .md_price_level(1)
        .md_update_action(MdUpdateAction::CHANGE)
        .md_entry_type(MdEntryTypeBook::BID);
    let len = book.finish().unwrap();
    packet.advance(len);
    let mut expected = PACKET[..PACKET.len() - 13].to_vec();
    expected[12] = 64;
    assert_eq!(packet.finish(), expected);
    assert_eq!(template::MD_INCREMENTAL_REFRESH_BOOK46, 46);
}
