//! What a user may choose, and how a URI says it.

use crate::program::CLAIM_MAX;
use barewire_port::{OpenError, PortUri};
use std::net::IpAddr;

/// Receive queues that one port serves.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Queues {
    /// Every queue that the interface has.
    #[default]
    All,
    /// These.
    List(Vec<u32>),
}

/// Whether the card writes into our memory itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Zero copy where the driver has it, else a copy in the kernel.
    #[default]
    Auto,
    /// A copy in the kernel.
    Copy,
    /// Zero copy, or opening fails.
    ZeroCopy,
}

/// Where the program hooks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Attach {
    /// In the driver where it can, else in the kernel's generic path; on a veth in the generic path, which is the shorter one
    /// there, unless ports share it: only the driver's hook keeps the queue on which a frame was sent.
    #[default]
    Auto,
    /// In the driver, or opening fails.
    Native,
    /// In the generic path: works on every interface.
    Generic,
}

/// Whether the kernel tells us when it wants a system call (`XDP_USE_NEED_WAKEUP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NeedWakeup {
    /// On where the kernel has it.
    #[default]
    Auto,
    /// On, or opening fails.
    On,
    /// Off: one system call for every transmitted burst.
    Off,
}

/// Busy polling by the receiving thread (kernel `Documentation/networking/napi.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long one call polls the card, in microseconds.
    pub timeout_us: u32,
    /// Most packets that one call processes.
    pub budget: u32,
}

/// How an [`XdpPort`](crate::XdpPort) is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// Interface name, in the caller's network namespace.
    pub interface: String,
    /// Receive queues; the first of them transmits.
    pub queues: Queues,
    /// Zero copy or not.
    pub mode: Mode,
    /// Native or generic.
    pub attach: Attach,
    /// Entries of each receive ring, a power of two.
    pub rx_ring: u32,
    /// Entries of the transmit ring, a power of two.
    pub tx_ring: u32,
    /// Entries of each fill ring, a power of two.
    pub fill_ring: u32,
    /// Frames of the pool that may wait in fill and receive rings, over all queues. `None`: half of those that are free, no
    /// more than 2048 or an eighth of the pool, so that several ports find some.
    pub fill_frames: Option<u32>,
    /// Entries of each completion ring, a power of two, at least those of the transmit ring.
    pub completion_ring: u32,
    /// The wake-up flag.
    pub need_wakeup: NeedWakeup,
    /// Busy polling; `None`: interrupts drive the card.
    pub busy_poll: Option<BusyPoll>,
    /// Addresses that are ours, at most [`CLAIM_MAX`]. What is sent to others stays with the kernel. Empty: every frame
    /// is ours, `claim=all`.
    pub claim: Vec<IpAddr>,
    /// Let the program write the kernel's monotonic time in front of each frame, as its receive stamp.
    pub kernel_stamp: bool,
    /// Recognise transport checksums that a virtual peer left to its hardware, and mark them
    /// [`ChecksumState::Partial`](barewire_frame::ChecksumState). Has an effect on `veth` only.
    pub mark_unfinished: bool,
    /// Share the XDP program with other ports of this process on the interface that serve other queues. Default off: the
    /// interface is this port's alone.
    pub share: bool,
}

impl Queues {
    /// Reads `all`, a number, a range `0-3` or a list `0,2`.
    pub fn parse(text: &str) -> Option<Queues> {
        if text == "all" { Some(Queues::All) } else { queues(text) }
    }
}

impl XdpConfig {
    /// The defaults for an interface.
    pub fn new(interface: &str) -> XdpConfig {
        XdpConfig {
            interface: interface.to_owned(),
            queues: Queues::All,
            mode: Mode::Auto,
            attach: Attach::Auto,
            rx_ring: 2048,
            tx_ring: 2048,
            fill_ring: 4096,
            fill_frames: None,
            completion_ring: 2048,
            need_wakeup: NeedWakeup::Auto,
            busy_poll: None,
            claim: Vec::new(),
            kernel_stamp: true,
            mark_unfinished: true,
            share: false,
        }
    }

