//! The switch as the engine sees it: receive bursts, apply what the control side wrote, run the program, send.

use crate::control::link::EngineInbox;
use crate::plane::Plane;
use crate::server::Publisher;
use barewire_base::Instant;
use barewire_engine::Agent;
use barewire_frame::Burst;
use std::os::fd::RawFd;

/// Runs a [`Plane`].
pub struct SwitchAgent {
    plane: Plane,
    inbox: EngineInbox,
    rx: Burst,
    publish: Publisher,
}

impl SwitchAgent {
    /// An agent; `publish` copies counters to wherever they are shown.
    pub fn new(plane: Plane, inbox: EngineInbox, publish: Publisher) -> SwitchAgent {
        SwitchAgent { plane, inbox, rx: Burst::new(), publish }
    }

    /// What the control side wrote and asks. Ports that came or went by it are told before anything else is taken.
    #[inline]
    fn take_orders(&mut self) -> usize {
        match self.inbox.drain(&mut self.plane) {
            0 => 0,
            done => done + self.plane.report_ports(&self.inbox),
        }
    }
}

impl Agent for SwitchAgent {
    fn name(&self) -> &str {
        "switch"
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for at in 0..self.plane.ports.slots().len() {
            // The control side may have taken ports away while this cycle ran.
            if at >= self.plane.ports.slots().len() {
                break;
            }
            let port = self.plane.ports.receive(at, now, &mut self.rx);
            // After receiving, before processing: a write that returned before a packet was sent is seen by it.
            work += self.take_orders();
            work += self.rx.len();
            if self.rx.is_empty() {
                continue;
            }
            self.plane.begin_slow();
            while let Some(frame) = self.rx.pop() {
                self.plane.receive(now, port, frame);
            }
            self.plane.end_slow();
        }
        work += self.take_orders();
        work += self.plane.poll(now);
        work += self.plane.report_ports(&self.inbox);
        work += self.plane.take_digests(now);
        work += self.plane.poll_learner(now, &self.inbox);
        work += self.plane.deliver_to_cpu(&self.inbox);
        self.plane.look_at_hook(now);
        self.plane.ports.nudge(now);
        work + self.plane.ports.flush(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.plane.datapath.next_deadline(), self.plane.ports.next_deadline(), self.plane.learner_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        self.plane.ports.wait_fds(add);
        self.plane.digests_fd().into_iter().for_each(add);
    }

    fn fds_generation(&self) -> u64 {
        self.plane.generation()
    }

    fn prepare_wait(&mut self) -> bool {
        // Frames a full port did not take are retried by polling: no port says when it has room again.
        let may_sleep = self.plane.ports.prepare_wait();
        may_sleep && !self.plane.has_digests() && self.inbox.is_idle() && !self.plane.ports.has_backlog()
    }

    fn finish_wait(&mut self) {
        self.plane.ports.finish_wait();
    }

    fn publish(&mut self, now: Instant) {
        (self.publish)(&self.plane, now);
    }

    fn on_close(&mut self) {
        self.plane.ports.flush(self.plane.datapath.now());
    }
}
