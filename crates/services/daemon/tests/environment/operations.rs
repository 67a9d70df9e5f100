//! RDMA operations under way all the time, over ever new connections where one fails.
//!
//! ```text
//! the client's round n:  write of a pattern -> fetch-add -> read back -> send n ........ the round is over
//! the server:                                                  n: is the pattern there? -> send n
//! ```
//! The judges: each operation completes exactly once, whatever becomes of its connection; what succeeded has happened, once, and what was
//! read is what was written; a connection that fails is told as failed to both ends.

use crate::common::rdma::{End, open_at};
use crate::common::{PATIENCE, pattern, v4};
use barewire_roce::{Data, QpState, SendOp, SendWr, WcOpcode};
use barewire_verbs::context::{ConnectTo, ContextError, Event, Failure, Wc};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds under way at once.
const WINDOW: u64 = 4;
/// Bytes of a round's place in memory, and most of a write: several packets of any path MTU.
const PLACE: usize = 20_000;
/// Where the server counts the client's fetch-adds.
const COUNT_AT: usize = WINDOW as usize * PLACE;
/// The client's memory: what it writes, what it reads, what its fetch-adds bring, what it receives.
const READ_AT: usize = WINDOW as usize * PLACE;
const VALUE_AT: usize = 2 * READ_AT;
const RECV_AT: usize = VALUE_AT + 8 * WINDOW as usize;
const MEMORY: usize = RECV_AT + 64;
/// How long an end hears nothing until it makes sure that its peer is there.
const QUIET: Duration = Duration::from_millis(50);

/// The number of a request: of which round, and what.
const WRITE: u64 = 0;
const ADD: u64 = 1;
const READ: u64 = 2;
const SEND: u64 = 3;
const RECV: u64 = 4;
const BEAT: u64 = 5;
const KINDS: u64 = 6;

/// Bytes that round `n` writes.
fn len_of(n: u64) -> usize {
    1 + (n * 7919 % PLACE as u64) as usize
}

fn bytes_of(n: u64) -> Vec<u8> {
    pattern(n, len_of(n))
}

fn place_of(n: u64) -> usize {
    (n % WINDOW) as usize * PLACE
}

/// Why a connection is no more.
#[derive(PartialEq, Eq, Debug)]
enum Over {
    /// An operation failed.
    Failed,
    /// The application was told.
    Told,
    /// The daemon is gone, and all that it had.
    Daemon,
}

/// One end, and the numbers of its requests that have not completed.
struct Side {
    end: End,
    posted: BTreeSet<u64>,
    /// Receives and heartbeats posted so far.
    recvs: u64,
    beats: u64,
}

impl Side {
    /// With receives for all that the peer may send.
    fn new(end: End) -> Result<Side, Over> {
        let mut side = Side { end, posted: BTreeSet::new(), recvs: 0, beats: 0 };
        (0..2 * WINDOW).try_for_each(|_| side.post_recv())?;
        Ok(side)
    }

    /// Where the peer finds this end's memory.
    fn offer(&self) -> Vec<u8> {
        [&self.end.mr.addr().to_be_bytes()[..], &self.end.mr.rkey().to_be_bytes()].concat()
    }

    fn is_lost(e: &ContextError) -> bool {
        matches!(e, ContextError::DaemonGone)
    }

    fn post(&mut self, wr_id: u64, op: SendOp, data: Data<'_>) -> Result<(), Over> {
        assert!(self.posted.insert(wr_id), "{wr_id} twice");
        match self.end.context.post_send(self.end.qp, &SendWr::new(wr_id, op, data)) {
            Ok(()) => Ok(()),
            Err(e) if Side::is_lost(&e) => Err(Over::Daemon),
            Err(e) => panic!("{wr_id}: {e}"),
        }
    }

    fn post_recv(&mut self) -> Result<(), Over> {
        let wr_id = self.recvs * KINDS + RECV;
        self.recvs += 1;
        self.posted.insert(wr_id);
        let sge = self.end.mr.sge(RECV_AT, 64);
        match self.end.context.post_recv(self.end.qp, wr_id, &[sge]) {
            Ok(()) => Ok(()),
            Err(e) if Side::is_lost(&e) => Err(Over::Daemon),
            Err(e) => panic!("{wr_id}: {e}"),
        }
    }

