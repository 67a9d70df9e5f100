//! Every kind of port behind one door, and the best one for an interface.

use barewire_frame::{Pool, PoolConfig};
use barewire_packet::interface::Interface;
use barewire_packet::{PacketPort, Rss};
use barewire_port::{OpenError, Port, PortUri};
use barewire_xdp::{CLAIM_MAX, Queues, XdpPort};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Opens the port that `uri` names, wrappers included, with its frames in `pool`.
///
/// # Errors
/// [`OpenError`], with the place and the nearest right word for what was typed wrong.
pub fn open_port(uri: &PortUri, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    barewire_port::open(uri, pool, &mut |uri, pool| match uri.scheme.as_str() {
        "xdp" => Some(XdpPort::from_uri(uri, pool).map(|p| Box::new(p) as Box<dyn Port>)),
        "packet" => Some(PacketPort::from_uri(uri, pool).map(|p| Box::new(p) as Box<dyn Port>)),
        #[cfg(feature = "dpdk")]
        "dpdk" => Some(barewire_dpdk::DpdkPort::from_uri(uri, pool).map(|p| Box::new(p) as Box<dyn Port>)),
        _ => None,
    })
}

/// What follows `scheme:`, wrappers included, for a port on an interface of the kernel: its name. A device of DPDK has a name of its own in the process, and
/// reaches the interface through packet sockets.
pub fn target_on(scheme: &str, interface: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    if scheme.rsplit('+').next() != Some("dpdk") {
        return interface.to_owned();
    }
    format!("net_af_packet{},iface={interface}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Frames that wait on each receive queue of a card with many: a flow's largest burst lands on one queue, before the engine comes
/// to refill it.
const FILL_FRAMES_PER_QUEUE: u32 = 256;
/// What `xdp:` lets wait on all queues together when nothing is said.
const FILL_FRAMES_DEFAULT: u32 = 2048;
/// Queues beyond these get a share of what these have: more memory than that is to be asked for.
const QUEUES_MAX: u32 = 128;

/// The port and the pool of a host that has `addresses` and nothing else on an interface that the kernel may use, too.
///
/// Over `xdp:` only what is sent to `addresses` is taken, so that the machine keeps its own addresses (`claim` in the URI says
/// otherwise; `claim=all` takes every frame), and each receive queue of a card with many has frames for a burst, which the pool
/// holds beside those that `pool` asks for (unless the URI says `fill_frames`). Any other port is as `uri` says.
///
/// # Errors
/// [`OpenError::NotFound`] for an interface that is not there, [`OpenError::BadUri`] for more addresses than can be claimed.
pub fn for_host(
    uri: PortUri,
    addresses: &[IpAddr],
    pool: PoolConfig,
) -> Result<(PortUri, PoolConfig), OpenError> {
    if uri.scheme != "xdp" {
        return Ok((uri, pool));
    }
    let queues = Interface::find(uri.text(), &uri.target)?.queues;
    with_claims(uri, addresses).map(|uri| with_frames(uri, queues, pool))
}

/// The `xdp:` port that takes what is sent to `addresses`, unless its URI says what it takes; any other port is as `uri` says.
///
/// # Errors
/// [`OpenError::BadUri`] for more addresses than can be claimed.
pub fn with_claims(uri: PortUri, addresses: &[IpAddr]) -> Result<PortUri, OpenError> {
    if uri.scheme != "xdp" || uri.options.contains_key("claim") || addresses.is_empty() {
        return Ok(uri);
    }
    if addresses.len() > CLAIM_MAX {
        let n = addresses.len();
        let why = format!(
            "a host of {n} addresses, and `xdp:` tells {CLAIM_MAX} from the kernel's: `claim=all` takes every frame"
        );
        return Err(OpenError::BadUri { uri: uri.text().to_owned(), why });
    }
    let claims: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    Ok(uri.with("claim", claims.join(",")))
}

/// The `xdp:` or `dpdk:` port of one of several engines that share an interface: the receive queues that are its own, dealt out in turns of
/// those that there are or that the URI names, with one XDP program or device for all. A device of DPDK has as many queues as its URI says, or
/// one for each engine.
///
/// # Errors
/// [`OpenError::NotFound`] for an interface that is not there, [`OpenError::Unsupported`] when it has fewer queues than there are
/// engines, [`OpenError::BadUri`].
pub fn engine_port(uri: PortUri, engine: u8, engines: u8) -> Result<PortUri, OpenError> {
    if engines <= 1 {
        return Ok(uri);
    }
    let (uri, there, hint) = match uri.scheme.as_str() {
        "xdp" => {
            let (there, name) = (Interface::find(uri.text(), &uri.target)?.queues, uri.target.clone());
            let hint = format!(
                "more queues (ethtool -L {name} combined {engines}), fewer engines, or packet:{name}"
            );
            (uri, there, hint)
        }
        "dpdk" => match uri.options.get("queues").map(|text| text.parse()) {
            None => (uri.with("queues", engines), u32::from(engines), "more of them in `queue`".to_owned()),
            Some(Ok(there)) => (uri, there, format!("`queues={engines}`, or fewer engines")),
            // What cannot be read is told when the port is opened.
            Some(Err(_)) => return Ok(uri),
        },
        _ => return Ok(uri),
    };
    let all = match uri.options.get("queue").map(|text| Queues::parse(text)) {
        Some(Some(Queues::List(list))) => list,
        // What cannot be read is told when the port is opened.
        Some(None) => return Ok(uri),
        Some(Some(Queues::All)) | None => (0..there).collect(),
    };
    if all.len() < usize::from(engines) {
        return Err(OpenError::Unsupported {
            uri: uri.text().to_owned(),
            what: format!(
                "{engines} engines on {} receive queues, of which each needs one; hint: {hint}",
                all.len()
            ),
        });
    }
    if uri.scheme == "dpdk"
        && let Some(left) = (0..there).find(|queue| !all.contains(queue))
    {
        let why = format!(
            "queue {left} is no engine's, and the device starts when each of its {there} queues is served"
        );
        return Err(OpenError::BadUri { uri: uri.text().to_owned(), why });
    }
    let own = all.iter().skip(usize::from(engine)).step_by(usize::from(engines));
    let own: Vec<String> = own.map(ToString::to_string).collect();
    Ok(uri.with("queue", own.join(",")).with("share", 1))
}

/// How the device of a port chooses the receive queue of a UDP packet. `None`: it does not say. A device of DPDK says so once the ports for
/// all of its queues are open.
pub fn rss_of(uri: &PortUri) -> Option<Rss> {
    match uri.scheme.as_str() {
        #[cfg(feature = "dpdk")]
        "dpdk" => barewire_dpdk::DpdkPort::rss_of(&uri.target),
        #[cfg(not(feature = "dpdk"))]
        "dpdk" => None,
        _ => Rss::of(&uri.target),
    }
}

/// The receive queues that the URI of an `xdp:` or `dpdk:` port lists.
pub fn queues_of(uri: &PortUri) -> Option<Vec<u32>> {
    let has_queues = matches!(uri.scheme.as_str(), "xdp" | "dpdk");
    match Queues::parse(uri.options.get("queue").filter(|_| has_queues)?)? {
        Queues::List(list) => Some(list),
        Queues::All => None,
    }
}

fn with_frames(uri: PortUri, queues: u32, mut pool: PoolConfig) -> (PortUri, PoolConfig) {
    let queues = queues_of(&uri).map_or(queues, |list| list.len() as u32);
    let frames = queues.min(QUEUES_MAX) * FILL_FRAMES_PER_QUEUE;
    if frames <= FILL_FRAMES_DEFAULT || uri.options.contains_key("fill_frames") {
        return (uri, pool);
    }
    pool.frames = pool.frames.saturating_add(frames);
    (uri.with("fill_frames", frames), pool)
}

/// The interface of this machine that the port of `uri` stands on; `None` for ports that have none.
pub fn interface_of(uri: &PortUri) -> Option<&str> {
    matches!(uri.scheme.as_str(), "xdp" | "packet").then_some(uri.target.as_str())
}

/// Most frames of the pool that a port of [`best_port`] lets wait for reception: what its receive ring holds. With half as many,
/// TCP through a busy core finds the ring empty at times.
const FILL_FRAMES_MAX: usize = 2048;
/// A port of [`best_port`] takes at most one in this many of the pool's frames for that, and half of those that are left.
const FILL_PORTS: usize = 4;
/// Chunks from which on a pool is made for frames that are left whole.
const WHOLE_CHUNK_LEN: u32 = 1 << 16;

/// Opens the port that suits `interface` and `pool` best, for one of several on this pool: the port, what it may be called, and
/// why in one line.
///
/// Chunks of 64 KiB are for frames that are left whole: `packet:` with `gso=1`. Else `xdp:`, in place; where that is refused
/// (no permission, another program at the hook, an MTU beyond the chunk), `packet:`. A pool of 2,048 frames for each port, and
/// as many again, gives each what it wants.
///
/// # Errors
/// [`OpenError`] of the last that was tried.
pub fn best_port(interface: &str, pool: &Pool) -> Result<(Box<dyn Port>, PortUri, String), OpenError> {
    let mut packet = PortUri::new("packet", interface);
    let why = if pool.chunk_len() >= WHOLE_CHUNK_LEN {
        packet = packet.with("gso", 1);
        "frames may have 64 KiB".to_owned()
    } else {
        let frames = (pool.capacity() / FILL_PORTS).min(pool.available() / 2).min(FILL_FRAMES_MAX);
        let xdp = PortUri::new("xdp", interface).with("fill_frames", frames);
        match XdpPort::from_uri(&xdp, pool.clone()) {
            Ok(port) => {
                let why = format!("frames stay where they are: {}", port.caps().description);
                return Ok((Box::new(port), xdp, why));
            }
            // The same interface is missing for every kind of port.
            Err(OpenError::NotFound { what, hint, .. }) => {
                return Err(OpenError::NotFound { uri: packet.text().to_owned(), what, hint });
            }
            Err(e) => {
                // A veth copies what stands in a transmit ring once more.
                packet = packet.with("tx", 0);
                format!("not AF_XDP: {e}")
            }
        }
    };
    let port = PacketPort::from_uri(&packet, pool.clone())?;
    let why = format!("{why}; {}", port.caps().description);
    Ok((Box::new(port), packet, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(n: u8) -> Vec<IpAddr> {
        (1..=n).map(|last| IpAddr::from([10, 0, 0, last])).collect()
    }

    #[test]
    fn a_host_claims_its_addresses_and_nothing_else() {
        let claims = |uri: &str, n| {
            with_claims(uri.parse().unwrap(), &addresses(n)).map(|uri| uri.options.get("claim").cloned())
        };
        assert_eq!(claims("xdp:eth0", 2).unwrap().as_deref(), Some("10.0.0.1,10.0.0.2"));
        assert_eq!(claims("trace+xdp:eth0?trace=x.pcap", 1).unwrap().as_deref(), Some("10.0.0.1"));
        assert_eq!(claims("xdp:eth0?claim=all", 2).unwrap().as_deref(), Some("all"));
        assert_eq!(claims("xdp:eth0", 0).unwrap(), None);
        let refused = claims("xdp:eth0", 65).unwrap_err().to_string();
        assert!(refused.contains("claim=all"), "{refused}");
    }

    #[test]
    fn engines_share_the_queues_of_a_device_of_dpdk() {
        let of = |uri: &str, engine| engine_port(uri.parse().unwrap(), engine, 2);
        let options = |uri: &str, engine| {
            let uri = of(uri, engine).unwrap();
            let option = |name| uri.options.get(name).map_or("", String::as_str).to_owned();
            ([option("queues"), option("queue"), option("share")], queues_of(&uri).unwrap())
        };
        assert_eq!(options("dpdk:0000:00:06.0", 1), (["2", "1", "1"].map(str::to_owned), vec![1]));
        assert_eq!(
            options("dpdk:net_tap0?queues=5", 0),
            (["5", "0,2,4", "1"].map(str::to_owned), vec![0, 2, 4])
        );
        assert_eq!(options("dpdk:net_tap0?queues=5", 1).1, [1, 3]);
        let few = of("dpdk:net_tap0?queues=1", 0).unwrap_err().to_string();
        assert!(few.contains("2 engines on 1 receive queues") && few.contains("hint: `queues=2`"), "{few}");
        // With a queue that nobody serves the device would never start.
        let left = of("dpdk:net_tap0?queues=4&queue=0-1", 0).unwrap_err().to_string();
        assert!(left.contains("queue 2 is no engine's"), "{left}");
        assert_eq!(options("dpdk:net_tap0?queues=4&queue=0-3", 1).1, [1, 3]);
        let alone: PortUri = "dpdk:net_tap0".parse().unwrap();
        assert_eq!(engine_port(alone.clone(), 0, 1).unwrap(), alone);
    }

    #[test]
    fn every_queue_of_a_card_has_frames_for_a_burst() {
        let of = |uri: &str, queues| {
            let (uri, pool) = with_frames(
                uri.parse().unwrap(),
                queues,
                PoolConfig { frames: 8192, ..PoolConfig::default() },
            );
            (uri.options.get("fill_frames").map(|text| text.parse::<u32>().unwrap()), pool.frames)
        };
        assert_eq!(of("xdp:eth0", 1), (None, 8192));
        assert_eq!(of("xdp:eth0", 8), (None, 8192));
        assert_eq!(of("xdp:eth0", 64), (Some(64 * 256), 8192 + 64 * 256));
        assert_eq!(of("xdp:eth0", 1000), (Some(128 * 256), 8192 + 128 * 256));
        assert_eq!(of("xdp:eth0?queue=3", 64), (None, 8192));
        assert_eq!(
            of("xdp:eth0?queue=0-31", 64),
            (Some(32 * 256), 8192 + 32 * 256),
            "of those that it serves"
        );
        assert_eq!(of("xdp:eth0?fill_frames=4096", 64), (Some(4096), 8192));
    }
}
