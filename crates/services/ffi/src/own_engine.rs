//! An engine in a thread of the application: what `embedded:ADDRESS/PREFIX@PORT`, or `embedded:FILE.toml`, in the place of a daemon's
//! socket means.
//!
//! It is the daemon's own engine with one application, so that everything else is as through a daemon: events, requests, limits, waits.

use crate::boundary::Failure;
use crate::embedded::networks;
use crate::error::{BW_ERR_INVALID, BW_ERR_SYSTEM, BW_ERR_TOO_MANY};
use barewire_daemon::{Config, Daemon};
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What such a place begins with.
const SCHEME: &str = "embedded:";
/// And how the name of a configuration ends.
const CONFIGURATION: &str = ".toml";
/// Tries for a folder that nobody has made before.
const TRIES: u32 = 1000;

/// A folder of this user's alone, with the engine's socket. Removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Folder, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..TRIES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path =
                std::env::temp_dir().join(format!("barewire-embedded-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Failure::new(BW_ERR_SYSTEM, format!("{}: {e}", path.display()))),
            }
        }
        Err(BW_ERR_TOO_MANY.into())
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
pub(crate) struct OwnEngine {
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
    pub(crate) fn asked_for(place: &str) -> Option<Result<OwnEngine, Failure>> {
        place.strip_prefix(SCHEME).map(OwnEngine::start)
    }

    fn start(rest: &str) -> Result<OwnEngine, Failure> {
        let mut config = match rest.ends_with(CONFIGURATION) {
            true => Config::read(Path::new(rest)).map_err(|e| Failure::new(BW_ERR_INVALID, e.to_string()))?,
            false => config_of(rest)?,
        };
        let folder = Folder::create()?;
        // The folder's own name, so that `stat` shows whose engine it is.
        let name = folder.0.file_name().map(|name| name.to_string_lossy().into_owned());
        config.name = name.unwrap_or_else(|| "embedded".to_owned());
        config.socket = folder.0.join("s");
        config.applications_max = 1;
        config.is_service = false;
        let engine = Daemon::start(&config).map_err(|e| Failure::new(BW_ERR_SYSTEM, e.to_string()))?;
        let socket = engine.socket().to_owned();
        let running = Some(Running { _engine: engine, _folder: folder });
        Ok(OwnEngine { running, socket, process: std::process::id() })
    }

    /// Where its one application attaches.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// A port with addresses, and defaults for the rest.
fn config_of(place: &str) -> Result<Config, Failure> {
    let (addresses, port) = place.split_once('@').filter(|(_, port)| !port.is_empty()).ok_or_else(shape)?;
    let mut config = Config::new(port, Ipv4Addr::UNSPECIFIED, 24);
    config.interface.ipv4.clear();
    for (ip, len) in networks(addresses.split(',')).map_err(|_| shape())? {
        config.interface.add_address(ip, len);
    }
    Ok(config)
}

fn shape() -> Failure {
    Failure::new(
        BW_ERR_INVALID,
        "an engine of one's own is asked for as embedded:ADDRESS/PREFIX@PORT, such as embedded:10.0.0.1/24@xdp:eth0, or as \
         embedded:FILE.toml",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_socket_or_says_what_it_lacks() {
        assert!(OwnEngine::asked_for("/run/barewire/barewire.sock").is_none());
        for wrong in [
            "embedded:",
            "embedded:10.0.0.1/24",
            "embedded:10.0.0.1/24@",
            "embedded:10.0.0.1@mem:x",
            "embedded:10.0.0.1/33@mem:x",
            "embedded:fd00::1/129@mem:x",
            "embedded:ten/24@mem:x",
        ] {
            let failure = OwnEngine::asked_for(wrong).unwrap().err().unwrap();
            assert_eq!(failure.code, BW_ERR_INVALID, "{wrong}");
        }
        let failure = OwnEngine::asked_for("embedded:10.0.0.1/24@packet:nosuch0").unwrap().err().unwrap();
        assert_eq!(failure.code, BW_ERR_SYSTEM);
    }

    #[test]
    fn an_engine_leaves_nothing_behind() {
        let engine =
            OwnEngine::asked_for("embedded:10.0.0.1/24,fd00::1/64@mem:embedded-test").unwrap().unwrap();
        let folder = engine.socket().parent().unwrap().to_owned();
        assert!(engine.socket().exists());
        drop(engine);
        assert!(!folder.exists());
    }
}
