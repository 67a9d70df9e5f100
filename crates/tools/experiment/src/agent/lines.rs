//! Bytes into lines: whole ones, bounded, nothing lost.

/// Longest piece of a line in bytes. A longer line comes in several pieces.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// Bytes that have not become a line yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    held: Vec<u8>,
}

impl Lines {
    /// Takes bytes, and gives every line that is whole to `emit`, without its end (`\n`, `\r\n`); the flag says that it goes on in
    /// the next piece.
    pub(crate) fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(String, bool)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.held.extend_from_slice(piece);
            while self.held.len() > PIECE_BYTES_MAX {
                let cut = cut_at(&self.held);
                let rest = self.held.split_off(cut);
                let piece = std::mem::replace(&mut self.held, rest);
                emit(String::from_utf8_lossy(&piece).into_owned(), true);
            }
            if self.held.ends_with(b"\n") {
                self.held.pop();
                self.end(&mut emit);
            }
        }
    }

    /// There is no more: what is left is a line, too.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(String, bool)) {
        if !self.held.is_empty() {
            self.end(&mut emit);
        }
    }

    fn end(&mut self, emit: &mut impl FnMut(String, bool)) {
        if self.held.ends_with(b"\r") {
            self.held.pop();
        }
        emit(String::from_utf8_lossy(&self.held).into_owned(), false);
        self.held.clear();
    }
}

/// Where to cut a line that is too long: not inside a character.
fn cut_at(held: &[u8]) -> usize {
    let max = PIECE_BYTES_MAX.min(held.len());
    // A character has at most three bytes behind its first.
    (max.saturating_sub(3)..=max)
        .rev()
        .find(|&at| held.get(at).is_none_or(|b| b & 0xc0 != 0x80))
        .unwrap_or(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(chunks: &[&[u8]]) -> Vec<(String, bool)> {
        let mut lines = Lines::default();
        let mut got = Vec::new();
        for chunk in chunks {
            lines.push(chunk, |text, more| got.push((text, more)));
        }
        lines.finish(|text, more| got.push((text, more)));
        got
    }

    #[test]
    fn lines_are_whole_however_the_bytes_come() {
        let whole = |texts: &[&str]| texts.iter().map(|t| ((*t).to_owned(), false)).collect::<Vec<_>>();
        assert_eq!(all(&[b"a\nb", b"c\r\n", b"\n", b"last"]), whole(&["a", "bc", "", "last"]));
        assert_eq!(all(&["gr\u{fc}".as_bytes().split_at(3).0, b"\xbcn\n"]), whole(&["gr\u{fc}n"]));
        assert_eq!(all(&[b"\xff\xfe\n"]), whole(&["\u{fffd}\u{fffd}"]));
        assert_eq!(all(&[]), whole(&[]));
    }

    #[test]
    fn a_line_of_megabytes_comes_in_pieces_and_is_itself() {
        let long = "\u{e4}".repeat(200_000);
        let got = all(&[b"x", long.as_bytes(), b"\nnext\n"]);
        assert!(got.len() > 5 && got.iter().all(|(text, _)| text.len() <= PIECE_BYTES_MAX));
        let (next, pieces) = got.split_last().unwrap();
        assert_eq!(next, &("next".to_owned(), false));
        assert!(pieces.iter().rev().skip(1).all(|(_, more)| *more) && !pieces.last().unwrap().1);
        assert_eq!(pieces.iter().map(|(text, _)| text.as_str()).collect::<String>(), format!("x{long}"));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_wherever_reads_end(text in "[a-c\n]{0,200}", cuts in proptest::collection::vec(0usize..200, 0..6)) {
            let mut chunks: Vec<&[u8]> = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                chunks.push(head);
                rest = tail;
            }
            chunks.push(rest);
            let got: Vec<String> = all(&chunks).into_iter().map(|(text, _)| text).collect();
            let want: Vec<&str> = text.lines().collect();
            prop_assert_eq!(got, want);
        }
    }
}
