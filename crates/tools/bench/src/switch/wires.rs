//! Two hosts and a switch between them, each a network namespace without a name: nothing can be left behind.
//!
//! ```text
//!   h1 eth0 ──── s1 switch s2 ──── eth0 h2        10.0.0.10 and 10.0.1.10 by the P4 router, 10.7.x.10 by the kernel's,
//!   h1 d0 ────────────────────────── d0 h2        10.9.0.1 and .2 in one network, 10.8.0.1 and .2 on the direct wire
//! ```
//! Neighbours are stated, IPv6 is off, so that no packet but ours passes. Interfaces are as the kernel makes them, except that
//! the hosts' ends leave checksums and segmentation to nobody when offloads are off, which is the rule of bmv2's own
//! benchmark.

use super::program::RouterWords;
use super::setup::{Call, Match, Step, ip, mac, value};
use crate::error::BenchError;
use barewire_netns::{Namespace, Offloads};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// Ethernet addresses of the hosts' `eth0`, as numbers and as bytes.
const HOST_MACS: [u64; 2] = [0x0004_0000_0000, 0x0004_0000_0001];
/// Addresses that the P4 router goes by.
const ROUTER_MACS: [u64; 2] = [0x00aa_bb00_0000, 0x00aa_bb00_0001];
/// The switch's interfaces; their ports are 1 and 2.
pub const PORTS: [&str; 2] = ["s1", "s2"];
const BRIDGE: &str = "br0";

/// Which way packets take from host to host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the P4 router.
    P4,
    /// Through the switch's interfaces as they are: a bridge, or a loop that only forwards.
    SameNetwork,
    /// Through the kernel's router.
    KernelRouter,
    /// Past the switch.
    Direct,
}

impl Way {
    /// Addresses of the first and the second host on this way.
    pub fn addresses(self) -> [Ipv4Addr; 2] {
        let address = |a: [u8; 3], b: [u8; 3]| {
            [Ipv4Addr::new(10, a[0], a[1], a[2]), Ipv4Addr::new(10, b[0], b[1], b[2])]
        };
        match self {
            Way::P4 => address([0, 0, 10], [0, 1, 10]),
            Way::KernelRouter => address([7, 0, 10], [7, 1, 10]),
            Way::SameNetwork => address([9, 0, 1], [9, 0, 2]),
            Way::Direct => address([8, 0, 1], [8, 0, 2]),
        }
    }

    /// The hosts' interface on this way.
    pub fn interface(self) -> &'static str {
        if self == Way::Direct { "d0" } else { "eth0" }
    }
}

/// What a P4 router that uses `words` is told about the hosts.
pub fn router_steps(words: RouterWords) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |table: &str, key: Match, action: &'static str, args: Vec<super::setup::Value>| {
        steps.push(Step::Entry {
            table: table.to_owned(),
            key: vec![key],
            priority: None,
            call: Call { action, args },
        });
    };
    for host in 0..2 {
        let port = value(host as u64 + 1, 9);
        let address = ip(Way::P4.addresses()[host].to_bits());
        add("send_frame", Match::Exact(port), words.src_addr, vec![mac(ROUTER_MACS[host])]);
        add("forward", Match::Exact(address), words.dst_addr, vec![mac(HOST_MACS[host])]);
        add("ipv4_lpm", Match::Lpm(address, 32), words.next_hop, vec![address, port]);
    }
    steps
}

