//! The typed program: what a lowering needs to know of each node of the syntax tree.

use std::collections::{HashMap, HashSet};

use super::ty::{
    Aggregate, BlockId, EnumId, ExternId, FnId, Names, NewtypeId, PackageId, StructId, TableId, TypeId,
    TypeList, TypeVar, Types, show,
};
use super::value::Value;
use crate::ast::{self, Annotation, Direction, Name, NodeId};
use crate::source::Span;

/// A declared name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(pub u32);

impl SymbolId {
    /// Its place in [`Typed::symbols`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// A constant: its value is in [`Typed::constants`] under the node that declares it.
    Const,
    /// A variable.
    Variable,
    /// The variable of a `for` over a range or list.
    LoopVariable,
    /// A parameter of `apply`, a function, an action or a method.
    Param(Direction),
    /// A parameter of a constructor or package.
    ConstructorParam,
    /// An instance of a parser, control, extern or package.
    Instance,
    /// A function, extern function or action.
    Function(FnId),
    /// A struct, header or union.
    Struct(StructId),
    /// An enumeration.
    Enum(EnumId),
    /// A `type`.
    Newtype(NewtypeId),
    /// A `typedef`: its type is the symbol's.
    Typedef,
    /// A type parameter.
    TypeParam(TypeVar),
    /// An extern type.
    Extern(ExternId),
    /// A parser or control, or the type of one.
    Block(BlockId),
    /// A package type.
    Package(PackageId),
    /// A table.
    Table(TableId),
    /// A value set of a parser; the symbol's type is that of a member.
    ValueSet,
    /// A state of a parser.
    State,
}

/// A declared name.
#[derive(Clone, Debug)]
pub struct Symbol<'a> {
    /// The name.
    pub name: Name,
    /// Where it is declared.
    pub span: Span,
    /// What it is.
    pub kind: SymbolKind,
    /// The type of its value; of a type's name, that type.
    pub ty: TypeId,
    /// The node that declares it.
    pub node: NodeId,
    /// In front of the declaration.
    pub annotations: &'a [Annotation],
    /// At the top level.
    pub global: bool,
    /// Something refers to it.
    pub used: bool,
}

/// A field.
#[derive(Clone, Debug)]
pub struct FieldInfo<'a> {
    /// Its name.
    pub name: Name,
    /// Its type; type parameters of the struct stand for themselves.
    pub ty: TypeId,
    /// The declaration.
    pub decl: &'a ast::Field,
}

/// A struct, header or union.
#[derive(Clone, Debug)]
pub struct StructInfo<'a> {
    /// Which.
    pub kind: Aggregate,
    /// Its name.
    pub name: Name,
    /// Its type parameters.
    pub vars: Vec<TypeVar>,
    /// Its fields in order.
    pub fields: Vec<FieldInfo<'a>>,
    /// The declaration.
    pub decl: &'a ast::Decl,
}

/// An enumeration.
#[derive(Clone, Debug)]
pub struct EnumInfo<'a> {
    /// Its name.
    pub name: Name,
    /// Its representation.
    pub repr: Option<TypeId>,
    /// Its members in order, with the number of each where there is a representation.
    pub members: Vec<(Name, Value)>,
    /// The declaration.
    pub decl: &'a ast::Decl,
}

/// A type made by `type`.
#[derive(Clone, Debug)]
pub struct NewtypeInfo<'a> {
    /// Its name.
    pub name: Name,
    /// What it is made of.
    pub of: TypeId,
    /// The declaration.
    pub decl: &'a ast::Decl,
}

/// An extern type.
#[derive(Clone, Debug)]
pub struct ExternInfo<'a> {
    /// Its name.
    pub name: Name,
    /// Its type parameters.
    pub vars: Vec<TypeVar>,
    /// Its methods and constructors in order.
    pub methods: Vec<FnId>,
    /// The declaration.
    pub decl: &'a ast::Decl,
}

/// What kind of callable a [`FnInfo`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FnKind {
    /// With a body in the program.
    Function,
    /// `extern T f(…);`
    ExternFunction,
    /// `action`
    Action,
    /// A method of an extern.
    Method,
    /// A method that each instance implements.
    AbstractMethod,
    /// A constructor of an extern.
    Constructor,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct ParamInfo<'a> {
    /// Its name.
    pub name: Name,
    /// Which way it goes.
    pub direction: Direction,
    /// Its type.
    pub ty: TypeId,
    /// `@optional`
    pub optional: bool,
    /// The declaration.
    pub decl: &'a ast::Param,
}

impl ParamInfo<'_> {
    /// May a call leave it out?
    #[must_use]
    pub fn may_miss(&self) -> bool {
        self.optional || self.decl.default.is_some()
    }
}

