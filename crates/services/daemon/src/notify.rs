//! What a service manager is told (`sd_notify(3)`): that the daemon serves, that it lives, that it stops.
//!
//! The watchdog vouches for the engines, not for the thread that sends it: each engine is woken, and only when the count of its duty
//! cycles has grown is the manager told that the daemon lives.

use barewire_base::{Duration, Instant};
use barewire_engine::CountersReader;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Looks in the time that the manager waits, so that one that comes late ends nothing.
const LOOKS: u64 = 4;
/// A manager that waits less is not believed: an engine may be without a core for so long.
const WAIT_MIN: Duration = Duration::from_millis(40);

/// How often, and how far apart, the last word is tried.
const LAST_TRIES: u32 = 50;
const LAST_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// The line to the manager, or none.
#[derive(Debug, Default)]
pub(crate) struct Manager(Option<UnixDatagram>);

impl Manager {
    /// As the environment says (`NOTIFY_SOCKET`).
    pub(crate) fn from_env() -> Manager {
        Manager::at(std::env::var_os("NOTIFY_SOCKET"))
    }

    /// The same of a daemon that is a service; within another program the manager is that program's affair.
    pub(crate) fn of(is_service: bool) -> Manager {
        if is_service { Manager::from_env() } else { Manager(None) }
    }

    fn at(address: Option<OsString>) -> Manager {
        let connect = |address: OsString| {
            let bytes = address.as_bytes();
            let address = match bytes.strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(Path::new(&address)),
            };
            let socket = UnixDatagram::unbound().ok()?;
            socket.connect_addr(&address.ok()?).ok()?;
            // A manager that does not read must not stop the daemon.
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        };
        Manager(address.filter(|address| !address.is_empty()).and_then(connect))
    }

    /// As [`tell`](Self::tell), but it is worth some patience: signs of life that the manager has not read yet may fill its queue.
    pub(crate) fn tell_last(&self, what: &str) {
        if let Some(socket) = &self.0 {
            for _ in 0..LAST_TRIES {
                match socket.send(what.as_bytes()) {
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(LAST_PAUSE),
                    _ => return,
                }
            }
        }
    }

    /// Best effort: a manager that is not there does not keep the daemon from serving.
    pub(crate) fn tell(&self, what: &str) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(what.as_bytes());
        }
    }
}

/// Looks after the engines in the manager's name.
#[derive(Debug)]
pub(crate) struct Watchdog {
    manager: Manager,
    page: CountersReader,
    every: Duration,
    next: Instant,
    /// Duty cycles of each engine at the last good look.
    cycles: Vec<u64>,
}

impl Watchdog {
    /// As the environment says (`WATCHDOG_USEC`, and `WATCHDOG_PID`, which may mean another process). `None`: nobody asked.
    pub(crate) fn from_env(page: &Path, engines: usize) -> Option<Watchdog> {
        let var = |name| std::env::var(name).ok();
        let every =
            period(var("WATCHDOG_USEC")?.as_str(), var("WATCHDOG_PID").as_deref(), std::process::id())?;
        Watchdog::new(Manager::from_env(), page, engines, every)
    }

    fn new(manager: Manager, page: &Path, engines: usize, every: Duration) -> Option<Watchdog> {
        manager.0.as_ref()?;
        let page = CountersReader::open(page).ok()?;
        Some(Watchdog { manager, page, every, next: Instant::ZERO, cycles: vec![0; engines] })
    }

    /// Until the next look.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.next.since(now)
    }

    /// Looks, when it is time. True: wake the engines, so that a sleeping one counts a cycle before the next look.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + self.every;
        let mut now_at = vec![None; self.cycles.len()];
        if let Ok(counters) = self.page.read() {
            for (name, _, value) in counters {
                let engine = name.strip_prefix("engine.").and_then(|rest| rest.strip_suffix(".cycles"));
                let engine = engine.and_then(|engine| engine.parse::<usize>().ok());
                if let Some(place) = engine.and_then(|engine| now_at.get_mut(engine)) {
                    *place = Some(value);
                }
            }
        }
        let alive = now_at.iter().zip(&self.cycles).all(|(now, then)| now.is_some_and(|now| now != *then));
        if alive {
            self.cycles = now_at.into_iter().flatten().collect();
            self.manager.tell("WATCHDOG=1\n");
        }
        true
    }
}

