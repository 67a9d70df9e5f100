//! What happens when the counter of queue pair numbers comes round, with queue pairs alive and connections remembered.

use crate::*;
use barewire_base::{DropReason, Duration, Instant};
use barewire_ring::Region;
use barewire_wire::MacAddr;
use std::collections::HashSet;

const SERVICE: u64 = 50;
const BASE: u64 = 0x1000;

struct Two {
    ends: [Endpoint; 2],
    init: [QpInit; 2],
    mr: [Mr; 2],
    memory: [Region; 2],
    path: PathId,
    now: Instant,
    /// The last request for data that side 0 sent.
    seen: Vec<u8>,
}

impl Two {
    fn new(time_wait: [Duration; 2]) -> Two {
        let address = |n: usize| std::net::IpAddr::from([10, 0, 0, n as u8 + 1]);
        let mac = |n: usize| MacAddr([2, 0, 0, 0, 0, n as u8 + 1]);
        let mut ends = [0, 1].map(|n| {
            let mut config = Config::new(mac(n), address(n));
            config.cm.packet_lifetime = time_wait[n].div(2);
            Endpoint::new(config, [n as u8; 16]).unwrap()
        });
        let memory = [Region::heap(4096), Region::heap(4096)];
        let mut init = Vec::new();
        let mut mr = Vec::new();
        for (ep, memory) in ends.iter_mut().zip(&memory) {
            let pd = ep.alloc_pd();
            let cq = ep.create_cq(4096).unwrap();
            init.push(QpInit::rc(pd, cq));
            mr.push(ep.reg_mr(pd, memory.clone(), BASE, Access::ALL).unwrap());
        }
        ends[1].listen(SERVICE, 1000).unwrap();
        let path = ends[0].path(PathSpec::new(mac(1), address(0), address(1))).unwrap();
        let now = Instant::from_nanos(1_000_000_000);
        Two { ends, init: [init[0], init[1]], mr: [mr[0], mr[1]], memory, path, now, seen: Vec::new() }
    }

