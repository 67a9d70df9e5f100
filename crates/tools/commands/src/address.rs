//! Where something is, as typed: an address, or a name that this machine knows (`/etc/hosts`, DNS).

use barewire_bench::ControlAt;
use barewire_client::look_up as all;
use std::net::{IpAddr, SocketAddr};

/// The first address of a name, with the port behind it.
fn look_up(at: (&str, u16)) -> Result<SocketAddr, String> {
    let found = all(at).map_err(|why| format!("neither an address nor a name that is known here: {why}"))?;
    found.first().copied().ok_or_else(|| "a name without an address".to_owned())
}

/// A host.
pub fn host(text: &str) -> Result<IpAddr, String> {
    text.parse().or_else(|_| look_up((text, 0)).map(|at| at.ip()))
}

/// A host with a port: `10.0.0.2:888`, `[fd00::2]:888`, `server:888`.
pub fn endpoint(text: &str) -> Result<SocketAddr, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let wanted = || {
        format!("host and port are expected, such as 10.0.0.2:888, [fd00::2]:888 or server:888, not `{text}`")
    };
    let (name, port) = text.rsplit_once(':').ok_or_else(wanted)?;
    let port = port.parse().map_err(|_| wanted())?;
    // More colons are an address of IPv6 without brackets: its last part is no port.
    if name.is_empty() || name.contains(':') {
        return Err(wanted());
    }
    look_up((name, port))
}

/// The same, where the port may be left out.
pub fn endpoint_or(text: &str, port: u16) -> Result<SocketAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, port)),
        Err(_) if text.contains(':') => endpoint(text),
        Err(_) => look_up((text, port)),
    }
}

/// Where control connections are: a host, with a port or without, or `none`.
pub fn control(text: &str, port: u16) -> Result<ControlAt, String> {
    match text {
        "none" => Ok(ControlAt::Nowhere),
        _ => endpoint_or(text, port).map(ControlAt::There),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_places() {
        assert_eq!(host("10.0.0.2"), Ok(IpAddr::from([10, 0, 0, 2])));
        assert!(host("localhost").unwrap().is_loopback());
        assert_eq!(endpoint("[fd00::2]:888").unwrap().port(), 888);
        let local = endpoint("localhost:888").unwrap();
        assert!(local.ip().is_loopback() && local.port() == 888);
        assert_eq!(endpoint_or("10.0.0.2", 7).unwrap().to_string(), "10.0.0.2:7");
        assert_eq!(endpoint_or("fd00::2", 7).unwrap().to_string(), "[fd00::2]:7");
        assert_eq!(endpoint_or("localhost", 7).unwrap().port(), 7);
        assert_eq!(endpoint_or("localhost:9", 7).unwrap().port(), 9);
        assert_eq!(control("none", 7), Ok(ControlAt::Nowhere));
        assert_eq!(control("10.0.0.2", 7), Ok(ControlAt::There(SocketAddr::from(([10, 0, 0, 2], 7)))));
    }

    #[test]
    fn what_is_no_place_is_refused_with_an_example() {
        for text in ["10.0.0.2", "fd00::2:888", ":888", "server:", "server:70000"] {
            assert!(endpoint(text).unwrap_err().contains("10.0.0.2:888"), "{text}");
        }
        assert!(host("no such name").unwrap_err().contains("neither an address nor a name"));
    }
}
