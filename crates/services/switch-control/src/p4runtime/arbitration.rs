//! Who is primary (specification, "Client Arbitration and Controller Replication").
//!
//! It decides and tells whom it concerns, behind one lock: so controllers hear of changes in the order in which they came about.
//! For each role the client with the highest election id ever seen is primary; ids outlive their clients.

use super::error::{P4Error, Result, denied, not_found};
use super::message::{MasterArbitrationUpdate, Role, RpcStatus, Uint128};
use super::outbox::Outbox;
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::{Code, Status};

/// Roles that are remembered.
const MAX_ROLES: usize = 256;
/// Bytes of a role's name: it is remembered, and told with every change.
const MAX_ROLE_NAME: usize = 1024;
/// Streams of one role.
const MAX_CLIENTS: usize = 64;

/// A client that has become primary. It is told so when writes of the one before it have ended ([`Arbiter::confirm`]), if it
/// still is primary then.
#[derive(Debug)]
#[must_use]
pub struct Elected {
    role: Arc<str>,
    key: u64,
    /// Which election it was.
    number: u64,
}

#[derive(Debug)]
struct Client {
    election: Option<u128>,
    role: Option<Role>,
    outbox: Outbox,
}

#[derive(Debug, Default)]
struct RoleState {
    clients: BTreeMap<u64, Client>,
    highest: Option<u128>,
    primary: Option<u64>,
    /// The election by which it is.
    elected: u64,
    /// When the last client left: how many had been the last of theirs before.
    left: u64,
}

/// All roles of one device.
#[derive(Debug)]
pub struct Arbiter {
    device_id: u64,
    roles: BTreeMap<String, RoleState>,
    /// How often a role has lost its last client.
    departures: u64,
    /// How often somebody became primary.
    elections: u64,
}

/// A stream's part in arbitration: none before its first update.
#[derive(Debug, Default, Clone)]
pub struct Session {
    role: Option<Arc<str>>,
}

impl Uint128 {
    /// The number.
    pub fn value(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    fn of(value: u128) -> Uint128 {
        Uint128 { high: (value >> 64) as u64, low: value as u64 }
    }
}

/// A role by its name; those who still use numbers get a name nobody can type.
pub fn role_name(id: u64, name: &str) -> String {
    match (name, id) {
        ("", 0) => String::new(),
        ("", id) => format!("\u{0}{id}"),
        (name, _) => name.to_owned(),
    }
}

impl Arbiter {
    /// Nobody yet.
    pub fn new(device_id: u64) -> Arbiter {
        Arbiter { device_id, roles: BTreeMap::new(), departures: 0, elections: 0 }
    }

    /// A stream sent an update. Others are told at once; who becomes primary, later.
    ///
    /// # Errors
    /// The status with which the stream must be ended.
    pub fn update(
        &mut self,
        key: u64,
        session: &mut Session,
        update: &MasterArbitrationUpdate,
        outbox: &Outbox,
    ) -> std::result::Result<Option<Elected>, Status> {
        if update.device_id != self.device_id {
            let message =
                format!("device {} is not here, this is device {}", update.device_id, self.device_id);
            return Err(match session.role {
                None => Status::not_found(message),
                Some(_) => Status::failed_precondition(message),
            });
        }
        let name = update.role.as_ref().map_or_else(String::new, |role| role_name(role.id, &role.name));
        if name.len() > MAX_ROLE_NAME {
            let given = name.len();
            return Err(Status::invalid_argument(format!(
                "the role's name has {given} bytes: the limit is {MAX_ROLE_NAME}"
            )));
        }
        if session.role.as_ref().is_some_and(|role| **role != *name) {
            return Err(Status::failed_precondition(
                "a stream cannot change its role: close it and open another",
            ));
        }
        if update.role.as_ref().is_some_and(|role| role.config.is_some()) {
            return Err(Status::invalid_argument(
                "no scheme for role configurations is agreed upon: leave role.config unset for full access",
            ));
        }
        if !self.roles.contains_key(&name) && self.roles.len() >= MAX_ROLES && !self.forget_role() {
            return Err(Status::resource_exhausted(format!("{MAX_ROLES} roles have controllers already")));
        }
        let state = self.roles.entry(name.clone()).or_default();
        let election = update.election_id.map(Uint128::value);
        let used = |(other, client): (&u64, &Client)| *other != key && client.election == election;
        if election.is_some() && state.clients.iter().any(used) {
            return Err(Status::invalid_argument("the election id is that of another controller"));
        }
        if session.role.is_none() && state.clients.len() >= MAX_CLIENTS {
            return Err(Status::resource_exhausted(format!(
                "{MAX_CLIENTS} streams are open for the role already"
            )));
        }
        let role: Arc<str> = name.into();
        session.role = Some(Arc::clone(&role));
        let as_before = state.primary == Some(key)
            && election.is_some()
            && state.clients.get(&key).is_some_and(|client| client.election == election);
        state.clients.insert(key, Client { election, role: update.role.clone(), outbox: outbox.clone() });
        if as_before {
            // The primary asks who is: nobody else needs to hear that nothing has changed.
            state.tell(self.device_id, key);
            return Ok(None);
        }
        let was_primary = state.primary == Some(key);
        if let Some(election) =
            election.filter(|&election| state.highest.is_none_or(|highest| election >= highest))
        {
            state.highest = Some(election);
            state.primary = Some(key);
            self.elections += 1;
            state.elected = self.elections;
            state.tell_all(self.device_id, Some(key));
            return Ok(Some(Elected { role, key, number: self.elections }));
        }
        if was_primary {
            state.primary = None;
            state.tell_all(self.device_id, None);
        } else {
            state.tell(self.device_id, key);
        }
        Ok(None)
    }

