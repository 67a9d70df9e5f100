//! The handler: sources, feed channels, a recorder; an agent of an engine, or driven by the user.

use crate::plan::{ChannelPlan, Input, Plan};
use crate::publish::FeedCounters;
use crate::record::Recorder;
use crate::replay::{Replay, run_timers};
use crate::source::{Consumer, Packet, PortSource, SocketSource, Source};
use crate::{FeedChannel, FeedType, LineId, SourceError};
use barewire_base::Instant;
use barewire_engine::{Agent, EngineConfig, IdleStrategy, StopFlag};
use barewire_feed::Listener;
use barewire_port::Speed;
use std::os::fd::RawFd;

/// Sleeps of a paced replay that parks are cut short by this, and the rest is spun: a sleep ends late.
const SLEEP_SLACK_NS: u64 = 100_000;
/// The longest sleep of a paced replay between two looks at the stop flag.
const SLEEP_MAX_NS: u64 = 50_000_000;

/// Feed channels that share an engine, with the sources that feed them.
///
/// `C` is what takes a channel's packets: a [`FeedChannel`] with its books, or any [`Consumer`].
pub struct FeedHandler<C> {
    name: String,
    idle: IdleStrategy,
    sources: Vec<Box<dyn Source>>,
    /// Of each source that has failed, when it is tried again.
    retries: Vec<Option<Instant>>,
    sinks: Sinks<C>,
    failure: Option<SourceError>,
    /// What made a source fail last while others went on.
    last_fault: Option<SourceError>,
    stop: Option<StopFlag>,
    counters: Option<FeedCounters>,
    /// Of each channel whose loops may be left: its index, and which of them are joined.
    loops: Vec<(u16, [bool; LOOPS.len()])>,
    /// The channel whose code and tables are brought into the cache next, while nothing comes.
    warm_next: usize,
}

/// The loops of a channel.
const LOOPS: [FeedType; 3] = [FeedType::Snapshot, FeedType::SnapshotMbo, FeedType::Instrument];

/// Time between two attempts at a source that has failed.
const RETRY_EVERY: barewire_base::Duration = barewire_base::Duration::from_secs(1);

/// Who gets a packet: its channel, and before it the recorder.
struct Sinks<C> {
    channels: Vec<C>,
    recorder: Option<Recorder>,
}

impl<C: Consumer> Consumer for Sinks<C> {
    #[inline]
    fn on_packet(&mut self, now: Instant, packet: &Packet<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, packet);
        }
        if let Some(channel) = self.channels.get_mut(usize::from(packet.line.channel)) {
            channel.on_packet(now, packet);
        }
    }

    #[inline]
    fn on_line_fault(&mut self, now: Instant, line: LineId, error: &SourceError) {
        if let Some(channel) = self.channels.get_mut(usize::from(line.channel)) {
            channel.on_line_fault(now, line, error);
        }
    }

    #[inline]
    fn on_timeout(&mut self, now: Instant) {
        for channel in &mut self.channels {
            if channel.next_deadline().is_some_and(|due| due <= now) {
                channel.on_timeout(now);
            }
        }
    }

    #[inline]
    fn next_deadline(&self) -> Option<Instant> {
        self.channels.iter().filter_map(Consumer::next_deadline).min()
    }
}

/// Puts a [`FeedHandler`] together.
pub struct FeedHandlerBuilder {
    plan: Plan,
    sources: Option<Vec<Box<dyn Source>>>,
    stop: Option<StopFlag>,
    start: Option<Instant>,
    counters: Option<FeedCounters>,
}

impl FeedHandlerBuilder {
    /// Begins the lines' time-outs at this time instead of now: for replays, whose time is the capture's
    /// ([`Replay::next_at`]).
    #[must_use]
    pub fn start(mut self, at: Instant) -> Self {
        self.start = Some(at);
        self
    }

    /// Uses these sources instead of opening those of the plan: a port that is open already, an engine of the user's own.
    /// None at all is right for a handler that only replays.
    #[must_use]
    pub fn sources(mut self, sources: Vec<Box<dyn Source>>) -> Self {
        self.sources = Some(sources);
        self
    }

