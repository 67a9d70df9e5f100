//! How large a packet of a flow may be: path MTU discovery by what arrives (RFC 8899), not by what routers say.
//!
//! ```text
//!            whole segments vanish                      ... of the base size, too
//!  whole ----------------------------> base (1200 B) ----------------------------> least (512 B)
//!    ^                                   |   ^                                        |
//!    |  a probe arrives                  v   | three probes of one size are lost      |
//!    +------------------------------- searching <-------------------------------------+
//!                                        |   ^
//!                 nothing larger passes  v   | after `mtu_raise`
//!                                       found
//! ```
//! A flow starts with what both interfaces carry and pays nothing for it. Segments keep their size and their numbers for as long as
//! it lives: while the path carries less, a segment travels in pieces, each a packet of its own, cut at multiples of a sixteenth of a
//! full segment. So what is under way when the path narrows is sent again in pieces, and nothing has to be numbered anew. A probe is
//! the next new segment in fewer or larger pieces; when it is lost, it is sent again like any other, and no congestion is seen in it.
//!
//! What one flow found out, later flows to the same host begin with; they probe when that one would.
//!
//! Loss alone is no sign. Large packets have to be lost at four times, a round trip or more apart, while none arrives in between. Who
//! is taken in by an outage all the same finds out with the first probe.

use crate::flow::Flow;
use crate::security::guard::Shield;
use crate::sender::{LOST, Packed, SACKED, Segment, Sender};
use barewire_base::{Duration, Instant};
use barewire_wire::msg::{DATA_HEADER_LEN, PIECES, TAG_LEN};
use std::net::IpAddr;

/// Packets of this size pass wherever the Internet is not broken (RFC 8899, 5.1.2).
const BASE_PACKET: u16 = 1200;
/// And these even where it is.
const LEAST_PACKET: u16 = 512;
/// Times at which large packets are lost, none arriving in between, that make a black hole.
const STRIKES_MAX: u8 = 4;
/// Probes of one size that are lost before it counts as too large (`MAX_PROBES` of RFC 8899).
const PROBES_MAX: u8 = 3;
/// Least time between two probes, and round trips that it is at least.
const PROBE_PAUSE: Duration = Duration::from_millis(10);
const PROBE_PAUSE_TRIPS: u64 = 4;
/// Hosts behind narrow paths that are remembered, and for how long beyond the time of the next probe.
const NARROW_MAX: usize = 64;
const NARROW_FORGOTTEN: Duration = Duration::from_secs(60);
/// All of a segment.
const WHOLE: u8 = PIECES as u8;

/// Which part of a segment travels in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub at: u16,
    pub len: u16,
    /// It is no whole segment.
    pub is_piece: bool,
    pub is_last: bool,
}

impl Part {
    pub(crate) fn whole(seg: &Segment) -> Part {
        Part { at: 0, len: seg.len, is_piece: false, is_last: true }
    }
}

/// The rest of a segment that has left in part.
#[derive(Clone, Copy, Debug)]
struct Rest {
    seq: u32,
    at: u16,
    step: u16,
}

/// What happened, for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MtuNews {
    /// Large packets vanish.
    BlackHole,
    /// A larger size has arrived.
    Raised,
    /// A probe was lost.
    ProbeLost,
}

/// What is known of one flow's path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathMtu {
    /// Longer segments travel in pieces.
    limit: u16,
    /// Segments longer than this bear witness: they travel in packets that a narrower path would swallow. `u16::MAX`: none does.
    suspect: u16,
    /// Bytes of a full segment, and of the smallest piece.
    mss: u16,
    unit: u16,
    /// Smallest pieces in a packet now, at the base size and at the least.
    units: u8,
    base: u8,
    least: u8,
    /// What the interface carries: `WHOLE`, unless its MTU was lowered since the flow began.
    cap: u8,
    strikes: u8,
    strike_at: Instant,
    /// Payload bytes of the shortest packet among these strikes: what is longer and arrives refutes them.
    struck: u16,
    /// The size to be tried, how often it was lost, and one that is known not to pass (above `cap`: none).
    candidate: u8,
    fails: u8,
    too_large: u8,
    is_probing: bool,
    /// The size of the probe under way, which is no larger than what there was to send, and the largest that was lost of late.
    probed: u8,
    failed: u8,
    /// When the next probe may leave.
    probe_at: Instant,
    rest: Option<Rest>,
    /// Other flows of the host do not know yet what this one does.
    is_news: bool,
}

