//! A card: whether it can carry frames, and what it does to them on the way.

use super::silent;
use crate::finding::{Area, Check, Finding};
use crate::lists::{cores, keyed, list};
use crate::nic::{NicFacts, XDP_BASIC, XDP_MULTI_BUFFER, XDP_ZERO_COPY, XdpHook};
use crate::root::Root;
use std::collections::BTreeSet;

const IFF_UP: u32 = 1;
const IFF_MULTICAST: u32 = 0x1000;
/// Waiting longer than this for one frame, in us, is worth a warning.
const COALESCE_US_MAX: u32 = 8;
/// A receive ring below this is full within 50 us of 64-byte frames at 10 Gbit/s.
const RING_MIN: u32 = 512;
/// Features that merge UDP datagrams which no socket of the kernel waits for.
const MERGING: [&str; 2] = ["rx-udp-gro-forwarding", "rx-gro-list"];
const MERGING_OFF: &str = "rx-udp-gro-forwarding off rx-gro-list off";
const UNTOLD: &str = "the driver does not tell";

/// `/sys/class/net/NAME/flags`.
pub(crate) fn flags(root: &Root, name: &str) -> Option<u32> {
    let text = root.read(&format!("sys/class/net/{name}/flags"))?;
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// `needed`: the user named this card, so what it cannot do without is a failure.
pub(crate) fn check(root: &Root, nic: &NicFacts, needed: bool, out: &mut Vec<Finding>) {
    let name = nic.name.as_str();
    let sys = format!("sys/class/net/{name}");
    let on = |what: &str, effect| Check::new(Area::Nic, format!("{name} {what}"), effect);

    let check = on("state", "no frame goes through an interface that is down or not there");
    // A name with a slash in it is none, and must not lead elsewhere.
    let shown = !name.contains('/') && root.exists(&sys);
    let same = nic.index.is_none_or(|index| root.number(&format!("{sys}/ifindex")) == Some(index.into()));
    match (shown && same, nic.index) {
        (true, _) => {}
        (false, None) => {
            out.push(check.fail_if(needed, "no such interface", "ip link"));
            return;
        }
        (false, Some(_)) => {
            out.push(
                check.unknown("/sys shows another network namespace: only the card itself could be asked"),
            );
            xdp(nic, &on, out);
            queues(nic, &on, out);
            stamps(nic, &on, out);
            return;
        }
    }
    let state = root.read(&format!("{sys}/operstate"));
    let speed = root.number(&format!("{sys}/speed")).filter(|&mbps| mbps > 0);
    let driver = root.link_name(&format!("{sys}/device/driver"));
    let mut about = vec![state.clone().unwrap_or_else(|| "state untold".to_owned())];
    about.extend(driver.map(|driver| format!("driver {driver}")));
    about.extend(speed.map(|mbps| format!("{mbps} Mbit/s")));
    about.extend(root.number(&format!("{sys}/mtu")).map(|mtu| format!("mtu {mtu}")));
    let about = about.join(", ");
    out.push(match (flags(root, name), state.as_deref()) {
        (None, _) => check.unknown(silent(&format!("{sys}/flags"))),
        (Some(flags), _) if flags & IFF_UP == 0 => {
            check.fail_if(needed, about, format!("ip link set {name} up"))
        }
        // `unknown` is what tunnels and some virtual cards say.
        (Some(_), Some("up" | "unknown")) => check.ok(about),
        (Some(_), Some("down" | "lowerlayerdown" | "dormant" | "notpresent")) => {
            check.fail_if(needed, about, "the cable, the other end, or the bridge it hangs on")
        }
        (Some(_), _) => check.unknown(about),
    });
    let check = on("multicast", "no group can be joined here");
    out.push(match flags(root, name) {
        Some(flags) if flags & IFF_MULTICAST != 0 => check.ok("yes"),
        Some(_) => check.warn("no", format!("ip link set {name} multicast on")),
        None => check.unknown(silent(&format!("{sys}/flags"))),
    });
    xdp(nic, &on, out);
    queues(nic, &on, out);
    interrupts(root, nic, &sys, &on, out);
    stamps(nic, &on, out);
    numa(root, &sys, &on, out);
    drops(root, &sys, &on, out);
}

type On<'a> = dyn Fn(&str, &'static str) -> Check + 'a;

