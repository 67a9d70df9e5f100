//! Each rule of a feed channel by a short literal sequence of packets.

#[macro_use]
mod bed;
mod sim;

use barewire_base::Instant;
use barewire_feed::*;
use barewire_sbe::Price9;
use barewire_sbe::mdp3::*;
use bed::*;
use sim::packet;

#[test]
fn the_first_copy_wins_and_the_lead_is_counted() {
    let mut bed = Bed::started();
    bed.send(B, 2, &[bid(7, 1, 100)]);
    bed.now += 40;
    bed.send(A, 2, &[bid(7, 1, 100)]);
    assert_eq!(bed.log.take(), ["line B Up", "book 7 [100] [] Event"]);
    let (a, b) = (*bed.channel.line_stats(A), *bed.channel.line_stats(B));
    assert_eq!((a.first, a.duplicates, b.first, b.leads, b.lead_ns_max), (1, 1, 1, 1, 41));
    assert_eq!(bed.count(Reason::Duplicate), 1);
}

#[test]
fn packets_before_their_turn_are_held() {
    let mut bed = Bed::started();
    bed.send(A, 3, &[bid(7, 2, 101)]);
    assert_eq!(bed.channel.waiting().0, 1);
    assert!(bed.log.take().is_empty());
    bed.send(B, 2, &[bid(7, 1, 100)]);
    assert_eq!(bed.log.take(), ["line B Up", "book 7 [100] [] Event", "book 7 [101, 100] [] Event"]);
    assert_eq!(bed.channel.expected_seq(), Some(4));
    assert_eq!(bed.channel.counters().gaps, 0);
}

#[test]
fn a_gap_is_declared_by_time() {
    let mut bed = Bed::started();
    bed.send(A, 4, &[bid(7, 1, 100)]);
    assert_eq!(bed.channel.next_deadline(), Some(Instant::from_nanos(bed.now + 100)));
    bed.wait(99);
    assert!(bed.log.take().is_empty());
    bed.wait(1);
    assert_eq!(bed.log.take(), ["gap 2..3 Time cut 0", "book 7 [100] [] Event"]);
    // What comes now is too late.
    bed.send(A, 2, &[bid(8, 1, 1)]);
    assert_eq!(bed.count(Reason::Late), 1);
}

#[test]
fn a_gap_is_declared_by_count() {
    let mut bed = Bed::started();
    for seq in 3..=6 {
        bed.send(A, seq, &[bid(7, seq - 2, 100 + i64::from(seq))]);
    }
    let told = bed.log.take();
    assert_eq!(told[0], "gap 2..2 Count cut 0");
    assert_eq!(told.len(), 5);
}

#[test]
fn a_book_shows_no_half_event() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.send(A, 3, &[book(&[(7, 2, 0, 1, b'0', 101)], MORE), book(&[(7, 3, 0, 1, b'1', 105)], MORE)]);
    assert_eq!(bed.bids(7), [100]);
    assert_eq!(bed.log.take(), ["book 7 [100] [] Event"]);
    bed.send(A, 4, &[book(&[(7, 4, 2, 2, b'0', 100)], END)]);
    assert_eq!(bed.log.take(), ["book 7 [101] [105] Event"]);
    assert_eq!(bed.channel.waiting(), (0, 0));
}

#[test]
fn an_event_cut_by_a_gap_is_applied_when_it_proves_whole() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100), bid(8, 1, 200)]);
    bed.send(A, 3, &[book(&[(7, 2, 0, 1, b'0', 101), (8, 2, 0, 1, b'0', 201)], MORE)]);
    bed.log.take();
    bed.send(A, 5, &[heartbeat()]);
    bed.wait(200);
    assert_eq!(bed.log.take(), ["gap 4..4 Time cut 2"]);
    assert_eq!((bed.state(7), bed.bids(7), bed.bids(8)), (BookState::Suspect, vec![100], vec![200]));
    // 7 goes on where it was: what was lost was not its. 8 has missed an entry.
    bed.send(A, 6, &[book(&[(7, 3, 1, 1, b'0', 102), (8, 4, 1, 1, b'0', 202)], END)]);
    assert_eq!(bed.log.take(), ["stale 8", "book 7 [102, 100] [] Event"]);
    assert_eq!((bed.state(8), bed.bids(8)), (BookState::Stale, vec![200]));
    assert!(bed.channel.wants(Feed::Snapshot));
    // A snapshot that reaches up to what was seen since.
    bed.send(SNAP, 1, &[snapshot(8, 4, 3, 2, &[300, 200])]);
    assert_eq!(bed.log.take(), ["book 8 [202, 200] [] Snapshot"]);
    assert!(!bed.channel.is_recovering());
    assert_eq!(bed.channel.waiting(), (0, 0));
}

