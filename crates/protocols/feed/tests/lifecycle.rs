//! Weeks and instruments that begin and end, by short literal sequences of packets.

#[macro_use]
mod bed;
mod sim;

use barewire_feed::*;
use barewire_sbe::mdp3::*;
use barewire_sbe::{MonthYear, Price9};
use bed::*;

const ADD: SecurityUpdateAction = SecurityUpdateAction::ADD;
const MODIFY: SecurityUpdateAction = SecurityUpdateAction::MODIFY;
const DELETE: SecurityUpdateAction = SecurityUpdateAction::DELETE;

fn with_loop(definitions: DefinitionLoop) -> Config {
    Config { definitions, ..config() }
}

#[test]
fn what_is_under_way_of_the_old_week_is_not_taken_for_the_new_one() {
    let mut bed = Bed::new(config());
    bed.send_at(A, 900, 9_000, &[bid(7, 30, 100)]);
    bed.send_at(A, 1, 20_000, &[bid(7, 1, 50)]);
    bed.send_at(B, 1, 20_000, &[bid(7, 1, 50)]);
    assert_eq!((bed.channel.expected_seq(), bed.bids(7)), (Some(2), vec![50]));
    // Copies of the last packets of the week, and one never seen, on both lines: no jump to 901.
    for line in [A, B] {
        for seq in [899, 900, 901, 902] {
            bed.send_at(line, seq, 9_000 + u64::from(seq), &[bid(7, seq - 869, 1)]);
        }
    }
    assert_eq!((bed.count(Reason::OldNumbering), bed.channel.counters().gaps), (8, 0));
    // Nor by a number that is next in turn, or within reach.
    bed.send_at(A, 2, 9_010, &[bid(7, 2, 1)]);
    bed.send_at(B, 4, 9_020, &[bid(7, 4, 1)]);
    bed.wait(500);
    assert_eq!((bed.count(Reason::OldNumbering), bed.channel.expected_seq()), (10, Some(2)));
    bed.send_at(A, 2, 20_010, &[bid(7, 2, 51)]);
    assert_eq!((bed.bids(7), bed.state(7)), (vec![51, 50], BookState::Latest));
}

/// One packet of another numbering, and then the old one goes on: when the week does begin, it is not a part of it.
#[test]
fn a_number_that_nobody_confirmed_in_time_is_forgotten() {
    let mut bed = Bed::new(config());
    bed.send_at(A, 900, 9_000, &[bid(7, 30, 100)]);
    bed.send_at(A, 1, 9_500, &[bid(7, 1, 66)]);
    bed.send_at(A, 901, 9_600, &[bid(7, 31, 101)]);
    bed.log.take();
    bed.send_at(A, 2, 20_000, &[bid(7, 1, 50)]);
    assert_eq!((bed.log.take(), bed.channel.expected_seq()), (vec![], Some(902)));
    bed.send_at(A, 3, 20_010, &[bid(7, 2, 51)]);
    assert_eq!(bed.bids(7), [51, 50]);
    // The same ahead.
    bed.send_at(A, 5_000, 20_020, &[bid(7, 9, 66)]);
    bed.send_at(A, 4, 20_030, &[heartbeat()]);
    bed.send_at(A, 5_001, 20_040, &[heartbeat()]);
    assert_eq!((bed.channel.expected_seq(), bed.channel.counters().gaps), (Some(5), 0));
}

#[test]
fn a_week_whose_first_packets_are_lost_is_recovered_by_snapshots() {
    let mut bed = Bed::new(config());
    bed.send_at(A, 900, 9_000, &[bid(7, 30, 100), bid(8, 3, 10)]);
    bed.send_at(SNAP, 1, 9_001, &[snapshot(7, 900, 30, 2, &[100]), snapshot(8, 900, 3, 2, &[10])]);
    assert!(!bed.channel.is_recovering());
    bed.log.take();
    bed.send_at(A, 3, 20_000, &[bid(7, 31, 52)]);
    bed.send_at(B, 4, 20_010, &[bid(9, 1, 60)]);
    let told = bed.log.take();
    assert!(told.contains(&"reset Sequence".to_owned()), "{told:?}");
    // Number 31 continues the old week's 30 only by chance.
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Stale, vec![]));
    assert_eq!((bed.state(8), bed.state(9)), (BookState::Undefined, BookState::Latest));
    assert!(bed.channel.is_recovering());
    bed.send_at(SNAP, 1, 19_000, &[snapshot(8, 900, 3, 2, &[10])]);
    bed.send_at(SNAP, 1, 20_020, &[snapshot(7, 4, 31, 2, &[52, 51]), snapshot(9, 4, 1, 2, &[60])]);
    assert_eq!((bed.bids(7), bed.bids(8), bed.bids(9)), (vec![52, 51], vec![], vec![60]));
    assert_eq!((bed.state(8), bed.channel.is_recovering()), (BookState::Latest, false));
}

