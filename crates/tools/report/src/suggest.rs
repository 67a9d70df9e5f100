//! The nearest right word.

/// Likeness below which a word is not taken for a slip.
const NEAR_ENOUGH: f64 = 0.75;

/// The word of `known` that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (likeness(word, k), k))
        .filter(|(likeness, _)| *likeness >= NEAR_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

/// `; did you mean X?`, or nothing.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |k| format!("; did you mean `{k}`?"))
}

/// A common beginning counts for much; swapped letters in a short word are one slip.
fn likeness(word: &str, known: &str) -> f64 {
    let slips = strsim::osa_distance(word, known);
    let few = slips <= (known.chars().count() / 3).max(1);
    strsim::jaro_winkler(word, known).max(if few { 1.0 - 0.1 * slips as f64 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_nonsense_is_not() {
        let known = ["table", "experiment", "axes"];
        assert_eq!(nearest("tabel", known), Some("table"));
        assert_eq!(nearest("experimnet", known), Some("experiment"));
        assert_eq!(nearest("zzzz", known), None);
        assert_eq!(hint("axis", known), "; did you mean `axes`?");
        assert_eq!(hint("", known), "");
    }
}
