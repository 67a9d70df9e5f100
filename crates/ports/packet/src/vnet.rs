//! The header that stands before each frame on a socket with `PACKET_VNET_HDR`: which work a sender left undone
//! (`struct virtio_net_hdr` of `linux/virtio_net.h`, in the machine's byte order).
//!
//! ```text
//! 0 flags   1 gso_type   2 hdr_len   4 gso_size   6 csum_start   8 csum_offset
//! ```

use crate::checksum;
use barewire_base::DropReason;
use barewire_frame::{ChecksumState, Frame, Gso, GsoKind};

/// Bytes of the header.
pub(crate) const VNET_LEN: usize = 10;
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;
/// Where the checksum field is in a TCP and in a UDP header, and where TCP says how long its header is.
const TCP_CHECK: u16 = 16;
const UDP_CHECK: u16 = 6;
const TCP_DATA_OFFSET: usize = 12;
const TCP_LEN_MIN: usize = 20;
const UDP_LEN: usize = 8;

/// What the header of a received frame says; `shift` bytes were put into the frame before the transport header.
///
/// # Errors
/// `Malformed` for a kind of segmentation that is not known here.
#[inline]
pub(crate) fn read(header: &[u8; VNET_LEN], shift: u16) -> Result<(ChecksumState, Option<Gso>), DropReason> {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let state = if header[0] & NEEDS_CSUM != 0 {
        ChecksumState::Partial { start: word(6).saturating_add(shift), offset: word(8) }
    } else if header[0] & DATA_VALID != 0 {
        ChecksumState::Verified
    } else {
        ChecksumState::Unknown
    };
    let kind = match header[1] & !GSO_ECN {
        GSO_NONE => return Ok((state, None)),
        GSO_TCPV4 => GsoKind::Tcp4,
        GSO_TCPV6 => GsoKind::Tcp6,
        GSO_UDP_L4 => GsoKind::UdpL4,
        _ => return Err(DropReason::Malformed),
    };
    match word(4) {
        0 => Err(DropReason::Malformed),
        size => Ok((state, Some(Gso { kind, ecn: header[1] & GSO_ECN != 0, size }))),
    }
}

/// The header of a frame that is to be sent.
///
/// The sum of the pseudo-header, from which an unfinished checksum goes on, is written anew: whoever forwarded the frame may
/// have changed addresses. For a frame that is to be cut, the transport header is looked for anew, too.
///
/// # Errors
/// `UnfinishedChecksum` when the checksum does not lie in the frame, `Malformed` for a frame to be cut whose transport
/// header is another or does not lie in it.
#[inline]
pub(crate) fn write(frame: &mut Frame) -> Result<[u8; VNET_LEN], DropReason> {
    let mut header = [0; VNET_LEN];
    if let Some(gso) = frame.gso() {
        write_gso(frame, gso, &mut header)?;
    } else if let ChecksumState::Partial { start, offset } = frame.checksum() {
        write_partial(frame.len(), start, offset, &mut header)?;
        checksum::restart(frame.data_mut(), start, offset);
    }
    Ok(header)
}

fn write_partial(len: usize, start: u16, offset: u16, header: &mut [u8; VNET_LEN]) -> Result<(), DropReason> {
    if usize::from(start) + usize::from(offset) + 2 > len {
        return Err(DropReason::UnfinishedChecksum);
    }
    header[0] = NEEDS_CSUM;
    header[6..8].copy_from_slice(&start.to_ne_bytes());
    header[8..10].copy_from_slice(&offset.to_ne_bytes());
    Ok(())
}

