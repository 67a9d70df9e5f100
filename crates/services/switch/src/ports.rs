//! The ports of one engine, by the numbers the program knows them by.

use crate::datapath::Output;
use crate::tag::Tag;
use barewire_base::{DropReason, Duration, Instant};
use barewire_engine::LinkWatch;
use barewire_frame::{Burst, Frame, Pool};
use barewire_port::{OpenError, PcapWriter, Port, PortUri};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::RawFd;
use std::path::Path;

/// Frames that may wait for a port that takes no more; further ones are dropped and counted.
pub const BACKLOG_MAX: usize = 1024;
/// Port numbers below this are found by index, others by looking through all ports.
const DIRECT: usize = 4096;
/// How often a port that failed asks about its interface.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Frames that passed, written to files as they pass.
struct Capture {
    writer: PcapWriter<File>,
}

impl Capture {
    fn write(&mut self, now: Instant, bytes: &[u8]) {
        // A full disk must not stop the switch; the file just ends there. Flushed at once: it may be watched.
        let _ = self.writer.write(now.as_nanos(), bytes);
        let _ = self.writer.flush();
    }
}

/// The interface that a port stands on.
struct Ground {
    watch: LinkWatch,
    /// Its index when the port was opened: an interface that is made anew under its name has another.
    index: u32,
}

impl Ground {
    /// Of a port that was just opened; none for a port without an interface.
    fn of(uri: &PortUri) -> Option<Ground> {
        let mut watch = LinkWatch::new(barewire_engine::interface_of(uri)?).ok()?;
        let index = watch.look()?.index;
        Some(Ground { watch, index })
    }
}

/// One port.
pub struct PortSlot {
    number: u32,
    uri: String,
    port: Box<dyn Port>,
    tx: Burst,
    backlog: VecDeque<Frame>,
    /// Frames dropped here because the backlog was full or the port refused.
    tx_dropped: u64,
    capture: Option<(Capture, Capture)>,
    /// It works, as far as is known.
    up: bool,
    ground: Option<Ground>,
    /// While it is down: when its interface is asked again.
    look_at: Instant,
}

impl PortSlot {
    /// The port's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How it was named.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Whether it works: false from when receiving fails (its interface went, or is down) until there is a sign that it does. The
    /// sign is its interface's own state; of a port without an interface, a frame that came or went.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// The port itself.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// Frames this side dropped.
    pub fn tx_dropped(&self) -> u64 {
        self.tx_dropped
    }

    /// Receive; gives whether it works.
    #[inline]
    fn receive(&mut self, now: Instant, burst: &mut Burst) -> bool {
        match self.port.rx_burst(now, burst) {
            Ok(_) if self.up => true,
            Ok(count) => self.is_back(now, count > 0),
            Err(_) => {
                self.look_at = now + LOOK_EVERY;
                false
            }
        }
    }

    /// Whether a port that failed works again. That it does not fail any more says nothing: the kernel tells a socket once that
    /// its interface went down. Frames that come may have been received before that, so the interface is asked, but not often.
    #[cold]
    fn is_back(&mut self, now: Instant, passed: bool) -> bool {
        let Some(ground) = &mut self.ground else { return passed };
        if now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK_EVERY;
        let Some(interface) = ground.watch.look().filter(|interface| interface.up) else { return false };
        if interface.index != ground.index {
            if self.port.reopen().is_err() {
                return false;
            }
            ground.index = interface.index;
        }
        true
    }

    /// When it is looked at while no frame comes.
    fn next_look(&self) -> Option<Instant> {
        (!self.up && self.ground.is_some()).then_some(self.look_at)
    }

    fn send(&mut self, frame: Frame) {
        if self.backlog.is_empty() {
            if let Err(frame) = self.tx.push(frame) {
                self.backlog.push_back(frame);
            }
        } else if self.backlog.len() < BACKLOG_MAX {
            self.backlog.push_back(frame);
        } else {
            self.tx_dropped += 1;
        }
    }

