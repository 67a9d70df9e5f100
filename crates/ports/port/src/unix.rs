//! The unix port: one Ethernet frame per datagram between two socket files, as QEMU's `-netdev dgram` speaks it.

use crate::sys::{self, Received, UnixAddr};
use crate::{ChecksumOffload, OpenError, Port, PortCaps, PortCounters, PortError, PortUri};
use barewire_base::{DropReason, Instant};
use barewire_frame::{BURST_MAX, Burst, ChecksumState, Frame, Pool, Stamp, StampSource};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// IP packet size unless asked otherwise: what QEMU's guests use.
const MTU_DEFAULT: u32 = 1500;
/// Ethernet header with one VLAN tag.
const HEADER_MAX: u32 = 18;
/// Ethernet header.
const HEADER_MIN: usize = 14;

/// What a [`UnixPort`] is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixConfig {
    /// The socket file that this port makes and receives on. Removed when the port is dropped.
    pub mine: PathBuf,
    /// The socket file of the peer. It need not exist yet, and may go and come back.
    pub theirs: PathBuf,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
}

/// Frames as datagrams between two processes on one machine.
///
/// Not connected, on purpose: a connected socket refuses a peer that was restarted. Holds up to 32 frames of its pool
/// ready to be received into. A datagram that finds no free frame is taken from the socket, counted and dropped. Frames for
/// an absent peer are counted as `PortDown`, those with an unfinished checksum as `UnfinishedChecksum`.
pub struct UnixPort {
    socket: UnixDatagram,
    peer: UnixAddr,
    mine: PathBuf,
    /// Device and inode of our socket file, so that dropping the port never removes somebody else's.
    file_id: (u64, u64),
    pool: Pool,
    /// Frames to receive into, whole chunks, filled from the front.
    ready: [Option<Frame>; BURST_MAX],
    ready_len: usize,
    caps: PortCaps,
    counters: PortCounters,
    name: String,
}

impl UnixPort {
    /// Opens `unix:MINE.sock,THEIRS.sock`. Options: `mtu` (bytes).
    ///
    /// # Errors
    /// [`OpenError::BadUri`] for a wrong target or option, else as [`open`](Self::open).
    pub fn from_uri(uri: &PortUri, pool: Pool) -> Result<UnixPort, OpenError> {
        let mut uri = uri.clone();
        let Some((mine, theirs)) = uri.target.split_once(',') else {
            return Err(uri.bad("two socket files are needed: unix:MINE.sock,THEIRS.sock"));
        };
        let (mine, theirs) = (PathBuf::from(mine), PathBuf::from(theirs));
        let fits = (pool.frame_max() as u32).saturating_sub(HEADER_MAX);
        let mtu = uri.take_or("mtu", MTU_DEFAULT.min(fits))?;
        uri.finish()?;
        if mtu == 0 || mtu > fits {
            return Err(uri.bad(format!("mtu {mtu}: the pool's frames hold 1 to {fits}")));
        }
        Self::open_as(&uri, UnixConfig { mine, theirs, mtu }, pool)
    }

    /// Makes the socket file and opens the port.
    ///
    /// # Errors
    /// [`OpenError::Io`] with `AddrInUse` when somebody listens on `mine` or something that is no socket stands there,
    /// and for any other failed call; [`OpenError::BadUri`] for a path that is empty, the peer's own, or too long.
    pub fn open(config: UnixConfig, pool: Pool) -> Result<UnixPort, OpenError> {
        let target = format!("{},{}", config.mine.display(), config.theirs.display());
        Self::open_as(&PortUri::new("unix", &target), config, pool)
    }

