//! A machine that stands still, as a virtual machine does that is paused or moved: its daemon is stopped and goes on later, while peers,
//! links and clocks go on. Flows come back, or both ends report them closed; every message has its fate, none is lost without a word,
//! none comes twice and none changes its place; and new flows open.
//!
//! Briefly, unless `BAREWIRE_PAUSES` has other lengths, in seconds: `BAREWIRE_PAUSES=1,5,30`.

mod common;

use barewire_client::{Client, CloseReason, Event, FlowId, SendError};
use barewire_engine::{CountersReader, counters_path, now};
use common::child_daemon::ChildDaemon;
use common::*;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::time::Duration;

/// Flows of a case: one that is idle, two that carry messages both ways.
const FLOWS: usize = 3;
const IDLE: usize = 0;
const UDP_PORT: u16 = 888;
/// Messages before the pause, and in each step of it.
const BURST: usize = 20;

/// Who stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    /// The host that opened the flows.
    Client,
    /// The host that took them.
    Server,
    Both,
}

/// What one end knows of a flow.
#[derive(Default)]
struct Line {
    id: Option<FlowId>,
    /// Messages, numbered from zero.
    sent: u64,
    /// What became of them.
    fates: BTreeMap<u64, bool>,
    /// Numbers of what came.
    got: Vec<u64>,
    closed: Option<CloseReason>,
}

struct End {
    client: Client,
    lines: [Line; FLOWS],
}

impl End {
    fn new(client: Client) -> End {
        End { client, lines: Default::default() }
    }

    /// Sends `count` messages, or as many as there is room for.
    fn send(&mut self, at: usize, count: usize) {
        let line = &mut self.lines[at];
        let flow = line.id.unwrap();
        for _ in 0..count {
            if line.closed.is_some() {
                break;
            }
            let message = message_of(line.sent);
            let Ok(buf) = self.client.reserve(message.len()) else { break };
            assert!(self.client.write(&buf, 0, &message));
            match self.client.commit(flow, buf, Some(line.sent)) {
                Ok(()) => line.sent += 1,
                Err(SendError::WouldBlock | SendError::NoSuchFlow) => break,
                Err(e) => panic!("{e}"),
            }
        }
        self.client.flush();
    }

    fn line(&mut self, flow: FlowId) -> &mut Line {
        self.lines.iter_mut().find(|line| line.id == Some(flow)).expect("a flow of ours")
    }

