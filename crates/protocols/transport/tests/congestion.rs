//! Congestion control, measured in simulation: all figures here are virtual time on ideal hosts.

mod common;
use barewire_base::Duration;
use barewire_frame::PoolConfig;
use barewire_sim::{Direction, LinkConfig, NodeId, Star, World};
use barewire_transport::*;
use common::*;

const GIGABIT: u64 = 1_000_000_000;
const QUEUE: u64 = 1 << 20;

struct Net {
    world: World,
    star: Star,
    server: NodeId,
    clients: Vec<NodeId>,
}

/// `n` clients and a server around a hub, each on a link of `rate_bps` with a queue of 1 MiB.
fn net(n: u8, rate_bps: u64, config: &Config) -> Net {
    net_over(
        n,
        config,
        &LinkConfig { rate_bps: Some(rate_bps), queue_bytes: QUEUE, ..LinkConfig::perfect(us(5)) },
    )
}

/// The same with other links.
fn net_over(n: u8, config: &Config, link: &LinkConfig) -> Net {
    let pool = PoolConfig { frames: 32_768, ..PoolConfig::default() };
    let mut world = World::with_pool(1, pool).unwrap();
    world.set_step_limit(u64::MAX);
    let pool = world.pool().clone();
    let mut server = Station::new(1, pool.clone(), config.clone());
    server.endpoint.listen(PORT, 0, 0).unwrap();
    server.keep = false;
    let server = world.add_node(Box::new(server));
    let clients: Vec<_> = (0..n)
        .map(|i| {
            let memory = HeapMemory::new(1 << 21, 1 << 16);
            world.add_node(Box::new(Station::with_memory(2 + i, pool.clone(), config.clone(), memory)))
        })
        .collect();
    let all: Vec<_> = std::iter::once((server, mac(1)))
        .chain(clients.iter().enumerate().map(|(i, c)| (*c, mac(2 + i as u8))))
        .collect();
    let star = world.star(&all, link);
    Net { world, star, server, clients }
}

impl Net {
    fn open(&mut self) -> Vec<FlowId> {
        let flows: Vec<_> = (0..self.clients.len())
            .map(|i| connect(&mut self.world, self.clients[i], 2 + i as u8, 1, true, false))
            .collect();
        assert_eq!(self.world.run_for(ms(100)), barewire_sim::Outcome::Done);
        flows
    }

    /// Keeps every flow of `flows` busy for `time`; after each event, `each` may do more.
    fn stream(&mut self, flows: &[(usize, FlowId)], time: Duration, mut each: impl FnMut(&mut World)) {
        const LEN: usize = 50_000;
        let end = self.world.now() + time;
        let clients = self.clients.clone();
        // Messages are stopped short of the end, so that what is left drains.
        let _ = self.world.run_while(time, |w| {
            let now = w.now();
            for &(i, flow) in flows {
                while w.node::<Station>(clients[i]).endpoint.messages_under_way() < 12 {
                    let s = w.node_mut::<Station>(clients[i]);
                    s.now = now;
                    s.send(flow, &[0x5a; LEN], 0).unwrap();
                }
            }
            each(w);
            now < end
        });
    }

    /// Payload bytes that reached the server's transport from each client, by its acknowledged messages.
    fn delivered(&self) -> Vec<u64> {
        self.clients.iter().map(|c| self.world.node::<Station>(*c).count("bytes_sent")).collect()
    }

    fn bottleneck(&self) -> &barewire_sim::LinkStats {
        self.world.link_stats(self.star.links[0], Direction::Reverse)
    }
}

