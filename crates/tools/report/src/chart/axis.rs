//! Axes: scales, ticks at round numbers, and where a value lies.

use crate::figure::{Unit, tick};

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers.
    Log,
    /// Percentiles: a value is 1 / (1 - q), by powers, and ticks are percents.
    Tail,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub title: String,
    /// Unit of its values.
    pub unit: Unit,
    /// How it runs.
    pub scale: Scale,
}

/// An axis with its ends.
pub(super) struct Ruler {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
}

/// `99.9 %` for 1000, `0 %` for 1.
pub(super) fn percent(tail: f64) -> String {
    let share = 100.0 * (1.0 - 1.0 / tail.max(1.0));
    let nines = tail.max(1.0).log10().floor().clamp(0.0, 9.0) as usize;
    let text = format!("{share:.*}", nines.max(1));
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The least value that an axis by powers takes: no figure is that small, and below it powers of ten lose their digits and then are zero.
const LEAST: f64 = 1e-300;
/// Ticks of an axis by powers: a span of more decades than any figure has is cut into as many steps.
const TICKS_MAX: i32 = 400;

/// The largest of 1, 2, 5 times a power of ten that is not above `value`.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    // A power of ten that logarithms put just below itself.
    let parts = [10.0, 5.0, 2.0, 1.0];
    parts.iter().map(|p| p * power).find(|r| *r <= value * (1.0 + 1e-9)).unwrap_or(power)
}

fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let parts = [1.0, 2.0, 5.0, 10.0];
    parts.iter().map(|p| p * power).find(|r| *r >= value * (1.0 - 1e-9)).unwrap_or(power * 10.0)
}

/// A step of 1, 2, 2.5 or 5 times a power of ten that cuts `span` into at most `parts`.
fn step(span: f64, parts: f64) -> f64 {
    let raw = span / parts;
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|s| s * power).find(|s| *s >= raw * (1.0 - 1e-9)).unwrap_or(power)
}

impl Ruler {
    /// An axis that holds `values`; `parts` is about how many ticks a linear one gets.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>, parts: f64) -> Ruler {
        let usable = |v: &f64| v.is_finite() && (axis.scale == Scale::Linear || *v >= LEAST);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.filter(usable) {
            (low, high) = (low.min(v), high.max(v));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match axis.scale {
            Scale::Linear => {
                let most = if high > 0.0 { high } else { 1.0 };
                let step = step(most, parts);
                (low, high) = (0.0, ((most / step * (1.0 - 1e-9)).ceil().max(1.0) * step).min(f64::MAX));
            }
            Scale::Log => {
                (low, high) = (round_down(low), round_up(high));
                if high <= low {
                    (low, high) = (round_down(low * 0.6), round_up(high * 1.6));
                }
                high = high.min(f64::MAX);
            }
            Scale::Tail => (low, high) = (1.0, high.max(100.0)),
        }
        Ruler { scale: axis.scale, unit: axis.unit, low, high }
    }

