//! P4-16 for v1model and PSA from its checked source ([`barewire_p4_source::types::Typed`]) to the representation that the
//! switch runs ([`barewire_p4::ir::Program`]), without JSON between them.
//!
//! ```text
//! v1model   `main` -> parser, checks of sums, pipelines, deparser; (psa) the same twice, and PSA's externs; (running) its sums; (checksum) the controls with nothing but calls
//! storage   types -> header types, instances, fields of `scalars`
//! expr      expressions -> values; (ops) operators, folding, casts; (assign) values into places
//! call      functions, actions, controls and parsers put in where they are called, copied in and out; (externs) the target's
//! stmt      statements -> code with labels; (loops) loops
//! table     tables with their actions
//! parser    states -> code with labels
//! code      code with labels -> the statements of an action, the graph of a pipeline, the states of a parser
//! ```
//! What cannot be lowered is refused at its place; nothing is left out without a word.
//!
//! ```
//! use barewire_p4_lower::from_source;
//! use barewire_p4_source::Options;
//! use barewire_p4_source::resolve::MemoryFiles;
//!
//! let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../programs/simple_router.p4"));
//! let read = from_source(&MemoryFiles::one("router.p4", text), &Options::default(), "router.p4");
//! let program = read.made.flatten().expect("a program that runs");
//! assert!(program.tables.iter().any(|table| table.name == "RouterIngress.ipv4_lpm"));
//! ```
//!
//! Sources: the P4-16 language specification, `v1model.p4`, the PSA specification, and what p4c and bmv2 do where these leave a
//! question open.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod assign;
mod call;
mod checksum;
mod code;
mod expr;
mod externs;
mod loops;
mod ops;
mod parser;
mod psa;
mod running;
mod stmt;
mod storage;
mod table;
mod v1model;

use std::collections::HashMap;
use std::rc::Rc;

use barewire_p4::ir::MAX_STATE_BYTES;
use barewire_p4::ir::{
    ActionId, ChecksumUnitId, CounterId, Expr, FieldRef, HashAlgorithm, HeaderRef, HeaderTypeId, MeterId,
    ProfileId, Program, RegisterId, StackId, TableId, UnionRef, UnionStackId, ValueSetId,
};
use barewire_p4_source::ast::{self, NodeId};
use barewire_p4_source::instances::{InstanceId, Instances};
use barewire_p4_source::types::ty::{self, BlockId, FnId, TypeId, TypeVar, Types};
use barewire_p4_source::types::{Callee, SymbolId, Typed, code as kind};
use barewire_p4_source::{Diagnostic, SourceMap, Span};

use code::{Ins, Label};

/// Lowers a program whose types are right.
///
/// # Errors
/// What the program asks for and cannot be had, at its place.
pub fn lower<'a>(
    source: &'a ast::Program,
    typed: &'a Typed<'a>,
    map: &'a SourceMap,
    name: &str,
) -> Result<Program> {
    let begin = || match Instances::of(source, typed) {
        Ok(tree) => Ok(Lower::new(source, typed, map, name, tree)),
        Err(why) => refuse(Span::NONE, why.to_string()),
    };
    let mut lower = begin()?;
    if let Err(why) = lower.v1model() {
        if !lower.byte_by_byte {
            return Err(why);
        }
        lower = begin()?;
        lower.byte_by_byte = true;
        lower.v1model()?;
    }
    lower.meters_have_tables()?;
    lower.program.check().map_err(|error| {
        Box::new(Diagnostic::error(
            kind::UNSUPPORTED,
            Span::NONE,
            format!("the lowered program breaks a rule: {error}"),
        ))
    })?;
    Ok(lower.program)
}

