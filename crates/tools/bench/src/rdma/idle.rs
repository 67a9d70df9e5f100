//! What a thread does when nothing has moved.

use barewire_base::{Duration, Instant};
use barewire_engine::{IdleStrategy, RdmaStack};

/// Longest sleep: what else a loop looks at is looked at after it.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// What a thread does when nothing has moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Idle {
    /// Looks again: it has a core of its own.
    Spin,
    /// Gives its core away, then looks again: there are more threads than cores.
    Yield,
    /// Sleeps until something comes, which costs a wake-up.
    Sleep,
}

impl Idle {
    /// As was asked for; else by whether there are cores of its own.
    pub(super) fn of(asked: Option<IdleStrategy>, cores: Option<(usize, usize)>) -> Idle {
        match asked {
            Some(strategy) => strategy.into(),
            None if cores.is_some() => Idle::Spin,
            None => Idle::Yield,
        }
    }

    /// Does it, where there is a stack to sleep on.
    #[inline]
    pub(super) fn rest(self, stack: &mut RdmaStack, now: Instant) {
        match self {
            Idle::Sleep => stack.sleep(now, SLEEP_MAX),
            _ => self.pause(),
        }
    }

    /// Does as much of it as goes without something to sleep on.
    #[inline]
    pub(super) fn pause(self) {
        match self {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield | Idle::Sleep => std::thread::yield_now(),
        }
    }

    /// The kernel's rows by how their ends wait.
    pub(super) fn kernel_mode(self) -> &'static str {
        match self {
            Idle::Spin => "spin",
            Idle::Yield => "yield",
            Idle::Sleep => "blocking",
        }
    }

    /// For a note: what "they", the threads, do.
    pub(super) fn phrase(self) -> &'static str {
        match self {
            Idle::Spin => "they spin when idle",
            Idle::Yield => "they yield when idle",
            Idle::Sleep => "they sleep when idle",
        }
    }
}

/// A thread that parks sleeps at once: its time to spin is the engine's own matter.
impl From<IdleStrategy> for Idle {
    fn from(strategy: IdleStrategy) -> Idle {
        match strategy {
            IdleStrategy::Spin => Idle::Spin,
            IdleStrategy::Yield => Idle::Yield,
            IdleStrategy::Park { .. } => Idle::Sleep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_rests_as_asked_else_as_its_cores_allow() {
        let park = IdleStrategy::Park { spin: Duration::ZERO };
        for cores in [None, Some((0, 1))] {
            assert_eq!(Idle::of(Some(IdleStrategy::Spin), cores), Idle::Spin);
            assert_eq!(Idle::of(Some(IdleStrategy::Yield), cores), Idle::Yield);
            assert_eq!(Idle::of(Some(park), cores), Idle::Sleep);
        }
        assert_eq!(Idle::of(None, Some((0, 1))), Idle::Spin);
        assert_eq!(Idle::of(None, None), Idle::Yield);
    }
}
