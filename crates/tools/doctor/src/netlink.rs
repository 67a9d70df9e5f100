//! What cards say over netlink: the generic families `ethtool` and `netdev`, and the XDP program from rtnetlink.
//!
//! Nothing is set. Numbers of messages and attributes: linux/genetlink.h, linux/ethtool_netlink.h, linux/netdev.h,
//! linux/rtnetlink.h, linux/if_link.h. An answer that is missing, cut off or strange leaves a hole, never an error.

use crate::nic::{Coalescing, NicFacts, XdpHook};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use rustix::net::netdevice::name_to_index;
use std::net::{Ipv4Addr, UdpSocket};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const HEADER_LEN: usize = 16;
/// The generic header, after netlink's.
const GENERIC_LEN: usize = 4;
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// Generic netlink's own family, and its question for another one's number.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const FEATURES_GET: u8 = 11;
const RINGS_GET: u8 = 15;
const CHANNELS_GET: u8 = 17;
const COALESCE_GET: u8 = 19;
const PAUSE_GET: u8 = 21;
const TSINFO_GET: u8 = 25;
const NETDEV_DEV_GET: u8 = 1;

const RTM_GETLINK: u16 = 18;
const IFINFO_LEN: usize = 16;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;

/// Asks about each of `names`.
pub(crate) fn ask(names: &[String]) -> Vec<NicFacts> {
    let mut asker = Asker::new();
    // Any socket is good enough to ask for numbers of interfaces.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
    // By name, not from `/sys`, which may show another network namespace.
    let index = |name: &String| name_to_index(socket.as_ref()?, name).ok();
    names
        .iter()
        .map(|name| index(name).map_or_else(|| NicFacts::unanswered(name), |index| asker.nic(name, index)))
        .collect()
}

struct Asker {
    generic: Option<Line>,
    route: Option<Line>,
    ethtool: Option<u16>,
    netdev: Option<u16>,
}

impl Asker {
    fn new() -> Asker {
        let mut generic = Line::open(NETLINK_GENERIC);
        let mut family = |name| generic.as_mut().and_then(|line| line.family(name));
        let (ethtool, netdev) = (family("ethtool"), family("netdev"));
        Asker { generic, route: Line::open(NETLINK_ROUTE), ethtool, netdev }
    }

    fn ethtool(&mut self, index: u32, command: u8) -> Option<Vec<u8>> {
        // The first attribute of every question is the header, and in it the device's number.
        let header = attribute(1 | NESTED, &attribute(1, &index.to_ne_bytes()));
        let family = self.ethtool?;
        self.generic.as_mut()?.generic(family, command, &header)
    }

    fn nic(&mut self, name: &str, index: u32) -> NicFacts {
        let mut nic = NicFacts { index: Some(index), ..NicFacts::unanswered(name) };
        if let (Some(family), Some(line)) = (self.netdev, &mut self.generic) {
            let answer = line.generic(family, NETDEV_DEV_GET, &attribute(1, &index.to_ne_bytes()));
            nic.xdp_features = answer.and_then(|a| u64_of(find(&a, 3)?));
        }
        nic.xdp_hook = self.route.as_mut().and_then(|line| line.xdp_hook(index));
        if let Some(a) = self.ethtool(index, CHANNELS_GET) {
            nic.channels = channels(&a);
        }
        if let Some(a) = self.ethtool(index, RINGS_GET) {
            nic.rx_ring = pair(&a, 6, 2);
            nic.tx_ring = pair(&a, 9, 5);
        }
        if let Some(a) = self.ethtool(index, COALESCE_GET) {
            nic.coalescing = Some(coalescing(&a));
        }
        if let Some(a) = self.ethtool(index, PAUSE_GET) {
            nic.pause = flag(&a, 3).zip(flag(&a, 4));
        }
        if let Some(a) = self.ethtool(index, FEATURES_GET) {
            nic.features = find(&a, 4).map(bits);
        }
        if let Some(a) = self.ethtool(index, TSINFO_GET) {
            nic.timestamping = find(&a, 2).map(bits);
            nic.phc = find(&a, 5).and_then(u32_of);
        }
        nic
    }
}

fn channels(answer: &[u8]) -> Option<(u32, u32)> {
    let number = |kind| find(answer, kind).and_then(u32_of);
    let now = number(6).unwrap_or(0).saturating_add(number(9).unwrap_or(0));
    let most = number(2).unwrap_or(0).saturating_add(number(5).unwrap_or(0));
    (now > 0).then_some((now, most.max(now)))
}

fn coalescing(answer: &[u8]) -> Coalescing {
    let number = |kind| find(answer, kind).and_then(u32_of);
    Coalescing { rx_us: number(2), rx_frames: number(3), rx_adaptive: flag(answer, 11), tx_us: number(6) }
}

fn pair(answer: &[u8], now: u16, most: u16) -> Option<(u32, u32)> {
    let now = find(answer, now).and_then(u32_of)?;
    Some((now, find(answer, most).and_then(u32_of).unwrap_or(now).max(now)))
}

fn flag(answer: &[u8], kind: u16) -> Option<bool> {
    Some(*find(answer, kind)?.first()? != 0)
}

/// Names of the bits that are set in a bit set (`ETHTOOL_A_BITSET_BITS`): with a mask a bit is set when it has the flag `VALUE`,
/// without one when it stands there at all.
fn bits(set: &[u8]) -> Vec<String> {
    let plain = find(set, 1).is_some();
    let Some(list) = find(set, 3) else { return Vec::new() };
    let on = |bit: &&[u8]| plain || find(bit, 3).is_some();
    let name = |bit: &[u8]| {
        let name = String::from_utf8_lossy(find(bit, 2)?).into_owned();
        Some(name.trim_end_matches('\0').to_owned())
    };
    attributes(list).filter(|(kind, _)| *kind == 1).map(|(_, bit)| bit).filter(on).filter_map(name).collect()
}

