//! How agents come to hosts. A launcher obtains hosts, starts the agent on each, and gives the hosts back.
//!
//! The order is always `obtain`, `start` for each host, `release`; `release` is called on every way out, also after an error of the
//! others, also twice.

mod binary;
mod command;
pub mod k8s;
mod local;
mod slurm;
mod ssh;

pub use binary::AgentBinary;
pub use local::LocalLauncher;
pub use slurm::{SlurmLauncher, SlurmOptions};
pub use ssh::{SshLauncher, SshOptions};

use crate::plan::{Plan, RoleHosts};
use barewire_report::run::HardwareClass;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;

/// The name of the machine that runs the experiment, as a host.
pub(crate) const HERE: &str = "here";
/// Hosts of one experiment, at most.
pub const HOSTS_MAX: usize = 4096;

/// One host of an experiment, as its file names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name in the experiment.
    pub name: String,
    /// Where a launcher finds it: an SSH destination, a cluster's node. Empty: the name says it.
    pub reach: String,
    /// The address that other hosts' commands are given (`{ROLE.address}`). Empty: the launcher finds it out.
    pub address: String,
    /// Values for placeholders: `{host.KEY}`.
    pub settings: BTreeMap<String, String>,
}

/// A host that was obtained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Its name in the experiment.
    pub name: String,
    /// The address that other hosts reach it under.
    pub address: String,
    /// Values for placeholders, the experiment's own on top: `{host.KEY}`.
    pub settings: BTreeMap<String, String>,
}

/// What an experiment needs, for those who obtain it.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// The experiment's name.
    pub name: String,
    /// Hosts that its file names, those on the black list left out.
    pub hosts: Vec<HostSpec>,
    /// How many hosts each role needs at most, by role. Hosts of roles that run on named ones are among `hosts`.
    pub roles: Vec<RoleNeed>,
    /// The lab to bring up.
    pub topology: Option<PathBuf>,
    /// How long it takes at the longest: an allocation must last as long. `None`: nobody knows.
    pub longest_s: Option<f64>,
}

/// How many hosts a role needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleNeed {
    /// The role.
    pub role: String,
    /// The hosts that it names.
    pub named: Vec<String>,
    /// How many of these, or of any when it names none.
    pub count: usize,
}

/// The agent on a host: a process here whose standard input, output and error are the agent's. All three are pipes, and the process is
/// in a group of its own (`CommandExt::process_group(0)`): a terminal's Ctrl-C is for the controller, which ends the agents in order.
#[derive(Debug)]
pub struct AgentPipes {
    /// The process. It is killed and waited for when the run is over.
    pub child: Child,
}

/// Why hosts cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The experiment does not fit the launcher: a mistake in the file or on the command line.
    #[error("{0}")]
    Unsuited(String),
    /// The launcher needs what is not there: a program, rights, a cluster.
    #[error("{what}: {why}")]
    Unfit {
        /// What was being done.
        what: String,
        /// What stands in the way.
        why: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A host cannot be reached.
    #[error("host {host}: {why}")]
    Host {
        /// Which.
        host: String,
        /// What happened.
        why: String,
    },
    /// A lab could not be made or removed.
    #[error(transparent)]
    Lab(#[from] barewire_lab::LabError),
    /// The system said no.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody pressed Ctrl-C meanwhile.
    #[error("interrupted")]
    Interrupted,
}

/// Obtains hosts and starts agents on them.
pub trait Launcher {
    /// Its word on the command line.
    fn name(&self) -> &'static str;

    /// What lies between its hosts, as far as it knows.
    fn hardware(&self) -> HardwareClass;

    /// What it does while it obtains hosts, for who waits for it.
    fn obtaining(&self) -> &'static str;

    /// Obtains hosts. `interrupted` is asked now and then while it waits; when it says yes, the launcher stops waiting.
    ///
    /// # Errors
    /// [`LaunchError`]; what was obtained until then is given back by [`release`](Launcher::release).
    fn obtain(
        &mut self,
        needs: &Needs,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<HostFacts>, LaunchError>;

    /// Starts the agent (`barewire agent`) on a host that was obtained, with three pipes.
    ///
    /// # Errors
    /// [`LaunchError`].
    fn start(&mut self, host: &str) -> Result<AgentPipes, LaunchError>;

    /// A host's agent was lost: it may not have cleaned up.
    fn lost(&mut self, _host: &str) {}

    /// Gives the hosts back: agents have ended by then, or were killed. Called on every way out, also twice.
    ///
    /// # Errors
    /// [`LaunchError`] when something stays behind; it says what.
    fn release(&mut self) -> Result<(), LaunchError>;
}

impl Needs {
    /// What `plan` needs.
    pub fn of(plan: &Plan) -> Needs {
        let roles = plan.roles.iter().filter(|role| role.hosts != RoleHosts::Here).map(|role| {
            let named: Vec<String> = match &role.hosts {
                RoleHosts::Named(names) => {
                    names.iter().filter(|name| !plan.black.contains(*name)).cloned().collect()
                }
                _ => Vec::new(),
            };
            let count = match &role.count {
                Some(count) => plan.points.iter().map(|point| count.at(point)).max().unwrap_or(1),
                None => named.len().max(1),
            };
            RoleNeed { role: role.name.clone(), named, count }
        });
        let runs = plan.points.len() as f64 * f64::from(plan.method.runs);
        let of_one = plan.method.timeout.map(|t| t + plan.method.pause + plan.method.ready_timeout);
        Needs {
            name: plan.name.clone(),
            hosts: plan.hosts.iter().filter(|host| !plan.black.contains(&host.name)).cloned().collect(),
            roles: roles.collect(),
            topology: plan.topology.clone(),
            longest_s: of_one.map(|of_one| of_one.as_secs_f64() * runs),
        }
    }
}
