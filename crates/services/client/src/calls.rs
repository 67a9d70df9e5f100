//! Connections and listeners that were asked for and not answered yet.
//!
//! Every attempt goes to the daemon under a number of its own, so that an answer is never taken for another's. What was given up
//! is ended when its flow is known: at once, or when the answer comes.

use crate::event::{ConnectId, Event};
use crate::share::FlowHasher;
use barewire_channel::Request;
use barewire_transport::{ConnectFailure, FlowId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::net::{IpAddr, SocketAddr};

/// What the answer is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// An event with this token.
    Told(u64),
    /// Somebody waits for it.
    Waited,
    /// Nobody, or an event with this token that says that it was cancelled.
    GivenUp(Option<u64>),
}

struct Attempt {
    fate: Fate,
    /// Once the daemon has said which it will be.
    flow: Option<FlowId>,
    /// What to ask for next where this fails: further addresses of the same name.
    more: VecDeque<Request>,
    /// The flow asked for has had its time: it is ended, and the next address asked for.
    skips: bool,
    answer: Option<Result<FlowId, ConnectFailure>>,
}

struct Listen {
    local: Option<IpAddr>,
    udp_port: u16,
    token: u64,
    fate: Fate,
    /// An earlier one on the same port was given up and may be in the way: a refusal is no answer yet.
    again: bool,
    /// Taken back before the answer came.
    ends: bool,
    answer: Option<bool>,
}

/// Where somebody listens, and the token for it.
pub(crate) type Wish = (Option<IpAddr>, u64);

/// What to do with an answer.
pub(crate) enum Verdict {
    /// Nobody hears of it.
    Nothing,
    Tell(Event),
    /// A flow is there, and this is said of it, if anything.
    Open(FlowId, Option<Event>),
}

#[derive(Default)]
pub(crate) struct Calls {
    last: u64,
    attempts: HashMap<u64, Attempt, BuildHasherDefault<FlowHasher>>,
    /// In the order in which they were asked for, which is that of the answers of one port.
    listens: VecDeque<Listen>,
    /// Flows that opened after they had been given up.
    unwanted: HashSet<FlowId, BuildHasherDefault<FlowHasher>>,
    pub listening: Vec<u16>,
}

impl Calls {
    /// A number for the next attempt.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// An attempt was asked for. Where it fails, `more` are asked for under the same number, one after the other.
    pub(crate) fn connects(&mut self, number: u64, fate: Fate, more: VecDeque<Request>) -> ConnectId {
        self.attempts.insert(number, Attempt { fate, flow: None, more, skips: false, answer: None });
        ConnectId(number)
    }

    pub(crate) fn attempts(&self) -> Vec<ConnectId> {
        self.attempts.keys().map(|n| ConnectId(*n)).collect()
    }

    /// The attempts whose answer will be an event with this token, in the order in which they were made.
    pub(crate) fn told_with(&self, token: u64) -> Vec<ConnectId> {
        let with = self.attempts.iter().filter(|(_, a)| a.fate == Fate::Told(token));
        let mut with: Vec<_> = with.map(|(n, _)| ConnectId(*n)).collect();
        with.sort_unstable();
        with
    }

    /// Whether somebody listens on a UDP port, or has asked to.
    pub(crate) fn listens_on(&self, udp_port: u16) -> bool {
        self.listening.contains(&udp_port) || self.listens.iter().any(|l| l.udp_port == udp_port)
    }

    /// Where somebody listens, or has asked to.
    pub(crate) fn udp_ports(&self) -> Vec<u16> {
        let asked = self.listens.iter().map(|l| l.udp_port);
        self.listening.iter().copied().chain(asked).collect()
    }

    /// The answer to an attempt that is waited for, once.
    pub(crate) fn answer(&mut self, id: ConnectId) -> Option<Result<FlowId, ConnectFailure>> {
        let answer = self.attempts.get(&id.0)?.answer?;
        self.attempts.remove(&id.0);
        Some(answer)
    }

    /// How many addresses an attempt has left beside the one that it tries.
    pub(crate) fn addresses_left(&self, id: ConnectId) -> usize {
        self.attempts.get(&id.0).map_or(0, |attempt| attempt.more.len())
    }

    /// Goes on to the attempt's next address, where it has one, as if this one had failed.
    pub(crate) fn skip_address(&mut self, id: ConnectId, owed: &mut VecDeque<Request>) {
        let Some(attempt) = self.attempts.get_mut(&id.0) else { return };
        if attempt.skips || attempt.more.is_empty() || attempt.answer.is_some() {
            return;
        }
        attempt.skips = true;
        if let Some(flow) = attempt.flow {
            owed.push_back(Request::Reset { flow: flow.to_raw() });
        }
    }

