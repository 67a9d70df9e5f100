//! Places: bytes here, lines and UTF-16 units in editors; paths here, URIs there.
use std::str::FromStr as _;

use barewire_p4_source::SourceMap;
use barewire_p4_source::Span;
use lsp_types::{Position, Range, Uri};

/// Line and UTF-16 unit of a byte of a text.
fn position(text: &str, at: usize) -> Position {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    Position::new(line as u32, text[start..at].encode_utf16().count() as u32)
}

/// The byte of a line and UTF-16 unit.
pub fn offset(text: &str, position: Position) -> usize {
    let mut start = 0;
    for _ in 0..position.line {
        match text[start..].find('\n') {
            Some(length) => start += length + 1,
            None => return text.len(),
        }
    }
    let mut units = 0;
    for (i, c) in text[start..].char_indices() {
        if c == '\n' || units >= position.character as usize {
            return start + i;
        }
        units += c.len_utf16();
    }
    text.len()
}

/// A span of a file.
pub fn range(map: &SourceMap, span: Span) -> Range {
    let text = map.file(span.file).map_or("", |f| f.text());
    Range::new(position(text, span.start as usize), position(text, span.end as usize))
}

/// All of a text.
pub fn whole(text: &str) -> Range {
    Range::new(Position::new(0, 0), position(text, text.len()))
}

/// The path of a `file:` URI.
pub fn path(uri: &Uri) -> Option<String> {
    let rest = uri.as_str().strip_prefix("file://")?;
    let rest = &rest[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(rest.len());
    let mut list = rest.bytes();
    while let Some(byte) = list.next() {
        if byte == b'%' {
            let digits = [list.next()?, list.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The URI of an absolute path.
pub fn uri(path: &str) -> Option<Uri> {
    if !path.starts_with('/') {
        return None;
    }
    let mut text = String::from("file://");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    Uri::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_there_and_back() {
        let text = "a\nbé😀c\n";
        for (at, line, unit) in
            [(0, 0, 0), (1, 0, 1), (2, 1, 0), (5, 1, 2), (9, 1, 4), (10, 1, 5), (11, 2, 0)]
        {
            assert_eq!(position(text, at), Position::new(line, unit), "{at}");
            assert_eq!(offset(text, Position::new(line, unit)), at);
        }
        assert_eq!(offset(text, Position::new(0, 99)), 1);
        assert_eq!(offset(text, Position::new(9, 0)), text.len());
    }

    #[test]
    fn paths_go_there_and_back() {
        let there = uri("/a b/ü%.p4").unwrap();
        assert_eq!(there.as_str(), "file:///a%20b/%C3%BC%25.p4");
        assert_eq!(path(&there).as_deref(), Some("/a b/ü%.p4"));
        assert_eq!(uri("a"), None);
    }
}
