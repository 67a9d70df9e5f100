//! What a link node did to each frame, a line each.

use crate::hash::fnv1a;
use barewire_base::Instant;
use barewire_port::{Decision, Judged};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bytes of one trace file, at most. The frames go on.
const TRACE_BYTES_MAX: u64 = 256 << 20;
/// Longest line.
const LINE_MAX: u64 = 160;

const HEAD: &[u8] = b"# number bytes hash fate copy corrupt_bits hold_frames mark | arrived_ns delay_ns\n";

/// A text file: number, length and hash of the frame as it came, and what was decided. Columns before the bar follow from
/// the seed and the sequence of frames alone, unless a rate or an outage decides by the time; those behind it are times,
/// from the first frame on.
pub(super) struct TraceLog {
    out: BufWriter<File>,
    bytes_left: u64,
    origin: Option<Instant>,
}

impl TraceLog {
    pub(super) fn create(path: &Path) -> io::Result<TraceLog> {
        let mut out = BufWriter::with_capacity(1 << 16, File::create(path)?);
        out.write_all(HEAD)?;
        Ok(TraceLog { out, bytes_left: TRACE_BYTES_MAX, origin: None })
    }

    pub(super) fn write(&mut self, judged: &Judged<'_>) {
        let Some(left) = self.bytes_left.checked_sub(LINE_MAX) else { return };
        self.bytes_left = left;
        // A full disk must not stop the link; the file just ends there.
        if self.line(judged).is_err() {
            self.bytes_left = 0;
        }
    }

    fn line(&mut self, judged: &Judged<'_>) -> io::Result<()> {
        let origin = *self.origin.get_or_insert(judged.now);
        let data = judged.frame.data();
        let (fate, delivery) = match &judged.decision {
            Decision::Lost => ("lost", None),
            Decision::QueueFull => ("queue_full", None),
            Decision::Deliver(_) if !judged.has_room => ("flight_full", None),
            Decision::Deliver(delivery) => ("deliver", Some(delivery)),
        };
        write!(self.out, "{} {} {:016x} {fate} ", judged.number, data.len(), fnv1a(data.iter().copied()))?;
        let arrived = judged.now.since(origin).as_nanos();
        let Some(d) = delivery else { return writeln!(self.out, "- - - - | {arrived} -") };
        let copy = if d.copy_at.is_some() { "copy" } else { "-" };
        let bits = d.corruption.map_or(0, |c| c.bits());
        let mark = if d.mark { "mark" } else { "-" };
        write!(self.out, "{copy} {bits} ")?;
        match d.held_for {
            Some(frames) => write!(self.out, "{frames}")?,
            None => self.out.write_all(b"-")?,
        }
        writeln!(self.out, " {mark} | {arrived} {}", d.at.since(judged.now).as_nanos())
    }

    pub(super) fn flush(&mut self) {
        if self.out.flush().is_err() {
            self.bytes_left = 0;
        }
    }
}
