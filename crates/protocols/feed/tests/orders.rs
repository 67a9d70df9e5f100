//! Books by order of whatever depth: fed by single updates, lost and recovered, each rule by a short literal sequence of packets.

#[macro_use]
mod bed;
mod sim;

use barewire_feed::*;
use barewire_sbe::Price9;
use barewire_sbe::mdp3::*;
use bed::*;

/// Template 47: id, action, side, price of each order of instrument 7; the id is its priority.
fn updates(orders: &[(u64, u8, u8, i64)], indicator: MatchEventIndicator) -> Vec<u8> {
    updates_of(7, orders, indicator)
}

fn updates_of(id: i32, orders: &[(u64, u8, u8, i64)], indicator: MatchEventIndicator) -> Vec<u8> {
    encoded!(MdIncrementalRefreshOrderBook47Encoder, |m| {
        m.match_event_indicator(indicator);
        let mut group = m.md_entries().unwrap();
        for &(order, action, kind, price) in orders {
            let e = &mut group.push().unwrap();
            e.security_id(id).order_id(order).md_order_priority(order).md_entry_px(Price9(price));
            e.md_display_qty(1).md_update_action(MdUpdateAction(action)).md_entry_type(MdEntryTypeBook(kind));
        }
    })
}

/// Template 53, one chunk of several: bids of these ids at price 10.
fn chunk(id: i32, last: u32, total: u32, (chunks, number): (u32, u32), bids: &[u64]) -> Vec<u8> {
    encoded!(SnapshotFullRefreshOrderBook53Encoder, |m| {
        m.security_id(id).last_msg_seq_num_processed(last).tot_num_reports(total);
        m.no_chunks(chunks).current_chunk(number);
        let mut group = m.md_entries().unwrap();
        for &order in bids {
            let e = &mut group.push().unwrap();
            e.order_id(order).md_order_priority(order).md_entry_px(Price9(10)).md_display_qty(1);
            e.md_entry_type(MdEntryTypeBook::BID);
        }
    })
}

fn ids_of(bed: &Bed, id: i32, side: BookSide) -> Vec<u64> {
    bed.channel.book(id).expect("an instrument").orders(side).iter().map(|o| o.id).collect()
}

fn ids(bed: &Bed) -> Vec<u64> {
    ids_of(bed, 7, BookSide::Bid)
}

fn orders_state(bed: &Bed) -> BookState {
    bed.channel.book(7).expect("an instrument").orders_state
}

/// Template 46: one new best bid of instrument 7, and the order that it is of.
fn bid_of_order(rpt: u32, price: i64, order: u64) -> Vec<u8> {
    encoded!(MdIncrementalRefreshBook46Encoder, |m| {
        m.match_event_indicator(END);
        let mut group = m.md_entries().unwrap();
        let e = &mut group.push().unwrap();
        e.security_id(7).rpt_seq(rpt).md_update_action(MdUpdateAction::NEW).md_price_level(1);
        e.md_entry_type(MdEntryTypeBook::BID).md_entry_px(Price9(price)).md_entry_size(1);
        let mut group = m.order_id_entries().unwrap();
        let o = &mut group.push().unwrap();
        o.order_id(order).md_order_priority(order).md_display_qty(1).reference_id(1);
        o.order_update_action(OrderUpdateAction::NEW);
    })
}

#[test]
fn a_book_of_every_order_does_not_shrink() {
    let mut bed = Bed::started();
    let eleven: Vec<_> = (1..=11).map(|n| (n, 0, b'0', 100 - n as i64)).collect();
    bed.send(A, 2, &[updates(&eleven, END)]);
    let gone: Vec<_> = (1..=10).map(|n| (n, 2, b'0', 100 - n as i64)).collect();
    bed.send(A, 3, &[updates(&gone, END)]);
    assert_eq!((ids(&bed), orders_state(&bed)), (vec![11], BookState::Latest));
    bed.send(A, 4, &[updates(&[(20, 0, b'0', 200)], END)]);
    assert_eq!(ids(&bed), [20, 11]);
    bed.send(A, 5, &[updates(&[(20, 2, b'0', 200), (11, 2, b'0', 89), (30, 0, b'0', 50)], END)]);
    assert_eq!(ids(&bed), [30]);
}

