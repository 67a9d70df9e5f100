//! Cores: how fast, how deep they sleep, and who else may run on them.

use super::silent;
use crate::finding::{Area, Check, Finding};
use crate::lists::{cores, kernel_parameter, list, time};
use crate::root::Root;
use std::collections::BTreeSet;

const CPU: &str = "sys/devices/system/cpu";
/// Leaving a sleep state may take so long, in us, before it is worth a warning.
const EXIT_US_MAX: i64 = 2;
/// Machines with fewer cores have none to set aside.
const CORES_TO_ISOLATE: usize = 4;

pub(crate) fn check(root: &Root, out: &mut Vec<Finding>) {
    let online = root.read(&format!("{CPU}/online")).and_then(|text| cores(&text));
    governor(root, out);
    sleep_states(root, out);
    turbo(root, out);
    siblings(root, online.as_deref(), out);
    isolation(root, online.as_deref(), out);
    mitigations(root, out);
    iommu(root, out);
    irqbalance(root, out);
    watchdog(root, out);
}

fn governor(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "governor",
        "a core that had nothing to do begins slow: up to three times the latency for the first milliseconds",
    );
    let policies = root.numbered(&format!("{CPU}/cpufreq"), "policy");
    let governors: Option<BTreeSet<String>> =
        policies.iter().map(|(_, policy)| root.read(&format!("{policy}/scaling_governor"))).collect();
    out.push(match governors {
        _ if policies.is_empty() => {
            check.unknown("frequency scaling is not visible here (a guest: the host decides)")
        }
        None => check.unknown(silent("sys/devices/system/cpu/cpufreq")),
        Some(names) if names.iter().all(|name| name == "performance") => check.ok("performance"),
        Some(names) => {
            let known = ["powersave", "ondemand", "conservative", "schedutil", "userspace", "performance"];
            let value = Vec::from_iter(names.iter().map(String::as_str)).join(", ");
            if names.iter().all(|name| known.contains(&name.as_str())) {
                check.warn(value, "cpupower frequency-set -g performance")
            } else {
                check.unknown(format!("{value}: not a governor that is known here"))
            }
        }
    });
}

fn sleep_states(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "C-states",
        "a parked engine waits until its core is awake: the latency named here, on each packet after a pause",
    );
    let folder = format!("{CPU}/cpu0/cpuidle");
    let states = root.numbered(&folder, "state");
    if states.is_empty() {
        let driver = root.read(&format!("{CPU}/cpuidle/current_driver"));
        out.push(match driver.as_deref() {
            Some("none") | None => {
                check.unknown("sleep states are not visible here (a guest: the host decides)")
            }
            Some(driver) => check.unknown(format!("driver {driver} tells no states")),
        });
        return;
    }
    let mut deepest: Option<(i64, String)> = None;
    for (_, state) in &states {
        let latency = root.number(&format!("{state}/latency"));
        let disabled = root.number(&format!("{state}/disable"));
        let (Some(latency @ 0..), Some(disabled)) = (latency, disabled) else {
            out.push(check.unknown(silent(state)));
            return;
        };
        if disabled == 0 && deepest.as_ref().is_none_or(|(deep, _)| latency > *deep) {
            let name = root.read(&format!("{state}/name")).unwrap_or_else(|| "a state".to_owned());
            deepest = Some((latency, name));
        }
    }
    let cmdline = root.read("proc/cmdline").unwrap_or_default();
    out.push(match deepest {
        _ if kernel_parameter(&cmdline, "idle") == Some("poll") => check.ok("idle=poll: cores do not sleep"),
        None => check.ok("none is enabled"),
        Some((us, name)) if us <= EXIT_US_MAX => check.ok(format!("{name}, {us} us to leave")),
        Some((us, name)) => check
            .warn(format!("{name} takes {us} us to leave"), format!("cpupower idle-set -D {EXIT_US_MAX}")),
    });
}

fn turbo(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "turbo",
        "the clock rate depends on what other cores do: figures of two runs differ by up to a third",
    );
    let (intel, generic) = (format!("{CPU}/intel_pstate/no_turbo"), format!("{CPU}/cpufreq/boost"));
    let on = match (root.number(&intel), root.number(&generic)) {
        (Some(off @ 0..=1), _) => Some((off == 0, format!("echo 1 > /{intel}"))),
        (None, Some(on @ 0..=1)) => Some((on == 1, format!("echo 0 > /{generic}"))),
        _ => None,
    };
    out.push(match on {
        Some((false, _)) => check.ok("off"),
        Some((true, fix)) => check.warn("on: fastest, and least even", format!("to compare runs: {fix}")),
        None => check.unknown("no such switch here"),
    });
}

fn siblings(root: &Root, online: Option<&[u32]>, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "SMT siblings",
        "two threads on one core share its units and caches: a busy sibling takes 20 to 50 percent",
    );
    let Some(online) = online else {
        out.push(check.unknown(silent("sys/devices/system/cpu/online")));
        return;
    };
    let mut pairs = BTreeSet::new();
    for core in online {
        let text = root.read(&format!("{CPU}/cpu{core}/topology/thread_siblings_list"));
        match text.and_then(|text| cores(&text)) {
            Some(threads) if threads.len() > 1 => {
                pairs.insert(list(&threads));
            }
            Some(threads) if threads.len() == 1 => {}
            _ => {
                out.push(check.unknown(silent("sys/devices/system/cpu/cpu*/topology/thread_siblings_list")));
                return;
            }
        }
    }
    out.push(if pairs.is_empty() {
        check.ok("each core has one thread")
    } else {
        let shown = Vec::from_iter(pairs.iter().take(4).map(String::as_str)).join(" ");
        let more = if pairs.len() > 4 { " ..." } else { "" };
        check.warn(
            format!("{} cores run two threads: {shown}{more}", pairs.len()),
            format!("give an engine both threads, or echo off > /{CPU}/smt/control"),
        )
    });
}

