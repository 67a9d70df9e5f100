//! The syntax tree of a P4-16 program, specification 1.2.5, as written: nothing is resolved, folded or left out.
//!
//! Every node has a [`NodeId`], dense from 0 and unique in its [`Program`], for tables beside the tree, and a
//! [`Span`]. Parentheses are not kept; the shape of the tree is theirs. A tree is never
//! deeper than [`MAX_DEPTH`], so walking it by recursion is safe.
mod decl;
mod expr;
mod stmt;
mod types;

use std::fmt;
use std::sync::Arc;

pub use decl::*;
pub use expr::*;
pub use stmt::*;
pub use types::*;

use crate::source::Span;

/// How deep a tree can be: expressions in expressions, statements in statements, types in types, counted together.
pub const MAX_DEPTH: u32 = 256;

/// Number of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// For a table beside the tree.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A name in the program. Equal names of one program share their text.
pub type Name = Arc<str>;

/// A name where it stands.
#[derive(Clone)]
pub struct Ident {
    /// The name.
    pub name: Name,
    /// Where.
    pub span: Span,
}

impl Ident {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq<str> for Ident {
    fn eq(&self, other: &str) -> bool {
        &*self.name == other
    }
}

/// A whole program: the file and all that it includes.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Top-level declarations in order.
    pub decls: Vec<Decl>,
    /// All comments in order, those of included files among them.
    pub comments: Vec<Comment>,
    /// Node ids in use: all are below this.
    pub node_count: u32,
}

/// A comment with its signs (`// …`, `/* … */`): [`crate::SourceMap::text`] has the text.
#[derive(Clone, Copy, Debug)]
pub struct Comment {
    /// Where.
    pub span: Span,
    /// `/* … */`
    pub block: bool,
}

/// `@name`, `@name(…)` or `@name[…]` (section 20).
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Node.
    pub id: NodeId,
    /// From `@` to its end.
    pub span: Span,
    /// Without the `@`.
    pub name: Ident,
    /// What is in the brackets.
    pub body: AnnotationBody,
}

/// What is in the brackets of an annotation.
#[derive(Clone, Debug)]
pub enum AnnotationBody {
    /// No brackets.
    None,
    /// `(…)`, or the rest of the line after `@pragma name`: any tokens. [`Annotation::string`] reads the usual one.
    Unstructured(Vec<AnnotationToken>),
    /// `[a, b]`, also empty.
    Expressions(Vec<Expr>),
    /// `[a = 1, b = 2]`
    KeyValues(Vec<KeyValue>),
}

/// A token in an unstructured annotation.
#[derive(Clone, Debug)]
pub struct AnnotationToken {
    /// Where.
    pub span: Span,
    /// What kind.
    pub kind: AnnotationTokenKind,
    /// As written; of a string the value without its quotes and escapes.
    pub text: Name,
}

/// Kind of an [`AnnotationToken`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnnotationTokenKind {
    /// A name or a keyword.
    Word,
    /// An integer, with its width if it has one.
    Integer,
    /// A string.
    String,
    /// An operator, a bracket, a separator, or a character that is no token of P4.
    Symbol,
}

/// `a = 1`
#[derive(Clone, Debug)]
pub struct KeyValue {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// Left.
    pub key: Ident,
    /// Right.
    pub value: Expr,
}

impl Annotation {
    /// The text of `@name("text")`; strings side by side, or with `++` between them, are one.
    pub fn string(&self) -> Option<String> {
        match &self.body {
            AnnotationBody::Unstructured(tokens) if !tokens.is_empty() => {
                let mut out = String::new();
                for token in tokens {
                    match token.kind {
                        AnnotationTokenKind::String => out.push_str(&token.text),
                        AnnotationTokenKind::Symbol if &*token.text == "++" => {}
                        _ => return None,
                    }
                }
                Some(out)
            }
            AnnotationBody::Expressions(list) => match &list[..] {
                [Expr { kind: ExprKind::String(text), .. }] => Some(text.to_string()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Finds an annotation by name.
pub fn annotation<'a>(list: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    list.iter().find(|a| &a.name == name)
}
