use super::*;
use barewire_base::Prng;

fn t(us: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + us * 1000)
}

struct Rig {
    s: Sender,
    out: OutMessages,
    segs: Vec<Packed>,
    done: Vec<u64>,
}

impl Rig {
    fn new() -> Rig {
        let mut s = Sender::new(u32::MAX - 5);
        s.credit_limit = 1 << 20;
        Rig { s, out: OutMessages::new(64), segs: vec![[0; 2]; WINDOW_SEGMENTS], done: vec![] }
    }
    fn message(&mut self, len: u32, token: u64) {
        assert!(self.s.push(&mut self.out, SendBuf { owner: 0, offset: 0, len }, token));
    }
    fn send(&mut self, us: u64) -> Option<(u32, Segment)> {
        self.s.take_new(&mut self.segs, &mut self.out, 100, t(us))
    }
    fn ack(&mut self, us: u64, ack: u32, ranges: &[(u32, u32)]) -> AckOutcome {
        let done = &mut self.done;
        self.s.on_ack(
            &mut self.segs,
            &mut self.out,
            ack,
            ranges.iter().copied(),
            AckTime { now: stamp_of(t(us)), floor: 1, echo: 0 },
            &mut |m| done.push(m.token),
        )
    }
}

#[test]
fn a_message_is_cut_numbered_and_done_when_all_of_it_arrived() {
    let mut r = Rig::new();
    r.message(250, 1);
    r.message(0, 2);
    let first = r.s.nxt;
    let cut: Vec<_> = (0..4).map(|i| r.send(i).unwrap()).map(|(_, s)| (s.offset, s.len)).collect();
    assert_eq!(cut, [(0, 100), (100, 100), (200, 50), (0, 0)]);
    assert!(r.send(9).is_none());
    r.ack(1, first, &[(first.wrapping_add(1), first.wrapping_add(4))]);
    assert_eq!(r.done, [2]);
    r.ack(1, first.wrapping_add(4), &[]);
    assert_eq!(r.done, [2, 1]);
    assert_eq!((r.s.in_flight, r.out.used()), (0, 0));
}

#[test]
fn three_above_make_a_hole_a_loss_and_it_goes_first() {
    let mut r = Rig::new();
    for i in 0..5 {
        r.message(10, i);
        r.send(0);
    }
    let una = r.s.una;
    r.ack(1, una, &[(una.wrapping_add(1), una.wrapping_add(3))]);
    assert_eq!(r.s.detect_lost(&mut r.segs, t(1), Duration::from_micros(10)).count, 0);
    r.ack(1, una, &[(una.wrapping_add(1), una.wrapping_add(4))]);
    assert_eq!(r.s.detect_lost(&mut r.segs, t(1), Duration::from_micros(10)).count, 1);
    let (seq, seg) = r.s.take_lost(&mut r.segs, t(2)).unwrap();
    assert_eq!(seq, una);
    assert!(seg.flags & RESENT != 0);
    assert_eq!((r.s.lost, r.s.in_flight), (0, 2));
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut r = Rig::new();
    r.message(10, 1);
    r.send(0);
    assert!(r.ack(1, r.s.nxt.wrapping_add(1), &[]).bogus);
    let nxt = r.s.nxt;
    assert!(r.ack(1, r.s.una, &[(nxt, nxt.wrapping_add(9))]).bogus);
    assert!(r.ack(1, r.s.una.wrapping_sub(3), &[]).acked == 0);
    // Half a circle away: neither before nor after.
    let far = nxt.wrapping_sub((1 << 31) - 1);
    assert_eq!(r.ack(1, r.s.una, &[(far.wrapping_sub(200), far)]).acked, 0);
    assert_eq!(r.s.in_flight, 1);
    assert!(r.done.is_empty());
}

#[test]
fn credit_holds_messages_not_segments() {
    let mut r = Rig::new();
    r.s.credit_limit = 1;
    r.message(250, 1);
    r.message(10, 2);
    // The first message starts while any credit is left and then goes out whole.
    assert!(r.send(0).is_some() && r.send(0).is_some() && r.send(0).is_some());
    assert!(r.send(0).is_none() && r.s.is_blocked_by_credit());
    r.s.credit_limit = r.s.credit_used.wrapping_add(1);
    assert!(r.send(0).is_some());
}