/// A feed with orders on the incremental feed and none in its snapshot loop: what cannot recover does not hold up what can.
#[test]
fn recovery_ends_where_no_snapshot_of_orders_comes() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[bid_of_order(1, 100, 1)]);
    bed.send(A, 4, &[bid_of_order(2, 101, 2)]);
    bed.wait(200);
    assert_eq!((bed.state(7), bed.bids(7)), (BookState::Latest, vec![101, 100]));
    assert!(!orders_state(&bed).is_good());
    bed.send_at(SNAP, 1, 50, &[snapshot(7, 4, 2, 1, &[101, 100])]);
    assert!(!bed.channel.is_recovering() && !bed.channel.wants(Feed::Snapshot));
    assert!(!orders_state(&bed).is_good(), "an order may have been lost");
}

#[test]
fn updates_behind_a_snapshot_of_orders_are_kept_for_it() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[updates(&[(1, 0, b'0', 10), (2, 0, b'0', 10)], END)]);
    bed.send(A, 4, &[updates(&[(4, 0, b'0', 10)], END)]);
    bed.wait(200);
    assert_eq!((ids(&bed), orders_state(&bed)), (vec![1, 2], BookState::Suspect));
    bed.send(A, 5, &[updates(&[(5, 0, b'0', 10)], END)]);
    // It speaks of the past: 5 is not in it.
    bed.send_at(SNAP, 1, 55, &[chunk(7, 4, 1, (1, 1), &[1, 2, 3, 4])]);
    assert_eq!((ids(&bed), orders_state(&bed)), (vec![1, 2, 3, 4, 5], BookState::Latest));
    // Nor does a snapshot that is ahead of the packets count twice.
    bed.send(A, 7, &[updates(&[(7, 0, b'0', 10)], END)]);
    bed.wait(200);
    bed.send_at(SNAP, 1, 95, &[chunk(7, 9, 1, (1, 1), &[1, 9])]);
    bed.send(A, 8, &[updates(&[(8, 0, b'0', 10)], END)]);
    bed.send(A, 9, &[updates(&[(9, 0, b'0', 10), (8, 2, b'0', 10)], END)]);
    bed.send(A, 10, &[updates(&[(10, 0, b'0', 10)], END)]);
    assert_eq!((ids(&bed), orders_state(&bed)), (vec![1, 9, 10], BookState::Latest));
}

#[test]
fn on_a_busy_instrument_orders_recover_though_every_snapshot_is_late() {
    let mut bed = Bed::started();
    bed.send(A, 2, &[updates(&[(2, 0, b'0', 10)], END)]);
    bed.send(A, 4, &[updates(&[(4, 0, b'0', 10)], END)]);
    bed.wait(200);
    let mut known: Vec<u64> = vec![2, 4];
    for n in 5..12 {
        bed.send(A, n, &[updates(&[(u64::from(n), 0, b'0', 10)], END)]);
        let loop_of_one = [snapshot(7, n - 1, 0, 1, &[]), chunk(7, n - 1, 1, (1, 1), &known)];
        bed.send_at(SNAP, 1, u64::from(n) * 10 + 5, &loop_of_one);
        known.push(u64::from(n));
        assert_eq!((ids(&bed), orders_state(&bed)), (known.clone(), BookState::Latest), "{n}");
    }
    assert!(!bed.channel.is_recovering());
}

const SMBO: Line = Line::new(Feed::OrderSnapshot, LineSide::A);

