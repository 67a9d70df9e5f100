//! All that one engine thread owns, and what the control side may do to it.

use crate::control::link::{EngineInbox, Replica};
use crate::control::{
    ControlError, CounterValue, DigestList, ErrorKind, MirrorSession, Notification, PortInfo,
};
use crate::datapath::{Datapath, Output, finish_checksum};
use crate::kernel::{Fold, Kernel};
use crate::learn::Learner;
use crate::ports::Ports;
use crate::pre::{LAG_HASH, Pre, Touched};
use crate::prepared::Prepared;
use crate::tag::{Tag, VLAN_LEN};
use barewire_base::{DropReason, Duration, Instant};
use barewire_engine::Interface;
use barewire_frame::{Frame, Pool};
use barewire_p4::ir::LearnListId;
use barewire_p4_ebpf::maps::{MAX_CONTEXT, TAG_CONTEXT, TAG_LEN};
use barewire_p4_state::ProgramState;
use barewire_port::PortUri;
use std::any::Any;
use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

/// One engine's data path, ports and frames.
pub struct Plane {
    /// The data path.
    pub datapath: Datapath,
    /// The ports.
    pub ports: Ports,
    /// Where frames come from.
    pub pool: Pool,
    /// Where captures of ports go, if they are wanted.
    pub capture: Option<PathBuf>,
    digests: Vec<DigestList>,
    /// The program in the kernel, which gets every write as well.
    pub kernel: Option<Box<Kernel>>,
    /// When it is looked at which hook suits that program.
    look_at: Instant,
    /// What stands before packets that the kernel's program worked on: for the controller, or for a later round here.
    tag: Option<Tag>,
    /// Multicast groups that changed, and that the kernel was not yet told of.
    touched: BTreeSet<u32>,
    /// Grows when the kernel's descriptors change.
    generation: u64,
    /// Why a program that is one for the kernel is not there.
    not_in_kernel: Option<String>,
    /// Where the last program stood, while there is none in the kernel: ports and interfaces.
    left: Vec<(u32, String)>,
}

// The socket has to know it, as it looks for checksums behind it.
const _: () = assert!(
    barewire_engine::TAG_LEN == TAG_LEN as usize
        && u16::from_be_bytes(barewire_engine::TAG_TYPE) == u16::from_be_bytes(barewire_p4_ebpf::TAG_TYPE)
        && barewire_engine::TAG_CONTEXT == TAG_CONTEXT as usize
        && barewire_engine::MAX_CONTEXT == MAX_CONTEXT as usize
);

/// How often it is looked at, at most.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The socket for what a program hands over at an interface.
fn socket_at(interface: &str, at_tc: bool, gso: bool) -> Result<PortUri, barewire_port::OpenError> {
    let mut uri = format!("packet:{interface}");
    let mut mark = "?";
    if gso {
        uri += "?gso=1";
        mark = "&";
    }
    if at_tc {
        uri += &format!("{mark}mark={}", barewire_p4_ebpf::SLOW_MARK);
    }
    uri.parse()
}

/// Whether frames of the pool have room for an interface's packets with what stands before those for the controller, and before those
/// that user space takes in a later round: a tag, and so many bytes of context.
fn has_room(room: usize, frame_max: u32, cpu: Option<u32>, context: usize) -> Result<(), String> {
    let most = frame_max as usize + VLAN_LEN + TAG_LEN as usize + context;
    if (cpu.is_none() && context == 0) || most <= room {
        return Ok(());
    }
    let which = if context == 0 { "packets for the controller" } else { "packets of a later round" };
    Err(format!(
        "{which} come as up to {most} bytes, and frames hold {room}; hint: a larger --frame-bytes, or a smaller MTU"
    ))
}

