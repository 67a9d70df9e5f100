//! Who takes connections, and where.

use crate::endpoint::Endpoint;
use crate::memory::Memory;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Why [`Endpoint::listen`] refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Port zero.
    #[error("udp_port 0 cannot be listened on")]
    PortZero,
    /// Another application has it.
    #[error("the udp_port is taken by another listener")]
    PortTaken,
}

#[derive(Clone, Copy)]
pub(crate) struct Listener {
    pub owner: u32,
    pub token: u64,
}

/// The listeners: of a UDP port either one for all addresses, or one for each of some.
pub(crate) struct Listeners {
    by_place: HashMap<(u16, Option<IpAddr>), Listener>,
    /// How many there are at each UDP port.
    at_port: HashMap<u16, u32>,
}

impl Listeners {
    pub(crate) fn new() -> Listeners {
        Listeners { by_place: HashMap::with_capacity(64), at_port: HashMap::with_capacity(64) }
    }

    /// Who takes connections that come to `local`.
    pub(crate) fn at(&self, local: SocketAddr) -> Option<Listener> {
        let port = local.port();
        let everywhere = self.by_place.get(&(port, None));
        everywhere.or_else(|| self.by_place.get(&(port, Some(local.ip())))).copied()
    }

    fn add(&mut self, udp_port: u16, local: Option<IpAddr>, listener: Listener) -> Result<(), ListenError> {
        let in_the_way = |&(port, at): &(u16, Option<IpAddr>), other: &Listener| {
            port == udp_port
                && (at.is_none() || local.is_none() || at == local || other.owner == listener.owner)
        };
        if self.has(udp_port) && self.by_place.iter().any(|(place, other)| in_the_way(place, other)) {
            return Err(ListenError::PortTaken);
        }
        self.by_place.insert((udp_port, local), listener);
        *self.at_port.entry(udp_port).or_insert(0) += 1;
        Ok(())
    }

    fn retain(&mut self, keep: impl Fn(u16, &Listener) -> bool) -> bool {
        let at_port = &mut self.at_port;
        let before = self.by_place.len();
        self.by_place.retain(|(port, _), listener| {
            let kept = keep(*port, listener);
            if !kept {
                crate::endpoint::count_down(at_port, *port);
            }
            kept
        });
        self.by_place.len() < before
    }

    fn has(&self, udp_port: u16) -> bool {
        self.at_port.contains_key(&udp_port)
    }

    /// Those of an application that is gone.
    pub(crate) fn drop_owner(&mut self, owner: u32) {
        self.retain(|_, listener| listener.owner != owner);
    }
}

impl<M: Memory> Endpoint<M> {
    /// Takes connections on `udp_port` of every address for `owner`, who gets `token` back with each.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, udp_port: u16, owner: u32, token: u64) -> Result<(), ListenError> {
        self.listen_on(None, udp_port, owner, token)
    }

    /// [`listen`](Self::listen) on one address: whoever asks for a connection at another is refused as if nobody listened, or taken
    /// by another owner who listens there. An owner listens once on a UDP port.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen_on(
        &mut self,
        local: Option<IpAddr>,
        udp_port: u16,
        owner: u32,
        token: u64,
    ) -> Result<(), ListenError> {
        if udp_port == 0 {
            return Err(ListenError::PortZero);
        }
        self.listeners.add(udp_port, local, Listener { owner, token })
    }

    /// Takes no more connections on `udp_port`; flows that exist go on. False when `owner` had no such listener.
    pub fn unlisten(&mut self, udp_port: u16, owner: u32) -> bool {
        self.listens(udp_port)
            && self.listeners.retain(|port, listener| port != udp_port || listener.owner != owner)
    }

    /// Listeners of all applications.
    pub fn listeners(&self) -> usize {
        self.listeners.by_place.len()
    }

    /// Whether somebody listens on this port, at whatever address.
    pub fn listens(&self, udp_port: u16) -> bool {
        self.listeners.has(udp_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_listener_for_all_addresses_or_one_for_each() {
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        let at = |last| SocketAddr::new(ip(last), 888);
        let by = |owner| Listener { owner, token: u64::from(owner) };
        let mut listeners = Listeners::new();
        listeners.add(888, Some(ip(1)), by(1)).unwrap();
        listeners.add(888, Some(ip(2)), by(2)).unwrap();
        for (local, owner) in [(None, 3), (Some(ip(1)), 3), (Some(ip(3)), 1)] {
            assert_eq!(listeners.add(888, local, by(owner)), Err(ListenError::PortTaken), "{local:?}");
        }
        assert_eq!(listeners.at(at(1)).map(|l| l.owner), Some(1));
        assert_eq!(listeners.at(at(2)).map(|l| l.token), Some(2));
        assert!(listeners.at(at(3)).is_none() && listeners.has(888));
        listeners.drop_owner(1);
        assert!(listeners.at(at(1)).is_none() && listeners.has(888));
        listeners.drop_owner(2);
        assert!(!listeners.has(888));
        listeners.add(888, None, by(3)).unwrap();
        assert_eq!(listeners.add(888, Some(ip(1)), by(1)), Err(ListenError::PortTaken));
        assert_eq!(listeners.at(at(9)).map(|l| l.owner), Some(3));
    }
}
