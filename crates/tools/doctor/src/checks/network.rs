//! The kernel's network stack, which carries what is not ours and every kernel socket: those of feeds, of baselines, of control.

use super::silent;
use crate::finding::{Area, Check, Finding};
use crate::lists::bytes;
use crate::root::Root;

/// What a burst of a feed on a 10 Gbit/s line fills in three milliseconds.
const BUFFER_MIN: i64 = 4 << 20;
/// Groups one socket may join by default; both lines of two feed channels with their recovery are twelve.
const MEMBERSHIPS_MIN: i64 = 12;

pub(crate) fn check(root: &Root, out: &mut Vec<Finding>) {
    for (name, effect) in [
        (
            "rmem_max",
            "a kernel socket loses what comes in while its reader is away: a gap in the feed, and a recovery of seconds",
        ),
        ("wmem_max", "a sender on a kernel socket is stopped, or loses, in bursts"),
    ] {
        let check = Check::new(Area::Network, name, effect);
        let path = format!("proc/sys/net/core/{name}");
        out.push(match root.number(&path) {
            Some(n) if n >= BUFFER_MIN => check.ok(bytes(n as u64)),
            Some(n @ 1..) => check.warn(bytes(n as u64), format!("sysctl -w net.core.{name}={}", 16 << 20)),
            _ => check.unknown(silent(&path)),
        });
    }
    let check = Check::new(
        Area::Network,
        "busy_poll",
        "a kernel socket that waits is woken by an interrupt: 5 to 20 us a packet more than with polling",
    );
    let read = |name: &str| {
        root.number(&format!("proc/sys/net/core/{name}")).filter(|us| (0..=1_000_000).contains(us))
    };
    out.push(match (read("busy_poll"), read("busy_read")) {
        (Some(poll @ 1..), Some(read @ 1..)) => check.ok(format!("poll {poll} us, read {read} us")),
        (Some(poll), Some(read)) => check.warn(
            format!("poll {poll} us, read {read} us"),
            "for feeds on kernel sockets: sysctl -w net.core.busy_poll=50 net.core.busy_read=50",
        ),
        _ => check.unknown(silent("proc/sys/net/core/busy_poll")),
    });

    let check = Check::new(
        Area::Network,
        "rp_filter",
        "strict: multicast from a sender whose way back is another interface is dropped without a word",
    );
    let conf = "proc/sys/net/ipv4/conf";
    let mut strict = Vec::new();
    let mut strange = false;
    let names = root.names(conf);
    let all = root.number(&format!("{conf}/all/rp_filter"));
    for name in names.iter().filter(|name| !["all", "default", "lo"].contains(&name.as_str())) {
        // The kernel takes the greater of the two; 2 (loose) wins over 1 (strict).
        match (root.number(&format!("{conf}/{name}/rp_filter")), all) {
            (Some(own @ 0..=2), Some(all @ 0..=2)) if own.max(all) == 1 => strict.push(name.as_str()),
            (Some(0..=2), Some(0..=2)) => {}
            _ => strange = true,
        }
    }
    out.push(if all.is_none() || strange {
        check.unknown(silent(conf))
    } else if strict.is_empty() {
        check.ok("off or loose everywhere")
    } else {
        check.warn(format!("strict on {}", strict.join(", ")), "sysctl -w net.ipv4.conf.all.rp_filter=2")
    });

    let check = Check::new(
        Area::Network,
        "multicast",
        "joining more groups than this on one socket is refused: a feed channel without one of its lines",
    );
    let path = "proc/sys/net/ipv4/igmp_max_memberships";
    out.push(match root.number(path) {
        Some(n) if n >= MEMBERSHIPS_MIN => check.ok(format!("up to {n} groups a socket")),
        Some(n @ 0..) => {
            check.warn(format!("up to {n} groups a socket"), "sysctl -w net.ipv4.igmp_max_memberships=64")
        }
        _ => check.unknown(silent(path)),
    });
    igmp(root, out);
}

/// `/proc/net/igmp`: a line for each device with its version, then its groups.
fn igmp(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Network,
        "IGMP",
        "older than version 3 no source can be chosen, and a switch may be slow to stop a group that was left",
    );
    let Some(text) = root.read("proc/net/igmp").filter(|text| text.starts_with("Idx")) else {
        out.push(check.unknown(silent("proc/net/igmp")));
        return;
    };
    let mut old = Vec::new();
    let mut devices = 0;
    for line in text.lines().skip(1).filter(|line| !line.starts_with(['\t', ' '])) {
        // Idx, Device, colon, Count, Querier.
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(device), Some(version)) = (words.get(1), words.last()) else { continue };
        devices += 1;
        if matches!(*version, "V1" | "V2") {
            old.push(format!("{} {version}", device.trim_end_matches(':')));
        }
    }
    out.push(if old.is_empty() {
        check.ok(format!("version 3 on {devices} interfaces"))
    } else {
        check.warn(old.join(", "), "sysctl -w net.ipv4.conf.all.force_igmp_version=3")
    });
}
