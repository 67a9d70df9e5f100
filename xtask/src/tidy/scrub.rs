//! Takes comments and literals out of Rust source, so that rules about code look at code only.

/// `source` with the text of comments and of string and character literals replaced by blanks. Lines keep their numbers.
pub fn scrub(source: &str) -> String {
    let mut s = Scrubber { rest: source, out: String::with_capacity(source.len()) };
    let mut previous = ' ';
    while let Some(c) = s.rest.chars().next() {
        if s.rest.starts_with("//") {
            let end = s.rest.find('\n').unwrap_or(s.rest.len());
            s.blank(end);
        } else if s.rest.starts_with("/*") {
            let end = block_comment(s.rest);
            s.blank(end);
        } else if let Some(hashes) = raw_string(s.rest).filter(|_| !is_word(previous)) {
            let close = format!("\"{}", "#".repeat(hashes));
            let open = s.rest.find('"').map_or(s.rest.len(), |at| at + 1);
            let end = s.rest[open..].find(&close).map_or(s.rest.len(), |at| open + at + close.len());
            s.blank(end);
        } else if c == '"' {
            let end = quoted(s.rest, '"');
            s.blank(end);
        } else if c == '\'' && is_char_literal(s.rest) {
            let end = quoted(s.rest, '\'');
            s.blank(end);
        } else {
            s.out.push(c);
            s.rest = &s.rest[c.len_utf8()..];
        }
        previous = c;
    }
    s.out
}

/// The lines (from 1) of scrubbed code in which `word` stands as a whole word.
pub fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(|(_, line)| has_word(line, word)).map(|(i, _)| i + 1)
}

/// Whether `word` stands in `line` as a whole word.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + word.len()..].starts_with(is_word))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scrubber<'a> {
    rest: &'a str,
    out: String,
}

impl Scrubber<'_> {
    fn blank(&mut self, len: usize) {
        let (gone, rest) = self.rest.split_at(len);
        self.out.extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

/// Length of the block comment that `text` starts with; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// How many hashes the raw string has that `text` starts with, if it starts with one.
fn raw_string(text: &str) -> Option<usize> {
    let body = ["r", "br", "cr"].iter().find_map(|prefix| {
        let body = text.strip_prefix(prefix)?;
        body.starts_with(['"', '#']).then_some(body)
    })?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    body[hashes..].starts_with('"').then_some(hashes)
}

/// Length of the literal between two `quote`s that `text` starts with.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Not a lifetime: `'x'`, or a backslash after the quote.
fn is_char_literal(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<usize> {
        lines_with_word(&scrub(source), "unsafe").collect()
    }

    #[test]
    fn only_code_counts() {
        assert_eq!(words("unsafe fn f() {}\n"), [1]);
        assert_eq!(words("// unsafe\n/* unsafe /* unsafe */ unsafe */\nunsafe {}\n"), [3]);
        assert_eq!(words("let a = \"unsafe \\\" unsafe\"; let b = 'u';\nunsafe {}"), [2]);
        assert_eq!(words("let a = r#\"unsafe \" unsafe\"#; unsafe {}"), [1]);
        assert_eq!(words("let a = br\"unsafe\";\nlet c = b\"unsafe\";"), [0usize; 0]);
        assert_eq!(words("#![forbid(unsafe_code)] deny(unsafe_op_in_unsafe_fn)"), [0usize; 0]);
        assert_eq!(words("#[unsafe(no_mangle)]"), [1]);
    }

    #[test]
    fn quotes_that_open_nothing() {
        assert_eq!(words("fn f<'a>(x: &'a str) {}\nunsafe {}"), [2]);
        assert_eq!(words("let q = '\"'; unsafe {} let r = '\\''; let s = \"unsafe\";"), [1]);
        assert_eq!(words("let bar = 1; bar\"unsafe\""), [0usize; 0]);
        assert_eq!(words("let s = \"a\n\nb\";\nunsafe {}"), [4]);
    }

    #[test]
    fn unfinished_source_ends() {
        for source in ["\"abc", "/* abc /* */", "r#\"abc\"", "'", "'\\", "/", "r#", "ü\"ü", "'ü'"] {
            let _ = scrub(source);
        }
        assert_eq!(scrub("a/*ü*/b"), "a     b");
    }
}
