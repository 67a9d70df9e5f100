//! The message transport under attack.
//!
//! An input is a script of packets against a [`World`](world::World) with an open flow between a victim and an honest peer:
//!
//! | who | what it can | what it may achieve |
//! | --- | --- | --- |
//! | a bad wire | changes bits, cuts, repeats | nothing: CRC32C and sequence numbers |
//! | a blind attacker | valid packets from any address, without connection ids | half-open flows, bounded |
//! | a nosy attacker | valid packets with real connection ids, from another address | nothing: wrong peer |
//! | the hostile peer | anything, on its own flow | the end of its own flow |
//!
//! `transport_secure` is the same where the honest flow is encrypted, and adds:
//!
//! | who | what it can | what it may achieve |
//! | --- | --- | --- |
//! | a man on the path | anything but to hold packets back, with the right addresses, ids and CRCs | nothing: it has no keys |
//!
//! After any of it the honest flow is open at both ends, delivers what was under way, and carries more.

mod world;

use crate::bytes::Bytes;
use crate::frames::at;
use barewire_base::Duration;
use barewire_host::{Datagram, Verdict};
use barewire_wire::msg::{self, Kind};
use world::{HONEST, HOSTILE, Seen, VICTIM, World};

/// Most steps of a script.
const STEPS_MAX: usize = 512;

/// The kind that a packet claims to be.
fn is_kind(packet: &[u8], kind: Kind) -> bool {
    packet.get(4).is_some_and(|b| b & 0x0f == kind as u8)
}

fn seal(packet: &mut [u8]) {
    if packet.len() >= 4 {
        let crc = crc32c::crc32c(&packet[4..]);
        msg::set_crc(packet, crc);
    }
}

fn word(packet: &[u8], at: usize) -> Option<u64> {
    packet.get(at..)?.first_chunk().map(|b| u64::from_be_bytes(*b))
}

/// The attack on one world.
struct Attack<'a> {
    world: World,
    script: Bytes<'a>,
    /// Connection ids that only the two ends and the wire between them know.
    secrets: Vec<u64>,
    /// Ids that INITs of the attack named: what they opened, it may reset.
    own: Vec<u64>,
    packets: u64,
    /// The honest flow is encrypted.
    secure: bool,
}