/// Snapshots of the old week came, and before the first packet is heard the new week has begun.
#[test]
fn a_late_join_at_the_weekend_takes_nothing_of_the_old_week_along() {
    let mut bed = Bed::new(config());
    bed.send_at(SNAP, 1, 9_000, &[snapshot(7, 900, 30, 2, &[100])]);
    assert_eq!(bed.bids(7), [100]);
    bed.send_at(A, 2, 20_000, &[bid(7, 1, 50)]);
    assert_eq!((bed.bids(7), bed.state(7)), (vec![50], BookState::Latest));
    // One that was under way.
    bed.send_at(SNAP, 2, 9_100, &[snapshot(7, 900, 30, 2, &[100]), snapshot(8, 900, 3, 2, &[10])]);
    bed.wait(500);
    assert!(bed.channel.book(8).is_none_or(|book| book.bids().is_empty()));
    bed.send_at(A, 3, 20_010, &[bid(7, 2, 51)]);
    assert_eq!((bed.bids(7), bed.channel.counters().gaps), (vec![51, 50], 0));
    // Nor over a hole in one week: RptSeq 31 may be that of behind a reset.
    let mut bed = Bed::new(config());
    bed.send_at(SNAP, 1, 9_000, &[snapshot(7, 900, 30, 2, &[100]), snapshot(8, 901, 3, 2, &[10])]);
    bed.send_at(A, 902, 9_020, &[bid(7, 31, 99), bid(8, 4, 11)]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Stale, vec![]));
    assert_eq!((bed.state(8), bed.bids(8)), (BookState::Latest, vec![11, 10]));
    // Within one week a snapshot may well be ahead of the first packet.
    let mut bed = Bed::new(config());
    bed.send_at(SNAP, 1, 9_030, &[snapshot(7, 903, 30, 1, &[100])]);
    bed.send_at(A, 902, 9_020, &[bid(7, 29, 99)]);
    bed.send_at(A, 903, 9_030, &[bid(7, 30, 100)]);
    bed.send_at(A, 904, 9_040, &[bid(7, 31, 101)]);
    assert_eq!((bed.bids(7), bed.state(7)), (vec![101, 100], BookState::Latest));
}

#[test]
fn a_wrong_time_does_not_deafen_the_channel() {
    let mut bed = Bed::new(config());
    bed.send_at(A, 900, 9_000, &[heartbeat()]);
    // Two packets agree on a week that begins in the far future.
    bed.send_at(A, 1, 1 << 60, &[heartbeat()]);
    bed.send_at(B, 1, 1 << 60, &[heartbeat()]);
    for seq in 2..200 {
        bed.send_at(A, seq, 20_000 + u64::from(seq), &[bid(7, seq, 1)]);
    }
    assert_eq!(bed.channel.expected_seq(), Some(200));
    assert!((1..=128).contains(&bed.count(Reason::OldNumbering)), "{}", bed.count(Reason::OldNumbering));
}

#[test]
fn an_instrument_that_is_added_begins_empty_whatever_was_lost() {
    let mut bed = Bed::new(config());
    bed.send(A, 500, &[definition(7, "GEZ6", ADD, 1, 10)]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![]));
    bed.send(A, 501, &[bid(7, 1, 100)]);
    assert_eq!(bed.bids(7), [100]);
    bed.send(A, 503, &[definition(8, "GEH7", ADD, 1, 10), bid(8, 1, 50)]);
    bed.wait(200);
    assert_eq!((bed.state(7), bed.state(8), bed.bids(8)), (BookState::Suspect, BookState::Latest, vec![50]));
    // It was deleted and added anew, and the first is lost: what it had is void.
    bed.send(A, 505, &[definition(7, "GEZ6", ADD, 1, 10)]);
    bed.wait(200);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Undefined, vec![]));
    bed.send(A, 506, &[bid(7, 1, 30)]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![30]));
    // One that has missed nothing cannot have been deleted: no more than a definition told again.
    bed.log.take();
    bed.send(A, 507, &[definition(7, "GEZ6", ADD, 1, 10)]);
    assert_eq!((bed.log.take(), bed.bids(7)), (vec![], vec![30]));
}

