//! Parsers and controls (sections 13 and 14).
use super::scope::What;
use super::{Parsed, Parser};
use crate::ast::{
    Annotation, Control, Decl, DeclKind, Param, Parser as ParserDecl, Select, SelectCase, State, Stmt,
    Transition, TransitionKind, ValueSet,
};
use crate::diag::Diagnostic;
use crate::lex::TokenKind;
use crate::source::Span;

impl Parser<'_> {
    /// `parser p(…);` or `parser p(…)(…) { … }`
    pub(super) fn parser_or_type(&mut self) -> Parsed<DeclKind> {
        self.scopes.enter();
        let (head, sym) = self.head()?;
        if self.accept(TokenKind::Semi) {
            self.scopes.leave();
            self.scopes.declare(sym, What::Type);
            return Ok(DeclKind::ParserType(head));
        }
        let constructor_params = self.constructor_params()?;
        self.expect(TokenKind::LBrace)?;
        let mut locals = Vec::new();
        let mut states = Vec::new();
        let items = self.items(TokenKind::RBrace, Self::recover_statement, |p| {
            let start = p.span();
            let annotations = p.annotations()?;
            if p.kind() == TokenKind::State && Self::is_name(p.peek(1)) {
                return Ok(ParserItem::State(p.state(start, annotations)?));
            }
            Ok(ParserItem::Local(p.parser_local(start, annotations)?))
        });
        for item in items {
            match item {
                ParserItem::State(state) => states.push(state),
                ParserItem::Local(decl) => {
                    if states.is_empty() {
                        locals.push(decl);
                    } else {
                        let error = Diagnostic::error(
                            "syntax",
                            decl.span,
                            "expected `state` or `}`, found a declaration",
                        );
                        self.diags
                            .push(error.help("the declarations of a parser stand before its first state"));
                    }
                }
            }
        }
        if states.is_empty() && !self.diags.has_errors() {
            return Err(self.unexpected(Some("`state`: a parser has one at least")));
        }
        self.expect(TokenKind::RBrace)?;
        self.scopes.leave();
        self.scopes.declare(sym, What::Type);
        Ok(DeclKind::Parser(ParserDecl { head, constructor_params, locals, states }))
    }

    fn constructor_params(&mut self) -> Parsed<Vec<Param>> {
        if self.is(TokenKind::LParen) { self.params() } else { Ok(Vec::new()) }
    }

    fn parser_local(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Decl> {
        match self.kind() {
            TokenKind::Const => self.constant(start, annotations),
            TokenKind::ValueSet => {
                let kind = DeclKind::ValueSet(self.value_set()?);
                Ok(self.make_decl(start, annotations, kind))
            }
            _ if self.starts_type(0) => self.variable_or_instance(start, annotations),
            TokenKind::Ident if Self::is_name(self.peek(1)) => {
                // Asked for only to be named in the message and its advice.
                self.is(TokenKind::State);
                Err(self.unexpected_word())
            }
            _ => Err(self.unexpected(Some("`state`, a declaration or `}`"))),
        }
    }

    pub(super) fn variable_or_instance(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Decl> {
        let ty = self.type_ref()?;
        if self.kind() == TokenKind::LParen {
            return self.instance(start, annotations, ty);
        }
        let mut decl = self.variable(start, annotations, ty)?;
        let end = self.expect_semi()?;
        decl.span = decl.span.to(end);
        Ok(decl)
    }

    fn value_set(&mut self) -> Parsed<ValueSet> {
        self.expect(TokenKind::ValueSet)?;
        self.expect(TokenKind::LAngle)?;
        let ty = self.type_ref()?;
        self.expect(TokenKind::RAngle)?;
        self.expect(TokenKind::LParen)?;
        let size = self.expr()?;
        self.expect(TokenKind::RParen)?;
        let token = self.token();
        let name = self.name()?;
        if token.kind == TokenKind::Ident {
            self.scopes.declare(token.text, What::Value);
        }
        self.expect_semi()?;
        Ok(ValueSet { ty, size, name })
    }

    fn state(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<State> {
        self.expect(TokenKind::State)?;
        let name = self.name()?;
        self.scopes.enter();
        self.expect(TokenKind::LBrace)?;
        self.in_state = true;
        let mut stmts: Vec<Stmt> = Vec::new();
        while !self.is(TokenKind::Transition) && !self.is(TokenKind::RBrace) && self.kind() != TokenKind::Eof
        {
            let (before, scopes, depth) = (self.at, self.scopes.mark(), self.depth);
            match self.stmt_or_decl() {
                Ok(stmt) => stmts.push(stmt),
                Err(_) => {
                    self.scopes.back_to(scopes);
                    self.depth = depth;
                    self.recover_statement();
                    if self.kind() == TokenKind::State || self.diags.is_full() {
                        break;
                    }
                    if self.at == before {
                        self.advance();
                    }
                }
            }
        }
        self.in_state = false;
        let transition = if self.kind() == TokenKind::Transition { self.transition()? } else { None };
        self.expect(TokenKind::RBrace)?;
        self.scopes.leave();
        Ok(State { id: self.id(), span: start.to(self.previous()), annotations, name, stmts, transition })
    }

    fn transition(&mut self) -> Parsed<Option<Transition>> {
        let start = self.expect(TokenKind::Transition)?;
        let kind = if self.is(TokenKind::Select) {
            TransitionKind::Select(self.select()?)
        } else {
            if !Self::is_name(self.token()) {
                let failed = self.unexpected(Some("the name of a state, or `select`"));
                // The state ends here all the same.
                return if self.kind() == TokenKind::RBrace && !self.quiet { Ok(None) } else { Err(failed) };
            }
            let name = self.name()?;
            self.expect_semi()?;
            TransitionKind::Direct(name)
        };
        Ok(Some(Transition { id: self.id(), span: start.to(self.previous()), kind }))
    }

    fn select(&mut self) -> Parsed<Select> {
        let start = self.expect(TokenKind::Select)?;
        self.expect(TokenKind::LParen)?;
        let subjects = self.comma_list(TokenKind::RParen, false, Self::expr)?;
        self.expect(TokenKind::RParen)?;
        self.expect(TokenKind::LBrace)?;
        let cases = self.items(TokenKind::RBrace, Self::recover_member, |p| {
            let start = p.span();
            let keyset = p.keyset()?;
            p.expect(TokenKind::Colon)?;
            let state = p.name()?;
            p.expect_semi()?;
            Ok(SelectCase { id: p.id(), span: start.to(p.previous()), keyset, state })
        });
        let end = self.expect(TokenKind::RBrace)?;
        Ok(Select { span: start.to(end), subjects, cases })
    }

    /// `control c(…);` or `control c(…)(…) { … apply { … } }`
    pub(super) fn control_or_type(&mut self) -> Parsed<DeclKind> {
        self.scopes.enter();
        let (head, sym) = self.head()?;
        if self.accept(TokenKind::Semi) {
            self.scopes.leave();
            self.scopes.declare(sym, What::Type);
            return Ok(DeclKind::ControlType(head));
        }
        let constructor_params = self.constructor_params()?;
        self.expect(TokenKind::LBrace)?;
        let mut locals = Vec::new();
        while !self.is(TokenKind::Apply) && !matches!(self.kind(), TokenKind::RBrace | TokenKind::Eof) {
            let (before, scopes, depth) = (self.at, self.scopes.mark(), self.depth);
            match self.control_local() {
                Ok(decl) => locals.push(decl),
                Err(_) => {
                    self.scopes.back_to(scopes);
                    self.depth = depth;
                    self.recover_statement();
                    if self.diags.is_full() {
                        return Err(super::Failed);
                    }
                    if self.at == before {
                        self.advance();
                    }
                }
            }
        }
        self.expect(TokenKind::Apply)?;
        let apply = self.block()?;
        self.expect(TokenKind::RBrace)?;
        self.scopes.leave();
        self.scopes.declare(sym, What::Type);
        Ok(DeclKind::Control(Control { head, constructor_params, locals, apply }))
    }

    fn control_local(&mut self) -> Parsed<Decl> {
        let start = self.span();
        let annotations = self.annotations()?;
        let kind = match self.kind() {
            TokenKind::Const => return self.constant(start, annotations),
            TokenKind::Action => DeclKind::Action(self.action()?),
            TokenKind::Table => DeclKind::Table(self.table()?),
            _ if self.starts_type(0) => return self.variable_or_instance(start, annotations),
            TokenKind::Ident if Self::is_name(self.peek(1)) => {
                // Asked for only to be named in the message and its advice.
                self.is(TokenKind::Table);
                self.is(TokenKind::Action);
                self.is(TokenKind::Apply);
                return Err(self.unexpected_word());
            }
            _ => return Err(self.unexpected(Some("a declaration or `apply`"))),
        };
        Ok(self.make_decl(start, annotations, kind))
    }
}

enum ParserItem {
    State(State),
    Local(Decl),
}
