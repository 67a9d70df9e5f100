//! Units, and numbers as people read them.

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// Time, kept in ns.
    Ns,
    /// Events per second.
    PerSecond,
    /// Megabits per second.
    Mbps,
    /// A plain count.
    Count,
    /// A quotient.
    Ratio,
}

impl Unit {
    /// The unit that a row's `measures` name by this word, and what a value in it is multiplied by.
    pub fn of_word(word: &str) -> Option<(Unit, f64)> {
        Some(match word {
            "ns" => (Unit::Ns, 1.0),
            "us" => (Unit::Ns, 1e3),
            "/s" => (Unit::PerSecond, 1.0),
            "Mbit/s" => (Unit::Mbps, 1.0),
            "Gbit/s" => (Unit::Mbps, 1e3),
            "count" | "bytes" => (Unit::Count, 1.0),
            "" => (Unit::Ratio, 1.0),
            _ => return None,
        })
    }

    /// The unit as an axis names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Ns => "time",
            Unit::PerSecond => "per second",
            Unit::Mbps => "Mbit/s",
            Unit::Count => "count",
            Unit::Ratio => "ratio",
        }
    }
}

/// Which way a figure should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, costs.
    Lower,
    /// Rates.
    Higher,
}

/// `value` with three significant digits and without an exponent.
fn digits(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        m if m >= 99.95 => format!("{value:.0}"),
        m if m >= 9.995 => format!("{value:.1}"),
        m if m >= 0.9995 || m == 0.0 => format!("{value:.2}"),
        _ => {
            let places = (2.0 - magnitude.log10().floor()).clamp(2.0, 9.0) as usize;
            format!("{value:.places$}")
        }
    }
}

/// Divides by the largest step that leaves at least one whole (after rounding to three digits).
fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let fits = |factor: f64| value.abs() >= factor * 0.9995;
    let (factor, name) =
        steps.iter().rev().find(|(factor, _)| fits(*factor)).or(steps.first()).copied().unwrap_or((1.0, ""));
    format!("{}{name}", digits(value / factor))
}

const TIME: [(f64, &str); 4] = [(1.0, " ns"), (1e3, " us"), (1e6, " ms"), (1e9, " s")];
const TIMES_TEN: [(f64, &str); 5] = [(1.0, ""), (1e3, "K"), (1e6, "M"), (1e9, "G"), (1e12, "T")];

/// A value with its unit: `9.35 us`, `1.04M`, `2318 Mbit/s`, `0.27`.
pub fn quantity(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    match unit {
        Unit::Ns => scaled(value, &TIME),
        Unit::PerSecond if value.abs() < 999.5 => digits(value),
        Unit::PerSecond => scaled(value, &TIMES_TEN),
        Unit::Mbps if value.abs() >= 99_950.0 => format!("{} Gbit/s", digits(value / 1e3)),
        Unit::Mbps => format!("{} Mbit/s", digits(value)),
        Unit::Count | Unit::Ratio => digits(value),
    }
}

/// A tick's label: as short as it can be, without a unit where the axis has one.
pub fn tick(value: f64, unit: Unit) -> String {
    let trimmed = |text: String| {
        let (number, name) = match text.find(|c: char| c != '-' && c != '.' && !c.is_ascii_digit()) {
            Some(at) => text.split_at(at),
            None => (text.as_str(), ""),
        };
        let number =
            if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
        format!("{number}{name}")
    };
    match unit {
        _ if value == 0.0 => "0".to_owned(),
        Unit::Ns => trimmed(scaled(value, &TIME)),
        Unit::PerSecond | Unit::Mbps | Unit::Count => trimmed(scaled(value, &TIMES_TEN)),
        Unit::Ratio => trimmed(digits(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (ns, text) in [
            (0.0, "0.00 ns"),
            (70.0, "70.0 ns"),
            (999.6, "1.00 us"),
            (9_350.0, "9.35 us"),
            (18_000.0, "18.0 us"),
            (1_203_000.0, "1.20 ms"),
            (3.2e10, "32.0 s"),
            (-4096.0, "-4.10 us"),
        ] {
            assert_eq!(quantity(ns, Unit::Ns), text);
        }
        for (rate, text) in [(172.6, "173"), (1_043_000.0, "1.04M"), (80_000.0, "80.0K"), (0.012, "0.0120")] {
            assert_eq!(quantity(rate, Unit::PerSecond), text);
        }
        assert_eq!(quantity(1047.0, Unit::Mbps), "1047 Mbit/s");
        assert_eq!(quantity(100_000.0, Unit::Mbps), "100 Gbit/s");
        assert_eq!(quantity(f64::NAN, Unit::Ns), "-");
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(tick(10_000.0, Unit::Ns), "10 us");
        assert_eq!(tick(1_500.0, Unit::Ns), "1.5 us");
        assert_eq!(tick(200_000.0, Unit::PerSecond), "200K");
        assert_eq!(tick(0.5, Unit::Ratio), "0.5");
        assert_eq!(tick(0.0, Unit::Ns), "0");
        assert_eq!(tick(100.0, Unit::Count), "100");
    }
}
