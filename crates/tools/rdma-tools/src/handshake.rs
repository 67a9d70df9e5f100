//! What two ends tell each other before and between the data: values, and their bytes (big-endian), behind the [`Head`] of all talk.

use barewire_measure::head::{HEAD_LEN, Head, VERSION};

/// Most requests in flight.
pub const WINDOW_MAX: u32 = 4096;

/// What a client wants of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every message comes back.
    Echo = 1,
    /// Messages are taken and counted; the count stands in the first 8 bytes of the offered memory.
    Sink = 2,
    /// Memory to write, read and count in.
    Memory = 3,
}

/// Private data of a request: 16 bytes.
///
/// | bytes | what |
/// | --- | --- |
/// | 0 | `bwRC`, version 1, mode, 2 of zero |
/// | 8 | bytes of a message, or of memory |
/// | 12 | requests in flight |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// What is wanted.
    pub mode: Mode,
    /// Bytes of each message, or of the memory.
    pub size: u32,
    /// Requests that will be in flight, 1 to [`WINDOW_MAX`].
    pub window: u32,
}

impl Hello {
    /// Bytes.
    pub const LEN: usize = 16;

    /// As it goes into a request.
    pub fn bytes(&self) -> [u8; Hello::LEN] {
        let mut out = [0; Hello::LEN];
        out[..HEAD_LEN].copy_from_slice(&Head::of(self.mode as u8, 0).bytes());
        out[8..12].copy_from_slice(&self.size.to_be_bytes());
        out[12..16].copy_from_slice(&self.window.to_be_bytes());
        out
    }

    /// From a request's private data, whose zeros at the end are missing. `None`: it is none of ours. `Some(None)`: it is, and
    /// cannot be served.
    pub fn parse(private: &[u8]) -> Option<Option<Hello>> {
        let bytes: [u8; Hello::LEN] = padded(private);
        let head = Head::parse(&padded(&bytes))?;
        let mode = match head.kind {
            1 => Mode::Echo,
            2 => Mode::Sink,
            3 => Mode::Memory,
            _ => return Some(None),
        };
        let hello = Hello { mode, size: be32(&bytes, 8), window: be32(&bytes, 12) };
        let good = head.version == VERSION && (1..=WINDOW_MAX).contains(&hello.window);
        Some(good.then_some(hello))
    }
}

/// Private data of an answer: 24 bytes.
///
/// | bytes | what |
/// | --- | --- |
/// | 0 | `bwRC`, version 1, 3 of zero |
/// | 8 | address |
/// | 16 | key |
/// | 20 | bytes |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The server's memory.
    pub memory: Advert,
}

impl Offer {
    /// Bytes.
    pub const LEN: usize = 8 + Advert::LEN;

    /// As it goes into an answer.
    pub fn bytes(&self) -> [u8; Offer::LEN] {
        let mut out = [0; Offer::LEN];
        out[..HEAD_LEN].copy_from_slice(&Head::of(0, 0).bytes());
        out[8..].copy_from_slice(&self.memory.bytes());
        out
    }

    /// From an answer's private data, whose zeros at the end are missing. `None`: the peer is no server of ours.
    pub fn parse(private: &[u8]) -> Option<Offer> {
        let bytes: [u8; Offer::LEN] = padded(private);
        let ours = Head::parse(&padded(&bytes)).filter(|head| head.version == VERSION);
        ours.map(|_| Offer { memory: Advert::of_private(&bytes[8..]) })
    }
}

/// Memory of its sender's that the receiver may use: the 16 bytes of each message of an rping client.
///
/// | bytes | what |
/// | --- | --- |
/// | 0 | address |
/// | 8 | key |
/// | 12 | bytes |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advert {
    /// Its address.
    pub addr: u64,
    /// Its key.
    pub rkey: u32,
    /// Its bytes.
    pub len: u32,
}

impl Advert {
    /// Bytes.
    pub const LEN: usize = 16;

    /// As it goes into a message.
    pub fn bytes(&self) -> [u8; Advert::LEN] {
        let mut out = [0; Advert::LEN];
        out[..8].copy_from_slice(&self.addr.to_be_bytes());
        out[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        out[12..].copy_from_slice(&self.len.to_be_bytes());
        out
    }

    /// From private data; what is not there is 0.
    pub fn of_private(bytes: &[u8]) -> Advert {
        Advert::parse(&padded(bytes))
    }

    /// From a message.
    pub fn parse(bytes: &[u8; Advert::LEN]) -> Advert {
        let addr = u64::from(be32(bytes, 0)) << 32 | u64::from(be32(bytes, 4));
        Advert { addr, rkey: be32(bytes, 8), len: be32(bytes, 12) }
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let n = bytes.len().min(N);
    out[..n].copy_from_slice(&bytes[..n]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_these() {
        let hello = Hello { mode: Mode::Sink, size: 0x0102_0304, window: 64 };
        let bytes = *b"bwRC\x01\x02\0\0\x01\x02\x03\x04\0\0\0\x40";
        assert_eq!(hello.bytes(), bytes);
        assert_eq!(Hello::parse(&bytes), Some(Some(hello)));
        let offer = Offer { memory: Advert { addr: 0x1122_3344_5566_7788, rkey: 0x99aa_bbcc, len: 0x100 } };
        let bytes = b"bwRC\x01\0\0\0\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\0\0\x01\0";
        assert_eq!(&offer.bytes(), bytes);
        // A message does not say how long its private data is: zeros at the end are cut off.
        assert_eq!(Offer::parse(&bytes[..23]), Some(offer));
    }

    #[test]
    fn what_is_not_ours_is_told_from_what_cannot_be_served() {
        assert_eq!(Hello::parse(b""), None);
        assert_eq!(Hello::parse(b"rping"), None);
        assert_eq!(Hello::parse(b"bwRC"), Some(None));
        let good = Hello { mode: Mode::Echo, size: 0, window: WINDOW_MAX };
        assert_eq!(Hello::parse(&good.bytes()), Some(Some(good)));
        for (at, byte) in [(4, 2), (5, 4), (5, 0), (12, 1)] {
            let mut bytes = good.bytes();
            bytes[at] = byte;
            assert_eq!(Hello::parse(&bytes), Some(None), "byte {at}");
        }
        assert_eq!(Offer::parse(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Offer::parse(&bytes);
            if let Some(Some(hello)) = Hello::parse(&bytes) {
                prop_assert!((1..=WINDOW_MAX).contains(&hello.window));
            }
        }

        #[test]
        fn adverts_come_back(addr: u64, rkey: u32, len: u32) {
            let advert = Advert { addr, rkey, len };
            prop_assert_eq!(Advert::parse(&advert.bytes()), advert);
        }
    }
}
