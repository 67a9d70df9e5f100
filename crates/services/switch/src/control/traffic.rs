//! What happens to packets beside the program: replication, mirror sessions, queues, digests, ports, packets from the
//! control plane.

use super::link::{EngineLink, Replica};
use super::programs::{Master, View};
use super::switch::{Control, Result, Switch};
use super::{ControlError, ErrorKind, McDump, MirrorSession, PortInfo};
use crate::pre::PreWrite;
use crate::store::Write;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The highest mirror session.
pub const MAX_MIRROR_SESSION: u32 = 32_767;
/// How long opening or closing a port may take, or as long as any answer.
const PORT_TIMEOUT: Duration = Duration::from_secs(10);

fn no_session(id: u32) -> ControlError {
    ControlError::new(ErrorKind::InvalidSession, format!("there is no mirror session {id}"))
}

fn check_session(id: u32) -> Result<()> {
    if id <= MAX_MIRROR_SESSION {
        return Ok(());
    }
    Err(ControlError::new(
        ErrorKind::InvalidSession,
        format!("mirror session {id} is beyond the last possible one, {MAX_MIRROR_SESSION}"),
    ))
}

impl Control {
    /// Digests come from the running program, while another is staged too (so it is in bmv2); for a shadow that is the one
    /// it holds.
    fn digesting(&mut self, view: &View) -> Result<&mut Master> {
        match view {
            View::Only(_) => self.master_mut(view),
            _ if self.is_shadow => self.master_mut(&View::Newest),
            _ => self.master_mut(&View::Running),
        }
    }
}

fn check_list(control: &mut Control, view: &View, list: u32) -> Result<()> {
    let lists = &control.digesting(view)?.prepared.program.learn_lists;
    if lists.iter().any(|l| l.id == list) {
        return Ok(());
    }
    Err(ControlError::new(
        ErrorKind::InvalidLearnList,
        format!("the program has no learn list with number {list}"),
    ))
}

/// Remember a digest setting in the place of the one it follows, and send it.
fn set_digest(
    control: &mut Control,
    (view, list): (&View, u32),
    write: Write,
    out: &mut Vec<Write>,
    is_old: impl Fn(&Write) -> bool,
) -> Result<()> {
    check_list(control, view, list)?;
    let digests = &mut control.digesting(view)?.digests;
    digests.retain(|old| !is_old(old));
    digests.push(write.clone());
    out.push(write);
    Ok(())
}

/// Whether a later queue setting covers all that an earlier one set.
fn covers(later: (Option<u32>, Option<u32>), earlier: (Option<u32>, Option<u32>)) -> bool {
    (later.0.is_none() || later.0 == earlier.0) && (later.1.is_none() || later.1 == earlier.1)
}

impl Switch {
    fn write_pre(&self, write: PreWrite) -> Result<u32> {
        self.write(|control, out| {
            let node = control.pre.apply(write.clone())?;
            out.push(Write::Pre(write));
            Ok(node)
        })
    }

    /// Make a multicast group; one that is there stays.
    ///
    /// # Errors
    /// [`ErrorKind::TableFull`].
    pub fn mc_create(&self, group: u32) -> Result<()> {
        self.write_pre(PreWrite::CreateGroup(group)).map(|_| ())
    }

    /// Take a multicast group out; its nodes stay, without a group, unless [`Switch::mc_set_group`] made them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidMulticastGroup`].
    pub fn mc_destroy(&self, group: u32) -> Result<()> {
        self.write_pre(PreWrite::DestroyGroup(group)).map(|_| ())
    }

    /// Make a node, in no group yet; gives its handle, the lowest that is free.
    ///
    /// # Errors
    /// [`ErrorKind`]: `TableFull`, `InvalidL2Port`, `Other` (a link aggregation group out of range).
    pub fn node_create(&self, rid: u32, ports: &[u32], lags: &[u32]) -> Result<u32> {
        self.write_pre(PreWrite::CreateNode { rid, ports: ports.to_vec(), lags: lags.to_vec() })
    }

