//! The suite that every port passes: what the [`Port`] contract promises, checked from outside on two ports that are
//! joined by some medium.
//!
//! [`run_all`] opens a fresh pair for each check and panics with the pair's name and what was broken. Frames carry
//! EtherType 0x88b5 (IEEE 802 local experimental 1) and a sequence number in the source address, so that other traffic on
//! a real link (a kernel's neighbour discovery) is told apart and ignored.

use crate::{Port, sys};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{BURST_MAX, Burst, ClockDomain, Frame, Pool, PoolConfig, StampSource};
use std::os::fd::RawFd;

/// Two ports joined so that what one sends the other receives.
pub struct ConformancePair {
    /// One end.
    pub a: Box<dyn Port>,
    /// The pool that `a` was opened with. At most a few thousand frames, or the exhaustion check takes long.
    pub a_pool: Pool,
    /// The other end.
    pub b: Box<dyn Port>,
    /// The pool that `b` was opened with; another pool than `a`'s.
    pub b_pool: Pool,
    /// Frames arrive in the order in which they were sent.
    pub in_order: bool,
    /// Nothing is lost while at most one burst is under way.
    pub lossless: bool,
    /// How long frames may take to cross.
    pub settle: std::time::Duration,
}

impl ConformancePair {
    /// Two ports on a wire that keeps order and loses nothing; the time to settle is that of one in which other threads have a part.
    pub fn on_a_wire(
        a: impl Port + 'static,
        a_pool: Pool,
        b: impl Port + 'static,
        b_pool: Pool,
    ) -> ConformancePair {
        ConformancePair {
            a: Box::new(a),
            a_pool,
            b: Box::new(b),
            b_pool,
            in_order: true,
            lossless: true,
            settle: std::time::Duration::from_millis(300),
        }
    }
}

type Check = fn(&mut Rig);

const CHECKS: &[(&str, Check)] = &[
    ("capabilities make sense", capabilities),
    ("empty calls do nothing", empty_calls),
    ("bursts of 1 to 32 cross in order, both ways", bursts),
    ("every size crosses", sizes),
    ("a burst is appended to, and never overfilled", appends),
    ("frames of another pool cross", foreign_pool),
    ("a frame that is too large blocks nothing", too_large),
    ("refused frames remain in order", partial_acceptance),
    ("an empty pool is counted and recovered from", pool_exhaustion),
    ("counters agree with the traffic", counters),
    ("a sleeper is woken", waking),
    ("frames under way are not leaked", dropped_in_flight),
];

/// Runs every check on fresh pairs from `open`.
///
/// # Panics
/// On the first broken promise, naming `name`, the check and what was seen.
pub fn run_all(name: &str, open: &mut dyn FnMut() -> ConformancePair) {
    for (title, check) in CHECKS {
        let mut rig = Rig::new(format!("{name}: {title}"), open());
        check(&mut rig);
        rig.close();
    }
}

/// Waits, for at most `timeout`, until a port's [`wait_fd`](Port::wait_fd) is readable; whether it is. For tests of ports,
/// which may not call `poll` themselves.
pub fn wait_readable(fd: RawFd, timeout: std::time::Duration) -> bool {
    sys::poll_readable(fd, timeout)
}

const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const HEADER: usize = 14;
const TAG: [u8; 2] = [0x02, 0xbe];
/// Shortest frame on a real wire, without the FCS: a card may pad up to it.
const WIRE_MIN: usize = 60;

/// Looks that a wait has left when its time is over: a test that had no core meanwhile has not looked at all.
const LOOKS_AFTER: u32 = 64;

/// How long something is waited for.
struct Patience {
    end: Instant,
    looks: u32,
}

impl Patience {
    /// Whether to look again.
    fn lasts(&mut self) -> bool {
        if sys::monotonic() < self.end {
            return true;
        }
        let before = self.looks;
        self.looks = before.saturating_sub(1);
        before > 0
    }
}

/// A pair under test with the books that are kept about it.
struct Rig {
    what: String,
    pair: ConformancePair,
    /// Length of each frame built so far, by sequence number.
    built: Vec<usize>,
    /// Sequence numbers in the order of their arrival at `b`.
    got: Vec<usize>,
    /// Frames and bytes that `b` handed over, foreign ones too.
    b_frames: u64,
    b_bytes: u64,
    /// Frames taken from us by `a`.
    a_taken: u64,
}

