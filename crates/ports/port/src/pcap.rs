//! The pcap port: receives what a capture file holds, sends into another.

use crate::pcap_file::LINK_ETHERNET;
use crate::{
    ChecksumOffload, OpenError, PcapError, PcapPacket, PcapReader, PcapWriter, Port, PortCaps, PortCounters,
    PortError, PortUri, sys,
};
use barewire_base::{DropReason, Instant};
use barewire_frame::{Burst, ClockDomain, Frame, Pool, Stamp, StampSource};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Ethernet header, and with one VLAN tag.
const HEADER_MIN: u32 = 14;
const HEADER_MAX: u32 = 18;

/// How fast a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Speed {
    /// As fast as the receiver asks.
    #[default]
    Flat,
    /// By the file's stamps, this many times as fast as they were taken.
    Times(f64),
}

impl FromStr for Speed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Speed, Self::Err> {
        if text == "flat" {
            return Ok(Speed::Flat);
        }
        match text.parse::<f64>() {
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Speed::Times(times)),
            _ => Err("`flat` or a number above zero is expected"),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Flat => f.write_str("flat"),
            Speed::Times(times) => write!(f, "{times}"),
        }
    }
}

/// What a [`PcapPort`] is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct PcapConfig {
    /// The capture to receive from.
    pub input: Option<PathBuf>,
    /// The file to send into, created or emptied: classic pcap with nanoseconds.
    pub output: Option<PathBuf>,
    /// How fast the input is replayed.
    pub speed: Speed,
    /// How many times; zero: for ever.
    pub loops: u64,
    /// Added to the engine's time to make the output's stamps, in nanoseconds.
    pub epoch_ns: u64,
}

/// A capture as a port.
///
/// The input is read through once when the port is opened, so that a malformed file is refused at once, with the place.
/// Stamps are the file's own ([`ClockDomain::Capture`]). Packets that the capture cut are counted as `Truncated` and
/// skipped. While the pool is empty the replay waits: nothing is lost, paced frames come late. Frames sent without an
/// output file, and frames that cannot be written, are counted as `PortDown`.
pub struct PcapPort {
    input: Option<Replay>,
    output: Option<PcapWriter<File>>,
    pool: Pool,
    caps: PortCaps,
    counters: PortCounters,
    epoch_ns: u64,
    last_now: Instant,
    name: String,
}

struct Replay {
    reader: PcapReader<File>,
    speed: Speed,
    /// Rounds still to start after this one; `None`: for ever.
    rounds_left: Option<u64>,
    /// File time that is played at `origin`.
    base_ns: u64,
    origin: Option<Instant>,
    /// Due times of the last two packets: the gap between rounds is that between these.
    last_due: Instant,
    last_gap_ns: u64,
    next: Option<(Instant, Frame)>,
    /// This round has given a frame. The file may have become another since it was looked through, and a round for ever of one that
    /// gives none would never end.
    gave: bool,
    over: bool,
}

impl PcapPort {
    /// Opens `pcap:FILE`, `pcap:?out=FILE` or `pcap:FILE?out=FILE`. Options: `out`, `speed` (`flat`, or a factor), `loop`
    /// (rounds; 0: for ever). The output's stamps are the wall clock's.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`OpenError::BadUri`] for a wrong option.
    pub fn from_uri(uri: &PortUri, pool: Pool) -> Result<PcapPort, OpenError> {
        let mut uri = uri.clone();
        let config = PcapConfig {
            input: (!uri.target.is_empty()).then(|| PathBuf::from(&uri.target)),
            output: uri.take_text("out").map(PathBuf::from),
            speed: uri.take_or("speed", Speed::Flat)?,
            loops: uri.take_or("loop", 1)?,
            epoch_ns: sys::wall_clock_offset(),
        };
        uri.finish()?;
        Self::open_as(&uri, config, pool)
    }

    /// Opens the port.
    ///
    /// # Errors
    /// [`OpenError::NotFound`] without the input file; [`OpenError::Unsupported`], with the byte offset, for one that is
    /// malformed or not Ethernet; [`OpenError::BadUri`] without any file; [`OpenError::Io`] for failed calls.
    pub fn open(config: PcapConfig, pool: Pool) -> Result<PcapPort, OpenError> {
        let target = config.input.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        Self::open_as(&PortUri::new("pcap", &target), config, pool)
    }

