//! "Expected this, found that", and what would help.
use super::{Failed, Parser};
use crate::diag::Diagnostic;
use crate::lex::{LINE, Token, TokenKind};
use crate::source::Span;
use barewire_text::nearest;

/// Types that programs take from a file that they forgot to include.
const HOMES: &[(&str, &str)] = &[
    ("packet_in", "core.p4"),
    ("packet_out", "core.p4"),
    ("standard_metadata_t", "v1model.p4"),
    ("V1Switch", "v1model.p4"),
    ("CounterType", "v1model.p4"),
    ("MeterType", "v1model.p4"),
    ("HashAlgorithm", "v1model.p4"),
    ("CloneType", "v1model.p4"),
    ("counter", "v1model.p4"),
    ("direct_counter", "v1model.p4"),
    ("meter", "v1model.p4"),
    ("direct_meter", "v1model.p4"),
    ("register", "v1model.p4"),
    ("action_profile", "v1model.p4"),
    ("action_selector", "v1model.p4"),
    ("PSA_Switch", "psa.p4"),
    ("IngressPipeline", "psa.p4"),
    ("EgressPipeline", "psa.p4"),
    ("psa_ingress_input_metadata_t", "psa.p4"),
    ("psa_ingress_output_metadata_t", "psa.p4"),
    ("psa_egress_input_metadata_t", "psa.p4"),
    ("psa_egress_output_metadata_t", "psa.p4"),
    ("psa_ingress_parser_input_metadata_t", "psa.p4"),
    ("psa_egress_parser_input_metadata_t", "psa.p4"),
    ("PNA_NIC", "pna.p4"),
    ("pna_main_input_metadata_t", "pna.p4"),
    ("pna_main_output_metadata_t", "pna.p4"),
];

