//! What ends a sleep at a deadline.

use crate::sys::Timer;
use barewire_base::Instant;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// A clock that is set as seldom as possible. Deadlines are mostly time-outs that move on with each packet: a sleep with a time-out of its
/// own would set the processor's clock and set it back, which in a virtual machine takes longer than the rest of the sleep. So an alarm
/// that rings too early stays as it is; it ends one sleep in vain.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: Timer,
    /// When it rings; `None`: not set.
    at: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        Ok(Alarm { timer: Timer::new()?, at: None })
    }

    /// Rings at `deadline` at the latest.
    #[inline]
    pub(crate) fn until(&mut self, deadline: Instant) {
        if self.at.is_none_or(|at| at > deadline) {
            self.timer.set(deadline.as_nanos());
            self.at = Some(deadline);
        }
    }

    /// It has rung.
    pub(crate) fn rang(&mut self) {
        // Without this the descriptor would end every sleep.
        self.timer.drain();
        self.at = None;
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now;
    use crate::sys::{Epoll, Token};
    use barewire_base::Duration;

    fn watched() -> (Alarm, Epoll) {
        let (alarm, epoll) = (Alarm::new().unwrap(), Epoll::new().unwrap());
        epoll.add(alarm.as_raw_fd(), Token::Alarm).unwrap();
        (alarm, epoll)
    }

    #[test]
    fn it_rings_at_the_earliest_deadline_and_not_before() {
        let (mut alarm, epoll) = watched();
        for ms in [[3, 9, 6], [9, 6, 3], [6, 3, 9]] {
            let deadlines = ms.map(|ms| now() + Duration::from_millis(ms));
            for deadline in deadlines {
                alarm.until(deadline);
            }
            let earliest = deadlines.into_iter().min();
            assert_eq!(alarm.at, earliest);
            let woken = epoll.wait();
            assert!(woken.alarm && !woken.any, "{woken:?}");
            assert!(Some(now()) >= earliest);
            alarm.rang();
        }
    }

    #[test]
    fn one_that_rings_early_enough_is_left_alone() {
        let (mut alarm, epoll) = watched();
        let early = now() + Duration::from_millis(5);
        alarm.until(early);
        // Behind its back, to ring at once: if `until` set the clock, it would ring much later.
        alarm.timer.set(now().as_nanos());
        alarm.until(early + Duration::from_millis(5_000));
        assert!(epoll.wait().alarm && now() < early + Duration::from_millis(5_000));
    }

    #[test]
    fn it_can_be_set_again_after_a_time_that_was_over() {
        let (mut alarm, epoll) = watched();
        for at in [Instant::ZERO, now(), now() + Duration::from_millis(2)] {
            alarm.until(at);
            assert!(epoll.wait().alarm);
            alarm.rang();
        }
        // Nothing is left of them.
        let later = now() + Duration::from_millis(2);
        alarm.until(Instant::FAR_FUTURE);
        alarm.until(later);
        assert!(epoll.wait().alarm);
        assert!(now() >= later);
    }
}