    fn open_as(uri: &PortUri, config: UnixConfig, pool: Pool) -> Result<UnixPort, OpenError> {
        let UnixConfig { mine, theirs, mtu } = config;
        if mine == theirs {
            return Err(uri.bad("the two socket files must differ"));
        }
        let too_long = |p: &Path| {
            uri.bad(format!("socket file `{}`: 1 to 107 bytes without a zero are allowed", p.display()))
        };
        UnixAddr::new(&mine).ok_or_else(|| too_long(&mine))?;
        let peer = UnixAddr::new(&theirs).ok_or_else(|| too_long(&theirs))?;
        let socket = bind(&mine).map_err(|e| uri.io("bind", e))?;
        let file_id = file_id(&mine).map_err(|e| uri.io("stat", e))?;
        let frame_max = (mtu + HEADER_MAX).min(pool.frame_max() as u32);
        let caps = PortCaps {
            mtu: mtu.min(frame_max - HEADER_MIN as u32),
            frame_max,
            mac: None,
            rx_stamp: StampSource::Engine,
            queues: 1,
            in_place: false,
            zero_copy: false,
            tx_checksum: false,
            checksum_offload: ChecksumOffload::default(),
            lossless_bits: true,
            description: format!("unix datagrams, {} to {}, mtu {mtu}", mine.display(), theirs.display()),
        };
        Ok(UnixPort {
            socket,
            peer,
            mine,
            file_id,
            pool,
            ready: [const { None }; BURST_MAX],
            ready_len: 0,
            caps,
            counters: PortCounters::default(),
            name: uri.text().to_owned(),
        })
    }

    fn io(&self, call: &'static str, source: io::Error) -> PortError {
        PortError::Io { port: self.name.clone(), call, source }
    }

    /// Fills the front of `ready` up to `want` frames; how many there are.
    fn make_ready(&mut self, want: usize) -> usize {
        while self.ready_len < want {
            let Some(mut frame) = self.pool.alloc() else { break };
            if !frame.set_len(frame.tailroom()) {
                break;
            }
            self.ready[self.ready_len] = Some(frame);
            self.ready_len += 1;
        }
        self.ready_len.min(want)
    }

    /// No frame to receive into: what waits is taken from the socket and dropped, or the sender would be stopped.
    fn discard(&mut self, room: usize) -> Result<(), PortError> {
        for _ in 0..room {
            self.counters.syscalls.add(1);
            match self.socket.recv(&mut []) {
                Ok(_) => self.counters.drops.count(DropReason::PoolEmpty),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io("recv", e)),
            }
        }
        Ok(())
    }

    fn drop_front(&self, burst: &mut Burst, n: usize, reason: DropReason) {
        for _ in 0..n {
            if burst.pop().is_some() {
                self.counters.drops.count(reason);
            }
        }
    }
}

impl Port for UnixPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let room = burst.room();
        if room == 0 {
            return Ok(0);
        }
        let n = self.make_ready(room);
        if n == 0 {
            self.discard(room)?;
            return Ok(0);
        }
        let mut received = [Received::default(); BURST_MAX];
        self.counters.syscalls.add(1);
        let got = match sys::recv_frames(self.socket.as_raw_fd(), &mut self.ready[..n], &mut received) {
            Ok(got) => got,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(0),
            Err(e) => return Err(self.io("recvmmsg", e)),
        };
        let mut delivered = 0;
        let mut bytes = 0;
        for (slot, Received { len, truncated }) in self.ready.iter_mut().zip(received).take(got) {
            let Some(mut frame) = slot.take() else { continue };
            if truncated || len > self.caps.frame_max as usize {
                self.counters.drops.count(DropReason::TooLarge);
                continue;
            }
            if len < HEADER_MIN || !frame.set_len(len) {
                self.counters.drops.count(DropReason::Truncated);
                continue;
            }
            frame.set_stamp(Stamp::engine(now));
            bytes += len as u64;
            delivered += usize::from(burst.push(frame).is_ok());
        }
        self.ready[..self.ready_len].rotate_left(got);
        self.ready_len -= got;
        self.counters.rx_frames.add(delivered as u64);
        self.counters.rx_bytes.add(bytes);
        Ok(delivered)
    }

    fn tx_burst(&mut self, _now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let before = burst.len();
        let frame_max = self.caps.frame_max as usize;
        while let Some(front) = burst.front() {
            if front.len() > frame_max {
                self.drop_front(burst, 1, DropReason::TooLarge);
                continue;
            }
            if front.len() < HEADER_MIN {
                self.drop_front(burst, 1, DropReason::Truncated);
                continue;
            }
            if is_unfinished(front) {
                self.drop_front(burst, 1, DropReason::UnfinishedChecksum);
                continue;
            }
            let fits = |f: &&Frame| (HEADER_MIN..=frame_max).contains(&f.len()) && !is_unfinished(f);
            self.counters.syscalls.add(1);
            match sys::send_frames(self.socket.as_raw_fd(), &self.peer, burst.iter().take_while(fits)) {
                Ok(sent) => {
                    let mut bytes = 0;
                    for _ in 0..sent {
                        bytes += burst.pop().map_or(0, |f| f.len() as u64);
                    }
                    self.counters.tx_frames.add(sent as u64);
                    self.counters.tx_bytes.add(bytes);
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                        self.counters.tx_full.add(1);
                        break;
                    }
                    // Nobody there yet, nobody there any more, or a socket that takes from another peer only.
                    Some(libc::ENOENT | libc::ECONNREFUSED | libc::EPERM | libc::ECONNRESET) => {
                        let left = burst.len();
                        self.drop_front(burst, left, DropReason::PortDown);
                    }
                    Some(libc::EMSGSIZE) => self.drop_front(burst, 1, DropReason::TooLarge),
                    _ => return Err(self.io("sendmmsg", e)),
                },
            }
        }
        Ok(before - burst.len())
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }
}

