//! Opening: what is there, what was asked for, and what came of it.

use crate::config::{Mode, NeedWakeup, Queues, XdpConfig};
use crate::port::{Queue, XdpPort};
use crate::program::STAMP_LEN;
use crate::sys;
use barewire_base::Instant;
use barewire_frame::{Ledger, Pool, StampSource};
use barewire_packet::interface::Interface;
use barewire_packet::outgoing::{ETH_LEN, VLAN_LEN};
use barewire_port::{ChecksumOffload, OpenError, PortCaps, PortCounters};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that the kernel leaves free in front of a received frame (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: u32 = 256;
/// The part of the pool's free frames that may lie in fill and receive rings, over all queues: one in this many. The rest
/// is for frames being worked on and sent, and for further ports on the same pool.
const FILL_SHARE: usize = 2;
/// Most frames that a port takes for that without being told, unless the pool is so large that one in
/// [`FILL_PORTS`] of its frames is more: what a receive ring holds, and enough for a pause of a millisecond at two million frames
/// a second.
const FILL_FRAMES: usize = 2048;
/// Ports that shall find as much of a large pool as the first one.
const FILL_PORTS: usize = 8;
/// Fewest chunks that a queue needs to receive at all.
const FILL_MIN: usize = 8;
/// A queue is free again some time after its last owner closed: how often, and how long apart, to try once more.
const BUSY_TRIES: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// What the steps of opening have in common.
pub(crate) struct Opening<'a> {
    pub(crate) uri: String,
    pub(crate) config: &'a XdpConfig,
    pub(crate) interface: Interface,
    /// Waits for what somebody else is about to let go of. Not on an engine's thread, which serves others.
    pub(crate) patient: bool,
}

impl XdpPort {
    /// Opens an AF_XDP port whose UMEM is `pool`'s region. The pool's chunks must have 2048 or 4096 bytes;
    /// [`fill_frames`](XdpConfig::fill_frames) says how many of them wait in the fill rings. Several ports may share a pool
    /// (on one thread): a frame received on one is sent on another in place. A pool of 2,048 frames for each port, and as many
    /// again, gives every port as much.
    ///
    /// Needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF. Waits up to two seconds for a queue whose last owner just closed.
    ///
    /// # Errors
    /// [`OpenError`]: no such interface, not permitted, not supported (with what to change), queue or hook taken.
    pub fn open(config: XdpConfig, pool: Pool) -> Result<XdpPort, OpenError> {
        XdpPort::open_as(config, pool, true)
    }

    /// As [`open`](Self::open); without patience what is taken is refused at once.
    pub(crate) fn open_as(config: XdpConfig, pool: Pool, patient: bool) -> Result<XdpPort, OpenError> {
        let uri = format!("xdp:{}", config.interface);
        let interface = Interface::find(&uri, &config.interface)?;
        Opening { uri, config: &config, interface, patient }.run(pool)
    }

    /// Opens the port that a URI names: [`XdpConfig::from_uri`], then [`open`](Self::open).
    ///
    /// # Errors
    /// Of both.
    pub fn from_uri(uri: &barewire_port::PortUri, pool: Pool) -> Result<XdpPort, OpenError> {
        XdpPort::open(XdpConfig::from_uri(uri)?, pool)
    }
}

