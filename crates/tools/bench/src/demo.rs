//! The demonstration: each of the four programs for some seconds beside what is known.

use crate::messages::plan::{Mode, Settings, System, planned_systems, seed_systems};
use crate::messages::{IdleState, MsgWorkload};
use crate::row::Row;
use crate::switch::plan::Baseline as Known;
use crate::switch::workload::Masks;
use crate::{feed, rdma, switch};
use barewire_base::Duration;
use barewire_engine::IdleStrategy;
use barewire_switch::prepared::EngineKind;

/// Requests in flight: E1 and E2 of the published tables.
const WINDOWS: [u32; 2] = [1, 32];
/// Each row is measured in so many parts: with fewer there is no verdict.
pub const ROUNDS: u32 = 5;
/// Not measured, before each run of messages.
const WARMUP: Duration = Duration::from_millis(200);
/// Loads of the sweep, as shares of what a system carried at most.
/// The last is more than it carries: where the knee is.
const LOADS: [f64; 5] = [0.1, 0.4, 0.7, 0.95, 1.2];
/// Rounds of the load sweep, which is a picture and not a verdict.
pub const SWEEP_ROUNDS: u32 = 3;
/// Threads of the scaling.
const THREADS: [u32; 3] = [1, 2, 4];
/// Time between two packets of market data, besides none: that of the published tables.
const GAP: Duration = Duration::from_millis(5);

/// What is demonstrated, and on what.
#[derive(Clone, Debug)]
pub struct Demo {
    /// Measured time of a row.
    pub seconds: Duration,
    /// Hosts can be made here.
    pub with_hosts: bool,
    /// Cores of client and server.
    pub cores: Option<(usize, usize)>,
    /// The command, for rows.
    pub command: String,
}

impl Demo {
    fn settings(&self, workload: MsgWorkload) -> Settings {
        Settings {
            workload,
            idle: None,
            idle_state: None,
            cores: self.cores,
            options: String::new(),
            command: self.command.clone(),
        }
    }

    /// The message systems, each with its workloads: system by system, as the table shows them.
    pub fn messages(&self) -> Vec<(System, Settings)> {
        let of_window = |window| {
            self.settings(MsgWorkload {
                window,
                duration: self.seconds.div(u64::from(ROUNDS)),
                warmup: WARMUP,
                runs: ROUNDS,
                ..MsgWorkload::default()
            })
        };
        let systems = crate::messages::plan::demo_systems(self.with_hosts);
        systems.into_iter().flat_map(|s| WINDOWS.map(|window| (s.clone(), of_window(window)))).collect()
    }

    /// The systems of the load sweep: the fastest of ours on these wires, and the kernel's TCP that polls as it does, batching and not.
    fn swept(&self) -> Vec<System> {
        let over = if self.with_hosts { "xdp" } else { "mem" };
        let wanted = |s: &System| match s {
            System::Aead => false,
            System::Barewire { mode, over: wires } => *mode == Mode::Embedded && wires.as_str() == over,
            System::Kernel { .. } => s.is_spinning_tcp(),
        };
        seed_systems(self.with_hosts).into_iter().filter(wanted).collect()
    }

    /// Loads from a tenth to a fifth more than what each of the swept systems has carried in `rows`, each system its own. Systems that were
    /// not measured are left out.
    pub fn sweep(&self, rows: &[Row]) -> Vec<(System, Settings)> {
        let mut all = Vec::new();
        for share in LOADS {
            for system in self.swept() {
                let (name, over) = system.row_name(self.with_hosts);
                let best = rows
                    .iter()
                    .filter(|r| r.subject.system == name && r.subject.over.as_deref() == Some(over))
                    .filter(|r| r.void.is_none())
                    .filter(|r| !matches!(r.subject.mode.as_deref(), Some("daemon" | "embedded-one-thread")))
                    .filter_map(|r| r.number("rate_per_s"))
                    .fold(0.0, f64::max);
                if best < 100.0 {
                    continue;
                }
                let rate = Some(rounded(best * share));
                all.push((system, self.settings(self.loaded(rate))));
            }
        }
        all
    }

    fn loaded(&self, rate: Option<f64>) -> MsgWorkload {
        MsgWorkload {
            // A stall may queue so many; more are refused, and then the generator is late.
            window: 256,
            rate,
            duration: self.seconds.div(u64::from(ROUNDS)),
            warmup: WARMUP,
            runs: SWEEP_ROUNDS,
            ..MsgWorkload::default()
        }
    }