    /// Writes of the primary before this one have ended: it is told that it is primary, unless it is not any more. Then it has
    /// heard so, and another is told, or will be.
    pub fn confirm(&self, elected: &Elected) {
        let Elected { role, key, number } = elected;
        let state = self.roles.get(&**role);
        if let Some(state) = state.filter(|state| state.primary == Some(*key) && state.elected == *number) {
            state.tell(self.device_id, *key);
        }
    }

    /// Forget the role that has been without a controller for longest, and its highest election id with it: better than
    /// no place for a new one. The default role is not forgotten. False when all have controllers.
    fn forget_role(&mut self) -> bool {
        let empty = self.roles.iter().filter(|(name, role)| !name.is_empty() && role.clients.is_empty());
        let Some(name) = empty.min_by_key(|(_, role)| role.left).map(|(name, _)| name.clone()) else {
            return false;
        };
        self.roles.remove(&name);
        true
    }

    /// A stream ended.
    pub fn leave(&mut self, key: u64, session: &Session) {
        let Some(name) = &session.role else { return };
        let Some(state) = self.roles.get_mut(&**name) else { return };
        state.clients.remove(&key);
        if state.clients.is_empty() {
            self.departures += 1;
            state.left = self.departures;
        }
        if state.highest.is_none() && state.clients.is_empty() {
            // Nobody was ever primary: there is nothing to remember.
            self.roles.remove(&**name);
            return;
        }
        if state.primary == Some(key) {
            state.primary = None;
            state.tell_all(self.device_id, None);
        }
    }

    /// Whether a stream is its role's primary.
    pub fn is_primary_stream(&self, key: u64, session: &Session) -> bool {
        session
            .role
            .as_ref()
            .and_then(|role| self.roles.get(&**role))
            .is_some_and(|role| role.primary == Some(key))
    }

    /// Whether somebody who writes with this role and election id may.
    ///
    /// # Errors
    /// NOT_FOUND for a role nobody took, PERMISSION_DENIED for all but the primary.
    pub fn check_writer(&self, role: &str, election: Option<Uint128>) -> Result<()> {
        let Some(state) = self.roles.get(role) else {
            if role.is_empty() {
                return Err(denied(
                    "there is no primary: open a stream and send a MasterArbitrationUpdate first",
                ));
            }
            return Err(not_found(format!("role '{}' is not known", role.trim_start_matches('\u{0}'))));
        };
        let primary = state.primary.and_then(|key| state.clients.get(&key));
        match (primary, election) {
            (None, _) => Err(denied("the role has no primary now")),
            (Some(_), None) => Err(denied("the election id is not set: only the primary may write")),
            (Some(client), Some(election)) if client.election == Some(election.value()) => Ok(()),
            (Some(_), Some(_)) => {
                Err(P4Error::new(Code::PermissionDenied, "the election id is not the primary's"))
            }
        }
    }

