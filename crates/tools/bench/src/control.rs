//! Control rows of every command: the machine's own floor, and the kernel's round trip on it.

use crate::error::BenchError;
use crate::kernel::{Baseline, Calls, Ends, KernelCell, Protocol, Waiting};
use crate::messages::IdleState;
use crate::messages::MsgWorkload;
use crate::messages::driver::RunResult;
use crate::messages::plan::default_cores;
use crate::messages::run::Cell;
use barewire_base::Duration;
use barewire_measure::{
    ControlRows, CoreToCore, RttNs, allowed_cores, clock_cost, core_to_core_rtt, eventfd_wakeup,
    hiccup_meter, syscall_cost,
};
use serde::{Deserialize, Serialize};
use std::io;

/// How long the machine is watched for hiccups when nothing else was said.
pub const HICCUP_WINDOW: Duration = Duration::from_millis(300);
/// How long the kernel's round trips are timed.
const KERNEL_TIME: Duration = Duration::from_millis(200);
const KERNEL_WARMUP: Duration = Duration::from_millis(50);
/// Wake-ups that are timed.
const WAKEUPS: u32 = 200;

/// A round trip of the kernel's UDP over the loopback, one 1024-byte request at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTrip {
    /// `blocking` or `spin`.
    pub mode: String,
    /// Median in ns. `None`: too few samples.
    pub p50_ns: Option<u64>,
    /// 99th percentile in ns.
    pub p99_ns: Option<u64>,
    /// Longest in ns.
    pub max_ns: Option<u64>,
    /// Round trips.
    pub samples: u64,
}

/// The floor under every figure of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Clock, system call, core to core, wake-up, hiccups.
    #[serde(flatten)]
    pub machine: ControlRows,
    /// Why two cores did not meet, where there are two: somebody else's thread held one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_to_core_missing: Option<String>,
    /// The kernel's UDP. `None`: `kernel_udp_missing` says why.
    pub kernel_udp: Option<KernelTrip>,
    /// Why the kernel's round trip is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_udp_missing: Option<String>,
}

impl Control {
    /// How long [`measure`](Control::measure) takes, about.
    pub fn planned_time(window: Duration) -> Duration {
        window + KERNEL_WARMUP + KERNEL_TIME + Duration::from_millis(200)
    }

    /// Measures all of them; hiccups for `window`. Two cores that do not meet, and a round trip that fails, take no other row with them:
    /// what is missing says why.
    ///
    /// # Errors
    /// When the machine's own rows cannot be had: pins, eventfd.
    pub fn measure(window: Duration) -> io::Result<Control> {
        Control::with(window, core_to_core_rtt)
    }

