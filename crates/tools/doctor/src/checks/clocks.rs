//! Clocks: what reads the time, and whether a precise one is there.

use super::silent;
use crate::finding::{Area, Check, Finding};
use crate::lists::keyed;
use crate::root::Root;

const SOURCE: &str = "sys/devices/system/clocksource/clocksource0";

pub(crate) fn check(root: &Root, out: &mut Vec<Finding>) {
    let cpuinfo = root.read("proc/cpuinfo");
    let flags = cpuinfo.as_deref().and_then(|text| keyed(text, "flags"));
    let has = |name: &str| flags.map(|flags| flags.split(' ').any(|flag| flag == name));

    let check = Check::new(
        Area::Clocks,
        "clock source",
        "a clock that the kernel must be called for takes 0.3 to 2 us a reading instead of 20 ns, several a packet",
    );
    let path = format!("{SOURCE}/current_clocksource");
    let available = root.read(&format!("{SOURCE}/available_clocksource")).unwrap_or_default();
    out.push(match root.read(&path).as_deref() {
        // Those that the library reads without the kernel.
        Some(name @ ("tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter")) => {
            check.ok(name)
        }
        Some(name @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "xen" | "pit")) => {
            let fix = if available.split_whitespace().any(|word| word == "tsc") {
                format!("echo tsc > /{path}")
            } else {
                "kernel parameter tsc=reliable, where the hardware allows it".to_owned()
            };
            check.warn(name, fix)
        }
        Some(name) => check.unknown(format!("{name}: not a clock that is known here")),
        None => check.unknown(silent(&path)),
    });

    let check = Check::new(
        Area::Clocks,
        "invariant TSC",
        "the counter changes its rate or stops with the core: the kernel falls back to a slow clock",
    );
    out.push(match (has("constant_tsc"), has("nonstop_tsc")) {
        (Some(true), Some(true)) => check.ok("constant_tsc, nonstop_tsc"),
        (Some(constant), Some(nonstop)) => {
            let hypervisor = has("hypervisor") == Some(true);
            let missing = match (constant, nonstop) {
                (false, false) => "neither constant_tsc nor nonstop_tsc",
                (false, true) => "no constant_tsc",
                _ => "no nonstop_tsc",
            };
            let fix = if hypervisor {
                "the host must show the guest an invariant TSC"
            } else {
                "another processor"
            };
            check.warn(missing, fix)
        }
        _ => check.unknown("the processor tells no flags"),
    });

    let check = Check::new(
        Area::Clocks,
        "PTP clock",
        "without one hosts agree to a millisecond at best (NTP), so one-way figures between hosts mean nothing",
    );
    let clocks = root.numbered("sys/class/ptp", "ptp");
    let names: Vec<String> = clocks
        .iter()
        .map(|(number, path)| {
            let name = root.read(&format!("{path}/clock_name")).unwrap_or_else(|| "unnamed".to_owned());
            format!("ptp{number} ({name})")
        })
        .collect();
    out.push(if names.is_empty() {
        let what = if root.exists("sys/class/ptp") { "none" } else { "this kernel has no PTP clocks" };
        check.warn(
            what,
            "modprobe ptp_kvm in a guest; a card with hardware stamps elsewhere; then ptp4l and phc2sys",
        )
    } else {
        check.ok(names.join(", "))
    });
}
