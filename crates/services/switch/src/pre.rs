//! The packet replication engine: multicast groups of nodes, each a replication id with ports and link aggregation
//! groups.
//!
//! The control side keeps a master copy that checks every write; each engine has a replica that applies the same
//! writes ([`PreWrite`]) and replicates packets. Both are this struct, and it is deterministic, so node handles agree.

use crate::control::{ControlError, ErrorKind};
use std::collections::{BTreeMap, HashMap};

/// The highest port or group member a node may name.
pub const MAX_PORT: u32 = 0xffff;
/// Link aggregation groups: 0 to this, excluded.
pub const MAX_LAGS: u32 = 512;
/// The hash by which bmv2 chooses a member of a link aggregation group.
pub const LAG_HASH: u64 = 0xff;

/// How much may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreLimits {
    /// Multicast groups.
    pub groups: usize,
    /// Level 1 nodes.
    pub nodes: usize,
    /// Level 2 nodes; each level 1 node has one.
    pub l2_nodes: usize,
}

impl Default for PreLimits {
    fn default() -> Self {
        PreLimits { groups: 4096, nodes: 4096, l2_nodes: 8192 }
    }
}

#[derive(Debug, Clone)]
struct Node {
    rid: u32,
    /// Ascending, none twice.
    ports: Vec<u32>,
    lags: Vec<u32>,
    group: Option<u32>,
    /// Made with its group by [`PreWrite::SetGroup`]: it ends with it.
    owned: bool,
}

/// Multicast groups, nodes and link aggregation groups.
#[derive(Debug, Clone, Default)]
pub struct Pre {
    limits: PreLimits,
    /// The nodes of each group, in the order in which they were associated.
    groups: HashMap<u32, Vec<u32>>,
    nodes: Vec<Option<Node>>,
    node_count: usize,
    lags: BTreeMap<u32, Vec<u32>>,
}

/// Groups whose copies a change may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    /// Of no group.
    None,
    /// Of one.
    One(u32),
    /// Of any.
    All,
}

/// A change of the replication engine.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum PreWrite {
    CreateGroup(u32),
    DestroyGroup(u32),
    CreateNode {
        rid: u32,
        ports: Vec<u32>,
        lags: Vec<u32>,
    },
    UpdateNode {
        node: u32,
        ports: Vec<u32>,
        lags: Vec<u32>,
    },
    DestroyNode(u32),
    Associate {
        group: u32,
        node: u32,
    },
    Dissociate {
        group: u32,
        node: u32,
    },
    SetLag {
        lag: u32,
        ports: Vec<u32>,
    },
    /// A whole group with nodes of its own, one for each replication id; the group is made, or its nodes replaced.
    SetGroup {
        group: u32,
        replicas: Vec<(u32, u32)>,
    },
    /// Everything as in this one.
    Replace(Box<Pre>),
}

/// A node, as control planes read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McNode {
    /// Its handle.
    pub handle: u32,
    /// Its replication id.
    pub rid: u32,
    /// Its ports, ascending.
    pub ports: Vec<u32>,
    /// Its link aggregation groups, ascending.
    pub lags: Vec<u32>,
    /// The multicast group it is in.
    pub group: Option<u32>,
}

/// Everything in a replication engine, each kind ascending by its number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McDump {
    /// Multicast groups, each with its nodes in order.
    pub groups: Vec<(u32, Vec<u32>)>,
    /// Nodes.
    pub nodes: Vec<McNode>,
    /// Link aggregation groups with their ports.
    pub lags: Vec<(u32, Vec<u32>)>,
}

type Result<T> = std::result::Result<T, ControlError>;

fn no_group(group: u32) -> ControlError {
    ControlError::new(ErrorKind::InvalidMulticastGroup, format!("there is no multicast group {group}"))
}

fn no_node(node: u32) -> ControlError {
    ControlError::new(ErrorKind::InvalidL1Handle, format!("there is no node {node}"))
}

fn sorted(numbers: &[u32]) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn sorted_ports(ports: &[u32]) -> Result<Vec<u32>> {
    match ports.iter().find(|port| **port > MAX_PORT) {
        Some(port) => Err(ControlError::new(
            ErrorKind::InvalidL2Port,
            format!("port {port} is beyond the last possible one, {MAX_PORT}"),
        )),
        None => Ok(sorted(ports)),
    }
}

