//! Digest lists that wait for their acknowledgement.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// Lists that may wait; what comes on top is taken as acknowledged.
const MAX_WAITING: usize = 65_536;

/// A list of digests at the switch: the digest's number there, and the list's.
pub type List = (u32, u64);

/// Digest lists that wait for their acknowledgement by a controller, and those that wait until the switch can be told of it.
#[derive(Debug, Default)]
pub struct Acks {
    /// The switch's number of the digest, and when waiting ends (microseconds of the switch's clock), by P4Info's id and the list's
    /// number.
    waiting: HashMap<(u32, u64), (u32, u64)>,
    /// The same by time.
    by_time: BTreeSet<(u64, u32, u64)>,
    /// Nobody is waited for any more, but the switch has not been told.
    overdue: VecDeque<List>,
}

impl Acks {
    /// A list was sent. False when it cannot wait.
    pub fn wait(&mut self, digest: u32, list: u64, number: u32, until_us: u64) -> bool {
        if self.waiting.len() >= MAX_WAITING || self.waiting.contains_key(&(digest, list)) {
            return false;
        }
        self.waiting.insert((digest, list), (number, until_us));
        self.by_time.insert((until_us, digest, list));
        true
    }

    /// A list was acknowledged: the switch's number of its digest.
    pub fn take(&mut self, digest: u32, list: u64) -> Option<u32> {
        let (number, until_us) = self.waiting.remove(&(digest, list))?;
        self.by_time.remove(&(until_us, digest, list));
        Some(number)
    }

    /// The switch is to be told that a list is acknowledged: the same data may be learned again.
    pub fn acknowledge(&mut self, list: List) {
        // The switch itself gives up the oldest of more than that.
        if self.overdue.len() < 2 * MAX_WAITING {
            self.overdue.push_back(list);
        }
    }

    /// A list of which the switch is to be told now, if there is one: one that is acknowledged, or whose time is over.
    pub fn next_overdue(&mut self, now_us: u64) -> Option<List> {
        if let Some(list) = self.overdue.pop_front() {
            return Some(list);
        }
        let &(until_us, digest, list) = self.by_time.first()?;
        if until_us > now_us {
            return None;
        }
        let number = self.take(digest, list)?;
        Some((number, list))
    }

    /// The switch could not be told of it now.
    pub fn put_back(&mut self, list: List) {
        self.overdue.push_front(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_wait_until_their_time_is_over() {
        let mut acks = Acks::default();
        assert!(acks.wait(1, 10, 3, 100) && !acks.wait(1, 10, 3, 900), "it waits already");
        assert!(acks.wait(1, 11, 3, 200));
        assert!(acks.wait(2, 10, 4, 90));
        assert_eq!(acks.take(1, 12), None);
        assert_eq!(acks.next_overdue(89), None);
        assert_eq!(acks.next_overdue(150), Some((4, 10)), "the first is the first");
        assert_eq!(acks.next_overdue(150), Some((3, 10)));
        assert_eq!(acks.next_overdue(150), None);
        assert_eq!(acks.take(1, 11), Some(3));
        assert_eq!(acks.next_overdue(1_000), None);
        assert!(acks.waiting.is_empty() && acks.by_time.is_empty());
    }

    #[test]
    fn what_the_switch_could_not_be_told_is_told_later() {
        let mut acks = Acks::default();
        assert!(acks.wait(1, 10, 3, 100));
        acks.acknowledge((7, 1));
        let first = acks.next_overdue(0).unwrap();
        assert_eq!(first, (7, 1));
        acks.put_back(first);
        assert_eq!(acks.next_overdue(200), Some((7, 1)));
        let over = acks.next_overdue(200).unwrap();
        acks.put_back(over);
        assert_eq!((acks.next_overdue(0), acks.next_overdue(0)), (Some((3, 10)), None));
    }

    #[test]
    fn acknowledgements_go_by_a_model() {
        let seed = 0xac5;
        let mut random = barewire_base::Prng::new(seed);
        let mut acks = Acks::default();
        let mut model: HashMap<(u32, u64), u64> = HashMap::new();
        let mut now = 0;
        for step in 0..20_000 {
            now += random.below(3);
            let key = (random.below(3) as u32, random.below(20));
            match random.below(3) {
                0 => {
                    let until = now + random.below(50);
                    let fresh = !model.contains_key(&key);
                    assert_eq!(acks.wait(key.0, key.1, key.0 + 10, until), fresh, "seed {seed}, step {step}");
                    model.entry(key).or_insert(until);
                }
                1 => {
                    let there = model.remove(&key).map(|_| key.0 + 10);
                    assert_eq!(acks.take(key.0, key.1), there, "seed {seed}, step {step}");
                }
                _ => {
                    while let Some((number, list)) = acks.next_overdue(now) {
                        let until = model.remove(&(number - 10, list));
                        assert!(until.is_some_and(|until| until <= now), "seed {seed}, step {step}");
                    }
                    assert!(model.values().all(|&until| until > now), "seed {seed}, step {step}");
                }
            }
        }
    }
}
