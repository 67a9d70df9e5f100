//! What an engine does when there is nothing to do.

use crate::ParseIdleError;
use barewire_base::Duration;
use std::fmt;
use std::str::FromStr;

/// How long [`IdleStrategy::Park`] spins after the last work when nothing else is said.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(20);
/// The longest time to spin before parking that a text may name.
pub const SPIN_MAX: Duration = Duration::from_secs(1);

/// What an engine does after a cycle without work. As text: `spin`, `yield`, `park`, `park:50us`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IdleStrategy {
    /// Look again at once. For cores set aside.
    Spin,
    /// Let others run (`sched_yield`), then look again.
    Yield,
    /// Spin a while after the last work, then sleep until something happens. The default: a machine with few cores must
    /// not starve its applications.
    Park {
        /// How long after the last work the engine goes on looking. Zero: it sleeps at once.
        spin: Duration,
    },
}

impl Default for IdleStrategy {
    fn default() -> Self {
        IdleStrategy::Park { spin: SPIN_DEFAULT }
    }
}

/// Units of a duration in text, largest first.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl FromStr for IdleStrategy {
    type Err = ParseIdleError;

    fn from_str(text: &str) -> Result<Self, ParseIdleError> {
        match text {
            "spin" => Ok(IdleStrategy::Spin),
            "yield" => Ok(IdleStrategy::Yield),
            "park" => Ok(IdleStrategy::default()),
            _ => {
                let spin = text.strip_prefix("park:").ok_or(ParseIdleError::UnknownStrategy)?;
                Ok(IdleStrategy::Park { spin: parse_spin(spin)? })
            }
        }
    }
}

fn parse_spin(text: &str) -> Result<Duration, ParseIdleError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let &(_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(ParseIdleError::BadSpin)?;
    if number.is_empty() {
        return Err(ParseIdleError::BadSpin);
    }
    // Digits only, so the one way to fail is a number too large for 64 bits.
    let number: u64 = number.parse().map_err(|_| ParseIdleError::SpinTooLong)?;
    match number.checked_mul(scale) {
        Some(ns) if ns <= SPIN_MAX.as_nanos() => Ok(Duration::from_nanos(ns)),
        _ => Err(ParseIdleError::SpinTooLong),
    }
}

impl fmt::Display for IdleStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdleStrategy::Spin => f.write_str("spin"),
            IdleStrategy::Yield => f.write_str("yield"),
            IdleStrategy::Park { spin } if *spin == SPIN_DEFAULT => f.write_str("park"),
            IdleStrategy::Park { spin } => {
                let ns = spin.as_nanos();
                // The largest unit that leaves a whole number, so that the text parses back to the same value.
                let (unit, scale) =
                    UNITS.into_iter().find(|(_, scale)| ns.is_multiple_of(*scale)).unwrap_or(("ns", 1));
                write!(f, "park:{}{unit}", ns / scale)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_parse() {
        let park = |spin| Ok(IdleStrategy::Park { spin });
        assert_eq!("spin".parse(), Ok(IdleStrategy::Spin));
        assert_eq!("yield".parse(), Ok(IdleStrategy::Yield));
        assert_eq!("park".parse(), park(Duration::from_micros(20)));
        assert_eq!("park:50us".parse(), park(Duration::from_micros(50)));
        assert_eq!("park:0ns".parse(), park(Duration::ZERO));
        assert_eq!("park:1s".parse(), park(Duration::from_secs(1)));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<IdleStrategy>().unwrap_err();
        for text in ["", "Spin", "park ", "sleep", "parking:1us", "spin:1us"] {
            assert_eq!(error(text), ParseIdleError::UnknownStrategy, "{text}");
        }
        for text in
            ["park:", "park:5", "park:us", "park:-1us", "park:1.5us", "park:1 us", "park:1us ", "park:1µs"]
        {
            assert_eq!(error(text), ParseIdleError::BadSpin, "{text}");
        }
        for text in ["park:1001ms", "park:2s", "park:18446744073709551615s", "park:99999999999999999999ns"] {
            assert_eq!(error(text), ParseIdleError::SpinTooLong, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_strategies_parse_back(ns in 0..=SPIN_MAX.as_nanos(), unit in prop::sample::select(vec![1, 1_000, 1_000_000])) {
            let strategy = IdleStrategy::Park { spin: Duration::from_nanos(ns / unit * unit) };
            prop_assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }

        #[test]
        fn no_text_panics(text in "(park:)?.{0,24}") {
            let _ = text.parse::<IdleStrategy>();
        }
    }
}
