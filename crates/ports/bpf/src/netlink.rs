//! What rtnetlink says of an interface.
//!
//! Numbers: `linux/rtnetlink.h`, `linux/if_link.h`. An answer that is missing or cut off is none, never an error.

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

const NLM_F_REQUEST: u16 = 1;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const HEADER_LEN: usize = 16;
const IFINFO_LEN: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_LINK_NETNSID: u16 = 37;
/// Where `struct rtnl_link_stats64` counts packets that were sent.
const TX_PACKETS_AT: usize = 8;
const TYPE_MASK: u16 = 0x3fff;

/// Whether an interface of the caller's network namespace has its other end in another one (a veth pair between two).
pub fn peer_is_elsewhere(ifindex: u32) -> bool {
    let answer = link(ifindex);
    let id = answer.as_deref().and_then(attributes).and_then(|all| attribute(all, IFLA_LINK_NETNSID));
    id.and_then(|id| Some(i32::from_ne_bytes(id.get(..4)?.try_into().ok()?))).is_some_and(|id| id >= 0)
}

/// An interface's Ethernet address.
pub(crate) fn address(ifindex: u32) -> Option<[u8; 6]> {
    attribute(attributes(&link(ifindex)?)?, IFLA_ADDRESS)?.try_into().ok()
}

/// Packets that an interface has sent.
pub(crate) fn packets_sent(ifindex: u32) -> Option<u64> {
    let answer = link(ifindex)?;
    let count = attribute(attributes(&answer)?, IFLA_STATS64)?.get(TX_PACKETS_AT..TX_PACKETS_AT + 8)?;
    Some(u64::from_ne_bytes(count.try_into().ok()?))
}

/// The kernel's whole answer about an interface.
pub(crate) fn link(ifindex: u32) -> Option<Vec<u8>> {
    let mut socket = Socket::new(NETLINK_ROUTE).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    // The kernel answers while it takes the question.
    socket.set_non_blocking(true).ok()?;
    let mut question = Vec::with_capacity(HEADER_LEN + IFINFO_LEN);
    question.extend_from_slice(&((HEADER_LEN + IFINFO_LEN) as u32).to_ne_bytes());
    question.extend_from_slice(&RTM_GETLINK.to_ne_bytes());
    question.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    question.extend_from_slice(&[0; 12]);
    question.extend_from_slice(&ifindex.to_ne_bytes());
    question.extend_from_slice(&[0; 8]);
    socket.send(&question, 0).ok()?;
    let (answer, _) = socket.recv_from_full().ok()?;
    (u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?) == RTM_NEWLINK).then_some(answer)
}

/// The attributes of such an answer.
pub(crate) fn attributes(answer: &[u8]) -> Option<&[u8]> {
    answer.get(HEADER_LEN + IFINFO_LEN..)
}

/// The value of the first attribute of a kind.
pub(crate) fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & TYPE_MASK;
        let value = rest.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_what_is_cut_off_is_not() {
        let mut list = vec![8, 0, 1, 0, 1, 2, 3, 4, 5, 0, 7, 0, 9, 0, 0, 0];
        list.extend_from_slice(&[8, 0, 43, 0x80, 42, 0, 0, 0]);
        assert_eq!(attribute(&list, 7), Some(&[9][..]));
        assert_eq!(attribute(&list, 43), Some(&[42, 0, 0, 0][..]));
        assert_eq!(attribute(&list, 44), None);
        assert_eq!(attribute(&list[..20], 43), None);
        assert_eq!(attribute(&[0, 0, 1, 0], 43), None);
    }

    #[test]
    fn the_loopback_has_no_other_end() {
        assert!(!peer_is_elsewhere(1));
        assert!(!peer_is_elsewhere(0));
    }
}
