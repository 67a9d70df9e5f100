//! What data costs two endpoints on one thread: the half latency of a 64-byte write, and the rate of writes of 1 MB.
//!
//! `cargo run --release --example data -p barewire-roce -- [SECONDS]`
//!
//! Both ends run here, frames go from one to the other in memory, every ICRC is made and checked, and every byte is copied from
//! the one region into a frame and from the frame into the other. Work of both ends together; no port and no application is in it.
#![allow(clippy::disallowed_methods)] // a measurement reads the clock

use barewire_base::Instant;
use barewire_ring::Region;
use barewire_roce::*;
use barewire_wire::MacAddr;
use std::time::Instant as Clock;

const SERVICE: u64 = 50;
const BASE: u64 = 0x7000_0000_0000;
const LARGE: u32 = 1 << 20;
const SMALL: u32 = 64;

struct End {
    ep: Endpoint,
    cq: CqId,
    mr: Mr,
    memory: Region,
    init: QpInit,
}

fn end(n: u8, mtu: Mtu) -> Result<End, Box<dyn std::error::Error>> {
    let config = Config { mtu, ..Config::new(MacAddr([2, 0, 0, 0, 0, n]), [10, 0, 0, n].into()) };
    let mut ep = Endpoint::new(config, [n; 16])?;
    let pd = ep.alloc_pd();
    let cq = ep.create_cq(1024)?;
    let memory = Region::heap(LARGE as usize);
    let mr = ep.reg_mr(pd, memory.clone(), BASE, Access::ALL)?;
    Ok(End { ep, cq, mr, memory, init: QpInit::rc(pd, cq) })
}

struct Lab {
    ends: [End; 2],
    qpns: [Qpn; 2],
    start: Clock,
    buf: Vec<u8>,
    frames: u64,
}

impl Lab {
    fn new(mtu: Mtu) -> Result<Lab, Box<dyn std::error::Error>> {
        let mut ends = [end(1, mtu)?, end(2, mtu)?];
        ends[1].ep.listen(SERVICE, 1)?;
        let spec = PathSpec::new(MacAddr([2, 0, 0, 0, 0, 2]), [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let path = ends[0].ep.path(spec)?;
        let (init, there) = (ends[0].init, ends[1].init);
        let qpns = [ends[0].ep.create_qp(&init)?, ends[1].ep.create_qp(&there)?];
        let buf = vec![0; ends[0].ep.frame_len_max()];
        let mut lab = Lab { ends, qpns, start: Clock::now(), buf, frames: 0 };
        let now = lab.now();
        lab.ends[0].ep.connect(now, qpns[0], &Connect::new(path, SERVICE))?;
        lab.carry(0, now);
        while let Some(event) = lab.ends[1].ep.poll_event() {
            if let Event::ConnectRequest { conn, .. } = event {
                lab.ends[1].ep.accept(now, conn, qpns[1], &Terms::default())?;
            }
        }
        lab.carry(1, now);
        lab.carry(0, now);
        for end in &mut lab.ends {
            while end.ep.poll_event().is_some() {}
        }
        Ok(lab)
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(1_000_000_000 + self.start.elapsed().as_nanos() as u64)
    }

    /// Takes frames of one end over to the other, a burst at most.
    fn carry(&mut self, from: usize, now: Instant) -> usize {
        let mut n = 0;
        while n < 32
            && let Some(len) = self.ends[from].ep.poll_transmit(now, &mut self.buf)
        {
            n += 1;
            self.ends[1 - from].ep.handle_frame(now, &self.buf[..len]);
        }
        self.frames += n as u64;
        n
    }

    fn write(&mut self, from: usize, len: u32) {
        let (lkey, rkey) = (self.ends[from].mr.lkey, self.ends[1 - from].mr.rkey);
        let sge = [Sge { addr: BASE, len, lkey }];
        let wr = SendWr::new(1, SendOp::Write { addr: BASE, rkey }, Data::Sges(&sge));
        self.ends[from].ep.post_send(self.qpns[from], &wr).expect("room for a request");
    }

    /// Takes completions; how many.
    fn done(&mut self, at: usize) -> usize {
        let (mut n, cq) = (0, self.ends[at].cq);
        while let Some(wc) = self.ends[at].ep.poll_cq_one(cq) {
            assert_eq!(wc.status, WcStatus::Success);
            n += 1;
        }
        n
    }

    /// A write in each direction, the second when the first has been seen in memory, as a latency test does it. The ping's
    /// acknowledgement goes out with the pong.
    fn ping(&mut self, word: u64) {
        for from in 0..2 {
            let now = self.now();
            assert!(self.ends[from].memory.store_u64(0, word));
            self.write(from, SMALL);
            self.carry(from, now);
            assert_eq!(self.ends[1 - from].memory.load_u64(0), Some(word), "the write is there");
        }
        let now = self.now();
        self.carry(0, now);
        self.carry(1, now);
        assert_eq!((self.done(0), self.done(1)), (1, 1));
    }
}

fn latency(seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut lab = Lab::new(Mtu::M4096)?;
    for word in 0..20_000 {
        lab.ping(word);
    }
    let (begin, mut rounds) = (Clock::now(), Vec::with_capacity(1 << 20));
    let mut word = 1 << 32;
    while begin.elapsed().as_secs_f64() < seconds && rounds.len() < rounds.capacity() {
        let round = Clock::now();
        lab.ping(word);
        rounds.push(round.elapsed().as_nanos() as u64);
        word += 1;
    }
    rounds.sort_unstable();
    let at = |p: usize| rounds[(rounds.len() * p / 1000).min(rounds.len() - 1)] / 2;
    println!(
        "{SMALL} B write: half of a round p50 {} ns, p99 {} ns, p99.9 {} ns, of {} rounds ({:.1} frames each, clock reads included)",
        at(500),
        at(990),
        at(999),
        rounds.len(),
        lab.frames as f64 / (rounds.len() + 20_000) as f64
    );
    Ok(())
}

fn bandwidth(mtu: Mtu, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut lab = Lab::new(mtu)?;
    let mut rates = Vec::new();
    let begin = Clock::now();
    while begin.elapsed().as_secs_f64() < seconds {
        let (slice, mut done, mut posted) = (Clock::now(), 0, 0);
        while done < 64 {
            while posted < 64 && posted < done + 4 {
                lab.write(0, LARGE);
                posted += 1;
            }
            let now = lab.now();
            lab.carry(0, now);
            lab.carry(1, now);
            done += lab.done(0);
        }
        rates.push(64.0 * f64::from(LARGE) * 8.0 / slice.elapsed().as_secs_f64() / 1e9);
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "1 MB writes, MTU {}: p50 {:.2} Gbit/s, best {:.2}, of both ends on one thread; {:.1} frames a write",
        mtu.bytes(),
        rates[rates.len() / 2],
        rates[rates.len() - 1],
        lab.frames as f64 / (rates.len() * 64) as f64
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map(|a| a.parse::<f64>()).transpose()?.unwrap_or(1.0);
    latency(seconds)?;
    bandwidth(Mtu::M1024, seconds)?;
    bandwidth(Mtu::M4096, seconds)
}
