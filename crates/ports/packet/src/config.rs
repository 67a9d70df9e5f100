//! What a user may choose, and how a URI says it.

use barewire_port::{OpenError, PortUri};

/// Which clock shall stamp received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StampBy {
    /// The kernel, as the frame passes from the driver to the socket. `CLOCK_REALTIME`.
    #[default]
    Kernel,
    /// The card, where driver and card can; else the kernel. Switches the card's stamping on for all frames.
    Hardware,
    /// Nobody before the engine that finds the frame: the cheapest.
    Engine,
}

/// How the kernel spreads frames over the sockets of a group (packet(7), `PACKET_FANOUT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u16)]
pub enum FanoutMode {
    /// By a hash of the addresses and ports: a flow stays on one socket.
    #[default]
    Hash = 0,
    /// One after the other.
    RoundRobin = 1,
    /// By the processor on which the frame arrived.
    Cpu = 2,
    /// To the first socket that has room.
    Rollover = 3,
    /// At random.
    Random = 4,
    /// By the card's receive queue.
    Queue = 5,
}

/// Membership in a group of sockets that share an interface's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// The group's number in this network namespace.
    pub id: u16,
    /// How frames are spread; the same for all members.
    pub mode: FanoutMode,
}

/// How a [`PacketPort`](crate::PacketPort) is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketConfig {
    /// Interface name, in the caller's network namespace.
    pub interface: String,
    /// Slots of the receive ring, a power of two; 0: no ring, a system call for each burst writes straight into frames.
    pub rx_ring: u32,
    /// Slots of the transmit ring, a power of two; 0: no ring, a system call for each burst reads straight out of frames.
    pub tx_ring: u32,
    /// Send past the queueing discipline, straight to the driver. Not with `gso`: who goes that way must not leave the
    /// cutting to the kernel.
    pub qdisc_bypass: bool,
    /// Do not receive what this machine sends on the interface.
    pub ignore_outgoing: bool,
    /// Exchange a `struct virtio_net_hdr` with each frame: the kernel says where an unfinished checksum lies, and
    /// completes ours. Also admits frames larger than the MTU (of a sender that segments late) up to the pool's chunk.
    pub vnet_hdr: bool,
    /// Exchange frames that are to be cut later, whole and marked ([`Frame::gso`](barewire_frame::Frame::gso)), in both
    /// directions. Needs `vnet_hdr` and a pool whose chunks hold 64 KiB.
    pub gso: bool,
    /// Receive frames to other addresses, too.
    pub promiscuous: bool,
    /// Share the interface's frames with other sockets.
    pub fanout: Option<Fanout>,
    /// Receive only frames that carry this mark (`SO_MARK`, or what a program of the kernel set).
    pub mark: Option<u32>,
    /// Who stamps.
    pub stamp: StampBy,
}

impl PacketConfig {
    /// The defaults for an interface.
    pub fn new(interface: &str) -> PacketConfig {
        PacketConfig {
            interface: interface.to_owned(),
            rx_ring: 2048,
            tx_ring: 512,
            qdisc_bypass: true,
            ignore_outgoing: true,
            vnet_hdr: false,
            gso: false,
            promiscuous: false,
            fanout: None,
            mark: None,
            stamp: StampBy::Kernel,
        }
    }

    /// The defaults for an interface whose frames may be whole segments of 64 KiB: no rings, whose slots would each hold the
    /// largest frame.
    pub fn with_gso(interface: &str) -> PacketConfig {
        PacketConfig {
            rx_ring: 0,
            tx_ring: 0,
            qdisc_bypass: false,
            vnet_hdr: true,
            gso: true,
            ..PacketConfig::new(interface)
        }
    }

