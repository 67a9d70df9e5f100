//! Values by their names, as the command line and configurations write them.

use crate::suggest;

/// The value of a name.
///
/// # Errors
/// In words: the nearest right one, and all of them.
pub fn by_name<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    // The suggestion ends with all of them.
    found.ok_or_else(|| format!("`{text}` is not known; {}", suggest(text, &names)))
}

/// The value of a name, or `all` or `none` of those that are known.
///
/// # Errors
/// As [`by_name`].
pub fn some_by_name<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<Vec<T>, String> {
    match text {
        "all" => Ok(known.iter().map(|(_, value)| *value).collect()),
        "none" => Ok(Vec::new()),
        _ => {
            let mut words: Vec<(&str, Option<T>)> =
                known.iter().map(|&(name, value)| (name, Some(value))).collect();
            words.extend([("all", None), ("none", None)]);
            by_name(text, &words).map(|found| found.into_iter().collect())
        }
    }
}

/// Reads a type from the names in a table, or (`some`) one around several of its values.
#[macro_export]
macro_rules! named {
    ($what:ident, $known:ident) => {
        $crate::named!(@ $what, |text| $crate::by_name(text, &$known));
    };
    ($what:ident some, $known:ident) => {
        $crate::named!(@ $what, |text| $crate::some_by_name(text, &$known).map($what));
    };
    (@ $what:ident, $read:expr) => {
        impl std::str::FromStr for $what {
            type Err = String;

            fn from_str(text: &str) -> Result<$what, String> {
                let read: fn(&str) -> Result<$what, String> = $read;
                read(text)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_is_told_the_right_ones_once() {
        let known = [("mem", 1), ("pcap", 2), ("xdp", 3)];
        assert_eq!(by_name("pcap", &known), Ok(2));
        let why = by_name("xpd", &known).unwrap_err();
        assert_eq!(why, "`xpd` is not known; did you mean `xdp`? (known: mem, pcap, xdp)");
        assert_eq!(by_name("veth", &known).unwrap_err(), "`veth` is not known; known: mem, pcap, xdp");
        assert_eq!(some_by_name("all", &known), Ok(vec![1, 2, 3]));
        assert_eq!((some_by_name("none", &known), some_by_name("xdp", &known)), (Ok(vec![]), Ok(vec![3])));
        let why = some_by_name("nnoe", &known).unwrap_err();
        assert_eq!(why, "`nnoe` is not known; did you mean `none`? (known: mem, pcap, xdp, all, none)");
    }
}
