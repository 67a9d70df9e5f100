//! Ports whose interface goes away and comes again: the lines are told, and nothing has to be started anew.

mod common;

use barewire_base::{Duration, Instant};
use barewire_engine::now;
use barewire_feed_handler::{
    Consumer, FeedHandler, Input, LineId, Packet, PortOptions, PortSource, Side, Source, SourceError,
};
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_port::{OpenError, Port, PortCaps, PortCounters, PortError};
use common::link::{Heard, hears, ip, pair};
use common::{emulation, plan, privileged};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

const SECOND: Duration = Duration::from_secs(1);

/// What is wrong with a port at present, and what was done to it.
#[derive(Default)]
struct Fate {
    down: Cell<bool>,
    /// Opening it again fails: with what no waiting mends, or not.
    refuses: Cell<Option<bool>>,
    bursts: Cell<u32>,
    reopened: Cell<u32>,
}

/// An empty port that fails while it is told to.
struct Fickle {
    fate: Rc<Fate>,
    inner: Box<dyn Port>,
}

impl Port for Fickle {
    fn caps(&self) -> &PortCaps {
        self.inner.caps()
    }
    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.fate.bursts.set(self.fate.bursts.get() + 1);
        if self.fate.down.get() {
            let source = std::io::Error::from_raw_os_error(100);
            return Err(PortError::Down { port: "fickle".into(), source });
        }
        self.inner.rx_burst(now, burst)
    }
    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.inner.tx_burst(now, burst)
    }
    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }
    fn reopen(&mut self) -> Result<(), OpenError> {
        self.fate.reopened.set(self.fate.reopened.get() + 1);
        let uri = "fickle".to_owned();
        match self.fate.refuses.get() {
            None => Ok(()),
            Some(false) => Err(OpenError::NotFound { uri, what: "interface".into(), hint: String::new() }),
            Some(true) => Err(OpenError::NotPermitted { uri, call: "socket", needs: "CAP_NET_RAW" }),
        }
    }
}

/// Remembers which lines failed.
#[derive(Default)]
struct Faults(BTreeMap<LineId, u32>);

