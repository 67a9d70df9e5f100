//! Lines and sources that fail: told, counted and tried again, while the others go on.

mod common;

use barewire_base::{Duration, Instant};
use barewire_feed::{Line, LineState, Listener};
use barewire_feed_emulator::Emulator;
use barewire_feed_handler::{
    Consumer, FeedChannel, FeedHandler, FeedType, Input, LineId, Packet, Side, SocketOptions, SocketSource,
    Source, SourceError,
};
use barewire_frame::Stamp;
use common::link::ip;
use common::{channel, emulation, plan, privileged};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const SECOND: Duration = Duration::from_secs(1);

fn gone() -> SourceError {
    let source = std::io::Error::from_raw_os_error(19);
    SourceError::Sys { what: "line SA".into(), call: "recvmmsg", source }
}

/// The emulator's packets of both sides, as its feeds sent them.
type Packets = Rc<RefCell<Vec<(FeedType, Side, Vec<u8>)>>>;

/// Hands over packets of the emulator's one side, unless it is broken.
struct Half {
    side: Side,
    packets: Packets,
    broken: Rc<Cell<bool>>,
    polls: Rc<Cell<u32>>,
}

impl Source for Half {
    fn name(&self) -> &str {
        "half"
    }
    fn poll(&mut self, now: Instant, consumer: &mut dyn Consumer) -> Result<usize, SourceError> {
        self.polls.set(self.polls.get() + 1);
        if self.broken.get() {
            return Err(gone());
        }
        let mut count = 0;
        for (feed, side, payload) in self.packets.borrow().iter().filter(|(_, side, _)| *side == self.side) {
            let line = LineId { channel: 0, feed: *feed, side: *side };
            consumer.on_packet(now, &Packet { line, stamp: Stamp::engine(now), payload, frame: None });
            count += 1;
        }
        Ok(count)
    }
    fn lines(&self, tell: &mut dyn FnMut(LineId)) {
        tell(LineId { channel: 0, feed: FeedType::Incremental, side: self.side });
    }
    fn counts(&self, _: &mut dyn FnMut(&'static str, u64)) {}
}

#[derive(Default)]
struct States(Vec<(String, LineState)>);

impl Listener for States {
    fn on_line_state(&mut self, line: Line, state: LineState) {
        self.0.push((line.to_string(), state));
    }
}

#[test]
fn a_source_that_fails_does_not_stop_the_others() {
    let config = emulation(5);
    let start = Instant::from_nanos(1_000_000_000);
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let packets = Rc::new(RefCell::new(Vec::new()));
    let broken = [Rc::new(Cell::new(false)), Rc::new(Cell::new(false))];
    let polls = Rc::new(Cell::new(0));
    let half = |side, broken: &Rc<Cell<bool>>| -> Box<dyn Source> {
        let (packets, broken, polls) = (Rc::clone(&packets), Rc::clone(broken), Rc::clone(&polls));
        Box::new(Half { side, packets, broken, polls })
    };
    let mut handler: FeedHandler<FeedChannel<States>> =
        FeedHandler::builder(plan(&config, Input::Sockets(SocketOptions::default()), None))
            .sources(vec![half(Side::A, &broken[0]), half(Side::B, &broken[1])])
            .start(start)
            .listen(|_, _| States::default())
            .unwrap();
    let mut step = |handler: &mut FeedHandler<FeedChannel<States>>, at: Instant| {
        packets.borrow_mut().clear();
        emulator.next_packets(at, &mut |p| {
            packets.borrow_mut().push((p.feed, p.side, p.payload.to_vec()));
        });
        handler.process(at)
    };
    let ms = |n: u64| start + Duration::from_millis(n);
    for n in 0..100 {
        step(&mut handler, ms(n)).unwrap();
    }
    broken[0].set(true);
    let heard = handler.channels()[0].core().counters().packets;
    for n in 100..300 {
        step(&mut handler, ms(n)).unwrap();
    }
    assert!(handler.channels()[0].core().counters().packets > heard + 10, "B goes on");
    assert_eq!(handler.channels()[0].core().counters().gaps, 0);
    let down: Vec<_> = handler.channels()[0].listener().0.iter().filter(|s| s.1 == LineState::Down).collect();
    assert_eq!(down, [&("IA".to_owned(), LineState::Down)], "told once");
    assert!(handler.last_fault().unwrap().to_string().contains("line SA"), "and why");
    // It is tried again every second, and comes back.
    let before = polls.get();
    step(&mut handler, ms(301)).unwrap();
    assert_eq!(polls.get(), before + 1, "not in every round");
    broken[0].set(false);
    step(&mut handler, ms(1_300)).unwrap();
    assert!(handler.channels()[0].listener().0.contains(&("IA".to_owned(), LineState::Up)));
    // Where nothing works any longer, that is an error.
    broken.iter().for_each(|broken| broken.set(true));
    assert!(step(&mut handler, ms(1_301)).is_err());
}

/// Remembers which lines failed.
#[derive(Default)]
struct Faults(Vec<String>);

impl Consumer for Faults {
    fn on_packet(&mut self, _: Instant, _: &Packet<'_>) {}
    fn on_line_fault(&mut self, _: Instant, line: LineId, error: &SourceError) {
        self.0.push(format!("{line}: {error}"));
    }
}

/// One end of a pair; the other is there so that it has a carrier.
fn interface(name: &str, address: &str) {
    ip(&format!("link add {name} type veth peer name {name}x"));
    ip(&format!("address add {address} dev {name}"));
    ip(&format!("link set {name}x up"));
    ip(&format!("link set {name} up"));
}

/// The interface of one line loses its address, so that its groups cannot be joined; then it has it again.
#[test]
fn a_line_that_cannot_be_joined_is_down_until_it_can() {
    if !privileged() {
        return;
    }
    let host = barewire_netns::Namespace::anonymous().unwrap();
    host.enter(|| {
        for (name, address) in [("a0", "192.0.2.1/25"), ("b0", "192.0.2.129/25")] {
            interface(name, address);
        }
        let mut of_channel = channel(&emulation(1));
        for connection in &mut of_channel.connections {
            connection.sources = vec!["192.0.2.77".parse().unwrap()];
        }
        let options = SocketOptions {
            interface_a: Some("a0".into()),
            interface_b: Some("b0".into()),
            ..SocketOptions::default()
        };
        let mut source = SocketSource::open(&[of_channel], &options).unwrap();
        let counts = |source: &SocketSource| {
            let mut found = (0, 0);
            source.counts(&mut |name, value| match name {
                "line_faults" => found.0 = value,
                "lines_failed" => found.1 = value,
                _ => {}
            });
            found
        };
        let (mut told, mut now) = (Faults::default(), Instant::from_nanos(1));
        source.poll(now, &mut told).unwrap();
        source.set_wanted(0, FeedType::Snapshot, false);
        ip("address del 192.0.2.1/25 dev a0");
        source.set_wanted(0, FeedType::Snapshot, true);
        assert_eq!(source.next_deadline(), Some(now), "to be told at once");
        source.poll(now, &mut told).unwrap();
        assert_eq!(counts(&source), (1, 1), "{:?}", told.0);
        assert!(told.0.len() == 1 && told.0[0].starts_with("SA: "), "{:?}", told.0);
        // Tried again every second, and told once.
        for _ in 0..3 {
            now += SECOND;
            source.poll(now, &mut told).unwrap();
        }
        assert_eq!((counts(&source), told.0.len()), ((4, 1), 1));
        ip("address add 192.0.2.2/25 dev a0");
        now += SECOND;
        source.poll(now, &mut told).unwrap();
        assert_eq!(counts(&source), (4, 0));
        // An interface that is made anew has forgotten its groups, and nobody says so: the line falls silent, and is joined anew.
        ip("link del a0");
        interface("a0", "192.0.2.1/25");
        let joined =
            || std::fs::read_to_string("/proc/thread-self/net/mcfilter").unwrap().matches(" a0 ").count();
        assert_eq!(joined(), 0);
        now += barewire_feed::HEARTBEAT_TIMEOUT + SECOND;
        source.poll(now, &mut told).unwrap();
        assert_eq!(joined(), 3, "{}", std::fs::read_to_string("/proc/thread-self/net/mcfilter").unwrap());
        assert_eq!(counts(&source).1, 0, "{:?}", source.last_fault());
    })
    .unwrap();
}
