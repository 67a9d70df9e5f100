//! The links that packets leave by: one for each port that the endpoint's owner has, the first of them always there.
//!
//! A flow belongs to the leg that has its local address, for as long as it lives. What is to be sent waits leg by leg, so a link
//! that takes nothing holds up nobody else's flows, and its owner asks each leg for frames only while it can send them.

use crate::config::{Config, ConfigError};
use crate::endpoint::Endpoint;
use crate::memory::Memory;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Legs of one endpoint, at most.
pub const LEGS_MAX: usize = 16;

/// One leg.
pub(crate) struct Leg {
    /// Flows with something to send, and places of some that are gone; each once.
    pub active: VecDeque<u32>,
    /// Packets have at most so many bytes.
    pub mtu: u16,
}

/// All of them.
pub(crate) struct Legs {
    each: Vec<Leg>,
    /// The addresses of all but the first, and whose each is.
    others: Vec<(IpAddr, u8)>,
}

impl Legs {
    pub(crate) fn new(flows: usize, mtu: u16) -> Legs {
        Legs { each: vec![Leg { active: VecDeque::with_capacity(flows), mtu }], others: Vec::new() }
    }

    /// Whose flows have this local address: the first leg's, unless it is known to be another's.
    #[inline]
    pub(crate) fn of(&self, local: IpAddr) -> u8 {
        self.others.iter().find(|(ip, _)| *ip == local).map_or(0, |(_, leg)| *leg)
    }

    #[inline]
    pub(crate) fn get(&self, leg: u8) -> &Leg {
        &self.each[usize::from(leg)]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, leg: u8) -> &mut Leg {
        &mut self.each[usize::from(leg)]
    }

    #[inline]
    pub(crate) fn have_work(&self) -> bool {
        self.each.iter().any(|leg| !leg.active.is_empty())
    }

    /// Payload bytes of a full segment that comes in by this leg.
    pub(crate) fn mss(&self, leg: u8, ipv6: bool) -> u16 {
        Config::mss(self.get(leg).mtu, ipv6)
    }
}

impl<M: Memory> Endpoint<M> {
    /// Adds a leg, for an endpoint that has no flows yet: flows of `addresses` leave by it, in packets of at most `mtu` bytes. All other
    /// flows leave by leg 0, which is there from the start. Gives its number, for
    /// [`poll_transmit_on`](Endpoint::poll_transmit_on).
    ///
    /// # Errors
    /// [`ConfigError`]: too few bytes for a packet, or too many legs.
    pub fn add_leg(&mut self, addresses: &[IpAddr], mtu: u16) -> Result<u8, ConfigError> {
        Config { mtu, ..self.config.clone() }.check()?;
        let number = self.legs.each.len();
        if number >= LEGS_MAX {
            return Err(ConfigError::Legs);
        }
        let leg = number as u8;
        self.legs.others.extend(addresses.iter().map(|ip| (*ip, leg)));
        self.legs.each.push(Leg { active: VecDeque::with_capacity(self.config.flows_max as usize), mtu });
        self.strays.add_leg();
        Ok(leg)
    }
}
