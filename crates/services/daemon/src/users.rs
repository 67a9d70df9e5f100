//! What one user may have of what all share: applications, flows and listeners.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Listeners of one user, unless the configuration says otherwise.
pub const LISTENERS_DEFAULT: u32 = 4096;
/// Of these, those of one application.
const APPLICATION_LISTENERS_MAX: u32 = 1024;
/// What other users are left by one that takes all it may have, unless the configuration says otherwise: one part in so many.
const OTHERS_PART: u32 = 4;

/// What one user may have at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserQuotas {
    /// Applications; `None`: three quarters of what the daemon serves.
    pub applications: Option<u32>,
    /// Flows; `None`: three quarters of what an engine's table holds.
    pub flows: Option<u32>,
    /// Listeners; `None`: `LISTENERS_DEFAULT`.
    pub listeners: Option<u32>,
}

/// All but the part that is left to others.
pub(crate) fn most_of(all: u32) -> u32 {
    all - all / OTHERS_PART
}

/// One user's account. Engines add to it and take from it when flows open and end, never for a message.
#[derive(Debug, Default)]
struct Account {
    flows: AtomicU32,
    listeners: AtomicU32,
}

/// The accounts, by user id.
#[derive(Debug)]
pub(crate) struct Users {
    flows_max: u32,
    listeners_max: u32,
    accounts: HashMap<u32, Arc<Account>>,
}

impl Users {
    pub(crate) fn new(quotas: &UserQuotas, flows_max: u32) -> Users {
        Users {
            flows_max: quotas.flows.unwrap_or(most_of(flows_max)),
            listeners_max: quotas.listeners.unwrap_or(LISTENERS_DEFAULT),
            accounts: HashMap::new(),
        }
    }

    /// What an application of a user draws from.
    pub(crate) fn share(&mut self, uid: u32) -> UserShare {
        // Those of users who have gone are forgotten.
        self.accounts.retain(|_, account| Arc::strong_count(account) > 1);
        let account = self.accounts.entry(uid).or_default().clone();
        let (flows_max, listeners_max) = (self.flows_max, self.listeners_max);
        UserShare { account, flows_max, listeners_max, flows: 0, listeners: 0 }
    }
}

/// One application's part of its user's account: given back when it goes.
#[derive(Debug)]
pub(crate) struct UserShare {
    account: Arc<Account>,
    flows_max: u32,
    listeners_max: u32,
    flows: u32,
    listeners: u32,
}

impl UserShare {
    /// Flows of this application.
    pub(crate) fn flows(&self) -> u32 {
        self.flows
    }

    /// Whether the user may have another flow. (Several engines that ask at once may each be told so.)
    pub(crate) fn may_open(&self) -> bool {
        self.account.flows.load(Relaxed) < self.flows_max
    }

    /// Flows that peers may open for the user: an eighth of what it may have is for its own.
    pub(crate) fn room(&self) -> u32 {
        (self.flows_max - self.flows_max / 8).saturating_sub(self.account.flows.load(Relaxed))
    }

    pub(crate) fn open(&mut self) {
        self.flows += 1;
        self.account.flows.fetch_add(1, Relaxed);
    }

    pub(crate) fn close(&mut self) {
        if self.flows > 0 {
            self.flows -= 1;
            self.account.flows.fetch_sub(1, Relaxed);
        }
    }

    /// Whether the user may listen on another port.
    pub(crate) fn may_listen(&self) -> bool {
        self.listeners < APPLICATION_LISTENERS_MAX
            && self.account.listeners.load(Relaxed) < self.listeners_max
    }

    pub(crate) fn listen(&mut self) {
        self.listeners += 1;
        self.account.listeners.fetch_add(1, Relaxed);
    }

    pub(crate) fn unlisten(&mut self) {
        if self.listeners > 0 {
            self.listeners -= 1;
            self.account.listeners.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for UserShare {
    fn drop(&mut self) {
        self.account.flows.fetch_sub(self.flows, Relaxed);
        self.account.listeners.fetch_sub(self.listeners, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_application_had_is_its_users_again_when_it_goes() {
        let mut users = Users::new(&UserQuotas { listeners: Some(2), ..UserQuotas::default() }, 8);
        let (mut one, mut two, mut other) = (users.share(7), users.share(7), users.share(8));
        for _ in 0..3 {
            one.open();
            two.open();
        }
        assert!(!one.may_open() && !two.may_open() && other.may_open(), "six of eight");
        assert_eq!((one.room(), other.room()), (0, 6), "of six an eighth, which is none");
        one.listen();
        one.listen();
        other.listen();
        assert!(!two.may_listen() && other.may_listen());
        one.unlisten();
        assert!(two.may_listen());
        one.close();
        assert!(two.may_open());
        drop(one);
        assert_eq!((two.account.flows.load(Relaxed), two.account.listeners.load(Relaxed)), (3, 0));
        drop(two);
        assert_eq!(users.share(9).flows(), 0);
        assert_eq!(users.accounts.len(), 2, "users 8 and 9");
    }
}
