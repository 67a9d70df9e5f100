//! What a line of a document claims: its figures, and the comments that say where they come from.

/// What a figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In ns.
    Time,
    /// Per second.
    Rate,
    /// Bits per second.
    Bits,
    /// Bytes.
    Bytes,
    /// One thing over another.
    Ratio,
    /// A scale without a unit (`241K`), or a record's field without one.
    Any,
}

impl Kind {
    /// Whether a figure of one kind may state a value of the other.
    pub fn fits(self, other: Kind) -> bool {
        self == other || (self == Kind::Any && other != Kind::Time) || other == Kind::Any
    }
}

/// A unit as a text writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// What it measures.
    pub kind: Kind,
    /// How many of the kind's own unit it has.
    pub factor: f64,
}

/// A number in a text, with the unit that it has or shares with the number after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Where it stands in the line, in bytes.
    pub at: usize,
    /// Just behind the digits.
    pub end: usize,
    /// As written.
    pub text: String,
    /// `None`: `n<10000`, too few samples.
    pub number: Option<f64>,
    /// Digits behind the point.
    pub decimals: usize,
    /// `None`: a bare number.
    pub unit: Option<Unit>,
}

/// Units as texts write them; the first that fits is taken.
const UNITS: &[(&str, Kind, f64)] = &[
    ("ns", Kind::Time, 1.0),
    ("us", Kind::Time, 1e3),
    ("µs", Kind::Time, 1e3),
    ("ms", Kind::Time, 1e6),
    ("packets/s", Kind::Rate, 1.0),
    ("connections/s", Kind::Rate, 1.0),
    ("connections a second", Kind::Rate, 1.0),
    ("RPCs/s", Kind::Rate, 1.0),
    ("RPC/s", Kind::Rate, 1.0),
    ("a second", Kind::Rate, 1.0),
    ("/s", Kind::Rate, 1.0),
    ("Gbit/s", Kind::Bits, 1e9),
    ("Mbit/s", Kind::Bits, 1e6),
    ("MB/s", Kind::Bits, 8e6),
    ("KiB/s", Kind::Bits, 8192.0),
    ("bytes", Kind::Bytes, 1.0),
    ("times", Kind::Ratio, 1.0),
    ("%", Kind::Ratio, 0.01),
];
/// Percentiles: `99 % within` says which, not how much.
const PERCENTILES: &[&str] = &["50", "90", "99", "99.9", "99.99"];
/// Thousands and millions.
const SCALES: &[(&str, f64)] =
    &[("K", 1e3), (" K", 1e3), (" thousand", 1e3), ("M", 1e6), (" M", 1e6), (" million", 1e6)];
/// What may stand between two numbers that share the second one's unit.
const LINKS: &[&str] = &[" to ", "..", " (", ", ", " and ", " or ", " / "];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `rest` behind `word`, where the word ends there.
fn after<'a>(rest: &'a str, word: &str) -> Option<&'a str> {
    let behind = rest.strip_prefix(word)?;
    (!behind.starts_with(is_word)).then_some(behind)
}

/// The unit at the start of `rest`, which follows a number.
fn unit(rest: &str, decimals: usize) -> Option<Unit> {
    let rest = rest.strip_prefix(')').unwrap_or(rest);
    let (scale, behind) = SCALES
        .iter()
        .find_map(|(word, scale)| after(rest, word).map(|behind| (*scale, behind)))
        .unwrap_or((1.0, rest));
    let word = behind.strip_prefix(' ').unwrap_or(behind);
    if let Some((_, kind, factor)) = UNITS.iter().find(|(unit, ..)| after(word, unit).is_some()) {
        return Some(Unit { kind: *kind, factor: scale * factor });
    }
    // A share has a point in it: `0.53 of the bridge's`, but `16 of 16 rows` is a count.
    if scale == 1.0 && decimals > 0 && after(word, "of").is_some() {
        return Some(Unit { kind: Kind::Ratio, factor: 1.0 });
    }
    (scale != 1.0).then_some(Unit { kind: Kind::Any, factor: scale })
}

/// The unit that a reference names for a whole table: `us`.
pub fn named_unit(word: &str) -> Option<Unit> {
    unit(&format!(" {word}"), 1)
}

/// `line` with what makes no claim blanked out, byte for byte: comments, code, targets of links.
pub fn claims(line: &str) -> String {
    let mut out = line.to_owned();
    for (open, close) in [("<!--", "-->"), ("`", "`"), ("](", ")")] {
        let mut from = 0;
        while let Some(start) = out[from..].find(open).map(|at| from + at) {
            let inside = start + open.len();
            let Some(end) = out[inside..].find(close).map(|at| inside + at + close.len()) else { break };
            out.replace_range(start..end, &"\u{1}".repeat(end - start));
            from = end;
        }
    }
    out
}

