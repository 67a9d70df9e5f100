//! What a lab consists of, written down where the next process finds it.
//!
//! The file is written before anything is made, and names everything that will be. So whoever comes later can remove it
//! all, whenever the maker ended.

use crate::{LabError, SwitchKind, Topology};
use barewire_engine::{Owner, counters_folders, counters_path, page_of_draft};
use barewire_netns::{NETNS_DIR, check_label};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The version of the file's form.
const VERSION: u32 = 2;
/// Longest state file that is read.
const STATE_BYTES_MAX: u64 = 64 << 20;
/// Between two looks whether a lab is still locked.
const LOCK_LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// How far a lab has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Somebody makes it, or was killed while making it.
    Making,
    /// Everything is there.
    Up,
}

/// What a lab consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The version of this form.
    pub version: u32,
    /// The lab's name.
    pub name: String,
    /// How far it has come.
    pub phase: Phase,
    /// The topology file it was made of.
    pub file: String,
    /// The process that made it.
    pub maker_pid: u32,
    /// Hosts and switches.
    pub nodes: Vec<NodeState>,
    /// Links.
    pub links: Vec<LinkState>,
    /// Processes that run on.
    pub processes: Vec<ProcessState>,
    /// Counters pages of its processes. Where they are depends on the maker's environment, so whoever removes them is told.
    pub pages: Vec<PathBuf>,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its network namespace, as `ip netns` knows it.
    pub namespace: String,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A host.
    Host,
    /// A kernel bridge.
    Bridge,
    /// A switch process of ours.
    Barewire,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    /// Its name.
    pub name: String,
    /// Both ends.
    pub ends: [EndState; 2],
    /// The namespace of its link node; none on a plain link.
    pub namespace: Option<String>,
    /// The counters page of its link node.
    pub counters: Option<String>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndState {
    /// The host or switch.
    pub node: String,
    /// The interface there.
    pub interface: String,
}

/// A process of the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// What it is.
    pub what: String,
    /// The namespace it runs in.
    pub namespace: String,
    /// Its id.
    pub pid: u32,
    /// When it started, in clock ticks after the start of the machine: its id may be another's later.
    pub started: u64,
    /// Where it writes what it has to say.
    pub log: Option<PathBuf>,
}

/// `bw.LAB.`: what the names of a lab's namespaces begin with. No lab's name has a dot.
fn namespace_prefix(lab: &str) -> String {
    format!("bw.{lab}.")
}

impl State {
    /// What `topology` will consist of.
    pub(crate) fn planned(topology: &Topology) -> State {
        let prefix = namespace_prefix(&topology.name);
        let node = |name: &str, kind| NodeState {
            name: name.to_owned(),
            kind,
            namespace: format!("{prefix}{name}"),
        };
        let hosts = topology.hosts.iter().map(|h| node(&h.name, NodeKind::Host));
        let switches = topology.switches.iter().map(|s| {
            let kind = if s.kind == SwitchKind::Bridge { NodeKind::Bridge } else { NodeKind::Barewire };
            node(&s.name, kind)
        });
        let links = topology.links.iter().map(|link| LinkState {
            name: link.name.clone(),
            ends: link.ends.each_ref().map(|end| EndState {
                node: topology.node_name(end.node).to_owned(),
                interface: end.interface.clone(),
            }),
            namespace: link.is_impaired().then(|| format!("{prefix}link.{}", link.name)),
            counters: link.is_impaired().then(|| link_page(&topology.name, &link.name)),
        });
        let links: Vec<LinkState> = links.collect();
        let switches_ours = topology.switches.iter().filter(|s| s.kind != SwitchKind::Bridge);
        let pages = links
            .iter()
            .filter_map(|link| link.counters.clone())
            .chain(switches_ours.map(|s| switch_page(&topology.name, &s.name)))
            // A name that cannot be a page's: the process will say so.
            .filter_map(|page| counters_path(&page).ok())
            .collect();
        State {
            version: VERSION,
            name: topology.name.clone(),
            phase: Phase::Making,
            file: topology.file.clone(),
            maker_pid: std::process::id(),
            nodes: hosts.chain(switches).collect(),
            links,
            processes: Vec::new(),
            pages,
        }
    }