    /// Reads `packet:INTERFACE` with the options `rx=`, `tx=` (ring slots, 0 for none), `qdisc_bypass=1|0`,
    /// `ignore_outgoing=1|0`, `vnet_hdr=0|1`, `gso=0|1` (with the defaults of [`with_gso`](Self::with_gso)),
    /// `promiscuous=0|1`, `fanout=ID`, `fanout_mode=hash|round_robin|cpu|rollover|random|queue`,
    /// `mark=NUMBER`, `stamp=kernel|hardware|engine`.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] that names the option, with the nearest right word.
    pub fn from_uri(uri: &PortUri) -> Result<PacketConfig, OpenError> {
        let mut uri = uri.clone();
        if uri.scheme != "packet" {
            return Err(uri.bad("not a `packet:` port"));
        }
        let mut config = match uri.take_flag("gso")? {
            true => PacketConfig::with_gso(&uri.target),
            false => PacketConfig::new(&uri.target),
        };
        config.rx_ring = uri.take_or("rx", config.rx_ring)?;
        config.tx_ring = uri.take_or("tx", config.tx_ring)?;
        for (key, to) in [
            ("qdisc_bypass", &mut config.qdisc_bypass),
            ("ignore_outgoing", &mut config.ignore_outgoing),
            ("vnet_hdr", &mut config.vnet_hdr),
            ("promiscuous", &mut config.promiscuous),
        ] {
            // Taken in any case, so that the list of known options has it.
            let given = uri.options.contains_key(key);
            let value = uri.take_flag(key)?;
            if given {
                *to = value;
            }
        }
        let id = uri.take("fanout")?;
        let modes = [
            ("hash", FanoutMode::Hash),
            ("round_robin", FanoutMode::RoundRobin),
            ("cpu", FanoutMode::Cpu),
            ("rollover", FanoutMode::Rollover),
            ("random", FanoutMode::Random),
            ("queue", FanoutMode::Queue),
        ];
        let mode = uri.take_choice("fanout_mode", &modes)?;
        config.fanout = match (id, mode) {
            (Some(id), mode) => Some(Fanout { id, mode: mode.unwrap_or_default() }),
            (None, Some(_)) => return Err(uri.bad("`fanout_mode` needs `fanout=ID`")),
            (None, None) => None,
        };
        config.mark = uri.take("mark")?;
        let sources =
            [("kernel", StampBy::Kernel), ("hardware", StampBy::Hardware), ("engine", StampBy::Engine)];
        config.stamp = uri.take_choice("stamp", &sources)?.unwrap_or_default();
        uri.finish()?;
        Ok(config)
    }

    /// What breaks a bound, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, slots) in [("rx", self.rx_ring), ("tx", self.tx_ring)] {
            if slots != 0 && (!slots.is_power_of_two() || !(2..=1 << 16).contains(&slots)) {
                return Err(format!(
                    "ring `{name}` of {slots} slots: a power of two from 2 to 65536 is needed, or 0 for none"
                ));
            }
        }
        if self.gso && !self.vnet_hdr {
            return Err("`gso=1` needs `vnet_hdr=1`".to_owned());
        }
        if self.gso && self.qdisc_bypass {
            return Err("`gso=1` needs `qdisc_bypass=0`: past it the kernel cuts no frame".to_owned());
        }
        if self.stamp == StampBy::Hardware && self.rx_ring == 0 {
            return Err("`stamp=hardware` needs a receive ring".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<PacketConfig, String> {
        PacketConfig::from_uri(&text.parse().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_read() {
        assert_eq!(config("packet:eth0").unwrap(), PacketConfig::new("eth0"));
        let c = config(
            "packet:eth0?rx=64&tx=128&qdisc_bypass=0&ignore_outgoing=off&vnet_hdr=1&promiscuous=yes&fanout=7\
             &fanout_mode=cpu&mark=9&stamp=hardware",
        );
        let expected = PacketConfig {
            interface: "eth0".to_owned(),
            rx_ring: 64,
            tx_ring: 128,
            qdisc_bypass: false,
            ignore_outgoing: false,
            vnet_hdr: true,
            gso: false,
            promiscuous: true,
            fanout: Some(Fanout { id: 7, mode: FanoutMode::Cpu }),
            mark: Some(9),
            stamp: StampBy::Hardware,
        };
        assert_eq!(c.unwrap(), expected);
        let c = config("packet:eth0?gso=1&rx=64&stamp=engine").unwrap();
        let expected = PacketConfig { rx_ring: 64, stamp: StampBy::Engine, ..PacketConfig::with_gso("eth0") };
        assert_eq!((&c, c.check()), (&expected, Ok(())));
        assert_eq!((c.tx_ring, c.vnet_hdr, c.qdisc_bypass), (0, true, false));
    }

    #[test]
    fn slips_are_named() {
        for (text, expected) in [
            ("packet:eth0?qdisk_bypass=1", "did you mean `qdisc_bypass`?"),
            ("packet:eth0?fanout_mode=cpu", "needs `fanout=ID`"),
            ("packet:eth0?fanout=1&fanout_mode=hush", "did you mean `hash`?"),
            ("packet:eth0?stamp=hw", "known: kernel, hardware, engine"),
            ("xdp:eth0", "not a `packet:` port"),
        ] {
            let why = config(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        assert!(config("packet:eth0?rx=100").unwrap().check().is_err());
        for text in ["tx=1", "gso=1&qdisc_bypass=1", "gso=1&vnet_hdr=0", "rx=0&stamp=hardware"] {
            assert!(config(&format!("packet:eth0?{text}")).unwrap().check().is_err(), "{text}");
        }
    }
}
