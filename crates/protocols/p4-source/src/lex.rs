//! The words of P4-16 (section 6.4): from text to tokens, one at a time, each at its bytes.
//!
//! What is read here is text as it stands in a file: comments, ends of lines and the `#` of directives are tokens, too. The
//! preprocessor and the formatter both read through it.
use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::Name;
use crate::source::Span;

macro_rules! tokens {
    (
        symbols { $($symbol:ident $text:literal)* }
        keywords { $($keyword:ident $word:literal)* }
    ) => {
        /// Kind of a token.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum TokenKind {
            /// After the last.
            Eof,
            /// A name that is no keyword.
            Ident,
            /// An integer.
            Int,
            /// What starts as an integer and is none.
            BadInt,
            /// `"…"`
            Str,
            /// A string without its end.
            OpenStr,
            /// A character that begins no token.
            Unknown,
            $($symbol,)*
            $($keyword,)*
        }

        impl TokenKind {
            /// As written, or what it is.
            pub fn text(self) -> &'static str {
                match self {
                    TokenKind::Eof => "end of file",
                    TokenKind::Ident => "a name",
                    TokenKind::Int => "an integer",
                    TokenKind::BadInt => "a malformed integer",
                    TokenKind::Str => "a string",
                    TokenKind::OpenStr => "a string without its end",
                    TokenKind::Unknown => "an unknown character",
                    $(TokenKind::$symbol => $text,)*
                    $(TokenKind::$keyword => $word,)*
                }
            }
        }

        const KEYWORDS: &[TokenKind] = &[$(TokenKind::$keyword,)*];
    };
}

tokens! {
    symbols {
        LParen "(" RParen ")" LBracket "[" RBracket "]" LBrace "{" RBrace "}" LAngle "<" RAngle ">"
        Le "<=" Ge ">=" Shl "<<" EqEq "==" Ne "!=" AndAnd "&&" OrOr "||" Plus "+" Minus "-" PlusSat "|+|" MinusSat "|-|"
        Star "*" Slash "/" Percent "%" Pipe "|" Amp "&" Caret "^" Tilde "~" Not "!" PlusPlus "++"
        Assign "=" PlusAssign "+=" MinusAssign "-=" PlusSatAssign "|+|=" MinusSatAssign "|-|=" StarAssign "*=" SlashAssign "/="
        PercentAssign "%=" ShlAssign "<<=" AmpAssign "&=" PipeAssign "|=" CaretAssign "^="
        Colon ":" Comma "," Question "?" Dot "." Semi ";" At "@" Mask "&&&" Range ".." Dots "..." Invalid "{#}"
        Hash "#" HashHash "##" Backslash "\\"
    }
    keywords {
        Abstract "abstract" Action "action" Actions "actions" Apply "apply" Bit "bit" Bool "bool" Break "break" Const "const"
        Continue "continue" Control "control" Default "default" Else "else" Entries "entries" Enum "enum" Error "error"
        Exit "exit" Extern "extern" False "false" For "for" Header "header" HeaderUnion "header_union" If "if" In "in"
        InOut "inout" IntType "int" Key "key" List "list" MatchKind "match_kind" Out "out" Package "package" Parser "parser"
        Priority "priority" Return "return" Select "select" State "state" String "string" Struct "struct" Switch "switch"
        Table "table" This "this" Transition "transition" True "true" Tuple "tuple" Type "type" Typedef "typedef"
        ValueSet "value_set" Varbit "varbit" Void "void" DontCare "_"
    }
}

impl TokenKind {
    /// Whether it is a word of the language.
    pub fn is_keyword(self) -> bool {
        self as u8 >= TokenKind::Abstract as u8
    }

    /// Whether it is spelled with letters.
    pub fn is_word(self) -> bool {
        self == TokenKind::Ident || self.is_keyword()
    }

    /// The keyword with this text.
    pub fn keyword(text: &str) -> Option<TokenKind> {
        KEYWORDS.iter().copied().find(|k| k.text() == text)
    }
}

/// A text that occurs in the program, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sym(pub u32);

/// Texts by number. Keywords come first.
#[derive(Debug)]
pub struct Interner {
    numbers: HashMap<Name, Sym>,
    texts: Vec<Name>,
}

impl Default for Interner {
    fn default() -> Interner {
        let mut interner = Interner { numbers: HashMap::new(), texts: Vec::new() };
        for keyword in KEYWORDS {
            interner.intern(keyword.text());
        }
        interner
    }
}

impl Interner {
    /// The number of a text.
    pub fn intern(&mut self, text: &str) -> Sym {
        if let Some(&sym) = self.numbers.get(text) {
            return sym;
        }
        let sym = Sym(self.texts.len() as u32);
        let text: Name = Arc::from(text);
        self.texts.push(text.clone());
        self.numbers.insert(text, sym);
        sym
    }

