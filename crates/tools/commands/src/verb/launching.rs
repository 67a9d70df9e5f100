//! Where `bench run` gets its hosts from, and what it reads: the command line's words for launchers and for MITOSIS files.

use super::measured::seconds;
use crate::failure::{Code, Failure};
use barewire_base::Duration;
use barewire_experiment::file;
use barewire_experiment::launcher::k8s::{self, K8sOptions};
use barewire_experiment::launcher::{
    AgentBinary, Launcher, LocalLauncher, SlurmLauncher, SlurmOptions, SshLauncher, SshOptions,
};
use barewire_experiment::mitosis::{self, MitosisOptions, RATE_PATTERN};
use barewire_experiment::plan::{Collect, Plan};
use barewire_lab::Programs;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where hosts come from.
#[derive(clap::Args)]
#[command(next_help_heading = "Hosts")]
pub struct Launching {
    /// Where its hosts come from [default: local]
    #[arg(long, value_enum, value_name = "LAUNCHER")]
    pub launcher: Option<From>,
    /// Where hosts really are, and what they have: a file of `[[host]]` tables, which stand above the experiment's. The name `*` is
    /// every host
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Time without a sign of life after which a host counts as lost, and the controller for a host. Longer where a benchmark fills
    /// the card that carries SSH, too [default: the file's, or 30s]
    #[arg(long, value_name = "TIME", value_parser = silence)]
    silence: Option<Duration>,
    /// ssh: another configuration than ~/.ssh/config
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
    /// ssh: an option of ssh_config, over those of the configuration
    #[arg(long, value_name = "KEY=VALUE")]
    ssh_option: Vec<String>,
    /// ssh: one connection for each host, which its commands share
    #[arg(long)]
    ssh_share: bool,
    /// ssh, slurm: where hosts keep this program [default: ~/.cache/barewire there]
    #[arg(long, value_name = "FOLDER")]
    remote_cache: Option<String>,
    /// slurm: an argument of salloc for all hosts, such as --partition=short
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    slurm: Vec<String>,
    /// slurm: an argument of salloc for the hosts of a role, such as client=--constraint=fast; roles that differ make a
    /// heterogeneous job
    #[arg(long, value_name = "ROLE=ARGUMENT")]
    slurm_role: Vec<String>,
    /// slurm: how long the allocation may stay in the queue [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    slurm_wait: Option<Duration>,
    /// slurm: use this existing allocation, and do not release it
    #[arg(long, value_name = "JOB")]
    slurm_job: Option<u64>,
    /// k8s: the container image, with barewire in its path
    #[arg(long, value_name = "IMAGE", default_value = "barewire:latest")]
    image: String,
    /// k8s: the namespace [default: the creator's]
    #[arg(long, value_name = "NAME")]
    kube_namespace: Option<String>,
    /// k8s: pods use the machine's own network, as its cards need
    #[arg(long)]
    host_network: bool,
    /// k8s: a Linux capability of the pods, such as NET_ADMIN
    #[arg(long, value_name = "NAME")]
    capability: Vec<String>,
    /// k8s: a resource of each pod, such as cpu=4 or hugepages-2Mi=512Mi
    #[arg(long, value_name = "NAME=AMOUNT")]
    resource: Vec<String>,
}

/// What a MITOSIS `run.toml` or a `template.toml` needs beside what it says.
#[derive(clap::Args)]
#[command(next_help_heading = "MITOSIS run.toml and template.toml")]
pub struct Foreign {
    /// The user on every host; a file's own wins
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// How long a run may take: what these files start often never ends by itself [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    run_timeout: Option<Duration>,
    /// How rows are found in every pass's output: an expression with named groups, or `rates`, which the benchmark's client modules
    /// print [default: no rows; the logs are kept]
    #[arg(long, value_name = "REGEX")]
    collect: Option<String>,
    /// Hosts whose passes serve: a run is over when the passes on all others have ended, and rows are theirs
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', requires = "collect")]
    serves: Vec<String>,
    /// Template: which hosts play a role
    #[arg(long, value_name = "ROLE=HOST,...")]
    role: Vec<String>,
    /// Template: the folder on the hosts that its paths are in
    #[arg(long, value_name = "FOLDER")]
    path: Option<String>,
    /// Template: a placeholder over the file's; several values are swept
    #[arg(long, value_name = "NAME=VALUE,...")]
    placeholder: Vec<String>,
}

