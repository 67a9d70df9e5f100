//! What must not be called good: each case by a short literal sequence of packets.

#[macro_use]
mod bed;
mod sim;

use barewire_base::Duration;
use barewire_feed::*;
use barewire_sbe::Price9;
use barewire_sbe::mdp3::*;
use bed::*;

const ADD: SecurityUpdateAction = SecurityUpdateAction::ADD;
const HOUR_NS: u64 = 3_600 * 1_000_000_000;

fn only_group() -> Config {
    let white_list = WhiteList::new().group("GE");
    Config { definitions: DefinitionLoop::Fast, white_list, ..config() }
}

#[test]
fn an_instrument_that_is_named_late_is_not_taken_for_empty() {
    let mut bed = Bed::new(only_group());
    bed.send(A, 1, &[bid(7, 1, 100)]);
    assert_eq!(bed.count(Reason::NotListed), 1);
    bed.send_at(DEFS, 1, 11, &[definition(7, "GEZ6", ADD, 2, 10), definition(8, "GEH7", ADD, 2, 10)]);
    assert_ne!(bed.state(7), BookState::Latest);
    assert_eq!((bed.state(8), bed.bids(8)), (BookState::Latest, vec![]), "nothing of it went by");
    assert!(bed.channel.wants(Feed::Snapshot));
    // A snapshot from before what went by does not make it good either.
    bed.send(A, 2, &[heartbeat()]);
    bed.send_at(SNAP, 1, 9, &[snapshot(7, 0, 0, 1, &[])]);
    assert_ne!(bed.state(7), BookState::Latest);
    bed.send_at(SNAP, 1, 12, &[snapshot(7, 1, 1, 1, &[100])]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![100]));
    assert!(!bed.channel.is_recovering());
}

#[test]
fn an_instrument_that_is_named_after_a_reset_is_judged_by_what_came_since() {
    let mut bed = Bed::new(only_group());
    bed.send(A, 1, &[bid(7, 1, 100), bid(8, 1, 100)]);
    let reset = encoded!(ChannelReset4Encoder, |m| {
        m.match_event_indicator(END);
    });
    bed.send(A, 2, &[reset]);
    bed.send(A, 3, &[bid(7, 1, 90)]);
    bed.send_at(DEFS, 1, 31, &[definition(7, "GEZ6", ADD, 2, 10), definition(8, "GEH7", ADD, 2, 10)]);
    assert_ne!(bed.state(7), BookState::Latest);
    assert_eq!((bed.state(8), bed.bids(8)), (BookState::Latest, vec![]));
}

/// The loop was left, as it is while nothing is to be learned from it, and is heard again much later.
#[test]
fn a_loop_that_is_heard_again_after_hours_counts() {
    let config = Config { white_list: WhiteList::new().id(7).id(8), ..config() };
    let mut bed = Bed::new(config);
    bed.send(A, 1, &[bid(7, 1, 100), bid(8, 1, 100)]);
    bed.send(SNAP, 1, &[snapshot(7, 1, 1, 2, &[100]), snapshot(8, 1, 1, 2, &[100])]);
    bed.now += 2 * HOUR_NS;
    let later = |seq: u32| 2 * HOUR_NS + u64::from(seq) * 10;
    bed.send_at(A, 2, later(2), &[bid(7, 2, 101)]);
    bed.send_at(A, 4, later(4), &[bid(7, 3, 102)]);
    bed.wait(200);
    assert_eq!(bed.state(8), BookState::Suspect);
    // 8 has been emptied meanwhile: the loop leaves it out.
    bed.send_at(SNAP, 1, later(5), &[snapshot(7, 4, 3, 1, &[102, 101, 100])]);
    assert_eq!((bed.state(8), bed.bids(8)), (BookState::Latest, vec![]));
    bed.send_at(Line::new(Feed::Snapshot, LineSide::B), 1, later(5), &[snapshot(7, 4, 3, 1, &[102])]);
    assert_eq!(bed.count(Reason::Duplicate), 1, "the copy of the other line is one");
}