    /// The text of a number.
    pub fn name(&self, sym: Sym) -> &Name {
        &self.texts[sym.0 as usize]
    }

    /// Keyword or name.
    pub fn word(&self, sym: Sym) -> TokenKind {
        KEYWORDS.get(sym.0 as usize).copied().unwrap_or(TokenKind::Ident)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.texts.len()
    }
}

/// White space or a comment stands before it.
pub(crate) const SPACE: u8 = 1;
/// It is the first on its line.
pub(crate) const LINE: u8 = 2;
/// A macro's name that is to stay one.
pub(crate) const PAINTED: u8 = 4;

/// A token of the program, after preprocessing.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Which.
    pub kind: TokenKind,
    /// [`SPACE`], [`LINE`], [`PAINTED`]
    pub(crate) flags: u8,
    /// Its text. Of a symbol the text is that of its kind, and this is not set.
    pub text: Sym,
    /// Where.
    pub span: Span,
}

impl Token {
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What a piece of text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// A token; keywords are names here.
    Token(TokenKind),
    /// Blanks.
    Space,
    /// One end of line.
    Newline,
    /// A backslash and an end of line.
    Splice,
    /// `// …`
    LineComment,
    /// `/* … */`
    BlockComment,
    /// `/* …` without its end.
    OpenComment,
}

fn is_word_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_'
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn while_at(text: &[u8], mut at: usize, keep: impl Fn(u8) -> bool) -> usize {
    while at < text.len() && keep(text[at]) {
        at += 1;
    }
    at
}

/// Symbols, longest first among those with the same start.
const SYMBOLS: &[(&[u8], TokenKind)] = &[
    (b"|+|=", TokenKind::PlusSatAssign),
    (b"|-|=", TokenKind::MinusSatAssign),
    (b"|+|", TokenKind::PlusSat),
    (b"|-|", TokenKind::MinusSat),
    (b"||", TokenKind::OrOr),
    (b"|=", TokenKind::PipeAssign),
    (b"|", TokenKind::Pipe),
    (b"&&&", TokenKind::Mask),
    (b"&&", TokenKind::AndAnd),
    (b"&=", TokenKind::AmpAssign),
    (b"&", TokenKind::Amp),
    (b"...", TokenKind::Dots),
    (b"..", TokenKind::Range),
    (b".", TokenKind::Dot),
    (b"{#}", TokenKind::Invalid),
    (b"{", TokenKind::LBrace),
    (b"<<=", TokenKind::ShlAssign),
    (b"<<", TokenKind::Shl),
    (b"<=", TokenKind::Le),
    (b"<", TokenKind::LAngle),
    (b">=", TokenKind::Ge),
    (b">", TokenKind::RAngle),
    (b"==", TokenKind::EqEq),
    (b"=", TokenKind::Assign),
    (b"!=", TokenKind::Ne),
    (b"!", TokenKind::Not),
    (b"++", TokenKind::PlusPlus),
    (b"+=", TokenKind::PlusAssign),
    (b"+", TokenKind::Plus),
    (b"-=", TokenKind::MinusAssign),
    (b"-", TokenKind::Minus),
    (b"*=", TokenKind::StarAssign),
    (b"*", TokenKind::Star),
    (b"/=", TokenKind::SlashAssign),
    (b"/", TokenKind::Slash),
    (b"%=", TokenKind::PercentAssign),
    (b"%", TokenKind::Percent),
    (b"^=", TokenKind::CaretAssign),
    (b"^", TokenKind::Caret),
    (b"##", TokenKind::HashHash),
    (b"#", TokenKind::Hash),
    (b"~", TokenKind::Tilde),
    (b"(", TokenKind::LParen),
    (b")", TokenKind::RParen),
    (b"[", TokenKind::LBracket),
    (b"]", TokenKind::RBracket),
    (b"}", TokenKind::RBrace),
    (b":", TokenKind::Colon),
    (b",", TokenKind::Comma),
    (b"?", TokenKind::Question),
    (b";", TokenKind::Semi),
    (b"@", TokenKind::At),
    (b"\\", TokenKind::Backslash),
];

/// Where in [`SYMBOLS`] those with a first byte begin; beyond the end: there are none.
const FIRST: [u8; 256] = {
    let mut first = [u8::MAX; 256];
    let mut i = SYMBOLS.len();
    while i > 0 {
        i -= 1;
        first[SYMBOLS[i].0[0] as usize] = i as u8;
    }
    first
};

/// The symbol at the start of a text that is not empty.
fn symbol(text: &[u8]) -> Option<(usize, TokenKind)> {
    let list = SYMBOLS.get(usize::from(FIRST[usize::from(text[0])])..)?;
    let mut same = list.iter().take_while(|(symbol, _)| symbol[0] == text[0]);
    same.find(|(symbol, _)| text.starts_with(symbol)).map(|(symbol, kind)| (symbol.len(), *kind))
}

