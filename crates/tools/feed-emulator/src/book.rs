//! From what was published to what is: the entries that turn one side of a book into another.

use barewire_base::Prng;
use serde::{Deserialize, Serialize};

/// One price level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Level {
    /// The price in units of 10^-9.
    pub price_e9: i64,
    /// Quantity at the price.
    pub quantity: u64,
    /// Orders at the price; `None` of implied levels.
    pub orders: Option<u32>,
}

/// What an entry does to a side (`MDUpdateAction`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    New,
    Change,
    Delete,
    /// Clears the side.
    DeleteThru,
    /// Removes the levels from the first to this one.
    DeleteFrom,
    Overlay,
}

/// One entry about one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edit {
    pub action: Action,
    /// From one.
    pub level: u8,
    /// What stands there; of deletions what stood there.
    pub value: Level,
}

/// The edits that turn `from` into `to`, in order. Both are sorted, best first, and have a price once. Which of several ways
/// is taken is drawn: a receiver must know them all.
pub(crate) fn edits(from: &[Level], to: &[Level], prng: &mut Prng, out: &mut Vec<Edit>) {
    let mut now: Vec<Level> = from.to_vec();
    let stays = |level: &Level| to.iter().any(|other| other.price_e9 == level.price_e9);
    if to.is_empty()
        && let Some(first) = now.first()
        && prng.chance(0.5)
    {
        out.push(Edit { action: Action::DeleteThru, level: 1, value: *first });
        return;
    }
    let gone = now.iter().take_while(|level| !stays(level)).count();
    if gone >= 2 && gone < now.len() && prng.chance(0.5) {
        out.push(Edit { action: Action::DeleteFrom, level: gone as u8, value: now[gone - 1] });
        now.drain(..gone);
    }
    if now.len() == to.len() && prng.chance(0.3) {
        // Level by level, when what is in between stays in order: a price may be overlaid by another that fits its place.
        for (index, (is, wanted)) in now.iter_mut().zip(to).enumerate() {
            if is != wanted {
                let action = if is.price_e9 == wanted.price_e9 { Action::Change } else { Action::Overlay };
                out.push(Edit { action, level: index as u8 + 1, value: *wanted });
                *is = *wanted;
            }
        }
        return;
    }
    for index in (0..now.len()).rev() {
        if !stays(&now[index]) {
            out.push(Edit { action: Action::Delete, level: index as u8 + 1, value: now[index] });
            now.remove(index);
        }
    }
    for (index, wanted) in to.iter().enumerate() {
        let level = index as u8 + 1;
        match now.get(index) {
            Some(is) if is == wanted => {}
            Some(is) if is.price_e9 == wanted.price_e9 => {
                out.push(Edit { action: Action::Change, level, value: *wanted });
                now[index] = *wanted;
            }
            _ => {
                out.push(Edit { action: Action::New, level, value: *wanted });
                now.insert(index, *wanted);
            }
        }
    }
}

/// A number for a book's two sides: equal books have equal numbers. For comparing states with a history of them.
pub fn book_hash(bids: &[Level], offers: &[Level]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^= hash >> 29;
    };
    for side in [bids, offers] {
        mix(side.len() as u64);
        for level in side {
            mix(level.price_e9 as u64);
            mix(level.quantity);
            mix(level.orders.map_or(u64::MAX, u64::from));
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a receiver does with an entry.
    fn apply(side: &mut Vec<Level>, edit: &Edit) {
        let index = usize::from(edit.level) - 1;
        match edit.action {
            Action::New => side.insert(index, edit.value),
            Action::Change => {
                assert_eq!(side[index].price_e9, edit.value.price_e9);
                side[index] = edit.value;
            }
            Action::Overlay => side[index] = edit.value,
            Action::Delete => {
                assert_eq!(side.remove(index).price_e9, edit.value.price_e9);
            }
            Action::DeleteThru => side.clear(),
            Action::DeleteFrom => {
                assert_eq!(side[index].price_e9, edit.value.price_e9);
                side.drain(..=index);
            }
        }
    }

    fn side(prng: &mut Prng) -> Vec<Level> {
        let mut prices: Vec<i64> = (0..prng.below(11)).map(|_| prng.below(16) as i64).collect();
        prices.sort_unstable();
        prices.dedup();
        let level = |price_e9| Level { price_e9, quantity: 1, orders: Some(1) };
        let mut levels: Vec<Level> = prices.into_iter().map(level).collect();
        for level in &mut levels {
            level.quantity += prng.below(3);
        }
        levels
    }

    #[test]
    fn edits_lead_from_any_side_to_any_other() {
        let seed = 0xfeed_0002;
        let mut prng = Prng::new(seed);
        let mut seen = [0u32; 6];
        for round in 0..20_000 {
            let (from, to) = (side(&mut prng), side(&mut prng));
            let mut out = Vec::new();
            edits(&from, &to, &mut prng, &mut out);
            let mut now = from.clone();
            for edit in &out {
                apply(&mut now, edit);
                assert!(now.len() <= 10, "seed {seed} round {round}: {from:?} {to:?} {out:?}");
                seen[edit.action as usize] += 1;
            }
            assert_eq!(now, to, "seed {seed} round {round}: {from:?} {out:?}");
            assert_eq!(
                book_hash(&now, &[]) == book_hash(&from, &[]),
                now == from,
                "seed {seed} round {round}"
            );
        }
        assert!(seen.iter().all(|count| *count > 100), "each action is used: {seen:?}");
    }
}