impl Attack<'_> {
    /// A packet that `to` has seen from `from`.
    fn pick(&mut self, to: usize, from: usize) -> Option<Seen> {
        let nth = usize::from(self.script.u8()?);
        let seen = self.world.stations[to].seen.iter().filter(|s| s.from == from);
        let count = seen.clone().count();
        (count > 0).then(|| seen.clone().nth(nth % count).cloned())?
    }

    /// Up to seven bytes of the packet changed.
    fn edit(&mut self, bytes: &mut [u8]) -> Option<()> {
        for _ in 0..=self.script.u8()? % 7 {
            let (place, change) = (self.script.u8()?, self.script.u8()?);
            if bytes.is_empty() {
                return None;
            }
            // The header four times out of five.
            let place = if place < 200 { usize::from(place) % 80 } else { usize::from(place) * 31 };
            let place = place % bytes.len();
            bytes[place] ^= change;
        }
        Some(())
    }

    /// With the right bit in `op`, makes the packet one of another kind.
    fn rewrite(&mut self, op: u8, bytes: &mut [u8]) -> Option<()> {
        if op & 0x20 != 0
            && let Some(kind) = bytes.get_mut(4)
        {
            // Sealed kinds in the worlds that have them.
            *kind = msg::VERSION << 4 | (self.script.u8()? % if self.secure { 16 } else { 8 });
        }
        Some(())
    }

    fn inject(&mut self, to: usize, datagram: &Datagram, bytes: &[u8]) -> Verdict {
        self.packets += 1;
        if is_kind(bytes, Kind::Init) {
            self.own.extend(word(bytes, 40));
        }
        self.world.inject(to, datagram, bytes)
    }

    /// One step; `None`: the script is over.
    fn step(&mut self) -> Option<()> {
        let op = self.script.u8()?;
        let (to, from) = if op & 0x80 == 0 { (VICTIM, HONEST) } else { (HONEST, VICTIM) };
        match op & 0x0f {
            0 | 1 => {
                let seen = self.pick(to, from)?;
                let mut bytes = seen.bytes.clone();
                self.edit(&mut bytes)?;
                self.bad_wire(to, &seen, &bytes);
            }
            2 => {
                let seen = self.pick(to, from)?;
                let mut bytes = seen.bytes.clone();
                let len = usize::from(self.script.u8()?);
                if op & 0x10 == 0 {
                    bytes.truncate(len);
                } else {
                    let more = self.script.take(len % 32);
                    bytes.extend_from_slice(more);
                }
                self.bad_wire(to, &seen, &bytes);
            }
            3 => {
                let seen = self.pick(to, from)?;
                self.inject(to, &seen.datagram, &seen.bytes);
            }
            4..=6 => self.blind(op, to, from)?,
            7 | 8 => self.nosy(op, to, from)?,
            9 => {
                let source = at(self.script.u8()?, self.script.u16()?);
                let mut bytes = self.script.take(usize::from(op >> 4) * 16).to_vec();
                if op & 0x10 != 0 {
                    seal(&mut bytes);
                }
                let seen = self.world.stations[to].seen[0].clone();
                self.inject(to, &Datagram { src: source, ..seen.datagram }, &bytes);
            }
            10 => {
                let time = Duration::from_micros(u64::from(self.script.u16()?) % 2000);
                self.world.pump(time, op & 0x10 != 0);
            }
            11 => {
                // An INIT of the hostile peer, or of whoever it says it is.
                let seen = self.pick(VICTIM, HOSTILE)?;
                let (cid, source) = (self.script.u64()?, self.script.u8()?);
                if self.secrets.contains(&cid) {
                    return Some(());
                }
                let mut bytes = vec![0; msg::INIT_LEN];
                bytes[4] = msg::VERSION << 4 | Kind::Init as u8;
                bytes[40..48].copy_from_slice(&cid.to_be_bytes());
                bytes[48..50].copy_from_slice(&self.script.u16()?.to_be_bytes());
                bytes[50] = op >> 4;
                seal(&mut bytes);
                let source = if source < 128 { seen.datagram.src } else { at(source, u16::from(source) + 1) };
                self.inject(VICTIM, &Datagram { src: source, ..seen.datagram }, &bytes);
            }
            _ => {
                // The hostile peer on its own flow: everything is valid but the meaning.
                let seen = self.pick(VICTIM, HOSTILE)?;
                let mut bytes = seen.bytes.clone();
                self.edit(&mut bytes)?;
                if op & 0x10 != 0 {
                    bytes.truncate(usize::from(self.script.u8()?).max(msg::COMMON_LEN));
                }
                self.rewrite(op, &mut bytes)?;
                seal(&mut bytes);
                if self.knows_secrets(&bytes) {
                    return Some(());
                }
                self.inject(VICTIM, &seen.datagram, &bytes);
            }
        }
        Some(())
    }

    /// Whether `bytes` hold an id of the honest flow, which the sender could not know.
    fn knows_secrets(&self, bytes: &[u8]) -> bool {
        [8, 40].iter().any(|at| word(bytes, *at).is_some_and(|id| self.secrets.contains(&id)))
    }

    /// A packet of the honest flow, damaged on the way: whatever is not what was sent has to be dropped.
    fn bad_wire(&mut self, to: usize, seen: &Seen, bytes: &[u8]) {
        let verdict = self.inject(to, &seen.datagram, bytes);
        assert!(
            bytes == seen.bytes || matches!(verdict, Verdict::Drop(_)),
            "damage was taken in: {bytes:02x?}"
        );
    }

    /// A valid packet with the addresses of the honest flow, by somebody who has not seen one.
    fn blind(&mut self, op: u8, to: usize, from: usize) -> Option<()> {
        let seen = self.pick(to, from)?;
        let mut bytes = seen.bytes.clone();
        self.edit(&mut bytes)?;
        self.rewrite(op, &mut bytes)?;
        let (cid, other) = (self.script.u64()?, self.script.u64()?);
        if bytes.len() >= 16 {
            // One bit beside a real id is as good as any guess.
            let near = word(&seen.bytes, 8).unwrap_or(0) ^ 1 << (cid % 64);
            let cid = if cid & 0x100 == 0 {
                near
            } else if cid & 0x200 == 0 {
                0
            } else {
                cid
            };
            bytes[8..16].copy_from_slice(&cid.to_be_bytes());
        }
        if bytes.len() >= 48 {
            bytes[40..48].copy_from_slice(&other.to_be_bytes());
        }
        if self.knows_secrets(&bytes) {
            return Some(());
        }
        seal(&mut bytes);
        let verdict = self.inject(to, &seen.datagram, &bytes);
        let resets_own =
            is_kind(&bytes, Kind::Reset) && word(&bytes, 40).is_some_and(|id| self.own.contains(&id));
        let passes = is_kind(&bytes, Kind::Init) || resets_own || matches!(verdict, Verdict::Drop(_));
        assert!(passes, "a guess was taken in: {bytes:02x?}");
        Some(())
    }

    /// A valid packet with real connection ids, from somewhere else.
    fn nosy(&mut self, op: u8, to: usize, from: usize) -> Option<()> {
        let seen = self.pick(to, from)?;
        let mut bytes = seen.bytes.clone();
        self.edit(&mut bytes)?;
        self.rewrite(op, &mut bytes)?;
        if op & 0x60 == 0x60 && bytes.len() >= 48 {
            // The reset of a host that knows the flow no more, with the right proof.
            let id = self.secrets[usize::from(self.script.u8()?) % self.secrets.len()];
            bytes[8..16].fill(0);
            bytes[40..48].copy_from_slice(&id.to_be_bytes());
        }
        seal(&mut bytes);
        let (host, udp_port) = (self.script.u8()?, self.script.u16()?);
        if self.secure && op & 0x10 != 0 {
            // What it says, the finish judges: the flow lives and carries what was sent, and nothing else.
            self.inject(to, &seen.datagram, &bytes);
            return Some(());
        }
        let (mut source, real) = (at(host, udp_port), seen.datagram.src);
        if host & 1 == 0 {
            // Only the port differs.
            source.set_ip(real.ip());
        }
        if source == real {
            return Some(());
        }
        let verdict = self.inject(to, &Datagram { src: source, ..seen.datagram }, &bytes);
        let passes = is_kind(&bytes, Kind::Init) || matches!(verdict, Verdict::Drop(_));
        assert!(passes, "a stranger was let in: {bytes:02x?}");
        Some(())
    }
}

