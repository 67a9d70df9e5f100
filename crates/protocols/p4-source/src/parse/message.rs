//! "Expected this, found that", and what would help.
use super::{Failed, Parser};
use crate::diag::Diagnostic;
use crate::lex::{LINE, Token, TokenKind};
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
        let found = self.describe(token);
        let wanted = wanted.map_or_else(|| self.alternatives(), str::to_owned);
        let mut error = Diagnostic::error("syntax", token.span, format!("expected {wanted}, found {found}"));
        if token.has(LINE) && self.at > 0 {
            // What is missing is missing at the end of the line before.
            let missing = self.previous().after();
            error = error.label(missing, format!("expected {wanted} here"));
        } else {
            error = error.here(format!("expected {wanted}"));
        }
        self.report(self.advise(error, token))
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
        if let Some((_, file)) = home {
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
