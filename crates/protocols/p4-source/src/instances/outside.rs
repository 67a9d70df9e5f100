//! Each name that a control plane sees is that of one thing (specification, section 20.3.3).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::{InstanceId, Instances, Object, Of, external_name};
use crate::ast::{self, Annotation, Decl, DeclKind, NodeId, Program};
use crate::diag::{Diagnostic, Diagnostics};
use crate::source::Span;
use crate::types::{Typed, code};

/// Something with a name outside.
struct Named {
    /// What declares it.
    node: NodeId,
    span: Span,
    /// The instance that it stands in, and the one of the top level around that.
    within: Option<(InstanceId, InstanceId)>,
    /// Its name says where it stands by itself.
    absolute: bool,
}

/// Reports what shares its name with another one. A tree beyond the limits is for others to report.
pub(crate) fn check<'a>(program: &'a Program, typed: &Typed<'a>, diagnostics: &mut Diagnostics) {
    let Ok(tree) = Instances::of(program, typed) else { return };
    let used: HashSet<NodeId> =
        typed.symbols.iter().filter(|symbol| symbol.used).map(|symbol| symbol.node).collect();
    let mut names: HashMap<(&'static str, String), Named> = HashMap::new();
    let mut add = |tree: &Instances<'_, '_>,
                   what: &'static str,
                   decl: &Decl,
                   top: Option<InstanceId>,
                   within: Option<InstanceId>| {
        let Some(name) = decl.name() else { return };
        if ast::annotation(&decl.annotations, "hidden").is_some() || !used.contains(&decl.id) {
            return;
        }
        let named = Named {
            node: decl.id,
            span: name.span,
            within: within.zip(top),
            absolute: is_absolute(&decl.annotations, name.as_str()),
        };
        let whole = tree.qualify(within, &decl.annotations, name.as_str());
        match names.entry((what, whole)) {
            Entry::Vacant(free) => {
                free.insert(named);
            }
            Entry::Occupied(other) => {
                let first = other.get();
                if !conflict(first, &named) {
                    return;
                }
                let text = format!("control planes know another {what} as `{}`", other.key().1);
                let problem = Diagnostic::error(code::DUPLICATE, named.span, text);
                diagnostics.push(if first.node == named.node {
                    problem.note("it stands in two instances that give it one name")
                } else {
                    problem.label(first.span, "the other one").help("`@name(\"…\")` gives it another name")
                });
            }
        }
    };
    for decl in &program.decls {
        if matches!(decl.kind, DeclKind::Action(_)) {
            add(&tree, "action", decl, None, None);
        }
    }
    // In the order of the text, whatever order the package has them in.
    let mut tops = tree.top.clone();
    tops.sort_by_key(|&top| match tree.get(top).of {
        Of::Block(block) => typed.blocks[block.index()].decl.id,
        _ => NodeId(0),
    });
    for top in tops {
        for (within, object) in tree.objects(top) {
            let (what, decl) = match object {
                Object::Action(_, decl) => ("action", decl),
                Object::Table(_, decl) => ("table", decl),
                Object::ValueSet(decl) => ("value set", decl),
                Object::Extern(id) => match tree.get(id).decl {
                    Some(decl) => ("extern", decl),
                    None => continue,
                },
            };
            add(&tree, what, decl, Some(top), Some(within));
        }
    }
}

fn is_absolute(annotations: &[Annotation], name: &str) -> bool {
    external_name(annotations, name).starts_with('.')
}

/// Are they two things? What pipelines that are of one control hold is told under one name.
fn conflict(a: &Named, b: &Named) -> bool {
    if a.node != b.node {
        return true;
    }
    match (a.within, b.within) {
        (Some((x, p)), Some((y, q))) => x != y && (p == q || (a.absolute && b.absolute)),
        _ => false,
    }
}
