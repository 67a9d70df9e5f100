//! What an emulated feed channel is like.

use barewire_base::Duration;

/// Instruments of one emulated channel, at most.
pub const EMULATED_INSTRUMENTS_MAX: u32 = 10_000;

/// What TotNumReports of the snapshot loops counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TotalReports {
    /// The messages of the loop, as the exchange's own words have it.
    #[default]
    Messages,
    /// The instruments of the loop.
    Instruments,
}

/// What happens to the packets of one line on their way. Each line draws its own fate.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LineFaults {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet is held back by `reorder_delay`, so that later ones pass it.
    pub reorder: f64,
    /// How long such a packet is held back.
    pub reorder_delay: Duration,
    /// How long every packet takes.
    pub delay: Duration,
    /// How much longer a packet takes at most, evenly spread. More than the gap between packets reorders.
    pub jitter: Duration,
}

/// What an emulated feed channel is like. The same configuration gives the same packets, byte by byte.
#[derive(Clone, PartialEq, Debug)]
pub struct EmulatorConfig {
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// The exchange's number of the channel.
    pub channel_id: u16,
    /// How many instruments there are.
    pub instruments: u32,
    /// The first instrument's SecurityID; the others follow.
    pub first_security_id: i32,
    /// Price levels of each side that are published, 1 to 10.
    pub depth: u8,
    /// Share of the instruments that have long quantities (templates 64 to 69, FX definitions).
    pub long_quantity_share: f64,
    /// Share of the instruments whose top orders are published (MBOLD, templates 53 and 59).
    pub top_orders_share: f64,
    /// Every order of every instrument is published (template 47), and whole books by order have a loop of their own (template 53, the
    /// feed `SMBO`), as on channels that are not conflated. Then no instrument has top orders.
    pub every_order: bool,
    /// Share of the instruments that are options (template 55), each on a future. Those of long quantities are FX before all
    /// else, and what is none of these is a future (template 54).
    pub option_share: f64,
    /// Share of the instruments that are spreads (template 56), of two futures or more.
    pub spread_share: f64,
    /// Share of the instruments that are fixed income (template 57).
    pub fixed_income_share: f64,
    /// Share of the instruments that have implied books.
    pub implied_share: f64,
    /// Books are full when the emulation begins, as they would be in the middle of a day; else it begins like a week, with
    /// empty ones and MsgSeqNum 1.
    pub prefill: bool,
    /// Market events a second over all instruments, on average.
    pub events_per_s: u32,
    /// How long the market lives. Then the loops and heartbeats go on.
    pub active: Duration,
    /// Changes within this time are published together; zero: each at once.
    pub conflation: Duration,
    /// Instruments that one event may concern, at most.
    pub event_instruments_max: u8,
    /// Silence on the incremental feed after which a heartbeat is sent.
    pub heartbeat: Duration,
    /// Time between two packets of the instrument definition loop.
    pub definition_gap: Duration,
    /// Time between two packets of the snapshot loop.
    pub snapshot_gap: Duration,
    /// Times after the start at which the channel is reset.
    pub resets: Vec<Duration>,
    /// Times after the start at which a week ends. Those whose next week would begin after the market's end are left out.
    pub weekly_resets: Vec<Duration>,
    /// From the end of a week to the beginning of the next, when MsgSeqNum and RptSeq begin at 1 and books are empty.
    pub weekend: Duration,
    /// Instruments added, modified and deleted on the incremental feed a second, on average.
    pub definition_changes_per_s: u32,
    /// Largest UDP payload.
    pub packet_bytes_max: usize,
    /// What the snapshot loops say that there is.
    pub total_reports: TotalReports,
    /// Entries of one message of template 53; fewer than 20 cut it into chunks. As many chunks as when the round began are kept to.
    pub chunk_entries: usize,
    /// SendingTime of the first moment, in nanoseconds since 1970.
    pub epoch_ns: u64,
    /// What happens on the A lines.
    pub faults_a: LineFaults,
    /// What happens on the B lines.
    pub faults_b: LineFaults,
    /// Remember every state that a book had at the end of an event, for tests.
    pub history: bool,
}

impl Default for EmulatorConfig {
    fn default() -> Self {
        EmulatorConfig {
            seed: 1,
            channel_id: 901,
            instruments: 20,
            first_security_id: 1000,
            depth: 10,
            long_quantity_share: 0.25,
            top_orders_share: 0.5,
            every_order: false,
            option_share: 0.1,
            spread_share: 0.1,
            fixed_income_share: 0.1,
            implied_share: 0.25,
            prefill: true,
            events_per_s: 1000,
            active: Duration::from_secs(10),
            conflation: Duration::from_millis(50),
            event_instruments_max: 4,
            heartbeat: Duration::from_secs(30),
            definition_gap: Duration::from_millis(5),
            snapshot_gap: Duration::from_millis(5),
            resets: Vec::new(),
            weekly_resets: Vec::new(),
            weekend: Duration::from_millis(100),
            definition_changes_per_s: 0,
            packet_bytes_max: 1400,
            total_reports: TotalReports::Messages,
            chunk_entries: 20,
            // 2026-01-05 00:00 UTC, a Monday.
            epoch_ns: 1_767_571_200_000_000_000,
            faults_a: LineFaults::default(),
            faults_b: LineFaults::default(),
            history: false,
        }
    }
}

