//! What kinds of ports the kernel offers.

use super::silent;
use crate::Options;
use crate::finding::{Area, Check, Finding};
use crate::probes::{Answer, Probes};
use crate::root::Root;

/// `BPF_LINK_CREATE` for XDP came with Linux 5.9: the program goes with its process.
const XDP_LINK: (u32, u32) = (5, 9);
/// The youngest option that `packet:` uses, `PACKET_IGNORE_OUTGOING`, came with Linux 4.20.
const PACKET_OPTIONS: (u32, u32) = (4, 20);

/// Major and minor of `6.18.4-generic`.
pub(crate) fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(['.', '-', '+', ' ']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(crate) fn check(root: &Root, probes: &Probes, options: &Options, out: &mut Vec<Finding>) {
    let text = root.read("proc/sys/kernel/osrelease");
    let version = text.as_deref().and_then(release);
    let wanted = !options.interfaces.is_empty();

    let check = Check::new(Area::Ports, "AF_PACKET", "without it frames of a card can only come by `xdp:`");
    // One of the two is enough.
    let other = probes.xdp == Answer::Yes;
    out.push(socket(check, probes.packet, wanted && !other, "modprobe af_packet"));
    let check = Check::new(
        Area::Ports,
        "AF_PACKET options",
        "without ignore-outgoing each frame that is sent is received, too: up to twice the work",
    );
    out.push(since(check, version, PACKET_OPTIONS));

    let check = Check::new(
        Area::Ports,
        "AF_XDP",
        "`packet:` pays two copies more: about half of the frames a second",
    );
    out.push(socket(check, probes.xdp, false, "a kernel with CONFIG_XDP_SOCKETS=y"));
    let check =
        Check::new(Area::Ports, "BPF link", "without it `xdp:` does not open: its program would outlive us");
    out.push(since(check, version, XDP_LINK));

    let check = Check::new(
        Area::Ports,
        "BPF compiler",
        "interpreted, the program on the card takes some ten times as long",
    );
    let path = "proc/sys/net/core/bpf_jit_enable";
    out.push(match root.number(path) {
        Some(1 | 2) => check.ok("on"),
        Some(0) => check.warn("off", "sysctl -w net.core.bpf_jit_enable=1"),
        _ if version.is_some() && !root.exists(path) => {
            check.unknown("a kernel without the switch, which compiles always or never")
        }
        _ => check.unknown(silent(path)),
    });
}

fn socket(check: Check, answer: Answer, needed: bool, fix: &str) -> Finding {
    match answer {
        Answer::Yes => check.ok("the kernel makes such a socket"),
        Answer::NotPermitted => check.fail_if(needed, "not for this user", "sudo, or the capabilities above"),
        Answer::Absent => check.fail_if(needed, "not in this kernel", fix),
        Answer::Unknown => check.unknown("the kernel gave an unusual answer"),
    }
}

fn since(check: Check, version: Option<(u32, u32)>, (major, minor): (u32, u32)) -> Finding {
    match version {
        Some(v) if v >= (major, minor) => check.ok(format!("Linux {}.{}", v.0, v.1)),
        Some(v) => check.warn(format!("Linux {}.{}", v.0, v.1), format!("Linux {major}.{minor} or newer")),
        None => check.unknown(silent("proc/sys/kernel/osrelease")),
    }
}