/// Tell a program in the kernel of the copies of these multicast groups, or (none) of all; `before` as for [`Kernel::set_copies`].
fn set_copies(
    kernel: &mut Kernel,
    before: Option<&Kernel>,
    datapath: &Datapath,
    groups: Option<&BTreeSet<u32>>,
) {
    if !kernel.makes_copies() {
        return;
    }
    let (pre, cpu) = (&datapath.pre, datapath.config().cpu_port);
    let groups = match groups {
        Some(groups) => groups.clone(),
        None => pre.group_numbers().chain(kernel.groups_with_copies()).collect(),
    };
    for group in groups {
        let mut ports = Vec::new();
        pre.replicate(group, LAG_HASH, &mut |port, _| ports.push(port));
        if let Err(error) = kernel.set_copies(group, &ports, cpu, before) {
            kernel.failed(&error);
        }
    }
    if let Err(error) = kernel.make_groups() {
        kernel.failed(&error);
    }
}

impl Plane {
    /// A plane of its parts.
    pub fn new(datapath: Datapath, ports: Ports, pool: Pool, capture: Option<PathBuf>) -> Plane {
        Plane {
            datapath,
            ports,
            pool,
            capture,
            digests: Vec::new(),
            kernel: None,
            look_at: Instant::ZERO,
            tag: None,
            touched: BTreeSet::new(),
            generation: 0,
            not_in_kernel: None,
            left: Vec::new(),
        }
    }

    /// What the running program remembers here (the kernel counts for itself).
    pub fn datapath_state(&mut self) -> &mut ProgramState {
        &mut self.datapath.state
    }

    /// A port whose packets the kernel forwards: an interface by its name. What the kernel hands over comes through a socket.
    fn add_kernel_port(&mut self, port: u32, uri: &str) -> Result<(), ControlError> {
        let refuse = |why: String| ControlError::new(ErrorKind::InvalidPort, why);
        let interface = uri.strip_prefix("packet:").unwrap_or(uri);
        if interface.contains([':', '?']) {
            return Err(refuse(format!(
                "'{uri}': the kernel's ports are interfaces by their names, such as 1@eth1"
            )));
        }
        let gso = self.datapath.config().pass_offloads;
        let Some(kernel) = &mut self.kernel else { return Ok(()) };
        let socket = socket_at(interface, kernel.is_at_tc(), gso).map_err(|e| refuse(e.to_string()))?;
        let capture = self.capture.as_deref();
        self.ports.add(port, &socket, &self.pool, capture).map_err(|e| refuse(e.to_string()))?;
        let slots = self.ports.slots().iter();
        let frame_max =
            slots.filter(|slot| slot.number() == port).map(|slot| slot.port().caps().frame_max).max();
        let (cpu, context) = (self.datapath.config().cpu_port, kernel.context_len());
        let fits = has_room(self.pool.frame_max(), frame_max.unwrap_or_default(), cpu, context);
        let done = match fits {
            Ok(()) => kernel.attach(port, interface).map(drop),
            Err(why) => Err(format!("`{interface}`: {why}")),
        };
        if let Err(why) = done {
            self.ports.remove(port);
            return Err(refuse(why));
        }
        self.set_copies();
        Ok(())
    }

    /// Tell the kernel of the copies of all multicast groups.
    fn set_copies(&mut self) {
        self.touched.clear();
        if let Some(kernel) = &mut self.kernel {
            set_copies(kernel, None, &self.datapath, None);
        }
    }

    /// Take a frame that came in at a port: it is for the program, or for the controller, as the kernel's program found.
    #[inline]
    pub fn receive(&mut self, now: Instant, port: u32, frame: Frame) {
        if let Some(tag) = self.tag.filter(|tag| tag.is_before(frame.data())) {
            return self.receive_tagged(now, port, tag, frame);
        }
        self.datapath.receive(now, port, frame, &mut self.ports);
    }

