//! Capture files: reading classic pcap and pcapng, writing classic pcap with nanoseconds.
//!
//! Formats: draft-ietf-opsawg-pcap (classic: both byte orders, microseconds and nanoseconds) and
//! draft-ietf-opsawg-pcapng (Section Header, Interface Description, Enhanced and Simple Packet Blocks; other blocks are
//! skipped). Both read and write through one buffer, allocated when the file is opened.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Largest packet that a capture may hold: libpcap's MAXIMUM_SNAPLEN.
pub const PACKET_MAX: u32 = 262_144;
/// Largest pcapng block of any kind that is skipped over.
const BLOCK_MAX: u32 = 16 * 1024 * 1024;
/// Interfaces of one pcapng section.
const INTERFACES_MAX: usize = 4096;
/// Bytes read or written at a time.
const CHUNK: usize = 256 * 1024;
/// LINKTYPE_ETHERNET.
pub const LINK_ETHERNET: u32 = 1;

const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
/// Major 2, minor 4, as two halves in file order.
const VERSION: u32 = if cfg!(target_endian = "big") { 2 << 16 | 4 } else { 2 | 4 << 16 };
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The file is not a capture, or is damaged.
    #[error("at byte {offset}: {why}")]
    Malformed {
        /// Where the record, block or header that is wrong begins.
        offset: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system could not read it.
    #[error("reading near byte {offset}: {source}")]
    Io {
        /// How far reading had come.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapPacket<'a> {
    /// When it was captured: nanoseconds since 1970, as the file says.
    pub ns: u64,
    /// What was captured of it.
    pub data: &'a [u8],
    /// How long it was on the wire, in bytes; more than `data` when the capture cut it.
    pub original_len: u32,
    /// LINKTYPE of its interface: 1 is Ethernet.
    pub link_type: u32,
}

impl PcapPacket<'_> {
    /// Whether the capture cut the packet's end off.
    pub fn is_truncated(&self) -> bool {
        (self.data.len() as u64) < u64::from(self.original_len)
    }
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: u32,
    snap_len: u32,
    /// Stamp units in a second.
    units: u64,
    /// Seconds added to every stamp.
    offset_s: i64,
}

enum Format {
    Classic { interface: Interface, fcs_len: usize },
    Ng { interfaces: Vec<Interface> },
}

/// Reads a capture packet by packet. Packets borrow the reader's buffer; none is allocated.
pub struct PcapReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    start: usize,
    end: usize,
    /// Where `start` is in the file.
    offset: u64,
    swapped: bool,
    format: Format,
    last_ns: u64,
}

impl PcapReader<File> {
    /// Opens a capture file and reads its header.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn open(path: &Path) -> Result<Self, PcapError> {
        Self::new(File::open(path).map_err(|source| PcapError::Io { offset: 0, source })?)
    }

    /// Whether this is the file at `path`, whatever its name is.
    pub(crate) fn is_of(&self, path: &Path) -> bool {
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        match (self.source.metadata(), std::fs::metadata(path)) {
            (Ok(ours), Ok(theirs)) => id(ours) == id(theirs),
            _ => false,
        }
    }
}

