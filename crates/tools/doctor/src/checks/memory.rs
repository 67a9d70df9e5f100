//! Memory: huge pages, and who moves pages about.

use super::silent;
use crate::finding::{Area, Check, Finding};
use crate::lists::{bracketed, keyed};
use crate::root::Root;

pub(crate) fn check(root: &Root, out: &mut Vec<Finding>) {
    let meminfo = root.read("proc/meminfo").unwrap_or_default();
    let number = |key| keyed(&meminfo, key).and_then(|v| v.split(' ').next()?.parse::<u64>().ok());

    let check = Check::new(
        Area::Memory,
        "hugepages",
        "pools and channels lie on pages of 4 KiB: some percent of the frames a second, by TLB misses",
    );
    let fix = "sysctl -w vm.nr_hugepages=128";
    out.push(match (number("HugePages_Total"), number("HugePages_Free"), number("Hugepagesize")) {
        (Some(total), Some(free), Some(size)) => {
            let value = format!("{free} of {total} free, {size} KiB each");
            if free > 0 { check.ok(value) } else { check.warn(value, fix) }
        }
        _ => check.unknown(silent("proc/meminfo")),
    });

    let check = Check::new(
        Area::Memory,
        "transparent huge pages",
        "the kernel may stop a thread to gather a huge page: pauses of some 100 us",
    );
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    let text = root.read(path);
    out.push(match text.as_deref().and_then(bracketed) {
        Some("always") => check.warn("always", format!("echo madvise > /{path}")),
        Some(choice @ ("madvise" | "never")) => check.ok(choice),
        _ => check.unknown(silent(path)),
    });

    let check = Check::new(
        Area::Memory,
        "NUMA balancing",
        "the kernel takes pages away to see who misses them: page faults of some microseconds",
    );
    let nodes = root.numbered("sys/devices/system/node", "node").len();
    let path = "proc/sys/kernel/numa_balancing";
    out.push(match (nodes, root.number(path)) {
        (1, _) => check.ok("one node"),
        (2.., Some(0)) => check.ok(format!("off, {nodes} nodes")),
        (2.., Some(_)) => check.warn(format!("on, {nodes} nodes"), "sysctl -w kernel.numa_balancing=0"),
        (2.., None) => check.unknown(silent(path)),
        (0, _) => check.unknown(silent("sys/devices/system/node")),
    });
}
