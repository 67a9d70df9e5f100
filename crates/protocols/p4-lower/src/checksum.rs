//! The controls that hold nothing but calls: checks and updates of sums, and the deparser.

use std::rc::Rc;

use barewire_p4::ir::{CalcInput, Checksum, Expr, HeaderId, HeaderRef, UnionRef};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, DeclKind, ExprKind, StmtKind};
use barewire_p4_source::types::Callee;
use barewire_p4_source::types::ty::TypeId;

use super::ops::{and, not};
use super::{BlockInstance, Lower, Result, Val, refuse};

/// What a control of calls makes.
enum Calls {
    Sums { verify: bool },
    Emits(Vec<HeaderId>),
}

impl<'a> Lower<'a> {
    /// A control that verifies or updates sums.
    pub(crate) fn sums(&mut self, instance: &Rc<BlockInstance>, args: Vec<Val>, verify: bool) -> Result<()> {
        self.calls(instance, args, &mut Calls::Sums { verify })
    }

    /// The headers a deparser emits, in order.
    pub(crate) fn emits(&mut self, instance: &Rc<BlockInstance>, args: Vec<Val>) -> Result<Vec<HeaderId>> {
        let mut calls = Calls::Emits(Vec::new());
        self.calls(instance, args, &mut calls)?;
        match calls {
            Calls::Emits(list) => Ok(list),
            Calls::Sums { .. } => Ok(Vec::new()),
        }
    }

    fn calls(&mut self, instance: &Rc<BlockInstance>, args: Vec<Val>, calls: &mut Calls) -> Result<()> {
        let block = &self.t.blocks[instance.block.index()];
        let DeclKind::Control(control) = &block.decl.kind else {
            return refuse(block.decl.span, "this is no control");
        };
        let path = std::mem::replace(&mut self.path, Rc::clone(&instance.path));
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
            self.call_only(stmt, &Expr::Bool(true), calls)?;
        }
        if !self.code.is_empty() {
            return refuse(
                control.apply.span,
                "a control that does more than call what its architecture offers",
            );
        }
        self.path = path;
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
                        self.emitted(&val, ty, span, list)
                    }
                    _ => refuse(span, text),
                }
            }
            _ => refuse(span, text),
        }
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

    fn emitted(&mut self, val: &Val, ty: TypeId, span: Span, out: &mut Vec<HeaderId>) -> Result<()> {
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
                parts.iter().zip(types).try_for_each(|(part, (_, ty))| self.emitted(part, ty, span, out))
            }
            _ => refuse(span, "this cannot be emitted"),
        }
    }
}
