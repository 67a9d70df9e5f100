//! Declarations of the top level, and those that parsers and controls share with it.
use super::scope::What;
use super::{Parsed, Parser};
use crate::ast::{
    Action, Annotation, BlockType, Decl, DeclKind, Enum, Extern, Field, Function, Instance, Member, Method,
    Prototype, Struct, StructKind, Type, Typedef, TypedefOf,
};
use crate::diag::Diagnostic;
use crate::lex::{Sym, TokenKind};
use crate::source::Span;
use barewire_text::nearest;

/// Words that begin a declaration.
const DECLARATIONS: [&str; 12] = [
    "parser",
    "control",
    "header",
    "header_union",
    "struct",
    "enum",
    "extern",
    "action",
    "package",
    "const",
    "typedef",
    "type",
];

impl Parser<'_> {
    /// `p4program`
    pub(super) fn program(&mut self) -> Vec<Decl> {
        let decls = self.items(TokenKind::Eof, Self::recover_declaration, |p| {
            if p.accept(TokenKind::Semi) {
                return Ok(None);
            }
            let start = p.span();
            let annotations = p.annotations()?;
            p.declaration(start, annotations).map(Some)
        });
        decls.into_iter().flatten().collect()
    }

    pub(super) fn make_decl(&mut self, start: Span, annotations: Vec<Annotation>, kind: DeclKind) -> Decl {
        Decl { id: self.id(), span: start.to(self.previous()), annotations, kind }
    }

    fn declaration(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Decl> {
        let kind = match self.kind() {
            TokenKind::Const => return self.constant(start, annotations),
            TokenKind::Action => DeclKind::Action(self.action()?),
            TokenKind::Extern => self.external()?,
            TokenKind::Parser => self.parser_or_type()?,
            TokenKind::Control => self.control_or_type()?,
            TokenKind::Package => {
                self.scopes.enter();
                let (head, sym) = self.head()?;
                self.scopes.leave();
                self.scopes.declare(sym, What::Type);
                self.expect_semi()?;
                DeclKind::PackageType(head)
            }
            TokenKind::Header | TokenKind::HeaderUnion | TokenKind::Struct | TokenKind::Enum => {
                self.derived()?
            }
            TokenKind::Typedef | TokenKind::Type => DeclKind::Typedef(self.typedef()?),
            TokenKind::Error if self.peek(1).kind == TokenKind::LBrace && annotations.is_empty() => {
                self.advance();
                DeclKind::Error(self.members(false)?)
            }
            TokenKind::MatchKind if self.peek(1).kind == TokenKind::LBrace && annotations.is_empty() => {
                self.advance();
                DeclKind::MatchKind(self.members(false)?)
            }
            TokenKind::Table | TokenKind::State | TokenKind::ValueSet
                if self.kind() != TokenKind::State || self.is_block_word() =>
            {
                let text = self.text(self.token());
                let owner = if self.kind() == TokenKind::Table { "control" } else { "parser" };
                let message = format!("`{text}` cannot stand at the top level");
                let error = Diagnostic::error("syntax", self.span(), message);
                return Err(self.report(
                    error.help(format!("it belongs into a {owner}; is there a `}}` too many before it?")),
                ));
            }
            TokenKind::Void => return self.function_or_instance(start, annotations),
            TokenKind::Ident if !self.is_type_name(self.token()) && !self.starts_generic_function() => {
                return Err(self.no_declaration());
            }
            TokenKind::Ident => return self.function_or_instance(start, annotations),
            _ if self.starts_type(0) => return self.function_or_instance(start, annotations),
            _ => return Err(self.no_declaration()),
        };
        Ok(self.make_decl(start, annotations, kind))
    }

    /// `T f<…`, or `T f(…` with a type that there is not: that is for those who know all types to say, unless the word is nearly one
    /// that begins a declaration.
    fn starts_generic_function(&self) -> bool {
        if !Self::is_name(self.peek(1)) {
            return false;
        }
        self.peek(2).kind == TokenKind::LAngle || nearest(self.text(self.token()), DECLARATIONS).is_none()
    }

    /// `state x {`, `value_set<…`
    fn is_block_word(&self) -> bool {
        self.kind() == TokenKind::ValueSet
            || Self::is_name(self.peek(1)) && self.peek(2).kind == TokenKind::LBrace
    }

    fn no_declaration(&mut self) -> super::Failed {
        let token = self.token();
        let near =
            (token.kind == TokenKind::Ident).then(|| nearest(self.text(token), DECLARATIONS)).flatten();
        if token.kind == TokenKind::Ident && near.is_none() {
            return self.no_type();
        }
        let found = self.describe(token);
        let mut error =
            Diagnostic::error("syntax", token.span, format!("expected a declaration, found {found}"));
        if let Some(near) = near {
            error = error.help(format!("did you mean `{near}`?"));
        } else if token.kind == TokenKind::RBrace {
            error = error.help("is there a `}` too many before it?");
        }
        self.report(error)
    }

    /// `T f<A>(…) { … }` or `T<A>(…) name;`
    fn function_or_instance(&mut self, start: Span, annotations: Vec<Annotation>) -> Parsed<Decl> {
        let result = self.type_or_void()?;
        if self.kind() == TokenKind::LParen {
            return self.instance(start, annotations, result);
        }
        let kind = self.function(start, result, true)?;
        Ok(self.make_decl(start, annotations, kind))
    }

    fn function(&mut self, start: Span, result: Type, top: bool) -> Parsed<DeclKind> {
        let is_variable = matches!(self.peek(1).kind, TokenKind::Semi | TokenKind::Assign);
        if top && Self::is_name(self.token()) && is_variable {
            self.advance();
            let found = self.describe(self.token());
            let error = Diagnostic::error(
                "syntax",
                self.span(),
                format!("expected `(` of a function, found {found}"),
            );
            let error = error.note("variables cannot be declared at the top level");
            return Err(self.report(
                error.help("declare a constant: `const`, or a variable in a parser, control or action"),
            ));
        }
        let proto = self.prototype(start, result)?;
        let body = self.block()?;
        self.scopes.leave();
        Ok(DeclKind::Function(Function { proto, body }))
    }

    /// A prototype, the result of which has been read. Opens a scope with its type parameters and parameters.
    fn prototype(&mut self, start: Span, result: Type) -> Parsed<Prototype> {
        let token = self.token();
        let name = self.name()?;
        if token.kind == TokenKind::Ident {
            self.scopes.declare(token.text, What::Value);
        }
        self.scopes.enter();
        let type_params = self.type_params()?;
        let params = self.params()?;
        let span = start.to(self.previous());
        Ok(Prototype { span, result: Some(result), name, type_params, params })
    }

    /// `T(…) name;`, `T(…) name = { … };`, of which the type has been read.
    pub(super) fn instance(&mut self, start: Span, annotations: Vec<Annotation>, ty: Type) -> Parsed<Decl> {
        let args = self.args()?;
        let token = self.token();
        let name = self.name()?;
        // An array of instances.
        let ty = self.array_of(start, ty)?;
        let body = if self.accept(TokenKind::Assign) {
            self.expect(TokenKind::LBrace)?;
            self.scopes.enter();
            let body = self.deeper(|p| {
                Ok(p.items(TokenKind::RBrace, Self::recover_member, |p| {
                    let start = p.span();
                    let annotations = p.annotations()?;
                    let ty = p.type_or_void()?;
                    if p.kind() == TokenKind::LParen {
                        return p.instance(start, annotations, ty);
                    }
                    let kind = p.function(start, ty, false)?;
                    Ok(p.make_decl(start, annotations, kind))
                }))
            })?;
            self.expect(TokenKind::RBrace)?;
            self.scopes.leave();
            Some(body)
        } else {
            None
        };
        self.expect_semi()?;
        if token.kind == TokenKind::Ident {
            self.scopes.declare(token.text, What::Value);
        }
        Ok(self.make_decl(start, annotations, DeclKind::Instance(Instance { ty, args, name, body })))
    }

    /// `action a(…) { … }`
    pub(super) fn action(&mut self) -> Parsed<Action> {
        self.expect(TokenKind::Action)?;
        let name = self.name()?;
        self.scopes.enter();
        let params = self.params()?;
        let body = self.block()?;
        self.scopes.leave();
        Ok(Action { name, params, body })
    }

    /// `parser p<T>(…)` with its word. Its name is a type from here on; the caller has opened the scope of the rest, and gets the
    /// name to declare it outside, too.
    pub(super) fn head(&mut self) -> Parsed<(BlockType, Sym)> {
        let start = self.advance().span;
        let (name, sym) = self.name_sym()?;
        self.scopes.declare(sym, What::Type);
        let type_params = self.type_params()?;
        let params = self.params()?;
        let span = start.to(self.previous());
        Ok((BlockType { span, name, type_params, params }, sym))
    }

    /// `externDeclaration`
    fn external(&mut self) -> Parsed<DeclKind> {
        self.expect(TokenKind::Extern)?;
        let start = self.span();
        // `extern E {`, `extern E<T> {`, not `extern T f(…);`
        let object = match self.peek(1).kind {
            TokenKind::LBrace | TokenKind::Semi => true,
            TokenKind::LAngle if self.kind() == TokenKind::Ident => {
                !self.is_type_name(self.token()) || self.brace_behind_angles()
            }
            _ => false,
        };
        if object && Self::is_name(self.token()) {
            let (name, sym) = self.name_sym()?;
            self.scopes.declare(sym, What::Type);
            if self.accept(TokenKind::Semi) {
                // Announced only; its members come later.
                return Ok(DeclKind::Extern(Extern { name, type_params: Vec::new(), methods: Vec::new() }));
            }
            self.scopes.enter();
            let type_params = self.type_params()?;
            self.expect(TokenKind::LBrace)?;
            let methods = self.items(TokenKind::RBrace, Self::recover_member, |p| p.method(sym));
            self.expect(TokenKind::RBrace)?;
            self.scopes.leave();
            return Ok(DeclKind::Extern(Extern { name, type_params, methods }));
        }
        let result = self.type_or_void()?;
        let proto = self.prototype(start, result)?;
        self.scopes.leave();
        self.expect_semi()?;
        Ok(DeclKind::ExternFunction(proto))
    }

    fn brace_behind_angles(&self) -> bool {
        let mut ahead = 1;
        while !matches!(self.peek(ahead).kind, TokenKind::RAngle | TokenKind::Eof | TokenKind::LParen) {
            ahead += 1;
        }
        self.peek(ahead + 1).kind == TokenKind::LBrace
    }

    fn method(&mut self, owner: Sym) -> Parsed<Method> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_abstract = self.accept(TokenKind::Abstract);
        let proto_start = self.span();
        let token = self.token();
        let constructs = token.kind == TokenKind::Ident
            && self.peek(1).kind == TokenKind::LParen
            && (self.is_type_name(token) || token.text == owner);
        let proto = if constructs && !is_abstract {
            self.advance();
            let name = self.ident(token);
            self.scopes.enter();
            let params = self.params()?;
            let span = proto_start.to(self.previous());
            Prototype { span, result: None, name, type_params: Vec::new(), params }
        } else {
            let result = self.type_or_void()?;
            self.prototype(proto_start, result)?
        };
        self.scopes.leave();
        self.expect_semi()?;
        Ok(Method { id: self.id(), span: start.to(self.previous()), annotations, is_abstract, proto })
    }

    /// `derivedTypeDeclaration`
    fn derived(&mut self) -> Parsed<DeclKind> {
        let kind = match self.kind() {
            TokenKind::Header => StructKind::Header,
            TokenKind::HeaderUnion => StructKind::HeaderUnion,
            TokenKind::Struct => StructKind::Struct,
            _ => return Ok(DeclKind::Enum(self.enumeration()?)),
        };
        self.advance();
        let (name, sym) = self.name_sym()?;
        self.scopes.declare(sym, What::Type);
        self.scopes.enter();
        let type_params = self.type_params()?;
        self.expect(TokenKind::LBrace)?;
        let fields = self.items(TokenKind::RBrace, Self::recover_member, |p| {
            let start = p.span();
            let annotations = p.annotations()?;
            let ty_start = p.span();
            let ty = p.type_ref()?;
            let name = p.name()?;
            let ty = p.array_of(ty_start, ty)?;
            p.expect_semi()?;
            Ok(Field { id: p.id(), span: start.to(p.previous()), annotations, ty, name })
        });
        self.expect(TokenKind::RBrace)?;
        self.scopes.leave();
        Ok(DeclKind::Struct(Struct { kind, name, type_params, fields }))
    }

    fn enumeration(&mut self) -> Parsed<Enum> {
        self.expect(TokenKind::Enum)?;
        let plain = Self::is_name(self.token()) && self.peek(1).kind == TokenKind::LBrace;
        let ty = if plain { None } else { Some(self.type_ref()?) };
        let (name, sym) = self.name_sym()?;
        self.scopes.declare(sym, What::Type);
        let members = self.members(ty.is_some())?;
        Ok(Enum { ty, name, members })
    }

    /// `{ A, B }`, `{ A = 1, B = 2 }`
    fn members(&mut self, values: bool) -> Parsed<Vec<Member>> {
        self.expect(TokenKind::LBrace)?;
        let mut list = Vec::new();
        loop {
            let start = self.span();
            let annotations = self.annotations()?;
            let name = self.name()?;
            let value = if values {
                self.expect(TokenKind::Assign)?;
                Some(self.expr()?)
            } else {
                None
            };
            list.push(Member { id: self.id(), span: start.to(self.previous()), annotations, name, value });
            if !self.accept(TokenKind::Comma) || self.is(TokenKind::RBrace) {
                break;
            }
        }
        self.expect(TokenKind::RBrace)?;
        Ok(list)
    }

    /// `typedef T x;`, `type T x;`
    fn typedef(&mut self) -> Parsed<Typedef> {
        let is_new = self.advance().kind == TokenKind::Type;
        let start = self.span();
        // Only `typedef` can declare the type that it names, too.
        let derived = !is_new
            && matches!(
                self.kind(),
                TokenKind::Header
                    | TokenKind::HeaderUnion
                    | TokenKind::Struct
                    | TokenKind::Enum
                    | TokenKind::At
            );
        let of = if derived {
            let annotations = self.annotations()?;
            let kind = self.derived()?;
            TypedefOf::Decl(Box::new(self.make_decl(start, annotations, kind)))
        } else {
            TypedefOf::Type(self.type_ref()?)
        };
        let (name, sym) = self.name_sym()?;
        let of = match of {
            TypedefOf::Type(ty) => TypedefOf::Type(self.array_of(start, ty)?),
            declared => declared,
        };
        self.scopes.declare(sym, What::Type);
        self.expect_semi()?;
        Ok(Typedef { is_new, of, name })
    }
}
