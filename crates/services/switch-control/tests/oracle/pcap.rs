//! Capture files, as far as bmv2 reads and writes them: microseconds, one packet after another.

/// A file of packets, each with the microsecond it is due.
pub fn write<'a>(packets: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
    file.extend_from_slice(&2_u16.to_le_bytes());
    file.extend_from_slice(&4_u16.to_le_bytes());
    for word in [0_u32, 0, 65_535, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (at_us, bytes) in packets {
        let seconds = 1_000_000_000 + at_us / 1_000_000;
        let len = bytes.len() as u32;
        for word in [seconds as u32, (at_us % 1_000_000) as u32, len, len] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(bytes);
    }
    file
}

/// The packets of a file that bmv2 wrote; one that is cut short ends the list.
pub fn read(file: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = file.get(24..).unwrap_or_default();
    while let Some(len) = rest.get(8..12) {
        let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
        let Some(bytes) = rest.get(16..16 + len) else { break };
        packets.push(bytes.to_vec());
        rest = &rest[16 + len..];
    }
    packets
}
