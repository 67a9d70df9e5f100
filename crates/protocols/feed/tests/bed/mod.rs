//! A feed channel on the bench: literal packets in, everything told out as words.

#![allow(dead_code, reason = "each test binary uses its own part")]

use crate::sim::packet;
use barewire_base::{Duration, Instant};
use barewire_feed::*;
use barewire_sbe::Price9;
use barewire_sbe::mdp3::*;

pub const A: Line = Line::new(Feed::Incremental, LineSide::A);
pub const B: Line = Line::new(Feed::Incremental, LineSide::B);
pub const SNAP: Line = Line::new(Feed::Snapshot, LineSide::A);
pub const DEFS: Line = Line::new(Feed::Instrument, LineSide::A);

/// Everything told, as words.
#[derive(Default)]
pub struct Log(pub Vec<String>);

impl Log {
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

pub fn prices(levels: &[Level]) -> Vec<i64> {
    levels.iter().map(|l| l.price).collect()
}

impl Listener for Log {
    fn on_book(&mut self, b: &BookView<'_>) {
        let (bids, offers) = (prices(b.bids()), prices(b.offers()));
        self.0.push(format!("book {} {bids:?} {offers:?} {:?}", b.instrument.security_id, b.cause));
    }
    fn on_trade(&mut self, i: &Instrument, t: &Trade) {
        self.0.push(format!("trade {} {}@{} {:?}", i.security_id, t.quantity, t.price, t.trade_id));
    }
    fn on_statistic(&mut self, i: &Instrument, s: &Statistic) {
        self.0.push(format!("{:?} {} {:?}", s.kind, i.security_id, s.quantity));
    }
    fn on_limits(&mut self, i: &Instrument, l: &Limits) {
        self.0.push(format!("limits {} {} {}", i.security_id, l.low, l.high));
    }
    fn on_status(&mut self, i: &Instrument, s: &SecurityStatus) {
        self.0.push(format!("status {} {:?} {:?}", i.security_id, s.status, s.scope));
    }
    fn on_quote_request(&mut self, i: &Instrument, q: &QuoteRequest) {
        self.0.push(format!("quote {} {:?}", i.security_id, q.quantity));
    }
    fn on_definition(&mut self, i: &Instrument, a: DefinitionAction) {
        self.0.push(format!("{a:?} {} {} {}", i.security_id, i.symbol, i.depth));
    }
    fn on_definitions_complete(&mut self, n: usize) {
        self.0.push(format!("definitions {n}"));
    }
    fn on_gap(&mut self, g: &Gap) {
        self.0.push(format!("gap {}..{} {:?} cut {}", g.first, g.last, g.cause, g.cut_instruments));
    }
    fn on_instrument_stale(&mut self, i: &Instrument) {
        self.0.push(format!("stale {}", i.security_id));
    }
    fn on_orders_incomplete(&mut self, i: &Instrument) {
        self.0.push(format!("incomplete {}", i.security_id));
    }
    fn on_reset(&mut self, r: Reset) {
        self.0.push(format!("reset {r:?}"));
    }
    fn on_line_state(&mut self, l: Line, s: LineState) {
        if l.feed == Feed::Incremental {
            self.0.push(format!("line {} {s:?}", l.side));
        }
    }
    fn on_channel_state(&mut self, s: LineState) {
        self.0.push(format!("channel {s:?}"));
    }
    fn on_failover(&mut self, _: LinePolicy, l: Line) {
        self.0.push(format!("failover {}", l.side));
    }
}

pub struct Bed {
    pub channel: Channel,
    pub log: Log,
    pub now: u64,
}

pub fn config() -> Config {
    Config {
        instruments: 64,
        pending_entries: 256,
        orders_max: 4_096,
        pending_orders: 256,
        gap_wait: Duration::from_nanos(100),
        gap_packets: 4,
        heartbeat_timeout: Duration::from_nanos(1_000_000),
        ..Config::default()
    }
}

impl Bed {
    pub fn new(config: Config) -> Bed {
        Bed { channel: Channel::new(config, Instant::ZERO).unwrap(), log: Log::default(), now: 0 }
    }

