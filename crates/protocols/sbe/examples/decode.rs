//! Times decoding a `MDIncrementalRefreshBook46` of 23 entries, every field read, without orders and with 16 (1,152 bytes
//! in all, as a captured one is): `cargo run --release -p barewire-sbe --example decode [REPEATS]`.
//!
//! Prints nanoseconds a message (the least of several rounds, and each) for the typed view, and for the same through
//! packet framing. The message is in the first-level cache; the sum that is printed depends on every field.
#![allow(clippy::disallowed_methods, reason = "an example that times; the crate itself reads no clock")]

use barewire_sbe::mdp3::{MatchEventIndicator, MdEntryTypeBook, MdUpdateAction, OrderUpdateAction};
use barewire_sbe::mdp3::{MdIncrementalRefreshBook46, MdIncrementalRefreshBook46Encoder};
use barewire_sbe::{EncodeError, Message, MessageView, Packet, PacketEncoder, Price9};
use std::hint::black_box;
use std::time::Instant;

const ENTRIES: i64 = 23;
const ROUNDS: usize = 7;

/// A packet with one message of [`ENTRIES`] entries and `orders` orders.
fn packet(buf: &mut [u8], orders: u8) -> Result<&[u8], EncodeError> {
    let mut packet = PacketEncoder::new(buf, 1, 1_600_000_000_000_000_000)?;
    let mut book = MdIncrementalRefreshBook46Encoder::new(packet.room())?;
    book.transact_time(1_600_000_000_000_000_000).match_event_indicator(MatchEventIndicator::END_OF_EVENT);
    let mut entries = book.md_entries()?;
    for i in 0..ENTRIES {
        entries
            .push()?
            .md_entry_px(Price9(2_768_250_000_000 + i * 250_000_000))
            .md_entry_size(10 + i as i32)
            .security_id(23252)
            .rpt_seq(1000 + i as u32)
            .number_of_orders(1 + i as i32)
            .md_price_level(1 + (i % 10) as u8)
            .md_update_action(MdUpdateAction((i % 3) as u8))
            .md_entry_type(if i % 2 == 0 { MdEntryTypeBook::BID } else { MdEntryTypeBook::OFFER });
    }
    let mut list = book.order_id_entries()?;
    for i in 0..orders {
        let mut order = list.push()?;
        order
            .order_id(8_000_000_000 + u64::from(i))
            .md_order_priority(u64::from(i))
            .md_display_qty(i32::from(i));
        order.reference_id(1 + i).order_update_action(OrderUpdateAction(i % 3));
    }
    let len = book.finish()?;
    packet.advance(len);
    Ok(packet.finish())
}

/// Every field of the message, in one number.
#[inline(never)]
fn read(message: &Message<'_>) -> u64 {
    let Ok(book) = MdIncrementalRefreshBook46::decode(message) else { return 0 };
    let mut sum = book.transact_time().wrapping_add(u64::from(book.match_event_indicator().0));
    for entry in book.md_entries() {
        sum = sum
            .wrapping_add(entry.md_entry_px_raw().0 as u64)
            .wrapping_add(entry.md_entry_size_raw() as u64)
            .wrapping_add(entry.security_id() as u64)
            .wrapping_add(u64::from(entry.rpt_seq()))
            .wrapping_add(entry.number_of_orders_raw() as u64)
            .wrapping_add(u64::from(entry.md_price_level()))
            .wrapping_add(u64::from(entry.md_update_action().0))
            .wrapping_add(u64::from(entry.md_entry_type().0))
            .wrapping_add(entry.tradeable_size_raw() as u64);
    }
    for order in book.order_id_entries() {
        sum = sum
            .wrapping_add(order.order_id())
            .wrapping_add(order.md_order_priority_raw())
            .wrapping_add(order.md_display_qty_raw() as u64)
            .wrapping_add(u64::from(order.reference_id_raw()))
            .wrapping_add(u64::from(order.order_update_action().0));
    }
    sum
}

/// Runs `work` `repeats` times a round; prints the least nanoseconds of one run.
fn time(name: &str, repeats: u32, mut work: impl FnMut() -> u64) {
    let mut rounds = [0f64; ROUNDS];
    let mut sum = 0u64;
    for round in &mut rounds {
        let start = Instant::now();
        for _ in 0..repeats {
            sum = sum.wrapping_add(black_box(work()));
        }
        *round = start.elapsed().as_nanos() as f64 / f64::from(repeats);
    }
    let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let each: Vec<String> = rounds.iter().map(|ns| format!("{ns:.1}")).collect();
    println!("{name:<22} {least:6.1} ns a message  (rounds: {}; check {sum:x})", each.join(" "));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repeats: u32 = std::env::args().nth(1).map_or(Ok(3_000_000), |word| word.parse())?;
    for orders in [0, 16] {
        let mut buf = [0u8; 2048];
        let bytes = packet(&mut buf, orders)?;
        let message = Packet::parse(bytes)?.messages().next().ok_or("a packet without a message")??;
        println!("{} bytes, {ENTRIES} entries, {orders} orders, {repeats} repeats a round", message.size());
        time("view", repeats, || read(black_box(&message)));
        time("packet and view", repeats, || {
            let Ok(packet) = Packet::parse(black_box(bytes)) else { return 0 };
            packet.messages().flatten().fold(0, |sum, message| sum.wrapping_add(read(&message)))
        });
    }
    Ok(())
}