/// A book that is too deep for the room there is, is told once and left out.
#[test]
fn a_book_without_room_does_not_keep_recovery_from_ending() {
    let white_list = WhiteList::new().id(7).id(8);
    let mut bed = Bed::new(Config { order_loop: true, orders_max: 64, white_list, ..config() });
    bed.send(A, 500, &[heartbeat()]);
    bed.send(SNAP, 1, &[snapshot(7, 500, 3, 2, &[10]), snapshot(8, 500, 3, 2, &[10])]);
    assert_eq!(bed.channel.recovery_info().unsettled_orders, 2);
    let all: Vec<u64> = (1..=60).collect();
    let round = |bed: &mut Bed, last: u32, of_7: &[u64]| {
        let time = u64::from(last) * 10;
        let (some, rest) = of_7.split_at(of_7.len() / 2);
        bed.send_at(SMBO, 1, time + 1, &[chunk(7, last, 3, (2, 1), some)]);
        bed.send_at(
            SMBO,
            2,
            time + 2,
            &[chunk(7, last, 3, (2, 2), rest), chunk(8, last, 3, (1, 1), &[1, 2])],
        );
        bed.log.take().into_iter().filter(|told| told.starts_with("incomplete")).collect::<Vec<_>>()
    };
    assert_eq!(round(&mut bed, 500, &all), ["incomplete 7"]);
    assert_eq!(bed.channel.recovery_info().unsettled_orders, 0);
    assert!(!bed.channel.is_recovering() && !bed.channel.wants(Feed::OrderSnapshot));
    assert_eq!((orders_state(&bed), ids(&bed)), (BookState::Undefined, vec![]));
    assert_eq!((bed.channel.incomplete_orders(), bed.channel.counters().incomplete_orders), (1, 1));
    assert_eq!((bed.count(Reason::OrdersFull), bed.count(Reason::BrokenChunks)), (1, 0));
    // Updates of it take no places from others.
    for seq in 501..520 {
        bed.send(A, seq, &[updates(&[(u64::from(seq), 0, b'0', 10)], END)]);
    }
    assert_eq!(bed.channel.waiting(), (0, 0));
    // A gap puts it in doubt again; it is not told of twice.
    bed.send(A, 521, &[heartbeat()]);
    bed.wait(200);
    assert!(bed.channel.is_recovering());
    bed.send_at(SNAP, 1, 5_211, &[snapshot(7, 521, 3, 2, &[10]), snapshot(8, 521, 3, 2, &[10])]);
    assert!(round(&mut bed, 521, &all).is_empty());
    assert!(!bed.channel.is_recovering());
    // One that fits is taken.
    bed.send(A, 523, &[heartbeat()]);
    bed.wait(200);
    bed.send_at(SNAP, 1, 5_231, &[snapshot(7, 523, 3, 2, &[10]), snapshot(8, 523, 3, 2, &[10])]);
    round(&mut bed, 523, &[1, 2, 3]);
    assert_eq!((orders_state(&bed), ids(&bed)), (BookState::Latest, vec![1, 2, 3]));
    assert_eq!((bed.channel.incomplete_orders(), bed.channel.is_recovering()), (0, false));
    bed.send(A, 524, &[updates(&[(4, 0, b'0', 10)], END)]);
    assert_eq!(ids(&bed), [1, 2, 3, 4]);
}

/// Sixteen orders fill the smallest block of a side.
#[test]
fn the_usual_room_takes_more_orders_than_the_best() {
    let mut bed = Bed::new(Config { order_loop: true, orders_max: order_room(60, true), ..config() });
    bed.send(A, 1, &[heartbeat()]);
    let mut seq = 1;
    for id in 0..60 {
        for kind in [b'0', b'1'] {
            let orders: Vec<_> = (1..=60).map(|n| (n, 0, kind, 10)).collect();
            seq += 1;
            bed.send(A, seq, &[updates_of(id, &orders, END)]);
        }
    }
    assert_eq!(bed.count(Reason::OrdersFull), 0);
    assert!((0..60).all(|id| ids_of(&bed, id, BookSide::Offer).len() == 60));
}
