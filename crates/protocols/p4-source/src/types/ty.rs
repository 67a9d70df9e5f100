//! Types, interned: equal types have equal ids (specification, chapter 7).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

use crate::ast::Name;

/// A type of one program's [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// Its place in the program's list.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
ids! {
    /// A struct, header or header union.
    StructId,
    /// An `enum`, with or without representation.
    EnumId,
    /// What `type` declares.
    NewtypeId,
    /// An extern object type.
    ExternId,
    /// A parser or control, or the type of one.
    BlockId,
    /// A package type.
    PackageId,
    /// A function, action, method or constructor.
    FnId,
    /// A table.
    TableId,
    /// A type parameter of a generic declaration: opaque inside it.
    TypeVar,
    /// A type that a call still has to infer.
    InferVar,
}

/// Type arguments, elements, and the like.
pub type TypeList = Rc<[TypeId]>;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Something was wrong and has been reported: compatible with everything.
    Error,
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `string`
    Str,
    /// `error`
    ErrorCode,
    /// `match_kind`
    MatchKind,
    /// `int`: of any size, known when compiled.
    Int,
    /// `bit<W>`
    Bit(u32),
    /// `int<W>`
    Signed(u32),
    /// `varbit<W>`
    Varbit(u32),
    /// An enumeration.
    Enum(EnumId),
    /// A type made by `type`.
    Newtype(NewtypeId),
    /// A struct, header or union with its type arguments.
    Struct(StructId, TypeList),
    /// Element type and size.
    Stack(TypeId, u32),
    /// `tuple<…>`
    Tuple(TypeList),
    /// `list<T>`
    List(TypeId),
    /// A set of values: masks, ranges, value sets.
    Set(TypeId),
    /// An extern object.
    Extern(ExternId, TypeList),
    /// A parser or control.
    Block(BlockId, TypeList),
    /// A package.
    Package(PackageId, TypeList),
    /// A type parameter.
    Var(TypeVar),
    /// To be inferred.
    Infer(InferVar),
    /// `_` as a type argument.
    DontCare,
    /// A table, as the name of one.
    Table(TableId),
    /// What `apply()` of a table returns.
    TableResult(TableId),
    /// `apply().action_run`
    ActionRun(TableId),
    /// `{ a, b }` that has no other type yet; the flag says that it ends in `...`.
    Sequence(TypeList, bool),
    /// `{ x = a, y = b }` that has no other type yet; the flag says that it ends in `...`.
    Record(Rc<[(Name, TypeId)]>, bool),
    /// `{#}`
    Invalid,
    /// `...`
    Default,
    /// A parser state, an action, a function, a method: named, but no value.
    Callable,
}

/// Which of the three aggregates a [`StructId`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// `struct`
    Struct,
    /// `header`
    Header,
    /// `header_union`
    Union,
}

impl Aggregate {
    /// The keyword.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Header => "header",
            Self::Union => "header_union",
        }
    }
}

/// All types of a program.
#[derive(Debug, Clone)]
pub struct Types {
    list: Vec<Type>,
    facts: Vec<Facts>,
    index: HashMap<Type, TypeId>,
}

/// What is asked of a type over and over: kept, or types that share parts would be walked through once for every path.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    open: bool,
    infer: bool,
    dont_care: bool,
    error: bool,
    shape: bool,
    /// Leaves, written out in full.
    size: u32,
    depth: u32,
}

impl Default for Types {
    fn default() -> Self {
        let mut types = Self { list: Vec::new(), facts: Vec::new(), index: HashMap::new() };
        for (at, ty) in [
            Type::Error,
            Type::Void,
            Type::Bool,
            Type::Str,
            Type::ErrorCode,
            Type::MatchKind,
            Type::Int,
            Type::DontCare,
            Type::Invalid,
            Type::Default,
            Type::Callable,
        ]
        .into_iter()
        .enumerate()
        {
            let id = types.intern(ty);
            debug_assert_eq!(id.0 as usize, at);
        }
        types
    }
}

impl TypeId {
    /// [`Type::Error`]
    pub const ERROR: Self = Self(0);
    /// [`Type::Void`]
    pub const VOID: Self = Self(1);
    /// [`Type::Bool`]
    pub const BOOL: Self = Self(2);
    /// [`Type::Str`]
    pub const STRING: Self = Self(3);
    /// [`Type::ErrorCode`]
    pub const ERROR_CODE: Self = Self(4);
    /// [`Type::MatchKind`]
    pub const MATCH_KIND: Self = Self(5);
    /// [`Type::Int`]
    pub const INT: Self = Self(6);
    /// [`Type::DontCare`]
    pub const DONT_CARE: Self = Self(7);
    /// [`Type::Invalid`]
    pub const INVALID: Self = Self(8);
    /// [`Type::Default`]
    pub const DEFAULT: Self = Self(9);
    /// [`Type::Callable`]
    pub const CALLABLE: Self = Self(10);