/// The piece of text that starts at `at`, which is in the text, and where it ends.
pub fn piece(text: &[u8], at: usize) -> (Piece, usize) {
    let rest = &text[at..];
    match rest[0] {
        b'\n' => (Piece::Newline, at + 1),
        b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {
            let end = while_at(text, at, |b| matches!(b, b' ' | b'\t' | b'\r' | 0x0b | 0x0c));
            (Piece::Space, end)
        }
        b'\\' if rest.starts_with(b"\\\n") => (Piece::Splice, at + 2),
        b'\\' if rest.starts_with(b"\\\r\n") => (Piece::Splice, at + 3),
        b'/' if rest.starts_with(b"//") => (Piece::LineComment, line_comment(text, at)),
        b'/' if rest.starts_with(b"/*") => block_comment(text, at),
        b'"' => string(text, at),
        b'0'..=b'9' => integer(text, at),
        b if is_word_start(b) => (Piece::Token(TokenKind::Ident), while_at(text, at, is_word)),
        _ => match symbol(rest) {
            Some((length, kind)) => (Piece::Token(kind), at + length),
            // All bytes of the character.
            None => (Piece::Token(TokenKind::Unknown), while_at(text, at + 1, |b| b & 0xc0 == 0x80)),
        },
    }
}

/// To the end of its line; a backslash before that end continues it.
fn line_comment(text: &[u8], at: usize) -> usize {
    let mut end = at;
    loop {
        end = while_at(text, end, |b| b != b'\n');
        let line = &text[at..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if end == text.len() || line.last() != Some(&b'\\') {
            return at + line.len();
        }
        end += 1;
    }
}

fn block_comment(text: &[u8], at: usize) -> (Piece, usize) {
    match text[at + 2..].windows(2).position(|w| w == b"*/") {
        Some(length) => (Piece::BlockComment, at + 2 + length + 2),
        None => (Piece::OpenComment, text.len()),
    }
}

/// Strings may hold ends of lines.
fn string(text: &[u8], at: usize) -> (Piece, usize) {
    let mut end = at + 1;
    while end < text.len() {
        match text[end] {
            b'"' => return (Piece::Token(TokenKind::Str), end + 1),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    (Piece::Token(TokenKind::OpenStr), text.len())
}

fn digits(text: &[u8], base: u8) -> bool {
    let digit = |b: &u8| *b == b'_' || (*b as char).is_digit(u32::from(base));
    text.iter().all(digit) && text.iter().any(|b| *b != b'_')
}

/// An integer's parts, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IntegerParts<'a> {
    /// Digits of the width.
    pub width: Option<&'a str>,
    /// The width is followed by `s`.
    pub signed: bool,
    /// 2, 8, 10 or 16.
    pub base: u8,
    /// Digits of the value, with `_`.
    pub digits: &'a str,
}

/// Splits an integer; none if it is none.
pub(crate) fn split_integer(text: &str) -> Option<IntegerParts<'_>> {
    let bytes = text.as_bytes();
    let head = while_at(bytes, 0, |b| b.is_ascii_digit());
    let (width, rest) = match bytes.get(head) {
        Some(b'w' | b's') => (Some(&text[..head]), &text[head + 1..]),
        _ => (None, text),
    };
    let signed = bytes.get(head) == Some(&b's');
    let base = match rest.as_bytes() {
        [b'0', b'x' | b'X', ..] => 16,
        [b'0', b'd' | b'D', ..] => 10,
        [b'0', b'o' | b'O', ..] => 8,
        [b'0', b'b' | b'B', ..] => 2,
        [b'0'..=b'9', ..] => {
            return digits(rest.as_bytes(), 10).then_some(IntegerParts {
                width,
                signed,
                base: 10,
                digits: rest,
            });
        }
        _ => return None,
    };
    let value = &rest[2..];
    digits(value.as_bytes(), base).then_some(IntegerParts { width, signed, base, digits: value })
}

fn integer(text: &[u8], at: usize) -> (Piece, usize) {
    let end = while_at(text, at, is_word);
    // Word characters are ASCII.
    let good = std::str::from_utf8(&text[at..end]).is_ok_and(|t| split_integer(t).is_some());
    (Piece::Token(if good { TokenKind::Int } else { TokenKind::BadInt }), end)
}

/// The value of a string token: without its quotes, `\"` and `\\` resolved, other backslashes as they are.
pub(crate) fn string_value(text: &str) -> String {
    let inner = text.strip_prefix('"').unwrap_or(text);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(&next @ ('"' | '\\')) if c == '\\' => {
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Piece, &str)> {
        let (mut at, mut list) = (0, Vec::new());
        while at < text.len() {
            let (piece, end) = piece(text.as_bytes(), at);
            if piece != Piece::Space {
                list.push((piece, &text[at..end]));
            }
            at = end;
        }
        list
    }

    fn tokens(text: &str) -> Vec<(TokenKind, &str)> {
        let token = |(piece, text)| match piece {
            Piece::Token(kind) => (kind, text),
            other => panic!("{other:?} in {text:?}"),
        };
        kinds(text).into_iter().map(token).collect()
    }

    /// Section 6.4.3.2.
    #[test]
    fn integers() {
        for good in [
            "0",
            "32w255",
            "32w0d255",
            "32w0xFF",
            "32s0xFF",
            "8w0b10101010",
            "8w0b_1010_1010",
            "8w170",
            "8s0b1010_1010",
            "16w0377",
            "16w0o377",
            "0XFF",
            "0B1",
            "0D9",
            "0O7",
            "1_000",
            "1_",
        ] {
            assert_eq!(tokens(good), [(TokenKind::Int, good)], "{good}");
        }
        for bad in ["0x", "0b2", "0o8", "8w", "8wx", "1a", "8w0xg", "0x_"] {
            assert_eq!(tokens(bad), [(TokenKind::BadInt, bad)], "{bad}");
        }
        let parts = IntegerParts { width: Some("8"), signed: true, base: 2, digits: "1010_1010" };
        assert_eq!(split_integer("8s0b1010_1010"), Some(parts));
        let parts = IntegerParts { width: None, signed: false, base: 16, digits: "_ff" };
        assert_eq!(split_integer("0x_ff"), Some(parts));
    }

    /// Section 6.4.3.3.
    #[test]
    fn strings() {
        assert_eq!(tokens(r#""a\"b" "c""#), [(TokenKind::Str, r#""a\"b""#), (TokenKind::Str, r#""c""#)]);
        assert_eq!(tokens("\"a\nb\""), [(TokenKind::Str, "\"a\nb\"")]);
        assert_eq!(tokens("\"a"), [(TokenKind::OpenStr, "\"a")]);
        assert_eq!(tokens("\"a\\"), [(TokenKind::OpenStr, "\"a\\")]);
        assert_eq!(string_value(r#""a\"b\\c\n""#), r#"a"b\c\n"#);
    }

    /// Section 6.4.2.
    #[test]
    fn comments() {
        assert_eq!(
            kinds("// a\nb"),
            [(Piece::LineComment, "// a"), (Piece::Newline, "\n"), (Piece::Token(TokenKind::Ident), "b")]
        );
        assert_eq!(
            kinds("/* a // */b"),
            [(Piece::BlockComment, "/* a // */"), (Piece::Token(TokenKind::Ident), "b")]
        );
        assert_eq!(kinds("/*/ */"), [(Piece::BlockComment, "/*/ */")]);
        assert_eq!(kinds("/*/"), [(Piece::OpenComment, "/*/")]);
        assert_eq!(kinds("// a\\\n b\r\nc")[0], (Piece::LineComment, "// a\\\n b"));
        assert_eq!(kinds("a \\\n b")[1], (Piece::Splice, "\\\n"));
    }

    #[test]
    fn symbols_are_read_longest_first() {
        let texts = |t| tokens(t).into_iter().map(|(_, t)| t).collect::<Vec<_>>();
        assert_eq!(
            texts("&&&& &&& && &= |+|=|-||+||| ||| ... .. . {#} {"),
            [
                "&&&", "&", "&&&", "&&", "&=", "|+|=", "|-|", "|+|", "||", "||", "|", "...", "..", ".",
                "{#}", "{"
            ]
        );
        assert_eq!(texts(">>= >> <<= << <="), [">", ">=", ">", ">", "<<=", "<<", "<="]);
        // Each symbol by itself is one token, so none hides behind a shorter one.
        for (symbol, kind) in SYMBOLS {
            let text = std::str::from_utf8(symbol).unwrap();
            assert_eq!(tokens(text), [(*kind, text)]);
            assert_eq!(kind.text(), text);
        }
    }

    #[test]
    fn keywords_are_the_first_texts() {
        let mut interner = Interner::default();
        for keyword in KEYWORDS {
            let sym = interner.intern(keyword.text());
            assert_eq!(interner.word(sym), *keyword);
            assert!(keyword.is_keyword());
        }
        let sym = interner.intern("foo");
        assert_eq!(interner.word(sym), TokenKind::Ident);
        assert!(!TokenKind::Backslash.is_keyword() && !TokenKind::Ident.is_keyword());
    }

    #[test]
    fn every_character_has_an_end() {
        assert_eq!(
            tokens("é$'"),
            [(TokenKind::Unknown, "é"), (TokenKind::Unknown, "$"), (TokenKind::Unknown, "'")]
        );
    }
}
