//! The messages of the snapshot loop.

use super::config::{EmulatorConfig, TotalReports};
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

/// Most entries of a chunk: as many fit into the smallest packet.
const CHUNK_MAX: usize = 40;

impl EmulatorConfig {
    /// Into how many chunks a book by order is cut.
    pub(crate) fn chunks_of(&self, instrument: &Instrument) -> u32 {
        interleaved(&instrument.top).count().div_ceil(self.chunk_entries).max(1) as u32
    }

    /// What a round says that there is, of instruments with so many chunks each, and so many messages beside.
    pub(crate) fn reports(&self, chunks: &[u32], others: u32) -> u32 {
        match self.total_reports {
            TotalReports::Messages => chunks.iter().sum::<u32>() + others,
            TotalReports::Instruments => chunks.len() as u32,
        }
    }
}

/// Template 53, in so many chunks, or more where these would be too long.
pub(crate) fn orders(
    instrument: &Instrument,
    last_seq_num: u32,
    reports: u32,
    chunks: u32,
    out: &mut Vec<Vec<u8>>,
) -> Result<(), EncodeError> {
    let orders: Vec<_> = interleaved(&instrument.top).collect();
    let count = (chunks as usize).max(orders.len().div_ceil(CHUNK_MAX));
    let place = |n: usize| orders.len() * n / count;
    let chunks: Vec<_> = (0..count).map(|n| &orders[place(n)..place(n + 1)]).collect();
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
