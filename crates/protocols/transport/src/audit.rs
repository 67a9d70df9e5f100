//! The books of an endpoint, added up again from the tables that they sum: for tests, which ask after everything that
//! somebody hostile did, and cannot know what should be there.

use crate::config::WINDOW_SEGMENTS;
use crate::endpoint::Endpoint;
use crate::event::Event;
use crate::flow::{Flow, State};
use crate::memory::Memory;
use crate::receiver::rows;
use crate::remnants::Known;
use crate::security::guard::Shield;
use crate::sender::Packed;
use barewire_base::{Duration, Instant};
use std::collections::HashMap;

/// How late a timer may be looked at: whoever runs an endpoint does so when it asks to be run, but the wheel has ticks.
const LATE: Duration = Duration::from_millis(1);

impl<M: Memory> Endpoint<M> {
    /// Compares every count that the endpoint keeps with what it counts. Takes as many steps as its tables have places.
    /// The error names what does not add up.
    #[doc(hidden)]
    pub fn audit(&self) -> Result<(), String> {
        let mut wrong = vec![];
        let mut check = |what: &str, kept: u64, counted: u64| {
            if kept != counted {
                wrong.push(format!("{what}: {kept} kept, {counted} counted"));
            }
        };
        let live = || self.flows.iter().enumerate().filter(|(_, f)| f.state != State::Free);
        let (mut receiving, mut held) = (0, 0);
        for (slot, f) in self.flows.iter().enumerate() {
            let rows = rows(&self.msgs[slot * WINDOW_SEGMENTS..][..WINDOW_SEGMENTS]);
            if f.state == State::Free {
                check("rows of a free slot", 0, rows.used.into());
                let pieces = self.pieces[slot * WINDOW_SEGMENTS..][..WINDOW_SEGMENTS].iter();
                check("pieces of a free slot", 0, pieces.filter(|p| **p != 0).count() as u64);
                let wiped = self.guards.get(slot).and_then(Option::as_ref).is_none_or(|g| g.is_wiped());
                check("keys of a free slot", 0, u64::from(!wiped));
                check(
                    "a route's timer of a free slot",
                    0,
                    u64::from(f.route_retry_at != Instant::FAR_FUTURE),
                );
                continue;
            }
            check("messages a flow has open", f.rx.open().into(), rows.used.into());
            check("messages a flow keeps from the application", f.rx.kept().into(), rows.kept.into());
            receiving += u64::from(rows.kept);
            held += u64::from(f.held);
        }
        let orphans: u64 = self.orphans.values().map(|n| u64::from(*n)).sum();
        check("messages received", self.recv_messages.into(), receiving + held + orphans);
        let half_open = live().filter(|(_, f)| f.state == State::Accepting).count();
        check(
            "half-open flows",
            self.legs.iter().map(|leg| u64::from(leg.half_open)).sum(),
            half_open as u64,
        );
        let pending = |f: &Flow| f.state == State::Accepting && f.shield == Shield::Pending;
        let pending = live().filter(|(_, f)| pending(f)).count();
        check("half-open flows without a proven key", self.pending.into(), pending as u64);
        let at_ports =
            self.legs.iter().flat_map(|leg| leg.half_open_at.values()).map(|n| u64::from(*n)).sum();
        check("half-open flows by their port", at_ports, half_open as u64);
        check("flows", self.flows_used().into(), live().count() as u64);
        let unrouted = self.flows.iter().filter(|f| f.unrouted).count();
        check("flows without a route", self.unrouted.len() as u64, unrouted as u64);
        // Two flows to one liar may have one id of its making; then only the later one is found by it.
        let by_remote =
            live().filter(|(slot, f)| self.by_remote.get(&(f.remote, f.remote_cid)) == Some(&(*slot as u32)));
        let remnants = || self.remnants.iter();
        let known =
            remnants().filter(|(at, r)| self.known(r.remote, r.remote_cid) == Some(Known::Remnant(*at)));
        let known = by_remote.count() + known.count();
        check("flows by their peer's id", self.by_remote.len() as u64, known as u64);
        let found = remnants().filter(|(at, r)| self.remnants.find(r.local_cid) == Some(*at)).count();
        check("what is left of flows", self.remnants.used() as u64, found as u64);
        check("what is left of flows, by host", self.remnants.used() as u64, self.remnants.of_hosts());
        let mut peers: HashMap<u64, u32> = HashMap::new();
        for (_, f) in live().filter(|(_, f)| f.is_accepted) {
            *peers.entry(crate::peers::key(f.remote.ip())).or_default() += 1;
        }
        check("hosts with flows here", self.peers.len() as u64, peers.len() as u64);
        for (key, count) in peers {
            check("flows of one host", self.peers.count(key).into(), count.into());
        }
        let ports: u64 = self.udp_ports.iter().map(|n| u64::from(*n)).sum();
        check("flows by their port", ports, (live().count() + remnants().count()) as u64);
        let sent = self.events.iter().filter(|e| matches!(e, Event::Sent { .. })).count();
        check("events of messages sent", self.sent_undrained.into(), sent as u64);
        let queued: u32 = live().map(|(slot, f)| f.tx.messages(self.segs_of(slot as u32), &self.out)).sum();
        check("messages under way", self.out.used().into(), queued.into());
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Looks for flows that nothing would ever move again, or that have waited for longer than their time-outs allow. To be asked when all
    /// that is due at `now` was done. The error names the first of them.
    #[doc(hidden)]
    pub fn audit_progress(&self, now: Instant) -> Result<(), String> {
        let live = self.flows.iter().enumerate().filter(|(_, f)| f.state != State::Free);
        for (slot, f) in live {
            let wrong = |what: &str| Err(format!("{:?}, {:?}: {what}", f.id, f.state));
            let Some(armed) = self.timers.deadline(slot as u32) else {
                return wrong("it has no timer");
            };
            if armed + LATE < now {
                return wrong("its timer is due and was not run");
            }
            if armed > f.deadline(now).max(now) {
                return wrong("its timer is later than what it waits for");
            }
            let waits_for_route = f.route_retry_at != Instant::FAR_FUTURE;
            if f.has_work(now) && f.listed & f.leg_bit() == 0 && !waits_for_route {
                return wrong("it has something to send, and nobody will ask it");
            }
            if f.state != State::Open {
                continue;
            }
            let outstanding = f.tx.outstanding() > 0;
            if outstanding && f.retry_at == Instant::FAR_FUTURE {
                return wrong("something is outstanding, and nothing will repeat it");
            }
            let asks = f.credit_probe_at != Instant::FAR_FUTURE || f.control_due || f.listed != 0;
            if !outstanding && f.tx.is_blocked_by_credit() && !asks {
                return wrong("it has no credit, and will not ask for any");
            }
            let longest = self.config.dead_after + self.config.timeout_max + LATE;
            if f.timeouts > 0 && now > f.first_timeout_at + longest && now > self.spares_until {
                return wrong("its peer acknowledges nothing, and it is not given up");
            }
        }
        Ok(())
    }

    /// What a flow that ended must have given back: of its rows and of the messages it was to send. Asked of each flow in builds with
    /// debug assertions, so that whatever test brings a flow to its end in a new way is a test of this, too.
    pub(crate) fn audit_retired(&self, slot: u32) {
        let f = &self.flows[slot as usize];
        let places = slot as usize * WINDOW_SEGMENTS..(slot as usize + 1) * WINDOW_SEGMENTS;
        let rows = rows(&self.msgs[places.clone()]);
        assert_eq!((rows.used, f.rx.open(), f.rx.kept()), (0, 0, 0), "rows of {:?}", f.id);
        assert!(self.pieces[places].iter().all(|p| *p == 0), "pieces of {:?}", f.id);
        assert_eq!(f.tx.messages(self.segs_of(slot), &self.out), 0, "messages to send of {:?}", f.id);
        assert!(self.timers.deadline(slot).is_none(), "the timer of {:?}", f.id);
        assert!(self.guards.get(slot as usize).and_then(Option::as_ref).is_none_or(|g| g.is_wiped()));
    }

    fn segs_of(&self, slot: u32) -> &[Packed] {
        &self.segs[slot as usize * WINDOW_SEGMENTS..][..WINDOW_SEGMENTS]
    }
}
