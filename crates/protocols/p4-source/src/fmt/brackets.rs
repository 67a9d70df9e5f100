//! What brackets are: `<` of types or "less than", `{` of a block or of a list.
use super::atoms::{Atom, Kind};
use crate::lex::TokenKind;

/// What an atom does for the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Plain,
    /// `<` before types.
    OpenAngle,
    /// `>` behind types.
    CloseAngle,
    /// The first `>` of `>>` and `>>=`.
    ShiftStart,
    /// The rest of it.
    ShiftEnd,
    /// `{` of statements or members, and its `}`.
    Block,
    /// `{` of names with commas (`enum`), and its `}`.
    Names,
    /// `{` of an expression, and its `}`.
    Braces,
    /// A sign before its operand.
    Sign,
    /// `:` of a slice.
    SliceColon,
    /// `:` of `a ? b : c`.
    ElseColon,
}

/// Atoms that are no comments: positions in the list.
fn code(atoms: &[Atom]) -> Vec<usize> {
    (0..atoms.len()).filter(|&i| matches!(atoms[i].kind, Kind::Token(_) | Kind::Annotation)).collect()
}

/// The role of each atom.
pub(super) fn roles(atoms: &[Atom]) -> Vec<Role> {
    let mut roles = vec![Role::Plain; atoms.len()];
    let code = code(atoms);
    for (n, &at) in code.iter().enumerate() {
        let before = n.checked_sub(1).map(|p| &atoms[code[p]]);
        match atoms[at].token() {
            Some(TokenKind::LAngle) if roles[at] == Role::Plain => mark_angles(atoms, &code, n, &mut roles),
            Some(TokenKind::RAngle) if roles[at] == Role::Plain => {
                let next = code.get(n + 1).copied().filter(|&i| !atoms[i].space && i == at + 1);
                let joined = next.filter(|&i| atoms[i].is(TokenKind::RAngle) || atoms[i].is(TokenKind::Ge));
                if let Some(next) = joined
                    && roles[next] == Role::Plain
                {
                    roles[at] = Role::ShiftStart;
                    roles[next] = Role::ShiftEnd;
                }
            }
            Some(TokenKind::Not | TokenKind::Tilde) => roles[at] = Role::Sign,
            Some(TokenKind::Minus | TokenKind::Plus) if before.is_none_or(|b| !ends_operand(b)) => {
                roles[at] = Role::Sign
            }
            _ => {}
        }
    }
    mark_braces(atoms, &code, &mut roles);
    roles
}

/// Whether an operand can end with this, so that a sign behind it has two operands. A type's `>` does, too: the sign is rare there.
fn ends_operand(atom: &Atom) -> bool {
    match atom.token() {
        Some(TokenKind::Return | TokenKind::In | TokenKind::Else) => false,
        Some(
            TokenKind::RParen
            | TokenKind::RBracket
            | TokenKind::RBrace
            | TokenKind::Int
            | TokenKind::Str
            | TokenKind::Invalid,
        ) => true,
        Some(kind) => kind.is_word(),
        None => false,
    }
}

/// How many tokens a list of types can have, for the layout: otherwise `<` without an end would be looked at again and again.
const ANGLES_MAX: usize = 400;

fn mark_angles(atoms: &[Atom], code: &[usize], n: usize, roles: &mut [Role]) {
    let Some(before) = n.checked_sub(1).map(|p| &atoms[code[p]]) else { return };
    let sure = matches!(
        before.token(),
        Some(
            TokenKind::Bit
                | TokenKind::IntType
                | TokenKind::Varbit
                | TokenKind::Tuple
                | TokenKind::List
                | TokenKind::ValueSet
        )
    );
    let name = before.token().is_some_and(TokenKind::is_word);
    let blanks = atoms[code[n]].space && code.get(n + 1).is_some_and(|&i| atoms[i].space);
    if !sure && (!name || blanks) {
        return;
    }
    // The matching `>`, with nothing between that cannot be in a list of types.
    let mut opens = vec![code[n]];
    let mut pairs = Vec::new();
    let mut parens = 0_usize;
    let mut close = n;
    for &at in code[n + 1..].iter().take(ANGLES_MAX) {
        close += 1;
        use TokenKind::*;
        let Some(kind) = atoms[at].token() else { return };
        match kind {
            LParen | LBracket => parens += 1,
            RParen | RBracket if parens > 0 => parens -= 1,
            _ if parens > 0 && !matches!(kind, Semi | LBrace | RBrace) => {}
            LAngle => opens.push(at),
            RAngle => {
                if let Some(open) = opens.pop() {
                    pairs.push((open, at));
                }
                if opens.is_empty() {
                    break;
                }
            }
            Comma | Dot | Int | DontCare => {}
            kind if kind.is_word() => {}
            // A width is any expression.
            kind if sure && !matches!(kind, Semi | LBrace | RBrace) => {}
            _ => return,
        }
    }
    if !opens.is_empty() {
        return;
    }
    let next = code.get(close + 1).map(|&i| &atoms[i]);
    let fits = next.is_none_or(|next| match next.token() {
        Some(
            TokenKind::LParen | TokenKind::RParen | TokenKind::Comma | TokenKind::RAngle | TokenKind::Ge,
        ) => true,
        Some(
            TokenKind::LBrace | TokenKind::LBracket | TokenKind::Dot | TokenKind::Semi | TokenKind::Assign,
        ) => true,
        Some(kind) => kind.is_word(),
        None => true,
    });
    if sure || fits {
        for (open, close) in pairs {
            roles[open] = Role::OpenAngle;
            roles[close] = Role::CloseAngle;
        }
    }
}

