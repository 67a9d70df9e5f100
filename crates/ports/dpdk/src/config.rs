//! What a user may choose, and how a URI says it.

use barewire_frame::CHUNK_LEN_DEFAULT;
use barewire_port::{OpenError, PortUri};

/// Descriptors of a ring, unless asked otherwise.
const RX_SLOTS: u16 = 512;
const TX_SLOTS: u16 = 512;
/// Most descriptors of a ring that may be asked for.
const SLOTS_MAX: u16 = 8192;
/// Most receive queues that may be asked for.
const QUEUES_MAX: u16 = 256;
/// Smallest and largest MTU that may be asked for (RFC 791; what a chunk of 16 KiB holds).
const MTUS: std::ops::RangeInclusive<u16> = 68..=16_000;

/// Slots of packet sockets: blocks of seven pages hold 16 of them, and each a frame of an MTU of 1,500 with what the kernel puts in front.
const PACKET_SLOTS: &str = "blocksz=28672,framesz=1792,framecnt=512";

/// How a port is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkConfig {
    /// The device with its arguments, as DPDK's `-a` and `--vdev` take it: `0000:00:06.0`, `net_af_packet0,iface=eth0`.
    pub device: String,
    /// Descriptors of the receive queue. The driver may round.
    pub rx_slots: u16,
    /// Descriptors of the transmit queue.
    pub tx_slots: u16,
    /// The MTU to set; `None`: the device's own.
    pub mtu: Option<u16>,
    /// Receive frames to other addresses, too.
    pub promiscuous: bool,
    /// Receive queues that the device gets, and as many to send if it can. It deals frames to them by their addresses and ports, where it can.
    pub queues: u16,
    /// The queues that this port serves, in order. Empty: all.
    pub own: Vec<u16>,
    /// The other queues are served by other ports of this process, each on a thread and with a pool of its own. The device starts with the
    /// last of them.
    pub share: bool,
    /// More arguments of DPDK's environment, for the first port of the process.
    pub eal: Vec<String>,
}

