//! Reads that are asked for again, whole or in part, as other implementations do when an answer was lost.

mod common;
use barewire_base::DropReason;
use barewire_roce::*;
use barewire_wire::roce::ext::Reth;
use barewire_wire::roce::{Opcode, Segment, bth};
use common::*;
use proptest::prelude::*;

/// Packets of the read that is repeated, and its bytes.
const PACKETS: u32 = 5;
const LEN: u32 = 4 * 1024 + 100;

struct Reader {
    p: Pair,
    request: Vec<u8>,
    psn: u32,
    rkey: u32,
    data: Vec<u8>,
}

/// What the responder answers: opcode, sequence number, payload.
type Answers = Vec<(Opcode, u32, Vec<u8>)>;

impl Reader {
    /// A read that was answered.
    fn new() -> Reader {
        let mut p = Pair::new();
        let [(_, a), _] = p.connect();
        let rkey = p.ends[1].mr.rkey;
        let data = pattern(LEN as usize, 5);
        p.ends[1].fill(1000, &data);
        p.post(0, a, 1, SendOp::Read { addr: BASE + 1000, rkey }, 0, LEN as usize);
        let (now, mut buf) = (p.now, vec![0; 5000]);
        let len = p.ends[0].ep.poll_transmit(now, &mut buf).unwrap();
        let request = buf[..len].to_vec();
        let psn = Segment::parse(datagram(&request)).unwrap().bth.psn;
        Reader { p, request, psn, rkey, data }
    }

    /// Gives the responder a request for `len` bytes from byte `from` of the read, at the sequence number of packet `packet`.
    fn ask(&mut self, packet: u32, from: i64, len: u32, rkey: u32) -> Verdict {
        let mut frame = self.request.clone();
        // Ethernet 14, IPv4 20, UDP 8.
        let head = bth::Repr {
            psn: (self.psn + packet) & 0xff_ffff,
            ..Segment::parse(datagram(&frame)).unwrap().bth
        };
        head.emit(&mut bth::Packet::new_unchecked(&mut frame[42..54]));
        Reth { addr: (BASE + 1000).wrapping_add_signed(from), rkey, len }.emit(&mut frame[54..]);
        seal(&mut frame);
        let now = self.p.now;
        self.p.ends[1].ep.handle_frame(now, &frame)
    }

    fn answers(&mut self) -> Answers {
        let (now, mut buf, mut out) = (self.p.now, vec![0; 5000], Vec::new());
        while let Some(len) = self.p.ends[1].ep.poll_transmit(now, &mut buf) {
            let segment = Segment::parse(datagram(&buf[..len])).unwrap();
            let place = segment.bth.psn.wrapping_sub(self.psn) & 0xff_ffff;
            out.push((segment.bth.opcode, place, segment.payload.to_vec()));
        }
        out
    }

    fn check(&mut self, packet: u32, from: usize, len: usize) {
        assert_eq!(self.ask(packet, from as i64, len as u32, self.rkey), Verdict::Consumed);
        let answers = self.answers();
        let want = len.div_ceil(1024).max(1);
        assert_eq!(answers.len(), want);
        let bytes: Vec<u8> = answers.iter().flat_map(|a| a.2.clone()).collect();
        assert!(bytes == self.data[from..from + len]);
        for (i, (opcode, psn, _)) in answers.iter().enumerate() {
            assert_eq!(*psn, packet + i as u32);
            let expected = match (i == 0, i + 1 == want) {
                (true, true) => Opcode::READ_RESPONSE_ONLY,
                (true, false) => Opcode::READ_RESPONSE_FIRST,
                (false, true) => Opcode::READ_RESPONSE_LAST,
                (false, false) => Opcode::READ_RESPONSE_MIDDLE,
            };
            assert_eq!(*opcode, expected);
        }
    }
}