    /// Gives an attempt up. False when it was answered already, or never made.
    pub(crate) fn give_up(&mut self, id: ConnectId, tell: bool, owed: &mut VecDeque<Request>) -> bool {
        let Some(attempt) = self.attempts.get_mut(&id.0) else { return false };
        if attempt.answer.is_some() {
            return false;
        }
        attempt.fate = match attempt.fate {
            Fate::Told(token) if tell => Fate::GivenUp(Some(token)),
            Fate::GivenUp(_) => return false,
            _ => Fate::GivenUp(None),
        };
        if let Some(flow) = attempt.flow.filter(|_| !attempt.skips) {
            owed.push_back(Request::Reset { flow: flow.to_raw() });
        }
        true
    }

    /// The daemon tells which flow an attempt will be.
    pub(crate) fn connecting(&mut self, number: u64, flow: FlowId, owed: &mut VecDeque<Request>) {
        if let Some(attempt) = self.attempts.get_mut(&number) {
            attempt.flow = Some(flow);
            if attempt.skips || matches!(attempt.fate, Fate::GivenUp(_)) {
                owed.push_back(Request::Reset { flow: flow.to_raw() });
            }
        }
    }

    pub(crate) fn connected(
        &mut self,
        number: u64,
        flow: FlowId,
        local: SocketAddr,
        remote: SocketAddr,
        owed: &mut VecDeque<Request>,
    ) -> Verdict {
        let Some(attempt) = self.attempts.get_mut(&number) else { return Verdict::Nothing };
        if std::mem::take(&mut attempt.skips)
            && !matches!(attempt.fate, Fate::GivenUp(_))
            && let Some(next) = attempt.more.pop_front()
        {
            // It has opened after its time, and its reset is on the way.
            attempt.flow = None;
            owed.push_back(next);
            self.unwanted.insert(flow);
            return Verdict::Open(flow, None);
        }
        match attempt.fate {
            Fate::Told(token) => {
                self.attempts.remove(&number);
                Verdict::Open(flow, Some(Event::Connected { flow, token, local, remote }))
            }
            Fate::Waited => {
                attempt.answer = Some(Ok(flow));
                Verdict::Open(flow, None)
            }
            Fate::GivenUp(token) => {
                // Its reset is on the way when the daemon had named it before, and crossed this answer.
                if attempt.flow.is_none() {
                    owed.push_back(Request::Reset { flow: flow.to_raw() });
                }
                self.attempts.remove(&number);
                self.unwanted.insert(flow);
                cancelled(token, flow)
            }
        }
    }

    pub(crate) fn connect_failed(
        &mut self,
        number: u64,
        flow: FlowId,
        reason: ConnectFailure,
        owed: &mut VecDeque<Request>,
    ) -> Verdict {
        let Some(attempt) = self.attempts.get_mut(&number) else { return Verdict::Nothing };
        if !matches!(attempt.fate, Fate::GivenUp(_))
            && let Some(next) = attempt.more.pop_front()
        {
            (attempt.flow, attempt.skips) = (None, false);
            owed.push_back(next);
            return Verdict::Nothing;
        }
        match attempt.fate {
            Fate::Told(token) => {
                self.attempts.remove(&number);
                Verdict::Tell(Event::ConnectFailed { flow, token, reason })
            }
            Fate::Waited => {
                attempt.answer = Some(Err(reason));
                Verdict::Nothing
            }
            Fate::GivenUp(token) => {
                self.attempts.remove(&number);
                cancelled(token, flow)
            }
        }
    }

    /// Whether nobody is to hear of a flow.
    #[inline]
    pub(crate) fn is_unwanted(&self, flow: FlowId) -> bool {
        !self.unwanted.is_empty() && self.unwanted.contains(&flow)
    }

    /// A flow has ended; true when nobody is to hear of it.
    pub(crate) fn ended(&mut self, flow: FlowId) -> bool {
        !self.unwanted.is_empty() && self.unwanted.remove(&flow)
    }

