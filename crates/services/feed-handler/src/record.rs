//! Recording: every packet of the lines into a capture (classic pcap, nanoseconds), with the stamp that it came with.
//!
//! A source that has seen the whole frame hands it over, and it is written as it was. Of a socket there is only the
//! payload: the frame is made up around it, to the line's group, from the sender that the plan names (else 198.18.0.1, an
//! address that no network has). Stamps of the engine's clock are told in wall-clock time; a card's own clock is taken as
//! it is.
//!
//! Writing is buffered in a quarter of a megabyte; when that is full the engine's thread writes it.

use crate::plan::{ChannelPlan, RecordPlan};
use crate::source::Packet;
use crate::{Connection, LineId, SourceError};
use barewire_base::{Counter, Instant};
use barewire_frame::ClockDomain;
use barewire_port::PcapWriter;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What a [`Recorder`] has counted.
#[derive(Debug, Default)]
pub struct RecordCounts {
    /// Packets written.
    pub packets: Counter,
    /// Packets that could not be written: the disk is full, say.
    pub lost: Counter,
    /// Files begun.
    pub files: Counter,
}

/// Writes packets into captures.
pub struct Recorder {
    plan: RecordPlan,
    writer: PcapWriter<File>,
    lines: Vec<(LineId, Connection)>,
    frame: Vec<u8>,
    /// Wall-clock time less the engine's time, in nanoseconds.
    epoch_ns: u64,
    counts: RecordCounts,
    failure: Option<SourceError>,
}

impl Recorder {
    /// Creates the first file.
    ///
    /// # Errors
    /// [`SourceError::File`].
    pub fn create(plan: &RecordPlan, channels: &[ChannelPlan]) -> Result<Recorder, SourceError> {
        let mut lines = Vec::new();
        for (index, channel) in channels.iter().enumerate() {
            for connection in channel.received() {
                let line = LineId { channel: index as u16, feed: connection.feed, side: connection.side };
                lines.push((line, connection.clone()));
            }
        }
        let counts = RecordCounts::default();
        counts.files.add(1);
        Ok(Recorder {
            plan: plan.clone(),
            writer: create(&plan.path)?,
            lines,
            frame: Vec::with_capacity(1 << 16),
            epoch_ns: barewire_measure::realtime_ns().saturating_sub(barewire_engine::now().as_nanos()),
            counts,
            failure: None,
        })
    }

    /// What has been counted.
    pub fn counts(&self) -> &RecordCounts {
        &self.counts
    }

    /// The first thing that went wrong; recording goes on as well as it can.
    pub fn failure(&self) -> Option<&SourceError> {
        self.failure.as_ref()
    }

    /// Writes one packet.
    pub fn record(&mut self, now: Instant, packet: &Packet<'_>) {
        let stamp = packet.stamp;
        let ns = match stamp.clock {
            _ if stamp.ns == 0 => now.as_nanos().saturating_add(self.epoch_ns),
            ClockDomain::Monotonic => stamp.ns.saturating_add(self.epoch_ns),
            ClockDomain::Realtime | ClockDomain::Nic | ClockDomain::Capture => stamp.ns,
        };
        let frame = match packet.frame {
            Some(frame) => frame,
            None => {
                let line = self.lines.iter().find(|(line, _)| *line == packet.line);
                if !line.is_some_and(|(_, to)| to.write_frame(packet.payload, &mut self.frame)) {
                    self.counts.lost.add(1);
                    return;
                }
                &self.frame
            }
        };
        match self.writer.write(ns, frame) {
            Ok(()) => self.counts.packets.add(1),
            Err(source) => {
                self.counts.lost.add(1);
                let path = self.plan.path.display().to_string();
                self.failure.get_or_insert(SourceError::File { path, source });
            }
        }
        if self.plan.rotate_bytes > 0 && self.writer.len() >= self.plan.rotate_bytes {
            self.rotate();
        }
    }

    fn rotate(&mut self) {
        let path = rotated(&self.plan.path, self.counts.files.get());
        match self.flush().and_then(|()| create(&path)) {
            Ok(writer) => {
                self.writer = writer;
                self.counts.files.add(1);
            }
            // The old file grows on; the next packet tries again.
            Err(e) => {
                self.failure.get_or_insert(e);
            }
        }
    }

    /// Hands what is buffered to the system.
    ///
    /// # Errors
    /// [`SourceError::File`].
    pub fn flush(&mut self) -> Result<(), SourceError> {
        let path = || self.plan.path.display().to_string();
        self.writer.flush().map_err(|source| SourceError::File { path: path(), source })
    }
}

/// `morning.pcap` becomes `morning.3.pcap`.
fn rotated(path: &Path, number: u64) -> PathBuf {
    match path.extension().and_then(|e| e.to_str()) {
        Some(extension) => path.with_extension(format!("{number}.{extension}")),
        None => path.with_extension(number.to_string()),
    }
}

fn create(path: &Path) -> Result<PcapWriter<File>, SourceError> {
    PcapWriter::create(path).map_err(|source| SourceError::File { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_keep_their_extension() {
        assert_eq!(rotated(Path::new("a/morning.pcap"), 3), Path::new("a/morning.3.pcap"));
        assert_eq!(rotated(Path::new("morning"), 1), Path::new("morning.1"));
    }
}
