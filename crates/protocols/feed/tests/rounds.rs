//! When a round of a snapshot loop has been heard: TotNumReports may count messages or instruments, and nothing says which.

#[macro_use]
mod bed;
mod sim;

use barewire_feed::*;
use barewire_sbe::Price9;
use barewire_sbe::mdp3::*;
use bed::*;

const SMBO: Line = Line::new(Feed::OrderSnapshot, LineSide::A);

/// Template 53, one chunk of several, of one bid.
fn chunk(id: i32, last: u32, total: u32, (chunks, number): (u32, u32)) -> Vec<u8> {
    encoded!(SnapshotFullRefreshOrderBook53Encoder, |m| {
        m.security_id(id).last_msg_seq_num_processed(last).tot_num_reports(total);
        m.no_chunks(chunks).current_chunk(number);
        let mut group = m.md_entries().unwrap();
        let e = &mut group.push().unwrap();
        e.order_id(u64::from(number)).md_order_priority(1).md_entry_px(Price9(10)).md_display_qty(1);
        e.md_entry_type(MdEntryTypeBook::BID);
    })
}

/// A channel of every order that wants 7, 8 and 9, whose levels are good; 9 has none, and no orders.
fn of_orders() -> Bed {
    let white_list = WhiteList::new().id(7).id(8).id(9);
    let mut bed = Bed::new(Config { order_loop: true, white_list, ..config() });
    bed.send(A, 500, &[heartbeat()]);
    bed.send(SNAP, 1, &[snapshot(7, 500, 3, 2, &[10]), snapshot(8, 500, 3, 2, &[10])]);
    assert_eq!(bed.channel.recovery_info().unsettled, 0);
    assert_eq!(bed.channel.recovery_info().unsettled_orders, 3);
    bed
}

/// One round of the loop of orders, sent from `time` on: 7 in two chunks, then 8, a message a packet. Some are lost.
fn round(bed: &mut Bed, time: u64, last: u32, total: u32, lost: &[u32]) {
    let messages =
        [chunk(7, last, total, (2, 1)), chunk(7, last, total, (2, 2)), chunk(8, last, total, (1, 1))];
    for (seq, message) in (1..).zip(messages) {
        if !lost.contains(&seq) {
            bed.send_at(SMBO, seq, time + u64::from(seq), &[message]);
        }
    }
}

fn orders_state(bed: &Bed, id: i32) -> BookState {
    bed.channel.book(id).expect("an instrument").orders_state
}

#[test]
fn a_round_whose_messages_are_counted_ends() {
    let mut bed = of_orders();
    round(&mut bed, 5_100, 500, 3, &[]);
    assert_eq!(bed.channel.recovery_info().unsettled_orders, 1);
    // Three instruments may be meant, and the third be lost: so the next round is to say the same.
    round(&mut bed, 5_200, 500, 3, &[]);
    assert_eq!(orders_state(&bed, 9), BookState::Undefined);
    round(&mut bed, 5_300, 500, 3, &[]);
    assert_eq!(orders_state(&bed, 9), BookState::Latest, "two whole rounds left it out");
    assert!(!bed.channel.is_recovering() && !bed.channel.wants(Feed::OrderSnapshot));
    // What the number means is known from now on: the last message ends the round.
    bed.send(A, 501, &[heartbeat()]);
    bed.send(A, 503, &[heartbeat()]);
    bed.wait(200);
    bed.send_at(SNAP, 1, 5_400, &[snapshot(7, 503, 3, 2, &[10]), snapshot(8, 503, 3, 2, &[10])]);
    assert!(bed.channel.is_recovering() && bed.channel.wants(Feed::OrderSnapshot));
    round(&mut bed, 5_500, 503, 3, &[3]);
    assert!(bed.channel.is_recovering());
    round(&mut bed, 5_600, 503, 3, &[]);
    assert_eq!(orders_state(&bed, 9), BookState::Latest);
    assert!(!bed.channel.is_recovering());
}

#[test]
fn a_round_whose_instruments_are_counted_ends_with_the_last_of_them() {
    let mut bed = of_orders();
    // As many messages as it says, but the second instrument is lost, time and again.
    for n in 0..2 {
        round(&mut bed, 5_100 + n * 10, 500, 2, &[3]);
    }
    assert_eq!(orders_state(&bed, 9), BookState::Undefined);
    round(&mut bed, 5_200, 500, 2, &[]);
    assert_eq!(orders_state(&bed, 9), BookState::Latest);
    assert!(!bed.channel.is_recovering());
}

#[test]
fn rounds_with_a_hole_say_nothing() {
    let mut bed = of_orders();
    for n in 0..30 {
        round(&mut bed, 5_100 + n * 10, 500, 77, &[2]);
    }
    assert_eq!(orders_state(&bed, 9), BookState::Undefined);
}

/// On a conflated channel books and orders share a loop, so its messages are more than its instruments.
#[test]
fn a_conflated_loop_whose_messages_are_counted_ends() {
    let white_list = WhiteList::new().id(7).id(8).id(9);
    for orders in [true, false] {
        let white_list = white_list.clone();
        let mut bed = Bed::new(Config { white_list, orders, ..config() });
        bed.send(A, 500, &[heartbeat()]);
        let send = |bed: &mut Bed, time: u64| {
            let (of_7, of_8) = (snapshot(7, 500, 3, 3, &[10]), snapshot(8, 500, 3, 3, &[10]));
            bed.send_at(SNAP, 1, time + 1, &[of_7, chunk(7, 500, 3, (1, 1))]);
            bed.send_at(SNAP, 2, time + 2, &[of_8]);
        };
        send(&mut bed, 5_100);
        send(&mut bed, 5_200);
        assert_eq!(bed.state(9), BookState::Undefined);
        send(&mut bed, 5_300);
        assert_eq!(bed.state(9), BookState::Latest);
        assert!(!bed.channel.is_recovering());
    }
}

/// Nobody knows what the number is: many whole rounds that all leave an instrument out say enough.
#[test]
fn a_round_with_a_number_of_no_meaning_ends_after_many() {
    let mut bed = of_orders();
    let mut rounds = 0;
    while bed.channel.is_recovering() && rounds < 100 {
        round(&mut bed, 5_100 + rounds * 10, 500, 77, &[]);
        rounds += 1;
    }
    assert!((5..15).contains(&rounds), "{rounds}");
    assert_eq!(orders_state(&bed, 9), BookState::Latest);
}

/// A loop that was left in the middle of a round has had no end.
#[test]
fn a_round_that_was_left_is_no_whole_one() {
    let mut bed = of_orders();
    let part = |bed: &mut Bed, time: u64, last: u32| {
        bed.send_at(SMBO, 1, time, &[chunk(7, last, 2, (2, 1))]);
        bed.send_at(SMBO, 2, time + 1, &[chunk(7, last, 2, (2, 2))]);
    };
    round(&mut bed, 5_050, 500, 2, &[]);
    assert!(!bed.channel.is_recovering());
    let mut lost = 500;
    for n in 0..12 {
        // It is heard up to the end of the first instrument and left, joined anew after the next loss.
        lost += 2;
        bed.send(A, lost - 1, &[heartbeat()]);
        bed.send_at(A, lost + 1, u64::from(lost + 1) * 10, &[heartbeat()]);
        bed.wait(200);
        lost += 1;
        part(&mut bed, 5_100 + n * 100, lost);
        assert_ne!(orders_state(&bed, 9), BookState::Latest, "{n}");
    }
}
