//! What a reader that serde made says of a key. It says it in words only, so here they are taken apart, and nowhere else.

use crate::{Quote, did_you_mean, nearest};

/// A key that a reader refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyError<'m> {
    /// There is no such key.
    Unknown {
        /// The key.
        key: &'m str,
        /// Those that could stand there, in the order of their declaration.
        known: Vec<&'m str>,
    },
    /// The key must stand there and does not.
    Missing {
        /// The key.
        key: &'m str,
    },
}

impl<'m> KeyError<'m> {
    /// The known key that an unknown one was probably meant to be.
    pub fn nearest(&self) -> Option<&'m str> {
        match self {
            KeyError::Unknown { key, known } => nearest(key, known.iter().copied()),
            KeyError::Missing { .. } => None,
        }
    }
}

/// What `message` says of a key: ``unknown field `a`, expected `b` or `c` `` and ``missing field `a` ``, with anything before and behind
/// them, as toml puts the line of the file there. `None`: it is about something else.
pub fn key_error(message: &str) -> Option<KeyError<'_>> {
    const UNKNOWN: &str = "unknown field `";
    const MISSING: &str = "missing field `";
    if let Some((_, rest)) = message.split_once(UNKNOWN) {
        let (key, rest) = rest.split_once('`')?;
        let rest = rest.lines().next().unwrap_or_default();
        return Some(KeyError::Unknown { key, known: rest.split('`').skip(1).step_by(2).collect() });
    }
    let (key, _) = message.split_once(MISSING)?.1.split_once('`')?;
    Some(KeyError::Missing { key })
}

/// The message without white space at its end and, if it is about an unknown key, with the nearest known one on a line of its own.
pub fn with_nearest_key(message: &str) -> String {
    let message = message.trim_end();
    match key_error(message).and_then(|error| error.nearest()) {
        Some(near) => format!("{message}\n{}", did_you_mean(near, Quote::Back)),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_messages() {
        let unknown = "TOML parse error at line 3, column 1\n  |\n3 | `rusn` = 2\n  | ^^^^\nunknown field `rusn`, expected `runs` or `name`\n`x`";
        let error = key_error(unknown).unwrap();
        assert_eq!(error, KeyError::Unknown { key: "rusn", known: vec!["runs", "name"] });
        assert_eq!(error.nearest(), Some("runs"));
        assert_eq!(key_error("missing field `name`\n"), Some(KeyError::Missing { key: "name" }));
        assert_eq!(
            key_error("unknown field `a`, there are no fields"),
            Some(KeyError::Unknown { key: "a", known: vec![] })
        );
        for other in ["", "unknown field `", "missing field `a", "invalid type: `a`"] {
            assert_eq!(key_error(other), None, "{other}");
        }
    }

    #[test]
    fn the_nearest_key_gets_a_line() {
        let said = with_nearest_key("unknown field `cnd`, expected one of `host`, `cmd`\n");
        assert_eq!(said, "unknown field `cnd`, expected one of `host`, `cmd`\ndid you mean `cmd`?");
        assert_eq!(with_nearest_key("expected a number\n"), "expected a number");
    }
}