    /// Give a node other ports.
    ///
    /// # Errors
    /// As [`Switch::node_create`]; `InvalidL1Handle`.
    pub fn node_update(&self, node: u32, ports: &[u32], lags: &[u32]) -> Result<()> {
        self.write_pre(PreWrite::UpdateNode { node, ports: ports.to_vec(), lags: lags.to_vec() }).map(|_| ())
    }

    /// Take a node out, of its group too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidL1Handle`].
    pub fn node_destroy(&self, node: u32) -> Result<()> {
        self.write_pre(PreWrite::DestroyNode(node)).map(|_| ())
    }

    /// Put a node into a group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidL1Handle`, `InvalidMulticastGroup`, `Other` (it is in a group already).
    pub fn node_associate(&self, group: u32, node: u32) -> Result<()> {
        self.write_pre(PreWrite::Associate { group, node }).map(|_| ())
    }

    /// Take a node out of its group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidL1Handle`, `InvalidMulticastGroup`, `Other` (it is not in that group).
    pub fn node_dissociate(&self, group: u32, node: u32) -> Result<()> {
        self.write_pre(PreWrite::Dissociate { group, node }).map(|_| ())
    }

    /// Set the ports of a link aggregation group.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidL2Port`, `Other` (the group is out of range).
    pub fn set_lag(&self, lag: u32, ports: &[u32]) -> Result<()> {
        self.write_pre(PreWrite::SetLag { lag, ports: ports.to_vec() }).map(|_| ())
    }

    /// Make or replace a whole multicast group (P4Runtime): ports with their replication ids, in nodes of its own.
    ///
    /// # Errors
    /// [`ErrorKind`]: `TableFull`, `InvalidL2Port`.
    pub fn mc_set_group(&self, group: u32, replicas: &[(u32, u32)]) -> Result<()> {
        self.write_pre(PreWrite::SetGroup { group, replicas: replicas.to_vec() }).map(|_| ())
    }

    /// Whether there is a multicast group of this number.
    pub fn mc_has_group(&self, group: u32) -> bool {
        self.lock().pre.has_group(group)
    }

    /// All of the replication engine.
    pub fn mc_dump(&self) -> McDump {
        self.lock().pre.dump()
    }

    /// Set a mirror session.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSession`].
    pub fn set_mirror(&self, id: u32, session: MirrorSession) -> Result<()> {
        check_session(id)?;
        self.write(|control, out| {
            control.mirrors.insert(id, session.clone());
            out.push(Write::Mirror { id, session: Some(session) });
            Ok(())
        })
    }

    /// Take a mirror session out.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSession`].
    pub fn delete_mirror(&self, id: u32) -> Result<()> {
        check_session(id)?;
        self.write(|control, out| {
            control.mirrors.remove(&id).ok_or_else(|| no_session(id))?;
            out.push(Write::Mirror { id, session: None });
            Ok(())
        })
    }

    /// A mirror session.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSession`].
    pub fn mirror(&self, id: u32) -> Result<MirrorSession> {
        self.lock().mirrors.get(&id).cloned().ok_or_else(|| no_session(id))
    }

    /// All mirror sessions by number.
    pub fn mirrors(&self) -> Vec<(u32, MirrorSession)> {
        self.lock().mirrors.iter().map(|(id, session)| (*id, session.clone())).collect()
    }

    /// Set how many packets queues hold: those of one port or all, of one priority or all.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when an engine does not catch up.
    pub fn set_queue_depth(&self, port: Option<u32>, priority: Option<u32>, packets: usize) -> Result<()> {
        self.write(|control, out| {
            let covered = |write: &Write| {
                matches!(write, Write::QueueDepth { port: p, priority: q, .. }
                    if covers((port, priority), (*p, *q)))
            };
            control.queues.retain(|write| !covered(write));
            let write = Write::QueueDepth { port, priority, packets };
            control.queues.push(write.clone());
            out.push(write);
            Ok(())
        })
    }