fn xdp(nic: &NicFacts, on: &On<'_>, out: &mut Vec<Finding>) {
    let name = &nic.name;
    let check = on(
        "XDP mode",
        "generic: the kernel makes its own packet first, one copy and some 100 ns more a frame",
    );
    let busy = match nic.xdp_hook {
        Some(XdpHook::None) => "",
        Some(XdpHook::Driver) => "; a program hangs there now, in the driver",
        Some(XdpHook::Generic) => "; a program hangs there now, generic",
        Some(XdpHook::Other) => "; a program hangs there now",
        None => "",
    };
    out.push(match nic.xdp_features {
        Some(bits) if bits & XDP_BASIC != 0 => check.ok(format!("in the driver{busy}")),
        Some(_) => check.warn(format!("generic only{busy}"), "a card whose driver runs XDP, or `packet:`"),
        None => check.unknown(UNTOLD),
    });
    let check = on("zero-copy", "the kernel copies each frame: about half of the frames a second");
    out.push(match nic.xdp_features {
        Some(bits) if bits & XDP_ZERO_COPY != 0 => check.ok("yes"),
        Some(_) => check.warn("no", "a card whose driver has it (ice, i40e, ixgbe, mlx5, igc, ...)"),
        None => check.unknown(UNTOLD),
    });
    let check = on(
        "multi-buffer",
        "frames larger than a chunk are refused: 4096-byte chunks, or `packet:` for jumbo frames",
    );
    out.push(match nic.xdp_features {
        Some(bits) if bits & XDP_MULTI_BUFFER != 0 => check.ok("yes"),
        Some(_) => check.ok("no; not needed below 4 KiB"),
        None => check.unknown(UNTOLD),
    });
    let check = on(
        "large receive",
        "merged frames are not the frames on the wire: a driver refuses XDP while it merges",
    );
    out.push(match (nic.has_feature("rx-lro"), nic.has_feature("rx-gro-hw")) {
        (Some(false), Some(false)) => check.ok("off"),
        (Some(_), Some(_)) => check.warn("on", format!("ethtool -K {name} lro off rx-gro-hw off")),
        _ => check.unknown(UNTOLD),
    });
    let check =
        on("VLAN tags", "the card cuts the tag out where `xdp:` cannot see it: tagged frames look untagged");
    out.push(match nic.has_feature("rx-vlan-hw-parse") {
        Some(false) => check.ok("left in the frame"),
        Some(true) => check.warn("cut out", format!("with VLANs on `xdp:`: ethtool -K {name} rxvlan off")),
        None => check.unknown(UNTOLD),
    });
    let check = on(
        "forwarded datagrams",
        "`packet:` over IPv6 gets merged datagrams that are none of the wire, and drops them",
    );
    let merges = MERGING.iter().map(|feature| nic.has_feature(feature));
    out.push(match merges.collect::<Option<Vec<bool>>>() {
        Some(on) if on.contains(&true) => check.warn("merged", format!("ethtool -K {name} {MERGING_OFF}")),
        Some(_) => check.ok("left as they are"),
        None => check.unknown(UNTOLD),
    });
}

/// What in a card's settings takes frames from a host that is reached over a port of `scheme`.
pub(crate) fn hazards(nic: &NicFacts, scheme: &str, vlan: bool, ipv6: bool) -> Vec<String> {
    let name = &nic.name;
    let mut found = Vec::new();
    if scheme == "xdp" && vlan && nic.has_feature("rx-vlan-hw-parse") == Some(true) {
        found.push(format!(
            "{name} may cut VLAN tags out of frames where `xdp:` does not see them, and those frames are dropped: ethtool -K {name} rxvlan off"
        ));
    }
    if scheme == "packet" && ipv6 && MERGING.iter().any(|feature| nic.has_feature(feature) == Some(true)) {
        found.push(format!(
            "{name} merges IPv6 datagrams before `packet:` sees them, and large messages are lost: ethtool -K {name} {MERGING_OFF}"
        ));
    }
    found
}

