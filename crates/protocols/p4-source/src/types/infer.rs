//! Unification: which types make two types the same, and what a generic call stands for.

use super::Checker;
use super::ty::{InferVar, Type, TypeId, TypeList, TypeVar, Types};
use crate::ast::Direction;

/// A type with everything bound put in; what is not bound fits everything.
pub(super) fn close(types: &mut Types, bindings: &[Option<TypeId>], ty: TypeId) -> TypeId {
    let mut ty = ty;
    // A binding may hold other variables; each round goes one level deeper, and there is no cycle.
    for _ in 0..64 {
        if !types.has_infer(ty) {
            return ty;
        }
        ty = types.replace(ty, &mut |leaf| match leaf {
            Type::Infer(var) => Some(bindings.get(var.index()).copied().flatten().unwrap_or(TypeId::ERROR)),
            _ => None,
        });
    }
    TypeId::ERROR
}

impl<'a> Checker<'a> {
    /// A type to be inferred.
    pub(super) fn fresh(&mut self) -> TypeId {
        let var = InferVar(u32::try_from(self.bindings.len()).unwrap_or(u32::MAX));
        self.bindings.push(None);
        self.out.types.intern(Type::Infer(var))
    }

    /// One for each type parameter.
    pub(super) fn fresh_list(&mut self, vars: &[TypeVar]) -> Vec<TypeId> {
        vars.iter().map(|_| self.fresh()).collect()
    }

    /// The type itself, if it has been inferred.
    pub(super) fn resolve(&self, mut ty: TypeId) -> TypeId {
        while let Type::Infer(var) = self.out.types.get(ty)
            && let Some(bound) = self.bindings.get(var.index()).copied().flatten()
        {
            ty = bound;
        }
        ty
    }

    /// The kind of a type, as far as it is known.
    pub(super) fn kind(&self, ty: TypeId) -> &Type {
        self.out.types.get(self.resolve(ty))
    }

    /// The type with everything put in that is known.
    pub(super) fn deep(&mut self, mut ty: TypeId) -> TypeId {
        for _ in 0..64 {
            if !self.out.types.has_infer(ty) {
                return ty;
            }
            let bindings = &self.bindings;
            let next = self.out.types.replace(ty, &mut |leaf| match leaf {
                Type::Infer(var) => bindings.get(var.index()).copied().flatten(),
                _ => None,
            });
            if next == ty {
                return ty;
            }
            ty = next;
        }
        ty
    }

    /// `_` in a type becomes something to infer.
    pub(super) fn open_type(&mut self, ty: TypeId) -> TypeId {
        if !self.out.types.has_dont_care(ty) {
            return ty;
        }
        // `replace` holds the types, so the leaves are counted first and their variables made after.
        let mut leaves = 0usize;
        self.out.types.replace(ty, &mut |leaf| {
            leaves += usize::from(matches!(leaf, Type::DontCare));
            None
        });
        let fresh: Vec<TypeId> = (0..leaves).map(|_| self.fresh()).collect();
        let mut next = fresh.into_iter();
        self.out.types.replace(ty, &mut |leaf| match leaf {
            Type::DontCare => next.next(),
            _ => None,
        })
    }

    fn occurs(&mut self, var: InferVar, ty: TypeId) -> bool {
        let ty = self.deep(ty);
        let target = self.out.types.intern(Type::Infer(var));
        let mut found = false;
        self.out.types.replace(ty, &mut |leaf| {
            if *leaf == Type::Infer(var) {
                found = true;
            }
            None
        });
        found && ty != target
    }

