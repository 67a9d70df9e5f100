//! What the live view shows: each counter with its rate, in the wanted order, of any number of engines.

use crate::page::{Before, Page};
use barewire_engine::{CounterKind, place};
use std::collections::HashMap;

/// In which order rows stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// By name.
    #[default]
    Name,
    /// The greatest first.
    Value,
    /// The fastest first.
    Rate,
}

impl Order {
    /// The one after it, round and round.
    pub fn next(self) -> Order {
        match self {
            Order::Name => Order::Value,
            Order::Value => Order::Rate,
            Order::Rate => Order::Name,
        }
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Order::Name => "name",
            Order::Value => "value",
            Order::Rate => "rate",
        }
    }
}

/// One counter, side by side for all engines.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its name on the page.
    pub name: String,
    /// How to read it.
    pub kind: CounterKind,
    /// Whether it counts what was dropped.
    pub drops: bool,
    /// What it counts; `None`: this build does not know.
    pub help: Option<&'static str>,
    /// Value, and growth per second, of each page; `None`: that page has no such counter.
    pub cells: Vec<Option<(u64, Option<f64>)>>,
}

impl Row {
    /// All values together.
    pub fn value(&self) -> u64 {
        self.cells.iter().flatten().fold(0, |sum, (value, _)| sum.saturating_add(*value))
    }

    /// All rates together.
    pub fn rate(&self) -> f64 {
        self.cells.iter().flatten().filter_map(|(_, rate)| *rate).sum()
    }

    /// Drops that happen now, or have happened.
    pub fn alarming(&self) -> bool {
        self.drops && self.value() > 0
    }
}

/// The looks at all pages, this time and the time before.
#[derive(Clone, Debug, Default)]
pub struct Board {
    pages: Vec<Page>,
    /// By page and process: a page of another process begins anew.
    before: HashMap<(String, u32), Before>,
}

impl Board {
    /// Takes a new look.
    pub fn update(&mut self, pages: Vec<Page>) {
        self.before = std::mem::replace(&mut self.pages, pages)
            .into_iter()
            .map(|page| ((page.name.clone(), page.pid), Before::of(page)))
            .collect();
    }

    /// The pages, in the order of the cells.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// The rows whose name has `filter` in it, zeros only when wanted.
    pub fn rows(&self, filter: &str, zeros: bool, order: Order) -> Vec<Row> {
        let mut at: HashMap<&str, usize> = HashMap::new();
        let mut rows: Vec<Row> = Vec::new();
        for (column, page) in self.pages.iter().enumerate() {
            let before = self.before.get(&(page.name.clone(), page.pid));
            for (name, kind, value) in page.counters.iter().filter(|(name, ..)| name.contains(filter)) {
                let index = *at.entry(name).or_insert_with(|| {
                    let family = place(name).map(|place| place.family);
                    rows.push(Row {
                        name: name.clone(),
                        kind: *kind,
                        drops: family.is_some_and(|family| family.counts_drops()),
                        help: family.map(|family| family.help),
                        cells: vec![None; self.pages.len()],
                    });
                    rows.len() - 1
                });
                let rate = before.and_then(|before| before.rate(page.at, name, *kind, *value));
                rows[index].cells[column] = Some((*value, rate));
            }
        }
        rows.retain(|row| zeros || row.value() > 0);
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        match order {
            Order::Name => {}
            Order::Value => rows.sort_by_key(|row| std::cmp::Reverse(row.value())),
            Order::Rate => rows.sort_by(|a, b| b.rate().total_cmp(&a.rate())),
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Instant;

    fn page(name: &str, pid: u32, at_s: u64, counters: &[(&str, CounterKind, u64)]) -> Page {
        Page {
            name: name.to_owned(),
            pid,
            alive: true,
            age_ns: 0,
            at: Instant::from_nanos(at_s * 1_000_000_000),
            counters: counters.iter().map(|&(name, kind, value)| (name.to_owned(), kind, value)).collect(),
            left_out: 0,
        }
    }

    #[test]
    fn engines_stand_side_by_side_with_their_own_rates() {
        use CounterKind::{Counter, Gauge};
        let mut board = Board::default();
        board.update(vec![page(
            "a",
            1,
            10,
            &[("port.rx_frames", Counter, 100), ("transport.flows", Gauge, 2)],
        )]);
        board.update(vec![
            page(
                "a",
                1,
                12,
                &[
                    ("port.rx_frames", Counter, 300),
                    ("transport.flows", Gauge, 3),
                    ("port.drop.bad_crc", Counter, 4),
                ],
            ),
            page("b", 9, 12, &[("port.rx_frames", Counter, 7), ("port.tx_full", Counter, 0)]),
        ]);
        let rows = board.rows("", false, Order::Name);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["port.drop.bad_crc", "port.rx_frames", "transport.flows"]);
        assert_eq!(rows[1].cells, [Some((300, Some(100.0))), Some((7, None))]);
        assert_eq!(rows[2].cells, [Some((3, None)), None]);
        // Between the same two looks, and no others.
        let (then, now) =
            (page("c", 1, 10, &[("x", Counter, 100), ("g", Gauge, 1), ("new", Counter, 9)]), 12);
        let before = Before::of(then);
        let at = Instant::from_nanos(now * 1_000_000_000);
        assert_eq!(before.rate(at, "x", Counter, 400), Some(150.0));
        for (name, kind, value) in [("g", Gauge, 3), ("new", Counter, 1), ("absent", Counter, 5)] {
            assert_eq!(before.rate(at, name, kind, value), None, "{name}");
        }
        assert!(rows[0].alarming() && !rows[1].alarming());
        assert_eq!(board.rows("", true, Order::Name).len(), 4);
        assert_eq!(board.rows("flows", true, Order::Name).len(), 1);
        assert_eq!(board.rows("", false, Order::Value)[0].value(), 307);
        assert_eq!(board.rows("", false, Order::Rate)[0].name, "port.rx_frames");
    }

    #[test]
    fn a_restarted_engine_has_no_rate_and_a_page_that_is_gone_leaves_nothing() {
        use CounterKind::Counter;
        let mut board = Board::default();
        board.update(vec![page("a", 1, 10, &[("port.rx_frames", Counter, 100)])]);
        board.update(vec![page("a", 2, 11, &[("port.rx_frames", Counter, 150)])]);
        assert_eq!(board.rows("", false, Order::Name)[0].cells, [Some((150, None))]);
        board.update(vec![page("a", 2, 12, &[("port.rx_frames", Counter, 50)])]);
        assert_eq!(board.rows("", false, Order::Name)[0].cells, [Some((50, None))]);
        board.update(vec![]);
        assert!(board.rows("", true, Order::Rate).is_empty() && board.pages().is_empty());
    }
}
