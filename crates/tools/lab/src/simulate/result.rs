//! What came of a simulation.

use super::{Work, Workload};
use crate::LinkReport;
use crate::topology::Topology;
use barewire_measure::Histogram;
use std::fmt::Write as _;

/// What came of it. Everything in it is simulated.
#[derive(Debug)]
pub struct Simulated {
    /// The lab.
    pub lab: String,
    /// What it replays from.
    pub seed: u64,
    /// Hosts in the world.
    pub hosts: usize,
    /// Hosts that are clients; a host may be a server, too.
    pub clients: usize,
    /// What they did.
    pub workload: Workload,
    /// Flows, or connections, that opened.
    pub opened: u64,
    /// Flows that did not open, or ended before their time; connections that did not open.
    pub failed: u64,
    /// Messages that came back whole, or connections that were opened and closed again.
    pub completed: u64,
    /// In ns of virtual time: round trips of messages, or from asking for a connection until it can send.
    pub times: Histogram,
    /// What was completed per second of virtual time, over all clients: each counts from the time when it could send, or first asked,
    /// until it was to end.
    pub rate_per_s: f64,
    /// Segments, or messages of the connection manager, that hosts sent again.
    pub resent: u64,
    /// What link nodes did, by link.
    pub links: Vec<(String, LinkReport)>,
    /// Hash over every delivered frame: two runs that have the same are the same.
    pub trace_hash: u64,
    /// Events handled.
    pub events: u64,
    /// How the world differs from what the file says.
    pub notes: Vec<String>,
}

impl Simulated {
    /// Nothing yet, of `hosts` of which some are `clients`.
    pub(super) fn new(
        topology: &Topology,
        workload: Workload,
        hosts: usize,
        clients: usize,
        notes: Vec<String>,
    ) -> Simulated {
        Simulated {
            lab: topology.name.clone(),
            seed: topology.seed,
            hosts,
            clients,
            workload,
            opened: 0,
            failed: 0,
            completed: 0,
            times: Histogram::new(),
            rate_per_s: 0.0,
            resent: 0,
            links: Vec::new(),
            trace_hash: 0,
            events: 0,
            notes,
        }
    }

    /// For people; the first word says what it is.
    pub fn to_text(&self) -> String {
        let w = &self.workload;
        let us = |q: f64| match self.times.quantile(q).value() {
            Some(ns) => format!("{:.1}", ns as f64 / 1000.0),
            None => self.times.quantile(q).to_string(),
        };
        let mut out = format!(
            "simulated: lab {}, seed {}, {} hosts, {} of virtual time\n",
            self.lab, self.seed, self.hosts, w.duration
        );
        // Writing to a String cannot fail.
        let _ = match w.work {
            Work::Messages => writeln!(
                out,
                "  {} flows, {} failed; {} messages of {} bytes there and back, window {}; {:.1} a second, {:.1} Mbit/s each way; \
                 {} segments sent again",
                self.opened,
                self.failed,
                self.completed,
                w.message_bytes,
                w.window,
                self.rate_per_s,
                self.rate_per_s * f64::from(w.message_bytes) * 8.0 / 1e6,
                self.resent
            ),
            Work::Connections => writeln!(
                out,
                "  {} connections opened, {} failed, {} closed again, window {}; {:.1} a second; {} messages of the connection \
                 manager sent again",
                self.opened, self.failed, self.completed, w.window, self.rate_per_s, self.resent
            ),
        };
        let times = match w.work {
            Work::Messages => "round trip",
            Work::Connections => "set-up",
        };
        let _ =
            writeln!(out, "  {times} us: p50 {} p99 {} p99.9 {} (simulated)", us(0.5), us(0.99), us(0.999));
        for (name, report) in &self.links {
            for (direction, d) in [("forward", &report.forward), ("reverse", &report.reverse)] {
                let f = &d.faults;
                let _ = writeln!(
                    out,
                    "  {name} {direction}: {} in, {} out; lost {}, outage {}, queue full {}, corrupted {}, duplicated {}, \
                     reordered {}, marked {}",
                    d.received,
                    d.sent,
                    f.lost,
                    f.outage,
                    f.queue_full,
                    f.corrupted,
                    f.duplicated,
                    f.reordered,
                    f.marked
                );
            }
        }
        self.notes.iter().for_each(|note| {
            let _ = writeln!(out, "  note: {note}");
        });
        let _ = writeln!(out, "  {} events, trace {:016x}", self.events, self.trace_hash);
        out
    }
}
