//! How many connections a second two endpoints on one thread open and close, and what each step of one costs.
//!
//! `cargo run --release --example rate -p barewire-roce -- [WINDOW [SECONDS [LIVE]]]`
//!
//! Both ends run here, frames go from one to the other in memory, every ICRC is made and checked. A connection is a new queue
//! pair on each side, REQ, REP, RTU, then DREQ, DREP, and both queue pairs destroyed. `LIVE` connections stay open meanwhile.
//! Work of both ends together; no port and no application is in it.
#![allow(clippy::disallowed_methods)] // a measurement reads the clock

use barewire_base::{Duration, Instant};
use barewire_roce::*;
use barewire_wire::MacAddr;
use std::time::Instant as Clock;

const SERVICE: u64 = 50;

struct End {
    ep: Endpoint,
    init: QpInit,
}

fn end(n: u8, live: usize) -> Result<End, Box<dyn std::error::Error>> {
    let mut config = Config::new(MacAddr([2, 0, 0, 0, 0, n]), [10, 0, 0, n].into());
    config.qps_max = config.qps_max.max(live + (1 << 18));
    // Short, as nothing is delayed here: remembering is measured, not the memory that a long memory takes.
    config.cm.packet_lifetime = Duration::from_millis(5);
    let mut ep = Endpoint::new(config, [n; 16])?;
    let pd = ep.alloc_pd();
    let cq = ep.create_cq(1 << 20)?;
    Ok(End { ep, init: QpInit::rc(pd, cq) })
}

/// Time spent in each step, and how often.
#[derive(Default)]
struct Steps {
    spent: [std::time::Duration; 6],
}

const NAMES: [&str; 6] = [
    "create, REQ out and in",
    "create, REP out and in",
    "RTU out and in",
    "established",
    "DREQ, DREP",
    "destroy",
];

struct Lab {
    client: End,
    server: End,
    path: PathId,
    start: Clock,
    frames: u64,
    buf: Vec<u8>,
    opened: Vec<(ConnId, Qpn)>,
    ready: Vec<ConnId>,
    steps: Steps,
}

impl Lab {
    fn now(&self) -> Instant {
        Instant::from_nanos(1_000_000_000 + self.start.elapsed().as_nanos() as u64)
    }

    /// Takes all frames of one end over to the other, and gives each its events.
    fn carry(&mut self, from_client: bool, now: Instant) {
        let (from, to) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        while let Some(len) = from.ep.poll_transmit(now, &mut self.buf) {
            self.frames += 1;
            to.ep.handle_frame(now, &self.buf[..len]);
        }
    }

    fn server_events(&mut self, now: Instant) {
        while let Some(event) = self.server.ep.poll_event() {
            match event {
                Event::ConnectRequest { conn, .. } => {
                    let qpn = self.server.ep.create_qp(&self.server.init).expect("a queue pair");
                    self.server.ep.accept(now, conn, qpn, &Terms::default()).expect("accepted");
                }
                Event::Disconnected { qpn, .. } => {
                    self.server.ep.destroy_qp(now, qpn).expect("destroyed");
                }
                _ => {}
            }
        }
    }

    fn client_events(&mut self, now: Instant) -> usize {
        let mut gone = 0;
        while let Some(event) = self.client.ep.poll_event() {
            match event {
                Event::Connected { conn, .. } => self.ready.push(conn),
                Event::Disconnected { qpn, .. } => {
                    self.client.ep.destroy_qp(now, qpn).expect("destroyed");
                    gone += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        gone
    }

    /// Opens `window` connections; closes them unless they are to stay. How many.
    fn round(&mut self, window: usize, stay: bool, timed: bool) -> usize {
        let now = self.now();
        let clock = |timed: bool| timed.then(Clock::now);
        let mut at = clock(timed);
        let mut lap = |steps: &mut Steps, step: usize| {
            if let Some(since) = at {
                let next = Clock::now();
                steps.spent[step] += next - since;
                at = Some(next);
            }
        };
        self.opened.clear();
        self.ready.clear();
        let to = Connect::new(self.path, SERVICE);
        let (init, opened) = (self.client.init, &mut self.opened);
        self.client.ep.connect_many(now, window, &init, &to, opened).expect("room for a window");
        // REQs are written and taken in in one loop: the step ends with the last of them taken in.
        self.carry(true, now);
        lap(&mut self.steps, 0);
        self.server_events(now);
        self.carry(false, now);
        lap(&mut self.steps, 1);
        self.client_events(now);
        self.carry(true, now);
        lap(&mut self.steps, 2);
        self.server_events(now);
        lap(&mut self.steps, 3);
        let n = self.ready.len();
        if !stay {
            for i in 0..n {
                self.client.ep.disconnect(now, self.ready[i]).expect("established");
            }
            self.carry(true, now);
            self.carry(false, now);
            lap(&mut self.steps, 4);
            self.server_events(now);
            self.client_events(now);
            lap(&mut self.steps, 5);
        }
        self.client.ep.handle_timeout(now);
        self.server.ep.handle_timeout(now);
        n
    }
}

/// Resident memory of this process in bytes, as the kernel tells; 0 where it does not.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let window = args.next().transpose()?.unwrap_or(64).max(1);
    let seconds = args.next().transpose()?.unwrap_or(2);
    let live = args.next().transpose()?.unwrap_or(0);
    let (mut client, mut server) = (end(1, live)?, end(2, live)?);
    server.ep.listen(SERVICE, u32::MAX)?;
    let path = client.ep.path(PathSpec::new(
        MacAddr([2, 0, 0, 0, 0, 2]),
        [10, 0, 0, 1].into(),
        [10, 0, 0, 2].into(),
    ))?;
    let buf = vec![0; client.ep.frame_len_max()];
    let mut lab = Lab {
        client,
        server,
        path,
        start: Clock::now(),
        frames: 0,
        buf,
        opened: Vec::new(),
        ready: Vec::new(),
        steps: Steps::default(),
    };
    let before = resident();
    let mut open = 0;
    while open < live {
        open += lab.round((live - open).min(1024), true, false);
    }
    if live > 0 {
        let each = (resident() - before) / live as u64 / 2;
        println!("live {live}: {each} bytes of memory for each connection and end");
    }
    let warm = Clock::now();
    while warm.elapsed().as_millis() < 300 {
        lab.round(window, false, false);
    }
    let (begin, frames, mut done, mut rounds) = (Clock::now(), lab.frames, 0usize, Vec::new());
    while begin.elapsed().as_secs() < seconds as u64 {
        let round = Clock::now();
        done += lab.round(window, false, false);
        rounds.push(round.elapsed().as_nanos() as u64);
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let frames = (lab.frames - frames) as f64 / done as f64;
    rounds.sort_unstable();
    println!(
        "window {window}: {:.0} connections/s with teardown, {:.0} ns each for both ends, {frames:.1} frames each",
        done as f64 / elapsed,
        elapsed * 1e9 / done as f64,
    );
    println!(
        "a round of {window}: p50 {} ns, p99 {} ns",
        rounds[rounds.len() / 2],
        rounds[rounds.len() * 99 / 100]
    );
    lab.steps = Steps::default();
    let (timed, mut n) = (Clock::now(), 0);
    while timed.elapsed().as_millis() < 500 {
        n += lab.round(window, false, true);
    }
    for (name, spent) in NAMES.iter().zip(lab.steps.spent) {
        println!("  {name:<24} {:>6.0} ns", spent.as_nanos() as f64 / n as f64);
    }
    Ok(())
}