/// A program read, checked and lowered in one go; `made` has it where all of that went well, and `found` says why where not.
pub fn from_source(
    files: &dyn barewire_p4_source::Resolver,
    options: &barewire_p4_source::Options,
    path: &str,
) -> barewire_p4_source::Read<Option<Program>> {
    barewire_p4_source::read(files, options, path, |source, typed, map, found| {
        if found.error_count() > 0 {
            return None;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        lower(source, typed, map, name).map_err(|refusal| found.push(*refusal)).ok()
    })
}

type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// A refusal.
fn refuse<T>(span: Span, text: impl Into<String>) -> Result<T> {
    Err(Box::new(Diagnostic::error(kind::UNSUPPORTED, span, text)))
}

/// How many instructions a program may come to: calls put in place can multiply.
const INSTRUCTIONS_MAX: usize = 1 << 18;

/// What an expression comes to: a value, or a place that holds one.
#[derive(Clone, Debug, PartialEq)]
enum Val {
    /// A number as its type holds it.
    Num(Expr),
    /// A truth value.
    Truth(Expr),
    /// A field: a number, a truth value in one bit, or a varbit.
    Field(FieldRef),
    /// Fields of a struct, elements of a tuple, in order.
    Parts(Rc<[Val]>),
    /// A header.
    Header(HeaderRef),
    /// A valid header by its fields.
    HeaderParts(Rc<[Val]>),
    /// A union.
    Union(UnionRef),
    /// A stack of headers.
    Stack(StackId),
    /// A stack of unions.
    UnionStack(UnionStackId),
    /// Bits `high:low` of a place of so many bits.
    Slice { base: Box<Val>, base_ty: TypeId, high: u32, low: u32 },
    /// So many bits of a place, from one on that the packet tells: a number of a type.
    Bits { base: Box<Val>, base_ty: TypeId, low: Box<(Val, TypeId)>, width: u32 },
    /// The element of an array of numbers that the packet tells.
    Element { elements: Rc<[Val]>, index: Box<Expr> },
    /// An invalid header or union.
    Invalid,
    /// A text.
    Text(Rc<str>),
    /// `_`, or an optional argument that is not there.
    Nothing,
    /// Something that is no value.
    Object(Object),
}

#[derive(Clone, Debug, PartialEq)]
enum Object {
    Packet,
    Counter(CounterId),
    Meter(MeterId),
    Register(RegisterId),
    Profile(ProfileId),
    ValueSet(ValueSetId),
    Checksum16,
    Hash(HashAlgorithm),
    Sum(ChecksumUnitId),
    /// From, to.
    Random(Expr, Expr),
    /// A `Checksum`: its place in the list of them.
    Running(usize),
    /// An instance of an extern that the program itself implements: its declaration.
    Own(NodeId),
    Digest(Rc<str>),
    /// A package by its arguments.
    Package(Rc<[Val]>),
    /// A parser or control: its place in the tree of instances, and the arguments of its constructor.
    Block(Rc<BlockInstance>),
}

#[derive(Debug, PartialEq)]
struct BlockInstance {
    block: BlockId,
    type_args: Vec<TypeId>,
    args: Vec<Val>,
    id: InstanceId,
}

/// What is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Parser,
    Pipeline,
    Action,
    Deparser,
}

/// A body that is put in place: where `return` and `exit` go.
#[derive(Clone, Debug)]
struct Frame {
    leave: Label,
    result: Option<(Val, TypeId)>,
    /// Parameters to be copied out: to, from.
    copies: Vec<(Val, Val, TypeId)>,
}

/// A table that has been lowered.
#[derive(Clone, Debug)]
struct Lowered {
    id: TableId,
    actions: Vec<(FnId, ActionId)>,
    /// Keys that are computed in front of each application.
    computed: Vec<(FieldRef, usize)>,
    /// Says that an action of it exits, where there are parameters to be copied out.
    exits: Option<FieldRef>,
}

