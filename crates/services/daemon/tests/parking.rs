//! A daemon with nothing to do sleeps, and wakes for whatever comes. Alone in its file, as it looks at threads.

mod common;

use barewire_base::{Duration as Span, Prng};
use barewire_client::Event;
use barewire_engine::now;
use common::*;
use std::thread;
use std::time::Duration;

#[test]
fn parked_daemons_sleep_and_wake() {
    let seed = 8;
    let mut prng = Prng::new(seed);
    let pair = pair();
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (flow, _) = flow(&mut client, &mut server, 2, 888);

    // Nothing to do, with applications and an open flow.
    thread::sleep(Duration::from_millis(100));
    idles(&[&pair.a, &pair.b]);

    // A message through two sleeping daemons to a sleeping application.
    let mut times = vec![];
    let echo = thread::spawn(move || echo(&mut server));
    for i in 0..40 {
        thread::sleep(Duration::from_millis(15));
        let bytes = pattern(i, 100);
        let start = now();
        client.send(flow, &bytes).unwrap();
        assert_eq!(message(&mut client), bytes);
        times.push(now().since(start));
    }
    times.sort_unstable();
    println!("there and back through everybody's sleep: median {}, longest {}", times[20], times[39]);

    // Pauses of every length around the time at which an engine goes to sleep.
    const ROUNDS: u64 = 20_000;
    let attempts = wakeups_are_kept(ROUNDS, |i| {
        match prng.below(4) {
            0 => {}
            1 => thread::sleep(Duration::from_micros(prng.below(100))),
            _ => spin_for(Span::from_nanos(prng.below(60_000))),
        }
        let bytes = i.to_le_bytes();
        let start = now();
        client.send(flow, &bytes).unwrap();
        assert_eq!(message(&mut client), bytes);
        now().since(start)
    });
    let c = counters(&pair.a);
    println!("seed {seed}: {} parks, {} of them in vain", c["engine.0.parks"], c["engine.0.empty_wakes"]);
    client.close(flow).unwrap();
    assert_eq!(echo.join().unwrap(), attempts * ROUNDS + 40);
    assert!(matches!(next_real(&mut client), Event::Closed { .. }));
}