/// Jain's index: 1 when all shares are equal, 1/n when one has all.
fn fairness(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|s| *s as f64).sum();
    let squares: f64 = shares.iter().map(|s| (*s as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// A window as large as there is and a target that nothing reaches.
fn without_control() -> Config {
    let congestion = CongestionConfig {
        target_queue: secs(10),
        initial_window: WINDOW_SEGMENTS as f32,
        max_decrease: 0.0,
        ..CongestionConfig::default()
    };
    Config { congestion, ecn: false, ..big() }
}

fn big() -> Config {
    Config { recv_window_bytes: 8 << 20, flows_max: 256, ..Config::default() }
}

struct Outcome {
    utilisation: f64,
    jain: f64,
    rtt: Duration,
    dropped: u64,
    peak: u64,
}

fn bulk(n: u8, rate_bps: u64, config: &Config, warm: Duration, time: Duration) -> Outcome {
    bulk_over(net(n, rate_bps, config), rate_bps, warm, time)
}

fn bulk_over(mut net: Net, rate_bps: u64, warm: Duration, time: Duration) -> Outcome {
    let n = net.clients.len();
    let flows: Vec<_> = net.open().into_iter().enumerate().collect();
    net.stream(&flows, warm, |_| ());
    let (before, bytes) = (net.delivered(), net.bottleneck().delivered_bytes);
    let (mut sum, mut count, clients) = (0u64, 0u64, net.clients.clone());
    let mut next = net.world.now();
    net.stream(&flows, time, |w| {
        if w.now() >= next {
            next = w.now() + us(500);
            for c in &clients {
                sum += w.node::<Station>(*c).endpoint.flows().next().unwrap().rtt.as_nanos();
                count += 1;
            }
        }
    });
    let shares: Vec<_> = net.delivered().iter().zip(&before).map(|(a, b)| a - b).collect();
    let moved = net.bottleneck().delivered_bytes - bytes;
    let outcome = Outcome {
        utilisation: moved as f64 * 8.0 / (rate_bps as f64 * time.as_secs_f64()),
        jain: fairness(&shares),
        rtt: Duration::from_nanos(sum / count),
        dropped: net.bottleneck().dropped_queue,
        peak: net.bottleneck().queue_peak_bytes,
    };
    println!(
        "simulated: {n} flows through {} Mbit/s: {:.1} % used, Jain {:.3}, mean RTT {}, queue peak {} KiB, {} dropped",
        rate_bps / 1_000_000,
        outcome.utilisation * 100.0,
        outcome.jain,
        outcome.rtt,
        outcome.peak >> 10,
        outcome.dropped,
    );
    outcome
}

#[test]
fn flows_fill_a_gigabit_share_it_and_keep_its_queue_short() {
    // Without queues: four wires, four times a full frame (two hops forth; acknowledgements weigh little).
    let base = us(4 * 5 + 2 * 12);
    let config = CongestionConfig::default();
    for n in [1, 2, 4, 8] {
        let o = bulk(n, GIGABIT, &big(), ms(200), secs(1));
        assert!(o.utilisation >= 0.90, "{n}: {}", o.utilisation);
        assert!(o.jain >= 0.9, "{n}: {}", o.jain);
        assert_eq!(o.dropped, 0);
        // The target, the acknowledgement of eight segments at once, and the overshoot of one window each.
        let most = base + config.target_queue + config.flow_scaling_range + us(100) + us(12 * u64::from(n));
        assert!(o.rtt <= most, "{n}: {} > {most}", o.rtt);
    }
}

/// What a busy hypervisor or a sleeping core adds to a packet's time is no queue: delays that vary by more than the allowed queue leave a flow its
/// share. (Where each late packet counts as a queue and the floor is the least ever seen, the first of these uses 23 % of the link.)
#[test]
fn jitter_is_not_taken_for_a_queue() {
    for (delay, jitter, rate, least) in [
        (5, 50, GIGABIT, 0.9),
        (5, 100, GIGABIT, 0.9),
        (50, 100, GIGABIT, 0.9),
        (500, 500, GIGABIT / 10, 0.8),
    ] {
        let link = LinkConfig {
            rate_bps: Some(rate),
            queue_bytes: QUEUE,
            jitter: us(jitter),
            ..LinkConfig::perfect(us(delay))
        };
        print!("{delay} us and up to {jitter} us of jitter on each of two links, ");
        let o = bulk_over(net_over(1, &big(), &link), rate, ms(500), secs(2));
        assert!(o.utilisation >= least, "{delay} and {jitter} us: {}", o.utilisation);
        assert_eq!(o.dropped, 0);
    }
}

#[test]
fn a_slow_link_is_filled_too() {
    let o = bulk(1, 10_000_000, &big(), ms(500), secs(2));
    assert!(o.utilisation >= 0.85, "{}", o.utilisation);
    assert_eq!(o.dropped, 0);
    assert!(o.rtt <= ms(8), "{}", o.rtt);
}

#[test]
fn without_control_the_queue_stands_full() {
    let with = bulk(8, GIGABIT, &big(), ms(50), ms(200));
    let without = bulk(8, GIGABIT, &without_control(), ms(50), ms(200));
    assert!(without.rtt.as_nanos() > 10 * with.rtt.as_nanos(), "{} against {}", without.rtt, with.rtt);
    assert!(without.dropped > 100 && with.dropped == 0);
}

#[test]
fn sixty_four_senders_at_once_lose_next_to_nothing() {
    // All answer the same request: 64 KB each, at the same instant, into one gigabit.
    let run = |config: &Config| {
        let mut net = net(64, GIGABIT, config);
        let flows = net.open();
        let sent_before: u64 =
            net.clients.iter().map(|c| net.world.node::<Station>(*c).count("packets_tx")).sum();
        let start = net.world.now();
        let (mut rounds, mut first) = (vec![], 0);
        for round in 1..=10u64 {
            let began = net.world.now();
            for (i, flow) in flows.iter().enumerate() {
                let s = net.world.node_mut::<Station>(net.clients[i]);
                s.now = began;
                s.send(*flow, &[0x5a; 64_000], 0).unwrap();
            }
            let server = net.server;
            net.world.run_while(secs(20), |w| w.node::<Station>(server).received < 64 * round).unwrap_done();
            rounds.push(net.world.now().since(began));
            if round == 1 {
                first = net.bottleneck().dropped_queue;
            }
        }
        let dropped = net.bottleneck().dropped_queue - first;
        let sent: u64 =
            net.clients.iter().map(|c| net.world.node::<Station>(*c).count("packets_tx")).sum::<u64>()
                - sent_before;
        let took = net.world.now().since(start);
        println!(
            "simulated: incast of 64: {first} packets dropped while windows were new, then {dropped} of {sent}; \
             ten rounds in {took}, the last in {}",
            rounds[9]
        );
        (dropped, sent, rounds[9])
    };
    let (dropped, sent, last) = run(&big());
    // New windows of 32 segments overflow the queue once; after that each sender knows better.
    assert!(dropped * 1_000 <= sent, "{dropped} of {sent}");
    // 4 MB need 34 ms; a share of the time goes into caution.
    assert!(last <= ms(60), "{last}");
    let (reckless, ..) = run(&without_control());
    assert!(reckless > 20 * dropped.max(1), "{reckless} against {dropped}");
}

/// The 99th percentile of 500 calls of 64 bytes beside a stream into the same gigabit.
fn calls_beside_bulk(config: &Config) -> Duration {
    let mut net = net(2, GIGABIT, config);
    let flows = net.open();
    net.stream(&[(1, flows[1])], ms(100), |_| ());
    let (caller, rpc) = (net.clients[0], flows[0]);
    let (mut times, mut asked) = (vec![], None);
    net.stream(&[(1, flows[1])], ms(600), |w| {
        let s = w.node::<Station>(caller);
        match asked {
            Some((at, sent)) if s.sent.len() > sent => {
                times.push(s.last_sent.since(at));
                asked = None;
            }
            Some(_) => {}
            None if times.len() < 500 => {
                let now = w.now();
                let s = w.node_mut::<Station>(caller);
                s.now = now;
                asked = Some((now, s.sent.len()));
                s.send(rpc, &[1; 64], 0).unwrap();
            }
            None => {}
        }
    });
    assert!(times.len() >= 300, "{} calls", times.len());
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
fn calls_stay_quick_beside_a_stream() {
    let (with, without) = (calls_beside_bulk(&big()), calls_beside_bulk(&without_control()));
    println!(
        "simulated: the 99th percentile of a call beside a stream: {with}, without congestion control {without}"
    );
    assert!(with <= us(600), "{with}");
    assert!(without.as_nanos() > 3 * with.as_nanos(), "{without} against {with}");
}
