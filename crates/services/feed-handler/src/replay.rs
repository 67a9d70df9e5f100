//! Replay: captures as they were recorded, original stamps kept, at any speed.
//!
//! Time is the capture's own: timers run by it, so that a replay gives the same callbacks at any speed, on any machine.
//! Several captures (the A and the B side recorded apart, say) are merged by their stamps.

use crate::plan::ChannelPlan;
use crate::source::datagram::parse;
use crate::source::groups::Groups;
use crate::source::{Consumer, Packet};
use crate::{LineId, Side, SourceError};
use barewire_base::{Counter, DropCounters, DropReason, Instant};
use barewire_frame::{ChecksumState, ClockDomain, Stamp, StampSource};
use barewire_port::{LINK_ETHERNET, PcapReader};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What a [`Replay`] has counted.
#[derive(Debug, Default)]
pub struct ReplayCounts {
    /// Packets handed over.
    pub packets: Counter,
    /// Frames that were no packet of a line, by reason.
    pub drops: DropCounters,
}

/// Captures being replayed.
pub struct Replay {
    files: Vec<Input>,
    groups: Groups,
    /// Capture time never goes back, though stamps may by a little.
    now: Instant,
    counts: ReplayCounts,
}

struct Input {
    path: String,
    reader: PcapReader<File>,
    /// The frame that is next, and its stamp; `None` at the end.
    next: Option<u64>,
    frame: Vec<u8>,
    whole: bool,
}

impl Input {
    fn open(path: &Path) -> Result<Input, SourceError> {
        let shown = path.display().to_string();
        let reader =
            PcapReader::open(path).map_err(|source| SourceError::Capture { path: shown.clone(), source })?;
        let mut input =
            Input { path: shown, reader, next: None, frame: Vec::with_capacity(1 << 16), whole: true };
        input.advance()?;
        Ok(input)
    }

    fn advance(&mut self) -> Result<(), SourceError> {
        let packet = self
            .reader
            .next_packet()
            .map_err(|source| SourceError::Capture { path: self.path.clone(), source })?;
        self.next = None;
        if let Some(packet) = packet {
            if packet.link_type != LINK_ETHERNET {
                return Err(SourceError::LinkType { path: self.path.clone(), link_type: packet.link_type });
            }
            self.next = Some(packet.ns);
            self.whole = !packet.is_truncated();
            self.frame.clear();
            self.frame.extend_from_slice(packet.data);
        }
        Ok(())
    }
}

impl Replay {
    /// Opens captures. `source_filter`: only from the senders that the plan names, where it names any.
    ///
    /// # Errors
    /// [`SourceError::Capture`] with the byte offset, [`SourceError::LinkType`].
    pub fn open(
        paths: &[PathBuf],
        channels: &[ChannelPlan],
        source_filter: bool,
    ) -> Result<Replay, SourceError> {
        let files = paths.iter().map(|path| Input::open(path)).collect::<Result<_, _>>()?;
        Ok(Replay {
            files,
            groups: Groups::new(channels, &[Side::A, Side::B], source_filter),
            now: Instant::ZERO,
            counts: ReplayCounts::default(),
        })
    }

    /// What has been counted.
    pub fn counts(&self) -> &ReplayCounts {
        &self.counts
    }

    /// Capture time: that of the last packet.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn first(&self) -> Option<usize> {
        let ahead = self.files.iter().enumerate().filter_map(|(index, file)| file.next.map(|ns| (ns, index)));
        ahead.min().map(|(_, index)| index)
    }

    /// The next packet's capture time. `None`: the captures are at their end.
    pub fn next_at(&self) -> Option<Instant> {
        let first = self.first()?;
        self.files[first].next.map(|ns| Instant::from_nanos(ns).max(self.now))
    }

    /// Hands over the next packet; capture time goes on to it first, with whatever of the consumer's timers is due until
    /// then. False at the end.
    ///
    /// # Errors
    /// [`SourceError::Capture`] for a capture that is damaged behind the packet.
    pub fn step(&mut self, consumer: &mut dyn Consumer) -> Result<bool, SourceError> {
        let Some((first, now)) = self.first().zip(self.next_at()) else { return Ok(false) };
        run_timers(consumer, now);
        self.now = now;
        let file = &self.files[first];
        let found = if file.whole { self.line(&file.frame) } else { Err(DropReason::Truncated) };
        match found {
            Ok((line, payload)) => {
                let ns = file.next.unwrap_or_default();
                let stamp =
                    Stamp { ns, error_ns: 0, source: StampSource::Engine, clock: ClockDomain::Capture };
                self.counts.packets.add(1);
                consumer.on_packet(now, &Packet { line, stamp, payload, frame: Some(&file.frame) });
            }
            Err(reason) => self.counts.drops.count(reason),
        }
        self.files[first].advance()?;
        Ok(true)
    }

    fn line<'a>(&self, frame: &'a [u8]) -> Result<(LineId, &'a [u8]), DropReason> {
        // A capture taken where it was sent holds checksums that the card was to compute.
        let datagram = parse(frame, ChecksumState::Unknown, false)?;
        Ok((self.groups.find(datagram.src.ip(), datagram.dst)?, datagram.payload))
    }
}

/// Runs the consumer's timers up to `now`, each at its own time.
pub(crate) fn run_timers(consumer: &mut dyn Consumer, now: Instant) {
    let mut last = None;
    while let Some(due) = consumer.next_deadline().filter(|due| *due <= now) {
        // A consumer that leaves a deadline where it was would be asked for ever.
        if last.is_some_and(|last| due <= last) {
            consumer.on_timeout(now);
            return;
        }
        consumer.on_timeout(due);
        last = Some(due);
    }
}