/// A function, action, method or constructor.
#[derive(Clone, Debug)]
pub struct FnInfo<'a> {
    /// Which.
    pub kind: FnKind,
    /// Its name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Its own type parameters.
    pub vars: Vec<TypeVar>,
    /// Its parameters in order.
    pub params: Vec<ParamInfo<'a>>,
    /// What it returns.
    pub result: TypeId,
    /// The extern it belongs to.
    pub owner: Option<ExternId>,
    /// In front of it.
    pub annotations: &'a [Annotation],
    /// The node of its declaration.
    pub node: NodeId,
    /// At the top level.
    pub global: bool,
}

/// Parser or control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// `parser`
    Parser,
    /// `control`
    Control,
}

impl BlockKind {
    /// The keyword.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Parser => "parser",
            Self::Control => "control",
        }
    }
}

/// A parser or control, or the type of one.
#[derive(Clone, Debug)]
pub struct BlockInfo<'a> {
    /// Which.
    pub kind: BlockKind,
    /// Its name.
    pub name: Name,
    /// Its type parameters.
    pub vars: Vec<TypeVar>,
    /// The parameters of `apply`.
    pub params: Vec<ParamInfo<'a>>,
    /// The parameters of the constructor; none of a type.
    pub constructor: Vec<ParamInfo<'a>>,
    /// It has a body: not just the type of one.
    pub has_body: bool,
    /// The declaration.
    pub decl: &'a ast::Decl,
}

/// A package type.
#[derive(Clone, Debug)]
pub struct PackageInfo<'a> {
    /// Its name.
    pub name: Name,
    /// Its type parameters.
    pub vars: Vec<TypeVar>,
    /// The parameters of its constructor.
    pub params: Vec<ParamInfo<'a>>,
    /// The declaration.
    pub decl: &'a ast::Decl,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct KeyInfo<'a> {
    /// Its type.
    pub ty: TypeId,
    /// Place of the match kind in [`Typed::match_kinds`].
    pub match_kind: Option<u32>,
    /// The declaration.
    pub element: &'a ast::KeyElement,
}

/// An action of a table.
#[derive(Clone, Debug)]
pub struct TableAction<'a> {
    /// The action.
    pub action: FnId,
    /// How the table lists it; `None` for the `NoAction` that a table without a default action gets.
    pub listed: Option<&'a ast::ActionRef>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableInfo<'a> {
    /// Its name.
    pub name: Name,
    /// Its keys in order.
    pub keys: Vec<KeyInfo<'a>>,
    /// Its actions in order.
    pub actions: Vec<TableAction<'a>>,
    /// Its default action, with the call that names it.
    pub default_action: Option<(FnId, Option<&'a ast::Expr>)>,
    /// `const default_action`
    pub default_is_const: bool,
    /// `size`
    pub size: Option<Value>,
    /// The entries it starts with.
    pub entries: Vec<EntryInfo<'a>>,
    /// The declaration.
    pub decl: &'a ast::Decl,
}

/// An entry that a table starts with.
#[derive(Clone, Debug)]
pub struct EntryInfo<'a> {
    /// Its action.
    pub action: FnId,
    /// Its priority, given or counted, where the table has priorities.
    pub priority: Option<num_bigint::BigInt>,
    /// `const`, its own or the list's.
    pub is_const: bool,
    /// The declaration.
    pub entry: &'a ast::Entry,
}

/// What is after the dot of `a.b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRef {
    /// A field, by its place.
    Field(u32),
    /// A member of an enumeration, by its place.
    EnumMember(EnumId, u32),
    /// A member of `error`, by its place in [`Typed::errors`].
    ErrorCode(u32),
    /// `next` of a header stack.
    Next,
    /// `last` of a header stack.
    Last,
    /// `lastIndex` of a header stack.
    LastIndex,
    /// `size` of a header stack.
    Size,
    /// `hit` of a table's result.
    Hit,
    /// `miss` of a table's result.
    Miss,
    /// `action_run` of a table's result.
    ActionRun,
}

/// Where the value of a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgSource {
    /// The argument at this place of the call.
    Arg(u32),
    /// The default value of the parameter.
    Default,
    /// An optional parameter that the call leaves out.
    Missing,
    /// From the control plane: a parameter of an action in a table.
    ControlPlane,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function, extern function or action.
    Function(FnId),
    /// A method of the extern instance before the dot, or of `this`.
    Method(FnId),
    /// A constructor of an extern.
    Constructor(FnId),
    /// A constructor of a parser or control.
    BlockConstructor(BlockId),
    /// A constructor of a package.
    PackageConstructor(PackageId),
    /// `apply` of a parser or control instance.
    ApplyBlock(BlockId),
    /// `apply` of a parser or control without an instance.
    ApplyType(BlockId),
    /// `apply` of a table.
    ApplyTable(TableId),
    /// `isValid` of a header or union.
    IsValid,
    /// `setValid` of a header.
    SetValid,
    /// `setInvalid` of a header.
    SetInvalid,
    /// `push_front` of a header stack.
    PushFront,
    /// `pop_front` of a header stack.
    PopFront,
    /// `minSizeInBits` and the like: a constant.
    Size,
}