/// The exchange sends a heartbeat after 30 s of silence: one that comes a moment late is no line that is down.
#[test]
fn a_quiet_line_that_keeps_its_heartbeat_stays_up() {
    let heartbeat_timeout = Config::default().heartbeat_timeout;
    let mut bed = Bed::new(Config { heartbeat_timeout, lines: 1, ..config() });
    for seq in 1..10 {
        bed.send(A, seq, &[heartbeat()]);
        for _ in 0..30 {
            bed.wait(Duration::from_millis(1_000).as_nanos());
        }
        bed.wait(Duration::from_millis(900).as_nanos());
    }
    assert_eq!(bed.log.take(), ["line A Up", "channel Up"]);
    // One that is lost is none either; three are.
    bed.wait(Duration::from_secs(60).as_nanos());
    assert_eq!(bed.log.take(), ["line A Down", "channel Down"]);
}

fn opening(rpt: u32, action: u8, price: i64) -> Vec<u8> {
    encoded!(MdIncrementalRefreshSessionStatistics51Encoder, |m| {
        m.match_event_indicator(END);
        let mut group = m.md_entries().unwrap();
        let e = &mut group.push().unwrap();
        e.security_id(7).rpt_seq(rpt).md_entry_px(Price9(price)).md_update_action(MdUpdateAction(action));
        e.md_entry_type(MdEntryTypeStatistics::OPEN_PRICE);
        e.open_close_settl_flag(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE);
    })
}

fn status(id: Option<i32>, group: &str, event: SecurityTradingEvent) -> Vec<u8> {
    encoded!(SecurityStatus30Encoder, |m| {
        m.security_id(id).security_group(group).security_trading_status(SecurityTradingStatus::NO_CHANGE);
        m.security_trading_event(event).match_event_indicator(END);
    })
}

#[test]
fn the_exchange_resets_statistics() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[definition(7, "GEZ6", ADD, 1, 10), opening(1, 0, 5)]);
    assert_eq!(bed.channel.statistics(7).unwrap().iter().count(), 1);
    bed.send(A, 3, &[status(Some(7), "", SecurityTradingEvent::NO_EVENT)]);
    assert_eq!(bed.channel.statistics(7).unwrap().iter().count(), 1);
    bed.send(A, 4, &[status(None, "GE", SecurityTradingEvent::RESET_STATISTICS)]);
    assert_eq!(bed.channel.statistics(7).unwrap().iter().count(), 0);
    // A snapshot from before brings nothing back, though its book is taken.
    bed.send(A, 5, &[bid(7, 2, 100)]);
    bed.send(A, 6, &[bid(7, 4, 102)]);
    let with_open = |last: u32, rpt: u32| {
        encoded!(SnapshotFullRefresh52Encoder, |m| {
            m.last_msg_seq_num_processed(last).rpt_seq(rpt).tot_num_reports(1).security_id(7);
            let mut group = m.md_entries().unwrap();
            let e = &mut group.push().unwrap();
            e.md_entry_px(Price9(5)).md_entry_type(MdEntryType::OPEN_PRICE);
            e.open_close_settl_flag(OpenCloseSettlFlag::INDICATIVE_OPENING_PRICE);
        })
    };
    bed.send_at(SNAP, 1, 65, &[with_open(3, 3)]);
    assert_eq!(bed.state(7), BookState::Latest);
    assert_eq!(bed.channel.statistics(7).unwrap().iter().count(), 0);
}

#[test]
fn a_statistic_that_was_deleted_inside_a_gap_is_gone() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[opening(1, 0, 5)]);
    bed.send(A, 4, &[heartbeat()]);
    bed.wait(200);
    bed.send_at(SNAP, 1, 45, &[snapshot(7, 4, 2, 1, &[])]);
    assert_eq!(bed.state(7), BookState::Latest);
    assert_eq!(bed.channel.statistics(7).unwrap().iter().count(), 0);
    // One that is newer than the snapshot stays.
    bed.send(A, 5, &[opening(3, 0, 6)]);
    bed.send(A, 7, &[opening(5, 0, 7)]);
    bed.wait(200);
    bed.send_at(SNAP, 1, 75, &[snapshot(7, 6, 4, 1, &[])]);
    assert_eq!(bed.channel.statistics(7).unwrap().iter().next().map(|s| s.price), Some(7));
}

