//! A daemon that goes and comes back. The client finds the new one by itself and says what became of what the old one had.
//!
//! ```text
//! gone    everything that the old daemon had said -> Detached -> Unconfirmed, one for each message whose arrival was not confirmed,
//!         in the order in which they were sent -> ConnectFailed, ListenFailed (of a second one at a UDP port), Closed
//! back    Reattached -> Listening, for each port that was listened on
//! ```
//! The memory of the old channel stays ours, so the bytes of what was sent are still there, and what was received can still be read.

use super::*;
use crate::share::FlowHasher;
use barewire_base::Instant;
use barewire_channel::Region;
use std::collections::BTreeMap;
use std::hash::BuildHasherDefault;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// How long after a failed attempt to attach the next one comes.
pub(crate) const RETRY: Duration = Duration::from_millis(50);
/// How often a wait looks for the answer to an attempt that is under way.
const ANSWER_CHECK: Duration = Duration::from_millis(2);

/// A message whose fate the daemon has not told.
struct Sent {
    /// Counts messages, so that they are told of in the order in which they were sent.
    number: u64,
    flow: FlowId,
    len: u32,
    token: u64,
}

/// The channel to a daemon that is gone.
struct Retired {
    home: Home,
    channel: AppChannel,
    /// Messages in it that were not released.
    unread: u64,
}

/// What outlives a daemon.
pub(super) struct Steady {
    config: ClientConfig,
    /// By its place in the memory to send from.
    under_way: HashMap<u64, Sent, BuildHasherDefault<FlowHasher>>,
    sent: u64,
    /// Where listeners listen, or may as far as anybody knows, and what they were given, by UDP port.
    wishes: BTreeMap<u16, (Option<IpAddr>, u64)>,
    /// Ports to listen on again.
    listens: Vec<u16>,
    /// Channels to daemons that are gone, the last one first, for messages that came over them and were not read yet.
    retired: VecDeque<Retired>,
    /// Such a channel stays for as long as one of its messages was not released, not only until the next daemon goes.
    keeps_unread: bool,
    /// Messages of the daemon that is there which were not released, where that is counted.
    unread: u64,
    is_detached: bool,
    try_at: Instant,
    /// What comes of the attempt that a thread makes.
    attempt: Option<Receiver<Result<Attached, AttachError>>>,
}

impl Steady {
    pub(super) fn new(config: &ClientConfig) -> Steady {
        Steady {
            config: config.clone(),
            under_way: HashMap::default(),
            sent: 0,
            wishes: BTreeMap::new(),
            listens: Vec::new(),
            retired: VecDeque::new(),
            keeps_unread: false,
            unread: 0,
            is_detached: false,
            try_at: Instant::ZERO,
            attempt: None,
        }
    }

    /// Asks for a channel in a thread of its own: a daemon that hangs takes seconds to be given up, and nobody waits for that here.
    fn ask(&mut self) -> io::Result<()> {
        let attaching = Attaching(self.config.clone());
        let (answer, attempt) = channel();
        std::thread::Builder::new().name("barewire-attach".to_owned()).spawn(move || {
            // Nobody hears of it where the client is gone meanwhile: then so is what it would have been given.
            let _ = answer.send(attaching.attach());
        })?;
        self.attempt = Some(attempt);
        Ok(())
    }

    #[inline]
    pub(super) fn begins(&mut self, flow: FlowId, offset: u32, len: u32, token: u64) {
        self.sent += 1;
        let number = self.sent;
        self.under_way.insert(offset.into(), Sent { number, flow, len, token });
    }

    #[inline]
    pub(super) fn ends(&mut self, offset: u32) {
        self.under_way.remove(&u64::from(offset));
    }

    pub(super) fn listens(&mut self, local: Option<IpAddr>, udp_port: u16, token: u64) {
        self.wishes.insert(udp_port, (local, token));
    }

    pub(super) fn unlistens(&mut self, udp_port: u16) {
        self.wishes.remove(&udp_port);
        self.listens.retain(|p| *p != udp_port);
    }

    /// The next daemon is asked for nothing.
    pub(super) fn listens_nowhere(&mut self) {
        self.wishes.clear();
        self.listens.clear();
    }

    /// Where a message lies that came over the channel to a daemon that is gone.
    pub(super) fn memory_of(&self, message: &Inbound) -> Option<&Region> {
        let of = |r: &&Retired| r.home.number() == message.home;
        self.retired.iter().find(of).map(|r| r.channel.recv_memory())
    }