impl Opening<'_> {
    pub(crate) fn unsupported(&self, what: impl Into<String>) -> OpenError {
        OpenError::Unsupported { uri: self.uri.clone(), what: what.into() }
    }

    /// What a failed call means to the caller.
    pub(crate) fn failed(&self, call: &'static str, needs: &'static str, source: io::Error) -> OpenError {
        let uri = self.uri.clone();
        let name = &self.interface.name;
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => OpenError::NotPermitted { uri, call, needs },
            Some(libc::EAFNOSUPPORT) => self.unsupported("AF_XDP sockets (kernel option CONFIG_XDP_SOCKETS)"),
            Some(libc::ENOMEM | libc::ENOBUFS) => OpenError::Io {
                uri,
                call,
                source: hinted(
                    &source,
                    "raise the limit of locked memory (`ulimit -l`) or make the pool smaller",
                ),
            },
            Some(libc::ENETDOWN) => OpenError::Io {
                uri,
                call,
                source: hinted(&source, &format!("bring it up: ip link set dev {name} up")),
            },
            _ => OpenError::Io { uri, call, source },
        }
    }

    fn run(self, pool: Pool) -> Result<XdpPort, OpenError> {
        let config = self.config;
        config.check().map_err(|why| OpenError::BadUri { uri: self.uri.clone(), why })?;
        let frame_max = self.check_sizes(&pool)?;
        if !self.interface.up {
            return Err(self.failed("bind(AF_XDP)", "nothing", io::Error::from_raw_os_error(libc::ENETDOWN)));
        }
        let queues = self.queues()?;
        let target = self.fill_target(&pool, queues.len())?;

        // Before the sockets: zero copy wants to know whether the hook is the driver's. Until the map is filled the
        // program passes every frame to the kernel.
        let hook = if config.share { self.shared_hook()? } else { Arc::new(self.make_hook()?) };
        let native = hook.native;

        let ledger = Ledger::new(pool);
        let mut opened: Vec<Queue> = Vec::with_capacity(queues.len());
        let mut how = Bound::default();
        for &number in &queues {
            let queue = match opened.first() {
                None => self.first_queue(number, target, native, &ledger, &mut how)?,
                Some(first) => self.next_queue(number, target, first)?,
            };
            opened.push(queue);
        }
        let (busy_poll, busy_poll_words) = self.busy_poll(&opened);
        let epoll = match opened.len() {
            1 => None,
            _ => Some(
                sys::epoll_of(opened.iter().map(|q| &q.socket))
                    .map_err(|e| self.failed("epoll_ctl", "nothing", e))?,
            ),
        };
        let caps = PortCaps {
            mtu: self.interface.mtu,
            frame_max,
            mac: self.interface.mac,
            rx_stamp: if hook.stamp_cookie.is_some() { StampSource::Kernel } else { StampSource::Engine },
            queues: queues.len() as u16,
            in_place: true,
            zero_copy: how.zero_copy,
            tx_checksum: true,
            checksum_offload: ChecksumOffload::default(),
            lossless_bits: false,
            description: self.describe(&how, &hook.words, &queues, &busy_poll_words),
        };
        let mut port = XdpPort {
            config: config.clone(),
            uri: self.uri.clone(),
            caps,
            counters: PortCounters::default(),
            always_kick: busy_poll || !how.need_wakeup,
            queues: opened,
            ledger,
            turn: 0,
            in_flight: 0,
            tx_pending: false,
            down_until: None,
            stamp_cookie: hook.stamp_cookie,
            mark_unfinished: config.mark_unfinished && self.interface.driver == "veth",
            next_look: Instant::ZERO,
            ifindex: self.interface.index,
            epoll,
            hook: Some(Arc::clone(&hook)),
            leaving: Vec::new(),
            patient: self.patient,
        };
        // Last, and owned by the port, whose drop takes the chunks back: from here on frames arrive.
        for queue in &mut port.queues {
            queue.kick_rx_when(busy_poll, how.zero_copy && how.need_wakeup);
            queue.refill(&mut port.ledger);
            let socket = queue.socket.as_raw_fd();
            hook.map
                .update(&queue.number.to_ne_bytes(), &socket.to_ne_bytes())
                .map_err(|e| self.failed("bpf(BPF_MAP_UPDATE_ELEM)", "CAP_BPF and CAP_NET_ADMIN", e))?;
        }
        port.patient = true;
        Ok(port)
    }

    /// Checks chunk and MTU against each other; the largest frame without a VLAN tag.
    fn check_sizes(&self, pool: &Pool) -> Result<u32, OpenError> {
        let Interface { name, mtu, ethernet, .. } = &self.interface;
        if !ethernet {
            return Err(self.unsupported(format!("`{name}` is not an Ethernet interface")));
        }
        let chunk = pool.chunk_len();
        if !matches!(chunk, 2048 | 4096) {
            return Err(self.unsupported(format!(
                "a pool with chunks of {chunk} bytes; AF_XDP takes 2048 or 4096: open the port with such a pool"
            )));
        }
        // A frame of another pool is copied behind our pool's headroom.
        let room = chunk - XDP_HEADROOM.max(pool.headroom()).min(chunk);
        let frame_max = mtu.saturating_add(ETH_LEN);
        if frame_max.saturating_add(VLAN_LEN) > room {
            let fits = room.saturating_sub(ETH_LEN + VLAN_LEN);
            let larger = if chunk == 2048 { "use a pool with chunk_len=4096, or " } else { "" };
            return Err(self.unsupported(format!(
                "MTU {mtu} of `{name}` with chunks of {chunk} bytes, which hold an MTU of {fits}; hint: {larger}lower \
                 it: ip link set dev {name} mtu {fits}"
            )));
        }
        Ok(frame_max)
    }

    fn queues(&self) -> Result<Vec<u32>, OpenError> {
        let there = self.interface.queues;
        let wanted = match &self.config.queues {
            Queues::All => (0..there).collect(),
            Queues::List(list) => list.clone(),
        };
        match wanted.iter().find(|&&q| q >= there) {
            None => Ok(wanted),
            Some(q) => Err(OpenError::NotFound {
                uri: self.uri.clone(),
                what: format!("receive queue {q} of `{}`", self.interface.name),
                hint: format!("; it has {there}, counted from 0"),
            }),
        }
    }

    /// Chunks that each queue may hold in its fill and receive rings.
    fn fill_target(&self, pool: &Pool, queues: usize) -> Result<u32, OpenError> {
        let free = pool.available();
        let frames = match self.config.fill_frames {
            None => (free / FILL_SHARE).min(FILL_FRAMES.max(pool.capacity() / FILL_PORTS)),
            Some(frames) if frames as usize <= free => frames as usize,
            Some(frames) => {
                return Err(self.unsupported(format!(
                    "fill_frames={frames} with a pool of which {free} frames are free; hint: a larger pool, or fewer"
                )));
            }
        };
        let share = frames / queues;
        if share < FILL_MIN {
            let least = FILL_MIN * queues;
            return Err(self.unsupported(match self.config.fill_frames {
                None => format!(
                    "a pool with {free} free frames for {queues} queues; at least {} are needed",
                    least * FILL_SHARE
                ),
                Some(frames) => {
                    format!("fill_frames={frames} for {queues} queues; at least {least} are needed")
                }
            }));
        }
        Ok(share.min(self.config.fill_ring as usize) as u32)
    }

    /// Opens the queue that owns the UMEM and transmits.
    fn first_queue(
        &self,
        number: u32,
        target: u32,
        native: bool,
        ledger: &Ledger,
        how: &mut Bound,
    ) -> Result<Queue, OpenError> {
        let config = self.config;
        let socket = sys::socket().map_err(|e| self.failed("socket(AF_XDP)", "CAP_NET_RAW", e))?;
        let pool = ledger.pool();
        with_memlock(|| {
            // SAFETY: the port keeps a handle of the pool until its sockets are closed, which keeps the region mapped
            // (the pool leaks it rather than unmap it under frames); the ledger keeps each chunk that the kernel has
            // out of the pool.
            unsafe { sys::register(&socket, pool.region(), pool.chunk_len()) }
        })
        .map_err(|e| self.failed("setsockopt(XDP_UMEM_REG)", "CAP_IPC_LOCK or a higher `ulimit -l`", e))?;
        let queue = self.rings(socket, number, target, true)?;

        let copy_flag = match config.mode {
            Mode::Copy => libc::XDP_COPY,
            Mode::ZeroCopy => libc::XDP_ZEROCOPY,
            // Without either flag the kernel tries zero copy and falls back. Behind the generic hook zero copy would
            // have two writers on one fill ring.
            Mode::Auto if native => 0,
            Mode::Auto => libc::XDP_COPY,
        };
        let wakeup_flag = if config.need_wakeup == NeedWakeup::Off { 0 } else { libc::XDP_USE_NEED_WAKEUP };
        let bind = |flags| {
            retry_busy(self.patient, || sys::bind(&queue.socket, self.interface.index, number, flags, None))
        };
        how.need_wakeup = wakeup_flag != 0;
        let mut bound = bind(copy_flag | wakeup_flag);
        if let Err(e) = &bound
            && e.raw_os_error() == Some(libc::EINVAL)
            && config.need_wakeup == NeedWakeup::Auto
        {
            bound = bind(copy_flag);
            how.need_wakeup = false;
        }
        bound.map_err(|e| self.bind_failed(number, e))?;
        how.zero_copy = sys::is_zero_copy(&queue.socket)
            .map_err(|e| self.failed("getsockopt(XDP_OPTIONS)", "nothing", e))?;
        how.why = match (config.mode, how.zero_copy) {
            (Mode::Auto, true) => "zero copy",
            (Mode::Auto, false) if native => "copy (the driver has no zero copy)",
            (Mode::Auto, false) => "copy (zero copy needs the native hook)",
            (Mode::Copy, _) => "copy (as asked)",
            (Mode::ZeroCopy, _) => "zero copy (as asked)",
        };
        Ok(queue)
    }

    /// Opens another queue on the UMEM of the first: mode and flags follow the first (`XDP_SHARED_UMEM` allows no other).
    fn next_queue(&self, number: u32, target: u32, first: &Queue) -> Result<Queue, OpenError> {
        let socket = sys::socket().map_err(|e| self.failed("socket(AF_XDP)", "CAP_NET_RAW", e))?;
        let queue = self.rings(socket, number, target, false)?;
        let umem = Some(first.socket.as_raw_fd());
        let bind = || sys::bind(&queue.socket, self.interface.index, number, libc::XDP_SHARED_UMEM, umem);
        retry_busy(self.patient, bind).map_err(|e| self.bind_failed(number, e))?;
        Ok(queue)
    }

    fn rings(&self, socket: OwnedFd, number: u32, target: u32, transmits: bool) -> Result<Queue, OpenError> {
        let config = self.config;
        let set = |ring, len| {
            with_memlock(|| sys::set_ring_len(&socket, ring, len))
                .map_err(|e| self.failed("setsockopt(AF_XDP ring)", "CAP_NET_RAW", e))
        };
        set(libc::XDP_RX_RING, config.rx_ring)?;
        set(libc::XDP_UMEM_FILL_RING, config.fill_ring)?;
        set(libc::XDP_UMEM_COMPLETION_RING, config.completion_ring)?;
        if transmits {
            set(libc::XDP_TX_RING, config.tx_ring)?;
        }
        let offsets = sys::offsets(&socket).map_err(|e| match e.raw_os_error() {
            Some(libc::EOPNOTSUPP) => self.unsupported("AF_XDP as of Linux 5.9; this kernel is older"),
            _ => self.failed("getsockopt(XDP_MMAP_OFFSETS)", "nothing", e),
        })?;
        let mapped = |e| self.failed("mmap(AF_XDP ring)", "nothing", e);
        let rx = sys::map_rx(&socket, &offsets, config.rx_ring).map_err(mapped)?;
        let fill = sys::map_fill(&socket, &offsets, config.fill_ring).map_err(mapped)?;
        let completion = sys::map_completion(&socket, &offsets, config.completion_ring).map_err(mapped)?;
        let tx = match transmits {
            true => Some(sys::map_tx(&socket, &offsets, config.tx_ring).map_err(mapped)?),
            false => None,
        };
        Ok(Queue::new(number, target, rx, fill, completion, tx, config.completion_ring, socket))
    }

    fn bind_failed(&self, number: u32, e: io::Error) -> OpenError {
        let name = &self.interface.name;
        match e.raw_os_error() {
            Some(libc::EBUSY) => OpenError::Io {
                uri: self.uri.clone(),
                call: "bind(AF_XDP)",
                source: hinted(
                    &e,
                    &format!(
                        "queue {number} of `{name}` belongs to another AF_XDP socket; stop it or choose another queue"
                    ),
                ),
            },
            Some(libc::EOPNOTSUPP | libc::EINVAL) if self.config.mode == Mode::ZeroCopy => {
                let driver = &self.interface.driver;
                self.unsupported(format!(
                    "zero copy on `{name}` (driver {driver}): {}; hint: mode=auto or mode=copy",
                    plain(&e)
                ))
            }
            _ => self.failed("bind(AF_XDP)", "CAP_NET_RAW", e),
        }
    }

    /// Whether busy polling is on, and the words for it. Refusal is no failure: the port works without.
    fn busy_poll(&self, queues: &[Queue]) -> (bool, String) {
        let Some(wanted) = self.config.busy_poll else { return (false, "no busy polling".to_owned()) };
        let set = |q: &Queue| sys::set_busy_poll(&q.socket, wanted.timeout_us, wanted.budget);
        match queues.iter().try_for_each(set) {
            Ok(()) => (true, format!("busy polling {} us, budget {}", wanted.timeout_us, wanted.budget)),
            Err(e) => (false, format!("no busy polling (refused: {})", plain(&e))),
        }
    }

    fn describe(&self, how: &Bound, hook: &str, queues: &[u32], busy_poll: &str) -> String {
        let Interface { name, driver, .. } = &self.interface;
        let numbers: Vec<String> = queues.iter().map(u32::to_string).collect();
        let wakeup = match how.need_wakeup {
            true => "need_wakeup",
            false => "a system call for every burst",
        };
        let stamps = match self.config.kernel_stamp {
            true => format!("kernel stamps in {STAMP_LEN} bytes of metadata"),
            false => "engine stamps".to_owned(),
        };
        let claim = match self.config.claim.len() {
            0 => "every frame is ours".to_owned(),
            n => format!("{n} claimed addresses, the rest stays with the kernel"),
        };
        format!(
            "AF_XDP on {name} ({driver}): {}, {hook}, {wakeup}, queue {} of {}, {busy_poll}, {stamps}, {claim}",
            how.why,
            numbers.join(","),
            self.interface.queues
        )
    }
}

