//! A switch without threads and without ports: packets are handed in and collected, on a clock that stands still until
//! it is moved. For tests, traces and the STF runner.

use crate::control::link::EngineInbox;
use crate::control::{ControlError, Notification, Switch, SwitchConfig};
use crate::datapath::{Datapath, Output, TargetConfig};
use crate::kernel::{Kernel, KernelError, Ran};
use crate::plane::Plane;
use crate::ports::Ports;
use crate::pre::LAG_HASH;
use crate::prepared::Prepared;
use barewire_base::Instant;
use barewire_frame::{Frame, Pool, PoolConfig, PoolError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that may go round before a harness gives up on a program that never stops.
const ROUNDS_MAX: usize = 10_000;

/// Why a harness could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// No memory for frames.
    #[error("frames: {0}")]
    Pool(#[from] PoolError),
    /// The program or one of its entries was refused.
    #[error("{0}")]
    Control(#[from] ControlError),
    /// The kernel did not take the program.
    #[error("{0}")]
    Kernel(#[from] KernelError),
}

/// A packet that left the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// By which port.
    pub port: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Default)]
struct Collected(Vec<Sent>);

impl Output for Collected {
    fn push(&mut self, port: u32, frame: Frame) {
        self.0.push(Sent { port, bytes: frame.data().to_vec() });
    }
}

/// One data path on the caller's thread.
pub struct Harness {
    switch: Switch,
    plane: Plane,
    inbox: EngineInbox,
    clock_us: Arc<AtomicU64>,
    out: Collected,
    /// Packets that the kernel handed over.
    pub handed_over: u64,
    /// Runs in the kernel that failed, which none should.
    pub failures: Vec<String>,
}

impl Harness {
    /// A harness that runs a program. Frames are as long as `frame_len` bytes at most, headroom included: 65536 for any.
    ///
    /// # Errors
    /// [`HarnessError`].
    pub fn new(prepared: Arc<Prepared>, target: TargetConfig) -> Result<Harness, HarnessError> {
        let clock_us = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&clock_us);
        let config = SwitchConfig {
            clock: Box::new(move || clock.load(Ordering::Relaxed)),
            ..SwitchConfig::default()
        };
        let compiled = prepared.kernel().cloned();
        let program = Arc::clone(&prepared.program);
        let switch = Switch::new(config, Some(prepared))?;
        let inbox = switch.attach(Box::new(|| {}));
        let pool =
            Pool::new(PoolConfig { frames: 512, chunk_len: 65_536, headroom: 4096, huge_pages: false })?;
        let ports = Ports::new(target.cpu_port);
        let plane = Plane::new(Datapath::new(target, 0, Instant::ZERO), ports, pool, None);
        let mut harness = Harness {
            switch,
            plane,
            inbox,
            clock_us,
            out: Collected::default(),
            handed_over: 0,
            failures: Vec::new(),
        };
        harness.apply();
        if let (Some(compiled), None) = (compiled, &harness.plane.kernel) {
            // It was not taken: say why.
            Kernel::load(program, compiled)?;
        }
        Ok(harness)
    }

    /// The control side. Writes are applied before the next packet; reads of what packets change would wait for an
    /// engine on another thread, so use [`Harness::plane`] for those.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The data path and its state.
    pub fn plane(&mut self) -> &mut Plane {
        self.apply();
        &mut self.plane
    }

    /// Apply what the control side wrote.
    pub fn apply(&mut self) {
        self.inbox.drain(&mut self.plane);
    }

    /// Move the clock.
    pub fn advance_us(&mut self, us: u64) {
        self.clock_us.fetch_add(us, Ordering::Relaxed);
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock_us.load(Ordering::Relaxed) * 1000)
    }

    /// Hand a packet in and take what comes out, all that goes round included. `None` when the packet is longer than
    /// a frame.
    pub fn send(&mut self, port: u32, bytes: &[u8]) -> Option<Vec<Sent>> {
        Some(self.send_for(port, bytes, ROUNDS_MAX)?.0)
    }

    /// The same for a program that may never stop: it gives up after so many polls. Says whether nothing was left.
    pub fn send_for(&mut self, port: u32, bytes: &[u8], rounds: usize) -> Option<(Vec<Sent>, bool)> {
        self.apply();
        let now = self.now();
        if let Some(kernel) = &mut self.plane.kernel {
            let ran = kernel.run(port, bytes, self.clock_us.load(Ordering::Relaxed));
            self.plane.take_digests(now);
            match ran {
                Ok(ran) => return self.take(ran, now, port, bytes, rounds),
                Err(error) => self.failures.push(error.to_string()),
            }
        }
        self.process(now, port, bytes, rounds)
    }

    /// Take what the kernel made of a packet.
    fn take(
        &mut self,
        ran: Ran,
        now: Instant,
        port: u32,
        packet: &[u8],
        rounds: usize,
    ) -> Option<(Vec<Sent>, bool)> {
        match ran {
            Ran::Sent { port, bytes } => Some((vec![Sent { port, bytes }], true)),
            Ran::Copies { group, bytes } => {
                let not_back = self.plane.kernel.as_ref().is_some_and(|kernel| kernel.compiled().not_back);
                let (from, mut sent) = (port, Vec::new());
                self.plane.datapath.pre.replicate(group, LAG_HASH, &mut |port, _| {
                    if !(not_back && port == from) {
                        sent.push(Sent { port, bytes: bytes.clone() });
                    }
                });
                Some((sent, true))
            }
            Ran::Dropped(_) => Some((Vec::new(), true)),
            Ran::Slow(_) => {
                self.handed_over += 1;
                self.process(now, port, packet, rounds)
            }
            Ran::Again { context, bytes } => {
                self.handed_over += 1;
                let frame = self.plane.pool.alloc_from(&bytes)?;
                self.plane.begin_slow();
                self.plane.datapath.receive_again(now, port, frame, &context, &mut self.out);
                self.plane.end_slow();
                Some(self.settle(now, rounds))
            }
            Ran::Followed { packet: original, clone } => {
                let (mut sent, settled) = self.take(*original, now, port, packet, rounds)?;
                let (more, too) = self.take(*clone, now, port, packet, rounds)?;
                sent.extend(more);
                Some((sent, settled && too))
            }
            Ran::Cloned { clone, packet: original } => {
                // As in user space, where the clone is the first in line.
                let (mut sent, settled) = self.take(*clone, now, port, packet, rounds)?;
                let (more, too) = self.take(*original, now, port, packet, rounds)?;
                sent.extend(more);
                Some((sent, settled && too))
            }
        }
    }

    /// The way of the data path.
    fn process(&mut self, now: Instant, port: u32, bytes: &[u8], rounds: usize) -> Option<(Vec<Sent>, bool)> {
        let frame = self.plane.pool.alloc_from(bytes)?;
        self.plane.begin_slow();
        self.plane.datapath.receive(now, port, frame, &mut self.out);
        self.plane.end_slow();
        Some(self.settle(now, rounds))
    }

    /// Serve what goes round until nothing is left, but at most so often.
    fn settle(&mut self, now: Instant, rounds: usize) -> (Vec<Sent>, bool) {
        let mut settled = false;
        self.plane.begin_slow();
        for _ in 0..rounds {
            if self.plane.datapath.poll(now, &mut self.out) == 0 {
                settled = true;
                break;
            }
        }
        self.plane.end_slow();
        (std::mem::take(&mut self.out.0), settled)
    }

    /// From now on keep what happens to packets, for [`Harness::take_trace`].
    pub fn trace(&mut self) {
        self.apply();
        let traced = self.plane.datapath.prepared().traced();
        *self.plane.datapath.exec_mut() = traced;
    }

    /// What has happened since the last call; empty when nobody traces.
    pub fn take_trace(&mut self) -> Vec<barewire_p4::interp::trace::Event> {
        match self.plane.datapath.exec_mut() {
            crate::prepared::Exec::Traced(traced) => traced.1.take(),
            _ => Vec::new(),
        }
    }

    /// Serve queues whose time has come.
    pub fn poll(&mut self) -> Vec<Sent> {
        self.apply();
        let now = self.now();
        self.plane.begin_slow();
        self.plane.datapath.poll(now, &mut self.out);
        self.plane.end_slow();
        std::mem::take(&mut self.out.0)
    }

    /// Digests and other notifications that are due are sent to subscribers.
    pub fn poll_notifications(&mut self) {
        let now = self.now();
        self.plane.poll_learner(now, &self.inbox);
    }

    /// Tell subscribers something (tests of control planes).
    pub fn notify(&self, notification: Notification) {
        self.inbox.notify(notification);
    }
}
