//! What a look at the whole program tells: which metadata fields nobody ever reads.

use barewire_p4::ir::{
    CalcInput, Expr, FieldId, FieldRef, HashSource, HeaderId, HeaderRef, KeySource, ListItem, Node, ParserOp,
    Program, StackId, Stmt, UnionRef, UnionStackId, Written,
};
use std::collections::BTreeSet;

/// Metadata headers whose fields the target or a control plane looks at.
const TARGET_HEADERS: [&str; 6] = [
    "standard_metadata",
    "intrinsic_metadata",
    "queueing_metadata",
    "psa_ingress_output_metadata",
    "psa_egress_output_metadata",
    "psa_egress_deparser_input_metadata",
];

/// Facts about one program.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Metadata fields that are written in vain.
    dead: BTreeSet<FieldId>,
    /// For each header whether anything but extraction writes to it or changes its validity.
    modified: Vec<bool>,
    written: BTreeSet<FieldId>,
}

impl Facts {
    /// Work them out. `keep_dead` finds nothing dead.
    pub fn of(program: &Program, keep_dead: bool) -> Facts {
        let (modified, written) = Writes::of(program);
        let mut facts = Facts { dead: BTreeSet::new(), modified, written };
        if keep_dead {
            return facts;
        }
        let mut reads = Reads { program, fields: BTreeSet::new() };
        reads.program();
        for (index, header) in program.headers.iter().enumerate() {
            let kept = !header.metadata
                || TARGET_HEADERS.contains(&header.name.as_str())
                || header.name.starts_with("psa_");
            if kept {
                continue;
            }
            let fields = program.header_types[header.ty.at()].fields.len() as u32;
            for field in 0..fields {
                let id = FieldId { header: index.into(), field };
                let aliased = program.field_aliases.iter().any(|(_, target)| *target == id);
                if !aliased && !reads.fields.contains(&id) {
                    facts.dead.insert(id);
                }
            }
        }
        facts
    }

    /// Whether writing the field can never be seen.
    pub fn is_dead(&self, field: FieldId) -> bool {
        self.dead.contains(&field)
    }

    /// Whether a statement or a checksum writes this field by name.
    pub fn is_written(&self, field: FieldId) -> bool {
        self.written.contains(&field)
    }

    /// The headers that leave as they came: nothing but extraction ever writes to them.
    pub fn never_modified(&self) -> impl Iterator<Item = HeaderId> + '_ {
        (0..self.modified.len()).filter(|at| !self.modified[*at]).map(HeaderId::from)
    }

    /// How many fields are dead.
    pub fn dead_fields(&self) -> usize {
        self.dead.len()
    }
}

/// Which headers statements write to.
struct Writes<'p> {
    program: &'p Program,
    modified: Vec<bool>,
    written: BTreeSet<FieldId>,
}

impl Writes<'_> {
    fn of(program: &Program) -> (Vec<bool>, BTreeSet<FieldId>) {
        let modified = vec![false; program.headers.len()];
        let mut writes = Writes { program, modified, written: BTreeSet::new() };
        let stmts = program.actions.iter().flat_map(|action| &action.body);
        let stmts = stmts.chain(program.deparsers.iter().flat_map(|deparser| &deparser.stmts));
        for stmt in stmts {
            writes.stmt(stmt);
        }
        for op in program.parsers.iter().flat_map(|parser| &parser.states).flat_map(|state| &state.ops) {
            match op {
                ParserOp::Stmt(stmt) => writes.stmt(stmt),
                // Extracting a member of a union takes the others away.
                ParserOp::Extract(header) | ParserOp::ExtractVarbit { header, .. } => {
                    if let HeaderRef::Header(id) = header
                        && program.headers[id.at()].union.is_none()
                    {
                        continue;
                    }
                    if !matches!(header, HeaderRef::StackNext(_)) {
                        writes.header(header);
                    }
                }
                ParserOp::Advance { .. } | ParserOp::Verify { .. } => {}
            }
        }
        for checksum in program.checksums.iter().filter(|checksum| checksum.update) {
            writes.field(&checksum.target);
        }
        for meter in &program.meters {
            meter.result.iter().for_each(|result| writes.field(result));
        }
        (writes.modified, writes.written)
    }

    fn field(&mut self, field: &FieldRef) {
        self.written.extend(field.fixed());
        self.header(&field.header);
    }

    fn one(&mut self, id: HeaderId) {
        self.modified[id.at()] = true;
        if let Some(union) = self.program.headers[id.at()].union {
            for member in &self.program.unions[union.at()].members {
                self.modified[member.at()] = true;
            }
        }
    }

    fn many(&mut self, ids: &[HeaderId]) {
        for id in ids {
            self.one(*id);
        }
    }

    fn stack(&mut self, stack: StackId) {
        self.many(&self.program.stacks[stack.at()].elements);
    }

    fn union_stack(&mut self, stack: UnionStackId) {
        for union in &self.program.union_stacks[stack.at()].elements {
            self.many(&self.program.unions[union.at()].members);
        }
    }

    fn header(&mut self, header: &HeaderRef) {
        match header {
            HeaderRef::Header(id) => self.one(*id),
            HeaderRef::StackNext(stack) | HeaderRef::StackLast(stack) | HeaderRef::StackElement(stack, _) => {
                self.stack(*stack);
            }
            HeaderRef::UnionStackNext(stack, _)
            | HeaderRef::UnionStackLast(stack, _)
            | HeaderRef::UnionStackElement(stack, ..) => self.union_stack(*stack),
        }
    }

    fn union(&mut self, union: &UnionRef) {
        match union {
            UnionRef::Union(id) => self.many(&self.program.unions[id.at()].members),
            UnionRef::Element(stack, _) => self.union_stack(*stack),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        stmt.writes(&mut |written| match written {
            Written::Field(field) => self.field(field),
            Written::Request(field) => self.one(field.header),
            Written::Header(header) => self.header(header),
            Written::Union(union) => self.union(union),
            Written::Stack(stack) => self.stack(stack),
            Written::UnionStack(stack) => self.union_stack(stack),
        });
    }
}

