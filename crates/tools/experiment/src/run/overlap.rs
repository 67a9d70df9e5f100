//! When the parts of a sum were measured: rates of hosts add up only where all of them were measured at the same time.
//!
//! A row says it itself, by the clock of its host: `"measured": {"begin_unix_ns": …, "end_unix_ns": …}`, or a list of them, or each of its
//! `runs` does. Where a row does not, what is known is when its process began and ended, and how long it measured: enough to say
//! of some that they cannot have measured together, and of none that they did.

use super::fleet::Clock;
use super::rows::Row;
use barewire_measure::common_windows;
use serde_json::{Map, Value, json};

/// The key of a row that says when it was measured.
pub(crate) const MEASURED: &str = "measured";
/// Of a merged row: the share of the longest time that all hosts have in common.
pub(crate) const SHARE: &str = "measured_share";
/// Of a merged row: why the share is not known.
const UNKNOWN: &str = "measured_share_unknown";
/// Rows that were measured together for less than this share cannot be added up.
const SHARE_MIN: f64 = 0.95;
/// Times that one row may name.
const WINDOWS_MAX: usize = 10_000;

/// From, to; in ns since 1970 by the controller's clock, wide enough for whatever a host says.
type Window = (i128, i128);

/// One host's row, and what is known of when it was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) host: String,
    pub(crate) row: Row,
    /// By how much the host's clock is ahead.
    pub(super) clock: Option<Clock>,
    /// Begin and end of its process, by the host's clock.
    pub(crate) lived: Option<(u64, u64)>,
}

/// What is known of several parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Together {
    /// They have these times in common, the given share of the longest, which clocks may make wrong by as much.
    For { windows: Vec<Window>, share: f64, error: f64, longest_ns: i128 },
    /// They cannot have been measured together for longer than this share.
    AtMost { share: f64, longest_ns: i128 },
    /// Not known, and why.
    Unknown(String),
}

impl Part {
    fn ours(&self, unix_ns: u64) -> i128 {
        i128::from(unix_ns) - self.clock.map_or(0, |clock| i128::from(clock.ahead_ns))
    }

    /// The times that its row names, in order; `None` where it names none that make sense.
    fn windows(&self) -> Option<Vec<Window>> {
        let one = |value: &Value| {
            let at = |key: &str| Some(self.ours(value.get(key)?.as_u64()?));
            Some((at("begin_unix_ns")?, at("end_unix_ns")?))
        };
        // One, or several.
        let of = |value: &Value| match value {
            Value::Array(all) => all.iter().take(WINDOWS_MAX).map(one).collect::<Option<Vec<Window>>>(),
            value => Some(vec![one(value)?]),
        };
        let row = &self.row.row;
        let mut windows: Vec<Window> = match (row.get(MEASURED), row.get("runs")) {
            (Some(value), _) => of(value)?,
            (None, Some(Value::Array(runs))) => {
                let each = runs.iter().map(|run| of(run.get(MEASURED)?)).collect::<Option<Vec<_>>>()?;
                each.into_iter().flatten().take(WINDOWS_MAX).collect()
            }
            _ => return None,
        };
        windows.sort_unstable();
        let apart = windows.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        (apart && !windows.is_empty() && windows.iter().all(|(from, to)| from < to)).then_some(windows)
    }

    /// When it can have measured, and for how long it did.
    fn bounds(&self) -> Option<(Window, i128)> {
        let (from, to) = self.lived?;
        let seconds = self.row.row.get("seconds")?.as_f64().filter(|s| s.is_finite() && *s > 0.0)?;
        Some(((self.ours(from), self.ours(to)), (seconds * 1e9) as i128))
    }
}

