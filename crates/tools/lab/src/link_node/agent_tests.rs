//! The link node's agent between memory ports, in virtual time.

use super::*;
use barewire_frame::{Pool, PoolConfig};
use barewire_port::{Direction, FaultConfig, FaultSettings, MemoryConfig, MemoryPort};

/// An agent, and the far ends of its ports.
struct Bench {
    agent: LinkAgent,
    far: [MemoryPort; 2],
    pool: Pool,
    report: Rc<Cell<LinkReport>>,
}

fn bench(forward: FaultSettings, reverse: FaultSettings, seed: u64) -> Bench {
    let pool = Pool::new(PoolConfig { frames: 8192, ..PoolConfig::default() }).unwrap();
    let mut far = Vec::new();
    let mut port = |settings: FaultSettings, seed| {
        let (near, other) = MemoryPort::pair(MemoryConfig::default(), pool.clone(), pool.clone()).unwrap();
        far.push(other);
        let config = FaultConfig { settings, seed, direction: Direction::Tx };
        Fault::new(Box::new(near) as Box<dyn Port>, &config).unwrap()
    };
    // What goes forward suffers at the second port.
    let ports = [port(reverse, seed + 1), port(forward, seed)];
    let report = Rc::new(Cell::new(LinkReport::default()));
    let agent = LinkAgent::new("test", ports, None, Rc::clone(&report));
    let far: [MemoryPort; 2] = far.try_into().ok().unwrap();
    Bench { agent, far, pool, report }
}

impl Bench {
    /// Sends `frames` numbered frames from each end, one each `gap_ns`, and says what came out at both, with times.
    fn run(&mut self, frames: u32, gap_ns: u64) -> [Vec<(u64, Vec<u8>)>; 2] {
        let mut got = [Vec::new(), Vec::new()];
        let mut burst = Burst::new();
        let end = u64::from(frames) * gap_ns + 50_000_000;
        let mut now = 0;
        let mut sent = 0;
        while now < end {
            let at = Instant::from_nanos(1_000_000_000 + now);
            if sent < frames && now >= u64::from(sent) * gap_ns {
                for (i, far) in self.far.iter_mut().enumerate() {
                    let mut bytes = [0xa5; 60];
                    bytes[0] = i as u8;
                    bytes[1..5].copy_from_slice(&sent.to_be_bytes());
                    assert!(burst.push(self.pool.alloc_from(&bytes).unwrap()).is_ok());
                    assert_eq!(far.tx_burst(at, &mut burst).unwrap(), 1);
                }
                sent += 1;
            }
            // As an engine does, which publishes what came of work.
            if self.agent.do_work(at) > 0 {
                self.agent.publish(at);
            }
            // What was due has been done, or nobody could ever sleep.
            assert!(self.agent.next_deadline().is_none_or(|due| due > at));
            for (got, far) in got.iter_mut().zip(&mut self.far) {
                while far.rx_burst(at, &mut burst).unwrap() > 0 {
                    while let Some(frame) = burst.pop() {
                        got.push((now, frame.data().to_vec()));
                    }
                }
            }
            now += gap_ns.min(1_000);
        }
        let sent = |r: LinkReport| [r.forward, r.reverse].map(|d| (d.sent, d.sent_bytes));
        assert_eq!(sent(self.report.get()), sent(self.agent.report()), "what has left is published");
        self.agent.publish(Instant::from_nanos(now));
        got
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[1..5].try_into().unwrap())
}

#[test]
fn the_registry_knows_every_counter_of_the_page() {
    let mut bench = bench(FaultSettings::default(), FaultSettings::default(), 1);
    let mut names = Vec::new();
    bench.agent.values(&mut |name, _| names.push(name.to_owned()));
    // What the link loses by itself has causes of its own.
    assert_eq!(names.len(), 2 * (12 + DropReason::COUNT - 1));
    for name in &names {
        let place = barewire_engine::place(name).unwrap_or_else(|| panic!("{name}"));
        assert!(place.family.group.starts_with("link"), "{name}");
    }
    // And on a page, with the engine's own beside them.
    let path = std::env::temp_dir().join(format!("barewire-link-page-{}.counters", std::process::id()));
    let page = CountersPage::create(&path, COUNTERS_MAX).unwrap();
    let _engine = bench.agent.show_on(page, "wire").unwrap();
    let mut reader = barewire_engine::CountersReader::open(&path).unwrap();
    let shown: Vec<String> = reader.read().unwrap().map(|(name, ..)| name.to_owned()).collect();
    assert!(shown.len() > names.len() && names.iter().all(|name| shown.contains(name)), "{shown:?}");
    for name in &shown {
        assert!(barewire_engine::place(name).is_some(), "{name}");
    }
    drop(bench);
    let _ = std::fs::remove_file(&path);
}

