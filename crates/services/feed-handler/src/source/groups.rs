//! Which group is which line: a datagram's destination, looked up.

use crate::plan::ChannelPlan;
use crate::{LineId, Side};
use barewire_base::DropReason;
use std::net::{IpAddr, SocketAddr};

/// Which group is which line.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    entries: Vec<Entry>,
    /// Indices of `entries` plus one, by hash, with open addressing; zero: free.
    table: Vec<u16>,
}

#[derive(Debug)]
struct Entry {
    to: SocketAddr,
    line: LineId,
    sources: Vec<IpAddr>,
}

impl Groups {
    /// The lines of these sides of all channels.
    pub(crate) fn new(channels: &[ChannelPlan], sides: &[Side], source_filter: bool) -> Groups {
        let mut entries = Vec::new();
        for (index, channel) in channels.iter().enumerate() {
            for connection in channel.received().filter(|c| sides.contains(&c.side)) {
                entries.push(Entry {
                    to: connection.to,
                    line: LineId { channel: index as u16, feed: connection.feed, side: connection.side },
                    sources: if source_filter { connection.sources.clone() } else { Vec::new() },
                });
            }
        }
        let slots = (entries.len() * 2 + 1).next_power_of_two();
        let mut table = vec![0u16; slots];
        for (index, entry) in entries.iter().enumerate() {
            let mut slot = hash(entry.to) & (slots - 1);
            while table[slot] != 0 {
                slot = (slot + 1) & (slots - 1);
            }
            table[slot] = index as u16 + 1;
        }
        Groups { entries, table }
    }

    /// The line of a datagram, or why it is nobody's.
    #[inline]
    pub(crate) fn find(&self, src: IpAddr, to: SocketAddr) -> Result<LineId, DropReason> {
        let mask = self.table.len().wrapping_sub(1);
        let mut slot = hash(to) & mask;
        while let Some(index) = self.table.get(slot).copied().filter(|index| *index != 0) {
            let entry = &self.entries[usize::from(index) - 1];
            if entry.to == to {
                let known = entry.sources.is_empty() || entry.sources.contains(&src);
                return if known { Ok(entry.line) } else { Err(DropReason::WrongPeer) };
            }
            slot = (slot + 1) & mask;
        }
        Err(DropReason::NoListener)
    }

    /// Every line.
    pub(crate) fn lines(&self) -> impl Iterator<Item = LineId> + '_ {
        self.entries.iter().map(|entry| entry.line)
    }

    /// Each group once, with its senders.
    pub(crate) fn to_join(&self) -> Vec<(IpAddr, Vec<IpAddr>)> {
        let mut groups: Vec<(IpAddr, Vec<IpAddr>)> = Vec::new();
        for entry in &self.entries {
            let group = entry.to.ip();
            match groups.iter_mut().find(|(other, _)| *other == group) {
                None => groups.push((group, entry.sources.clone())),
                // Two lines of one group: what either wants is let in.
                Some((_, sources)) if sources.is_empty() || entry.sources.is_empty() => sources.clear(),
                Some((_, sources)) => {
                    sources.extend(&entry.sources);
                    sources.sort_unstable();
                    sources.dedup();
                }
            }
        }
        groups
    }
}

/// Groups of one exchange differ in their last bits, and their ports too.
#[inline]
fn hash(to: SocketAddr) -> usize {
    let ip = match to.ip() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits() as u64,
    };
    let mixed = (ip << 16 ^ u64::from(to.port())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, FeedType};

    fn line(feed: FeedType, side: Side, to: &str, sources: &[&str]) -> Connection {
        let sources = sources.iter().map(|s| s.parse().unwrap()).collect();
        Connection { id: String::new(), feed, side, to: to.parse().unwrap(), sources }
    }

    #[test]
    fn groups_find_their_lines_and_nobody_elses() {
        let many: Vec<ChannelPlan> = (0..100u16)
            .map(|i| {
                let lines = vec![
                    line(FeedType::Incremental, Side::A, &format!("239.1.{i}.1:14310"), &["10.0.0.1"]),
                    line(FeedType::Incremental, Side::B, &format!("239.2.{i}.1:14310"), &[]),
                    line(FeedType::Snapshot, Side::A, &format!("[ff15::{i}]:15310"), &[]),
                ];
                ChannelPlan::new(u32::from(i), lines)
            })
            .collect();
        let groups = Groups::new(&many, &[Side::A, Side::B], true);
        let known: IpAddr = "10.0.0.1".parse().unwrap();
        let stranger: IpAddr = "10.0.0.2".parse().unwrap();
        for i in 0..100u16 {
            let a = format!("239.1.{i}.1:14310").parse().unwrap();
            let expected = LineId { channel: i, feed: FeedType::Incremental, side: Side::A };
            assert_eq!(groups.find(known, a), Ok(expected));
            assert_eq!(groups.find(stranger, a), Err(DropReason::WrongPeer));
            let b = format!("239.2.{i}.1:14310").parse().unwrap();
            assert_eq!(groups.find(stranger, b).unwrap().side, Side::B);
            let s = format!("[ff15::{i}]:15310").parse().unwrap();
            assert_eq!(groups.find(stranger, s).unwrap().feed, FeedType::Snapshot);
            let other_port = format!("239.1.{i}.1:14311").parse().unwrap();
            assert_eq!(groups.find(known, other_port), Err(DropReason::NoListener));
        }
        assert_eq!(groups.to_join().len(), 300);
        let only_b = Groups::new(&many, &[Side::B], true);
        assert_eq!(only_b.find(known, "239.1.7.1:14310".parse().unwrap()), Err(DropReason::NoListener));
        assert_eq!(
            Groups::default().find(known, "239.1.7.1:1".parse().unwrap()),
            Err(DropReason::NoListener)
        );
    }
}
