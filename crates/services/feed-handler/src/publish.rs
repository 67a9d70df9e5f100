//! A handler's counters on a page that `barewire stat` reads, and a handler run by an engine on the caller's thread.

use crate::FeedHandler;
use crate::source::Consumer;
use barewire_base::Instant;
use barewire_engine::{
    Agent, CounterKind, CounterSlot, CountersPage, Engine, EngineConfig, EngineError, EngineLinks,
    EngineSlots, PageError, StopFlag, counters_path,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::path::Path;
use std::rc::Rc;

/// Counters that a page has room for: some sixty a feed channel.
const CAPACITY: usize = 4096;

/// Where a handler's counters are published.
///
/// Names are `feed_channel.ID.NAME`, with `line_a.`, `line_b.` and `drop.` in front of the names of lines and reasons, and
/// `source.INDEX.NAME`.
pub struct FeedCounters {
    page: CountersPage,
    /// Slots are made when their counter is first seen, nearly all of them at the start; a counter that the page has no room for is
    /// left out.
    slots: HashMap<Key, Option<CounterSlot>>,
}

/// Of a channel or a source: which, and the two parts of the name.
type Key = (Owner, &'static str, &'static str);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    FeedChannel(u32),
    Source(usize),
}

impl FeedCounters {
    /// Makes the page of this name.
    ///
    /// # Errors
    /// [`PageError`]: the name, the folder.
    pub fn create(name: &str) -> Result<FeedCounters, PageError> {
        Ok(FeedCounters {
            page: CountersPage::create(counters_path(name)?, CAPACITY)?,
            slots: HashMap::new(),
        })
    }

    /// The page's file.
    pub fn path(&self) -> &Path {
        self.page.path()
    }

    /// Slots for the counters of the engine that runs the handler.
    pub fn engine_slots(&mut self, engine: &str) -> Option<EngineSlots> {
        EngineSlots::register(&mut self.page, engine).ok()
    }

    fn set(&mut self, key: Key, kind: CounterKind, value: u64) {
        let page = &mut self.page;
        let slot = self.slots.entry(key).or_insert_with(|| {
            let (owner, group, name) = key;
            let name = match owner {
                Owner::FeedChannel(id) => format!("feed_channel.{id}.{group}{name}"),
                Owner::Source(index) => format!("source.{index}.{group}{name}"),
            };
            page.register(&name, kind).ok()
        });
        if let Some(slot) = slot {
            slot.set(value);
        }
    }

    /// Copies everything that has been counted.
    pub(crate) fn publish<C: Consumer>(&mut self, handler: &FeedHandler<C>) {
        for channel in handler.channels() {
            let Some(id) = channel.feed_channel() else { continue };
            channel.counts(&mut |group, name, kind, value| {
                self.set((Owner::FeedChannel(id), group, name), kind, value);
            });
        }
        for (index, source) in handler.sources().iter().enumerate() {
            source.counts(&mut |name, value| {
                self.set((Owner::Source(index), "", name), CounterKind::Counter, value);
            });
        }
    }
}

/// A handler that an engine runs and that is wanted back.
struct SharedHandler<C>(Rc<RefCell<FeedHandler<C>>>, String);

impl<C: Consumer> Agent for SharedHandler<C> {
    fn name(&self) -> &str {
        &self.1
    }

