//! What the handshake of an encrypted flow adds to INIT and ACCEPT, and the CONFIRM that may follow.
//!
//! ```text
//! INIT     body | pattern | ciphers | rekey | zero | udp_port (u16) | length (u16) | handshake message
//! ACCEPT   body | length (u16) | handshake message, with Terms in it, encrypted
//! CONFIRM  length (u16) | handshake message
//! ```
//!
//! The first INIT of a client carries no handshake message: it asks for a cookie, so that neither side computes anything before
//! the client's address is proven. A build that knows nothing of this ignores what stands behind the bodies.

use super::{ACCEPT_LEN, COMMON_LEN, Error, INIT_LEN, be16, be32, be64};

/// The client knows the server's key: Noise IK.
pub const PATTERN_IK: u8 = 1;
/// Neither knows the other's key: Noise XX.
pub const PATTERN_XX: u8 = 2;

/// AES-128-GCM, as a bit of [`Init::ciphers`] and as [`Terms::cipher`].
pub const CIPHER_AES_128_GCM: u8 = 0x01;
/// ChaCha20-Poly1305, likewise.
pub const CIPHER_CHACHA20_POLY1305: u8 = 0x02;

/// Bytes of an INIT for an encrypted flow before its handshake message.
pub const INIT_SECURE_LEN: usize = INIT_LEN + 8;
/// Bytes of an ACCEPT before its handshake message.
pub const ACCEPT_SECURE_LEN: usize = ACCEPT_LEN + 2;
/// Bytes of a CONFIRM before its handshake message.
pub const CONFIRM_LEN: usize = COMMON_LEN + 2;

fn message(packet: &[u8], at: usize) -> Result<&[u8], Error> {
    let len = packet.get(at..at + 2).ok_or(Error::Truncated)?;
    packet.get(at + 2..at + 2 + usize::from(be16(len, 0))).ok_or(Error::Truncated)
}

fn emit_message(out: &mut [u8], at: usize, message: &[u8]) {
    out[at..at + 2].copy_from_slice(&(message.len() as u16).to_be_bytes());
    out[at + 2..][..message.len()].copy_from_slice(message);
}

/// What follows the body of an INIT with [`option::SECURE`](super::option::SECURE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init<'a> {
    /// [`PATTERN_IK`] or [`PATTERN_XX`].
    pub pattern: u8,
    /// Ciphers that the client has, as bits.
    pub ciphers: u8,
    /// The client takes a new key after 2 to the power of so many packets.
    pub rekey: u8,
    /// The port that the client wants: a middlebox that sends it to another one is found out.
    pub udp_port: u16,
    /// The handshake message; empty in an INIT that asks for a cookie.
    pub message: &'a [u8],
}

impl<'a> Init<'a> {
    /// Parses what follows the body. Bytes after it are ignored.
    pub fn parse(packet: &'a [u8]) -> Result<Init<'a>, Error> {
        let fixed = packet.get(INIT_LEN..INIT_SECURE_LEN).ok_or(Error::Truncated)?;
        let [pattern, ciphers, rekey, zero, ..] = *fixed else {
            return Err(Error::Truncated);
        };
        if zero != 0 || !matches!(pattern, PATTERN_IK | PATTERN_XX) {
            return Err(Error::Malformed);
        }
        let message = message(packet, INIT_LEN + 6)?;
        Ok(Init { pattern, ciphers, rekey, udp_port: be16(fixed, 4), message })
    }

    /// Writes it. `out` must hold [`INIT_SECURE_LEN`] bytes and the message.
    pub fn emit(&self, out: &mut [u8]) {
        out[INIT_LEN..INIT_LEN + 4].copy_from_slice(&[self.pattern, self.ciphers, self.rekey, 0]);
        out[INIT_LEN + 4..INIT_LEN + 6].copy_from_slice(&self.udp_port.to_be_bytes());
        emit_message(out, INIT_LEN + 6, self.message);
    }
}

/// The handshake message of an ACCEPT.
pub fn parse_accept(packet: &[u8]) -> Result<&[u8], Error> {
    message(packet, ACCEPT_LEN)
}

/// Writes the handshake message of an ACCEPT. `out` must hold [`ACCEPT_SECURE_LEN`] bytes and the message.
pub fn emit_accept(out: &mut [u8], message: &[u8]) {
    emit_message(out, ACCEPT_LEN, message);
}

/// The handshake message of a CONFIRM.
pub fn parse_confirm(packet: &[u8]) -> Result<&[u8], Error> {
    message(packet, COMMON_LEN)
}

/// Writes the handshake message of a CONFIRM. `out` must hold [`CONFIRM_LEN`] bytes and the message.
pub fn emit_confirm(out: &mut [u8], message: &[u8]) {
    emit_message(out, COMMON_LEN, message);
}

/// What the server says of the flow, inside its handshake message: the clear fields of an ACCEPT are not to be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The server's connection id.
    pub src_cid: u64,
    /// Payload bytes of a full segment in both directions.
    pub mss: u16,
    /// Bits of [`option`](super::option).
    pub options: u16,
    /// Number of the server's first segment.
    pub seq: u32,
    /// Credit that the client begins with.
    pub credit: u32,
    /// The cipher of the flow: one of those that the client offered.
    pub cipher: u8,
    /// The server takes a new key after 2 to the power of so many packets.
    pub rekey: u8,
}

