//! Lines, indentation, blanks.
use super::atoms::{Atom, Kind};
use super::brackets::{Role, roles};
use crate::lex::{self, Piece, TokenKind};

const STEP: usize = 4;

/// What is open.
struct Frame {
    /// Where lines inside begin.
    inner: usize,
    /// Where the closing bracket stands if it begins a line.
    closer: usize,
    kind: FrameKind,
    /// The statement that opened it is a `switch`: its labels end with `:`.
    labels: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    /// Statements or members, one a line.
    Block,
    /// The same, all on one line.
    Inline,
    /// Parentheses, brackets, lists.
    List,
}

struct Layout<'a> {
    atoms: &'a [Atom<'a>],
    roles: Vec<Role>,
    out: String,
    /// Width of the line so far, in characters.
    column: usize,
    /// Indentation of the line.
    indent: usize,
    /// Where the statement's block is indented from.
    base: usize,
    frames: Vec<Frame>,
    /// Stacks at each open `#if`.
    saved: Vec<Vec<(usize, usize, FrameKind, bool)>>,
    /// Nothing of the statement has been written, except annotations.
    fresh: bool,
    /// The first word of the statement.
    first: Option<TokenKind>,
    /// `if`, `for`, `else` of the statement that have no body yet.
    headers: usize,
    /// The last atom that was written, comments and directives too.
    last: Option<usize>,
    /// The last that is no comment.
    last_code: Option<usize>,
    /// A line break has to come next.
    must_break: bool,
}

pub(super) fn lay_out(atoms: &[Atom]) -> String {
    let frame = Frame { inner: 0, closer: 0, kind: FrameKind::Block, labels: false };
    let mut layout = Layout {
        atoms,
        roles: roles(atoms),
        out: String::new(),
        column: 0,
        indent: 0,
        base: 0,
        frames: vec![frame],
        saved: Vec::new(),
        fresh: true,
        first: None,
        headers: 0,
        last: None,
        last_code: None,
        must_break: false,
    };
    for at in 0..atoms.len() {
        layout.atom(at);
    }
    if !layout.out.is_empty() {
        layout.out.push('\n');
    }
    layout.out
}

impl<'a> Layout<'a> {
    fn frame(&self) -> &Frame {
        // There is always one: the file's.
        &self.frames[self.frames.len() - 1]
    }

    fn in_list(&self) -> bool {
        self.frame().kind == FrameKind::List
    }

    fn push_frame(&mut self, inner: usize, closer: usize, kind: FrameKind, labels: bool) {
        self.frames.push(Frame { inner, closer, kind, labels });
    }

    fn pop_frame(&mut self) {
        if self.frames.len() > 1 {
            self.frames.pop();
        }
    }

    fn write(&mut self, text: &str) {
        self.out.push_str(text);
        match text.rsplit_once('\n') {
            Some((_, tail)) => self.column = tail.chars().count(),
            None => self.column += text.chars().count(),
        }
    }

