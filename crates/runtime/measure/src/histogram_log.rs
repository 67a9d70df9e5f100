//! Histograms as text: HdrHistogram's V2 compressed encoding in base64, alone or as a line of an interval log (`.hlog`)
//! that its own tools read (github.com/HdrHistogram/HdrHistogram, `AbstractHistogram`, `HistogramLogWriter`).
//!
//! Decoding is done here, not by the library: a log is input, and the library's decoder takes memory by a length that
//! the file states.

use crate::histogram::{Histogram, MAX_NS, SAMPLES_MAX};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::io::{self, Read};

/// The shape of our histograms, which the encoding states in its header.
pub(crate) struct Layout;

impl Layout {
    /// Lowest discernible value, in ns.
    pub(crate) const LOWEST_NS: u64 = 1;
    /// Significant digits.
    pub(crate) const DIGITS: u8 = 3;
    /// Buckets of one power of two: half of the smallest power of two that tells 2 * 10^DIGITS values apart.
    const HALF: u64 = 1024;

    /// Least and greatest span of the bucket at `index`, in ns. `None` beyond [`MAX_NS`].
    fn bucket(index: u64) -> Option<(u64, u64)> {
        let shift = (index / Self::HALF).saturating_sub(1);
        let sub = if shift == 0 { index } else { index % Self::HALF + Self::HALF };
        if shift >= 63 - 11 {
            return None;
        }
        let low = sub << shift;
        (low <= MAX_NS).then(|| (low, low + (1 << shift) - 1))
    }
}

/// First lines of an interval log.
pub const LOG_HEADER: &str = "#[Histogram log format version 1.3]\n\
    #[Values are in ns; Interval_Max is in ms]\n\
    \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

const COOKIE_V2: u32 = 0x1c84_9303 | 0x10;
const COOKIE_V2_COMPRESSED: u32 = 0x1c84_9304 | 0x10;
/// Largest decompressed histogram that is read: nine bytes for each of our buckets fit three times.
const INFLATED_MAX: u64 = 1 << 20;
const HEADER_LEN: usize = 40;

/// Why a text is no histogram of ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// The line is not `[Tag=T,]start,length,max,base64`.
    #[error("not a line of a histogram log")]
    NotALogLine,
    /// The text is not base64.
    #[error("not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The first bytes are of no HDR V2 histogram.
    #[error("not an HDR V2 histogram (cookie {0:#010x})")]
    Cookie(u32),
    /// It does not inflate, or to more than a histogram has.
    #[error("broken compressed data: {0}")]
    Deflate(io::Error),
    /// The bytes end early, or there are more than stated.
    #[error("truncated")]
    Truncated,
    /// It has another precision than ours: three digits from 1 up, no offset, no ratio.
    #[error("another layout than three digits of ns")]
    Layout,
    /// A span longer than [`MAX_NS`], or more samples than 2^48.
    #[error("value or count out of range")]
    Range,
}

impl Histogram {
    /// The histogram as HDR V2, compressed, in base64 (`HISTFAAAA...`).
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(self.hdr(), &mut bytes).expect("a Vec takes every byte");
        BASE64.encode(bytes)
    }

    /// Reads what [`to_base64`](Histogram::to_base64) writes, or any HDR tool with three digits from 1 up.
    ///
    /// # Errors
    /// [`HistogramError`], for every text that is none; no text panics or takes memory by its own word.
    pub fn from_base64(text: &str) -> Result<Histogram, HistogramError> {
        let bytes = BASE64.decode(text.trim())?;
        let mut outer = bytes.as_slice();
        let cookie = take_u32(&mut outer)?;
        if cookie != COOKIE_V2_COMPRESSED {
            return Err(HistogramError::Cookie(cookie));
        }
        if take_u32(&mut outer)? as usize != outer.len() {
            return Err(HistogramError::Truncated);
        }
        let mut inner = Vec::new();
        flate2::read::ZlibDecoder::new(outer)
            .take(INFLATED_MAX)
            .read_to_end(&mut inner)
            .map_err(HistogramError::Deflate)?;
        decode(&inner)
    }

    /// One line of an interval log, without its end: `start_s` (seconds since 1970 or since the log's base time),
    /// length of the interval in seconds, maximum in ms, histogram. A tag's commas, spaces and controls become `_`.
    pub fn to_log_line(&self, tag: Option<&str>, start_s: f64, length_s: f64) -> String {
        let tag = tag.map_or(String::new(), |tag| {
            let clean = |c: char| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c };
            format!("Tag={},", tag.chars().map(clean).collect::<String>())
        });
        let max_ms = self.max().unwrap_or(0) as f64 / 1e6;
        format!("{tag}{start_s:.3},{length_s:.3},{max_ms:.3},{}", self.to_base64())
    }

    /// Reads a line of an interval log: its tag and its histogram.
    ///
    /// # Errors
    /// [`HistogramError`], for every line that is none.
    pub fn from_log_line(line: &str) -> Result<(Option<String>, Histogram), HistogramError> {
        let line = line.trim_end();
        let (tag, rest) = match line.strip_prefix("Tag=") {
            Some(tagged) => {
                let (tag, rest) = tagged.split_once(',').ok_or(HistogramError::NotALogLine)?;
                (Some(tag.to_string()), rest)
            }
            None => (None, line),
        };
        let fields: Vec<&str> = rest.split(',').collect();
        let &[start, length, max, text] = fields.as_slice() else { return Err(HistogramError::NotALogLine) };
        if [start, length, max].iter().any(|number| number.trim().parse::<f64>().is_err()) {
            return Err(HistogramError::NotALogLine);
        }
        Ok((tag, Histogram::from_base64(text)?))
    }
}

