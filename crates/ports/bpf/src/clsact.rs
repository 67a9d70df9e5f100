//! Programs at the traffic-control hook of kernels without `tcx` (before 6.6): a filter at the ingress side of a `clsact` queueing
//! discipline, in direct-action mode.
//!
//! A filter is no descriptor: it stays when its process is killed. So whoever holds one also holds a socket with a name of the
//! interface's network namespace, which ends with its process. A filter of ours at an interface whose name is free is nobody's any more.
//! Numbers: `linux/rtnetlink.h`, `linux/pkt_sched.h`, `linux/pkt_cls.h`.

use crate::netlink::attribute;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const REPLACE: u16 = 0x100;
const EXCL: u16 = 0x200;
const CREATE: u16 = 0x400;
const DUMP: u16 = 0x300;
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const NESTED: u16 = 1 << 15;
/// `TCA_BPF_FLAG_ACT_DIRECT`: what the program returns is what becomes of the packet.
const DIRECT_ACTION: u32 = 1;
/// `TC_H_CLSACT`, the handle of such a discipline, and its two sides.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
/// Our filters' number, and their order among others: rather late, so that others' run before, as at `tcx`.
const HANDLE: u32 = 1;
const PRIORITY: u32 = 0xb000;
/// All protocols (`ETH_P_ALL`), in the network's order.
const ALL: u32 = 0x0003_u16.to_be() as u32;
const HEADER_LEN: usize = 16;
/// Bytes of `struct tcmsg`; its members' places.
const TC_LEN: usize = 20;
const TC_HANDLE: usize = 8;
const TC_INFO: usize = 16;

/// The name of our filters.
const NAME: &str = "barewire_p4";

/// Takes the filter away that a killed process of ours left at an interface, and its discipline if nothing else is there; says whether
/// there was one. Packets would meet it beside whatever comes there next, at any hook: so this is for all who attach, before they do.
///
/// # Errors
/// The kernel's: it is there and cannot be taken away.
pub fn remove_left(ifindex: u32) -> io::Result<bool> {
    // Somebody is alive and has the place, or there is no such place in this kernel.
    let Ok(mut filter) = Filter::place(ifindex) else { return Ok(false) };
    if !matches!(filter.is_ours_there(), Ok(true)) {
        return Ok(false);
    }
    filter.remove()?;
    filter.made = true;
    Ok(true)
}

/// A filter at an interface; it goes with this.
#[derive(Debug)]
pub(crate) struct Filter {
    socket: Socket,
    ifindex: u32,
    /// The discipline is ours.
    made: bool,
    /// The filter is ours.
    placed: bool,
    _name: UnixDatagram,
}

