//! The daemon's counters on the shared page, where `barewire stat` reads them without asking.

use crate::agent::Offences;
use crate::applications::Applications;
use crate::link::LinkCounters;
use crate::rdma::Rdma;
use barewire_base::DropReason;
use barewire_engine::{CounterKind, CounterSlot, CountersPage, Leg, RegisterError, Stack};
use std::sync::Mutex;

/// Slots of one engine's counters, in the order in which [`publish`](Published::publish) fills them.
pub(crate) struct Published {
    slots: Vec<CounterSlot>,
}

/// A counter's name but for the last part: `port`, or `port.1` for what is the second port's.
#[derive(Clone, Copy)]
struct Group(&'static str, usize);

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (head, tail) = self.0.split_once('.').map_or((self.0, None), |(head, tail)| (head, Some(tail)));
        f.write_str(head)?;
        if self.1 > 0 {
            write!(f, ".{}", self.1)?;
        }
        tail.map_or(Ok(()), |tail| write!(f, ".{tail}"))
    }
}

type Say<'a> = dyn FnMut(Group, &str, CounterKind, u64) + 'a;

/// What a port and its host say.
fn values_of_leg(number: usize, leg: &Leg, link: &LinkCounters, say: &mut Say<'_>) {
    use CounterKind::Counter;
    let port = leg.port().counters();
    for (name, value) in port.iter() {
        say(Group("port", number), name, Counter, value);
    }
    for (name, counter) in [
        ("link_downs", &link.downs),
        ("carrier_losses", &link.carrier_losses),
        ("reopened", &link.reopened),
        ("mtu_changes", &link.mtu_changes),
        ("mac_changes", &link.mac_changes),
    ] {
        say(Group("port", number), name, Counter, counter.get());
    }
    for &reason in DropReason::ALL {
        say(Group("port.drop", number), reason.as_str(), Counter, port.drops.get(reason));
    }
    let host = leg.host().counters();
    for (name, counter) in [
        ("neighbours_resolved", &host.neighbours_resolved),
        ("neighbours_failed", &host.neighbours_failed),
        ("neighbours_doubted", &host.neighbours_doubted),
        ("neighbours_moved", &host.neighbours_moved),
        ("address_conflicts", &host.address_conflicts),
    ] {
        say(Group("host", number), name, Counter, counter.get());
    }
    for &reason in DropReason::ALL {
        say(Group("host.drop", number), reason.as_str(), Counter, host.drops.get(reason));
    }
}

/// What the daemon says of itself, name and value, in one fixed order.
fn values(
    stack: &Stack<Applications>,
    offences: &Offences,
    links: &[LinkCounters],
    applications: usize,
    rdma: Option<&Rdma>,
    say: &mut Say<'_>,
) {
    use CounterKind::{Counter, Gauge};
    for (number, (leg, link)) in stack.legs().iter().zip(links).enumerate() {
        values_of_leg(number, leg, link, say);
    }
    let mut say = |group, name: &str, kind, value| say(Group(group, 0), name, kind, value);
    let endpoint = stack.endpoint();
    for (name, value) in endpoint.counters().iter() {
        say("transport", name, Counter, value);
    }
    for &reason in DropReason::ALL {
        say("transport.drop", reason.as_str(), Counter, endpoint.counters().drops.get(reason));
    }
    say("transport", "flows", Gauge, u64::from(endpoint.flows_used()));
    say("transport", "listeners", Gauge, endpoint.listeners() as u64);
    say("transport", "messages_under_way", Gauge, u64::from(endpoint.messages_under_way()));
    say("transport", "received_messages", Gauge, u64::from(endpoint.received_messages()));
    for &reason in DropReason::ALL {
        say("stack.drop", reason.as_str(), Counter, stack.counters().drops.get(reason));
    }
    say("stack", "looped", Counter, stack.counters().looped.get());
    say("stack", "forwarded", Counter, stack.counters().forwarded.get());
    say("pool", "frames_free", Gauge, stack.pool().available() as u64);
    say("applications", "count", Gauge, applications as u64);
    let recv_used = endpoint.memory().iter().map(|(_, a)| a.recv_used()).sum();
    say("applications", "recv_bytes_used", Gauge, recv_used);
    // Completions that are sure to come: one for each open flow when all is quiet.
    let promised = endpoint.memory().iter().map(|(_, a)| a.promised() as u64).sum();
    say("applications", "promised", Gauge, promised);
    let waiting = endpoint.memory().iter().map(|(_, a)| a.waiting.len() as u64).sum();
    say("applications", "waiting", Gauge, waiting);
    say("applications", "bad_entries", Counter, offences.bad_entries.get());
    say("applications", "not_theirs", Counter, offences.not_theirs.get());
    say("applications", "corrupt_channels", Counter, offences.corrupt.get());
    let (Some(rdma), Some(endpoint)) = (rdma, stack.rdma()) else {
        return;
    };
    for (name, value) in endpoint.counters().iter() {
        say("rdma", name, Counter, value);
    }
    for &reason in DropReason::ALL {
        say("rdma.drop", reason.as_str(), Counter, endpoint.counters().drops.get(reason));
    }
    say("rdma", "queue_pairs", Gauge, endpoint.live_qps() as u64);
    say("rdma", "open_connections", Gauge, endpoint.connections() as u64);
    say("rdma", "objects", Gauge, rdma.objects() as u64);
    say("rdma", "waiting", Gauge, rdma.waiting() as u64);
    say("rdma", "requests_refused", Counter, rdma.counters.refused.get());
    say("rdma", "over_quota", Counter, rdma.counters.over_quota.get());
    say("rdma", "turned_away", Counter, rdma.counters.turned_away.get());
}

impl Published {
    /// Registers every counter of an engine's stack under its name.
    pub(crate) fn register(
        page: &Mutex<CountersPage>,
        prefix: &str,
        stack: &Stack<Applications>,
        rdma: Option<&Rdma>,
    ) -> Result<Published, RegisterError> {
        let mut slots = Vec::new();
        let mut failed = None;
        let mut page = page.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        values(
            stack,
            &Offences::default(),
            &stack.legs().iter().map(|_| LinkCounters::default()).collect::<Vec<_>>(),
            0,
            rdma,
            &mut |group, name, kind, _| match page.register(&format!("{prefix}{group}.{name}"), kind) {
                Ok(slot) => slots.push(slot),
                Err(e) => failed = Some(e),
            },
        );
        match failed {
            Some(e) => Err(e),
            None => Ok(Published { slots }),
        }
    }

    pub(crate) fn publish(
        &self,
        stack: &Stack<Applications>,
        offences: &Offences,
        links: &[LinkCounters],
        applications: usize,
        rdma: Option<&Rdma>,
    ) {
        let mut slots = self.slots.iter();
        values(stack, offences, links, applications, rdma, &mut |_, _, _, value| {
            if let Some(slot) = slots.next() {
                slot.set(value);
            }
        });
    }
}