    /// Makes two types the same, if some types for the variables in them do.
    pub(super) fn unify(&mut self, left: TypeId, right: TypeId) -> bool {
        let (left, right) = (self.resolve(left), self.resolve(right));
        if left == right {
            return true;
        }
        let (a, b) = (self.out.types.get(left).clone(), self.out.types.get(right).clone());
        match (&a, &b) {
            (Type::Error, _) | (_, Type::Error) => true,
            (Type::Infer(var), _) => self.bind(*var, right),
            (_, Type::Infer(var)) => self.bind(*var, left),
            (Type::DontCare, _) | (_, Type::DontCare) => true,
            (Type::Struct(x, p), Type::Struct(y, q)) => x == y && self.unify_lists(p, q),
            (Type::Extern(x, p), Type::Extern(y, q)) => x == y && self.unify_lists(p, q),
            (Type::Package(x, p), Type::Package(y, q)) => x == y && self.unify_lists(p, q),
            (Type::Tuple(p), Type::Tuple(q)) => self.unify_lists(p, q),
            (Type::Sequence(p, false), Type::Tuple(q)) | (Type::Tuple(q), Type::Sequence(p, false)) => {
                self.unify_lists(p, q)
            }
            (Type::Sequence(p, x), Type::Sequence(q, y)) => x == y && self.unify_lists(p, q),
            (Type::Stack(x, m), Type::Stack(y, n)) => m == n && self.unify(*x, *y),
            (Type::List(x), Type::List(y)) | (Type::Set(x), Type::Set(y)) => self.unify(*x, *y),
            (Type::Block(x, p), Type::Block(y, q)) => {
                if x == y && !p.is_empty() && p.len() == q.len() {
                    return self.unify_lists(p, q);
                }
                x == y || self.unify_blocks(left, right)
            }
            _ => false,
        }
    }

    fn bind(&mut self, var: InferVar, ty: TypeId) -> bool {
        if self.occurs(var, ty) {
            return false;
        }
        let ty = self.tuple_of(ty);
        let (size, depth) = self.out.types.size(ty);
        if size > super::resolve::MAX_TYPE_SIZE || depth > super::resolve::MAX_TYPE_DEPTH {
            return false;
        }
        if self.out.types.get(ty) == &Type::Infer(var) {
            return true;
        }
        self.bindings[var.index()] = Some(ty);
        true
    }

    /// `{a, b}` without a type of its own is a tuple.
    pub(super) fn tuple_of(&mut self, ty: TypeId) -> TypeId {
        match self.out.types.get(ty).clone() {
            Type::Sequence(parts, false) => {
                let parts: TypeList = parts.iter().map(|&part| self.tuple_of(part)).collect();
                self.out.types.intern(Type::Tuple(parts))
            }
            _ => ty,
        }
    }

    pub(super) fn unify_lists(&mut self, left: &[TypeId], right: &[TypeId]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(&x, &y)| self.unify(x, y))
    }

    /// Parameters of a block's `apply`, with the type arguments put in. A generic block without arguments gets fresh ones.
    pub(super) fn block_signature(&mut self, ty: TypeId) -> Option<Vec<(Direction, TypeId, bool)>> {
        let Type::Block(id, args) = self.kind(ty).clone() else { return None };
        let info = &self.out.blocks[id.index()];
        let vars = info.vars.clone();
        let params: Vec<(Direction, TypeId, bool)> =
            info.params.iter().map(|param| (param.direction, param.ty, param.may_miss())).collect();
        let args: Vec<TypeId> = if args.len() == vars.len() { args.to_vec() } else { self.fresh_list(&vars) };
        Some(
            params
                .into_iter()
                .map(|(direction, ty, miss)| (direction, self.out.types.substitute(ty, &vars, &args), miss))
                .collect(),
        )
    }

    /// Blocks are the same type when their parameters are, in order; names do not matter.
    fn unify_blocks(&mut self, left: TypeId, right: TypeId) -> bool {
        let (Type::Block(x, _), Type::Block(y, _)) = (self.kind(left).clone(), self.kind(right).clone())
        else {
            return false;
        };
        if self.out.blocks[x.index()].kind != self.out.blocks[y.index()].kind {
            return false;
        }
        let (Some(p), Some(q)) = (self.block_signature(left), self.block_signature(right)) else {
            return false;
        };
        // Optional parameters at the end may be missing on either side.
        let short = p.len().min(q.len());
        let rest_optional = p[short..].iter().chain(&q[short..]).all(|(_, _, miss)| *miss);
        rest_optional && p.iter().zip(&q).all(|(a, b)| a.0 == b.0 && self.unify(a.1, b.1))
    }
}
