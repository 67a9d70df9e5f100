//! Words of the command line.

use barewire_port::suggest;

/// The value of a word.
///
/// # Errors
/// In words: the nearest right one, and all of them.
pub fn word<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    found
        .ok_or_else(|| format!("`{text}` is not known{}; known: {}", suggest(text, &names), names.join(", ")))
}
