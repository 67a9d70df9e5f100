//! What the daemon's engine runs: requests in, a duty cycle of the stack, completions out.

use crate::applications::{Application, Applications, COMPLETIONS_PER_FLOW};
use crate::counters::Published;
use barewire_base::{Counter, Instant};
use barewire_channel::{Completion, Request};
use barewire_engine::{Agent, Stack};
use barewire_port::PortError;
use barewire_transport::{
    ConnectError, ConnectFailure, Event, FlowId, ListenError, SendBuf, SendError,
};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// Requests taken from one application in one cycle: a busy one does not starve the others.
const REQUESTS_PER_CYCLE: usize = 64;
/// Rounds of sending given to resets when the daemon stops.
const GOODBYE_ROUNDS: usize = 64;

/// What the control thread tells the engine.
pub(crate) enum Command {
    /// Serve this application under this number.
    Add(u32, Box<Application>),
    /// The application with this number is gone.
    Drop(u32),
}

/// The engine's end of the control thread's orders.
pub(crate) struct Orders {
    /// Set after a command was sent, so that a cycle costs one load when there is none.
    pub pending: Arc<AtomicBool>,
    pub commands: Receiver<Command>,
}

/// What applications did that their library does not do.
#[derive(Default)]
pub(crate) struct Offences {
    /// Entries that are no requests.
    pub bad_entries: Counter,
    /// Messages, buffers or flows that are not the application's.
    pub not_theirs: Counter,
    /// Channels whose ring made no sense.
    pub corrupt: Counter,
}

pub(crate) struct DaemonAgent {
    name: String,
    stack: Stack<Applications>,
    orders: Orders,
    published: Published,
    offences: Offences,
    /// Grows when an application comes or goes.
    generation: u64,
    applications: usize,
    port_error: Option<PortError>,
}

impl DaemonAgent {
    pub(crate) fn new(name: String, stack: Stack<Applications>, orders: Orders, published: Published) -> DaemonAgent {
        DaemonAgent {
            name,
            stack,
            orders,
            published,
            offences: Offences::default(),
            generation: 0,
            applications: 0,
            port_error: None,
        }
    }

    fn obey(&mut self, now: Instant) -> usize {
        if !self.orders.pending.swap(false, Ordering::Acquire) {
            return 0;
        }
        let mut done = 0;
        while let Ok(command) = self.orders.commands.try_recv() {
            done += 1;
            self.generation += 1;
            match command {
                Command::Add(number, application) => {
                    self.applications += 1;
                    self.stack.endpoint_mut().memory_mut().put(number, *application);
                }
                Command::Drop(number) => self.drop_application(number, now),
            }
        }
        done
    }

    fn drop_application(&mut self, number: u32, now: Instant) {
        let endpoint = self.stack.endpoint_mut();
        // First the flows, which still need its memory to be told apart from nobody's; then the channel with all of it.
        endpoint.drop_owner(now, number);
        if endpoint.memory_mut().remove(number).is_some() {
            self.applications -= 1;
            self.generation += 1;
        }
    }

    /// Takes requests from every application.
    fn take_requests(&mut self, now: Instant) -> usize {
        let mut done = 0;
        for number in 0..self.published.applications_max {
            done += self.take_requests_of(number, now);
        }
        done
    }

    fn take_requests_of(&mut self, number: u32, now: Instant) -> usize {
        let mut done = 0;
        while done < REQUESTS_PER_CYCLE {
            let Some(a) = self.stack.endpoint_mut().memory_mut().get(number) else {
                return done;
            };
            if a.condemned {
                return done;
            }
            let request = match a.stalled.take() {
                Some(request) => request,
                None => match a.channel.next_request() {
                    Some(Ok(request)) => request,
                    Some(Err(_)) => {
                        self.offences.bad_entries.add(1);
                        done += 1;
                        continue;
                    }
                    None => {
                        if a.channel.is_corrupt() {
                            self.offences.corrupt.add(1);
                            a.condemned = true;
                        }
                        return done;
                    }
                },
            };
            if !self.serve(number, request, now) {
                // It waits, and everything behind it: order is kept, and the full ring holds the application up.
                if let Some(a) = self.stack.endpoint_mut().memory_mut().get(number) {
                    a.stalled = Some(request);
                }
                return done;
            }
            done += 1;
        }
        done
    }

    fn is_theirs(&mut self, flow: FlowId, number: u32) -> bool {
        let theirs = self.stack.endpoint().owner(flow) == Some(number);
        if !theirs {
            self.offences.not_theirs.add(1);
        }
        theirs
    }

