//! What was measured just now.

use crate::finding::{Area, Check, Finding};
use crate::lists::time;
use crate::measured::Measured;

/// What a core that is left alone keeps below.
const HICCUP_OK_NS: u64 = 50_000;
const LOST_OK_PERCENT: f64 = 0.5;
/// A cache line between cores of one die, there and back, stays below.
const CORE_TO_CORE_OK_NS: u64 = 400;
const WAKEUP_OK_NS: u64 = 20_000;
const SYSCALL_OK_NS: u64 = 500;
const CLOCK_OK_NS: u64 = 60;
const STEAL_OK_PERCENT: f64 = 0.5;

pub(crate) fn check(measured: &Measured, out: &mut Vec<Finding>) {
    let check = Check::new(
        Area::Measured,
        "hiccups",
        "the longest time that the machine looked away: no figure beyond its own share of packets is better than this",
    );
    let seconds = measured.window_ns as f64 / 1e9;
    out.push(match (measured.hiccup_max_ns, measured.core) {
        (Some(longest), core) => {
            let core = core.map_or_else(|| "some core".to_owned(), |core| format!("core {core}"));
            let lost = measured.hiccup_lost_percent;
            let value = format!("{} at most, {lost:.2} % lost, {core}, {seconds:.1} s", time(longest));
            if longest <= HICCUP_OK_NS && lost <= LOST_OK_PERCENT {
                check.ok(value)
            } else {
                check.warn(value, "isolcpus, nohz_full and rcu_nocbs above; end what else runs here")
            }
        }
        (None, _) => check.unknown("the core could not be watched"),
    });
    if let Some((total, stolen)) = measured.ticks {
        let check = Check::new(Area::Measured, "steal meanwhile", "the hypervisor gave the core to others");
        let percent = stolen as f64 * 100.0 / total.max(1) as f64;
        let value = format!("{percent:.2} % of {seconds:.1} s");
        out.push(if percent <= STEAL_OK_PERCENT {
            check.ok(value)
        } else {
            check.warn(value, "cores of its own for this guest, from the host")
        });
    }
    let check = Check::new(
        Area::Measured,
        "core to core",
        "a message through shared memory crosses between cores once each way at least: the floor of every hop",
    );
    let (best, worst) =
        (measured.core_pairs.iter().min_by_key(|p| p.1), measured.core_pairs.iter().max_by_key(|p| p.1));
    out.push(match (best, worst) {
        (Some(&((a, b), best)), Some(&((c, d), worst))) => {
            let value = if measured.core_pairs.len() == 1 {
                format!("{} there and back, cores {a} and {b}", time(best))
            } else {
                format!(
                    "{} (cores {a} and {b}) to {} (cores {c} and {d}) there and back",
                    time(best),
                    time(worst)
                )
            };
            if worst <= CORE_TO_CORE_OK_NS {
                check.ok(value)
            } else {
                check.warn(value, format!("engine and application on near cores, such as {a} and {b}"))
            }
        }
        _ if measured.pairs_failed > 0 => {
            check.unknown("a core did not answer for two seconds: another process has it")
        }
        _ => check.unknown("one core: nothing to cross"),
    });
    let check =
        Check::new(Area::Measured, "wake-up", "what a parked engine pays for the first packet after a pause");
    out.push(match measured.wakeup_ns {
        Some(ns) if ns <= WAKEUP_OK_NS => check.ok(time(ns)),
        Some(ns) => check.warn(time(ns), "C-states and governor above; or --idle spin on a core set aside"),
        None => check.unknown("it could not be measured"),
    });
    let check =
        Check::new(Area::Measured, "system call", "`packet:` pays one a burst, kernel sockets one a packet");
    out.push(limit(check, measured.syscall_ns, SYSCALL_OK_NS, "mitigations above"));
    let check = Check::new(
        Area::Measured,
        "reading the clock",
        "an engine does it once a duty cycle, a measurement twice a message",
    );
    out.push(limit(check, measured.clock_ns, CLOCK_OK_NS, "clock source above"));
}

fn limit(check: Check, ns: u64, most: u64, fix: &str) -> Finding {
    if ns <= most { check.ok(time(ns)) } else { check.warn(time(ns), fix) }
}