    /// Raises this flag when a source fails, or when all of them have come to their end.
    #[must_use]
    pub fn stop_at_end(mut self, stop: StopFlag) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Publishes the handler's counters here, whenever the engine says so.
    #[must_use]
    pub fn publish_to(mut self, counters: FeedCounters) -> Self {
        self.counters = Some(counters);
        self
    }

    /// Opens what the plan names and makes a consumer for each channel. Everything is allocated here. Sockets belong to
    /// the network namespace of the calling thread; the handler stays on this thread.
    ///
    /// # Errors
    /// [`SourceError`] of the first thing that cannot be opened.
    pub fn build<C: Consumer>(
        self,
        mut consumer: impl FnMut(u16, &ChannelPlan) -> C,
    ) -> Result<FeedHandler<C>, SourceError> {
        self.try_build(|index, plan| Ok(consumer(index, plan)))
    }

    /// As [`build`](Self::build), with consumers that may refuse.
    ///
    /// # Errors
    /// As [`build`](Self::build), and whatever a consumer says.
    pub fn try_build<C: Consumer>(
        self,
        mut consumer: impl FnMut(u16, &ChannelPlan) -> Result<C, SourceError>,
    ) -> Result<FeedHandler<C>, SourceError> {
        let FeedHandlerBuilder { plan, sources, stop, counters, .. } = self;
        // Before anything is opened: what can be wrong with the channels is cheap to find.
        let mut channels = Vec::with_capacity(plan.channels.len());
        for (index, channel) in plan.channels.iter().enumerate() {
            channels.push(consumer(index as u16, channel)?);
        }
        let sources = match (sources, &plan.input) {
            (Some(sources), _) => sources,
            (None, Input::Sockets(options)) => {
                vec![Box::new(SocketSource::open(&plan.channels, options)?) as Box<dyn Source>]
            }
            (None, Input::Ports(options)) => PortSource::open(&plan.channels, options)?
                .into_iter()
                .map(|source| Box::new(source) as Box<dyn Source>)
                .collect(),
        };
        let recorder =
            plan.record.as_ref().map(|record| Recorder::create(record, &plan.channels)).transpose()?;
        let may_leave = plan.channels.iter().enumerate().filter(|(_, channel)| channel.leave_loops);
        let loops = may_leave.map(|(index, _)| (index as u16, [true; LOOPS.len()])).collect();
        Ok(FeedHandler {
            name: plan.name,
            idle: plan.idle,
            retries: sources.iter().map(|_| None).collect(),
            sources,
            last_fault: None,
            sinks: Sinks { channels, recorder },
            failure: None,
            stop,
            counters,
            loops,
            warm_next: 0,
        })
    }
}

impl FeedHandlerBuilder {
    /// As [`build`](Self::build), with the books of each channel and a listener for it.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`SourceError::Channel`] for settings that a channel does not take.
    pub fn listen<L: Listener>(
        self,
        mut listener: impl FnMut(u16, &ChannelPlan) -> L,
    ) -> Result<FeedHandler<FeedChannel<L>>, SourceError> {
        let bytes = self.plan.packet_bytes_max();
        let start = self.start.unwrap_or_else(barewire_engine::now);
        self.try_build(|index, plan| Ok(FeedChannel::new(plan, bytes, start, listener(index, plan))?))
    }
}

impl FeedHandler<()> {
    /// Begins a handler of this plan.
    pub fn builder(plan: Plan) -> FeedHandlerBuilder {
        FeedHandlerBuilder { plan, sources: None, stop: None, start: None, counters: None }
    }
}

impl Plan {
    /// How to make the engine that this plan asks for.
    pub fn engine_config(&self) -> EngineConfig {
        EngineConfig { name: self.name.clone(), core: self.core, idle: self.idle }
    }
}