/// Why there can be no such channel.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// A value out of its bounds.
    #[error("{key} = {value}: {why}")]
    Value {
        /// Which value.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        why: &'static str,
    },
}

impl EmulatorConfig {
    /// Checks every bound.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn check(&self) -> Result<(), EmulatorError> {
        let bad =
            |key, value: &dyn ToString, why| Err(EmulatorError::Value { key, value: value.to_string(), why });
        let share = |value: f64| (0.0..=1.0).contains(&value);
        if !(1..=EMULATED_INSTRUMENTS_MAX).contains(&self.instruments) {
            return bad("instruments", &self.instruments, "from 1 to 10000");
        }
        if self.first_security_id.checked_add(self.instruments as i32).is_none_or(|end| end == i32::MAX) {
            return bad(
                "first_security_id",
                &self.first_security_id,
                "the last SecurityID must be below 2147483647",
            );
        }
        if !(1..=10).contains(&self.depth) {
            return bad("depth", &self.depth, "from 1 to 10");
        }
        if !(1..=16).contains(&self.event_instruments_max) {
            return bad("event_instruments_max", &self.event_instruments_max, "from 1 to 16");
        }
        if !(1..=20).contains(&self.chunk_entries) {
            return bad("chunk_entries", &self.chunk_entries, "from 1 to 20");
        }
        if !(1400..=8972).contains(&self.packet_bytes_max) {
            return bad(
                "packet_bytes_max",
                &self.packet_bytes_max,
                "from 1400 (a snapshot must fit) to 8972",
            );
        }
        if self.events_per_s > 10_000_000 {
            return bad("events_per_s", &self.events_per_s, "up to 10000000");
        }
        if self.definition_changes_per_s > 1_000_000 {
            return bad("definition_changes_per_s", &self.definition_changes_per_s, "up to 1000000");
        }
        if self.option_share + self.spread_share + self.fixed_income_share > 1.0 {
            return bad(
                "option_share + spread_share + fixed_income_share",
                &(self.option_share + self.spread_share + self.fixed_income_share),
                "up to 1",
            );
        }
        for (key, gap) in [
            ("weekend_ns", self.weekend),
            ("heartbeat_ns", self.heartbeat),
            ("definition_gap_ns", self.definition_gap),
            ("snapshot_gap_ns", self.snapshot_gap),
        ] {
            if gap < Duration::from_nanos(100) {
                return bad(key, &gap.as_nanos(), "at least 100");
            }
        }
        for (key, value) in [
            ("long_quantity_share", self.long_quantity_share),
            ("top_orders_share", self.top_orders_share),
            ("implied_share", self.implied_share),
            ("option_share", self.option_share),
            ("spread_share", self.spread_share),
            ("fixed_income_share", self.fixed_income_share),
            ("faults_a.loss", self.faults_a.loss),
            ("faults_a.duplicate", self.faults_a.duplicate),
            ("faults_a.reorder", self.faults_a.reorder),
            ("faults_b.loss", self.faults_b.loss),
            ("faults_b.duplicate", self.faults_b.duplicate),
            ("faults_b.reorder", self.faults_b.reorder),
        ] {
            if !share(value) {
                return bad(key, &value, "from 0 to 1");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked_by_name() {
        let good = EmulatorConfig::default();
        assert_eq!(good.check(), Ok(()));
        let broken: [(EmulatorConfig, &str); 11] = [
            (EmulatorConfig { weekend: Duration::ZERO, ..good.clone() }, "weekend_ns = 0"),
            (EmulatorConfig { option_share: -0.1, ..good.clone() }, "option_share = -0.1"),
            (
                EmulatorConfig { option_share: 0.9, spread_share: 0.2, ..good.clone() },
                "fixed_income_share = 1.2",
            ),
            (EmulatorConfig { instruments: 0, ..good.clone() }, "instruments = 0"),
            (EmulatorConfig { instruments: 10_001, ..good.clone() }, "instruments = 10001"),
            (EmulatorConfig { first_security_id: i32::MAX - 5, ..good.clone() }, "first_security_id"),
            (EmulatorConfig { depth: 11, ..good.clone() }, "depth = 11"),
            (EmulatorConfig { packet_bytes_max: 100, ..good.clone() }, "packet_bytes_max = 100"),
            (EmulatorConfig { implied_share: f64::NAN, ..good.clone() }, "implied_share = NaN"),
            (EmulatorConfig { snapshot_gap: Duration::ZERO, ..good.clone() }, "snapshot_gap_ns = 0"),
            (
                EmulatorConfig {
                    faults_b: LineFaults { loss: 1.5, ..LineFaults::default() },
                    ..good.clone()
                },
                "faults_b.loss = 1.5",
            ),
        ];
        for (config, expected) in broken {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
