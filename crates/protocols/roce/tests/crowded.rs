//! Honest and hostile peers in one crowded endpoint, over a bad network: small limits, shared completion queues, shared receive
//! queues and shared memory, refused requests, overruns, messages of the connection manager that come late or twice. Whatever
//! happens: the books add up, nobody waits for nothing, no success is told that did not happen.
//! `BAREWIRE_SEEDS=n` runs another number of seeds, `BAREWIRE_SEED=n` replays one.

mod common;
use barewire_base::{Duration, Instant, Prng};
use barewire_ring::Region;
use barewire_roce::*;
use barewire_sim::seeds_part;
use common::*;
use std::collections::HashMap;

/// Steps of one seed.
const STEPS: usize = 150;
/// Where counters are, behind everything that is written or read.
const COUNTERS: usize = MEMORY - 4096;

/// What one request was, for whoever judges its completion.
#[derive(Clone, Copy)]
struct Posted {
    /// Who posted it, when, and what it may end with besides being flushed or given up.
    qpn: Qpn,
    at: Instant,
    refused: bool,
    /// Adds one to the counter of this number at the other side.
    counts: Option<usize>,
}

struct Crowd {
    p: Pair,
    prng: Prng,
    /// Of each side: small queues that may overrun, and a region that is not aligned.
    cqs: [Vec<CqId>; 2],
    srq: [SrqId; 2],
    odd: [Mr; 2],
    qps: [Vec<Qpn>; 2],
    conns: [Vec<ConnId>; 2],
    posted: [HashMap<u64, Posted>; 2],
    next: u64,
    /// Atomics that ended with success, and those whose end nobody knows, at each side's memory.
    added: [u64; 2],
    unknown: [u64; 2],
    /// Frames on their way: when they arrive, where, and what they are.
    wire: Vec<(Instant, usize, Vec<u8>)>,
    old: Vec<(usize, Vec<u8>)>,
    loss: f64,
}

