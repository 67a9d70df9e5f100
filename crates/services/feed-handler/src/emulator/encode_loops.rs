//! The messages of the snapshot loop.

use super::encode::{MESSAGE_MAX, interleaved, side_type};
use super::market::{BID, Instrument, OFFER};
use barewire_sbe::mdp3::snapshot_full_refresh_long_qty69::SnapshotFullRefreshLongQty69Encoder;
use barewire_sbe::mdp3::snapshot_full_refresh_order_book53::SnapshotFullRefreshOrderBook53Encoder;
use barewire_sbe::mdp3::snapshot_full_refresh52::SnapshotFullRefresh52Encoder;
use barewire_sbe::mdp3::{MdEntryType, MdEntryTypeBook, OpenCloseSettlFlag};
use barewire_sbe::{EncodeError, Price9};

fn int(quantity: u64) -> i32 {
    quantity.min(i32::MAX as u64 - 1) as i32
}

/// Template 52, or 69 of long quantities: every published level, then what else is known.
pub(crate) fn snapshot(
    instrument: &Instrument,
    last_seq_num: u32,
    reports: u32,
    out: &mut Vec<Vec<u8>>,
) -> Result<(), EncodeError> {
    let session = &instrument.session;
    let prices = [
        (MdEntryType::OPEN_PRICE, session.open_e9),
        (MdEntryType::TRADING_SESSION_HIGH_PRICE, session.high_e9),
        (MdEntryType::TRADING_SESSION_LOW_PRICE, session.low_e9),
        (MdEntryType::SETTLEMENT_PRICE, instrument.settlement_e9),
    ];
    let mut buf = vec![0xa5; MESSAGE_MAX];
    macro_rules! snapshot {
        ($encoder:ident, $quantity:expr, $level:ty) => {{
            let mut message = $encoder::new(&mut buf)?;
            message
                .last_msg_seq_num_processed(last_seq_num)
                .tot_num_reports(reports)
                .security_id(instrument.id)
                .rpt_seq(instrument.rpt_seq)
                .transact_time(instrument.last_update_ns)
                .last_update_time(instrument.last_update_ns)
                .md_security_trading_status(instrument.status)
                .high_limit_price(Price9(instrument.limits.high_e9))
                .low_limit_price(Price9(instrument.limits.low_e9))
                .max_price_variation(Price9(instrument.limits.variation_e9));
            let mut group = message.md_entries()?;
            for (books, implied) in [(&instrument.book, false), (&instrument.implied_book, true)] {
                for side in [BID, OFFER] {
                    for (index, level) in books[side].iter().enumerate() {
                        group
                            .push()?
                            .md_entry_px(Price9(level.price_e9))
                            .md_entry_size($quantity(level.quantity))
                            .number_of_orders(level.orders.map(|orders| orders as i32))
                            .md_price_level(index as $level + 1)
                            .md_entry_type(MdEntryType(side_type(side, implied).0));
                    }
                }
            }
            if let Some(last) = session.last_e9 {
                group
                    .push()?
                    .md_entry_px(Price9(last))
                    .md_entry_size($quantity(session.last_quantity))
                    .md_entry_type(MdEntryType::TRADE);
                group
                    .push()?
                    .md_entry_size($quantity(session.volume))
                    .md_entry_type(MdEntryType::ELECTRONIC_VOLUME);
            }
            for (kind, price) in prices {
                if let Some(price) = price {
                    group
                        .push()?
                        .md_entry_px(Price9(price))
                        .open_close_settl_flag(OpenCloseSettlFlag::DAILY_OPEN_PRICE)
                        .md_entry_type(kind);
                }
            }
            message.finish()?
        }};
    }
    let len = if instrument.long {
        snapshot!(SnapshotFullRefreshLongQty69Encoder, |quantity: u64| quantity, u8)
    } else {
        snapshot!(SnapshotFullRefresh52Encoder, int, i8)
    };
    buf.truncate(len);
    out.push(buf);
    Ok(())
}

/// Template 53, in chunks.
pub(crate) fn top_orders(
    instrument: &Instrument,
    last_seq_num: u32,
    reports: u32,
    chunk_entries: usize,
    out: &mut Vec<Vec<u8>>,
) -> Result<(), EncodeError> {
    let orders: Vec<_> = interleaved(&instrument.top).collect();
    let chunks: Vec<_> =
        if orders.is_empty() { vec![&orders[..]] } else { orders.chunks(chunk_entries).collect() };
    for (index, chunk) in chunks.iter().enumerate() {
        let mut buf = vec![0xa5; MESSAGE_MAX];
        let mut message = SnapshotFullRefreshOrderBook53Encoder::new(&mut buf)?;
        message
            .last_msg_seq_num_processed(last_seq_num)
            .tot_num_reports(reports)
            .security_id(instrument.id)
            .no_chunks(chunks.len() as u32)
            .current_chunk(index as u32 + 1)
            .transact_time(instrument.last_update_ns);
        let mut group = message.md_entries()?;
        for (side, order) in *chunk {
            let kind: MdEntryTypeBook = side_type(*side, false);
            group
                .push()?
                .order_id(order.id)
                .md_order_priority(order.priority)
                .md_entry_px(Price9(order.price_e9))
                .md_display_qty(int(order.quantity.into()))
                .md_entry_type(kind);
        }
        let len = message.finish()?;
        buf.truncate(len);
        out.push(buf);
    }
    Ok(())
}