/// A call.
#[derive(Clone, Debug)]
pub struct CallInfo {
    /// What is called.
    pub callee: Callee,
    /// Type arguments of the function or method, given or inferred; of a constructor those of the type.
    pub type_args: TypeList,
    /// One for each parameter.
    pub args: Vec<ArgSource>,
}

/// A program whose names and types are known.
#[derive(Clone, Debug, Default)]
pub struct Typed<'a> {
    /// All types.
    pub types: Types,
    /// All declared names.
    pub symbols: Vec<Symbol<'a>>,
    /// Structs, headers, unions.
    pub structs: Vec<StructInfo<'a>>,
    /// Enumerations.
    pub enums: Vec<EnumInfo<'a>>,
    /// Types made by `type`.
    pub newtypes: Vec<NewtypeInfo<'a>>,
    /// Extern types.
    pub externs: Vec<ExternInfo<'a>>,
    /// Functions, actions, methods, constructors.
    pub functions: Vec<FnInfo<'a>>,
    /// Parsers and controls, and the types of them.
    pub blocks: Vec<BlockInfo<'a>>,
    /// Packages.
    pub packages: Vec<PackageInfo<'a>>,
    /// Tables.
    pub tables: Vec<TableInfo<'a>>,
    /// Names of type parameters.
    pub vars: Vec<Name>,
    /// Members of `error` in the order of their declaration.
    pub errors: Vec<Name>,
    /// Members of `match_kind` in the order of their declaration.
    pub match_kinds: Vec<Name>,
    /// By node: the type of an expression, of a type as written, of what a declaration declares.
    pub type_of: Vec<Option<TypeId>>,
    /// By node of an expression: what it is converted to without a word.
    pub converted: HashMap<NodeId, TypeId>,
    /// By node of a path, a type's name, an action's name, a transition, a select case: what it refers to.
    pub refers: HashMap<NodeId, SymbolId>,
    /// By node of `a.b`.
    pub members: HashMap<NodeId, MemberRef>,
    /// By node of a call, an instance, a direct application, an action reference.
    pub calls: HashMap<NodeId, CallInfo>,
    /// By node of an expression or a constant: its value, where it was asked for.
    pub constants: HashMap<NodeId, Value>,
    /// Variables of loops over ranges and lists that something writes to, beside the loop.
    pub written: HashSet<SymbolId>,
    /// The instance named `main`.
    pub main: Option<SymbolId>,
}

impl<'a> Typed<'a> {
    /// A symbol.
    #[must_use]
    pub fn symbol(&self, id: SymbolId) -> &Symbol<'a> {
        &self.symbols[id.index()]
    }

    /// The type of a node.
    #[must_use]
    pub fn ty(&self, node: NodeId) -> Option<TypeId> {
        self.type_of.get(node.index()).copied().flatten()
    }

    /// What a node refers to.
    #[must_use]
    pub fn refers_to(&self, node: NodeId) -> Option<&Symbol<'a>> {
        self.refers.get(&node).map(|&id| self.symbol(id))
    }

    /// The type as a program would write it.
    #[must_use]
    pub fn show(&self, id: TypeId) -> String {
        show(&self.types, self, id)
    }
}

impl Names for Typed<'_> {
    fn struct_name(&self, id: StructId) -> (Aggregate, &str) {
        let info = &self.structs[id.index()];
        (info.kind, &info.name)
    }
    fn enum_name(&self, id: EnumId) -> &str {
        &self.enums[id.index()].name
    }
    fn newtype_name(&self, id: NewtypeId) -> &str {
        &self.newtypes[id.index()].name
    }
    fn extern_name(&self, id: ExternId) -> &str {
        &self.externs[id.index()].name
    }
    fn block_name(&self, id: BlockId) -> (&'static str, &str) {
        let info = &self.blocks[id.index()];
        (info.kind.word(), &info.name)
    }
    fn package_name(&self, id: PackageId) -> &str {
        &self.packages[id.index()].name
    }
    fn table_name(&self, id: TableId) -> &str {
        &self.tables[id.index()].name
    }
    fn var_name(&self, id: TypeVar) -> &str {
        &self.vars[id.index()]
    }
}