/// Time between two looks for a manager that waits `usec`; `None` when it waits for somebody else, or says nonsense.
fn period(usec: &str, pid: Option<&str>, ours: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(ours)) {
        return None;
    }
    let wait = Duration::from_micros(usec.parse().ok()?);
    (wait >= WAIT_MIN).then(|| wait.div(LOOKS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_engine::{CounterKind, CountersPage};

    #[test]
    fn only_what_is_meant_for_us_is_a_watchdog() {
        assert_eq!(period("4000000", None, 7), Some(Duration::from_secs(1)));
        assert_eq!(period("4000000", Some("7"), 7), Some(Duration::from_secs(1)));
        for (usec, pid) in [
            ("4000000", Some("8")),
            ("4000000", Some("x")),
            ("0", None),
            ("", None),
            ("39999", None),
            ("-1", None),
        ] {
            assert_eq!(period(usec, pid, 7), None, "{usec} {pid:?}");
        }
        assert_eq!(period(&u64::MAX.to_string(), None, 7), Some(Duration::MAX.div(LOOKS)));
    }

    #[test]
    fn the_last_word_waits_for_a_manager_that_is_behind() {
        let name = format!("barewire-notify-last-{}", std::process::id());
        let heard =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
        let manager = Manager::at(Some(format!("@{name}").into()));
        // Far more than its queue holds; what finds no room is lost, as signs of life may be.
        for _ in 0..2_000 {
            manager.tell("WATCHDOG=1\n");
        }
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            std::iter::repeat_with(|| {
                let n = heard.recv(&mut bytes).unwrap();
                bytes[..n].to_vec()
            })
            .position(|word| word == b"STOPPING=1\n")
        });
        manager.tell_last("STOPPING=1\n");
        assert!(reader.join().unwrap().is_some_and(|before| before < 2_000));
    }

    #[test]
    fn an_engine_that_stands_still_is_not_vouched_for() {
        let name = format!("barewire-notify-test-{}", std::process::id());
        let path = std::env::temp_dir().join(format!("{name}.counters"));
        let mut page = CountersPage::create(&path, 8).unwrap();
        let a = page.register("engine.0.cycles", CounterKind::Counter).unwrap();
        let b = page.register("engine.1.cycles", CounterKind::Counter).unwrap();
        let heard =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
        heard.set_nonblocking(true).unwrap();
        let manager = || Manager::at(Some(format!("@{name}").into()));
        let every = Duration::from_secs(1);
        let mut dog = Watchdog::new(manager(), &path, 2, every).unwrap();
        let mut now = Instant::from_nanos(5_000_000_000);
        let mut told = |dog: &mut Watchdog| {
            assert!(dog.look(now), "it is time");
            assert!(!dog.look(now), "and then it is not");
            assert_eq!(dog.wait(now), every);
            now += every;
            let mut bytes = [0; 64];
            heard.recv(&mut bytes).is_ok_and(|n| &bytes[..n] == b"WATCHDOG=1\n")
        };
        a.set(1);
        assert!(!told(&mut dog), "the second has not begun");
        b.set(1);
        assert!(told(&mut dog));
        assert!(!told(&mut dog), "neither moved");
        a.set(2);
        assert!(!told(&mut dog), "one stands still");
        b.set(9);
        assert!(told(&mut dog));
        drop(b);
        a.set(3);
        assert!(!told(&mut dog), "one is gone");
        assert!(Watchdog::new(Manager::at(None), &path, 2, every).is_none(), "nobody to tell");
        assert!(Watchdog::new(manager(), Path::new("/nowhere"), 2, every).is_none());
        Manager::at(Some("/no/such/socket".into())).tell("READY=1\n");
    }
}