    /// A message came over the channel that is there.
    #[inline]
    pub(super) fn receives(&mut self) {
        self.unread += 1;
    }

    /// A message was released: of the channel that is there, or of the one with this number.
    pub(super) fn releases(&mut self, retired: Option<u32>) {
        let Some(home) = retired else {
            self.unread = self.unread.saturating_sub(1);
            return;
        };
        if let Some(r) = self.retired.iter_mut().find(|r| r.home.number() == home) {
            r.unread = r.unread.saturating_sub(1);
        }
        self.drop_read();
    }

    /// Lets go of channels that nobody needs.
    fn drop_read(&mut self) {
        match self.keeps_unread {
            true => self.retired.retain(|r| r.unread > 0),
            false => self.retired.truncate(1),
        }
    }
}

/// How to attach once more.
pub(crate) struct Attaching(ClientConfig);

impl Attaching {
    pub(crate) fn attach(self) -> Result<Attached, AttachError> {
        attach(&self.0.socket, &self.0.name, self.0.geometry)
    }
}

impl Client {
    /// Whether there is no daemon at the moment, and the client looks for one ([`ClientConfig::reattach`]).
    pub fn is_detached(&self) -> bool {
        self.steady.as_ref().is_some_and(|s| s.is_detached) && !self.channel.is_inherited()
    }

    /// Whether another process attached, whose child this one is: here the client counts as closed.
    pub fn is_inherited(&self) -> bool {
        self.channel.is_inherited()
    }

    /// Whether the client outlives its daemon ([`ClientConfig::reattach`]). Not in a child of the process that attached it.
    pub fn is_steady(&self) -> bool {
        self.steady.is_some() && !self.channel.is_inherited()
    }

    /// The daemon is gone, and everything that it had said was handed out: queues what is to be said of that, once.
    #[cold]
    pub(super) fn mourn(&mut self) {
        let Some(steady) = self.steady.as_mut().filter(|s| !s.is_detached) else { return };
        if self.channel.is_inherited() || !self.channel.is_closed() {
            return;
        }
        steady.is_detached = true;
        // What it said last may have come between the look at the ring and the look at its end.
        while let Some(event) = self.take_completion() {
            self.queued.push_back(event);
        }
        let Some(steady) = self.steady.as_mut() else { return };
        let mut sent: Vec<_> = steady.under_way.drain().collect();
        sent.sort_unstable_by_key(|(_, s)| s.number);
        let flows = self.shares.flows();
        self.queued.push_back(Event::Detached { flows: flows.len(), unconfirmed: sent.len() });
        for (offset, Sent { flow, len, token, .. }) in sent {
            let mut bytes = vec![0; len as usize];
            // Always there: it was written to the same place.
            let _ = self.channel.send_memory().read(offset as usize, &mut bytes);
            // Free at once, not with the next daemon: who waits for room has to learn that there is no flow to send on. What is reserved
            // and was not sent stays its owner's.
            self.send_books.free(offset as u32);
            self.undelivered += 1;
            let token = (token & WANTED != 0).then_some(token & !WANTED);
            self.queued.push_back(Event::Unconfirmed { flow, token, bytes });
        }
        for (udp_port, wish) in self.calls.orphan(&mut self.queued) {
            if let Some((local, token)) = wish {
                steady.listens(local, udp_port, token);
            }
            steady.listens.push(udp_port);
        }
        for flow in flows {
            self.queued.push_back(Event::Closed { flow, reason: CloseReason::LocalReset });
        }
        self.shares.reset(self.channel.geometry().sends_max());
        self.peers.clear();
        self.owed.clear();
        self.ring_was_full = false;
    }

