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
