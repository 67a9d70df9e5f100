//! Where reading goes on after an error.
use super::Parser;
use crate::lex::{LINE, TokenKind};

impl Parser<'_> {
    /// Behind the `;` of a statement or the `}` of its block, or before the `}` around it or a word that begins a statement on a
    /// line of its own.
    pub(super) fn recover_statement(&mut self) {
        use TokenKind::*;
        self.skip(|kind| {
            matches!(
                kind,
                If | Switch
                    | For
                    | Return
                    | Exit
                    | Break
                    | Continue
                    | Const
                    | State
                    | Transition
                    | Action
                    | Table
                    | Apply
            )
        });
    }

    /// The same among members: fields, entries, keys, methods, properties.
    pub(super) fn recover_member(&mut self) {
        self.skip(|kind| matches!(kind, TokenKind::Key | TokenKind::Actions | TokenKind::Entries));
    }

    /// The same at the top level.
    pub(super) fn recover_declaration(&mut self) {
        use TokenKind::*;
        self.skip(|kind| {
            let types = matches!(kind, Header | HeaderUnion | Struct | Enum | Typedef | Type | MatchKind);
            types || matches!(kind, Parser | Control | Package | Extern | Const | Action | Error | At)
        });
        // A brace too many does not end the program.
        while self.kind() == RBrace {
            self.advance();
        }
    }

    fn skip(&mut self, begins: impl Fn(TokenKind) -> bool) {
        let mut depth = 0_usize;
        let first = self.at;
        loop {
            let token = self.token();
            match token.kind {
                TokenKind::Eof => return,
                TokenKind::LBrace => depth += 1,
                TokenKind::RBrace if depth == 0 => return,
                TokenKind::RBrace => {
                    depth -= 1;
                    if depth == 0 {
                        self.advance();
                        if self.kind() == TokenKind::Semi {
                            self.advance();
                        }
                        return;
                    }
                }
                TokenKind::Semi if depth == 0 => {
                    self.advance();
                    return;
                }
                kind if depth == 0 && self.at > first && token.has(LINE) && begins(kind) => return,
                _ => {}
            }
            self.advance();
        }
    }
}
