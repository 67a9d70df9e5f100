//! This machine: the experiment's lab, an agent in each of its hosts; or, without a lab, agents side by side.

use super::{AgentPipes, HostFacts, LaunchError, Launcher, Needs};
use crate::agent::{Family, KEEPS, RUN_MARK, end_family, remove_stale};
use crate::run::agent_command;
use barewire_lab::{HostPlan, Lab, LabError, Programs, Topology};
use barewire_measure::realtime_ns;
use barewire_netns::{is_root_capable, sweep_stale};
use barewire_report::run::HardwareClass;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Child, ChildStdin};

/// Longest name of a lab.
const LAB_NAME_MAX: usize = 32;
/// The name of the one host, when neither lab nor file names any.
const ONE_HOST: &str = "local";

/// Hosts on this machine.
#[derive(Debug)]
pub struct LocalLauncher {
    agent: Vec<OsString>,
    labs: Lab,
    /// The lab that is up, and who takes it down when we cannot.
    lab: Option<(String, Keeper)>,
    /// Everything that belongs to this run has it in its environment.
    mark: String,
}

#[derive(Debug)]
struct Keeper {
    child: Child,
    stdin: ChildStdin,
}

impl LocalLauncher {
    /// Starts agents by `agent` (`barewire agent`); labs are of `programs`.
    pub fn new(agent: Vec<OsString>, programs: Programs) -> LocalLauncher {
        let mark = format!("{}-{:x}", std::process::id(), realtime_ns());
        LocalLauncher { agent, labs: Lab::new(&Lab::default_folder(), programs), lab: None, mark }
    }

    fn command(&self) -> Result<std::process::Command, LaunchError> {
        let mut command = agent_command(&self.agent)?;
        command.env(RUN_MARK, &self.mark);
        Ok(command)
    }

    fn bring_up(
        &mut self,
        mut topology: Topology,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<HostFacts>, LaunchError> {
        is_root_capable().map_err(|why| LaunchError::Unfit {
            what: format!("lab {}", topology.name),
            why: why.to_string(),
            hint: Some(why.hint().to_owned()),
        })?;
        // What killed runs have left.
        sweep_stale().map_err(LabError::from)?;
        // A name of its own: the same lab may be up, and another run of the same experiment.
        let unique = format!("-x{}", std::process::id());
        topology.name.truncate(LAB_NAME_MAX - unique.len());
        topology.name.push_str(&unique);
        // The keeper first: from now on nothing can be left.
        let keeper = self.start_keeper(&topology.name)?;
        self.lab = Some((topology.name.clone(), keeper));
        self.labs.up_with(&topology, &mut |_, _, _| !interrupted()).map_err(|error| match error {
            LabError::Interrupted => LaunchError::Interrupted,
            other => other.into(),
        })?;
        Ok(topology.hosts.iter().map(facts_of).collect())
    }

    fn start_keeper(&self, lab: &str) -> Result<Keeper, LaunchError> {
        let failed = |source| LaunchError::Io { doing: "starting the lab's keeper".to_owned(), source };
        let mut command = agent_command(&self.agent)?;
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).env(KEEPS, lab);
        let mut child = command.spawn().map_err(failed)?;
        let stdin = child.stdin.take().ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Keeper { child, stdin })
    }
}

/// What placeholders are told of a host of a lab.
fn facts_of(host: &HostPlan) -> HostFacts {
    let mut settings = BTreeMap::new();
    let mut address = String::new();
    for (i, interface) in host.interfaces.iter().enumerate() {
        let mut tell = |key: &str, value: String| {
            if i == 0 {
                settings.insert(key.to_owned(), value.clone());
            }
            settings.insert(format!("{}.{key}", interface.name), value);
        };
        tell("interface", interface.name.clone());
        tell("mac", interface.mac.to_string());
        let v4 = interface.addresses.iter().find(|(a, _)| a.is_ipv4());
        let v6 = interface.addresses.iter().find(|(a, _)| a.is_ipv6());
        if let Some((v6, _)) = v6 {
            tell("ip6", v6.to_string());
        }
        if let Some((ip, prefix)) = v4.or(v6) {
            tell("cidr", format!("{ip}/{prefix}"));
            tell("address", ip.to_string());
            if address.is_empty() {
                address = ip.to_string();
            }
        }
    }
    // `{host.address}` is known without it.
    settings.remove("address");
    HostFacts { name: host.name.clone(), address, settings }
}

impl Launcher for LocalLauncher {
    fn name(&self) -> &'static str {
        "local"
    }

    fn obtaining(&self) -> &'static str {
        "creating the hosts of the lab"
    }

    fn hardware(&self) -> HardwareClass {
        HardwareClass::OneMachine
    }

    fn obtain(
        &mut self,
        needs: &Needs,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<HostFacts>, LaunchError> {
        if let Some(path) = &needs.topology {
            let topology = Topology::read(path).map_err(|e| LaunchError::Unsuited(e.to_string()))?;
            return self.bring_up(topology, interrupted);
        }
        let loopback = |name: &str| HostFacts {
            name: name.to_owned(),
            address: "127.0.0.1".to_owned(),
            settings: BTreeMap::from([("interface".to_owned(), "lo".to_owned())]),
        };
        if needs.hosts.is_empty() {
            let most = needs.roles.iter().map(|role| role.count).sum::<usize>();
            return match most {
                0 | 1 => Ok(vec![loopback(ONE_HOST)]),
                many => Ok((1..=many).map(|n| loopback(&format!("{ONE_HOST}{n}"))).collect()),
            };
        }
        Ok(needs.hosts.iter().map(|host| loopback(&host.name)).collect())
    }

    fn start(&mut self, host: &str) -> Result<AgentPipes, LaunchError> {
        let mut command = self.command()?;
        let failed = |source| LaunchError::Io { doing: format!("starting the agent of {host}"), source };
        let child = match &self.lab {
            None => command.spawn(),
            Some((lab, _)) => self.labs.namespace(lab, host)?.spawn_in(&mut command),
        };
        child.map(|child| AgentPipes { child }).map_err(failed)
    }

    fn release(&mut self) -> Result<(), LaunchError> {
        // Agents that were killed may have left something; it is known by its mark, wherever it has gone.
        let mark = format!("{RUN_MARK}={}", self.mark);
        let ended = end_family(Family::Marked(&mark), &|_| false);
        // Their folders, too.
        remove_stale();
        let mut down: Result<(), LabError> = Ok(());
        if let Some((lab, mut keeper)) = self.lab.take() {
            down = self.labs.down(&lab).map(drop);
            if down.is_ok() {
                let _ = keeper.stdin.write_all(b"down\n");
            }
            // Without that word it tries itself.
            drop(keeper.stdin);
            let _ = keeper.child.wait();
        }
        down?;
        match ended.left {
            0 => Ok(()),
            left => Err(LaunchError::Unsuited(format!("{left} processes of the run do not end"))),
        }
    }
}

impl Drop for LocalLauncher {
    fn drop(&mut self) {
        // Released before, but for a panic.
        if self.lab.is_some() {
            let _ = self.release();
        }
    }
}
