//! Judges that hold whatever the lines do, on channels of every kind: what is called good equals the truth at each moment at which
//! everything that was sent has been heard of; and once nothing is lost any more, every book becomes good within a few rounds of its
//! loop.

mod sim;

use barewire_base::{Duration, Instant, Prng};
use barewire_feed::{Channel, Config, DefinitionLoop, Feed, WhiteList};
use sim::{Check, Exchange, Net, Sent};

/// Rounds of a loop in which everything is to become good: one that is under way, one whole for the levels, and three for the orders of
/// those that have no levels: what a round counts may have to be learned.
const ROUNDS_MAX: u32 = 5;

#[derive(Default, Debug)]
struct Totals {
    judged: u32,
    gaps: u64,
    order_snapshots: u64,
    snapshots: u64,
    not_listed: u64,
    rejoined: u32,
    longest: usize,
    held_full: u64,
}

struct Bench {
    exchange: Exchange,
    net: Net,
    channel: Channel,
    check: Check,
    now: u64,
    /// Loops are left while they are not wanted.
    leaves: bool,
    was_left: bool,
}

impl Bench {
    fn deliver(&mut self, until_ns: u64) {
        loop {
            let deadline = self.channel.next_deadline().map_or(u64::MAX, Instant::as_nanos).min(until_ns);
            if let Some((at, line, bytes)) = self.net.receive(deadline) {
                let now = Instant::from_nanos(at);
                self.channel.on_packet(now, line, Default::default(), &bytes, &mut self.check);
            } else if deadline < until_ns {
                self.channel.on_timeout(Instant::from_nanos(deadline), &mut self.check);
            } else {
                return;
            }
        }
    }

    fn send(&mut self, totals: &mut Totals, sent: impl IntoIterator<Item = Sent>) {
        for (feed, bytes) in sent {
            let wanted = self.channel.wants(feed);
            if self.leaves && feed == Feed::Snapshot {
                totals.rejoined += u32::from(wanted && self.was_left);
                self.was_left = !wanted;
            }
            if !self.leaves || wanted {
                self.net.send(self.now, (feed, bytes));
            }
        }
    }

    fn loops(&mut self, totals: &mut Totals) {
        let now = self.now;
        let sent = self.exchange.snapshot(now + 100);
        self.send(totals, sent);
        let sent = self.exchange.order_snapshot(now + 100);
        self.send(totals, sent);
        let sent = self.exchange.definition(now + 100);
        self.send(totals, [sent]);
    }

    /// Nothing is under way any more, so what is called good must be the truth.
    fn judge(&mut self, seed: u64, totals: &mut Totals) {
        // Behind the last event's packets, as SendingTime never goes back.
        self.now += 1_000;
        let heartbeat = self.exchange.heartbeat(self.now);
        let lost = std::mem::take(&mut self.net.loss);
        self.send(totals, [heartbeat]);
        self.now += 3_000_000;
        self.deliver(self.now);
        self.net.loss = lost;
        if let Err(wrong) = self.exchange.judge(&self.channel) {
            panic!("seed {seed} at {}: {wrong}\n{:?}", self.now, self.channel.counters());
        }
        totals.judged += 1;
    }
}