    /// A channel that has heard packet 1, an empty one.
    pub fn started() -> Bed {
        let mut bed = Bed::new(config());
        bed.send(A, 1, &[heartbeat()]);
        bed.log.take();
        bed
    }

    /// SendingTime is ten times the number.
    pub fn send(&mut self, line: Line, seq: u32, messages: &[Vec<u8>]) {
        self.send_at(line, seq, u64::from(seq) * 10, messages);
    }

    pub fn send_at(&mut self, line: Line, seq: u32, time: u64, messages: &[Vec<u8>]) {
        self.raw(line, &packet(seq, time, messages));
    }

    pub fn raw(&mut self, line: Line, bytes: &[u8]) {
        self.now += 1;
        let now = Instant::from_nanos(self.now);
        self.channel.on_packet(now, line, Default::default(), bytes, &mut self.log);
    }

    pub fn wait(&mut self, ns: u64) {
        self.now += ns;
        self.channel.on_timeout(Instant::from_nanos(self.now), &mut self.log);
    }

    pub fn bids(&self, id: i32) -> Vec<i64> {
        prices(self.channel.book(id).expect("an instrument").bids())
    }

    pub fn state(&self, id: i32) -> BookState {
        self.channel.book(id).expect("an instrument").state
    }

    pub fn count(&self, reason: Reason) -> u64 {
        self.channel.counters().get(reason)
    }
}

macro_rules! encoded {
    ($encoder:ident, |$m:ident| $body:block) => {{
        let mut buf = [0; 4096];
        let mut $m = $encoder::new(&mut buf).unwrap();
        $body
        let len = $m.finish().unwrap();
        buf[..len].to_vec()
    }};
}

pub fn heartbeat() -> Vec<u8> {
    encoded!(AdminHeartbeat12Encoder, |_m| {})
}

pub const END: MatchEventIndicator = MatchEventIndicator::END_OF_EVENT;
pub const MORE: MatchEventIndicator = MatchEventIndicator(0);

/// Entries: security id, RptSeq, action, level, type, price.
pub type E = (i32, u32, u8, u8, u8, i64);

pub fn book(entries: &[E], indicator: MatchEventIndicator) -> Vec<u8> {
    encoded!(MdIncrementalRefreshBook46Encoder, |m| {
        m.transact_time(1).match_event_indicator(indicator);
        let mut group = m.md_entries().unwrap();
        for &(id, rpt, action, level, kind, price) in entries {
            let e = &mut group.push().unwrap();
            e.security_id(id).rpt_seq(rpt).md_update_action(MdUpdateAction(action)).md_price_level(level);
            e.md_entry_type(MdEntryTypeBook(kind)).md_entry_px(Price9(price)).md_entry_size(price as i32);
        }
    })
}

/// One new best bid.
pub fn bid(id: i32, rpt: u32, price: i64) -> Vec<u8> {
    book(&[(id, rpt, 0, 1, b'0', price)], END)
}

pub fn snapshot(id: i32, last: u32, rpt: u32, total: u32, bids: &[i64]) -> Vec<u8> {
    encoded!(SnapshotFullRefresh52Encoder, |m| {
        m.last_msg_seq_num_processed(last).rpt_seq(rpt).tot_num_reports(total).security_id(id);
        let mut group = m.md_entries().unwrap();
        for (i, &price) in bids.iter().enumerate() {
            let e = &mut group.push().unwrap();
            e.md_entry_px(Price9(price)).md_entry_size(1).md_price_level(i as i8 + 1);
            e.md_entry_type(MdEntryType::BID);
        }
    })
}

pub fn definition(id: i32, symbol: &str, action: SecurityUpdateAction, total: u32, depth: i8) -> Vec<u8> {
    encoded!(MdInstrumentDefinitionFuture54Encoder, |m| {
        m.security_id(id).symbol(symbol).security_group("GE").asset("GE").tot_num_reports(total);
        m.security_update_action(action).match_event_indicator(END);
        let mut feeds = m.md_feed_types().unwrap();
        feeds.push().unwrap().md_feed_type("GBX").market_depth(depth);
        feeds.push().unwrap().md_feed_type("GBI").market_depth(2);
    })
}