    /// Set how many packets a second leave queues, 0 for no limit: those of one port or all, of one priority or all.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when an engine does not catch up.
    pub fn set_queue_rate(&self, port: Option<u32>, priority: Option<u32>, pps: u64) -> Result<()> {
        self.write(|control, out| {
            let covered = |write: &Write| {
                matches!(write, Write::QueueRate { port: p, priority: q, .. } if covers((port, priority), (*p, *q)))
            };
            control.queues.retain(|write| !covered(write));
            let write = Write::QueueRate { port, priority, pps };
            control.queues.push(write.clone());
            out.push(write);
            Ok(())
        })
    }

    /// Acknowledge a digest buffer, or one sample of it (counted from 0 in the buffer): those samples may come again. A
    /// buffer that is not known has been acknowledged before.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidLearnList`].
    pub fn ack_digest(&self, list: u32, buffer: u64, sample: Option<u64>) -> Result<()> {
        // The engines' buffers change, and nothing that is read.
        let mut control = self.lock_with_room()?;
        check_list(&mut control, &self.view, list)?;
        control.send(vec![Write::AckDigest { list, buffer, sample }]);
        Ok(())
    }

    /// Set how long after its first sample a digest buffer is sent; 0 for only when full.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidLearnList`].
    pub fn set_digest_timeout(&self, list: u32, timeout_ms: u32) -> Result<()> {
        self.write(|control, out| {
            let is_old = |w: &Write| matches!(w, Write::DigestTimeout { list: l, .. } if *l == list);
            set_digest(control, (&self.view, list), Write::DigestTimeout { list, timeout_ms }, out, is_old)
        })
    }

    /// Set how many samples fill a digest buffer; at least 1.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidLearnList`].
    pub fn set_digest_max_samples(&self, list: u32, samples: usize) -> Result<()> {
        self.write(|control, out| {
            let is_old = |w: &Write| matches!(w, Write::DigestMaxSamples { list: l, .. } if *l == list);
            set_digest(control, (&self.view, list), Write::DigestMaxSamples { list, samples }, out, is_old)
        })
    }

    /// Wait until engines have told of ports that they were just asked to open or close: they do before they answer this.
    fn wait_until_told(&self, links: &[EngineLink]) {
        let answers: Vec<_> = links.iter().map(|link| link.ask(|_| ())).collect();
        // One that does not answer any more has nothing to tell.
        answers.into_iter().for_each(|answer| drop(answer.wait()));
    }

    fn port_timeout(&self) -> Duration {
        self.inner.config.answer_timeout.max(PORT_TIMEOUT)
    }

    /// Open a port and add it under this number. Who listens has been told by then.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPort`] when the number is taken or the port cannot be opened, `Unavailable`.
    pub fn add_port(&self, port: u32, uri: &str) -> Result<()> {
        let links: Vec<_> = self.lock().links.iter().filter(|link| link.is_alive()).cloned().collect();
        if links.is_empty() {
            return Err(ControlError::new(
                ErrorKind::Unavailable,
                "no engine is running that could serve a port",
            ));
        }
        let mut opened: Vec<Option<Box<dyn Any + Send>>> = match &self.inner.config.open_port {
            Some(open) => open(port, uri, links.len())?.into_iter().map(Some).collect(),
            None => Vec::new(),
        };
        opened.resize_with(links.len(), || None);
        let timeout = self.port_timeout();
        let answers: Vec<_> = links
            .iter()
            .zip(opened)
            .map(|(link, opened)| {
                let uri = uri.to_owned();
                link.ask(move |replica| replica.add_port(port, &uri, opened))
            })
            .collect();
        let results: Vec<Result<()>> =
            answers.into_iter().map(|answer| answer.wait_for(timeout).and_then(|result| result)).collect();
        let Some(error) = results.iter().find_map(|result| result.clone().err()) else {
            self.wait_until_told(&links);
            return Ok(());
        };
        // On all engines or on none.
        for (link, result) in links.iter().zip(&results) {
            if result.is_ok() {
                let closed = link.ask(move |replica| replica.remove_port(port));
                drop(closed.wait_for(timeout));
            }
        }
        Err(error)
    }