fn queues(nic: &NicFacts, on: &On<'_>, out: &mut Vec<Finding>) {
    let name = &nic.name;
    let check = on(
        "queues",
        "one engine asks every queue of an `xdp:` port in turn: the more there are, the longer each waits",
    );
    out.push(match nic.channels {
        Some((1, _)) => check.ok("1"),
        Some((now, most)) => check.warn(
            format!("{now} of {most}"),
            format!("ethtool -L {name} combined 1, or a rule: ethtool -N {name} flow-type udp4 dst-port PORT action QUEUE"),
        ),
        None => check.unknown(UNTOLD),
    });
    let check = on(
        "rings",
        "a short ring overflows while the engine is not running: frames are lost instead of late",
    );
    out.push(match (nic.rx_ring, nic.tx_ring) {
        (Some((rx, rx_max)), tx) => {
            let tx = tx.map_or(String::new(), |(now, most)| format!(", transmit {now} of {most}"));
            let value = format!("receive {rx} of {rx_max}{tx}");
            if rx >= RING_MIN || rx == rx_max {
                check.ok(value)
            } else {
                check.warn(value, format!("ethtool -G {name} rx {}", rx_max.min(4096)))
            }
        }
        (None, _) => check.unknown(UNTOLD),
    });
    let check = on(
        "coalescing",
        "a lone frame waits for company before the card interrupts: the time named here, on every round trip twice",
    );
    out.push(match nic.coalescing {
        Some(c) if c.rx_us.is_some() || c.rx_adaptive.is_some() => {
            let us = c.rx_us.unwrap_or(0);
            let adaptive = c.rx_adaptive == Some(true);
            let frames = c.rx_frames.filter(|&n| n > 1).map_or(String::new(), |n| format!(" or {n} frames"));
            let value = format!("{us} us{frames}{}", if adaptive { ", adaptive" } else { "" });
            if us > COALESCE_US_MAX || adaptive {
                check.warn(value, format!("ethtool -C {name} adaptive-rx off rx-usecs 0"))
            } else {
                check.ok(value)
            }
        }
        _ => check.unknown(UNTOLD),
    });
    let check = on(
        "pause frames",
        "one slow receiver stops the whole link: pauses of up to some milliseconds for everybody",
    );
    out.push(match nic.pause {
        Some((false, false)) => check.ok("off"),
        Some((rx, tx)) => {
            let word = |on| if on { "on" } else { "off" };
            check.warn(
                format!("receive {}, transmit {}", word(rx), word(tx)),
                format!("ethtool -A {name} rx off tx off"),
            )
        }
        None => check.unknown(UNTOLD),
    });
}

/// The card's device, and the one above it: a virtual card's interrupts and node belong to that.
fn devices(root: &Root, sys: &str) -> impl Iterator<Item = String> {
    let device = format!("{sys}/device");
    let above = root.parent(&device);
    std::iter::once(device).chain(above)
}

fn interrupts(root: &Root, nic: &NicFacts, sys: &str, on: &On<'_>, out: &mut Vec<Finding>) {
    let check = on(
        "interrupts",
        "all queues interrupt one core, or an engine's own: 2 to 10 us taken from it each time",
    );
    let numbers = devices(root, sys)
        .map(|device| root.numbered(&format!("{device}/msi_irqs"), ""))
        .find(|found| !found.is_empty())
        .unwrap_or_default();
    let mut where_to = BTreeSet::new();
    for (irq, _) in &numbers {
        let path = format!("proc/irq/{irq}/effective_affinity_list");
        match root.read(&path).and_then(|text| cores(&text)) {
            Some(set) => where_to.extend(set),
            None => {
                out.push(check.unknown(silent(&path)));
                return;
            }
        }
    }
    let isolated =
        root.read("sys/devices/system/cpu/isolated").and_then(|text| cores(&text)).unwrap_or_default();
    let disturbed: Vec<u32> = where_to.iter().copied().filter(|core| isolated.contains(core)).collect();
    let all: Vec<u32> = where_to.into_iter().collect();
    out.push(if numbers.is_empty() {
        check.unknown("none of its own are visible (a virtual card)")
    } else if !disturbed.is_empty() {
        check.warn(
            format!(
                "{} interrupts on cores {}, of which {} are isolated",
                numbers.len(),
                list(&all),
                list(&disturbed)
            ),
            format!("echo LIST > /proc/irq/{}/smp_affinity_list, for each of them", numbers[0].0),
        )
    } else if numbers.len() > 2 && all.len() == 1 && nic.channels.is_none_or(|(now, _)| now > 1) {
        check.warn(
            format!("all {} on core {}", numbers.len(), list(&all)),
            format!("echo LIST > /proc/irq/{}/smp_affinity_list, for each of them", numbers[0].0),
        )
    } else {
        check.ok(format!("{} on cores {}", numbers.len(), list(&all)))
    });
}