    /// The primaries of all roles: who gets packets, digests and notices.
    pub fn primaries(&self) -> Vec<Outbox> {
        let primary = |role: &RoleState| Some(role.clients.get(&role.primary?)?.outbox.clone());
        self.roles.values().filter_map(primary).collect()
    }
}

impl RoleState {
    /// Tell one who is primary.
    fn tell(&self, device_id: u64, key: u64) {
        let Some(client) = self.clients.get(&key) else { return };
        let (code, message) = match self.primary {
            Some(primary) if primary == key => (Code::Ok, "you are primary"),
            Some(_) => (Code::AlreadyExists, "you are a backup"),
            None => (Code::NotFound, "there is no primary"),
        };
        let update = MasterArbitrationUpdate {
            device_id,
            role: client.role.clone(),
            election_id: self.highest.map(Uint128::of),
            status: Some(RpcStatus { code: code as i32, message: message.into(), details: Vec::new() }),
        };
        client.outbox.tell(update);
    }

    /// Tell all but the new primary.
    fn tell_all(&self, device_id: u64, new_primary: Option<u64>) {
        let others = self.clients.keys().filter(|&&key| Some(key) != new_primary);
        others.for_each(|&key| self.tell(device_id, key));
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{StreamMessageResponse, StreamResponse};
    use super::super::outbox::Sent;
    use super::*;
    use prost::Message;
    use tokio::sync::mpsc;

    type Inbox = mpsc::Receiver<Sent>;

    struct Peer {
        key: u64,
        session: Session,
        outbox: Outbox,
        inbox: Inbox,
    }

    fn peer(key: u64) -> Peer {
        let (outbox, inbox) = Outbox::new();
        Peer { key, session: Session::default(), outbox, inbox }
    }

    fn update(election: Option<u64>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: 1,
            election_id: election.map(|low| Uint128 { high: 0, low }),
            ..Default::default()
        }
    }

    impl Peer {
        fn send(
            &mut self,
            arbiter: &mut Arbiter,
            message: &MasterArbitrationUpdate,
        ) -> std::result::Result<(), Code> {
            let elected = self.asks(arbiter, message)?;
            elected.into_iter().for_each(|elected| arbiter.confirm(&elected));
            Ok(())
        }

        fn asks(
            &mut self,
            arbiter: &mut Arbiter,
            message: &MasterArbitrationUpdate,
        ) -> std::result::Result<Option<Elected>, Code> {
            let answer = arbiter.update(self.key, &mut self.session, message, &self.outbox);
            answer.map_err(|status| status.code())
        }

        fn heard(&mut self) -> Vec<(i32, Option<u64>)> {
            let mut out = Vec::new();
            while let Ok(Ok(message)) = self.inbox.try_recv() {
                let message = StreamMessageResponse::decode(message.bytes()).unwrap();
                let Some(StreamResponse::Arbitration(update)) = message.update else { panic!("{message:?}") };
                out.push((update.status.unwrap().code, update.election_id.map(|id| id.low)));
            }
            out
        }
    }

    #[test]
    fn the_highest_election_id_ever_seen_is_primary() {
        let mut arbiter = Arbiter::new(1);
        let (mut a, mut b, mut c) = (peer(1), peer(2), peer(3));
        a.send(&mut arbiter, &update(Some(5))).unwrap();
        assert_eq!(a.heard(), [(0, Some(5))]);
        b.send(&mut arbiter, &update(Some(3))).unwrap();
        assert_eq!((a.heard(), b.heard()), (vec![], vec![(6, Some(5))]));
        c.send(&mut arbiter, &update(None)).unwrap();
        assert_eq!(c.heard(), [(6, Some(5))]);
        b.send(&mut arbiter, &update(Some(9))).unwrap();
        assert_eq!(
            (a.heard(), b.heard(), c.heard()),
            (vec![(6, Some(9))], vec![(0, Some(9))], vec![(6, Some(9))])
        );
        let id = |low| Some(Uint128 { high: 0, low });
        assert!(arbiter.check_writer("", id(9)).is_ok());
        for wrong in [id(5), id(10), None] {
            assert_eq!(arbiter.check_writer("", wrong).unwrap_err().code, Code::PermissionDenied);
        }
        arbiter.leave(b.key, &b.session);
        assert_eq!((a.heard(), c.heard()), (vec![(5, Some(9))], vec![(5, Some(9))]));
        // The dead primary's id still counts: 5 is too low, 9 may be taken up again.
        a.send(&mut arbiter, &update(Some(5))).unwrap();
        assert_eq!(a.heard(), [(5, Some(9))]);
        assert_eq!(arbiter.check_writer("", id(9)).unwrap_err().code, Code::PermissionDenied);
        a.send(&mut arbiter, &update(Some(9))).unwrap();
        assert_eq!((a.heard(), c.heard()), (vec![(0, Some(9))], vec![(6, Some(9))]));
        // A primary that steps down.
        a.send(&mut arbiter, &update(None)).unwrap();
        assert_eq!((a.heard(), c.heard()), (vec![(5, Some(9))], vec![(5, Some(9))]));
        assert!(arbiter.primaries().is_empty());
    }