impl<R: Read> PcapReader<R> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    /// [`PcapError`] when it is none, or cannot be read.
    pub fn new(source: R) -> Result<Self, PcapError> {
        let mut reader = PcapReader {
            source,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            offset: 0,
            swapped: false,
            format: Format::Ng { interfaces: Vec::new() },
            last_ns: 0,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// The next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// [`PcapError::Malformed`] with the place of the record; the reader stays there.
    pub fn next_packet(&mut self) -> Result<Option<PcapPacket<'_>>, PcapError> {
        match self.format {
            Format::Classic { interface, fcs_len } => self.next_classic(interface, fcs_len),
            Format::Ng { .. } => self.next_ng(),
        }
    }

    /// Bytes of the file that have been consumed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn malformed<T>(&self, why: &'static str) -> Result<T, PcapError> {
        Err(PcapError::Malformed { offset: self.offset, why })
    }

    /// Makes `n` unread bytes contiguous; how many there are when the file ends before.
    fn fill(&mut self, n: usize) -> Result<usize, PcapError> {
        if self.end - self.start >= n {
            return Ok(n);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < n {
            // Only for a block larger than any packet: once.
            self.buffer.resize(n, 0);
        }
        while self.end < n {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(got) => self.end += got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(PcapError::Io { offset: self.offset + self.end as u64, source });
                }
            }
        }
        Ok(self.end.min(n))
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }

    /// The 32-bit word `at` bytes after the read position; `fill` has made it there.
    fn word(&self, at: usize) -> u32 {
        let p = self.start + at;
        let word =
            u32::from_le_bytes([self.buffer[p], self.buffer[p + 1], self.buffer[p + 2], self.buffer[p + 3]]);
        if self.swapped { word.swap_bytes() } else { word }
    }

    fn half(&self, at: usize) -> u16 {
        let p = self.start + at;
        let half = u16::from_le_bytes([self.buffer[p], self.buffer[p + 1]]);
        if self.swapped { half.swap_bytes() } else { half }
    }

    fn read_header(&mut self) -> Result<(), PcapError> {
        if self.fill(4)? < 4 {
            return self.malformed("too short for a capture file");
        }
        self.swapped = false;
        let magic = self.word(0);
        if magic == SECTION_HEADER {
            self.format = Format::Ng { interfaces: Vec::new() };
            return Ok(()); // Read as the first block.
        }
        self.swapped = matches!(magic.swap_bytes(), MAGIC_US | MAGIC_NS);
        let units = match self.word(0) {
            MAGIC_US => 1_000_000,
            MAGIC_NS => 1_000_000_000,
            _ => return self.malformed("neither pcap nor pcapng (unknown magic number)"),
        };
        if self.fill(24)? < 24 {
            return self.malformed("the file header is cut off");
        }
        if self.half(4) != 2 {
            return self.malformed("unknown pcap version");
        }
        // Bits 28 to 31 are the length of the FCS in 16-bit words, when bit 26 says so.
        let network = self.word(20);
        let fcs_len = if network & 0x0400_0000 != 0 { (network >> 28) as usize * 2 } else { 0 };
        let interface =
            Interface { link_type: network & 0xffff, snap_len: self.word(16), units, offset_s: 0 };
        self.format = Format::Classic { interface, fcs_len };
        self.consume(24);
        Ok(())
    }

    fn next_classic(
        &mut self,
        interface: Interface,
        fcs_len: usize,
    ) -> Result<Option<PcapPacket<'_>>, PcapError> {
        match self.fill(16)? {
            0 => return Ok(None),
            16 => {}
            _ => return self.malformed("a record header is cut off"),
        }
        let (seconds, fraction) = (u64::from(self.word(0)), u64::from(self.word(4)));
        let (captured, original_len) = (self.word(8), self.word(12));
        if captured > PACKET_MAX {
            return self.malformed("a packet longer than 262144 bytes");
        }
        if fraction >= interface.units {
            return self.malformed("a time stamp with more than a second of fraction");
        }
        let len = captured as usize;
        if self.fill(16 + len)? < 16 + len {
            return self.malformed("a packet is cut off");
        }
        let ns = seconds * 1_000_000_000 + fraction * (1_000_000_000 / interface.units);
        let at = self.start + 16;
        self.consume(16 + len);
        let fcs = fcs_len.min(len);
        Ok(Some(PcapPacket {
            ns,
            data: &self.buffer[at..at + len - fcs],
            original_len: original_len.saturating_sub(fcs as u32),
            link_type: interface.link_type,
        }))
    }

    fn next_ng(&mut self) -> Result<Option<PcapPacket<'_>>, PcapError> {
        loop {
            match self.fill(12)? {
                0 => return Ok(None),
                12 => {}
                _ => return self.malformed("a block is cut off"),
            }
            // The section header's type reads the same both ways; its byte order follows.
            if self.word(0) == SECTION_HEADER {
                self.swapped = false;
                self.swapped = match self.word(8) {
                    BYTE_ORDER_MAGIC => false,
                    w if w.swap_bytes() == BYTE_ORDER_MAGIC => true,
                    _ => return self.malformed("a section header without its byte-order magic"),
                };
            }
            let (kind, total) = (self.word(0), self.word(4));
            if total < 12 || !total.is_multiple_of(4) || total > BLOCK_MAX {
                return self.malformed("an impossible block length");
            }
            let len = total as usize;
            if self.fill(len)? < len {
                return self.malformed("a block is cut off");
            }
            if self.word(len - 4) != total {
                return self.malformed("the two lengths of a block differ");
            }
            let packet = match kind {
                SECTION_HEADER => {
                    if len < 28 {
                        return self.malformed("a section header that is too short");
                    }
                    if self.half(12) != 1 {
                        return self.malformed("unknown pcapng version");
                    }
                    self.format = Format::Ng { interfaces: Vec::new() };
                    None
                }
                INTERFACE_DESCRIPTION => {
                    let interface = self.interface(len)?;
                    let Format::Ng { interfaces } = &mut self.format else { unreachable!("pcapng") };
                    interfaces.push(interface);
                    None
                }
                ENHANCED_PACKET => Some(self.enhanced(len)?),
                SIMPLE_PACKET => Some(self.simple(len)?),
                _ => None,
            };
            let start = self.start;
            self.consume(len);
            if let Some(Place { at, captured, original_len, link_type, ns }) = packet {
                self.last_ns = ns;
                let data = &self.buffer[start + at..start + at + captured];
                return Ok(Some(PcapPacket { ns, data, original_len, link_type }));
            }
        }
    }

    fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Format::Ng { interfaces } => interfaces,
            Format::Classic { .. } => &[],
        }
    }

    fn interface(&self, len: usize) -> Result<Interface, PcapError> {
        if len < 20 {
            return self.malformed("an interface description that is too short");
        }
        if self.interfaces().len() == INTERFACES_MAX {
            return self.malformed("more than 4096 interfaces");
        }
        let mut interface = Interface {
            link_type: u32::from(self.half(8)),
            snap_len: self.word(12),
            units: 1_000_000,
            offset_s: 0,
        };
        let (mut at, end) = (16, len - 4);
        while at + 4 <= end {
            let (code, option_len) = (self.half(at), usize::from(self.half(at + 2)));
            at += 4;
            if code == 0 {
                break;
            }
            if at + option_len > end {
                return self.malformed("an interface option is cut off");
            }
            match (code, option_len) {
                // if_tsresol: a power of ten, or of two when the top bit is set.
                (9, 1) => {
                    let resolution = self.buffer[self.start + at];
                    let exponent = u32::from(resolution & 0x7f);
                    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                    let Some(units) = base.checked_pow(exponent) else {
                        return self.malformed("an impossible time-stamp resolution");
                    };
                    interface.units = units;
                }
                // if_tsoffset: seconds.
                (14, 8) => {
                    let (first, second) = (u64::from(self.word(at)), u64::from(self.word(at + 4)));
                    let (low, high) = if self.swapped { (second, first) } else { (first, second) };
                    interface.offset_s = (high << 32 | low) as i64;
                }
                _ => {}
            }
            at += option_len.next_multiple_of(4);
        }
        Ok(interface)
    }

    fn enhanced(&self, len: usize) -> Result<Place, PcapError> {
        if len < 32 {
            return self.malformed("an enhanced packet block that is too short");
        }
        let Some(interface) = self.interfaces().get(self.word(8) as usize) else {
            return self.malformed("a packet of an interface that was not described");
        };
        let captured = self.word(20);
        if captured > PACKET_MAX || captured as usize > len - 32 {
            return self.malformed("a packet longer than its block");
        }
        let stamp = u64::from(self.word(12)) << 32 | u64::from(self.word(16));
        let ns = i128::from(interface.offset_s) * 1_000_000_000
            + (u128::from(stamp) * 1_000_000_000 / u128::from(interface.units)) as i128;
        let Ok(ns) = u64::try_from(ns) else {
            return self.malformed("a time stamp out of range");
        };
        Ok(Place {
            at: 28,
            captured: captured as usize,
            original_len: self.word(24),
            link_type: interface.link_type,
            ns,
        })
    }

    /// A packet without a stamp: it takes that of the packet before.
    fn simple(&self, len: usize) -> Result<Place, PcapError> {
        if len < 16 {
            return self.malformed("a simple packet block that is too short");
        }
        let Some(interface) = self.interfaces().first() else {
            return self.malformed("a packet of an interface that was not described");
        };
        let original_len = self.word(8);
        let snap_len = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
        let captured = original_len.min(snap_len) as usize;
        if captured > len - 16 || captured > PACKET_MAX as usize {
            return self.malformed("a packet longer than its block");
        }
        Ok(Place { at: 12, captured, original_len, link_type: interface.link_type, ns: self.last_ns })
    }
}