    fn flush(&mut self, now: Instant) -> usize {
        let mut sent = 0;
        loop {
            while let Some(frame) = self.backlog.pop_front() {
                if let Err(frame) = self.tx.push(frame) {
                    self.backlog.push_front(frame);
                    break;
                }
            }
            if self.tx.is_empty() {
                return sent;
            }
            match self.port.tx_burst(now, &mut self.tx) {
                Ok(0) => return sent,
                Ok(n) => sent += n,
                Err(_) => {
                    // The port is gone or down: what it would have sent is lost, and counted.
                    self.tx_dropped += self.tx.len() as u64 + self.backlog.len() as u64;
                    self.tx.clear();
                    self.backlog.clear();
                    return sent;
                }
            }
        }
    }
}

/// Packets for the CPU port that may wait for the end of a duty cycle; further ones are dropped and counted.
const CPU_MAX: usize = 1024;

/// All ports of one engine.
#[derive(Default)]
pub struct Ports {
    slots: Vec<PortSlot>,
    /// Position plus 1 of each low port number.
    direct: Vec<u16>,
    generation: u64,
    cpu: Option<u32>,
    to_cpu: Vec<Vec<u8>>,
    /// Ports that came, went, went down or came up.
    changed: Vec<(u32, bool)>,
    unknown: u64,
    /// Packets the control plane did not take in time.
    cpu_full: u64,
    /// Packets for ports that were taken away before they were sent.
    removed: u64,
    now: Instant,
    /// What captures do not show.
    tag: Option<Tag>,
}

impl Ports {
    /// No ports yet. Packets to the port `cpu` are kept for [`Ports::to_cpu`].
    pub fn new(cpu: Option<u32>) -> Ports {
        Ports { direct: vec![0; DIRECT], cpu, ..Ports::default() }
    }

    /// Open a port and give it a number.
    ///
    /// # Errors
    /// As for [`barewire_engine::open_port`], and when the number is taken.
    pub fn add(
        &mut self,
        number: u32,
        uri: &PortUri,
        pool: &Pool,
        capture: Option<&Path>,
    ) -> Result<(), OpenError> {
        if self.position(number).is_some() {
            return Err(uri.bad(format!("port {number} already exists")));
        }
        let port = barewire_engine::open_port(uri, pool)?;
        let text = uri.text().to_owned();
        self.add_open(number, text, port);
        self.stand_on(Ground::of(uri));
        self.start_capture(uri, capture)
    }

    /// Open the port that suits an interface best, and give it a number; says what was chosen and why.
    ///
    /// # Errors
    /// As for [`Ports::add`].
    pub fn add_best(
        &mut self,
        number: u32,
        interface: &str,
        pool: &Pool,
        capture: Option<&Path>,
    ) -> Result<String, OpenError> {
        let uri = PortUri::new("packet", interface);
        if self.position(number).is_some() {
            return Err(uri.bad(format!("port {number} already exists")));
        }
        let (port, uri, why) = barewire_engine::best_port(interface, pool)?;
        self.add_open(number, uri.to_string(), port);
        self.stand_on(Ground::of(&uri));
        self.start_capture(&uri, capture)?;
        Ok(format!("{uri}: {why}"))
    }

    /// What the port added last stands on.
    fn stand_on(&mut self, ground: Option<Ground>) {
        if let Some(slot) = self.slots.last_mut() {
            slot.ground = ground;
        }
    }

    /// Write what passes the port added last to two files.
    fn start_capture(&mut self, uri: &PortUri, folder: Option<&Path>) -> Result<(), OpenError> {
        let Some(folder) = folder else { return Ok(()) };
        let name = text_for_file(uri);
        let open = |direction: &str| -> Result<Capture, OpenError> {
            let path = folder.join(format!("{name}_{direction}.pcap"));
            PcapWriter::create(&path).map(|writer| Capture { writer }).map_err(|e| uri.io("open", e))
        };
        let pair = (open("in")?, open("out")?);
        if let Some(slot) = self.slots.last_mut() {
            slot.capture = Some(pair);
        }
        Ok(())
    }

