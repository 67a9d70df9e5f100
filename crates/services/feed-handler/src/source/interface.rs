//! Interfaces as a user names them (a name, or one of its addresses), and membership in groups on them.

use crate::SourceError;
use barewire_text::suggest;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// An interface of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its first IPv4 address, or the one that it was named by: what a source-specific join names it by.
    pub v4: Option<Ipv4Addr>,
}

impl Interface {
    /// Finds the interface that a user named, or one of whose addresses.
    ///
    /// # Errors
    /// [`SourceError::NoInterface`] with the nearest name or with the addresses that there are; [`SourceError::Sys`].
    pub fn find(wanted: &str) -> Result<Interface, SourceError> {
        let addresses: Vec<(String, Option<IpAddr>)> = getifaddrs()
            .map_err(|e| SourceError::sys(format!("interface {wanted}"), "getifaddrs")(e.into()))?
            .map(|entry| {
                let address = entry.address.as_ref().and_then(|a| {
                    let v4 = a.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
                    v4.or_else(|| a.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
                });
                (entry.interface_name, address)
            })
            .collect();
        let by_address = wanted.parse::<IpAddr>().ok();
        let found = addresses.iter().find(|(name, address)| match by_address {
            Some(ip) => *address == Some(ip),
            None => name == wanted,
        });
        let Some((name, _)) = found else {
            let mut known: Vec<String> = match by_address {
                Some(_) => {
                    addresses.iter().filter_map(|(_, address)| address.map(|ip| ip.to_string())).collect()
                }
                None => addresses.iter().map(|(name, _)| name.clone()).collect(),
            };
            known.sort();
            known.dedup();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(SourceError::NoInterface { name: wanted.into(), hint: suggest(wanted, &known) });
        };
        let v4 = match by_address {
            Some(IpAddr::V4(v4)) => Some(v4),
            _ => addresses.iter().filter(|(other, _)| other == name).find_map(|(_, address)| match address {
                Some(IpAddr::V4(v4)) => Some(*v4),
                _ => None,
            }),
        };
        let index = if_nametoindex(name.as_str())
            .map_err(|e| SourceError::sys(format!("interface {name}"), "if_nametoindex")(e.into()))?;
        Ok(Interface { name: name.clone(), index, v4 })
    }
}

/// Joins a group: from `sources` only, where there are any (IGMPv3, source-specific), else from anybody. Over IPv6 always
/// from anybody. `on`: the interface; without one the kernel's routes decide.
pub(crate) fn join(
    socket: &Socket,
    group: IpAddr,
    sources: &[IpAddr],
    on: Option<&Interface>,
) -> Result<(), SourceError> {
    let what = || match on {
        Some(interface) => format!("{group} on {}", interface.name),
        None => group.to_string(),
    };
    let twice_is_once = |result: io::Result<()>| match result {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Ok(()),
        other => other,
    };
    match group {
        IpAddr::V4(group) if sources.is_empty() => {
            let on = InterfaceIndexOrAddress::Index(on.map_or(0, |interface| interface.index));
            twice_is_once(socket.join_multicast_v4_n(&group, &on))
                .map_err(|e| SourceError::sys(what(), "IP_ADD_MEMBERSHIP")(e))
        }
        IpAddr::V4(group) => {
            let address = match on {
                None => Ipv4Addr::UNSPECIFIED,
                Some(interface) => interface.v4.ok_or_else(|| SourceError::NoAddress {
                    name: interface.name.clone(),
                    family: "IPv4",
                    group: group.into(),
                })?,
            };
            for source in sources {
                let IpAddr::V4(source) = source else { continue };
                twice_is_once(socket.join_ssm_v4(source, &group, &address))
                    .map_err(|e| SourceError::sys(what(), "IP_ADD_SOURCE_MEMBERSHIP")(e))?;
            }
            Ok(())
        }
        IpAddr::V6(group) => twice_is_once(socket.join_multicast_v6(&group, on.map_or(0, |i| i.index)))
            .map_err(|e| SourceError::sys(what(), "IPV6_ADD_MEMBERSHIP")(e)),
    }
}

/// Undoes [`join`]. What was not joined is no error.
pub(crate) fn leave(
    socket: &Socket,
    group: IpAddr,
    sources: &[IpAddr],
    on: Option<&Interface>,
) -> Result<(), SourceError> {
    let left = |result: io::Result<()>| match result {
        Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => Ok(()),
        other => other.map_err(|e| SourceError::sys(group.to_string(), "leaving the group")(e)),
    };
    match group {
        IpAddr::V4(group) if sources.is_empty() => {
            let on = InterfaceIndexOrAddress::Index(on.map_or(0, |interface| interface.index));
            left(socket.leave_multicast_v4_n(&group, &on))
        }
        IpAddr::V4(group) => {
            let address = on.and_then(|interface| interface.v4).unwrap_or(Ipv4Addr::UNSPECIFIED);
            for source in sources {
                let IpAddr::V4(source) = source else { continue };
                left(socket.leave_ssm_v4(source, &group, &address))?;
            }
            Ok(())
        }
        IpAddr::V6(group) => left(socket.leave_multicast_v6(&group, on.map_or(0, |i| i.index))),
    }
}

/// Groups that the kernel holds membership in on our behalf, while frames come by a port: the kernel reports them (IGMP,
/// MLD), answers the queries, and programs the card's filter. No datagram reaches these sockets: they are not bound.
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    sockets: Vec<Socket>,
}

/// The kernel's default for `net.ipv4.igmp_max_memberships`, and for the filters of one group.
const GROUPS_OF_A_SOCKET: usize = 20;

impl Memberships {
    /// Joins each group on the interface.
    pub(crate) fn hold(
        interface: &str,
        groups: &[(IpAddr, Vec<IpAddr>)],
    ) -> Result<Memberships, SourceError> {
        let interface = Interface::find(interface)?;
        let mut sockets = Vec::new();
        for family in [true, false] {
            let of_family: Vec<_> = groups.iter().filter(|(group, _)| group.is_ipv4() == family).collect();
            for some in of_family.chunks(GROUPS_OF_A_SOCKET) {
                let domain = if family { Domain::IPV4 } else { Domain::IPV6 };
                let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
                    .map_err(SourceError::sys(&interface.name, "socket"))?;
                for (group, sources) in some {
                    join(&socket, *group, sources, Some(&interface))?;
                }
                sockets.push(socket);
            }
        }
        Ok(Memberships { sockets })
    }

    /// How many sockets hold them.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found_by_name_and_by_address() {
        let by_name = Interface::find("lo").unwrap();
        let by_address = Interface::find("127.0.0.1").unwrap();
        assert_eq!(by_name, by_address);
        assert_eq!((by_name.name.as_str(), by_name.v4), ("lo", Some(Ipv4Addr::LOCALHOST)));
        assert!(by_name.index > 0);
    }

    #[test]
    fn interfaces_that_are_not_there_are_named_with_those_that_are() {
        let error = Interface::find("loo").unwrap_err().to_string();
        assert!(error.contains("did you mean `lo`?"), "{error}");
        let error = Interface::find("192.0.2.77").unwrap_err().to_string();
        assert!(error.contains("127.0.0.1"), "{error}");
    }
}