    /// The same for one that the kernel's program has worked on.
    fn receive_tagged(&mut self, now: Instant, port: u32, tag: Tag, mut frame: Frame) {
        let Some(context) = tag.take_from(&mut frame) else {
            return self.datapath.drop_now(DropReason::Truncated);
        };
        if context == 0 {
            // A controller has no card that would finish a checksum.
            if !finish_checksum(&mut frame) {
                return self.datapath.drop_now(DropReason::UnfinishedChecksum);
            }
            return match self.datapath.config().cpu_port {
                Some(cpu) => Output::push(&mut self.ports, cpu, frame),
                None => self.datapath.drop_now(DropReason::UnknownPort),
            };
        }
        let found = frame.data().get(..context).and_then(|bytes| self.kernel.as_ref()?.context(bytes));
        let (Some(found), true) = (found, frame.pull_front(context)) else {
            // As what waits when programs change: it is the old one's.
            return self.datapath.drop_now(DropReason::QueueFull);
        };
        self.datapath.receive_again(now, port, frame, &found, &mut self.ports);
    }

    /// Serve what waits in the data path; says how many were served.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> usize {
        let due = self.datapath.next_deadline().is_some_and(|due| due <= now);
        if due {
            self.begin_slow();
        }
        let served = self.datapath.poll(now, &mut self.ports);
        if due {
            self.end_slow();
        }
        served
    }

    /// Take the digests that the kernel's program made; says how many.
    #[inline]
    pub fn take_digests(&mut self, now: Instant) -> usize {
        let Some(kernel) = &mut self.kernel else { return 0 };
        let now_us = self.datapath.micros(now);
        let learner = &mut self.datapath.learner;
        kernel.read_digests(&mut |list, sample| learner.sample(LearnListId(list), sample, now_us))
    }

    /// A descriptor that is readable when the kernel's program has made digests.
    pub fn digests_fd(&self) -> Option<RawFd> {
        self.kernel.as_ref()?.digests_fd()
    }

    /// Whether digests wait.
    pub fn has_digests(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.has_digests())
    }

    /// Grows when descriptors change.
    pub fn generation(&self) -> u64 {
        self.generation + self.ports.generation()
    }

    /// Open the sockets of the kernel's ports anew, for a program that stands at tc or does not.
    fn set_sockets(&mut self, at_tc: bool) -> Result<(), barewire_port::OpenError> {
        let Some(kernel) = &self.kernel else { return Ok(()) };
        let gso = self.datapath.config().pass_offloads;
        for (port, interface, _) in kernel.interfaces() {
            // One that is away gets its socket when it is back.
            if Interface::find(interface, interface).is_ok() {
                self.ports.replace(port, &socket_at(interface, at_tc, gso)?, &self.pool)?;
            }
        }
        Ok(())
    }

    /// A port of the kernel's is well again.
    fn look_at_port(&mut self, port: u32) {
        let gso = self.datapath.config().pass_offloads;
        let Some(kernel) = &mut self.kernel else { return };
        // Its socket may be of the hook where the program stood when it went away.
        let interface = kernel.interfaces().find(|(known, ..)| *known == port).map(|(_, name, _)| name);
        let socket = interface.and_then(|interface| socket_at(interface, kernel.is_at_tc(), gso).ok());
        let slots = self.ports.slots();
        let is_other =
            |uri: &PortUri| slots.iter().any(|slot| slot.number() == port && slot.uri() != uri.text());
        if let Some(socket) = socket.filter(is_other) {
            let _ = self.ports.replace(port, &socket, &self.pool);
        }
        kernel.look_at(port);
    }

    /// The kernel's program goes; what it counted last is added to the data path's counters.
    fn leave_kernel(&mut self, carried: &[Fold]) {
        if let Some(mut old) = self.kernel.take() {
            let ports: Vec<u32> = old.interfaces().map(|(port, _, _)| port).collect();
            ports.into_iter().for_each(|port| old.detach(port));
            carried.iter().for_each(|what| old.fold(what, &mut self.datapath.state));
        }
    }

    /// A program is in the kernel again: it stands where the last one stood before there was none.
    fn stand_again(&mut self) {
        let gso = self.datapath.config().pass_offloads;
        for (port, interface) in std::mem::take(&mut self.left) {
            let Some(kernel) = &mut self.kernel else { return };
            let is_there = self.ports.slots().iter().any(|slot| slot.number() == port);
            if !is_there {
                continue;
            }
            let done = socket_at(&interface, kernel.is_at_tc(), gso)
                .and_then(|socket| self.ports.replace(port, &socket, &self.pool))
                .map_err(|error| error.to_string())
                .and_then(|()| kernel.attach(port, &interface));
            if let Err(why) = done {
                self.not_in_kernel = Some(why);
            }
        }
    }

    /// Look, not often, whether the kernel's program stands at the right hook.
    #[inline]
    pub fn look_at_hook(&mut self, now: Instant) {
        if self.kernel.is_some() && now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.settle_hook();
        }
    }

    #[cold]
    fn settle_hook(&mut self) {
        let Some(seen) = self.kernel.as_ref().and_then(|kernel| kernel.wants_tc()) else { return };
        let gso = self.datapath.config().pass_offloads;
        let Some(kernel) = &mut self.kernel else { return };
        let (ports, pool) = (&mut self.ports, &self.pool);
        let done = kernel.move_to_tc(seen, &mut |port, interface| {
            let socket = socket_at(interface, true, gso).map_err(|error| error.to_string())?;
            ports
                .take_marked(port, &socket, barewire_p4_ebpf::SLOW_MARK, pool)
                .map_err(|error| error.to_string())
        });
        if let Err(why) = done {
            kernel.stay_at_xdp(&why);
            let _ = self.set_sockets(false);
        }
    }

    /// Packets come up from the kernel: see [`Kernel::lend_registers`].
    #[inline]
    pub fn begin_slow(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.lend_registers(&mut self.datapath.state);
        }
    }

    /// They are done: see [`Kernel::take_registers_back`].
    #[inline]
    pub fn end_slow(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.take_registers_back(&mut self.datapath.state);
        }
    }

    /// Hand ready digests over; says how many.
    pub fn poll_learner(&mut self, now: Instant, inbox: &EngineInbox) -> usize {
        let now_us = self.datapath.micros(now);
        if self.datapath.learner.next_deadline_us().is_none_or(|due| due > now_us) {
            return 0;
        }
        self.datapath.learner.poll(now_us, &mut self.digests);
        let count = self.digests.len();
        for digest in self.digests.drain(..) {
            let (list, buffer) = (digest.list, digest.buffer);
            if !inbox.notify(Notification::Digest(digest)) {
                // Nobody will acknowledge it: the same data may be learned again.
                self.datapath.learner.ack(list, buffer, None);
            }
        }
        count
    }

    /// Packets that were dropped, in the data path and on the way to ports; a reason may come twice.
    pub fn all_drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        self.datapath.drops().iter().chain(self.ports.drops())
    }

    /// When a digest is due.
    pub fn learner_deadline(&self) -> Option<Instant> {
        self.datapath.learner.next_deadline_us().map(|us| self.datapath.instant(us))
    }

    /// Tell which ports came, went, went down or came up; says how many.
    pub fn report_ports(&mut self, inbox: &EngineInbox) -> usize {
        let mut count = 0;
        let changes: Vec<(u32, bool)> = self.ports.changes().collect();
        for (port, up) in changes {
            if up {
                self.look_at_port(port);
            }
            inbox.notify(Notification::Port { port, up });
            count += 1;
        }
        if count > 0 {
            self.set_copies();
        }
        count
    }

    /// Hand packets for the CPU port over; says how many.
    pub fn deliver_to_cpu(&mut self, inbox: &EngineInbox) -> usize {
        let count = self.ports.to_cpu().len();
        for bytes in self.ports.to_cpu().drain(..) {
            inbox.notify(Notification::PacketIn { bytes });
        }
        count
    }
}

