//! Reads or writes one packet again and again, to count instructions: what views cost does not depend on the machine's mood.
//!
//! `valgrind --tool=callgrind target/release/examples/decode book|trade|any|write ROUNDS`; the difference of two runs by the
//! difference of their rounds is what one packet takes.

use barewire_sbe::mdp3::{
    AnyMessage, MatchEventIndicator, MdEntryTypeBook, MdIncrementalRefreshBook46,
    MdIncrementalRefreshBook46Encoder, MdIncrementalRefreshTradeSummary48,
    MdIncrementalRefreshTradeSummary48Encoder, MdUpdateAction,
};
use barewire_sbe::{MessageView, Packet, PacketEncoder, Price9};
use std::hint::black_box;

#[inline(never)]
fn book(bytes: &[u8]) -> i64 {
    let mut sum = 0i64;
    for message in Packet::parse(bytes).unwrap().messages() {
        let view = MdIncrementalRefreshBook46::decode(&message.unwrap()).unwrap();
        sum = sum.wrapping_add(view.transact_time() as i64);
        for e in view.md_entries() {
            sum = sum.wrapping_add(
                e.security_id() as i64
                    + e.md_entry_px().map_or(0, |p| p.0)
                    + e.md_entry_size().unwrap_or(0) as i64,
            );
            sum = sum.wrapping_add(
                i64::from(e.rpt_seq())
                    + i64::from(e.md_price_level())
                    + i64::from(e.md_update_action().0)
                    + i64::from(e.md_entry_type().0)
                    + i64::from(e.tradeable_size().unwrap_or(1)),
            );
        }
    }
    sum
}
#[inline(never)]
fn trade(bytes: &[u8]) -> i64 {
    let mut sum = 0i64;
    for message in Packet::parse(bytes).unwrap().messages() {
        let view = MdIncrementalRefreshTradeSummary48::decode(&message.unwrap()).unwrap();
        for e in view.md_entries() {
            sum = sum.wrapping_add(
                e.security_id() as i64
                    + e.md_entry_px().0
                    + i64::from(e.md_entry_size())
                    + i64::from(e.aggressor_side().0),
            );
        }
        for e in view.order_id_entries() {
            sum = sum.wrapping_add(e.order_id() as i64 + i64::from(e.last_qty()));
        }
    }
    sum
}
#[inline(never)]
fn any(bytes: &[u8]) -> i64 {
    let mut sum = 0i64;
    for message in Packet::parse(bytes).unwrap().messages() {
        let view = AnyMessage::decode(&message.unwrap()).unwrap();
        sum += view.template_id() as i64 + view.trailing().len() as i64;
    }
    sum
}
#[inline(never)]
fn write(buf: &mut [u8], n: i32) -> usize {
    let mut packet = PacketEncoder::new(buf, 1, 2).unwrap();
    let mut book = MdIncrementalRefreshBook46Encoder::new(packet.room()).unwrap();
    book.transact_time(1).match_event_indicator(MatchEventIndicator::END_OF_EVENT);
    let mut entries = book.md_entries().unwrap();
    for i in 0..n {
        entries
            .push()
            .unwrap()
            .security_id(i)
            .md_entry_px(Price9(1_500_000_000))
            .md_entry_type(MdEntryTypeBook::BID)
            .md_update_action(MdUpdateAction::NEW);
    }
    let len = book.finish().unwrap();
    packet.advance(len);
    packet.finish().len()
}
fn main() {
    let which = std::env::args().nth(1).unwrap_or_else(|| "book".to_owned());
    let n: u64 = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(1000);
    let mut buf = [0u8; 1400];
    let len = write(&mut buf, 10);
    let mut tbuf = [0u8; 1400];
    let mut packet = PacketEncoder::new(&mut tbuf, 1, 2).unwrap();
    let mut t = MdIncrementalRefreshTradeSummary48Encoder::new(packet.room()).unwrap();
    {
        let mut e = t.md_entries().unwrap();
        for i in 0..3 {
            e.push().unwrap().security_id(i).md_entry_size(3);
        }
    }
    {
        let mut e = t.order_id_entries().unwrap();
        for i in 0..6 {
            e.push().unwrap().order_id(i).last_qty(3);
        }
    }
    let l = t.finish().unwrap();
    packet.advance(l);
    let tlen = packet.len();
    let mut sum = 0i64;
    for _ in 0..n {
        sum = sum.wrapping_add(match which.as_str() {
            "book" => book(black_box(&buf[..len])),
            "trade" => trade(black_box(&tbuf[..tlen])),
            "any" => any(black_box(&buf[..len])),
            _ => write(black_box(&mut buf), 10) as i64,
        });
    }
    println!("{sum}");
}