    fn open_as(uri: &PortUri, config: PcapConfig, pool: Pool) -> Result<PcapPort, OpenError> {
        let PcapConfig { input, output, speed, loops, epoch_ns } = config;
        if input.is_none() && output.is_none() {
            return Err(uri.bad("a file to read (pcap:FILE) or to write (pcap:?out=FILE) is needed"));
        }
        let frame_max = pool.frame_max() as u32;
        let mut story = Vec::new();
        let input = match &input {
            None => None,
            Some(path) => {
                let (replay, packets) = open_replay(uri, path, speed, loops)?;
                story.push(format!("{packets} packets from {}, speed {speed}", path.display()));
                Some(replay)
            }
        };
        let output = match &output {
            None => None,
            // It would be emptied before its first packet is read.
            Some(path) if input.as_ref().is_some_and(|input| input.reader.is_of(path)) => {
                return Err(uri.bad(format!("{} is the same file as the input", path.display())));
            }
            Some(path) => {
                story.push(format!("writing {}", path.display()));
                Some(PcapWriter::create(path).map_err(|e| uri.io("create", e))?)
            }
        };
        let caps = PortCaps {
            mtu: frame_max.saturating_sub(HEADER_MAX).max(1),
            frame_max,
            mac: None,
            rx_stamp: StampSource::Engine,
            queues: 1,
            in_place: false,
            zero_copy: false,
            tx_checksum: false,
            checksum_offload: ChecksumOffload::default(),
            lossless_bits: true,
            description: format!("capture: {}", story.join("; ")),
        };
        Ok(PcapPort {
            input,
            output,
            pool,
            caps,
            counters: PortCounters::default(),
            epoch_ns,
            last_now: Instant::ZERO,
            name: uri.text().to_owned(),
        })
    }

    /// Writes buffered frames out.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.as_mut().map_or(Ok(()), PcapWriter::flush)
    }

    /// Prepares the next frame of the replay; false when there is none now.
    fn advance(&mut self, now: Instant) -> Result<bool, PortError> {
        let Some(replay) = &mut self.input else { return Ok(false) };
        while replay.next.is_none() && !replay.over {
            // Asked for before the packet is taken off the file: the file waits for the pool.
            let Some(mut frame) = self.pool.alloc() else { return Ok(false) };
            let failed = |e: PcapError| PortError::Io {
                port: self.name.clone(),
                call: "read",
                source: io::Error::other(e),
            };
            let packet = match replay.reader.next_packet().map_err(failed)? {
                Some(packet) => packet,
                None => {
                    replay.over = !replay.next_round().map_err(failed)?;
                    continue;
                }
            };
            if let Err(reason) = usable(&packet, self.caps.frame_max) {
                self.counters.drops.count(reason);
                continue;
            }
            let due = match replay.speed {
                Speed::Flat => now,
                Speed::Times(times) => {
                    let origin = match replay.origin {
                        Some(origin) => origin,
                        None => {
                            replay.base_ns = packet.ns;
                            // A round begins one gap after the last frame of the one before.
                            let gap = barewire_base::Duration::from_nanos(replay.last_gap_ns);
                            let first = replay.last_due == Instant::ZERO;
                            let origin = if first { now } else { replay.last_due + gap };
                            *replay.origin.insert(origin)
                        }
                    };
                    let after = packet.ns.saturating_sub(replay.base_ns) as f64 / times;
                    // Stamps may go back by a little: such packets come at once.
                    let due =
                        (origin + barewire_base::Duration::from_nanos(after as u64)).max(replay.last_due);
                    if replay.last_due != Instant::ZERO {
                        replay.last_gap_ns = due.since(replay.last_due).as_nanos();
                    }
                    replay.last_due = due;
                    due
                }
            };
            if !frame.set_len(packet.data.len()) {
                continue;
            }
            frame.data_mut().copy_from_slice(packet.data);
            frame.set_stamp(Stamp {
                ns: packet.ns,
                error_ns: 0,
                source: StampSource::Engine,
                clock: ClockDomain::Capture,
            });
            replay.next = Some((due, frame));
            replay.gave = true;
        }
        Ok(replay.next.is_some())
    }
}