fn mark_braces(atoms: &[Atom], code: &[usize], roles: &mut [Role]) {
    // Open brackets, innermost last, each with the `?` that wait for their `:`.
    let mut open: Vec<(Role, u32)> = vec![(Role::Block, 0)];
    for (n, &at) in code.iter().enumerate() {
        let Some(kind) = atoms[at].token() else { continue };
        let token = |back: usize| n.checked_sub(back).and_then(|p| atoms[code[p]].token());
        match kind {
            TokenKind::LBrace => {
                let (around, questions) = open.last().copied().unwrap_or((Role::Block, 0));
                let role = brace(token(1), token(2), token(3), around, questions > 0);
                roles[at] = role;
                open.push((role, 0));
            }
            TokenKind::RBrace => {
                roles[at] = open.pop().map_or(Role::Block, |(role, _)| role);
                if open.is_empty() {
                    open.push((Role::Block, 0));
                }
                // A brace that closes a bracket of another kind: the text is not balanced.
                if !matches!(roles[at], Role::Block | Role::Names | Role::Braces) {
                    roles[at] = Role::Block;
                }
            }
            TokenKind::LParen => open.push((Role::Plain, 0)),
            TokenKind::LBracket => open.push((Role::SliceColon, 0)),
            TokenKind::RParen | TokenKind::RBracket => {
                if matches!(open.last(), Some((Role::Plain | Role::SliceColon, _))) {
                    open.pop();
                }
            }
            TokenKind::Question => {
                if let Some(last) = open.last_mut() {
                    last.1 += 1;
                }
            }
            TokenKind::Colon => match open.last_mut() {
                Some((_, questions)) if *questions > 0 => {
                    *questions -= 1;
                    roles[at] = Role::ElseColon;
                }
                Some((Role::SliceColon, _)) => roles[at] = Role::SliceColon,
                _ => {}
            },
            TokenKind::Semi => {
                if let Some(last) = open.last_mut() {
                    last.1 = 0;
                }
            }
            _ => {}
        }
    }
}

/// What a `{` opens, by what is before it.
fn brace(
    last: Option<TokenKind>,
    second: Option<TokenKind>,
    third: Option<TokenKind>,
    around: Role,
    in_conditional: bool,
) -> Role {
    use TokenKind::*;
    match (last, second) {
        (Some(Assign), Some(Key | Actions | Entries)) => Role::Block,
        // An instance with its methods: `T(…) name = {`.
        (Some(Assign), Some(name)) if name.is_word() && third == Some(RParen) => Role::Block,
        (Some(Colon), _) if around == Role::Block && !in_conditional => Role::Block,
        (Some(TokenKind::Error | MatchKind), _) => Role::Names,
        (Some(name), Some(Enum)) if name.is_word() => Role::Names,
        // `enum bit<8> E {`
        (Some(name), Some(RAngle)) if name.is_word() && third == Some(Int) => Role::Names,
        (Some(RParen), _) if matches!(around, Role::Plain | Role::SliceColon | Role::Braces) => Role::Braces,
        (None | Some(RParen | Semi | LBrace | RBrace | Else | Apply), _) if around == Role::Block => {
            Role::Block
        }
        (Some(RAngle), _) if around == Role::Block => Role::Block,
        (Some(word), _) if word.is_word() && word != Return && around == Role::Block => Role::Block,
        _ => Role::Braces,
    }
}
