//! What a card says of itself.

/// How an XDP program hangs on a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpHook {
    /// None does.
    None,
    /// In the driver.
    Driver,
    /// In the kernel, behind the driver's own work.
    Generic,
    /// In the card, or several.
    Other,
}

/// How long a card waits before it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coalescing {
    /// Microseconds after a received frame.
    pub rx_us: Option<u32>,
    /// Frames received.
    pub rx_frames: Option<u32>,
    /// The driver chooses as it goes.
    pub rx_adaptive: Option<bool>,
    /// Microseconds after a transmitted frame.
    pub tx_us: Option<u32>,
}

/// Everything that is asked over netlink. `None`: the driver does not say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NicFacts {
    /// The interface.
    pub name: String,
    /// Its number in this network namespace; `None`: there is none of this name, or nobody asked.
    pub index: Option<u32>,
    /// `NETDEV_A_DEV_XDP_FEATURES` (linux/netdev.h).
    pub xdp_features: Option<u64>,
    /// An XDP program now.
    pub xdp_hook: Option<XdpHook>,
    /// Queues that receive (combined ones included): now, and at most.
    pub channels: Option<(u32, u32)>,
    /// Places of the receive ring: now, and at most.
    pub rx_ring: Option<(u32, u32)>,
    /// Places of the transmit ring: now, and at most.
    pub tx_ring: Option<(u32, u32)>,
    /// Interrupts.
    pub coalescing: Option<Coalescing>,
    /// Ethernet's own flow control: receive, transmit.
    pub pause: Option<(bool, bool)>,
    /// Names of the features that are on (`ethtool -k`, as the kernel calls them).
    pub features: Option<Vec<String>>,
    /// Names of the time-stamping abilities.
    pub timestamping: Option<Vec<String>>,
    /// Number of the PTP clock.
    pub phc: Option<u32>,
}

impl NicFacts {
    /// A card that was asked nothing, or did not answer.
    pub fn unanswered(name: &str) -> NicFacts {
        NicFacts { name: name.to_owned(), ..NicFacts::default() }
    }

    /// Whether a feature is on.
    pub(crate) fn has_feature(&self, name: &str) -> Option<bool> {
        self.features.as_ref().map(|on| on.iter().any(|f| f == name))
    }
}

/// `NETDEV_XDP_ACT_BASIC`: programs run in the driver.
pub(crate) const XDP_BASIC: u64 = 1;
/// `NETDEV_XDP_ACT_XSK_ZEROCOPY`.
pub(crate) const XDP_ZERO_COPY: u64 = 8;
/// `NETDEV_XDP_ACT_RX_SG`: frames of several buffers.
pub(crate) const XDP_MULTI_BUFFER: u64 = 32;