/// Launchers.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// This machine: the file's lab, or processes side by side
    Local,
    /// Hosts over SSH, through your own OpenSSH client and its configuration; passwords are never used
    Ssh,
    /// Nodes of a Slurm cluster: one exclusive allocation
    Slurm,
    /// Kubernetes: write JobSet manifests to stdout, and start nothing
    K8s,
}

/// How long a run of a foreign file may take.
const FOREIGN_TIMEOUT: Duration = Duration::from_secs(60);

/// A time after which somebody silent may be taken for lost.
fn silence(text: &str) -> Result<Duration, String> {
    let (silence, least) = (seconds(text)?, Duration::from(file::SILENCE_LEAST));
    let short = || format!("at least {} s: agents send a heartbeat each second", least.as_secs_f64());
    (silence >= least).then_some(silence).ok_or_else(short)
}

/// The agent's command line on this machine.
///
/// # Errors
/// When this program's path is not known.
pub fn agent() -> anyhow::Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into_os_string(), "agent".into()])
}

/// `KEY=VALUE`, in two.
fn pair<'a>(option: &str, text: &'a str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=')
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| Failure::new(Code::Usage, format!("{option} {text}: NAME=VALUE is expected")))
}

/// `KEY=VALUE,VALUE`, with its values.
fn lists(option: &str, given: &[String]) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let mut lists = BTreeMap::new();
    for text in given {
        let (key, values) = pair(option, text)?;
        lists.insert(key.to_owned(), values.split(',').map(|value| value.trim().to_owned()).collect());
    }
    Ok(lists)
}

impl Launching {
    /// Puts the plan on the hosts that the command line names, and says when one of them is lost.
    ///
    /// # Errors
    /// When their file is wrong, or does not fit the plan.
    pub fn place(&self, plan: &mut Plan) -> anyhow::Result<()> {
        if let Some(silence) = self.silence {
            plan.method.silence = silence.into();
        }
        let Some(path) = &self.hosts else { return Ok(()) };
        let usage = |why: String| Failure::new(Code::Usage, why);
        let inventory = file::read_hosts(path).map_err(|e| usage(e.to_string()))?;
        plan.place(&inventory).map_err(|why| usage(format!("{}: {why}", path.display())))?;
        Ok(())
    }

    /// The launcher that was asked for, for `plan`; `None` where nothing is started, but [`manifests`](Launching::manifests) are written.
    ///
    /// # Errors
    /// Words that cannot be, or a program that cannot be read.
    pub fn launcher(&self, plan: &Plan) -> anyhow::Result<Option<Box<dyn Launcher>>> {
        let launcher: Box<dyn Launcher> = match self.launcher.unwrap_or(From::Local) {
            From::K8s => return Ok(None),
            From::Local => {
                let own = std::env::current_exe()?;
                Box::new(LocalLauncher::new(agent()?, Programs::of_binary(&own)))
            }
            From::Ssh => {
                let options = SshOptions {
                    config: self.ssh_config.clone(),
                    options: self.ssh_option.clone(),
                    share: self.ssh_share,
                    cache: self.remote_cache.clone(),
                    silence: plan.method.silence,
                    ..SshOptions::default()
                };
                Box::new(SshLauncher::new(AgentBinary::this_program()?, options))
            }
            From::Slurm => {
                let mut of_role: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for text in &self.slurm_role {
                    let (role, argument) = pair("--slurm-role", text)?;
                    of_role.entry(role.to_owned()).or_default().push(argument.to_owned());
                }
                let default = SlurmOptions::default();
                let wait = self.slurm_wait.map(std::time::Duration::from);
                let options = SlurmOptions {
                    ask: self.slurm.clone(),
                    ask_of_role: of_role,
                    queue_wait: wait.unwrap_or(default.queue_wait),
                    job: self.slurm_job,
                    cache: self.remote_cache.clone(),
                    ..default
                };
                Box::new(SlurmLauncher::new(AgentBinary::this_program()?, options))
            }
        };
        Ok(Some(launcher))
    }