    /// The next success. Nobody hears of a peer's death who sends nothing: after a while a write of no bytes asks whether it is there.
    fn next(&mut self, peer: Offer) -> Result<Option<Wc>, Over> {
        let wc = self.completion(QUIET)?;
        if wc.is_none() {
            if self.is_told() {
                return Err(Over::Told);
            }
            if !self.posted.iter().any(|wr_id| wr_id % KINDS == BEAT) {
                let beat = SendOp::Write { addr: peer.addr, rkey: peer.rkey };
                self.beats += 1;
                self.post(self.beats * KINDS + BEAT, beat, Data::Sges(&[]))?;
            }
        }
        Ok(wc)
    }

    /// The next completion, if there is one within a time. Exactly one for each request.
    fn completion(&mut self, timeout: Duration) -> Result<Option<Wc>, Over> {
        let wc = match self.end.context.wait_cq_any(self.end.cq, timeout) {
            Ok(wc) => wc,
            Err(ContextError::TimedOut) => return Ok(None),
            Err(e) if Side::is_lost(&e) => return Err(Over::Daemon),
            Err(e) => panic!("{e}"),
        };
        assert!(self.posted.remove(&wc.wr_id), "a completion that nobody waits for: {wc:?}");
        match wc.result {
            Ok(()) => Ok(Some(wc)),
            Err(Failure::Failed(_)) => Err(Over::Failed),
            // What the daemon did not take it did not take since the queue pair had died already.
            Err(Failure::Refused(why)) => {
                let dead = self.end.context.query_qp(self.end.qp).map(|view| view.state);
                assert!(matches!(dead, Ok(QpState::Err) | Err(_)), "{wc:?}: {why}, and it is {dead:?}");
                Err(Over::Failed)
            }
        }
    }

    /// Whether the application was told of its connection's end.
    fn is_told(&mut self) -> bool {
        let qp = self.end.qp;
        let told =
            |e: &Event| matches!(e, Event::Disconnected { qp: q, .. } | Event::QpError(q, _) if *q == qp);
        self.end.context.take_event(told).is_some()
    }

    /// The connection is over: all that was posted completes, nothing else does, and the application is told.
    fn bury(&mut self, over: Over) {
        if over == Over::Daemon {
            return;
        }
        let begin = Instant::now();
        while !self.posted.is_empty() {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            match self.completion(left) {
                Ok(Some(_)) | Err(Over::Failed | Over::Told) => {}
                Ok(None) => panic!("these never completed: {:?}", self.posted),
                Err(Over::Daemon) => return,
            }
        }
        let mut told = over == Over::Told || self.is_told();
        while !told && !self.end.context.is_closed() {
            assert!(begin.elapsed() < PATIENCE, "nobody told that the connection has failed");
            std::thread::sleep(Duration::from_millis(1));
            told = self.is_told();
        }
        assert_eq!(self.completion(Duration::ZERO), Ok(None), "more completions than requests");
    }
}

