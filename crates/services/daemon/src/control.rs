//! The control thread: lets applications in and notices when they die.

use crate::agent::Command;
use crate::applications::{Application, COMPLETIONS_MIN};
use crate::background::Background;
use crate::config::Config;
use crate::notify::Watchdog;
use crate::users::{Users, most_of};
use barewire_base::{Duration as Span, Instant};
use barewire_channel::message::{FromApp, FromDaemon, Hello, Refused, Welcome};
use barewire_channel::{ControlConn, ControlError, ControlListener, DaemonChannel, Geometry, VERSION};
use barewire_engine::{StopFlag, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Connections that have not said hello yet, at most: they hold a descriptor each. One more costs the user who has most of them
/// the oldest of these.
const STRANGERS_MAX: usize = 64;
/// How long a connection may take to say hello.
const HELLO_PATIENCE: Span = Span::from_secs(5);
/// How long accepting pauses when the process has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

struct Connection {
    socket: ControlConn,
    /// Whose it is.
    uid: u32,
    since: Instant,
    /// Its number, once it is in.
    number: Option<u32>,
    /// Its process. A child of it may keep the socket open when it dies.
    process: Option<OwnedFd>,
}

/// The control thread's end of its line to an engine.
pub(crate) struct Line {
    pub commands: Sender<Command>,
    pub pending: Arc<AtomicBool>,
    pub waker: Waker,
}

pub(crate) struct Control {
    listener: ControlListener,
    stop: StopFlag,
    config: Config,
    mtu: Arc<AtomicU32>,
    /// To each engine. An application is served by engine number modulo how many there are.
    lines: Vec<Line>,
    connections: Vec<Connection>,
    /// Numbers in use.
    taken: Vec<bool>,
    users: Users,
    watchdog: Option<Watchdog>,
    background: Background,
}

impl Control {
    pub(crate) fn new(
        listener: ControlListener,
        stop: StopFlag,
        config: Config,
        mtu: Arc<AtomicU32>,
        lines: Vec<Line>,
        watchdog: Option<Watchdog>,
        background: Background,
    ) -> Control {
        let taken = vec![false; config.applications_max as usize];
        let users = Users::new(&config.user, &config.rules, config.transport.flows_max);
        let connections = Vec::new();
        Control { listener, stop, config, mtu, lines, connections, taken, users, watchdog, background }
    }

    /// Runs until the daemon stops.
    pub(crate) fn run(mut self) {
        while !self.stop.is_stopped() {
            self.drop_silent();
            let wait = [self.watch(), self.next_silent()].into_iter().flatten().min().map(|wait| Timespec {
                tv_sec: (wait.as_nanos() / 1_000_000_000) as i64,
                tv_nsec: (wait.as_nanos() % 1_000_000_000) as i64,
            });
            let mut accept = false;
            let mut ready = Vec::new();
            {
                let mut fds =
                    vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
                for c in &self.connections {
                    fds.push(PollFd::from_borrowed_fd(c.socket.as_fd(), PollFlags::IN));
                    // The socket once more where there is no process to watch: two entries for each.
                    let process = c.process.as_ref().map_or(c.socket.as_fd(), AsFd::as_fd);
                    fds.push(PollFd::from_borrowed_fd(process, PollFlags::IN));
                }
                if poll(&mut fds, wait.as_ref()).is_err() {
                    // Interrupted by a signal: look at the stop flag.
                    continue;
                }
                accept |= !fds[1].revents().is_empty();
                for (i, pair) in fds[2..].chunks(2).enumerate() {
                    let is_dead = self.connections[i].process.is_some() && !pair[1].revents().is_empty();
                    if is_dead || !pair[0].revents().is_empty() {
                        ready.push((i, is_dead));
                    }
                }
            }
            // From the last to the first, so that removing one does not move those still to come.
            for (i, is_dead) in ready.into_iter().rev() {
                if is_dead || !self.hear(i) {
                    self.remove(i);
                }
            }
            if accept {
                self.accept();
            }
        }
    }

    fn remove(&mut self, i: usize) {
        let gone = self.connections.swap_remove(i);
        if let Some(number) = gone.number {
            self.order(Command::Drop(number));
            self.taken[number as usize] = false;
        }
    }

    /// Ends connections that say nothing.
    fn drop_silent(&mut self) {
        let now = barewire_engine::now();
        self.connections.retain(|c| c.number.is_some() || now < c.since + HELLO_PATIENCE);
    }

    /// How long until the next of them is to be ended.
    fn next_silent(&self) -> Option<Span> {
        let now = barewire_engine::now();
        let strangers = self.connections.iter().filter(|c| c.number.is_none());
        strangers.map(|c| (c.since + HELLO_PATIENCE).since(now)).min()
    }

    /// Makes room for one more that has said nothing yet.
    fn make_room(&mut self) {
        let strangers = || self.connections.iter().filter(|c| c.number.is_none());
        if strangers().count() < STRANGERS_MAX {
            return;
        }
        let of = |uid| strangers().filter(|c| c.uid == uid).count();
        let victim = self
            .connections
            .iter()
            .enumerate()
            .filter(|(_, c)| c.number.is_none())
            .max_by_key(|(_, c)| (of(c.uid), std::cmp::Reverse(c.since)));
        if let Some((i, _)) = victim {
            self.connections.swap_remove(i);
        }
    }

    /// Looks after the engines, when somebody asked for it and it is time; how long until the next time.
    fn watch(&mut self) -> Option<barewire_base::Duration> {
        let watchdog = self.watchdog.as_mut()?;
        let now = barewire_engine::now();
        if watchdog.look(now) {
            self.lines.iter().for_each(|line| line.waker.wake());
        }
        Some(watchdog.wait(now))
    }

    fn order(&self, command: Command) {
        let (Command::Add(number, _) | Command::Drop(number)) = &command;
        let line = &self.lines[*number as usize % self.lines.len()];
        // The engine outlives this thread, except when it failed: then the daemon is stopping anyway.
        let _ = line.commands.send(command);
        line.pending.store(true, Ordering::Release);
        line.waker.wake();
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(Some(socket)) => {
                    // Without credentials it is nobody's, and shares its fate with others of the kind.
                    let uid = socket.peer().map_or(u32::MAX, |p| p.uid);
                    let since = barewire_engine::now();
                    self.make_room();
                    self.connections.push(Connection { socket, uid, since, number: None, process: None });
                    // Most have spoken already, and are no strangers to anybody who comes behind.
                    let last = self.connections.len() - 1;
                    if !self.hear(last) {
                        self.remove(last);
                    }
                }
                Ok(None) => return,
                Err(e) => {
                    self.background.say(format!("control socket: {e}"));
                    std::thread::sleep(EXHAUSTED_PAUSE);
                    return;
                }
            }
        }
    }

    /// Reads what a connection says. False when it is to be closed.
    fn hear(&mut self, i: usize) -> bool {
        loop {
            let socket = &self.connections[i].socket;
            match socket.recv_message::<FromApp>() {
                Ok(None) => return true,
                Ok(Some(FromApp::Hello(hello))) if self.connections[i].number.is_none() => {
                    match self.admit(i, &hello) {
                        Ok(()) => {}
                        Err(refused) => {
                            let _ = self.connections[i].socket.send(&FromDaemon::Refused(refused), &[]);
                            return false;
                        }
                    }
                }
                Ok(Some(_)) => {
                    let refused = Refused {
                        code: Refused::MALFORMED,
                        message: "hello was sent twice".to_owned(),
                        hint: "statistics are on the counters page: barewire stat".to_owned(),
                    };
                    let _ = socket.send(&FromDaemon::Refused(refused), &[]);
                    return false;
                }
                Err(ControlError::Malformed { .. }) => {
                    let refused = Refused {
                        code: Refused::MALFORMED,
                        message: "not a message of the control protocol".to_owned(),
                        hint: String::new(),
                    };
                    let _ = socket.send(&FromDaemon::Refused(refused), &[]);
                    return false;
                }
                Err(_) => return false,
            }
        }
    }

    fn admit(&mut self, i: usize, hello: &Hello) -> Result<(), Refused> {
        let refuse = |code, message: String, hint: &str| Refused { code, message, hint: hint.to_owned() };
        // Here, where nobody comes past: an application that saw the engines end asks again at once, even in the middle of an `accept`.
        if self.stop.is_stopped() {
            let message = "the daemon is stopping".to_owned();
            return Err(refuse(Refused::STOPPING, message, "attach again once it has been started anew"));
        }
        if hello.version != VERSION {
            let message =
                format!("the daemon speaks version {VERSION} of the channel, not {}", hello.version);
            return Err(refuse(Refused::VERSION, message, "use a library and a daemon of one release"));
        }
        let Connection { socket, uid, .. } = &self.connections[i];
        let uid = *uid;
        if !self.config.allow_uids.is_empty() && uid != 0 && !self.config.allow_uids.contains(&uid) {
            let message = "this user may not use the daemon".to_owned();
            return Err(refuse(Refused::NOT_PERMITTED, message, "daemon.allow_uids lists who may"));
        }
        let most = self.config.user.applications.unwrap_or(most_of(self.config.applications_max));
        let has = self.connections.iter().filter(|c| c.number.is_some() && c.uid == uid).count();
        if has >= most as usize {
            let message = format!("user {uid} already has {has} applications");
            return Err(refuse(Refused::FULL, message, "daemon.user_applications_max sets how many"));
        }
        let geometry = self.geometry(hello.geometry).map_err(|why| {
            refuse(Refused::GEOMETRY, why, "ask for less, or raise [channel] in the daemon's configuration")
        })?;
        let Some(number) = self.taken.iter().position(|t| !t) else {
            let message = format!("the daemon already serves {} applications", self.taken.len());
            return Err(refuse(Refused::FULL, message, "daemon.applications_max sets how many"));
        };
        let (channel, fds) = DaemonChannel::create(geometry)
            .map_err(|e| refuse(Refused::FULL, format!("no channel could be made: {e}"), ""))?;
        let welcome = Welcome {
            version: VERSION,
            application: number as u32,
            addresses: self.config.addresses(),
            geometry,
            mtu: self.mtu.load(Ordering::Relaxed),
        };
        if socket.send(&FromDaemon::Welcome(welcome), &fds.as_fds()).is_err() {
            // Gone already: the next look at the socket says so.
            return Ok(());
        }
        let name: String = hello.name.chars().filter(|c| !c.is_control()).take(64).collect();
        // What cannot be watched (a process of another namespace) is gone when its socket is.
        let process = socket.peer().ok().and_then(|p| Pid::from_raw(p.pid));
        self.connections[i].process = process.and_then(|p| pidfd_open(p, PidfdFlags::empty()).ok());
        self.connections[i].number = Some(number as u32);
        self.taken[number] = true;
        let application = Application::new(name, channel, self.users.share(uid));
        self.order(Command::Add(number as u32, Box::new(application)));
        Ok(())
    }

    /// The channel for an application: what it asks for within its quota, which is the configured channel.
    fn geometry(&self, wanted: Option<Geometry>) -> Result<Geometry, String> {
        let quota = self.config.channel;
        let Some(g) = wanted else {
            return Ok(quota);
        };
        g.check().map_err(|e| e.to_string())?;
        if g.cq_entries < COMPLETIONS_MIN {
            return Err(format!("completions: {} asked for, {COMPLETIONS_MIN} needed", g.cq_entries));
        }
        for (what, asked, most) in [
            ("send memory", g.send_bytes, quota.send_bytes),
            ("receive memory", g.recv_bytes, quota.recv_bytes),
            ("requests", g.sq_entries, quota.sq_entries),
            ("completions", g.cq_entries, quota.cq_entries),
        ] {
            if asked > most {
                return Err(format!("{what}: {asked} asked for, {most} allowed"));
            }
        }
        Ok(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_channel::{AttachError, attach};
    use barewire_testing::Folder;
    use std::net::Ipv4Addr;

    #[test]
    fn who_comes_while_the_daemon_stops_is_told_so_and_not_let_in() {
        let folder = Folder::new("stops");
        let socket = folder.path().join("control.sock");
        let stop = StopFlag::new().unwrap();
        let mut control = Control::new(
            ControlListener::bind(&socket).unwrap(),
            stop.clone(),
            Config::new("mem:x", Ipv4Addr::new(10, 0, 0, 1), 24),
            Arc::default(),
            Vec::new(),
            None,
            crate::background::start(std::io::sink()).unwrap().0,
        );
        let asks = std::thread::spawn(move || attach(&socket, "late", None));
        // As when the stop comes between two steps of a round that has begun.
        stop.stop();
        while !asks.is_finished() {
            control.accept();
            std::thread::sleep(Duration::from_millis(1));
        }
        match asks.join().unwrap() {
            Err(AttachError::Refused { code, message, hint }) => {
                assert_eq!((code, message.as_str()), (Refused::STOPPING, "the daemon is stopping"));
                assert!(hint.contains("attach again"), "{hint}");
            }
            other => panic!("{:?}", other.map(|_| "let in")),
        }
        assert!(control.taken.iter().all(|taken| !taken) && control.connections.is_empty());
    }
}
