//! Tables (section 14.2).
use super::{Parsed, Parser};
use crate::ast::{ActionRef, Annotation, Entry, KeyElement, Property, PropertyKind, Table};
use crate::lex::{Token, TokenKind};
use crate::source::Span;
use barewire_text::nearest;

impl Parser<'_> {
    /// `table t { … }`
    pub(super) fn table(&mut self) -> Parsed<Table> {
        self.expect(TokenKind::Table)?;
        let name = self.name()?;
        self.expect(TokenKind::LBrace)?;
        if self.kind() == TokenKind::RBrace {
            return Err(self.unexpected(Some("a property: `key`, `actions`, `entries`, `default_action`, …")));
        }
        let properties = self.items(TokenKind::RBrace, Self::recover_member, Self::property);
        self.expect(TokenKind::RBrace)?;
        Ok(Table { name, properties })
    }

    fn property(&mut self) -> Parsed<Property> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_const = self.accept(TokenKind::Const);
        let token = self.token();
        let name = self.ident(token);
        let kind = match token.kind {
            TokenKind::Key | TokenKind::Actions if is_const => {
                return Err(self.unexpected(Some("a property that can be `const`")));
            }
            TokenKind::Key => {
                self.open_list()?;
                PropertyKind::Key(self.items(TokenKind::RBrace, Self::recover_member, Self::key_element))
            }
            TokenKind::Actions => {
                self.open_list()?;
                PropertyKind::Actions(self.items(TokenKind::RBrace, Self::recover_member, |p| {
                    let annotations = p.annotations()?;
                    let action = p.action_ref(annotations)?;
                    p.expect_semi()?;
                    Ok(action)
                }))
            }
            TokenKind::Entries => {
                self.open_list()?;
                PropertyKind::Entries(self.items(TokenKind::RBrace, Self::recover_member, Self::entry))
            }
            TokenKind::Ident
            | TokenKind::Apply
            | TokenKind::State
            | TokenKind::Type
            | TokenKind::Priority => {
                self.advance();
                self.expect(TokenKind::Assign)?;
                let open = self.at;
                self.meant = self.meant_property(token);
                let value = self.expr().and_then(|value| self.expect_semi().map(|_| value));
                let misnamed = self.meant.take().is_some();
                let value = match value {
                    Err(_) if misnamed && !self.quiet => {
                        // Nothing in it is read, and what follows is.
                        self.skip_braces(open);
                        let span = start.to(self.previous());
                        let kind = PropertyKind::Key(Vec::new());
                        return Ok(Property { id: self.id(), span, annotations, is_const, name, kind });
                    }
                    value => value?,
                };
                let span = start.to(self.previous());
                return Ok(Property {
                    id: self.id(),
                    span,
                    annotations,
                    is_const,
                    name,
                    kind: PropertyKind::Value(value),
                });
            }
            _ => {
                return Err(
                    self.unexpected(Some("a property: `key`, `actions`, `entries`, `default_action`, …"))
                );
            }
        };
        self.expect(TokenKind::RBrace)?;
        let span = start.to(self.previous());
        Ok(Property { id: self.id(), span, annotations, is_const, name, kind })
    }

    /// What a property with `{ … }` that has another name may have been meant to be.
    fn meant_property(&self, name: Token) -> Option<(Span, &'static str)> {
        if self.quiet || self.kind() != TokenKind::LBrace {
            return None;
        }
        let meant = match self.text(name) {
            // Of P4_14.
            "reads" => "key",
            text => nearest(text, ["key", "actions", "entries"])?,
        };
        Some((name.span, meant))
    }

    fn skip_braces(&mut self, open: usize) {
        self.at = open + 1;
        let mut depth = 1_usize;
        while depth > 0 && self.kind() != TokenKind::Eof {
            match self.advance().kind {
                TokenKind::LBrace => depth += 1,
                TokenKind::RBrace => depth -= 1,
                _ => {}
            }
        }
    }

    /// `key = {`
    fn open_list(&mut self) -> Parsed<()> {
        self.advance();
        self.expect(TokenKind::Assign)?;
        self.expect(TokenKind::LBrace)?;
        Ok(())
    }

    fn key_element(&mut self) -> Parsed<KeyElement> {
        let start = self.span();
        let expr = self.expr()?;
        self.expect(TokenKind::Colon)?;
        let match_kind = self.name()?;
        let annotations = self.annotations()?;
        self.expect_semi()?;
        Ok(KeyElement { id: self.id(), span: start.to(self.previous()), annotations, expr, match_kind })
    }

    fn action_ref(&mut self, annotations: Vec<Annotation>) -> Parsed<ActionRef> {
        let start = annotations.first().map_or(self.span(), |a| a.span);
        let absolute = self.accept(TokenKind::Dot);
        let name = if absolute { self.global_name()? } else { self.non_type_name()? };
        let args = if self.is(TokenKind::LParen) { Some(self.args()?) } else { None };
        Ok(ActionRef { id: self.id(), span: start.to(self.previous()), annotations, absolute, name, args })
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let start = self.span();
        let is_const = self.accept(TokenKind::Const);
        let priority = if self.kind() == TokenKind::Priority && self.peek(1).kind == TokenKind::Assign {
            self.advance();
            self.advance();
            let priority = if self.is(TokenKind::LParen) {
                self.advance();
                let priority = self.expr()?;
                self.expect(TokenKind::RParen)?;
                priority
            } else if self.is(TokenKind::Int) {
                let token = self.advance();
                self.int(token)
            } else {
                return Err(self.unexpected(Some("an integer, or an expression in parentheses")));
            };
            self.expect(TokenKind::Colon)?;
            Some(priority)
        } else {
            None
        };
        let keyset = self.keyset()?;
        self.expect(TokenKind::Colon)?;
        let action = self.action_ref(Vec::new())?;
        let annotations = self.annotations()?;
        self.expect_semi()?;
        Ok(Entry {
            id: self.id(),
            span: start.to(self.previous()),
            is_const,
            priority,
            keyset,
            action,
            annotations,
        })
    }
}
