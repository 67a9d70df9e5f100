//! The trace port: another port, with every frame also written to capture files or to a text.

use crate::{OpenError, PcapWriter, Port, PortCaps, PortCounters, PortError, PortUri, sys};
use barewire_base::{Counter, Instant};
use barewire_frame::{BURST_MAX, Burst, ClockDomain, Frame};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::RawFd;
use std::path::PathBuf;

/// Bytes that a trace writes at most, unless asked otherwise.
pub const TRACE_BYTES_DEFAULT: u64 = 256 << 20;

/// What a [`Trace`] writes. At least one of `pcap` and `text` is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Two capture files, `PREFIX.rx.pcap` and `PREFIX.tx.pcap`: a classic capture has no place for a direction.
    pub pcap: Option<PathBuf>,
    /// One line for each frame.
    pub text: Option<PathBuf>,
    /// Bytes of all files together after which writing stops. The port goes on.
    pub bytes_max: u64,
    /// Added to the engine's time to make stamps since 1970, in nanoseconds.
    pub epoch_ns: u64,
}

impl TraceConfig {
    /// Takes this wrapper's options out of `uri`: `trace` (prefix of the capture files), `trace_text` (file),
    /// `trace_max_mb` (mebibytes). Stamps are the wall clock's.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] without a file, or for a value that does not parse.
    pub fn take(uri: &mut PortUri) -> Result<TraceConfig, OpenError> {
        let config = TraceConfig {
            pcap: uri.take_text("trace").map(PathBuf::from),
            text: uri.take_text("trace_text").map(PathBuf::from),
            bytes_max: uri.take_or("trace_max_mb", TRACE_BYTES_DEFAULT >> 20)?.saturating_mul(1 << 20),
            epoch_ns: sys::wall_clock_offset(),
        };
        if config.pcap.is_none() && config.text.is_none() {
            return Err(uri.bad("a trace needs a file: trace=PREFIX for captures, or trace_text=FILE"));
        }
        Ok(config)
    }
}

/// What a [`Trace`] has written.
#[derive(Debug, Default)]
pub struct TraceCounters {
    /// Frames written.
    pub written: Counter,
    /// Frames not written since the files were full.
    pub beyond_limit: Counter,
    /// Frames not written since the system refused.
    pub failed: Counter,
}

/// A port whose traffic is written down. What goes wrong with the writing is counted and never reaches the traffic.
///
/// A sent frame is written when the inner port has taken it, a received one when it was delivered, with the stamp that it
/// carries.
pub struct Trace<P> {
    inner: P,
    caps: PortCaps,
    log: Log,
    /// Copies of what is offered for sending: the inner port may take any part of it.
    offered: Vec<u8>,
}

struct Log {
    rx: Option<PcapWriter<File>>,
    tx: Option<PcapWriter<File>>,
    text: Option<BufWriter<File>>,
    bytes_left: u64,
    epoch_ns: u64,
    counters: TraceCounters,
}

impl<P: Port> Trace<P> {
    /// Wraps `inner` and creates the files, or empties them.
    ///
    /// # Errors
    /// What the system says about the files.
    pub fn new(inner: P, config: &TraceConfig) -> io::Result<Trace<P>> {
        let pcap = |direction: &str| match &config.pcap {
            None => Ok(None),
            Some(prefix) => {
                let mut name = prefix.clone().into_os_string();
                name.push(format!(".{direction}.pcap"));
                PcapWriter::create(&PathBuf::from(name)).map(Some)
            }
        };
        let text = config.text.as_ref().map(File::create).transpose()?.map(BufWriter::new);
        let log = Log {
            rx: pcap("rx")?,
            tx: pcap("tx")?,
            text,
            bytes_left: config.bytes_max,
            epoch_ns: config.epoch_ns,
            counters: TraceCounters::default(),
        };
        let mut caps = inner.caps().clone();
        let files: Vec<String> = [
            config.pcap.as_ref().map(|p| format!("{0}.rx.pcap and {0}.tx.pcap", p.display())),
            config.text.as_ref().map(|p| p.display().to_string()),
        ]
        .into_iter()
        .flatten()
        .collect();
        caps.description = format!("traced to {}; {}", files.join(" and "), caps.description);
        let offered = Vec::with_capacity(BURST_MAX * caps.frame_max as usize);
        Ok(Trace { inner, caps, log, offered })
    }

    /// What was written and what was not.
    pub fn trace_counters(&self) -> &TraceCounters {
        &self.log.counters
    }

    /// Writes buffered records out.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.log.flush()
    }

    /// The port inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }
}

impl Log {
    fn flush(&mut self) -> io::Result<()> {
        self.rx.as_mut().map_or(Ok(()), PcapWriter::flush)?;
        self.tx.as_mut().map_or(Ok(()), PcapWriter::flush)?;
        self.text.as_mut().map_or(Ok(()), BufWriter::flush)
    }

