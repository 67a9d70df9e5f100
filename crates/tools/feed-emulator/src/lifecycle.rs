//! What begins and ends: weeks of the exchange, and instruments in the middle of them.

use super::Emulator;
use super::config::EMULATED_INSTRUMENTS_MAX;
use super::definition;
use super::encode::Planned;
use super::market::Instrument;
use barewire_base::{Duration, Instant};
use barewire_sbe::Price9;
use barewire_sbe::mdp3::SecurityUpdateAction;

/// Share of an instrument's books that go over into the next week: all of its orders are good till cancelled.
const KEPT_OVER_WEEKENDS: f64 = 0.6;

impl Emulator {
    /// The week ends: what is pending is published, then nothing happens before the next week.
    pub(super) fn end_week(&mut self, at: Instant) {
        self.publish(at);
        let begin = at + self.config.weekend;
        self.week_begins = Some(begin);
        self.next_event = self.next_event.max(begin);
        self.next_change = self.next_change.max(begin);
        if self.next_publication != Instant::FAR_FUTURE {
            self.next_publication = self.next_publication.max(begin);
        }
    }

    /// MsgSeqNum and RptSeq begin again, without a word about it; books are empty but for orders that are good till cancelled,
    /// and these are published at once.
    pub(super) fn begin_week(&mut self, at: Instant) {
        self.week_begins = None;
        self.counts.weeks += 1;
        self.seq_num = 0;
        for index in 0..self.instruments.len() {
            if !self.instruments[index].listed {
                continue;
            }
            let kept = self.prng.chance(KEPT_OVER_WEEKENDS);
            let instrument = &mut self.instruments[index];
            instrument.reset();
            if !kept {
                instrument.clear_orders();
            }
            self.remember(index);
            self.touch(index);
        }
        self.restart_snapshots();
        self.publish(at);
    }

    pub(super) fn change_gap(&mut self) -> Duration {
        match u64::from(self.config.definition_changes_per_s) {
            0 => Duration::MAX,
            rate => Duration::from_nanos(1 + self.changes.below(2_000_000_000 / rate)),
        }
    }

    /// An instrument is added, modified or deleted. Not conflated: it flushes what is queued.
    pub(super) fn change_definition(&mut self, at: Instant) {
        self.publish(at);
        match self.changes.below(10) {
            0..4 => self.list(at),
            4..7 => {
                let index = self.draw_listed();
                let instrument = &mut self.instruments[index];
                let factors = [Price9::ONE, Price9::ONE / 100, Price9::ONE / 10_000];
                instrument.definition.display_factor_e9 = factors[self.changes.below(3) as usize];
                self.say(at, index, SecurityUpdateAction::MODIFY);
            }
            _ => self.delist(at),
        }
    }

    fn draw_listed(&mut self) -> usize {
        let from = self.changes.below(self.instruments.len() as u64) as usize;
        self.listed_from(from)
    }

    /// A new instrument, or another one by the id of one that is gone.
    fn list(&mut self, at: Instant) {
        let gone: Vec<usize> =
            (0..self.instruments.len()).filter(|&index| !self.instruments[index].listed).collect();
        let end = self.instruments.len();
        let again = !gone.is_empty() && self.changes.chance(0.4);
        let index = if again { gone[self.changes.below(gone.len() as u64) as usize] } else { end };
        let id = i64::from(self.config.first_security_id) + index as i64;
        if index >= EMULATED_INSTRUMENTS_MAX as usize || id >= i64::from(i32::MAX) {
            return;
        }
        let listing = if again { self.instruments[index].listing + 1 } else { 0 };
        let mut new =
            Instrument::new(&self.config, index as u32, listing, &self.instruments, &mut self.changes);
        // Some are traded at once, some are not before somebody sends an order.
        if self.changes.chance(0.6) {
            new.fill(&mut self.changes, &mut self.numbers);
        }
        if again {
            self.instruments[index] = new;
        } else {
            self.instruments.push(new);
        }
        self.counts.listed += 1;
        self.remember(index);
        self.say(at, index, SecurityUpdateAction::ADD);
        self.touch(index);
        if self.config.conflation == Duration::ZERO {
            self.publish(at);
        }
    }

    fn delist(&mut self, at: Instant) {
        // One is left, so that there is a market.
        if self.listed_count() < 2 {
            return;
        }
        let index = self.draw_listed();
        self.instruments[index].delist();
        self.counts.delisted += 1;
        self.say(at, index, SecurityUpdateAction::DELETE);
    }

    /// Tells of a definition on the incremental feed.
    fn say(&mut self, at: Instant, index: usize, action: SecurityUpdateAction) {
        self.instruments[index].defined_ns = self.time_ns(at);
        let reports = self.listed_count();
        let Ok(message) = definition::encode(&self.instruments[index], action, &self.config, reports) else {
            debug_assert!(false, "a definition that does not fit");
            return;
        };
        self.send_event(at, vec![Planned::Definition { message }]);
    }
}