    /// The daemon is gone: what it has not answered it never will. Tells so, and says on which UDP ports somebody listens or wanted to, and where
    /// if that was not answered. What was asked for at one of these beside that has failed: the daemon after this one answers once.
    pub(crate) fn orphan(&mut self, tell: &mut VecDeque<Event>) -> Vec<(u16, Option<Wish>)> {
        let mut attempts: Vec<_> = self.attempts.drain().collect();
        attempts.sort_unstable_by_key(|(number, _)| *number);
        for (_, Attempt { fate, flow, .. }) in attempts {
            let flow = flow.unwrap_or(FlowId::from_raw(u64::MAX));
            match fate {
                Fate::Told(token) => {
                    tell.push_back(Event::ConnectFailed { flow, token, reason: ConnectFailure::Unreachable });
                }
                Fate::GivenUp(token) => {
                    if let Verdict::Tell(event) = cancelled(token, flow) {
                        tell.push_back(event);
                    }
                }
                Fate::Waited => {}
            }
        }
        self.unwanted.clear();
        let mut ports: Vec<_> = self.listening.drain(..).map(|p| (p, None)).collect();
        for Listen { local, udp_port, token, fate, ends, .. } in self.listens.drain(..) {
            match fate {
                Fate::Told(_) if ends => {}
                // Where somebody listens already the next one would have been refused, and so would a second one.
                Fate::Told(_) if ports.iter().any(|(p, _)| *p == udp_port) => {
                    tell.push_back(Event::ListenFailed { token, udp_port });
                }
                Fate::Told(_) => ports.push((udp_port, Some((local, token)))),
                Fate::Waited | Fate::GivenUp(_) => {}
            }
        }
        ports.sort_by_key(|(udp_port, _)| *udp_port);
        ports
    }

    pub(crate) fn listens(&mut self, local: Option<IpAddr>, udp_port: u16, token: u64, fate: Fate) {
        let again = self.listens.iter().any(|l| l.udp_port == udp_port && matches!(l.fate, Fate::GivenUp(_)));
        self.listens.push_back(Listen { local, udp_port, token, fate, again, ends: false, answer: None });
    }

    /// Nobody is to listen on this port any more, nor once what was asked for is answered.
    pub(crate) fn unlistens(&mut self, udp_port: u16) {
        self.listening.retain(|p| *p != udp_port);
        self.listens.iter_mut().filter(|l| l.udp_port == udp_port).for_each(|l| l.ends = true);
    }

    /// What the next answer for this port is to.
    pub(crate) fn wish(&self, udp_port: u16) -> Option<Wish> {
        let listen = self.listens.iter().find(|l| l.udp_port == udp_port && l.answer.is_none())?;
        let stays = !listen.ends && !matches!(listen.fate, Fate::GivenUp(_));
        stays.then_some((listen.local, listen.token))
    }

    /// The answer to a listener that is waited for, once.
    pub(crate) fn listen_answer(&mut self, udp_port: u16) -> Option<bool> {
        let of = |l: &Listen| l.udp_port == udp_port && l.fate == Fate::Waited && l.answer.is_some();
        let at = self.listens.iter().position(of)?;
        self.listens.remove(at)?.answer
    }

    /// Gives up the listener that is waited for.
    pub(crate) fn give_up_listen(&mut self, udp_port: u16) {
        if let Some(l) = self.listens.iter_mut().find(|l| l.udp_port == udp_port && l.fate == Fate::Waited) {
            l.fate = Fate::GivenUp(None);
        }
    }

    pub(crate) fn listened(&mut self, udp_port: u16, done: bool, owed: &mut VecDeque<Request>) -> Verdict {
        let of = |l: &Listen| l.udp_port == udp_port && l.answer.is_none();
        let Some(at) = self.listens.iter().position(of) else { return Verdict::Nothing };
        let listen = &mut self.listens[at];
        if !done && std::mem::replace(&mut listen.again, false) && !listen.ends {
            // What was given up is out of the way by the time that this is looked at.
            owed.push_back(Request::Listen { token: listen.token, udp_port, local: listen.local });
            return Verdict::Nothing;
        }
        let token = listen.token;
        if done && !listen.ends && !matches!(listen.fate, Fate::GivenUp(_)) {
            self.listening.push(udp_port);
        }
        match listen.fate {
            Fate::Waited => {
                listen.answer = Some(done);
                Verdict::Nothing
            }
            Fate::GivenUp(_) => {
                self.listens.remove(at);
                if done {
                    owed.push_back(Request::Unlisten { udp_port });
                }
                Verdict::Nothing
            }
            Fate::Told(_) => {
                self.listens.remove(at);
                Verdict::Tell(match done {
                    true => Event::Listening { token, udp_port },
                    false => Event::ListenFailed { token, udp_port },
                })
            }
        }
    }
}

