//! VLAN tags: IEEE 802.1Q, and two of them for IEEE 802.1ad ("QinQ").
//!
//! A tag stands between the source address and the type of a frame. The view here starts behind the tag's own EtherType:
//! two bytes of tag control information, then the EtherType of what follows.

use crate::eth::{self, EtherType};
use crate::field::{put, slice, u16_at, view};
use crate::{Error, field};

/// Where the fields are.
mod at {
    pub const TCI: usize = 0;
    pub const ETHERTYPE: usize = 2;
    pub const PAYLOAD: usize = 4;
}

/// Bytes that one tag adds to a frame.
pub const TAG_LEN: usize = at::PAYLOAD;
/// Most tags that [`untag`] takes off.
pub const TAGS_MAX: usize = 2;
/// The largest VLAN id that a frame may have; 4095 is reserved.
pub const VID_MAX: u16 = 4094;

/// Tag control information.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tag {
    /// Priority, 0 to 7.
    pub priority: u8,
    /// Whether the frame may be dropped first.
    pub drop_eligible: bool,
    /// The VLAN, 0 (priority only) to 4095 (reserved).
    pub vid: u16,
}

impl Tag {
    /// The tag of VLAN `vid` with priority 0.
    pub const fn new(vid: u16) -> Tag {
        Tag { priority: 0, drop_eligible: false, vid: vid & 0x0fff }
    }

    /// The tag in its 16 bits.
    pub const fn to_bits(self) -> u16 {
        (self.priority as u16 & 7) << 13 | (self.drop_eligible as u16) << 12 | self.vid & 0x0fff
    }

    /// The tag that 16 bits say.
    pub const fn from_bits(tci: u16) -> Tag {
        Tag { priority: (tci >> 13) as u8, drop_eligible: tci & 0x1000 != 0, vid: tci & 0x0fff }
    }
}

view! {
    /// A tag behind its EtherType, and what follows it.
    Packet, min TAG_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// `Truncated` when the tag is not whole.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()
    }

    /// The tag.
    #[inline]
    pub fn tag(&self) -> Tag {
        Tag::from_bits(u16_at(self.data(), at::TCI))
    }

    /// The type of what follows.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(u16_at(self.data(), at::ETHERTYPE))
    }
}

impl<'a> Packet<&'a [u8]> {
    /// What follows the tag.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, at::PAYLOAD, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the tag.
    #[inline]
    pub fn set_tag(&mut self, tag: Tag) {
        put(self.data_mut(), at::TCI, tag.to_bits().to_be_bytes());
    }

    /// Sets the type of what follows.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        put(self.data_mut(), at::ETHERTYPE, ethertype.0.to_be_bytes());
    }
}

/// A tag and the type of what follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The tag.
    pub tag: Tag,
    /// What follows.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a tag. `Malformed` for the reserved id 4095 (IEEE 802.1Q table 9-2).
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        packet.check()?;
        if packet.tag().vid > VID_MAX {
            return Err(Error::Malformed);
        }
        Ok(Repr { tag: packet.tag(), ethertype: packet.ethertype() })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_tag(self.tag);
        packet.set_ethertype(self.ethertype);
    }
}

/// A frame with its tags taken off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Untagged {
    /// The tags, outermost first.
    pub tags: [Option<Tag>; TAGS_MAX],
    /// The type behind the tags; still a tag's type when there were more than [`TAGS_MAX`].
    pub ethertype: EtherType,
    /// Where the payload starts, from the start of the frame.
    pub payload_at: usize,
}

/// Looks behind the tags of an Ethernet frame. `Truncated` when the header or a tag is not whole.
#[inline]
pub fn untag(frame: &[u8]) -> Result<Untagged, Error> {
    eth::Packet::new_checked(frame)?;
    let mut out = Untagged {
        tags: [None; TAGS_MAX],
        ethertype: EtherType(u16_at(frame, eth::HEADER_LEN - 2)),
        payload_at: eth::HEADER_LEN,
    };
    for slot in &mut out.tags {
        if !out.ethertype.is_tag() {
            break;
        }
        let packet = Packet::new_checked(field::slice(frame, out.payload_at, usize::MAX))?;
        *slot = Some(packet.tag());
        out.ethertype = packet.ethertype();
        out.payload_at += TAG_LEN;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Service tag 100, customer tag 5 of priority 3, IPv4.
    const QINQ: [u8; 24] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x70, 0x05, 0x08, 0x00, 0xca,
        0xfe,
    ];

    #[test]
    fn deconstruct() {
        let got = untag(&QINQ).unwrap();
        assert_eq!(got.tags[0], Some(Tag::new(100)));
        assert_eq!(got.tags[1], Some(Tag { priority: 3, drop_eligible: true, vid: 5 }));
        assert_eq!(got.ethertype, EtherType::IPV4);
        assert_eq!(QINQ[got.payload_at..], [0xca, 0xfe]);
        let packet = Packet::new_checked(&QINQ[14..]).unwrap();
        assert_eq!(packet.payload()[0], 0x70);
        assert_eq!(packet.ethertype(), EtherType::VLAN);
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 4];
        let tag = Tag { priority: 3, drop_eligible: true, vid: 5 };
        Repr { tag, ethertype: EtherType::IPV4 }.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, QINQ[18..22]);
    }

    #[test]
    fn cut_tags_and_the_reserved_id_are_refused() {
        assert_eq!(untag(&QINQ[..17]), Err(Error::Truncated));
        assert_eq!(untag(&QINQ[..21]), Err(Error::Truncated));
        assert_eq!(Repr::parse(&Packet::new_unchecked(&[0x0f, 0xff, 8, 0][..])), Err(Error::Malformed));
    }

    #[test]
    fn a_third_tag_is_left() {
        let mut bytes = [0u8; 40];
        for at in [12, 16, 20] {
            bytes[at..at + 2].copy_from_slice(&[0x81, 0x00]);
        }
        let got = untag(&bytes).unwrap();
        assert_eq!((got.ethertype, got.payload_at), (EtherType::VLAN, 22));
    }

    proptest! {
        #[test]
        fn parse_emit(priority in 0u8..8, drop_eligible: bool, vid in 0u16..4095, ethertype: u16) {
            let repr = Repr { tag: Tag { priority, drop_eligible, vid }, ethertype: EtherType(ethertype) };
            let mut bytes = [0xa5; TAG_LEN];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }
    }
}