    /// Its place in the list of types.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Types {
    /// The id of a type; the same for equal types.
    pub fn intern(&mut self, ty: Type) -> TypeId {
        if let Some(&id) = self.index.get(&ty) {
            return id;
        }
        let id = TypeId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(ty.clone());
        let mut facts = Facts {
            open: matches!(ty, Type::Var(_) | Type::Infer(_) | Type::DontCare),
            infer: matches!(ty, Type::Infer(_)),
            dont_care: matches!(ty, Type::DontCare),
            error: matches!(ty, Type::Error),
            shape: matches!(ty, Type::Sequence(..) | Type::Record(..) | Type::Invalid | Type::Default),
            size: 1,
            depth: 1,
        };
        for part in self.parts(id) {
            let of = self.facts[part.index()];
            facts.open |= of.open;
            facts.infer |= of.infer;
            facts.dont_care |= of.dont_care;
            facts.error |= of.error;
            facts.shape |= of.shape;
            facts.size = facts.size.saturating_add(of.size);
            facts.depth = facts.depth.max(of.depth.saturating_add(1));
        }
        self.facts.push(facts);
        self.index.insert(ty, id);
        id
    }

    /// How large a type is, written out in full, and how deeply it nests.
    #[must_use]
    pub fn size(&self, id: TypeId) -> (u32, u32) {
        let facts = self.facts[id.index()];
        (facts.size, facts.depth)
    }

    /// Is there a type parameter, something to infer, or `_` in it?
    #[must_use]
    pub fn is_open(&self, id: TypeId) -> bool {
        self.facts[id.index()].open
    }

    /// Is there something to infer in it?
    #[must_use]
    pub fn has_infer(&self, id: TypeId) -> bool {
        self.facts[id.index()].infer
    }

    /// Is there a `_` in it?
    #[must_use]
    pub fn has_dont_care(&self, id: TypeId) -> bool {
        self.facts[id.index()].dont_care
    }

    /// Is there something in it that has been reported?
    #[must_use]
    pub fn has_error(&self, id: TypeId) -> bool {
        self.facts[id.index()].error
    }

    /// Is there an expression in it that has no type of its own?
    #[must_use]
    pub fn has_shape(&self, id: TypeId) -> bool {
        self.facts[id.index()].shape
    }

    /// The type of an id.
    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.list[id.0 as usize]
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Never: the basic types are always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// `bit<W>`
    pub fn bit(&mut self, width: u32) -> TypeId {
        self.intern(Type::Bit(width))
    }

    /// `int<W>`
    pub fn signed(&mut self, width: u32) -> TypeId {
        self.intern(Type::Signed(width))
    }

    /// The types directly inside a type.
    #[must_use]
    pub fn parts(&self, id: TypeId) -> Vec<TypeId> {
        match self.get(id) {
            Type::Struct(_, list)
            | Type::Tuple(list)
            | Type::Extern(_, list)
            | Type::Block(_, list)
            | Type::Package(_, list)
            | Type::Sequence(list, _) => list.to_vec(),
            Type::Stack(of, _) | Type::List(of) | Type::Set(of) => vec![*of],
            Type::Record(fields, _) => fields.iter().map(|(_, ty)| *ty).collect(),
            _ => Vec::new(),
        }
    }

    /// The same type with other types inside, in the order of [`Types::parts`].
    pub fn with_parts(&mut self, id: TypeId, parts: &[TypeId]) -> TypeId {
        let list = || -> TypeList { parts.into() };
        let ty = match self.get(id) {
            Type::Struct(of, _) => Type::Struct(*of, list()),
            Type::Tuple(_) => Type::Tuple(list()),
            Type::Extern(of, _) => Type::Extern(*of, list()),
            Type::Block(of, _) => Type::Block(*of, list()),
            Type::Package(of, _) => Type::Package(*of, list()),
            Type::Sequence(_, rest) => Type::Sequence(list(), *rest),
            Type::Stack(_, size) => Type::Stack(parts[0], *size),
            Type::List(_) => Type::List(parts[0]),
            Type::Set(_) => Type::Set(parts[0]),
            Type::Record(fields, rest) => {
                let fields =
                    fields.iter().zip(parts).map(|((name, _), ty)| (Name::clone(name), *ty)).collect();
                Type::Record(fields, *rest)
            }
            _ => return id,
        };
        self.intern(ty)
    }

    /// The type after `map` has replaced type parameters and inference variables; `None` leaves one as it is.
    pub fn replace(&mut self, id: TypeId, map: &mut dyn FnMut(&Type) -> Option<TypeId>) -> TypeId {
        if !self.is_open(id) {
            return id;
        }
        match self.get(id) {
            leaf @ (Type::Var(_) | Type::Infer(_) | Type::DontCare) => map(leaf).unwrap_or(id),
            _ => {
                let parts = self.parts(id);
                if parts.is_empty() {
                    return id;
                }
                let new: Vec<TypeId> = parts.iter().map(|&part| self.replace(part, map)).collect();
                if new == parts { id } else { self.with_parts(id, &new) }
            }
        }
    }

