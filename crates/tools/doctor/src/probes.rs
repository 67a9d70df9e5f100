//! Which sockets the kernel makes for us: asked by making one and closing it at once. Nothing is bound, so nothing is received.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// What the kernel said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answer {
    /// It made one.
    Yes,
    /// It may not be made by this user.
    NotPermitted,
    /// There is no such kind.
    Absent,
    /// Something else, or nobody asked.
    #[default]
    Unknown,
}

/// What was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probes {
    /// A socket of AF_XDP.
    pub xdp: Answer,
    /// A raw socket of AF_PACKET.
    pub packet: Answer,
}

impl Probes {
    /// Asks.
    pub fn ask() -> Probes {
        Probes { xdp: ask(AddressFamily::XDP), packet: ask(AddressFamily::PACKET) }
    }
}

fn ask(family: AddressFamily) -> Answer {
    // Protocol 0 of AF_PACKET receives nothing.
    match socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None) {
        Ok(_closed_when_dropped) => Answer::Yes,
        Err(Errno::PERM | Errno::ACCESS) => Answer::NotPermitted,
        Err(Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT) => Answer::Absent,
        Err(_) => Answer::Unknown,
    }
}