    /// A new line, indented, with an empty one before it or not.
    fn break_line(&mut self, indent: usize, blank: bool) {
        if self.last.is_some() {
            self.out.push('\n');
            if blank {
                self.out.push('\n');
            }
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
        (self.column, self.indent) = (indent, indent);
        self.must_break = false;
    }

    fn atom(&mut self, at: usize) {
        let atom = &self.atoms[at];
        match atom.kind {
            Kind::Directive => self.directive(at),
            Kind::LineComment | Kind::BlockComment => self.comment(at),
            Kind::Token(_) | Kind::Annotation | Kind::Pragma => self.code(at),
        }
        self.last = Some(at);
        if atom.ends_line() {
            self.must_break = true;
        }
    }

    fn blank_before(&self, at: usize) -> bool {
        let after_open = self.last.is_some_and(|l| {
            matches!(self.roles[l], Role::Block | Role::Names | Role::Braces)
                && self.atoms[l].is(TokenKind::LBrace)
        });
        self.atoms[at].lines > 1 && !after_open
    }

    fn directive(&mut self, at: usize) {
        let blank = self.blank_before(at);
        self.break_line(0, blank);
        let text = self.atoms[at].text.replace("\r\n", "\n");
        self.write(&text);
        self.must_break = true;
        let word: String = text[1..].trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
        match word.as_str() {
            "if" | "ifdef" | "ifndef" => {
                let stack = self.frames.iter().map(|f| (f.inner, f.closer, f.kind, f.labels)).collect();
                self.saved.push(stack);
            }
            "elif" | "else" => {
                if let Some(stack) = self.saved.last() {
                    self.frames = stack
                        .iter()
                        .map(|&(inner, closer, kind, labels)| Frame { inner, closer, kind, labels })
                        .collect();
                }
            }
            "endif" => {
                self.saved.pop();
            }
            _ => {}
        }
    }

    fn comment(&mut self, at: usize) {
        let atom = &self.atoms[at];
        let own_line = atom.lines > 0 || self.last.is_none() || self.must_break;
        if own_line {
            // It belongs to what follows.
            let closes = self.next_code(at).is_some_and(|n| self.atoms[n].is(TokenKind::RBrace));
            let indent = if closes { self.frame().inner } else { self.line_indent() };
            let blank = self.blank_before(at);
            self.break_line(indent, blank);
        } else {
            self.write(" ");
        }
        let text = self.comment_text(at);
        self.write(&text);
    }

    /// A comment of several lines that have a `*` each moves as a whole; any other keeps its lines.
    fn comment_text(&self, at: usize) -> String {
        let text = &self.atoms[at].text;
        if !text.contains('\n') {
            return text.trim_end().to_owned();
        }
        let mut lines = text.lines();
        let first = lines.next().unwrap_or("").trim_end();
        let rest: Vec<&str> = lines.map(str::trim_end).collect();
        let stars = rest.iter().all(|l| l.trim_start().starts_with('*'));
        let mut out = first.to_owned();
        for line in rest {
            out.push('\n');
            if stars {
                out.extend(std::iter::repeat_n(' ', self.column + 1));
                out.push_str(line.trim_start());
            } else {
                out.push_str(line);
            }
        }
        out
    }

    fn next_code(&self, at: usize) -> Option<usize> {
        (at + 1..self.atoms.len()).find(|&i| !self.atoms[i].is_comment())
    }

    /// Where a line that begins here is indented.
    fn line_indent(&self) -> usize {
        let frame = self.frame();
        match frame.kind {
            FrameKind::List => frame.inner,
            _ if self.fresh => frame.inner,
            _ => frame.inner + STEP * self.headers.max(1),
        }
    }

    /// Whether a line break comes before this atom.
    fn breaks(&self, at: usize) -> bool {
        let atom = &self.atoms[at];
        if self.last.is_none() || self.must_break {
            return true;
        }
        // At the start of a line it would be a directive.
        if atom.is(TokenKind::Hash) {
            return false;
        }
        let role = self.roles[at];
        let frame = self.frame();
        let after_comment = self.last.is_some_and(|l| self.atoms[l].is_comment());
        if atom.is(TokenKind::RBrace) {
            return match frame.kind {
                FrameKind::Block => !self.block_is_empty(),
                FrameKind::Inline => false,
                FrameKind::List => atom.lines > 0,
            };
        }
        if self.fresh && frame.kind == FrameKind::Block {
            let first = self.last_code.is_none_or(|l| !self.atoms[l].is(TokenKind::RBrace));
            let joins = atom.is(TokenKind::Semi) || (atom.is(TokenKind::Else) && !after_comment);
            return match self.last_code {
                // `} else`, `};`
                Some(_) if joins && !first => false,
                // `{ }` of nothing, an annotation before its declaration.
                Some(last) if matches!(self.atoms[last].kind, Kind::Annotation) && !after_comment => {
                    atom.lines > 0
                }
                _ => true,
            };
        }
        // `{` of a block stays with what it belongs to.
        if role == Role::Block && atom.is(TokenKind::LBrace) && !self.fresh {
            return atom.lines > 0 && after_comment;
        }
        atom.lines > 0 && frame.kind != FrameKind::Inline
    }

    /// Nothing, not even a comment, since the block was opened.
    fn block_is_empty(&self) -> bool {
        self.last.is_some_and(|l| self.atoms[l].is(TokenKind::LBrace))
    }

    fn code(&mut self, at: usize) {
        let atom = &self.atoms[at];
        let role = self.roles[at];
        let closes =
            matches!(atom.token(), Some(TokenKind::RBrace | TokenKind::RParen | TokenKind::RBracket));
        if self.breaks(at) {
            let indent = if closes { self.frame().closer } else { self.line_indent() };
            let blank = !closes && self.blank_before(at);
            self.break_line(indent, blank);
            let header = matches!(
                atom.token(),
                Some(TokenKind::If | TokenKind::For | TokenKind::Switch | TokenKind::LBrace)
            );
            if self.fresh || (header && !self.in_list()) {
                self.base = indent;
            }
        } else if self.last.is_some() {
            if self.fresh && !self.in_list() {
                self.base = self.frame().inner;
            }
            if self.spaced(at) {
                self.write(" ");
            }
        }
        if closes {
            self.close(at);
        }
        self.write(&atom.text);
        self.after(at, role);
        self.last_code = Some(at);
    }

    fn close(&mut self, at: usize) {
        let brace = self.atoms[at].is(TokenKind::RBrace);
        if !brace && !self.in_list() {
            // Nothing of the kind is open.
            return;
        }
        self.pop_frame();
    }

    /// What follows from an atom that was written.
    fn after(&mut self, at: usize, role: Role) {
        let atom = &self.atoms[at];
        let Some(kind) = atom.token() else {
            // Annotations and pragmas before a declaration are not yet the declaration.
            return;
        };
        let was_fresh = self.fresh;
        if was_fresh && kind != TokenKind::RBrace {
            self.first = Some(kind);
            self.headers = 0;
        }
        self.fresh = false;
        match kind {
            TokenKind::LBrace => self.open_brace(at, role),
            TokenKind::LParen | TokenKind::LBracket => self.open_list(at),
            TokenKind::RBrace if matches!(role, Role::Block | Role::Names) && !self.in_list() => {
                // `typedef struct { … } name;`
                let next = self.next_code(at);
                let goes_on = self.first == Some(TokenKind::Typedef)
                    && next.is_some_and(|n| self.atoms[n].token().is_some_and(TokenKind::is_word));
                self.fresh = !goes_on;
                self.headers = 0;
            }
            TokenKind::Semi if !self.in_list() => {
                self.fresh = true;
                self.headers = 0;
            }
            TokenKind::Colon if !self.in_list() && self.frame().labels && role == Role::Plain => {
                // A label; its block belongs to it.
                let block = self.next_code(at).is_some_and(|n| self.atoms[n].is(TokenKind::LBrace));
                self.fresh = !block;
                self.headers = 0;
            }
            TokenKind::If | TokenKind::For | TokenKind::Else if !self.in_list() => {
                // `else if` is one.
                let chained = self.last_code.is_some_and(|l| self.atoms[l].is(TokenKind::Else));
                if !chained || kind == TokenKind::Else {
                    self.headers += 1;
                }
            }
            _ => {}
        }
    }

    fn open_brace(&mut self, at: usize, role: Role) {
        if role == Role::Braces {
            return self.open_list(at);
        }
        if role == Role::Names {
            return self.open_list(at);
        }
        let labels = self.first == Some(TokenKind::Switch) && self.frame().kind != FrameKind::List;
        let base = if self.in_list() { self.indent } else { self.base };
        let kind =
            if self.headers == 0 && self.stays_on_line(at) { FrameKind::Inline } else { FrameKind::Block };
        self.push_frame(base + STEP, base, kind, labels);
        self.fresh = true;
        self.headers = 0;
    }

    /// A block that the author wrote on one line stays there if it has one statement at most.
    fn stays_on_line(&self, open: usize) -> bool {
        let mut statement = false;
        let mut lists = 0_usize;
        for i in open + 1..self.atoms.len() {
            let atom = &self.atoms[i];
            if atom.lines > 0 || atom.ends_line() {
                return false;
            }
            match atom.token() {
                Some(TokenKind::LBrace) if self.roles[i] == Role::Block => return false,
                Some(TokenKind::RBrace) if self.roles[i] == Role::Block => return true,
                Some(TokenKind::LParen) => lists += 1,
                Some(TokenKind::RParen) => lists = lists.saturating_sub(1),
                Some(TokenKind::Semi) if lists == 0 && statement => return false,
                Some(TokenKind::Semi) if lists == 0 => statement = true,
                _ => {}
            }
        }
        false
    }

    /// What is in it begins under its first word, or one step in on the next line.
    fn open_list(&mut self, at: usize) {
        let next = at + 1;
        let broken = self.atoms.get(next).is_some_and(|a| a.lines > 0 || a.kind == Kind::LineComment);
        let (inner, closer) = if broken {
            (self.indent + STEP, self.indent)
        } else if self.atoms[at].is(TokenKind::LBrace) && self.roles[at] == Role::Names {
            (self.column + 1, self.column - 1)
        } else {
            (self.column, self.column - 1)
        };
        self.push_frame(inner, closer, FrameKind::List, false);
        self.fresh = false;
    }

    /// Whether a blank comes between the last atom and this one, on one line.
    fn spaced(&self, at: usize) -> bool {
        let Some(last) = self.last else { return false };
        let (a, b) = (&self.atoms[last], &self.atoms[at]);
        if a.is_comment() {
            return !matches!(
                b.token(),
                Some(TokenKind::Semi | TokenKind::Comma | TokenKind::RParen | TokenKind::RBracket)
            );
        }
        if !self.wants_space(last, at) {
            // Never where two tokens would become others.
            return merges(&a.text, &b.text);
        }
        true
    }

    fn wants_space(&self, last: usize, at: usize) -> bool {
        use TokenKind::*;
        let (a, b) = (&self.atoms[last], &self.atoms[at]);
        let (Some(left), Some(right)) = (a.token(), b.token()) else {
            // An annotation: a word of its own, but nothing before `;` and `:`.
            return !matches!(b.token(), Some(Semi | Comma | RParen | RBracket))
                && !matches!(a.token(), Some(LParen | LBracket));
        };
        let (l, r) = (self.roles[last], self.roles[at]);
        match (left, right) {
            _ if r == Role::OpenAngle || l == Role::OpenAngle || r == Role::CloseAngle => false,
            _ if l == Role::ShiftStart => false,
            _ if l == Role::Sign => false,
            // With a `}` behind them they would be `{#}`.
            (LBrace, Hash) => true,
            (LBrace, RBrace) => false,
            (LBrace, _) => l == Role::Names || l == Role::Block,
            (_, RBrace) => r == Role::Names || r == Role::Block,
            (_, Semi | Comma | RParen | RBracket) => false,
            (LParen | LBracket | At, _) => false,
            (_, Dot) => starts_path(left, l),
            (Dot, _) => false,
            _ if l == Role::CloseAngle => !matches!(right, LParen | LBracket),
            (_, LParen) => match left {
                If | Switch | For | Return | In | Out | InOut | Transition | Else => true,
                // A cast of something in parentheses, or a call: as the author has it.
                RParen => b.space,
                left => !left.is_word() && left != RBracket,
            },
            (_, LBracket) => !left.is_word() && !matches!(left, RBracket | RParen),
            // `+:` of a slice.
            (_, Plus) if self.atoms.get(at + 1).is_some_and(|n| n.is(Colon)) => true,
            (Plus, Colon) => false,
            (_, Colon) => r == Role::ElseColon,
            // `+: 8`, but `7:0`.
            (Colon, _) => {
                l != Role::SliceColon || last.checked_sub(1).is_some_and(|p| self.atoms[p].is(Plus))
            }
            _ => true,
        }
    }
}

/// `.x` of the top level behind a word or an operator.
fn starts_path(left: TokenKind, role: Role) -> bool {
    use TokenKind::*;
    if role == Role::CloseAngle {
        return false;
    }
    match left {
        Return | Const | In | Out | InOut | Transition | Else | Extern | Typedef => true,
        RParen | RBracket | RBrace | Int | Str => false,
        left => !left.is_word(),
    }
}

/// Whether two tokens written without a blank between them read as others.
fn merges(a: &str, b: &str) -> bool {
    let text = format!("{a}{b}");
    let (piece, end) = lex::piece(text.as_bytes(), last_start(a));
    !matches!(piece, Piece::Token(_)) || end != a.len()
}

/// Where the last token of a text starts: the text itself is one token, or an annotation.
fn last_start(a: &str) -> usize {
    let (mut at, mut start) = (0, 0);
    while at < a.len() {
        start = at;
        at = lex::piece(a.as_bytes(), at).1;
    }
    start
}