fn stamps(nic: &NicFacts, on: &On<'_>, out: &mut Vec<Finding>) {
    let check = on(
        "hardware stamps",
        "t3 is the kernel's clock: what the card and the interrupt took, some microseconds, is in no figure",
    );
    let can = nic.timestamping.as_ref().map(|able| able.iter().any(|name| name == "hardware-receive"));
    out.push(match (can, nic.phc) {
        (Some(true), Some(phc)) => check.ok(format!("yes, by /dev/ptp{phc}")),
        (Some(true), None) => check.ok("yes"),
        (Some(false), _) => check.warn("no", "a card with a PTP clock"),
        (None, _) => check.unknown(UNTOLD),
    });
}

fn numa(root: &Root, sys: &str, on: &On<'_>, out: &mut Vec<Finding>) {
    let check =
        on("NUMA node", "an engine on another node reads each frame across sockets: 100 to 250 ns each");
    let nodes = root.numbered("sys/devices/system/node", "node");
    let status = root.read("proc/self/status").unwrap_or_default();
    let ours = keyed(&status, "Cpus_allowed_list").and_then(cores);
    let node = devices(root, sys).find_map(|device| root.number(&format!("{device}/numa_node")));
    out.push(match (nodes.len(), node) {
        (0, _) => check.unknown(silent("sys/devices/system/node")),
        (1, _) => check.ok("one node"),
        (_, None) => check.unknown("the card tells no node"),
        (_, Some(-1)) => check.unknown("the firmware tells no node"),
        (_, Some(node)) => {
            let path = format!("sys/devices/system/node/node{node}/cpulist");
            match (root.read(&path).and_then(|text| cores(&text)), ours) {
                (Some(near), Some(ours)) => {
                    let value = format!("node {node}, cores {}", list(&near));
                    let here = ours.iter().filter(|core| near.contains(core)).count();
                    if here == 0 {
                        check.warn(
                            format!("{value}, of which we may use none"),
                            format!("--core one of {}, or taskset -c {0}", list(&near)),
                        )
                    } else {
                        check.ok(value)
                    }
                }
                _ => check.unknown(silent(&path)),
            }
        }
    });
}

fn drops(root: &Root, sys: &str, on: &On<'_>, out: &mut Vec<Finding>) {
    let check = on(
        "lost by the card",
        "frames that came and were not received: each costs a retransmission, or a gap in a feed",
    );
    let names = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors", "rx_crc_errors"];
    let mut counts = Vec::new();
    for name in names {
        let path = format!("{sys}/statistics/{name}");
        match root.number(&path).filter(|n| *n >= 0) {
            Some(0) => {}
            Some(n) => counts.push(format!("{name} {n}")),
            None => {
                out.push(check.unknown(silent(&path)));
                return;
            }
        }
    }
    out.push(if counts.is_empty() {
        check.ok("none since it came up")
    } else {
        check.warn(
            counts.join(", "),
            "a longer ring (ethtool -G), or an engine that looks more often (--idle spin)",
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hazard_is_told_to_whom_it_harms() {
        let with = |features: &[&str]| NicFacts {
            features: Some(features.iter().map(|f| (*f).to_owned()).collect()),
            ..NicFacts::unanswered("eth7")
        };
        let count =
            |features: &[&str], scheme, vlan, ipv6| hazards(&with(features), scheme, vlan, ipv6).len();
        assert_eq!(count(&["rx-vlan-hw-parse"], "xdp", true, false), 1);
        assert_eq!(count(&["rx-vlan-hw-parse"], "xdp", false, true), 0);
        assert_eq!(count(&["rx-vlan-hw-parse"], "packet", true, true), 0);
        for feature in MERGING {
            assert_eq!(count(&[feature], "packet", false, true), 1);
            assert_eq!(count(&[feature], "packet", false, false), 0, "checksums of zero are not merged");
            assert_eq!(count(&[feature], "xdp", false, true), 0, "xdp: is before the merging");
        }
        assert!(hazards(&NicFacts::unanswered("eth7"), "packet", true, true).is_empty());
    }
}