#[test]
fn a_deleted_instrument_does_not_come_back_by_what_was_under_way() {
    let mut bed = Bed::new(with_loop(DefinitionLoop::Fast));
    bed.send(A, 1, &[definition(7, "GEZ6", ADD, 1, 10), definition(8, "GEH7", ADD, 1, 10), bid(7, 1, 100)]);
    bed.send_at(DEFS, 1, 11, &[definition(7, "GEZ6", ADD, 2, 10)]);
    bed.send(A, 2, &[definition(7, "GEZ6", DELETE, 1, 10)]);
    assert!(bed.channel.book(7).is_none());
    bed.log.take();
    // Loops that were sent before: SendingTime of packet 2 is 20.
    bed.send_at(DEFS, 2, 19, &[definition(7, "GEZ6", ADD, 2, 10), definition(8, "GEH7", ADD, 2, 5)]);
    assert_eq!((bed.log.take(), bed.count(Reason::OldDefinition)), (vec!["Modify 8 GEH7 5".to_owned()], 1));
    bed.send_at(SNAP, 1, 19, &[snapshot(7, 1, 1, 1, &[100])]);
    assert!(bed.channel.book(7).is_none());
    assert_eq!(bed.count(Reason::OldSnapshot), 1);
    assert!(!bed.channel.definitions_complete());
    bed.send_at(DEFS, 1, 40, &[definition(8, "GEH7", ADD, 1, 5)]);
    assert_eq!(bed.log.take(), ["definitions 1"]);
    // Listed anew, with the same id.
    bed.send(A, 5, &[heartbeat()]);
    bed.send(A, 3, &[definition(7, "GEM8", ADD, 1, 10)]);
    bed.send(A, 4, &[bid(7, 1, 30)]);
    assert_eq!((bed.bids(7), bed.channel.instrument(7).unwrap().symbol.as_str()), (vec![30], "GEM8"));
}

#[test]
fn the_loop_does_not_undo_what_the_incremental_feed_has_said_since() {
    let mut bed = Bed::new(with_loop(DefinitionLoop::Fast));
    bed.send(A, 1, &[definition(7, "GEZ6", ADD, 1, 10)]);
    bed.send(A, 2, &[definition(7, "GEZ6", MODIFY, 1, 3)]);
    bed.log.take();
    bed.send_at(DEFS, 1, 15, &[definition(7, "GEZ6", ADD, 1, 10)]);
    // It is known all the same that there is no other.
    assert_eq!(bed.log.take(), ["definitions 1"]);
    assert_eq!(bed.channel.instrument(7).unwrap().depth, 3);
    // Nor the other way round, where the loop was faster.
    bed.send_at(DEFS, 1, 50, &[definition(7, "GEZ6", ADD, 1, 5)]);
    bed.send(A, 3, &[definition(7, "GEZ6", MODIFY, 1, 4)]);
    assert_eq!(bed.log.take(), ["Modify 7 GEZ6 5"]);
}

#[test]
fn after_a_gap_the_loop_shows_which_instruments_are_gone() {
    for kind in [DefinitionLoop::Fast, DefinitionLoop::Accurate] {
        let mut bed = Bed::new(with_loop(kind));
        bed.send(A, 1, &[bid(7, 1, 100), bid(8, 1, 100), bid(6, 1, 1)]);
        let all = [definition(7, "GEZ6", ADD, 2, 10), definition(8, "GEH7", ADD, 2, 10)];
        bed.send_at(DEFS, 1, 11, &all);
        assert!(bed.channel.definitions_complete() && !bed.channel.wants(Feed::Instrument), "{kind:?}");
        // A deletion of 8 and an addition of 9 may be in packet 2.
        bed.send(A, 3, &[bid(6, 2, 2)]);
        bed.wait(200);
        assert!(bed.channel.wants(Feed::Instrument), "{kind:?}");
        bed.log.take();
        bed.send_at(DEFS, 1, 25, &all);
        assert!(bed.log.take().is_empty(), "{kind:?}: of before the end of the gap");
        let now = [definition(7, "GEZ6", ADD, 2, 10), definition(9, "GEM7", ADD, 2, 10)];
        bed.send_at(DEFS, 1, 31, &now);
        assert_eq!(bed.log.take(), ["Add 9 GEM7 10", "Delete 8 GEH7 10", "definitions 3"], "{kind:?}");
        assert!(bed.channel.book(8).is_none() && bed.channel.definitions_complete(), "{kind:?}");
        assert!(bed.channel.book(6).is_some(), "never defined, and good");
    }
}