    /// Serves one request. False: it has to wait.
    fn serve(&mut self, number: u32, request: Request, now: Instant) -> bool {
        match request {
            Request::Send { flow, offset, len, token } => self.serve_send(number, flow, offset, len, token, now),
            Request::Release { flow, offset, len } => {
                let endpoint = self.stack.endpoint_mut();
                let theirs = endpoint.memory_mut().get(number).is_some_and(|a| a.take_back(offset, len));
                if theirs {
                    // The credit goes to a flow of this application or to none.
                    let id = FlowId::from_raw(flow);
                    let id = if endpoint.owner(id) == Some(number) { id } else { FlowId::from_raw(u64::MAX) };
                    endpoint.release(now, id, barewire_transport::RecvBuf { owner: number, offset, len });
                } else {
                    self.offences.not_theirs.add(1);
                }
                true
            }
            Request::Connect { token, local, local_udp_port, remote, ordered } => {
                self.serve_connect(number, token, local, local_udp_port, remote, ordered, now)
            }
            Request::Listen { token, udp_port, local: _ } => {
                let endpoint = self.stack.endpoint_mut();
                if !endpoint.memory_mut().get(number).is_some_and(|a| a.promise(1)) {
                    return false;
                }
                let completion = match endpoint.listen(udp_port, number, token) {
                    Ok(()) => Completion::Listening { token, udp_port },
                    Err(e) => {
                        let code = if e == ListenError::PortTaken { 2 } else { 1 };
                        Completion::ListenFailed { token, udp_port, code }
                    }
                };
                if let Some(a) = endpoint.memory_mut().get(number) {
                    a.keep_promise(&completion);
                }
                true
            }
            Request::Unlisten { udp_port } => {
                self.stack.endpoint_mut().unlisten(udp_port, number);
                true
            }
            Request::Close { flow } => {
                let flow = FlowId::from_raw(flow);
                if self.is_theirs(flow, number) {
                    self.stack.endpoint_mut().close(now, flow);
                }
                true
            }
            Request::Reset { flow } => {
                let flow = FlowId::from_raw(flow);
                if self.is_theirs(flow, number) {
                    self.stack.endpoint_mut().reset(now, flow);
                }
                true
            }
        }
    }

    fn serve_send(&mut self, number: u32, flow: u64, offset: u32, len: u32, token: u64, now: Instant) -> bool {
        let endpoint = self.stack.endpoint_mut();
        let Some(a) = endpoint.memory_mut().get(number) else {
            return true;
        };
        if !a.promise(1) {
            return false;
        }
        let id = FlowId::from_raw(flow);
        let refused = if !a.owns_send(offset, len) {
            self.offences.not_theirs.add(1);
            Some(SendError::TooLarge)
        } else if endpoint.owner(id) != Some(number) {
            Some(SendError::NoSuchFlow)
        } else {
            endpoint.send(now, id, SendBuf { owner: number, offset, len }, token).err()
        };
        let Some(a) = endpoint.memory_mut().get(number) else {
            return true;
        };
        match refused {
            None => a.messages_out += 1,
            Some(SendError::WouldBlock) => {
                a.forget_promises(1);
                return false;
            }
            Some(e) => {
                let code = match e {
                    SendError::NoSuchFlow => 1,
                    SendError::Closing => 2,
                    _ => 3,
                };
                a.keep_promise(&Completion::SendRefused { flow, token, offset, code });
            }
        }
        true
    }

    #[allow(clippy::too_many_arguments)]
    fn serve_connect(
        &mut self,
        number: u32,
        token: u64,
        local: Option<std::net::IpAddr>,
        local_udp_port: u16,
        remote: SocketAddr,
        ordered: bool,
        now: Instant,
    ) -> bool {
        let host = self.stack.host();
        // An address that is not ours is refused by the route, as unreachable.
        let source = local.or_else(|| host.source_for(remote.ip()));
        let endpoint = self.stack.endpoint_mut();
        if !endpoint.memory_mut().get(number).is_some_and(|a| a.promise(COMPLETIONS_PER_FLOW)) {
            return false;
        }
        let result = match source {
            None => Err(ConnectFailure::Unreachable),
            Some(ip) => endpoint
                .connect(now, number, SocketAddr::new(ip, local_udp_port), remote, ordered, token)
                .map_err(|e| match e {
                    ConnectError::TableFull | ConnectError::NoPort => ConnectFailure::TableFull,
                    _ => ConnectFailure::Unreachable,
                }),
        };
        if let Some(a) = endpoint.memory_mut().get(number) {
            match result {
                Ok(flow) => {
                    a.flows += 1;
                    a.keep_promise(&Completion::Connecting { token, flow: flow.to_raw() });
                }
                Err(reason) => {
                    a.keep_promise(&Completion::ConnectFailed { token, flow: u64::MAX, reason: reason as u16 });
                    a.forget_promises(COMPLETIONS_PER_FLOW - 1);
                }
            }
        }
        true
    }