fn run(seed: u64, totals: &mut Totals) {
    let mut prng = Prng::new(seed ^ 0x0dd5);
    let mut exchange = Exchange::new(seed, 2 + prng.below(6) as usize);
    (exchange.orders, exchange.every_order) = (false, true);
    exchange.counts_messages = !(seed / 4).is_multiple_of(3);
    let loss = [0.0, 0.02, 0.15, 0.35][seed as usize % 4];
    let by_group = seed.is_multiple_of(3);
    let config = Config {
        instruments: 16,
        pending_entries: 4_096,
        // Small limits together with loss.
        pending_orders: if prng.chance(0.5) { 20 + prng.below(80) as usize } else { 4_096 },
        orders_max: 4_096,
        order_loop: true,
        gap_wait: Duration::from_micros(50 + prng.below(400)),
        gap_packets: 2 + prng.below(40) as usize,
        max_packet_len: 16_384,
        definitions: DefinitionLoop::Fast,
        white_list: if by_group { WhiteList::new().group("GE") } else { WhiteList::new() },
        ..Config::default()
    };
    let channel = Channel::new(config, Instant::ZERO).unwrap();
    let check = Check::new(&exchange.history);
    let net = Net::new(seed.wrapping_mul(5), loss);
    let leaves = !seed.is_multiple_of(5);
    let mut b = Bench { exchange, net, channel, check, now: 1_000_000, leaves, was_left: false };
    let events = 120 + prng.below(120);
    // Half of them join in the middle of a week; the definition loop comes when some incrementals have gone by.
    let join = if seed.is_multiple_of(2) { prng.below(events / 2) } else { 0 };
    let names_from = join + prng.below(30);
    for i in 0..events {
        b.now += 20_000 + prng.below(150_000);
        let now = b.now;
        if prng.chance(0.01) {
            // Hours in which nothing happens: loops that were left are joined again after them.
            b.deliver(now);
            b.now += (1 + prng.below(4)) * 1_800_000_000_000;
        }
        let now = b.now;
        let sent = if seed % 7 == 3 && prng.chance(0.015) {
            b.exchange.channel_reset(now)
        } else if prng.chance(0.03) {
            vec![b.exchange.heartbeat(now)]
        } else {
            b.exchange.event(now)
        };
        if i < join {
            continue;
        }
        b.send(totals, sent);
        for _ in 0..prng.below(3) {
            let (snapshot, orders) = (b.exchange.snapshot(now + 100), b.exchange.order_snapshot(now + 100));
            b.send(totals, snapshot);
            b.send(totals, orders);
            if i >= names_from {
                let definition = b.exchange.definition(now + 100);
                b.send(totals, [definition]);
            }
        }
        b.deliver(now);
        if prng.chance(0.06) {
            b.judge(seed, totals);
        }
        if seed % 11 == 5 && i == events / 2 {
            b.now += 3_000_000;
            b.deliver(b.now);
            b.exchange.week_end();
        }
        assert!(b.check.failures.is_empty(), "seed {seed} event {i}: {}", b.check.failures[0]);
    }
    // Nothing is lost or overtaken any more: with few places to hold packets that is a loss, too. The market goes on, as no exchange stops for those who have lost something.
    (b.net.loss, b.net.late, b.net.jitter) = (0.0, 0.0, 1);
    // No event is larger than the room for it.
    b.exchange.sweeps = 0.0;
    for _ in 0..5 {
        // What was lost last is found to be lost.
        b.now += 1_000_000;
        let heartbeat = b.exchange.heartbeat(b.now);
        b.send(totals, [heartbeat]);
        b.deliver(b.now);
    }
    let begun = b.exchange.rounds;
    while b.exchange.rounds.0 - begun.0 <= ROUNDS_MAX || b.exchange.rounds.1 - begun.1 <= ROUNDS_MAX {
        b.now += 100_000;
        let sent = if prng.chance(0.3) { b.exchange.event(b.now) } else { vec![b.exchange.heartbeat(b.now)] };
        b.send(totals, sent);
        b.loops(totals);
        b.deliver(b.now);
    }
    b.judge(seed, totals);
    let info = b.channel.recovery_info();
    let state = || format!("seed {seed} loss {loss}: {info:?} {:?}", b.channel.counters());
    assert!(!b.channel.is_recovering(), "{}", state());
    assert!((info.unsettled, info.unsettled_orders) == (0, 0), "{}", state());
    for book in b.channel.books() {
        assert!(
            book.state.is_good() && book.orders_state.is_good(),
            "{} {}",
            book.instrument.security_id,
            state()
        );
    }
    if let Err(difference) = b.exchange.compare_listed(&b.channel, by_group) {
        panic!("{difference} {}", state());
    }
    assert_eq!(b.channel.waiting(), (0, 0), "{}", state());
    let counters = b.channel.counters();
    totals.gaps += counters.gaps;
    totals.order_snapshots += counters.order_snapshots_applied;
    totals.snapshots += counters.snapshots_applied;
    totals.not_listed += counters.get(barewire_feed::Reason::NotListed);
    totals.held_full += counters.get(barewire_feed::Reason::PendingFull);
    let lengths = b.channel.books().map(|book| book.orders(barewire_feed::BookSide::Bid).len());
    totals.longest = totals.longest.max(lengths.max().unwrap_or(0));
}

#[test]
fn what_is_called_good_is_the_truth_and_everything_becomes_good() {
    let seeds = std::env::var("BAREWIRE_FEED_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let mut totals = Totals::default();
    for seed in 0..seeds {
        run(seed, &mut totals);
    }
    println!("{seeds} seeds: {totals:?}");
    let enough = totals.judged as u64 > seeds * 4 && totals.gaps > seeds && totals.order_snapshots > seeds;
    assert!(enough && totals.snapshots > seeds && totals.not_listed > seeds, "{totals:?}");
    assert!(u64::from(totals.rejoined) > seeds / 2 && totals.longest > 20, "{totals:?}");
}
