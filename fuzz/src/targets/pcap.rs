//! Capture files.

use crate::frames;
use barewire_port::{PACKET_MAX, PcapReader, PcapWriter};
use std::io::{self, Read};

/// Hands out a few bytes at a time, as a pipe may.
struct Pieces<'a> {
    rest: &'a [u8],
    turn: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        let len = (self.turn % 7 + 1).min(self.rest.len()).min(out.len());
        let (now, rest) = self.rest.split_at(len);
        out[..len].copy_from_slice(now);
        self.rest = rest;
        Ok(len)
    }
}

/// Stamp, bytes, original length, link type.
type Packet = (u64, Vec<u8>, u32, u32);

/// The packets up to the first error, and the error.
fn read_all(source: impl Read, len: usize) -> (Vec<Packet>, Option<String>) {
    let mut reader = match PcapReader::new(source) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let mut packets = Vec::new();
    loop {
        let before = reader.offset();
        match reader.next_packet() {
            Ok(Some(packet)) => {
                assert!(packet.data.len() <= PACKET_MAX as usize);
                packets.push((packet.ns, packet.data.to_vec(), packet.original_len, packet.link_type));
            }
            Ok(None) => {
                assert_eq!(reader.offset(), len as u64, "the end is not where the file ends");
                assert!(matches!(reader.next_packet(), Ok(None)), "the end is no end");
                return (packets, None);
            }
            Err(error) => {
                let (at, text) = (reader.offset(), error.to_string());
                assert!(at >= before && reader.next_packet().is_err(), "an error that heals");
                assert_eq!(reader.offset(), at, "a reader that goes on after an error");
                return (packets, Some(text));
            }
        }
        let after = reader.offset();
        assert!(after > before && after <= len as u64, "from {before} to {after} of {len}");
    }
}

/// `data` as a capture file.
pub fn pcap(data: &[u8]) -> u64 {
    let (packets, error) = read_all(data, data.len());
    let pieces = read_all(Pieces { rest: data, turn: 0 }, data.len());
    assert_eq!((&packets, &error), (&pieces.0, &pieces.1));
    let mut file = Vec::new();
    let mut writer = PcapWriter::new(&mut file).expect("memory takes everything");
    // The format has 32 bits of seconds.
    let kept: Vec<_> = packets.iter().filter(|p| p.0 / 1_000_000_000 <= u64::from(u32::MAX)).collect();
    for (ns, data, ..) in &kept {
        writer.write(*ns, data).expect("memory takes everything");
    }
    let len = writer.len();
    writer.flush().expect("memory takes everything");
    drop(writer);
    assert_eq!(file.len() as u64, len);
    let (written, error) = read_all(&file[..], file.len());
    assert_eq!(error, None);
    assert!(written.iter().map(|p| (p.0, &p.1)).eq(kept.iter().map(|p| (p.0, &p.1))));
    packets.len() as u64 + 1
}

fn classic(big: bool, magic: u32) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut file = [word(magic), version, word(0), word(0), word(65535), word(1)].concat();
    for (i, frame) in frames::all().iter().take(4).enumerate() {
        let len = frame.len() as u32;
        file.extend([word(1_700_000_000), word(i as u32), word(len), word(len)].concat());
        file.extend_from_slice(frame);
    }
    file
}

fn ng(big: bool) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        file.extend(word(kind));
        file.extend(word(padded as u32 + 12));
        file.extend_from_slice(body);
        file.resize(file.len() + padded - body.len(), 0);
        file.extend(word(padded as u32 + 12));
    };
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    block(0x0a0d_0d0a, &section);
    // Nanoseconds (option if_tsresol), then an option if_tsoffset.
    let options =
        [&half(9)[..], &half(1), &[9, 0, 0, 0], &half(14), &half(8), &[0; 8], &half(0), &half(0)].concat();
    block(1, &[&half(1)[..], &half(0), &word(96), &options].concat());
    block(1, &[&half(1)[..], &half(0), &word(0)].concat());
    for (i, frame) in frames::all().iter().take(4).enumerate() {
        let len = word(frame.len() as u32);
        block(6, &[&word(i as u32 % 2)[..], &word(391_000), &word(7), &len, &len, frame].concat());
    }
    let frame = &frames::all()[2];
    block(3, &[&word(frame.len() as u32)[..], frame].concat());
    block(0x0bad, b"a block that nobody knows");
    file
}

/// Both formats, both byte orders, both units.
pub fn corpus() -> Vec<Vec<u8>> {
    vec![
        classic(false, 0xa1b2_c3d4),
        classic(true, 0xa1b2_c3d4),
        classic(false, 0xa1b2_3c4d),
        classic(true, 0xa1b2_3c4d),
        ng(false),
        ng(true),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_valid() {
        for (i, file) in corpus().iter().enumerate() {
            let (packets, error) = read_all(&file[..], file.len());
            assert_eq!((packets.len(), error), (if i < 4 { 4 } else { 5 }, None), "entry {i}");
        }
    }
}
