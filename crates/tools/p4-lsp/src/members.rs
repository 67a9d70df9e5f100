//! What may stand behind a dot: the text in front of it is a chain of names, whose types are followed from the declaration of
//! the first. That works where the statement at the cursor is not finished and cannot be parsed.

use barewire_p4_source::ast::{Decl, DeclKind, Struct, StructKind, Type, TypeKind, TypedefOf};
use lsp_types::CompletionItemKind;

use crate::documents::Read;
use crate::names::search;

/// Types that stand for others are followed so far.
const TYPEDEFS_MAX: usize = 16;

/// One name of the chain.
#[derive(Debug, PartialEq)]
struct Link<'t> {
    name: &'t str,
    start: usize,
    /// `[…]` behind it.
    indexed: bool,
    /// `(…)` behind it.
    called: bool,
}

/// What the chain has come to.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// A value.
    Of(&'p Type),
    /// What a declaration stands for by itself: a table, an enum.
    Decl(&'p Decl),
    /// What a table's `apply` gives.
    Applied,
}

type Members = Vec<(String, CompletionItemKind)>;

/// Members of what stands in front of the dot that this text ends with. None: that is not known.
pub fn of(read: &Read, before: &str) -> Option<Members> {
    let chain = chain(before)?;
    let (first, rest) = chain.split_first()?;
    if first.name == "error" && rest.is_empty() {
        return Some(errors(read));
    }
    let found = search(read, first.start, Some(first.name));
    let nearest = found.into_iter().filter(|found| !found.member).min_by_key(|found| found.reach())?;
    let mut place = match (nearest.ty, nearest.decl) {
        (Some(ty), _) => Place::Of(ty),
        (None, Some(decl)) => Place::Decl(decl),
        (None, None) => return None,
    };
    place = indexed(place, first)?;
    for link in rest {
        place = match (place, link.name) {
            (Place::Decl(decl), "apply") if link.called && matches!(decl.kind, DeclKind::Table(_)) => {
                Place::Applied
            }
            (Place::Of(ty), "next" | "last") if element(ty).is_some() => Place::Of(element(ty)?),
            (Place::Of(ty), name) if !link.called => {
                let of = structure(declaration(read, ty)?)?;
                Place::Of(&of.fields.iter().find(|field| field.name.as_str() == name)?.ty)
            }
            _ => return None,
        };
        place = indexed(place, link)?;
    }
    members(read, place)
}

fn element(ty: &Type) -> Option<&Type> {
    match &ty.kind {
        TypeKind::Stack(of, _) => Some(of),
        _ => None,
    }
}

fn indexed<'p>(place: Place<'p>, link: &Link<'_>) -> Option<Place<'p>> {
    match place {
        Place::Of(ty) if link.indexed => element(ty).map(Place::Of),
        _ if link.indexed => None,
        _ => Some(place),
    }
}

/// The names in front of a dot, the first first.
fn chain(before: &str) -> Option<Vec<Link<'_>>> {
    let mut rest = before.trim_end();
    let mut links = Vec::new();
    while let Some(front) = rest.strip_suffix('.') {
        let (mut front, mut indexed, mut called) = (front.trim_end(), false, false);
        while let Some(close) = front.chars().next_back().filter(|c| matches!(c, ']' | ')')) {
            front = without_brackets(front)?;
            (indexed, called) = (indexed || close == ']', called || close == ')');
        }
        let name = front.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        if name.is_empty() {
            return None;
        }
        let start = front.len() - name.len();
        links.push(Link { name, start, indexed, called });
        rest = front[..start].trim_end();
    }
    links.reverse();
    Some(links)
}

/// What stands in front of the brackets that this ends with.
fn without_brackets(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' | ']' => depth += 1,
            '(' | '[' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(text[..at].trim_end());
                }
            }
            _ => {}
        }
    }
    None
}

/// The declaration that a type names, behind those that stand for others.
fn declaration<'p>(read: &'p Read, ty: &'p Type) -> Option<&'p Decl> {
    let mut ty = ty;
    for _ in 0..TYPEDEFS_MAX {
        let (TypeKind::Name(name) | TypeKind::Specialized(name, _)) = &ty.kind else { return None };
        let named = |decl: &&Decl| decl.name().is_some_and(|other| other.name == name.name.name);
        let decl = read.program.decls.iter().find(named)?;
        match &decl.kind {
            DeclKind::Typedef(of) => match &of.of {
                TypedefOf::Type(of) => ty = of,
                TypedefOf::Decl(decl) => return Some(decl),
            },
            _ => return Some(decl),
        }
    }
    None
}

fn structure(decl: &Decl) -> Option<&Struct> {
    match &decl.kind {
        DeclKind::Struct(of) => Some(of),
        _ => None,
    }
}

fn errors(read: &Read) -> Members {
    let lists = read.program.decls.iter().filter_map(|decl| match &decl.kind {
        DeclKind::Error(members) => Some(members),
        _ => None,
    });
    lists.flatten().map(|member| (member.name.to_string(), CompletionItemKind::ENUM_MEMBER)).collect()
}

fn members(read: &Read, place: Place<'_>) -> Option<Members> {
    let all = |names: &[&str], kind| names.iter().map(|name| ((*name).to_owned(), kind)).collect::<Members>();
    let decl = match place {
        Place::Applied => return Some(all(&["action_run", "hit", "miss"], CompletionItemKind::FIELD)),
        Place::Decl(decl) => decl,
        Place::Of(ty) => match &ty.kind {
            TypeKind::Stack(..) => {
                let mut list = all(&["last", "lastIndex", "next", "size"], CompletionItemKind::FIELD);
                list.extend(all(&["pop_front", "push_front"], CompletionItemKind::METHOD));
                return Some(list);
            }
            _ => declaration(read, ty)?,
        },
    };
    Some(match &decl.kind {
        DeclKind::Struct(of) => {
            let fields = of.fields.iter().map(|field| (field.name.to_string(), CompletionItemKind::FIELD));
            let methods: &[&str] = match of.kind {
                StructKind::Header => &["isValid", "setInvalid", "setValid"],
                StructKind::HeaderUnion => &["isValid"],
                StructKind::Struct => &[],
            };
            fields.chain(all(methods, CompletionItemKind::METHOD)).collect()
        }
        DeclKind::Enum(of) => {
            of.members.iter().map(|m| (m.name.to_string(), CompletionItemKind::ENUM_MEMBER)).collect()
        }
        DeclKind::Extern(of) => {
            let methods = of.methods.iter().filter(|method| method.proto.name.name != of.name.name);
            let mut list: Members =
                methods.map(|m| (m.proto.name.to_string(), CompletionItemKind::METHOD)).collect();
            list.dedup();
            list
        }
        DeclKind::Table(_) | DeclKind::Control(_) | DeclKind::Parser(_) => {
            all(&["apply"], CompletionItemKind::METHOD)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_go_back_to_their_first_name() {
        let names = |text: &str| -> Option<Vec<(String, bool, bool)>> {
            chain(text).map(|links| links.iter().map(|l| (l.name.to_owned(), l.indexed, l.called)).collect())
        };
        let link = |name: &str, indexed, called| (name.to_owned(), indexed, called);
        assert_eq!(names("x = hdr.ip."), Some(vec![link("hdr", false, false), link("ip", false, false)]));
        assert_eq!(names("a[f(1)[2]]."), Some(vec![link("a", true, false)]));
        assert_eq!(
            names("if (t . apply ( ) ."),
            Some(vec![link("t", false, false), link("apply", false, true)])
        );
        assert_eq!(names("(a + b)."), None);
        assert_eq!(names(")."), None);
    }
}