#[test]
fn an_event_that_goes_on_behind_a_gap_is_shown_at_its_end() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.send(A, 3, &[book(&[(7, 2, 0, 1, b'0', 101)], MORE)]);
    // Packet 4, of the same event, does not name 7.
    let volume = encoded!(MdIncrementalRefreshVolume37Encoder, |m| {
        m.md_entries().unwrap().push().unwrap().security_id(7).rpt_seq(3).md_entry_size(1);
    });
    bed.send(A, 5, &[volume]);
    bed.wait(200);
    assert_eq!(bed.bids(7), [100]);
    bed.send(A, 6, &[book(&[(7, 4, 0, 1, b'0', 102)], END)]);
    assert_eq!((bed.bids(7), bed.state(7)), (vec![102, 101, 100], BookState::Latest));
}

#[test]
fn a_snapshot_behind_a_reset_is_not_undone_by_it() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.send(A, 4, &[bid(7, 3, 102)]);
    bed.wait(200);
    // It holds packets up to 7; the reset was 6.
    bed.send_at(SNAP, 1, 70, &[snapshot(7, 7, 1, 1, &[50])]);
    assert!(bed.state(7) == BookState::Stale || bed.bids(7) == [50]);
    let shown = bed.bids(7);
    bed.send(A, 5, &[bid(7, 4, 103)]);
    bed.send(
        A,
        6,
        &[encoded!(ChannelReset4Encoder, |m| {
            m.match_event_indicator(END);
        })],
    );
    bed.send(A, 7, &[bid(7, 1, 50)]);
    assert_eq!((bed.bids(7), bed.state(7)), (vec![50], BookState::Latest));
    assert!(shown == [50] || shown == [100], "{shown:?}");
    bed.send(A, 8, &[bid(7, 2, 51)]);
    assert_eq!(bed.bids(7), [51, 50]);
}

#[test]
fn an_instrument_that_missed_nothing_goes_on_over_a_gap() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.send(A, 4, &[bid(7, 2, 101)]);
    bed.wait(200);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![101, 100]));
    assert!(!bed.channel.is_recovering());
}

#[test]
fn snapshots_older_than_the_loss_are_of_no_use() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.send(A, 4, &[heartbeat()]);
    bed.wait(200);
    assert_eq!(bed.state(7), BookState::Suspect);
    bed.send(SNAP, 1, &[snapshot(7, 2, 1, 1, &[100])]);
    assert_eq!((bed.state(7), bed.count(Reason::OldSnapshot)), (BookState::Suspect, 1));
    bed.send(SNAP, 2, &[snapshot(7, 4, 1, 1, &[100])]);
    assert_eq!(bed.state(7), BookState::Latest);
}

#[test]
fn a_late_join_takes_snapshots_and_goes_on_behind_them() {
    let mut bed = Bed::new(config());
    bed.send(A, 500, &[bid(7, 42, 104)]);
    assert!(bed.channel.is_recovering() && bed.channel.wants(Feed::Snapshot));
    bed.send(A, 501, &[bid(7, 43, 105), bid(8, 9, 50)]);
    bed.send(SNAP, 1, &[snapshot(7, 500, 42, 2, &[104, 103])]);
    assert_eq!(bed.bids(7), [105, 104, 103]);
    // A snapshot ahead of the packets: what it holds is not applied twice.
    bed.send_at(SNAP, 2, 5_030, &[snapshot(8, 503, 11, 2, &[52, 51, 50])]);
    bed.send(A, 502, &[bid(8, 10, 51)]);
    bed.send(A, 503, &[bid(8, 11, 52)]);
    bed.send(A, 504, &[bid(8, 12, 53)]);
    assert_eq!(bed.bids(8), [53, 52, 51, 50]);
    assert_eq!((bed.count(Reason::InSnapshot), bed.channel.is_recovering()), (2, false));
}

