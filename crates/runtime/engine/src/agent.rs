//! What an engine runs.

use barewire_base::Instant;
use std::os::fd::RawFd;

/// Something that does a little work whenever it is asked, and never blocks. Agents need not be `Send`: they are built
/// on the thread of their engine and stay there.
pub trait Agent {
    /// What messages and threads call it.
    fn name(&self) -> &str;

    /// Does a bounded piece of work and says how many items it was; 0 means idle. No allocation, no lock, no wait.
    /// Whatever is due at `now` is done here, so that [`next_deadline`](Agent::next_deadline) lies ahead afterwards.
    fn do_work(&mut self, now: Instant) -> usize;

    /// When the agent next has work though nothing arrives. `None`: never.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Names each descriptor that becomes readable when the agent has work. It is asked again only after
    /// [`fds_generation`](Agent::fds_generation) has grown, and watched level-triggered.
    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        let _ = add;
    }

    /// Grows whenever [`wait_fds`](Agent::wait_fds) would answer differently, also when a descriptor was closed and its
    /// number is in use again.
    fn fds_generation(&self) -> u64 {
        0
    }

    /// Called before the engine sleeps: arm wake-ups, then look at every ring again. False when work is waiting, or when
    /// the agent has to be polled: the engine does not sleep then. Each call is followed by one
    /// [`finish_wait`](Agent::finish_wait), slept or not.
    fn prepare_wait(&mut self) -> bool {
        true
    }

    /// Undoes [`prepare_wait`](Agent::prepare_wait): disarms, and drains what woke the engine.
    fn finish_wait(&mut self) {}

    /// Copies counters to the shared page. Called about every [`PUBLISH_INTERVAL`](crate::PUBLISH_INTERVAL) while the
    /// engine is awake, before it sleeps after work, and once after [`on_close`](Agent::on_close).
    fn publish(&mut self, now: Instant) {
        let _ = now;
    }

    /// Called once, when the engine has been stopped: the last chance to send.
    fn on_close(&mut self) {}
}