#[test]
fn abandoning_reports_each_message_once() {
    for sent in 0..9 {
        let mut r = Rig::new();
        for i in 0..3 {
            r.message(250, i);
        }
        let una = r.s.una;
        for _ in 0..sent {
            r.send(0);
        }
        if sent >= 3 {
            r.ack(1, una, &[(una.wrapping_add(1), una.wrapping_add(3))]);
        }
        let mut failed = vec![];
        r.s.abandon(&r.segs, &mut r.out, &mut |m| failed.push(m.token));
        failed.extend(&r.done);
        failed.sort_unstable();
        assert_eq!(failed, [0, 1, 2], "after {sent} segments");
        assert_eq!(r.out.used(), 0);
    }
}

#[test]
fn any_order_of_acknowledgements_keeps_the_books_straight() {
    for seed in 0..300 {
        let mut p = Prng::new(seed);
        let mut r = Rig::new();
        let mut now = 0;
        let (mut pushed, mut arrived) = (0, vec![false; 0]);
        let first = r.s.nxt;
        for _ in 0..400 {
            now += p.below(20);
            match p.below(5) {
                0 if r.out.used() < 60 => {
                    r.message(p.below(500) as u32, pushed);
                    pushed += 1;
                }
                1 | 2 => {
                    let sent = r.s.take_lost(&mut r.segs, t(now)).or_else(|| r.send(now));
                    if let Some((seq, _)) = sent {
                        let i = seq.wrapping_sub(first) as usize;
                        arrived.resize(arrived.len().max(i + 1), false);
                        arrived[i] |= p.chance(0.7);
                    }
                }
                3 => {
                    let ack = first.wrapping_add(arrived.iter().take_while(|a| **a).count() as u32);
                    let ranges: Vec<_> = (0..arrived.len())
                        .filter(|&i| arrived[i])
                        .map(|i| (first.wrapping_add(i as u32), first.wrapping_add(i as u32 + 1)))
                        .collect();
                    r.ack(now, ack, &ranges);
                    r.s.detect_lost(&mut r.segs, t(now), Duration::from_micros(10));
                }
                _ => {
                    if let Some((seq, _)) = r.s.repeat(&mut r.segs, t(now), p.chance(0.5)) {
                        let i = seq.wrapping_sub(first) as usize;
                        arrived[i] |= p.chance(0.7);
                    }
                }
            }
            let (mut lost, mut flying, mut seq) = (0, 0, r.s.una);
            while seq != r.s.nxt {
                match Segment::unpack(r.segs[(seq & MASK) as usize]).flags & (SACKED | LOST) {
                    0 => flying += 1,
                    LOST => lost += 1,
                    _ => {}
                }
                seq = seq.wrapping_add(1);
            }
            assert_eq!((r.s.lost, r.s.in_flight), (lost, flying), "seed {seed}");
        }
    }
}

#[test]
fn a_probe_that_found_no_room_is_a_probe_no_more() {
    let (mut tx, mut out, mut segs) = (Sender::new(7), OutMessages::new(4), vec![[0; 2]; WINDOW_SEGMENTS]);
    tx.credit_limit = 1 << 20;
    assert!(tx.push(&mut out, SendBuf { owner: 0, offset: 0, len: 100 }, 1));
    let sent = Instant::from_nanos(1_000_000);
    let (seq, _) = tx.take_new(&mut segs, &mut out, 100, sent).unwrap();
    tx.mark_probe(&mut segs, seq);
    let later = sent + Duration::from_millis(1);
    tx.give_up_older(&mut segs, later, 1);
    assert!(std::mem::take(&mut tx.probe_gone), "the receiver's answer settles what became of it");
    // Sent again it is a segment like any other: it must not count as a probe that was lost.
    assert!(tx.take_lost(&mut segs, later).is_some());
    assert!(!tx.probe_gone);
}