    /// Tells the applications what happened.
    fn tell(&mut self) -> usize {
        let mut told = 0;
        while let Some(event) = self.stack.poll_event() {
            told += 1;
            let memory = self.stack.endpoint_mut().memory_mut();
            match event {
                Event::Received { flow, owner, buf } => {
                    if let Some(a) = memory.get(owner) {
                        a.hand_over(buf);
                        let flow = flow.to_raw();
                        a.keep_promise(&Completion::Received { flow, offset: buf.offset, len: buf.len });
                    }
                }
                Event::Sent { flow, owner, buf, token, delivered } => {
                    if let Some(a) = memory.get(owner) {
                        let flow = flow.to_raw();
                        a.keep_promise(&Completion::Sent { flow, token, offset: buf.offset, delivered });
                    }
                }
                Event::Connected { flow, owner, token, local, remote } => {
                    if let Some(a) = memory.get(owner) {
                        a.keep_promise(&Completion::Connected { token, flow: flow.to_raw(), local, remote });
                    }
                }
                Event::Accepted { flow, owner, token, local, remote } => {
                    if let Some(a) = memory.get(owner) {
                        a.keep_promise(&Completion::Accepted { token, flow: flow.to_raw(), local, remote });
                        a.forget_promises(COMPLETIONS_PER_FLOW - 2);
                    }
                }
                Event::ConnectFailed { flow, owner, token, reason } => {
                    if let Some(a) = memory.get(owner) {
                        a.flows = a.flows.saturating_sub(1);
                        let (flow, reason) = (flow.to_raw(), reason as u16);
                        a.keep_promise(&Completion::ConnectFailed { token, flow, reason });
                        a.forget_promises(1);
                    }
                }
                Event::Closed { flow, owner, reason } => {
                    if let Some(a) = memory.get(owner) {
                        a.flows = a.flows.saturating_sub(1);
                        let (flow, reason) = (flow.to_raw(), reason as u16);
                        a.keep_promise(&Completion::Closed { flow, reason });
                    }
                }
                _ => {}
            }
        }
        told
    }

    /// Publishes completions, and puts out who broke the rules.
    fn flush(&mut self, now: Instant) {
        let mut condemned = None;
        for (number, a) in self.stack.endpoint_mut().memory_mut().iter_mut() {
            a.channel.flush();
            if a.condemned {
                condemned = Some(number);
            }
        }
        if let Some(number) = condemned {
            // The control thread will still report its socket closed; dropping a number twice does nothing.
            self.drop_application(number, now);
        }
    }

    fn cycle(&mut self, now: Instant) -> Result<usize, PortError> {
        let mut work = self.take_requests(now);
        work += self.stack.transmit(now)?;
        let received = self.stack.receive(now, None)?;
        if received > 0 {
            work += received;
            // Acknowledgements and credit leave with the next cycle; what the applications say meanwhile carries them.
        }
        work += self.tell();
        Ok(work)
    }
}

impl Agent for DaemonAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let mut work = self.obey(now);
        match self.cycle(now) {
            Ok(n) => {
                work += n;
                self.port_error = None;
            }
            Err(e) => {
                // The port may come back (an interface set up again); flows live on until their own patience ends.
                if self.port_error.is_none() {
                    eprintln!("barewire: {e}");
                }
                self.port_error = Some(e);
                work += self.tell();
            }
        }
        if work > 0 {
            self.flush(now);
        }
        work
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.stack.next_deadline()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        if let Some(fd) = self.stack.port().wait_fd() {
            add(fd);
        }
        for (_, a) in self.stack.endpoint().memory().iter() {
            add(a.channel.wake_fd().as_raw_fd());
        }
    }

    fn fds_generation(&self) -> u64 {
        self.generation
    }

    fn prepare_wait(&mut self) -> bool {
        if self.orders.pending.load(Ordering::Acquire) || self.stack.port().wait_fd().is_none() {
            return false;
        }
        let mut idle = self.stack.port_mut().prepare_wait();
        for (_, a) in self.stack.endpoint_mut().memory_mut().iter_mut() {
            // A request that waits for room is no work: the application's own progress will ring.
            idle &= a.channel.prepare_wait();
        }
        idle
    }

    fn finish_wait(&mut self) {
        self.stack.port_mut().finish_wait();
        for (_, a) in self.stack.endpoint_mut().memory_mut().iter_mut() {
            a.channel.finish_wait();
        }
    }

    fn publish(&mut self, _now: Instant) {
        self.published.publish(&self.stack, &self.offences, self.applications);
    }

    fn on_close(&mut self) {
        // Peers are told, so that they need not wait for silence to tell them.
        let now = barewire_engine::now();
        let numbers: Vec<u32> = self.stack.endpoint().memory().iter().map(|(n, _)| n).collect();
        for number in numbers {
            self.drop_application(number, now);
        }
        for _ in 0..GOODBYE_ROUNDS {
            match self.stack.transmit(now) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
}