/// Paths narrower than the interface, by host, the oldest first. Who can forge packets in the clear has no say in what encrypted flows
/// begin with.
pub(crate) struct NarrowPaths(Vec<Narrow>);

struct Narrow {
    /// The leg that leads there: another one's link may carry more, or less.
    leg: u8,
    ip: IpAddr,
    is_sealed: bool,
    /// The largest packet that passes.
    packet: u16,
    /// When a larger one is to be tried.
    probe_at: Instant,
}

impl NarrowPaths {
    pub(crate) fn new() -> NarrowPaths {
        NarrowPaths(Vec::with_capacity(NARROW_MAX))
    }

    /// Notes what a path carries (by which leg, to whom, and whether it was proven by an encrypted flow); `None`: as much as the interface. In a full table the oldest makes room of those that share a /64 of IPv6
    /// with the most others: one host has as many addresses there as it likes.
    #[cold]
    pub(crate) fn note(&mut self, to: (u8, IpAddr, bool), packet: Option<u16>, probe_at: Instant) {
        let (leg, ip, is_sealed) = to;
        self.0.retain(|n| (n.leg, n.ip, n.is_sealed) != to);
        let Some(packet) = packet else { return };
        if self.0.len() == NARROW_MAX {
            let neighbours = |i: &usize| self.0.iter().filter(|n| site(n.ip) == site(self.0[*i].ip)).count();
            let first = (0..self.0.len()).min_by_key(|i| std::cmp::Reverse(neighbours(i)));
            self.0.remove(first.unwrap_or(0));
        }
        self.0.push(Narrow { leg, ip, is_sealed, packet, probe_at });
    }

    /// What is known of a path. What should have been tried long ago is not.
    pub(crate) fn find(&self, now: Instant, to: (u8, IpAddr, bool)) -> Option<(u16, Instant)> {
        let n = self.0.iter().find(|n| (n.leg, n.ip, n.is_sealed) == to)?;
        (now < n.probe_at + NARROW_FORGOTTEN).then_some((n.packet, n.probe_at))
    }
}

/// An IPv4 address, or the network that an IPv6 host has for itself.
fn site(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
    }
}

impl Flow {
    fn is_sealed(&self) -> bool {
        self.shield != Shield::Plain
    }

    fn path_key(&self) -> (u8, IpAddr, bool) {
        (self.leg, self.remote.ip(), self.is_sealed())
    }

    /// Bytes of a packet beside the bytes of a message.
    fn overhead(&self) -> u16 {
        let tag = if self.is_sealed() { TAG_LEN } else { 0 };
        ((if self.remote.is_ipv6() { 40 } else { 20 }) + 8 + DATA_HEADER_LEN + tag) as u16
    }

    /// Begins with what is known of the path to the host.
    pub(crate) fn begin_path(&mut self, now: Instant, known: &NarrowPaths) {
        let known = if self.pieces { known.find(now, self.path_key()) } else { None };
        if let Some((packet, probe_at)) = known {
            let payload = packet.saturating_sub(self.overhead());
            self.mtu.begin_at(payload, probe_at);
        }
    }

    /// Tells what this flow has found out, once.
    #[cold]
    pub(crate) fn tell_path(&mut self, known: &mut NarrowPaths) {
        self.mtu.is_news = false;
        let packet = (self.mtu.units < self.mtu.cap).then(|| self.mtu.limit + self.overhead());
        known.note(self.path_key(), packet, self.mtu.probe_at);
    }
}

impl PathMtu {
    /// Of a flow that is not open yet, or whose peer takes no pieces.
    pub(crate) fn off(mss: u16) -> PathMtu {
        PathMtu {
            limit: mss,
            suspect: u16::MAX,
            mss,
            unit: mss.div_ceil(PIECES),
            units: WHOLE,
            base: WHOLE,
            least: WHOLE,
            cap: WHOLE,
            strikes: 0,
            strike_at: Instant::ZERO,
            struck: u16::MAX,
            candidate: WHOLE,
            fails: 0,
            too_large: WHOLE + 1,
            is_probing: false,
            probed: 0,
            failed: 0,
            probe_at: Instant::FAR_FUTURE,
            rest: None,
            is_news: false,
        }
    }

