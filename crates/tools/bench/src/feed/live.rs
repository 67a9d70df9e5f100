//! Over real wires: a sender on one host, the engine that is measured on the other.

use super::probe::{Probe, Spans, What, realtime_offset};
use super::traffic::Traffic;
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::messages::IdleState;
use crate::messages::driver::{LAG_LIMIT, LAG_PERCENT_MAX};
use barewire_base::{Duration, Instant};
use barewire_engine::{Agent, Engine, IdleStrategy, StopFlag};
use barewire_feed_emulator::{Emitted, Sender, connections};
use barewire_feed_handler::{
    ChannelPlan, FeedChannel, FeedHandler, FeedType, Input, LineLayout, Plan, PortOptions, Recovery, Side,
    SocketOptions,
};
use barewire_measure::{Contention, ContentionReport, pin_to_core, stamp};
use barewire_netns::{TwoHosts, TwoHostsConfig};
use std::fmt;
use std::os::fd::RawFd;
use std::sync::mpsc;

/// The feed channel's number, and the UDP port of its first line.
const CHANNEL_ID: u16 = 901;
const FIRST_UDP_PORT: u16 = 19_010;
/// The interface of both hosts.
const INTERFACE: &str = "eth0";
/// Time between two packets that only fill books.
const WARMUP_GAP: Duration = Duration::from_micros(20);
/// How long the kernel polls the card's queue for a socket that is empty, in us. Interfaces without a queue ignore it.
const BUSY_POLL_US: u32 = 50;
/// What is on its way when the last packet was sent arrives within this time.
const DRAIN: std::time::Duration = std::time::Duration::from_millis(300);
/// Room for packets in a socket: a flood must not overrun it before the engine has had its turn.
const RECEIVE_BUFFER_BYTES: u32 = 32 << 20;
/// The clocks' difference is measured to this, in ns; more between begin and end is a step of the time of day.
const OFFSET_STEP_NS: i128 = 2_000;
/// Packets between two looks at the flag that somebody interrupted.
const LOOK_EVERY: usize = 64;

/// What receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineKind {
    /// Nothing: packets are handed over in one thread.
    Mem,
    /// A socket; the engine sleeps until a packet comes.
    Socket,
    /// A socket that is asked without pause.
    SocketSpin,
    /// An AF_PACKET port, asked without pause.
    Packet,
    /// An AF_XDP port, asked without pause.
    Xdp,
    /// An AF_XDP port; the engine sleeps until a packet comes.
    XdpPark,
    /// `socket-spin` under Onload, in a process of its own.
    Onload,
}

const ENGINES: [(&str, EngineKind); 7] = [
    ("mem", EngineKind::Mem),
    ("socket", EngineKind::Socket),
    ("socket-spin", EngineKind::SocketSpin),
    ("packet", EngineKind::Packet),
    ("xdp", EngineKind::Xdp),
    ("xdp-park", EngineKind::XdpPark),
    ("onload", EngineKind::Onload),
];

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ENGINES.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name))
    }
}

barewire_text::named!(EngineKind, ENGINES);

impl EngineKind {
    /// Whether two hosts are needed.
    pub fn needs_hosts(self) -> bool {
        !matches!(self, EngineKind::Mem | EngineKind::Onload)
    }

    /// In what states of the cores it is measured when nothing else was said: as with messages, who sleeps meets both.
    pub fn idle_states(self) -> &'static [IdleState] {
        if self.sleeps() { &[IdleState::Cold, IdleState::Warm] } else { &[IdleState::Warm] }
    }

    /// Whether it sleeps when nothing comes.
    pub fn sleeps(self) -> bool {
        matches!(self, EngineKind::Socket | EngineKind::XdpPark)
    }

    fn idle(self) -> IdleStrategy {
        if self.sleeps() { IdleStrategy::Park { spin: Duration::ZERO } } else { IdleStrategy::Spin }
    }

    fn input(self) -> Input {
        let port = |scheme: &str| Input::Ports(PortOptions::new(&format!("{scheme}:{INTERFACE}")));
        match self {
            EngineKind::Packet => port("packet"),
            EngineKind::Xdp | EngineKind::XdpPark => port("xdp"),
            _ => Input::Sockets(SocketOptions {
                interface_a: Some(INTERFACE.to_owned()),
                busy_poll_us: if self == EngineKind::Socket { 0 } else { BUSY_POLL_US },
                receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
                ..SocketOptions::default()
            }),
        }
    }
}