    /// Every namespace.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        let links = self.links.iter().filter_map(|link| link.namespace.as_deref());
        self.nodes.iter().map(|node| node.namespace.as_str()).chain(links)
    }

    /// Where the counters page of this name is.
    pub(crate) fn page(&self, name: &str) -> Option<&Path> {
        let file = page_file(name);
        self.pages.iter().map(PathBuf::as_path).find(|path| path.file_name().is_some_and(|n| *n == *file))
    }
}

/// The file of a counters page.
fn page_file(name: &str) -> String {
    format!("barewire-{name}.counters")
}

/// `lab.LAB.`: what the names of a lab's pages begin with. No name of a lab, link or switch has a dot, so that they cannot be
/// taken for another's.
fn page_prefix(lab: &str) -> String {
    format!("lab.{lab}.")
}

/// The counters page of a link's node.
fn link_page(lab: &str, link: &str) -> String {
    page_prefix(lab) + link
}

/// The counters page of a switch process.
pub(crate) fn switch_page(lab: &str, switch: &str) -> String {
    format!("{}{switch}.switch", page_prefix(lab))
}

/// Counters pages that by their names are this lab's, in every folder where a maker's environment may have put them.
pub(crate) fn pages_of(lab: &str) -> Vec<PathBuf> {
    let of_users = fs::read_dir("/run/user").into_iter().flatten().flatten().map(|entry| entry.path());
    let start = format!("barewire-{}", page_prefix(lab));
    let ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let page = page_of_draft(name).unwrap_or(name);
        page.starts_with(&start) && page.ends_with(".counters")
    };
    let folders = counters_folders().chain(of_users);
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    files.map(|entry| entry.path()).filter(ours).collect()
}

/// Half made ones of these pages, beside them.
pub(crate) fn drafts_of(pages: &[PathBuf]) -> Vec<PathBuf> {
    let folders: BTreeSet<&Path> = pages.iter().filter_map(|page| page.parent()).collect();
    let pages: BTreeSet<&PathBuf> = pages.iter().collect();
    let files = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        page_of_draft(name).is_some_and(|page| pages.contains(&path.with_file_name(page)))
    };
    files.map(|entry| entry.path()).filter(ours).collect()
}

