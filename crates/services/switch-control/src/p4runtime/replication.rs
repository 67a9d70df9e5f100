//! The packet replication engine: multicast groups and clone sessions.

use super::entity::{
    CloneSessionEntry, MulticastGroupEntry, PacketReplicationEngineEntry, Replica, ReplicaPort,
    ReplicationEntry,
};
use super::error::{P4Error, Result, invalid, not_found};
use super::message::UpdateType;
use super::target::Target;
use super::value::number32;
use barewire_switch::control::{ErrorKind, MirrorSession};
use tonic::Code;

/// P4Runtime's number for the CPU port, whatever its number in the program.
const SDN_PORT_CPU: u32 = 0xffff_fffd;
/// Clone sessions of the switch are 1 to this (0 is a wildcard here).
const SESSION_MAX: u32 = 32_767;
/// The multicast group that a clone session with several replicas uses is the session's number above this.
const CLONE_GROUPS: u32 = 1 << 15;
/// Classes of service are priorities of queues: v1model's have three bits.
const CLASS_MAX: u32 = 7;
/// Replication ids have so many bits.
const INSTANCE_BITS: u32 = 16;

impl Target {
    /// Ports and replication ids of replicas.
    fn replicas(&self, place: &str, replicas: &[Replica]) -> Result<Vec<(u32, u32)>> {
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(replicas.len());
        let mut seen = std::collections::HashSet::with_capacity(replicas.len());
        for (at, replica) in replicas.iter().enumerate() {
            let place = format!("{place}, replica {}", at + 1);
            let port = match &replica.port_kind {
                None => return Err(invalid(format!("{place}: the port is not set"))),
                Some(ReplicaPort::EgressPort(port)) => *port,
                Some(ReplicaPort::Port(port)) => number32(port).map_err(|error| error.at(&place))?,
            };
            let port = match (port, self.switch.info().cpu_port) {
                (SDN_PORT_CPU, Some(cpu)) => cpu,
                (SDN_PORT_CPU, None) => return Err(invalid(format!("{place}: the switch has no CPU port"))),
                (port, _) => port,
            };
            if replica.instance >> INSTANCE_BITS != 0 {
                let message =
                    format!("{place}: instance {} has more than {INSTANCE_BITS} bits", replica.instance);
                return Err(invalid(message));
            }
            if !seen.insert((port, replica.instance)) {
                return Err(invalid(format!(
                    "{place}: port {port}, instance {} is there twice",
                    replica.instance
                )));
            }
            out.push((port, replica.instance));
        }
        Ok(out)
    }

    /// Whether another control plane made this group.
    fn foreign_group(&self, group: u32) -> bool {
        self.switch.mc_has_group(group)
    }

    pub(super) fn write_multicast(&mut self, kind: UpdateType, entry: &MulticastGroupEntry) -> Result<()> {
        let id = entry.multicast_group_id;
        let place = format!("multicast group {id}");
        if id == 0 {
            return Err(invalid("multicast_group_id is 0"));
        }
        if (CLONE_GROUPS..=CLONE_GROUPS + SESSION_MAX).contains(&id) {
            let message =
                format!("{place}: {CLONE_GROUPS} to {} stand for clone sessions", CLONE_GROUPS + SESSION_MAX);
            return Err(invalid(message));
        }
        // Another control plane may have taken it away.
        if !self.switch.mc_has_group(id) {
            self.notes.multicast.remove(&id);
        }
        let before = self.notes.multicast.get(&id).cloned();
        match (kind, before.is_some()) {
            (UpdateType::Insert, true) => {
                return Err(P4Error::new(Code::AlreadyExists, format!("{place}: it is there already")));
            }
            (UpdateType::Insert, false) if self.foreign_group(id) => {
                let message = format!("{place}: another control plane made it");
                return Err(P4Error::new(Code::AlreadyExists, message));
            }
            (UpdateType::Modify | UpdateType::Delete, false) => {
                return Err(not_found(format!("{place}: it is not there")));
            }
            _ => {}
        }
        if kind == UpdateType::Delete {
            self.delete_multicast(id)?;
        } else {
            let replicas = self.replicas(&place, &entry.replicas)?;
            self.switch.mc_set_group(id, &replicas).map_err(|error| P4Error::from(error).at(&place))?;
            self.notes.multicast.insert(id, entry.clone());
        }
        self.undo_with(move |target| match before {
            Some(before) => {
                let replicas = target.replicas("multicast group", &before.replicas)?;
                target.switch.mc_set_group(id, &replicas)?;
                target.notes.multicast.insert(id, before);
                Ok(())
            }
            None => target.delete_multicast(id),
        });
        Ok(())
    }

    pub(super) fn delete_multicast(&mut self, id: u32) -> Result<()> {
        self.notes.multicast.remove(&id);
        Ok(self.switch.mc_set_group(id, &[]).and_then(|()| self.switch.mc_destroy(id))?)
    }

