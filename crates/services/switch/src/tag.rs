//! What stands before a packet that the program in the kernel worked on, for the controller or for user space in a later round: taken away,
//! and found also where the socket put a VLAN tag into it that had come beside the frame.

use barewire_frame::Frame;
use barewire_p4_ebpf::maps::{MAX_CONTEXT, TAG_CONTEXT, TAG_LEN, TAG_SECRET};
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
struct Found {
    /// Behind a VLAN tag, too, that belongs into the packet.
    vlan: bool,
    /// Bytes of context between the tag and the packet.
    context: usize,
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
        self.context_at(data, VLAN_AT).map(|context| Found { vlan: false, context }).or_else(|| {
            let context = self.context_at(data, VLAN_AT + VLAN_LEN)?;
            Some(Found { vlan: true, context })
        })
    }

    /// How long the context is, if the tag goes on here as it does behind its addresses.
    fn context_at(&self, data: &[u8], at: usize) -> Option<usize> {
        const CONTEXT_AT: usize = TAG_CONTEXT as usize - VLAN_AT;
        const SECRET_AT: usize = TAG_SECRET as usize - VLAN_AT;
        let (rest, known) = (data.get(at..at + LEN - VLAN_AT)?, &self.before[VLAN_AT..]);
        let same = rest[..CONTEXT_AT] == known[..CONTEXT_AT] && rest[SECRET_AT..] == known[SECRET_AT..];
        let context = usize::from(u16::from_be_bytes([rest[CONTEXT_AT], rest[CONTEXT_AT + 1]]));
        (same && context <= MAX_CONTEXT as usize).then_some(context)
    }

    /// Whether a frame has it.
    #[inline]
    pub fn is_before(&self, data: &[u8]) -> bool {
        self.find(data).is_some()
    }

    /// Takes it from a frame that has it, and says how many bytes of context stand before the packet then; none for one that is too short
    /// for its context, or for the VLAN tag that is to go into it.
    pub fn take_from(&self, frame: &mut Frame) -> Option<usize> {
        let Found { vlan, context } = self.find(frame.data())?;
        let data = frame.data_mut();
        if data.len() < LEN + context {
            return None;
        }
        if vlan {
            let inner = LEN + VLAN_LEN;
            if data.len() < inner + context + VLAN_AT {
                return None;
            }
            data.copy_within(VLAN_AT..VLAN_AT + VLAN_LEN, 0);
            data.copy_within(inner..inner + context + VLAN_AT, LEN);
            data.copy_within(..VLAN_LEN, LEN + context + VLAN_AT);
        }
        frame.pull_front(LEN).then_some(context)
    }

    /// A frame's bytes for others to see: the secret is not for them.
    pub fn hide<'a>(&self, data: &'a [u8]) -> Cow<'a, [u8]> {
        let behind = |len: usize| data.get(len..).unwrap_or_default();
        match self.find(data) {
            None => Cow::Borrowed(data),
            Some(Found { vlan: false, context }) => Cow::Borrowed(behind(LEN + context)),
            Some(Found { vlan: true, context }) => {
                let inner = behind(LEN + VLAN_LEN + context);
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
        let inside = [&packet[..12], &vlan, &packet[12..]].concat();
        // The same with a context.
        let mut later = [&tag.before[..], &[0xa5; 24], &packet].concat();
        later[TAG_CONTEXT as usize + 1] = 24;
        let later_vlan = [&later[..12], &vlan, &later[12..]].concat();
        let cases = [
            (tagged, packet.clone(), 0),
            (with_vlan.clone(), inside.clone(), 0),
            (later.clone(), packet.clone(), 24),
            (later_vlan.clone(), inside, 24),
        ];
        for (bytes, expected, context) in cases {
            let mut frame = pool.alloc_from(&bytes).expect("a frame");
            assert!(tag.is_before(frame.data()));
            assert_eq!(tag.take_from(&mut frame), Some(context));
            assert_eq!(frame.data(), [&[0xa5; 24][..context], &expected].concat());
            assert_eq!(*tag.hide(&bytes), expected);
            assert!(!Tag::new([8; 16]).is_before(&bytes), "another switch's");
        }
        // What is cut short has it all the same, and nobody sees it.
        let short = &with_vlan[..40];
        let mut frame = pool.alloc_from(short).expect("a frame");
        assert!(tag.is_before(short) && tag.take_from(&mut frame).is_none());
        for bytes in [&later[..50], &later_vlan[..70]] {
            let mut frame = pool.alloc_from(bytes).expect("a frame");
            assert!(tag.is_before(bytes) && tag.take_from(&mut frame).is_none());
            assert!(!tag.hide(bytes).windows(4).any(|bytes| bytes == [7; 4]));
        }
        later[TAG_CONTEXT as usize] = 1;
        assert!(!tag.is_before(&later), "more than there may be");
        assert!(!tag.hide(short).windows(4).any(|bytes| bytes == [7; 4]));
        for len in 0..LEN {
            assert!(!tag.is_before(&with_vlan[..len]));
        }
        assert_eq!(*tag.hide(&packet), packet[..]);
    }
}