/// Namespaces that by their names are this lab's.
pub(crate) fn namespaces_of(lab: &str) -> Vec<String> {
    let prefix = namespace_prefix(lab);
    let Ok(entries) = fs::read_dir(NETNS_DIR) else { return Vec::new() };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// The folder of all labs' files: `NAME.json`, `NAME.lock`, and `NAME/` with what its processes say.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

/// Held while a lab is made or removed. Gone with the process, however it ends.
pub(crate) struct Locked {
    file: File,
    path: PathBuf,
}

impl Store {
    pub(crate) fn new(folder: &Path) -> Store {
        Store { folder: folder.to_path_buf() }
    }

    pub(crate) fn file(&self, lab: &str) -> PathBuf {
        self.folder.join(format!("{lab}.json"))
    }

    /// Where a lab's processes write.
    pub(crate) fn own_folder(&self, lab: &str) -> PathBuf {
        self.folder.join(lab)
    }

    /// Refuses a folder in which anybody but us could put files: what is in it says what we remove and whom we end.
    ///
    /// # Errors
    /// [`LabError::Folder`]; [`LabError::System`] when there is none.
    fn check(&self) -> Result<(), LabError> {
        let doing = LabError::system(format!("look at {}", self.folder.display()));
        let meta = fs::symlink_metadata(&self.folder).map_err(doing)?;
        let us = rustix::process::geteuid().as_raw();
        let why = match () {
            () if !meta.is_dir() => "is not a folder".to_owned(),
            () if meta.uid() != us => format!("belongs to user {}, and we are user {us}", meta.uid()),
            () if meta.mode() & 0o022 != 0 => {
                format!("others may write to it (mode {:03o})", meta.mode() & 0o777)
            }
            () => return Ok(()),
        };
        Err(LabError::Folder { path: self.folder.display().to_string(), why })
    }

    /// Waits until nobody else makes or removes this lab, and asks `look` now and then whether it should.
    pub(crate) fn lock(
        &self,
        lab: &str,
        look: &mut dyn FnMut() -> Result<(), LabError>,
    ) -> Result<Locked, LabError> {
        check_label(lab)?;
        let path = self.folder.join(format!("{lab}.lock"));
        let doing = || LabError::system(format!("lock {}", path.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(doing())?;
        self.check()?;
        loop {
            let mut options = OpenOptions::new();
            let file = options
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)
                .map_err(doing())?;
            loop {
                match file.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::WouldBlock) => look()?,
                    Err(TryLockError::Error(error)) => return Err(doing()(error)),
                }
                std::thread::sleep(LOCK_LOOK);
            }
            // Whoever removed the lab has removed this file too: the lock must be that of the file with this name.
            let ours = file.metadata().map_err(doing())?;
            match fs::metadata(&path) {
                Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                    return Ok(Locked { file, path });
                }
                _ => {}
            }
        }
    }

    /// The state of a lab; `None` when there is none.
    pub(crate) fn read(&self, lab: &str) -> Result<Option<State>, LabError> {
        check_label(lab)?;
        let path = self.file(lab);
        let strange = |why: String| LabError::State { path: path.display().to_string(), why };
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| strange(e.to_string()))?,
        };
        self.check()?;
        let mut text = String::new();
        match file.take(STATE_BYTES_MAX + 1).read_to_string(&mut text) {
            Err(e) => return Err(strange(e.to_string())),
            Ok(n) if n as u64 > STATE_BYTES_MAX => return Err(strange("longer than any state".into())),
            Ok(_) => {}
        }
        let state: State = serde_json::from_str(&text).map_err(|e| strange(e.to_string()))?;
        if state.version != VERSION {
            return Err(strange(format!("version {}, this build reads {VERSION}", state.version)));
        }
        if state.name != lab {
            return Err(strange(format!("is of lab {:?}", state.name)));
        }
        Ok(Some(state))
    }

    /// Writes a state: whole, or not at all.
    pub(crate) fn write(&self, state: &State) -> Result<(), LabError> {
        let path = self.file(&state.name);
        let doing = || LabError::system(format!("write {}", path.display()));
        let text = serde_json::to_string_pretty(state).map_err(|e| doing()(e.into()))?;
        let temporary = self.folder.join(format!("{}.json.new", state.name));
        match fs::remove_file(&temporary) {
            // Left by one who was killed.
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(doing()(e)),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(doing())?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(doing())?;
        fs::rename(&temporary, &path).map_err(doing())
    }

    /// Removes everything that the store has of a lab, the lock last.
    pub(crate) fn forget(&self, lab: &str, locked: Locked) -> Result<(), LabError> {
        let folder = self.own_folder(lab);
        let gone = |done: io::Result<()>, path: &Path| match done {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(LabError::system(format!("remove {}", path.display()))(e))
            }
            _ => Ok(()),
        };
        gone(fs::remove_dir_all(&folder), &folder)?;
        for path in [self.folder.join(format!("{lab}.json.new")), self.file(lab), locked.path] {
            gone(fs::remove_file(&path), &path)?;
        }
        drop(locked.file);
        Ok(())
    }

    /// The names of all labs that have a state; none in a folder that is not ours alone.
    pub(crate) fn list(&self) -> Vec<String> {
        let entries = self.check().ok().and_then(|()| fs::read_dir(&self.folder).ok());
        let names = entries.into_iter().flatten().flatten().filter_map(|e| e.file_name().into_string().ok());
        let mut labs: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
            .filter(|name| check_label(name).is_ok())
            .collect();
        labs.sort_unstable();
        labs
    }
}

impl ProcessState {
    pub(crate) fn owner(&self) -> Owner {
        Owner { pid: self.pid, start_ticks: self.started }
    }

