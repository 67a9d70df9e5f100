//! Labs of this machine: up, down, exec, status.

mod build;
mod programs;

pub(crate) use build::{node_config, switch_port};
pub use programs::Programs;

use crate::process::{NetId, end_all, net_id};
use crate::progress::{Steps, silent};
use crate::state::{Locked, NodeKind, Phase, State, Store, drafts_of, namespaces_of, pages_of};
use crate::{LabError, Progress, Running, Topology};
use barewire_engine::CountersReader;
use barewire_netns::{NETNS_DIR, Namespace};
use barewire_text::suggest;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What a link node's own counters begin with, beside those of its engine.
const LINK_COUNTERS: &str = "link.";

/// The labs of this machine, and the programs that they need.
#[derive(Clone, Debug)]
pub struct Lab {
    store: Store,
    programs: Programs,
}

/// What [`Lab::down`] has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// There was a state, whole or not.
    pub had_state: bool,
    /// Namespaces whose names are gone.
    pub namespaces: Vec<String>,
    /// Processes that were ended.
    pub processes: usize,
    /// Processes that still run inside: this one's own parents, which are left alone, or what the kernel did not end in
    /// time. The namespaces they are in stay, nameless, until they end.
    pub left: Vec<u32>,
}

impl Removed {
    /// Whether there was anything of the lab.
    pub fn was_there(&self) -> bool {
        self.had_state || !self.namespaces.is_empty() || self.processes > 0
    }
}

/// How a lab is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it consists of.
    pub state: State,
    /// Namespaces of it that are not there.
    pub missing: Vec<String>,
    /// Its processes.
    pub processes: Vec<ProcessStatus>,
    /// Its impaired links.
    pub links: Vec<LinkStatus>,
}

impl Status {
    /// Whether everything is there and runs.
    pub fn is_whole(&self) -> bool {
        self.state.phase == Phase::Up && self.missing.is_empty() && self.processes.iter().all(|p| p.alive)
    }
}

/// How a process of a lab is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// What it is.
    pub what: String,
    /// Its id.
    pub pid: u32,
    /// Whether it runs.
    pub alive: bool,
    /// Where it writes what it has to say.
    pub log: Option<PathBuf>,
}

/// What a link node counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The link.
    pub name: String,
    /// Every counter that is not zero, by name: `forward.drop.lost`, `reverse.sent`, `b.drop.ring_full`.
    pub counters: Vec<(String, u64)>,
}

impl Lab {
    /// The labs whose files are in `folder`.
    pub fn new(folder: &Path, programs: Programs) -> Lab {
        Lab { store: Store::new(folder), programs }
    }

    /// Where files of labs are: `/run/barewire-lab` for root, else below `$XDG_RUNTIME_DIR`. Not in `/run/barewire`, which is the
    /// daemon's user's: these files say what root removes and whom it ends.
    pub fn default_folder() -> PathBuf {
        let user = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
        match user {
            Some(dir) if !rustix::process::geteuid().is_root() => dir.join("barewire-lab"),
            _ => PathBuf::from("/run/barewire-lab"),
        }
    }

    /// Makes everything that the topology declares, and waits until frames pass. What was made stays when this process
    /// ends.
    ///
    /// # Errors
    /// [`LabError::Exists`] when a lab of this name is there, whole or not; whatever went wrong else, and nothing is left
    /// then.
    pub fn up(&self, topology: &Topology) -> Result<State, LabError> {
        self.up_with(topology, &mut silent)
    }

    /// As [`up`](Lab::up), and tells how far it has come. When `progress` wants no more, what was made is removed.
    ///
    /// # Errors
    /// As there, and [`LabError::Interrupted`].
    pub fn up_with(&self, topology: &Topology, progress: &mut Progress<'_>) -> Result<State, LabError> {
        let name = &topology.name;
        let locked = self.lock(name, progress)?;
        // A file that cannot be read is a lab too, as far as making another goes.
        let how = match self.store.read(name) {
            Ok(None) if namespaces_of(name).is_empty() => None,
            Ok(None) => Some(", without a file that says what it is"),
            Ok(Some(State { phase: Phase::Making, .. })) => Some(", half made"),
            Ok(Some(_)) => Some(""),
            Err(_) => Some(", with a file that cannot be read"),
        };
        if let Some(how) = how {
            return Err(LabError::Exists { name: name.clone(), how });
        }
        let mut state = State::planned(topology);
        self.store.write(&state)?;
        let mut steps = Steps::new(build::steps(topology), progress);
        let built = build::build(topology, &mut state, &self.store, &self.programs, &mut steps);
        state.phase = Phase::Up;
        match built.and_then(|()| self.store.write(&state)) {
            Ok(()) => Ok(state),
            Err(e) => {
                // The first error is the one to tell; what cannot be removed now is still in the file.
                let _ = self.remove(name, locked, &mut silent);
                Err(e)
            }
        }
    }