impl Parser<'_> {
    /// Reports an error at this token; a second one at the same token is the same.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) -> Failed {
        if !self.quiet && self.last_error.replace(self.at) != Some(self.at) {
            let diagnostic = match self.meant {
                Some((name, meant)) => diagnostic.label(name, format!("is this property `{meant}`?")),
                None => diagnostic,
            };
            self.diags.push(diagnostic);
        }
        Failed
    }

    /// The token cannot stand here. `wanted`: what could, where the kinds that were asked for do not say it.
    pub(super) fn unexpected(&mut self, wanted: Option<&str>) -> Failed {
        if self.quiet {
            return Failed;
        }
        let token = self.token();
        if token.kind == TokenKind::Eof && self.at > 0 && self.tokens[self.at - 1].kind == TokenKind::OpenStr
        {
            // The string took the rest of the file.
            self.last_error = Some(self.at);
            return Failed;
        }
        let found = self.describe(token);
        let wanted = wanted.map_or_else(|| self.alternatives(), str::to_owned);
        let mut error =
            Diagnostic::error("syntax", self.shown_span(token), format!("expected {wanted}, found {found}"));
        if token.has(LINE) && self.at > 0 {
            // What is missing is missing at the end of the line before.
            let missing = self.previous().after();
            error = error.label(missing, format!("expected {wanted} here"));
        } else {
            error = error.here(format!("expected {wanted}"));
        }
        self.report(self.advise(error, token))
    }

    /// Of a string without its end, the first line.
    fn shown_span(&self, token: Token) -> Span {
        let length = self.text(token).lines().next().map_or(0, str::len);
        match token.kind {
            TokenKind::OpenStr => token.span.first(length as u32),
            _ => token.span,
        }
    }

    /// A token in a message.
    pub(super) fn describe(&self, token: Token) -> String {
        let text = self.text(token);
        let text = text.lines().next().unwrap_or("");
        match token.kind {
            TokenKind::Eof => "the end of the file".to_owned(),
            TokenKind::Str => "a string".to_owned(),
            TokenKind::OpenStr => "a string without its end".to_owned(),
            TokenKind::BadInt => format!("`{text}`, which is no integer"),
            TokenKind::Unknown => format!("`{text}`, which is no character of P4"),
            TokenKind::Ident if self.is_type_name(token) => format!("the type `{text}`"),
            kind if kind.is_keyword() && kind != TokenKind::DontCare => format!("the keyword `{text}`"),
            _ => format!("`{text}`"),
        }
    }

    fn alternatives(&self) -> String {
        let list: &[TokenKind] = if self.expected_at == self.at { &self.expected } else { &[] };
        let quote = |kind: &TokenKind| match kind {
            TokenKind::Ident | TokenKind::Int | TokenKind::Str | TokenKind::Eof => kind.text().to_owned(),
            kind => format!("`{}`", kind.text()),
        };
        // The last that was asked for is what had to be there.
        match list {
            [] => "something else".to_owned(),
            [one] => quote(one),
            [others @ .., last] if others.len() < 4 => {
                let others: Vec<String> = others.iter().map(quote).collect();
                format!("{} or {}", others.join(", "), quote(last))
            }
            [.., last] => quote(last),
        }
    }

    fn advise(&self, error: Diagnostic, token: Token) -> Diagnostic {
        let text = self.text(token);
        match token.kind {
            TokenKind::Ident => {
                let words = self.expected.iter().filter(|k| k.is_keyword() && self.expected_at == self.at);
                match nearest(text, words.map(|k| k.text())) {
                    Some(word) => error.help(format!("did you mean `{word}`?")),
                    None => error,
                }
            }
            TokenKind::EqEq if self.expected_at == self.at && self.expected.contains(&TokenKind::Assign) => {
                error.help("`=` assigns, `==` compares")
            }
            TokenKind::Assign
                if self.expected_at == self.at && self.expected.contains(&TokenKind::RParen) =>
            {
                error.help("`==` compares, `=` assigns")
            }
            TokenKind::Minus | TokenKind::Plus | TokenKind::PlusPlus
                if self.expected_at == self.at && self.expected.contains(&TokenKind::Assign) =>
            {
                let sign = if token.kind == TokenKind::Minus { '-' } else { '+' };
                error.help(format!("P4 has no `{sign}{sign}`: write `x = x {sign} 1`"))
            }
            TokenKind::LBrace if self.expected_at == self.at && self.expected.contains(&TokenKind::Semi) => {
                match self.word_before_parentheses() {
                    Some("elif" | "elsif" | "elseif") => error.help("P4 writes it in two words: `else if`"),
                    Some("while" | "do" | "until") => {
                        error.help("P4 has `for (init; condition; update)`, and parsers go back to a state")
                    }
                    _ => error,
                }
            }
            TokenKind::OpenStr => error.help("a `\"` is missing"),
            TokenKind::BadInt => {
                error.help("integers are `10`, `0xff`, `0b11`, `0o7`, with a width `8w10` or `8s10`")
            }
            TokenKind::Hash => error.help("a directive must be the first on its line"),
            TokenKind::Semi if self.expected_at == self.at && self.expected.contains(&TokenKind::RBrace) => {
                error.help("no `;` is needed here")
            }
            kind if kind.is_keyword() && kind != TokenKind::DontCare => {
                error.note(format!("`{text}` is a word of the language"))
            }
            _ => error,
        }
    }

    /// What stands before the `( … )` that ends here.
    fn word_before_parentheses(&self) -> Option<&str> {
        let mut depth = 0_usize;
        for at in (0..self.at).rev() {
            match self.tokens[at].kind {
                TokenKind::RParen => depth += 1,
                TokenKind::LParen => depth = depth.checked_sub(1)?,
                TokenKind::Semi | TokenKind::LBrace | TokenKind::RBrace => return None,
                _ if depth > 0 => continue,
                _ => return Some(self.text(self.tokens[at])),
            }
        }
        None
    }

    /// Where a type of this name is declared further down.
    fn declared_later(&self, token: Token) -> Option<Span> {
        use TokenKind::{Enum, Extern, Header, HeaderUnion, Ident, Struct};
        let pairs = self.tokens[self.at..].windows(2);
        let mut found = pairs.filter(|pair| {
            matches!(pair[0].kind, Struct | Header | HeaderUnion | Enum | Extern)
                && pair[1].kind == Ident
                && pair[1].text == token.text
        });
        found.next().map(|pair| pair[1].span)
    }

    /// A type was wanted, and this is none.
    pub(super) fn no_type(&mut self) -> Failed {
        let token = self.token();
        if token.kind != TokenKind::Ident {
            return self.unexpected(Some("a type"));
        }
        if self.quiet {
            return Failed;
        }
        let text = self.text(token);
        let mut error = Diagnostic::error("syntax", token.span, format!("expected a type, found `{text}`"))
            .here("no type of this name is declared before this line");
        let home = HOMES.iter().find(|(name, _)| *name == text);
        let known: Vec<&str> = self.scopes.types().map(|sym| &**self.names.name(sym)).collect();
        let basic = ["bit", "int", "bool", "varbit", "error", "string", "tuple", "list", "void"];
        if let Some(later) = self.declared_later(token) {
            error = error
                .label(later, "declared here")
                .help("move the declaration up: a name is known behind it");
        } else if let Some((_, file)) = home {
            error = error.help(format!("it is declared in {file}: `#include <{file}>`"));
        } else if let Some(near) = nearest(text, known.into_iter().chain(basic)) {
            error = error.help(format!("there is a type `{near}`"));
        }
        self.report(error)
    }

    /// A word before a name that is neither a type nor what could stand here.
    pub(super) fn unexpected_word(&mut self) -> Failed {
        let text = self.text(self.token());
        let words = self.expected.iter().filter(|k| k.is_keyword() && self.expected_at == self.at);
        if nearest(text, words.map(|k| k.text())).is_some() { self.unexpected(None) } else { self.no_type() }
    }

    /// Two names in a row: the first should have been a type.
    pub(super) fn no_type_before(&mut self, first: Token) -> Failed {
        if self.quiet {
            return Failed;
        }
        let (name, found) = (self.text(first), self.describe(self.token()));
        let error = Diagnostic::error(
            "syntax",
            self.span(),
            format!("expected an assignment or a call, found {found}"),
        )
        .label(first.span, format!("no type `{name}` is declared before this line"));
        let known: Vec<&str> = self.scopes.types().map(|sym| &**self.names.name(sym)).collect();
        let error = match nearest(name, known) {
            Some(near) => error.help(format!("there is a type `{near}`")),
            None => error,
        };
        self.report(error)
    }
}
