//! The transport in a simulated network: every message exactly once, intact and in order, whatever the links do.

mod common;
use barewire_base::{Duration, Prng};
use barewire_sim::{ExactlyOnce, LinkConfig, Order, seeds};
use barewire_transport::*;
use common::*;

#[test]
fn one_round_trip_connects_and_a_message_crosses() {
    for v6 in [false, true] {
        let (mut world, a, b) = pair(1, LinkConfig::perfect(Duration::from_micros(50)), &Config::default());
        let flow = connect(&mut world, a, true, v6);
        world.node_mut::<Station>(a).send(flow, b"hello", 1).unwrap();
        let start = world.now();
        world
            .run_while(Duration::from_secs(1), |w| w.node::<Station>(b).inbox.is_empty())
            .unwrap_done();
        // Resolution of the address, INIT and ACCEPT, and the message: five one-way trips, no pause between them.
        assert!(world.now().since(start) <= Duration::from_micros(300), "{}", world.now().since(start));
        assert_eq!(world.node::<Station>(b).inbox[0].1, b"hello");
        world.run_for(ms(20));
        assert_eq!(world.node::<Station>(a).sent, [(1, true)]);
        world.close().unwrap();
    }
}