impl<C: Consumer> FeedHandler<C> {
    /// Does whatever there is to do at `now` ([`barewire_engine::now`]) and says how many packets that was: for programs
    /// that drive the handler themselves. Never blocks. The callbacks run in here.
    ///
    /// # Errors
    /// [`SourceError`] when no source works any longer. One that fails beside others is tried again every second, and its lines are
    /// told as down ([`last_fault`](Self::last_fault) says why).
    #[inline]
    pub fn process(&mut self, now: Instant) -> Result<usize, SourceError> {
        let mut packets = 0;
        for at in 0..self.sources.len() {
            if self.retries[at].is_some_and(|due| now < due) {
                continue;
            }
            match self.sources[at].poll(now, &mut self.sinks) {
                Ok(count) => {
                    packets += count;
                    self.retries[at] = None;
                }
                Err(error) => self.source_failed(at, now, error)?,
            }
        }
        if self.sinks.next_deadline().is_some_and(|due| due <= now) {
            self.sinks.on_timeout(now);
        }
        if packets == 0 {
            self.follow_wants();
            // One channel a round: a packet that arrives meanwhile waits for one rehearsal, however many channels there are.
            if let Some(channel) = self.sinks.channels.get_mut(self.warm_next) {
                channel.keep_warm(now);
            }
            self.warm_next =
                if self.warm_next + 1 < self.sinks.channels.len() { self.warm_next + 1 } else { 0 };
        }
        Ok(packets)
    }

    /// Joins and leaves the loops' groups as the channels want them.
    fn follow_wants(&mut self) {
        for (index, joined) in &mut self.loops {
            let Some(channel) = self.sinks.channels.get(usize::from(*index)) else { continue };
            for (feed, joined) in LOOPS.into_iter().zip(joined) {
                let wanted = channel.wants(feed);
                if wanted != *joined {
                    for source in &mut self.sources {
                        source.set_wanted(*index, feed, wanted);
                    }
                    *joined = wanted;
                }
            }
        }
    }

    /// A source has failed. The others go on, if there are any that work.
    #[cold]
    fn source_failed(&mut self, at: usize, now: Instant, error: SourceError) -> Result<(), SourceError> {
        self.retries[at] = Some(now + RETRY_EVERY);
        if self.retries.iter().all(Option::is_some) {
            return Err(error);
        }
        let sinks = &mut self.sinks;
        self.sources[at].lines(&mut |line| sinks.on_line_fault(now, line, &error));
        self.last_fault = Some(error);
        Ok(())
    }

    /// Replays captures to their end, or until `stop` is raised, and says how many packets that were. Timers run by the
    /// captures' time. At [`Speed::Times`] the thread waits between packets, as the plan's idle strategy says.
    ///
    /// # Errors
    /// [`SourceError::Capture`] where a capture is damaged.
    pub fn replay(
        &mut self,
        replay: &mut Replay,
        speed: Speed,
        stop: Option<&StopFlag>,
    ) -> Result<u64, SourceError> {
        self.replay_while(replay, speed, &|| !stop.is_some_and(StopFlag::is_stopped))
    }