fn check_lag(lag: u32) -> Result<()> {
    if lag < MAX_LAGS {
        return Ok(());
    }
    Err(ControlError::new(
        ErrorKind::Other,
        format!("link aggregation group {lag} is beyond the last possible one, {}", MAX_LAGS - 1),
    ))
}

fn sorted_lags(lags: &[u32]) -> Result<Vec<u32>> {
    lags.iter().try_for_each(|lag| check_lag(*lag))?;
    Ok(sorted(lags))
}

impl Pre {
    /// An empty one.
    pub fn new(limits: PreLimits) -> Pre {
        Pre { limits, ..Pre::default() }
    }

    /// Apply a change; gives the handle of a node that was made, else 0. What is refused changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMulticastGroup`, `InvalidL1Handle`, `InvalidL2Port`, `TableFull`, or `Other` for a node
    /// that is in a group already or is not in that one, and for link aggregation groups out of range.
    pub fn apply(&mut self, write: PreWrite) -> Result<u32> {
        match write {
            PreWrite::CreateGroup(group) => self.create_group(group)?,
            PreWrite::DestroyGroup(group) => self.destroy_group(group)?,
            PreWrite::CreateNode { rid, ports, lags } => {
                let node = Node {
                    rid,
                    ports: sorted_ports(&ports)?,
                    lags: sorted_lags(&lags)?,
                    group: None,
                    owned: false,
                };
                self.check_room(1)?;
                return Ok(self.insert(node));
            }
            PreWrite::UpdateNode { node, ports, lags } => {
                let (ports, lags) = (sorted_ports(&ports)?, sorted_lags(&lags)?);
                let node = self.node(node)?;
                (node.ports, node.lags) = (ports, lags);
            }
            PreWrite::DestroyNode(handle) => {
                if let Some(group) = self.node(handle)?.group {
                    self.leave(group, handle);
                }
                self.drop_node(handle);
            }
            PreWrite::Associate { group, node: handle } => {
                let node = self.node(handle)?;
                if let Some(in_group) = node.group {
                    return Err(ControlError::new(
                        ErrorKind::Other,
                        format!("node {handle} is in multicast group {in_group} already"),
                    ));
                }
                self.groups.get_mut(&group).ok_or_else(|| no_group(group))?.push(handle);
                self.node(handle)?.group = Some(group);
            }
            PreWrite::Dissociate { group, node: handle } => {
                let in_group = self.node(handle)?.group;
                if !self.groups.contains_key(&group) {
                    return Err(no_group(group));
                }
                if in_group != Some(group) {
                    return Err(ControlError::new(
                        ErrorKind::Other,
                        format!("node {handle} is not in multicast group {group}"),
                    ));
                }
                self.leave(group, handle);
            }
            PreWrite::SetLag { lag, ports } => {
                check_lag(lag)?;
                self.lags.insert(lag, sorted_ports(&ports)?);
            }
            PreWrite::SetGroup { group, replicas } => self.set_group(group, &replicas)?,
            PreWrite::Replace(with) => *self = *with,
        }
        Ok(0)
    }

    fn create_group(&mut self, group: u32) -> Result<()> {
        if self.groups.contains_key(&group) {
            return Ok(());
        }
        if self.groups.len() >= self.limits.groups {
            return Err(ControlError::new(
                ErrorKind::TableFull,
                format!("there are {} multicast groups already, the most there may be", self.limits.groups),
            ));
        }
        self.groups.insert(group, Vec::new());
        Ok(())
    }

    fn destroy_group(&mut self, group: u32) -> Result<()> {
        let nodes = self.groups.remove(&group).ok_or_else(|| no_group(group))?;
        for handle in nodes {
            if self.nodes[handle as usize].as_ref().is_some_and(|node| node.owned) {
                self.drop_node(handle);
            } else if let Some(node) = &mut self.nodes[handle as usize] {
                node.group = None;
            }
        }
        Ok(())
    }