/// What one run does.
#[derive(Clone, Copy)]
pub struct LiveRun<'a> {
    /// What receives.
    pub engine: EngineKind,
    /// Which callback is t5.
    pub what: What,
    /// Time between two packets; zero: as fast as they are sent.
    pub gap: Duration,
    /// Each packet goes by both lines.
    pub both_lines: bool,
    /// Instruments that memory is set aside for.
    pub instruments: u32,
    /// The hot path is kept in cache while nothing comes.
    pub keep_warm: bool,
    /// What is sent.
    pub traffic: &'a Traffic,
    /// Cores of sender and engine.
    pub cores: Option<(usize, usize)>,
    /// Charged with both from the first measured packet to the last.
    pub cpu: &'a Charge,
}

/// What came of it.
#[derive(Debug)]
pub struct LiveResult {
    /// The spans.
    pub spans: Spans,
    /// Packets that were sent on each line.
    pub sent: u64,
    /// Measured packets per second as sent.
    pub sent_pps: f64,
    /// What the sources counted as lost.
    pub drops: Vec<(&'static str, u64)>,
    /// Whether the machine was ours.
    pub contention: ContentionReport,
    /// Why nothing of it may be used.
    pub void: Option<String>,
}

impl LiveResult {
    /// Packets that were sent and not handed to the listener.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.spans.packets)
    }
}

/// Two hosts with a veth pair between them.
///
/// # Errors
/// [`NetnsError`](barewire_netns::NetnsError): this needs root.
pub fn hosts() -> Result<TwoHosts, BenchError> {
    let config = TwoHostsConfig { label: None, static_neighbours: true, ..TwoHostsConfig::default() };
    Ok(TwoHosts::create(&config)?)
}

/// The channel: incremental feeds only, whose first packet is the week's first, so that books need nothing else.
pub(crate) fn channel_plan(instruments: u32, both_lines: bool, keep_warm: bool) -> ChannelPlan {
    ChannelPlan {
        recovery: Recovery::Natural,
        definitions: false,
        instruments_max: instruments,
        lines: if both_lines { LineLayout::Both } else { LineLayout::A },
        leave_loops: false,
        keep_warm,
        ..ChannelPlan::new(CHANNEL_ID.into(), connections(CHANNEL_ID, FIRST_UDP_PORT))
    }
}

/// The handler with its probe, which tells what it saw when the engine ends.
struct Measured {
    handler: Option<FeedHandler<Probe>>,
    tell: mpsc::Sender<Result<Told, BenchError>>,
}