#[test]
fn an_instrument_absent_from_a_whole_loop_is_empty() {
    let config = Config { white_list: WhiteList::new().id(7).id(8), ..config() };
    let mut bed = Bed::new(config);
    bed.send(A, 500, &[heartbeat()]);
    assert_eq!(bed.state(8), BookState::Undefined);
    // Number 9 is not on the list but part of the loop.
    bed.send(SNAP, 1, &[snapshot(7, 500, 3, 2, &[100]), snapshot(9, 500, 3, 2, &[100])]);
    assert_eq!((bed.state(7), bed.state(8)), (BookState::Latest, BookState::Latest));
    assert!(!bed.channel.is_recovering() && bed.channel.book(9).is_none());
    bed.send(A, 501, &[bid(8, 1, 60)]);
    assert_eq!(bed.bids(8), [60]);
}

#[test]
fn packets_that_only_snapshots_know_of_are_lost_in_the_end() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.log.take();
    bed.send_at(SNAP, 1, 31, &[snapshot(7, 3, 2, 1, &[101, 100])]);
    bed.wait(200);
    assert!(bed.log.take().is_empty(), "one snapshot may be wrong");
    bed.send_at(SNAP, 2, 32, &[snapshot(7, 3, 2, 1, &[101, 100])]);
    bed.send_at(SNAP, 1, 33, &[snapshot(7, 3, 2, 1, &[101, 100])]);
    bed.wait(200);
    assert_eq!(bed.log.take(), ["gap 3..3 Snapshot cut 0"]);
    bed.send_at(SNAP, 2, 40, &[snapshot(7, 3, 2, 1, &[101, 100])]);
    assert_eq!(bed.bids(7), [101, 100]);
}

#[test]
fn a_channel_reset_empties_everything() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100), bid(7, 2, 101)]);
    let reset = encoded!(ChannelReset4Encoder, |m| {
        m.match_event_indicator(END);
        m.md_entries().unwrap().push().unwrap().appl_id(310);
    });
    bed.log.take();
    bed.send(A, 3, std::slice::from_ref(&reset));
    assert_eq!(bed.log.take(), ["reset Channel"]);
    assert_eq!((bed.bids(7), bed.state(7)), (vec![], BookState::Latest));
    bed.send(A, 4, &[bid(7, 1, 90)]);
    assert_eq!(bed.bids(7), [90]);
    let mut other = Bed::new(Config { channel_id: Some(311), ..config() });
    other.send(A, 1, &[bid(7, 1, 100)]);
    other.send(A, 2, &[reset]);
    assert_eq!(other.bids(7), [100], "of another channel");
}

#[test]
fn numbers_that_start_over_are_believed_at_the_second_packet() {
    let mut bed = Bed::new(config());
    bed.send(A, 900, &[bid(7, 30, 100)]);
    bed.send_at(A, 1, 20_000, &[bid(7, 1, 50)]);
    assert_eq!(bed.channel.expected_seq(), Some(901));
    bed.log.take();
    bed.send_at(A, 2, 20_010, &[bid(7, 2, 51)]);
    assert_eq!(bed.log.take(), ["reset Sequence", "book 7 [50] [] Event", "book 7 [51, 50] [] Event"]);
    assert!(!bed.channel.is_recovering());
    // A snapshot from before is void, whatever its number.
    bed.send_at(SNAP, 1, 19_000, &[snapshot(7, 899, 29, 1, &[1])]);
    assert_eq!((bed.bids(7), bed.count(Reason::OldSnapshot)), (vec![51, 50], 1));
}

#[test]
fn one_wrong_number_does_not_throw_the_channel_off() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.log.take();
    bed.send_at(A, 4_000_000_000, 35, &[heartbeat()]);
    bed.send_at(A, 1, 36, &[heartbeat()]);
    bed.wait(500);
    bed.send(A, 3, &[bid(7, 2, 101)]);
    assert_eq!(bed.log.take(), ["book 7 [101, 100] [] Event"]);
    // A true jump is confirmed by the next packet.
    bed.send(A, 10_000, &[heartbeat()]);
    bed.send(A, 10_001, &[bid(7, 3, 102)]);
    assert_eq!(bed.log.take(), ["gap 4..9999 Jump cut 0", "book 7 [102, 101, 100] [] Event"]);
}