impl Rig {
    fn new(what: String, pair: ConformancePair) -> Rig {
        Rig { what, pair, built: Vec::new(), got: Vec::new(), b_frames: 0, b_bytes: 0, a_taken: 0 }
    }

    fn frame_max(&self) -> usize {
        let p = &self.pair;
        let caps = p.a.caps().frame_max.min(p.b.caps().frame_max) as usize;
        caps.min(p.a_pool.frame_max()).min(p.b_pool.frame_max())
    }

    /// Exchanges the roles of the two ends, with fresh books.
    fn swap(&mut self) {
        let p = &mut self.pair;
        std::mem::swap(&mut p.a, &mut p.b);
        std::mem::swap(&mut p.a_pool, &mut p.b_pool);
        (self.built, self.got) = (Vec::new(), Vec::new());
        (self.b_frames, self.b_bytes, self.a_taken) = (0, 0, 0);
    }

    fn patience(&self) -> Patience {
        Patience { end: sys::monotonic() + Duration::from(self.pair.settle), looks: LOOKS_AFTER }
    }

    /// Writes frame `seq` of `len` bytes into `frame`.
    fn build(&mut self, frame: &mut Frame, len: usize) {
        let seq = self.built.len();
        self.built.push(len);
        assert!(frame.set_len(len), "{}: a chunk of {} cannot hold {len}", self.what, frame.tailroom());
        let dst = self.pair.b.caps().mac.map_or([0x02, 0, 0, 0, 0, 2], |m| m.0);
        write_frame(frame.data_mut(), dst, seq);
    }

    /// A fresh frame of `a`'s pool; one that is still being sent may have to come back first.
    fn alloc(&mut self, len: usize) -> Frame {
        let mut patience = self.patience();
        let mut frame = loop {
            if let Some(frame) = self.pair.a_pool.alloc() {
                break frame;
            }
            assert!(patience.lasts(), "{}: sent frames never came back to the pool", self.what);
            self.nudge();
            self.poll();
        };
        self.build(&mut frame, len);
        frame
    }

    /// Gives `a` the duty cycle that an engine would.
    fn nudge(&mut self) {
        let now = sys::monotonic();
        let sent = self.pair.a.tx_burst(now, &mut Burst::new()).expect("tx_burst of nothing");
        assert_eq!(sent, 0, "{}: nothing was there to send", self.what);
    }

    /// One `tx_burst`; how many frames it took out of the burst.
    fn send_once(&mut self, burst: &mut Burst) -> usize {
        let (before, now) = (burst.len(), sys::monotonic());
        let said = self.pair.a.tx_burst(now, burst).expect("tx_burst");
        let taken = before - burst.len();
        assert!(said <= taken, "{}: said {said} accepted, took {taken}", self.what);
        self.a_taken += taken as u64;
        taken
    }

    /// Sends all of `burst`, receiving meanwhile.
    fn send_all(&mut self, burst: &mut Burst) {
        let mut patience = self.patience();
        while !burst.is_empty() {
            if self.send_once(burst) > 0 {
                patience = self.patience();
            }
            assert!(patience.lasts(), "{}: {} frames are never accepted", self.what, burst.len());
            self.poll();
        }
    }

    /// One `rx_burst` of `b`; how many frames came.
    fn poll(&mut self) -> usize {
        let mut burst = Burst::new();
        let n = self.receive(&mut burst);
        self.check_burst(&mut burst);
        n
    }

    fn receive(&mut self, burst: &mut Burst) -> usize {
        let (before, now) = (burst.len(), sys::monotonic());
        let n = self.pair.b.rx_burst(now, burst).expect("rx_burst");
        assert_eq!(before + n, burst.len(), "{}: rx_burst said {n}", self.what);
        for frame in burst.iter().skip(before) {
            self.b_frames += 1;
            self.b_bytes += frame.len() as u64;
            let (stamp, best) = (frame.stamp(), self.pair.b.caps().rx_stamp);
            assert!(stamp.source >= StampSource::Engine, "{}: a frame without a stamp", self.what);
            assert!(stamp.source <= best, "{}: {:?} stamp, promised {best:?}", self.what, stamp.source);
            assert!(stamp.ns > 0, "{}: a stamp of zero", self.what);
            if stamp.source == StampSource::Engine && stamp.clock == ClockDomain::Monotonic {
                assert!(stamp.ns <= now.as_nanos(), "{}: an engine stamp in the future", self.what);
            }
        }
        n
    }

