//! Every kind of port behind one door.

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