/// Reads a number, a range `0-3`, or a list `0,2`: in order, each once.
fn numbers(text: &str) -> Option<Vec<u16>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= QUEUES_MAX {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

impl DpdkConfig {
    /// The defaults for a device.
    pub fn new(device: &str) -> DpdkConfig {
        DpdkConfig {
            device: device.to_owned(),
            rx_slots: RX_SLOTS,
            tx_slots: TX_SLOTS,
            mtu: None,
            promiscuous: false,
            queues: 1,
            own: Vec::new(),
            share: false,
            eal: Vec::new(),
        }
    }

    /// Reads `dpdk:DEVICE[,ARGUMENTS]` with the options `rx=`, `tx=` (descriptors), `mtu=`, `promiscuous=0|1`, `queues=` (how many),
    /// `queue=all|0|0-3|0,2`, `share=0|1` and `eal=` (arguments of DPDK's environment, apart by spaces).
    ///
    /// # Errors
    /// [`OpenError::BadUri`] that names the option, with the nearest right word or the bounds.
    pub fn from_uri(uri: &PortUri) -> Result<DpdkConfig, OpenError> {
        let mut uri = uri.clone();
        if uri.scheme != "dpdk" {
            return Err(uri.bad("not a `dpdk:` port"));
        }
        let mut config = DpdkConfig::new(&uri.target);
        config.rx_slots = uri.take_or("rx", RX_SLOTS)?;
        config.tx_slots = uri.take_or("tx", TX_SLOTS)?;
        config.mtu = uri.take("mtu")?;
        config.promiscuous = uri.take_flag("promiscuous")?;
        config.queues = uri.take_or("queues", 1)?;
        config.share = uri.take_flag("share")?;
        let own = uri.take_text("queue").filter(|text| text != "all");
        config.eal = uri.take_text("eal").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        uri.finish()?;
        for (name, slots) in [("rx", config.rx_slots), ("tx", config.tx_slots)] {
            if !(32..=SLOTS_MAX).contains(&slots) {
                return Err(uri.bad(format!("`{name}={slots}`: 32 to {SLOTS_MAX} descriptors")));
            }
        }
        if !(1..=QUEUES_MAX).contains(&config.queues) {
            return Err(uri.bad(format!("`queues={}`: 1 to {QUEUES_MAX}", config.queues)));
        }
        if let Some(text) = own {
            let read = numbers(&text).filter(|all| all.iter().all(|queue| *queue < config.queues));
            config.own = read.ok_or_else(|| {
                let last = config.queues - 1;
                uri.bad(format!("`queue={text}`: `all`, or of the queues 0 to {last} a number, a range `0-3` or a list `0,2`; `queues` says how many there are"))
            })?;
        }
        if !config.share && config.own_queues().len() < usize::from(config.queues) {
            return Err(uri.bad("a port that has the device for itself serves all of its queues; `share=1` leaves some to other ports"));
        }
        if config.name().starts_with("net_ring") && config.device.contains("nodeaction=") {
            return Err(uri.bad("`nodeaction`: rings between devices would mix up the memory of their ports; `net_memif` links two"));
        }
        if config.mtu.is_some_and(|mtu| !MTUS.contains(&mtu)) {
            return Err(uri.bad(format!("`mtu` must be {} to {} bytes", MTUS.start(), MTUS.end())));
        }
        // A NUL would cut a C string short.
        if config.device.is_empty()
            || config.device.contains('\0')
            || config.eal.iter().any(|a| a.contains('\0'))
        {
            return Err(
                uri.bad("a device is named as DPDK does: `0000:00:06.0`, `net_af_packet0,iface=eth0`")
            );
        }
        Ok(config)
    }

    /// What DPDK is told: the device, and for packet sockets a socket for each queue and slots that fit into a chunk, unless the user chose
    /// some. The driver's own slots have 2,048 bytes, and are refused where a chunk of that length has headroom, too.
    pub fn devargs(&self, chunk_len: u32) -> String {
        let mut all = self.device.clone();
        if !self.name().starts_with("net_af_packet") {
            return all;
        }
        if self.queues > 1 && !all.contains("qpairs=") {
            all += &format!(",qpairs={}", self.queues);
        }
        let chosen = ["framesz=", "blocksz="].iter().any(|key| self.device.contains(key));
        if !chosen && chunk_len <= CHUNK_LEN_DEFAULT {
            all += &format!(",{PACKET_SLOTS}");
        }
        all
    }

    /// The queues that this port serves: one at least.
    pub fn own_queues(&self) -> Vec<u16> {
        if self.own.is_empty() { (0..self.queues).collect() } else { self.own.clone() }
    }

    /// The device without its arguments.
    pub fn name(&self) -> &str {
        self.device.split(',').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<DpdkConfig, String> {
        DpdkConfig::from_uri(&text.parse().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_read() {
        assert_eq!(config("dpdk:0000:00:06.0").unwrap(), DpdkConfig::new("0000:00:06.0"));
        let read = config(
            "dpdk:net_af_packet0,iface=eth0?rx=64&tx=128&mtu=9000&promiscuous=1&eal=--socket-mem 512 -v",
        );
        let expected = DpdkConfig {
            device: "net_af_packet0,iface=eth0".to_owned(),
            rx_slots: 64,
            tx_slots: 128,
            mtu: Some(9000),
            promiscuous: true,
            eal: ["--socket-mem", "512", "-v"].map(str::to_owned).to_vec(),
            ..DpdkConfig::new("net_af_packet0,iface=eth0")
        };
        assert_eq!(read.as_ref(), Ok(&expected));
        assert_eq!(expected.name(), "net_af_packet0");
        assert!(expected.devargs(2048).ends_with(",iface=eth0,blocksz=28672,framesz=1792,framecnt=512"));
        assert_eq!(expected.devargs(4096), expected.device);
        assert_eq!(DpdkConfig::new("net_null0").devargs(2048), "net_null0");
    }

    #[test]
    fn queues_are_those_of_the_port_or_all() {
        let alone = config("dpdk:net_null0?queues=4").unwrap();
        assert_eq!((alone.own_queues(), alone.share), (vec![0, 1, 2, 3], false));
        assert_eq!(config("dpdk:net_null0?queues=4&queue=all").unwrap(), alone);
        let shared = config("dpdk:net_null0?queues=6&queue=5,1-3,2&share=1").unwrap();
        assert_eq!((shared.own_queues(), shared.share), (vec![1, 2, 3, 5], true));
        let packet = config("dpdk:net_af_packet0,iface=eth0?queues=2").unwrap();
        assert!(packet.devargs(4096).ends_with(",iface=eth0,qpairs=2"));
        let chosen = config("dpdk:net_af_packet0,iface=eth0,qpairs=2?queues=2").unwrap();
        assert_eq!(chosen.devargs(4096), chosen.device);
    }

    #[test]
    fn slips_are_named() {
        for (text, expected) in [
            ("dpdk:net_null0?promiscous=1", "did you mean `promiscuous`?"),
            ("dpdk:net_null0?rx=16", "32 to 8192"),
            ("dpdk:net_null0?mtu=20000", "68 to 16000"),
            ("dpdk:net_null0?queues=0", "1 to 256"),
            ("dpdk:net_null0?queues=2&queue=2&share=1", "of the queues 0 to 1"),
            ("dpdk:net_null0?queues=2&queue=1-0&share=1", "a range `0-3`"),
            ("dpdk:net_null0?queues=2&queue=0", "`share=1` leaves some to other ports"),
            ("dpdk:net_ring0,nodeaction=r0:0:ATTACH", "`net_memif` links two"),
            ("xdp:eth0", "not a `dpdk:` port"),
        ] {
            let why = config(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
