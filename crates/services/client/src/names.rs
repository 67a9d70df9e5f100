//! Names where an address is asked for: looked up as the system does, `/etc/hosts` and DNS.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Every address that `remote` stands for, in the system's order: `"db.example:888"`, `("db.example", 888)`, or addresses themselves, of which
/// nobody is asked. A name waits for the resolver.
///
/// # Errors
/// The name has no address, the text no port, or the resolver failed.
pub fn look_up(remote: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    candidates(remote.to_socket_addrs()?, None)
}

/// What is worth trying of what was found: each address once, and those of the family of `local` alone, if there are any.
pub(crate) fn candidates(
    found: impl Iterator<Item = SocketAddr>,
    local: Option<IpAddr>,
) -> io::Result<Vec<SocketAddr>> {
    let mut all = Vec::new();
    for at in found {
        if !all.contains(&at) {
            all.push(at);
        }
    }
    let reaches = |at: &SocketAddr| local.is_none_or(|local| local.is_ipv6() == at.is_ipv6());
    if all.iter().any(reaches) {
        all.retain(reaches);
    }
    match all.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_for_themselves_and_names_for_theirs() {
        let at: SocketAddr = "10.0.0.2:888".parse().unwrap();
        assert_eq!(look_up(at).unwrap(), [at]);
        assert_eq!(look_up("10.0.0.2:888").unwrap(), [at]);
        assert_eq!(look_up(&[at, at][..]).unwrap(), [at]);
        let local = look_up(("localhost", 7)).unwrap();
        assert!(local.iter().all(|at| at.ip().is_loopback() && at.port() == 7), "{local:?}");
    }

    #[test]
    fn what_stands_for_nothing_is_an_error() {
        assert_eq!(look_up(&[] as &[SocketAddr]).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(look_up("10.0.0.2").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_flow_from_an_address_goes_to_one_of_its_kind() {
        let both: [SocketAddr; 2] = ["[fd00::2]:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap()];
        let of = |local: &str| candidates(both.into_iter(), Some(local.parse().unwrap())).unwrap();
        assert_eq!((of("10.0.0.1"), of("fd00::1")), (vec![both[1]], vec![both[0]]));
        // There is no other: who is asked says why it cannot be.
        assert_eq!(
            candidates(both[..1].iter().copied(), Some("10.0.0.1".parse().unwrap())).unwrap(),
            both[..1]
        );
    }
}