fn isolation(root: &Root, online: Option<&[u32]>, out: &mut Vec<Finding>) {
    let online = online.unwrap_or_default();
    // The upper half, as a proposal.
    let half = online.get(online.len().div_ceil(2)..).unwrap_or_default();
    let proposal = if half.is_empty() { "2-3".to_owned() } else { list(half) };
    let few = (1..CORES_TO_ISOLATE).contains(&online.len());
    let cmdline = root.read("proc/cmdline");

    let from_file = |name: &str| {
        let text = root.read(&format!("{CPU}/{name}"));
        match text.as_deref() {
            // A kernel without the option says `(null)`; an empty file is an empty list.
            Some("(null)") => Some(Vec::new()),
            Some(text) => cores(text),
            None => root.exists(&format!("{CPU}/{name}")).then(Vec::new),
        }
    };
    let from_line = |name: &str| {
        let line = cmdline.as_deref()?;
        kernel_parameter(line, name).map_or(Some(Vec::new()), |value| {
            // `isolcpus=domain,managed_irq,2-3` has flags in front.
            let digits = value.split(',').filter(|part| part.starts_with(|c: char| c.is_ascii_digit()));
            cores(&digits.collect::<Vec<_>>().join(","))
        })
    };
    for (name, effect, set) in [
        (
            "isolcpus",
            "the scheduler puts other threads on an engine's core: gaps of 1 to 10 ms",
            from_file("isolated").or_else(|| from_line("isolcpus")),
        ),
        (
            "nohz_full",
            "a timer interrupts the engine 100 to 1000 times a second: 1 to 5 us each",
            from_file("nohz_full").or_else(|| from_line("nohz_full")),
        ),
        (
            "rcu_nocbs",
            "the kernel does deferred work on an engine's core: up to some 10 us each",
            from_line("rcu_nocbs"),
        ),
    ] {
        let check = Check::new(Area::Cores, name, effect);
        out.push(match set {
            None => check.unknown(silent("proc/cmdline")),
            Some(set) if !set.is_empty() => check.ok(format!("cores {}", list(&set))),
            Some(_) if few => check.warn(
                "none",
                format!("a machine with {CORES_TO_ISOLATE} cores or more has some to set aside"),
            ),
            Some(_) => check.warn("none", format!("kernel parameter {name}={proposal}")),
        });
    }
}

fn mitigations(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "mitigations",
        "each system call and each switch of threads takes 100 to 500 ns more",
    );
    let folder = format!("{CPU}/vulnerabilities");
    let names = root.names(&folder);
    let active = names.iter().filter(|name| {
        root.read(&format!("{folder}/{name}")).is_some_and(|state| state.starts_with("Mitigation"))
    });
    let active: Vec<&str> = active.map(String::as_str).collect();
    out.push(if names.is_empty() {
        check.unknown(silent(&folder))
    } else if active.is_empty() {
        check.ok("none is active")
    } else {
        check.warn(
            format!("{} active: {}", active.len(), active.join(", ")),
            "kernel parameter mitigations=off, on a machine that runs nobody else's programs",
        )
    });
}

fn iommu(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "IOMMU",
        "with translation each buffer that a card gets is mapped: some 100 ns for each frame that is not in a fixed pool",
    );
    let cmdline = root.read("proc/cmdline");
    let present = !root.names("sys/class/iommu").is_empty();
    let passed = cmdline.as_deref().and_then(|line| kernel_parameter(line, "iommu")) == Some("pt");
    let kinds: BTreeSet<String> = root
        .numbered("sys/kernel/iommu_groups", "")
        .iter()
        .filter_map(|(_, group)| root.read(&format!("{group}/type")))
        .collect();
    let identity = !kinds.is_empty() && kinds.iter().all(|kind| kind == "identity");
    out.push(match (present, cmdline) {
        (false, None) => check.unknown(silent("proc/cmdline")),
        (false, _) => check.ok("none is in use"),
        (true, _) if passed || identity => check.ok("passes addresses through"),
        (true, _) => check.warn("translates", "kernel parameter iommu=pt"),
    });
}

fn irqbalance(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "irqbalance",
        "it moves interrupts between cores every ten seconds, onto an engine's core too: 2 to 10 us each",
    );
    let processes = root.numbered("proc", "");
    let runs = processes
        .iter()
        .any(|(_, process)| root.read(&format!("{process}/comm")).is_some_and(|name| name == "irqbalance"));
    out.push(if processes.is_empty() {
        check.unknown("no process is shown here")
    } else if runs {
        check.warn(
            "runs",
            "systemctl disable --now irqbalance, or IRQBALANCE_BANNED_CPULIST for the engines' cores",
        )
    } else {
        check.ok("does not run")
    });
}

fn watchdog(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Cores,
        "NMI watchdog",
        "it takes a hardware counter and interrupts each core: 1 to 5 us, every few seconds",
    );
    let path = "proc/sys/kernel/nmi_watchdog";
    out.push(match root.number(path) {
        Some(0) => check.ok("off"),
        Some(1) => {
            let period = root
                .number("proc/sys/kernel/watchdog_thresh")
                .filter(|&s| (0..=60).contains(&s))
                .unwrap_or(10);
            let every = time(period as u64 * 1_000_000_000);
            check.warn(format!("on, every {every}"), "sysctl -w kernel.nmi_watchdog=0")
        }
        _ if !root.exists(path) => check.unknown("no such switch here"),
        _ => check.unknown(silent(path)),
    });
}
