//! After warm-up neither data nor connections allocate.

mod common;
use barewire_base::{Duration, Instant};
use barewire_roce::*;
use barewire_testing::{Counting, allocations};
use common::{BASE, End, SERVICE, config, ip, mac};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the two sides have seen.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    connected: u64,
    disconnected: u64,
    completions: u64,
}

struct Run {
    ends: [End; 2],
    now: Instant,
    buf: Vec<u8>,
    seen: Seen,
    frames: u64,
    lose: u64,
}

impl Run {
    fn turn(&mut self) {
        self.now += Duration::from_micros(5);
        for side in 0..2 {
            let now = self.now;
            self.ends[side].ep.handle_timeout(now);
            while let Some(len) = self.ends[side].ep.poll_transmit(now, &mut self.buf) {
                self.frames += 1;
                if self.lose == 0 || !self.frames.is_multiple_of(self.lose) {
                    self.ends[1 - side].ep.handle_frame(now, &self.buf[..len]);
                }
            }
            self.events(1 - side);
            self.events(side);
        }
    }

    fn events(&mut self, side: usize) {
        let now = self.now;
        let rkeys = self.ends[1].mr.rkey;
        let init = self.ends[side].init();
        let end = &mut self.ends[side];
        while let Some(event) = end.ep.poll_event() {
            match event {
                Event::ConnectRequest { conn, .. } => {
                    let qpn = end.ep.create_qp(&init).unwrap();
                    end.ep.accept(now, conn, qpn, &Terms { private: b"welcome" }).unwrap();
                    for i in 0..4 {
                        let sge = [Sge { addr: BASE + 10_000, len: 5_000, lkey: end.mr.lkey }];
                        end.ep.post_recv(qpn, i, &sge).unwrap();
                    }
                }
                Event::Connected { qpn, .. } => {
                    self.seen.connected += 1;
                    let sge = [Sge { addr: BASE, len: 3_000, lkey: end.mr.lkey }];
                    let word = [Sge { addr: BASE, len: 8, lkey: end.mr.lkey }];
                    let (addr, rkey) = (BASE + 20_000, rkeys);
                    for (op, list) in [
                        (SendOp::Send, &sge),
                        (SendOp::Write { addr, rkey }, &sge),
                        (SendOp::Read { addr, rkey }, &sge),
                        (SendOp::FetchAdd { addr, rkey, add: 1 }, &word),
                        (SendOp::WriteImm { addr, rkey, imm: 1 }, &sge),
                    ] {
                        end.ep.post_send(qpn, &SendWr::new(1, op, Data::Sges(list))).unwrap();
                    }
                }
                Event::Disconnected { qpn, .. } => {
                    self.seen.disconnected += 1;
                    end.ep.destroy_qp(now, qpn).unwrap();
                }
                Event::Established { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        while let Some(wc) = end.ep.poll_cq_one(end.cq) {
            if wc.status == WcStatus::Flushed {
                continue;
            }
            assert_eq!(wc.status, WcStatus::Success);
            self.seen.completions += 1;
        }
    }

    /// Opens, uses and closes `n` connections at a time, `rounds` times.
    fn rounds(&mut self, rounds: usize, n: usize, pairs: &mut Vec<(ConnId, Qpn)>) {
        let path = self.ends[0].ep.path(PathSpec::new(mac(2), ip(1), ip(2))).unwrap();
        let init = self.ends[0].init();
        for _ in 0..rounds {
            pairs.clear();
            let to = Connect { private: b"hello", ..Connect::new(path, SERVICE) };
            let now = self.now;
            self.ends[0].ep.connect_many(now, n, &init, &to, pairs).unwrap();
            let goal = self.seen.completions + 7 * n as u64;
            while self.seen.completions < goal {
                self.turn();
            }
            let goal = self.seen.disconnected + 2 * n as u64;
            for (conn, _) in pairs.iter() {
                let now = self.now;
                self.ends[0].ep.disconnect(now, *conn).unwrap();
            }
            while self.seen.disconnected < goal {
                self.turn();
            }
        }
    }
}

#[test]
fn connections_and_data_allocate_nothing() {
    let make = |n| {
        let mut config = config(n);
        config.cm.packet_lifetime = Duration::from_micros(50);
        End::new(config, n)
    };
    let mut run = Run {
        ends: [make(1), make(2)],
        now: Instant::from_nanos(1_000_000_000),
        buf: vec![0; 5000],
        seen: Seen::default(),
        frames: 0,
        lose: 0,
    };
    run.ends[1].ep.listen(SERVICE, 64).unwrap();
    let mut pairs = Vec::with_capacity(64);
    // Warm-up at the largest size, with time for closed connections to be forgotten.
    run.rounds(60, 32, &mut pairs);
    run.lose = 9;
    run.rounds(10, 32, &mut pairs);
    let (before, seen) = (allocations(), run.seen);
    run.rounds(10, 16, &mut pairs);
    run.lose = 0;
    run.rounds(10, 16, &mut pairs);
    assert_eq!(allocations() - before, 0);
    // It was no idle run.
    assert_eq!(run.seen.connected - seen.connected, 320);
    assert_eq!(run.seen.completions - seen.completions, 320 * 7);
    assert!(run.ends[0].ep.counters().packets_resent.get() > 0);
    let proof = Box::new(5);
    assert_eq!(allocations() - before, u64::from(*proof == 5), "the counter counts");
}