    #[test]
    fn streams_that_break_the_rules_are_ended() {
        let mut arbiter = Arbiter::new(1);
        let (mut a, mut b) = (peer(1), peer(2));
        let other_device = MasterArbitrationUpdate { device_id: 2, ..update(Some(1)) };
        assert_eq!(a.send(&mut arbiter, &other_device), Err(Code::NotFound));
        a.send(&mut arbiter, &update(Some(1))).unwrap();
        assert_eq!(a.send(&mut arbiter, &other_device), Err(Code::FailedPrecondition));
        assert_eq!(b.send(&mut arbiter, &update(Some(1))), Err(Code::InvalidArgument));
        let role = |name: &str| Some(Role { name: name.into(), ..Role::default() });
        let with_role = MasterArbitrationUpdate { role: role("sdn"), ..update(Some(1)) };
        assert_eq!(a.send(&mut arbiter, &with_role), Err(Code::FailedPrecondition));
        b.send(&mut arbiter, &with_role).unwrap();
        assert_eq!(arbiter.primaries().len(), 2);
        let id = Some(Uint128 { high: 0, low: 1 });
        assert!(arbiter.check_writer("sdn", id).is_ok());
        assert_eq!(arbiter.check_writer("other", id).unwrap_err().code, Code::NotFound);
        let mut config = with_role.clone();
        config.role.as_mut().unwrap().config = Some(crate::p4info::types::Any::default());
        assert_eq!(peer(3).send(&mut arbiter, &config), Err(Code::InvalidArgument));
        let long = MasterArbitrationUpdate { role: role(&"x".repeat(MAX_ROLE_NAME + 1)), ..update(Some(1)) };
        assert_eq!(peer(4).send(&mut arbiter, &long), Err(Code::InvalidArgument));
    }

    #[test]
    fn who_was_overtaken_before_it_was_told_is_never_told_that_it_is_primary() {
        let mut arbiter = Arbiter::new(1);
        let (mut a, mut b, mut c) = (peer(1), peer(2), peer(3));
        c.send(&mut arbiter, &update(Some(1))).unwrap();
        assert_eq!(c.heard(), [(0, Some(1))]);
        // Writes of the first go on while two others follow.
        let of_a = a.asks(&mut arbiter, &update(Some(5))).unwrap().unwrap();
        let of_b = b.asks(&mut arbiter, &update(Some(6))).unwrap().unwrap();
        assert_eq!((a.heard(), b.heard()), (vec![(6, Some(6))], vec![]));
        arbiter.confirm(&of_b);
        arbiter.confirm(&of_a);
        assert_eq!((a.heard(), b.heard()), (vec![], vec![(0, Some(6))]));
        assert_eq!(c.heard(), [(6, Some(5)), (6, Some(6))]);
        // One that left, and one that is primary by a later election, whose writes before it may go on.
        arbiter.leave(b.key, &b.session);
        let first = a.asks(&mut arbiter, &update(Some(7))).unwrap().unwrap();
        assert!(a.asks(&mut arbiter, &update(None)).unwrap().is_none());
        let second = a.asks(&mut arbiter, &update(Some(8))).unwrap().unwrap();
        assert_eq!(a.heard(), [(5, Some(6)), (5, Some(7))]);
        arbiter.confirm(&of_b);
        arbiter.confirm(&first);
        assert_eq!((a.heard(), b.heard()), (vec![], vec![]));
        arbiter.confirm(&second);
        assert_eq!(a.heard(), [(0, Some(8))]);
    }

    #[test]
    fn streams_and_roles_are_bounded() {
        let mut arbiter = Arbiter::new(1);
        let mut peers: Vec<Peer> = (0..MAX_CLIENTS as u64 + 1).map(peer).collect();
        let last = peers.last_mut().map(|p| p.key).unwrap();
        for one in &mut peers {
            let expected = if one.key == last { Err(Code::ResourceExhausted) } else { Ok(()) };
            let key = one.key;
            assert_eq!(one.send(&mut arbiter, &update(Some(key + 1))), expected);
        }
        let mut named: Vec<Peer> = (0..MAX_ROLES as u64).map(|n| peer(1000 + n)).collect();
        let as_role = |n: u64, election| {
            let role = Some(Role { name: format!("role{n}"), ..Role::default() });
            MasterArbitrationUpdate { role, ..update(election) }
        };
        for (n, one) in (0..).zip(&mut named) {
            let expected = if n + 1 == MAX_ROLES as u64 { Err(Code::ResourceExhausted) } else { Ok(()) };
            assert_eq!(one.send(&mut arbiter, &as_role(n, Some(n + 1))), expected);
        }
    }