impl Drop for UnixPort {
    fn drop(&mut self) {
        if file_id(&self.mine).is_ok_and(|id| id == self.file_id) {
            let _ = fs::remove_file(&self.mine);
        }
    }
}

/// A datagram has no place to say that the checksum is not there yet.
fn is_unfinished(frame: &Frame) -> bool {
    matches!(frame.checksum(), ChecksumState::Partial { .. })
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()))
}

/// Binds `path`, taking the place of a socket file that a dead process left behind.
fn bind(path: &Path) -> io::Result<UnixDatagram> {
    let socket = match UnixDatagram::bind(path) {
        Err(e) if e.kind() == ErrorKind::AddrInUse && is_stale(path) => {
            fs::remove_file(path)?;
            UnixDatagram::bind(path)?
        }
        other => other?,
    };
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Whether `path` is a socket file on which nobody listens.
fn is_stale(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let refused = || {
        let probe = UnixDatagram::unbound()?;
        probe.connect(path)
    };
    is_socket && refused().is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{ConformancePair, run_all};
    use barewire_frame::PoolConfig;

    fn pool(frames: u32) -> Pool {
        Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
    }

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let dir = std::env::temp_dir().join(format!("barewire-unix-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Dir(dir)
        }
        fn config(&self, mine: &str, theirs: &str) -> UnixConfig {
            UnixConfig { mine: self.0.join(mine), theirs: self.0.join(theirs), mtu: 1500 }
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn conforms() {
        let dir = Dir::new("conforms");
        run_all("unix", &mut || {
            let (a_pool, b_pool) = (pool(128), pool(96));
            let a = UnixPort::open(dir.config("a", "b"), a_pool.clone()).unwrap();
            let b = UnixPort::open(dir.config("b", "a"), b_pool.clone()).unwrap();
            ConformancePair {
                settle: std::time::Duration::from_millis(50),
                ..ConformancePair::on_a_wire(a, a_pool, b, b_pool)
            }
        });
    }

    #[test]
    fn an_absent_peer_costs_frames_and_may_come_back() {
        let dir = Dir::new("absent");
        let pool = pool(64);
        let mut a = UnixPort::open(dir.config("a", "b"), pool.clone()).unwrap();
        let mut burst = Burst::new();
        let send = |a: &mut UnixPort, burst: &mut Burst| {
            assert!(burst.push(pool.alloc_from(&[0xa5; 60]).unwrap()).is_ok());
            a.tx_burst(Instant::ZERO, burst).unwrap()
        };
        assert_eq!(send(&mut a, &mut burst), 1);
        assert_eq!(a.counters().drops.get(DropReason::PortDown), 1);
        for round in 1..=3 {
            let mut b = UnixPort::open(dir.config("b", "a"), pool.clone()).unwrap();
            assert_eq!(send(&mut a, &mut burst), 1);
            assert_eq!(b.rx_burst(Instant::ZERO, &mut burst).unwrap(), 1, "restart {round}");
            burst.clear();
            assert_eq!(a.counters().tx_frames.get(), round);
        }
        assert_eq!(send(&mut a, &mut burst), 1);
        assert_eq!(a.counters().drops.get(DropReason::PortDown), 2);

        let mut unfinished = pool.alloc_from(&[0xa5; 60]).unwrap();
        unfinished.set_checksum(ChecksumState::Partial { start: 34, offset: 6 });
        assert!(burst.push(unfinished).is_ok());
        assert_eq!(a.tx_burst(Instant::ZERO, &mut burst).unwrap(), 1);
        assert_eq!(a.counters().drops.get(DropReason::UnfinishedChecksum), 1);
    }

    #[test]
    fn socket_files_are_replaced_only_when_stale() {
        let dir = Dir::new("stale");
        let config = dir.config("a", "b");
        let pool = pool(8);
        let first = UnixPort::open(config.clone(), pool.clone()).unwrap();
        let second = UnixPort::open(config.clone(), pool.clone()).err().unwrap().to_string();
        assert!(second.contains("bind") && second.contains("in use"), "{second}");
        drop(first);
        assert!(!config.mine.exists(), "removed when dropped");

        drop(UnixDatagram::bind(&config.mine).unwrap()); // A socket whose process died leaves the file.
        assert!(config.mine.exists());
        let port = UnixPort::open(config.clone(), pool.clone()).unwrap();

        // Whoever took the place meanwhile keeps it.
        fs::remove_file(&config.mine).unwrap();
        fs::write(&config.mine, "a file").unwrap();
        drop(port);
        assert!(config.mine.exists());
        assert!(UnixPort::open(config.clone(), pool).is_err(), "a plain file is never replaced");
        assert_eq!(fs::read(&config.mine).unwrap(), b"a file");
    }

    #[test]
    fn datagrams_that_are_no_frames_are_counted() {
        let dir = Dir::new("odd");
        let config = dir.config("a", "b");
        let mut port = UnixPort::open(config.clone(), pool(40)).unwrap();
        let peer = UnixDatagram::unbound().unwrap();
        for len in [0usize, 13, 14, 1518, 1519, 9000] {
            peer.send_to(&vec![0xa5; len], &config.mine).unwrap();
        }
        let mut burst = Burst::new();
        assert_eq!(port.rx_burst(Instant::ZERO, &mut burst).unwrap(), 2);
        let lens: Vec<_> = burst.iter().map(Frame::len).collect();
        assert_eq!(lens, [14, 1518]);
        assert_eq!(port.counters().drops.get(DropReason::Truncated), 2);
        assert_eq!(port.counters().drops.get(DropReason::TooLarge), 2);
        assert_eq!(port.counters().rx_bytes.get(), 14 + 1518);
    }

    #[test]
    fn uris() {
        let dir = Dir::new("uris");
        let open = |text: String| {
            UnixPort::from_uri(&text.parse().unwrap(), pool(8)).map(|p| p.caps.mtu).map_err(|e| e.to_string())
        };
        let at = dir.0.display();
        assert_eq!(open(format!("unix:{at}/a,{at}/b")), Ok(1500));
        assert_eq!(open(format!("unix:{at}/a,{at}/b?mtu=1400")), Ok(1400));
        assert!(open(format!("unix:{at}/a,{at}/b?mtu=9000")).unwrap_err().contains("hold 1 to 1902"));
        assert!(open(format!("unix:{at}/a,{at}/b?mut=1")).unwrap_err().contains("did you mean `mtu`"));
        assert!(open(format!("unix:{at}/a")).unwrap_err().contains("two socket files"));
        assert!(open(format!("unix:{at}/a,{at}/a")).unwrap_err().contains("must differ"));
        assert!(open(format!("unix:{at}/{},{at}/b", "x".repeat(120))).unwrap_err().contains("107"));
    }
}