impl Crowd {
    fn new(seed: u64) -> Crowd {
        let mut prng = Prng::new(seed);
        let mut make = |n: u8| {
            let mut config = config(n);
            config.qps_max = 4 + prng.below(8) as usize;
            config.connections_max = 3 + prng.below(8) as usize;
            config.paths_max = 2;
            config.requests_max = 4096 + 64 + prng.below(100) as usize;
            config.window_packets = 1 + prng.below(20) as u32;
            config.ack_every = 1 + prng.below(8) as u16;
            config.mtu = [Mtu::M256, Mtu::M1024][prng.below(2) as usize];
            config.cm.response_timeout = Duration::from_millis(2);
            config.cm.retries = prng.below(4) as u8 + 1;
            config.cm.packet_lifetime = Duration::from_millis(1 + prng.below(20));
            config.cm.ack_timeout = 6 + prng.below(3) as u8;
            config.cm.retry_count = prng.below(8) as u8;
            config.cm.rnr_retry_count = prng.below(7) as u8;
            config.cm.min_rnr_timer = 1 + prng.below(6) as u8;
            config.cm.responder_resources = 1 + prng.below(3) as u8;
            config
        };
        let mut p = Pair::with(make(1), make(2));
        let (mut cqs, mut srqs, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for end in &mut p.ends {
            cqs.push(vec![end.cq, end.ep.create_cq(8).unwrap(), end.ep.create_cq(3).unwrap()]);
            srqs.push(end.ep.create_srq(end.pd, 8).unwrap());
            odd.push(end.ep.reg_mr(end.pd, Region::heap(4096), 0x1004, Access::ALL).unwrap());
            end.ep.listen(SERVICE, 2).unwrap();
        }
        let loss = if prng.chance(0.7) { prng.unit() * 0.15 } else { 0.0 };
        Crowd {
            p,
            prng,
            cqs: [cqs[0].clone(), cqs[1].clone()],
            srq: [srqs[0], srqs[1]],
            odd: [odd[0], odd[1]],
            qps: [vec![], vec![]],
            conns: [vec![], vec![]],
            posted: [HashMap::new(), HashMap::new()],
            next: 0,
            added: [0; 2],
            unknown: [0; 2],
            wire: vec![],
            old: vec![],
            loss,
        }
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        (!list.is_empty()).then(|| list[self.prng.below(list.len() as u64) as usize])
    }

    /// One thing that an application does.
    fn act(&mut self, side: usize) {
        let now = self.p.now;
        match self.prng.below(14) {
            0 | 1 => {
                let end = &self.p.ends[side];
                let (pd, all) = (end.pd, self.cqs[side].clone());
                let (Some(send_cq), Some(recv_cq)) = (self.pick(&all), self.pick(&all)) else { return };
                let srq = self.prng.chance(0.5).then_some(self.srq[side]);
                let init =
                    QpInit { send_cq, recv_cq, srq, send_max: 6, recv_max: 3, ..QpInit::rc(pd, send_cq) };
                if let Ok(qpn) = self.p.ends[side].ep.create_qp(&init) {
                    self.qps[side].push(qpn);
                    let path = self.p.path(side);
                    let private = vec![side as u8 + 1; self.prng.below(3) as usize * 40];
                    let to = Connect { private: &private, ..Connect::new(path, SERVICE) };
                    if let Ok(conn) = self.p.ends[side].ep.connect(now, qpn, &to) {
                        self.conns[side].push(conn);
                    }
                    let _ = self.p.ends[side].ep.release_path(path);
                }
            }
            2 => {
                if let Some(conn) = self.pick(&self.conns[side].clone()) {
                    let _ = self.p.ends[side].ep.disconnect(now, conn);
                }
            }
            3 => {
                if let Some(qpn) = self.pick(&self.qps[side].clone()) {
                    if self.prng.chance(0.3) {
                        self.destroy(side, qpn);
                    } else {
                        let to = [Modify::Err, Modify::Sqd, Modify::Resume][self.prng.below(3) as usize];
                        let _ = self.p.ends[side].ep.modify_qp(qpn, to);
                    }
                }
            }
            4 | 5 => {
                let sge = [self.p.ends[side].sge(0, 600)];
                let ep = &mut self.p.ends[side].ep;
                let _ = ep.post_srq_recv(self.srq[side], u64::MAX, &sge);
                if let Some(qpn) = self.pick(&self.qps[side].clone()) {
                    let _ = self.p.ends[side].ep.post_recv(qpn, u64::MAX, &sge);
                }
            }
            6 => {
                // A copy of anything that was ever sent, at any time.
                if let Some(at) = (!self.old.is_empty()).then(|| self.prng.below(self.old.len() as u64)) {
                    let (to, frame) = self.old[at as usize].clone();
                    self.p.ends[to].ep.handle_frame(now, &frame);
                }
            }
            _ => self.post(side),
        }
    }

    fn destroy(&mut self, side: usize, qpn: Qpn) {
        self.p.ends[side].ep.destroy_qp(self.p.now, qpn).unwrap();
        self.qps[side].retain(|q| *q != qpn);
        // What was posted ends without a word.
        let gone: Vec<u64> =
            self.posted[side].iter().filter(|(_, r)| r.qpn == qpn).map(|(id, _)| *id).collect();
        for id in gone {
            let request = self.posted[side].remove(&id).unwrap();
            self.unknown[1 - side] += u64::from(request.counts.is_some());
        }
    }

    fn post(&mut self, side: usize) {
        let Some(qpn) = self.pick(&self.qps[side].clone()) else { return };
        let (theirs, odd) = (self.p.ends[1 - side].mr.rkey, self.odd[1 - side].rkey);
        let addr = BASE + self.prng.below(1 << 19);
        let len = self.prng.below(1500) as usize;
        let counter = BASE + COUNTERS as u64;
        let add = SendOp::FetchAdd { addr: counter, rkey: theirs, add: 1 };
        let (op, len, refused, counts) = match self.prng.below(12) {
            0 => (SendOp::FetchAdd { addr: 0x1008, rkey: odd, add: 1 }, 8, true, None),
            1 => (SendOp::Read { addr: BASE + MEMORY as u64, rkey: theirs }, 8, true, None),
            2 | 3 => (SendOp::Write { addr, rkey: theirs }, len, false, None),
            4 | 5 => (SendOp::Read { addr, rkey: theirs }, len, false, None),
            6 | 7 => (add, 8, false, Some(0)),
            8 => (SendOp::WriteImm { addr, rkey: theirs, imm: 1 }, len, false, None),
            _ => (SendOp::SendImm(2), len % 700, false, None),
        };
        // Most of them one after the other: small limits and refusals are rare otherwise.
        if refused && self.prng.chance(0.7) {
            return;
        }
        let offset = self.prng.below(1 << 19) as usize & !7;
        let sge = [self.p.ends[side].sge(offset, len)];
        self.next += 1;
        let (id, at) = (self.next, self.p.now);
        let wr = SendWr { fence: self.prng.chance(0.2), ..SendWr::new(id, op, Data::Sges(&sge)) };
        if self.p.ends[side].ep.post_send(qpn, &wr).is_ok() {
            self.posted[side].insert(id, Posted { qpn, at, refused, counts });
        }
    }

    /// What there is to tell is judged.
    fn look(&mut self, side: usize) {
        while let Some(event) = self.p.ends[side].ep.poll_event() {
            match event {
                Event::ConnectRequest { conn, .. } => {
                    let private = self.p.ends[side].ep.private_data().to_vec();
                    assert!(private.iter().all(|b| usize::from(*b) == 2 - side), "{private:?}");
                    self.decide(side, conn);
                }
                Event::Established { conn, .. } => self.conns[side].push(conn),
                Event::Disconnected { conn, .. } | Event::ConnectFailed { conn, .. } => {
                    self.conns[side].retain(|c| *c != conn);
                }
                _ => {}
            }
        }
        // Small queues are looked at now and then only.
        for (i, cq) in self.cqs[side].clone().into_iter().enumerate() {
            if i == 0 || self.prng.chance(0.4) {
                self.take(side, cq);
            }
        }
    }

    fn take(&mut self, side: usize, cq: CqId) {
        let mut done = Vec::new();
        self.p.ends[side].ep.poll_cq(cq, &mut done, 100).unwrap();
        done.iter().for_each(|wc| self.judge(side, wc));
    }

    fn decide(&mut self, side: usize, conn: ConnId) {
        let now = self.p.now;
        if self.prng.chance(0.15) {
            let _ = self.p.ends[side].ep.reject(conn, RejReason::CONSUMER, b"no");
            return;
        }
        let all = self.cqs[side].clone();
        let (Some(send_cq), Some(recv_cq)) = (self.pick(&all), self.pick(&all)) else { return };
        let srq = self.prng.chance(0.5).then_some(self.srq[side]);
        let init = QpInit { send_cq, recv_cq, srq, send_max: 6, recv_max: 3, ..self.p.ends[side].init() };
        let Ok(qpn) = self.p.ends[side].ep.create_qp(&init) else {
            let _ = self.p.ends[side].ep.reject(conn, RejReason::NO_RESOURCES, b"");
            return;
        };
        if self.p.ends[side].ep.accept(now, conn, qpn, &Terms { private: &[side as u8 + 1; 50] }).is_ok() {
            self.qps[side].push(qpn);
        } else {
            self.p.ends[side].ep.destroy_qp(now, qpn).unwrap();
            let _ = self.p.ends[side].ep.reject(conn, RejReason::NO_RESOURCES, b"");
        }
    }

    fn judge(&mut self, side: usize, wc: &Wc) {
        if matches!(wc.opcode, WcOpcode::Recv | WcOpcode::RecvWriteImm) {
            return;
        }
        // Of a queue pair that was destroyed meanwhile.
        let Some(request) = self.posted[side].remove(&wc.wr_id) else { return };
        if wc.status == WcStatus::Success {
            assert!(!request.refused, "a success that cannot be: {wc:?}");
        }
        if request.counts.is_some() {
            match wc.status {
                WcStatus::Success => self.added[1 - side] += 1,
                _ => self.unknown[1 - side] += 1,
            }
        }
    }

    /// Lets frames travel and time pass.
    fn travel(&mut self, time: Duration) {
        let end = self.p.now + time;
        let mut buf = vec![0xa5; 5000];
        loop {
            for side in 0..2 {
                for _ in 0..500 {
                    let Some(len) = self.p.ends[side].ep.poll_transmit(self.p.now, &mut buf) else { break };
                    let frame = buf[..len].to_vec();
                    if self.old.len() < 400 {
                        self.old.push((1 - side, frame.clone()));
                    }
                    let copies = if self.prng.chance(self.loss) {
                        0
                    } else {
                        1 + u64::from(self.prng.chance(self.loss))
                    };
                    for _ in 0..copies {
                        // Now and then much later: what was sent behind it overtakes it.
                        let late = if self.prng.chance(self.loss) { 2_000_000 } else { 3_000 };
                        let at = self.p.now + Duration::from_nanos(1_000 + self.prng.below(late));
                        self.wire.push((at, 1 - side, frame.clone()));
                    }
                }
            }
            let arrival = self.wire.iter().map(|w| w.0).min();
            let timer = self.p.ends.iter().filter_map(|e| e.ep.poll_timeout()).min();
            let Some(next) = [arrival, timer].into_iter().flatten().min().filter(|n| *n <= end) else {
                break;
            };
            self.p.now = self.p.now.max(next);
            let now = self.p.now;
            while let Some(at) = self.wire.iter().position(|w| w.0 <= now) {
                let (_, to, frame) = self.wire.swap_remove(at);
                self.p.ends[to].ep.handle_frame(now, &frame);
            }
            for side in 0..2 {
                self.p.ends[side].ep.handle_timeout(now);
                self.look(side);
            }
        }
        self.p.now = end;
    }

    fn audit(&self, when: &str) {
        for (side, end) in self.p.ends.iter().enumerate() {
            if let Err(e) = end.ep.audit() {
                panic!("side {side}, {when}: {e}");
            }
        }
    }
}

/// How many requests ended with success, and how many queues overran.
fn run(seed: u64) -> (u64, u64) {
    let mut crowd = Crowd::new(seed);
    for step in 0..STEPS {
        for side in 0..2 {
            crowd.act(side);
            crowd.look(side);
        }
        let time = Duration::from_micros(crowd.prng.below(400));
        crowd.travel(time);
        crowd.audit(&format!("step {step}"));
    }
    // Everybody gets receives no more, so everything ends, in success or not: within 27 time-outs and as many pauses.
    crowd.travel(Duration::from_secs(5));
    crowd.audit("at rest");
    let limit = Duration::from_secs(4);
    for side in 0..2 {
        for cq in crowd.cqs[side].clone() {
            crowd.take(side, cq);
        }
        for request in crowd.posted[side].values() {
            let Ok(view) = crowd.p.ends[side].ep.query_qp(request.qpn) else { continue };
            // In a queue that has overrun it may have ended unseen; a queue pair that drains keeps what it has not begun.
            let waits = view.state == QpState::Rts && crowd.p.now.since(request.at) > limit;
            assert!(!waits, "side {side}: {:?} has not ended; {view:?}", request.qpn);
        }
    }
    // Requests that come late are accepted meanwhile.
    for _ in 0..3 {
        for side in 0..2 {
            for qpn in crowd.qps[side].clone() {
                crowd.destroy(side, qpn);
            }
            crowd.look(side);
        }
        crowd.travel(Duration::from_secs(5));
    }
    crowd.audit("at the end");
    for side in 0..2 {
        let ep = &crowd.p.ends[side].ep;
        assert_eq!((ep.live_qps(), ep.connections()), (0, 0), "side {side}");
        let counter = crowd.p.ends[side].memory.load_u64(COUNTERS).unwrap();
        let (added, unknown) = (crowd.added[side], crowd.unknown[side]);
        // Requests whose completion was lost are known by nobody.
        let lost: u64 = crowd.p.ends[1 - side].ep.counters().cq_overruns.get();
        assert!(
            counter >= added && counter <= added + unknown + lost,
            "side {side}: {counter} were added, {added} told, {unknown} unknown, {lost} lost"
        );
    }
    let overruns = crowd.p.ends.iter().map(|e| e.ep.counters().cq_overruns.get()).sum();
    (crowd.added.iter().sum(), overruns)
}

fn part(part: u64) {
    let (mut seeds, mut done, mut overran) = (0, 0, 0);
    seeds_part(1000, part, 2, |seed| {
        let (added, overruns) = run(seed);
        (seeds, done, overran) = (seeds + 1, done + added, overran + u64::from(overruns > 0));
    });
    // The crowd was busy, and crowded.
    assert!(
        seeds < 100 || (done > seeds && overran > seeds / 20),
        "{seeds} seeds: {done} done, {overran} overran"
    );
}

#[test]
fn the_books_add_up_part_one() {
    part(0);
}

#[test]
fn the_books_add_up_part_two() {
    part(1);
}
