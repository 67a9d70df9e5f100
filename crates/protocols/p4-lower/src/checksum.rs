//! The controls that hold nothing but calls: checks and updates of sums, and the deparser.

use std::rc::Rc;

use barewire_p4::ir::{CalcInput, Checksum, Expr, HeaderId, HeaderRef, Stmt, UnionRef};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, DeclKind, ExprKind, StmtKind};
use barewire_p4_source::types::Callee;
use barewire_p4_source::types::ty::{Type, TypeId};

use super::ops::{and, not};
use super::{BlockInstance, Lower, Mode, Object, Result, Val, refuse};

/// What a control of calls makes.
pub(crate) enum Calls {
    Sums { verify: bool },
    Emits(Vec<HeaderId>),
}

impl<'a> Lower<'a> {
    /// A control that verifies or updates sums.
    pub(crate) fn sums(&mut self, instance: &Rc<BlockInstance>, args: Vec<Val>, verify: bool) -> Result<()> {
        self.calls(instance, args, &Expr::Bool(true), &mut Calls::Sums { verify })
    }

    /// A deparser: the headers it emits, in order, and what it does before.
    pub(crate) fn deparser(
        &mut self,
        instance: &Rc<BlockInstance>,
        args: [(Val, TypeId); 2],
    ) -> Result<(Vec<HeaderId>, Vec<Stmt>)> {
        let decl = self.t.blocks[instance.block.index()].decl;
        let DeclKind::Control(control) = &decl.kind else { return refuse(decl.span, "this is no control") };
        if self.is_of_emits(control) {
            let list = self.emits(instance, args.map(|(val, _)| val).to_vec())?;
            return Ok((list, Vec::new()));
        }
        self.deparser_with_stmts(instance, args.to_vec())
    }

    /// Whether a statement does nothing but emit headers as they are: by calls of `emit`, or of controls of such calls.
    pub(crate) fn only_emits(&self, stmt: &ast::Stmt) -> bool {
        let StmtKind::Call(expr) = &stmt.kind else { return matches!(stmt.kind, StmtKind::Empty) };
        let ExprKind::Call(call) = &expr.kind else { return false };
        let Some(info) = self.t.calls.get(&expr.id) else { return false };
        let does = match info.callee {
            Callee::Method(id) => &*self.t.functions[id.index()].name == "emit",
            Callee::ApplyBlock(id) => {
                matches!(&self.t.blocks[id.index()].decl.kind, DeclKind::Control(control) if self.is_of_emits(control))
            }
            _ => false,
        };
        does && call.args.iter().all(|arg| !self.acts(&arg.value))
    }

    /// Whether a control has no variables and such statements only.
    fn is_of_emits(&self, control: &ast::Control) -> bool {
        let variable = |decl: &ast::Decl| matches!(decl.kind, DeclKind::Variable(_));
        !control.locals.iter().any(variable) && control.apply.stmts.iter().all(|stmt| self.only_emits(stmt))
    }

    /// What a statement that only emits appends to `list`.
    pub(crate) fn emit_as_is(&mut self, stmt: &'a ast::Stmt, list: &mut Vec<HeaderId>) -> Result<()> {
        let mut calls = Calls::Emits(std::mem::take(list));
        self.call_only(stmt, &Expr::Bool(true), &mut calls)?;
        if let Calls::Emits(emitted) = calls {
            *list = emitted;
        }
        Ok(())
    }

    /// Copies what is emitted at this place to headers of its own.
    pub(crate) fn emit_now(&mut self, val: &Val, ty: TypeId, span: Span) -> Result<()> {
        if self.mode != Mode::Deparser {
            return refuse(span, "`emit` outside a deparser");
        }
        match val {
            Val::Header(header) => {
                let copy = self.copied(&Val::Header(header.clone()), ty, "emitted", span)?;
                let list = &mut Vec::new();
                self.emitted_headers(&copy, ty, span, list)?;
                self.emitted.append(list);
                Ok(())
            }
            Val::Union(UnionRef::Union(id)) => {
                let members = self.program.unions[id.at()].members.clone();
                let types = self.union_members(ty).unwrap_or_default();
                members
                    .into_iter()
                    .zip(types)
                    .try_for_each(|(header, (_, ty))| self.emit_now(&Val::Header(header.into()), ty, span))
            }
            Val::Stack(id) => {
                let bare = self.bare(ty);
                let Type::Stack(of, _) = *self.types.get(bare) else {
                    return refuse(span, "this is no stack");
                };
                let elements = self.program.stacks[id.at()].elements.clone();
                elements
                    .into_iter()
                    .try_for_each(|header| self.emit_now(&Val::Header(header.into()), of, span))
            }
            Val::UnionStack(id) => {
                let bare = self.bare(ty);
                let Type::Stack(of, _) = *self.types.get(bare) else {
                    return refuse(span, "this is no stack");
                };
                let elements = self.program.union_stacks[id.at()].elements.clone();
                elements
                    .into_iter()
                    .try_for_each(|union| self.emit_now(&Val::Union(UnionRef::Union(union)), of, span))
            }
            Val::Parts(parts) => {
                let types = self.parts_of(ty).unwrap_or_default();
                parts.iter().zip(types).try_for_each(|(part, (_, ty))| self.emit_now(part, ty, span))
            }
            _ => refuse(span, "this cannot be emitted"),
        }
    }

