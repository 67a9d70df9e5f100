//! What the daemon's engine runs: requests in, a duty cycle of the stack, completions out.

mod listen;

use crate::applications::{Application, Applications};
use crate::background::{Background, Cycle};
use crate::counters::Published;
use crate::link::{LinkCounters, LinkOrder, LinkReport};
use crate::rdma::Rdma;
use crate::steering::Links;
use barewire_base::{Counter, Duration, Instant};
use barewire_channel::entry::send_refusal;
use barewire_channel::rdma::code;
use barewire_channel::{Completion, PEER_NAME_MAX, Request};
use barewire_engine::{Agent, Leg, Stack, Steering};
use barewire_port::PortError;
use barewire_transport::security::PeerNumber;
use barewire_transport::{ConnectError, ConnectFailure, Event, FlowId, RecvBuf, SendBuf, SendError};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// Requests taken from one application in one cycle: a busy one does not starve the others.
const REQUESTS_PER_CYCLE: usize = 64;
/// Time given to resets when the daemon stops.
const GOODBYE_TIME: Duration = Duration::from_millis(20);
/// A port that is down is told of this often, at most: one that is up and down again in turns must not fill a log.
const PORT_LOG_PAUSE: Duration = Duration::from_secs(10);

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
    /// What became of which leg's interface, from who watches it.
    pub link: Receiver<(usize, LinkOrder)>,
    /// To them, leg by leg.
    pub link_reports: Vec<Sender<LinkReport>>,
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
    /// Flows and RDMA connections after the last cycle.
    open: (u32, usize),
    /// When the next complaint about each leg's port may be made.
    next_port_logs: Vec<Instant>,
    /// What happened to each leg's interface.
    link: Vec<LinkCounters>,
    /// Who writes lines and gives memory back.
    background: Background,
    /// To the daemon's other engines, where there are any.
    links: Option<Links>,
    /// Where the stack has RDMA.
    rdma: Option<Box<Rdma>>,
}

impl DaemonAgent {
    pub(crate) fn new(
        name: String,
        stack: Stack<Applications>,
        orders: Orders,
        published: Published,
        background: Background,
        links: Option<Links>,
        rdma: Option<Box<Rdma>>,
    ) -> DaemonAgent {
        let legs = stack.legs().len();
        DaemonAgent {
            name,
            background,
            rdma,
            stack,
            orders,
            published,
            offences: Offences::default(),
            generation: 0,
            applications: 0,
            open: (0, 0),
            next_port_logs: vec![Instant::ZERO; legs],
            link: (0..legs).map(|_| LinkCounters::default()).collect(),
            links,
        }
    }

