//! What is remembered of remote hosts: how many flows each has opened here, so that one host cannot have them all; and who let
//! memory lie that others waited for.

use crate::config::STALL_REMEMBERED;
use barewire_base::Instant;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Flows that any host may have, if a quarter as many are left for others.
const FEW: u32 = 16;
/// Most hosts that are remembered as idlers.
const IDLERS_MAX: usize = 1024;

/// Flows that were accepted, by who opened them.
pub(crate) struct Peers {
    flows: HashMap<u64, u32>,
}

/// A host: its IPv4 address, or its IPv6 network of 64 bits, as a host may have any address of that.
pub(crate) fn key(ip: IpAddr) -> u64 {
    match ip.to_canonical() {
        // A prefix that nobody is given (RFC 4291, 2.5.5.2 has it mapped, further down).
        IpAddr::V4(ip) => 0xffff << 32 | u64::from(ip.to_bits()),
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64,
    }
}

impl Peers {
    /// Room for flows of so many hosts.
    pub(crate) fn new(hosts: usize) -> Peers {
        // Twice the hosts, so that deletions never make the map grow.
        Peers { flows: HashMap::with_capacity(hosts * 2) }
    }

    /// Whether `host` may open one more where `free` more would fit: it has at most as many as it leaves, so that one that
    /// takes all it can get leaves half, and two leave a third. Of a small table it leaves a quarter: two machines that know each
    /// other are not to be cut down to half.
    pub(crate) fn admits(&self, host: u64, free: u32) -> bool {
        let has = self.count(host);
        has < free || has < FEW.min(free.saturating_mul(3))
    }

    pub(crate) fn add(&mut self, host: u64) {
        *self.flows.entry(host).or_insert(0) += 1;
    }

    pub(crate) fn remove(&mut self, host: u64) {
        if let Some(n) = self.flows.get_mut(&host) {
            *n -= 1;
            if *n == 0 {
                self.flows.remove(&host);
            }
        }
    }

    pub(crate) fn count(&self, host: u64) -> u32 {
        self.flows.get(&host).copied().unwrap_or(0)
    }

    /// Of all hosts together.
    pub(crate) fn total(&self) -> u64 {
        self.flows.values().map(|n| u64::from(*n)).sum()
    }

    /// Hosts that have any.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }
}

/// Hosts whose flows ended as stalled, for each application that had to wait for them.
pub(crate) struct Idlers {
    /// Until when.
    until: HashMap<(u32, u64), Instant>,
}

impl Idlers {
    pub(crate) fn new() -> Idlers {
        Idlers { until: HashMap::with_capacity(IDLERS_MAX * 2) }
    }

    /// `host` let memory of `owner` lie.
    pub(crate) fn note(&mut self, now: Instant, owner: u32, host: u64) {
        if self.until.len() >= IDLERS_MAX {
            self.until.retain(|_, until| *until > now);
        }
        if self.until.len() < IDLERS_MAX {
            self.until.insert((owner, host), now + STALL_REMEMBERED);
        }
    }

    #[inline]
    pub(crate) fn has(&self, now: Instant, owner: u32, remote: SocketAddr) -> bool {
        !self.until.is_empty() && self.until.get(&(owner, key(remote.ip()))).is_some_and(|until| *until > now)
    }

    pub(crate) fn forget(&mut self, owner: u32) {
        self.until.retain(|(of, _), _| *of != owner);
    }
}
