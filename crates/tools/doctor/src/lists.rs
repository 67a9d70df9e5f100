//! The kernel's small text forms.

/// Highest core that is believed in.
const CORE_MAX: u32 = 65_535;

/// Cores of a list like `0-3,8`; `None` for anything else. An empty list is a list.
pub(crate) fn cores(list: &str) -> Option<Vec<u32>> {
    let mut cores = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > CORE_MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    cores.sort_unstable();
    cores.dedup();
    Some(cores)
}

/// The other way round.
pub(crate) fn list(cores: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(core) => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let one = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Value of the first line `key: value`.
pub(crate) fn keyed<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The choice in brackets of `always [madvise] never`.
pub(crate) fn bracketed(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// The value of a kernel parameter; the last one counts. `Some("")` when it stands there without one.
pub(crate) fn kernel_parameter<'a>(cmdline: &'a str, name: &str) -> Option<&'a str> {
    let words = cmdline.split_whitespace().take_while(|&word| word != "--");
    words
        .filter_map(|word| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            (key == name).then_some(value)
        })
        .last()
}

/// `1536 KiB`, `8 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        _ if n >= 1 << 30 && n.is_multiple_of(1 << 30) => format!("{} GiB", n >> 30),
        _ if n >= 1 << 20 => format!("{} MiB", n >> 20),
        _ if n >= 1 << 10 => format!("{} KiB", n >> 10),
        _ => format!("{n} bytes"),
    }
}

/// `740 ns`, `12.3 us`, `4.1 ms`.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(cores("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cores("3,1-2,2"), Some(vec![1, 2, 3]));
        assert_eq!(cores(""), Some(vec![]));
        for bad in ["3-1", "a", "0-", "-1", "0-4000000000", "1;2", "(null)"] {
            assert_eq!(cores(bad), None, "{bad}");
        }
        assert_eq!(list(&[0, 1, 2, 8, 10, 11]), "0-2,8,10-11");
    }

    #[test]
    fn parameters_and_choices() {
        let line = "quiet isolcpus=1 nohz_full isolcpus=2-3 -- isolcpus=9";
        assert_eq!(kernel_parameter(line, "isolcpus"), Some("2-3"));
        assert_eq!(kernel_parameter(line, "nohz_full"), Some(""));
        assert_eq!(kernel_parameter(line, "isol"), None);
        assert_eq!(bracketed("always [madvise] never"), Some("madvise"));
        assert_eq!(bracketed("always ]madvise["), None);
        assert_eq!(keyed("a : 1\nb: 2 3\n", "b"), Some("2 3"));
    }

    #[test]
    fn amounts_have_units() {
        assert_eq!(
            (bytes(8 << 20).as_str(), bytes(1 << 30).as_str(), bytes(5).as_str()),
            ("8 MiB", "1 GiB", "5 bytes")
        );
        assert_eq!((time(999).as_str(), time(12_300).as_str()), ("999 ns", "12.3 us"));
        assert_eq!((time(4_100_000).as_str(), time(1_500_000_000).as_str()), ("4.1 ms", "1.5 s"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn lists_come_back(mut wanted in proptest::collection::vec(0u32..300, 0..40)) {
            wanted.sort_unstable();
            wanted.dedup();
            prop_assert_eq!(cores(&list(&wanted)), Some(wanted));
        }

        #[test]
        fn no_text_panics(text in "([0-9,-]|\\PC|\n|:|\\[|\\]){0,40}") {
            let _ = (cores(&text), keyed(&text, "a"), bracketed(&text), kernel_parameter(&text, "a"));
        }
    }
}