struct Reads<'p> {
    program: &'p Program,
    fields: BTreeSet<FieldId>,
}

impl Reads<'_> {
    fn program(&mut self) {
        let program = self.program;
        for list in &program.field_lists {
            for item in &list.items {
                if let ListItem::Field(field) = item {
                    self.field(field);
                }
            }
        }
        for list in &program.learn_lists {
            self.inputs(list.items.iter().map(|(item, _)| item));
        }
        for parser in &program.parsers {
            for state in &parser.states {
                for op in &state.ops {
                    self.op(op);
                }
                for (expr, _) in &state.key {
                    self.expr(expr);
                }
            }
        }
        for deparser in &program.deparsers {
            self.stmts(&deparser.stmts);
            for header in &deparser.order {
                self.header(&HeaderRef::Header(*header));
            }
        }
        for action in &program.actions {
            self.stmts(&action.body);
        }
        for table in &program.tables {
            for key in &table.key {
                if let KeySource::Field(field) = &key.source {
                    self.field(field);
                }
            }
        }
        for profile in &program.profiles {
            if let Some(selector) = &profile.selector {
                self.inputs(&selector.input);
            }
        }
        for pipeline in &program.pipelines {
            for node in &pipeline.nodes {
                if let Node::If { condition, .. } = node {
                    self.expr(condition);
                }
            }
        }
        for header in &program.headers {
            if let Some(length) = &header.length_exp {
                self.expr(length);
            }
        }
        for calculation in &program.calculations {
            self.inputs(&calculation.input);
        }
        for checksum in &program.checksums {
            self.field(&checksum.target);
            if let Some(condition) = &checksum.condition {
                self.expr(condition);
            }
        }
    }

    fn field(&mut self, field: &FieldRef) {
        match field.fixed() {
            Some(id) => {
                self.fields.insert(id);
            }
            None => self.header(&field.header),
        }
    }

    /// All fields of a header. Elements of stacks and unions are no metadata: only their indices are looked at.
    fn header(&mut self, header: &HeaderRef) {
        match header {
            HeaderRef::Header(id) => {
                let fields = self.program.header_type_of(*id).fields.len() as u32;
                self.fields.extend((0..fields).map(|field| FieldId { header: *id, field }));
            }
            HeaderRef::StackElement(_, index) | HeaderRef::UnionStackElement(_, index, _) => self.expr(index),
            _ => {}
        }
    }

    fn target(&mut self, field: &FieldRef) {
        if field.fixed().is_none() {
            self.header(&field.header);
        }
    }

    fn union(&mut self, union: &UnionRef) {
        if let UnionRef::Element(_, index) = union {
            self.expr(index);
        }
    }

    fn inputs<'x>(&mut self, inputs: impl IntoIterator<Item = &'x CalcInput>) {
        for input in inputs {
            match input {
                CalcInput::Field(field) => self.field(field),
                CalcInput::Header(header) => self.header(header),
                CalcInput::Expr { value, .. } => self.expr(value),
                CalcInput::Const { .. } | CalcInput::Payload => {}
            }
        }
    }

    fn op(&mut self, op: &ParserOp) {
        match op {
            ParserOp::Extract(header) => self.header(header),
            ParserOp::ExtractVarbit { header, bits } => {
                self.header(header);
                self.expr(bits);
            }
            ParserOp::Advance { bits } => self.expr(bits),
            ParserOp::Verify { condition, error } => {
                self.expr(condition);
                self.expr(error);
            }
            ParserOp::Stmt(stmt) => self.stmt(stmt),
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign { dst, value } => {
                self.target(dst);
                self.expr(value);
            }
            Stmt::AssignVarbit { dst, src } => {
                self.target(dst);
                self.field(src);
            }
            Stmt::CopyHeader { dst, src } => {
                self.header(src);
                if !matches!(dst, HeaderRef::Header(_)) {
                    self.header(dst);
                }
            }
            Stmt::CopyUnion { dst, src } => {
                self.union(dst);
                self.union(src);
            }
            Stmt::SetValid(header) | Stmt::SetInvalid(header) => {
                if !matches!(header, HeaderRef::Header(_)) {
                    self.header(header);
                }
            }
            Stmt::JumpUnless { condition, .. } => self.expr(condition),
            Stmt::Assert(condition) | Stmt::Assume(condition) => self.expr(condition),
            Stmt::Log { args, .. } => args.iter().for_each(|arg| self.expr(arg)),
            Stmt::Count { index, .. } => self.expr(index),
            Stmt::Meter { index, precolor, dst, .. } => {
                self.expr(index);
                precolor.iter().for_each(|precolor| self.expr(precolor));
                dst.iter().for_each(|dst| self.target(dst));
            }
            Stmt::RegisterRead { dst, index, .. } => {
                self.target(dst);
                self.expr(index);
            }
            Stmt::RegisterWrite { index, value, .. } => {
                self.expr(index);
                self.expr(value);
            }
            Stmt::Random { dst, low, high } => {
                self.target(dst);
                self.expr(low);
                self.expr(high);
            }
            Stmt::Hash { dst, source, base, max } => {
                self.target(dst);
                base.iter().chain(max).for_each(|bound| self.expr(bound));
                if let HashSource::Inline { input, .. } = source {
                    self.inputs(input);
                }
            }
            Stmt::CloneIngress { session, .. } | Stmt::CloneEgress { session, .. } => self.expr(session),
            Stmt::Truncate { len } => self.expr(len),
            Stmt::ChecksumAdd { input, .. } | Stmt::ChecksumSubtract { input, .. } => self.inputs(input),
            Stmt::ChecksumGet { dst, .. } | Stmt::ChecksumGetState { dst, .. } => self.target(dst),
            Stmt::Apply { hit, ran, .. } => hit.iter().chain(ran).for_each(|dst| self.target(dst)),
            Stmt::ChecksumVerify { dst, equals, .. } => {
                self.target(dst);
                self.expr(equals);
            }
            Stmt::ChecksumSetState { value, .. } => self.expr(value),
            Stmt::CopyStack { .. }
            | Stmt::CopyUnionStack { .. }
            | Stmt::Push { .. }
            | Stmt::Pop { .. }
            | Stmt::PushUnions { .. }
            | Stmt::PopUnions { .. }
            | Stmt::Jump(_)
            | Stmt::Exit
            | Stmt::Digest { .. }
            | Stmt::Resubmit { .. }
            | Stmt::Recirculate { .. }
            | Stmt::MarkToDrop { .. }
            | Stmt::ChecksumClear(_)
            | Stmt::NoOp => {}
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Field(field) => self.field(field),
            Expr::Unary(_, value) | Expr::Wrap { value, .. } | Expr::Saturate { value, .. } => {
                self.expr(value)
            }
            Expr::Binary(_, left, right) => {
                self.expr(left);
                self.expr(right);
            }
            Expr::Select(condition, yes, no) => {
                self.expr(condition);
                self.expr(yes);
                self.expr(no);
            }
            Expr::Valid(header) => {
                if !matches!(header, HeaderRef::Header(_)) {
                    self.header(header);
                }
            }
            Expr::UnionValid(union) => self.union(union),
            Expr::HeadersEqual(left, right) => {
                self.header(left);
                self.header(right);
            }
            Expr::UnionsEqual(left, right) => {
                self.union(left);
                self.union(right);
            }
            Expr::Register { index, .. } => self.expr(index),
            Expr::Int(_)
            | Expr::Bool(_)
            | Expr::Param(_)
            | Expr::LastIndex(_)
            | Expr::StackSize(_)
            | Expr::StacksEqual(..)
            | Expr::UnionStacksEqual(..)
            | Expr::Lookahead { .. } => {}
        }
    }
}
