//! Types, type parameters, parameters.
use super::scope::What;
use super::{Parsed, Parser};
use crate::ast::{Annotation, Direction, Expr, ExprKind, Param, Type, TypeKind, TypeName, TypeParam};
use crate::lex::{Token, TokenKind};
use crate::source::Span;

impl Parser<'_> {
    /// Whether a type begins at the token so far ahead. `error` and `match_kind` are types, too.
    pub(super) fn starts_type(&self, ahead: usize) -> bool {
        use TokenKind::*;
        let token = self.peek(ahead);
        match token.kind {
            Bool | Error | MatchKind | Bit | String | IntType | Varbit | Tuple => true,
            // `list` is a name, too.
            List => self.peek(ahead + 1).kind == LAngle,
            Dot => self.is_global_type_name(self.peek(ahead + 1)),
            _ => self.is_type_name(token),
        }
    }

    fn make_type(&mut self, start: Span, kind: TypeKind) -> Type {
        Type { id: self.id(), span: start.to(self.previous()), kind }
    }

    /// `typeRef`
    pub(super) fn type_ref(&mut self) -> Parsed<Type> {
        self.deeper(Self::type_ref_inner)
    }

    fn type_ref_inner(&mut self) -> Parsed<Type> {
        let start = self.span();
        let kind = match self.kind() {
            TokenKind::Bool => self.simple(TypeKind::Bool),
            TokenKind::Error => self.simple(TypeKind::Error),
            TokenKind::MatchKind => self.simple(TypeKind::MatchKind),
            TokenKind::String => self.simple(TypeKind::String),
            TokenKind::Bit => {
                self.advance();
                TypeKind::Bit(if self.kind() == TokenKind::LAngle {
                    Some(Box::new(self.width()?))
                } else {
                    None
                })
            }
            TokenKind::IntType => {
                self.advance();
                if self.kind() == TokenKind::LAngle {
                    TypeKind::Int(Box::new(self.width()?))
                } else {
                    TypeKind::Integer
                }
            }
            TokenKind::Varbit => {
                self.advance();
                TypeKind::Varbit(Box::new(self.width()?))
            }
            TokenKind::Tuple => {
                self.advance();
                self.expect(TokenKind::LAngle)?;
                TypeKind::Tuple(self.type_args()?)
            }
            TokenKind::List if self.peek(1).kind == TokenKind::LAngle => {
                self.advance();
                self.expect(TokenKind::LAngle)?;
                let item = self.type_arg()?;
                self.close_angle()?;
                TypeKind::List(Box::new(item))
            }
            _ => self.named_type()?.kind,
        };
        let ty = self.make_type(start, kind);
        self.array_of(start, ty)
    }

    /// `[n]` behind a type, or behind the name that is declared with it.
    pub(super) fn array_of(&mut self, start: Span, mut ty: Type) -> Parsed<Type> {
        let mut height = 0;
        while self.kind() == TokenKind::LBracket {
            height += 1;
            if self.depth + height > crate::ast::MAX_DEPTH {
                return Err(self.too_deep());
            }
            self.advance();
            let size = self.with_angles(false, Self::expr)?;
            self.expect(TokenKind::RBracket)?;
            ty = self.make_type(start, TypeKind::Stack(Box::new(ty), Box::new(size)));
        }
        Ok(ty)
    }

    fn simple(&mut self, kind: TypeKind) -> TypeKind {
        self.advance();
        kind
    }

    /// `namedType`: `T`, `.T`, `T<A>`
    pub(super) fn named_type(&mut self) -> Parsed<Type> {
        let start = self.span();
        let absolute = self.kind() == TokenKind::Dot && self.is_global_type_name(self.peek(1));
        if absolute {
            self.advance();
        }
        let token = self.token();
        if !absolute && !self.is_type_name(token) {
            return Err(self.no_type());
        }
        self.advance();
        let name = TypeName { absolute, name: self.ident(token) };
        let kind = if self.kind() == TokenKind::LAngle {
            self.advance();
            let args = self.deeper(Self::type_args)?;
            TypeKind::Specialized(name, args)
        } else {
            TypeKind::Name(name)
        };
        Ok(self.make_type(start, kind))
    }

    /// `<8>`, `<(e)>`, and any expression without a `>` of its own
    fn width(&mut self) -> Parsed<Expr> {
        self.expect(TokenKind::LAngle)?;
        let width = self.with_angles(true, Self::expr)?;
        self.close_angle()?;
        Ok(width)
    }

    /// `>`
    fn close_angle(&mut self) -> Parsed<()> {
        self.expect(TokenKind::RAngle)?;
        Ok(())
    }

    /// `A, B>`, also none.
    pub(super) fn type_args(&mut self) -> Parsed<Vec<Type>> {
        let args = self.comma_list(TokenKind::RAngle, false, Self::type_arg)?;
        self.close_angle()?;
        Ok(args)
    }

    /// A type, `void`, `_`, or a name that is no type yet (`T f<T>(…)`).
    pub(super) fn type_arg(&mut self) -> Parsed<Type> {
        let token = self.token();
        let kind = match token.kind {
            TokenKind::Void => self.simple(TypeKind::Void),
            TokenKind::DontCare => self.simple(TypeKind::DontCare),
            _ if self.starts_type(0) => return self.type_ref(),
            _ if self.is_non_type_name(token) => {
                self.advance();
                TypeKind::Name(TypeName { absolute: false, name: self.ident(token) })
            }
            _ => return Err(self.unexpected(Some("a type"))),
        };
        Ok(self.make_type(token.span, kind))
    }

    /// `A, B>` where `<` may be "less than": the first must be a real type.
    pub(super) fn real_type_args(&mut self) -> Parsed<Vec<Type>> {
        let real = matches!(self.kind(), TokenKind::Void | TokenKind::DontCare) || self.starts_type(0);
        if !real {
            return Err(self.no_type());
        }
        self.type_args()
    }

    /// `typeOrVoid`: a result. A name that is no type may become one: `T f<T>()`.
    pub(super) fn type_or_void(&mut self) -> Parsed<Type> {
        let token = self.token();
        let kind = match token.kind {
            TokenKind::Void => self.simple(TypeKind::Void),
            TokenKind::Ident if !self.is_type_name(token) && Self::is_name(self.peek(1)) => {
                self.advance();
                TypeKind::Name(TypeName { absolute: false, name: self.ident(token) })
            }
            _ => return self.type_ref(),
        };
        Ok(self.make_type(token.span, kind))
    }

    /// `<A, B>` of a declaration, or nothing. The names are types from here on.
    pub(super) fn type_params(&mut self) -> Parsed<Vec<TypeParam>> {
        if !self.accept(TokenKind::LAngle) {
            return Ok(Vec::new());
        }
        let mut syms = Vec::new();
        let mut list = Vec::new();
        loop {
            let (name, sym) = self.name_sym()?;
            syms.push(sym);
            list.push(TypeParam { id: self.id(), name });
            if !self.accept(TokenKind::Comma) {
                break;
            }
        }
        self.close_angle()?;
        for sym in syms {
            self.scopes.declare(sym, What::Type);
        }
        Ok(list)
    }

    /// `(…)`. The names are values from here on.
    pub(super) fn params(&mut self) -> Parsed<Vec<Param>> {
        let (list, names) = self.params_undeclared()?;
        for token in names {
            self.scopes.declare(token.text, What::Value);
        }
        Ok(list)
    }

    fn params_undeclared(&mut self) -> Parsed<(Vec<Param>, Vec<Token>)> {
        self.expect(TokenKind::LParen)?;
        let mut names = Vec::new();
        let list = self.comma_list(TokenKind::RParen, false, |p| {
            let start = p.span();
            let annotations = p.annotations()?;
            p.param(start, annotations, &mut names)
        })?;
        self.expect(TokenKind::RParen)?;
        Ok((list, names))
    }

    fn param(&mut self, start: Span, annotations: Vec<Annotation>, names: &mut Vec<Token>) -> Parsed<Param> {
        let direction = match self.kind() {
            TokenKind::In => Direction::In,
            TokenKind::Out => Direction::Out,
            TokenKind::InOut => Direction::InOut,
            _ => Direction::None,
        };
        if direction != Direction::None {
            self.advance();
        }
        let ty_start = self.span();
        let ty = self.type_ref()?;
        let token = self.token();
        let name = self.name()?;
        let ty = self.array_of(ty_start, ty)?;
        if token.kind == TokenKind::Ident {
            names.push(token);
        }
        let default = if self.accept(TokenKind::Assign) { Some(self.expr()?) } else { None };
        let span = start.to(self.previous());
        Ok(Param { id: self.id(), span, annotations, direction, ty, name, default })
    }

    /// An integer as an expression.
    pub(super) fn int(&mut self, token: Token) -> Expr {
        let literal = self.int_literal(token);
        let kind = literal.map_or(ExprKind::Error, ExprKind::Int);
        Expr { id: self.id(), span: token.span, kind }
    }
}