/// `data` as a script of packets.
pub fn transport(data: &[u8]) -> u64 {
    attack(data, false)
}

/// `data` as a script of packets against an encrypted flow.
pub fn transport_secure(data: &[u8]) -> u64 {
    attack(data, true)
}

fn attack(data: &[u8], secure: bool) -> u64 {
    let world = World::new(secure);
    // Ids stand in the header of what each end receives, and in INIT and ACCEPT where the flow begins.
    let ends = [(VICTIM, HONEST), (HONEST, VICTIM)];
    let seen = ends.iter().flat_map(|(to, from)| world.stations[*to].seen.iter().filter(|s| s.from == *from));
    let secrets = seen.filter_map(|s| word(&s.bytes, 8)).filter(|id| *id != 0).collect();
    let mut attack = Attack { world, script: Bytes(data), secrets, own: Vec::new(), packets: 0, secure };
    for _ in 0..STEPS_MAX {
        if attack.step().is_none() {
            break;
        }
    }
    attack.world.finish();
    attack.packets
}

/// Scripts of every step.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut rng = barewire_base::Prng::new(0xf1);
    let mut corpus: Vec<Vec<u8>> = (0..16u8)
        .map(|op| {
            // The same step over and over, with each packet in turn.
            let mut script = Vec::new();
            for nth in 0..60 {
                let mut rest = [0; 30];
                rng.fill(&mut rest);
                script.extend([op | (nth % 16) << 4, nth]);
                script.extend_from_slice(&rest);
            }
            script
        })
        .collect();
    // Few packets each, so that the hostile peer's flow lives for some of them.
    corpus.extend((0..32u8).map(|i| {
        let mut script = vec![0; 64];
        rng.fill(&mut script);
        script[0] = 12 + i % 4 + 16 * (i / 4 % 4);
        script
    }));
    corpus.push(Vec::new());
    corpus
}
