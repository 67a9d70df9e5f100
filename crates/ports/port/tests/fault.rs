//! The fault port over a memory link.

mod support;

use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{Burst, Pool, StampSource};
use barewire_port::conformance::{ConformancePair, run_all};
use barewire_port::{Direction, Fault, FaultConfig, FaultSettings, MemoryConfig, MemoryPort, Port, PortUri};
use support::*;

type Faulty = Fault<MemoryPort>;

fn config(settings: FaultSettings, direction: Direction) -> FaultConfig {
    FaultConfig { settings, seed: 7, direction }
}

fn link(config: &FaultConfig, pool: &Pool) -> (Faulty, MemoryPort) {
    let (a, b) = MemoryPort::pair(MemoryConfig::default(), pool.clone(), pool.clone()).unwrap();
    (Fault::new(a, config).unwrap(), b)
}

fn settings() -> FaultSettings {
    FaultSettings::default()
}

#[test]
fn conforms() {
    let every = |settings: FaultSettings, name: &str, in_order: bool, lossless: bool| {
        run_all(name, &mut || {
            let (a_pool, b_pool) = (pool(600), pool(300));
            let (a, b) = MemoryPort::pair(MemoryConfig::default(), a_pool.clone(), b_pool.clone()).unwrap();
            let config = config(settings.clone(), Direction::Both);
            ConformancePair {
                a: Box::new(Fault::new(a, &config).unwrap()),
                a_pool,
                b: Box::new(Fault::new(b, &config).unwrap()),
                b_pool,
                in_order,
                lossless,
                settle: std::time::Duration::from_millis(if lossless { 30 } else { 2 }),
            }
        });
    };
    every(settings(), "fault, none", true, true);
    let delay =
        FaultSettings { delay: Duration::from_micros(20), jitter: Duration::from_micros(20), ..settings() };
    every(delay, "fault, delay", true, true);
    let reorder = FaultSettings { reorder: 0.2, reorder_hold: Duration::from_micros(50), ..settings() };
    every(reorder, "fault, reorder", false, true);
}