impl<R: Read + Seek> PcapReader<R> {
    /// Starts again at the first packet.
    ///
    /// # Errors
    /// As [`new`](PcapReader::new).
    pub fn rewind(&mut self) -> Result<(), PcapError> {
        self.source.seek(SeekFrom::Start(0)).map_err(|source| PcapError::Io { offset: 0, source })?;
        (self.start, self.end, self.offset, self.last_ns) = (0, 0, 0, 0);
        self.read_header()
    }
}

/// Where a packet stands in its block.
struct Place {
    at: usize,
    captured: usize,
    original_len: u32,
    link_type: u32,
    ns: u64,
}

/// Writes a classic pcap file with nanoseconds, Ethernet, in this machine's byte order. Buffered: what was written is in
/// the file after [`flush`](PcapWriter::flush) or drop. When the sink has refused once, nothing more is written: the file may end in the
/// middle of a record, and what followed would be read as the rest of it.
pub struct PcapWriter<W: Write> {
    sink: W,
    buffer: Vec<u8>,
    snap_len: u32,
    written: u64,
    /// The sink has refused once.
    broken: bool,
}

impl PcapWriter<File> {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::new(File::create(path)?)
    }
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// What the sink says.
    pub fn new(sink: W) -> io::Result<Self> {
        let mut writer = PcapWriter {
            sink,
            buffer: Vec::with_capacity(CHUNK),
            snap_len: PACKET_MAX,
            written: 0,
            broken: false,
        };
        writer.put(&[MAGIC_NS, VERSION, 0, 0, PACKET_MAX, LINK_ETHERNET]);
        writer.flush()?;
        Ok(writer)
    }

    fn put(&mut self, words: &[u32]) {
        for word in words {
            self.buffer.extend_from_slice(&word.to_ne_bytes());
        }
    }

    /// Appends one packet, captured at `ns` nanoseconds since 1970. Bytes beyond 262144 are cut off. The format's seconds
    /// have 32 bits: later stamps than the year 2106 wrap.
    ///
    /// # Errors
    /// What the sink says; the packets that were buffered are then lost, and so are all that follow.
    pub fn write(&mut self, ns: u64, data: &[u8]) -> io::Result<()> {
        self.refuse_if_broken()?;
        let captured = data.len().min(self.snap_len as usize);
        if self.buffer.len() + 16 + captured > CHUNK {
            self.flush()?;
        }
        let (seconds, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let original = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.put(&[seconds as u32, fraction as u32, captured as u32, original]);
        if captured > CHUNK - 16 {
            // Larger than the buffer, which is not to grow.
            self.flush()?;
            self.written += captured as u64;
            let result = self.sink.write_all(&data[..captured]);
            self.broken = result.is_err();
            return result;
        }
        self.buffer.extend_from_slice(&data[..captured]);
        Ok(())
    }

    /// Hands everything to the sink.
    ///
    /// # Errors
    /// What the sink says; the packets that were buffered are then lost, and so are all that follow.
    pub fn flush(&mut self) -> io::Result<()> {
        self.refuse_if_broken()?;
        self.written += self.buffer.len() as u64;
        let result = self.sink.write_all(&self.buffer);
        self.buffer.clear();
        self.broken = result.is_err();
        result?;
        self.sink.flush()
    }

    fn refuse_if_broken(&self) -> io::Result<()> {
        match self.broken {
            true => {
                Err(io::Error::other("it could not be written before, and ends in the middle of a packet"))
            }
            false => Ok(()),
        }
    }

    /// Bytes of the file so far, buffered ones included.
    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Never true: there is a file header at least.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl<W: Write> Drop for PcapWriter<W> {
    fn drop(&mut self) {
        // Whoever needs to know calls `flush` before.
        let _ = self.flush();
    }
}