/// Bytes of [`Terms`].
pub const TERMS_LEN: usize = 22;

impl Terms {
    /// Parses them.
    pub fn parse(bytes: &[u8]) -> Result<Terms, Error> {
        let b: &[u8; TERMS_LEN] = bytes.first_chunk().ok_or(Error::Truncated)?;
        let terms = Terms {
            src_cid: be64(b, 0),
            mss: be16(b, 8),
            options: be16(b, 10),
            seq: be32(b, 12),
            credit: be32(b, 16),
            cipher: b[20],
            rekey: b[21],
        };
        if terms.src_cid == 0 || terms.mss == 0 {
            return Err(Error::Malformed);
        }
        Ok(terms)
    }

    /// Their bytes.
    pub fn to_bytes(&self) -> [u8; TERMS_LEN] {
        let mut b = [0; TERMS_LEN];
        b[0..8].copy_from_slice(&self.src_cid.to_be_bytes());
        b[8..10].copy_from_slice(&self.mss.to_be_bytes());
        b[10..12].copy_from_slice(&self.options.to_be_bytes());
        b[12..16].copy_from_slice(&self.seq.to_be_bytes());
        b[16..20].copy_from_slice(&self.credit.to_be_bytes());
        b[20] = self.cipher;
        b[21] = self.rekey;
        b
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    #[test]
    fn an_init_is_these_bytes() {
        let mut p = vec![0xa5; INIT_SECURE_LEN + 3];
        let init = Init { pattern: PATTERN_IK, ciphers: 3, rekey: 22, udp_port: 0x0378, message: b"abc" };
        init.emit(&mut p);
        assert_eq!(p[INIT_LEN..], [1, 3, 22, 0, 0x03, 0x78, 0, 3, b'a', b'b', b'c']);
        assert_eq!(Init::parse(&p), Ok(init));
        p.truncate(INIT_SECURE_LEN + 2);
        assert_eq!(Init::parse(&p), Err(Error::Truncated), "the message is cut off");
        p[INIT_LEN + 7] = 2;
        assert!(Init::parse(&p).is_ok());
        for (at, value) in [(INIT_LEN, 0), (INIT_LEN, 3), (INIT_LEN + 3, 1)] {
            let mut q = p.clone();
            q[at] = value;
            assert_eq!(Init::parse(&q), Err(Error::Malformed));
        }
    }

    #[test]
    fn terms_and_messages_survive_the_wire() {
        let terms = Terms {
            src_cid: 1 << 60 | 7,
            mss: 1432,
            options: 3,
            seq: 9,
            credit: 16384,
            cipher: 2,
            rekey: 22,
        };
        assert_eq!(Terms::parse(&terms.to_bytes()), Ok(terms));
        assert_eq!(Terms::parse(&terms.to_bytes()[..21]), Err(Error::Truncated));
        let mut p = vec![0xa5; 128];
        emit_accept(&mut p, &[7; 40]);
        assert_eq!(parse_accept(&p).unwrap(), [7; 40]);
        emit_confirm(&mut p, &[8; 64]);
        assert_eq!(parse_confirm(&p).unwrap(), [8; 64]);
        assert_eq!(parse_confirm(&p[..CONFIRM_LEN + 63]), Err(Error::Truncated));
    }
}
