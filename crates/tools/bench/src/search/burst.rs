//! RFC 9004: the longest burst at the greatest rate of which nothing is lost, and what it says about the buffer.

use serde::{Deserialize, Serialize};

/// One burst to be sent, back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How many frames.
    pub frames: u64,
}

/// Searches the longest burst, several times: its length varies, and the average is what is told.
#[derive(Clone, Debug)]
pub struct BackToBack {
    most: u64,
    repeats: u32,
    lower: u64,
    upper: u64,
    lengths: Vec<u64>,
    trials: u32,
    asked: Option<Burst>,
}

impl BackToBack {
    /// Bursts of at most `most` frames (RFC 9004 section 5.2: what the sender sends in two seconds up to thirty), `repeats` times.
    pub fn new(most: u64, repeats: u32) -> BackToBack {
        let most = most.clamp(1, 1 << 40);
        BackToBack { most, repeats, lower: 0, upper: most + 1, lengths: Vec::new(), trials: 0, asked: None }
    }

    /// The next burst. `None`: the last repetition has ended.
    pub fn next_burst(&mut self) -> Option<Burst> {
        if self.asked.is_none() && self.lengths.len() < self.repeats as usize {
            // The longest first: what loses nothing of it needs no search.
            let frames = if self.upper > self.most { self.most } else { self.lower.midpoint(self.upper) };
            self.asked = Some(Burst { frames });
        }
        self.asked
    }

    /// How many frames of it were lost.
    pub fn result(&mut self, lost: u64) {
        let Some(Burst { frames }) = self.asked.take() else { return };
        self.trials += 1;
        match lost {
            0 => self.lower = frames,
            _ => self.upper = frames,
        }
        if self.upper - self.lower <= 1 {
            self.lengths.push(self.lower);
            (self.lower, self.upper) = (0, self.most + 1);
        }
    }

    /// Most bursts that it will ask for.
    pub fn trials_max(&self) -> u32 {
        (u64::BITS - self.most.leading_zeros() + 1) * self.repeats
    }

    /// What is known, when frames can be sent at `max_per_s` and the system carries `throughput_per_s` without loss.
    /// `None` before the first repetition has ended.
    pub fn found(&self, max_per_s: f64, throughput_per_s: f64) -> Option<Bursts> {
        let (&min, &max) = (self.lengths.iter().min()?, self.lengths.iter().max()?);
        let n = self.lengths.len() as f64;
        let average = self.lengths.iter().map(|&l| l as f64).sum::<f64>() / n;
        let deviation = (self.lengths.iter().map(|&l| (l as f64 - average).powi(2)).sum::<f64>() / n).sqrt();
        let implied_s = average / max_per_s;
        Some(Bursts {
            average_frames: average,
            min_frames: min,
            max_frames: max,
            deviation_frames: deviation,
            repeats: self.lengths.len() as u32,
            trials: self.trials,
            limited: max == self.most,
            implied_buffer_us: implied_s * 1e6,
            corrected_buffer_us: implied_s * (1.0 - (throughput_per_s / max_per_s).clamp(0.0, 1.0)) * 1e6,
        })
    }
}

/// What was found (RFC 9004 sections 5.3 and 5.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// Longest burst without loss: the average of all repetitions.
    pub average_frames: f64,
    /// The least.
    pub min_frames: u64,
    /// The greatest.
    pub max_frames: u64,
    /// Standard deviation.
    pub deviation_frames: f64,
    /// Repetitions that ended.
    pub repeats: u32,
    /// Bursts that were sent.
    pub trials: u32,
    /// Some repetition lost nothing of the longest burst allowed: the true length is greater.
    pub limited: bool,
    /// Average divided by the greatest rate.
    pub implied_buffer_us: f64,
    /// The same without what the system forwarded while the burst still came.
    pub corrected_buffer_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;
    use proptest::prelude::*;

    /// A buffer of `buffer` frames that drains at `throughput` while it is filled at `rate`: the longest burst without loss.
    fn longest(buffer: f64, throughput: f64, rate: f64) -> u64 {
        (buffer / (1.0 - throughput / rate)) as u64
    }

    #[test]
    fn a_buffer_is_told_by_its_burst() {
        let (rate, throughput, buffer) = (1_000_000.0, 600_000.0, 512.0);
        let limit = longest(buffer, throughput, rate);
        let mut search = BackToBack::new(2_000_000, 3);
        let mut noise = Prng::new(7);
        while let Some(burst) = search.next_burst() {
            let here = limit + noise.below(3);
            search.result(burst.frames.saturating_sub(here));
        }
        let found = search.found(rate, throughput).unwrap();
        assert_eq!((found.repeats, found.limited), (3, false));
        assert!((found.average_frames - limit as f64).abs() <= 3.0, "{found:?}");
        assert!(
            (found.corrected_buffer_us - buffer).abs() < 5.0,
            "512 frames at a frame a microsecond: {found:?}"
        );
        assert!(found.trials <= search.trials_max());
    }

    #[test]
    fn no_loss_and_nothing_but_loss() {
        let mut search = BackToBack::new(1000, 2);
        while let Some(burst) = search.next_burst() {
            assert_eq!(burst.frames, 1000);
            search.result(0);
        }
        let found = search.found(1e6, 1e6).unwrap();
        assert!((found.average_frames, found.trials, found.limited) == (1000.0, 2, true), "{found:?}");
        assert_eq!(found.corrected_buffer_us, 0.0);
        let mut search = BackToBack::new(1000, 1);
        assert_eq!(search.found(1e6, 0.0), None);
        while search.next_burst().is_some() {
            search.result(1);
        }
        assert_eq!(search.found(1e6, 0.0).unwrap().average_frames, 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_longest_is_found(most in 1u64..1_000_000_000, limit in 0u64..1_200_000_000) {
            let mut search = BackToBack::new(most, 1);
            while let Some(burst) = search.next_burst() {
                search.result(burst.frames.saturating_sub(limit));
            }
            let found = search.found(1.0, 0.0).unwrap();
            prop_assert_eq!(found.max_frames, limit.min(most));
            prop_assert!(found.trials <= search.trials_max());
        }
    }
}