fn write_gso(frame: &mut Frame, gso: Gso, header: &mut [u8; VNET_LEN]) -> Result<(), DropReason> {
    let (start, offset) = match checksum::transport(frame.data()) {
        Some(found) => {
            let field = usize::from(found.start) + usize::from(found.offset);
            let bytes = frame.data_mut().get_mut(field..field + 2).ok_or(DropReason::UnfinishedChecksum)?;
            bytes.copy_from_slice(&found.pseudo.to_be_bytes());
            (found.start, found.offset)
        }
        // Behind headers that are not known here: as the sender left it.
        None => match frame.checksum() {
            ChecksumState::Partial { start, offset } => (start, offset),
            _ => return Err(DropReason::UnfinishedChecksum),
        },
    };
    write_partial(frame.len(), start, offset, header)?;
    let at = usize::from(start);
    let (least, transport_len) = match gso.kind {
        GsoKind::Tcp4 | GsoKind::Tcp6 if offset == TCP_CHECK => {
            (TCP_LEN_MIN, usize::from(frame.data()[at + TCP_DATA_OFFSET] >> 4) * 4)
        }
        GsoKind::UdpL4 if offset == UDP_CHECK => (UDP_LEN, UDP_LEN),
        _ => return Err(DropReason::Malformed),
    };
    let header_len = at + transport_len;
    if transport_len < least || header_len > frame.len() {
        return Err(DropReason::Malformed);
    }
    let header_len = u16::try_from(header_len).map_err(|_| DropReason::Malformed)?;
    header[1] = match gso.kind {
        GsoKind::Tcp4 => GSO_TCPV4,
        GsoKind::Tcp6 => GSO_TCPV6,
        GsoKind::UdpL4 => GSO_UDP_L4,
    };
    if gso.ecn {
        header[1] |= GSO_ECN;
    }
    header[2..4].copy_from_slice(&header_len.to_ne_bytes());
    header[4..6].copy_from_slice(&gso.size.to_ne_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_frame::{Pool, PoolConfig};

    /// TCP 10.0.0.1:9 to 10.0.0.2:7 with 12 bytes of options and 5 of payload, behind an Ethernet header.
    fn tcp() -> Vec<u8> {
        let mut f = vec![0xa5; 12];
        f.extend_from_slice(&[0x08, 0x00, 0x45, 0, 0, 57, 0, 0, 0x40, 0, 64, 6, 0xa5, 0xa5]);
        f.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend_from_slice(&[0, 9, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x10, 1, 0, 0xa5, 0xa5, 0, 0]);
        f.extend_from_slice(&[1; 12]);
        f.extend_from_slice(b"hello");
        f
    }

    fn ne(parts: [u16; 4]) -> [u8; 8] {
        let mut out = [0; 8];
        for (to, from) in out.chunks_mut(2).zip(parts) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        out
    }

    fn header(flags: u8, kind: u8, words: [u16; 4]) -> [u8; VNET_LEN] {
        let mut out = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        out[2..].copy_from_slice(&ne(words));
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        let mut frame = pool.alloc_from(&tcp()).unwrap();
        let gso = Gso { kind: GsoKind::Tcp4, ecn: true, size: 3 };
        frame.set_gso(Some(gso));
        let bytes = write(&mut frame).unwrap();
        assert_eq!(bytes, header(1, 0x81, [34 + 32, 3, 34, 16]));
        // The pseudo-header: 0a00+0001+0a00+0002+0006+0025.
        assert_eq!(&frame.data()[50..52], &[0x14, 0x2e]);
        assert_eq!(read(&bytes, 0), Ok((ChecksumState::Partial { start: 34, offset: 16 }, Some(gso))));
        assert_eq!(read(&bytes, 4), Ok((ChecksumState::Partial { start: 38, offset: 16 }, Some(gso))));
    }

    #[test]
    fn a_header_that_was_put_in_front_and_changed_addresses_are_followed() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        let mut frame = pool.alloc_from(&tcp()).unwrap();
        frame.set_checksum(ChecksumState::Partial { start: 34, offset: 16 });
        frame.set_gso(Some(Gso { kind: GsoKind::Tcp4, ecn: false, size: 3 }));
        // A tag, and 10.0.0.9 instead of 10.0.0.1.
        assert!(frame.push_front(4));
        frame.data_mut().copy_within(4..16, 0);
        frame.data_mut()[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
        frame.data_mut()[33] = 9;
        assert_eq!(write(&mut frame), Ok(header(1, 1, [38 + 32, 3, 38, 16])));
        assert_eq!(&frame.data()[54..56], &[0x14, 0x36]);
        // Behind a label, which is not looked through, the mark holds.
        frame.data_mut()[12..14].copy_from_slice(&[0x88, 0x47]);
        assert_eq!(write(&mut frame), Ok(header(1, 1, [38 + 32, 3, 38, 16])));
        frame.set_checksum(ChecksumState::Unknown);
        assert_eq!(write(&mut frame), Err(DropReason::UnfinishedChecksum));
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        let mut frame = pool.alloc_from(&tcp()).unwrap();
        frame.set_gso(Some(Gso { kind: GsoKind::UdpL4, ecn: false, size: 3 }));
        assert_eq!(write(&mut frame), Err(DropReason::Malformed), "this is TCP");
        frame.set_gso(Some(Gso { kind: GsoKind::Tcp4, ecn: false, size: 3 }));
        for offset in [0x00, 0x40, 0xf0] {
            frame.data_mut()[46] = offset;
            assert_eq!(write(&mut frame), Err(DropReason::Malformed), "header of {offset:#x}");
        }
        // Cut short by whoever forwarded it: no longer TCP by its own length, and the mark lies outside.
        frame.set_checksum(ChecksumState::Partial { start: 34, offset: 16 });
        assert!(frame.set_len(51));
        assert_eq!(write(&mut frame), Err(DropReason::UnfinishedChecksum));
        for (kind, size) in [(3, 100), (0x83, 100), (6, 100), (0x7f, 100), (1, 0)] {
            assert_eq!(read(&header(1, kind, [66, size, 34, 16]), 0), Err(DropReason::Malformed));
        }
    }

    #[test]
    fn without_segmentation_only_the_checksum_is_told() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        let mut frame = pool.alloc_from(&tcp()).unwrap();
        assert_eq!(write(&mut frame), Ok([0; VNET_LEN]));
        frame.set_checksum(ChecksumState::Partial { start: 34, offset: 16 });
        assert_eq!(write(&mut frame), Ok(header(1, 0, [0, 0, 34, 16])));
        assert_eq!(&frame.data()[50..52], &[0x14, 0x2e], "from the addresses as they are");
        assert_eq!(read(&header(2, 0, [0; 4]), 9), Ok((ChecksumState::Verified, None)));
        assert_eq!(read(&[0; VNET_LEN], 9), Ok((ChecksumState::Unknown, None)));
    }
}