    /// Of a flow whose peer takes pieces.
    pub(crate) fn new(mss: u16, ipv6: bool, is_sealed: bool) -> PathMtu {
        let mut path = PathMtu::off(mss);
        let headers = if ipv6 { 40 } else { 20 } + 8 + DATA_HEADER_LEN + if is_sealed { TAG_LEN } else { 0 };
        let fit = |packet: u16| ((packet - headers as u16) / path.unit).clamp(1, PIECES) as u8;
        (path.base, path.least) = (fit(BASE_PACKET), fit(LEAST_PACKET));
        path.settle(WHOLE);
        path.is_news = false;
        path
    }

    /// So much is known to pass, and more to be tried at `probe_at`.
    fn begin_at(&mut self, payload: u16, probe_at: Instant) {
        if payload < self.mss {
            self.settle((payload / self.unit).clamp(1, PIECES - 1) as u8);
            self.search_from(probe_at);
            self.is_news = false;
        }
    }

    /// Whether there is something to [tell](Flow::tell_path).
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.is_news
    }

    /// Payload bytes of so many of the smallest pieces.
    fn bytes(&self, units: u8) -> u16 {
        if units >= WHOLE { self.mss } else { self.unit * u16::from(units) }
    }

    fn settle(&mut self, units: u8) {
        self.is_news = true;
        self.units = units;
        self.limit = self.bytes(units);
        self.suspect = if self.least < units { self.bytes(self.least) } else { u16::MAX };
        self.forget_strikes();
    }

    fn forget_strikes(&mut self) {
        (self.strikes, self.struck) = (0, u16::MAX);
    }

    /// The next size to fall to that is smaller than the packets that were lost.
    fn lower(&self) -> Option<u8> {
        let is_lower = |lower: &u8| *lower < self.units && self.bytes(*lower) < self.struck;
        [self.base, self.least].into_iter().find(is_lower)
    }

    /// Payload bytes of the largest packet that is known to pass, or not known not to.
    pub(crate) fn payload_max(&self) -> u16 {
        self.limit
    }

    /// A segment of so many bytes arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, len: u16) {
        if self.strikes > 0 && len.min(self.limit) >= self.struck {
            self.forget_strikes();
        }
    }

    /// A segment of so many bytes seems to be lost.
    #[inline]
    pub(crate) fn missed(&mut self, now: Instant, len: u16, rtt: Duration) -> Option<MtuNews> {
        if len > self.suspect { self.strike(now, len, rtt) } else { None }
    }

    #[cold]
    fn strike(&mut self, now: Instant, len: u16, rtt: Duration) -> Option<MtuNews> {
        if now < self.strike_at {
            return None;
        }
        self.strike_at = now + rtt;
        self.strikes += 1;
        self.struck = self.struck.min(len.min(self.limit));
        if self.strikes < STRIKES_MAX {
            return None;
        }
        let lower = self.lower()?;
        self.settle(lower);
        self.search_from(now + pause(rtt));
        Some(MtuNews::BlackHole)
    }

    /// Nothing is known to be too large: the largest is tried first.
    fn search_from(&mut self, probe_at: Instant) {
        (self.candidate, self.fails, self.too_large) = (self.cap, 0, self.cap + 1);
        (self.is_probing, self.probe_at, self.is_news) = (false, probe_at, true);
        self.failed = 0;
    }

    /// The interface carries so many bytes of payload from now on. False: not even the smallest piece.
    pub(crate) fn cap(&mut self, now: Instant, payload: u16) -> bool {
        let cap = if payload >= self.mss { WHOLE } else { (payload / self.unit).min(PIECES - 1) as u8 };
        if cap == 0 {
            return false;
        }
        self.cap = cap;
        self.settle(self.units.min(cap));
        self.search_from(if self.units < cap { now } else { Instant::FAR_FUTURE });
        if let Some(rest) = &mut self.rest {
            rest.step = rest.step.min(self.limit);
        }
        true
    }

    /// Whether a new segment of so many bytes should leave as a probe. One that is shorter than the size to be tried tries its own:
    /// there may never be a longer one.
    #[inline]
    pub(crate) fn wants_probe(&self, now: Instant, len: u16) -> bool {
        len > self.limit && now >= self.probe_at && !self.is_probing
    }

    /// The first packet of a segment.
    #[inline]
    pub(crate) fn first(&mut self, seq: u32, seg: &Segment, is_probe: bool) -> Part {
        if seg.len <= self.limit {
            return Part::whole(seg);
        }
        if is_probe {
            self.is_probing = true;
            self.probed = self.candidate.min(seg.len.div_ceil(self.unit) as u8);
        }
        let step = self.bytes(if is_probe { self.probed } else { self.units });
        self.cut(Rest { seq, at: 0, step }, seg)
    }

    fn cut(&mut self, rest: Rest, seg: &Segment) -> Part {
        let Rest { seq, at, step } = rest;
        let len = step.min(seg.len - at);
        let end = at + len;
        let is_last = end == seg.len;
        self.rest = (!is_last).then_some(Rest { seq, at: end, step });
        Part { at, len, is_piece: len != seg.len, is_last }
    }

    /// Whether a segment has left in part.
    #[inline]
    pub(crate) fn has_rest(&self) -> bool {
        self.rest.is_some()
    }

    /// The next packet of the segment that has left in part, if it is still wanted.
    #[cold]
    pub(crate) fn next(&mut self, tx: &Sender, segs: &[Packed]) -> Option<(u32, Segment, Part)> {
        let rest = self.rest.take()?;
        let seg = tx.outstanding_segment(segs, rest.seq)?;
        let is_wanted = seg.flags & (SACKED | LOST) == 0 && rest.at < seg.len;
        is_wanted.then(|| (rest.seq, seg, self.cut(rest, &seg)))
    }

    /// The probe arrived.
    #[cold]
    pub(crate) fn probe_arrived(&mut self, now: Instant, raise: Duration) -> Option<MtuNews> {
        if !std::mem::take(&mut self.is_probing) {
            return None;
        }
        self.settle(self.probed.max(self.units));
        (self.fails, self.failed) = (0, 0);
        self.probe_at = now;
        self.choose_candidate(now, raise);
        Some(MtuNews::Raised)
    }

    /// The probe is lost, or was sent again before it was known what became of it.
    #[cold]
    pub(crate) fn probe_lost(&mut self, now: Instant, rtt: Duration, raise: Duration) -> Option<MtuNews> {
        if !std::mem::take(&mut self.is_probing) {
            return None;
        }
        self.fails += 1;
        // Of probes of several sizes the largest is the one that is known not to pass.
        self.failed = self.failed.max(self.probed);
        self.probe_at = now + pause(rtt);
        if self.fails >= PROBES_MAX {
            self.fails = 0;
            self.too_large = std::mem::take(&mut self.failed);
            self.choose_candidate(now, raise);
        }
        Some(MtuNews::ProbeLost)
    }

    /// The receiver had no room for the probe, which says nothing of its size.
    #[cold]
    pub(crate) fn probe_refused(&mut self, now: Instant, rtt: Duration) {
        if std::mem::take(&mut self.is_probing) {
            self.probe_at = now + pause(rtt);
        }
    }

    /// Which size comes next: in the middle between what passes and what does not, until nothing is between them.
    fn choose_candidate(&mut self, now: Instant, raise: Duration) {
        self.candidate = (self.units + self.too_large) / 2;
        if self.units == self.cap {
            self.search_from(Instant::FAR_FUTURE);
        } else if self.too_large > self.cap {
            self.candidate = self.cap;
        } else if self.candidate <= self.units {
            self.search_from(now + raise);
        }
    }
}