    /// Close a port. Packets that were for it are lost, and counted. Who listens has been told by then.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidPort`, `Unavailable`.
    pub fn remove_port(&self, port: u32) -> Result<()> {
        let links: Vec<_> = self.lock().links.iter().filter(|link| link.is_alive()).cloned().collect();
        if links.is_empty() {
            return Err(ControlError::new(ErrorKind::InvalidPort, format!("there is no port {port}")));
        }
        let timeout = self.port_timeout();
        let answers: Vec<_> = links
            .iter()
            .map(|link| link.ask(move |replica: &mut dyn Replica| replica.remove_port(port)))
            .collect();
        let results: Vec<Result<()>> = answers.into_iter().map(|a| a.wait_for(timeout)?.map(drop)).collect();
        self.wait_until_told(&links);
        results.into_iter().collect()
    }

    /// The ports by number, their counters summed over all engines. None when no engine answers.
    pub fn ports(&self) -> Vec<PortInfo> {
        self.known_ports().unwrap_or_default()
    }

    /// [`Switch::ports`], for who has to know whether a port that is not among them is there.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when no engine answers.
    pub fn known_ports(&self) -> Result<Vec<PortInfo>> {
        let engines = self.ask_all(|replica: &mut dyn Replica| replica.ports())?;
        let mut ports: BTreeMap<u32, PortInfo> = BTreeMap::new();
        for info in engines.into_iter().flatten() {
            match ports.get_mut(&info.port) {
                None => drop(ports.insert(info.port, info)),
                Some(sum) => {
                    sum.up |= info.up;
                    sum.rx = [sum.rx, info.rx].into_iter().sum();
                    sum.tx = [sum.tx, info.tx].into_iter().sum();
                    sum.rx_dropped += info.rx_dropped;
                    sum.tx_dropped += info.tx_dropped;
                }
            }
        }
        Ok(ports.into_values().collect())
    }

    /// Send a packet out of a port, or (none) through the pipeline as from the CPU port.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when there is no engine or it does not catch up.
    pub fn packet_out(&self, port: Option<u32>, bytes: Vec<u8>) -> Result<()> {
        let control = self.lock_with_room()?;
        let sent = match control.links.iter().find(|link| link.is_alive()) {
            Some(link) => link.run(move |replica| replica.inject(port, bytes)),
            None => false,
        };
        if sent { Ok(()) } else { Err(ControlError::new(ErrorKind::Unavailable, "no engine is running")) }
    }

    /// Notifications that some subscriber had no room for.
    pub fn notifications_lost(&self) -> u64 {
        self.inner.lost.load(Relaxed)
    }

    /// Each reason for which packets or notifications were dropped, with how many, summed over all engines.
    pub fn drops(&self) -> Vec<(String, u64)> {
        let asked = self.ask_all(|replica: &mut dyn Replica| {
            let mut drops = Vec::new();
            replica.drops(&mut |reason, count| drops.push((reason.to_owned(), count)));
            drops
        });
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in asked.unwrap_or_default().into_iter().flatten() {
            *sums.entry(reason).or_default() += count;
        }
        let control = self.lock();
        let refused = control.refused + control.links.iter().map(|link| link.refused()).sum::<u64>();
        for (reason, count) in
            [("notification_lost", control.subscribers.lost()), ("write_refused_by_replica", refused)]
        {
            if count > 0 {
                sums.insert(reason.to_owned(), count);
            }
        }
        sums.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_wider_queue_setting_covers_a_narrower_one() {
        assert!(covers((None, None), (Some(1), Some(2))) && covers((Some(1), None), (Some(1), Some(2))));
        assert!(
            covers((None, Some(2)), (Some(1), Some(2))) && covers((Some(1), Some(2)), (Some(1), Some(2)))
        );
        assert!(!covers((Some(1), None), (None, None)) && !covers((Some(1), None), (Some(2), None)));
        assert!(!covers((None, Some(2)), (Some(1), None)) && !covers((Some(1), Some(2)), (Some(1), None)));
    }
}
