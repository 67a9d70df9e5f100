//! Control rows: the floor under the figures, on the hosts that measure, before anything else.

use super::{Controller, RunOutcome, Stop, assign};
use crate::launcher::HostFacts;
use crate::plan::{Collect, MergePlan, MethodPlan, Plan, RoleHosts, RolePlan, StopSignal, Template};
use barewire_report::import::CONTROL;
use barewire_report::run::HardwareClass;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long control rows may take.
const WAIT: Duration = Duration::from_secs(30);

/// What measures control rows: one command on each host that collects, of which only the first is asked where all are one machine.
/// It prints an object whose `control` they are.
pub(super) struct Controls {
    plan: Plan,
    /// Places of the hosts.
    hosts: Vec<usize>,
}

impl Controls {
    /// `command` on the hosts of `plan`; `None` where nothing measures.
    pub(super) fn of(
        plan: &Plan,
        hosts: &[HostFacts],
        hardware: HardwareClass,
        command: &[String],
    ) -> Option<Controls> {
        let assigned = assign(plan, hosts, plan.points.first()?).ok()?;
        let collecting = plan.roles.iter().zip(assigned).filter(|(role, _)| role.collect.is_some());
        let mut asked: Vec<usize> = collecting.flat_map(|(_, hosts)| hosts).collect();
        asked.sort_unstable();
        asked.dedup();
        if hardware == HardwareClass::OneMachine {
            asked.truncate(1);
        }
        if asked.is_empty() || command.is_empty() {
            return None;
        }
        let role = RolePlan {
            cleanup: Vec::new(),
            name: CONTROL.to_owned(),
            hosts: RoleHosts::Free,
            count: None,
            command: command.iter().map(Template::literal).collect(),
            cwd: None,
            environment: BTreeMap::new(),
            ready: None,
            settle: Duration::ZERO,
            collect: Some(Collect::Json),
            stop: StopSignal::Terminate,
        };
        let plan = Plan {
            method: MethodPlan { runs: 1, timeout: Some(WAIT), ..MethodPlan::default() },
            points: vec![Vec::new()],
            roles: vec![role],
            merge: MergePlan { apart: true, ..MergePlan::default() },
            // Documents of kilobytes are for the folder.
            quiet: hosts.iter().map(|host| host.name.clone()).collect(),
            ..plan.clone()
        };
        Some(Controls { plan, hosts: asked })
    }
}

impl<'a> Controller<'a> {
    /// The control rows of each host, or why there are none.
    pub(super) fn measure_controls(
        &mut self,
        controls: &'a Controls,
    ) -> Result<Result<Vec<Map<String, Value>>, String>, Stop> {
        let plan = std::mem::replace(&mut self.plan, &controls.plan);
        let outcome = self.run_cell(&Vec::new(), 1, std::slice::from_ref(&controls.hosts));
        self.plan = plan;
        Ok(rows(outcome?))
    }
}

/// The control rows of each host, with its name.
fn rows(outcome: RunOutcome) -> Result<Vec<Map<String, Value>>, String> {
    let of_host = |mut row: Map<String, Value>| match (row.remove(CONTROL), row.remove("host")) {
        (Some(Value::Object(mut control)), host) => {
            control.extend(host.map(|host| ("host".to_owned(), host)));
            Ok(control)
        }
        _ => Err(format!("the output has no `{CONTROL}`")),
    };
    outcome?.rows.into_iter().map(|(_, row)| of_host(row.row)).collect()
}