#[test]
fn a_bad_copy_leaves_its_place_to_a_good_one() {
    let mut bed = Bed::started();
    let good = packet(2, 20, &[bid(7, 1, 100)]);
    let mut bad = good.clone();
    bad[12 + 10 + 11 + 2] = 200; // entries in the group
    bed.raw(A, &bad);
    bed.raw(A, &good[..good.len() - 1]);
    bed.raw(A, &good[..11]);
    bed.raw(A, &good[..12]);
    assert_eq!(bed.count(Reason::TruncatedMessage), 1);
    assert_eq!((bed.count(Reason::BadMessageSize), bed.count(Reason::ShortPacket)), (1, 2));
    bed.raw(B, &good);
    assert_eq!(bed.bids(7), [100]);
}

#[test]
fn foreign_and_unknown_messages_are_skipped() {
    let mut bed = Bed::started();
    let mut foreign = bid(7, 1, 1);
    foreign[6] = 9;
    let mut unknown = bid(7, 1, 1);
    unknown[4] = 200;
    let misplaced = snapshot(7, 1, 1, 1, &[1]);
    bed.send(A, 2, &[foreign, unknown, misplaced, bid(7, 1, 100)]);
    assert_eq!(bed.bids(7), [100]);
    for reason in [Reason::ForeignSchema, Reason::UnknownTemplate, Reason::MisplacedTemplate] {
        assert_eq!(bed.count(reason), 1, "{reason}");
    }
}

#[test]
fn lines_and_channel_go_down_and_come_up() {
    let mut bed = Bed::new(config());
    bed.send(A, 1, &[heartbeat()]);
    assert_eq!(bed.log.take(), ["line A Up", "channel Up"]);
    bed.wait(999_998);
    assert!(bed.log.take().is_empty());
    bed.send(A, 2, &[heartbeat()]);
    bed.wait(1);
    assert_eq!(bed.log.take(), ["line B Down"]);
    bed.wait(1_000_000);
    assert_eq!(bed.log.take(), ["line A Down", "channel Down"]);
    assert_eq!(bed.channel.next_deadline(), None);
    bed.send(B, 3, &[heartbeat()]);
    assert_eq!(bed.log.take(), ["line B Up", "channel Up"]);
}

#[test]
fn the_backup_takes_over_when_the_primary_is_silent() {
    let policy = LinePolicy::Failover { primary: LineSide::A, backup: LineSide::B };
    let mut bed = Bed::new(Config { line_policy: policy, ..config() });
    bed.send(A, 1, &[heartbeat()]);
    bed.send(B, 1, &[heartbeat()]);
    assert_eq!(bed.count(Reason::Standby), 1);
    bed.now += 600_000;
    bed.send(B, 2, &[bid(7, 1, 100)]);
    bed.log.take();
    bed.wait(500_000);
    assert_eq!(bed.log.take(), ["line A Down", "failover B"]);
    bed.send(B, 2, &[bid(7, 1, 100)]);
    assert_eq!(bed.log.take(), ["book 7 [100] [] Event"]);
}

#[test]
fn definitions_come_modify_and_go() {
    let config = Config {
        definitions: DefinitionLoop::Accurate,
        white_list: WhiteList::new().symbol("GEZ6").symbol("GEH7"),
        ..config()
    };
    let mut bed = Bed::new(config);
    let add = SecurityUpdateAction::ADD;
    assert!(bed.channel.wants(Feed::Instrument));
    bed.send_at(DEFS, 2, 2, &[definition(8, "GEM7", add, 3, 10)]);
    bed.send_at(DEFS, 1, 4, &[definition(7, "GEZ6", add, 3, 5)]);
    bed.send_at(DEFS, 2, 5, &[definition(8, "GEM7", add, 3, 10), definition(9, "GEH7", add, 3, 10)]);
    assert_eq!(bed.log.take(), ["Add 7 GEZ6 5", "Add 9 GEH7 10", "definitions 2"]);
    assert!(!bed.channel.wants(Feed::Instrument));
    bed.send(A, 1, &[bid(8, 1, 100), bid(7, 1, 100)]);
    assert_eq!(bed.count(Reason::NotListed), 1);
    for i in 2..=7 {
        bed.send(A, i, &[bid(7, i, 100 + i64::from(i))]);
    }
    assert_eq!(bed.bids(7), [107, 106, 105, 104, 103], "five levels, as defined");
    bed.log.take();
    bed.send(A, 8, &[definition(7, "GEZ6", SecurityUpdateAction::MODIFY, 3, 3)]);
    assert_eq!((bed.log.take(), bed.bids(7)), (vec!["Modify 7 GEZ6 3".to_owned()], vec![107, 106, 105]));
    bed.send(A, 9, &[definition(7, "GEZ6", SecurityUpdateAction::DELETE, 3, 3)]);
    assert_eq!(bed.log.take(), ["Delete 7 GEZ6 3"]);
    assert!(bed.channel.book(7).is_none() && bed.channel.instruments().count() == 1);
    bed.send(A, 10, &[definition(7, "GEZ6", add, 3, 3), bid(7, 1, 100)]);
    assert_eq!((bed.bids(7), bed.state(7)), (vec![100], BookState::Latest));
}