    /// Bring a session, and its group if it needs one, to what an entry says.
    fn set_session(&mut self, entry: &CloneSessionEntry) -> Result<()> {
        let id = entry.session_id;
        let place = format!("clone session {id}");
        let replicas = self.replicas(&place, &entry.replicas)?;
        let truncate_bytes = u32::try_from(entry.packet_length_bytes)
            .map_err(|_| invalid(format!("{place}: packet_length_bytes is {}", entry.packet_length_bytes)))?;
        let had_group = self.notes.clones.get(&id).is_some_and(needs_group);
        let class_of_service = entry.class_of_service;
        let mut session = MirrorSession { truncate_bytes, class_of_service, ..MirrorSession::default() };
        if needs_group(entry) {
            self.switch.mc_set_group(CLONE_GROUPS + id, &replicas)?;
            session.multicast_group = Some(CLONE_GROUPS + id);
        } else {
            session.egress_port = replicas.first().map(|(port, _)| *port);
        }
        self.switch.set_mirror(id, session).map_err(|error| P4Error::from(error).at(&place))?;
        if had_group && !needs_group(entry) {
            self.drop_clone_group(id)?;
        }
        self.notes.clones.insert(id, entry.clone());
        Ok(())
    }

    fn drop_clone_group(&self, id: u32) -> Result<()> {
        let group = CLONE_GROUPS + id;
        Ok(self.switch.mc_set_group(group, &[]).and_then(|()| self.switch.mc_destroy(group))?)
    }

    /// A session as it was written, if it is there: another control plane may have taken it away.
    fn known_session(&mut self, id: u32) -> Option<CloneSessionEntry> {
        let entry = self.notes.clones.get(&id)?.clone();
        if self.switch.mirror(id).is_ok() {
            return Some(entry);
        }
        self.notes.clones.remove(&id);
        if needs_group(&entry) {
            // Nothing else uses it; it may be gone as well.
            let _ = self.drop_clone_group(id);
        }
        None
    }

    pub(super) fn delete_clone_session(&mut self, id: u32) -> Result<()> {
        match self.switch.delete_mirror(id) {
            Err(error) if error.kind != ErrorKind::InvalidSession => return Err(error.into()),
            _ => {}
        }
        match self.notes.clones.remove(&id) {
            Some(entry) if needs_group(&entry) => self.drop_clone_group(id),
            _ => Ok(()),
        }
    }

    pub(super) fn write_clone_session(&mut self, kind: UpdateType, entry: &CloneSessionEntry) -> Result<()> {
        let id = entry.session_id;
        let place = format!("clone session {id}");
        if id == 0 {
            return Err(invalid("session_id is 0"));
        }
        if id > SESSION_MAX {
            return Err(invalid(format!("{place}: sessions are 1 to {SESSION_MAX}")));
        }
        let before = self.known_session(id);
        match (kind, before.is_some()) {
            (UpdateType::Insert, true) => {
                return Err(P4Error::new(Code::AlreadyExists, format!("{place}: it is there already")));
            }
            (UpdateType::Insert, false) if self.switch.mirror(id).is_ok() => {
                let message = format!("{place}: another control plane made it");
                return Err(P4Error::new(Code::AlreadyExists, message));
            }
            (UpdateType::Modify | UpdateType::Delete, false) => {
                return Err(not_found(format!("{place}: it is not there")));
            }
            _ => {}
        }
        if kind == UpdateType::Delete {
            self.delete_clone_session(id)?;
        } else {
            if entry.class_of_service > CLASS_MAX {
                let message = format!("class_of_service {} is above {CLASS_MAX}", entry.class_of_service);
                return Err(invalid(format!("{place}: {message}")));
            }
            self.set_session(entry)?;
        }
        self.undo_with(move |target| match before {
            Some(before) => target.set_session(&before),
            None => target.delete_clone_session(id),
        });
        Ok(())
    }

    /// Groups or sessions: one, or (0) all. Those that another control plane took away are none.
    pub(super) fn read_replication(
        &self,
        wanted: &ReplicationEntry,
        out: &mut dyn FnMut(PacketReplicationEngineEntry),
    ) {
        let mut push = |entry| out(PacketReplicationEngineEntry { r#type: Some(entry) });
        match wanted {
            ReplicationEntry::MulticastGroupEntry(group) => {
                let id = group.multicast_group_id;
                let chosen = |entry: &&MulticastGroupEntry| {
                    (id == 0 || entry.multicast_group_id == id)
                        && self.switch.mc_has_group(entry.multicast_group_id)
                };
                for entry in self.notes.multicast.values().filter(chosen) {
                    push(ReplicationEntry::MulticastGroupEntry(entry.clone()));
                }
            }
            ReplicationEntry::CloneSessionEntry(session) => {
                let id = session.session_id;
                let chosen = |entry: &&CloneSessionEntry| {
                    (id == 0 || entry.session_id == id) && self.switch.mirror(entry.session_id).is_ok()
                };
                for entry in self.notes.clones.values().filter(chosen) {
                    push(ReplicationEntry::CloneSessionEntry(entry.clone()));
                }
            }
        }
    }
}

/// A session to one port needs no group.
fn needs_group(entry: &CloneSessionEntry) -> bool {
    !matches!(&entry.replicas[..], [] | [Replica { instance: 0, .. }])
}
