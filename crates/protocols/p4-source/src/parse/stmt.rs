//! Statements (section 12).
use super::scope::What;
use super::{Parsed, Parser};
use crate::ast::{
    Annotation, BinaryOp, Block, Const, Decl, DeclKind, Expr, ExprKind, For, ForCollection, ForIn, If, IfArm,
    Stmt, StmtKind, Switch, SwitchCase, SwitchLabel, TypeKind, Variable,
};
use crate::lex::TokenKind;
use crate::source::Span;

/// `+=` and its like.
fn assign_op(kind: TokenKind) -> Option<BinaryOp> {
    Some(match kind {
        TokenKind::PlusAssign => BinaryOp::Add,
        TokenKind::MinusAssign => BinaryOp::Sub,
        TokenKind::PlusSatAssign => BinaryOp::AddSat,
        TokenKind::MinusSatAssign => BinaryOp::SubSat,
        TokenKind::StarAssign => BinaryOp::Mul,
        TokenKind::SlashAssign => BinaryOp::Div,
        TokenKind::PercentAssign => BinaryOp::Mod,
        TokenKind::ShlAssign => BinaryOp::Shl,
        TokenKind::AmpAssign => BinaryOp::BitAnd,
        TokenKind::PipeAssign => BinaryOp::BitOr,
        TokenKind::CaretAssign => BinaryOp::BitXor,
        _ => return None,
    })
}

