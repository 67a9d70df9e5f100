//! Times as people and folders write them. Nothing here reads a clock.

/// Year, month, day, hour, minute, second of a Unix time.
fn civil(unix_s: u64) -> (u64, u64, u64, u64, u64, u64) {
    let (days, rest) = (unix_s / 86_400, unix_s % 86_400);
    // Counted in eras of 400 years that begin on 1 March, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day, rest / 3_600, rest / 60 % 60, rest % 60)
}

/// `2026-11-22 12:03:04 UTC`.
pub fn utc_text(unix_ms: u64) -> String {
    let (y, mo, d, h, mi, s) = civil(unix_ms / 1_000);
    format!("{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02} UTC")
}

/// `2026-11-22`.
pub fn utc_day(unix_ms: u64) -> String {
    let (y, mo, d, ..) = civil(unix_ms / 1_000);
    format!("{y:04}-{mo:02}-{d:02}")
}

/// The beginning of a day that is written as [`utc_day`] writes it, in ms since 1970. `None`: no such day, or one before 1970.
pub fn utc_ms_of_day(day: &str) -> Option<u64> {
    let mut parts = day.split('-');
    let (y, m, d) = (parts.next()?, parts.next()?, parts.next()?);
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if parts.next().is_some() || [y.len(), m.len(), d.len()] != [4, 2, 2] || ![y, m, d].into_iter().all(plain)
    {
        return None;
    }
    let (y, m, d): (u64, u64, u64) = (y.parse().ok()?, m.parse().ok()?, d.parse().ok()?);
    if y < 1970 || !(1..=12).contains(&m) || !(1..=31).contains(&d) {
        return None;
    }
    // The days before the year, then those of whole months in it, by the rule backwards: the year begins in March.
    let year = y - u64::from(m <= 2);
    let month = (m + 9) % 12;
    let days = year / 400 * 146_097 + year % 400 * 365 + year % 400 / 4 - year % 400 / 100;
    let ms = (days + (153 * month + 2) / 5 + d - 1).checked_sub(719_468)? * 86_400_000;
    // A 31 February is a day of March, and is refused.
    (utc_day(ms) == day).then_some(ms)
}

/// `20261122-120304-123`: sorts by time.
pub(crate) fn folder_stamp(unix_ms: u64) -> String {
    let (y, mo, d, h, mi, s) = civil(unix_ms / 1_000);
    format!("{y:04}{mo:02}{d:02}-{h:02}{mi:02}{s:02}-{:03}", unix_ms % 1_000)
}

/// `3 h 05 min`, `2 min 07 s`, `1.25 s`.
pub fn span_text(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.2} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min {:02} s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{} h {:02} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(utc_text(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc_text(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc_text(1_795_348_984_000), "2026-11-22 12:03:04 UTC");
        assert_eq!(utc_day(4_102_444_800_000), "2100-01-01");
        assert_eq!(folder_stamp(1_795_348_984_123), "20261122-120304-123");
        // Must not overflow for a number that no clock shows.
        assert!(!utc_text(u64::MAX).is_empty());
    }

    #[test]
    fn days_are_read_back_and_other_text_is_not() {
        for days in (0..60_000).step_by(13).chain([11_016, 20_757]) {
            let ms = days * 86_400_000;
            assert_eq!(utc_ms_of_day(&utc_day(ms)), Some(ms), "{}", utc_day(ms));
        }
        for text in [
            "",
            "2026-11",
            "2026-11-31",
            "2026-02-29",
            "1969-12-31",
            "26-11-22",
            "2026-11-22x",
            "2026-+1-22",
            "2026-13-01",
        ] {
            assert_eq!(utc_ms_of_day(text), None, "{text}");
        }
    }

    #[test]
    fn spans_read_well() {
        assert_eq!(span_text(1_250), "1.25 s");
        assert_eq!(span_text(127_000), "2 min 07 s");
        assert_eq!(span_text(11_100_000), "3 h 05 min");
    }
}