    /// Reads `xdp:INTERFACE` with the options
    /// `queue=all|0|0-3|0,2`, `mode=auto|copy|zerocopy`, `attach=auto|native|generic`,
    /// `rx=`, `tx=`, `fill=`, `completion=` (ring entries), `fill_frames=`, `need_wakeup=auto|on|off`,
    /// `busy_poll_us=`, `busy_poll_budget=`, `claim=ADDRESS,...|all`, `kernel_stamp=1|0`, `mark_unfinished=1|0`, `share=0|1`.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] that names the option, with the nearest right word.
    pub fn from_uri(uri: &PortUri) -> Result<XdpConfig, OpenError> {
        let mut uri = uri.clone();
        if uri.scheme != "xdp" {
            return Err(uri.bad("not an `xdp:` port"));
        }
        let mut config = XdpConfig::new(&uri.target);
        if let Some(text) = uri.take_text("queue") {
            config.queues = Queues::parse(&text).ok_or_else(|| {
                uri.bad_value("queue", &text, "`all`, a number, a range `0-3` or a list `0,2` is expected")
            })?;
        }
        let modes = [("auto", Mode::Auto), ("copy", Mode::Copy), ("zerocopy", Mode::ZeroCopy)];
        config.mode = uri.take_choice("mode", &modes)?.unwrap_or_default();
        let hooks = [("auto", Attach::Auto), ("native", Attach::Native), ("generic", Attach::Generic)];
        config.attach = uri.take_choice("attach", &hooks)?.unwrap_or_default();
        config.rx_ring = uri.take_or("rx", config.rx_ring)?;
        config.tx_ring = uri.take_or("tx", config.tx_ring)?;
        config.fill_ring = uri.take_or("fill", config.fill_ring)?;
        config.fill_frames = uri.take("fill_frames")?;
        config.completion_ring = uri.take_or("completion", config.completion_ring.max(config.tx_ring))?;
        let flags = [("auto", NeedWakeup::Auto), ("on", NeedWakeup::On), ("off", NeedWakeup::Off)];
        config.need_wakeup = uri.take_choice("need_wakeup", &flags)?.unwrap_or_default();
        let (timeout_us, budget) = (uri.take("busy_poll_us")?, uri.take("busy_poll_budget")?);
        config.busy_poll = match (timeout_us, budget) {
            (None, None) => None,
            (timeout_us, budget) => {
                Some(BusyPoll { timeout_us: timeout_us.unwrap_or(20), budget: budget.unwrap_or(64) })
            }
        };
        if let Some(text) = uri.take_text("claim")
            && text != "all"
        {
            let addresses: Result<Vec<IpAddr>, _> = text.split(',').map(|a| a.trim().parse()).collect();
            config.claim = addresses.map_err(|e| {
                uri.bad_value("claim", &text, &format!("{e}; addresses, or `all` for every frame"))
            })?;
        }
        for (key, to) in [
            ("kernel_stamp", &mut config.kernel_stamp),
            ("mark_unfinished", &mut config.mark_unfinished),
            ("share", &mut config.share),
        ] {
            if uri.options.contains_key(key) {
                *to = uri.take_flag(key)?;
            } else {
                // So that the list of known options has it.
                let _ = uri.take_text(key);
            }
        }
        uri.finish()?;
        Ok(config)
    }

    /// What breaks a bound, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, len) in [
            ("rx", self.rx_ring),
            ("tx", self.tx_ring),
            ("fill", self.fill_ring),
            ("completion", self.completion_ring),
        ] {
            if !len.is_power_of_two() || !(2..=1 << 20).contains(&len) {
                return Err(format!(
                    "ring `{name}` of {len} entries: a power of two from 2 to 1048576 is needed"
                ));
            }
        }
        if self.completion_ring < self.tx_ring {
            return Err(format!(
                "the completion ring ({}) must not be shorter than the transmit ring ({})",
                self.completion_ring, self.tx_ring
            ));
        }
        if self.claim.len() > CLAIM_MAX {
            return Err(format!("{} claimed addresses: at most {CLAIM_MAX} can be", self.claim.len()));
        }
        if self.mode == Mode::ZeroCopy && self.attach == Attach::Generic {
            return Err("zero copy needs the native hook; drop attach=generic or mode=zerocopy".to_owned());
        }
        if let Queues::List(list) = &self.queues {
            let mut seen = list.clone();
            seen.sort_unstable();
            seen.dedup();
            if list.is_empty() || seen.len() != list.len() {
                return Err("the list of queues is empty or names one twice".to_owned());
            }
        }
        Ok(())
    }
}

/// Most queues that a range may name: a slip of the finger must not build a list of billions.
const QUEUES_MAX: u32 = 1024;

fn queues(text: &str) -> Option<Queues> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= QUEUES_MAX {
            return None;
        }
        list.extend(first..=last);
    }
    Some(Queues::List(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<XdpConfig, String> {
        XdpConfig::from_uri(&text.parse().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_bare_name_takes_the_defaults() {
        assert_eq!(config("xdp:eth0").unwrap(), XdpConfig::new("eth0"));
    }

    #[test]
    fn every_option_is_read() {
        let c = config(
            "xdp:eth0?queue=0-2,5&mode=copy&attach=generic&rx=64&tx=4096&fill=256&fill_frames=96&need_wakeup=off&busy_poll_us=50\
             &claim=10.0.0.2,fd00::2&kernel_stamp=0&mark_unfinished=off&share=1",
        )
        .unwrap();
        let expected = XdpConfig {
            queues: Queues::List(vec![0, 1, 2, 5]),
            mode: Mode::Copy,
            attach: Attach::Generic,
            rx_ring: 64,
            tx_ring: 4096,
            fill_ring: 256,
            fill_frames: Some(96),
            completion_ring: 4096,
            need_wakeup: NeedWakeup::Off,
            busy_poll: Some(BusyPoll { timeout_us: 50, budget: 64 }),
            claim: vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
            kernel_stamp: false,
            mark_unfinished: false,
            share: true,
            ..XdpConfig::new("eth0")
        };
        assert_eq!(c, expected);
        assert_eq!(c.check(), Ok(()));
    }

    #[test]
    fn slips_are_named() {
        for (text, expected) in [
            ("xdp:eth0?mode=zero", "did you mean `zerocopy`?"),
            ("xdp:eth0?kernel_stmp=1", "did you mean `kernel_stamp`?"),
            ("xdp:eth0?queue=3-1", "`queue=3-1`"),
            ("xdp:eth0?queue=0-4000000000", "`queue=0-4000000000`"),
            ("xdp:eth0?claim=10.0.0.256", "`claim=10.0.0.256`"),
            ("xdp:eth0?rx=many", "`rx=many`"),
        ] {
            let why = config(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        for text in [
            "xdp:eth0?rx=1000",
            "xdp:eth0?fill=0",
            "xdp:eth0?tx=4096&completion=2048",
            "xdp:eth0?queue=1,1",
            "xdp:eth0?mode=zerocopy&attach=generic",
        ] {
            assert!(config(text).unwrap().check().is_err(), "{text}");
        }
    }
}
