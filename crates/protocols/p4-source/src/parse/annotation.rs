//! Annotations (section 20), also those that are written as pragmas.
use super::{Parsed, Parser};
use crate::ast::{Annotation, AnnotationBody, AnnotationToken, AnnotationTokenKind};
use crate::diag::Diagnostic;
use crate::lex::{self, LINE, Token, TokenKind};
use crate::source::Span;

impl Parser<'_> {
    /// `optAnnotations`
    pub(super) fn annotations(&mut self) -> Parsed<Vec<Annotation>> {
        let mut list = Vec::new();
        while self.kind() == TokenKind::At {
            list.push(self.annotation()?);
        }
        Ok(list)
    }

    fn annotation(&mut self) -> Parsed<Annotation> {
        let start = self.expect(TokenKind::At)?;
        let token = self.token();
        let pragma = self.text(token) == "pragma" && token.kind == TokenKind::Ident;
        if pragma && Self::is_name(self.peek(1)) && !self.peek(1).has(LINE) {
            self.advance();
            let name = self.name()?;
            let mut tokens = Vec::new();
            while !self.token().has(LINE) && self.kind() != TokenKind::Eof {
                tokens.push(self.annotation_token());
            }
            let body =
                if tokens.is_empty() { AnnotationBody::None } else { AnnotationBody::Unstructured(tokens) };
            return Ok(Annotation { id: self.id(), span: start.to(self.previous()), name, body });
        }
        let name = self.name()?;
        let body = match self.kind() {
            TokenKind::LParen => {
                self.advance();
                let tokens = self.unstructured()?;
                self.expect(TokenKind::RParen)?;
                AnnotationBody::Unstructured(tokens)
            }
            TokenKind::LBracket => {
                self.advance();
                let body = self.structured()?;
                self.expect(TokenKind::RBracket)?;
                body
            }
            _ => AnnotationBody::None,
        };
        let annotation = Annotation { id: self.id(), span: start.to(self.previous()), name, body };
        self.check_annotation(&annotation);
        Ok(annotation)
    }

    /// Tokens up to the `)` that closes the annotation.
    fn unstructured(&mut self) -> Parsed<Vec<AnnotationToken>> {
        let mut tokens = Vec::new();
        let mut depth = 0_usize;
        loop {
            match self.kind() {
                TokenKind::Eof => return Err(self.unexpected(Some("`)` at the end of the annotation"))),
                TokenKind::RParen if depth == 0 => return Ok(tokens),
                TokenKind::LParen => depth += 1,
                TokenKind::RParen => depth -= 1,
                _ => {}
            }
            tokens.push(self.annotation_token());
        }
    }

    fn annotation_token(&mut self) -> AnnotationToken {
        let token: Token = self.advance();
        let text = self.text(token);
        let (kind, text) = match token.kind {
            TokenKind::Str => (AnnotationTokenKind::String, lex::string_value(text).into()),
            TokenKind::Int => (AnnotationTokenKind::Integer, self.names.name(token.text).clone()),
            kind if kind.is_word() => (AnnotationTokenKind::Word, self.names.name(token.text).clone()),
            TokenKind::BadInt | TokenKind::OpenStr | TokenKind::Unknown => {
                (AnnotationTokenKind::Symbol, self.names.name(token.text).clone())
            }
            _ => (AnnotationTokenKind::Symbol, text.into()),
        };
        AnnotationToken { span: token.span, kind, text }
    }

    fn structured(&mut self) -> Parsed<AnnotationBody> {
        if self.at_key_value() {
            return Ok(AnnotationBody::KeyValues(self.comma_list(
                TokenKind::RBracket,
                true,
                Self::key_value,
            )?));
        }
        Ok(AnnotationBody::Expressions(self.comma_list(TokenKind::RBracket, true, Self::expr)?))
    }

    /// `("uri", bit<W>)`, `("uri", string)` or the older `("uri", W)`.
    fn check_translation(&mut self, annotation: &Annotation, tokens: &[AnnotationToken]) {
        use AnnotationTokenKind::{Integer, String, Symbol, Word};
        let is = |at: usize, kind: AnnotationTokenKind, text: &str| {
            tokens.get(at).is_some_and(|t| t.kind == kind && (text.is_empty() || &*t.text == text))
        };
        // How many tokens are right.
        let mut good = 0;
        if is(0, String, "") {
            good = if is(1, Symbol, ",") { 2 } else { 1 };
        }
        if good == 2 {
            good = if is(2, Word, "bit") {
                let rest = [(Symbol, "<"), (Integer, ""), (Symbol, ">")];
                3 + rest.iter().enumerate().take_while(|(at, (kind, text))| is(3 + at, *kind, text)).count()
            } else if is(2, Word, "string") || is(2, Integer, "") {
                3
            } else {
                2
            };
        }
        let complete = match good {
            3 => !is(2, Word, "bit"),
            6 => true,
            _ => false,
        };
        if complete && good == tokens.len() {
            return;
        }
        let end = Span { start: annotation.span.end.saturating_sub(1), ..annotation.span };
        let (span, found) = match tokens.get(good) {
            Some(token) => (token.span, format!("`{}`", token.text)),
            None => (end, "`)`".to_owned()),
        };
        let error =
            Diagnostic::error("syntax", span, format!("`@p4runtime_translation` goes on wrong at {found}"));
        self.diags.push(error.help("it has an address and `bit<W>` or `string`: `(\"uri\", bit<32>)`"));
    }

    /// Annotations whose form is laid down (by the language or by P4Runtime) and that cannot do without a body.
    fn check_annotation(&mut self, annotation: &Annotation) {
        let needs = match annotation.name.as_str() {
            "name" | "deprecated" | "noWarn" => "a string: `(\"…\")`",
            "pkginfo" => "keys and values: `(name = \"…\")`",
            "p4runtime_translation" => "two arguments: `(\"uri\", type)`",
            "id" => "an integer: `(0x…)`",
            _ => return,
        };
        if annotation.name.as_str() == "name"
            && let AnnotationBody::Unstructured(tokens) = &annotation.body
        {
            // Strings, with `++` between them. What another expression is worth is not for the parser to say.
            let fits = |(i, t): &(usize, &AnnotationToken)| match i % 2 {
                0 => t.kind != AnnotationTokenKind::Symbol,
                _ => &*t.text == "++",
            };
            let wrong = tokens.iter().enumerate().find(|pair| !fits(pair));
            if let Some((_, token)) = wrong {
                let message = format!("expected one string in `@name`, found `{}`", token.text);
                self.diags.push(Diagnostic::error("syntax", token.span, message));
            }
        }
        if annotation.name.as_str() == "p4runtime_translation"
            && let AnnotationBody::Unstructured(tokens) = &annotation.body
            && !tokens.is_empty()
        {
            self.check_translation(annotation, tokens);
        }
        let empty = match &annotation.body {
            AnnotationBody::None => true,
            AnnotationBody::Unstructured(tokens) => tokens.is_empty(),
            AnnotationBody::Expressions(list) => list.is_empty(),
            AnnotationBody::KeyValues(list) => list.is_empty(),
        };
        if empty {
            let message = format!("the annotation `@{}` needs {needs}", annotation.name);
            self.diags.push(Diagnostic::error("syntax", annotation.span, message));
        }
    }
}
