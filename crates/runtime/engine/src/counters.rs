//! What an engine counts about itself.

use crate::{CounterKind, CounterSlot, CountersPage, RegisterError};
use barewire_base::Counter;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident: $kind:ident,)*) => {
        /// Counts of one engine. The engine writes them, anybody reads.
        #[derive(Debug, Default)]
        #[non_exhaustive]
        pub struct EngineCounters { $($(#[doc = $doc])* pub $name: Counter,)* }

        impl EngineCounters {
            /// What each counter counts: its name, its kind and a sentence.
            pub(crate) const HELP: &'static [(&'static str, CounterKind, &'static str)] =
                &[$((stringify!($name), CounterKind::$kind, concat!($($doc),*)),)*];
            const ALL: &'static [(&'static str, CounterKind)] = &[$((stringify!($name), CounterKind::$kind),)*];

            fn get(&self) -> [u64; Self::ALL.len()] {
                [$(self.$name.get(),)*]
            }
        }
    };
}

counters! {
    /// Duty cycles begun.
    cycles: Counter,
    /// Duty cycles in which some agent had work.
    busy_cycles: Counter,
    /// Items of work that the agents reported.
    work_items: Counter,
    /// Times that the engine slept.
    parks: Counter,
    /// Sleeps that a descriptor or a waker ended; deadlines ended the others, also those that had moved on meanwhile.
    wakes: Counter,
    /// Of those, sleeps after which no agent had work at once. Many of them: a descriptor stays readable without cause.
    empty_wakes: Counter,
    /// Times that the engine wanted to sleep but was called, or an agent had work or refused.
    refused_parks: Counter,
    /// How long the longest cycle took, from its start to the start of the next one or to sleep: how late the engine
    /// may look at a port. Sleep is not counted, giving way to other threads is.
    max_cycle_ns: Gauge,
    /// Cycles longer than a millisecond.
    slow_cycles: Counter,
    /// Descriptors that the kernel refused to watch. While there are any, sleeps are short.
    unwatched_fds: Gauge,
}

impl EngineCounters {
    /// Each counter's name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::ALL.iter().map(|&(name, _)| name).zip(self.get())
    }

    /// Counts one cycle's length.
    #[inline]
    pub(crate) fn track_cycle(&self, length_ns: u64) {
        if length_ns > self.max_cycle_ns.get() {
            self.max_cycle_ns.set(length_ns);
        }
        if length_ns > crate::SLOW_CYCLE.as_nanos() {
            self.slow_cycles.add(1);
        }
    }
}

/// The places of an engine's counters on the shared page. Made where the page is, given to the engine with
/// [`EngineLinks`](crate::EngineLinks).
#[derive(Debug)]
pub struct EngineSlots(Vec<CounterSlot>);

impl EngineSlots {
    /// Registers `engine.NAME.cycles` and its siblings.
    ///
    /// # Errors
    /// As [`CountersPage::register`]; then none of them is registered.
    pub fn register(page: &mut CountersPage, engine: &str) -> Result<EngineSlots, RegisterError> {
        let slot =
            |(name, kind): &(&str, CounterKind)| page.register(&format!("engine.{engine}.{name}"), *kind);
        EngineCounters::ALL.iter().map(slot).collect::<Result<_, _>>().map(EngineSlots)
    }

    pub(crate) fn publish(&self, counters: &EngineCounters) {
        for (slot, value) in self.0.iter().zip(counters.get()) {
            slot.set(value);
        }
    }
}
