//! A model exchange against the channel: whatever the lines do, the books end equal to the truth, and none that is shown is a
//! state that never was.

mod sim;

use barewire_base::{Duration, Instant, Prng};
use barewire_feed::{Channel, Config, Recovery};
use sim::{Check, Exchange, Net};

struct Run {
    loss: f64,
    recovery: Recovery,
    resets: bool,
    weeks: bool,
    late: bool,
}

#[derive(Default, Debug)]
struct Totals {
    books: usize,
    gaps: usize,
    recoveries: usize,
    resets: usize,
    snapshots: u64,
    natural: u64,
    cut: u64,
}

fn deliver(net: &mut Net, channel: &mut Channel, check: &mut Check, until_ns: u64, partial: bool) {
    loop {
        let deadline = channel.next_deadline().map_or(u64::MAX, Instant::as_nanos).min(until_ns);
        if let Some((at, line, bytes)) = net.receive(deadline) {
            channel.on_packet(Instant::from_nanos(at), line, Default::default(), &bytes, check);
            let books: Vec<_> = channel.books().collect();
            for book in &books {
                check.look(book, partial);
            }
        } else if deadline < until_ns {
            channel.on_timeout(Instant::from_nanos(deadline), check);
        } else {
            return;
        }
    }
}

fn run(seed: u64, setup: &Run, totals: &mut Totals) {
    let mut prng = Prng::new(seed ^ 0x5eed);
    let mut exchange = Exchange::new(seed, 1 + prng.below(8) as usize);
    exchange.counts_messages = !seed.is_multiple_of(5);
    let mut net = Net::new(seed.wrapping_mul(3), setup.loss);
    let config = Config {
        instruments: 16,
        orders_max: 1_024,
        pending_entries: if prng.chance(0.1) { 40 } else { 4_096 },
        gap_wait: Duration::from_micros(50 + prng.below(400)),
        gap_packets: 2 + prng.below(40) as usize,
        max_packet_len: 16_384,
        recovery: setup.recovery,
        ..Config::default()
    };
    let partial = setup.recovery != Recovery::Snapshot;
    let mut channel = Channel::new(config, Instant::ZERO).unwrap();
    let mut check = Check::new(&exchange.history);
    let events = 150 + prng.below(150);
    let join = if setup.late { prng.below(events / 2) } else { 0 };
    let mut now = 1_000_000;
    for i in 0..events {
        now += 20_000 + prng.below(200_000);
        let mut sent = if setup.resets && prng.chance(0.015) {
            exchange.channel_reset(now)
        } else if prng.chance(0.03) {
            vec![exchange.heartbeat(now)]
        } else {
            exchange.event(now)
        };
        for _ in 0..prng.below(3) {
            sent.extend(exchange.snapshot(now + 100));
        }
        if i >= join {
            sent.into_iter().for_each(|s| net.send(now, s));
        }
        deliver(&mut net, &mut channel, &mut check, now, partial);
        if setup.weeks && i == events / 2 {
            if seed.is_multiple_of(2) {
                // Over the weekend nothing is sent. In odd seeds it is so short that the last of the old week is still
                // under way when the new one begins.
                now += 3_000_000;
                deliver(&mut net, &mut channel, &mut check, now, partial);
            }
            exchange.week_end();
        }
        assert!(
            check.failures.is_empty(),
            "seed {seed} loss {} event {i}: {}",
            setup.loss,
            check.failures[0]
        );
    }
    // Nothing is lost any more: heartbeats show what was, and the loop goes round.
    (net.loss, net.late) = (0.0, 0.0);
    for _ in 0..60 {
        now += 300_000;
        let heartbeat = exchange.heartbeat(now);
        net.send(now, heartbeat);
        if let Some(snapshot) = exchange.snapshot(now + 100) {
            net.send(now, snapshot);
        }
        deliver(&mut net, &mut channel, &mut check, now, partial);
    }
    now += 5_000_000;
    deliver(&mut net, &mut channel, &mut check, now, partial);
    assert!(check.failures.is_empty(), "seed {seed} loss {} end: {}", setup.loss, check.failures[0]);
    if let Err(difference) = exchange.compare(&channel) {
        let state = format!("{:?} {:?}", channel.recovery_info(), channel.counters());
        panic!("seed {seed} loss {}: {difference}\n{state}", setup.loss);
    }
    assert!(!channel.is_recovering(), "seed {seed}: {:?} {:?}", channel.recovery_info(), channel.counters());
    assert_eq!(check.recoveries.0, check.recoveries.1, "seed {seed}");
    totals.books += check.books;
    totals.gaps += check.gaps;
    totals.recoveries += check.recoveries.0;
    totals.resets += check.resets;
    totals.snapshots += channel.counters().snapshots_applied;
    totals.natural += channel.counters().natural_refreshes;
    totals.cut += channel.counters().abandoned_events;
}

