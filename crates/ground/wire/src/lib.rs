//! Packet formats.
#![no_std]
#![forbid(unsafe_code)]
/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct MacAddr(pub [u8; 6]);
