//! An engine in a thread of the application: what `embedded:ADDRESS/PREFIX@PORT`, or `embedded:FILE.toml`, in the place of a daemon's
//! socket means, in all languages.
//!
//! It is the daemon's own engine with one application, so that everything else is as through a daemon: events, futures, requests, limits,
//! waits.

use crate::config::{Config, ConfigError};
use crate::daemon::{Daemon, DaemonError};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What such a place begins with.
const SCHEME: &str = "embedded:";
/// And how the name of a configuration ends.
const CONFIGURATION: &str = ".toml";
/// Tries for a folder that nobody has made before.
const TRIES: u32 = 1000;

/// Why an engine of one's own did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnEngineError {
    /// What follows `embedded:` is neither addresses and a port nor a configuration.
    #[error(
        "an engine of one's own is asked for as embedded:ADDRESS/PREFIX@PORT, such as embedded:10.0.0.1/24@xdp:eth0, or as \
         embedded:FILE.toml"
    )]
    Place,
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder for its socket.
    #[error("{path}: {source}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The engine.
    #[error(transparent)]
    Start(#[from] DaemonError),
}

impl OwnEngineError {
    /// Whether what was asked for cannot be, rather than that the machine refuses it.
    pub fn is_asked_wrong(&self) -> bool {
        matches!(self, OwnEngineError::Place | OwnEngineError::Config(_))
    }
}

/// A folder of this user's alone, with the engine's socket. Removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Folder, OwnEngineError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut tries = 0;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path =
                std::env::temp_dir().join(format!("barewire-embedded-{}-{number}", std::process::id()));
            tries += 1;
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && tries < TRIES => {}
                Err(source) => return Err(OwnEngineError::Folder { path, source }),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The engine and its folder. The engine goes first: it removes its socket itself.
struct Running {
    _engine: Daemon,
    _folder: Folder,
}

/// The engine and its threads, stopped on drop; peers are told. In a child of the process that started it the drop does nothing: there are
/// no threads to stop, and the folder and the link are the parent's.
pub struct OwnEngine {
    /// Taken by the drop.
    running: Option<Running>,
    socket: PathBuf,
    process: u32,
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.running.take());
        }
    }
}

impl OwnEngine {
    /// Starts the engine that `place` asks for. `None`: it names a daemon's socket.
    pub fn asked_for(place: &Path) -> Option<Result<OwnEngine, OwnEngineError>> {
        // Who has a name that is no text means a file.
        place.to_str()?.strip_prefix(SCHEME).map(OwnEngine::start)
    }

    fn start(rest: &str) -> Result<OwnEngine, OwnEngineError> {
        let mut config = match rest.ends_with(CONFIGURATION) {
            true => Config::read(Path::new(rest))?,
            false => config_of(rest).ok_or(OwnEngineError::Place)?,
        };
        let folder = Folder::create()?;
        // The folder's own name, so that `stat` shows whose engine it is.
        let name = folder.0.file_name().map(|name| name.to_string_lossy().into_owned());
        config.name = name.unwrap_or_else(|| "embedded".to_owned());
        config.socket = folder.0.join("s");
        config.applications_max = 1;
        config.is_service = false;
        let engine = Daemon::start(&config)?;
        let socket = engine.socket().to_owned();
        let running = Some(Running { _engine: engine, _folder: folder });
        Ok(OwnEngine { running, socket, process: std::process::id() })
    }

    /// Where its one application attaches.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// A port with addresses, and defaults for the rest.
fn config_of(place: &str) -> Option<Config> {
    let (addresses, port) = place.split_once('@').filter(|(_, port)| !port.is_empty())?;
    let mut config = Config::new(port, Ipv4Addr::UNSPECIFIED, 24);
    config.interface.ipv4.clear();
    for (ip, len) in networks(addresses.split(',')).ok()? {
        config.interface.add_address(ip, len);
    }
    Some(config)
}

/// `10.0.0.1/24` and the like, each an address with the length of its network.
///
/// # Errors
/// The first word that is none.
pub fn networks<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<(IpAddr, u8)>, &'a str> {
    let network = |word: &'a str| {
        let (ip, len) = word.split_once('/')?;
        let (ip, len): (IpAddr, u8) = (ip.parse().ok()?, len.parse().ok()?);
        (len <= if ip.is_ipv4() { 32 } else { 128 }).then_some((ip, len))
    };
    words.map(|word| network(word).ok_or(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_for(place: &str) -> Option<Result<OwnEngine, OwnEngineError>> {
        OwnEngine::asked_for(Path::new(place))
    }

    #[test]
    fn a_place_is_a_socket_or_says_what_it_lacks() {
        assert!(asked_for("/run/barewire/barewire.sock").is_none());
        for wrong in [
            "embedded:",
            "embedded:10.0.0.1/24",
            "embedded:10.0.0.1/24@",
            "embedded:10.0.0.1@mem:x",
            "embedded:10.0.0.1/33@mem:x",
            "embedded:fd00::1/129@mem:x",
            "embedded:ten/24@mem:x",
            "embedded:/no/such/file.toml",
        ] {
            assert!(asked_for(wrong).unwrap().err().unwrap().is_asked_wrong(), "{wrong}");
        }
        let failure = asked_for("embedded:10.0.0.1/24@packet:nosuch0").unwrap().err().unwrap();
        assert!(matches!(failure, OwnEngineError::Start(_)), "{failure}");
    }

    #[test]
    fn an_engine_leaves_nothing_behind() {
        let engine = asked_for("embedded:10.0.0.1/24,fd00::1/64@mem:embedded-test").unwrap().unwrap();
        let folder = engine.socket().parent().unwrap().to_owned();
        assert!(engine.socket().exists());
        drop(engine);
        assert!(!folder.exists());
    }
}