/// The figures of a line. With `assumed`, a number without a unit is in that one.
pub fn figures(claims: &str, assumed: Option<Unit>) -> Vec<Figure> {
    let bytes = claims.as_bytes();
    let mut found: Vec<Figure> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() {
            let next_is_digit = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
            match bytes[at] {
                b'0'..=b'9' => at += 1,
                b'.' | b',' if next_is_digit => at += 1,
                _ => break,
            }
        }
        let before = &claims[..start];
        if before.ends_with("n<") {
            let text = claims[start - 2..at].to_owned();
            let unit = Some(Unit { kind: Kind::Any, factor: 1.0 });
            found.push(Figure { at: start - 2, end: at, text, number: None, decimals: 0, unit });
            continue;
        }
        let rest = &claims[at..];
        let digits = claims[start..at].replace(',', "");
        let decimals = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let unit = unit(rest, decimals);
        // Part of a name (`p50`, `E1`, `64-byte`, a day, a version) is no number.
        let is_name = before.ends_with(|c: char| is_word(c) || c == '-')
            || (before.ends_with('.') && !before.ends_with(".."))
            || rest.starts_with('-')
            || (unit.is_none() && rest.starts_with(is_word))
            || (PERCENTILES.contains(&digits.as_str()) && rest.trim_start().starts_with('%'));
        if let (Ok(number), false) = (digits.parse(), is_name) {
            let text = claims[start..at].to_owned();
            found.push(Figure { at: start, end: at, text, number: Some(number), decimals, unit });
        }
    }
    for i in (0..found.len()).rev() {
        if found[i].unit.is_none() {
            let next = found.get(i + 1);
            let linked = next.filter(|next| LINKS.contains(&&claims[found[i].end..next.at]));
            found[i].unit = linked.and_then(|next| next.unit).or(assumed);
        }
    }
    found.retain(|figure| figure.unit.is_some());
    found
}

/// A comment in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// Where it opens.
    pub at: usize,
    /// Its text, trimmed.
    pub text: &'a str,
}

/// The comments of a line.
pub fn comments(line: &str) -> Vec<Comment<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = line[from..].find("<!--").map(|at| from + at) {
        let Some(len) = line[at..].find("-->") else { break };
        found.push(Comment { at, text: line[at + 4..at + len].trim() });
        from = at + len;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let shown = |f: Figure| {
            let unit = f.unit.unwrap();
            format!("{} {:?} {}", f.text, unit.kind, unit.factor)
        };
        figures(&claims(line), None).into_iter().map(shown).collect()
    }

    #[test]
    fn numbers_with_units_are_figures() {
        assert_eq!(words("took 5.4 us, 69 ns"), ["5.4 Time 1000", "69 Time 1"]);
        assert_eq!(words("10.6 M packets/s"), ["10.6 Rate 1000000"]);
        assert_eq!(
            words("2.36 (2.26 to 2.45) times faster"),
            ["2.36 Ratio 1", "2.26 Ratio 1", "2.45 Ratio 1"]
        );
        assert_eq!(words("82 to 174 thousand"), ["82 Any 1000", "174 Any 1000"]);
        assert_eq!(words("| 241K | n<100000 |"), ["241 Any 1000", "n<100000 Any 1"]);
        assert_eq!(words("p50 3.8 us..4.1 us"), ["3.8 Time 1000", "4.1 Time 1000"]);
        assert_eq!(words("0.53 of the bridge's"), ["0.53 Ratio 1"]);
        assert_eq!(words("51 Gbit/s"), ["51 Bits 1000000000"]);
        assert_eq!(words("lost 1.5 %, 30% of the rate"), ["1.5 Ratio 0.01", "30 Ratio 0.01"]);
        assert_eq!(words("99 % within 4 us, 99.9 % within 6 us"), ["4 Time 1000", "6 Time 1000"]);
    }

    #[test]
    fn other_numbers_are_none() {
        let none = [
            "E1 and p50, 64-byte packets, 1,000 routes",
            "on 2026-11-25 with version 0.1.0, `sleep 5 ms`",
            "[3 us](benches/runs/4 us)".split_at(1).0,
            "16 of 16 rows, 1024 B, window 1",
            "27 time-outs and 370 KB",
            "<!-- 5 us -->",
        ];
        for line in none {
            assert_eq!(words(line), [] as [&str; 0], "{line}");
        }
    }

    #[test]
    fn comments_are_found_where_they_stand() {
        let found = comments("a <!-- fig x --> b <!--y-->");
        assert_eq!(found, [Comment { at: 2, text: "fig x" }, Comment { at: 19, text: "y" }]);
        assert_eq!(claims("é `5 us` é").len(), "é `5 us` é".len());
    }
}
