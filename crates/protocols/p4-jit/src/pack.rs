//! Headers that are no fixed number of bytes, put on the wire bit by bit.

use barewire_p4::ir::HeaderId;
use barewire_p4::phv::{Layout, Phv, Place};

/// Bits a header has now, its varbit field's current ones included.
pub fn bits(layout: &Layout, phv: &Phv, header: HeaderId) -> u64 {
    layout.headers[header.at()].fields.iter().map(|place| u64::from(spot(phv, *place).1)).sum()
}

/// A field's first bit in the vector (none for metadata, which lies in words) and its bits now.
fn spot(phv: &Phv, place: Place) -> (Option<u32>, u32) {
    match place {
        Place::Bits { bit, width, .. } => (Some(bit), width),
        Place::Words { width, .. } => (None, width),
        Place::Varbit { len_word, byte, max_bits } => {
            (Some(byte * 8), phv.slot(len_word as usize).min(u64::from(max_bits)) as u32)
        }
    }
}

/// Write a header's bits, padded with zero bits; `out` has exactly the bytes they take.
pub fn header(layout: &Layout, phv: &Phv, header: HeaderId, out: &mut [u8]) {
    out.fill(0);
    let mut to = 0_usize;
    for place in &layout.headers[header.at()].fields {
        let (first, width) = spot(phv, *place);
        for i in 0..width {
            let bit = match (first, place) {
                (Some(first), _) => phv.bits(first + i, 1),
                (None, Place::Words { word, .. }) => {
                    let from_low = width - 1 - i;
                    phv.words()[(*word + from_low / 64) as usize] >> (from_low % 64) & 1
                }
                (None, _) => 0,
            };
            if bit != 0
                && let Some(byte) = out.get_mut(to / 8)
            {
                *byte |= 0x80 >> (to % 8);
            }
            to += 1;
        }
    }
}
