//! The header of management datagrams (section 13.4), as far as the connection manager uses it.

use crate::Error;
use crate::field::{put, slice, u8_at, u16_at, u32_at, view};

/// Where the fields are.
mod at {
    pub const BASE_VERSION: usize = 0;
    pub const CLASS: usize = 1;
    pub const CLASS_VERSION: usize = 2;
    pub const METHOD: usize = 3;
    pub const STATUS: usize = 4;
    pub const TRANSACTION: usize = 8;
    pub const ATTRIBUTE: usize = 16;
    pub const MODIFIER: usize = 20;
    pub const DATA: usize = 24;
}

/// Bytes of every management datagram.
pub const LEN: usize = 256;
/// Bytes of the header.
pub const HEADER_LEN: usize = at::DATA;
/// Bytes behind the header.
pub const DATA_LEN: usize = LEN - HEADER_LEN;

/// The communication management class.
pub const CLASS_CM: u8 = 7;
/// The version of that class.
pub const CLASS_VERSION_CM: u8 = 2;
/// The method that all messages of that class have.
pub const METHOD_SEND: u8 = 3;

view! {
    /// A management datagram.
    Packet, min LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// `Truncated` when the datagram is not whole.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()
    }

    /// The version of the header; 1.
    #[inline]
    pub fn base_version(&self) -> u8 {
        u8_at(self.data(), at::BASE_VERSION)
    }

    /// The management class.
    #[inline]
    pub fn class(&self) -> u8 {
        u8_at(self.data(), at::CLASS)
    }

    /// The version of the class.
    #[inline]
    pub fn class_version(&self) -> u8 {
        u8_at(self.data(), at::CLASS_VERSION)
    }

    /// The method and the response bit.
    #[inline]
    pub fn method(&self) -> u8 {
        u8_at(self.data(), at::METHOD)
    }

    /// The status.
    #[inline]
    pub fn status(&self) -> u16 {
        u16_at(self.data(), at::STATUS)
    }

    /// The transaction id.
    #[inline]
    pub fn transaction(&self) -> u64 {
        u64::from(u32_at(self.data(), at::TRANSACTION)) << 32
            | u64::from(u32_at(self.data(), at::TRANSACTION + 4))
    }

    /// What the data is.
    #[inline]
    pub fn attribute(&self) -> u16 {
        u16_at(self.data(), at::ATTRIBUTE)
    }

    /// The attribute's modifier.
    #[inline]
    pub fn modifier(&self) -> u32 {
        u32_at(self.data(), at::MODIFIER)
    }
}

impl<'a> Packet<&'a [u8]> {
    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, at::DATA, LEN)
    }
}

/// Writes the header of a message of the connection manager.
pub(crate) fn emit_header(out: &mut [u8], transaction: u64, attribute: u16) {
    put(out, 0, [0u8; HEADER_LEN]);
    put(out, at::BASE_VERSION, [1, CLASS_CM, CLASS_VERSION_CM, METHOD_SEND]);
    put(out, at::TRANSACTION, transaction.to_be_bytes());
    put(out, at::ATTRIBUTE, attribute.to_be_bytes());
}