#[test]
fn statuses_reach_securities_groups_and_assets() {
    let mut bed = Bed::started();
    let defs = [(7, "GEZ6"), (8, "GEH7")].map(|(id, s)| definition(id, s, SecurityUpdateAction::ADD, 2, 10));
    bed.send(A, 2, &defs);
    bed.log.take();
    let status = |id: Option<i32>, group: &str, asset: &str, status| {
        encoded!(SecurityStatus30Encoder, |m| {
            m.security_id(id).security_group(group).asset(asset).security_trading_status(status);
            m.match_event_indicator(END);
        })
    };
    bed.send(A, 3, &[status(Some(7), "", "", SecurityTradingStatus::PRE_OPEN)]);
    bed.send(A, 4, &[status(None, "GE", "", SecurityTradingStatus::READY_TO_TRADE)]);
    bed.send(A, 5, &[status(None, "", "GE", SecurityTradingStatus::NO_CHANGE)]);
    bed.send(A, 6, &[status(None, "ES", "", SecurityTradingStatus::CLOSE)]);
    let told = bed.log.take();
    assert_eq!(told[0], "status 7 TradingStatus(21) Security");
    assert_eq!(told[1..3], ["status 7 TradingStatus(17) Group", "status 8 TradingStatus(17) Group"]);
    assert_eq!(told[3], "status 7 TradingStatus(103) Asset");
    assert_eq!(told.len(), 5);
    assert_eq!(bed.channel.instrument(8).unwrap().trading_status, TradingStatus::READY_TO_TRADE);
}

#[test]
fn trades_statistics_limits_and_quote_requests_are_told() {
    let mut bed = Bed::started();
    let trade = encoded!(MdIncrementalRefreshTradeSummaryLongQty65Encoder, |m| {
        let mut group = m.md_entries().unwrap();
        let e = &mut group.push().unwrap();
        e.security_id(7).rpt_seq(1).md_entry_px(Price9(5)).md_entry_size(1 << 40).md_trade_entry_id(9);
    });
    let volume = encoded!(MdIncrementalRefreshVolumeLongQty66Encoder, |m| {
        m.md_entries().unwrap().push().unwrap().security_id(7).rpt_seq(2).md_entry_size(77);
    });
    let daily = encoded!(MdIncrementalRefreshDailyStatistics49Encoder, |m| {
        let mut group = m.md_entries().unwrap();
        let e = &mut group.push().unwrap();
        e.security_id(7).rpt_seq(3).md_entry_type(MdEntryTypeDailyStatistics::OPEN_INTEREST).md_entry_size(3);
    });
    let limits = encoded!(MdIncrementalRefreshLimitsBanding50Encoder, |m| {
        let mut group = m.md_entries().unwrap();
        let e = &mut group.push().unwrap();
        e.security_id(7).rpt_seq(4).low_limit_price(Price9(10)).high_limit_price(Price9(20));
        m.match_event_indicator(END);
    });
    let quote = encoded!(QuoteRequest39Encoder, |m| {
        m.match_event_indicator(END);
        m.related_sym().unwrap().push().unwrap().security_id(7).order_qty(12);
    });
    bed.send(A, 2, &[trade, volume, daily, limits, quote, bid(7, 5, 100)]);
    let told = bed.log.take();
    assert_eq!(told[0], "trade 7 1099511627776@5 Some(9)");
    assert_eq!(told[1..3], ["Volume 7 Some(77)", "OpenInterest 7 Some(3)"]);
    assert_eq!(told[3..], ["limits 7 10 20", "quote 7 Some(12)", "book 7 [100] [] Event"]);
    let statistics = bed.channel.statistics(7).unwrap();
    assert_eq!(statistics.get(StatisticKind::Volume).and_then(|s| s.quantity), Some(77));
    assert_eq!(statistics.limits().map(|l| l.high), Some(20));
}

