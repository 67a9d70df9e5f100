//! Every kind of port behind one door, and the best one for an interface.

use barewire_frame::Pool;
use barewire_packet::PacketPort;
use barewire_port::{OpenError, Port, PortUri};
use barewire_xdp::XdpPort;

/// Opens the port that `uri` names, wrappers included, with its frames in `pool`.
///
/// # Errors
/// [`OpenError`], with the place and the nearest right word for what was typed wrong.
pub fn open_port(uri: &PortUri, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    barewire_port::open(uri, pool, &mut |uri, pool| match uri.scheme.as_str() {
        "xdp" => Some(XdpPort::from_uri(uri, pool).map(|p| Box::new(p) as Box<dyn Port>)),
        "packet" => Some(PacketPort::from_uri(uri, pool).map(|p| Box::new(p) as Box<dyn Port>)),
        _ => None,
    })
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
