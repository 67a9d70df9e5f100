//! A channel takes its memory when it is made. Whatever comes after, gaps, recovery and resets included, it asks for none.

mod sim;

use barewire_base::Instant;
use barewire_feed::{Channel, Config, Recovery};
use barewire_testing::{Counting, allocations};
use sim::{Exchange, Net};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated_after_start() {
    let before = allocations();
    drop(std::hint::black_box(vec![1u8]));
    assert!(allocations() > before, "the counter counts");
    let (mut gaps, mut snapshots, mut resets) = (0, 0, 0);
    for seed in 0..20 {
        let mut exchange = Exchange::new(seed, 12);
        let mut net = Net::new(seed, 0.2);
        let config = Config {
            instruments: 16,
            orders_max: 1_024,
            pending_entries: 512,
            max_packet_len: 16_384,
            gap_packets: 8,
            recovery: if seed % 2 == 0 { Recovery::Snapshot } else { Recovery::SnapshotOrNatural },
            ..Config::default()
        };
        let mut channel = Channel::new(config, Instant::ZERO).unwrap();
        for i in 0..500 {
            let now = 1_000 + i * 100_000;
            let mut sent = if i % 100 == 99 { exchange.channel_reset(now) } else { exchange.event(now) };
            sent.extend(exchange.snapshot(now));
            if i == 250 {
                exchange.week_end();
            }
            sent.into_iter().for_each(|s| net.send(now, s));
            while let Some((at, line, bytes)) = net.receive(now) {
                let before = allocations();
                channel.on_packet(Instant::from_nanos(at), line, Default::default(), &bytes, &mut ());
                if channel.next_deadline().is_some_and(|d| d.as_nanos() <= at) {
                    channel.on_timeout(Instant::from_nanos(at), &mut ());
                }
                assert_eq!(allocations(), before, "seed {seed} event {i}");
            }
        }
        let counters = channel.counters();
        gaps += counters.gaps;
        snapshots += counters.snapshots_applied;
        resets += counters.resets;
    }
    assert!(gaps > 100 && snapshots > 100 && resets > 60, "{gaps} {snapshots} {resets}");
}