impl Filter {
    /// The place at an interface, still without a filter.
    ///
    /// # Errors
    /// The kernel's; `EADDRINUSE` when somebody has it.
    fn place(ifindex: u32) -> io::Result<Filter> {
        let address = UnixAddr::from_abstract_name(format!("barewire-clsact-{ifindex}"))?;
        let name = UnixDatagram::bind_addr(&address)?;
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Filter { socket, ifindex, made: false, placed: false, _name: name })
    }

    /// Puts a program at an interface's ingress.
    ///
    /// # Errors
    /// The kernel's; `EADDRINUSE` when another process has one there, `EEXIST` when somebody else's filter has our place.
    pub fn attach(program: RawFd, ifindex: u32) -> io::Result<Filter> {
        let mut filter = Filter::place(ifindex)?;
        filter.made = match filter.qdisc(RTM_NEWQDISC, CREATE | EXCL) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => false,
            Err(error) => return Err(error),
        };
        filter.put(program, CREATE | EXCL)?;
        filter.placed = true;
        Ok(filter)
    }

    /// Puts another program in the place of the one there, between two packets.
    ///
    /// # Errors
    /// The kernel's.
    pub fn replace(&self, program: RawFd) -> io::Result<()> {
        self.put(program, CREATE | REPLACE)
    }

    fn qdisc(&self, kind: u16, flags: u16) -> io::Result<()> {
        let mut message = self.message(kind, flags | ACK, CLSACT_HANDLE, CLSACT, 0);
        push(&mut message, TCA_KIND, b"clsact\0");
        self.ask(message)
    }

    fn put(&self, program: RawFd, flags: u16) -> io::Result<()> {
        let mut message = self.message(RTM_NEWTFILTER, flags | ACK, HANDLE, INGRESS, PRIORITY << 16 | ALL);
        push(&mut message, TCA_KIND, b"bpf\0");
        let mut options = Vec::new();
        push(&mut options, TCA_BPF_FD, &(program as u32).to_ne_bytes());
        push(&mut options, TCA_BPF_NAME, format!("{NAME}\0").as_bytes());
        push(&mut options, TCA_BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes());
        push(&mut message, TCA_OPTIONS | NESTED, &options);
        self.ask(message)
    }

    fn remove(&self) -> io::Result<()> {
        let mut message = self.message(RTM_DELTFILTER, ACK, HANDLE, INGRESS, PRIORITY << 16 | ALL);
        push(&mut message, TCA_KIND, b"bpf\0");
        self.ask(message)
    }

    /// Whether a filter of our name is in our place.
    pub fn is_ours_there(&self) -> io::Result<bool> {
        let mut found = false;
        self.filters(INGRESS, &mut |handle, info, attributes| {
            let name =
                attribute(attributes, TCA_OPTIONS).and_then(|options| attribute(options, TCA_BPF_NAME));
            let ours = name.is_some_and(|name| name.strip_suffix(b"\0") == Some(NAME.as_bytes()));
            found |= ours && (handle, info >> 16) == (HANDLE, PRIORITY);
        })?;
        Ok(found)
    }

    /// Whether either side has any filter.
    fn is_used(&self) -> io::Result<bool> {
        let mut any = false;
        for side in [INGRESS, EGRESS] {
            self.filters(side, &mut |_, _, _| any = true)?;
        }
        Ok(any)
    }

    /// Each filter of a side: its number, its place in the order above its protocol, its attributes.
    fn filters(&self, side: u32, each: &mut dyn FnMut(u32, u32, &[u8])) -> io::Result<()> {
        let mut message = self.message(RTM_GETTFILTER, DUMP, 0, side, 0);
        finish(&mut message);
        self.socket.send(&message, 0)?;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            let mut rest = answer.as_slice();
            while let Some((kind, body, after)) = split(rest) {
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return outcome(body),
                    RTM_NEWTFILTER if body.len() >= TC_LEN => {
                        let word = |at: usize| body[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
                        each(word(TC_HANDLE), word(TC_INFO), &body[TC_LEN..]);
                    }
                    _ => {}
                }
                rest = after;
            }
        }
    }

    fn message(&self, kind: u16, flags: u16, handle: u32, parent: u32, info: u32) -> Vec<u8> {
        let mut message = vec![0; 4];
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        message.extend_from_slice(&[0; 8]);
        for word in [0, self.ifindex, handle, parent, info] {
            message.extend_from_slice(&word.to_ne_bytes());
        }
        message
    }

    /// Ask for something that the kernel only acknowledges.
    fn ask(&self, mut message: Vec<u8>) -> io::Result<()> {
        finish(&mut message);
        self.socket.send(&message, 0)?;
        let (answer, _) = self.socket.recv_from_full()?;
        match split(&answer) {
            Some((NLMSG_ERROR, body, _)) => outcome(body),
            _ => Err(io::Error::other("rtnetlink did not answer what was asked")),
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // The interface may be gone, and all of it with that. A filter that was there before ours could be is somebody else's.
        if self.placed {
            let _ = self.remove();
        }
        if self.made && matches!(self.is_used(), Ok(false)) {
            let _ = self.qdisc(RTM_DELQDISC, 0);
        }
    }
}

fn push(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// The length is known now.
fn finish(message: &mut [u8]) {
    let len = (message.len() as u32).to_ne_bytes();
    message[..4].copy_from_slice(&len);
}

/// The first message of an answer: its kind, its body, what follows.
fn split(answer: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = u32::from_ne_bytes(answer.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let body = answer.get(HEADER_LEN..len)?;
    Some((kind, body, answer.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// What an acknowledgement says.
fn outcome(body: &[u8]) -> io::Result<()> {
    let code = body.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart_and_cut_off_ones_are_none() {
        let mut answer = Vec::new();
        for (kind, body) in [(RTM_NEWTFILTER, &[1, 2, 3, 4, 5][..]), (NLMSG_ERROR, &(-17_i32).to_ne_bytes())]
        {
            answer.extend(((HEADER_LEN + body.len()) as u32).to_ne_bytes());
            answer.extend(kind.to_ne_bytes());
            answer.extend([0; 10]);
            answer.extend(body);
            answer.resize(answer.len().next_multiple_of(4), 0);
        }
        let (kind, body, rest) = split(&answer).expect("a message");
        assert_eq!((kind, body), (RTM_NEWTFILTER, &[1, 2, 3, 4, 5][..]));
        let (kind, body, rest) = split(rest).expect("another");
        assert_eq!((kind, rest.len()), (NLMSG_ERROR, 0));
        assert_eq!(outcome(body).expect_err("refused").raw_os_error(), Some(libc::EEXIST));
        assert!(split(&answer[..18]).is_none() && split(&[]).is_none());
        assert!(outcome(&[0; 4]).is_ok());
    }
}