    /// Takes what comes within a moment.
    fn take(&mut self) {
        while let Some(event) = self.client.wait_event(Some(Duration::from_millis(1))).unwrap() {
            match event {
                Event::Message(m) => {
                    let (flow, number) = (m.flow(), number_of(&self.client.to_vec(&m)));
                    self.client.release(m);
                    self.line(flow).got.push(number);
                }
                Event::Delivered { flow, token, delivered } => {
                    let told = self.line(flow).fates.insert(token, delivered);
                    assert_eq!(told, None, "the fate of a message is told once");
                }
                Event::Closed { flow, reason } => {
                    let told = self.line(flow).closed.replace(reason);
                    assert_eq!(told, None, "a flow ends once");
                }
                Event::Writable { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Whether all that was sent has its fate, the ends of each flow agree, and applications have what arrived: that is told when the peer's
/// daemon has it.
fn is_settled(ends: &[End; 2]) -> bool {
    let [a, b] = ends;
    let told = |end: &End| end.lines.iter().all(|line| line.fates.len() as u64 == line.sent);
    let agree = |at: usize| a.lines[at].closed.is_some() == b.lines[at].closed.is_some();
    let taken = |at: usize| {
        let (a, b) = (&a.lines[at], &b.lines[at]);
        a.closed.is_some() || (a.got.len() as u64, b.got.len() as u64) == (b.sent, a.sent)
    };
    told(a) && told(b) && (0..FLOWS).all(|at| agree(at) && taken(at))
}

/// What must be whatever happened. Says which flows survived.
fn judge(case: &str, ends: &[End; 2]) -> [bool; FLOWS] {
    let [a, b] = ends;
    std::array::from_fn(|at| {
        let (a, b) = (&a.lines[at], &b.lines[at]);
        let case = format!("{case}, flow {at} ({:?}, {:?})", a.closed, b.closed);
        let alive = a.closed.is_none();
        for (from, to) in [(a, b), (b, a)] {
            assert!(
                to.got.iter().copied().eq(0..to.got.len() as u64),
                "{case}: in order, and once: {:?}",
                to.got
            );
            assert!(to.got.len() as u64 <= from.sent, "{case}");
            for (number, arrived) in &from.fates {
                assert!(
                    !arrived || *number < to.got.len() as u64,
                    "{case}: {number} is told to have arrived"
                );
                assert!(!alive || *arrived, "{case}: {number} is lost");
            }
        }
        alive
    })
}

/// The flows that a daemon still has.
fn flows_of(name: &str) -> u64 {
    let mut reader = CountersReader::open(counters_path(name).unwrap()).unwrap();
    let mut counters = reader.read().unwrap();
    counters.find(|(name, ..)| *name == "transport.flows").map(|(.., value)| value).unwrap()
}

/// Stands still for a while, and says which flows survived.
fn pause(who: Who, lasts: Duration, is_secure: bool, timers: &[&str]) -> [bool; FLOWS] {
    let case = format!("{who:?} for {lasts:?}, encrypted: {is_secure}, {timers:?}");
    let dir = Folder::new("daemon");
    let unique = dir.path().file_name().unwrap().to_string_lossy().into_owned();
    let names = [1, 2].map(|host| format!("{unique}-{host}"));
    let hosts = [1, 2].map(|host: u8| {
        let keys = [format!("own_key={host}"), format!("peer_key={}", 3 - host)];
        let mut options = timers.to_vec();
        if is_secure {
            options.extend(keys.iter().map(String::as_str));
        }
        ChildDaemon::start_host(dir.path(), host, &names[usize::from(host) - 1], &options)
    });
    let attach = |host: u8| attach_to(&dir.path().join(format!("{host}.sock")), "app", None).unwrap();
    let mut ends = [End::new(attach(1)), End::new(attach(2))];
    ends[1].client.listen_wait(UDP_PORT, 0, PATIENCE).unwrap();
    for at in 0..FLOWS {
        ends[0].lines[at].id = Some(connect(&mut ends[0].client, to(2, UDP_PORT)));
        ends[1].lines[at].id = Some(accept(&mut ends[1].client));
    }
    assert_eq!(ends[0].client.peer(ends[0].lines[0].id.unwrap()).is_some(), is_secure);
    let send = |ends: &mut [End; 2], count| {
        for end in ends {
            for at in (0..FLOWS).filter(|at| *at != IDLE) {
                end.send(at, count);
            }
        }
    };
    send(&mut ends, BURST);
    let stopped = match who {
        Who::Client => &hosts[..1],
        Who::Server => &hosts[1..],
        Who::Both => &hosts[..],
    };
    let signal = |signal| {
        for host in stopped {
            kill_process(Pid::from_child(&host.process), signal).unwrap();
        }
    };
    // In the middle of it.
    signal(Signal::STOP);
    let end = now() + lasts.into();
    while now() < end {
        // The applications go on, and none of them waits for a daemon that stands still.
        send(&mut ends, 1);
        ends.iter_mut().for_each(End::take);
        std::thread::sleep(Duration::from_millis(50).min(lasts / 10));
    }
    signal(Signal::CONT);
    let resumed = now();
    // Each end says something on each flow, so that neither goes on believing what is not so.
    for end in &mut ends {
        (0..FLOWS).for_each(|at| end.send(at, 1));
    }
    let patience = now() + PATIENCE.into();
    while !is_settled(&ends) {
        assert!(now() < patience, "{case}: the ends do not agree");
        ends.iter_mut().for_each(End::take);
    }
    let agreed = now();
    let alive = judge(&case, &ends);
    println!("{case}: agreed {} after the pause, survived: {alive:?}", agreed.since(resumed));
    // What was is no burden on what comes.
    let [mut a, mut b] = ends.map(|end| end.client);
    let new = connect(&mut a, to(2, UDP_PORT));
    let accepted = next_real(&mut b);
    assert!(matches!(accepted, Event::Accepted { .. }), "{case}: {accepted:?}");
    a.send(new, b"again").unwrap();
    assert_eq!(message(&mut b), b"again");
    drop((a, b));
    for name in &names {
        eventually("no flow is left", || flows_of(name) == 0);
    }
    alive
}

/// Lengths that were asked for; `None`: the brief ones.
fn asked_for() -> Option<Vec<Duration>> {
    let text = std::env::var("BAREWIRE_PAUSES").ok()?;
    let seconds =
        |word: &str| Duration::from_secs_f64(word.trim().parse().expect("BAREWIRE_PAUSES has seconds"));
    Some(text.split(',').map(seconds).collect())
}

/// What the default timers are sure to survive, and what they are not sure to until both ends have given up.
const SURVIVED: Duration = Duration::from_secs(1);
const GIVEN_UP: Duration = Duration::from_secs(12);

#[test]
fn a_pause_is_survived_or_both_ends_report_the_flow_closed() {
    for lasts in asked_for().unwrap_or_else(|| vec![SURVIVED]) {
        for (who, is_secure) in [
            (Who::Client, false),
            (Who::Server, false),
            (Who::Both, false),
            (Who::Client, true),
            (Who::Server, true),
            (Who::Both, true),
        ] {
            let alive = pause(who, lasts, is_secure, &[]);
            if lasts <= SURVIVED {
                assert_eq!(alive, [true; FLOWS], "{who:?}, encrypted: {is_secure}");
            }
            if lasts >= GIVEN_UP && who != Who::Both {
                assert_eq!(alive, [false; FLOWS], "{who:?}, encrypted: {is_secure}");
            }
        }
    }
}

#[test]
fn what_is_given_up_during_a_pause_is_given_up_at_both_ends() {
    // As half a minute with the default timers.
    let timers = ["keepalive=300", "keepalive_interval=100", "dead_after=400"];
    for who in [Who::Client, Who::Server] {
        for is_secure in [false, true] {
            let alive = pause(who, Duration::from_millis(2_000), is_secure, &timers);
            assert_eq!(alive, [false; FLOWS], "{who:?}, encrypted: {is_secure}");
        }
    }
}
