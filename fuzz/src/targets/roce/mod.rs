//! RDMA under attack.
//!
//! An input is a script against a [`World`](world::World) with an honest connection between a victim and a peer:
//!
//! | who | what it can | what it may achieve |
//! | --- | --- | --- |
//! | the hostile peer | any packet in its own name, with a good ICRC, on its connection and to the connection manager | the end of its own connection |
//! | a nosy attacker | packets of the honest connection, sent from another address | nothing |
//! | a bad wire | changes bits without mending the ICRC | nothing |
//! | a careless application | verbs in any order, on the victim and on the hostile peer | errors |
//!
//! After any of it the honest connection carries what was under way and more, each operation once.

mod verbs;
mod world;

use crate::bytes::Bytes;
use crate::frames::mac;
use barewire_base::Duration;
use barewire_roce::Verdict;
use barewire_wire::ipv4;
use barewire_wire::roce::{MASK_24, Opcode, Segment, icrc};
use world::{HONEST, HOSTILE, Seen, VICTIM, World};

/// Most steps of a script.
const STEPS_MAX: usize = 400;
/// Where headers start in the frames of these stations, which are IPv4 without a tag.
const IP_AT: usize = 14;
const UDP_AT: usize = 34;
const BTH_AT: usize = 42;

/// Makes checksum and ICRC right again, as far as the lengths in the frame allow.
fn seal(frame: &mut [u8]) -> bool {
    if frame.len() < BTH_AT {
        return false;
    }
    ipv4::Packet::new_unchecked(&mut frame[IP_AT..UDP_AT]).fill_checksum();
    icrc::fill(&mut frame[IP_AT..]).is_ok()
}

/// Makes lengths those of the frame, whatever was done to it.
fn fit(frame: &mut [u8]) {
    if frame.len() < BTH_AT {
        return;
    }
    let len = (frame.len() - IP_AT) as u16;
    frame[IP_AT + 2..IP_AT + 4].copy_from_slice(&len.to_be_bytes());
    frame[UDP_AT + 4..UDP_AT + 6].copy_from_slice(&(len - 20).to_be_bytes());
}

struct Attack<'a> {
    world: World,
    script: Bytes<'a>,
    things: u64,
}