    /// Looks for a daemon, where there is none and the client is to find one; [`wait_event`](Client::wait_event) does so by itself. It never
    /// waits: a thread asks, not more often than every 50 ms, and a later look finds what came of it. True: there is one.
    ///
    /// # Errors
    /// Why none let us in, this time.
    pub fn try_reattach(&mut self) -> Result<bool, AttachError> {
        self.mourn();
        let Some(steady) = self.steady.as_mut().filter(|s| s.is_detached) else {
            return Ok(!self.channel.is_closed());
        };
        if self.channel.is_inherited() {
            return Ok(false);
        }
        let now = barewire_engine::now();
        let Some(attempt) = &steady.attempt else {
            if now >= steady.try_at {
                steady.try_at = now + RETRY.into();
                steady.ask().map_err(AttachError::Wait)?;
            }
            return Ok(false);
        };
        let attached = match attempt.try_recv() {
            Ok(attached) => attached,
            Err(TryRecvError::Empty) => return Ok(false),
            // It has panicked.
            Err(TryRecvError::Disconnected) => Err(AttachError::Protocol),
        };
        steady.attempt = None;
        steady.try_at = now + RETRY.into();
        self.adopt(attached?);
        Ok(true)
    }

    /// How long to sleep, while there is no daemon, before the next look for one.
    pub fn reattach_nap(&self) -> Duration {
        match self.steady.as_ref().is_some_and(|s| s.attempt.is_some()) {
            true => ANSWER_CHECK,
            false => RETRY,
        }
    }

    /// What it takes to look for a daemon without this client, in another thread. `None` while there is one, and for clients that do not
    /// outlive it.
    #[cfg(feature = "tokio")]
    pub(crate) fn attaching(&self) -> Option<Attaching> {
        let steady = self.steady.as_ref().filter(|s| s.is_detached && !self.channel.is_inherited())?;
        Some(Attaching(steady.config.clone()))
    }

    /// Whether the daemon is gone and no other is looked for. Everything that it had said can be taken after this is true.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_gone(&self) -> bool {
        self.channel.is_closed() && !self.is_steady()
    }

    /// Messages can be read for as long as they are not released, however many daemons go meanwhile. Who says so releases every message with
    /// [`release`](Client::release).
    #[cfg(feature = "tokio")]
    pub(crate) fn keep_unread(&mut self) {
        if let Some(steady) = &mut self.steady {
            steady.keeps_unread = true;
        }
    }

    /// Goes on over the channel to another daemon.
    #[cold]
    pub(crate) fn adopt(&mut self, attached: Attached) {
        let Some(steady) = self.steady.as_mut().filter(|s| s.is_detached) else { return };
        let Attached { mut channel, control, welcome } = attached;
        let home = Home::new();
        if let Some(waker) = channel.adopt_waker(&self.channel) {
            home.set_waker(waker);
        }
        let listens: Vec<_> = std::mem::take(&mut steady.listens)
            .into_iter()
            .map(|p| (p, steady.wishes.get(&p).copied()))
            .collect();
        self.send_books = Buddy::new(channel.geometry().send_bytes as usize);
        self.shares.reset(channel.geometry().sends_max());
        (self.addresses, self.mtu, self.number) = (welcome.addresses, welcome.mtu, welcome.application);
        steady.retired.push_front(Retired {
            home: std::mem::replace(&mut self.home, home),
            channel: std::mem::replace(&mut self.channel, channel),
            unread: std::mem::take(&mut steady.unread),
        });
        steady.drop_read();
        steady.is_detached = false;
        steady.attempt = None;
        self._control = control;
        // What was released meanwhile was the old daemon's.
        self.owed.clear();
        self.queued.push_back(Event::Reattached);
        for (udp_port, wish) in listens {
            let (local, token) = wish.unwrap_or((None, 0));
            self.owed.push_back(Request::Listen { token, udp_port, local });
            self.calls.listens(local, udp_port, token, Fate::Told(token));
        }
        self.flush();
    }

    /// Sleeps until it is time to look for a daemon again, for `left` at most, or until somebody rings. What came of it: an event, or
    /// nothing yet.
    pub(super) fn await_daemon(&mut self, left: Option<Duration>) -> Result<Option<Event>, WaitError> {
        self.mourn();
        // Whatever the reason is: a daemon that starts refuses, too.
        let _ = self.try_reattach();
        if let Some(event) = self.next_event() {
            return Ok(Some(event));
        }
        let nap = self.reattach_nap();
        match self.channel.lonely_sleeper()?.sleep(Some(left.map_or(nap, |left| left.min(nap)))) {
            Ok(true) if self.channel.take_woken() => Ok(Some(Event::Woken)),
            Ok(_) => Ok(None),
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// What to sleep on while there is no daemon: a [`Waker`] or the time ends it.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn lonely_sleeper(&mut self) -> io::Result<Sleeper> {
        self.channel.lonely_sleeper()
    }
}

#[cfg(test)]
mod tests;
