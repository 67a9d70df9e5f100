//! How messages scale over engines and queues, in virtual time: more cores than a machine need have, each of which takes a fixed time for a
//! frame. What is run is the daemon's own: hosts, transport, steering, memory links. What is made up is what a frame costs.
//!
//! ```text
//! cargo test --package barewire-daemon --lib scaling -- --nocapture
//! ```
//! One host has 1, 2, 4 or 8 engines with a receive queue each, dealt to by RSS (Toeplitz, of addresses and UDP ports). Its peer answers each
//! message and costs nothing. Flows that choose their UDP port have their answers on their engine's queue; of those that do not, whatever the
//! hash deals to another's queue goes by the memory link, and costs both.

use super::*;
use std::sync::OnceLock;

/// Flows, over all engines, and messages in flight on each.
const FLOWS: usize = 32;
const WINDOW: usize = 8;
const BYTES: usize = 64;
/// What an engine takes for a frame: chosen, not measured.
const RECEIVE: Duration = Duration::from_nanos(400);
const SEND: Duration = Duration::from_nanos(400);
/// To copy one into a memory link, and to take one out.
const HAND_OVER: Duration = Duration::from_nanos(300);
const TAKE_OVER: Duration = Duration::from_nanos(300);
/// An idle engine looks this often, and frames are on the cable so long.
const STEP: Duration = Duration::from_nanos(250);
const WARM_UP: Duration = Duration::from_millis(2);
const MEASURED: Duration = Duration::from_millis(4);
/// The key of Microsoft's verification suite, and entries of the table.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];
const ENTRIES: u32 = 128;

fn rss(queues: u32) -> Rss {
    Rss::new(KEY.to_vec(), (0..ENTRIES).map(|entry| entry % queues).collect()).unwrap()
}

/// The card: the queue of a frame to host 1. What is no datagram comes in on the first.
fn hashed(data: &[u8], engines: usize, _: usize) -> usize {
    static TABLE: OnceLock<Rss> = OnceLock::new();
    if data.len() < 42 || data[12..14] != [0x08, 0x00] || data[23] != 17 {
        return 0;
    }
    let end = |ip: usize, port: usize| {
        let ip: [u8; 4] = data[ip..ip + 4].try_into().unwrap();
        SocketAddr::from((ip, u16::from_be_bytes([data[port], data[port + 1]])))
    };
    // Entry `n` is queue `n % queues`, as in the table of so many queues.
    let entry = TABLE.get_or_init(|| rss(ENTRIES)).queue(end(26, 34), end(30, 36)).unwrap();
    entry as usize % engines
}

/// What an engine did so far.
#[derive(Clone, Copy, Default)]
struct Work {
    received: u64,
    sent: u64,
    handed_over: u64,
    taken_over: u64,
    answers: u64,
}

impl Work {
    fn since(self, before: Work) -> Work {
        Work {
            received: self.received - before.received,
            sent: self.sent - before.sent,
            handed_over: self.handed_over - before.handed_over,
            taken_over: self.taken_over - before.taken_over,
            answers: self.answers - before.answers,
        }
    }

    fn time(self) -> Duration {
        let of = |count: u64, cost: Duration| count * cost.as_nanos();
        Duration::from_nanos(
            of(self.received, RECEIVE)
                + of(self.sent, SEND)
                + of(self.handed_over, HAND_OVER)
                + of(self.taken_over, TAKE_OVER),
        )
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    engines: u8,
    /// Flows choose UDP ports whose answers come in on a queue of their engine's.
    chosen: bool,
    messages_per_s: f64,
    /// Of the frames that came in, those that went by a memory link.
    forwarded: f64,
    /// Of its time, what the busiest engine worked, and the idlest.
    busy: [f64; 2],
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{{\"bench\":\"scaling\",\"system\":\"barewire\",\"mode\":\"virtual-time\",\"simulated\":true,\"engines\":{},\"queues\":{},\
             \"udp_ports\":\"{}\",\"flows\":{FLOWS},\"window\":{WINDOW},\"size\":{BYTES},\"rate_per_s\":{:.0},\"forwarded\":{:.3},\
             \"busiest\":{:.3},\"idlest\":{:.3},\"frame_cost_ns\":{{\"receive\":{},\"send\":{},\"hand_over\":{},\"take_over\":{}}}}}",
            self.engines,
            self.engines,
            if self.chosen { "chosen" } else { "any" },
            self.messages_per_s,
            self.forwarded,
            self.busy[0],
            self.busy[1],
            RECEIVE.as_nanos(),
            SEND.as_nanos(),
            HAND_OVER.as_nanos(),
            TAKE_OVER.as_nanos()
        )
    }
}

struct Model {
    world: World,
    work: Vec<Work>,
    /// Until when each engine is at work. The peer never is.
    until: Vec<Instant>,
    /// Answers that found no room yet.
    owed: Vec<Vec<FlowId>>,
}

impl Model {
    fn new(engines: u8) -> Model {
        let mut world = World::new(Shape { engines, deal: hashed, ..PLAIN });
        world.listen();
        let all = world.engines.len();
        let until = vec![world.now; all];
        Model { world, work: vec![Work::default(); all], until, owed: vec![vec![]; all] }
    }

