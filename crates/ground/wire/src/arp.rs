//! ARP for IPv4 over Ethernet (RFC 826).

use crate::field::{array, put, u8_at, u16_at, view};
use crate::{Error, EtherType, MacAddr};
use core::net::Ipv4Addr;

/// Where the fields are.
mod at {
    pub const HARDWARE: usize = 0;
    pub const PROTOCOL: usize = 2;
    pub const HARDWARE_LEN: usize = 4;
    pub const PROTOCOL_LEN: usize = 5;
    pub const OPERATION: usize = 6;
    pub const SENDER_MAC: usize = 8;
    pub const SENDER_IP: usize = 14;
    pub const TARGET_MAC: usize = 18;
    pub const TARGET_IP: usize = 24;
    pub const END: usize = 28;
}

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const PACKET_LEN: usize = at::END;

const HARDWARE_ETHERNET: u16 = 1;

/// What an ARP packet asks or says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has the sender address.
    Reply,
}

view! {
    /// An ARP packet.
    Packet, min PACKET_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// `Truncated` when the packet is not whole.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()
    }

    /// The hardware type; 1 is Ethernet.
    pub fn hardware(&self) -> u16 {
        u16_at(self.data(), at::HARDWARE)
    }

    /// The protocol whose addresses are resolved, as an EtherType.
    pub fn protocol(&self) -> EtherType {
        EtherType(u16_at(self.data(), at::PROTOCOL))
    }

    /// Bytes of a hardware address.
    pub fn hardware_len(&self) -> u8 {
        u8_at(self.data(), at::HARDWARE_LEN)
    }

    /// Bytes of a protocol address.
    pub fn protocol_len(&self) -> u8 {
        u8_at(self.data(), at::PROTOCOL_LEN)
    }

    /// The operation as a number.
    pub fn operation(&self) -> u16 {
        u16_at(self.data(), at::OPERATION)
    }

    /// The sender's Ethernet address.
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(array(self.data(), at::SENDER_MAC))
    }

    /// The sender's IPv4 address.
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.data(), at::SENDER_IP))
    }

    /// The target's Ethernet address; meaningless in a request.
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(array(self.data(), at::TARGET_MAC))
    }

    /// The target's IPv4 address.
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.data(), at::TARGET_IP))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets hardware type, protocol type and both lengths to IPv4 over Ethernet.
    pub fn set_ipv4_over_ethernet(&mut self) {
        let data = self.data_mut();
        put(data, at::HARDWARE, HARDWARE_ETHERNET.to_be_bytes());
        put(data, at::PROTOCOL, EtherType::IPV4.0.to_be_bytes());
        put(data, at::HARDWARE_LEN, [6, 4]);
    }

    /// Sets the operation.
    pub fn set_operation(&mut self, operation: u16) {
        put(self.data_mut(), at::OPERATION, operation.to_be_bytes());
    }

    /// Sets the sender's addresses.
    pub fn set_sender(&mut self, mac: MacAddr, ip: Ipv4Addr) {
        put(self.data_mut(), at::SENDER_MAC, mac.0);
        put(self.data_mut(), at::SENDER_IP, ip.octets());
    }

    /// Sets the target's addresses.
    pub fn set_target(&mut self, mac: MacAddr, ip: Ipv4Addr) {
        put(self.data_mut(), at::TARGET_MAC, mac.0);
        put(self.data_mut(), at::TARGET_IP, ip.octets());
    }
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// What it asks or says.
    pub operation: Operation,
    /// The sender's Ethernet address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// The target's Ethernet address, zero in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Reads a packet. `Unsupported` for another hardware, protocol or operation, `Malformed` for lengths that disagree
    /// with them.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        packet.check()?;
        if packet.hardware() != HARDWARE_ETHERNET || packet.protocol() != EtherType::IPV4 {
            return Err(Error::Unsupported);
        }
        if packet.hardware_len() != 6 || packet.protocol_len() != 4 {
            return Err(Error::Malformed);
        }
        let operation = match packet.operation() {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(Error::Unsupported),
        };
        Ok(Repr {
            operation,
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_ipv4_over_ethernet();
        packet.set_operation(match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        });
        packet.set_sender(self.sender_mac, self.sender_ip);
        packet.set_target(self.target_mac, self.target_ip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: [u8; 28] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, 0x02, 0x11, 0x12, 0x13, 0x14, 0x15, 10, 0, 0, 1, 0,
        0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    const REPR: Repr = Repr {
        operation: Operation::Request,
        sender_mac: MacAddr([0x02, 0x11, 0x12, 0x13, 0x14, 0x15]),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: MacAddr::ZERO,
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    };

    #[test]
    fn deconstruct() {
        assert_eq!(Repr::parse(&Packet::new_checked(&BYTES[..]).unwrap()), Ok(REPR));
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 28];
        REPR.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn what_is_not_ipv4_over_ethernet_is_refused() {
        let with = |at: usize, value: u8| {
            let mut bytes = BYTES;
            bytes[at] = value;
            Repr::parse(&Packet::new_unchecked(&bytes[..]))
        };
        assert_eq!(with(1, 6), Err(Error::Unsupported));
        assert_eq!(with(2, 0x86), Err(Error::Unsupported));
        assert_eq!(with(4, 8), Err(Error::Malformed));
        assert_eq!(with(5, 16), Err(Error::Malformed));
        assert_eq!(with(7, 3), Err(Error::Unsupported));
        assert_eq!(Packet::new_checked(&BYTES[..27]).err(), Some(Error::Truncated));
    }

    proptest! {
        #[test]
        fn parse_emit(reply: bool, sm: [u8; 6], si: u32, tm: [u8; 6], ti: u32) {
            let repr = Repr {
                operation: if reply { Operation::Reply } else { Operation::Request },
                sender_mac: MacAddr(sm),
                sender_ip: si.into(),
                target_mac: MacAddr(tm),
                target_ip: ti.into(),
            };
            let mut bytes = [0xa5; PACKET_LEN];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }
    }
}
