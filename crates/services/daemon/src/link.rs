//! The interface under a port, watched by a thread of its own: it is told by the kernel when a link changes, so that the engine's
//! duty cycle asks nobody.
//!
//! ```text
//! no carrier        counted and told, as is its return; frames are lost meanwhile, flows live as long as their patience
//! down, up          counted and told; frames are dropped meanwhile, flows live as long as their patience
//! away              told; nothing can be done
//! there again       the port is opened anew, in every engine; flows go on that were patient enough
//! another MAC       the host follows, and asks its neighbours, by which they learn it
//! a larger MTU      counted and told
//! not there yet     told; a further port is opened as soon as its interface is up
//! a smaller MTU     counted and told; flows send segments that were cut for the old one in pieces (those of peers that take none are
//!                   reset, as their segments would never arrive), and new ones are cut for this one
//! ```
//! An MTU that is too small for messages ends the daemon with an error, on a further port it shuts that port until it is larger.
//! With RDMA, whose connections keep the MAC address and the MTU that they were made with, another MAC or a smaller MTU ends the
//! daemon with an error.

use crate::background::Background;
use crate::daemon::DaemonError;
use crate::ports::serves;
use barewire_base::{Counter, Duration, Instant};
use barewire_engine::{Interface, LinkWatch, StopFlag, Waker, now};
use barewire_port::OpenError;
use barewire_wire::MacAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// How long after a failed attempt an interface that is there is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How long a smaller MTU must last to be meant: tools that set up a link change it more than once.
const MTU_GRACE: Duration = Duration::from_secs(1);
/// How long a carrier must be away to be lost: the kernel tells of one that has come up to a second late (its link watch takes changes that
/// are not urgent once a second).
const CARRIER_GRACE: Duration = Duration::from_millis(1500);
/// Smallest MTU that messages need, in bytes.
pub(crate) const MTU_MIN: u16 = 256;
/// Lines about a link that may be told at once, and the time that makes room for one more: a link that is up and down again in turns
/// must not fill a log.
const LINES_MAX: u32 = 20;
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What an engine is told about the interface.
#[derive(Debug)]
pub(crate) enum LinkOrder {
    /// It went down or away.
    Down,
    /// It is up, and nothing is at the other end of its cable.
    CarrierLost,
    /// Its MTU changed.
    MtuChanged,
    /// Packets have at most so many bytes from now on.
    MtuLowered(u16),
    /// Its MTU is too small for messages, or no longer.
    Shut(bool),
    /// Its MAC changed; the host's is this one from now on, or stays as it is.
    MacChanged(Option<MacAddr>),
    /// It was made anew, with this index: open the port on it, and report.
    Reopen(u32),
}

/// What became of [`LinkOrder::Reopen`].
#[derive(Debug)]
pub(crate) struct LinkReport {
    pub engine: u8,
    /// The index of the order.
    pub index: u32,
    pub opened: Result<(), OpenError>,
}

/// What happened to the interface.
#[derive(Default)]
pub(crate) struct LinkCounters {
    pub downs: Counter,
    pub carrier_losses: Counter,
    pub reopened: Counter,
    pub mtu_changes: Counter,
    pub mac_changes: Counter,
}

/// The watcher's end of its line to one engine.
pub(crate) struct LinkLine {
    /// The leg whose interface this is, and what became of it.
    pub orders: Sender<(usize, LinkOrder)>,
    pub leg: usize,
    /// The same flag and waker as for commands.
    pub pending: Arc<AtomicBool>,
    pub waker: Waker,
}

/// What the daemon was built on, and may not lose.
pub(crate) struct Ground {
    /// The interface's name.
    pub name: String,
    /// The MTU that hosts and transports count on, in bytes.
    pub mtu: u16,
    /// The least of all interfaces, for whoever tells applications.
    pub told_mtu: Arc<AtomicU32>,
    /// The MAC is the configuration's, whatever the interface has.
    pub fixed_mac: bool,
    /// RDMA connections keep the MAC they were made with.
    pub rdma: bool,
}

