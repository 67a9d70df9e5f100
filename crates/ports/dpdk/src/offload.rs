//! Transport checksums: those that the device completes, and those that came in unfinished.

use crate::sys::{TX_COMPLETES_TCP, TX_COMPLETES_UDP, TX_IPV6, TX_TCP, TX_UDP};
use barewire_base::DropReason;
use barewire_frame::{ChecksumState, Frame};
use barewire_packet::checksum::{restart, transport};
use barewire_packet::outgoing;

const ETH_LEN: usize = 14;
const TAG_LEN: usize = 4;
/// The checksum fields of UDP and of TCP, from the start of their headers.
const UDP_FIELD: u16 = 6;
const TCP_FIELD: u16 = 16;

/// What the device is told of a frame; 0: nothing. An unfinished checksum is left to it where it completes such ones, with the sum of the
/// pseudo-header in its field, else it is completed here.
///
/// # Errors
/// `UnfinishedChecksum` when the mark points outside the frame.
#[inline]
pub(crate) fn leave_or_complete(frame: &mut Frame, offloads: u32) -> Result<u32, DropReason> {
    let ChecksumState::Partial { start, offset } = frame.checksum() else { return Ok(0) };
    let Some(flags) = flags(frame.data(), start, offset, offloads) else {
        outgoing::complete(frame)?;
        return Ok(0);
    };
    restart(frame.data_mut(), start, offset);
    frame.set_checksum(ChecksumState::Unknown);
    Ok(flags)
}

/// Where the headers are, for a device that completes this kind of checksum.
fn flags(data: &[u8], start: u16, offset: u16, offloads: u32) -> Option<u32> {
    let (does, kind) = match offset {
        UDP_FIELD => (TX_COMPLETES_UDP, TX_UDP),
        TCP_FIELD => (TX_COMPLETES_TCP, TX_TCP),
        _ => return None,
    };
    if offloads & does == 0 || transport(data).is_none_or(|t| (t.start, t.offset) != (start, offset)) {
        return None;
    }
    let mut l2 = ETH_LEN;
    while l2 < ETH_LEN + 2 * TAG_LEN && matches!(data.get(l2 - 2..l2)?, [0x81, 0x00] | [0x88, 0xa8]) {
        l2 += TAG_LEN;
    }
    let is_v6 = data.get(l2)? >> 4 == 6;
    let l3 = usize::from(start).checked_sub(l2)?;
    Some(kind | if is_v6 { TX_IPV6 } else { 0 } | (l2 as u32) << 8 | (l3 as u32) << 16)
}

/// What a checksum is that the device says nothing good of (`L4_CKSUM_NONE`): left to an offload by a sender on this machine, where the field
/// holds the sum of the pseudo-header; else for us to look at, as there are drivers that say the same of what they did not look at.
pub(crate) fn left_open(data: &[u8]) -> ChecksumState {
    let Some(found) = transport(data) else { return ChecksumState::Unknown };
    let field = usize::from(found.start) + usize::from(found.offset);
    match data.get(field..field + 2) {
        Some(sum) if sum == found.pseudo.to_be_bytes() => {
            ChecksumState::Partial { start: found.start, offset: found.offset }
        }
        _ => ChecksumState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_frame::{Pool, PoolConfig};

    /// A datagram of three bytes from 10.0.0.1:9 to 10.0.0.2:7 behind so many VLAN tags.
    fn datagram(tags: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0x00, 0, 7]));
        frame.extend([0x08, 0x00, 0x45, 0, 0, 31, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, 7, 0, 11, 0, 0]);
        frame.extend(b"hi!");
        frame
    }

    #[test]
    fn a_device_is_told_where_headers_are_and_does_the_rest() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        for tags in 0..3 {
            let start = 34 + 4 * tags as u16;
            let mut frame = pool.alloc_from(&datagram(tags)).unwrap();
            assert_eq!(leave_or_complete(&mut frame, TX_COMPLETES_UDP), Ok(0), "it is not marked");
            frame.set_checksum(ChecksumState::Partial { start, offset: 6 });
            let told = leave_or_complete(&mut frame, TX_COMPLETES_UDP | TX_COMPLETES_TCP);
            assert_eq!(told, Ok(TX_UDP | (14 + 4 * tags as u32) << 8 | 20 << 16));
            // The sum of the pseudo-header: 0a00 + 0001 + 0a00 + 0002 + 0011 + 000b.
            let field = usize::from(start) + 6;
            assert_eq!(frame.data()[field..field + 2], [0x14, 0x1f]);
            assert_eq!(frame.checksum(), ChecksumState::Unknown);
        }
    }

    #[test]
    fn what_a_device_does_not_do_is_done_here() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        for offloads in [0, TX_COMPLETES_TCP] {
            let mut frame = pool.alloc_from(&datagram(0)).unwrap();
            frame.set_checksum(ChecksumState::Partial { start: 34, offset: 6 });
            assert_eq!(leave_or_complete(&mut frame, offloads), Ok(0));
            assert!(barewire_wire::checksum::sum(&frame.data()[34..]) != 0);
            assert!(frame.data()[40..42] != [0x14, 0x1f] && frame.data()[40..42] != [0, 0]);
        }
        let mut frame = pool.alloc_from(&datagram(0)).unwrap();
        // No header that a device knows begins there.
        frame.set_checksum(ChecksumState::Partial { start: 20, offset: 6 });
        assert_eq!(leave_or_complete(&mut frame, TX_COMPLETES_UDP), Ok(0));
        frame.set_checksum(ChecksumState::Partial { start: 44, offset: 6 });
        assert_eq!(leave_or_complete(&mut frame, TX_COMPLETES_UDP), Err(DropReason::UnfinishedChecksum));
    }

    #[test]
    fn a_checksum_that_was_never_made_is_not_unfinished() {
        let mut frame = datagram(1);
        assert_eq!(left_open(&frame), ChecksumState::Unknown);
        frame[44..46].copy_from_slice(&[0x14, 0x1f]);
        assert_eq!(left_open(&frame), ChecksumState::Partial { start: 38, offset: 6 });
        assert_eq!(left_open(&frame[..20]), ChecksumState::Unknown);
        // A whole checksum, right or wrong, is looked at.
        frame[44..46].copy_from_slice(&[0x14, 0x20]);
        assert_eq!(left_open(&frame), ChecksumState::Unknown);
    }
}
