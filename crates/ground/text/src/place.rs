//! Where in a text something stands: what a person needs to find it.

use std::fmt;

/// Line and column, both from one, columns in characters. Shown as `line:column`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Line, from one.
    pub line: u32,
    /// Column in characters, from one.
    pub column: u32,
}

impl Place {
    /// Where a text begins.
    pub const START: Place = Place { line: 1, column: 1 };

    /// The place of byte `at` of `text`: of the character that the byte belongs to, and of the text's end when `at` is beyond it.
    pub fn of(text: &str, at: usize) -> Place {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &text[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            line: before.matches('\n').count() as u32 + 1,
            column: before[start..].chars().count() as u32 + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_in_characters() {
        let text = "ab\nçd\n";
        let at = |byte| Place::of(text, byte).to_string();
        assert_eq!((at(0), at(1), at(3), at(5)), ("1:1".into(), "1:2".into(), "2:1".into(), "2:2".into()));
        // In the middle of a character, and beyond the end.
        assert_eq!((at(4), at(99)), ("2:1".into(), "3:1".into()));
        assert_eq!(Place::of(text, 0), Place::START);
    }
}