#[test]
fn loss_replays_and_is_counted() {
    let run = |seed: u64| {
        let pool = pool(64);
        let config = FaultConfig { seed, ..config(FaultSettings { loss: 0.3, ..settings() }, Direction::Tx) };
        let (mut a, mut b) = link(&config, &pool);
        let mut got = Vec::new();
        for i in 0..20 {
            assert_eq!(send(&mut a, ms(i), &pool, 0..10), 10);
            got.push(receive(&mut b, ms(i)));
        }
        let arrived: usize = got.iter().map(Vec::len).sum();
        assert_eq!(a.counters().drops.get(DropReason::Injected), 200 - arrived as u64);
        assert_eq!(a.tx_stats().lost, 200 - arrived as u64);
        assert!((110..170).contains(&arrived), "{arrived}");
        got
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn directions_are_separate() {
    let all = FaultSettings { loss: 1.0, ..settings() };
    for (direction, sent, received) in [(Direction::Tx, 0, 5), (Direction::Rx, 5, 0), (Direction::Both, 0, 0)]
    {
        let pool = pool(64);
        let (mut a, mut b) = link(&config(all.clone(), direction), &pool);
        send(&mut a, ms(0), &pool, 0..5);
        assert_eq!(receive(&mut b, ms(0)).len(), sent, "{direction:?}");
        send(&mut b, ms(0), &pool, 0..5);
        assert_eq!(receive(&mut a, ms(0)).len(), received, "{direction:?}");
    }
}

#[test]
fn delay_holds_frames_until_their_time() {
    let delay = FaultSettings { delay: Duration::from_millis(5), ..settings() };
    let pool = pool(64);
    let (mut a, mut b) = link(&config(delay.clone(), Direction::Tx), &pool);
    send(&mut a, ms(10), &pool, [1, 2]);
    assert_eq!(receive(&mut b, ms(10)), []);
    assert_eq!(a.next_deadline(), Some(ms(15)));
    a.tx_burst(Instant::from_nanos(14_999_999), &mut Burst::new()).unwrap();
    assert_eq!(receive(&mut b, ms(14)), []);
    a.tx_burst(ms(15), &mut Burst::new()).unwrap();
    assert_eq!(receive(&mut b, ms(15)), [1, 2]);
    assert_eq!(a.next_deadline(), None);

    // Receiving: the same, and the stamp is that of the delivery.
    let (mut a, mut b) = link(&config(delay, Direction::Rx), &pool);
    send(&mut b, ms(10), &pool, [3]);
    assert_eq!(receive(&mut a, ms(10)), []);
    let mut burst = Burst::new();
    assert_eq!(a.rx_burst(ms(16), &mut burst).unwrap(), 1);
    let stamp = burst.front().unwrap().stamp();
    assert_eq!((stamp.source, stamp.ns), (StampSource::Engine, 16_000_000));
}

#[test]
fn a_held_frame_is_overtaken_and_never_stuck() {
    // Every frame is held until two later ones have passed, or for 5 ms; all are held, so time decides.
    let held =
        FaultSettings { reorder: 1.0, reorder_gap: 2, reorder_hold: Duration::from_millis(5), ..settings() };
    let pool = pool(64);
    let (mut a, mut b) = link(&config(held.clone(), Direction::Tx), &pool);
    send(&mut a, ms(0), &pool, [1]);
    assert_eq!(receive(&mut b, ms(0)), []);
    assert_eq!(a.next_deadline(), Some(ms(5)));
    a.rx_burst(ms(5), &mut Burst::new()).unwrap();
    assert_eq!(receive(&mut b, ms(5)), [1]);

    // Some are held: each of those arrives right after the second of its followers that were not.
    let some = FaultSettings { reorder: 0.2, ..held };
    let (mut a, mut b) = link(&config(some, Direction::Tx), &pool);
    let mut got = Vec::new();
    for i in 0..100 {
        send(&mut a, us(i), &pool, [i as u8]);
        got.extend(receive(&mut b, us(i)));
    }
    a.tx_burst(ms(50), &mut Burst::new()).unwrap();
    got.extend(receive(&mut b, ms(50)));
    let reordered = a.tx_stats().reordered;
    assert!((10..35).contains(&reordered), "{reordered}");
    let late = got.iter().enumerate().filter(|(i, t)| got[..*i].iter().any(|e| e > *t)).count();
    // The last ones have nobody behind them to be overtaken by.
    assert!((reordered - 2..=reordered).contains(&(late as u64)), "{reordered}: {got:?}");
    for (i, tag) in got.iter().enumerate() {
        let overtaken_by = got[..i].iter().filter(|e| *e > tag).count();
        assert!(overtaken_by <= 3, "{tag} was overtaken by {overtaken_by}");
    }
    got.sort_unstable();
    assert_eq!(got, (0..100).collect::<Vec<u8>>(), "each once");
}

#[test]
fn copies_and_flips() {
    let pool = pool(64);
    let twice = FaultSettings { duplicate: 1.0, ..settings() };
    let (mut a, mut b) = link(&config(twice, Direction::Tx), &pool);
    send(&mut a, ms(0), &pool, [1, 2]);
    assert_eq!(receive(&mut b, ms(0)), [1, 1, 2, 2]);
    assert_eq!(a.counters().tx_frames.get(), 4);
    // Without a free frame there is no copy, and the original passes.
    let held: Vec<_> = std::iter::from_fn(|| pool.alloc()).skip(1).collect();
    let mut burst = Burst::new();
    let last = pool.alloc();
    assert!(last.is_none());
    drop(held);
    let mut all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    let mut one = all.pop().unwrap();
    assert!(one.set_len(60));
    one.data_mut().fill(9);
    assert!(burst.push(one).is_ok());
    a.tx_burst(ms(1), &mut burst).unwrap();
    assert_eq!(a.counters().drops.get(DropReason::PoolEmpty), 1);
    drop(all);
    assert_eq!(receive(&mut b, ms(1)), [9]);

    let flip = FaultSettings { corrupt: 1.0, ..settings() };
    let (mut a, mut b) = link(&config(flip, Direction::Tx), &pool);
    assert!(!a.caps().lossless_bits);
    send(&mut a, ms(0), &pool, [0xa5; 8]);
    assert_eq!(b.rx_burst(ms(0), &mut burst).unwrap(), 8);
    for frame in burst.iter() {
        let flips: u32 = frame.data().iter().map(|b| (b ^ 0xa5).count_ones()).sum();
        assert!((1..=8).contains(&flips), "{flips}");
    }
}

#[test]
fn a_rate_drops_what_its_queue_does_not_hold() {
    // One byte a microsecond; 60-byte frames; three may wait.
    let slow = FaultSettings { rate_bps: 8_000_000, rate_burst_bytes: 60, limit_frames: 3, ..settings() };
    let pool = pool(64);
    let (mut a, mut b) = link(&config(slow, Direction::Tx), &pool);
    assert_eq!(send(&mut a, us(0), &pool, 0..10), 10);
    assert_eq!(a.counters().drops.get(DropReason::RingFull), 6);
    let mut got = Vec::new();
    for t in 0..400 {
        a.tx_burst(us(t), &mut Burst::new()).unwrap();
        got.extend(receive(&mut b, us(t)).into_iter().map(|tag| (tag, t)));
    }
    assert_eq!(got, [(0, 0), (1, 60), (2, 120), (3, 180)]);
}

#[test]
fn back_pressure_passes_through() {
    let delay = FaultSettings { delay: Duration::from_micros(1), ..settings() };
    let pool = pool(64);
    let small = MemoryConfig { slots: 4, slot_bytes: 2048 };
    let (a, mut b) = MemoryPort::pair(small, pool.clone(), pool.clone()).unwrap();
    let mut a = Fault::new(a, &config(delay, Direction::Tx)).unwrap();
    assert_eq!(send(&mut a, us(0), &pool, 0..6), 6);
    assert_eq!(send(&mut a, us(2), &pool, [6]), 0, "two of six still wait for the inner port");
    assert_eq!(a.next_deadline(), Some(us(2)));
    assert_eq!(receive(&mut b, us(3)), [0, 1, 2, 3]);
    assert_eq!(send(&mut a, us(4), &pool, [7]), 1);
    a.tx_burst(us(9), &mut Burst::new()).unwrap();
    assert_eq!(receive(&mut b, us(9)), [4, 5, 7]);
    assert_eq!(a.counters().drops.total(), 0);
}

#[test]
fn a_slow_reader_loses_nothing() {
    let delay = FaultSettings { delay: Duration::from_micros(1), limit_frames: 4, ..settings() };
    let pool = pool(64);
    let (mut a, mut b) = link(&config(delay, Direction::Rx), &pool);
    let mut burst = Burst::new();
    while burst.room() > 1 {
        assert!(burst.push(frame(&pool, 0, 60)).is_ok());
    }
    for i in 0..4 {
        send(&mut b, us(i), &pool, [i as u8]);
    }
    let mut got = Vec::new();
    for t in 10..30 {
        assert!(a.rx_burst(us(t), &mut burst).unwrap() <= 1);
        while burst.len() > 31 {
            burst.iter().skip(31).for_each(|f| got.push(f.data()[0]));
            let mut keep = Burst::new();
            while keep.len() < 31 {
                assert!(keep.push(burst.pop().unwrap()).is_ok());
            }
            burst = keep;
        }
    }
    assert_eq!(got, [0, 1, 2, 3]);
    assert_eq!(a.counters().drops.total(), 0);
}

#[test]
fn uris() {
    let take = |text: &str| {
        let mut uri: PortUri = text.parse().unwrap();
        let config = FaultConfig::take(&mut uri).map_err(|e| e.to_string())?;
        uri.finish().map_err(|e| e.to_string())?;
        Ok::<_, String>(config)
    };
    let text =
        "fault+mem:a?loss=0.01&seed=9&dir=both&delay_us=50&jitter_us=5&outage_start_ms=10&outage_ms=20";
    let config = take(text).unwrap();
    assert_eq!((config.seed, config.direction), (9, Direction::Both));
    assert_eq!(config.settings.delay, Duration::from_micros(50));
    assert_eq!(config.settings.outage.unwrap().length, Duration::from_millis(20));
    assert_eq!(take("fault+mem:a").unwrap(), FaultConfig::default());
    assert!(take("fault+mem:a?loss=2").unwrap_err().contains("from 0 to 1"));
    assert!(take("fault+mem:a?dir=in").unwrap_err().contains("known: rx, tx, both"));
    assert!(take("fault+mem:a?los=1").unwrap_err().contains("did you mean `loss`"));
    assert!(take("fault+mem:a?burst_p=0.1").unwrap_err().contains("both burst_p and burst_r"));

    let port = barewire_port::open(
        &"fault+mem:fault-uris?seed=77&loss=0.5&slots=64".parse().unwrap(),
        &pool(8),
        &mut |_, _| None,
    );
    let description = port.unwrap().caps().description.clone();
    assert!(description.contains("seed 77") && description.contains("64 slots"), "{description}");
    let wrong = |text: &str| {
        let opened = barewire_port::open(&text.parse().unwrap(), &pool(8), &mut |_, _| None);
        opened.err().expect("refused").to_string()
    };
    assert!(wrong("fault+mem:fault-uris?lossy=1").contains("did you mean `loss`"));
    assert!(wrong("fault+xdp:eth0?loss=0.1").contains("no `xdp:` ports"));
}

/// The suite is only worth what it finds: each of these breaks one promise and must be caught.
#[test]
fn the_conformance_suite_catches_faults() {
    let caught = |settings: FaultSettings| {
        let run = std::panic::AssertUnwindSafe(|| {
            run_all("broken on purpose", &mut || {
                let (a_pool, b_pool) = (pool(600), pool(300));
                let (a, b) =
                    MemoryPort::pair(MemoryConfig::default(), a_pool.clone(), b_pool.clone()).unwrap();
                ConformancePair {
                    a: Box::new(Fault::new(a, &config(settings.clone(), Direction::Tx)).unwrap()),
                    a_pool,
                    b: Box::new(b),
                    b_pool,
                    in_order: true,
                    lossless: true,
                    settle: std::time::Duration::from_millis(20),
                }
            });
        });
        let panic = std::panic::catch_unwind(run).expect_err("must be caught");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    let is = |what: &str, settings: FaultSettings| {
        let said = caught(settings);
        assert!(said.contains(what), "{said}");
    };
    is("missing", FaultSettings { loss: 0.05, ..settings() });
    is("twice", FaultSettings { duplicate: 0.05, ..settings() });
    is("other bytes", FaultSettings { corrupt: 0.2, ..settings() });
    is("out of order", FaultSettings { reorder: 0.1, ..settings() });
}

/// An Ethernet frame with an ECN-capable (ECT(0)) IPv4 header, 192.0.2.1 to 192.0.2.2; its checksum added up by hand.
const ECT: [u8; 34] = [
    0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0x02, 0x00, 0x14, 0x00, 0x00, 0x40, 0x00,
    0x40, 0x11, 0xb6, 0xd3, 0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00, 0x02, 0x02,
];

#[test]
fn marks_reach_the_frame_and_an_observer_sees_it_as_it_came() {
    let pool = pool(64);
    let (mut a, mut b) = link(&config(FaultSettings { ecn: 1.0, ..settings() }, Direction::Tx), &pool);
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = std::rc::Rc::clone(&seen);
    a.observe_tx(Box::new(move |judged| {
        log.borrow_mut().push((judged.number, judged.frame.data().to_vec(), judged.has_room));
    }));
    let mut burst = Burst::new();
    assert!(burst.push(pool.alloc_from(&ECT).unwrap()).is_ok());
    let mut not_capable = ECT;
    not_capable[15] = 0;
    assert!(burst.push(pool.alloc_from(&not_capable).unwrap()).is_ok());
    assert_eq!(a.tx_burst(Instant::from_nanos(1), &mut burst).unwrap(), 2);
    assert_eq!(b.rx_burst(Instant::from_nanos(2), &mut burst).unwrap(), 2);
    let got: Vec<Vec<u8>> = burst.iter().map(|frame| frame.data().to_vec()).collect();
    let mut marked = ECT;
    marked[15] = 0x03;
    // The checksum goes down by what the mark added.
    marked[25] = 0xd2;
    assert_eq!(got, [marked.to_vec(), not_capable.to_vec()]);
    assert_eq!(a.tx_stats().marked, 1);
    assert_eq!(*seen.borrow(), [(1, ECT.to_vec(), true), (2, not_capable.to_vec(), true)]);
}

#[test]
fn a_long_wire_holds_more_than_its_queue() {
    let pool = pool(200);
    let long =
        FaultSettings { delay: Duration::from_millis(10), limit_frames: 2, flight_frames: 40, ..settings() };
    let (mut a, _b) = link(&config(long, Direction::Tx), &pool);
    let mut burst = Burst::new();
    for i in 0..50u8 {
        assert!(burst.push(pool.alloc_from(&[i; 60]).unwrap()).is_ok());
        assert_eq!(a.tx_burst(Instant::from_nanos(1), &mut burst).unwrap(), 1);
    }
    let stats = a.tx_stats();
    assert_eq!((stats.seen, stats.queue_full, stats.flight_full), (50, 0, 10));
    assert_eq!(a.counters().drops.get(DropReason::RingFull), 10);
}

#[test]
fn what_is_written_into_a_uri_is_read_out_of_it() {
    use barewire_port::{GilbertElliott, Outage};
    let all = FaultSettings {
        loss: 0.01,
        burst_loss: Some(GilbertElliott { to_bad: 1e-3, to_good: 0.25, loss_good: 0.0, loss_bad: 0.75 }),
        reorder: 0.02,
        reorder_gap: 5,
        reorder_hold: Duration::from_micros(77),
        duplicate: 0.03,
        corrupt: 1e-7,
        delay: Duration::from_micros(1500),
        jitter: Duration::from_micros(3),
        rate_bps: 1_000_000_007,
        rate_burst_bytes: 0,
        limit_frames: 9,
        flight_frames: 99,
        ecn: 0.04,
        ecn_frames: 4,
        outage: Some(Outage {
            start: Duration::from_millis(1),
            length: Duration::from_millis(2),
            every: Duration::from_millis(3),
        }),
    };
    for settings in [all, settings()] {
        for direction in [Direction::Rx, Direction::Tx, Direction::Both] {
            let config = FaultConfig { settings: settings.clone(), seed: u64::MAX, direction };
            let text = config.wrap("packet:eth0?tx=0".parse().unwrap()).to_string();
            let mut uri: PortUri = text.parse().unwrap();
            assert_eq!((uri.wrappers[0].name.as_str(), uri.target.as_str()), ("fault", "eth0"), "{text}");
            assert_eq!(FaultConfig::take(&mut uri).unwrap(), config, "{text}");
            assert_eq!(uri.take_text("tx").as_deref(), Some("0"));
        }
    }
}

#[test]
fn a_port_without_faults_is_watched_too() {
    let pool = pool(64);
    let (mut a, mut b) = link(&config(settings(), Direction::Tx), &pool);
    let seen = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = std::rc::Rc::clone(&seen);
    a.observe_tx(Box::new(move |judged| {
        assert!(judged.has_room && judged.number == count.get() + 1);
        count.set(judged.number);
    }));
    let mut burst = Burst::new();
    for i in 0..3 {
        assert!(burst.push(pool.alloc_from(&[i; 60]).unwrap()).is_ok());
    }
    let now = Instant::from_nanos(1);
    assert_eq!(a.tx_burst(now, &mut burst).unwrap(), 3);
    assert_eq!((b.rx_burst(now, &mut burst).unwrap(), seen.get()), (3, 3));
}

/// Who waits until its frames have left sends nothing meanwhile, and only receives.
#[test]
fn what_a_full_port_left_behind_leaves_without_more_to_send() {
    let pool = pool(64);
    let small = MemoryConfig { slots: 8, ..MemoryConfig::default() };
    let (inner, mut b) = MemoryPort::pair(small, pool.clone(), pool.clone()).unwrap();
    let lossy = FaultSettings { loss: f64::MIN_POSITIVE, ..settings() };
    let mut a = Fault::new(inner, &config(lossy, Direction::Tx)).unwrap();
    assert_eq!(send(&mut a, ms(0), &pool, 0..12), 12);
    assert_eq!((a.tx_waiting(), receive(&mut b, ms(0)).len()), (4, 8));
    assert_eq!(receive(&mut a, ms(1)), []);
    assert_eq!((a.tx_waiting(), receive(&mut b, ms(1))), (0, vec![8, 9, 10, 11]));
}
