//! The control thread: lets applications in and notices when they die.

use crate::agent::Command;
use crate::applications::{Application, COMPLETIONS_MIN};
use crate::config::Config;
use crate::notify::Watchdog;
use barewire_channel::message::{FromApp, FromDaemon, Hello, Refused, Welcome};
use barewire_channel::{ControlConn, ControlError, ControlListener, DaemonChannel, Geometry, VERSION};
use barewire_engine::{StopFlag, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Connections that have not said hello yet, at most: they hold a descriptor each.
const STRANGERS_MAX: usize = 64;
/// How long accepting pauses when the process has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

struct Connection {
    socket: ControlConn,
    /// Its number, once it is in.
    number: Option<u32>,
}

/// The control thread's end of its line to an engine.
pub(crate) struct Line {
    pub commands: Sender<Command>,
    pub pending: Arc<AtomicBool>,
    pub waker: Waker,
}

pub(crate) struct Control {
    listener: ControlListener,
    config: Config,
    mtu: u32,
    /// To each engine. An application is served by engine number modulo how many there are.
    lines: Vec<Line>,
    connections: Vec<Connection>,
    /// Numbers in use.
    taken: Vec<bool>,
    watchdog: Option<Watchdog>,
}

impl Control {
    pub(crate) fn new(
        listener: ControlListener,
        config: Config,
        mtu: u32,
        lines: Vec<Line>,
        watchdog: Option<Watchdog>,
    ) -> Control {
        let taken = vec![false; config.applications_max as usize];
        Control { listener, config, mtu, lines, connections: Vec::new(), taken, watchdog }
    }

    /// Runs until `stop`.
    pub(crate) fn run(mut self, stop: &StopFlag) {
        while !stop.is_stopped() {
            let wait = self.watch().map(|wait| Timespec {
                tv_sec: (wait.as_nanos() / 1_000_000_000) as i64,
                tv_nsec: (wait.as_nanos() % 1_000_000_000) as i64,
            });
            let mut accept = false;
            let mut ready = Vec::new();
            {
                let mut fds =
                    vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
                for c in &self.connections {
                    fds.push(PollFd::from_borrowed_fd(c.socket.as_fd(), PollFlags::IN));
                }
                if poll(&mut fds, wait.as_ref()).is_err() {
                    // Interrupted by a signal: look at the stop flag.
                    continue;
                }
                accept |= !fds[1].revents().is_empty();
                for (i, fd) in fds[2..].iter().enumerate() {
                    if !fd.revents().is_empty() {
                        ready.push(i);
                    }
                }
            }
            // From the last to the first, so that removing one does not move those still to come.
            for i in ready.into_iter().rev() {
                if !self.hear(i) {
                    let gone = self.connections.swap_remove(i);
                    if let Some(number) = gone.number {
                        self.order(Command::Drop(number));
                        self.taken[number as usize] = false;
                    }
                }
            }
            if accept {
                self.accept();
            }
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
                    let strangers = self.connections.iter().filter(|c| c.number.is_none()).count();
                    if strangers < STRANGERS_MAX {
                        self.connections.push(Connection { socket, number: None });
                    }
                }
                Ok(None) => return,
                Err(e) => {
                    eprintln!("barewire: control socket: {e}");
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
            match socket.recv::<FromApp>() {
                Ok(None) => return true,
                Ok(Some((FromApp::Hello(hello), _))) if self.connections[i].number.is_none() => {
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
                        message: "only one hello was expected".to_owned(),
                        hint: "statistics are on the counters page: barewire stat".to_owned(),
                    };
                    let _ = socket.send(&FromDaemon::Refused(refused), &[]);
                    return false;
                }
                Err(ControlError::Malformed { .. }) => {
                    let refused = Refused {
                        code: Refused::MALFORMED,
                        message: "that is no message of the control protocol".to_owned(),
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
        if hello.version != VERSION {
            let message =
                format!("the daemon speaks version {VERSION} of the channel, not {}", hello.version);
            return Err(refuse(Refused::VERSION, message, "use a library and a daemon of one release"));
        }
        let socket = &self.connections[i].socket;
        if !self.config.allow_uids.is_empty() {
            let uid = socket.peer().map(|p| p.uid).ok();
            if !uid.is_some_and(|u| u == 0 || self.config.allow_uids.contains(&u)) {
                let message = "this user may not use the daemon".to_owned();
                return Err(refuse(Refused::NOT_PERMITTED, message, "daemon.allow_uids lists who may"));
            }
        }
        let geometry = self.geometry(hello.geometry).map_err(|why| {
            refuse(Refused::GEOMETRY, why, "ask for less, or raise [channel] in the daemon's configuration")
        })?;
        let Some(number) = self.taken.iter().position(|t| !t) else {
            let message = format!("the daemon serves {} applications already", self.taken.len());
            return Err(refuse(Refused::FULL, message, "daemon.applications_max sets how many"));
        };
        let (channel, fds) = DaemonChannel::create(geometry)
            .map_err(|e| refuse(Refused::FULL, format!("no channel could be made: {e}"), ""))?;
        let welcome = Welcome {
            version: VERSION,
            application: number as u32,
            addresses: self.config.addresses(),
            geometry,
            mtu: self.mtu,
        };
        if socket.send(&FromDaemon::Welcome(welcome), &fds.as_fds()).is_err() {
            // Gone already: the next look at the socket says so.
            return Ok(());
        }
        let name: String = hello.name.chars().filter(|c| !c.is_control()).take(64).collect();
        self.connections[i].number = Some(number as u32);
        self.taken[number] = true;
        self.order(Command::Add(number as u32, Box::new(Application::new(name, channel))));
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