#[test]
fn implied_consolidated_and_market_best() {
    let mut bed = Bed::started();
    let entries = [
        (7, 1, 0, 1, b'0', 100),
        (7, 2, 0, 1, b'E', 101),
        (7, 3, 0, 2, b'E', 100),
        (7, 4, 0, 1, b'x', 99),
        (7, 5, 0, 1, b'w', 110),
    ];
    bed.send(A, 2, &[book(&entries, END)]);
    let view = bed.channel.book(7).unwrap();
    assert_eq!((prices(view.bids()), prices(view.implied(BookSide::Bid))), (vec![100], vec![101, 100]));
    let merged: Vec<_> = view.consolidated(BookSide::Bid).map(|l| (l.price, l.quantity)).collect();
    assert_eq!(merged, [(101, 101), (100, 200)]);
    assert_eq!(view.market_best(BookSide::Bid).map(|l| l.price), Some(99));
    assert_eq!(view.market_best(BookSide::Offer).map(|l| l.price), Some(110));
    bed.send(A, 3, &[book(&[(7, 6, 0, 1, b'J', 0), (7, 7, 0, 1, b'0', 50)], END)]);
    let view = bed.channel.book(7).unwrap();
    assert_eq!((prices(view.bids()), view.implied(BookSide::Bid).len()), (vec![50], 0));
}

#[test]
fn a_book_reset_makes_a_stale_instrument_good() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    bed.send(A, 3, &[bid(7, 5, 104)]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Stale, vec![100]));
    bed.send(A, 4, &[book(&[(7, 6, 0, 0, b'J', 0), (7, 7, 0, 1, b'0', 50)], END)]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![50]));
}

#[test]
fn a_level_that_cannot_be_makes_the_instrument_stale() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100), bid(8, 1, 10)]);
    bed.send(A, 3, &[book(&[(7, 2, 0, 1, b'0', 101), (7, 3, 1, 9, b'0', 1), (8, 2, 1, 1, b'0', 11)], END)]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Stale, vec![]), "half an event is not shown");
    assert_eq!((bed.state(8), bed.bids(8)), (BookState::Latest, vec![11]));
    assert_eq!(bed.count(Reason::LevelOutOfRange), 1);
    bed.send(SNAP, 1, &[snapshot(7, 3, 3, 2, &[101, 100])]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![101, 100]));
}

fn top_orders(id: i32, orders: &[(u64, u8, i64)], indicator: MatchEventIndicator) -> Vec<u8> {
    encoded!(SnapshotRefreshTopOrders59Encoder, |m| {
        m.security_id(id).match_event_indicator(indicator);
        let mut group = m.md_entries().unwrap();
        for &(order, kind, price) in orders {
            let e = &mut group.push().unwrap();
            e.order_id(order).md_order_priority(order).md_entry_px(Price9(price)).md_display_qty(1);
            e.md_entry_type(MdEntryTypeBook(kind));
        }
    })
}

fn order_ids(bed: &Bed, side: BookSide) -> Vec<u64> {
    bed.channel.book(7).unwrap().orders(side).iter().map(|o| o.id).collect()
}

#[test]
fn top_orders_replace_one_another_at_the_end_of_the_event() {
    let mut bed = Bed::started();
    let first = [(3, b'0', 10), (4, b'1', 20), (2, b'0', 11), (5, b'1', 19)];
    bed.send(A, 2, &[top_orders(7, &first, MORE)]);
    assert!(order_ids(&bed, BookSide::Bid).is_empty());
    bed.send(A, 3, &[bid(7, 1, 11)]);
    assert_eq!((order_ids(&bed, BookSide::Bid), order_ids(&bed, BookSide::Offer)), (vec![2, 3], vec![5, 4]));
    bed.send(A, 4, &[top_orders(7, &[(9, b'0', 12)], END)]);
    assert_eq!((order_ids(&bed, BookSide::Bid), order_ids(&bed, BookSide::Offer)), (vec![9], vec![]));
    // A loss: the orders are suspect until the next overlay, or a snapshot of them.
    bed.send(A, 6, &[bid(7, 2, 12)]);
    bed.wait(200);
    assert_eq!(bed.channel.book(7).unwrap().orders_state, BookState::Suspect);
    let chunk = |last: u32, n: u32, order: u64| {
        encoded!(SnapshotFullRefreshOrderBook53Encoder, |m| {
            m.security_id(7).last_msg_seq_num_processed(last).no_chunks(2).current_chunk(n);
            let mut group = m.md_entries().unwrap();
            let e = &mut group.push().unwrap();
            e.order_id(order).md_entry_px(Price9(1)).md_display_qty(1).md_entry_type(MdEntryTypeBook::BID);
        })
    };
    bed.send(SNAP, 1, &[chunk(6, 2, 21)]);
    assert_eq!((order_ids(&bed, BookSide::Bid), bed.count(Reason::BrokenChunks)), (vec![9], 1));
    bed.send(SNAP, 2, &[chunk(6, 1, 20), chunk(6, 2, 21)]);
    assert_eq!(order_ids(&bed, BookSide::Bid), [20, 21]);
    assert_eq!(bed.channel.book(7).unwrap().orders_state, BookState::Latest);
}