#[test]
fn each_direction_suffers_its_own() {
    let forward = FaultSettings { delay: Duration::from_micros(100), ..FaultSettings::default() };
    let reverse = FaultSettings { loss: 0.5, ..FaultSettings::default() };
    let mut bench = bench(forward, reverse, 7);
    let [at_a, at_b] = bench.run(200, 1_000);
    assert_eq!(at_b.len(), 200);
    for (i, (at, bytes)) in at_b.iter().enumerate() {
        assert_eq!((number(bytes), bytes[0]), (i as u32, 0));
        assert_eq!(*at, i as u64 * 1_000 + 100_000);
    }
    assert!((60..140).contains(&at_a.len()), "{}", at_a.len());
    assert!(at_a.iter().all(|(at, bytes)| bytes[0] == 1 && *at == u64::from(number(bytes)) * 1_000));
    let report = bench.report.get();
    assert_eq!((report.forward.received, report.forward.sent, report.forward.faults.lost), (200, 200, 0));
    assert_eq!(report.reverse.faults.lost as usize + at_a.len(), 200);
    assert_eq!(report.reverse.sent_bytes, 60 * at_a.len() as u64);
    // Each lost frame is one drop, whoever adds up all that there are.
    let mut drops = 0;
    bench.agent.values(&mut |name, value| {
        let place = barewire_engine::place(name).unwrap();
        drops += if place.family.counts_drops() { value } else { 0 };
    });
    assert_eq!(drops, report.reverse.faults.lost);
}

#[test]
fn a_seed_and_a_sequence_replay_and_the_trace_says_so() {
    let rough = || FaultSettings {
        loss: 0.1,
        duplicate: 0.1,
        corrupt: 0.1,
        reorder: 0.1,
        delay: Duration::from_micros(20),
        jitter: Duration::from_micros(30),
        ecn: 0.2,
        ..FaultSettings::default()
    };
    let folder = std::env::temp_dir().join(format!("barewire-lab-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = |name: &str, seed: u64, gap_ns: u64| {
        let mut bench = bench(rough(), rough(), seed);
        let prefix = folder.join(name);
        bench.agent.trace_to(&prefix).unwrap();
        let got = bench.run(300, gap_ns);
        bench.agent.on_close();
        let text =
            |direction: &str| std::fs::read_to_string(format!("{}.{direction}", prefix.display())).unwrap();
        (got, [text("forward"), text("reverse")])
    };
    let (got, traces) = run("first", 3, 2_000);
    assert_eq!((got.clone(), traces.clone()), run("second", 3, 2_000));
    assert_ne!(traces[0], traces[1], "each direction draws its own");
    // Other times, the same decisions.
    let decisions =
        |trace: &str| trace.lines().map(|l| l.split(" | ").next().unwrap().to_owned()).collect::<Vec<_>>();
    let (_, slower) = run("slower", 3, 5_000);
    assert_eq!(decisions(&traces[0]), decisions(&slower[0]));
    assert_ne!(traces[0], slower[0]);
    let (_, other) = run("other", 4, 2_000);
    assert_ne!(decisions(&traces[0]), decisions(&other[0]));
    // And what it says is what happened: as many lost lines as frames that did not come.
    let lines = &decisions(&traces[0])[1..];
    assert_eq!(lines.len(), 300);
    let lost: Vec<u32> = (0..300u32).filter(|i| lines[*i as usize].contains(" lost ")).collect();
    let copies = lines.iter().filter(|l| l.contains(" copy ")).count();
    assert!(!lost.is_empty() && copies > 0);
    assert_eq!(got[1].len(), 300 - lost.len() + copies);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_rate_queues_and_drops_what_finds_no_room() {
    // 60 bytes at 4.8 Mbit/s take 100 us; a frame comes each 10 us.
    let settings = FaultSettings {
        rate_bps: 4_800_000,
        rate_burst_bytes: 0,
        limit_frames: 5,
        flight_frames: 100,
        ..FaultSettings::default()
    };
    let mut bench = bench(settings, FaultSettings::default(), 1);
    let [_, at_b] = bench.run(100, 10_000);
    let report = bench.report.get();
    assert_eq!(report.forward.faults.queue_full as usize + at_b.len(), 100);
    assert_eq!(report.forward.faults.flight_full, 0);
    // A millisecond lets ten pass; five more wait at its end.
    assert!((14..=16).contains(&at_b.len()), "{}", at_b.len());
    assert!(at_b.windows(2).all(|w| w[1].0 - w[0].0 >= 99_000), "{at_b:?}");
}

#[test]
fn a_configuration_that_cannot_be_is_said() {
    use crate::{LinkNodeConfig, LinkNodeError, serve_link_node};
    let stop = barewire_engine::StopFlag::new().unwrap();
    let error = |text: &str| serve_link_node(text.as_bytes(), Vec::new(), &stop).unwrap_err().to_string();
    assert!(error("").contains("EOF"));
    assert!(
        error("{\"name\": \"x\", \"a\": \"mem:a\", \"b\": \"mem:b\", \"mut\": 1}")
            .contains("unknown field `mut`")
    );
    let of = |a: &str| format!("{{\"name\": \"x\", \"a\": \"{a}\", \"b\": \"mem:b\"}}");
    assert!(error(&of("pakcet:a")).contains("did you mean `packet`?"));
    assert!(error(&of("fault+mem:a?dir=both")).contains("dir=tx"));
    assert!(error(&of("fault+mem:a?lsos=1")).contains("lsos"));
    assert!(error(&of("fault+mem:a?loss=2")).contains("from 0 to 1"));
    let idle =
        LinkNodeConfig { idle: Some("sleep".into()), ..LinkNodeConfig::from_json(&of("mem:a")).unwrap() };
    let refused = serve_link_node(idle.to_json().as_bytes(), Vec::new(), &stop);
    assert!(matches!(refused, Err(LinkNodeError::Config(why)) if why.contains("idle")));
}
