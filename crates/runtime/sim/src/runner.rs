//! Many seeds in one test, and the way back to the one that failed.

/// Environment variable: run this one seed (decimal, or hexadecimal after `0x`).
pub const SEED_VAR: &str = "BAREWIRE_SEED";
/// Environment variable: run this many seeds instead of the test's own number.
pub const SEEDS_VAR: &str = "BAREWIRE_SEEDS";

/// Runs `run` for the seeds `0..count`, one after another. When one panics, stderr says which and how to replay it.
/// [`SEEDS_VAR`] overrides the count, [`SEED_VAR`] replaces all seeds by one.
///
/// # Panics
/// As `run` does, and when either variable is no number.
pub fn seeds(count: u64, run: impl FnMut(u64)) {
    seeds_part(count, 0, 1, run);
}

/// [`seeds`], for a test split in `parts` that the test harness runs side by side: this call takes every seed that
/// leaves the remainder `part`. A seed given by [`SEED_VAR`] runs only in the part that it belongs to.
///
/// # Panics
/// As [`seeds`], and when `parts` is zero.
pub fn seeds_part(count: u64, part: u64, parts: u64, mut run: impl FnMut(u64)) {
    let (one, many) = (std::env::var(SEED_VAR).ok(), std::env::var(SEEDS_VAR).ok());
    let (first, count) = plan(count, one.as_deref(), many.as_deref()).unwrap_or_else(|why| panic!("{why}"));
    for seed in (0..count).map(|i| first + i).filter(|seed| seed % parts == part) {
        let _tell = SeedOnPanic(seed);
        run(seed);
    }
}

/// The first seed and how many.
fn plan(count: u64, one: Option<&str>, many: Option<&str>) -> Result<(u64, u64), String> {
    match (one, many) {
        (Some(text), _) => Ok((number(SEED_VAR, text)?, 1)),
        (None, Some(text)) => Ok((0, number(SEEDS_VAR, text)?)),
        (None, None) => Ok((0, count)),
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .map_err(|why| format!("{name}=`{text}` is no 64-bit number: {why}"))
}

/// Speaks only when dropped by a panic. A guard rather than `catch_unwind`: the panic keeps its own message and place.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failing seed {seed}: replay with {SEED_VAR}={seed}", seed = self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrides() {
        assert_eq!(plan(3, None, None), Ok((0, 3)));
        assert_eq!(plan(3, None, Some("2")), Ok((0, 2)));
        assert_eq!(plan(3, Some(" 77"), Some("2")), Ok((77, 1)));
        assert_eq!(plan(3, Some("0xffffffffffffffff"), None), Ok((u64::MAX, 1)));
        assert!(plan(3, Some("seven"), None).unwrap_err().contains("BAREWIRE_SEED=`seven`"));
    }

    #[test]
    fn parts_cover_every_seed_once() {
        if std::env::var_os(SEED_VAR).is_some() || std::env::var_os(SEEDS_VAR).is_some() {
            return; // A replay of another test is under way.
        }
        let mut seen = Vec::new();
        for part in 0..3 {
            seeds_part(10, part, 3, |seed| seen.push(seed));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn the_run_stops_at_the_failing_seed() {
        let mut ran = 0;
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for seed in 0..5 {
                let _tell = SeedOnPanic(seed);
                ran += 1;
                assert!(seed < 2, "expected by this test");
            }
        }));
        assert!(failed.is_err());
        assert_eq!(ran, 3);
    }
}