/// What is known of whether `parts` were measured at the same time.
pub(crate) fn together(parts: &[Part]) -> Together {
    // The clocks of two hosts are wrong by both errors together.
    let error_ns: u64 = {
        let mut errors: Vec<u64> =
            parts.iter().map(|part| part.clock.map_or(0, |clock| clock.error_ns)).collect();
        errors.sort_unstable_by(|a, b| b.cmp(a));
        errors.iter().take(2).fold(0, |sum, error| sum.saturating_add(*error))
    };
    let told: Vec<Option<Vec<Window>>> = parts.iter().map(Part::windows).collect();
    if let Some(all) = told.iter().cloned().collect::<Option<Vec<_>>>() {
        let longest_ns = all.iter().map(|windows| length(windows)).max().unwrap_or_default();
        let count = all.iter().map(Vec::len).max().unwrap_or(1);
        let windows = all.into_iter().reduce(|a, b| common_windows(&a, &b)).unwrap_or_default();
        let share = length(&windows) as f64 / longest_ns.max(1) as f64;
        let error = error_ns as f64 * count as f64 / longest_ns.max(1) as f64;
        return Together::For { windows, share, error, longest_ns };
    }
    if let Some(all) = parts.iter().map(Part::bounds).collect::<Option<Vec<_>>>() {
        let from = all.iter().map(|((from, _), _)| *from).max().unwrap_or_default();
        let to = all.iter().map(|((_, to), _)| *to).min().unwrap_or_default();
        let shortest = all.iter().map(|(_, ns)| *ns).min().unwrap_or_default();
        let longest_ns = all.iter().map(|(_, ns)| *ns).max().unwrap_or_default();
        let most = (to - from).max(0).saturating_add(i128::from(error_ns)).min(shortest);
        let share = most as f64 / longest_ns.max(1) as f64;
        if share < SHARE_MIN {
            return Together::AtMost { share, longest_ns };
        }
    }
    let silent: Vec<&str> = parts
        .iter()
        .zip(&told)
        .filter(|(_, told)| told.is_none())
        .map(|(part, _)| part.host.as_str())
        .collect();
    Together::Unknown(format!("rows of {} do not say when they were measured", silent.join(", ")))
}

impl Together {
    /// Writes what is known into the merged row; why its figures must not be used, if they must not.
    pub(crate) fn tell(self, row: &mut Map<String, Value>) -> Option<String> {
        let void = |of: &str, share: f64, longest_ns: i128| {
            format!(
                "hosts were measured together for {of}{:.0} % of {:.3} s, and rates add up from {:.0} % on",
                (share * 100.0).floor(),
                longest_ns as f64 / 1e9,
                SHARE_MIN * 100.0
            )
        };
        match self {
            Together::For { windows, share, error, longest_ns } => {
                let told = |(from, to): &Window| {
                    let ns = |at: &i128| u64::try_from(*at).unwrap_or_default();
                    json!({ "begin_unix_ns": ns(from), "end_unix_ns": ns(to) })
                };
                row.insert(SHARE.to_owned(), json!(rounded(share)));
                match windows.as_slice() {
                    [] => row.remove(MEASURED),
                    [one] => row.insert(MEASURED.to_owned(), told(one)),
                    many => row.insert(MEASURED.to_owned(), many.iter().map(told).collect()),
                };
                (share - error < SHARE_MIN).then(|| match share < SHARE_MIN {
                    true => void("", share, longest_ns),
                    false => format!(
                        "hosts were measured together for {:.0} % of the time, but their clocks are compared too badly to be sure: ± {:.0} %",
                        (share * 100.0).floor(),
                        (error * 100.0).ceil()
                    ),
                })
            }
            Together::AtMost { share, longest_ns } => {
                row.insert(SHARE.to_owned(), json!(rounded(share)));
                Some(void("at most ", share, longest_ns))
            }
            Together::Unknown(why) => {
                row.insert(UNKNOWN.to_owned(), why.into());
                None
            }
        }
    }
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).floor() / 1e4
}

