//! The head of all that the two ends of a measurement say to one another, over TCP and in private data of RDMA connections.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | `bwRC` |
//! | 4 | version |
//! | 5 | kind |
//! | 6 | bytes behind the head, big-endian; 0 in private data, whose kinds have a fixed length |

const MAGIC: [u8; 4] = *b"bwRC";
/// Version of all that is said.
pub const VERSION: u8 = 1;
/// Bytes of a head.
pub const HEAD_LEN: usize = 8;
/// The first bytes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Of all that is said.
    pub version: u8,
    /// What follows.
    pub kind: u8,
    /// Bytes of what follows.
    pub len: u16,
}

impl Head {
    /// Of this version.
    pub fn of(kind: u8, len: u16) -> Head {
        Head { version: VERSION, kind, len }
    }

    /// As it is sent.
    pub fn bytes(self) -> [u8; HEAD_LEN] {
        let [a, b, c, d] = MAGIC;
        let [high, low] = self.len.to_be_bytes();
        [a, b, c, d, self.version, self.kind, high, low]
    }

    /// `None`: it is none of ours.
    pub fn parse(bytes: &[u8; HEAD_LEN]) -> Option<Head> {
        let [a, b, c, d, version, kind, high, low] = *bytes;
        ([a, b, c, d] == MAGIC).then_some(Head { version, kind, len: u16::from_be_bytes([high, low]) })
    }
}