#[test]
fn holes_of_the_loop_are_filled_from_later_rounds_or_start_it_over() {
    let part = |ids: &[i32]| ids.iter().map(|&id| definition(id, "X", ADD, 3, 10)).collect::<Vec<_>>();
    for (kind, complete) in [(DefinitionLoop::Fast, true), (DefinitionLoop::Accurate, false)] {
        let mut bed = Bed::new(with_loop(kind));
        bed.send_at(DEFS, 2, 20, &part(&[8, 9]));
        bed.send_at(DEFS, 1, 40, &part(&[7]));
        assert_eq!(bed.channel.definitions_complete(), complete, "{kind:?}");
        bed.send_at(DEFS, 2, 50, &part(&[8, 9]));
        assert!(bed.channel.definitions_complete(), "{kind:?}");
    }
    // Another number of instruments is another set: what was heard of the first does not count.
    let mut bed = Bed::new(with_loop(DefinitionLoop::Fast));
    bed.send_at(DEFS, 1, 20, &part(&[7, 8]));
    bed.send_at(DEFS, 1, 40, &[definition(7, "X", ADD, 2, 10)]);
    assert!(!bed.channel.definitions_complete());
    bed.send_at(DEFS, 2, 50, &[definition(9, "X", ADD, 2, 10)]);
    assert!(bed.channel.definitions_complete());
}

/// Rounds that have as many instruments, but not the same ones, are not taken for one.
#[test]
fn rounds_before_and_behind_a_change_are_not_mixed() {
    let one = |id: i32, action| [definition(id, "X", action, 3, 10)];
    let mut bed = Bed::new(with_loop(DefinitionLoop::Fast));
    // The beginning of a round is lost. Since it began, 9 has been deleted and 12 added.
    bed.send_at(DEFS, 2, 25, &one(9, DELETE));
    bed.send_at(DEFS, 1, 30, &one(7, ADD));
    bed.send_at(DEFS, 2, 35, &one(8, ADD));
    assert!(!bed.channel.definitions_complete());
    bed.send_at(DEFS, 3, 40, &one(12, ADD));
    assert!(bed.channel.definitions_complete());
}

#[test]
fn a_loop_that_says_that_one_is_deleted_takes_it_out() {
    let mut bed = Bed::new(with_loop(DefinitionLoop::Fast));
    bed.send_at(DEFS, 1, 20, &[definition(7, "X", ADD, 2, 10)]);
    bed.send_at(DEFS, 2, 30, &[definition(8, "Y", ADD, 2, 10)]);
    bed.send_at(DEFS, 1, 40, &[definition(7, "X", DELETE, 2, 10)]);
    assert!(bed.channel.book(7).is_none());
    bed.send_at(DEFS, 2, 35, &[definition(7, "X", ADD, 2, 10)]);
    assert!(bed.channel.book(7).is_none(), "sent before the deletion");
}

