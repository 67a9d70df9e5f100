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

#[derive(Debug)]
struct Subscriber {
    to: SyncSender<Notification>,
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

    /// One subscriber more, without those that went away.
    pub(crate) fn with(&self, to: SyncSender<Notification>) -> Subscribers {
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

    /// Tell them all, waiting for none.
    pub fn send(&self, notification: Notification) {
        let Some((last, others)) = self.all.split_last() else { return };
        for subscriber in others {
            self.send_to(subscriber, notification.clone());
        }
        self.send_to(last, notification);
    }

    fn send_to(&self, subscriber: &Subscriber, notification: Notification) {
        match subscriber.to.try_send(notification) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => subscriber.gone.store(true, Release),
        }
    }
}
