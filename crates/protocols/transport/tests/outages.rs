//! The link goes away and comes back, or does not.

mod common;
use barewire_base::Duration;
use barewire_sim::LinkConfig;
use barewire_transport::*;
use common::*;

fn link(rate_bps: Option<u64>) -> LinkConfig {
    LinkConfig { rate_bps, queue_bytes: 1 << 20, ..LinkConfig::perfect(us(50)) }
}

fn outage(p: &mut Pair, from_now: Duration, lasts: Duration, config: &LinkConfig) {
    let at = p.world.now() + from_now;
    p.world.set_link(p.link, LinkConfig { outages: vec![(at, lasts)], ..config.clone() });
}

/// Time to stream 20 MB through 1 Gbit/s.
fn stream(lasts: Option<Duration>) -> Duration {
    let wire = link(Some(1_000_000_000));
    let mut p = pair(1, wire.clone(), &Config::default());
    let (flow, _) = p.open();
    p.b().keep = false;
    if let Some(lasts) = lasts {
        outage(&mut p, ms(30), lasts, &wire);
    }
    let start = p.world.now();
    let (a, b) = (p.a, p.b);
    let mut left = 200;
    p.world
        .run_while(secs(20), |w| {
            while left > 0 && w.node::<Station>(a).endpoint.messages_under_way() < 20 {
                let now = w.now();
                let s = w.node_mut::<Station>(a);
                s.now = now;
                s.send(flow, &message(left, 100_000), left).unwrap();
                left -= 1;
            }
            w.node::<Station>(b).received < 200
        })
        .unwrap_done();
    assert!(p.b().closes().is_empty() && p.a().closes().is_empty());
    p.world.now().since(start)
}

/// Time for 2,000 round trips of a small message.
fn ping_pong(lasts: Option<Duration>, at: Duration) -> Duration {
    let wire = link(None);
    let mut p = pair(2, wire.clone(), &Config::default());
    let (flow, _) = p.open();
    p.b().echo = true;
    p.a().keep = false;
    if let Some(lasts) = lasts {
        outage(&mut p, at, lasts, &wire);
    }
    let start = p.world.now();
    let (a, mut sent) = (p.a, 0);
    p.world
        .run_while(secs(20), |w| {
            let done = w.node::<Station>(a).received;
            if done == sent && sent < 2_000 {
                sent += 1;
                let now = w.now();
                let s = w.node_mut::<Station>(a);
                s.now = now;
                s.send(flow, &message(sent, 64), sent).unwrap();
            }
            done < 2_000
        })
        .unwrap_done();
    p.world.now().since(start)
}

#[test]
fn thirty_seven_milliseconds_cost_at_most_sixty() {
    let cost = stream(Some(ms(37))) - stream(None);
    println!("simulated: an outage of 37 ms cost a stream {cost}");
    assert!(cost >= ms(30) && cost <= ms(60), "{cost}");
    let clean = ping_pong(None, ms(0));
    let mut worst = Duration::ZERO;
    for i in 0..40 {
        // At any moment of a round trip.
        worst = worst.max(ping_pong(Some(ms(37)), ms(40) + us(5 * i)) - clean);
    }
    println!("simulated: an outage of 37 ms cost a conversation at most {worst}");
    assert!(worst >= ms(36) && worst <= ms(60), "{worst}");
}

#[test]
fn two_seconds_are_survived() {
    // Retries come at most a quarter of the outage apart.
    let most = ms(2_000 + 500 + 100);
    let cost = stream(Some(secs(2))) - stream(None);
    assert!(cost >= ms(1_900) && cost <= most, "{cost}");
    let cost = ping_pong(Some(secs(2)), ms(40)) - ping_pong(None, ms(0));
    assert!(cost >= ms(1_900) && cost <= most, "{cost}");
}

#[test]
fn six_seconds_are_death_for_both_ends() {
    let wire = link(None);
    let mut p = pair(3, wire.clone(), &Config::default());
    let (flow, peer) = p.open();
    outage(&mut p, ms(1), secs(6), &wire);
    p.run(ms(2));
    p.a().send(flow, &message(1, 100_000), 1).unwrap();
    p.a().send(flow, &message(2, 10), 2).unwrap();
    p.b().send(peer, &message(3, 10), 3).unwrap();
    let start = p.world.now();
    let (a, b) = (p.a, p.b);
    p.world
        .run_while(secs(8), |w| {
            w.node::<Station>(a).closes().is_empty() || w.node::<Station>(b).closes().is_empty()
        })
        .unwrap_done();
    // `dead_after` counts from the first time-out.
    let took = p.world.now().since(start);
    assert!(took >= secs(5) && took <= ms(5_100), "{took}");
    for n in [a, b] {
        assert_eq!(p.world.node::<Station>(n).closes(), [CloseReason::TimedOut]);
    }
    assert_eq!(p.a().sent, [(1, false), (2, false)]);
    assert_eq!(p.b().sent, [(3, false)]);
    p.run(secs(3));
    p.assert_clean();
}

#[test]
fn a_receiver_of_a_dead_stream_finds_out_by_asking() {
    let wire = link(None);
    let mut p = pair(4, wire.clone(), &Config::default());
    let (flow, _) = p.open();
    outage(&mut p, ms(1), secs(60), &wire);
    p.run(ms(2));
    p.a().send(flow, &message(1, 10), 1).unwrap();
    let (b, start) = (p.b, p.world.now());
    p.world.run_while(secs(20), |w| w.node::<Station>(b).closes().is_empty()).unwrap_done();
    let took = p.world.now().since(start);
    // Five seconds of silence, then three questions a second apart.
    assert!(took >= ms(7_900) && took <= ms(8_100), "{took}");
    assert_eq!(p.b().closes(), [CloseReason::TimedOut]);
}

#[test]
fn one_dead_direction_ends_both_ends() {
    let wire = link(None);
    let mut p = pair(5, wire.clone(), &Config::default());
    let (flow, _) = p.open();
    // What the server says is lost; what the client says arrives, its last word included.
    p.world.set_direction(p.link, barewire_sim::Direction::Reverse, LinkConfig::down());
    p.a().send(flow, &message(1, 10), 1).unwrap();
    p.run(ms(5_200));
    assert_eq!(p.a().closes(), [CloseReason::TimedOut]);
    assert_eq!(p.a().sent, [(1, false)]);
    assert_eq!(p.b().closes(), [CloseReason::Reset]);
    assert_eq!(p.b().inbox.len(), 1);
    p.run(ms(500));
    p.assert_clean();
}
