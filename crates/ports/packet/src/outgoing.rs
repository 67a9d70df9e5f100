//! What is checked before a frame goes to the kernel.

use crate::checksum::restart;
use barewire_base::DropReason;
use barewire_frame::{ChecksumState, Frame};
use barewire_wire::checksum;

/// Bytes of an Ethernet header.
pub const ETH_LEN: u32 = 14;
/// Bytes of a VLAN tag, which does not count against the MTU.
pub const VLAN_LEN: u32 = 4;

/// Whether a port whose largest untagged frame has `frame_max` bytes may send `data`.
///
/// # Errors
/// `Truncated` without a whole Ethernet header, `TooLarge` beyond `frame_max` (and a VLAN tag).
#[inline]
pub fn check_len(data: &[u8], frame_max: u32) -> Result<(), DropReason> {
    let len = data.len();
    if len < ETH_LEN as usize {
        return Err(DropReason::Truncated);
    }
    if len > frame_max as usize {
        let tagged = matches!(data[12..14], [0x81, 0x00] | [0x88, 0xa8]);
        if !tagged || len > (frame_max + VLAN_LEN) as usize {
            return Err(DropReason::TooLarge);
        }
    }
    Ok(())
}

/// As [`check_len`], for a port that cannot cut a frame: one that is to be cut is `TooLarge`, whatever its length.
///
/// # Errors
/// As [`check_len`].
#[inline]
pub fn check(frame: &Frame, frame_max: u32) -> Result<(), DropReason> {
    if frame.gso().is_some() {
        return Err(DropReason::TooLarge);
    }
    check_len(frame.data(), frame_max)
}

/// Completes a transport checksum that is marked unfinished, from the addresses that the frame has now.
///
/// # Errors
/// `UnfinishedChecksum` when the mark points outside the frame.
#[inline]
pub fn complete(frame: &mut Frame) -> Result<(), DropReason> {
    if let ChecksumState::Partial { start, offset } = frame.checksum() {
        restart(frame.data_mut(), start, offset);
        if !checksum::complete(frame.data_mut(), usize::from(start), usize::from(offset)) {
            return Err(DropReason::UnfinishedChecksum);
        }
        frame.set_checksum(ChecksumState::Unknown);
    }
    Ok(())
}

/// Both of these: refuses what cannot be sent, and completes an unfinished checksum.
///
/// # Errors
/// As [`check`] and [`complete`].
#[inline]
pub fn make_sendable(frame: &mut Frame, frame_max: u32) -> Result<(), DropReason> {
    check(frame, frame_max)?;
    complete(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_frame::{Gso, GsoKind, Pool, PoolConfig};

    #[test]
    fn a_tag_is_allowed_beyond_the_limit_and_nothing_else() {
        let mut frame = [0xa5u8; 1519];
        assert_eq!(check_len(&frame[..13], 1514), Err(DropReason::Truncated));
        assert_eq!(check_len(&frame[..14], 1514), Ok(()));
        assert_eq!(check_len(&frame[..1514], 1514), Ok(()));
        assert_eq!(check_len(&frame[..1515], 1514), Err(DropReason::TooLarge));
        frame[12..14].copy_from_slice(&[0x81, 0x00]);
        assert_eq!(check_len(&frame[..1518], 1514), Ok(()));
        assert_eq!(check_len(&frame, 1514), Err(DropReason::TooLarge));
    }

    #[test]
    fn a_frame_that_is_to_be_cut_is_too_large() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        let mut frame = pool.alloc_from(&[0xa5; 100]).unwrap();
        assert_eq!(check(&frame, 1514), Ok(()));
        frame.set_gso(Some(Gso { kind: GsoKind::UdpL4, ecn: false, size: 20 }));
        assert_eq!(check(&frame, 1514), Err(DropReason::TooLarge));
    }

    #[test]
    fn a_mark_outside_the_frame_refuses_it() {
        let pool = Pool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).unwrap();
        let mut frame = pool.alloc_from(&[0; 40]).unwrap();
        assert_eq!(complete(&mut frame), Ok(()), "nothing to do");
        frame.set_checksum(ChecksumState::Partial { start: 30, offset: 9 });
        assert_eq!(complete(&mut frame), Err(DropReason::UnfinishedChecksum));
        frame.set_checksum(ChecksumState::Partial { start: 30, offset: 8 });
        assert_eq!(complete(&mut frame), Ok(()));
        assert_eq!((&frame.data()[38..], frame.checksum()), (&[0xff, 0xff][..], ChecksumState::Unknown));
    }
}