    fn check_burst(&mut self, burst: &mut Burst) {
        while let Some(frame) = burst.pop() {
            if let Some(seq) = sequence(frame.data()) {
                self.check(seq, frame.data());
                self.got.push(seq);
            }
        }
    }

    fn check(&self, seq: usize, data: &[u8]) {
        let what = &self.what;
        let len = *self.built.get(seq).unwrap_or_else(|| panic!("{what}: frame {seq} was never sent"));
        let padded = len < WIRE_MIN && data.len() == WIRE_MIN;
        assert!(data.len() == len || padded, "{what}: frame {seq} of {len} B came as {} B", data.len());
        let mut expected = vec![0xa5; len];
        let dst: [u8; 6] = data[..6].try_into().expect("six bytes");
        write_frame(&mut expected, dst, seq);
        assert!(data[..len] == expected, "{what}: frame {seq} of {len} B came with other bytes");
    }

    /// Receives until `want` frames have come or nothing has for `settle`.
    fn drain(&mut self, want: usize) {
        let mut patience = self.patience();
        while self.got.len() < want && patience.lasts() {
            let before = self.got.len();
            self.nudge();
            self.poll();
            if self.got.len() > before {
                patience = self.patience();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Checks the arrivals since `from`: order, no copies, and nothing missing when `complete`.
    fn check_arrivals(&self, from: usize, want: std::ops::Range<usize>, complete: bool) {
        let got = &self.got[from..];
        if self.pair.in_order {
            let step = got.windows(2).find(|w| w[0] >= w[1]);
            assert!(step.is_none(), "{}: out of order or twice: {step:?}", self.what);
        }
        let mut sorted = got.to_vec();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|w| w[0] < w[1]), "{}: a frame came twice", self.what);
        assert!(got.iter().all(|s| want.contains(s)), "{}: a frame that was not due", self.what);
        if complete {
            assert_eq!(got.len(), want.len(), "{}: frames are missing; {}", self.what, self.books());
        }
    }

    fn books(&self) -> String {
        let drops =
            |p: &dyn Port| p.counters().drops.iter().map(|(r, n)| format!("{r}={n} ")).collect::<String>();
        let (a, b) = (&self.pair.a, &self.pair.b);
        format!("drops of the sender: [{}], of the receiver: [{}]", drops(a), drops(b))
    }

    /// Sends `lens.len()` frames as one burst and checks their arrival.
    fn exchange(&mut self, lens: &[usize]) {
        let (from, first) = (self.got.len(), self.built.len());
        let mut burst = Burst::new();
        for &len in lens {
            let frame = self.alloc(len);
            assert!(burst.push(frame).is_ok(), "at most a burst");
        }
        self.send_all(&mut burst);
        self.drain(from + lens.len());
        self.check_arrivals(from, first..first + lens.len(), self.pair.lossless);
    }

    /// Drops both ports: every frame must be back in its pool.
    fn close(self) {
        let Rig { what, pair: ConformancePair { a, a_pool, b, b_pool, .. }, .. } = self;
        drop((a, b));
        for (end, pool) in [("one", a_pool), ("the other", b_pool)] {
            let out = pool.capacity() - pool.available();
            assert_eq!(out, 0, "{what}: {out} frames of {end} pool leaked");
        }
    }
}

fn write_frame(data: &mut [u8], dst: [u8; 6], seq: usize) {
    data[..6].copy_from_slice(&dst);
    data[6..8].copy_from_slice(&TAG);
    data[8..12].copy_from_slice(&(seq as u32).to_be_bytes());
    data[12..14].copy_from_slice(&ETHERTYPE);
    for (i, byte) in data[HEADER..].iter_mut().enumerate() {
        *byte = (seq.wrapping_mul(31).wrapping_add(i) ^ (i >> 8)) as u8;
    }
}

fn sequence(data: &[u8]) -> Option<usize> {
    if data.len() < HEADER || data[6..8] != TAG || data[12..14] != ETHERTYPE {
        return None;
    }
    Some(u32::from_be_bytes([data[8], data[9], data[10], data[11]]) as usize)
}

fn capabilities(rig: &mut Rig) {
    for port in [&rig.pair.a, &rig.pair.b] {
        let caps = port.caps();
        assert!(caps.frame_max as usize > HEADER, "{}: {caps:?}", rig.what);
        assert!(caps.mtu as usize + HEADER <= caps.frame_max as usize, "{}: {caps:?}", rig.what);
        assert!(caps.queues >= 1, "{}: {caps:?}", rig.what);
        assert!(caps.rx_stamp >= StampSource::Engine, "{}: {caps:?}", rig.what);
        assert!(!caps.description.is_empty() && !caps.description.contains('\n'), "{}: {caps:?}", rig.what);
    }
}

fn empty_calls(rig: &mut Rig) {
    for _ in 0..8 {
        rig.nudge();
        rig.poll();
    }
    assert!(rig.got.is_empty(), "{}: {} frames nobody sent", rig.what, rig.got.len());
    assert_eq!(rig.pair.b.counters().drops.total(), 0, "{}: {}", rig.what, rig.books());
    assert_eq!(rig.pair.b.counters().rx_frames.get(), rig.b_frames, "{}", rig.what);
}

fn bursts(rig: &mut Rig) {
    for _ in 0..2 {
        for n in 1..=BURST_MAX {
            let max = rig.frame_max();
            let lens: Vec<usize> = (0..n).map(|i| (60 + 7 * i).min(max)).collect();
            rig.exchange(&lens);
        }
        rig.swap();
    }
}

fn sizes(rig: &mut Rig) {
    let all: Vec<usize> = (HEADER..=rig.frame_max()).collect();
    for lens in all.chunks(BURST_MAX) {
        rig.exchange(lens);
    }
}

fn appends(rig: &mut Rig) {
    let mut burst = Burst::new();
    for _ in 0..5 {
        let own = rig.pair.b_pool.alloc_from(b"in front").expect("a frame");
        assert!(burst.push(own).is_ok());
    }
    let frame = rig.alloc(100);
    let mut out = Burst::new();
    assert!(out.push(frame).is_ok());
    rig.send_all_unread(&mut out);
    let mut patience = rig.patience();
    while burst.len() == 5 && patience.lasts() {
        rig.nudge();
        rig.receive(&mut burst);
    }
    assert!(!rig.pair.lossless || burst.len() > 5, "{}: nothing was appended", rig.what);
    for _ in 0..5 {
        let front = burst.pop().expect("was there before");
        assert_eq!(front.data(), b"in front", "{}: the front of the burst changed", rig.what);
    }
    rig.check_burst(&mut burst);

    // A burst without room takes nothing and loses nothing.
    let from = rig.got.len();
    let frame = rig.alloc(101);
    assert!(out.push(frame).is_ok());
    rig.send_all_unread(&mut out);
    let other = Pool::new(PoolConfig { frames: BURST_MAX as u32, ..PoolConfig::default() }).expect("a pool");
    while let Some(own) = other.alloc() {
        assert!(burst.push(own).is_ok(), "one burst");
    }
    let until = sys::monotonic() + Duration::from(rig.pair.settle.min(std::time::Duration::from_millis(5)));
    while sys::monotonic() < until {
        assert_eq!(rig.receive(&mut burst), 0, "{}: received into a full burst", rig.what);
    }
    burst.clear();
    rig.drain(from + 1);
    rig.check_arrivals(from, 1..2, rig.pair.lossless);
}

impl Rig {
    /// As `send_all`, without receiving: for one burst, which every medium holds.
    fn send_all_unread(&mut self, burst: &mut Burst) {
        let mut patience = self.patience();
        while !burst.is_empty() {
            self.send_once(burst);
            assert!(patience.lasts(), "{}: {} frames are never accepted", self.what, burst.len());
        }
    }
}

fn foreign_pool(rig: &mut Rig) {
    let config = PoolConfig { frames: 4, chunk_len: rig.pair.a_pool.chunk_len(), ..PoolConfig::default() };
    let other = Pool::new(config).expect("a pool");
    let mut burst = Burst::new();
    for len in [60, 61, 62] {
        let mut frame = other.alloc().expect("a frame");
        rig.build(&mut frame, len);
        assert!(burst.push(frame).is_ok());
    }
    rig.send_all(&mut burst);
    rig.drain(3);
    rig.check_arrivals(0, 0..3, false);
    let dropped = rig.pair.a.counters().drops.total() + rig.pair.b.counters().drops.total();
    let seen = rig.got.len() as u64 + dropped;
    assert!(!rig.pair.lossless || seen >= 3, "{}: vanished uncounted; {}", rig.what, rig.books());
    // They are back at once or once the port has been given a turn.
    let mut patience = rig.patience();
    while other.available() < 4 && patience.lasts() {
        rig.nudge();
    }
    assert_eq!(other.available(), 4, "{}: the other pool's frames never came back", rig.what);
}

fn too_large(rig: &mut Rig) {
    let limit = rig.pair.a.caps().frame_max as usize;
    let room = rig.pair.a_pool.chunk_len() as usize;
    let oversize = |rig: &Rig| {
        let mut frame = rig.pair.a_pool.alloc()?;
        let front = (limit + 1).saturating_sub(frame.tailroom());
        (frame.push_front(front) && frame.set_len(limit + 1)).then_some(frame)
    };
    if limit >= room {
        return; // No frame of this pool is too large for this port.
    }
    let mut burst = Burst::new();
    let first = rig.alloc(60);
    assert!(burst.push(first).is_ok());
    let Some(mut large) = oversize(rig) else { return };
    write_frame(large.data_mut(), [0xff; 6], 0xffff_ffff);
    assert!(burst.push(large).is_ok());
    let last = rig.alloc(61);
    assert!(burst.push(last).is_ok());
    rig.send_all(&mut burst);
    rig.drain(2);
    rig.check_arrivals(0, 0..2, rig.pair.lossless);
    let counted = rig.pair.a.counters().drops.get(DropReason::TooLarge);
    assert_eq!(counted, 1, "{}: drops of TooLarge; {}", rig.what, rig.books());
}

fn partial_acceptance(rig: &mut Rig) {
    const AT_MOST: usize = 1 << 13;
    let mut burst = Burst::new();
    let mut refused = false;
    let mut pool_ran_dry = false;
    while rig.built.len() < AT_MOST && !refused && !pool_ran_dry {
        while burst.room() > 0 {
            let Some(mut frame) = rig.pair.a_pool.alloc() else {
                pool_ran_dry = true;
                break;
            };
            rig.build(&mut frame, 64);
            assert!(burst.push(frame).is_ok());
        }
        rig.send_once(&mut burst);
        refused = !burst.is_empty();
        let order: Vec<usize> = burst.iter().filter_map(|f| sequence(f.data())).collect();
        let rest: Vec<usize> = (rig.built.len() - burst.len()..rig.built.len()).collect();
        assert_eq!(order, rest, "{}: what remains is not the tail of what was offered", rig.what);
    }
    if refused {
        assert!(rig.pair.a.counters().tx_full.get() > 0, "{}: tx_full was not counted", rig.what);
    }
    rig.send_all(&mut burst);
    rig.drain(rig.built.len());
    let all = rig.built.len();
    rig.check_arrivals(0, 0..all, false);
    if rig.pair.lossless && refused {
        // A medium that can push back may still overflow further on, but not silently.
        let missing = (all - rig.got.len()) as u64;
        let drops = rig.pair.a.counters().drops.total() + rig.pair.b.counters().drops.total();
        assert!(missing <= drops, "{}: {missing} of {all} vanished uncounted; {}", rig.what, rig.books());
    }
    let from = rig.got.len();
    rig.exchange(&[60; BURST_MAX]);
    assert!(!rig.pair.lossless || rig.got.len() == from + BURST_MAX, "{}: it did not recover", rig.what);
}

fn pool_exhaustion(rig: &mut Rig) {
    let mut held: Vec<Frame> = Vec::new();
    let mut taken: Vec<Frame> = std::iter::from_fn(|| rig.pair.b_pool.alloc()).collect();
    let empty = |rig: &Rig| rig.pair.b.counters().drops.get(DropReason::PoolEmpty);
    // A port that lends frames to the kernel beforehand still delivers those; they are held, too.
    let at_most = rig.pair.b_pool.capacity() * 2 + 256;
    let mut out = Burst::new();
    let mut offered = 0;
    while empty(rig) == 0 && offered < at_most {
        if out.is_empty() {
            for _ in 0..8 {
                let frame = rig.alloc_without_polling(60);
                assert!(out.push(frame).is_ok());
            }
            offered += 8;
        }
        rig.send_once(&mut out);
        let pause =
            sys::monotonic() + Duration::from(rig.pair.settle.min(std::time::Duration::from_micros(200)));
        while sys::monotonic() < pause && empty(rig) == 0 {
            let mut burst = Burst::new();
            rig.receive(&mut burst);
            held.extend(std::iter::from_fn(|| burst.pop()));
        }
    }
    assert!(empty(rig) > 0, "{}: PoolEmpty was never counted; {}", rig.what, rig.books());
    assert_eq!(rig.pair.b_pool.available(), 0, "{}: it was not the pool", rig.what);
    held.clear();
    taken.clear();
    out.clear();
    // Whatever still stands in queues comes or was counted; after that all is as before.
    rig.drain(usize::MAX);
    let from = rig.got.len();
    rig.exchange(&[60; BURST_MAX]);
    assert!(!rig.pair.lossless || rig.got.len() == from + BURST_MAX, "{}: it did not recover", rig.what);
}

impl Rig {
    fn alloc_without_polling(&mut self, len: usize) -> Frame {
        let mut patience = self.patience();
        loop {
            if let Some(mut frame) = self.pair.a_pool.alloc() {
                self.build(&mut frame, len);
                return frame;
            }
            assert!(patience.lasts(), "{}: sent frames never came back to the pool", self.what);
            self.nudge();
        }
    }
}

fn counters(rig: &mut Rig) {
    let mut bytes = 0u64;
    for round in 0..8usize {
        let lens: Vec<usize> = (0..=round).map(|i| 60 + 11 * i).collect();
        bytes += lens.iter().sum::<usize>() as u64;
        rig.exchange(&lens);
    }
    let (a, b) = (rig.pair.a.counters(), rig.pair.b.counters());
    assert_eq!(a.tx_frames.get() + a.drops.total(), rig.a_taken, "{}: tx_frames; {}", rig.what, rig.books());
    if a.drops.total() == 0 {
        assert_eq!(a.tx_bytes.get(), bytes, "{}: tx_bytes", rig.what);
    }
    assert_eq!(b.rx_frames.get(), rig.b_frames, "{}: rx_frames", rig.what);
    assert_eq!(b.rx_bytes.get(), rig.b_bytes, "{}: rx_bytes", rig.what);
    assert_eq!(b.tx_frames.get(), 0, "{}: tx_frames of an end that sent nothing", rig.what);
}

fn waking(rig: &mut Rig) {
    let Some(fd) = rig.pair.b.wait_fd() else { return };
    for round in 0..8 {
        // Asleep first, then the frame.
        let mut tries = 0;
        while !rig.pair.b.prepare_wait() {
            rig.pair.b.finish_wait();
            rig.poll(); // Foreign frames keep it awake.
            tries += 1;
            assert!(tries < 1000, "{}: never ready to sleep though nothing comes", rig.what);
        }
        let from = rig.got.len();
        let mut burst = Burst::new();
        let frame = rig.alloc_without_polling(60);
        assert!(burst.push(frame).is_ok());
        rig.send_all_unread(&mut burst);
        rig.wait_readable(fd, round);
        rig.pair.b.finish_wait();
        rig.drain(from + 1);

        // The frame first, then the attempt to sleep.
        let frame = rig.alloc_without_polling(61);
        assert!(burst.push(frame).is_ok());
        rig.send_all_unread(&mut burst);
        if rig.pair.b.prepare_wait() {
            rig.wait_readable(fd, round);
        }
        rig.pair.b.finish_wait();
        rig.drain(from + 2);
        rig.check_arrivals(from, from..rig.built.len(), rig.pair.lossless);
    }
}

impl Rig {
    fn wait_readable(&mut self, fd: RawFd, round: usize) {
        let mut patience = self.patience();
        // A wrapper that holds frames back sends them in its own turns.
        while !sys::poll_readable(fd, std::time::Duration::from_millis(1)) {
            if !patience.lasts() {
                assert!(!self.pair.lossless, "{}: nobody was woken in round {round}", self.what);
                return;
            }
            self.nudge();
        }
    }
}

fn dropped_in_flight(rig: &mut Rig) {
    let mut burst = Burst::new();
    for _ in 0..BURST_MAX {
        let frame = rig.alloc(200);
        assert!(burst.push(frame).is_ok());
    }
    rig.send_once(&mut burst);
    let mut some = Burst::new();
    rig.receive(&mut some);
}