fn bytes(mac: u64) -> [u8; 6] {
    let b = mac.to_be_bytes();
    [b[2], b[3], b[4], b[5], b[6], b[7]]
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// Hosts, switch and wires.
#[derive(Debug)]
pub struct Wires {
    /// The hosts.
    pub hosts: [Namespace; 2],
    /// The switch's namespace.
    pub switch: Namespace,
}

impl Wires {
    /// Makes them. Without offloads, the hosts may still put what they receive together (GRO), for which their ends poll.
    ///
    /// # Errors
    /// [`BenchError`]: this needs root, and the `ip` program.
    pub fn make(offloads: bool, gro: bool) -> Result<Wires, BenchError> {
        let wires = Wires {
            hosts: [Namespace::anonymous()?, Namespace::anonymous()?],
            switch: Namespace::anonymous()?,
        };
        let [h1, h2] = &wires.hosts;
        let switch = &wires.switch;
        for ns in [h1, h2, switch] {
            ns.set_up("lo")?;
            for which in ["all", "default"] {
                set(ns, &format!("ipv6/conf/{which}/disable_ipv6"), "1")?;
            }
        }
        set(switch, "ipv4/ip_forward", "1")?;
        // By `ip` and not by the lab's own links: those have their offloads set, and these are to be as the kernel makes them.
        for host in 0..2 {
            let there = path_of(&wires.hosts[host]);
            let address = text(bytes(HOST_MACS[host]));
            let mut words = vec!["link", "add", PORTS[host], "type", "veth", "peer", "name", "eth0"];
            words.extend(["address", &address, "netns", &there]);
            run_ip(switch, &words)?;
        }
        run_ip(h1, &["link", "add", "d0", "type", "veth", "peer", "name", "d0", "netns", &path_of(h2)])?;
        if !offloads {
            for (ns, name) in [(h1, "eth0"), (h2, "eth0"), (h1, "d0"), (h2, "d0")] {
                ns.set_each_offload(name, &Offloads { gro, ..Offloads::all(false) })?;
            }
        }
        for way in [Way::P4, Way::SameNetwork, Way::KernelRouter, Way::Direct] {
            for (host, address) in wires.hosts.iter().zip(way.addresses()) {
                host.add_address(way.interface(), IpAddr::V4(address), 24)?;
            }
        }
        for (ns, name) in [(h1, "eth0"), (h2, "eth0"), (h1, "d0"), (h2, "d0"), (switch, "s1"), (switch, "s2")]
        {
            ns.set_up(name)?;
        }
        for (ns, name) in [(h1, "eth0"), (h2, "eth0"), (h1, "d0"), (h2, "d0"), (switch, "s1"), (switch, "s2")]
        {
            ns.wait_running(name)?;
        }
        wires.state_neighbours()?;
        Ok(wires)
    }

    fn state_neighbours(&self) -> Result<(), BenchError> {
        let v4 = |a, b, c| IpAddr::V4(Ipv4Addr::new(10, a, b, c));
        for host in 0..2 {
            let (here, there) = (&self.hosts[host], 1 - host);
            let (own, other) = (host as u8, there as u8);
            // The P4 router, and the network behind it.
            here.add_neighbour("eth0", v4(0, own, 1), bytes(ROUTER_MACS[host]))?;
            here.add_route(v4(0, other, 0), 24, v4(0, own, 1))?;
            // The kernel's router.
            let port = self.switch.link(PORTS[host])?;
            self.switch.add_address(PORTS[host], v4(7, own, 1), 24)?;
            self.switch.add_neighbour(PORTS[host], v4(7, own, 10), bytes(HOST_MACS[host]))?;
            here.add_neighbour("eth0", v4(7, own, 1), port.mac)?;
            here.add_route(v4(7, other, 0), 24, v4(7, own, 1))?;
            // Each other.
            here.add_neighbour("eth0", v4(9, 0, other + 1), bytes(HOST_MACS[there]))?;
            let direct = self.hosts[there].link("d0")?;
            here.add_neighbour("d0", v4(8, 0, other + 1), direct.mac)?;
        }
        Ok(())
    }

    /// Joins the switch's interfaces by the kernel's bridge until what this returns is dropped.
    ///
    /// # Errors
    /// [`BenchError`] when the kernel has no bridge.
    pub fn bridge(&self) -> Result<Bridge<'_>, BenchError> {
        run_ip(&self.switch, &["link", "add", BRIDGE, "type", "bridge"])?;
        let bridge = Bridge { switch: &self.switch };
        for port in PORTS {
            run_ip(&self.switch, &["link", "set", port, "master", BRIDGE])?;
        }
        run_ip(&self.switch, &["link", "set", BRIDGE, "up"])?;
        Ok(bridge)
    }
}

