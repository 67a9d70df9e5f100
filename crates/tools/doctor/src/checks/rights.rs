//! What this user may do: capabilities (capabilities(7)) and limits (getrlimit(2)), as `/proc/self` tells them.

use super::silent;
use crate::Options;
use crate::finding::{Area, Check, Finding};
use crate::lists::{bytes, keyed};
use crate::root::Root;

const SYS_ADMIN: u32 = 21;
const IPC_LOCK: u32 = 14;

/// Number, name, effect.
const CAPABILITIES: [(u32, &str, &str); 6] = [
    (13, "NET_RAW", "without it no `packet:` and no `xdp:` port; `mem:` and `unix:` need no rights"),
    (12, "NET_ADMIN", "without it no `xdp:` port, no lab, and no larger socket buffers"),
    (39, "BPF", "without it no program on the card, so no `xdp:` port"),
    (IPC_LOCK, "IPC_LOCK", "without it the memlock limit bounds the frames that a port can hold"),
    (23, "SYS_NICE", "without it no real-time priority; a core set aside needs none"),
    (SYS_ADMIN, "SYS_ADMIN", "without it no lab and no hosts for benches: `mem` and `unix` need none"),
];

/// What makes the binary's own capabilities what they should be: all at once, as each call replaces what the one before gave.
fn setcap(has: impl Fn(u32) -> Option<bool>) -> String {
    // Who may not make hosts is not given the rights of an administrator unawares.
    let wanted = |bit: u32| bit != SYS_ADMIN || has(bit) == Some(true);
    let names = CAPABILITIES.iter().filter(|(bit, ..)| wanted(*bit));
    let names: Vec<String> = names.map(|(_, name, _)| format!("cap_{}", name.to_lowercase())).collect();
    format!("sudo setcap {}+ep $(command -v barewire)", names.join(","))
}

/// What the default pool of the daemon pins, twice over.
const MEMLOCK_MIN: u64 = 64 << 20;
/// A few for each application, and some for ports.
const FILES_MIN: u64 = 1024;

pub(crate) fn check(root: &Root, options: &Options, out: &mut Vec<Finding>) {
    let status = root.read("proc/self/status").unwrap_or_default();
    let effective = keyed(&status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let has = |bit: u32| effective.map(|set| set >> bit & 1 == 1);
    let wanted = !options.interfaces.is_empty();
    for (bit, name, effect) in CAPABILITIES {
        let check = Check::new(Area::Rights, format!("CAP_{name}"), effect);
        // CAP_BPF came with Linux 5.8; before and beside it CAP_SYS_ADMIN does.
        let had = has(bit).map(|had| had || (bit == 39 && has(SYS_ADMIN) == Some(true)));
        // Neither kind of port over a card goes without.
        let needed = wanted && bit == 13;
        out.push(match had {
            Some(true) => check.ok("yes"),
            Some(false) if bit == SYS_ADMIN => check
                .warn("no", "as root: sudo barewire lab up FILE; the right itself is nearly all of root's"),
            Some(false) => check.fail_if(needed, "no", setcap(has)),
            None => check.unknown(silent("proc/self/status")),
        });
    }

    let limits = root.read("proc/self/limits");
    let limit = |name: &str| {
        let text = limits.as_deref()?;
        let soft = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
        if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
    };
    let check = Check::new(
        Area::Rights,
        "memlock",
        "an `xdp:` port pins its frames: with a lower limit it does not open, or holds fewer",
    );
    out.push(match (limit("Max locked memory"), has(IPC_LOCK)) {
        (Some(u64::MAX), _) => check.ok("unlimited"),
        (Some(n), Some(true)) => check.ok(format!("{}, and CAP_IPC_LOCK passes it", bytes(n))),
        (Some(n), _) if n >= MEMLOCK_MIN => check.ok(bytes(n)),
        (Some(n), _) => check
            .warn(bytes(n), "ulimit -l unlimited (as root), or LimitMEMLOCK=infinity in the systemd unit"),
        (None, _) => check.unknown(silent("proc/self/limits")),
    });
    let check =
        Check::new(Area::Rights, "open files", "each application of the daemon takes a few descriptors");
    out.push(match limit("Max open files") {
        Some(u64::MAX) => check.ok("unlimited"),
        Some(n) if n >= FILES_MIN => check.ok(n.to_string()),
        Some(n) => check.warn(n.to_string(), "ulimit -n 4096, or LimitNOFILE=4096 in the systemd unit"),
        None => check.unknown(silent("proc/self/limits")),
    });
}