    /// An axis of ratios around one.
    pub(super) fn around_one(values: impl Iterator<Item = f64>) -> Ruler {
        let most = values.filter(|v| v.is_finite() && *v > 0.0).map(|v| v.max(1.0 / v)).fold(1.05, f64::max);
        let most = most.powf(1.08);
        Ruler { scale: Scale::Log, unit: Unit::Ratio, low: 1.0 / most, high: most }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high one.
    pub(super) fn at(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log | Scale::Tail => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Whether the axis can show `value`.
    pub(super) fn holds(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value >= LEAST)
    }

    /// Ticks with their labels, from low to high.
    pub(super) fn ticks(&self, parts: f64) -> Vec<(f64, String)> {
        let named = |value: f64| (value, tick(value, self.unit));
        match self.scale {
            Scale::Linear => {
                let step = step(self.high, parts);
                (0..=(self.high / step + 1e-9) as u32).map(|i| named(f64::from(i) * step)).collect()
            }
            Scale::Tail => std::iter::once(1.0)
                .chain(std::iter::once(2.0))
                .chain((1..=12).map(|power| 10f64.powi(power)))
                .filter(|v| *v <= self.high * (1.0 + 1e-9))
                .map(|v| (v, percent(v)))
                .collect(),
            Scale::Log if self.unit == Unit::Ratio => {
                const RATIOS: [f64; 19] = [
                    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 2.0, 5.0, 10.0,
                    20.0, 50.0, 100.0,
                ];
                RATIOS.into_iter().filter(|v| (self.low..=self.high).contains(v)).map(named).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let parts_of_ten: &[f64] = match decades {
                    d if d <= 4.01 => &[1.0, 2.0, 5.0],
                    _ => &[1.0],
                };
                let first = self.low.log10().floor() as i32;
                let last = self.high.log10().ceil() as i32;
                let step = ((last - first) / TICKS_MAX).max(0) + 1;
                (first..=last)
                    .step_by(step as usize)
                    .flat_map(|power| parts_of_ten.iter().map(move |p| p * 10f64.powi(power)))
                    .filter(|v| *v >= self.low * (1.0 - 1e-9) && *v <= self.high * (1.0 + 1e-9))
                    .map(named)
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn axis(unit: Unit, scale: Scale) -> Axis {
        Axis { title: String::new(), unit, scale }
    }

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        Ruler::new(axis, values.iter().copied(), 5.0).ticks(5.0).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round() {
        let rates = axis(Unit::PerSecond, Scale::Linear);
        assert_eq!(labels(&rates, &[173.0, 845.0]), ["0", "200", "400", "600", "800", "1K"]);
        assert_eq!(labels(&rates, &[]), ["0", "2", "4", "6", "8", "10"]);
        let times = axis(Unit::Ns, Scale::Log);
        assert_eq!(labels(&times, &[9_000.0, 61_000.0]), ["5 us", "10 us", "20 us", "50 us", "100 us"]);
        assert_eq!(labels(&times, &[70.0, 3e6]), ["100 ns", "1 us", "10 us", "100 us", "1 ms"]);
        assert_eq!(labels(&times, &[1_000.0]), ["500 ns", "1 us", "2 us"]);
        let tail = axis(Unit::Count, Scale::Tail);
        assert_eq!(labels(&tail, &[1e5]), ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]);
    }

    #[test]
    fn ratios_lie_around_one() {
        let ruler = Ruler::around_one([0.5, 1.2].into_iter());
        assert!((ruler.at(1.0) - 0.5).abs() < 1e-9);
        assert!((ruler.at(0.5) + ruler.at(2.0) - 1.0).abs() < 1e-9);
        assert!(ruler.ticks(5.0).iter().any(|t| t.1 == "1"));
    }

    /// A row may say anything: the smallest number there is has no power of ten near it.
    #[test]
    fn a_value_below_all_powers_makes_no_ticks_without_end() {
        for scale in [Scale::Log, Scale::Tail, Scale::Linear] {
            let axis = axis(Unit::Ns, scale);
            for values in [&[5e-324, 1e4][..], &[5e-324], &[5e-324, f64::MAX], &[1e-300, f64::MAX]] {
                let ruler = Ruler::new(&axis, values.iter().copied(), 5.0);
                let ticks = ruler.ticks(5.0);
                assert!(ticks.len() < 1_000, "{scale:?} {values:?}: {} ticks", ticks.len());
                assert!(ticks.iter().all(|t| t.0.is_finite()), "{scale:?} {values:?}");
                assert!(values.iter().all(|v| (0.0..=1.0).contains(&ruler.at(*v))));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// Whatever the values, all lie on the axis, ticks ascend, and no drawing gets a number that is none.
        #[test]
        fn values_lie_on_their_axis(
            values in prop::collection::vec(prop_oneof![any::<f64>(), 1e-3f64..1e12, Just(0.0), Just(5e-324)], 0..8), which in 0usize..3,
        ) {
            let axis = axis(Unit::Ns, [Scale::Linear, Scale::Log, Scale::Tail][which]);
            let ruler = Ruler::new(&axis, values.iter().copied(), 5.0);
            for v in values {
                let at = ruler.at(v);
                prop_assert!((0.0..=1.0).contains(&at));
            }
            let ticks = ruler.ticks(5.0);
            prop_assert!(ticks.len() < 1_000);
            prop_assert!(ticks.windows(2).all(|w| w[0].0 < w[1].0), "{ticks:?}");
        }
    }
}
