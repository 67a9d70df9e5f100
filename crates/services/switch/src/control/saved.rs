//! All that control planes have configured, as JSON, to be restored later: entries, members, groups, rates, value sets,
//! hash parameters, multicast groups, mirror sessions, queue and digest settings.

use super::switch::{Result, Switch};
use super::{ControlError, ErrorKind, MirrorSession};
use crate::datapath::queues::DEPTH_DEFAULT;
use crate::pre::{McDump, McNode, Pre};
use crate::store::{SavedStore, Store, Write};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the file says it is.
const FORMAT: &str = "barewire-switch-state";
/// The format's version; others are refused.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    format: String,
    version: u32,
    /// The program's name, for people.
    program: String,
    store: SavedStore,
    replication: SavedPre,
    mirrors: Vec<SavedMirror>,
    queues: Vec<SavedQueue>,
    digests: Vec<SavedDigest>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedPre {
    groups: Vec<(u32, Vec<u32>)>,
    nodes: Vec<SavedNode>,
    lags: Vec<(u32, Vec<u32>)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedNode {
    handle: u32,
    rid: u32,
    ports: Vec<u32>,
    lags: Vec<u32>,
    owned: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedMirror {
    id: u32,
    egress_port: Option<u32>,
    multicast_group: Option<u32>,
    truncate_bytes: u32,
    #[serde(default)]
    class_of_service: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedQueue {
    Depth { port: Option<u32>, priority: Option<u32>, packets: usize },
    Rate { port: Option<u32>, priority: Option<u32>, pps: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedDigest {
    Timeout { list: u32, timeout_ms: u32 },
    MaxSamples { list: u32, samples: usize },
}

fn save_pre(pre: &Pre) -> SavedPre {
    let McDump { groups, nodes, lags } = pre.dump();
    let owned = pre.owned_nodes();
    let node = |node: McNode| SavedNode {
        owned: owned.contains(&node.handle),
        handle: node.handle,
        rid: node.rid,
        ports: node.ports,
        lags: node.lags,
    };
    SavedPre { groups, nodes: nodes.into_iter().map(node).collect(), lags }
}

fn bad(message: impl Into<String>) -> ControlError {
    ControlError::new(ErrorKind::Other, message)
}

impl Switch {
    /// All that control planes have configured, as JSON; while a program is staged, of its tables.
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`] when there is no program.
    pub fn serialize_state(&self) -> Result<String> {
        let control = self.lock();
        let master = control.master(&self.view)?;
        let store = &master.store;
        let mirror = |(id, session): (&u32, &MirrorSession)| SavedMirror {
            id: *id,
            egress_port: session.egress_port,
            multicast_group: session.multicast_group,
            truncate_bytes: session.truncate_bytes,
            class_of_service: session.class_of_service,
        };
        let queue = |write: &Write| match *write {
            Write::QueueDepth { port, priority, packets } => {
                Some(SavedQueue::Depth { port, priority, packets })
            }
            Write::QueueRate { port, priority, pps } => Some(SavedQueue::Rate { port, priority, pps }),
            _ => None,
        };
        let digest = |write: &Write| match *write {
            Write::DigestTimeout { list, timeout_ms } => Some(SavedDigest::Timeout { list, timeout_ms }),
            Write::DigestMaxSamples { list, samples } => Some(SavedDigest::MaxSamples { list, samples }),
            _ => None,
        };
        let saved = Saved {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: store.program().name.clone(),
            store: store.save(),
            replication: save_pre(&control.pre),
            mirrors: control.mirrors.iter().map(mirror).collect(),
            queues: control.queues.iter().filter_map(queue).collect(),
            digests: master.digests.iter().filter_map(digest).collect(),
        };
        drop(control);
        serde_json::to_string(&saved).map_err(|error| bad(error.to_string()))
    }

    /// Bring back what [`Switch::serialize_state`] gave, handles included. What was configured before is gone, what
    /// packets changed too. Everything is checked first: when anything is refused nothing changes.
    ///
    /// # Errors
    /// [`ErrorKind::Other`] for what is no such JSON, with the line; else as the single writes, with the place in front.
    pub fn restore_state(&self, json: &str) -> Result<()> {
        let saved: Saved = serde_json::from_str(json)
            .map_err(|error| bad(format!("the saved state is not readable: {error}")))?;
        if saved.format != FORMAT || saved.version != VERSION {
            return Err(bad(format!(
                "this is '{}' version {}; '{FORMAT}' version {VERSION} is understood",
                saved.format, saved.version
            )));
        }
        let program = self.read_store(|store| Ok(Arc::clone(store.program())))?;
        let store = Store::restore(Arc::clone(&program), saved.store, self.time_us())?;
        let SavedPre { groups, nodes, lags } = saved.replication;
        let owned: Vec<u32> = nodes.iter().filter(|node| node.owned).map(|node| node.handle).collect();
        let node = |node: SavedNode| McNode {
            handle: node.handle,
            rid: node.rid,
            ports: node.ports,
            lags: node.lags,
            group: None,
        };
        let dump = McDump { groups, nodes: nodes.into_iter().map(node).collect(), lags };
        let pre = Pre::from_dump(self.inner.config.replication, &dump, &owned)?;
        if let Some(mirror) =
            saved.mirrors.iter().find(|mirror| mirror.id > super::traffic::MAX_MIRROR_SESSION)
        {
            return Err(ControlError::new(
                ErrorKind::InvalidSession,
                format!("mirror session {} is out of range", mirror.id),
            ));
        }
        for digest in &saved.digests {
            let (SavedDigest::Timeout { list, .. } | SavedDigest::MaxSamples { list, .. }) = digest;
            if !program.learn_lists.iter().any(|l| l.id == *list) {
                let why = format!("the program has no learn list with number {list}");
                return Err(ControlError::new(ErrorKind::InvalidLearnList, why));
            }
        }

        let mut control = self.lock_for_write()?;
        if !Arc::ptr_eq(control.store(&self.view)?.program(), &program) {
            return Err(bad("another program has been swapped in since"));
        }
        let mirror = |SavedMirror { id, egress_port, multicast_group, truncate_bytes, class_of_service }| {
            (id, MirrorSession { egress_port, multicast_group, truncate_bytes, class_of_service })
        };
        let mut writes = control.put_traffic(pre, saved.mirrors.into_iter().map(mirror).collect());
        let queue = |queue| match queue {
            SavedQueue::Depth { port, priority, packets } => Write::QueueDepth { port, priority, packets },
            SavedQueue::Rate { port, priority, pps } => Write::QueueRate { port, priority, pps },
        };
        // What was set and was not saved is as after start.
        writes.extend([
            Write::QueueDepth { port: None, priority: None, packets: DEPTH_DEFAULT },
            Write::QueueRate { port: None, priority: None, pps: 0 },
        ]);
        control.queues = saved.queues.into_iter().map(queue).collect();
        writes.extend(control.queues.iter().cloned());
        let digest = |digest| match digest {
            SavedDigest::Timeout { list, timeout_ms } => Write::DigestTimeout { list, timeout_ms },
            SavedDigest::MaxSamples { list, samples } => Write::DigestMaxSamples { list, samples },
        };
        let digests = saved.digests.into_iter().map(digest).collect();
        control.send(writes);
        control.replace(&self.view, store, digests, &self.inner.throw_away);
        drop(control);
        self.take_out_garbage();
        Ok(())
    }
}