    /// The switch, with the kernel's bridge and bmv2 where they can be.
    ///
    /// # Errors
    /// In words, when the router's program cannot be had.
    pub fn switches(&self) -> Result<Vec<switch::plan::Request>, String> {
        let alone = switch::plan::Request {
            overs: vec![switch::plan::Over::Mem],
            programs: vec!["simple_router".parse()?],
            engines: vec![EngineKind::Native, EngineKind::Interpreter],
            sizes: vec![64],
            entries: vec![1_000],
            masks: vec![Masks::Some(64)],
            flows: None,
            seconds: self.seconds.div(u64::from(ROUNDS)),
            runs: ROUNDS,
            packets: 200_000,
            baselines: vec![Known::Bridge, Known::Bmv2],
            tests: vec![switch::plan::Test::Tcp, switch::plan::Test::Latency],
            iperf: false,
            offloads: false,
            gso: false,
            gro: false,
            idle: IdleStrategy::default(),
            idle_state: IdleState::Warm,
            options: String::new(),
            core: self.cores.map(|c| c.0),
            seed: 1,
            command: self.command.clone(),
        };
        // Programs in the kernel need more of it than ports do.
        let engines = match self.with_hosts && switch::redirect::is_possible() {
            true => vec![EngineKind::Native, EngineKind::Kernel],
            false => vec![EngineKind::Native],
        };
        let between =
            switch::plan::Request { overs: vec![switch::plan::Over::Xdp], engines, ..alone.clone() };
        Ok(if self.with_hosts { vec![between, alone] } else { vec![alone] })
    }

    /// The feed handler: a socket that sleeps is the kernel's usual way, what polls stands beside it.
    pub fn feeds(&self) -> Vec<feed::plan::Request> {
        let engines = match self.with_hosts {
            true => vec![
                feed::live::EngineKind::Socket,
                feed::live::EngineKind::SocketSpin,
                feed::live::EngineKind::Xdp,
            ],
            false => vec![feed::live::EngineKind::Mem],
        };
        vec![feed::plan::Request {
            engines,
            bases: vec![feed::Base::App, feed::Base::Stamp],
            whats: vec![feed::probe::What::Book],
            gaps: vec![GAP, Duration::ZERO],
            workloads: vec![feed::traffic::Workload::OneEntry],
            instruments: 100,
            both_lines: false,
            keep_warm: true,
            // A receiver that sleeps at its best; `bench feed` shows it on cores that sleep, too.
            idle_state: Some(IdleState::Warm),
            packets: 20_000,
            seconds: self.seconds.div(2),
            runs: ROUNDS,
            cores: self.cores,
            seed: 1,
            command: self.command.clone(),
        }]
    }

    /// RDMA connections by threads, with the kernel's TCP beside each.
    pub fn connections(&self) -> Vec<rdma::plan::Request> {
        use rdma::live::Over;
        use rdma::plan::{Baseline, Request};
        let over = if self.with_hosts { Over::Xdp } else { Over::Mem };
        vec![Request {
            threads: THREADS.to_vec(),
            baseline: Some(Baseline::KernelTcp),
            seconds: self.seconds.div(u64::from(ROUNDS)),
            runs: ROUNDS,
            cores: self.cores,
            ..Request::new(over, &self.command)
        }]
    }

    /// How long messages, the sweep, the switch, the feed and the connections take, about.
    ///
    /// # Errors
    /// As [`switches`](Demo::switches).
    pub fn planned_times(&self) -> Result<[Duration; 5], String> {
        let sum = |parts: &mut dyn Iterator<Item = Duration>| parts.fold(Duration::ZERO, |a, b| a + b);
        let messages = self.messages();
        let messages =
            messages.iter().map(|(system, settings)| planned_systems(std::slice::from_ref(system), settings));
        let sweep = planned_systems(&self.swept(), &self.settings(self.loaded(None)))
            .saturating_mul(LOADS.len() as u64);
        Ok([
            sum(&mut { messages }),
            sweep,
            sum(&mut self.switches()?.iter().map(|r| r.planned_time())),
            sum(&mut self.feeds().iter().map(|r| r.planned_time())),
            sum(&mut self.connections().iter().map(|r| r.planned_time())),
        ])
    }
}

/// Two digits: a load that people can read.
fn rounded(rate: f64) -> f64 {
    let step = 10f64.powf(rate.log10().floor() - 1.0);
    (rate / step).round() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo(with_hosts: bool) -> Demo {
        Demo {
            seconds: Duration::from_secs(2),
            with_hosts,
            cores: Some((0, 1)),
            command: "barewire demo".to_owned(),
        }
    }

    #[test]
    fn it_ends_well_within_five_minutes() {
        for with_hosts in [true, false] {
            let parts = demo(with_hosts).planned_times().unwrap();
            let whole = parts.iter().fold(Duration::ZERO, |a, b| a + *b).as_secs_f64();
            assert!((20.0..290.0).contains(&whole), "{whole}: {parts:?}");
            assert!(parts.iter().all(|p| *p > Duration::ZERO), "{parts:?}");
        }
    }

    #[test]
    fn each_system_is_swept_up_to_what_it_carried() {
        let demo = demo(false);
        assert_eq!(demo.swept().len(), 3);
        assert!(demo.sweep(&[]).is_empty(), "nothing is known of any");
        let info = crate::CellInfo {
            name: crate::SystemName {
                system: "barewire".to_owned(),
                mode: "embedded".to_owned(),
                over: "mem".to_owned(),
                idle: None,
            },
            workload: MsgWorkload::default(),
            idle_state: crate::IdleState::Warm,
            command: String::new(),
        };
        let mut row = info.row(&[]);
        row.set("rate_per_s", 1_234_567.0);
        let rates: Vec<f64> = demo.sweep(&[row]).iter().filter_map(|(_, s)| s.workload.rate).collect();
        assert_eq!(rates, [120_000.0, 490_000.0, 860_000.0, 1_200_000.0, 1_500_000.0]);
    }
}
