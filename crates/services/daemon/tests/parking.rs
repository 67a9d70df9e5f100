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
    // Both engines and both control threads: named for their daemons, whose names begin alike.
    let engines = threads("barewire-daemon");
    assert!(engines.len() >= 2, "{engines:?}");

    // Nothing to do, with applications and an open flow.
    thread::sleep(Duration::from_millis(100));
    let used = || engines.iter().map(|tid| cpu_ns(*tid)).sum::<u64>();
    let (before, cpu) = (counters(&pair.a), used());
    let start = now();
    thread::sleep(Duration::from_secs(1));
    let (after, cpu) = (counters(&pair.a), used() - cpu);
    let grown = |name: &str| after[name] - before[name];
    let (parks, cycles) = (grown("engine.0.parks"), grown("engine.0.cycles"));
    let share = cpu as f64 * 100.0 / now().since(start).as_nanos() as f64;
    println!("idle for a second: {parks} parks, {cycles} cycles, both daemons used {share:.3} % of a core");
    // A parked engine publishes before it sleeps, so that what is read may be a sleep old.
    assert!(cycles < 500 && parks <= cycles, "{parks} parks, {cycles} cycles");
    assert!(share < 2.0, "{share} %: the target is 1 % for each daemon");
    assert!(after["engine.0.parks"] > 0);

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
    assert!(times[20] < Span::from_millis(10), "{}", times[20]);

    // Pauses of every length around the time at which an engine goes to sleep.
    const ROUNDS: u64 = 20_000;
    let (mut slow, mut longest) = (0, Span::ZERO);
    for i in 0..ROUNDS {
        match prng.below(4) {
            0 => {}
            1 => thread::sleep(Duration::from_micros(prng.below(100))),
            _ => {
                let end = now() + Span::from_nanos(prng.below(60_000));
                while now() < end {
                    std::hint::spin_loop();
                }
            }
        }
        let bytes = i.to_le_bytes();
        let start = now();
        client.send(flow, &bytes).unwrap();
        assert_eq!(message(&mut client), bytes);
        let took = now().since(start);
        longest = longest.max(took);
        // Every 67 ms an open flow wakes its engine, which would hide a lost wake-up but for its time.
        slow += u64::from(took > Span::from_millis(40));
    }
    let c = counters(&pair.a);
    println!(
        "seed {seed}: {ROUNDS} rounds with pauses, longest {longest}, {slow} above 40 ms; {} parks, {} of them in vain",
        c["engine.0.parks"], c["engine.0.empty_wakes"]
    );
    assert!(slow <= ROUNDS / 1000, "{slow} rounds took above 40 ms: wake-ups are lost");
    client.close(flow).unwrap();
    assert_eq!(echo.join().unwrap(), ROUNDS + 40);
    assert!(matches!(next_real(&mut client), Event::Closed { .. }));
}
