//! The metrics text: Prometheus' exposition format 0.0.4, and OpenMetrics 1.0.0 for those who accept it.

use crate::page::{Page, Pages};
use barewire_engine::{CounterKind, Family, Unit, families, place};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl Format {
    /// What somebody wants who sends this `Accept`: OpenMetrics when it is named and not refused, and the plain form is not
    /// preferred.
    pub fn of_accept(accept: &str) -> Format {
        let quality = |kind: &str| {
            accept
                .split(',')
                .filter_map(|part| {
                    let mut words = part.split(';').map(str::trim);
                    (words.next()? == kind).then_some(())?;
                    let q = words.find_map(|word| word.strip_prefix("q="));
                    Some(q.map_or(1.0, |q| {
                        q.parse::<f64>().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0)
                    }))
                })
                .fold(0.0, f64::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A label's value, as both formats write it.
fn escaped(value: &str) -> Cow<'_, str> {
    if value.contains(['\\', '"', '\n']) {
        Cow::Owned(value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    } else {
        Cow::Borrowed(value)
    }
}

/// A value in the unit that is exported.
fn value(family: &Family, value: u64) -> String {
    match family.unit {
        Unit::Nanoseconds => format!("{}.{:09}", value / 1_000_000_000, value % 1_000_000_000),
        _ => value.to_string(),
    }
}

/// All pages as one text. Samples of a family stand together; a counter whose meaning is not known is counted, not shown.
pub fn render(pages: &Pages, format: Format) -> String {
    let all = families();
    let index = |family: &'static Family| all.iter().position(|other| std::ptr::eq(other, family));
    let of = |group: &str, name: &str| all.iter().find(|f| f.group == group && f.name == name);
    let Pages { pages, left_out } = pages;
    let mut samples: Vec<String> = vec![String::new(); all.len()];
    let mut add = |family: &'static Family, page: &Page, labels: &[(&str, &str)], raw: u64| {
        let Some(out) = index(family).and_then(|i| samples.get_mut(i)) else { return };
        let _ = write!(out, "{}{{name=\"{}\"", family.sample(), escaped(&page.name));
        for (key, label) in labels {
            let _ = write!(out, ",{key}=\"{}\"", escaped(label));
        }
        let _ = writeln!(out, "}} {}", value(family, raw));
    };
    for page in pages {
        let mut unknown = 0;
        for (name, _, raw) in &page.counters {
            match place(name) {
                Some(place) => add(place.family, page, &place.labels, *raw),
                None => unknown += 1,
            }
        }
        for (name, raw) in [
            ("alive", u64::from(page.alive)),
            ("age_ns", page.age_ns),
            ("unregistered", unknown),
            ("left_out", page.left_out),
        ] {
            if let Some(family) = of("page", name) {
                add(family, page, &[], raw);
            }
        }
    }
    // About no page: always there, so that its absence is an old build's.
    if let Some(family) = of("pages", "left_out")
        && let Some(out) = index(family).and_then(|i| samples.get_mut(i))
    {
        let _ = writeln!(out, "{} {left_out}", family.sample());
    }
    let mut out = String::new();
    for (family, samples) in all.iter().zip(samples).filter(|(_, samples)| !samples.is_empty()) {
        // The plain form knows samples only, OpenMetrics the family without its ending.
        let name = if format == Format::OpenMetrics { family.metric() } else { family.sample() };
        let kind = if family.kind == CounterKind::Counter { "counter" } else { "gauge" };
        let _ = writeln!(out, "# HELP {name} {}", family.help.replace('\\', "\\\\").replace('\n', " "));
        let _ = writeln!(out, "# TYPE {name} {kind}");
        let unit = match family.unit {
            Unit::Bytes => Some("bytes"),
            Unit::Nanoseconds => Some("seconds"),
            _ => None,
        };
        if let (Format::OpenMetrics, Some(unit)) = (format, unit) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        out.push_str(&samples);
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Instant;
    use proptest::prelude::*;

    fn page(name: &str, counters: &[(&str, CounterKind, u64)]) -> Page {
        Page {
            name: name.to_owned(),
            pid: 7,
            alive: true,
            age_ns: 1_500_000_000,
            at: Instant::ZERO,
            counters: counters.iter().map(|&(name, kind, value)| (name.to_owned(), kind, value)).collect(),
            left_out: 0,
        }
    }

    fn two() -> Pages {
        use CounterKind::{Counter, Gauge};
        let pages = vec![
            page(
                "a",
                &[
                    ("port.rx_bytes", Counter, u64::MAX),
                    ("engine.0.max_cycle_ns", Gauge, 1_234_567),
                    ("port.drop.truncated", Counter, 3),
                    ("port.drop.bad_crc", Counter, 0),
                    ("from.tomorrow", Counter, 9),
                ],
            ),
            page("b", &[("port.rx_bytes", Counter, 5)]),
        ];
        Pages { pages, left_out: 3 }
    }

    #[test]
    fn the_plain_form_byte_for_byte() {
        let expected = "\
# HELP barewire_engine_max_cycle_seconds How long the longest cycle took, from its start to the start of the next one or to sleep: how late the engine may look at a port. Sleep is not counted, giving way to other threads is.
# TYPE barewire_engine_max_cycle_seconds gauge
barewire_engine_max_cycle_seconds{name=\"a\",engine=\"0\"} 0.001234567
# HELP barewire_port_rx_bytes_total Bytes received by the port.
# TYPE barewire_port_rx_bytes_total counter
barewire_port_rx_bytes_total{name=\"a\",engine=\"0\",port=\"0\"} 18446744073709551615
barewire_port_rx_bytes_total{name=\"b\",engine=\"0\",port=\"0\"} 5
# HELP barewire_port_drops_total Frames dropped by the port, by reason.
# TYPE barewire_port_drops_total counter
barewire_port_drops_total{name=\"a\",engine=\"0\",port=\"0\",reason=\"truncated\"} 3
barewire_port_drops_total{name=\"a\",engine=\"0\",port=\"0\",reason=\"bad_crc\"} 0
# HELP barewire_page_alive 1 while the process that writes the counters page runs.
# TYPE barewire_page_alive gauge
barewire_page_alive{name=\"a\"} 1
barewire_page_alive{name=\"b\"} 1
# HELP barewire_page_age_seconds Time since the counters page was made.
# TYPE barewire_page_age_seconds gauge
barewire_page_age_seconds{name=\"a\"} 1.500000000
barewire_page_age_seconds{name=\"b\"} 1.500000000
# HELP barewire_page_unregistered Counters on the page whose meaning this build does not know.
# TYPE barewire_page_unregistered gauge
barewire_page_unregistered{name=\"a\"} 1
barewire_page_unregistered{name=\"b\"} 0
# HELP barewire_page_left_out Counters of the page that are not shown because it has too many.
# TYPE barewire_page_left_out gauge
barewire_page_left_out{name=\"a\"} 0
barewire_page_left_out{name=\"b\"} 0
# HELP barewire_pages_left_out Counters pages that are not shown because there are too many.
# TYPE barewire_pages_left_out gauge
barewire_pages_left_out 3
";
        assert_eq!(render(&two(), Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_names_families_units_and_the_end() {
        let text = render(&two(), Format::OpenMetrics);
        assert!(text.contains("# TYPE barewire_port_rx_bytes counter\n# UNIT barewire_port_rx_bytes bytes\nbarewire_port_rx_bytes_total{"));
        assert!(text.contains("# UNIT barewire_engine_max_cycle_seconds seconds\n"));
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
        let none = render(&Pages::default(), Format::OpenMetrics);
        assert!(
            none.ends_with("\nbarewire_pages_left_out 0\n# EOF\n") && none.lines().count() == 4,
            "{none}"
        );
    }

    #[test]
    fn accept_decides() {
        use Format::{OpenMetrics, Prometheus};
        // What Prometheus 2 and 3 send, and what curl does.
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, wanted) in [
            (prometheus, OpenMetrics),
            ("*/*", Prometheus),
            ("", Prometheus),
            ("text/plain", Prometheus),
            ("application/openmetrics-text", OpenMetrics),
            ("application/openmetrics-text; version=1.0.0; q=0", Prometheus),
            ("application/openmetrics-text;q=0.3,text/plain;q=0.9", Prometheus),
            ("application/openmetrics-text;q=nan,;;,=", Prometheus),
        ] {
            assert_eq!(Format::of_accept(accept), wanted, "{accept}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A page may have been written by anybody: no name breaks out of its line or its label.
        #[test]
        fn no_name_breaks_the_text(name in "\\PC{0,20}|[a\"\\\\\n]{0,10}", counter in "(port\\.drop\\.)?\\PC{0,20}", value in any::<u64>()) {
            let pages = vec![page(&name, &[(&counter, CounterKind::Counter, value)])];
            let text = render(&Pages { pages, left_out: 0 }, Format::OpenMetrics);
            for line in text.lines() {
                prop_assert!(line.starts_with("# ") || line.starts_with("barewire_"), "{line}");
                if !line.starts_with('#') {
                    let (labels, value) = line.rsplit_once("} ").or(line.rsplit_once(' ')).unwrap();
                    prop_assert!(value.parse::<f64>().is_ok(), "{line}");
                    // Outside of escapes, quotes come in pairs.
                    let plain = labels.replace("\\\\", "").replace("\\\"", "");
                    prop_assert_eq!(plain.matches('"').count() % 2, 0, "{}", line);
                }
            }
        }
    }
}