/// A netlink socket. The kernel answers while it takes the question, so reading never waits.
struct Line {
    socket: Socket,
    sequence: u32,
}

impl Line {
    fn open(protocol: isize) -> Option<Line> {
        let mut socket = Socket::new(protocol).ok()?;
        socket.bind_auto().ok()?;
        socket.connect(&SocketAddr::new(0, 0)).ok()?;
        socket.set_non_blocking(true).ok()?;
        Some(Line { socket, sequence: 0 })
    }

    /// The number of a generic family.
    fn family(&mut self, name: &str) -> Option<u16> {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        let answer =
            self.generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &attribute(CTRL_ATTR_FAMILY_NAME, &text))?;
        let id = find(&answer, CTRL_ATTR_FAMILY_ID)?;
        Some(u16::from_ne_bytes([*id.first()?, *id.get(1)?]))
    }

    /// Attributes of the answer to a generic question.
    fn generic(&mut self, family: u16, command: u8, attributes: &[u8]) -> Option<Vec<u8>> {
        // Version 1, and two bytes that are kept for later.
        let mut body = vec![command, 1, 0, 0];
        body.extend_from_slice(attributes);
        self.question(family, &body)?.get(GENERIC_LEN..).map(<[u8]>::to_vec)
    }

    fn xdp_hook(&mut self, index: u32) -> Option<XdpHook> {
        let mut body = vec![0; IFINFO_LEN];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        let answer = self.question(RTM_GETLINK, &body)?;
        let xdp = find(answer.get(IFINFO_LEN..)?, IFLA_XDP)?;
        Some(match find(xdp, IFLA_XDP_ATTACHED)?.first()? {
            0 => XdpHook::None,
            1 => XdpHook::Driver,
            2 => XdpHook::Generic,
            _ => XdpHook::Other,
        })
    }

    /// The body of the first message that answers.
    fn question(&mut self, kind: u16, body: &[u8]) -> Option<Vec<u8>> {
        self.sequence += 1;
        let mut message = Vec::with_capacity(HEADER_LEN + body.len());
        message.extend_from_slice(&((HEADER_LEN + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(body);
        self.socket.send(&message, 0).ok()?;
        let mut answer = None;
        // The answer, then the acknowledgement or the error that ends it; an old answer may be left of a question before.
        for _ in 0..8 {
            let (datagram, _) = self.socket.recv_from_full().ok()?;
            let mut rest = &datagram[..];
            while let Some((kind, sequence, body, next)) = split(rest) {
                rest = next;
                if sequence != self.sequence {
                    continue;
                }
                if kind == NLMSG_ERROR {
                    return answer;
                }
                answer.get_or_insert_with(|| body.to_vec());
            }
        }
        answer
    }
}

/// The first message: its kind, its sequence number, its body, and what follows.
fn split(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let len = u32_of(bytes)? as usize;
    let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    let sequence = u32_of(bytes.get(8..)?)?;
    let body = bytes.get(HEADER_LEN..len)?;
    let next = len.checked_next_multiple_of(4)?;
    Some((kind, sequence, body, bytes.get(next..).unwrap_or(&[])))
}

/// One attribute with its padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 8);
    out.extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// Kinds and values, until one makes no sense.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes([*rest.first()?, *rest.get(1)?]));
        let kind = u16::from_ne_bytes([*rest.get(2)?, *rest.get(3)?]) & TYPE_MASK;
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value)
}

fn u32_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn u64_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_testing::{Needs, skip_part};
    use proptest::prelude::*;

    #[test]
    fn attributes_lie_as_the_kernel_lays_them() {
        // Length 5, kind 2, one byte, three of padding; then a nested one.
        let bytes = [attribute(2, &[7]), attribute(3 | NESTED, &attribute(1, &9u32.to_ne_bytes()))].concat();
        assert_eq!(&bytes[4..8], [7, 0, 0, 0]);
        assert_eq!(find(&bytes, 2), Some(&[7][..]));
        assert_eq!(u32_of(find(find(&bytes, 3).unwrap(), 1).unwrap()), Some(9));
        assert_eq!(find(&bytes, 4), None);
        // A length below that of its own header, and one beyond the end, end the list.
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[9, 0, 1, 0, 5, 5]).count(), 0);
    }

    #[test]
    fn bit_sets_with_a_mask_tell_which_are_set() {
        let bit = |name: &str, on: bool| {
            let mut value = attribute(2, format!("{name}\0").as_bytes());
            if on {
                value.extend(attribute(3, &[]));
            }
            attribute(1 | NESTED, &value)
        };
        let list = attribute(3 | NESTED, &[bit("rx-lro", true), bit("rx-gro", false)].concat());
        assert_eq!(bits(&list), ["rx-lro"]);
        let plain = [attribute(1, &[]), list].concat();
        assert_eq!(bits(&plain), ["rx-lro", "rx-gro"]);
    }

    #[test]
    fn the_loopback_answers_here() {
        let facts = ask(&["lo".to_owned(), "no-such-card".to_owned()]);
        assert_eq!(facts[1], NicFacts::unanswered("no-such-card"));
        // A sandbox may refuse netlink; where it answers, features have names.
        match &facts[0].features {
            Some(on) => assert!(on.iter().any(|f| f == "loopback"), "{on:?}"),
            None => skip_part(Needs::Machine, "ethtool netlink does not answer here"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (split(&bytes), bits(&bytes), channels(&bytes), coalescing(&bytes), pair(&bytes, 6, 2));
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
        }
    }
}
