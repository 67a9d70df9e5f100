//! What stands before a packet for the controller that the program in the kernel made: taken away, and found also where the socket put
//! a VLAN tag into it that had come beside the frame.

use barewire_frame::Frame;
use barewire_p4_ebpf::maps::TAG_LEN;
use std::borrow::Cow;

const LEN: usize = TAG_LEN as usize;
/// Where a socket puts a VLAN tag, and its length.
const VLAN_AT: usize = 12;
pub(crate) const VLAN_LEN: usize = 4;

/// See [`barewire_p4_ebpf::tag`].
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    pub secret: [u8; 16],
    before: [u8; LEN],
}

/// Where a packet is that has the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Behind,
    /// Behind it and a VLAN tag that belongs into the packet.
    BehindVlan,
}

impl Tag {
    pub fn new(secret: [u8; 16]) -> Tag {
        Tag { secret, before: barewire_p4_ebpf::tag(secret) }
    }

    #[inline]
    fn find(&self, data: &[u8]) -> Option<Found> {
        // All but a few packets are told by this.
        if !data.starts_with(&self.before[..VLAN_AT]) {
            return None;
        }
        let rest = &self.before[VLAN_AT..];
        if data[VLAN_AT..].starts_with(rest) {
            return Some(Found::Behind);
        }
        let behind_vlan = data.get(VLAN_AT + VLAN_LEN..)?;
        behind_vlan.starts_with(rest).then_some(Found::BehindVlan)
    }

    /// Whether a frame has it.
    #[inline]
    pub fn is_before(&self, data: &[u8]) -> bool {
        self.find(data).is_some()
    }

    /// Takes it from a frame that has it; false for one that is too short for the VLAN tag that is to go into it.
    pub fn take_from(&self, frame: &mut Frame) -> bool {
        if self.find(frame.data()) == Some(Found::BehindVlan) {
            let data = frame.data_mut();
            let inner = LEN + VLAN_LEN;
            if data.len() < inner + VLAN_AT {
                return false;
            }
            data.copy_within(VLAN_AT..VLAN_AT + VLAN_LEN, 0);
            data.copy_within(inner..inner + VLAN_AT, LEN);
            data.copy_within(..VLAN_LEN, LEN + VLAN_AT);
        }
        frame.pull_front(LEN)
    }

    /// A frame's bytes for others to see: the secret is not for them.
    pub fn hide<'a>(&self, data: &'a [u8]) -> Cow<'a, [u8]> {
        match self.find(data) {
            None => Cow::Borrowed(data),
            Some(Found::Behind) => Cow::Borrowed(&data[LEN..]),
            Some(Found::BehindVlan) => {
                let inner = &data[LEN + VLAN_LEN..];
                let (addresses, rest) = inner.split_at(inner.len().min(VLAN_AT));
                Cow::Owned([addresses, &data[VLAN_AT..VLAN_AT + VLAN_LEN], rest].concat())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_frame::{Pool, PoolConfig};

    #[test]
    fn it_is_taken_from_wherever_it_is() {
        let pool = Pool::new(PoolConfig { frames: 4, chunk_len: 2048, headroom: 128, huge_pages: false });
        let pool = pool.expect("frames");
        let tag = Tag::new([7; 16]);
        let packet: Vec<u8> = (0..60).collect();
        let vlan = [0x81, 0, 0, 5];
        let tagged = [&tag.before[..], &packet].concat();
        let with_vlan = [&tagged[..12], &vlan, &tagged[12..]].concat();
        let cases =
            [(tagged, packet.clone()), (with_vlan.clone(), [&packet[..12], &vlan, &packet[12..]].concat())];
        for (bytes, expected) in cases {
            let mut frame = pool.alloc_from(&bytes).expect("a frame");
            assert!(tag.is_before(frame.data()) && tag.take_from(&mut frame));
            assert_eq!(frame.data(), expected);
            assert_eq!(*tag.hide(&bytes), expected);
            assert!(!Tag::new([8; 16]).is_before(&bytes), "another switch's");
        }
        // What is cut short has it all the same, and nobody sees it.
        let short = &with_vlan[..40];
        let mut frame = pool.alloc_from(short).expect("a frame");
        assert!(tag.is_before(short) && !tag.take_from(&mut frame));
        assert!(!tag.hide(short).windows(4).any(|bytes| bytes == [7; 4]));
        for len in 0..LEN {
            assert!(!tag.is_before(&with_vlan[..len]));
        }
        assert_eq!(*tag.hide(&packet), packet[..]);
    }
}
