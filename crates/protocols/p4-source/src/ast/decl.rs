use super::{Annotation, Arg, Block, Expr, Ident, Keyset, NodeId, Param, Stmt, Type, TypeParam};
use crate::source::Span;

/// A declaration, of the top level or local.
#[derive(Clone, Debug)]
pub struct Decl {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// In front of it.
    pub annotations: Vec<Annotation>,
    /// Which.
    pub kind: DeclKind,
}

/// Kinds of declarations.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// `const T x = e;`
    Const(Const),
    /// `T x = e;`
    Variable(Variable),
    /// `T<A>(x) name;`
    Instance(Instance),
    /// `extern E { … }`
    Extern(Extern),
    /// `extern T f(…);`
    ExternFunction(Prototype),
    /// `T f(…) { … }`
    Function(Function),
    /// `action a(…) { … }`
    Action(Action),
    /// `header`, `header_union` or `struct`
    Struct(Struct),
    /// `enum`
    Enum(Enum),
    /// `error { … }`
    Error(Vec<Member>),
    /// `match_kind { … }`
    MatchKind(Vec<Member>),
    /// `typedef` or `type`
    Typedef(Typedef),
    /// `parser p(…);`
    ParserType(BlockType),
    /// `control c(…);`
    ControlType(BlockType),
    /// `package P(…);`
    PackageType(BlockType),
    /// `parser p(…) { … }`
    Parser(Parser),
    /// `control c(…) { … }`
    Control(Control),
    /// `table t { … }`
    Table(Table),
    /// `value_set<T>(n) name;`
    ValueSet(ValueSet),
}

impl Decl {
    /// What it declares. None for `error` and `match_kind`, which add to a list.
    pub fn name(&self) -> Option<&Ident> {
        Some(match &self.kind {
            DeclKind::Const(d) => &d.name,
            DeclKind::Variable(d) => &d.name,
            DeclKind::Instance(d) => &d.name,
            DeclKind::Extern(d) => &d.name,
            DeclKind::ExternFunction(d) => &d.name,
            DeclKind::Function(d) => &d.proto.name,
            DeclKind::Action(d) => &d.name,
            DeclKind::Struct(d) => &d.name,
            DeclKind::Enum(d) => &d.name,
            DeclKind::Typedef(d) => &d.name,
            DeclKind::ParserType(d) | DeclKind::ControlType(d) | DeclKind::PackageType(d) => &d.name,
            DeclKind::Parser(d) => &d.head.name,
            DeclKind::Control(d) => &d.head.name,
            DeclKind::Table(d) => &d.name,
            DeclKind::ValueSet(d) => &d.name,
            DeclKind::Error(_) | DeclKind::MatchKind(_) => return None,
        })
    }
}

/// `const T x = e;`
#[derive(Clone, Debug)]
pub struct Const {
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
    /// Its value.
    pub value: Expr,
}

/// `T x = e;`
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
    /// Its first value.
    pub init: Option<Expr>,
}

/// `T<A>(x) name = { … };`
#[derive(Clone, Debug)]
pub struct Instance {
    /// What it is an instance of; `T() name[n]` is an instance of `T[n]`.
    pub ty: Type,
    /// Arguments of the constructor.
    pub args: Vec<Arg>,
    /// Its name.
    pub name: Ident,
    /// Implementations of abstract methods ([`DeclKind::Function`]) and instances ([`DeclKind::Instance`]).
    pub body: Option<Vec<Decl>>,
}

/// `extern E<T> { … }`
#[derive(Clone, Debug)]
pub struct Extern {
    /// Its name.
    pub name: Ident,
    /// `<T>`
    pub type_params: Vec<TypeParam>,
    /// Constructors and methods in order.
    pub methods: Vec<Method>,
}

/// A member of an extern.
#[derive(Clone, Debug)]
pub struct Method {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// In front of it.
    pub annotations: Vec<Annotation>,
    /// `abstract`: each instance implements it.
    pub is_abstract: bool,
    /// Its prototype. That of a constructor has no result.
    pub proto: Prototype,
}

impl Method {
    /// Whether it is a constructor.
    pub fn is_constructor(&self) -> bool {
        self.proto.result.is_none()
    }
}

/// `T f<A>(…)`
#[derive(Clone, Debug)]
pub struct Prototype {
    /// From the type to `)`.
    pub span: Span,
    /// The type of its result, or `void`. None: a constructor.
    pub result: Option<Type>,
    /// Its name.
    pub name: Ident,
    /// `<A>`
    pub type_params: Vec<TypeParam>,
    /// `(…)`
    pub params: Vec<Param>,
}

/// `T f(…) { … }`
#[derive(Clone, Debug)]
pub struct Function {
    /// Name, parameters, result.
    pub proto: Prototype,
    /// `{ … }`
    pub body: Block,
}

/// `action a(…) { … }`
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name.
    pub name: Ident,
    /// `(…)`
    pub params: Vec<Param>,
    /// `{ … }`
    pub body: Block,
}

/// What a [`Struct`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StructKind {
    /// `header`
    Header,
    /// `header_union`
    HeaderUnion,
    /// `struct`
    Struct,
}

/// `header H<T> { … }`
#[derive(Clone, Debug)]
pub struct Struct {
    /// Which of the three.
    pub kind: StructKind,
    /// Its name.
    pub name: Ident,
    /// `<T>`
    pub type_params: Vec<TypeParam>,
    /// Its fields in order.
    pub fields: Vec<Field>,
}

/// A field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// In front of it.
    pub annotations: Vec<Annotation>,
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
}