    fn set_group(&mut self, group: u32, replicas: &[(u32, u32)]) -> Result<()> {
        let mut by_rid: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &(port, rid) in replicas {
            by_rid.entry(rid).or_default().push(port);
        }
        let mut new = Vec::with_capacity(by_rid.len());
        for (rid, ports) in by_rid {
            let ports = sorted_ports(&ports)?;
            new.push(Node { rid, ports, lags: Vec::new(), group: Some(group), owned: true });
        }
        let freed = self.groups.get(&group).map_or(0, |nodes| {
            nodes.iter().filter(|n| self.nodes[**n as usize].as_ref().is_some_and(|n| n.owned)).count()
        });
        self.check_room(new.len().saturating_sub(freed))?;
        self.create_group(group)?;
        self.destroy_group(group)?;
        let handles = new.into_iter().map(|node| self.insert(node)).collect();
        self.groups.insert(group, handles);
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<()> {
        let most = self.limits.nodes.min(self.limits.l2_nodes);
        if self.node_count + more <= most {
            return Ok(());
        }
        Err(ControlError::new(ErrorKind::TableFull, format!("there may be {most} replication nodes at most")))
    }

    /// The lowest handle that is free.
    fn insert(&mut self, node: Node) -> u32 {
        self.node_count += 1;
        let at = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        if at == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[at] = Some(node);
        at as u32
    }

    fn node(&mut self, handle: u32) -> Result<&mut Node> {
        self.nodes.get_mut(handle as usize).and_then(Option::as_mut).ok_or_else(|| no_node(handle))
    }

    fn leave(&mut self, group: u32, handle: u32) {
        if let Some(nodes) = self.groups.get_mut(&group) {
            nodes.retain(|n| *n != handle);
        }
        if let Some(node) = &mut self.nodes[handle as usize] {
            node.group = None;
        }
    }

    fn drop_node(&mut self, handle: u32) {
        if self.nodes[handle as usize].take().is_some() {
            self.node_count -= 1;
        }
    }

    /// Everything forgotten; the limits stay.
    pub fn clear(&mut self) {
        *self = Pre::new(self.limits);
    }

    /// Calls `each` with the port and the replication id of every copy: nodes in the order of association, of each its
    /// ports ascending, then one port of each of its link aggregation groups, chosen by `hash`. False when there is no
    /// such group. Allocates nothing.
    #[inline]
    pub fn replicate(&self, group: u32, hash: u64, each: &mut dyn FnMut(u32, u32)) -> bool {
        let Some(nodes) = self.groups.get(&group) else { return false };
        for handle in nodes {
            let Some(Some(node)) = self.nodes.get(*handle as usize) else { continue };
            for port in &node.ports {
                each(*port, node.rid);
            }
            for lag in &node.lags {
                if let Some(ports) = self.lags.get(lag).filter(|ports| !ports.is_empty()) {
                    each(ports[(hash % ports.len() as u64) as usize], node.rid);
                }
            }
        }
        true
    }

    /// The groups whose copies a change may change.
    pub fn touched(&self, write: &PreWrite) -> Touched {
        let of_node = |handle: &u32| self.nodes.get(*handle as usize)?.as_ref()?.group;
        let one = |group: Option<u32>| group.map_or(Touched::None, Touched::One);
        match write {
            PreWrite::CreateGroup(group)
            | PreWrite::DestroyGroup(group)
            | PreWrite::Associate { group, .. }
            | PreWrite::Dissociate { group, .. }
            | PreWrite::SetGroup { group, .. } => Touched::One(*group),
            PreWrite::UpdateNode { node, .. } | PreWrite::DestroyNode(node) => one(of_node(node)),
            PreWrite::CreateNode { .. } => Touched::None,
            PreWrite::SetLag { .. } | PreWrite::Replace(_) => Touched::All,
        }
    }

    /// The numbers of all groups.
    pub fn group_numbers(&self) -> impl Iterator<Item = u32> {
        self.groups.keys().copied()
    }

    /// Whether there is a multicast group of this number.
    pub fn has_group(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }

    /// Everything.
    pub fn dump(&self) -> McDump {
        let mut groups: Vec<_> = self.groups.iter().map(|(group, nodes)| (*group, nodes.clone())).collect();
        groups.sort_unstable();
        let nodes = self.nodes.iter().enumerate().filter_map(|(handle, node)| {
            let node = node.as_ref()?;
            let (ports, lags) = (node.ports.clone(), node.lags.clone());
            Some(McNode { handle: handle as u32, rid: node.rid, ports, lags, group: node.group })
        });
        McDump {
            groups,
            nodes: nodes.collect(),
            lags: self.lags.iter().map(|(lag, ports)| (*lag, ports.clone())).collect(),
        }
    }

    /// Nodes that were made with their group ([`PreWrite::SetGroup`]), by handle: what [`Pre::from_dump`] needs beside
    /// the dump.
    pub fn owned_nodes(&self) -> Vec<u32> {
        let owned = |(at, node): (usize, &Option<Node>)| node.as_ref().filter(|n| n.owned).map(|_| at as u32);
        self.nodes.iter().enumerate().filter_map(owned).collect()
    }

    /// What [`Pre::dump`] showed, handles included.
    ///
    /// # Errors
    /// As for [`Pre::apply`]: what does not fit together or exceeds a limit.
    pub fn from_dump(limits: PreLimits, dump: &McDump, owned: &[u32]) -> Result<Pre> {
        let mut pre = Pre::new(limits);
        for (group, _) in &dump.groups {
            pre.create_group(*group)?;
        }
        for node in &dump.nodes {
            pre.check_room(1)?;
            let at = node.handle as usize;
            if at >= limits.nodes.min(limits.l2_nodes) || pre.nodes.get(at).is_some_and(Option::is_some) {
                return Err(no_node(node.handle));
            }
            if pre.nodes.len() <= at {
                pre.nodes.resize(at + 1, None);
            }
            let (ports, lags) = (sorted_ports(&node.ports)?, sorted_lags(&node.lags)?);
            let owned = owned.contains(&node.handle);
            pre.nodes[at] = Some(Node { rid: node.rid, ports, lags, group: None, owned });
            pre.node_count += 1;
        }
        for (group, nodes) in &dump.groups {
            for node in nodes {
                pre.apply(PreWrite::Associate { group: *group, node: *node })?;
            }
        }
        for (lag, ports) in &dump.lags {
            pre.apply(PreWrite::SetLag { lag: *lag, ports: ports.clone() })?;
        }
        Ok(pre)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(pre: &Pre, group: u32, hash: u64) -> Option<Vec<(u32, u32)>> {
        let mut copies = Vec::new();
        pre.replicate(group, hash, &mut |port, rid| copies.push((port, rid))).then_some(copies)
    }

    fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
        result.expect_err("refused").kind
    }

    #[test]
    fn groups_replicate_to_ports_then_lags_of_each_node_in_order() {
        let mut pre = Pre::default();
        pre.apply(PreWrite::CreateGroup(7)).unwrap();
        let a = pre.apply(PreWrite::CreateNode { rid: 5, ports: vec![3, 1, 3], lags: vec![2] }).unwrap();
        let b = pre.apply(PreWrite::CreateNode { rid: 4, ports: vec![9], lags: vec![] }).unwrap();
        assert_eq!((a, b), (0, 1));
        pre.apply(PreWrite::Associate { group: 7, node: b }).unwrap();
        pre.apply(PreWrite::Associate { group: 7, node: a }).unwrap();
        assert_eq!(
            copies(&pre, 7, 0),
            Some(vec![(9, 4), (1, 5), (3, 5)]),
            "a lag without members gives nothing"
        );
        pre.apply(PreWrite::SetLag { lag: 2, ports: vec![30, 10, 20] }).unwrap();
        assert_eq!(copies(&pre, 7, LAG_HASH), Some(vec![(9, 4), (1, 5), (3, 5), (10, 5)]), "255 % 3 is 0");
        assert_eq!(copies(&pre, 7, 4), Some(vec![(9, 4), (1, 5), (3, 5), (20, 5)]));
        assert_eq!(copies(&pre, 8, 0), None);
        pre.apply(PreWrite::Dissociate { group: 7, node: b }).unwrap();
        pre.apply(PreWrite::UpdateNode { node: a, ports: vec![2], lags: vec![] }).unwrap();
        assert_eq!(copies(&pre, 7, 0), Some(vec![(2, 5)]));
        pre.apply(PreWrite::DestroyNode(a)).unwrap();
        assert_eq!(copies(&pre, 7, 0), Some(vec![]));
        let c = pre.apply(PreWrite::CreateNode { rid: 1, ports: vec![], lags: vec![] }).unwrap();
        assert_eq!(c, 0, "the lowest free handle");
    }

    #[test]
    fn what_is_wrong_is_refused_and_changes_nothing() {
        let mut pre = Pre::new(PreLimits { groups: 2, nodes: 3, l2_nodes: 2 });
        pre.apply(PreWrite::CreateGroup(1)).unwrap();
        pre.apply(PreWrite::CreateGroup(1)).unwrap();
        pre.apply(PreWrite::CreateGroup(2)).unwrap();
        assert_eq!(kind(pre.apply(PreWrite::CreateGroup(3))), ErrorKind::TableFull);
        let node = |port| PreWrite::CreateNode { rid: 0, ports: vec![port], lags: vec![] };
        assert_eq!(kind(pre.apply(node(MAX_PORT + 1))), ErrorKind::InvalidL2Port);
        let a = pre.apply(node(1)).unwrap();
        pre.apply(node(2)).unwrap();
        assert_eq!(kind(pre.apply(node(3))), ErrorKind::TableFull, "as many level 2 nodes as there may be");
        assert_eq!(kind(pre.apply(PreWrite::DestroyGroup(9))), ErrorKind::InvalidMulticastGroup);
        assert_eq!(kind(pre.apply(PreWrite::DestroyNode(2))), ErrorKind::InvalidL1Handle);
        assert_eq!(
            kind(pre.apply(PreWrite::Associate { group: 9, node: a })),
            ErrorKind::InvalidMulticastGroup
        );
        pre.apply(PreWrite::Associate { group: 1, node: a }).unwrap();
        assert_eq!(kind(pre.apply(PreWrite::Associate { group: 2, node: a })), ErrorKind::Other);
        assert_eq!(kind(pre.apply(PreWrite::Dissociate { group: 2, node: a })), ErrorKind::Other);
        assert_eq!(
            kind(pre.apply(PreWrite::Dissociate { group: 3, node: a })),
            ErrorKind::InvalidMulticastGroup
        );
        assert_eq!(kind(pre.apply(PreWrite::SetLag { lag: MAX_LAGS, ports: vec![] })), ErrorKind::Other);
        let lags = PreWrite::UpdateNode { node: a, ports: vec![], lags: vec![MAX_LAGS] };
        assert_eq!(kind(pre.apply(lags)), ErrorKind::Other);
        assert_eq!(copies(&pre, 1, 0), Some(vec![(1, 0)]));
        pre.apply(PreWrite::DestroyGroup(1)).unwrap();
        assert_eq!(pre.dump().nodes[0].group, None, "a node outlives its group");
    }

    #[test]
    fn a_whole_group_has_nodes_of_its_own() {
        let mut pre = Pre::new(PreLimits { groups: 4, nodes: 3, l2_nodes: 8 });
        let set = |replicas: &[(u32, u32)]| PreWrite::SetGroup { group: 5, replicas: replicas.to_vec() };
        pre.apply(set(&[(2, 1), (1, 0), (3, 1)])).unwrap();
        assert_eq!(copies(&pre, 5, 0), Some(vec![(1, 0), (2, 1), (3, 1)]));
        pre.apply(set(&[(1, 7), (1, 8), (1, 9)])).unwrap();
        assert_eq!(copies(&pre, 5, 0), Some(vec![(1, 7), (1, 8), (1, 9)]), "fits: the old nodes went");
        assert_eq!(kind(pre.apply(set(&[(1, 1), (1, 2), (1, 3), (1, 4)]))), ErrorKind::TableFull);
        assert_eq!(copies(&pre, 5, 0).map(|c| c.len()), Some(3));
        let copy = Pre::from_dump(pre.limits, &pre.dump(), &pre.owned_nodes()).unwrap();
        assert_eq!((copy.dump(), copy.owned_nodes()), (pre.dump(), vec![0, 1, 2]));
        pre.apply(PreWrite::DestroyGroup(5)).unwrap();
        assert_eq!(pre.dump(), McDump::default());
    }
}
