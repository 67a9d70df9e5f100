//! Each property of links, clocks and nodes by itself.

use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool};
use barewire_port::GilbertElliott;
use barewire_sim::{
    Corrupt, Damage, Direction, Hub, LinkConfig, Node, NodeClock, NodeId, Outcome, PAUSED_FRAMES_MAX,
    Reorder, World, mark_ce,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Sends what it is told, writes down what it gets, and answers a deadline by moving it on by `period`.
#[derive(Default)]
struct Probe {
    outbox: VecDeque<Frame>,
    inbox: Vec<(u64, u16, Vec<u8>)>,
    stamps: Vec<u64>,
    deadline: Option<Instant>,
    period: Duration,
    rang: Vec<u64>,
}

impl Node for Probe {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.stamps.push(frame.stamp().ns);
        self.inbox.push((now.as_nanos(), frame.port(), frame.data().to_vec()));
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.rang.push(now.as_nanos());
        self.deadline = self.deadline.filter(|_| self.period > Duration::ZERO).map(|at| at + self.period);
    }
    fn poll_transmit(&mut self, _now: Instant) -> Option<Frame> {
        self.outbox.pop_front()
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }
}

const START: u64 = 1_000_000_000;

fn pair(config: LinkConfig) -> (World, NodeId, NodeId, barewire_sim::LinkId) {
    let mut world = World::new(1);
    let a = world.add_node(Box::<Probe>::default());
    let b = world.add_node(Box::<Probe>::default());
    let link = world.connect(a, b, config);
    (world, a, b, link)
}

fn send(world: &mut World, from: NodeId, bytes: &[u8]) {
    let frame = world.pool().alloc_from(bytes).unwrap();
    world.node_mut::<Probe>(from).outbox.push_back(frame);
}

fn send_numbered(world: &mut World, from: NodeId, count: u32, len: usize) {
    for i in 0..count {
        let mut bytes = vec![0xa5; len];
        bytes[..4].copy_from_slice(&i.to_be_bytes());
        send(world, from, &bytes);
    }
}

fn numbers(world: &World, at: NodeId) -> Vec<u32> {
    let inbox = &world.node::<Probe>(at).inbox;
    inbox.iter().map(|(_, _, bytes)| u32::from_be_bytes(bytes[..4].try_into().unwrap())).collect()
}

fn times(world: &World, at: NodeId) -> Vec<u64> {
    world.node::<Probe>(at).inbox.iter().map(|(ns, ..)| ns - START).collect()
}

fn settle(world: &mut World) {
    assert_eq!(world.run_while(Duration::from_secs(100), |_| true), Outcome::Idle);
}

#[test]
fn a_perfect_wire_takes_its_delay_both_ways() {
    let (mut world, a, b, link) = pair(LinkConfig::perfect(Duration::from_micros(7)));
    send(&mut world, a, &[1, 2, 3]);
    settle(&mut world);
    send(&mut world, b, &[4]);
    settle(&mut world);
    assert_eq!(world.node::<Probe>(b).inbox, [(START + 7_000, 0, vec![1, 2, 3])]);
    assert_eq!(world.node::<Probe>(a).inbox, [(START + 14_000, 0, vec![4])]);
    assert_eq!(world.node::<Probe>(b).stamps, [START + 7_000]);
    let stats = world.link_stats(link, Direction::Forward);
    assert_eq!((stats.sent, stats.sent_bytes, stats.delivered, stats.delivered_bytes), (1, 3, 1, 3));
    assert_eq!(world.link_stats(link, Direction::Reverse).delivered, 1);
    world.close().unwrap();
}