    /// Whether the very process still runs.
    pub fn is_alive(&self) -> bool {
        self.owner().is_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_netns::NetnsError;

    fn store(name: &str) -> (Store, PathBuf) {
        let folder = std::env::temp_dir().join(format!("barewire-lab-{name}-{}", std::process::id()));
        (Store::new(&folder), folder)
    }

    fn topology() -> Topology {
        let text = "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[switch]]\nname = \"s\"\nkind = \
                    \"bridge\"\n[[link]]\nends = [\"a\", \"s\"]\n[[link]]\nends = [\"b\", \"s\"]\nboth = { loss = 0.1 }\n";
        Topology::parse(text, "t.toml", Path::new("")).unwrap()
    }

    #[test]
    fn a_state_names_everything_before_anything_is_there_and_reads_back() {
        let (store, folder) = store("state");
        let state = State::planned(&topology());
        let names: Vec<&str> = state.namespaces().collect();
        assert_eq!(names, ["bw.t.a", "bw.t.b", "bw.t.s", "bw.t.link.b-s"]);
        assert_eq!(state.pages, [counters_path("lab.t.b-s").unwrap()]);
        assert_eq!(state.page("lab.t.b-s"), Some(state.pages[0].as_path()));
        assert_eq!(state.page("lab.t.b"), None);
        let locked = store.lock("t", &mut || Ok(())).unwrap();
        assert_eq!(store.read("t").unwrap(), None);
        store.write(&state).unwrap();
        assert_eq!(store.read("t").unwrap(), Some(state.clone()));
        assert_eq!(store.list(), ["t"]);
        // A file that is another lab's, of another version, or no state.
        fs::rename(store.file("t"), store.file("u")).unwrap();
        assert!(store.read("u").unwrap_err().to_string().contains("is of lab \"t\""));
        store.write(&State { version: 9, ..state }).unwrap();
        assert!(store.read("t").unwrap_err().to_string().contains("version 9"));
        fs::write(store.file("t"), "{\"version\": 1").unwrap();
        assert!(matches!(store.read("t"), Err(LabError::State { .. })));
        fs::remove_file(store.file("u")).unwrap();
        store.forget("t", locked).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert!(matches!(store.read("../t"), Err(LabError::Host(NetnsError::BadName { .. }))));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn half_made_pages_are_found_and_no_others() {
        let folder = std::env::temp_dir().join(format!("barewire-lab-drafts-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let of = |name: &str| folder.join(name);
        for name in
            [".barewire-a.counters.7.0.9", ".barewire-ab.counters.7.0.9", "barewire-a.counters", ".other"]
        {
            fs::write(of(name), "").unwrap();
        }
        assert_eq!(drafts_of(&[of("barewire-a.counters")]), [of(".barewire-a.counters.7.0.9")]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_of_pages_are_no_other_labs() {
        assert_ne!(link_page("a-b", "c"), link_page("a", "b-c"));
        assert_ne!(link_page("a", "b-switch"), switch_page("a", "b"));
        assert!(!link_page("a-b", "c").starts_with(&page_prefix("a")));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_and_links_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (store, folder) = store("shared");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(store.file("t"), "{}").unwrap();
        let refused = store.lock("t", &mut || Ok(())).map(drop).unwrap_err();
        assert!(matches!(&refused, LabError::Folder { why, .. } if why.contains("mode 777")), "{refused}");
        assert!(matches!(store.read("t"), Err(LabError::Folder { .. })));
        assert!(store.list().is_empty());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(store.list(), ["t"]);
        // Somebody else's file behind a name of ours stays as it is.
        let other = folder.join("other");
        fs::write(&other, "theirs").unwrap();
        symlink(&other, folder.join("u.lock")).unwrap();
        symlink(&other, folder.join("u.json")).unwrap();
        symlink(&other, folder.join("t.json.new")).unwrap();
        assert!(matches!(store.lock("u", &mut || Ok(())).map(drop), Err(LabError::System { .. })));
        assert!(matches!(store.read("u"), Err(LabError::State { .. })));
        store.write(&State::planned(&topology())).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        assert!(store.read("t").unwrap().is_some());
        // A link in the place of the folder.
        let link = folder.join("link");
        symlink(&folder, &link).unwrap();
        assert!(matches!(
            Store::new(&link).lock("t", &mut || Ok(())).map(drop),
            Err(LabError::Folder { .. })
        ));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_lock_is_of_the_file_that_has_the_name() {
        let (store, folder) = store("lock");
        let first = store.lock("t", &mut || Ok(())).unwrap();
        let (store2, waiting) =
            (store.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true)));
        let flag = std::sync::Arc::clone(&waiting);
        let thread = std::thread::spawn(move || {
            let locked = store2.lock("t", &mut || Ok(())).unwrap();
            assert!(!flag.load(std::sync::atomic::Ordering::SeqCst), "had it while another did");
            assert!(locked.path.exists());
            store2.forget("t", locked).unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        waiting.store(false, std::sync::atomic::Ordering::SeqCst);
        // The file goes before the lock does: the other must find out and make a new one.
        store.forget("t", first).unwrap();
        thread.join().unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