impl Attack<'_> {
    /// A frame that went from one of two stations to the other.
    fn pick(&mut self, ends: [usize; 2]) -> Option<Seen> {
        let nth = usize::from(self.script.u8()?);
        let of = |s: &&Seen| ends.contains(&s.from) && ends.contains(&s.to);
        let count = self.world.seen.iter().filter(of).count();
        (count > 0).then(|| self.world.seen.iter().filter(of).nth(nth % count).cloned())?
    }

    /// Up to seven bytes behind the UDP header changed.
    fn edit(&mut self, frame: &mut [u8]) -> Option<()> {
        for _ in 0..=self.script.u8()? % 7 {
            let (place, change) = (self.script.u8()?, self.script.u8()?);
            let body = frame.get_mut(BTH_AT..).filter(|b| !b.is_empty())?;
            // The headers four times out of five.
            let place = if place < 200 { usize::from(place) % 48 } else { usize::from(place) * 7 };
            let place = place % body.len();
            body[place] ^= change;
        }
        Some(())
    }

    fn inject(&mut self, to: usize, frame: &[u8]) -> Verdict {
        self.things += 1;
        self.world.inject(to, frame)
    }

    /// One step; `None`: the script is over.
    fn step(&mut self) -> Option<()> {
        let op = self.script.u8()?;
        match op & 0x0f {
            // The hostile connection's frames with anything changed, in both directions.
            0..=2 => {
                let mut seen = self.pick([VICTIM, HOSTILE])?;
                self.edit(&mut seen.frame)?;
                seal(&mut seen.frame);
                self.inject(seen.to, &seen.frame);
            }
            // Replayed as they were, or longer or shorter.
            3 => {
                let mut seen = self.pick([VICTIM, HOSTILE])?;
                let len = self.script.u8()?;
                if op & 0x10 != 0 {
                    let more = self.script.take(usize::from(len) % 64);
                    seen.frame.extend_from_slice(more);
                    fit(&mut seen.frame);
                } else if op & 0x20 != 0 {
                    seen.frame.truncate(usize::from(len) * 2);
                    fit(&mut seen.frame);
                } else if op & 0x40 != 0 {
                    seen.frame.truncate(usize::from(len) * 2);
                }
                seal(&mut seen.frame);
                self.inject(seen.to, &seen.frame);
            }
            // At the sequence number that is expected, or near it, for a queue pair that lives.
            4..=6 => self.in_sequence(op)?,
            7 => self.nosy(op)?,
            8 => {
                // A bad wire: damage with the old ICRC is never taken in.
                let mut seen = self.pick([VICTIM, HOSTILE])?;
                let before = seen.frame.clone();
                self.edit(&mut seen.frame)?;
                // The congestion bits may change on the way, so they are not covered.
                let covered = |f: &[u8]| [&f[..BTH_AT + 4], &f[BTH_AT + 5..]].concat();
                let verdict = self.inject(seen.to, &seen.frame);
                assert!(
                    covered(&seen.frame) == covered(&before) || matches!(verdict, Verdict::Drop(_)),
                    "damage was taken in: {:02x?}",
                    seen.frame
                );
            }
            9 => {
                let time = Duration::from_micros(u64::from(self.script.u16()?) % 4000);
                self.world.pump(time, op & 0x10 != 0);
            }
            10 => {
                // From anywhere: an address that nobody has.
                let mut seen = self.pick([VICTIM, HOSTILE])?;
                let host = self.script.u8()?;
                if host <= 3 || seen.frame.len() < BTH_AT {
                    return Some(());
                }
                seen.frame[IP_AT + 15] = host;
                if op & 0x10 != 0 {
                    seen.frame[11] = host;
                }
                self.edit(&mut seen.frame)?;
                seal(&mut seen.frame);
                self.inject(seen.to, &seen.frame);
            }
            _ => {
                let at = if op & 0x80 == 0 { VICTIM } else { HOSTILE };
                self.things += 1;
                verbs::verb(&mut self.world, at, &mut self.script)?;
            }
        }
        Some(())
    }

    fn in_sequence(&mut self, op: u8) -> Option<()> {
        let mut seen = self.pick([VICTIM, HOSTILE])?;
        let (which, opcode, off) = (self.script.u8()?, self.script.u8()?, self.script.u8()?);
        let station = &self.world.stations[seen.to];
        let qps = &station.objects.qps;
        let qpn = *qps.get(usize::from(which) % qps.len().max(1))?;
        let Ok(view) = station.ep.query_qp(qpn) else { return Some(()) };
        let frame = &mut seen.frame;
        if frame.len() < BTH_AT + 16 {
            return Some(());
        }
        if op & 0x10 != 0 {
            frame[BTH_AT] = Opcode::ALL[usize::from(opcode) % Opcode::ALL.len()].0;
        }
        frame[BTH_AT + 4..BTH_AT + 8].copy_from_slice(&qpn.number().to_be_bytes());
        // A request at the responder's number, an answer at the requester's.
        let base = if op & 0x20 == 0 { view.rq_psn } else { view.sq_psn };
        let off = if off & 1 == 0 { 0 } else { i32::from(off as i8) / 2 };
        let psn = base.wrapping_add_signed(off) & MASK_24 | u32::from(op & 0x40) << 25;
        frame[BTH_AT + 8..BTH_AT + 12].copy_from_slice(&psn.to_be_bytes());
        if op & 0x80 != 0 {
            let len = usize::from(self.script.u8()?) * 2;
            frame.resize(len.max(BTH_AT + 16), 0);
            fit(frame);
        }
        self.edit(&mut seen.frame)?;
        seal(&mut seen.frame);
        self.inject(seen.to, &seen.frame);
        Some(())
    }

    /// A frame of the honest connection, sent from elsewhere.
    fn nosy(&mut self, op: u8) -> Option<()> {
        let mut seen = self.pick([VICTIM, HONEST])?;
        let host = self.script.u8()?;
        let source = if op & 0x10 == 0 { HOSTILE as u8 + 1 } else { host.max(4) };
        seen.frame[IP_AT + 15] = source;
        if op & 0x20 != 0 {
            seen.frame[6..12].copy_from_slice(&mac(source).0);
        }
        if op & 0x40 != 0 {
            self.edit(&mut seen.frame)?;
        }
        seal(&mut seen.frame);
        let datagram = Segment::parse(&seen.frame[BTH_AT..]).is_ok_and(|s| s.shape.datagram);
        let honest = self.world.stations[seen.to].safe.as_ref().map(|s| s.qpn.number());
        let target =
            u32::from_be_bytes([0, seen.frame[BTH_AT + 5], seen.frame[BTH_AT + 6], seen.frame[BTH_AT + 7]]);
        let verdict = self.inject(seen.to, &seen.frame);
        // The connection manager may be asked by anybody.
        assert!(
            datagram || Some(target) != honest || matches!(verdict, Verdict::Drop(_)),
            "a stranger was let in: {:02x?}",
            seen.frame
        );
        Some(())
    }
}

/// `data` as a script of packets and verbs.
pub fn roce(data: &[u8]) -> u64 {
    let mut attack = Attack { world: World::new(), script: Bytes(data), things: 0 };
    for _ in 0..STEPS_MAX {
        if attack.step().is_none() {
            break;
        }
    }
    attack.world.finish();
    attack.things
}

/// Scripts of every step.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut rng = barewire_base::Prng::new(0x5ca1e);
    let mut corpus: Vec<Vec<u8>> = (0..16u8)
        .map(|op| {
            // The same step over and over, with each frame in turn.
            let mut script = Vec::new();
            for nth in 0..60 {
                let mut rest = [0; 16];
                rng.fill(&mut rest);
                script.extend([op | (nth % 16) << 4, nth]);
                script.extend_from_slice(&rest);
            }
            script
        })
        .collect();
    // Few steps each, so that the hostile connection lives for some of them; and long mixtures.
    corpus.extend((0..64u8).map(|i| {
        let mut script = vec![0; if i % 4 == 0 { 1024 } else { 48 }];
        rng.fill(&mut script);
        script
    }));
    corpus.push(Vec::new());
    corpus
}