struct Lower<'a> {
    t: &'a Typed<'a>,
    map: &'a SourceMap,
    types: Types,
    program: Program,
    /// What declared names stand for at the moment.
    env: HashMap<SymbolId, Val>,
    by_node: HashMap<NodeId, SymbolId>,
    decls: HashMap<NodeId, &'a ast::Decl>,
    subst: HashMap<TypeVar, TypeId>,
    /// What belongs to an instance: variables and instances.
    owned: HashMap<(Option<InstanceId>, SymbolId), Val>,
    /// Variables that blocks declare.
    in_blocks: HashMap<(Option<InstanceId>, SymbolId, TypeId), Val>,
    tables: HashMap<(Option<InstanceId>, ty::TableId), Rc<Lowered>>,
    header_types: HashMap<TypeId, HeaderTypeId>,
    names: HashMap<String, u32>,
    /// All instances, with what control planes call them.
    tree: Instances<'a, 'a>,
    /// The parser or control that is being lowered.
    here: Option<InstanceId>,
    mode: Mode,
    code: Vec<Ins>,
    labels: u32,
    frames: Vec<Frame>,
    /// Loops around that are written out.
    written_out: u32,
    /// Controls around that are applied in several places.
    again: u32,
    /// In a loop of a pipeline, which becomes an action.
    looping: bool,
    /// `break` and `continue`.
    loops: Vec<(Label, Label)>,
    /// Applications of each parser and control in the source: where there are several, parameters need storage of their own.
    applied: HashMap<BlockId, u32>,
    depth: u32,
    /// The user's metadata: its fields may be in lists that are kept.
    metadata: Option<(Val, TypeId)>,
    lists: HashMap<u32, barewire_p4::ir::FieldListId>,
    /// Digests by name and type: where their data is, and their list.
    digests: HashMap<(String, TypeId), (Val, barewire_p4::ir::LearnListId)>,
    /// What each register holds.
    register_types: Vec<TypeId>,
    /// PSA: metadata of the target by name.
    target_parts: Vec<(String, Val)>,
    /// Places of `inout` arguments whose calls are under way, and their copies.
    after: Vec<(Val, Val, TypeId)>,
    /// An action of a table is at hand whose `exit` others have to hear of, and the field for it.
    exits: Option<Option<FieldRef>>,
    /// PSA: the `Checksum`s, and the headers that keep what one `update` of them was given.
    running: Vec<running::Running>,
    /// PSA: a `Checksum` is updated in a loop, so each is summed byte by byte.
    byte_by_byte: bool,
    once: HashMap<barewire_p4::ir::HeaderId, (usize, Span)>,
    /// The instances whose methods are under way.
    this: Vec<Val>,
    /// The statement that is being lowered.
    at: Span,
    /// What a deparser that does more than emit has emitted so far.
    emitted: Vec<barewire_p4::ir::HeaderId>,
    /// Memory of counters, meters and registers so far.
    state_bytes: u64,
    /// Where direct meters are read: each has to belong to a table in the end.
    meter_reads: Vec<(barewire_p4::ir::MeterId, Span)>,
}

impl<'a> Lower<'a> {
    fn new(
        source: &'a ast::Program,
        t: &'a Typed<'a>,
        map: &'a SourceMap,
        name: &str,
        tree: Instances<'a, 'a>,
    ) -> Lower<'a> {
        let mut program = Program::empty();
        program.name = name.to_owned();
        let by_node = t
            .symbols
            .iter()
            .enumerate()
            .map(|(at, s)| (s.node, SymbolId(u32::try_from(at).unwrap_or(u32::MAX))))
            .collect();
        let mut applied = HashMap::new();
        for info in t.calls.values() {
            if let Callee::ApplyBlock(block) | Callee::ApplyType(block) = info.callee {
                *applied.entry(block).or_insert(0) += 1;
            }
        }
        let mut decls = HashMap::new();
        note_decls(&source.decls, &mut decls);
        Lower {
            t,
            map,
            types: t.types.clone(),
            program,
            env: HashMap::new(),
            by_node,
            decls,
            subst: HashMap::new(),
            owned: HashMap::new(),
            in_blocks: HashMap::new(),
            tables: HashMap::new(),
            header_types: HashMap::new(),
            names: HashMap::new(),
            tree,
            here: None,
            mode: Mode::Pipeline,
            code: Vec::new(),
            labels: 1,
            frames: Vec::new(),
            written_out: 0,
            again: 0,
            looping: false,
            loops: Vec::new(),
            applied,
            depth: 0,
            metadata: None,
            lists: HashMap::new(),
            digests: HashMap::new(),
            register_types: Vec::new(),
            target_parts: Vec::new(),
            after: Vec::new(),
            exits: None,
            running: Vec::new(),
            byte_by_byte: false,
            once: HashMap::new(),
            this: Vec::new(),
            at: Span::NONE,
            emitted: Vec::new(),
            state_bytes: 0,
            meter_reads: Vec::new(),
        }
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    fn emit(&mut self, ins: Ins) {
        self.code.push(ins);
    }