/// A bridge that goes on drop.
pub struct Bridge<'a> {
    switch: &'a Namespace,
}

impl Drop for Bridge<'_> {
    fn drop(&mut self) {
        // With its namespace at the latest.
        let _ = self.switch.delete_link(BRIDGE);
    }
}

/// How another process names a namespace that has no name.
fn path_of(ns: &Namespace) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), ns.fd().as_raw_fd())
}

fn set(ns: &Namespace, what: &str, to: &str) -> Result<(), BenchError> {
    let path = format!("/proc/sys/net/{what}");
    match ns.enter(|| fs::write(&path, to))? {
        // A kernel without IPv6 has it off.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && what.starts_with("ipv6") => Ok(()),
        other => other.map_err(BenchError::io(format!("writing {path}"))),
    }
}

/// Runs `ip` in a namespace.
fn run_ip(ns: &Namespace, words: &[&str]) -> Result<(), BenchError> {
    let mut command = Command::new("ip");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = ns.spawn_in(&mut command).and_then(std::process::Child::wait_with_output);
    let output = output.map_err(BenchError::io("running `ip` (iproute2)"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(BenchError::Program {
        program: format!("ip {}", words.join(" ")),
        why: said.lines().next().unwrap_or("it failed and did not say why").to_owned(),
    })
}

/// Frames received and frames dropped by an interface, by direction, as `/proc/net/dev` tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Received.
    pub rx: u64,
    /// Dropped on receive.
    pub rx_dropped: u64,
    /// Sent.
    pub tx: u64,
    /// Dropped on transmit.
    pub tx_dropped: u64,
}

/// What has passed an interface of a namespace.
///
/// # Errors
/// [`BenchError`] when there is none.
pub fn traffic(ns: &Namespace, interface: &str) -> Result<Traffic, BenchError> {
    // Of the thread: `/proc/net` is that of the first thread of a process.
    let text = ns.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
    let text = text.map_err(BenchError::io("reading /proc/thread-self/net/dev"))?;
    parse_traffic(&text, interface)
        .ok_or_else(|| BenchError::Plan(format!("no interface {interface} in {}", ns.label())))
}

/// Packets that came in at the interfaces of this thread's network namespace: at `lo` alone, or at all others.
pub(crate) fn packets_in(loopback: bool) -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let wanted = names.filter(|name| (*name == "lo") == loopback);
    Some(wanted.filter_map(|name| parse_traffic(&text, name)).map(|traffic| traffic.rx).sum())
}

fn parse_traffic(text: &str, interface: &str) -> Option<Traffic> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(Traffic {
        rx: *numbers.get(1)?,
        rx_dropped: *numbers.get(3)?,
        tx: *numbers.get(9)?,
        tx_dropped: *numbers.get(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::program::{BMV2S, OURS};
    use crate::switch::setup::commands;

    #[test]
    fn counters_are_read_by_name() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes ...\n    \
                    lo: 1 2 0 0 0 0 0 0 1 2 0 0 0 0 0 0\n  eth0:11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26\n";
        let expected = Traffic { rx: 12, rx_dropped: 14, tx: 20, tx_dropped: 22 };
        assert_eq!(parse_traffic(text, "eth0"), Some(expected));
        assert_eq!(parse_traffic(text, "eth"), None);
        assert_eq!(parse_traffic(text, "s1"), None);
    }

    #[test]
    fn routers_are_told_about_both_hosts() {
        let text = commands(&router_steps(BMV2S));
        for line in [
            "table_add send_frame rewrite_mac 0x1 => 00:aa:bb:00:00:00",
            "table_add forward set_dmac 10.0.1.10 => 00:04:00:00:00:01",
            "table_add ipv4_lpm set_nhop 10.0.1.10/32 => 10.0.1.10 0x2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        assert!(
            commands(&router_steps(OURS)).contains("ipv4_lpm set_next_hop 10.0.0.10/32 => 10.0.0.10 0x1")
        );
    }
}
