//! Little's law, the cheapest check there is on a closed-loop row.

/// How well a closed-loop row agrees with Little's law (L = lambda * W): requests in flight that rate and mean round
/// trip imply, over the `window` that was kept outstanding.
///
/// 1.0 is agreement. Below about 0.95, slots of the window were lost or idle; above 1.05 the times are wrong (rounded,
/// or taken between other points than the rate). `NaN` when `window` is zero.
pub fn little_law_check(window: u32, rate_per_s: f64, mean_rtt_ns: f64) -> f64 {
    if window == 0 {
        return f64::NAN;
    }
    rate_per_s * mean_rtt_ns / 1e9 / f64::from(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_agree_give_one() {
        // 32 outstanding at 753 K/s is a mean of 42.5 us.
        assert!((little_law_check(32, 753_000.0, 42_497.0) - 1.0).abs() < 0.001);
        assert!((little_law_check(1, 99_000.0, 10_101.0) - 1.0).abs() < 0.001);
    }

    #[test]
    fn truncated_times_show() {
        // 9 us printed for a mean of 10.1 us.
        assert!(little_law_check(1, 99_000.0, 9_000.0) < 0.9);
        assert!(little_law_check(0, 1.0, 1.0).is_nan());
    }
}