/// An empty snapshot loop says nothing, so nothing is concluded from its silence. What is first heard of an instrument with
/// RptSeq 1 makes it good; as soon as the loop has something to say, those that it leaves out are empty and good too.
#[test]
fn an_empty_snapshot_loop_is_waited_out() {
    let config = Config { white_list: WhiteList::new().id(7).id(8).id(9), ..config() };
    let mut bed = Bed::new(config);
    bed.send(A, 500, &[heartbeat()]);
    bed.send(A, 501, &[heartbeat()]);
    bed.wait(10_000);
    assert!(bed.channel.is_recovering() && bed.channel.wants(Feed::Snapshot));
    assert_eq!(bed.state(7), BookState::Undefined);
    // A heartbeat on the loop's line is no round of it.
    bed.send_at(SNAP, 1, 5_020, &[heartbeat()]);
    assert_eq!(bed.state(7), BookState::Undefined);
    bed.send(A, 502, &[bid(7, 1, 100)]);
    assert_eq!(
        (bed.state(7), bed.bids(7), bed.state(8)),
        (BookState::Latest, vec![100], BookState::Undefined)
    );
    bed.send_at(SNAP, 1, 5_030, &[snapshot(7, 502, 1, 1, &[100])]);
    assert_eq!((bed.state(8), bed.state(9)), (BookState::Latest, BookState::Latest));
    assert!(!bed.channel.is_recovering());
    // A gap on a silent channel: what was good stays in doubt until somebody speaks.
    bed.send(A, 504, &[heartbeat()]);
    bed.wait(200);
    assert_eq!(bed.state(8), BookState::Suspect);
    bed.send(A, 505, &[bid(8, 1, 10)]);
    assert_eq!((bed.state(8), bed.state(9)), (BookState::Latest, BookState::Suspect));
}

#[test]
fn terms_of_each_kind_are_read() {
    let mut bed = Bed::started();
    let option = encoded!(MdInstrumentDefinitionOption55Encoder, |m| {
        m.security_id(11).symbol("OZZ6 C100").put_or_call(PutOrCall::CALL).strike_price(Price9(100));
        m.security_update_action(ADD).match_event_indicator(END);
        m.maturity_month_year(MonthYear { year: 2026, month: 12, ..MonthYear::NULL });
        let mut group = m.underlyings().unwrap();
        group.push().unwrap().underlying_security_id(7).underlying_symbol("GEZ6");
    });
    let spread = encoded!(MdInstrumentDefinitionSpread56Encoder, |m| {
        m.security_id(12).symbol("GEZ6-GEH7").security_sub_type("SP").user_defined_instrument(b'Y');
        m.security_update_action(ADD).match_event_indicator(END);
        let mut group = m.legs().unwrap();
        group.push().unwrap().leg_security_id(7).leg_side(LegSide::BUY_SIDE).leg_ratio_qty(1);
        let leg = &mut group.push().unwrap();
        leg.leg_security_id(8).leg_side(LegSide::SELL_SIDE).leg_ratio_qty(2).leg_price(Price9(5));
    });
    let many = encoded!(MdInstrumentDefinitionSpread56Encoder, |m| {
        m.security_id(13).security_update_action(ADD).match_event_indicator(END);
        let mut group = m.legs().unwrap();
        for id in 0..50 {
            group.push().unwrap().leg_security_id(id).leg_side(LegSide::BUY_SIDE).leg_ratio_qty(1);
        }
    });
    let bond = encoded!(MdInstrumentDefinitionFixedIncome57Encoder, |m| {
        m.security_id(14).symbol("UB10").security_update_action(ADD).match_event_indicator(END);
        m.issue_date(20_000).maturity_date(23_652).coupon_rate(Price9(4_250_000_000));
        m.par_value(Price9(100 * Price9::ONE));
    });
    bed.send(A, 2, &[option, spread, many, bond]);
    let of = |id: i32| bed.channel.instrument(id).unwrap();
    let option = of(11);
    assert_eq!((option.template_id, option.terms.put_or_call, option.terms.strike_price), (55, 1, 100));
    assert_eq!((option.terms.month.year, option.terms.month.month), (2026, 12));
    let [on] = *option.terms.underlyings else { panic!("{:?}", option.terms.underlyings) };
    assert_eq!((on.security_id, on.symbol.as_str()), (7, "GEZ6"));
    let spread = &of(12).terms;
    assert_eq!((spread.sub_type.as_str(), spread.user_defined, spread.legs_total), ("SP", true, 2));
    let null = Leg { security_id: 7, side: 1, ratio: 1, price: NULL_PRICE, delta: NULL_I32 };
    assert_eq!(*spread.legs, [null, Leg { security_id: 8, side: 2, ratio: 2, price: 5, ..null }]);
    let many = &of(13).terms;
    assert_eq!((many.legs.len(), many.legs_total, many.legs[39].security_id), (MAX_LEGS, 50, 39));
    let bond = &of(14).terms;
    assert_eq!((bond.issue_date, bond.maturity_date, bond.strike_price), (20_000, 23_652, NULL_PRICE));
    assert_eq!((bond.coupon_rate, bond.par_value), (4_250_000_000, 100_000_000_000));
}