    /// Removes a lab, whole or half made, whoever made it: ends its processes (those recorded, if they are still the same,
    /// and all that run in its namespaces), takes its namespaces away, and with them every interface, then its files. A lab
    /// that is not there is no error.
    ///
    /// # Errors
    /// [`LabError`] when something cannot be removed; the state stays then, and calling again goes on.
    pub fn down(&self, name: &str) -> Result<Removed, LabError> {
        self.down_with(name, &mut silent)
    }

    /// As [`down`](Lab::down), and tells how far it has come. When `progress` wants no more, the rest stays, for the next call.
    ///
    /// # Errors
    /// As there, and [`LabError::Interrupted`].
    pub fn down_with(&self, name: &str, progress: &mut Progress<'_>) -> Result<Removed, LabError> {
        let locked = self.lock(name, progress)?;
        self.remove(name, locked, progress)
    }

    fn lock(&self, name: &str, progress: &mut Progress<'_>) -> Result<Locked, LabError> {
        let mut waiting = Steps::new(0, progress);
        self.store
            .lock(name, &mut || waiting.look("waiting for the process that is creating or removing this lab"))
    }

    fn remove(&self, name: &str, locked: Locked, progress: &mut Progress<'_>) -> Result<Removed, LabError> {
        // A damaged state must not keep anybody from removing: names tell the rest.
        let (state, had_state) = match self.store.read(name) {
            Ok(state) => (state.clone(), state.is_some()),
            Err(_) => (None, true),
        };
        let recorded = state.as_ref().map(|s| s.processes.clone()).unwrap_or_default();
        let mut names: BTreeSet<String> = namespaces_of(name).into_iter().collect();
        let path_of = |name: &String| Path::new(NETNS_DIR).join(name);
        let ids: HashSet<NetId> = names.iter().filter_map(|n| net_id(&path_of(n)).ok()).collect();
        let mut steps = Steps::new(recorded.len() + names.len(), progress);
        steps.look("processes")?;
        // A file that is no mount yet (its maker was killed in between) lies on the folder's own file system, which no
        // process is in as its network namespace.
        let (processes, left) = end_all(&recorded, &ids);
        recorded.iter().try_for_each(|process| steps.step(&process.what))?;
        // Whoever was ended may have been the maker's child, about to make another.
        names.extend(namespaces_of(name));
        for namespace in &names {
            Namespace::remove_kept(namespace)?;
            steps.step(&format!("namespace {namespace}"))?;
        }
        // Those that are recorded, wherever the maker's environment put them; without a record, by their names.
        let pages = state.map_or_else(|| pages_of(name), |state| state.pages);
        let drafts = drafts_of(&pages);
        for path in pages.into_iter().chain(drafts) {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(LabError::system(format!("remove {}", path.display()))(e));
                }
                _ => {}
            }
        }
        self.store.forget(name, locked)?;
        Ok(Removed { had_state, namespaces: names.into_iter().collect(), processes, left })
    }

    /// The names of all labs that have a state.
    pub fn list(&self) -> Vec<String> {
        self.store.list()
    }

    /// What a lab consists of.
    ///
    /// # Errors
    /// [`LabError::NoSuch`] with the nearest name; [`LabError::State`].
    pub fn state(&self, name: &str) -> Result<State, LabError> {
        self.store.read(name)?.ok_or_else(|| {
            let known = self.list();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            no_such("lab", name, &known)
        })
    }

    /// How a lab is doing: what is missing, which processes run, what link nodes count.
    ///
    /// # Errors
    /// As [`state`](Lab::state).
    pub fn status(&self, name: &str) -> Result<Status, LabError> {
        let state = self.state(name)?;
        let there = |n: &&str| !Path::new(NETNS_DIR).join(n).exists();
        let missing = state.namespaces().filter(there).map(str::to_owned).collect();
        let processes = state
            .processes
            .iter()
            .map(|p| ProcessStatus {
                what: p.what.clone(),
                pid: p.pid,
                alive: p.is_alive(),
                log: p.log.clone(),
            })
            .collect();
        let links = state
            .links
            .iter()
            .filter_map(|link| Some((link, link.counters.as_ref()?)))
            .map(|(link, page)| LinkStatus {
                name: link.name.clone(),
                counters: state.page(page).map(counters).unwrap_or_default(),
            })
            .collect();
        Ok(Status { missing, processes, links, state })
    }

    /// Starts a program in a host (or in a switch's namespace), with our standard streams, as a process group of its own.
    ///
    /// # Errors
    /// [`LabError::NoSuch`] for a lab or host that is not there; [`LabError::Program`] for a program that does not start.
    pub fn exec(&self, name: &str, node: &str, argv: &[OsString]) -> Result<Running, LabError> {
        let namespace = self.namespace(name, node)?;
        Running::start(&namespace, node, argv)
    }

    /// The namespace of a host or switch, to make sockets in or to start threads.
    ///
    /// # Errors
    /// [`LabError::NoSuch`]; [`LabError::System`] when it is not there any more.
    pub fn namespace(&self, name: &str, node: &str) -> Result<Namespace, LabError> {
        let state = self.state(name)?;
        let found = state.nodes.iter().find(|n| n.name == node).ok_or_else(|| {
            let known: Vec<&str> = state.nodes.iter().map(|n| n.name.as_str()).collect();
            no_such("host or switch", node, &known)
        })?;
        Ok(Namespace::open_kept(&found.namespace)?)
    }

    /// The namespace and interface of `place`: `NODE:INTERFACE`, `NODE` (its first interface), or a link (its first end).
    pub(crate) fn place(&self, name: &str, place: &str) -> Result<(Namespace, String), LabError> {
        let state = self.state(name)?;
        let (node, interface) = match place.split_once(':') {
            Some((node, interface)) => (node, Some(interface.to_owned())),
            None => (place, None),
        };
        if let Some(found) = state.nodes.iter().find(|n| n.name == node) {
            let namespace = Namespace::open_kept(&found.namespace)?;
            let ends = state.links.iter().flat_map(|link| &link.ends).filter(|end| end.node == node);
            let interfaces: Vec<&str> = ends.map(|end| end.interface.as_str()).collect();
            let interface = match (interface, interfaces.first()) {
                // A switch's port may be given by its number.
                (Some(given), _) if found.kind != NodeKind::Host && given.parse::<u32>().is_ok() => {
                    format!("p{given}")
                }
                (Some(given), _) => given,
                (None, Some(first)) => (*first).to_owned(),
                (None, None) => "lo".to_owned(),
            };
            if namespace.link(&interface).is_err() {
                return Err(no_such("interface", &interface, &interfaces));
            }
            return Ok((namespace, interface));
        }
        if let Some(link) = state.links.iter().find(|link| link.name == place) {
            let end = &link.ends[0];
            let found = state.nodes.iter().find(|n| n.name == end.node);
            let namespace = found.map_or("", |n| n.namespace.as_str());
            return Ok((Namespace::open_kept(namespace)?, end.interface.clone()));
        }
        let nodes = state.nodes.iter().map(|n| n.name.as_str());
        let known: Vec<&str> = nodes.chain(state.links.iter().map(|l| l.name.as_str())).collect();
        Err(no_such("host, switch or link", node, &known))
    }
}

fn no_such(what: &'static str, name: &str, known: &[&str]) -> LabError {
    let near = if known.is_empty() { "there is none".to_owned() } else { suggest(name, known) };
    LabError::NoSuch { what, name: name.to_owned(), near }
}

/// What a link node's page shows of the link, zeroes left out; empty when it is not there.
fn counters(page: &Path) -> Vec<(String, u64)> {
    let Ok(mut reader) = CountersReader::open(page) else { return Vec::new() };
    let Ok(all) = reader.read() else { return Vec::new() };
    let of_link =
        all.filter_map(|(name, _, value)| Some((name.strip_prefix(LINK_COUNTERS)?.to_owned(), value)));
    of_link.filter(|(_, value)| *value > 0).collect()
}