#[test]
fn a_part_is_answered_as_asked_for() {
    let mut r = Reader::new();
    r.check(0, 0, LEN as usize);
    // All that is left from the third packet on, as one that lost the second answer asks.
    r.check(2, 2048, LEN as usize - 2048);
    // Something in the middle; one packet; the first; the last.
    r.check(1, 1024, 2048);
    r.check(3, 3072, 1024);
    r.check(0, 0, 1024);
    r.check(4, 4096, 100);
    r.check(0, 0, LEN as usize);
    // Bytes are counted from any of those that were asked for.
    r.check(1, 500, 700);
    assert_eq!(r.p.ends[1].ep.counters().duplicates.get(), 7);
}

#[test]
fn what_was_not_asked_for_is_not_answered() {
    let mut r = Reader::new();
    r.check(0, 0, LEN as usize);
    let rkey = r.rkey;
    let pd = r.p.ends[1].pd;
    let memory = r.p.ends[1].memory.clone();
    let other = r.p.ends[1].ep.reg_mr(pd, memory, BASE, Access::ALL).unwrap();
    let dropped = Verdict::Drop(DropReason::Duplicate);
    for (packet, from, len, rkey) in [
        (0, -1, 10, rkey),
        (0, 0, LEN + 1, rkey),
        (4, 4096, 101, rkey),
        // More packets than are left of it.
        (4, 0, 1025, rkey),
        (0, 0, LEN, other.rkey),
        (0, 0, LEN, 0),
        (0, i64::MIN, 1, rkey),
        (0, 0, u32::MAX, rkey),
    ] {
        assert_eq!(r.ask(packet, from, len, rkey), dropped, "{packet} {from} {len}");
        assert_eq!(r.answers(), []);
    }
    // It is no new request either, and the connection lives.
    assert_eq!(r.ask(PACKETS, 0, 10, rkey), Verdict::Consumed);
    assert_eq!(r.answers().len(), 1);
}

/// A part is asked for while the answer to the whole is still being sent: the requester knows best what it lacks.
#[test]
fn a_part_interrupts_the_whole() {
    let mut r = Reader::new();
    assert_eq!(r.ask(0, 0, LEN, r.rkey), Verdict::Consumed);
    let (now, mut buf) = (r.p.now, vec![0; 5000]);
    for _ in 0..3 {
        r.p.ends[1].ep.poll_transmit(now, &mut buf).unwrap();
    }
    r.check(1, 1024, LEN as usize - 1024);
    assert_eq!(r.answers(), []);
    r.check(0, 0, LEN as usize);
}

#[test]
fn a_read_request_brings_no_bytes() {
    let mut r = Reader::new();
    let mut frame = r.request.clone();
    let at = frame.len() - 4;
    frame.splice(at..at, [0; 4]);
    for (at, len) in [(16, frame.len() - 14), (38, frame.len() - 34)] {
        frame[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
    }
    barewire_wire::ipv4::Packet::new_unchecked(&mut frame[14..34]).fill_checksum();
    seal(&mut frame);
    let now = r.p.now;
    r.p.ends[1].ep.handle_frame(now, &frame);
    assert_eq!(r.p.ends[1].ep.counters().nak_invalid_sent.get(), 1);
    r.p.exchange();
    assert_eq!(r.p.ends[0].completions()[0].status, WcStatus::RemoteInvalidRequest);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any part at any place: the bytes asked for, or silence.
    #[test]
    fn any_part(asks in proptest::collection::vec((0..PACKETS + 2, 0..LEN + 10, 0..LEN + 10), 1..8)) {
        let mut r = Reader::new();
        r.check(0, 0, LEN as usize);
        for (packet, from, len) in asks {
            let packets = len.div_ceil(1024).max(1);
            if from + len <= LEN && packet + packets <= PACKETS {
                r.check(packet, from as usize, len as usize);
            } else if packet < PACKETS {
                prop_assert_eq!(r.ask(packet, from.into(), len, r.rkey), Verdict::Drop(DropReason::Duplicate));
                prop_assert_eq!(r.answers().len(), 0);
            }
        }
    }
}