impl Replica for Plane {
    fn state(&mut self) -> Option<&mut ProgramState> {
        if self.datapath.idle { None } else { Some(&mut self.datapath.state) }
    }

    fn see(&mut self, write: &crate::store::StateWrite) {
        if let Some(kernel) = &mut self.kernel
            && let Err(error) = kernel.apply(write)
        {
            kernel.failed(&error);
        }
    }

    fn install_kernel(&mut self, kernel: Result<Option<Box<Kernel>>, String>, carried: &[Fold]) {
        self.generation += 1;
        let (mut kernel, why) = match kernel {
            Ok(kernel) => (kernel, None),
            Err(why) => (None, Some(why)),
        };
        self.not_in_kernel = why;
        if let Some(new) = &mut kernel {
            let cpu = self.datapath.config().cpu_port;
            new.set_epoch(self.generation as u32);
            if cpu.is_some() || new.context_len() > 0 {
                match self.tag.map_or_else(|| barewire_engine::random().map(Tag::new), Ok) {
                    Ok(tag) => {
                        self.tag = Some(tag);
                        self.ports.hide(tag);
                        new.set_controller(cpu, tag.secret);
                    }
                    // Packets for the controller would be known by what everybody knows.
                    Err(error) => new.give_up(error.to_string()),
                }
            }
            if let Err(error) = new.start_at(self.datapath.instant(0).as_nanos()) {
                new.failed(&error);
            }
            for (session, to) in &self.datapath.mirrors {
                new.set_session(*session, Some(to));
            }
            let config = self.datapath.config();
            new.choose(config.hook, config.pass_offloads);
            if let Some(old) = &mut self.kernel {
                let was_at_tc = old.is_at_tc();
                // Its first packet may be one for a group.
                set_copies(new, Some(old), &self.datapath, None);
                new.take_over(old);
                // No packet comes to it any more.
                carried.iter().for_each(|what| old.fold(what, &mut self.datapath.state));
                self.kernel = kernel;
                if let Some(kernel) = &self.kernel
                    && kernel.is_at_tc() != was_at_tc
                {
                    let _ = self.set_sockets(!was_at_tc);
                }
                return self.set_copies();
            }
        } else if let Some(old) = &self.kernel {
            let left = old.interfaces().map(|(port, interface, _)| (port, interface.to_owned())).collect();
            if old.is_at_tc() {
                // Nobody will mark packets. The sockets first: some packets go twice then, which is better than none.
                let _ = self.set_sockets(false);
            }
            self.left = left;
            self.leave_kernel(carried);
        }
        self.kernel = kernel;
        if self.kernel.is_some() {
            self.stand_again();
        }
        self.set_copies();
    }