#[test]
fn a_definition_that_ends_an_event_leaves_its_time_alone() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[book(&[(7, 1, 0, 1, b'0', 100)], MORE), definition(8, "GEZ6", ADD, 1, 10)]);
    assert_eq!((bed.bids(7), bed.channel.book(7).unwrap().transact_time_ns), (vec![100], 1));
}

fn limits(rpt: u32, high: i64) -> Vec<u8> {
    encoded!(MdIncrementalRefreshLimitsBanding50Encoder, |m| {
        m.match_event_indicator(END);
        let mut group = m.md_entries().unwrap();
        group.push().unwrap().security_id(7).rpt_seq(rpt).high_limit_price(Price9(high));
    })
}

fn high_limit(bed: &Bed) -> Option<i64> {
    bed.channel.statistics(7).unwrap().limits().map(|l| l.high)
}

fn statistics(bed: &Bed) -> Vec<i64> {
    bed.channel.statistics(7).unwrap().iter().map(|s| s.price).collect()
}

#[test]
fn limits_that_were_withdrawn_inside_a_gap_are_gone() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[limits(1, 500)]);
    assert_eq!(high_limit(&bed), Some(500));
    bed.send(A, 4, &[heartbeat()]);
    bed.wait(200);
    bed.send_at(SNAP, 1, 45, &[snapshot(7, 4, 2, 1, &[])]);
    assert_eq!((bed.state(7), high_limit(&bed)), (BookState::Latest, None));
    // Those that are newer than the snapshot stay.
    bed.send(A, 5, &[limits(3, 600)]);
    bed.send(A, 7, &[limits(5, 700)]);
    bed.wait(200);
    bed.send_at(SNAP, 1, 75, &[snapshot(7, 6, 4, 1, &[])]);
    assert_eq!((bed.state(7), high_limit(&bed)), (BookState::Latest, Some(700)));
}

#[test]
fn a_book_reset_behind_a_gap_confirms_no_statistic_from_before_it() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[opening(1, 0, 5), limits(2, 500)]);
    // RptSeq 3 is lost: it may have changed either.
    bed.send(A, 4, &[book(&[(7, 4, 0, 0, b'J', 0)], END)]);
    bed.wait(200);
    assert_eq!(bed.state(7), BookState::Latest);
    assert_eq!((statistics(&bed), high_limit(&bed)), (vec![], None));
    // What came behind the gap stays.
    bed.send(A, 5, &[opening(5, 0, 6)]);
    bed.send(A, 7, &[opening(7, 0, 7), limits(8, 600)]);
    bed.wait(200);
    bed.send(A, 8, &[book(&[(7, 9, 0, 0, b'J', 0)], END)]);
    assert_eq!(bed.state(7), BookState::Latest);
    assert_eq!((statistics(&bed), high_limit(&bed)), (vec![7], Some(600)));
}

#[test]
fn natural_refresh_confirms_no_statistic_from_before_the_gap() {
    let mut bed = Bed::new(Config { recovery: Recovery::Natural, depth: 1, implied_depth: 0, ..config() });
    bed.send(A, 1, &[bid(7, 1, 100), opening(2, 0, 5), limits(3, 500)]);
    bed.send(A, 3, &[book(&[(7, 5, 0, 1, b'0', 101), (7, 6, 0, 1, b'1', 105)], END)]);
    bed.wait(200);
    assert_eq!(bed.state(7), BookState::NaturallyRefreshed);
    assert_eq!((statistics(&bed), high_limit(&bed)), (vec![], None));
}

#[test]
fn an_instrument_whose_book_alone_was_wrong_keeps_its_statistics() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[opening(1, 0, 5)]);
    // A level that the book cannot have: nothing was missed, but the book is not what it should be.
    bed.send(A, 3, &[book(&[(7, 2, 1, 4, b'0', 100)], END)]);
    assert_eq!(bed.state(7), BookState::Stale);
    bed.send(A, 4, &[book(&[(7, 3, 0, 0, b'J', 0)], END)]);
    assert_eq!((bed.state(7), statistics(&bed)), (BookState::Latest, vec![5]));
}