#[test]
fn orders_are_kept_from_single_updates() {
    let mut bed = Bed::started();
    let with_orders = encoded!(MdIncrementalRefreshBook46Encoder, |m| {
        m.match_event_indicator(END);
        let mut group = m.md_entries().unwrap();
        for (rpt, kind, price) in [(1, b'0', 10), (2, b'1', 20)] {
            let e = &mut group.push().unwrap();
            e.security_id(7).rpt_seq(rpt).md_update_action(MdUpdateAction::NEW).md_price_level(1);
            e.md_entry_type(MdEntryTypeBook(kind)).md_entry_px(Price9(price)).md_entry_size(2);
        }
        let mut group = m.order_id_entries().unwrap();
        for (order, reference) in [(1, 1), (2, 1), (3, 2), (4, 9)] {
            let e = &mut group.push().unwrap();
            e.order_id(order).md_order_priority(order).md_display_qty(1).reference_id(reference);
            e.order_update_action(OrderUpdateAction::NEW);
        }
    });
    bed.send(A, 2, &[with_orders]);
    assert_eq!((order_ids(&bed, BookSide::Bid), order_ids(&bed, BookSide::Offer)), (vec![1, 2], vec![3]));
    assert_eq!(bed.count(Reason::BadEntry), 1, "a reference to no entry");
    let alone = encoded!(MdIncrementalRefreshOrderBook47Encoder, |m| {
        m.match_event_indicator(END);
        let mut group = m.md_entries().unwrap();
        for (order, action) in [(1, MdUpdateAction::DELETE), (5, MdUpdateAction::NEW)] {
            let e = &mut group.push().unwrap();
            e.security_id(7).order_id(order).md_order_priority(order).md_entry_px(Price9(11));
            e.md_display_qty(1).md_update_action(action).md_entry_type(MdEntryTypeBook::BID);
        }
    });
    bed.send(A, 3, &[alone]);
    assert_eq!(order_ids(&bed, BookSide::Bid), [5, 2]);
}

#[test]
fn no_room_is_counted_and_nothing_is_wrong_afterwards() {
    let mut bed = Bed::new(Config { instruments: 2, pending_entries: 1, ..config() });
    bed.send(A, 1, &[bid(7, 1, 100), bid(8, 1, 100), bid(9, 1, 100)]);
    assert_eq!(bed.count(Reason::InstrumentTableFull), 1);
    bed.send(A, 2, &[book(&[(7, 2, 0, 1, b'0', 101), (8, 2, 0, 1, b'0', 101)], MORE)]);
    bed.send(A, 3, &[book(&[(7, 3, 0, 1, b'0', 102)], END)]);
    // 7's entry took the only place; its next found none.
    assert_eq!((bed.state(7), bed.state(8)), (BookState::Stale, BookState::Stale));
    assert_eq!(bed.count(Reason::PendingFull), 2);
    bed.send(SNAP, 1, &[snapshot(7, 3, 3, 3, &[102, 101, 100]), snapshot(8, 3, 2, 3, &[101, 100])]);
    assert_eq!((bed.state(7), bed.bids(8)), (BookState::Latest, vec![101, 100]));
    assert_eq!(bed.channel.waiting(), (0, 0));
}

#[test]
fn ten_thousand_instruments() {
    let mut bed = Bed::new(Config { instruments: 10_000, ..config() });
    for i in 0..10_000u32 {
        bed.send(A, 1 + i, &[bid(i as i32 * 3, 1, i64::from(i))]);
    }
    assert_eq!(bed.channel.books().filter(|b| b.state == BookState::Latest).count(), 10_000);
    assert_eq!(bed.bids(29_997), [9_999]);
    assert_eq!(bed.channel.counters().drops().count(), 0);
}