    fn pre_changed(&mut self, groups: Touched) {
        match groups {
            Touched::None => {}
            // All new ones together: the kernel waits for all CPUs each time it is given some.
            Touched::One(group) => drop(self.touched.insert(group)),
            Touched::All => self.set_copies(),
        }
    }

    fn settle(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        if let Some(kernel) = self.kernel.as_mut().filter(|_| !touched.is_empty()) {
            set_copies(kernel, None, &self.datapath, Some(&touched));
        }
    }

    fn fold(&mut self, what: &Fold) {
        if let Some(kernel) = &mut self.kernel {
            kernel.fold(what, &mut self.datapath.state);
        }
    }

    fn install(&mut self, prepared: &Arc<Prepared>, state: Box<ProgramState>) -> Box<dyn Any + Send> {
        let old = self.datapath.install(prepared, state);
        if let Some(kernel) = &self.kernel {
            kernel.keep_levels(&mut self.datapath.state);
        }
        old
    }

    fn pre(&mut self) -> &mut Pre {
        &mut self.datapath.pre
    }

    fn learner(&mut self) -> Option<&mut Learner> {
        Some(&mut self.datapath.learner)
    }

    fn set_mirror(&mut self, id: u32, session: Option<MirrorSession>) {
        if let Some(kernel) = &mut self.kernel {
            kernel.set_session(id, session.as_ref());
        }
        match session {
            Some(session) => drop(self.datapath.mirrors.insert(id, session)),
            None => drop(self.datapath.mirrors.remove(&id)),
        }
    }

    fn set_queue_depth(&mut self, port: Option<u32>, priority: Option<u32>, packets: usize) {
        self.datapath.queues.set_depth(port, priority.map(|p| p as usize), packets);
    }

    fn set_queue_rate(&mut self, port: Option<u32>, priority: Option<u32>, pps: u64) {
        self.datapath.queues.set_rate(port, priority.map(|p| p as usize), pps);
    }

