//! Notifications to whoever subscribed: bounded, and never waiting for a slow subscriber.

use super::Notification;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, Release},
};
use std::sync::{
    Arc,
    mpsc::{SyncSender, TrySendError},
};

/// The way to one who listens.
#[derive(Debug)]
enum Channel {
    /// What happens.
    Bare(SyncSender<Notification>),
    /// With the epoch at which the program began that it is of.
    Dated(SyncSender<(u64, Notification)>),
}

#[derive(Debug)]
struct Subscriber {
    to: Channel,
    gone: AtomicBool,
}

/// Everybody who listens. Immutable, so that engines can hold it without a lock; changes make a new one.
#[derive(Debug, Default)]
pub struct Subscribers {
    all: Vec<Arc<Subscriber>>,
    lost: Arc<AtomicU64>,
}

impl Subscribers {
    /// Nobody listens.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Notifications that some subscriber had no room for.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Where those are counted, whoever subscribes.
    pub(crate) fn lost_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lost)
    }

    /// One subscriber more, without those that went away.
    pub(crate) fn with(&self, to: SyncSender<Notification>) -> Subscribers {
        self.with_way(Channel::Bare(to))
    }

    /// The same, for one who has to know which program a notification is of.
    pub(crate) fn with_dated(&self, to: SyncSender<(u64, Notification)>) -> Subscribers {
        self.with_way(Channel::Dated(to))
    }

    fn with_way(&self, to: Channel) -> Subscribers {
        let mut new = self.without_gone();
        new.all.push(Arc::new(Subscriber { to, gone: AtomicBool::new(false) }));
        new
    }

    /// The same without those that went away.
    pub(crate) fn without_gone(&self) -> Subscribers {
        let all = self.all.iter().filter(|s| !s.gone.load(Relaxed)).cloned().collect();
        Subscribers { all, lost: Arc::clone(&self.lost) }
    }

    /// Somebody went away.
    pub(crate) fn any_gone(&self) -> bool {
        self.all.iter().any(|s| s.gone.load(Relaxed))
    }

    /// Tell them all, waiting for none, of the program that began at this epoch. False when it is lost: somebody listens, and
    /// nobody had room.
    pub fn send(&self, epoch: u64, notification: Notification) -> bool {
        let Some((last, others)) = self.all.split_last() else { return true };
        let (mut taken, mut lost) = (false, false);
        let mut count = |sent: Option<bool>| match sent {
            Some(true) => taken = true,
            Some(false) => lost = true,
            None => {}
        };
        for subscriber in others {
            count(self.send_to(subscriber, epoch, notification.clone()));
        }
        count(self.send_to(last, epoch, notification));
        taken || !lost
    }

    /// Whether a subscriber had room; none when it went away.
    fn send_to(&self, subscriber: &Subscriber, epoch: u64, notification: Notification) -> Option<bool> {
        let full = match &subscriber.to {
            Channel::Bare(to) => {
                to.try_send(notification).map_err(|error| matches!(error, TrySendError::Full(_)))
            }
            Channel::Dated(to) => {
                to.try_send((epoch, notification)).map_err(|error| matches!(error, TrySendError::Full(_)))
            }
        };
        match full {
            Ok(()) => Some(true),
            Err(true) => {
                self.lost.fetch_add(1, Relaxed);
                Some(false)
            }
            Err(false) => {
                subscriber.gone.store(true, Release);
                None
            }
        }
    }
}