    #[test]
    fn roles_without_controllers_make_room_for_others() {
        let mut arbiter = Arbiter::new(1);
        let mut default = peer(1);
        default.send(&mut arbiter, &update(Some(9))).unwrap();
        let role = |n: u64, election| {
            let role = Some(Role { name: format!("role{n}"), ..Role::default() });
            MasterArbitrationUpdate { role, ..update(election) }
        };
        let visit = |arbiter: &mut Arbiter, n: u64, election| {
            let mut one = peer(10 + n);
            let answer = one.send(arbiter, &role(n, election));
            arbiter.leave(one.key, &one.session);
            answer
        };
        // Who never asks to be primary leaves nothing behind.
        for n in 0..2 * MAX_ROLES as u64 {
            visit(&mut arbiter, n, None).unwrap();
        }
        assert_eq!(arbiter.roles.len(), 1);
        // Who does is remembered as long as there is room.
        for n in 0..MAX_ROLES as u64 - 1 {
            visit(&mut arbiter, n, Some(7)).unwrap();
        }
        let mut late = peer(5000);
        late.send(&mut arbiter, &role(3, Some(6))).unwrap();
        assert_eq!(late.heard(), [(5, Some(7))], "the highest id is remembered");
        default.send(&mut arbiter, &update(None)).unwrap();
        arbiter.leave(default.key, &default.session);
        for n in 0..2 * MAX_ROLES as u64 {
            visit(&mut arbiter, 10_000 + n, Some(1)).unwrap();
        }
        assert_eq!(arbiter.roles.len(), MAX_ROLES);
        assert!(arbiter.roles.contains_key("role3"), "it has a controller");
        let mut default = peer(2);
        default.send(&mut arbiter, &update(Some(8))).unwrap();
        assert_eq!(default.heard(), [(5, Some(9))], "the default role is never forgotten");
    }

    #[test]
    fn a_primary_that_says_again_that_it_is_tells_nobody_else() {
        let mut arbiter = Arbiter::new(1);
        let (mut a, mut b) = (peer(1), peer(2));
        a.send(&mut arbiter, &update(Some(5))).unwrap();
        b.send(&mut arbiter, &update(Some(3))).unwrap();
        assert_eq!((a.heard().len(), b.heard().len()), (1, 1));
        let elected = a.asks(&mut arbiter, &update(Some(5))).unwrap();
        assert!(elected.is_none(), "there are no writes of another to wait for");
        assert_eq!((a.heard(), b.heard()), (vec![(0, Some(5))], vec![]));
        // A larger id of its own is a change.
        a.send(&mut arbiter, &update(Some(6))).unwrap();
        assert_eq!((a.heard(), b.heard()), (vec![(0, Some(6))], vec![(6, Some(6))]));
    }

    #[test]
    fn there_is_never_more_than_one_primary_and_ids_only_grow() {
        let seed = 11;
        let mut random = barewire_base::Prng::new(seed);
        let mut arbiter = Arbiter::new(1);
        let mut peers: Vec<Peer> = (0..8).map(peer).collect();
        let mut highest = None;
        for step in 0..20_000 {
            let at = random.below(8) as usize;
            if random.chance(0.2) {
                arbiter.leave(peers[at].key, &peers[at].session);
                peers[at] = peer(peers[at].key);
            } else {
                let election = random.chance(0.9).then(|| random.below(step / 100 + 5));
                let accepted = peers[at].send(&mut arbiter, &update(election)).is_ok();
                if accepted {
                    highest = highest.max(election);
                } else {
                    arbiter.leave(peers[at].key, &peers[at].session);
                    peers[at] = peer(peers[at].key);
                }
            }
            let primaries: Vec<u64> = peers
                .iter()
                .filter(|p| arbiter.is_primary_stream(p.key, &p.session))
                .map(|p| p.key)
                .collect();
            assert!(primaries.len() <= 1, "seed {seed}, step {step}: {primaries:?}");
            let id = highest.map(|low| Uint128 { high: 0, low });
            assert_eq!(
                arbiter.check_writer("", id).is_ok(),
                primaries.len() == 1,
                "seed {seed}, step {step}"
            );
        }
    }
}