    fn with(
        window: Duration,
        core_to_core: impl Fn(usize, usize) -> io::Result<CoreToCore>,
    ) -> io::Result<Control> {
        let cores = allowed_cores()?;
        let pair = match cores[..] {
            [a, b, ..] => Some((a, b)),
            _ => None,
        };
        let wakeup = eventfd_wakeup(pair, WAKEUPS)?;
        let hiccups = hiccup_meter(cores.first().copied(), window)?;
        let (core_to_core, core_to_core_missing) = match pair.map(|(a, b)| core_to_core(a, b)).transpose() {
            Ok(met) => (met, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let machine = ControlRows {
            clock: clock_cost(),
            syscall: syscall_cost(),
            core_to_core,
            wakeup_median_ns: wakeup.median_ns,
            wakeup_max_ns: wakeup.max_ns,
            hiccup_max_ns: hiccups.max_gap_ns,
            hiccup_lost_percent: hiccups.lost_ns as f64 * 100.0 / hiccups.window_ns.max(1) as f64,
            hiccup_window_ns: hiccups.window_ns,
        };
        let (kernel_udp, kernel_udp_missing) = match kernel() {
            Ok(trip) => (Some(trip), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Control { machine, core_to_core_missing, kernel_udp, kernel_udp_missing })
    }

    /// Rows that are missing, and why.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("core to core", &self.core_to_core_missing), ("the kernel's UDP", &self.kernel_udp_missing)]
            .into_iter()
            .filter_map(|(what, why)| Some((what, why.as_deref()?)))
    }

    /// All of it in one line.
    pub fn line(&self) -> String {
        let time = |ns: u64| crate::render::latency(ns);
        let m = &self.machine;
        let cores = m
            .core_to_core
            .map_or_else(String::new, |c| format!("core to core and back {}, ", time(c.median_ns)));
        let kernel = self.kernel_udp.as_ref().map(|k| match k.p50_ns {
            Some(p50) => format!(", kernel UDP there and back {} ({})", time(p50), k.mode),
            None => format!(", kernel UDP there and back: only {} samples ({})", k.samples, k.mode),
        });
        format!(
            "Control: clock {}, system call {}, {cores}wake-up {}, longest hiccup in {} {}{}",
            time(m.clock.median_ns),
            time(m.syscall.median_ns),
            time(m.wakeup_median_ns),
            time(m.hiccup_window_ns),
            time(m.hiccup_max_ns),
            kernel.unwrap_or_default(),
        )
    }
}

fn kernel() -> Result<KernelTrip, BenchError> {
    let workload = MsgWorkload {
        duration: KERNEL_TIME,
        warmup: KERNEL_WARMUP,
        runs: 1,
        window: 1,
        ..MsgWorkload::default()
    };
    // Two that spin need two cores.
    let cores = default_cores().ok();
    let waiting = if cores.is_some() { Waiting::Spin } else { Waiting::Blocking };
    let mut cell = KernelCell::new(
        Baseline { protocol: Protocol::Udp, calls: Calls::Each, waiting },
        Ends::loopback(),
        cores,
        workload,
        IdleState::Warm,
        String::new(),
    );
    let RunResult { service, .. } = cell.run(0)?;
    let summary = RttNs::from(service.summary());
    Ok(KernelTrip {
        mode: cell.info().name.mode.clone(),
        p50_ns: summary.p50,
        p99_ns: summary.p99,
        max_ns: summary.max,
        samples: service.samples(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_well;

    #[test]
    fn cores_that_do_not_meet_take_no_other_row_with_them() {
        let held = |_, _| Err(io::Error::new(io::ErrorKind::TimedOut, "the other core does not answer"));
        let control = Control::with(Duration::from_millis(5), held).unwrap();
        let m = &control.machine;
        assert!(m.core_to_core.is_none() && m.wakeup_median_ns > 0 && m.hiccup_window_ns >= 5_000_000);
        let told: Vec<_> = control.missing().filter(|(what, _)| *what == "core to core").collect();
        let wanted = [("core to core", "the other core does not answer")];
        // On one core there is nothing that could be missing.
        assert_eq!(told, if allowed_cores().unwrap().len() > 1 { &wanted[..] } else { &[] });
        let json = serde_json::to_value(&control).unwrap();
        assert!(json["core_to_core"].is_null() && json["wakeup_median_ns"].is_u64(), "{json}");
    }

    #[test]
    fn the_floor_is_measured_in_half_a_second_and_told() {
        // On a machine with much else to do two cores may not meet, and a round trip may take longer than there is time.
        let control = until_well(
            || Control::measure(Duration::from_millis(20)),
            |control| control.as_ref().is_ok_and(|c| c.kernel_udp.as_ref().is_some_and(|k| k.samples > 0)),
        )
        .unwrap();
        assert!(control.machine.hiccup_window_ns >= 20_000_000);
        let kernel = control.kernel_udp.as_ref().unwrap();
        assert!(kernel.samples > 0 && kernel.max_ns.unwrap() > 1_000, "{kernel:?}");
        let line = control.line();
        for part in ["Control: clock ", "longest hiccup in ", "kernel UDP there and back"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let json = serde_json::to_value(&control).unwrap();
        assert!(json["clock"]["median_ns"].is_u64() && json["kernel_udp"]["max_ns"].is_u64(), "{json}");
        assert_eq!(serde_json::from_value::<Control>(json).unwrap(), control);
    }
}