    fn add_port(
        &mut self,
        port: u32,
        uri: &str,
        _opened: Option<Box<dyn Any + Send>>,
    ) -> Result<(), ControlError> {
        // Opened here, on the engine's thread: a port's frames live in the engine's pool, which never leaves it.
        let refuse =
            |error: &dyn std::fmt::Display| ControlError::new(ErrorKind::InvalidPort, error.to_string());
        if self.kernel.is_some() {
            return self.add_kernel_port(port, uri);
        }
        if !uri.contains(':') {
            let capture = self.capture.as_deref();
            return self.ports.add_best(port, uri, &self.pool, capture).map(drop).map_err(|e| refuse(&e));
        }
        let parsed: PortUri = uri.parse().map_err(|e| refuse(&e))?;
        self.ports.add(port, &parsed, &self.pool, self.capture.as_deref()).map_err(|e| refuse(&e))
    }

    fn remove_port(&mut self, port: u32) -> Result<Option<Box<dyn Any + Send>>, ControlError> {
        if let Some(kernel) = &mut self.kernel {
            kernel.detach(port);
        }
        self.set_copies();
        if self.ports.remove(port) {
            Ok(None)
        } else {
            Err(ControlError::new(ErrorKind::InvalidPort, format!("there is no port {port}")))
        }
    }

    fn ports(&mut self) -> Vec<PortInfo> {
        let kernel = self.kernel.as_ref();
        let info = |slot: &crate::ports::PortSlot| {
            let outside = || self.not_in_kernel.as_ref().map(|why| format!("not in the kernel: {why}"));
            let note = kernel.and_then(|kernel| kernel.note(slot.number())).or_else(outside);
            let counters = slot.port().counters();
            let uri: Option<PortUri> = slot.uri().parse().ok();
            PortInfo {
                port: slot.number(),
                uri: slot.uri().to_owned(),
                name: uri.map_or_else(|| slot.uri().to_owned(), |uri| uri.target.clone()),
                note: note.unwrap_or_default(),
                up: slot.is_up(),
                rx: CounterValue { packets: counters.rx_frames.get(), bytes: counters.rx_bytes.get() },
                tx: CounterValue { packets: counters.tx_frames.get(), bytes: counters.tx_bytes.get() },
                rx_dropped: counters.drops.total(),
                tx_dropped: slot.tx_dropped(),
            }
        };
        self.ports.slots().iter().map(info).collect()
    }

    fn inject(&mut self, port: Option<u32>, bytes: Vec<u8>) {
        let Some(frame) = self.pool.alloc_from(&bytes) else {
            self.datapath.drop_now(DropReason::PoolEmpty);
            return;
        };
        let now = self.datapath.now();
        match (port, self.datapath.config().cpu_port) {
            (Some(port), _) => Output::push(&mut self.ports, port, frame),
            (None, cpu) => {
                let from = cpu.unwrap_or(self.datapath.config().drop_port);
                self.begin_slow();
                self.datapath.receive(now, from, frame, &mut self.ports);
                self.end_slow();
            }
        }
    }

    fn drops(&mut self, each: &mut dyn FnMut(&str, u64)) {
        let kernel = self.kernel.as_ref().map_or(Vec::new(), |kernel| kernel.drops());
        for (reason, count) in self.all_drops().chain(kernel).filter(|(_, count)| *count > 0) {
            each(reason.as_str(), count);
        }
        let lost = self.kernel.as_ref().map_or(0, |kernel| kernel.digests_lost());
        if lost > 0 {
            each("digest_lost", lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_room_for_the_controllers_packets() {
        let cpu = Some(64);
        assert_eq!(has_room(1550, 1514, cpu, 0), Ok(()));
        assert!(has_room(1549, 1514, cpu, 0).is_err_and(|why| why.contains("1550 bytes")));
        assert_eq!(has_room(1549, 1514, None, 0), Ok(()), "without a controller none comes");
        assert_eq!(has_room(1574, 1514, None, 24), Ok(()));
        assert!(has_room(1573, 1514, None, 24).is_err_and(|why| why.contains("later round")));
    }
}