type Told = (Spans, Vec<(&'static str, u64)>);

/// Counters of sources that count lost packets.
const LOSSES: [&str; 4] = ["kernel_drops", "truncated", "unstamped", "port_drops"];

impl Agent for Measured {
    fn name(&self) -> &str {
        "feed"
    }

    #[inline]
    fn do_work(&mut self, now: Instant) -> usize {
        self.handler.as_mut().map_or(0, |handler| handler.do_work(now))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.handler.as_ref().and_then(|handler| handler.next_deadline())
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        if let Some(handler) = &self.handler {
            handler.wait_fds(add);
        }
    }

    fn fds_generation(&self) -> u64 {
        self.handler.as_ref().map_or(0, |handler| handler.fds_generation())
    }

    fn prepare_wait(&mut self) -> bool {
        self.handler.as_mut().is_none_or(Agent::prepare_wait)
    }

    fn finish_wait(&mut self) {
        if let Some(handler) = &mut self.handler {
            handler.finish_wait();
        }
    }

    fn on_close(&mut self) {
        let Some(handler) = self.handler.take() else { return };
        if let Some(failure) = handler.failure() {
            let _ = self.tell.send(Err(BenchError::Plan(failure.to_string())));
            return;
        }
        let mut drops = Vec::new();
        for source in handler.sources() {
            source.counts(&mut |name, value| {
                if value > 0 && LOSSES.contains(&name) {
                    drops.push((name, value));
                }
            });
        }
        if let Some(probe) = handler.into_channels().pop() {
            let _ = self.tell.send(Ok((probe.finish(), drops)));
        }
    }
}

/// Runs it once between `hosts`.
///
/// # Errors
/// [`BenchError`] of whatever did not open.
pub fn run(run: &LiveRun<'_>, hosts: &TwoHosts) -> Result<LiveResult, BenchError> {
    go_on()?;
    let channel = channel_plan(run.instruments, run.both_lines, run.keep_warm);
    let plan = Plan {
        name: "feed".to_owned(),
        idle: run.engine.idle(),
        core: run.cores.map(|(_, engine)| engine),
        input: run.engine.input(),
        channels: vec![channel.clone()],
        record: None,
    };
    let first_measured = run.traffic.warmup() as u32 + 1;
    let what = run.what;
    let stop = StopFlag::new()?;
    let (tell, told) = mpsc::channel();
    let (offset, _) = realtime_offset();
    let engine = hosts.ns_b.enter(|| {
        let build = move || -> Result<Vec<Box<dyn Agent>>, BenchError> {
            let bytes = plan.packet_bytes_max();
            let handler = FeedHandler::builder(plan).try_build(|_, plan| {
                let channel = |listener| FeedChannel::new(plan, bytes, stamp(), listener);
                Ok(Probe::new(what, channel, first_measured)?)
            })?;
            Ok(vec![Box::new(Measured { handler: Some(handler), tell })])
        };
        let config = barewire_engine::EngineConfig {
            name: "feed".to_owned(),
            core: run.cores.map(|(_, engine)| engine),
            idle: run.engine.idle(),
        };
        Engine::spawn(config, build, &stop)
    })??;
    let sent = std::thread::scope(|scope| {
        let sender = || hosts.ns_a.enter(|| send(run, &channel))?;
        let sent = scope.spawn(sender).join();
        sent.unwrap_or_else(|_| Err(BenchError::Plan("the sender panicked".to_owned())))
    });
    std::thread::sleep(DRAIN);
    stop.stop();
    engine.join()?;
    let SentAll { sent, pps: sent_pps, behind_percent, contention } = sent?;
    let gone = |_| BenchError::Plan("the engine ended without a word".to_owned());
    let (spans, drops) = told.recv().map_err(gone)??;
    let (after, _) = realtime_offset();
    let void = if behind_percent > LAG_PERCENT_MAX {
        Some(format!("the sender was late for {behind_percent:.1} % of its packets"))
    } else if (after - offset).abs() > OFFSET_STEP_NS {
        Some("the time of day was set during the run".to_owned())
    } else if spans.backwards > 0 {
        Some(format!("the time of day was set meanwhile: {} packets have no true latency", spans.backwards))
    } else if spans.app.samples() == 0 {
        Some(format!("no callback was seen: {sent} packets sent, {} received; {drops:?}", spans.copies))
    } else {
        None
    };
    Ok(LiveResult { spans, sent, sent_pps, drops, contention, void })
}

/// What the sender did.
struct SentAll {
    /// Packets on each line.
    sent: u64,
    /// Measured packets a second.
    pps: f64,
    /// Measured packets that left more than [`LAG_LIMIT`] after they were due, in percent. Without a schedule none are due.
    behind_percent: f64,
    /// Whether the machine was ours meanwhile.
    contention: ContentionReport,
}

/// Sends everything, warm-up first.
fn send(run: &LiveRun<'_>, channel: &ChannelPlan) -> Result<SentAll, BenchError> {
    if let Some((core, _)) = run.cores {
        pin_to_core(core).map_err(BenchError::io(format!("pinning the sender to core {core}")))?;
    }
    let sender = Sender::open(&channel.connections, Some(INTERFACE))?;
    let sides: &[Side] = if run.both_lines { &[Side::A, Side::B] } else { &[Side::A] };
    let one = |index: usize, at: Instant| -> Result<(), BenchError> {
        for side in sides {
            let payload = run.traffic.packet(index);
            sender.send(&Emitted { at, feed: FeedType::Incremental, side: *side, payload })?;
        }
        Ok(())
    };
    let warmup = run.traffic.warmup();
    let mut due = stamp();
    for index in 0..warmup {
        let _ = wait(due);
        one(index, due)?;
        due += WARMUP_GAP;
        if index % LOOK_EVERY == 0 {
            go_on()?;
        }
    }
    // The engine has slept before the first measured packet, if it sleeps at all.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let watch = Contention::start();
    run.cpu.begins();
    let start = stamp();
    let (mut due, mut behind) = (start, 0_u64);
    for index in warmup..run.traffic.len() {
        if run.gap > Duration::ZERO {
            behind += u64::from(wait(due) > LAG_LIMIT);
        }
        one(index, due)?;
        due += run.gap;
        if index % LOOK_EVERY == 0 && crate::interrupted() {
            break;
        }
    }
    let took = stamp().since(start);
    run.cpu.ends();
    let contention = watch.finish();
    let refused = sender.refused.get();
    if refused > 0 {
        return Err(BenchError::Plan(format!("the sender's socket refused {refused} packets")));
    }
    let sent = sender.sent.get() / sides.len() as u64;
    let measured = sent.saturating_sub(warmup as u64);
    Ok(SentAll {
        sent,
        pps: measured as f64 / took.as_secs_f64().max(1e-9),
        behind_percent: 100.0 * behind as f64 / (measured as f64).max(1.0),
        contention,
    })
}

/// Waits for a time, awake: how long a sender takes to wake up is no part of this. Says how late it is then.
#[inline]
fn wait(due: Instant) -> Duration {
    loop {
        let now = stamp();
        if now >= due {
            return now.since(due);
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Workload;
    use super::*;
    use crate::patience::until_well;
    use barewire_testing::{Needs, have};

    #[test]
    fn engines_have_names() {
        for (name, kind) in ENGINES {
            assert_eq!((name.parse(), kind.to_string().as_str()), (Ok(kind), name));
        }
        assert!("socket-spni".parse::<EngineKind>().unwrap_err().contains("did you mean `socket-spin`?"));
    }

    #[test]
    fn every_engine_measures_every_packet() {
        let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
        let hosts = hosts().unwrap();
        let traffic = Traffic::make(Workload::OneEntry, 5, 300, 1).unwrap();
        let kinds = [EngineKind::Socket, EngineKind::SocketSpin, EngineKind::Packet, EngineKind::Xdp];
        for (index, engine) in kinds.into_iter().chain([EngineKind::XdpPark]).enumerate() {
            let what = if index % 2 == 0 { What::Book } else { What::Message };
            let both_lines = index == 1;
            let cpu = Charge::start();
            let live = LiveRun {
                engine,
                what,
                gap: Duration::from_micros(200),
                both_lines,
                instruments: 5,
                keep_warm: index % 2 == 0,
                traffic: &traffic,
                cores: None,
                cpu: &cpu,
            };
            // On a machine that is busy with other tests the sender may be late, and the engine may not have its turn before the
            // run is over, which counts as lost. Nothing else may be wrong.
            let is_late = |result: &LiveResult| {
                result.void.as_deref().is_some_and(|why| why.contains("sender was late"))
            };
            let result = until_well(
                || run(&live, &hosts).unwrap(),
                |result| result.lost() == 0 && result.sent_pps >= 1_000.0,
            );
            let wrong = result.void.as_deref().filter(|_| !is_late(&result));
            assert_eq!((wrong, result.lost()), (None, 0), "{engine}: {result:?}");
            assert_eq!(result.spans.app.samples(), 300, "{engine}");
            assert_eq!(result.spans.stamp.samples(), 300, "{engine}");
            // Other tests of this process are charged, too: only that it is known is sure here.
            assert!(cpu.used().is_some_and(|(used, whole)| !whole && used.wall_ns > 0), "{engine}");
            assert_eq!(result.spans.copies, 350 * (1 + u64::from(both_lines)), "{engine}");
            assert_eq!(result.spans.source.map(|s| s.as_str()), Some("kernel"), "{engine}");
            let (app, stamp) = (result.spans.app.min().unwrap(), result.spans.stamp.min().unwrap());
            assert!(app < stamp, "{engine}: {app} {stamp}");
            // 200 us gaps: 5,000 packets a second, and fewer only where the sender said that it was late.
            assert!(result.sent_pps <= 5_100.0, "{engine}: {}", result.sent_pps);
            assert!(result.sent_pps >= 1_000.0 || is_late(&result), "{engine}: {}", result.sent_pps);
        }
    }
}