fn length(windows: &[Window]) -> i128 {
    windows.iter().map(|(from, to)| to - from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A part that measured from `from_ms` to `to_ms`, and whose clock is ahead.
    fn part(text: &str, ahead_ns: i64, error_ns: u64) -> Part {
        let row = Row { row: serde_json::from_str(text).unwrap(), ..Row::default() };
        Part { host: "h".into(), row, clock: Some(Clock { ahead_ns, error_ns }), lived: None }
    }

    fn at(from_ms: u64, to_ms: u64, ahead_ms: u64) -> Part {
        let ns = |ms: u64| 1_700_000_000 * SECOND + (ms + ahead_ms) * 1_000_000;
        let text =
            format!(r#"{{"measured":{{"begin_unix_ns":{},"end_unix_ns":{}}}}}"#, ns(from_ms), ns(to_ms));
        part(&text, ahead_ms as i64 * 1_000_000, 1_000)
    }

    fn void(parts: &[Part]) -> (Option<String>, Map<String, Value>) {
        let mut row = Map::new();
        (together(parts).tell(&mut row), row)
    }

    #[test]
    fn clocks_are_taken_off_before_windows_are_compared() {
        let (why, row) = void(&[at(0, 3_000, 0), at(100, 3_100, 3_600_000)]);
        assert_eq!((why, row[SHARE].as_f64()), (None, Some(0.9666)));
        let told = &row[MEASURED];
        assert_eq!(
            told["end_unix_ns"].as_u64().unwrap() - told["begin_unix_ns"].as_u64().unwrap(),
            2_900_000_000
        );
    }

    #[test]
    fn a_sum_of_hosts_that_took_turns_is_void_and_says_so() {
        let (why, row) = void(&[at(0, 3_000, 0), at(1_800, 4_800, 7)]);
        let why = why.unwrap();
        assert!(why.contains("for 40 % of 3.000 s"), "{why}");
        assert_eq!(row[SHARE], 0.4);
        let (why, row) = void(&[at(0, 1_000, 0), at(2_000, 3_000, 0), at(0, 3_000, 0)]);
        assert!(why.unwrap().contains("for 0 %") && !row.contains_key(MEASURED));
        // One that measured for half of the other's time is no part of the same sum.
        assert!(void(&[at(0, 3_000, 0), at(0, 1_500, 0)]).0.is_some());
    }

    #[test]
    fn clocks_that_are_compared_badly_prove_nothing() {
        let mut parts = [at(0, 1_000, 0), at(0, 1_000, 5)];
        assert_eq!(void(&parts).0, None);
        parts[1].clock.as_mut().unwrap().error_ns = SECOND;
        let why = void(&parts).0.unwrap();
        assert!(why.contains("clocks"), "{why}");
        // Nor does a clock that is anything at all make it panic.
        for ahead_ns in [i64::MIN, i64::MAX] {
            parts[1].clock = Some(Clock { ahead_ns, error_ns: u64::MAX });
            assert!(void(&parts).0.is_some());
        }
    }

    #[test]
    fn several_runs_of_a_process_are_compared_run_by_run() {
        let runs = |shift: u64| {
            let one = |n: u64| {
                let from = 10 * SECOND * (n + 1) + shift;
                // The second one in two parts.
                let half = from + SECOND / 2;
                match n {
                    0 => format!(
                        r#"{{"measured":{{"begin_unix_ns":{from},"end_unix_ns":{}}}}}"#,
                        from + SECOND
                    ),
                    _ => format!(
                        r#"{{"measured":[{{"begin_unix_ns":{from},"end_unix_ns":{half}}},{{"begin_unix_ns":{half},"end_unix_ns":{}}}]}}"#,
                        from + SECOND
                    ),
                }
            };
            part(&format!(r#"{{"runs":[{},{}]}}"#, one(0), one(1)), 0, 0)
        };
        let (why, row) = void(&[runs(0), runs(SECOND / 100)]);
        assert_eq!((why, row[SHARE].as_f64()), (None, Some(0.99)));
        assert_eq!(row[MEASURED].as_array().unwrap().len(), 4);
        assert!(void(&[runs(0), runs(SECOND / 2)]).0.is_some());
    }

    #[test]
    fn without_windows_only_what_cannot_be_is_void() {
        let lived = |from_s: u64, to_s: u64| {
            let lived = Some((from_s * SECOND, to_s * SECOND));
            Part { lived, ..part(r#"{"seconds":3}"#, 0, 0) }
        };
        // They may have measured together, and nobody knows.
        let (why, row) = void(&[lived(0, 5), lived(0, 5)]);
        assert!(why.is_none() && row[UNKNOWN].as_str().unwrap().contains("do not say when"));
        // They cannot have.
        let why = void(&[lived(0, 4), lived(2, 6)]).0.unwrap();
        assert!(why.contains("at most 66 %"), "{why}");
        // Who says nothing at all is no proof.
        assert_eq!(void(&[lived(0, 4), Part::default()]).0, None);
        for nonsense in [
            r#"{"measured":{"begin_unix_ns":5,"end_unix_ns":5}}"#,
            r#"{"measured":{"begin_unix_ns":5}}"#,
            r#"{"measured":[]}"#,
            r#"{"measured":[{"begin_unix_ns":1,"end_unix_ns":9},{"begin_unix_ns":3,"end_unix_ns":12}]}"#,
            r#"{"measured":"yes","seconds":-1}"#,
        ] {
            assert!(
                matches!(together(&[part(nonsense, 0, 0), at(0, 1, 0)]), Together::Unknown(_)),
                "{nonsense}"
            );
        }
    }
}
