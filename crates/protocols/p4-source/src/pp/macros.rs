//! Definitions of macros.
use std::collections::HashMap;
use std::rc::Rc;

use crate::lex::{Interner, Sym, Token, TokenKind};
use crate::source::Span;

/// A macro.
#[derive(Clone, Debug)]
pub(crate) struct Macro {
    /// The name in its definition.
    pub defined: Span,
    pub kind: MacroKind,
}

#[derive(Clone, Debug)]
pub(crate) enum MacroKind {
    /// `__LINE__`
    Line,
    /// `__FILE__`
    File,
    /// `__COUNTER__`
    Counter,
    Text(Rc<Definition>),
}

/// What `#define` says.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Names of the parameters, if it has any parentheses; the last takes all that is left if `variadic`.
    pub params: Option<Vec<Sym>>,
    pub variadic: bool,
    pub body: Vec<BodyPart>,
}

/// Part of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyPart {
    Token(Token),
    /// A parameter: its number, and the token where it stands.
    Param(usize, Token),
    /// `#p`
    Text(usize, Token),
    /// `##`
    Paste,
}

/// Macros by name.
#[derive(Debug)]
pub(crate) struct Macros {
    table: HashMap<Sym, Macro>,
    /// `__VA_ARGS__`
    pub variadic: Sym,
    /// `defined`
    pub defined: Sym,
}

impl Macros {
    pub fn new(names: &mut Interner) -> Macros {
        let mut table = HashMap::new();
        let own = [
            ("__LINE__", MacroKind::Line),
            ("__FILE__", MacroKind::File),
            ("__COUNTER__", MacroKind::Counter),
        ];
        for (name, kind) in own {
            table.insert(names.intern(name), Macro { defined: Span::NONE, kind });
        }
        // By these, programs ask which compiler reads them; they expect what the reference compiler says.
        let mut constant = |name: &str, kind, value: &str| {
            let token = Token { kind, flags: 0, text: names.intern(value), span: Span::NONE };
            let definition = Definition { params: None, variadic: false, body: vec![BodyPart::Token(token)] };
            let kind = MacroKind::Text(Rc::new(definition));
            table.insert(names.intern(name), Macro { defined: Span::NONE, kind });
        };
        constant("__p4c__", TokenKind::Int, "1");
        constant("__p4c_major__", TokenKind::Int, "1");
        constant("__p4c_minor__", TokenKind::Int, "2");
        constant("__p4c_patchlevel__", TokenKind::Int, "5");
        constant("__p4c_version__", TokenKind::Str, "\"1.2.5\"");
        Macros { table, variadic: names.intern("__VA_ARGS__"), defined: names.intern("defined") }
    }

    pub fn get(&self, name: Sym) -> Option<&Macro> {
        self.table.get(&name)
    }

    /// Gives back what the name was before.
    pub fn define(&mut self, name: Sym, definition: Macro) -> Option<Macro> {
        self.table.insert(name, definition)
    }

    pub fn undefine(&mut self, name: Sym) -> Option<Macro> {
        self.table.remove(&name)
    }
}

fn same_token(a: &Token, b: &Token) -> bool {
    use crate::lex::SPACE;
    a.kind == b.kind && a.text == b.text && a.has(SPACE) == b.has(SPACE)
}

impl Macro {
    /// Whether two definitions say the same.
    pub fn same(&self, other: &Macro) -> bool {
        match (&self.kind, &other.kind) {
            (MacroKind::Text(a), MacroKind::Text(b)) => {
                let part = |(a, b): (&BodyPart, &BodyPart)| match (a, b) {
                    (BodyPart::Token(a), BodyPart::Token(b)) => same_token(a, b),
                    (BodyPart::Param(a, x), BodyPart::Param(b, y)) => a == b && same_token(x, y),
                    (BodyPart::Text(a, _), BodyPart::Text(b, _)) => a == b,
                    (BodyPart::Paste, BodyPart::Paste) => true,
                    _ => false,
                };
                let bodies = a.body.len() == b.body.len() && a.body.iter().zip(&b.body).all(part);
                bodies && a.params == b.params && a.variadic == b.variadic
            }
            _ => false,
        }
    }
}
