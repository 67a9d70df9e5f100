//! A server's counters on a page that `barewire stat` reads.

use barewire_base::{DropReason, Duration, Instant};
use barewire_engine::{CounterKind, CounterSlot, CountersPage, PageError, counters_path};
use barewire_verbs::Device;

/// Between two copies.
pub(super) const EVERY: Duration = Duration::from_millis(100);
/// Counters that the page has room for.
const CAPACITY: usize = 512;

/// The page, and its slots in the order of [`values`].
pub(super) struct Published {
    /// Removed when it is dropped.
    _page: CountersPage,
    slots: Vec<Option<CounterSlot>>,
    next: Instant,
}

fn values(device: &Device, say: &mut dyn FnMut(&str, &str, CounterKind, u64)) {
    use CounterKind::{Counter, Gauge};
    let stack = device.stack();
    let port = stack.port().counters();
    for (name, value) in port.iter() {
        say("port", name, Counter, value);
    }
    let endpoint = stack.endpoint();
    for (name, value) in endpoint.counters().iter() {
        say("rdma", name, Counter, value);
    }
    say("rdma", "queue_pairs", Gauge, endpoint.live_qps() as u64);
    say("rdma", "open_connections", Gauge, endpoint.connections() as u64);
    say("stack", "looped", Counter, stack.counters().looped.get());
    for (group, drops) in [
        ("port.drop", &port.drops),
        ("host.drop", &stack.host().counters().drops),
        ("stack.drop", &stack.counters().drops),
        ("rdma.drop", &endpoint.counters().drops),
    ] {
        for &reason in DropReason::ALL {
            say(group, reason.as_str(), Counter, drops.get(reason));
        }
    }
}

impl Published {
    /// Makes the page of this name.
    pub(super) fn create(name: &str, device: &Device) -> Result<Published, PageError> {
        let mut page = CountersPage::create(counters_path(name)?, CAPACITY)?;
        let mut slots = Vec::new();
        values(device, &mut |group, name, kind, _| {
            slots.push(page.register(&format!("{group}.{name}"), kind).ok())
        });
        Ok(Published { _page: page, slots, next: Instant::ZERO })
    }

    /// Copies what was counted, when it is time.
    pub(super) fn publish(&mut self, device: &Device) {
        if device.now() < self.next {
            return;
        }
        self.next = device.now() + EVERY;
        let mut slots = self.slots.iter();
        values(device, &mut |_, _, _, value| {
            if let Some(Some(slot)) = slots.next() {
                slot.set(value);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_engine::{CountersReader, place};
    use barewire_verbs::DeviceConfig;

    #[test]
    fn every_counter_of_a_server_is_on_the_page_and_in_the_registry() {
        let name = format!("rc-test-{}", std::process::id());
        let device =
            Device::open(&DeviceConfig::new(&format!("mem:{name}"), "10.1.0.1".parse().unwrap())).unwrap();
        let mut published = Published::create(&name, &device).unwrap();
        published.publish(&device);
        let mut reader = CountersReader::find(&name).unwrap();
        let names: Vec<String> = reader.read().unwrap().map(|(name, ..)| name.to_owned()).collect();
        assert!(names.len() > 4 * DropReason::COUNT && published.slots.iter().all(Option::is_some));
        for name in names {
            assert!(place(&name).is_some(), "{name}");
        }
    }
}
