//! Waiting: for events, for answers, for the end.

use super::*;
use crate::error::CloseWaitError;
use barewire_base::Instant;

impl Client {
    /// Asks for connections and waits for the answer; other events stay queued. A time-out takes the wish back.
    ///
    /// # Errors
    /// [`ConnectWaitError`]: a port that is taken is `Failed(Refused)`.
    pub fn listen_wait(
        &mut self,
        udp_port: u16,
        token: u64,
        timeout: Duration,
    ) -> Result<(), ConnectWaitError> {
        self.listen_wait_at(None, udp_port, token, timeout)
    }

    /// As [`listen_on`](Self::listen_on), and waits for the answer.
    ///
    /// # Errors
    /// [`ConnectWaitError`]: `Failed(Refused)` when the UDP port is taken, or the address is not the daemon's.
    pub fn listen_on_wait(
        &mut self,
        local: IpAddr,
        udp_port: u16,
        token: u64,
        timeout: Duration,
    ) -> Result<(), ConnectWaitError> {
        self.listen_wait_at(Some(local), udp_port, token, timeout)
    }

    fn listen_wait_at(
        &mut self,
        local: Option<IpAddr>,
        udp_port: u16,
        token: u64,
        timeout: Duration,
    ) -> Result<(), ConnectWaitError> {
        let end = barewire_engine::now() + timeout.into();
        self.wait_for(end, |client| client.asks(|c| c.ask_to_listen(local, udp_port, token, Fate::Waited)))??;
        let answer = self.wait_for(end, |client| client.calls.listen_answer(udp_port));
        match answer {
            Ok(true) => Ok(()),
            Ok(false) => Err(ConnectWaitError::Failed(ConnectFailure::Refused)),
            Err(e) => {
                self.calls.give_up_listen(udp_port);
                Err(e)
            }
        }
    }

