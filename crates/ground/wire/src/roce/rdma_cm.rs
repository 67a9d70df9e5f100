//! The RDMA-CM's use of the connection manager (annex A11): ports as service ids, addresses in the private data.

use crate::field::{array, put, u8_at, u16_at};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The top of every service id that stands for an IP port.
const PREFIX: u64 = 0x0000_0000_0100_0000;
const PREFIX_MASK: u64 = 0xffff_ffff_ff00_0000;

/// Whose port numbers a service id carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PortSpace {
    /// Those of TCP, for reliable connections.
    Tcp = 0x06,
    /// Those of UDP, for datagrams.
    Udp = 0x11,
}

/// The service id of a port.
pub const fn service_id(space: PortSpace, port: u16) -> u64 {
    PREFIX | (space as u64) << 16 | port as u64
}

/// The port that a service id stands for; `None` for a plain one.
pub const fn port_of(service_id: u64) -> Option<(PortSpace, u16)> {
    if service_id & PREFIX_MASK != PREFIX {
        return None;
    }
    match (service_id >> 16) as u8 {
        0x06 => Some((PortSpace::Tcp, service_id as u16)),
        0x11 => Some((PortSpace::Udp, service_id as u16)),
        _ => None,
    }
}

/// The GID of an address: itself, or IPv4 mapped to IPv6.
pub const fn gid(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address that a GID stands for.
pub const fn address_of(gid: [u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from_bits(u128::from_be_bytes(gid));
    match v6.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(v6),
    }
}

/// What stands at the start of a REQ's private data when its service id is that of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    /// The port of the side that connects.
    pub src_port: u16,
    /// The addresses: both IPv4 or both IPv6.
    pub addresses: Addresses,
}

/// The two addresses of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// The side that connects.
        src: Ipv4Addr,
        /// The side that listens.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// The side that connects.
        src: Ipv6Addr,
        /// The side that listens.
        dst: Ipv6Addr,
    },
}

impl IpHeader {
    /// Bytes of the header; the consumer's private data follows.
    pub const LEN: usize = 36;

    /// Reads the header; `None` when it is not whole, or of a version or family that is not defined.
    pub fn parse(bytes: &[u8]) -> Option<IpHeader> {
        let bytes = bytes.get(..Self::LEN)?;
        if u8_at(bytes, 0) != 0 {
            return None;
        }
        let addresses = match u8_at(bytes, 1) >> 4 {
            4 => Addresses::V4 {
                src: Ipv4Addr::from(array::<4>(bytes, 16)),
                dst: Ipv4Addr::from(array::<4>(bytes, 32)),
            },
            6 => Addresses::V6 {
                src: Ipv6Addr::from(array::<16>(bytes, 4)),
                dst: Ipv6Addr::from(array::<16>(bytes, 20)),
            },
            _ => return None,
        };
        Some(IpHeader { src_port: u16_at(bytes, 2), addresses })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8]) {
        put(out, 0, [0u8; Self::LEN]);
        put(out, 2, self.src_port.to_be_bytes());
        match self.addresses {
            Addresses::V4 { src, dst } => {
                put(out, 1, [0x40]);
                put(out, 16, src.octets());
                put(out, 32, dst.octets());
            }
            Addresses::V6 { src, dst } => {
                put(out, 1, [0x60]);
                put(out, 4, src.octets());
                put(out, 20, dst.octets());
            }
        }
    }
}