    /// Open another port in the place of one, under its number; nobody is told. What the old one had not given is lost.
    ///
    /// # Errors
    /// As for [`barewire_engine::open_port`]; then it is as it was.
    pub fn replace(&mut self, number: u32, uri: &PortUri, pool: &Pool) -> Result<(), OpenError> {
        let Some(at) = self.position(number) else {
            return Err(uri.bad(format!("there is no port {number}")));
        };
        let port = barewire_engine::open_port(uri, pool)?;
        let slot = &mut self.slots[at];
        slot.flush(self.now);
        (slot.port, slot.uri, slot.ground) = (port, uri.text().to_owned(), Ground::of(uri));
        self.generation += 1;
        Ok(())
    }

    /// A port receives only frames with a mark from here on, under another name. What has come is received as ever, where the port can be
    /// told; otherwise another one takes its place.
    ///
    /// # Errors
    /// As for [`Ports::replace`].
    pub fn take_marked(
        &mut self,
        number: u32,
        uri: &PortUri,
        mark: u32,
        pool: &Pool,
    ) -> Result<(), OpenError> {
        if let Some(slot) = self.position(number).map(|at| &mut self.slots[at])
            && slot.port.take_marked(mark)
        {
            uri.text().clone_into(&mut slot.uri);
            return Ok(());
        }
        self.replace(number, uri, pool)
    }

    /// Take a port that is open already.
    pub fn add_open(&mut self, number: u32, uri: String, port: Box<dyn Port>) {
        let slot = PortSlot {
            number,
            uri,
            port,
            tx: Burst::new(),
            backlog: VecDeque::with_capacity(BACKLOG_MAX),
            tx_dropped: 0,
            capture: None,
            up: true,
            ground: None,
            look_at: Instant::ZERO,
        };
        self.slots.push(slot);
        self.changed.push((number, true));
        if let Some(entry) = self.direct.get_mut(number as usize) {
            *entry = self.slots.len() as u16;
        }
        self.generation += 1;
    }

    /// Close a port; false when there is none of that number. What waited for it, and does not fit any more, is lost
    /// and counted, as is what was lost at it before.
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(at) = self.position(number) else { return false };
        let mut gone = self.slots.remove(at);
        gone.flush(self.now);
        self.changed.push((number, false));
        self.removed += gone.tx_dropped + (gone.tx.len() + gone.backlog.len()) as u64;
        self.direct.fill(0);
        for (at, slot) in self.slots.iter().enumerate() {
            if let Some(entry) = self.direct.get_mut(slot.number as usize) {
                *entry = at as u16 + 1;
            }
        }
        self.generation += 1;
        true
    }

    #[inline]
    fn position(&self, number: u32) -> Option<usize> {
        match self.direct.get(number as usize) {
            Some(0) => None,
            Some(&at) => Some(usize::from(at) - 1),
            None => self.slots.iter().position(|slot| slot.number == number),
        }
    }

    /// Leave this out of what captures show.
    pub(crate) fn hide(&mut self, tag: Tag) {
        self.tag = Some(tag);
    }

    /// The ports.
    pub fn slots(&self) -> &[PortSlot] {
        &self.slots
    }

    /// Packets for the CPU port, to be taken.
    pub fn to_cpu(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.to_cpu
    }

    /// Ports that went down or away (false) or came up since it was asked last, in order.
    pub fn changes(&mut self) -> std::vec::Drain<'_, (u32, bool)> {
        self.changed.drain(..)
    }

    /// Receive from the port at a position.
    pub fn receive(&mut self, at: usize, now: Instant, burst: &mut Burst) -> u32 {
        self.now = now;
        let slot = &mut self.slots[at];
        // An error of a port (its interface went) shows in its counters and is told; the others go on.
        let up = slot.receive(now, burst);
        if up != slot.up {
            slot.up = up;
            self.changed.push((slot.number, up));
            // Its descriptors are others when it was opened again.
            self.generation += 1;
        }
        if let Some((capture, _)) = &mut slot.capture {
            for frame in burst.iter() {
                let bytes = frame.data();
                capture.write(now, &self.tag.map_or(Cow::Borrowed(bytes), |tag| tag.hide(bytes)));
            }
        }
        slot.number
    }

    /// Send what waits.
    pub fn flush(&mut self, now: Instant) -> usize {
        let mut sent = 0;
        for slot in self.slots.iter_mut().filter(|s| !s.tx.is_empty() || !s.backlog.is_empty()) {
            if slot.up || slot.ground.is_some() {
                sent += slot.flush(now);
                continue;
            }
            // Frames that nobody takes are accepted too, so those are asked for that went.
            let before = slot.port.counters().tx_frames.get();
            sent += slot.flush(now);
            if slot.port.counters().tx_frames.get() != before {
                slot.up = true;
                self.changed.push((slot.number, true));
            }
        }
        sent
    }

    /// Let ports do what is due without frames (delayed frames of a fault port).
    pub fn nudge(&mut self, now: Instant) {
        for slot in &mut self.slots {
            if slot.port.next_deadline().is_some_and(|due| due <= now) {
                let _ = slot.port.tx_burst(now, &mut slot.tx);
            }
        }
    }

    /// Whether frames wait to be sent.
    pub fn has_backlog(&self) -> bool {
        self.slots.iter().any(|s| !s.tx.is_empty() || !s.backlog.is_empty())
    }

    /// Whether every port is a replay that has ended.
    pub fn is_finished(&self) -> bool {
        !self.slots.is_empty() && self.slots.iter().all(|slot| slot.port.is_finished())
    }

    /// The earliest time at which a port has work of its own, or is to be looked at.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.slots.iter().flat_map(|slot| [slot.port.next_deadline(), slot.next_look()]).flatten().min()
    }

    /// Descriptors to sleep on.
    pub fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        self.slots.iter().filter_map(|slot| slot.port.wait_fd()).for_each(add);
    }

    /// Grows when the descriptors change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Arm every port's wake-up; false when one has frames or must be polled.
    pub fn prepare_wait(&mut self) -> bool {
        let mut may_sleep = true;
        for slot in &mut self.slots {
            may_sleep &=
                slot.port.prepare_wait() && (slot.port.wait_fd().is_some() || slot.port.is_finished());
        }
        may_sleep
    }

    /// Disarm them.
    pub fn finish_wait(&mut self) {
        for slot in &mut self.slots {
            slot.port.finish_wait();
        }
    }
}