    /// Carries frames; accepts what is asked. What side 0 is told.
    fn run(&mut self) -> Vec<Event> {
        let mut told = Vec::new();
        let mut buf = [0; 2048];
        loop {
            let mut quiet = true;
            for side in 0..2 {
                while let Some(len) = self.ends[side].poll_transmit(self.now, &mut buf) {
                    quiet = false;
                    if side == 0 && len < 200 {
                        self.seen = buf[..len].to_vec();
                    }
                    self.ends[1 - side].handle_frame(self.now, &buf[..len]);
                }
            }
            while let Some(event) = self.ends[1].poll_event() {
                if let Event::ConnectRequest { conn, .. } = event {
                    let qpn = self.ends[1].create_qp(&self.init[1]).unwrap();
                    self.ends[1].accept(self.now, conn, qpn, &Terms::default()).unwrap();
                }
            }
            while let Some(event) = self.ends[0].poll_event() {
                told.push(event);
            }
            if quiet {
                return told;
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
        self.run();
    }

    fn ask(&mut self) -> (ConnId, Qpn, Vec<Event>) {
        let qpn = self.ends[0].create_qp(&self.init[0]).unwrap();
        let conn = self.ends[0].connect(self.now, qpn, &Connect::new(self.path, SERVICE)).unwrap();
        let told = self.run();
        (conn, qpn, told)
    }

    fn connect(&mut self) -> (ConnId, Qpn) {
        let (conn, qpn, told) = self.ask();
        assert_eq!(told, [Event::Connected { conn, qpn }]);
        (conn, qpn)
    }

    /// A write over a connection arrives.
    fn carries(&mut self, qpn: Qpn, word: u64) {
        assert!(self.memory[0].write(0, &word.to_ne_bytes()));
        let sge = [Sge { addr: BASE, len: 8, lkey: self.mr[0].lkey }];
        let op = SendOp::Write { addr: BASE + 8, rkey: self.mr[1].rkey };
        self.ends[0].post_send(qpn, &SendWr::new(word, op, Data::Sges(&sge))).unwrap();
        self.run();
        let wc = self.ends[0].poll_cq_one(self.init[0].send_cq);
        assert_eq!(wc.map(|wc| (wc.wr_id, wc.status)), Some((word, WcStatus::Success)));
        assert_eq!(self.memory[1].load_u64(8), Some(word));
    }
}

#[test]
fn numbers_come_round_past_the_living_and_the_remembered() {
    let long = Duration::from_secs(10);
    let mut two = Two::new([long, long]);
    let (mut living, mut remembered, mut free) = (Vec::new(), HashSet::new(), HashSet::new());
    let mut old = Vec::new();
    two.ends[0].core.numbers.skip_to(0xff_ffe0);
    for i in 0..60 {
        let (conn, qpn) = two.connect();
        match i % 3 {
            0 => living.push(qpn),
            1 => {
                two.carries(qpn, i);
                old.push(two.seen.clone());
                two.ends[0].disconnect(two.now, conn).unwrap();
                two.run();
                two.ends[0].destroy_qp(two.now, qpn).unwrap();
                remembered.insert(qpn);
            }
            _ => {
                // Closed by destroying it; nobody waits for the answer.
                two.ends[0].destroy_qp(two.now, qpn).unwrap();
                remembered.insert(qpn);
            }
        }
        let bare = two.ends[0].create_qp(&two.init[0]).unwrap();
        two.ends[0].destroy_qp(two.now, bare).unwrap();
        free.insert(bare);
    }
    two.run();
    assert_eq!(two.ends[0].live_qps(), living.len());
    // Round it comes: only what nobody has or remembers is handed out.
    for round in 0..2 {
        two.ends[0].core.numbers.skip_to(0xff_ffe0);
        let mut again = HashSet::new();
        for i in 0..60 {
            let (conn, qpn) = two.connect();
            assert!(!living.contains(&qpn) && !remembered.contains(&qpn), "{qpn:?}");
            two.carries(qpn, 1000 + i);
            again.insert(qpn);
            two.ends[0].disconnect(two.now, conn).unwrap();
            two.run();
            two.ends[0].destroy_qp(two.now, qpn).unwrap();
        }
        assert!(round == 1 || free.is_subset(&again));
        remembered.extend(again);
        for (i, qpn) in living.clone().into_iter().enumerate() {
            two.carries(qpn, 2000 + i as u64);
        }
    }
    // Late packets of connections that are gone meet nobody.
    let before = two.ends[1].counters().drops.total();
    for frame in &old {
        two.ends[1].handle_frame(two.now, frame);
    }
    let drops = &two.ends[1].counters().drops;
    assert_eq!(drops.total() - before, old.len() as u64);
    assert_eq!(drops.get(DropReason::BadState), old.len() as u64, "their queue pairs are dead");
    // When all is forgotten they come again.
    two.wait(long + Duration::from_millis(1));
    assert_eq!(two.ends[0].connections(), living.len());
    two.ends[0].core.numbers.skip_to(0xff_ffe0);
    let fresh: HashSet<Qpn> = (0..40).map(|_| two.connect().1).collect();
    assert!(fresh.iter().all(|q| !living.contains(q)) && fresh.iter().any(|q| remembered.contains(q)));
}

#[test]
fn a_number_that_the_peer_still_remembers_is_refused_and_the_next_one_is_not() {
    // We forget at once, the peer does not.
    let mut two = Two::new([Duration::from_nanos(1), Duration::from_secs(10)]);
    two.ends[0].core.numbers.skip_to(500);
    let (conn, qpn) = two.connect();
    two.ends[0].disconnect(two.now, conn).unwrap();
    two.run();
    two.ends[0].destroy_qp(two.now, qpn).unwrap();
    two.wait(Duration::from_millis(1));
    let (_, other) = two.connect();
    two.ends[0].core.numbers.skip_to(500);
    let (conn, again, told) = two.ask();
    assert_eq!(again, qpn);
    let why = ConnectFailure::Rejected(RejReason::STALE);
    assert_eq!(told, [Event::ConnectFailed { conn, qpn, why }]);
    // It stands in nobody's way: its owner asks with another one.
    let (_, next) = two.connect();
    two.carries(next, 1);
    two.carries(other, 2);
    two.wait(Duration::from_secs(11));
    let conn = two.ends[0].connect(two.now, again, &Connect::new(two.path, SERVICE)).unwrap();
    assert_eq!(two.run(), [Event::Connected { conn, qpn: again }]);
    two.carries(again, 3);
}

#[test]
fn a_queue_pair_is_not_connected_again_while_its_last_connection_is_remembered() {
    let mut two = Two::new([Duration::from_millis(10), Duration::from_millis(10)]);
    let (conn, qpn) = two.connect();
    two.ends[0].disconnect(two.now, conn).unwrap();
    two.run();
    two.ends[0].modify_qp(qpn, Modify::Reset).unwrap();
    let to = Connect::new(two.path, SERVICE);
    assert_eq!(two.ends[0].connect(two.now, qpn, &to), Err(ConnectError::QueuePair));
    assert_eq!(two.ends[0].connections(), 1);
    two.wait(Duration::from_millis(11));
    let conn = two.ends[0].connect(two.now, qpn, &to).unwrap();
    assert_eq!(two.run(), [Event::Connected { conn, qpn }]);
    two.carries(qpn, 1);
}