    /// A duty cycle: whoever is sent a message sends one back.
    fn cycle(&mut self, e: usize) {
        let now = self.world.now;
        let engine = &mut self.world.engines[e];
        let (work, owed) = (&mut self.work[e], &mut self.owed[e]);
        let before = *work;
        if let Some(links) = &mut engine.links {
            work.taken_over += links.receive(now, &mut engine.stack) as u64;
        }
        let steering = engine.links.as_mut().map(|l| l as &mut (dyn Steering + 'static));
        engine.stack.transmit_steered(now, steering).unwrap();
        let steering = engine.links.as_mut().map(|l| l as &mut (dyn Steering + 'static));
        engine.stack.receive(now, steering).unwrap();
        if let Some(links) = &mut engine.links {
            links.flush(now);
        }
        while let Some(event) = engine.stack.poll_event() {
            match event {
                Event::Received { flow, buf, .. } => {
                    engine.stack.endpoint_mut().release(now, flow, buf);
                    work.answers += 1;
                    owed.push(flow);
                }
                Event::Sent { buf, .. } => {
                    assert!(engine.stack.endpoint_mut().memory_mut().release_send(buf));
                }
                Event::Connected { .. } | Event::Accepted { .. } => {}
                other => panic!("engine {e}: {other:?}"),
            }
        }
        owed.retain(|flow| !engine.try_send(now, *flow, &[7; BYTES]));
        let counters = engine.stack.port().counters();
        (work.received, work.sent) = (counters.rx_frames.get(), counters.tx_frames.get());
        work.handed_over = engine.stack.counters().forwarded.get();
        self.until[e] = now + work.since(before).time();
    }

    fn run(&mut self, time: Duration) {
        let (end, last) = (self.world.now + time, self.world.engines.len() - 1);
        while self.world.now < end {
            for e in 0..last {
                if self.until[e] <= self.world.now {
                    self.cycle(e);
                }
            }
            self.cycle(last);
            self.world.carry();
            self.world.now += STEP;
        }
    }
}

/// Simulates so many engines.
fn simulate(engines: u8, chosen: bool) -> Row {
    let mut model = Model::new(engines);
    let remote = SocketAddr::from((ip(2), PORT));
    let mut flows = vec![];
    for flow in 0..FLOWS {
        let (e, now) = (flow % usize::from(engines), model.world.now);
        let engine = &mut model.world.engines[e];
        let links = engine.links.as_mut().unwrap();
        if chosen {
            links.ways[0].queues = Some(Queues { rss: rss(engines.into()), own: vec![e as u32] });
        }
        let endpoint = engine.stack.endpoint_mut();
        let port = links.choose_udp_port(endpoint, 0, ip(1).into(), remote);
        assert_eq!(port != 0, chosen);
        flows.push((e, endpoint.connect(now, 0, (ip(1), port).into(), remote, true, 0).unwrap()));
        // The first one asks for the peer's MAC, and the others need not.
        model.run(Duration::from_micros(50));
    }
    model.run(Duration::from_millis(5));
    for (e, flow) in flows {
        model.owed[e].extend([flow; WINDOW]);
    }
    model.run(WARM_UP);
    let before = model.work.clone();
    model.run(MEASURED);
    let ours = usize::from(engines);
    let done: Vec<Work> =
        model.work.iter().zip(before).take(ours).map(|(now, then)| now.since(then)).collect();
    let sum = |of: fn(&Work) -> u64| done.iter().map(of).sum::<u64>() as f64;
    let busy = done.iter().map(|work| work.time().as_secs_f64() / MEASURED.as_secs_f64());
    for engine in &model.world.engines {
        assert_eq!(engine.stack.counters().drops.total(), 0);
        assert_eq!(engine.stack.endpoint().counters().timeouts.get(), 0, "something was lost");
    }
    Row {
        engines,
        chosen,
        messages_per_s: sum(|work| work.answers) / MEASURED.as_secs_f64(),
        forwarded: sum(|work| work.handed_over) / sum(|work| work.received),
        busy: [busy.clone().fold(0.0, f64::max), busy.fold(1.0, f64::min)],
    }
}

#[test]
fn engines_with_queues_of_their_own_add_up() {
    println!("simulated, in virtual time: no machine was measured, and what a frame costs is chosen");
    let all: Vec<[Row; 2]> =
        [1, 2, 4, 8].map(|engines| [true, false].map(|chosen| simulate(engines, chosen))).into();
    all.iter().flatten().for_each(|row| println!("{row}"));
    let one = all[0][0].messages_per_s;
    println!("engines   ports chosen   times one   by link   ports any   times one   by link");
    for [chosen, any] in &all {
        println!(
            "{:>7}{:>15.0}{:>12.2}{:>10.2}{:>12.0}{:>12.2}{:>10.2}",
            chosen.engines,
            chosen.messages_per_s,
            chosen.messages_per_s / one,
            chosen.forwarded,
            any.messages_per_s,
            any.messages_per_s / one,
            any.forwarded
        );
    }
    // One engine works all the time, and has nobody to hand a frame to.
    assert!(all[0].iter().all(|row| row.busy[1] > 0.95 && row.forwarded == 0.0), "{:?}", all[0]);
    for ([chosen, any], before) in all[1..].iter().zip(&all) {
        let (n, times) = (f64::from(chosen.engines), chosen.messages_per_s / one);
        assert!(times > 0.85 * n && times < 1.05 * n, "{chosen:?}");
        assert!(chosen.forwarded < 0.01, "{chosen:?}");
        // The hash deals most to another's queue: a copy more, and yet each engine adds something. Toeplitz is linear, so ports that are
        // taken in turn are no random draw: fewer than all but one in so many.
        assert!(any.forwarded > 0.2 && any.forwarded < 1.0 - 1.0 / n + 0.05, "{any:?}");
        assert!(any.forwarded > before[1].forwarded, "{any:?} after {:?}", before[1]);
        assert!(any.messages_per_s < chosen.messages_per_s, "{any:?}");
        assert!(any.messages_per_s > before[1].messages_per_s, "{any:?} after {:?}", before[1]);
    }
}

#[test]
fn a_simulation_is_the_same_each_time() {
    assert_eq!(simulate(2, false), simulate(2, false));
}