/// Decodes an uncompressed V2 histogram.
fn decode(bytes: &[u8]) -> Result<Histogram, HistogramError> {
    if bytes.len() < HEADER_LEN {
        return Err(HistogramError::Truncated);
    }
    let mut rest = bytes;
    let cookie = take_u32(&mut rest)?;
    if cookie != COOKIE_V2 {
        return Err(HistogramError::Cookie(cookie));
    }
    let payload_len = take_u32(&mut rest)? as usize;
    let (offset, digits) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
    let (lowest, _highest, ratio) = (take_u64(&mut rest)?, take_u64(&mut rest)?, take_u64(&mut rest)?);
    if payload_len != rest.len() {
        return Err(HistogramError::Truncated);
    }
    // The greatest trackable value does not matter: it changes how many buckets there are, not where they lie.
    let ours = digits == u32::from(Layout::DIGITS) && lowest == Layout::LOWEST_NS;
    if offset != 0 || !ours || f64::from_bits(ratio) != 1.0 {
        return Err(HistogramError::Layout);
    }
    let mut histogram = Histogram::new();
    let (mut index, mut total) = (0u64, 0u64);
    while !rest.is_empty() {
        match zigzag(take_leb128(&mut rest)?) {
            zeros @ ..0 => index = index.checked_add(zeros.unsigned_abs()).ok_or(HistogramError::Range)?,
            count => {
                let count = count as u64;
                if count > 0 {
                    let (low, high) = Layout::bucket(index).ok_or(HistogramError::Range)?;
                    total = total
                        .checked_add(count)
                        .filter(|&n| n <= SAMPLES_MAX)
                        .ok_or(HistogramError::Range)?;
                    histogram.record_bucket(low, high, count);
                }
                index = index.checked_add(1).ok_or(HistogramError::Range)?;
            }
        }
    }
    Ok(histogram)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], HistogramError> {
    let (head, rest) = bytes.split_first_chunk::<N>().ok_or(HistogramError::Truncated)?;
    *bytes = rest;
    Ok(*head)
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, HistogramError> {
    take(bytes).map(u32::from_be_bytes)
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, HistogramError> {
    take(bytes).map(u64::from_be_bytes)
}

/// LEB128 of at most nine bytes, of which the ninth is taken whole (`ZigZagEncoding.getLong`).
fn take_leb128(bytes: &mut &[u8]) -> Result<u64, HistogramError> {
    let mut value = 0;
    for place in 0..9 {
        let [byte] = take(bytes)?;
        if place == 8 {
            return Ok(value | u64::from(byte) << 56);
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    Ok(value)
}

fn zigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Histogram {
        let mut h = Histogram::new();
        h.record_n(0, 3);
        h.record_n(2_047, 200);
        h.record_n(2_048, 1);
        h.record_n(1_234_567, 10_000);
        h.record_n(MAX_NS, 2);
        h
    }

    #[test]
    fn a_log_line_comes_back() {
        let h = sample();
        let line = h.to_log_line(Some("rtt a,b"), 1.5, 10.0);
        assert!(line.starts_with("Tag=rtt_a_b,1.500,10.000,100000.000,HISTFAAAA"), "{line}");
        let (tag, back) = Histogram::from_log_line(&line).unwrap();
        assert_eq!(tag.as_deref(), Some("rtt_a_b"));
        assert!(back.buckets().eq(h.buckets()));
        assert_eq!(back.samples(), h.samples());
        assert_eq!(back.min(), Some(0));
        let (mean, exact) = (back.mean().unwrap(), h.mean().unwrap());
        assert!((mean - exact).abs() < exact / 1000.0, "{mean} {exact}");
        let (none, empty) = Histogram::from_log_line(&Histogram::new().to_log_line(None, 0.0, 1.0)).unwrap();
        assert_eq!((none, empty.samples()), (None, 0));
    }

    #[test]
    fn the_library_reads_what_we_write() {
        let bytes = BASE64.decode(sample().to_base64()).unwrap();
        let theirs: hdrhistogram::Histogram<u64> =
            hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(theirs.len(), sample().samples());
        assert_eq!(theirs.count_at(1_234_567), 10_000);
    }

    /// A V2 body from its header fields and payload.
    fn body(digits: u32, lowest: u64, ratio: f64, payload: &[u8]) -> Vec<u8> {
        let mut b = COOKIE_V2.to_be_bytes().to_vec();
        b.extend((payload.len() as u32).to_be_bytes());
        b.extend(0u32.to_be_bytes());
        b.extend(digits.to_be_bytes());
        b.extend(lowest.to_be_bytes());
        b.extend(3_600_000_000_000u64.to_be_bytes());
        b.extend(ratio.to_bits().to_be_bytes());
        b.extend(payload);
        b
    }

    #[test]
    fn literal_bytes_decode() {
        // Five empty buckets (zigzag -5 = 9), then 300 samples of 5 ns (zigzag 300 = 600 = 0xd8 0x04).
        let h = decode(&body(3, 1, 1.0, &[9, 0xd8, 0x04])).unwrap();
        assert_eq!((h.samples(), h.min(), h.max()), (300, Some(5), Some(5)));
        // 2048 empty buckets (zigzag -2048 = 4095 = 0xff 0x1f), then one sample of 2048..=2049 ns.
        let h = decode(&body(3, 1, 1.0, &[0xff, 0x1f, 2])).unwrap();
        assert_eq!((h.samples(), h.min(), h.max()), (1, Some(2048), Some(2049)));
    }

    #[test]
    fn foreign_and_broken_bodies_are_refused() {
        assert!(matches!(decode(&body(2, 1, 1.0, &[])), Err(HistogramError::Layout)));
        assert!(matches!(decode(&body(3, 1000, 1.0, &[])), Err(HistogramError::Layout)));
        assert!(matches!(decode(&body(3, 1, 0.5, &[])), Err(HistogramError::Layout)));
        assert!(matches!(decode(&body(3, 1, 1.0, &[0x80])), Err(HistogramError::Truncated)));
        let mut long = body(3, 1, 1.0, &[2]);
        long.push(2);
        assert!(matches!(decode(&long), Err(HistogramError::Truncated)));
        // The most negative run of zeros, twice, and a count beyond 100 s.
        let run = [0xffu8; 9];
        let twice = [run, run, run].concat();
        assert!(matches!(decode(&body(3, 1, 1.0, &twice)), Err(HistogramError::Range)));
        assert!(matches!(
            decode(&body(3, 1, 1.0, &[run.as_slice(), &[2]].concat())),
            Err(HistogramError::Range)
        ));
        // The largest count, three times.
        let most = [[0xfeu8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]; 3].concat();
        assert!(matches!(decode(&body(3, 1, 1.0, &most)), Err(HistogramError::Range)));
        for line in ["", "a,b", "1,2,3", "1,2,x,HIST", "Tag=x", "#[comment]", "1,2,3,????"] {
            assert!(Histogram::from_log_line(line).is_err(), "{line}");
        }
        assert!(matches!(Histogram::from_base64("AAAAAAAA"), Err(HistogramError::Cookie(0))));
    }

    #[test]
    fn a_small_file_cannot_ask_for_much_memory() {
        let mut deflated = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        io::Write::write_all(&mut deflated, &body(3, 1, 1.0, &vec![0; 64 << 20])).unwrap();
        let deflated = deflated.finish().unwrap();
        let mut bytes = COOKIE_V2_COMPRESSED.to_be_bytes().to_vec();
        bytes.extend((deflated.len() as u32).to_be_bytes());
        bytes.extend(deflated);
        assert!(matches!(Histogram::from_base64(&BASE64.encode(bytes)), Err(HistogramError::Truncated)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_histogram_comes_back(spans in prop::collection::vec((0..=MAX_NS, 1u64..1 << 40), 0..50)) {
            let mut h = Histogram::new();
            spans.iter().for_each(|&(ns, n)| h.record_n(ns, n));
            let back = Histogram::from_base64(&h.to_base64()).unwrap();
            prop_assert!(back.buckets().eq(h.buckets()));
        }

        #[test]
        fn no_payload_panics(payload in prop::collection::vec(any::<u8>(), 0..64), text in "[A-Za-z0-9+/=,. ]{0,80}") {
            if let Ok(h) = decode(&body(3, 1, 1.0, &payload)) {
                prop_assert!(h.min() <= h.max());
            }
            prop_assert!(Histogram::from_log_line(&text).is_err());
        }
    }
}