    /// As [`replay`](Self::replay), for as long as `go_on` says so; it is asked before each packet. Called again, it goes on
    /// where it was.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub fn replay_while(
        &mut self,
        replay: &mut Replay,
        speed: Speed,
        go_on: &dyn Fn() -> bool,
    ) -> Result<u64, SourceError> {
        let before = replay.counts().packets.get();
        let mut origin: Option<(Instant, Instant)> = None;
        while let Some(at) = replay.next_at() {
            if !go_on() {
                break;
            }
            if let Speed::Times(times) = speed {
                let (base, started) = *origin.get_or_insert_with(|| (at, barewire_engine::now()));
                let after_ns = at.since(base).as_nanos() as f64 / times;
                let due = started + barewire_base::Duration::from_nanos(after_ns as u64);
                if !self.wait_until(due, go_on) {
                    break;
                }
            }
            replay.step(&mut self.sinks)?;
        }
        Ok(replay.counts().packets.get() - before)
    }

    /// False when it was stopped.
    fn wait_until(&self, due: Instant, go_on: &dyn Fn() -> bool) -> bool {
        loop {
            let left_ns = due.since(barewire_engine::now()).as_nanos();
            if left_ns == 0 {
                return true;
            }
            if !go_on() {
                return false;
            }
            match self.idle {
                IdleStrategy::Park { .. } if left_ns > SLEEP_SLACK_NS => {
                    let ns = (left_ns - SLEEP_SLACK_NS).min(SLEEP_MAX_NS);
                    std::thread::sleep(std::time::Duration::from_nanos(ns));
                }
                IdleStrategy::Spin => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Hands over one packet that came by no source of the handler.
    pub fn inject(&mut self, now: Instant, packet: &Packet<'_>) {
        run_timers(&mut self.sinks, now);
        self.sinks.on_packet(now, packet);
    }

    /// Runs the timers that are due.
    pub fn on_timeout(&mut self, now: Instant) {
        run_timers(&mut self.sinks, now);
    }

    /// The channels' consumers, in the plan's order: books are asked for here.
    pub fn channels(&self) -> &[C] {
        &self.sinks.channels
    }

    /// The channels' consumers, to change.
    pub fn channels_mut(&mut self) -> &mut [C] {
        &mut self.sinks.channels
    }

    /// Ends the handler and gives the channels' consumers back.
    pub fn into_channels(self) -> Vec<C> {
        self.sinks.channels
    }

    /// The consumer that a line belongs to.
    pub fn channel_of(&self, line: LineId) -> Option<&C> {
        self.sinks.channels.get(usize::from(line.channel))
    }

    /// The sources.
    pub fn sources(&self) -> &[Box<dyn Source>] {
        &self.sources
    }

    /// The recorder, if there is one.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.sinks.recorder.as_ref()
    }

    /// The recorder, to flush it.
    pub fn recorder_mut(&mut self) -> Option<&mut Recorder> {
        self.sinks.recorder.as_mut()
    }

    pub(crate) fn counters_mut(&mut self) -> Option<&mut FeedCounters> {
        self.counters.as_mut()
    }

    /// When there is work though no packet arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let of_sources = self.sources.iter().filter_map(|source| source.next_deadline()).min();
        let retries = self.retries.iter().flatten().copied().min();
        of_sources.into_iter().chain(retries).chain(self.sinks.next_deadline()).min()
    }

    /// Whether every source has come to its end. False of a handler without sources.
    pub fn is_finished(&self) -> bool {
        !self.sources.is_empty() && self.sources.iter().all(|source| source.is_finished())
    }

    /// What went wrong last with a line or a source, while others went on.
    pub fn last_fault(&self) -> Option<&SourceError> {
        let of_lines = self.sources.iter().find_map(|source| source.last_fault());
        self.last_fault.as_ref().or(of_lines)
    }

    /// What made a source stop working while the handler ran in an engine.
    pub fn failure(&self) -> Option<&SourceError> {
        self.failure.as_ref()
    }
}

impl<C: Consumer> Agent for FeedHandler<C> {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn do_work(&mut self, now: Instant) -> usize {
        if self.failure.is_some() {
            return 0;
        }
        let work = match self.process(now) {
            Ok(work) => work,
            Err(e) => {
                self.failure = Some(e);
                0
            }
        };
        if work == 0
            && let Some(stop) = &self.stop
            && (self.failure.is_some() || self.is_finished())
        {
            stop.stop();
        }
        work
    }

    fn next_deadline(&self) -> Option<Instant> {
        FeedHandler::next_deadline(self)
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        for source in &self.sources {
            source.wait_fds(add);
        }
    }

    fn fds_generation(&self) -> u64 {
        self.sources.iter().map(|source| source.fds_generation()).sum()
    }

    fn prepare_wait(&mut self) -> bool {
        // All of them, also behind one that refuses: each will be told that the wait is over.
        let mut ready = true;
        for source in &mut self.sources {
            ready &= source.prepare_wait();
        }
        ready
    }

    fn finish_wait(&mut self) {
        for source in &mut self.sources {
            source.finish_wait();
        }
    }

    fn publish(&mut self, _now: Instant) {
        // Taken out so that it may look at the handler.
        if let Some(mut counters) = self.counters.take() {
            counters.publish(self);
            self.counters = Some(counters);
        }
    }

    fn on_close(&mut self) {
        if let Some(recorder) = &mut self.sinks.recorder
            && let Err(e) = recorder.flush()
        {
            self.failure.get_or_insert(e);
        }
    }
}
