//! The switch's counters on a page that `barewire stat` reads.

use crate::plane::Plane;
use crate::server::{MakePublisher, Publisher};
use barewire_base::Instant;
use barewire_engine::{CounterKind, CounterSlot, CountersPage, PageError, counters_path};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Counters the page has room for: a dozen a port.
const CAPACITY: usize = 4096;

/// Make a page of this name; gives its path, and what publishes each engine's counters.
///
/// # Errors
/// [`PageError`]: the name, the folder.
pub fn counters_page(name: &str) -> Result<(PathBuf, MakePublisher), PageError> {
    let page = CountersPage::create(counters_path(name)?, CAPACITY)?;
    let path = page.path().to_owned();
    let page = Arc::new(Mutex::new(page));
    let make = move |index: usize| -> Publisher {
        let mut slots = Slots { page: Arc::clone(&page), engine: index, slots: HashMap::new() };
        Box::new(move |plane: &Plane, _now: Instant| slots.publish(plane))
    };
    Ok((path, Arc::new(make)))
}

struct Slots {
    page: Arc<Mutex<CountersPage>>,
    engine: usize,
    /// Slots are made when their counter is first seen; a counter the page has no room for is left out.
    slots: HashMap<String, Option<CounterSlot>>,
}

impl Slots {
    fn set(&mut self, name: String, value: u64) {
        let (page, engine) = (&self.page, self.engine);
        let slot = self.slots.entry(name).or_insert_with_key(|name| {
            let full = format!("switch{engine}.{name}");
            let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
            page.register(&full, CounterKind::Counter).ok()
        });
        if let Some(slot) = slot {
            slot.set(value);
        }
    }

    fn publish(&mut self, plane: &Plane) {
        for slot in plane.ports.slots() {
            let (number, counters) = (slot.number(), slot.port().counters());
            for (name, value) in [
                ("rx_frames", counters.rx_frames.get()),
                ("rx_bytes", counters.rx_bytes.get()),
                ("tx_frames", counters.tx_frames.get()),
                ("tx_bytes", counters.tx_bytes.get()),
                ("syscalls", counters.syscalls.get()),
                ("rx_dropped", counters.drops.total()),
                ("tx_dropped", slot.tx_dropped()),
            ] {
                self.set(format!("port{number}.{name}"), value);
            }
        }
        let mut drops: BTreeMap<&str, u64> = BTreeMap::new();
        for (reason, count) in plane.all_drops().filter(|(_, count)| *count > 0) {
            *drops.entry(reason.as_str()).or_default() += count;
        }
        for (reason, count) in drops {
            self.set(format!("drop.{reason}"), count);
        }
    }
}