impl Parser<'_> {
    fn make_stmt(&mut self, start: Span, kind: StmtKind) -> Stmt {
        Stmt { id: self.id(), span: start.to(self.previous()), kind }
    }

    /// `blockStatement`
    pub(super) fn block(&mut self) -> Parsed<Block> {
        let annotations = self.annotations()?;
        self.block_with(annotations)
    }

    pub(super) fn block_with(&mut self, annotations: Vec<Annotation>) -> Parsed<Block> {
        let start = self.expect(TokenKind::LBrace)?;
        self.scopes.enter();
        let stmts = self.items(TokenKind::RBrace, Self::recover_statement, Self::stmt_or_decl);
        let end = self.expect(TokenKind::RBrace)?;
        self.scopes.leave();
        Ok(Block { id: self.id(), span: start.to(end), annotations, stmts })
    }

    /// `statementOrDeclaration`, `parserStatement`
    pub(super) fn stmt_or_decl(&mut self) -> Parsed<Stmt> {
        let start = self.span();
        if self.kind() == TokenKind::At {
            let annotations = self.annotations()?;
            return match self.kind() {
                TokenKind::LBrace => {
                    let block = self.deeper(|p| p.block_with(annotations))?;
                    Ok(self.make_stmt(start, StmtKind::Block(block)))
                }
                TokenKind::For if !self.in_state => self.for_stmt(start, annotations),
                TokenKind::Const => self.const_stmt(start, annotations),
                _ if self.starts_type(0) => self.type_stmt(start, annotations),
                _ => Err(self.unexpected(Some("a declaration, a block or a loop behind the annotations"))),
            };
        }
        if self.kind() == TokenKind::Const {
            return self.const_stmt(start, Vec::new());
        }
        if self.starts_type(0) {
            return self.type_stmt(start, Vec::new());
        }
        self.stmt()
    }

    /// `statement`
    pub(super) fn stmt(&mut self) -> Parsed<Stmt> {
        self.deeper(Self::stmt_inner)
    }

    fn stmt_inner(&mut self) -> Parsed<Stmt> {
        let start = self.span();
        let kind = self.kind();
        if self.in_state
            && matches!(
                kind,
                TokenKind::Switch
                    | TokenKind::For
                    | TokenKind::Return
                    | TokenKind::Exit
                    | TokenKind::Break
                    | TokenKind::Continue
            )
        {
            let error = self.unexpected(Some("a statement of a parser state, `transition` or `}`"));
            return Err(error);
        }
        let kind = match kind {
            TokenKind::Semi => {
                self.advance();
                StmtKind::Empty
            }
            TokenKind::LBrace => StmtKind::Block(self.block_with(Vec::new())?),
            TokenKind::At => {
                let annotations = self.annotations()?;
                if self.kind() == TokenKind::For && !self.in_state {
                    return self.for_stmt(start, annotations);
                }
                StmtKind::Block(self.block_with(annotations)?)
            }
            TokenKind::If => StmtKind::If(self.if_stmt()?),
            TokenKind::Switch => StmtKind::Switch(self.switch()?),
            TokenKind::For => return self.for_stmt(start, Vec::new()),
            TokenKind::Return => {
                self.advance();
                let value = if self.is(TokenKind::Semi) { None } else { Some(self.expr()?) };
                self.expect_semi()?;
                StmtKind::Return(value)
            }
            TokenKind::Exit => self.word_stmt(StmtKind::Exit)?,
            TokenKind::Break => self.word_stmt(StmtKind::Break)?,
            TokenKind::Continue => self.word_stmt(StmtKind::Continue)?,
            _ if self.is_type_name(self.token()) || self.kind() == TokenKind::Dot && self.starts_type(0) => {
                let kind = self.direct_apply()?;
                self.expect_semi()?;
                kind
            }
            _ => {
                let kind = self.assign_or_call()?;
                self.expect_semi()?;
                kind
            }
        };
        Ok(self.make_stmt(start, kind))
    }

    fn word_stmt(&mut self, kind: StmtKind) -> Parsed<StmtKind> {
        self.advance();
        self.expect_semi()?;
        Ok(kind)
    }

    /// `T.apply(…)`, and `T.f(…)`
    fn direct_apply(&mut self) -> Parsed<StmtKind> {
        let ty = self.named_type()?;
        self.type_call(ty)
    }

    fn type_call(&mut self, ty: crate::ast::Type) -> Parsed<StmtKind> {
        if !self.is(TokenKind::Dot) {
            return Err(self.unexpected(Some("a name or `.apply`")));
        }
        if self.peek(1).kind == TokenKind::Apply {
            self.advance();
            self.advance();
            let args = self.args()?;
            return Ok(StmtKind::DirectApply { ty, args });
        }
        let (id, span) = (self.id(), ty.span);
        let base = Expr { id, span, kind: ExprKind::Type(Box::new(ty)) };
        let callee = self.member(base)?;
        Ok(StmtKind::Call(self.call(callee, Vec::new())?))
    }

    /// What begins with a type: a variable, an instance, or the application of a type.
    fn type_stmt(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Stmt> {
        let ty = self.type_ref()?;
        let named = matches!(ty.kind, TypeKind::Name(_) | TypeKind::Specialized(..));
        if named && annotations.is_empty() && self.kind() == TokenKind::Dot {
            let kind = self.type_call(ty)?;
            self.expect_semi()?;
            return Ok(self.make_stmt(start, kind));
        }
        let decl = if self.kind() == TokenKind::LParen {
            self.instance(start, annotations, ty)?
        } else {
            let decl = self.variable(start, annotations, ty)?;
            self.expect_semi()?;
            decl
        };
        Ok(self.make_stmt(start, StmtKind::Decl(Box::new(decl))))
    }

    /// A variable without its `;`, of which the type has been read.
    pub(super) fn variable(
        &mut self,
        start: Span,
        annotations: Vec<Annotation>,
        ty: crate::ast::Type,
    ) -> Parsed<Decl> {
        let token = self.token();
        let name = self.name()?;
        let ty = self.array_of(ty.span, ty)?;
        let init = if self.accept(TokenKind::Assign) { Some(self.expr()?) } else { None };
        if token.kind == TokenKind::Ident {
            self.scopes.declare(token.text, What::Value);
        }
        let span = start.to(self.previous());
        Ok(Decl { id: self.id(), span, annotations, kind: DeclKind::Variable(Variable { ty, name, init }) })
    }

    fn const_stmt(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Stmt> {
        let decl = self.constant(start, annotations)?;
        Ok(self.make_stmt(start, StmtKind::Decl(Box::new(decl))))
    }

    /// `const T x = e;`
    pub(super) fn constant(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Decl> {
        self.expect(TokenKind::Const)?;
        let ty = self.type_ref()?;
        let token = self.token();
        let name = self.name()?;
        let ty = self.array_of(ty.span, ty)?;
        self.expect(TokenKind::Assign)?;
        let value = self.expr()?;
        self.expect_semi()?;
        if token.kind == TokenKind::Ident {
            self.scopes.declare(token.text, What::Value);
        }
        let span = start.to(self.previous());
        Ok(Decl { id: self.id(), span, annotations, kind: DeclKind::Const(Const { ty, name, value }) })
    }

    /// `lvalue`
    fn lvalue(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let mut base = match token.kind {
            TokenKind::LParen => {
                self.advance();
                let mut inner = self.deeper(Self::lvalue)?;
                let end = self.expect(TokenKind::RParen)?;
                inner.span = token.span.to(end);
                inner
            }
            TokenKind::This => {
                self.advance();
                Expr { id: self.id(), span: token.span, kind: ExprKind::This }
            }
            TokenKind::Dot => {
                self.advance();
                let name = self.global_name()?;
                let span = token.span.to(name.span);
                Expr { id: self.id(), span, kind: ExprKind::Path { absolute: true, name } }
            }
            _ if self.is_non_type_name(token) => {
                self.advance();
                let name = self.ident(token);
                Expr { id: self.id(), span: token.span, kind: ExprKind::Path { absolute: false, name } }
            }
            _ => return Err(self.unexpected(Some("a statement"))),
        };
        let mut height = 0;
        loop {
            height += 1;
            if self.depth + height > crate::ast::MAX_DEPTH {
                return Err(self.too_deep());
            }
            base = match self.kind() {
                TokenKind::Dot => self.member(base)?,
                TokenKind::LBracket => self.index(base)?,
                _ => return Ok(base),
            };
        }
    }

    /// `assignmentOrMethodCallStatementWithoutSemicolon`
    fn assign_or_call(&mut self) -> Parsed<StmtKind> {
        let first = self.token();
        let target = self.lvalue()?;
        if self.is(TokenKind::LParen) {
            return Ok(StmtKind::Call(self.call(target, Vec::new())?));
        }
        if self.kind() == TokenKind::LAngle {
            self.advance();
            let type_args = self.type_args()?;
            return Ok(StmtKind::Call(self.call(target, type_args)?));
        }
        // `>>=` is two tokens, as `>>` is.
        let shift = self.kind() == TokenKind::RAngle
            && self.peek(1).kind == TokenKind::Ge
            && self.peek(1).span.start == self.span().end;
        let op = if shift {
            self.advance();
            Some(BinaryOp::Shr)
        } else if let Some(op) = assign_op(self.kind()) {
            Some(op)
        } else if self.is(TokenKind::Assign) {
            None
        } else {
            // `foo_t x;` with a type that there is not.
            let alone = matches!(target.kind, ExprKind::Path { .. });
            if alone && first.kind == TokenKind::Ident && Self::is_name(self.token()) {
                return Err(self.no_type_before(first));
            }
            return Err(self.unexpected(None));
        };
        self.advance();
        let value = self.expr()?;
        Ok(StmtKind::Assign { op, target, value })
    }

    /// `if`, with each `else if` behind it.
    fn if_stmt(&mut self) -> Parsed<If> {
        let mut arms = Vec::new();
        loop {
            let start = self.expect(TokenKind::If)?;
            self.expect(TokenKind::LParen)?;
            let condition = self.expr()?;
            self.expect(TokenKind::RParen)?;
            let body = self.stmt()?;
            arms.push(IfArm { id: self.id(), span: start.to(body.span), condition, body });
            if !self.accept(TokenKind::Else) {
                return Ok(If { arms, otherwise: None });
            }
            if self.kind() != TokenKind::If {
                let otherwise = Some(Box::new(self.stmt()?));
                return Ok(If { arms, otherwise });
            }
        }
    }

    fn switch(&mut self) -> Parsed<Switch> {
        self.expect(TokenKind::Switch)?;
        self.expect(TokenKind::LParen)?;
        let subject = self.expr()?;
        self.expect(TokenKind::RParen)?;
        self.expect(TokenKind::LBrace)?;
        let cases = self.items(TokenKind::RBrace, Self::recover_statement, Self::switch_case);
        self.expect(TokenKind::RBrace)?;
        Ok(Switch { subject, cases })
    }

    fn switch_case(&mut self) -> Parsed<SwitchCase> {
        let start = self.span();
        let label = match self.kind() {
            TokenKind::Default => SwitchLabel::Default(self.advance().span),
            TokenKind::LBrace | TokenKind::Invalid => return Err(self.unexpected(Some("a label"))),
            _ => SwitchLabel::Value(self.expr()?),
        };
        self.expect(TokenKind::Colon)?;
        let body = match self.kind() {
            TokenKind::LBrace | TokenKind::At => Some(self.block()?),
            _ => None,
        };
        Ok(SwitchCase { id: self.id(), span: start.to(self.previous()), label, body })
    }

    fn for_stmt(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Stmt> {
        self.expect(TokenKind::For)?;
        self.expect(TokenKind::LParen)?;
        self.scopes.enter();
        let kind = self.deeper(|p| p.for_rest(annotations))?;
        self.scopes.leave();
        Ok(self.make_stmt(start, kind))
    }

    fn for_rest(&mut self, annotations: Vec<Annotation>) -> Parsed<StmtKind> {
        let mut init = Vec::new();
        if !self.is(TokenKind::Semi) {
            loop {
                let start = self.span();
                let own = self.annotations()?;
                let kind = if self.starts_type(0) {
                    let ty = self.type_ref()?;
                    let named = matches!(ty.kind, TypeKind::Name(_) | TypeKind::Specialized(..));
                    if named && own.is_empty() && self.kind() == TokenKind::Dot {
                        self.type_call(ty)?
                    } else {
                        let decl = self.variable(start, own, ty)?;
                        let plain = matches!(&decl.kind, DeclKind::Variable(v) if v.init.is_none());
                        if init.is_empty() && plain && self.is(TokenKind::In) {
                            return self.for_in(annotations, decl);
                        }
                        StmtKind::Decl(Box::new(decl))
                    }
                } else if own.is_empty() {
                    self.assign_or_call()?
                } else {
                    return Err(self.no_type());
                };
                init.push(self.make_stmt(start, kind));
                if !self.accept(TokenKind::Comma) {
                    break;
                }
            }
        }
        self.expect(TokenKind::Semi)?;
        let condition = self.expr()?;
        self.expect(TokenKind::Semi)?;
        let update = self.comma_list(TokenKind::RParen, false, |p| {
            let start = p.span();
            let kind = p.assign_or_call()?;
            Ok(p.make_stmt(start, kind))
        })?;
        self.expect(TokenKind::RParen)?;
        let body = self.stmt()?;
        Ok(StmtKind::For(Box::new(For { annotations, init, condition, update, body })))
    }

    fn for_in(&mut self, annotations: Vec<Annotation>, variable: Decl) -> Parsed<StmtKind> {
        self.expect(TokenKind::In)?;
        let first = self.expr()?;
        let collection = if self.accept(TokenKind::Range) {
            ForCollection::Range(first, self.expr()?)
        } else {
            ForCollection::Value(first)
        };
        self.expect(TokenKind::RParen)?;
        let body = self.stmt()?;
        Ok(StmtKind::ForIn(Box::new(ForIn { annotations, variable, collection, body })))
    }
}