    fn is_full(&self) -> bool {
        self.bytes_left == 0
    }

    fn write(&mut self, sent: bool, ns: u64, data: &[u8]) {
        const LINE_MAX: u64 = 128;
        let cost = if self.rx.is_some() { 16 + data.len() as u64 } else { 0 }
            + if self.text.is_some() { LINE_MAX } else { 0 };
        if cost > self.bytes_left {
            // Stop for good: a smaller frame later would leave a gap that nobody sees.
            self.bytes_left = 0;
            return self.counters.beyond_limit.add(1);
        }
        self.bytes_left -= cost;
        let pcap = if sent { &mut self.tx } else { &mut self.rx };
        let mut ok = pcap.as_mut().map_or(Ok(()), |w| w.write(ns, data)).is_ok();
        if let Some(text) = &mut self.text {
            ok &= write_line(text, sent, ns, data).is_ok();
        }
        if ok { self.counters.written.add(1) } else { self.counters.failed.add(1) }
    }

    /// Nanoseconds since 1970 of a received frame, from the stamp it carries.
    fn stamp_ns(&self, now: Instant, frame: &Frame) -> u64 {
        let stamp = frame.stamp();
        match stamp.clock {
            ClockDomain::Realtime | ClockDomain::Capture => stamp.ns,
            ClockDomain::Monotonic if frame.is_stamped() => stamp.ns.wrapping_add(self.epoch_ns),
            // A card's clock has an epoch of its own.
            _ => now.as_nanos().wrapping_add(self.epoch_ns),
        }
    }
}

/// `seconds.nanoseconds tx 60 dst src type first-bytes`.
fn write_line(out: &mut impl Write, sent: bool, ns: u64, data: &[u8]) -> io::Result<()> {
    let mac = |at: usize| {
        let mut mac = [0; 6];
        if let Some(bytes) = data.get(at..at + 6) {
            mac.copy_from_slice(bytes);
        }
        mac
    };
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (mac(0), mac(6));
    let ethertype = data.get(12..14).map_or(0, |t| u16::from_be_bytes([t[0], t[1]]));
    write!(
        out,
        "{}.{:09} {} {:5} {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} \
         {g:02x}:{h:02x}:{i:02x}:{j:02x}:{k:02x}:{l:02x} {ethertype:04x} ",
        ns / 1_000_000_000,
        ns % 1_000_000_000,
        if sent { "tx" } else { "rx" },
        data.len(),
    )?;
    for byte in data.iter().skip(14).take(16) {
        write!(out, "{byte:02x}")?;
    }
    out.write_all(b"\n")
}

impl<P: Port> Port for Trace<P> {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let before = burst.len();
        let n = self.inner.rx_burst(now, burst)?;
        if self.log.is_full() {
            self.log.counters.beyond_limit.add(n as u64);
            return Ok(n);
        }
        for frame in burst.iter().skip(before) {
            self.log.write(false, self.log.stamp_ns(now, frame), frame.data());
        }
        Ok(n)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let before = burst.len();
        if before == 0 || self.log.is_full() {
            let n = self.inner.tx_burst(now, burst)?;
            self.log.counters.beyond_limit.add((before - burst.len()) as u64);
            return Ok(n);
        }
        self.offered.clear();
        let mut ends = [0; BURST_MAX];
        for (frame, end) in burst.iter().zip(&mut ends) {
            // A frame too large for the port is dropped by it; its beginning is enough to know it by.
            let data = frame.data();
            self.offered.extend_from_slice(&data[..data.len().min(self.caps.frame_max as usize)]);
            *end = self.offered.len();
        }
        let result = self.inner.tx_burst(now, burst);
        let ns = now.as_nanos().wrapping_add(self.log.epoch_ns);
        let mut start = 0;
        for &end in &ends[..before - burst.len()] {
            self.log.write(true, ns, &self.offered[start..end]);
            start = end;
        }
        result
    }

    fn tx_waiting(&self) -> usize {
        self.inner.tx_waiting()
    }

    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.inner.wait_fd()
    }

    fn prepare_wait(&mut self) -> bool {
        // An idle moment is the time to write.
        if self.log.flush().is_err() {
            self.log.counters.failed.add(1);
        }
        self.inner.prepare_wait()
    }

    fn finish_wait(&mut self) {
        self.inner.finish_wait();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        self.inner.reopen()?;
        let caps = self.inner.caps();
        (self.caps.mtu, self.caps.frame_max, self.caps.mac) = (caps.mtu, caps.frame_max, caps.mac);
        // What one burst may need, before the next does.
        self.offered.reserve(BURST_MAX * caps.frame_max as usize);
        Ok(())
    }
}