#[test]
fn instruments_are_taken_in_and_left_out_while_the_channel_runs() {
    let mut bed = Bed::new(config());
    bed.send(A, 1, &[bid(7, 1, 100), bid(8, 1, 200)]);
    assert!(bed.channel.unsubscribe(7) && !bed.channel.unsubscribe(7));
    assert!(bed.channel.book(7).is_none() && !bed.channel.is_recovering());
    bed.send(A, 2, &[bid(7, 2, 101), bid(8, 2, 201)]);
    assert_eq!((bed.bids(8), bed.count(Reason::NotListed)), (vec![201, 200], 1));
    bed.send_at(SNAP, 1, 21, &[snapshot(7, 2, 2, 2, &[101, 100])]);
    assert!(bed.channel.book(7).is_none(), "nor by the loop");
    // It is wanted again, and is not taken for what it was.
    assert!(bed.channel.subscribe(7));
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Undefined, vec![]));
    assert!(bed.channel.wants(Feed::Snapshot));
    bed.send_at(SNAP, 2, 22, &[snapshot(8, 2, 2, 2, &[201, 200])]);
    assert_eq!(bed.state(7), BookState::Undefined, "the round has had it");
    bed.send_at(SNAP, 1, 23, &[snapshot(7, 1, 1, 2, &[100])]);
    assert_eq!(bed.state(7), BookState::Undefined, "from before what was not heard");
    bed.send(A, 3, &[bid(7, 3, 102)]);
    bed.send_at(SNAP, 1, 31, &[snapshot(7, 2, 2, 2, &[101, 100])]);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![102, 101, 100]));
    assert!(!bed.channel.is_recovering());
    // Beside a white-list, too: with a definition or without.
    let mut bed =
        Bed::new(Config { white_list: WhiteList::new().group("ES"), ..with_loop(DefinitionLoop::Fast) });
    bed.send(A, 1, &[bid(7, 1, 100)]);
    assert!(bed.channel.subscribe(7) && bed.channel.subscribe(7));
    bed.send_at(DEFS, 1, 11, &[definition(7, "GEZ6", ADD, 2, 3), definition(8, "GEH7", ADD, 2, 3)]);
    assert_eq!(bed.log.take().last().map(String::as_str), Some("definitions 1"));
    assert_eq!(bed.channel.instrument(7).map(|i| (i.depth, i.defined)), Some((3, true)));
    assert!(bed.channel.book(8).is_none());
}

#[derive(Default)]
struct Fields(Vec<(i32, DefinitionAction, String)>);

impl Listener for Fields {
    fn on_definition_fields(
        &mut self,
        it: &Instrument,
        action: DefinitionAction,
        fields: &barewire_sbe::AnyMessage<'_>,
    ) {
        let barewire_sbe::AnyMessage::MdInstrumentDefinitionFuture54(view) = fields else {
            panic!("{fields:?}")
        };
        self.0.push((
            it.security_id,
            action,
            String::from_utf8_lossy(view.unit_of_measure().as_bytes()).into(),
        ));
    }
}

#[test]
fn a_listener_is_told_every_field_of_a_definition() {
    let of = |unit: &str, action| {
        encoded!(MdInstrumentDefinitionFuture54Encoder, |m| {
            m.security_id(7).unit_of_measure(unit).security_update_action(action).match_event_indicator(END);
        })
    };
    let mut channel = Channel::new(config(), barewire_base::Instant::ZERO).unwrap();
    let mut told = Fields::default();
    for (seq, message) in [(1, of("BBL", ADD)), (2, of("GAL", MODIFY)), (3, of("GAL", DELETE))] {
        let packet = sim::packet(seq, u64::from(seq), &[message]);
        channel.on_packet(barewire_base::Instant::ZERO, A, Default::default(), &packet, &mut told);
    }
    use DefinitionAction::*;
    let one = |action, unit: &str| (7, action, unit.to_owned());
    assert_eq!(told.0, [one(Add, "BBL"), one(Modify, "GAL"), one(Delete, "GAL")]);
}