fn all(loss: f64, recovery: Recovery) -> Totals {
    let mut totals = Totals::default();
    for seed in 0..500 {
        let setup = Run { loss, recovery, resets: seed % 3 == 0, weeks: seed % 7 == 1, late: seed % 2 == 0 };
        run(seed, &setup, &mut totals);
    }
    println!("loss {loss} {recovery:?}: {totals:?}");
    assert!(totals.books > 50_000 && totals.resets > 50, "{totals:?}");
    totals
}

#[test]
fn books_equal_the_truth_at_a_loss_of_a_thousandth() {
    let totals = all(0.001, Recovery::Snapshot);
    assert!(totals.snapshots > 500, "{totals:?}");
}

#[test]
fn books_equal_the_truth_at_a_loss_of_a_hundredth() {
    let totals = all(0.01, Recovery::Snapshot);
    assert!(totals.gaps > 20 && totals.recoveries > 20, "{totals:?}");
}

#[test]
fn books_equal_the_truth_at_a_loss_of_a_tenth() {
    let totals = all(0.1, Recovery::Snapshot);
    assert!(totals.gaps > 1_000 && totals.cut > 100, "{totals:?}");
}

#[test]
fn books_equal_the_truth_at_a_loss_of_a_third() {
    let totals = all(0.33, Recovery::Snapshot);
    assert!(totals.gaps > 10_000 && totals.cut > 1_000, "{totals:?}");
}

#[test]
fn books_equal_the_truth_with_natural_refresh_beside_snapshots() {
    let totals = all(0.1, Recovery::SnapshotOrNatural);
    assert!(totals.gaps > 1_000, "{totals:?}");
}

/// With no snapshots at all, what is shown as good is true; most instruments become good again.
#[test]
fn natural_refresh_alone_never_shows_a_wrong_book() {
    let mut totals = Totals::default();
    for seed in 0..100 {
        let mut exchange = Exchange::new(seed, 3);
        let mut net = Net::new(seed, 0.05);
        let config = Config {
            instruments: 4,
            orders_max: 512,
            recovery: Recovery::Natural,
            max_packet_len: 16_384,
            ..Config::default()
        };
        let mut channel = Channel::new(config, Instant::ZERO).unwrap();
        let mut check = Check { direct_only: true, ..Check::new(&exchange.history) };
        let mut now = 0;
        for i in 0..1_000 {
            now += 100_000;
            for sent in exchange.event(now) {
                // It joins late: the first hundred events are not heard.
                if i >= 100 {
                    net.send(now, sent);
                }
            }
            deliver(&mut net, &mut channel, &mut check, now, true);
        }
        assert!(check.failures.is_empty(), "seed {seed}: {}", check.failures[0]);
        totals.natural += channel.counters().natural_refreshes;
        totals.books += check.books;
    }
    println!("{totals:?}");
    assert!(totals.natural > 200 && totals.books > 10_000, "{totals:?}");
}
