//! The word that was probably meant, and how a message asks for it.

/// Words longer than this many bytes are not typed by hand; comparing them costs the product of their lengths.
const WORD_MAX: usize = 128;
/// Slips that a long word may have at most.
const SLIPS_MAX: usize = 4;
/// A beginning of this many characters may stand for the whole word.
const BEGINNING_MIN: usize = 4;

/// How a word is set off in a message: like everything else in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quote {
    /// `` `word` ``: everywhere but in what follows bmv2 and its tools.
    Back,
    /// `'word'`, as bmv2's tools write it: messages about bmv2 JSON, STF, P4Info and the control planes.
    Single,
}

/// The word of `known` that `word` was probably meant to be; never `word` itself.
///
/// Near is a word that as few slips (a letter wrong, missing, too many, or two swapped) turn into `word` as one in three of its letters,
/// at least one, at most four. Case is one slip. Of a dotted name the last part alone may be given (`rout` for `In.route`). Where
/// no word is that near, `word` may be the beginning of exactly one.
/// Of equally near words the first in the alphabet is taken, so that the order in which they come does not matter.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.is_empty() || word.len() > WORD_MAX {
        return None;
    }
    let most = (word.chars().count() / 3).clamp(1, SLIPS_MAX);
    let mut best: Option<(usize, &str)> = None;
    let mut begins: Option<&str> = None;
    let mut ambiguous = false;
    for name in known {
        if name == word {
            continue;
        }
        if let Some(slips) = slips(word, name, most)
            && best.is_none_or(|best| (slips, name) < best)
        {
            best = Some((slips, name));
        }
        if name.starts_with(word) {
            ambiguous |= begins.is_some_and(|other| other != name);
            begins = Some(name);
        }
    }
    let abbreviated = || begins.filter(|_| !ambiguous && word.chars().count() >= BEGINNING_MIN);
    best.map(|(_, name)| name).or_else(abbreviated)
}

/// Slips between a word and a name or the name's last part, if there are at most `most`.
fn slips(word: &str, name: &str, most: usize) -> Option<usize> {
    let whole = distance(word, name, most);
    let last = name.rsplit_once('.').filter(|_| !word.contains('.'));
    // An exact last part is a slip too: the rest of the name is missing.
    let last = last.and_then(|(_, last)| distance(word, last, most)).map(|slips| slips.max(1));
    [whole, last].into_iter().flatten().min()
}

fn distance(word: &str, name: &str, most: usize) -> Option<usize> {
    if word.eq_ignore_ascii_case(name) {
        return Some(usize::from(word != name));
    }
    // One slip changes the length by at most one character, which is at most four bytes.
    if name.len() > WORD_MAX || name.len().abs_diff(word.len()) > 4 * most {
        return None;
    }
    Some(strsim::osa_distance(word, name)).filter(|slips| *slips <= most)
}

/// ``did you mean `near`?``
pub fn did_you_mean(near: &str, quote: Quote) -> String {
    match quote {
        Quote::Back => format!("did you mean `{near}`?"),
        Quote::Single => format!("did you mean '{near}'?"),
    }
}

/// `lead` and the question, to be put behind a message; empty where no word is near.
pub fn hint(lead: &str, near: Option<&str>, quote: Quote) -> String {
    near.map_or_else(String::new, |near| format!("{lead}{}", did_you_mean(near, quote)))
}

/// The question when a word is near, and the list of all of them.
pub fn suggest(word: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("{} (known: {list})", did_you_mean(near, Quote::Back)),
        None => format!("known: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slips_are_understood() {
        for (word, meant) in [
            ("tabel", "table"),
            ("experimnet", "experiment"),
            ("axis", "axes"),
            ("queeu", "queue"),
            ("sokcet", "socket"),
            ("a_then_c", "a_then_b"),
            ("nature", "natural"),
            ("9011", "901"),
            ("ap", "app"),
            ("loo", "lo"),
            ("bigendian", "bigEndian"),
            ("LPM", "lpm"),
            ("rout", "In.route"),
            ("route", "In.route"),
            ("oute", "In.route"),
            ("zero", "zerocopy"),
        ] {
            assert_eq!(nearest(word, ["keepalive_ms", "x.y", meant]), Some(meant), "{word}");
        }
    }

    #[test]
    fn what_is_no_slip_gets_no_advice() {
        let known = ["table", "experiment", "axes", "state", "station"];
        for word in ["zzzz", "", "table", "st", "sta", "stat.e.x", "cable_car", &"t".repeat(500)] {
            assert_eq!(nearest(word, known), None, "{word}");
        }
        // Two words begin so.
        assert_eq!(nearest("kern", ["kernel-tcp", "kernel-udp"]), None);
        assert_eq!(nearest("abc", ["x".repeat(500).as_str()]), None);
    }

    #[test]
    fn the_least_slips_win_and_then_the_alphabet() {
        assert_eq!(nearest("stat", ["station", "stats", "state"]), Some("state"));
        assert_eq!(nearest("stat", ["state", "stats"]), nearest("stat", ["stats", "state"]));
        assert_eq!(nearest("loss_rat", ["loss_cat_x", "loss_rate"]), Some("loss_rate"));
    }

    #[test]
    fn questions_are_asked_in_one_way() {
        assert_eq!(hint("; ", Some("axes"), Quote::Back), "; did you mean `axes`?");
        assert_eq!(hint(", ", Some("axes"), Quote::Single), ", did you mean 'axes'?");
        assert_eq!(hint(", ", None, Quote::Single), "");
        assert_eq!(suggest("xpd", &["mem", "xdp"]), "did you mean `xdp`? (known: mem, xdp)");
        assert_eq!(suggest("other", &["mem", "xdp"]), "known: mem, xdp");
    }

    proptest! {
        #[test]
        fn one_slip_in_a_long_word_is_found(word in "[a-z]{4,20}", at in 0usize..20, kind in 0..4) {
            let mut letters: Vec<char> = word.chars().collect();
            let at = at % letters.len();
            match kind {
                0 => letters[at] = '_',
                1 => { letters.remove(at); }
                2 => letters.insert(at, '_'),
                _ => letters.swap(at, (at + 1) % word.len()),
            }
            let wrong: String = letters.into_iter().collect();
            prop_assume!(wrong != word && !(kind == 3 && at + 1 == word.len()));
            prop_assert_eq!(nearest(&wrong, [word.as_str()]), Some(word.as_str()));
        }

        #[test]
        fn any_text_has_an_answer(word in any::<String>(), known in prop::collection::vec(any::<String>(), 0..8)) {
            let near = nearest(&word, known.iter().map(String::as_str));
            prop_assert!(near.is_none_or(|near| known.iter().any(|known| known == near)));
        }
    }
}