    /// The headers a deparser of nothing but calls emits, in order.
    fn emits(&mut self, instance: &Rc<BlockInstance>, args: Vec<Val>) -> Result<Vec<HeaderId>> {
        let mut calls = Calls::Emits(Vec::new());
        self.calls(instance, args, &Expr::Bool(true), &mut calls)?;
        match calls {
            Calls::Emits(list) => Ok(list),
            Calls::Sums { .. } => Ok(Vec::new()),
        }
    }

    fn calls(
        &mut self,
        instance: &Rc<BlockInstance>,
        args: Vec<Val>,
        when: &Expr,
        calls: &mut Calls,
    ) -> Result<()> {
        let block = &self.t.blocks[instance.block.index()];
        let DeclKind::Control(control) = &block.decl.kind else {
            return refuse(block.decl.span, "this is no control");
        };
        let here = self.here.replace(instance.id);
        let kept = self.subst.clone();
        for (var, ty) in block.vars.iter().zip(&instance.type_args) {
            self.subst.insert(*var, *ty);
        }
        for (param, val) in block.constructor.iter().zip(&instance.args) {
            let symbol = self.symbol_at(param.decl.id, param.decl.span)?;
            self.env.insert(symbol, val.clone());
        }
        for (param, val) in block.params.iter().zip(args) {
            let symbol = self.symbol_at(param.decl.id, param.decl.span)?;
            self.env.insert(symbol, val);
        }
        self.locals(&control.locals)?;
        for stmt in &control.apply.stmts {
            self.call_only(stmt, when, calls)?;
        }
        if !self.code.is_empty() {
            return refuse(
                control.apply.span,
                "a control that does more than call what its architecture offers",
            );
        }
        self.here = here;
        self.subst = kept;
        Ok(())
    }

    fn call_only(&mut self, stmt: &'a ast::Stmt, when: &Expr, calls: &mut Calls) -> Result<()> {
        let span = stmt.span;
        let text = "here only calls of what the architecture offers are lowered";
        match &stmt.kind {
            StmtKind::Empty => Ok(()),
            StmtKind::Block(block) => block.stmts.iter().try_for_each(|s| self.call_only(s, when, calls)),
            StmtKind::If(chain) if matches!(calls, Calls::Sums { .. }) => {
                let mut so_far = when.clone();
                for arm in &chain.arms {
                    let (val, _) = self.value(&arm.condition)?;
                    let condition = self.truth(&val, span)?;
                    self.call_only(&arm.body, &and(so_far.clone(), condition.clone()), calls)?;
                    so_far = and(so_far, not(condition));
                }
                chain.otherwise.as_ref().map_or(Ok(()), |otherwise| self.call_only(otherwise, &so_far, calls))
            }
            StmtKind::Call(expr) => {
                let ExprKind::Call(call) = &expr.kind else { return refuse(span, text) };
                let Some(info) = self.t.calls.get(&expr.id) else {
                    return refuse(span, "this call is not known");
                };
                match (info.callee, &mut *calls) {
                    (Callee::Function(id), Calls::Sums { verify }) => {
                        let verify = *verify;
                        let function = &self.t.functions[id.index()];
                        let args = self.args(&call.args, info, &function.params, span)?;
                        self.sum(&function.name, &args, when, verify, span)
                    }
                    (Callee::Method(_), Calls::Emits(list)) => {
                        let Some(arg) = call.args.first() else { return refuse(span, text) };
                        let (val, ty) = self.value(&arg.value)?;
                        self.emitted_headers(&val, ty, span, list)
                    }
                    // A control of such calls may be made of others.
                    (Callee::ApplyBlock(block), _) => {
                        let ExprKind::Member(base, _) = &call.callee.kind else { return refuse(span, text) };
                        let Val::Object(Object::Block(instance)) = self.value(base)?.0 else {
                            return refuse(span, text);
                        };
                        let params = &self.t.blocks[block.index()].params;
                        let args = self.args(&call.args, info, params, span)?;
                        self.applied_calls(&instance, args, when, calls, span)
                    }
                    _ => refuse(span, text),
                }
            }
            StmtKind::DirectApply { args, .. } if matches!(calls, Calls::Sums { .. }) => {
                let Some(info) = self.t.calls.get(&stmt.id) else { return refuse(span, text) };
                let Callee::ApplyType(block) = info.callee else { return refuse(span, text) };
                let decl = &self.t.blocks[block.index()];
                let args = self.args(args, info, &decl.params, span)?;
                let type_args = info.type_args.iter().map(|&ty| self.closed(ty)).collect();
                let id = self.instance_of(stmt.id, stmt.span)?;
                let instance = BlockInstance { block, type_args, args: Vec::new(), id };
                self.applied_calls(&Rc::new(instance), args, when, calls, span)
            }
            _ => refuse(span, text),
        }
    }