/// Watches an interface for the daemon's engines.
pub(crate) struct LinkGuard {
    watch: LinkWatch,
    name: String,
    ground: Ground,
    lines: Vec<LinkLine>,
    reports: Receiver<LinkReport>,
    /// The interface as it was last seen; `None`: away.
    seen: Option<Interface>,
    /// The index of the interface on which the ports stand, and the MAC that the hosts have of it.
    port_index: u32,
    mac: Option<MacAddr>,
    /// The MTU that was last told of, in bytes.
    mtu: u32,
    /// Engines whose port is still to be opened on the new interface, and when to ask them again.
    closed: Vec<bool>,
    /// Engines that have not reported yet. One that has no core for a while would otherwise open its port once for each question,
    /// and fail, since the socket it has just opened is in the way of the next.
    asked: Vec<bool>,
    retry_at: Instant,
    failure_told: bool,
    /// That there is no carrier was told; that there is one again was not.
    lacks_carrier: bool,
    no_carrier_since: Option<Instant>,
    small_since: Option<Instant>,
    /// The MTU is too small for messages, and the port sends none.
    is_shut: bool,
    lines_left: u32,
    line_at: Instant,
    /// Where the reason is left when the daemon has to end.
    failure: Arc<Mutex<Option<DaemonError>>>,
    background: Background,
}

impl LinkGuard {
    /// `watch` was made before the ports were opened, and `seen` is what it said then. `None`, or an interface
    /// that did not serve: no port stands on it yet.
    pub(crate) fn new(
        watch: LinkWatch,
        seen: Option<Interface>,
        ground: Ground,
        lines: Vec<LinkLine>,
        reports: Receiver<LinkReport>,
        failure: Arc<Mutex<Option<DaemonError>>>,
        background: Background,
    ) -> LinkGuard {
        let stands_on = seen.as_ref().filter(|i| serves(Some(i)));
        LinkGuard {
            watch,
            name: ground.name.clone(),
            closed: vec![false; lines.len()],
            asked: vec![false; lines.len()],
            lines,
            reports,
            port_index: stands_on.map_or(0, |i| i.index),
            mac: stands_on.and_then(|i| i.mac),
            mtu: seen.as_ref().map_or(ground.mtu.into(), |i| i.mtu),
            ground,
            seen,
            retry_at: Instant::ZERO,
            failure_told: false,
            lacks_carrier: false,
            no_carrier_since: None,
            small_since: None,
            is_shut: false,
            lines_left: LINES_MAX,
            line_at: Instant::ZERO,
            failure,
            background,
        }
    }

    /// Runs until `stop`, and raises it when the daemon cannot go on.
    pub(crate) fn run(mut self, stop: &StopFlag) {
        while !stop.is_stopped() {
            if let Err(failure) = self.look(now()) {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                stop.stop();
                return;
            }
            let wait = self.wait(now()).map(|wait| Timespec {
                tv_sec: (wait.as_nanos() / 1_000_000_000) as i64,
                tv_nsec: (wait.as_nanos() % 1_000_000_000) as i64,
            });
            let mut fds = [
                PollFd::new(stop, PollFlags::IN),
                PollFd::from_borrowed_fd(self.watch.as_fd(), PollFlags::IN),
            ];
            // Interrupted by a signal: look at the stop flag.
            let _ = poll(&mut fds, wait.as_ref());
        }
    }