/// Opens a context with what a connection needs, as soon as there is a daemon; `None` when that is no longer wanted.
fn side(socket: &Path, name: &str, stop: &AtomicBool) -> Option<Side> {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(context) = open_at(socket, name)
            && let Ok(end) = End::of(context, MEMORY)
            && let Ok(side) = Side::new(end)
        {
            return Some(side);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Takes one connection after the other, until the end.
pub fn serve(socket: &Path, service: u64, stop: &AtomicBool) {
    while let Some(mut side) = side(socket, "serves operations", stop) {
        let Ok(listener) = side.end.context.listen(service, 1) else { continue };
        let request = loop {
            match side.end.context.get_request(listener, QUIET) {
                Err(ContextError::TimedOut) if !stop.load(Ordering::Relaxed) => {}
                other => break other,
            }
        };
        let Ok(request) = request else { continue };
        let (qp, offer) = (side.end.qp, side.offer());
        // Whoever asked may have given up.
        let accepted = side.end.context.accept(&request, qp, &offer);
        if accepted.is_ok() && side.end.context.wait_established(qp, PATIENCE).is_ok() {
            let peer = Offer::parse(&request.private);
            let over = loop {
                if let Err(over) = answer(&mut side, peer) {
                    break over;
                }
            };
            side.bury(over);
        }
    }
}

/// Memory of the peer.
#[derive(Clone, Copy)]
struct Offer {
    addr: u64,
    rkey: u32,
}

impl Offer {
    fn parse(private: &[u8]) -> Offer {
        // Without trailing zeros, as they come.
        let mut bytes = [0; 12];
        bytes[..private.len()].copy_from_slice(private);
        let (addr, rkey) = bytes.split_at(8);
        Offer {
            addr: u64::from_be_bytes(addr.try_into().unwrap()),
            rkey: u32::from_be_bytes(rkey.try_into().unwrap()),
        }
    }
}

/// Looks at one round, and answers.
fn answer(side: &mut Side, peer: Offer) -> Result<(), Over> {
    let Some(wc) = side.next(peer)?.filter(|wc| wc.opcode == WcOpcode::Recv) else { return Ok(()) };
    let n = u64::from(wc.imm.expect("the number of a round"));
    let written = side.end.mr.read(place_of(n), len_of(n));
    assert!(written == bytes_of(n), "what round {n} has written is not there");
    let count = u64::from_ne_bytes(side.end.mr.read(COUNT_AT, 8).try_into().unwrap());
    assert!((n + 1..=n + WINDOW).contains(&count), "{count} fetch-adds were done in round {n}");
    side.post_recv()?;
    side.post(n * KINDS + SEND, SendOp::SendImm(n as u32), Data::Inline(b"over"))
}

/// Runs rounds over ever new connections, until the end; says how many failed.
pub fn ask(socket: &Path, service: u64, stop: &AtomicBool, rounds: &AtomicU64) -> u64 {
    let mut failed = 0;
    while let Some(mut side) = side(socket, "asks for operations", stop) {
        let (qp, offer) = (side.end.qp, side.offer());
        let to = ConnectTo { private: &offer, ..ConnectTo::new(v4(2).into(), service) };
        // The server may be down, or still with a connection that has failed here and not yet there.
        let Ok(connected) = side.end.context.connect(qp, &to, Duration::from_secs(2)) else { continue };
        let over = match run(&mut side, Offer::parse(&connected.private), stop, rounds) {
            Ok(()) => match side.end.context.start_disconnect(connected.conn) {
                Err(ContextError::DaemonGone) => Over::Daemon,
                _ => Over::Failed,
            },
            Err(over) => {
                failed += 1;
                over
            }
        };
        side.bury(over);
    }
    failed
}

/// Rounds until they are no longer wanted, and all are over.
fn run(side: &mut Side, peer: Offer, stop: &AtomicBool, rounds: &AtomicU64) -> Result<(), Over> {
    let mut begun = 0;
    // What is still to complete of the round in each place, the server's answer included.
    let mut left = [0; WINDOW as usize];
    loop {
        let is_over = stop.load(Ordering::Relaxed);
        if is_over && left == [0; WINDOW as usize] {
            return Ok(());
        }
        while !is_over && left[(begun % WINDOW) as usize] == 0 {
            let n = begun;
            begun += 1;
            left[(n % WINDOW) as usize] = 5;
            let (at, len) = (place_of(n), len_of(n));
            side.end.mr.write(at, &bytes_of(n));
            side.end.mr.write(READ_AT + at, &vec![0xa5; len]);
            let there = peer.addr + at as u64;
            let rkey = peer.rkey;
            let id = n * KINDS;
            let ours = [side.end.mr.sge(at, len)];
            side.post(id + WRITE, SendOp::Write { addr: there, rkey }, Data::Sges(&ours))?;
            let value = [side.end.mr.sge(VALUE_AT + (n % WINDOW) as usize * 8, 8)];
            let add = SendOp::FetchAdd { addr: peer.addr + COUNT_AT as u64, rkey, add: 1 };
            side.post(id + ADD, add, Data::Sges(&value))?;
            let back = [side.end.mr.sge(READ_AT + at, len)];
            side.post(id + READ, SendOp::Read { addr: there, rkey }, Data::Sges(&back))?;
            side.post(id + SEND, SendOp::SendImm(n as u32), Data::Inline(b"done"))?;
        }
        let Some(wc) = side.next(peer)? else { continue };
        let (mut n, kind) = (wc.wr_id / KINDS, wc.wr_id % KINDS);
        match kind {
            ADD => {
                let at = VALUE_AT + (n % WINDOW) as usize * 8;
                let before = u64::from_ne_bytes(side.end.mr.read(at, 8).try_into().unwrap());
                assert_eq!(before, n, "each fetch-add is done once, in order");
            }
            READ => assert!(
                side.end.mr.read(READ_AT + place_of(n), len_of(n)) == bytes_of(n),
                "round {n} reads something else than it has written"
            ),
            RECV => {
                n = u64::from(wc.imm.expect("the number of a round"));
                side.post_recv()?;
            }
            BEAT => continue,
            _ => {}
        }
        let left = &mut left[(n % WINDOW) as usize];
        *left -= 1;
        rounds.fetch_add(u64::from(*left == 0), Ordering::Relaxed);
    }
}
