//! What one user may have of what all share: applications, flows and listeners.

use barewire_channel::rdma;
use barewire_engine::RDMA_UDP_PORT;
use barewire_transport::security::Network;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Listeners of one user, unless the configuration says otherwise.
pub const LISTENERS_DEFAULT: u32 = 4096;
/// Of these, those of one application.
const APPLICATION_LISTENERS_MAX: u32 = 1024;
/// What other users are left by one that takes all it may have, unless the configuration says otherwise: one part in so many.
const OTHERS_PART: u32 = 4;

/// Where one user may listen and connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRules {
    /// UDP ports to listen on; `None`: any.
    pub listen: Option<Vec<RangeInclusive<u16>>>,
    /// Addresses, with their UDP ports, to connect to; `None`: any.
    pub connect: Option<Vec<(Network, RangeInclusive<u16>)>>,
}

impl UserRules {
    /// Those of a user that is not listed where others are.
    fn nothing() -> UserRules {
        UserRules { listen: Some(vec![]), connect: Some(vec![]) }
    }

    pub(crate) fn may_listen(&self, udp_port: u16) -> bool {
        self.listen.as_ref().is_none_or(|ports| ports.iter().any(|p| p.contains(&udp_port)))
    }

    pub(crate) fn may_connect(&self, to: SocketAddr) -> bool {
        let fits = |(network, ports): &(Network, RangeInclusive<u16>)| {
            network.contains(to.ip()) && ports.contains(&to.port())
        };
        self.connect.as_ref().is_none_or(|rules| rules.iter().any(fits))
    }
}

impl UserRules {
    /// The rules for RDMA: RoCEv2's UDP port is the one that counts, whatever the service.
    pub(crate) fn permit_rdma(&self, request: &rdma::Request) -> bool {
        match request {
            rdma::Request::Listen { .. } => self.may_listen(RDMA_UDP_PORT),
            rdma::Request::Connect(to) => self.may_connect((to.remote, RDMA_UDP_PORT).into()),
            _ => true,
        }
    }
}

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
    rules: HashMap<u32, Arc<UserRules>>,
    /// Those of users without an entry.
    others: Arc<UserRules>,
}

impl Users {
    pub(crate) fn new(quotas: &UserQuotas, rules: &HashMap<u32, UserRules>, flows_max: u32) -> Users {
        let others = if rules.is_empty() { UserRules::default() } else { UserRules::nothing() };
        Users {
            flows_max: quotas.flows.unwrap_or(most_of(flows_max)),
            listeners_max: quotas.listeners.unwrap_or(LISTENERS_DEFAULT),
            accounts: HashMap::new(),
            rules: rules.iter().map(|(uid, rules)| (*uid, Arc::new(rules.clone()))).collect(),
            others: Arc::new(others),
        }
    }

    /// What an application of a user draws from.
    pub(crate) fn share(&mut self, uid: u32) -> UserShare {
        // Those of users who have gone are forgotten.
        self.accounts.retain(|_, account| Arc::strong_count(account) > 1);
        let account = self.accounts.entry(uid).or_default().clone();
        let (flows_max, listeners_max) = (self.flows_max, self.listeners_max);
        // Root can read every key and be every user.
        let rules = match self.rules.get(&uid) {
            Some(rules) => Arc::clone(rules),
            None if uid == 0 => Arc::default(),
            None => Arc::clone(&self.others),
        };
        UserShare { account, flows_max, listeners_max, flows: 0, listeners: 0, rules }
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
    /// Where it may listen and connect.
    pub rules: Arc<UserRules>,
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
    fn rules_are_for_who_is_listed_and_leave_others_nothing() {
        let network = Network { address: [10, 0, 0, 0].into(), prefix: 24 };
        let rules = UserRules { listen: Some(vec![888..=890]), connect: Some(vec![(network, 888..=888)]) };
        let to = |ip: [u8; 4], port| SocketAddr::from((ip, port));
        let mut users = Users::new(&UserQuotas::default(), &HashMap::from([(7, rules)]), 8);
        let (seven, eight, root) = (users.share(7).rules.clone(), users.share(8), users.share(0));
        assert!(seven.may_listen(889) && !seven.may_listen(891));
        assert!(seven.may_connect(to([10, 0, 0, 9], 888)));
        assert!(!seven.may_connect(to([10, 0, 1, 9], 888)) && !seven.may_connect(to([10, 0, 0, 9], 889)));
        assert!(!eight.rules.may_listen(888) && !eight.rules.may_connect(to([10, 0, 0, 9], 888)));
        let listen = rdma::Request::Listen { token: 0, service_id: 1, backlog: 1 };
        assert!(
            !seven.permit_rdma(&listen) && root.rules.permit_rdma(&listen),
            "RoCEv2's port is not in its list"
        );
        assert!(root.rules.may_listen(1) && root.rules.may_connect(to([1, 2, 3, 4], 5)));
        let mut users = Users::new(&UserQuotas::default(), &HashMap::new(), 8);
        assert!(users.share(8).rules.may_listen(1), "without a list everybody may");
    }

    #[test]
    fn what_an_application_had_is_its_users_again_when_it_goes() {
        let mut users =
            Users::new(&UserQuotas { listeners: Some(2), ..UserQuotas::default() }, &HashMap::new(), 8);
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