impl Consumer for Faults {
    fn on_packet(&mut self, _: Instant, _: &Packet<'_>) {}
    fn on_line_fault(&mut self, _: Instant, line: LineId, _: &SourceError) {
        *self.0.entry(line).or_default() += 1;
    }
}

fn count(source: &dyn Source, wanted: &str) -> u64 {
    let mut found = 0;
    source.counts(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}

/// One port for both lines, down for some seconds: nobody but the lines is told, and it is tried again at an even pace.
#[test]
fn a_port_that_is_down_for_a_while_does_not_end_its_handler() {
    let config = emulation(3);
    let fate = Rc::new(Fate::default());
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let inner = barewire_engine::open_port(&"mem:fickle".parse().unwrap(), &pool).unwrap();
    let port = Box::new(Fickle { fate: Rc::clone(&fate), inner });
    let options = PortOptions::new("mem:fickle");
    let plan = plan(&config, Input::Ports(options.clone()), None);
    let source = PortSource::of_port(port, "fickle", &plan.channels, &[Side::A, Side::B], &options);
    let mut handler =
        FeedHandler::builder(plan).sources(vec![Box::new(source)]).build(|_, _| Faults::default()).unwrap();
    let mut at = Instant::from_nanos(1_000_000_000);
    handler.process(at).unwrap();
    fate.down.set(true);
    fate.refuses.set(Some(false));
    let (bursts, step) = (fate.bursts.get(), Duration::from_millis(1));
    for _ in 0..5_000 {
        at += step;
        handler.process(at).unwrap();
    }
    let told = &handler.channels()[0].0;
    assert_eq!(told.len(), 6, "every line of both sides");
    assert!(told.values().all(|&times| times == 1), "{told:?}");
    assert!(handler.last_fault().is_some());
    assert!((4..=5).contains(&fate.reopened.get()) && fate.bursts.get() - bursts <= 6);
    let deadline = handler.next_deadline().expect("the next attempt");
    assert!(deadline > at && deadline <= at + SECOND);
    // It can be opened again, and then works.
    fate.refuses.set(None);
    fate.down.set(false);
    at += SECOND;
    handler.process(at).unwrap();
    let bursts = fate.bursts.get();
    at += step;
    handler.process(at).unwrap();
    assert!(fate.bursts.get() > bursts, "in every round again");
    assert_eq!(count(&*handler.sources()[0], "line_faults"), u64::from(fate.reopened.get()));
    // What no waiting mends ends the handler.
    fate.down.set(true);
    fate.refuses.set(Some(true));
    at += step;
    handler.process(at).unwrap();
    at += SECOND;
    let error = handler.process(at).expect_err("it may not");
    assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
}

/// Idle channels are kept in cache one after the other: a packet that comes meanwhile waits for one of them.
#[test]
fn one_channel_a_round_is_kept_warm() {
    #[derive(Default)]
    struct Warm(u32);
    impl Consumer for Warm {
        fn on_packet(&mut self, _: Instant, _: &Packet<'_>) {}
        fn keep_warm(&mut self, _: Instant) {
            self.0 += 1;
        }
    }
    let config = emulation(3);
    let mut plan = plan(&config, Input::Ports(PortOptions::new("mem:none")), None);
    let one = plan.channels[0].clone();
    plan.channels.extend([one.clone(), one]);
    let mut handler = FeedHandler::builder(plan).sources(vec![]).build(|_, _| Warm::default()).unwrap();
    for round in 1..=7 {
        handler.process(Instant::from_nanos(round)).unwrap();
        let rehearsed: u32 = handler.channels().iter().map(|channel| channel.0).sum();
        assert_eq!(u64::from(rehearsed), round, "one in each round");
    }
    assert_eq!(handler.channels().iter().map(|channel| channel.0).collect::<Vec<_>>(), [3, 2, 2]);
}

#[test]
fn a_port_follows_an_interface_that_is_made_anew() {
    if !privileged() {
        return;
    }
    for scheme in ["packet", "xdp"] {
        let host = barewire_netns::Namespace::anonymous().unwrap();
        host.enter(|| {
            pair("a0", 1);
            pair("b0", 2);
            let config = emulation(4);
            let options = PortOptions {
                port_b: Some(format!("{scheme}:b0")),
                pool_frames: 4096,
                ..PortOptions::new(&format!("{scheme}:a0"))
            };
            let plan = plan(&config, Input::Ports(options), None);
            let mut handler = FeedHandler::builder(plan).build(|_, _| Heard::default()).unwrap();
            let joined = |name: &str| {
                let igmp = std::fs::read_to_string("/proc/thread-self/net/igmp").unwrap();
                igmp.lines().skip_while(|line| !line.contains(name)).any(|line| line.contains("5AEF"))
            };
            assert!(hears(&mut handler, "a0", Side::A), "{scheme}: A at first");
            assert!(hears(&mut handler, "b0", Side::B), "{scheme}: B at first");
            // A's interface is deleted and made again: B goes on meanwhile, and A is heard again by itself.
            ip("link del a0");
            assert!(hears(&mut handler, "b0", Side::B), "{scheme}: B while A is gone");
            pair("a0", 1);
            assert!(hears(&mut handler, "a0", Side::A), "{scheme}: A made anew");
            assert!(joined("a0"), "{scheme}");
            // Both links are down for a moment.
            for name in ["a0", "b0"] {
                ip(&format!("link set {name} down"));
            }
            let end = now() + Duration::from_millis(1_500);
            while now() < end {
                handler.process(now()).unwrap();
            }
            for (name, side) in [("a0", Side::A), ("b0", Side::B)] {
                ip(&format!("link set {name} up"));
                assert!(hears(&mut handler, name, side), "{scheme}: {side} up again");
            }
        })
        .unwrap();
    }
}

/// One port carries both lines, and its interface is away for some seconds: the handler waits for it.
#[test]
fn a_handler_whose_only_interface_goes_away_waits_for_it() {
    if !privileged() {
        return;
    }
    let host = barewire_netns::Namespace::anonymous().unwrap();
    host.enter(|| {
        pair("a0", 1);
        let config = emulation(4);
        let plan = plan(&config, Input::Ports(PortOptions::new("packet:a0")), None);
        let mut handler = FeedHandler::builder(plan).build(|_, _| Heard::default()).unwrap();
        let side = Side::A;
        assert!(hears(&mut handler, "a0", side));
        ip("link del a0");
        let end = now() + Duration::from_secs(60);
        while handler.channels()[0].faults.is_empty() && now() < end {
            handler.process(now()).unwrap();
        }
        assert_eq!(handler.channels()[0].faults.len(), 6, "every line is told as down");
        pair("a0", 1);
        assert!(hears(&mut handler, "a0", side), "{:?}", handler.last_fault());
    })
    .unwrap();
}