/// The status and the reset of statistics have no RptSeq, but a snapshot of a later packet knows of both.
#[test]
fn a_status_does_not_undo_a_newer_snapshot() {
    let told = |status: SecurityTradingStatus, event: SecurityTradingEvent| {
        encoded!(SecurityStatus30Encoder, |m| {
            m.security_id(Some(7)).security_trading_status(status).security_trading_event(event);
            m.match_event_indicator(END);
        })
    };
    let shot = |status: SecurityTradingStatus| {
        encoded!(SnapshotFullRefresh52Encoder, |m| {
            m.last_msg_seq_num_processed(10).rpt_seq(3).tot_num_reports(1).security_id(7);
            m.md_security_trading_status(status);
            let mut group = m.md_entries().unwrap();
            let e = &mut group.push().unwrap();
            e.md_entry_px(Price9(5)).md_entry_type(MdEntryType::SETTLEMENT_PRICE);
        })
    };
    let (halt, ready) = (SecurityTradingStatus::TRADING_HALT, SecurityTradingStatus::READY_TO_TRADE);
    let (none, reset) = (SecurityTradingEvent::NO_EVENT, SecurityTradingEvent::RESET_STATISTICS);
    for (in_snapshot, status) in [(ready, 17), (SecurityTradingStatus(255), 2)] {
        let mut bed = Bed::started();
        bed.send(A, 2, &[bid(7, 2, 100)]);
        bed.send_at(SNAP, 1, 105, &[shot(in_snapshot)]);
        assert_eq!(statistics(&bed), [5]);
        bed.log.take();
        bed.send(A, 3, &[told(halt, reset)]);
        assert_eq!(statistics(&bed), [5], "the snapshot is newer");
        let it = bed.channel.instrument(7).unwrap();
        assert_eq!(it.trading_status, TradingStatus(status), "as of the snapshot, where it says one");
        assert_eq!(bed.log.take().is_empty(), status == 17, "nobody is told what is old");
        for seq in 4..=10 {
            bed.send(A, seq, &[heartbeat()]);
        }
        bed.send(A, 11, &[told(halt, none)]);
        assert_eq!(bed.channel.instrument(7).unwrap().trading_status, TradingStatus::HALT);
        bed.send(A, 12, &[told(ready, reset)]);
        assert_eq!(statistics(&bed), []);
    }
}

/// The exchange has more levels than the channel was told.
#[test]
fn a_level_beyond_the_depth_makes_the_book_deeper() {
    let mut bed = Bed::new(Config { depth: 2, ..config() });
    bed.send(A, 1, &[book(&[(7, 1, 0, 1, b'0', 100), (7, 2, 0, 2, b'0', 99)], END)]);
    bed.send(A, 2, &[book(&[(7, 3, 0, 3, b'0', 98)], END)]);
    assert_eq!((bed.state(7), bed.count(Reason::LevelOutOfRange)), (BookState::Stale, 1));
    bed.send_at(SNAP, 1, 25, &[snapshot(7, 2, 3, 1, &[100, 99, 98, 97])]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![100, 99, 98, 97]));
    bed.send(A, 3, &[book(&[(7, 4, 2, 4, b'0', 0), (7, 5, 0, 3, b'0', 96)], END)]);
    assert_eq!((bed.state(7), bed.count(Reason::LevelOutOfRange)), (BookState::Latest, 1));
}

/// Where a definition is to say how deep a book is, nobody can call it good before.
#[test]
fn a_book_whose_depth_no_definition_has_named_is_not_called_good() {
    let mut bed = Bed::new(Config { definitions: DefinitionLoop::Fast, ..config() });
    for (rpt, price) in (1..=4u32).zip(100..) {
        bed.send(A, rpt, &[bid(7, rpt, price)]);
    }
    assert_eq!(bed.state(7), BookState::Undefined, "the exchange may have three levels only");
    bed.log.take();
    bed.send_at(DEFS, 1, 45, &[definition(7, "GEZ6", ADD, 1, 3)]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![103, 102, 101]));
    let told = bed.log.take();
    assert!(told.contains(&"book 7 [103, 102, 101] [] Definition".to_owned()), "{told:?}");
    // Without the loop the configuration's depth is the exchange's.
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid(7, 1, 100)]);
    assert_eq!(bed.state(7), BookState::Latest);
}