    /// How long until something is due though nothing changes.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let retry = (self.seen.is_some() && self.closed.contains(&true)).then_some(self.retry_at);
        let grace = self.small_since.map(|since| since + MTU_GRACE);
        let carrier =
            self.no_carrier_since.filter(|_| !self.lacks_carrier).map(|since| since + CARRIER_GRACE);
        [retry, grace, carrier].into_iter().flatten().min().map(|at| at.since(now))
    }

    fn tell(&mut self, line: &str) {
        let now = now();
        while self.lines_left < LINES_MAX && now >= self.line_at + LINE_EVERY {
            self.lines_left += 1;
            self.line_at += LINE_EVERY;
        }
        if self.lines_left == LINES_MAX {
            self.line_at = now;
        }
        if self.lines_left > 0 {
            self.lines_left -= 1;
            self.background.say(line.to_owned());
        }
    }

    fn order(&self, engine: usize, order: LinkOrder) {
        let line = &self.lines[engine];
        // The engine outlives this thread, except when it failed: then the daemon is stopping anyway.
        let _ = line.orders.send((line.leg, order));
        line.pending.store(true, Ordering::Release);
        line.waker.wake();
    }

    fn order_all(&self, order: impl Fn() -> LinkOrder) {
        (0..self.lines.len()).for_each(|engine| self.order(engine, order()));
    }

    fn look(&mut self, now: Instant) -> Result<(), DaemonError> {
        let was = self.seen.take();
        self.seen = self.watch.look();
        let name = self.name.clone();
        let (was_up, is_up) = (was.as_ref().is_some_and(|i| i.up), self.seen.as_ref().is_some_and(|i| i.up));
        let is_new = |i: &Interface| i.index != self.port_index;
        match (&was, &self.seen) {
            (Some(_), None) => self.tell(&format!(
                "interface {name} is gone; its port reopens when it is back, and packets sent until then are lost"
            )),
            (_, Some(i)) if was_up && !i.up && !is_new(i) => {
                self.tell(&format!("interface {name} is down; packets sent until it is up are lost"));
            }
            (Some(w), Some(i)) if !was_up && i.up && w.index == i.index && !is_new(i) => {
                self.tell(&format!("interface {name} is up again"));
            }
            _ => {}
        }
        if was_up && !is_up {
            self.order_all(|| LinkOrder::Down);
        }
        self.look_at_carrier(now);
        self.hear_reports(now);
        let Some(i) = self.seen.clone() else {
            self.small_since = None;
            return Ok(());
        };
        if i.mtu != self.mtu {
            self.mtu = i.mtu;
            self.order_all(|| LinkOrder::MtuChanged);
            let ours = self.ground.mtu;
            let mtu = i.mtu;
            self.tell(&if mtu < u32::from(ours) {
                format!("interface {name} has an MTU of {mtu} now, and the daemon sends packets of {ours}")
            } else {
                format!("interface {name} now has an MTU of {mtu}; the daemon keeps {ours}")
            });
        }
        self.check_mtu(&i, now)?;
        if i.index != self.port_index && i.up && self.small_since.is_none() && !self.is_shut {
            self.port_index = i.index;
            self.closed.fill(true);
            self.retry_at = now;
            self.failure_told = false;
        }
        if self.closed.contains(&true) && now >= self.retry_at {
            self.retry_at = now + RETRY;
            for engine in 0..self.closed.len() {
                if self.closed[engine] && !self.asked[engine] {
                    self.asked[engine] = true;
                    self.order(engine, LinkOrder::Reopen(i.index));
                }
            }
        }
        // Hosts follow the MAC of the interface on which their port stands.
        if !self.closed.contains(&true) && i.index == self.port_index && i.mac != self.mac {
            self.follow(&i)?;
        }
        Ok(())
    }

    /// What lasts only a moment is no loss: a link that is set up has no carrier at first.
    fn look_at_carrier(&mut self, now: Instant) {
        let name = self.name.clone();
        let is_here = |i: &&Interface| i.up && i.index == self.port_index;
        match self.seen.as_ref().filter(is_here).map(|i| i.carrier) {
            Some(false) => {
                let since = *self.no_carrier_since.get_or_insert(now);
                if !self.lacks_carrier && now >= since + CARRIER_GRACE {
                    self.lacks_carrier = true;
                    self.order_all(|| LinkOrder::CarrierLost);
                    self.tell(&format!(
                        "interface {name} has no carrier; packets sent until it has one are lost"
                    ));
                }
            }
            has_one => {
                self.no_carrier_since = None;
                // Down or away is told as what it is.
                if std::mem::take(&mut self.lacks_carrier) && has_one.is_some() {
                    self.tell(&format!("interface {name} has a carrier again"));
                }
            }
        }
    }

    fn check_mtu(&mut self, i: &Interface, now: Instant) -> Result<(), DaemonError> {
        let is_usable = i.mtu >= u32::from(MTU_MIN);
        if self.is_shut && is_usable {
            self.is_shut = false;
            self.order_all(|| LinkOrder::Shut(false));
            self.tell(&format!("interface {} has an MTU for messages again", i.name));
        }
        if i.mtu >= u32::from(self.ground.mtu) || self.is_shut {
            self.small_since = None;
            return Ok(());
        }
        let since = *self.small_since.get_or_insert(now);
        if now < since + MTU_GRACE {
            return Ok(());
        }
        if !is_usable && self.lines.iter().any(|line| line.leg > 0) {
            // The other ports serve.
            (self.is_shut, self.small_since) = (true, None);
            self.order_all(|| LinkOrder::Shut(true));
            self.tell(&format!(
                "interface {} has an MTU of {}, and messages need {MTU_MIN}: packets are lost until it is raised",
                i.name, i.mtu
            ));
            return Ok(());
        }
        let ours = self.ground.mtu;
        match u16::try_from(i.mtu).ok().filter(|mtu| *mtu >= MTU_MIN && !self.ground.rdma) {
            Some(mtu) => {
                self.ground.mtu = mtu;
                self.small_since = None;
                self.ground.told_mtu.fetch_min(mtu.into(), Ordering::Relaxed);
                self.order_all(|| LinkOrder::MtuLowered(mtu));
                let name = self.name.clone();
                self.tell(&format!(
                    "interface {name} keeps its MTU of {mtu}: the daemon sends packets of {mtu}, and flows that were opened for more \
                     send less at a time; hint: set the port's mtu to what the link always carries"
                ));
                Ok(())
            }
            None => Err(DaemonError::Interface {
                name: self.name.clone(),
                what: format!(
                    "its MTU was lowered to {}, and RDMA connections keep the one of {ours}, or it is too small for messages; hint: \
                     start the daemon again, or set the port's mtu to what the link always carries",
                    i.mtu
                ),
            }),
        }
    }

    fn follow(&mut self, i: &Interface) -> Result<(), DaemonError> {
        self.mac = i.mac;
        let shown = i.mac.map_or_else(|| "none".to_owned(), |mac| mac.to_string());
        if self.ground.fixed_mac {
            self.order_all(|| LinkOrder::MacChanged(None));
            self.tell(&format!(
                "interface {} now has the MAC address {shown}; the daemon keeps the configured one",
                self.name
            ));
            return Ok(());
        }
        if self.ground.rdma {
            return Err(DaemonError::Interface {
                name: self.name.clone(),
                what: format!(
                    "its MAC address is {shown} now, and RDMA connections keep the one they were made with; hint: start the daemon \
                     again, or set the port's mac"
                ),
            });
        }
        self.order_all(|| LinkOrder::MacChanged(i.mac));
        self.tell(&format!(
            "interface {} now has the MAC address {shown}; the daemon uses it too",
            self.name
        ));
        Ok(())
    }

    fn hear_reports(&mut self, now: Instant) {
        let mut failed = None;
        let mut heard = false;
        while let Ok(report) = self.reports.try_recv() {
            heard = true;
            let engine = usize::from(report.engine);
            self.asked[engine] = false;
            match report.opened {
                // One that is gone again is no port.
                Ok(()) => self.closed[engine] = report.index != self.port_index,
                Err(e) => {
                    self.closed[engine] = true;
                    failed = Some(e);
                }
            }
        }
        if let Some(e) = failed {
            // The next attempt may find it up, or the other engines' sockets closed.
            self.retry_at = now + RETRY;
            if !std::mem::replace(&mut self.failure_told, true) && !matches!(e, OpenError::NotFound { .. }) {
                self.tell(&format!("not opened again yet: {e}"));
            }
        } else if heard && !self.closed.contains(&true) {
            let name = self.name.clone();
            self.tell(&format!("interface {name} is back, and its port is open again"));
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