    /// The calls of a control that another one applies.
    fn applied_calls(
        &mut self,
        instance: &Rc<BlockInstance>,
        args: Vec<(Val, TypeId)>,
        when: &Expr,
        calls: &mut Calls,
        span: Span,
    ) -> Result<()> {
        self.depth += 1;
        if self.depth > 200 {
            return refuse(span, "applications nest too deeply");
        }
        let args = args.into_iter().map(|(val, _)| val).collect();
        self.calls(instance, args, when, calls)?;
        self.depth -= 1;
        Ok(())
    }

    fn sum(
        &mut self,
        name: &str,
        args: &[(Val, TypeId)],
        when: &Expr,
        verify: bool,
        span: Span,
    ) -> Result<()> {
        let known = if verify {
            matches!(name, "verify_checksum" | "verify_checksum_with_payload")
        } else {
            matches!(name, "update_checksum" | "update_checksum_with_payload")
        };
        let [condition, data, target, algorithm] = args else {
            return refuse(span, "this call is not lowered here");
        };
        if !known {
            return refuse(span, format!("`{name}` is not lowered here"));
        }
        let condition = and(when.clone(), self.truth(&condition.0, span)?);
        let mut input = Vec::new();
        self.inputs(&data.0, data.1, span, &mut input)?;
        if name.ends_with("_with_payload") {
            input.push(CalcInput::Payload);
        }
        let Val::Field(field) = &target.0 else { return refuse(span, "a sum that is no field") };
        let algorithm = self.algorithm(&algorithm.0, span)?;
        let calculation = self.calculation(algorithm, input);
        let name = self.unique("cksum");
        let condition = (condition != Expr::Bool(true)).then_some(condition);
        let target = field.clone();
        self.program.checksums.push(Checksum {
            name,
            target,
            calculation,
            verify,
            update: !verify,
            condition,
        });
        Ok(())
    }

    pub(crate) fn emitted_headers(
        &mut self,
        val: &Val,
        ty: TypeId,
        span: Span,
        out: &mut Vec<HeaderId>,
    ) -> Result<()> {
        match val {
            Val::Header(HeaderRef::Header(id)) => {
                if self.program.header_type_of(*id).fields.last().is_some_and(|f| f.name == "_padding") {
                    return refuse(span, "a header that is not of whole bytes cannot be emitted");
                }
                out.push(*id);
                Ok(())
            }
            Val::Union(UnionRef::Union(id)) => {
                out.extend(self.program.unions[id.at()].members.iter().copied());
                Ok(())
            }
            Val::Stack(id) => {
                out.extend(self.program.stacks[id.at()].elements.iter().copied());
                Ok(())
            }
            Val::UnionStack(id) => {
                for union in self.program.union_stacks[id.at()].elements.clone() {
                    out.extend(self.program.unions[union.at()].members.iter().copied());
                }
                Ok(())
            }
            Val::Parts(parts) => {
                let types = self.parts_of(ty).unwrap_or_default();
                parts
                    .iter()
                    .zip(types)
                    .try_for_each(|(part, (_, ty))| self.emitted_headers(part, ty, span, out))
            }
            _ => refuse(span, "this cannot be emitted"),
        }
    }
}