/// How the first socket was bound.
#[derive(Default)]
struct Bound {
    zero_copy: bool,
    need_wakeup: bool,
    why: &'static str,
}

/// `error` with a hint behind it.
pub(crate) fn hinted(error: &io::Error, hint: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{}; hint: {hint}", plain(error)))
}

/// The words of an error without ` (os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Tries once more with a raised limit of locked memory when the first failure looks like that limit.
pub(crate) fn with_memlock<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match call() {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOBUFS | libc::ENOMEM)) => {
            barewire_bpf::raise_memlock();
            call()
        }
        done => done,
    }
}

/// Repeats a call that says `EBUSY` for up to two seconds; not without patience.
pub(crate) fn retry_busy<T>(patient: bool, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..if patient { BUSY_TRIES } else { 1 } {
        match call() {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
    call()
}

/// Waits until the kernel has let go of a queue that was closed: a driver with zero copy may write into its chunks until
/// then. Found out by binding a small socket of our own to the queue. False when it took more than two seconds, or is not so now and
/// there is no patience.
pub(crate) fn wait_until_free(ifindex: u32, queue: u32, patient: bool) -> bool {
    let small = barewire_frame::PoolConfig { frames: 2, chunk_len: 2048, headroom: 0, huge_pages: false };
    let Ok(pool) = Pool::new(small) else { return false };
    let attempt = || -> io::Result<()> {
        let socket = sys::socket()?;
        // SAFETY: the pool outlives the socket, and none of its chunks is ever put into a ring.
        unsafe { sys::register(&socket, pool.region(), pool.chunk_len())? };
        for ring in [libc::XDP_RX_RING, libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING] {
            sys::set_ring_len(&socket, ring, 2)?;
        }
        sys::bind(&socket, ifindex, queue, libc::XDP_COPY, None)
    };
    match retry_busy(patient, attempt) {
        Ok(()) => true,
        // Only `EBUSY` says that somebody has the queue; an interface that is gone or down uses no chunk.
        Err(e) => matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENETDOWN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On the loopback of a namespace of its own, where its index is always 1.
    #[test]
    fn a_queue_is_free_when_its_owner_has_closed() {
        if !barewire_testing::root() {
            return;
        }
        let test = || {
            // SAFETY: no memory; moves this thread alone into a new network namespace.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
            assert!(up.expect("the `ip` command").success());
            let pool = Pool::new(barewire_frame::PoolConfig::default()).expect("a pool");
            let owner = sys::socket().expect("a socket");
            // SAFETY: the pool outlives the socket, and none of its chunks is ever put into a ring.
            unsafe { sys::register(&owner, pool.region(), pool.chunk_len()).expect("a UMEM") };
            for ring in [libc::XDP_RX_RING, libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING] {
                sys::set_ring_len(&owner, ring, 2).expect("a ring");
            }
            sys::bind(&owner, 1, 0, libc::XDP_COPY, None).expect("bound");
            assert!(!wait_until_free(1, 0, true), "somebody has it");
            assert!(!wait_until_free(1, 0, false), "somebody has it still");
            drop(owner);
            assert!(wait_until_free(1, 0, true));
            assert!(wait_until_free(999, 0, true), "an interface that is gone holds nothing");
        };
        std::thread::spawn(test).join().expect("no panic");
    }
}
