//! The links that packets leave by: one for each port that the endpoint's owner has, the first of them always there.
//!
//! A flow belongs to the leg that has its local address, for as long as it lives. What is to be sent waits leg by leg, so a link
//! that takes nothing holds up nobody else's flows, and its owner asks each leg for frames only while it can send them.

use crate::config::{Config, ConfigError};
use crate::endpoint::{Endpoint, count_down};
use crate::handshake::Strays;
use crate::memory::Memory;
use barewire_base::Instant;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Legs of one endpoint, at most.
pub const LEGS_MAX: usize = 16;

/// One leg.
pub(crate) struct Leg {
    /// Flows with something to send, and places of some that are gone; each once.
    pub active: VecDeque<u32>,
    /// Packets without a flow.
    pub strays: Strays,
    /// Half-open flows, and those at each listener's port.
    pub half_open: u32,
    pub half_open_at: HashMap<u16, u32>,
    /// Packets have at most so many bytes.
    pub mtu: u16,
}

impl Leg {
    /// One flow less is half open, which came to this listener's port.
    pub(crate) fn no_longer_half_open(&mut self, udp_port: u16) {
        self.half_open -= 1;
        count_down(&mut self.half_open_at, udp_port);
    }

    fn new(flows: usize, mtu: u16) -> Leg {
        Leg {
            active: VecDeque::with_capacity(flows),
            strays: Strays::new(),
            half_open: 0,
            half_open_at: HashMap::with_capacity(64),
            mtu,
        }
    }
}

/// All of them.
pub(crate) struct Legs {
    each: Vec<Leg>,
    /// The addresses of all but the first, and whose each is.
    others: Vec<(IpAddr, u8)>,
}

impl Legs {
    pub(crate) fn new(flows: usize, mtu: u16) -> Legs {
        Legs { each: vec![Leg::new(flows, mtu)], others: Vec::new() }
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

    /// Whether a leg has something to send, or a packet without a flow, but those whose bits are set.
    #[inline]
    pub(crate) fn have_work(&self, except: u16) -> bool {
        let has_work = |leg: &Leg| !leg.active.is_empty() || !leg.strays.is_empty();
        self.each.iter().enumerate().any(|(number, leg)| except >> number & 1 == 0 && has_work(leg))
    }

    pub(crate) fn len(&self) -> u32 {
        self.each.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Leg> {
        self.each.iter()
    }

    /// Payload bytes of a full segment that comes in by this leg.
    pub(crate) fn mss(&self, leg: u8, ipv6: bool) -> u16 {
        Config::mss(self.get(leg).mtu, ipv6)
    }
}

impl<M: Memory> Endpoint<M> {
    /// As [`poll_timeout`](barewire_host::Endpoint::poll_timeout), where what waits to leave by legs whose bits are set in `blocked` is no
    /// work: their links take nothing for the moment.
    pub fn poll_timeout_but(&self, blocked: u16) -> Option<Instant> {
        self.next_timeout(blocked)
    }

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
        self.legs.each.push(Leg::new(self.config.flows_max as usize, mtu));
        Ok(leg)
    }
}