/// `enum E { A, B }`, `enum bit<8> E { A = 1 }`
#[derive(Clone, Debug)]
pub struct Enum {
    /// Its representation, if it has one.
    pub ty: Option<Type>,
    /// Its name.
    pub name: Ident,
    /// Its members in order.
    pub members: Vec<Member>,
}

/// A member of an enum, of `error` or of `match_kind`.
#[derive(Clone, Debug)]
pub struct Member {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// In front of it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Ident,
    /// Its value, in an enum with a representation.
    pub value: Option<Expr>,
}

/// `typedef T x;`, `type T x;`
#[derive(Clone, Debug)]
pub struct Typedef {
    /// `type`: a type of its own.
    pub is_new: bool,
    /// What it stands for.
    pub of: TypedefOf,
    /// The name.
    pub name: Ident,
}

/// What a [`Typedef`] stands for.
#[derive(Clone, Debug)]
pub enum TypedefOf {
    /// A type.
    Type(Type),
    /// `typedef struct S { … } T;`: a struct, header, union or enum declared on the spot.
    Decl(Box<Decl>),
}

/// `parser p<T>(…)`: name and parameters of a parser, control or package.
#[derive(Clone, Debug)]
pub struct BlockType {
    /// From its word (`parser`) to `)`.
    pub span: Span,
    /// Its name.
    pub name: Ident,
    /// `<T>`
    pub type_params: Vec<TypeParam>,
    /// `(…)`
    pub params: Vec<Param>,
}

/// `parser p(…)(…) { … }`
#[derive(Clone, Debug)]
pub struct Parser {
    /// Name and parameters of `apply`.
    pub head: BlockType,
    /// Parameters of the constructor.
    pub constructor_params: Vec<Param>,
    /// Constants, variables, instances, value sets in order.
    pub locals: Vec<Decl>,
    /// The states in order.
    pub states: Vec<State>,
}

/// `state s { … }`
#[derive(Clone, Debug)]
pub struct State {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// In front of it.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Ident,
    /// Its statements.
    pub stmts: Vec<Stmt>,
    /// Where it goes. None: to `reject`, without a word.
    pub transition: Option<Transition>,
}

/// `transition …`
#[derive(Clone, Debug)]
pub struct Transition {
    /// Node.
    pub id: NodeId,
    /// From `transition` to its end.
    pub span: Span,
    /// Where.
    pub kind: TransitionKind,
}

/// Kinds of transitions.
#[derive(Clone, Debug)]
pub enum TransitionKind {
    /// To one state.
    Direct(Ident),
    /// `select (…) { … }`
    Select(Select),
}

/// `select (a, b) { … }`
#[derive(Clone, Debug)]
pub struct Select {
    /// From `select` to `}`.
    pub span: Span,
    /// What is looked at.
    pub subjects: Vec<Expr>,
    /// The cases in order.
    pub cases: Vec<SelectCase>,
}

/// `key: state;`
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// What it matches.
    pub keyset: Keyset,
    /// Where it goes.
    pub state: Ident,
}

/// `control c(…)(…) { … apply { … } }`
#[derive(Clone, Debug)]
pub struct Control {
    /// Name and parameters of `apply`.
    pub head: BlockType,
    /// Parameters of the constructor.
    pub constructor_params: Vec<Param>,
    /// Constants, variables, instances, actions, tables in order.
    pub locals: Vec<Decl>,
    /// `apply { … }`
    pub apply: Block,
}

/// `table t { … }`
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: Ident,
    /// Its properties in order, as often as written.
    pub properties: Vec<Property>,
}

/// A property of a table.
#[derive(Clone, Debug)]
pub struct Property {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// In front of it.
    pub annotations: Vec<Annotation>,
    /// `const`
    pub is_const: bool,
    /// `key`, `actions`, `default_action`, …
    pub name: Ident,
    /// What it says.
    pub kind: PropertyKind,
}

/// Kinds of properties.
#[derive(Clone, Debug)]
pub enum PropertyKind {
    /// `key = { … }`
    Key(Vec<KeyElement>),
    /// `actions = { … }`
    Actions(Vec<ActionRef>),
    /// `entries = { … }`
    Entries(Vec<Entry>),
    /// `name = e;`, `default_action` among them: then the expression is a path or a call.
    Value(Expr),
}

/// `e : exact @name("x");`
#[derive(Clone, Debug)]
pub struct KeyElement {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// Behind the match kind.
    pub annotations: Vec<Annotation>,
    /// What is matched.
    pub expr: Expr,
    /// How.
    pub match_kind: Ident,
}

/// `@tableonly a(x)`: an action in a list, or of an entry.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// In front of it.
    pub annotations: Vec<Annotation>,
    /// With a dot in front: of the top level.
    pub absolute: bool,
    /// The action.
    pub name: Ident,
    /// `(…)`; none without parentheses.
    pub args: Option<Vec<Arg>>,
}

/// `const priority = 7: (k1, k2): a(x) @name("x");`
#[derive(Clone, Debug)]
pub struct Entry {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// `const`
    pub is_const: bool,
    /// `priority = e:`
    pub priority: Option<Expr>,
    /// What it matches: a tuple, or one key.
    pub keyset: Keyset,
    /// What is done.
    pub action: ActionRef,
    /// Behind the action.
    pub annotations: Vec<Annotation>,
}

/// `value_set<T>(n) name;`
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// The type of its members.
    pub ty: Type,
    /// How many there can be.
    pub size: Expr,
    /// Its name.
    pub name: Ident,
}
