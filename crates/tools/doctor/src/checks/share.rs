//! Whom the cores are shared with: hypervisor, other processes, containers.

use super::silent;
use crate::finding::{Area, Check, Finding};
use crate::lists::{cores, keyed, list};
use crate::measured::ticks;
use crate::root::Root;

/// Shares in percent above which others are in the way.
const STEAL_MAX: f64 = 1.0;
const PRESSURE_MAX: f64 = 5.0;
const MEMORY_PRESSURE_MAX: f64 = 1.0;
/// Folders of a cgroup path that are believed in.
const DEPTH_MAX: usize = 32;

pub(crate) fn check(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Share,
        "steal",
        "the hypervisor gives the core to others while an engine wants it: gaps of 1 to 20 ms",
    );
    out.push(match ticks(root) {
        Some((total, stolen)) if total > 0 => {
            let percent = stolen as f64 * 100.0 / total as f64;
            let value = format!("{percent:.2} % since the start");
            if percent <= STEAL_MAX {
                check.ok(value)
            } else {
                check.warn(value, "cores of its own for this guest, from the host")
            }
        }
        _ => check.unknown(silent("proc/stat")),
    });

    let pressure = |resource: &str| {
        let text = root.read(&format!("proc/pressure/{resource}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
        let word = line.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
        word.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))
    };
    for (name, resource, limit, effect, fix) in [
        (
            "pressure on cores",
            "cpu",
            PRESSURE_MAX,
            "threads wait for a core: an engine that is not alone on its core waits milliseconds",
            "end what else runs here, or set cores aside (isolcpus)",
        ),
        (
            "pressure on memory",
            "memory",
            MEMORY_PRESSURE_MAX,
            "threads wait for memory to be freed: pauses of milliseconds",
            "free memory, or give this machine more",
        ),
    ] {
        let check = Check::new(Area::Share, name, effect);
        out.push(match pressure(resource) {
            Some(percent) if percent <= limit => check.ok(format!("{percent:.2} % of the last 10 s")),
            Some(percent) => check.warn(format!("{percent:.2} % of the last 10 s"), fix),
            None => check.unknown(silent(&format!("proc/pressure/{resource}"))),
        });
    }
    quota(root, out);
    cpuset(root, out);
}

/// The folders of this process's group, from its own up to the root: of the unified hierarchy, or of one controller's (version 1).
fn groups(root: &Root, controller: &str, mount: &str) -> Option<Vec<String>> {
    let text = root.read("proc/self/cgroup")?;
    let path = text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != "..").take(DEPTH_MAX).collect();
    // Inside a container the path may be the host's: the files then lie at the root of the mount.
    Some((0..=parts.len()).rev().map(|n| [&[mount][..], &parts[..n]].concat().join("/")).collect())
}

/// Cores that a quota of us in a period of us allows; infinite for none.
fn allowed(quota: &str, period: &str) -> Option<f64> {
    if quota == "max" || quota == "-1" {
        return Some(f64::INFINITY);
    }
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

fn quota(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Share,
        "CPU quota",
        "a group that has used its share sleeps until the next period: gaps of up to 100 ms",
    );
    let unified = groups(root, "", "sys/fs/cgroup").unwrap_or_default();
    let older = groups(root, "cpu", "sys/fs/cgroup/cpu").unwrap_or_default();
    let mut limits = Vec::new();
    let mut strange = false;
    for group in &unified {
        if let Some(text) = root.read(&format!("{group}/cpu.max")) {
            match text.split_once(' ').and_then(|(quota, period)| allowed(quota, period.trim())) {
                Some(limit) => limits.push(limit),
                None => strange = true,
            }
        }
    }
    for group in &older {
        let read = |name: &str| root.read(&format!("{group}/{name}"));
        if let Some((quota, period)) = read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us")) {
            match allowed(&quota, &period) {
                Some(limit) => limits.push(limit),
                None => strange = true,
            }
        }
    }
    let tightest = limits.into_iter().min_by(f64::total_cmp);
    out.push(match tightest {
        _ if strange => check.unknown(silent("sys/fs/cgroup/.../cpu.max")),
        None if unified.is_empty() && older.is_empty() => check.unknown(silent("proc/self/cgroup")),
        None => check.ok("none"),
        Some(cores) if cores.is_infinite() => check.ok("none"),
        Some(cores) => check.warn(
            format!("{cores:.2} cores"),
            "no CPU limit for this container (docker: no --cpus; Kubernetes: whole cores, static CPU manager)",
        ),
    });
}

fn cpuset(root: &Root, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Share,
        "cpuset",
        "an engine can only be pinned to these cores; a core outside of them is refused at the start",
    );
    let status = root.read("proc/self/status").unwrap_or_default();
    let ours = keyed(&status, "Cpus_allowed_list").and_then(cores);
    let online = root.read("sys/devices/system/cpu/online").and_then(|text| cores(&text));
    out.push(match (ours, online) {
        (Some(ours), Some(online)) if !ours.is_empty() => {
            let usable = online.iter().filter(|core| ours.contains(core)).count();
            let value = format!("cores {}, {usable} of {} online ones", list(&ours), online.len());
            match usable {
                _ if usable == online.len() => check.ok(value),
                0 | 1 => check
                    .warn(value, "an engine and its applications want a core each: a wider --cpuset-cpus"),
                _ => check.ok(value),
            }
        }
        _ => check.unknown(silent("proc/self/status")),
    });
}
