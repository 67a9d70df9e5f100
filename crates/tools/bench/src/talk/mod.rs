//! What the two ends of a measurement say to each other besides what is measured: one framing ([`frame`]), one set of words.
//!
//! ```text
//! control   client: Hello::Control   server: Answer::Ready, or what else this end does (Answer::Other), or Answer::Refused
//!           client: Ask::Begin       server: Answer::Begun, then (streams) Answer::Interval, one every interval
//!           client: Ask::End         server: Answer::Report; the window may begin again
//! data      client: Hello::Data, then whatever bytes (a stream over TCP)
//!           client: Hello::Messages, then messages (over the kernel's TCP)
//!           datagrams that begin with the token, to the same port (streams over UDP)
//! ```
//! A server listens for control connections one port above the measured one, unless it was told otherwise ([`At`]); that of streams has one
//! port for all. The first words of RDMA connections stand in their private data ([`rc`](barewire_rdma_tools::handshake)), behind the same head.
//!
//! What a report says is used only where it can be this client's alone: see [`client::Peer`].

pub(crate) mod client;
pub(crate) mod frame;
pub(crate) mod server;
#[cfg(test)]
mod tests;

use crate::cpu::EndUse;
use barewire_base::Duration;
use barewire_measure::stamp;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// How long a socket call may take before somebody looks whether it is still wanted.
pub(crate) const LOOK: std::time::Duration = std::time::Duration::from_millis(100);

/// What is read at most of an end from which nothing more is wanted.
const DRAIN_MAX: usize = 64 << 10;

/// Whether a call only found nothing to do in time.
pub(crate) fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Says that nothing more comes, and reads what the other end says still, until it leaves, for `longest` or until `is_over`: closing over
/// unread bytes would reset the connection, and take along what was said last. Reading this stream waits for [`LOOK`].
fn drain(stream: &mut TcpStream, longest: Duration, is_over: &dyn Fn() -> bool) {
    let _ = stream.shutdown(Shutdown::Write);
    let (mut rest, until, mut left) = ([0; 4096], stamp() + longest, DRAIN_MAX);
    while stamp() < until && left > 0 && !is_over() {
        match stream.read(&mut rest) {
            Ok(0) => return,
            Ok(n) => left = left.saturating_sub(n),
            Err(e) if is_wait(&e) => {}
            Err(_) => return,
        }
    }
}

/// Why two ends do not understand each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TalkError {
    /// It is no such end.
    #[error("the other end does not speak as ours do")]
    Words,
    /// It is one of another version.
    #[error("the other end speaks version {0}, this one version {version}", version = barewire_measure::head::VERSION)]
    Version(u8),
    /// It has no room.
    #[error("the server refused: {0}")]
    Refused(String),
    /// It is a server of something else.
    #[error("the server there serves {0}")]
    Other(String),
    /// It went away.
    #[error("the server closed the connection")]
    Closed,
    /// It says nothing.
    #[error("no answer from the server")]
    Silent,
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
    /// Nobody is there.
    #[error("connecting to {server}: {source}")]
    Unreachable {
        /// Where the server should be.
        server: SocketAddr,
        /// What the system said last.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Where control connections are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// At the address of what is measured, one port above it.
    #[default]
    Beside,
    /// There.
    There(SocketAddr),
    /// There are none.
    Nowhere,
}

impl At {
    /// Where they are unless somebody says it, of what is measured over the port of this URI: the kernel knows nothing of addresses in
    /// memory and behind socket files.
    pub fn over(port: &str) -> At {
        let scheme = port.split(':').next().unwrap_or_default().rsplit('+').next().unwrap_or_default();
        if ["mem", "unix", "pcap"].contains(&scheme) { At::Nowhere } else { At::Beside }
    }

    /// The place, where `measured` is served.
    pub(crate) fn of(self, measured: SocketAddr) -> Option<SocketAddr> {
        match self {
            At::Beside => Some(SocketAddr::new(measured.ip(), measured.port().checked_add(1)?)),
            At::There(at) => Some(at),
            At::Nowhere => None,
        }
    }
}

/// First word of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hello {
    /// The control connection of a session.
    Control {
        token: u64,
        /// What is measured.
        work: String,
        /// How the client waits.
        waits: String,
        /// Between two reports within a window; 0: none.
        interval_ms: u64,
    },
    /// A stream of a session.
    Data { token: u64 },
    /// One of so many connections of a client's messages.
    Messages { token: u64, baseline: String, size: u32, connections: u32 },
}

/// What a client wants next of its session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Begin,
    End,
}

/// What a server saw of a session between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counted {
    /// How long, by the server's clock.
    pub seconds: f64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Packets that came in at the server's interfaces, whoever's.
    pub rx_packets: u64,
}

/// A whole window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub counted: Counted,
    /// Operations that the server did for all clients, where it counts them.
    pub operations: Option<u64>,
    /// Somebody else was there.
    pub shared: bool,
    /// CPU of the server's process and its machine's interrupts. None of a shared server, and where it cannot be read.
    pub cpu: Option<EndUse>,
}

/// A word of the server's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The session is there.
    Ready { waits: String },
    /// The window begins.
    Begun,
    /// One interval of the window.
    Interval(Counted),
    /// The whole window.
    Report(Report),
    /// It will not be.
    Refused(String),
    /// This is what is served here.
    Other(String),
}