    /// Type parameters replaced by arguments.
    pub fn substitute(&mut self, id: TypeId, vars: &[TypeVar], args: &[TypeId]) -> TypeId {
        if vars.is_empty() {
            return id;
        }
        self.replace(id, &mut |leaf| match leaf {
            Type::Var(var) => vars.iter().position(|other| other == var).and_then(|at| args.get(at).copied()),
            _ => None,
        })
    }
}

/// Names of declared types, for printing.
pub trait Names {
    /// A struct, header or union.
    fn struct_name(&self, id: StructId) -> (Aggregate, &str);
    /// An enumeration.
    fn enum_name(&self, id: EnumId) -> &str;
    /// A `type`.
    fn newtype_name(&self, id: NewtypeId) -> &str;
    /// An extern.
    fn extern_name(&self, id: ExternId) -> &str;
    /// `parser` or `control` and the name.
    fn block_name(&self, id: BlockId) -> (&'static str, &str);
    /// A package.
    fn package_name(&self, id: PackageId) -> &str;
    /// A table.
    fn table_name(&self, id: TableId) -> &str;
    /// A type parameter.
    fn var_name(&self, id: TypeVar) -> &str;
}

/// The type as a program would write it.
#[must_use]
pub fn show(types: &Types, names: &dyn Names, id: TypeId) -> String {
    let mut text = String::new();
    write_type(types, names, id, &mut text);
    text
}

fn write_type(types: &Types, names: &dyn Names, id: TypeId, out: &mut String) {
    // Error messages: a type with very many parts is cut short.
    if out.len() > 400 {
        out.push('…');
        return;
    }
    let list = |parts: &[TypeId], open: &str, close: &str, out: &mut String| {
        out.push_str(open);
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            write_type(types, names, *part, out);
        }
        out.push_str(close);
    };
    let args = |parts: &[TypeId], out: &mut String| {
        if !parts.is_empty() {
            list(parts, "<", ">", out);
        }
    };
    match types.get(id) {
        Type::Error => out.push_str("(unknown)"),
        Type::Void => out.push_str("void"),
        Type::Bool => out.push_str("bool"),
        Type::Str => out.push_str("string"),
        Type::ErrorCode => out.push_str("error"),
        Type::MatchKind => out.push_str("match_kind"),
        Type::Int => out.push_str("int"),
        Type::Bit(width) => {
            let _ = write!(out, "bit<{width}>");
        }
        Type::Signed(width) => {
            let _ = write!(out, "int<{width}>");
        }
        Type::Varbit(width) => {
            let _ = write!(out, "varbit<{width}>");
        }
        Type::Enum(of) => out.push_str(names.enum_name(*of)),
        Type::Newtype(of) => out.push_str(names.newtype_name(*of)),
        Type::Struct(of, parts) => {
            let (kind, name) = names.struct_name(*of);
            let _ = write!(out, "{} {name}", kind.word());
            args(parts, out);
        }
        Type::Stack(of, size) => {
            write_type(types, names, *of, out);
            let _ = write!(out, "[{size}]");
        }
        Type::Tuple(parts) => {
            out.push_str("tuple");
            list(parts, "<", ">", out);
        }
        Type::List(of) => {
            out.push_str("list");
            list(&[*of], "<", ">", out);
        }
        Type::Set(of) => {
            out.push_str("set");
            list(&[*of], "<", ">", out);
        }
        Type::Extern(of, parts) => {
            out.push_str(names.extern_name(*of));
            args(parts, out);
        }
        Type::Block(of, parts) => {
            let (kind, name) = names.block_name(*of);
            let _ = write!(out, "{kind} {name}");
            args(parts, out);
        }
        Type::Package(of, parts) => {
            let _ = write!(out, "package {}", names.package_name(*of));
            args(parts, out);
        }
        Type::Var(var) => out.push_str(names.var_name(*var)),
        Type::Infer(_) | Type::DontCare => out.push('_'),
        Type::Table(of) => {
            let _ = write!(out, "table {}", names.table_name(*of));
        }
        Type::TableResult(of) => {
            let _ = write!(out, "the result of table {}", names.table_name(*of));
        }
        Type::ActionRun(of) => {
            let _ = write!(out, "the actions of table {}", names.table_name(*of));
        }
        Type::Sequence(parts, rest) => {
            list(parts, "{", if *rest { ", ...}" } else { "}" }, out);
        }
        Type::Record(fields, rest) => {
            out.push('{');
            for (at, (name, ty)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                let _ = write!(out, "{name} = ");
                write_type(types, names, *ty, out);
            }
            out.push_str(if *rest { ", ...}" } else { "}" });
        }
        Type::Invalid => out.push_str("{#}"),
        Type::Default => out.push_str("..."),
        Type::Callable => out.push_str("something to call"),
    }
}