impl Output for Ports {
    #[inline]
    fn push(&mut self, port: u32, frame: Frame) {
        let Some(at) = self.position(port) else { return self.push_elsewhere(port, &frame) };
        let slot = &mut self.slots[at];
        // The usual: room for more than this one, nothing that waits, nobody watching.
        if slot.tx.room() > 1 && slot.backlog.is_empty() && slot.capture.is_none() {
            // It has room.
            let _ = slot.tx.push(frame);
        } else {
            self.push_with_care(at, frame);
        }
    }
}

impl Ports {
    #[inline(never)]
    fn push_with_care(&mut self, at: usize, frame: Frame) {
        let now = self.now;
        let slot = &mut self.slots[at];
        if let Some((_, capture)) = &mut slot.capture {
            capture.write(now, frame.data());
        }
        slot.send(frame);
        if slot.tx.room() == 0 {
            slot.flush(now);
        }
    }

    #[cold]
    fn push_elsewhere(&mut self, port: u32, frame: &Frame) {
        if self.cpu == Some(port) {
            if self.to_cpu.len() < CPU_MAX {
                self.to_cpu.push(frame.data().to_vec());
            } else {
                self.cpu_full += 1;
            }
        } else {
            self.unknown += 1;
        }
    }
}

impl Ports {
    /// Frames to ports that are not there ([`DropReason::UnknownPort`]).
    pub fn unknown(&self) -> (DropReason, u64) {
        (DropReason::UnknownPort, self.unknown)
    }

    /// Frames lost here, by reason: to ports that never were, to ports that were taken away, to a control plane that
    /// did not keep up. What was lost at a port that is there is in [`PortSlot::tx_dropped`].
    pub fn drops(&self) -> [(DropReason, u64); 3] {
        [
            (DropReason::UnknownPort, self.unknown),
            (DropReason::PortDown, self.removed),
            (DropReason::QueueFull, self.cpu_full),
        ]
    }
}

fn text_for_file(uri: &PortUri) -> String {
    let target = if uri.target.is_empty() { uri.scheme.as_str() } else { uri.target.as_str() };
    target.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}