fn cancelled(token: Option<u64>, flow: FlowId) -> Verdict {
    match token {
        Some(token) => Verdict::Tell(Event::ConnectFailed { flow, token, reason: ConnectFailure::Cancelled }),
        None => Verdict::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second one at a port, not answered when the daemon goes, is not asked for again: who waits for its answer gets one.
    #[test]
    fn no_listen_is_left_without_an_answer_when_the_daemon_goes() {
        let (mut calls, mut owed, mut told) = (Calls::default(), VecDeque::new(), VecDeque::new());
        calls.listens(None, 700, 1, Fate::Told(1));
        calls.listened(700, true, &mut owed);
        for (udp_port, token) in [(700, 2), (701, 3), (701, 4)] {
            calls.listens(None, udp_port, token, Fate::Told(token));
        }
        let ports = calls.orphan(&mut told);
        assert_eq!(ports, [(700, None), (701, Some((None, 3)))]);
        let failed = [(2, 700), (4, 701)].map(|(token, udp_port)| Event::ListenFailed { token, udp_port });
        assert_eq!(Vec::from(told), failed);
    }

    #[test]
    fn of_attempts_with_one_token_those_without_an_answer_can_be_given_up() {
        let (mut calls, mut owed) = (Calls::default(), VecDeque::new());
        let flow = FlowId::from_raw;
        let ends = || "10.0.0.1:9".parse().unwrap();
        let numbers: Vec<u64> = (0..4).map(|_| calls.next()).collect();
        let fates = [Fate::Told(7), Fate::Told(7), Fate::Told(8), Fate::Waited];
        let ids: Vec<_> =
            numbers.iter().zip(fates).map(|(n, fate)| calls.connects(*n, fate, VecDeque::new())).collect();
        assert_eq!(calls.told_with(7), ids[..2]);
        // The second one is answered first.
        let verdict = calls.connected(numbers[1], flow(1), ends(), ends(), &mut owed);
        assert!(matches!(verdict, Verdict::Open(_, Some(Event::Connected { token: 7, .. }))));
        assert_eq!(calls.told_with(7), ids[..1]);
        assert!(calls.give_up(ids[0], true, &mut owed) && !calls.give_up(ids[1], true, &mut owed));
        assert_eq!((calls.told_with(7), calls.told_with(8)), (vec![], vec![ids[2]]));
        let verdict = calls.connect_failed(numbers[0], flow(2), ConnectFailure::Refused, &mut owed);
        let Verdict::Tell(Event::ConnectFailed { token: 7, reason, .. }) = verdict else {
            panic!("no event")
        };
        assert_eq!(reason, ConnectFailure::Cancelled);
    }

    #[test]
    fn a_name_fails_with_its_last_address_and_a_cancelled_one_with_none_of_them() {
        let (mut calls, mut owed) = (Calls::default(), VecDeque::new());
        let flow = FlowId::from_raw;
        let request = |token, last| Request::Connect {
            token,
            local: None,
            local_udp_port: 0,
            remote: SocketAddr::from(([10, 0, 0, last], 888)),
            ordered: true,
        };
        let more = |token| VecDeque::from([request(token, 2), request(token, 3)]);
        let [first, second] = [calls.next(), calls.next()];
        calls.connects(first, Fate::Told(7), more(first));
        let id = calls.connects(second, Fate::Told(8), more(second));
        for last in [2, 3] {
            let verdict = calls.connect_failed(first, flow(1), ConnectFailure::Refused, &mut owed);
            assert!(matches!(verdict, Verdict::Nothing));
            assert_eq!(owed.pop_front(), Some(request(first, last)));
            // The next one has a flow of its own.
            calls.connecting(first, flow(2), &mut owed);
        }
        let verdict = calls.connect_failed(first, flow(2), ConnectFailure::TimedOut, &mut owed);
        let failed = Event::ConnectFailed { flow: flow(2), token: 7, reason: ConnectFailure::TimedOut };
        assert!(matches!(verdict, Verdict::Tell(event) if event == failed));
        assert!(calls.give_up(id, true, &mut owed));
        let verdict = calls.connect_failed(second, flow(3), ConnectFailure::Refused, &mut owed);
        let failed = Event::ConnectFailed { flow: flow(3), token: 8, reason: ConnectFailure::Cancelled };
        assert!(matches!(verdict, Verdict::Tell(event) if event == failed));
        assert!(owed.is_empty());
    }
}