    /// The manifests of `plan`, as YAML.
    ///
    /// # Errors
    /// What pods cannot do.
    pub fn manifests(&self, plan: &Plan) -> anyhow::Result<String> {
        let mut resources = BTreeMap::new();
        for text in &self.resource {
            let (name, amount) = pair("--resource", text)?;
            resources.insert(name.to_owned(), amount.to_owned());
        }
        let options = K8sOptions {
            image: self.image.clone(),
            namespace: self.kube_namespace.clone(),
            capabilities: self.capability.clone(),
            host_network: self.host_network,
            resources,
            ..K8sOptions::default()
        };
        let manifests =
            k8s::manifests(plan, &options).map_err(|e| Failure::new(Code::Usage, e.to_string()))?;
        Ok(k8s::yaml(&manifests))
    }
}

impl Foreign {
    /// The first option that was given, by name: files of ours have no use for them.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--user", self.user.is_some()),
            ("--run-timeout", self.run_timeout.is_some()),
            ("--collect", self.collect.is_some()),
            ("--serves", !self.serves.is_empty()),
            ("--role", !self.role.is_empty()),
            ("--path", self.path.is_some()),
            ("--placeholder", !self.placeholder.is_empty()),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }

    /// Reads a MITOSIS file's text, `path` its name in messages: its plan, and what in it has no effect.
    ///
    /// # Errors
    /// In the file, or on the command line.
    pub fn read(
        &self,
        text: &str,
        path: &str,
        folder: &Path,
        black: &[String],
    ) -> anyhow::Result<(Plan, Vec<String>)> {
        let pattern = self.collect.as_deref().map(|text| if text == "rates" { RATE_PATTERN } else { text });
        let collect = pattern
            .map(Collect::pattern)
            .transpose()
            .map_err(|e| Failure::new(Code::Usage, format!("--collect: {e}")))?;
        let timeout = self.run_timeout.unwrap_or(FOREIGN_TIMEOUT);
        let options = MitosisOptions {
            black: black.iter().cloned().collect(),
            user: self.user.clone(),
            timeout: Some(timeout.into()),
            collect,
            serving: self.serves.iter().cloned().collect(),
            roles: lists("--role", &self.role)?,
            path: self.path.clone(),
            placeholders: lists("--placeholder", &self.placeholder)?,
        };
        let file = mitosis::parse(text, path, folder, &options)
            .map_err(|e| Failure::new(Code::Usage, e.to_string()))?;
        Ok((file.plan, file.warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_has_a_unit_and_a_least() {
        assert_eq!(silence("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(silence("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(silence("3"), Ok(Duration::from_secs(3)));
        assert!(silence("2.9s").is_err_and(|why| why.contains("at least 3 s")) && silence("long").is_err());
    }

    #[test]
    fn words_in_pairs() {
        assert_eq!(pair("--x", "client=--constraint=fast").ok(), Some(("client", "--constraint=fast")));
        for bad in ["client", "=x", "x="] {
            assert!(pair("--x", bad).is_err(), "{bad}");
        }
        let lists = lists("--role", &["client=a, b".to_owned(), "server=c".to_owned()]).unwrap_or_default();
        assert_eq!(lists["client"], ["a", "b"]);
        assert_eq!(lists["server"], ["c"]);
    }
}