#[test]
fn a_rate_spaces_frames_and_a_full_queue_drops() {
    // 1000 bytes at 8 Mbit/s are a millisecond; four fit the queue.
    let (mut world, a, b, link) = pair(LinkConfig {
        delay: Duration::ZERO,
        rate_bps: Some(8_000_000),
        queue_bytes: 4_000,
        ..LinkConfig::default()
    });
    send_numbered(&mut world, a, 6, 1000);
    world.run_for(Duration::from_micros(1_500)).unwrap_done();
    send_numbered(&mut world, a, 2, 1000); // 2500 bytes are left: one more fits.
    settle(&mut world);
    assert_eq!(times(&world, b), [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    assert_eq!(numbers(&world, b), [0, 1, 2, 3, 0]);
    let stats = world.link_stats(link, Direction::Forward);
    assert_eq!((stats.dropped_queue, stats.queue_peak_bytes), (3, 4_000));
}

#[test]
fn an_idle_link_takes_a_frame_larger_than_its_queue_and_a_dead_one_none() {
    let config = |rate| LinkConfig { rate_bps: Some(rate), queue_bytes: 10, ..LinkConfig::default() };
    let (mut world, a, b, link) = pair(config(1_000_000));
    send_numbered(&mut world, a, 2, 100);
    settle(&mut world);
    assert_eq!(numbers(&world, b), [0]);
    world.set_link(link, config(0));
    send_numbered(&mut world, a, 1, 100);
    settle(&mut world);
    assert_eq!(numbers(&world, b), [0]);
    assert_eq!(world.link_stats(link, Direction::Forward).dropped_queue, 2);
}

#[test]
fn a_short_frame_at_a_high_rate_is_not_rounded() {
    // 64 bytes at 100 Gbit/s are 5.12 ns: a hundred are 512 ns, not 600.
    let (mut world, a, b, _) =
        pair(LinkConfig { delay: Duration::ZERO, rate_bps: Some(100_000_000_000), ..LinkConfig::default() });
    send_numbered(&mut world, a, 100, 64);
    settle(&mut world);
    assert_eq!(times(&world, b)[99], 512);
}

#[test]
fn a_new_rate_drains_the_old_queue() {
    let config = |rate| LinkConfig { delay: Duration::ZERO, rate_bps: Some(rate), ..LinkConfig::default() };
    let (mut world, a, b, link) = pair(config(8_000_000));
    send_numbered(&mut world, a, 2, 1000);
    world.run_for(Duration::from_millis(1)).unwrap_done();
    world.set_link(link, config(80_000_000));
    send_numbered(&mut world, a, 1, 1000);
    settle(&mut world);
    // 1000 bytes were left, now 0.1 ms; the third frame would overtake the second, which keeps its time.
    assert_eq!(times(&world, b), [1_000_000, 2_000_000, 2_000_000]);
    assert_eq!(numbers(&world, b), [0, 1, 0]);
}

#[test]
fn a_deep_queue_marks_what_is_ecn_capable() {
    let (mut world, a, b, link) = pair(LinkConfig {
        rate_bps: Some(8_000_000),
        ecn_threshold_bytes: Some(100),
        ..LinkConfig::default()
    });
    let mut packet = vec![0xa5; 74];
    packet[12..16].copy_from_slice(&[0x86, 0xdd, 0x60, 0x20]); // IPv6, ECT(0)
    let mut plain = packet.clone();
    plain[15] = 0;
    for bytes in [&packet, &packet, &packet, &plain] {
        send(&mut world, a, bytes);
    }
    settle(&mut world);
    let ecn: Vec<u8> = world.node::<Probe>(b).inbox.iter().map(|(_, _, bytes)| bytes[15] >> 4 & 3).collect();
    assert_eq!(ecn, [2, 2, 3, 0]);
    assert_eq!(world.link_stats(link, Direction::Forward).marked, 1);
}

#[test]
fn jitter_keeps_the_order_and_reorder_does_not() {
    let jitter = LinkConfig { jitter: Duration::from_micros(50), ..LinkConfig::default() };
    let (mut world, a, b, _) = pair(jitter.clone());
    send_numbered(&mut world, a, 500, 60);
    settle(&mut world);
    assert_eq!(numbers(&world, b), (0..500).collect::<Vec<_>>());
    let arrivals = times(&world, b);
    assert!(arrivals.iter().all(|ns| (10_000..=60_000).contains(ns)));
    assert!(arrivals[0] != arrivals[499]);

    let extra = Duration::from_micros(30);
    let (mut world, a, b, link) =
        pair(LinkConfig { reorder: Some(Reorder { probability: 0.3, extra }), ..LinkConfig::default() });
    send_numbered(&mut world, a, 500, 60);
    settle(&mut world);
    let mut got = numbers(&world, b);
    assert!(!got.is_sorted());
    got.sort_unstable();
    assert_eq!(got, (0..500).collect::<Vec<_>>());
    let held = world.link_stats(link, Direction::Forward).reordered as usize;
    assert!((100..200).contains(&held), "{held}");
    let arrivals = times(&world, b);
    assert_eq!(arrivals.iter().filter(|ns| **ns > 10_000).count(), held);
    assert!(arrivals.iter().all(|ns| (10_000..=40_000).contains(ns)));
}

#[test]
fn shares_are_what_was_asked_for() {
    const N: u32 = 4000;
    let near = |count: u64, share: f64| (count as f64 / f64::from(N) - share).abs() < 0.03;
    let stats = |config: LinkConfig| {
        let (mut world, a, _, link) = pair(config);
        for _ in 0..N / 1000 {
            send_numbered(&mut world, a, 1000, 60);
            settle(&mut world);
        }
        let stats = *world.link_stats(link, Direction::Forward);
        assert_eq!(stats.sent + stats.duplicated, stats.delivered + stats.dropped());
        world.close().unwrap();
        stats
    };
    let base = LinkConfig::default;
    assert!(near(stats(LinkConfig { loss: 0.2, ..base() }).lost, 0.2));
    assert!(near(stats(LinkConfig { duplicate: 0.1, ..base() }).duplicated, 0.1));
    let corrupt = |damage| Some(Corrupt { probability: 0.15, damage, skip: 14 });
    assert!(near(stats(LinkConfig { corrupt: corrupt(Damage::Bits(3)), ..base() }).corrupted, 0.15));
    // Bad for 1 / 0.25 = 4 frames, good for 1 / 0.05 = 20: a sixth of the time, and 80 % of that is lost.
    let model = GilbertElliott { to_bad: 0.05, to_good: 0.25, loss_good: 0.0, loss_bad: 0.8 };
    assert!(near(stats(LinkConfig { burst: Some(model), ..base() }).lost_burst, 0.8 / 6.0));
    assert_eq!(stats(LinkConfig::down()).lost, u64::from(N));
    assert_eq!(stats(LinkConfig { frame_max: 59, ..base() }).dropped_large, u64::from(N));
}

#[test]
fn burst_losses_come_together() {
    let model = GilbertElliott { to_bad: 0.02, to_good: 0.2, loss_good: 0.0, loss_bad: 1.0 };
    let (mut world, a, b, _) = pair(LinkConfig { burst: Some(model), ..LinkConfig::default() });
    send_numbered(&mut world, a, 3000, 60);
    settle(&mut world);
    let got = numbers(&world, b);
    let gaps: Vec<u32> = got.windows(2).map(|w| w[1] - w[0] - 1).filter(|gap| *gap > 0).collect();
    let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
    // Bursts of 1 / 0.2 = 5 on average; independent loss of the same share would make gaps of about 1.1.
    assert!((3.0..8.0).contains(&mean), "{mean}");
}

#[test]
fn an_outage_loses_what_goes_on_the_wire_in_its_window() {
    let (mut world, a, b, link) = pair(LinkConfig {
        outages: vec![(Instant::from_nanos(START + 1_000), Duration::from_nanos(2_000))],
        ..LinkConfig::default()
    });
    for i in 0..5u64 {
        send_numbered(&mut world, a, i as u32 + 1, 60);
        world.run_until(Instant::from_nanos(START + 1_000 * (i + 1))).unwrap_done();
    }
    settle(&mut world);
    // Sent at 0, 1, 2, 3 and 4 microseconds; the window is from 1 up to, not including, 3.
    assert_eq!(world.link_stats(link, Direction::Forward).lost_outage, 2 + 3);
    assert_eq!(world.node::<Probe>(b).inbox.len(), 1 + 4 + 5);
}

#[test]
fn a_filter_takes_out_one_frame_and_may_change_another() {
    let (mut world, a, b, link) = pair(LinkConfig::default());
    let mut count = 0;
    let filter = move |_: Instant, frame: &mut Frame| {
        count += 1;
        if count == 3 {
            frame.data_mut()[3] = 99;
        }
        count != 2
    };
    world.set_filter(link, Direction::Forward, Some(Box::new(filter)));
    send_numbered(&mut world, a, 4, 60);
    settle(&mut world);
    assert_eq!(numbers(&world, b), [0, 99, 3]);
    assert_eq!(world.link_stats(link, Direction::Forward).dropped_filter, 1);
    world.set_filter(link, Direction::Forward, None);
    let forged = world.pool().alloc_from(&7u32.to_be_bytes()).unwrap();
    world.inject(link, Direction::Forward, forged);
    settle(&mut world);
    assert_eq!(numbers(&world, b), [0, 99, 3, 7]);
}

#[test]
fn deadlines_fire_on_time_by_the_nodes_own_clock() {
    let mut world = World::new(1);
    let node = world.add_node(Box::<Probe>::default());
    world.set_clock(node, NodeClock { offset_ns: 500, drift_ppb: 1_000_000 });
    let probe = world.node_mut::<Probe>(node);
    probe.deadline = Some(Instant::from_nanos(START + 500 + 1_001_000));
    probe.period = Duration::from_nanos(2_002_000);
    world.run_until(Instant::from_nanos(START + 5_000_000)).unwrap_done();
    // A clock 1000 ppm fast shows 1.001 ms after one.
    let rang = &world.node::<Probe>(node).rang;
    assert_eq!(rang[..], [1_001_000, 3_003_000, 5_005_000].map(|ns| START + 500 + ns));
    assert_eq!(world.local_now(node), Instant::from_nanos(START + 500 + 5_005_000));
    assert_eq!(world.node_stats(node).timeouts, 3);
}

#[test]
fn a_deadline_may_move_either_way_and_vanish() {
    let mut world = World::new(1);
    let node = world.add_node(Box::<Probe>::default());
    let at = |ns: u64| Some(Instant::from_nanos(START + ns));
    for (run_to, deadline) in [(10, at(100)), (20, at(300)), (60, at(50)), (90, at(200)), (160, at(150))] {
        world.node_mut::<Probe>(node).deadline = deadline;
        world.run_until(Instant::from_nanos(START + run_to)).unwrap_done();
    }
    world.run_until(Instant::from_nanos(START + 1_000)).unwrap_done();
    assert_eq!(world.node::<Probe>(node).rang, [START + 50, START + 150]);
    world.node_mut::<Probe>(node).deadline = at(2_000);
    assert!(world.run_until(Instant::from_nanos(START + 1_500)) == Outcome::Done);
    world.node_mut::<Probe>(node).deadline = None;
    settle(&mut world);
    world.node_mut::<Probe>(node).deadline = Some(Instant::FAR_FUTURE);
    settle(&mut world);
    assert_eq!(world.node::<Probe>(node).rang.len(), 2);
}

#[test]
fn a_paused_node_finds_its_frames_and_its_deadline_later() {
    let (mut world, a, b, link) = pair(LinkConfig::default());
    world.pause_for(b, Duration::from_millis(1));
    let probe = world.node_mut::<Probe>(b);
    probe.deadline = Some(Instant::from_nanos(START + 5));
    send_numbered(&mut world, a, 3, 60);
    world.run_for(Duration::from_micros(900)).unwrap_done();
    assert!(world.node::<Probe>(b).inbox.is_empty() && world.node::<Probe>(b).rang.is_empty());
    settle(&mut world);
    assert_eq!(times(&world, b), [1_000_000; 3]);
    assert_eq!(numbers(&world, b), [0, 1, 2]);
    assert_eq!(world.node::<Probe>(b).stamps, [START + 10_000; 3], "stamped when they arrived");
    assert_eq!(world.node::<Probe>(b).rang, [START + 1_000_000]);

    // Its queue is bounded, and killing it empties the queue.
    world.pause(b);
    send_numbered(&mut world, a, PAUSED_FRAMES_MAX as u32 + 5, 60);
    settle(&mut world);
    assert_eq!(world.link_stats(link, Direction::Forward).dropped_dead, 5);
    world.kill(b);
    assert_eq!(world.pool().available(), world.pool().capacity());
}

#[test]
fn a_second_pause_outlives_the_end_of_the_first() {
    let (mut world, a, b, _) = pair(LinkConfig::default());
    world.pause_for(b, Duration::from_millis(1));
    world.pause_for(b, Duration::from_millis(3));
    send_numbered(&mut world, a, 1, 60);
    settle(&mut world);
    assert_eq!(times(&world, b), [3_000_000]);
    world.pause(b);
    world.resume(b);
    send_numbered(&mut world, a, 1, 60);
    settle(&mut world);
    assert_eq!(times(&world, b), [3_000_000, 3_010_000]);
}

#[test]
fn a_killed_node_gets_nothing_and_a_new_one_takes_its_place() {
    let (mut world, a, b, link) = pair(LinkConfig::default());
    world.node_mut::<Probe>(b).deadline = Some(Instant::from_nanos(START + 50_000));
    send_numbered(&mut world, a, 1, 60);
    world.at(Instant::from_nanos(START + 5_000), move |world| {
        assert!(world.kill(b).is_some() && world.kill(b).is_none());
    });
    settle(&mut world);
    assert!(!world.is_alive(b));
    assert_eq!(world.link_stats(link, Direction::Forward).dropped_dead, 1);
    assert!(world.restart(b, Box::<Probe>::default()).is_none());
    send_numbered(&mut world, a, 2, 60);
    settle(&mut world);
    assert_eq!(numbers(&world, b), [0, 1]);
    assert!(world.node::<Probe>(b).rang.is_empty(), "the old node's timer must not ring the new one");
    let old = world.restart(b, Box::<Probe>::default()).unwrap();
    let old = (old as Box<dyn std::any::Any>).downcast::<Probe>().unwrap();
    assert_eq!(old.inbox.len(), 2);
    assert!(world.node::<Probe>(b).inbox.is_empty());
}

#[test]
fn a_star_forwards_by_address() {
    let mut world = World::new(1);
    let mac = |n: u8| [2, 0, 0, 0, 0, n];
    let nodes: Vec<_> = (0..4).map(|n| (world.add_node(Box::<Probe>::default()), mac(n))).collect();
    let star = world.star(&nodes, &LinkConfig::default());
    let frame = |to: [u8; 6]| [&to[..], &mac(0), &[0x88, 0xb5]].concat();
    let [a, b, c, d] = [nodes[0].0, nodes[1].0, nodes[2].0, nodes[3].0];
    for to in [mac(1), mac(3), mac(9), mac(0), [0xff; 6]] {
        send(&mut world, a, &frame(to));
    }
    send(&mut world, a, &[2, 0, 0]);
    settle(&mut world);
    let got = |node| world.node::<Probe>(node).inbox.iter().map(|f| f.2.clone()).collect::<Vec<_>>();
    assert_eq!(got(a), Vec::<Vec<u8>>::new());
    assert_eq!(got(b), [frame(mac(1)), frame([0xff; 6])]);
    assert_eq!(got(c), [frame([0xff; 6])]);
    assert_eq!(got(d), [frame(mac(3)), frame([0xff; 6])]);
    assert_eq!(times(&world, b)[0], 20_000);
    let stats = world.node::<Hub>(star.hub).stats();
    assert_eq!((stats.forwarded, stats.unknown, stats.hairpin, stats.runt), (5, 1, 1, 1));
    assert_eq!(world.link_stats(star.links[2], Direction::Reverse).delivered, 1);
    world.close().unwrap();
}

#[test]
fn ports_count_a_nodes_links() {
    let mut world = World::new(1);
    let [a, b, c] = [(); 3].map(|()| world.add_node(Box::<Probe>::default()));
    world.connect(a, b, LinkConfig::default());
    world.connect(c, a, LinkConfig::default());
    for port in 0..3 {
        let mut frame = world.pool().alloc_from(&[port as u8]).unwrap();
        frame.set_port(port);
        world.node_mut::<Probe>(a).outbox.push_back(frame);
    }
    send(&mut world, c, &[9]);
    settle(&mut world);
    assert_eq!(world.node::<Probe>(b).inbox, [(START + 10_000, 0, vec![0])]);
    assert_eq!(world.node::<Probe>(c).inbox, [(START + 10_000, 0, vec![1])]);
    assert_eq!(world.node::<Probe>(a).inbox, [(START + 10_000, 1, vec![9])]);
    assert_eq!(world.node_stats(a).unrouted, 1);
}

/// Never lets time go on: answers its deadline with the same one, or sends without end.
struct Stuck {
    pool: Pool,
    floods: bool,
}

impl Node for Stuck {
    fn handle_frame(&mut self, _: Instant, _: Frame) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant) -> Option<Frame> {
        if self.floods { self.pool.alloc() } else { None }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        Some(Instant::ZERO)
    }
}

#[test]
fn a_stuck_node_ends_the_run() {
    for floods in [false, true] {
        let mut world = World::new(1);
        let pool = world.pool().clone();
        let stuck = world.add_node(Box::new(Stuck { pool, floods }));
        let other = world.add_node(Box::<Probe>::default());
        world.connect(stuck, other, LinkConfig::down());
        assert_eq!(world.run_while(Duration::from_secs(1), |_| true), Outcome::StepLimit);
        assert_eq!(world.run_until(Instant::from_nanos(2 * START)), Outcome::StepLimit);
        assert!(!world.step() && world.limit_reached());
        assert_eq!(world.now(), Instant::from_nanos(START));
        world.kill(stuck);
        world.close().unwrap();
    }
    let mut world = World::new(1);
    world.set_step_limit(10);
    let node = world.add_node(Box::<Probe>::default());
    let probe = world.node_mut::<Probe>(node);
    (probe.deadline, probe.period) = (Some(Instant::from_nanos(START)), Duration::from_nanos(1));
    assert_eq!(world.run_for(Duration::from_secs(1)), Outcome::StepLimit);
    assert_eq!(world.node::<Probe>(node).rang.len(), 10);
}

#[test]
fn runs_end_as_they_say() {
    let (mut world, a, b, _) = pair(LinkConfig::default());
    send_numbered(&mut world, a, 3, 60);
    let outcome = world.run_while(Duration::from_secs(1), |world| world.node::<Probe>(b).inbox.len() < 2);
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(numbers(&world, b), [0, 1], "asked before each event");
    assert!(world.step() && !world.step() && !world.limit_reached());
    send_numbered(&mut world, a, 1, 60);
    assert_eq!(world.run_while(Duration::from_micros(4), |_| true), Outcome::TimedOut);
    assert_eq!(world.now(), Instant::from_nanos(START + 14_000));
    assert_eq!(world.in_flight(), 1);
    let kept = world.pool().alloc().unwrap();
    assert_eq!(world.close().unwrap_err().missing, 1, "frames in flight go home, the test's own does not");
    drop(kept);
}

#[test]
#[should_panic(expected = "came to rest before its condition was met")]
fn a_wrong_outcome_says_what_it_was() {
    World::new(1).run_while(Duration::from_secs(1), |_| true).unwrap_done();
}

#[test]
fn the_trace_hash_sees_bytes_time_and_direction() {
    let run = |from_a: bool, byte: u8, delay: u64| {
        let (mut world, a, b, _) = pair(LinkConfig::perfect(Duration::from_nanos(delay)));
        send(&mut world, if from_a { a } else { b }, &[byte]);
        settle(&mut world);
        world.trace_hash()
    };
    let reference = run(true, 1, 10);
    assert_eq!(run(true, 1, 10), reference);
    for other in [run(false, 1, 10), run(true, 2, 10), run(true, 1, 11), World::new(1).trace_hash()] {
        assert_ne!(other, reference);
    }
}

#[test]
fn an_observer_sees_each_delivery() {
    let (mut world, a, b, link) = pair(LinkConfig::default());
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    world.observe(move |d| {
        log.borrow_mut().push((d.at.as_nanos() - START, d.link, d.direction, d.to, d.bytes.to_vec()));
    });
    send(&mut world, b, &[5]);
    settle(&mut world);
    assert_eq!(*seen.borrow(), [(10_000, link, Direction::Reverse, a, vec![5])]);
}

#[test]
fn marking_is_there_for_filters() {
    let (mut world, a, b, link) = pair(LinkConfig::default());
    let filter = |_: Instant, frame: &mut Frame| mark_ce(frame.data_mut());
    world.set_filter(link, Direction::Forward, Some(Box::new(filter)));
    let mut packet = vec![0xa5; 54];
    packet[12..16].copy_from_slice(&[0x86, 0xdd, 0x60, 0x10]); // IPv6, ECT(1)
    send(&mut world, a, &packet);
    settle(&mut world);
    assert_eq!(world.node::<Probe>(b).inbox[0].2[15], 0x30);
}
