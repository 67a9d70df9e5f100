//! The XDP program and its map of sockets, on one interface: one port's own, or shared by the ports of one process, each of
//! which serves queues of its own (`share=1`).
//!
//! ```text
//! frame -> program -> map[queue] -> the socket of whichever port serves that queue
//! ```
//! Opening and closing take a lock; the path of a frame does not: ports have nothing in common there but a map in the kernel.

use crate::config::{Attach, Mode};
use crate::open::{Opening, hinted, plain, retry_busy, with_memlock};
use crate::program::Program;
use crate::sys;
use barewire_bpf::{Hook as At, Kind, Link, Map, XdpMode};
use barewire_ebpf::{MapKind, MapSpec};
use barewire_port::OpenError;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An attached program. It vanishes with the last port that holds it.
pub(crate) struct Hook {
    /// Queue to socket.
    pub(crate) map: Map,
    /// In the driver, not in the kernel's generic path.
    pub(crate) native: bool,
    /// What was chosen and why.
    pub(crate) words: String,
    pub(crate) stamp_cookie: Option<u64>,
    _link: Link,
}

/// What ports must agree on to share a program.
#[derive(Clone, PartialEq, Eq)]
struct Terms {
    claim: Vec<IpAddr>,
    attach: Attach,
    zero_copy: bool,
    kernel_stamp: bool,
}

/// A program that further ports may join.
struct Shared {
    /// The network namespace by its inode: an index names an interface within it only.
    namespace: u64,
    ifindex: u32,
    terms: Terms,
    hook: Weak<Hook>,
}

static SHARED: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

impl Opening<'_> {
    /// The program that other ports of this process have attached to the interface, or a new one that they may join.
    pub(crate) fn shared_hook(&self) -> Result<Arc<Hook>, OpenError> {
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")
            .map_err(|e| self.failed("stat(/proc/thread-self/ns/net)", "a mounted /proc", e))?
            .ino();
        let mut claim = self.config.claim.clone();
        claim.sort_unstable();
        let terms = Terms {
            claim,
            attach: self.config.attach,
            zero_copy: self.config.mode == Mode::ZeroCopy,
            kernel_stamp: self.config.kernel_stamp,
        };
        let ifindex = self.interface.index;
        // Held while the program is attached, so that of two that open at once the second finds it.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|s| s.hook.strong_count() > 0);
        let here = shared.iter().find(|s| (s.namespace, s.ifindex) == (namespace, ifindex));
        if let Some((found, hook)) = here.and_then(|s| Some((&s.terms, s.hook.upgrade()?))) {
            return match *found == terms {
                true => Ok(hook),
                false => Err(OpenError::BadUri {
                    uri: self.uri.clone(),
                    why: "ports that share an interface agree on claim, attach, kernel_stamp and on mode=zerocopy".to_owned(),
                }),
            };
        }
        let hook = Arc::new(self.make_hook()?);
        shared.push(Shared { namespace, ifindex, terms, hook: Arc::downgrade(&hook) });
        Ok(hook)
    }

    /// Loads the program and attaches it, with a map for every queue that the interface has.
    pub(crate) fn make_hook(&self) -> Result<Hook, OpenError> {
        let config = self.config;
        let sockets = MapSpec {
            name: "barewire_xsk".to_owned(),
            kind: MapKind::XskMap,
            key: 4,
            value: 4,
            entries: self.interface.queues,
            initial: Vec::new(),
            lock: false,
            inner: None,
        };
        let map = with_memlock(|| Map::create(&sockets))
            .map_err(|e| self.failed("bpf(BPF_MAP_CREATE)", "CAP_BPF and CAP_NET_ADMIN", e))?;
        let stamp_cookie = config.kernel_stamp.then(sys::random);
        let program = Program { map_fd: map.as_raw_fd(), claim: &config.claim, stamp_cookie }
            .assemble()
            .ok_or_else(|| self.unsupported("as many claimed addresses"))?;
        let program = with_memlock(|| Ok(barewire_bpf::Program::load(Kind::Xdp, "barewire_xdp", &program)?))
            .map_err(|e| self.failed("bpf(BPF_PROG_LOAD)", "CAP_BPF and CAP_NET_ADMIN", e))?;
        let (link, native, words) = self.attach(&program)?;
        Ok(Hook { map, native, words, stamp_cookie, _link: link })
    }

    /// Attaches the program: the link, whether it is native, and the words for it.
    fn attach(&self, program: &barewire_bpf::Program) -> Result<(Link, bool, String), OpenError> {
        let attach =
            |mode| retry_busy(self.patient, || Link::attach(program, self.interface.index, At::Xdp(mode)));
        let mut refused = None;
        // A veth's native hook wants headroom that a frame sent by AF_XDP does not have: the kernel copies it into a new buffer
        // first, which the generic hook does not (benches/runs/2026-11-21-message-service/xdp-attach-abab.txt).
        let better_generic = self.config.attach == Attach::Auto
            && self.config.mode != Mode::ZeroCopy
            // Only the native hook of a veth knows on which queue a frame came: the one on which its peer sent it.
            && !self.config.share
            && self.interface.driver == "veth";
        if self.config.attach != Attach::Generic && !better_generic {
            match attach(XdpMode::Native) {
                Ok(link) => return Ok((link, true, "native hook".to_owned())),
                Err(e) => {
                    let taken = matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST));
                    let demanded = self.config.attach == Attach::Native || self.config.mode == Mode::ZeroCopy;
                    if taken || demanded || e.raw_os_error() == Some(libc::EPERM) {
                        return Err(self.attach_failed(e, "native"));
                    }
                    refused = Some(e);
                }
            }
        }
        let link = attach(XdpMode::Generic).map_err(|e| self.attach_failed(e, "generic"))?;
        let why = match refused {
            Some(e) => format!("generic hook (the driver refused the native one: {})", plain(&e)),
            None if better_generic => "generic hook (a veth's native one copies once more)".to_owned(),
            None => "generic hook (as asked)".to_owned(),
        };
        Ok((link, false, why))
    }

    fn attach_failed(&self, e: io::Error, hook: &str) -> OpenError {
        let name = &self.interface.name;
        match e.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => OpenError::Io {
                uri: self.uri.clone(),
                call: "bpf(BPF_LINK_CREATE)",
                source: hinted(
                    &e,
                    &format!(
                        "another XDP program is attached to `{name}` (see: ip -d link show dev {name}); stop the \
                         program that owns it, or take it off: ip link set dev {name} xdp off"
                    ),
                ),
            },
            Some(libc::EOPNOTSUPP) => self.unsupported(format!("the {hook} XDP hook on `{name}`")),
            // Its way of attaching is not older.
            Some(libc::EINVAL) => OpenError::Io {
                uri: self.uri.clone(),
                call: "bpf(BPF_LINK_CREATE)",
                source: hinted(&e, "xdp: needs Linux 5.9 or later; packet: works on older kernels"),
            },
            _ => self.failed("bpf(BPF_LINK_CREATE)", "CAP_NET_ADMIN and CAP_BPF", e),
        }
    }
}