fn pause(rtt: Duration) -> Duration {
    rtt.saturating_mul(PROBE_PAUSE_TRIPS).max(PROBE_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(100);
    const RAISE: Duration = Duration::from_secs(60);

    fn t(us: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + us * 1000)
    }

    fn seg(len: u16) -> Segment {
        Segment { msg: 0, offset: 0, sent: 0, len, flags: 0 }
    }

    /// Four losses at least a round trip apart.
    fn swallow(path: &mut PathMtu, from: u64) -> Option<MtuNews> {
        (0..4).map(|i| path.missed(t(from + i * 200), path.mss, RTT)).last().flatten()
    }

    #[test]
    fn a_path_falls_for_what_lasts_and_for_nothing_else() {
        let mut path = PathMtu::new(1448, false, false);
        assert_eq!(path.payload_max(), 1448);
        // Many at one time, small ones, and some between which one arrives.
        for _ in 0..100 {
            assert_eq!(path.missed(t(0), 1448, RTT), None);
            assert_eq!(path.missed(t(0), 300, RTT), None);
        }
        for i in 0..100 {
            path.arrived(1448);
            assert_eq!(path.missed(t(i * 1_000), 1448, RTT), None);
        }
        path.arrived(1448);
        assert_eq!(swallow(&mut path, 200_000), Some(MtuNews::BlackHole));
        let base = path.payload_max();
        assert!((1_000..=1_120).contains(&base), "{base}");
        assert_eq!(swallow(&mut path, 300_000), Some(MtuNews::BlackHole));
        let least = path.payload_max();
        assert!((300..=432).contains(&least), "{least}");
        assert_eq!(swallow(&mut path, 400_000), None, "there is nothing below");
        // Without an agreement nothing is learnt.
        assert_eq!(swallow(&mut PathMtu::off(1448), 0), None);
        // What is small enough already does not fall.
        let mut small = PathMtu::new(220, false, false);
        assert_eq!((swallow(&mut small, 0), small.payload_max()), (None, 220));
    }

    #[test]
    fn parts_cover_a_segment_and_fit() {
        for mss in [64u16, 100, 447, 1448, 1432, 4_000, 8_948, 65_000] {
            for v6 in [false, true] {
                let mut path = PathMtu::new(mss, v6, true);
                let segment = seg(mss);
                assert_eq!(path.first(1, &segment, false), Part::whole(&segment));
                if swallow(&mut path, 0).is_none() {
                    continue;
                }
                let (mut at, mut part) = (0, path.first(1, &segment, false));
                loop {
                    assert_eq!(part.at, at);
                    assert!(part.is_piece && part.len <= path.payload_max() && part.at % path.unit == 0);
                    // A packet of a segment so large that its pieces do not fit is the exception.
                    assert!(path.payload_max() <= 1_120 || path.units == 1, "{mss}");
                    at += part.len;
                    let Some(rest) = path.rest.take() else { break };
                    part = path.cut(rest, &segment);
                }
                assert!(part.is_last && at == mss);
                let short = seg(path.payload_max());
                assert_eq!(path.first(2, &short, false), Part::whole(&short));
            }
        }
    }

    #[test]
    fn narrow_paths_are_remembered_for_a_while_and_not_without_end() {
        let mut known = NarrowPaths::new();
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        let note = |known: &mut NarrowPaths, n, packet, at| known.note((0, ip(n), false), packet, t(at));
        for n in 0..1_000 {
            note(&mut known, n, Some(1_400), n.into());
        }
        assert_eq!(known.0.len(), NARROW_MAX);
        assert_eq!(known.find(t(0), (0, ip(999), false)), Some((1_400, t(999))));
        assert_eq!(known.find(t(1_000) + NARROW_FORGOTTEN, (0, ip(999), false)), None);
        assert_eq!(known.find(t(0), (0, ip(0), false)), None);
        note(&mut known, 999, Some(1_300), 5);
        assert_eq!(known.find(t(0), (0, ip(999), false)), Some((1_300, t(5))));
        // By another leg the path may carry more.
        assert_eq!(known.find(t(0), (1, ip(999), false)), None);
        note(&mut known, 999, None, 5);
        assert_eq!(known.find(t(0), (0, ip(999), false)), None);
    }

    #[test]
    fn what_one_host_makes_us_note_costs_no_other_its_place() {
        let mut known = NarrowPaths::new();
        let v4 = IpAddr::from([10, 0, 0, 1]);
        let v6 = |net: u128, n: u128| IpAddr::from((0xfd00_u128 << 112 | net << 64 | n).to_be_bytes());
        known.note((0, v4, true), Some(1_400), t(0));
        known.note((0, v6(1, 1), false), Some(1_400), t(1));
        for n in 0..1_000 {
            known.note((0, v6(2, n), false), Some(600), t(2 + n as u64));
        }
        assert_eq!(known.0.len(), NARROW_MAX);
        assert_eq!(known.find(t(0), (0, v4, true)), Some((1_400, t(0))));
        assert_eq!(known.find(t(0), (0, v6(1, 1), false)), Some((1_400, t(1))));
        assert_eq!(known.find(t(0), (0, v6(2, 999), false)), Some((600, t(1_001))));
        assert_eq!(known.find(t(0), (0, v6(2, 0), false)), None);
        // What is said in the clear is nothing to encrypted flows.
        known.note((0, v4, false), Some(600), t(5));
        assert_eq!(known.find(t(0), (0, v4, true)), Some((1_400, t(0))));
        known.note((0, v4, false), None, t(5));
        assert_eq!(known.find(t(0), (0, v4, true)), Some((1_400, t(0))));
    }

    #[test]
    fn a_probe_that_was_refused_for_want_of_room_says_nothing_of_its_size() {
        let mut path = PathMtu::new(1448, false, false);
        swallow(&mut path, 0);
        let mut now = 0;
        for _ in 0..10 {
            now += 20_000;
            assert!(path.wants_probe(t(now), 1448));
            assert_eq!(path.first(0, &seg(1448), true), Part::whole(&seg(1448)));
            path.probe_refused(t(now), RTT);
            assert!(!path.wants_probe(t(now), 1448), "not at once");
        }
    }

    #[test]
    fn short_segments_try_their_own_size_and_fall_for_less() {
        let mut path = PathMtu::new(1448, false, false);
        swallow(&mut path, 0);
        assert!(!path.wants_probe(t(20_000), path.limit));
        assert!(path.wants_probe(t(20_000), 1_300));
        assert_eq!(path.first(0, &seg(1_300), true), Part::whole(&seg(1_300)));
        assert_eq!(path.probe_arrived(t(20_000), RAISE), Some(MtuNews::Raised));
        assert!((1_300..1_448).contains(&path.limit), "{}", path.limit);
        assert!(!path.wants_probe(t(40_000), 1_300) && path.wants_probe(t(40_000), 1_448));
        // Lost four times: a size that is smaller than they are. What is shorter and arrives refutes nothing.
        for (i, len) in (1..=4).zip([700, 1_000, 700, 900]) {
            path.arrived(699);
            let news = path.missed(t(i * 100_000), len, RTT);
            assert_eq!(news, (i == 4).then_some(MtuNews::BlackHole));
        }
        assert!(path.limit <= 432, "{}", path.limit);
    }

    /// Whatever passes, the search finds the largest of the sixteen sizes that does, and comes back to it.
    #[test]
    fn the_search_finds_what_passes() {
        for passes in 1_150..=1_500 {
            let mut path = PathMtu::new(1448, false, false);
            let (mut now, mut probes) = (0, 0);
            swallow(&mut path, now);
            loop {
                now += 20_000;
                if path.probe_at > t(now) {
                    break;
                }
                assert!(path.wants_probe(t(now), 1448));
                let part = path.first(0, &seg(1448), true);
                path.rest = None;
                probes += 1;
                match part.len + 80 <= passes {
                    true => path.probe_arrived(t(now), RAISE),
                    false => path.probe_lost(t(now), RTT, RAISE),
                };
                assert!(probes < 20);
            }
            let found = path.payload_max();
            assert!(found + 80 <= passes || found <= 1_120, "{found} of {passes}");
            assert!(found == 1448 || found + 80 + path.unit > passes, "{found} of {passes}");
            if found == 1448 {
                assert_eq!(path.probe_at, Instant::FAR_FUTURE);
            } else {
                assert!(path.wants_probe(t(now) + RAISE, 1448), "it looks again");
            }
        }
    }
}
