//! What passes an interface of a lab, in a file.

use crate::LabError;
use crate::lab::Lab;
use barewire_base::Instant;
use barewire_engine::{Agent, Engine, EngineConfig, StopFlag, open_port};
use barewire_frame::{Burst, ClockDomain, Pool, PoolConfig};
use barewire_netns::Namespace;
use barewire_port::{PcapWriter, Port, PortUri};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::RawFd;
use std::path::Path;
use std::rc::Rc;

/// When a capture ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CaptureLimits {
    /// After this many frames; `None`: never.
    pub frames: Option<u64>,
    /// When the file has this many bytes; `None`: never.
    pub bytes: Option<u64>,
}

/// What was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Captured {
    /// Frames in the file.
    pub frames: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Frames that passed and are not in the file: the ring was full.
    pub missed: u64,
}

impl Lab {
    /// Writes what passes `place` to a pcap file with nanoseconds, in both directions, with the kernel's stamps, until `stop`
    /// is raised or a limit is reached. `place` is `NODE:INTERFACE`, `NODE` (its first interface), or a link (its first
    /// end, so what is sent there is seen before the link does anything to it, what arrives after). `ready` is called once,
    /// when nothing is missed any more.
    ///
    /// # Errors
    /// [`LabError::NoSuch`] with the nearest name; [`LabError::File`]; [`LabError::Capture`].
    pub fn pcap(
        &self,
        name: &str,
        place: &str,
        file: &Path,
        limits: CaptureLimits,
        stop: &StopFlag,
        ready: impl FnOnce() + Send,
    ) -> Result<Captured, LabError> {
        let (namespace, interface) = self.place(name, place)?;
        capture(&namespace, &interface, place, file, limits, stop, ready)
    }
}

fn capture(
    namespace: &Namespace,
    interface: &str,
    place: &str,
    file: &Path,
    limits: CaptureLimits,
    stop: &StopFlag,
    ready: impl FnOnce() + Send,
) -> Result<Captured, LabError> {
    let failed = |why: String| LabError::Capture { place: place.to_owned(), why };
    // Large enough for frames that are left whole, should offloads be on.
    let pool = PoolConfig { frames: 512, chunk_len: 1 << 17, ..PoolConfig::default() };
    let uri =
        PortUri::new("packet", interface).with("promiscuous", 1).with("ignore_outgoing", 0).with("tx", 0);
    namespace.enter(|| {
        let pool = Pool::new(pool).map_err(|e| failed(e.to_string()))?;
        let writer = PcapWriter::create(file)
            .map_err(|source| LabError::File { path: file.display().to_string(), source })?;
        let port = open_port(&uri, &pool).map_err(|e| failed(e.to_string()))?;
        let done = Rc::new(Cell::new(Captured::default()));
        let agent = Capture {
            port,
            writer: Some(writer),
            limits,
            stop: stop.clone(),
            done: Rc::clone(&done),
            error: Rc::default(),
        };
        let error = Rc::clone(&agent.error);
        let name = format!("pcap-{interface}");
        let mut engine = Engine::new(EngineConfig { name, ..EngineConfig::default() })
            .map_err(|e| failed(e.to_string()))?;
        engine.add(Box::new(agent));
        ready();
        engine.run(stop);
        match error.take() {
            Some(why) => Err(failed(why)),
            None => Ok(done.get()),
        }
    })?
}

/// Frames from a port to a file.
struct Capture {
    port: Box<dyn Port>,
    /// Gone when the capture is over.
    writer: Option<PcapWriter<File>>,
    limits: CaptureLimits,
    stop: StopFlag,
    done: Rc<Cell<Captured>>,
    error: Rc<Cell<Option<String>>>,
}

impl Capture {
    fn end(&mut self, error: Option<String>) {
        if let Some(mut writer) = self.writer.take() {
            let flushed = writer.flush().err().map(|e| format!("writing: {e}"));
            self.error.set(error.or(flushed));
            let missed = self.port.counters().drops.total();
            self.done.set(Captured { bytes: writer.len(), missed, ..self.done.get() });
        }
        self.stop.stop();
    }
}

impl Agent for Capture {
    fn name(&self) -> &str {
        "pcap"
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let mut burst = Burst::new();
        let received = match self.port.rx_burst(now, &mut burst) {
            Ok(n) => n,
            Err(e) => {
                self.end(Some(e.to_string()));
                return 0;
            }
        };
        while let Some(frame) = burst.pop() {
            let Some(writer) = &mut self.writer else { break };
            let stamp = frame.stamp();
            let ns = if stamp.clock == ClockDomain::Realtime { stamp.ns } else { now.as_nanos() };
            if let Err(e) = writer.write(ns, frame.data()) {
                self.end(Some(format!("writing: {e}")));
                break;
            }
            let mut done = self.done.get();
            done.frames += 1;
            let bytes = writer.len();
            self.done.set(done);
            if self.limits.frames.is_some_and(|most| done.frames >= most)
                || self.limits.bytes.is_some_and(|most| bytes >= most)
            {
                self.end(None);
            }
        }
        received
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        if let Some(fd) = self.port.wait_fd() {
            add(fd);
        }
    }

    fn prepare_wait(&mut self) -> bool {
        // An idle moment is the time to write; whoever follows the file sees what has passed.
        if let Some(Err(e)) = self.writer.as_mut().map(PcapWriter::flush) {
            self.end(Some(format!("writing: {e}")));
        }
        self.port.prepare_wait()
    }

    fn finish_wait(&mut self) {
        self.port.finish_wait();
    }

    fn on_close(&mut self) {
        // What the ring still holds was seen before the end.
        while self.writer.is_some() && self.do_work(barewire_engine::now()) > 0 {}
        self.end(None);
    }
}