    fn stmt_out(&mut self, stmt: barewire_p4::ir::Stmt) {
        self.code.push(Ins::Stmt(stmt, self.at));
    }

    fn bounded(&self, span: Span) -> Result<()> {
        if self.code.len() > INSTRUCTIONS_MAX {
            return refuse(span, format!("the program comes to more than {INSTRUCTIONS_MAX} instructions"));
        }
        Ok(())
    }

    /// Accounts for memory of counters, meters and registers.
    pub(crate) fn keeps(&mut self, bytes: u64, span: Span) -> Result<()> {
        self.state_bytes = self.state_bytes.saturating_add(bytes);
        if self.state_bytes > MAX_STATE_BYTES {
            let gib = MAX_STATE_BYTES >> 30;
            return refuse(
                span,
                format!("counters, meters and registers take more than {gib} GiB with this"),
            );
        }
        Ok(())
    }

    fn meters_have_tables(&self) -> Result<()> {
        let lost =
            |(meter, _): &&(barewire_p4::ir::MeterId, Span)| self.program.meters[meter.at()].direct.is_none();
        match self.meter_reads.iter().find(lost) {
            None => Ok(()),
            Some((meter, span)) => {
                let name = &self.program.meters[meter.at()].name;
                refuse(*span, format!("no table has `{name}` among its meters, so nothing measures for it"))
            }
        }
    }

    /// A name that nothing has yet.
    fn unique(&mut self, wanted: &str) -> String {
        let count = self.names.entry(wanted.to_owned()).or_insert(0);
        *count += 1;
        if *count == 1 {
            return wanted.to_owned();
        }
        let name = format!("{wanted}_{}", *count - 2);
        self.unique(&name)
    }

    /// The control plane's name of something declared here.
    fn control_name(&self, name: &str, annotations: &[ast::Annotation]) -> String {
        self.tree.qualify(self.here, annotations, name)
    }

    /// The type of a node, type parameters replaced.
    fn ty(&mut self, node: NodeId, span: Span) -> Result<TypeId> {
        let Some(ty) = self.t.ty(node) else { return refuse(span, "this has no type") };
        Ok(self.closed(ty))
    }

    fn closed(&mut self, ty: TypeId) -> TypeId {
        let subst = &self.subst;
        self.types.replace(ty, &mut |leaf| match leaf {
            ty::Type::Var(var) => subst.get(var).copied(),
            _ => None,
        })
    }

    /// The parser or control that a declaration or a call makes here.
    fn instance_of(&self, node: NodeId, span: Span) -> Result<InstanceId> {
        match self.tree.made(self.here, node) {
            Some(id) => Ok(id),
            None => refuse(span, "this instance is not known"),
        }
    }

    fn symbol_at(&self, node: NodeId, span: Span) -> Result<SymbolId> {
        match self.by_node.get(&node) {
            Some(&id) => Ok(id),
            None => refuse(span, "this declares nothing"),
        }
    }
}

/// Declarations by their nodes, those in parsers and controls too.
fn note_decls<'a>(list: &'a [ast::Decl], out: &mut HashMap<NodeId, &'a ast::Decl>) {
    for decl in list {
        out.insert(decl.id, decl);
        match &decl.kind {
            ast::DeclKind::Parser(parser) => note_decls(&parser.locals, out),
            ast::DeclKind::Control(control) => note_decls(&control.locals, out),
            ast::DeclKind::Instance(instance) => {
                instance.body.iter().for_each(|body| note_decls(body, out));
            }
            _ => {}
        }
    }
}