    /// Connects and waits for it; other events stay queued. A time-out gives the attempt up: a flow that opens all the same is
    /// ended unseen. The token of `options` has no meaning here.
    ///
    /// # Errors
    /// [`ConnectWaitError`].
    pub fn connect_wait(
        &mut self,
        remote: SocketAddr,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<FlowId, ConnectWaitError> {
        let end = barewire_engine::now() + timeout.into();
        self.connect_wait_any(&[remote], options, end)
    }

    /// As [`connect_wait`](Self::connect_wait), to the first address of `remote` that answers. Each has an equal share of the time that is
    /// left: one that is silent does not keep the others from being tried. A name is looked up as the system does (`/etc/hosts`, DNS), and
    /// the resolver takes its own time.
    ///
    /// # Errors
    /// [`ConnectWaitError`], of the last address tried.
    pub fn connect_to_wait(
        &mut self,
        remote: impl ToSocketAddrs,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<FlowId, ConnectWaitError> {
        let end = barewire_engine::now() + timeout.into();
        let remotes = candidates(remote.to_socket_addrs()?, options.local)?;
        self.connect_wait_any(&remotes, options, end)
    }

    fn connect_wait_any(
        &mut self,
        remotes: &[SocketAddr],
        options: &ConnectOptions,
        end: Instant,
    ) -> Result<FlowId, ConnectWaitError> {
        let id =
            self.wait_for(end, |client| client.asks(|c| c.ask_to_connect(remotes, options, Fate::Waited)))??;
        let answer = self.first_answer(id, end);
        if answer.is_err() {
            self.calls.give_up(id, false, &mut self.owed);
            self.flush();
        }
        answer?.map_err(ConnectWaitError::Failed)
    }

    /// The answer to an attempt, whose addresses share the time until `end`.
    fn first_answer(
        &mut self,
        id: ConnectId,
        end: Instant,
    ) -> Result<Result<FlowId, ConnectFailure>, ConnectWaitError> {
        let mut is_skipped = false;
        loop {
            let left = self.calls.addresses_left(id);
            let now = barewire_engine::now();
            let share = barewire_base::Duration::from_nanos(end.since(now).as_nanos() / (left as u64 + 1));
            let until = if is_skipped { end } else { now + share };
            let answer = self.wait_for(until, |client| match client.calls.answer(id) {
                Some(answer) => Some(Some(answer)),
                None => (client.calls.addresses_left(id) != left).then_some(None),
            });
            match answer {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => is_skipped = false,
                Err(ConnectWaitError::TimedOut) if left > 0 && !is_skipped => {
                    self.calls.skip_address(id, &mut self.owed);
                    self.flush();
                    is_skipped = true;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Asks when the ring has room, or is no more.
    fn asks<T>(&mut self, ask: impl FnOnce(&mut Client) -> T) -> Option<T> {
        if !self.owed.is_empty() || !self.channel.has_room() {
            // What was submitted before has to be seen first.
            self.flush();
        }
        (self.ring_has_room() || self.channel.is_closed()).then(|| ask(self))
    }

    /// Whether the next request goes into the ring at once.
    fn ring_has_room(&mut self) -> bool {
        self.owed.is_empty() && self.channel.has_room()
    }

    /// Waits until `answer` has one. Events that come meanwhile are queued.
    pub(super) fn wait_for<T>(
        &mut self,
        end: Instant,
        mut answer: impl FnMut(&mut Client) -> Option<T>,
    ) -> Result<T, ConnectWaitError> {
        loop {
            let had_room = self.ring_has_room();
            loop {
                let event = self.take_completion();
                if let Some(answer) = answer(self) {
                    self.queued.extend(event);
                    return Ok(answer);
                }
                let Some(event) = event else { break };
                self.queued.push_back(event);
            }
            // What was released before or is dropped meanwhile does not wait for the answer.
            self.flush();
            let now = barewire_engine::now();
            if now >= end {
                return Err(ConnectWaitError::TimedOut);
            }
            // Of room in the ring the daemon does not tell. What came since it was asked for would be slept over.
            let has_room = self.ring_has_room();
            if has_room && !had_room {
                continue;
            }
            let left = Duration::from(end.since(now));
            match self.channel.wait(Some(if has_room { left } else { left.min(RING_CHECK) })) {
                Ok(Wake::Gone) => return Err(WaitError::DaemonGone.into()),
                Ok(Wake::Woken) => self.queued.push_back(Event::Woken),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(WaitError::Io(e).into()),
            }
        }
    }

    /// Whether something waits for room in the ring of requests, whose emptying does not ring.
    pub(super) fn waits_for_ring(&self) -> bool {
        !self.owed.is_empty() || (self.ring_was_full && self.shares.has_refusals())
    }

    /// How long to sleep at most when the application allows `left`.
    pub(super) fn nap(&self, left: Option<Duration>) -> Option<Duration> {
        match self.waits_for_ring() {
            false => left,
            true => Some(left.map_or(RING_CHECK, |left| left.min(RING_CHECK))),
        }
    }

    /// The next thing that happened, waiting for it for up to `timeout` (`None`: for ever). `None` when the time was over.
    /// Signals do not end the wait; their handlers can, with a [`Waker`].
    ///
    /// # Errors
    /// [`WaitError::DaemonGone`] once everything said before was handed out; not with [`ClientConfig::reattach`].
    pub fn wait_event(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, WaitError> {
        self.flush();
        if let Some(event) = self.next_event() {
            return Ok(Some(event));
        }
        let start = barewire_engine::now();
        if self.spin > Duration::ZERO {
            let spin = self.spin.min(timeout.unwrap_or(Duration::MAX));
            loop {
                if let Some(event) = self.next_event() {
                    return Ok(Some(event));
                }
                if Duration::from(barewire_engine::now().since(start)) >= spin {
                    break;
                }
                std::thread::yield_now();
            }
        }
        loop {
            let left = timeout.map(|t| t.saturating_sub(barewire_engine::now().since(start).into()));
            let nap = self.nap(left);
            match self.channel.wait(nap) {
                Ok(Wake::Gone) if self.steady.is_some() && !self.channel.is_inherited() => {
                    if let Some(event) = self.await_daemon(left)? {
                        return Ok(Some(event));
                    }
                }
                Ok(Wake::Gone) => return Err(WaitError::DaemonGone),
                Ok(Wake::TimedOut) if nap == left => {
                    // Dropped by another thread, or freed by a message that nobody asked after.
                    self.flush();
                    return Ok(self.next_event());
                }
                Ok(Wake::Woken) => {
                    self.flush();
                    return Ok(Some(Event::Woken));
                }
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
            self.flush();
            // What woke us may be of no interest to the application (an acknowledgement).
            if let Some(event) = self.next_event() {
                return Ok(Some(event));
            }
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
        }
    }

    /// What ends a wait from another thread or a signal's handler: [`wait_event`](Self::wait_event) then gives
    /// [`Event::Woken`]. A ring while nobody waits ends the next wait.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn waker(&mut self) -> io::Result<Waker> {
        let waker = self.channel.waker()?;
        self.home.set_waker(waker.clone());
        Ok(waker)
    }

    /// What to sleep on while other threads use the client, behind a lock: call [`prepare_sleep`](Self::prepare_sleep), let go,
    /// sleep, come back, [`disarm`](Self::disarm) and take events. Who used it meanwhile wakes the sleeper when
    /// [`ends_sleep`](Self::ends_sleep) says so.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn sleeper(&mut self) -> io::Result<Sleeper> {
        self.waker()?;
        self.channel.sleeper()
    }

    /// After such a sleep: whether a [`Waker`] was rung since the last call.
    pub fn take_woken(&mut self) -> bool {
        self.channel.take_woken()
    }

    /// Ends everything in good order: gives up attempts to connect, listens no more, closes every flow, and waits until the peers
    /// have acknowledged all that was sent and have closed their halves. Events and messages that come meanwhile are thrown
    /// away. Peers that do not read keep it waiting until the time-out; dropping the client afterwards resets what is left.
    ///
    /// # Errors
    /// [`CloseWaitError`].
    pub fn close_and_wait(&mut self, timeout: Duration) -> Result<(), CloseWaitError> {
        let end = barewire_engine::now() + timeout.into();
        let before = self.undelivered;
        for id in self.calls.attempts() {
            self.calls.give_up(id, false, &mut self.owed);
        }
        for udp_port in self.calls.udp_ports() {
            let _ = self.unlisten(udp_port);
        }
        if let Some(steady) = &mut self.steady {
            steady.listens_nowhere();
        }
        loop {
            self.queued.clear();
            while let Some(event) = self.take_completion() {
                drop(event);
            }
            for flow in self.shares.open_flows() {
                self.shares.close(flow);
                self.owed.push_back(Request::Close { flow: flow.to_raw() });
            }
            self.flush();
            let open = self.shares.live();
            if open == 0 && self.shares.messages() == 0 {
                return match self.undelivered - before {
                    0 => Ok(()),
                    lost => Err(CloseWaitError::Lost { lost }),
                };
            }
            let now = barewire_engine::now();
            if now >= end {
                return Err(CloseWaitError::TimedOut { open });
            }
            match self.channel.wait(self.nap(Some(end.since(now).into()))) {
                Ok(Wake::Gone) => return Err(WaitError::DaemonGone.into()),
                Err(e) if e.kind() != ErrorKind::Interrupted => return Err(WaitError::Io(e).into()),
                _ => {}
            }
        }
    }
}
