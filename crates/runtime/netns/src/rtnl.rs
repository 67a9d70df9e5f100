//! Requests to the kernel's rtnetlink (man 7 rtnetlink), one at a time, each acknowledged.
//!
//! The socket belongs to the namespace it was opened in and works from any thread. Messages to the kernel are built with
//! `netlink-packet-route`; of its answers only the few fields in use are read, so that a newer kernel's attributes are
//! no reason to fail.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// `NLMSG_ERROR`: an error number, or zero as acknowledgement (linux/netlink.h).
const NLMSG_ERROR: u16 = 2;
/// `RTM_NEWLINK` (linux/rtnetlink.h).
const RTM_NEWLINK: u16 = 16;
/// Length of `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
/// Length of `struct ifinfomsg`.
const IFINFOMSG_LEN: usize = 16;

/// What the kernel says about a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkReply {
    pub(crate) index: u32,
    pub(crate) flags: u32,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: u32,
    pub(crate) tx_queues: u32,
    pub(crate) rx_queues: u32,
}

#[derive(Debug)]
pub(crate) struct Rtnl {
    socket: Socket,
    sequence: u32,
}

impl Rtnl {
    /// A socket to the namespace that the calling thread is in.
    pub(crate) fn open() -> io::Result<Rtnl> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Rtnl { socket, sequence: 0 })
    }

    /// Sends a request and waits for its acknowledgement. `flags` besides REQUEST and ACK.
    ///
    /// # Errors
    /// The kernel's error number.
    pub(crate) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<LinkReply>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut link = None;
        // The kernel handles a request while it is sent: answer and acknowledgement are waiting already.
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while let Some((header, payload, next)) = split_message(rest) {
                rest = next;
                if header.sequence != self.sequence {
                    continue;
                }
                match header.kind {
                    NLMSG_ERROR => return acknowledged(payload).map(|()| link),
                    RTM_NEWLINK => link = parse_link(payload),
                    _ => {}
                }
            }
        }
    }
}

struct Header {
    kind: u16,
    sequence: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The first message of a datagram, its payload, and the rest.
fn split_message(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let header = Header { kind, sequence: u32_at(bytes, 8)? };
    let payload = bytes.get(HEADER_LEN..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((header, payload, next))
}

fn acknowledged(payload: &[u8]) -> io::Result<()> {
    match u32_at(payload, 0).map(|code| code as i32) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn parse_link(payload: &[u8]) -> Option<LinkReply> {
    let mut link =
        LinkReply { index: u32_at(payload, 4)?, flags: u32_at(payload, 8)?, ..LinkReply::default() };
    // Attribute numbers of linux/if_link.h.
    for nla in NlasIterator::new(payload.get(IFINFOMSG_LEN..)?).flatten() {
        let value = nla.value();
        match nla.kind() {
            1 => link.mac = value.try_into().ok(),
            4 => link.mtu = u32_at(value, 0)?,
            31 => link.tx_queues = u32_at(value, 0)?,
            32 => link.rx_queues = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_answer_is_read_past_attributes_that_nobody_knows() {
        let mut bytes = vec![0xa5; 4];
        bytes.splice(.., [0, 0, 1, 0]);
        bytes.extend(7u32.to_ne_bytes());
        bytes.extend(0x1_1043u32.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend([8, 0, 0xff, 0x3f, 1, 2, 3, 4]);
        bytes.extend([10, 0, 1, 0, 2, 0x62, 0x77, 0, 0, 1, 0xa5, 0xa5]);
        bytes.extend([8, 0, 4, 0]);
        bytes.extend(9000u32.to_ne_bytes());
        let link = parse_link(&bytes).unwrap();
        assert_eq!((link.index, link.flags, link.mtu), (7, 0x1_1043, 9000));
        assert_eq!(link.mac, Some([2, 0x62, 0x77, 0, 0, 1]));
        assert_eq!(parse_link(&bytes[..15]), None);
    }

    #[test]
    fn answers_split_and_errors_have_their_number() {
        let mut bytes = 20u32.to_ne_bytes().to_vec();
        bytes.extend([2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend((-17i32).to_ne_bytes());
        let (header, payload, rest) = split_message(&bytes).unwrap();
        assert_eq!((header.kind, header.sequence, rest.len()), (2, 5, 0));
        assert_eq!(acknowledged(payload).unwrap_err().raw_os_error(), Some(libc::EEXIST));
        assert!(acknowledged(&[0; 4]).is_ok() && acknowledged(&[0; 3]).is_err());
        // A length below its own header, beyond the end, or no header at all.
        for length in [0u32, 15, 21] {
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(split_message(&bytes).is_none());
        }
        assert!(split_message(&bytes[..11]).is_none());
    }
}