    fn run_commands(&mut self, now: Instant) -> usize {
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
                    self.stack.endpoint_mut().memory_mut().put(number, application);
                }
                Command::Drop(number) => self.drop_application(number, now),
            }
        }
        while let Ok((leg, order)) = self.orders.link.try_recv() {
            done += 1;
            self.obey_link(leg, order, now);
        }
        done
    }

    /// The interface changed. Opening a port takes milliseconds, but what would be done meanwhile needs the port.
    #[cold]
    fn obey_link(&mut self, leg: usize, order: LinkOrder, now: Instant) {
        let link = &self.link[leg];
        match order {
            LinkOrder::Down => link.downs.add(1),
            LinkOrder::CarrierLost => link.carrier_losses.add(1),
            LinkOrder::MtuChanged => link.mtu_changes.add(1),
            LinkOrder::MtuLowered(mtu) => {
                // Never an error: the watcher knows the least.
                let _ = self.stack.set_mtu(now, leg, mtu);
            }
            LinkOrder::Shut(is_shut) => self.stack.legs_mut()[leg].set_shut(is_shut),
            LinkOrder::MacChanged(to) => {
                link.mac_changes.add(1);
                if let Some(mac) = to {
                    self.stack.set_mac(now, leg, mac);
                }
            }
            LinkOrder::Reopen(index) => {
                let opened = self.stack.legs_mut()[leg].port_mut().reopen();
                if opened.is_ok() {
                    self.stack.legs_mut()[leg].set_interface(index);
                    link.reopened.add(1);
                    if let Some(links) = &mut self.links {
                        links.learn_queues(leg);
                    }
                }
                // Its descriptor is another.
                self.generation += 1;
                let engine = self.stack.endpoint().config().engine;
                // Nobody listens any more when the daemon is ending.
                let _ = self.orders.link_reports[leg].send(LinkReport { engine, index, opened });
            }
        }
    }

    fn drop_application(&mut self, number: u32, now: Instant) {
        let endpoint = self.stack.endpoint_mut();
        if endpoint.memory_mut().get(number).is_none() {
            // Put out before its socket was closed.
            return;
        }
        if let (Some(rdma), Some((mut net, _))) = (&mut self.rdma, self.stack.rdma_parts()) {
            rdma.drop_application(&mut net, number, now);
        }
        let endpoint = self.stack.endpoint_mut();
        // First the flows, which still need its memory to be told apart from nobody's; then the channel with all of it. To
        // unmap that takes milliseconds, in which nobody would be served.
        endpoint.drop_owner(now, number);
        if let Some(gone) = endpoint.memory_mut().remove(number) {
            self.background.bury(gone);
        }
        self.release_ports();
        self.applications -= 1;
        self.generation += 1;
    }

    /// Takes requests from every application.
    fn take_requests(&mut self, now: Instant) -> usize {
        let mut done = 0;
        for number in 0..self.stack.endpoint().memory().used() as u32 {
            done += self.take_requests_of(number, now);
        }
        done
    }

    /// Serves what had to wait, as far as that goes now.
    fn serve_waiting(&mut self, number: u32, now: Instant) -> usize {
        let mut done = 0;
        while let Some(request) =
            self.stack.endpoint_mut().memory_mut().get(number).and_then(|a| a.waiting.front().copied())
        {
            let served = match request {
                Request::Send { flow, offset, len, token } => {
                    self.try_send(number, flow, offset, len, token, now)
                }
                Request::Close { flow } => self.close(number, flow, now),
                _ => true,
            };
            if !served {
                break;
            }
            done += 1;
            if let Some(a) = self.stack.endpoint_mut().memory_mut().get(number) {
                a.waiting.pop_front();
            }
        }
        done
    }

    fn take_requests_of(&mut self, number: u32, now: Instant) -> usize {
        let Some(a) = self.stack.endpoint_mut().memory_mut().get(number) else {
            return 0;
        };
        if a.channel.is_corrupt() && !a.condemned {
            self.offences.corrupt.add(1);
            a.condemned = true;
        }
        if a.condemned {
            // It counts as work, so that it is put out in this very cycle.
            return 1;
        }
        let mut done = if a.waiting.is_empty() { 0 } else { self.serve_waiting(number, now) };
        done += self.serve_stalled(number, now);
        while done < REQUESTS_PER_CYCLE {
            let Some(a) = self.stack.endpoint_mut().memory_mut().get(number) else {
                return done;
            };
            if a.is_stalled_full() {
                // The full ring holds the application up.
                return done;
            }
            let request = match a.channel.next_request() {
                Some(Ok(request)) => request,
                Some(Err(_)) => {
                    self.offences.bad_entries.add(1);
                    done += 1;
                    continue;
                }
                None => return done,
            };
            let waits = !a.stalled.is_empty() && !gives_room(&request);
            if (waits || !self.serve(number, request, now))
                && let Some(a) = self.stack.endpoint_mut().memory_mut().get(number)
            {
                a.stalled.push_back(request);
            }
            done += 1;
        }
        done
    }

    /// Serves what is stalled, in order, as far as that goes now.
    fn serve_stalled(&mut self, number: u32, now: Instant) -> usize {
        let mut done = 0;
        while done < REQUESTS_PER_CYCLE
            && let Some(a) = self.stack.endpoint_mut().memory_mut().get(number)
            && let Some(request) = a.stalled.front().copied()
            && self.serve(number, request, now)
        {
            done += 1;
            if let Some(a) = self.stack.endpoint_mut().memory_mut().get(number) {
                a.stalled.pop_front();
            }
        }
        done
    }

    fn is_theirs(&mut self, flow: FlowId, number: u32) -> bool {
        let owner = self.stack.endpoint().owner(flow);
        // A flow that is nobody's may have ended while the request was on its way.
        if owner.is_some_and(|o| o != number) {
            self.offences.not_theirs.add(1);
        }
        owner == Some(number)
    }

    fn close(&mut self, number: u32, flow: u64, now: Instant) -> bool {
        let flow = FlowId::from_raw(flow);
        if self.is_theirs(flow, number) {
            self.stack.endpoint_mut().close(now, flow);
        }
        true
    }

    /// Puts a request behind those that wait. False: there is no room for it even there.
    fn enqueue(&mut self, number: u32, request: Request) -> bool {
        self.stack.endpoint_mut().memory_mut().get(number).is_none_or(|a| a.wait(request))
    }

    fn has_waiting(&mut self, number: u32) -> bool {
        self.stack.endpoint_mut().memory_mut().get(number).is_some_and(|a| !a.waiting.is_empty())
    }

    /// Serves one request. False: it has to wait.
    fn serve(&mut self, number: u32, request: Request, now: Instant) -> bool {
        match request {
            // In order: nothing passes a message that waits, except what may end the wait.
            Request::Send { flow, offset, len, token } => {
                (!self.has_waiting(number) && self.try_send(number, flow, offset, len, token, now))
                    || self.enqueue(number, request)
            }
            Request::Release { flow: _, offset, len } => {
                let endpoint = self.stack.endpoint_mut();
                match endpoint.memory_mut().get(number).and_then(|a| a.take_back(offset, len)) {
                    Some(flow) => endpoint.release(now, flow, RecvBuf { owner: number, offset, len }),
                    None => self.offences.not_theirs.add(1),
                }
                true
            }
            Request::Connect { token, local, local_udp_port, remote, ordered } => {
                self.serve_connect(number, token, local, local_udp_port, remote, ordered, now)
            }
            Request::Rdma(request) => self.serve_rdma(number, &request, now),
            Request::Listen { token, udp_port, local } => self.serve_listen(number, token, udp_port, local),
            Request::Unlisten { udp_port } => {
                self.serve_unlisten(number, udp_port);
                true
            }
            Request::Close { flow } => {
                if self.has_waiting(number) {
                    self.enqueue(number, request)
                } else {
                    self.close(number, flow, now)
                }
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

    #[inline]
    fn serve_rdma(&mut self, number: u32, request: &barewire_channel::rdma::Request, now: Instant) -> bool {
        let mut no = code::NO_RDMA;
        if let (Some(rdma), Some((mut net, endpoint))) = (&mut self.rdma, self.stack.rdma_parts()) {
            if endpoint.memory_mut().get(number).is_none_or(|a| a.share.rules.permit_rdma(request)) {
                return rdma.serve(&mut net, endpoint.memory_mut(), &self.offences, number, request, now);
            }
            no = code::NOT_PERMITTED;
        }
        let Some(refusal) = request.refusal(no, 0, 0) else {
            return true;
        };
        let Some(a) = self.stack.endpoint_mut().memory_mut().get(number) else {
            return true;
        };
        let fits = a.promise(1);
        if fits {
            a.keep_promise(&Completion::Rdma(refusal));
        }
        fits
    }

    /// Ways that were pending, events, completions.
    fn tell_rdma(&mut self, now: Instant) -> usize {
        let Some(rdma) = &mut self.rdma else {
            return 0;
        };
        let asks_again =
            self.stack.take_neighbours_changed() || rdma.next_deadline().is_some_and(|at| at <= now);
        let Some((mut net, endpoint)) = self.stack.rdma_parts() else {
            return 0;
        };
        if asks_again {
            rdma.resolve(&mut net, now);
        }
        rdma.tell(&mut net, endpoint.memory_mut())
    }

    /// Hands a message to the transport or refuses it. False: it has to wait.
    fn try_send(&mut self, number: u32, flow: u64, offset: u32, len: u32, token: u64, now: Instant) -> bool {
        let id = FlowId::from_raw(flow);
        let endpoint = self.stack.endpoint_mut();
        let owner = endpoint.owner(id);
        if !endpoint.memory_mut().begin_send(number) {
            // What peers leave unfinished may have the completions that it waits for.
            endpoint.press(now, number);
            return false;
        }
        let refused = if !endpoint.memory_mut().get(number).is_some_and(|a| a.is_in_send_memory(offset, len))
        {
            self.offences.not_theirs.add(1);
            Some(SendError::TooLarge)
        } else if owner != Some(number) {
            if owner.is_some() {
                self.offences.not_theirs.add(1);
            }
            Some(SendError::NoSuchFlow)
        } else {
            endpoint.send(now, id, SendBuf { owner: number, offset, len }, token).err()
        };
        let Some(e) = refused else {
            return true;
        };
        let memory = endpoint.memory_mut();
        memory.end_send(number);
        let Some(a) = memory.get(number) else {
            return true;
        };
        match e {
            SendError::WouldBlock => {
                a.forget_promises(1);
                return false;
            }
            e => {
                let code = match e {
                    SendError::NoSuchFlow => send_refusal::NO_SUCH_FLOW,
                    SendError::Closing => send_refusal::CLOSING,
                    _ => send_refusal::INVALID,
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
        // An address that is not ours is refused by the route, as unreachable.
        let link = match remote {
            SocketAddr::V6(remote) => Some(remote.scope_id()).filter(|scope| *scope != 0),
            SocketAddr::V4(_) => None,
        };
        let source = local.or_else(|| self.stack.source_for(remote.ip(), link));
        let leg = source.and_then(|ip| self.stack.legs().iter().position(|leg| leg.host().is_local(ip)));
        let may_send = self.may_send_from(number, local_udp_port);
        let endpoint = self.stack.endpoint_mut();
        let per_flow = endpoint.memory().per_flow();
        let Some(a) = endpoint.memory_mut().get(number) else {
            return true;
        };
        let has_all_flows = a.has_all_flows();
        let is_permitted = may_send && a.share.rules.may_connect(remote);
        if !a.promise(per_flow) {
            endpoint.press(now, number);
            return false;
        }
        let result = match source {
            _ if !is_permitted => Err(ConnectFailure::NotPermitted),
            _ if has_all_flows => Err(ConnectFailure::TableFull),
            None => Err(ConnectFailure::Unreachable),
            Some(ip) => {
                let udp_port = match (&mut self.links, leg) {
                    (Some(links), Some(leg)) if local_udp_port == 0 => {
                        links.choose_udp_port(endpoint, leg, ip, remote)
                    }
                    _ => local_udp_port,
                };
                endpoint.connect(now, number, SocketAddr::new(ip, udp_port), remote, ordered, token).map_err(
                    |e| match e {
                        ConnectError::TableFull | ConnectError::NoPort => ConnectFailure::TableFull,
                        ConnectError::PortTaken => ConnectFailure::NotPermitted,
                        _ => ConnectFailure::Unreachable,
                    },
                )
            }
        };
        if let Some(a) = endpoint.memory_mut().get(number) {
            match result {
                Ok(flow) => {
                    a.share.open();
                    a.keep_promise(&Completion::Connecting { token, flow: flow.to_raw() });
                }
                Err(reason) => {
                    a.keep_promise(&Completion::ConnectFailed {
                        token,
                        flow: u64::MAX,
                        reason: reason as u16,
                    });
                    a.forget_promises(per_flow - 1);
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
            if let Event::Connected { flow, owner, peer, .. } | Event::Accepted { flow, owner, peer, .. } =
                event
            {
                self.tell_peer(flow, owner, peer);
            }
            let memory = self.stack.endpoint_mut().memory_mut();
            let per_flow = memory.per_flow();
            match event {
                Event::Received { flow, owner, buf } => {
                    if let Some(a) = memory.get(owner) {
                        a.note_held(flow, buf);
                        let flow = flow.to_raw();
                        a.keep_promise(&Completion::Received { flow, offset: buf.offset, len: buf.len });
                    }
                }
                Event::Sent { flow, owner, buf, token, delivered } => {
                    memory.end_send(owner);
                    if let Some(a) = memory.get(owner) {
                        let flow = flow.to_raw();
                        a.keep_promise(&Completion::Sent { flow, token, offset: buf.offset, delivered });
                    }
                }
                Event::Connected { flow, owner, token, local, remote, .. } => {
                    if let Some(a) = memory.get(owner) {
                        a.keep_promise(&Completion::Connected { token, flow: flow.to_raw(), local, remote });
                    }
                }
                Event::Accepted { flow, owner, token, local, remote, .. } => {
                    if let Some(a) = memory.get(owner) {
                        a.keep_promise(&Completion::Accepted { token, flow: flow.to_raw(), local, remote });
                        // It was never "connecting".
                        a.forget_promises(1);
                    }
                }
                Event::ConnectFailed { flow, owner, token, reason } => {
                    if let Some(a) = memory.get(owner) {
                        a.share.close();
                        let (flow, reason) = (flow.to_raw(), reason as u16);
                        a.keep_promise(&Completion::ConnectFailed { token, flow, reason });
                        a.forget_promises(per_flow - 2);
                    }
                }
                Event::Closed { flow, owner, reason } => {
                    if let Some(a) = memory.get(owner) {
                        a.share.close();
                        let (flow, reason) = (flow.to_raw(), reason as u16);
                        a.keep_promise(&Completion::Closed { flow, reason });
                    }
                }
                _ => {}
            }
        }
        told
    }

    /// Who the peer is, where it has proven that; or the promise to say so is forgotten.
    fn tell_peer(&mut self, flow: FlowId, owner: u32, peer: Option<PeerNumber>) {
        let endpoint = self.stack.endpoint_mut();
        let Some(security) = endpoint.config().security.clone() else { return };
        let peer = peer.map(|number| {
            let peer = security.peer(number);
            let mut name = [0; PEER_NAME_MAX];
            for (to, from) in name.iter_mut().zip(peer.name.bytes()) {
                *to = from;
            }
            Completion::Peer { flow: flow.to_raw(), name, key: *peer.key.as_bytes() }
        });
        if let Some(a) = endpoint.memory_mut().get(owner) {
            match peer {
                Some(completion) => a.keep_promise(&completion),
                None => a.forget_promises(1),
            }
        }
    }

    /// Says who was refused and why: this side may know what it does not tell strangers.
    fn tell_refusals(&mut self) {
        while let Some(refusal) = self.stack.endpoint_mut().poll_refusal() {
            self.background.say(refusal.to_string());
        }
    }

    /// Publishes completions, and puts out who broke the rules.
    fn flush(&mut self, now: Instant) {
        let mut condemned = None;
        for (number, a) in self.stack.endpoint_mut().memory_mut().iter_mut() {
            a.channel.flush();
            if a.condemned {
                self.background.say(format!(
                    "application {number} ({}) corrupted its channel and is disconnected",
                    a.name
                ));
                condemned = Some(number);
            }
        }
        if let Some(number) = condemned {
            // One a cycle: those that are left count as work in the next. The control thread will still report its socket
            // closed; dropping a number twice does nothing.
            self.drop_application(number, now);
        }
    }

    fn cycle(&mut self, now: Instant) -> usize {
        let mut work = self.take_requests(now);
        if let Some(links) = &mut self.links {
            work += links.receive(now, &mut self.stack);
        }
        let sent = self.stack.transmit_steered(now, steering(&mut self.links));
        // Acknowledgements and credit leave with the next cycle; what the applications say meanwhile carries them.
        let received = self.stack.receive(now, steering(&mut self.links));
        if let Some(links) = &mut self.links {
            links.flush(now);
        }
        work += self.tell() + self.tell_rdma(now);
        self.tell_refusals();
        match (sent, received) {
            (Ok(sent), Ok(received)) => {
                work += sent + received;
            }
            (Err(e), _) | (_, Err(e)) => self.log_port_error(0, &e, now),
        }
        while let Some((leg, e)) = self.stack.take_port_error() {
            self.log_port_error(leg, &e, now);
        }
        work
    }

    #[cold]
    fn log_port_error(&mut self, leg: usize, e: &PortError, now: Instant) {
        // The port may come back (an interface set up again); flows live on until their own patience ends.
        if now >= self.next_port_logs[leg] {
            self.next_port_logs[leg] = now + PORT_LOG_PAUSE;
            self.background.say(e.to_string());
        }
    }
}

/// Whether a request gives room back, or ends what takes room: it passes those that wait for room.
fn gives_room(request: &Request) -> bool {
    matches!(request, Request::Release { .. } | Request::Reset { .. } | Request::Unlisten { .. })
}

fn steering(links: &mut Option<Links>) -> Option<&mut (dyn Steering + 'static)> {
    links.as_mut().map(|links| links as &mut (dyn Steering + 'static))
}

impl Agent for DaemonAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let _cycle = Cycle::begin();
        let mut work = self.run_commands(now) + self.cycle(now);
        let connections = self.stack.rdma().map_or(0, |rdma| rdma.connections());
        let open = (self.stack.endpoint().flows_used(), connections);
        if self.open != open {
            // A flow that ends its lingering moves no frame and tells nobody. It is work all the same, or its gauge would be
            // published after the next sleep, however long.
            self.open = open;
            work += 1;
        }
        if work > 0 {
            self.flush(now);
        }
        work
    }

    fn next_deadline(&self) -> Option<Instant> {
        let rdma = self.rdma.as_ref().and_then(|rdma| rdma.next_deadline());
        [self.stack.next_deadline(), rdma].into_iter().flatten().min()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        self.stack.legs().iter().filter_map(|leg| leg.port().wait_fd()).for_each(&mut *add);
        for (_, a) in self.stack.endpoint().memory().iter() {
            add(a.channel.wake_fd().as_raw_fd());
        }
        if let Some(links) = &self.links {
            links.wait_fds(add);
        }
    }

    fn fds_generation(&self) -> u64 {
        self.generation
    }

    fn prepare_wait(&mut self) -> bool {
        let can_wait = |leg: &Leg| leg.port().wait_fd().is_some();
        if self.orders.pending.load(Ordering::Acquire) || !self.stack.legs().iter().all(can_wait) {
            return false;
        }
        let mut idle = true;
        for leg in self.stack.legs_mut() {
            idle &= leg.port_mut().prepare_wait();
        }
        if let Some(links) = &mut self.links {
            idle &= links.prepare_wait();
        }
        for (_, a) in self.stack.endpoint_mut().memory_mut().iter_mut() {
            // A request that waits for room is no work, nor is what stands behind it: acknowledgements wake us, or the
            // application when it takes completions.
            let stalled = a.is_stalled_full();
            idle &= if stalled { a.channel.prepare_wait_for_room() } else { a.channel.prepare_wait() };
        }
        idle
    }

    fn finish_wait(&mut self) {
        self.stack.legs_mut().iter_mut().for_each(|leg| leg.port_mut().finish_wait());
        if let Some(links) = &mut self.links {
            links.finish_wait();
        }
        for (_, a) in self.stack.endpoint_mut().memory_mut().iter_mut() {
            a.channel.finish_wait();
        }
    }

    fn publish(&mut self, _now: Instant) {
        self.published.publish(
            &self.stack,
            &self.offences,
            &self.link,
            self.applications,
            self.rdma.as_deref(),
        );
    }

    fn on_close(&mut self) {
        // Peers are told, so that they need not wait for silence to tell them.
        let now = barewire_engine::now();
        let numbers: Vec<u32> = self.stack.endpoint().memory().iter().map(|(n, _)| n).collect();
        for number in numbers {
            self.drop_application(number, now);
        }
        while self.stack.next_deadline() == Some(Instant::ZERO) && barewire_engine::now() < now + GOODBYE_TIME
        {
            match self.stack.transmit(now) {
                Ok(0) => std::thread::yield_now(),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}