    #[inline]
    fn do_work(&mut self, now: Instant) -> usize {
        self.0.borrow_mut().do_work(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.borrow().next_deadline()
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        self.0.borrow().wait_fds(add);
    }

    fn fds_generation(&self) -> u64 {
        self.0.borrow().fds_generation()
    }

    fn prepare_wait(&mut self) -> bool {
        self.0.borrow_mut().prepare_wait()
    }

    fn finish_wait(&mut self) {
        self.0.borrow_mut().finish_wait();
    }

    fn publish(&mut self, now: Instant) {
        self.0.borrow_mut().publish(now);
    }

    fn on_close(&mut self) {
        self.0.borrow_mut().on_close();
    }
}

impl<C: Consumer + 'static> FeedHandler<C> {
    /// Runs the handler in an engine on this thread until `stop` is raised, and gives it back: its books are still there to ask for. A
    /// source that failed meanwhile is told by [`failure`](Self::failure).
    ///
    /// # Errors
    /// [`EngineError`] when there can be no such engine.
    pub fn run(
        mut self,
        config: EngineConfig,
        mut links: EngineLinks,
        stop: &StopFlag,
    ) -> Result<FeedHandler<C>, EngineError> {
        if let Some(counters) = self.counters_mut() {
            links.slots = links.slots.or_else(|| counters.engine_slots(&config.name));
        }
        let mut engine = Engine::with_links(config, links)?;
        let name = engine.name().to_owned();
        let handler = Rc::new(RefCell::new(self));
        engine.add(Box::new(SharedHandler(Rc::clone(&handler), name)));
        engine.run(stop);
        drop(engine);
        match Rc::try_unwrap(handler) {
            Ok(handler) => Ok(handler.into_inner()),
            // The engine held the only other one.
            Err(_) => unreachable!("a dropped engine holds no agent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChannelPlan, FeedChannel, FeedType, Input, LineId, Packet, Plan, Side, SocketOptions};
    use barewire_engine::{CountersReader, IdleStrategy};
    use barewire_frame::Stamp;

    /// One channel without lines.
    fn plan() -> Plan {
        Plan {
            name: "feed".into(),
            idle: IdleStrategy::Yield,
            core: None,
            input: Input::Sockets(SocketOptions::default()),
            channels: vec![ChannelPlan::new(901, vec![])],
            record: None,
        }
    }

    /// A source whose descriptor has changed.
    struct Reopened;

    impl crate::Source for Reopened {
        fn name(&self) -> &str {
            "reopened"
        }

        fn poll(&mut self, _: Instant, _: &mut dyn Consumer) -> Result<usize, crate::SourceError> {
            Ok(0)
        }

        fn fds_generation(&self) -> u64 {
            7
        }

        fn counts(&self, _: &mut dyn FnMut(&'static str, u64)) {}
    }

    #[test]
    fn the_engine_hears_of_descriptors_that_have_changed() {
        let handler =
            FeedHandler::builder(plan()).sources(vec![Box::new(Reopened)]).listen(|_, _| ()).unwrap();
        let shared = SharedHandler(Rc::new(RefCell::new(handler)), "feed".to_owned());
        assert_eq!(Agent::fds_generation(&shared), 7);
    }

    #[test]
    fn what_is_counted_is_on_the_page_and_the_handler_comes_back() {
        let name = format!("feed-test-{}", std::process::id());
        let counters = FeedCounters::create(&name).unwrap();
        let path = counters.path().to_owned();
        let plan = plan();
        let mut handler = FeedHandler::builder(plan.clone())
            .sources(vec![])
            .publish_to(counters)
            .listen(|_, _| ())
            .unwrap();
        let line = LineId { channel: 0, feed: FeedType::Incremental, side: Side::A };
        let now = barewire_engine::now();
        handler.inject(now, &Packet { line, stamp: Stamp::engine(now), payload: b"short", frame: None });
        let stop = StopFlag::new().unwrap();
        stop.stop();
        let handler: FeedHandler<FeedChannel<()>> =
            handler.run(plan.engine_config(), EngineLinks::default(), &stop).unwrap();
        assert_eq!(handler.channels()[0].core().counters().drops().count(), 1);
        let mut reader = CountersReader::open(&path).unwrap();
        let read: HashMap<String, u64> =
            reader.read().unwrap().map(|(name, _, value)| (name.to_owned(), value)).collect();
        assert_eq!(read["feed_channel.901.drop.short_packet"], 1);
        assert_eq!(read["feed_channel.901.line_a.packets"], 1);
        assert_eq!(read["feed_channel.901.packets"], 0);
        for name in read.keys() {
            assert!(barewire_engine::place(name).is_some(), "{name} has no help text");
        }
        drop(handler);
        assert!(!path.exists(), "the page goes with its handler");
    }
}