/// Whether a packet can be delivered, or why not.
fn usable(packet: &PcapPacket<'_>, frame_max: u32) -> Result<(), DropReason> {
    match packet.data.len() {
        _ if packet.is_truncated() => Err(DropReason::Truncated),
        len if len < HEADER_MIN as usize => Err(DropReason::Truncated),
        len if len > frame_max as usize => Err(DropReason::TooLarge),
        _ => Ok(()),
    }
}

impl Replay {
    /// Starts again when a round is left.
    fn next_round(&mut self) -> Result<bool, PcapError> {
        match &mut self.rounds_left {
            _ if !self.gave => return Ok(false),
            Some(0) => return Ok(false),
            Some(left) => *left -= 1,
            None => {}
        }
        self.gave = false;
        self.reader.rewind()?;
        self.origin = None;
        Ok(true)
    }
}

/// Opens the input, reads it through, and starts again at its beginning.
fn open_replay(uri: &PortUri, path: &Path, speed: Speed, loops: u64) -> Result<(Replay, u64), OpenError> {
    let refuse = |e: PcapError| match e {
        PcapError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => OpenError::NotFound {
            uri: uri.text().to_owned(),
            what: format!("file {}", path.display()),
            hint: String::new(),
        },
        PcapError::Io { source, .. } => uri.io("read", source),
        e => OpenError::Unsupported { uri: uri.text().to_owned(), what: format!("{} {e}", path.display()) },
    };
    let mut reader = PcapReader::open(path).map_err(refuse)?;
    let mut packets = 0u64;
    loop {
        let offset = reader.offset();
        match reader.next_packet().map_err(refuse)? {
            None => break,
            Some(packet) if packet.link_type != LINK_ETHERNET => {
                let what = format!(
                    "{} at byte {offset}: link type {} is not Ethernet (1)",
                    path.display(),
                    packet.link_type
                );
                return Err(OpenError::Unsupported { uri: uri.text().to_owned(), what });
            }
            Some(_) => packets += 1,
        }
    }
    reader.rewind().map_err(refuse)?;
    let replay = Replay {
        reader,
        speed,
        rounds_left: loops.checked_sub(1),
        base_ns: 0,
        origin: None,
        last_due: Instant::ZERO,
        last_gap_ns: 0,
        next: None,
        gave: false,
        over: packets == 0,
    };
    Ok((replay, packets))
}

impl Port for PcapPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.last_now = now;
        let (mut n, mut bytes) = (0, 0);
        while burst.room() > 0 && self.advance(now)? {
            let Some(replay) = &mut self.input else { break };
            let Some((_, frame)) = replay.next.take_if(|(due, _)| *due <= now) else { break };
            bytes += frame.len() as u64;
            n += usize::from(burst.push(frame).is_ok());
        }
        self.counters.rx_frames.add(n as u64);
        self.counters.rx_bytes.add(bytes);
        Ok(n)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.last_now = now;
        let n = burst.len();
        let ns = now.as_nanos().wrapping_add(self.epoch_ns);
        while let Some(frame) = burst.pop() {
            if frame.len() > self.caps.frame_max as usize {
                self.counters.drops.count(DropReason::TooLarge);
                continue;
            }
            if self.output.as_mut().is_some_and(|w| w.write(ns, frame.data()).is_ok()) {
                self.counters.tx_frames.add(1);
                self.counters.tx_bytes.add(frame.len() as u64);
            } else {
                self.counters.drops.count(DropReason::PortDown);
            }
        }
        Ok(n)
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn prepare_wait(&mut self) -> bool {
        // An idle moment is the time to write; what fails shows in the frames that follow.
        let _ = self.flush();
        self.next_deadline().is_none_or(|at| at > self.last_now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let replay = self.input.as_ref()?;
        match &replay.next {
            Some((due, _)) => Some(*due),
            None if replay.over => None,
            None => Some(self.last_now),
        }
    }

    fn is_finished(&self) -> bool {
        self.input.as_ref().is_none_or(|r| r.over && r.next.is_none())
    }
}
