//! Calls: bodies are put in where they are called, arguments copied in and out (section 6.8).

use std::collections::HashSet;
use std::rc::Rc;

use barewire_p4::ir::{Arch, Expr, FieldRef, HeaderId, HeaderRef, StackId, Stmt, UnionId, UnionRef};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, DeclKind, Direction, ExprKind, NodeId};
use barewire_p4_source::instances::external_name;
use barewire_p4_source::types::ty::{BlockId, FnId, Type, TypeId};
use barewire_p4_source::types::{ArgSource, BlockKind, CallInfo, Callee, FnKind, ParamInfo, SymbolId};

use super::code::Ins;
use super::storage::SCALARS;
use super::{BlockInstance, Frame, Lower, Mode, Object, Result, Val, refuse};

impl<'a> Lower<'a> {
    pub(crate) fn call(&mut self, expr: &'a ast::Expr, call: &'a ast::Call) -> Result<Val> {
        let before = self.after.len();
        let result = self.call_now(expr, call)?;
        self.copy_back(before, expr.span)?;
        Ok(result)
    }

    /// Gives arguments that were copied while later ones were evaluated what the call made of the copies.
    pub(crate) fn copy_back(&mut self, from: usize, span: Span) -> Result<()> {
        for (to, copy, ty) in self.after.split_off(from) {
            self.assign(&to, &copy, ty, span)?;
        }
        Ok(())
    }

    fn call_now(&mut self, expr: &'a ast::Expr, call: &'a ast::Call) -> Result<Val> {
        let span = expr.span;
        let Some(info) = self.t.calls.get(&expr.id) else { return refuse(span, "this call is not known") };
        match info.callee {
            Callee::IsValid => Ok(Val::Truth(match self.object(call)?.0 {
                Val::Header(header) => Expr::Valid(header),
                Val::HeaderParts(_) => Expr::Bool(true),
                Val::Invalid => Expr::Bool(false),
                Val::Union(union) => Expr::UnionValid(union),
                _ => return refuse(span, "`isValid` of this is not lowered"),
            })),
            Callee::SetValid | Callee::SetInvalid => {
                let Val::Header(header) = self.object(call)?.0 else {
                    return refuse(span, "this is not lowered as a header");
                };
                let valid = info.callee == Callee::SetValid;
                self.stmt_out(if valid { Stmt::SetValid(header) } else { Stmt::SetInvalid(header) });
                Ok(Val::Nothing)
            }
            Callee::PushFront | Callee::PopFront => {
                let (stack, _) = self.object(call)?;
                let Some(arg) = call.args.first() else { return refuse(span, "how many?") };
                let count = self.number(&arg.value)?;
                let push = info.callee == Callee::PushFront;
                self.stmt_out(match (stack, push) {
                    (Val::Stack(stack), true) => Stmt::Push { stack, count },
                    (Val::Stack(stack), false) => Stmt::Pop { stack, count },
                    (Val::UnionStack(stack), true) => Stmt::PushUnions { stack, count },
                    (Val::UnionStack(stack), false) => Stmt::PopUnions { stack, count },
                    _ => return refuse(span, "this is not lowered as a stack"),
                });
                Ok(Val::Nothing)
            }
            Callee::Size => refuse(span, "this size is not known when the program is compiled"),
            Callee::ApplyTable(table) => {
                let next = self.label();
                self.table_hit(table, next, next, span)?;
                self.emit(Ins::Label(next));
                Ok(Val::Nothing)
            }
            Callee::ApplyBlock(block) => {
                let Val::Object(Object::Block(instance)) = self.object(call)?.0 else {
                    return refuse(span, "this instance is not lowered");
                };
                let args = self.args(&call.args, info, &self.t.blocks[block.index()].params, span)?;
                self.apply_block(&instance, args, span)?;
                Ok(Val::Nothing)
            }
            Callee::Function(function) => self.call_function(function, info, &call.args, span),
            Callee::Method(method) => {
                let args = self.args(&call.args, info, &self.t.functions[method.index()].params, span)?;
                let object = match &call.callee.kind {
                    ExprKind::Member(base, _) => self.value(base)?.0,
                    _ => return refuse(span, "a method without its object is not lowered"),
                };
                let type_arg = match info.type_args.first() {
                    Some(&ty) => self.closed(ty),
                    None => TypeId::VOID,
                };
                if self.t.functions[method.index()].kind == FnKind::AbstractMethod {
                    return self.own_method(method, &object, args, span);
                }
                let result = self.ty(expr.id, span).unwrap_or(TypeId::VOID);
                self.method(method, &object, args, (type_arg, result), span)
            }
            Callee::Constructor(_) | Callee::BlockConstructor(_) | Callee::PackageConstructor(_) => {
                self.construct(info, &call.args, None, expr.id, span)
            }
            Callee::ApplyType(_) => refuse(span, "an application that is no statement"),
        }
    }

    /// What is in front of the dot.
    fn object(&mut self, call: &'a ast::Call) -> Result<(Val, TypeId)> {
        match &call.callee.kind {
            ExprKind::Member(base, _) => self.value(base),
            _ => refuse(call.callee.span, "a method without its object"),
        }
    }

    /// Arguments by parameter, evaluated in the order of the call.
    pub(crate) fn args(
        &mut self,
        args: &'a [ast::Arg],
        info: &'a CallInfo,
        params: &'a [ParamInfo<'a>],
        span: Span,
    ) -> Result<Vec<(Val, TypeId)>> {
        let exprs: Vec<&ast::Expr> = args.iter().map(|arg| &arg.value).collect();
        // Places stay places; values that a later argument could change are kept, those of `inout` parameters too.
        let mut given: Vec<(Val, TypeId)> = Vec::new();
        let direction = |source: usize| {
            let mut pairs = info.args.iter().zip(params);
            let found = pairs.find(|(arg, _)| **arg == ArgSource::Arg(source as u32));
            found.map_or(Direction::None, |(_, param)| param.direction)
        };
        let mut kept = vec![false; exprs.len()];
        for (at, expr) in exprs.iter().enumerate() {
            if at > 0 && self.acts(expr) {
                for (source, before) in given.iter_mut().enumerate() {
                    let span = exprs[source].span;
                    match direction(source) {
                        Direction::Out => {}
                        Direction::InOut if kept[source] => {}
                        Direction::InOut => {
                            let copy = self.copied(&before.0, before.1, "tmp", span)?;
                            let place = std::mem::replace(&mut before.0, copy.clone());
                            self.after.push((place, copy, before.1));
                            kept[source] = true;
                        }
                        _ => before.0 = self.saved(&before.0, before.1, "tmp", span)?,
                    }
                }
            }
            let (val, ty) = self.value(expr)?;
            let val = match direction(at) {
                Direction::Out | Direction::InOut => self.pinned(val, expr.span)?,
                _ => val,
            };
            given.push((val, ty));
        }
        let mut out = Vec::new();
        for (source, param) in info.args.iter().zip(params) {
            out.push(match source {
                ArgSource::Arg(at) => match given.get(*at as usize) {
                    Some(arg) => arg.clone(),
                    None => return refuse(span, "an argument is missing"),
                },
                ArgSource::Default => match &param.decl.default {
                    Some(default) => self.value(default)?,
                    None => return refuse(span, "an argument is missing"),
                },
                ArgSource::Missing | ArgSource::ControlPlane => (Val::Nothing, TypeId::VOID),
            });
        }
        Ok(out)
    }

    /// The place of an argument that was copied before later ones were evaluated: the call itself copies out to it, in its turn.
    fn place_of(&mut self, arg: &Val) -> Option<Val> {
        let at = self.after.iter().rposition(|(_, copy, _)| copy == arg)?;
        Some(self.after.remove(at).0)
    }

    fn call_function(
        &mut self,
        id: FnId,
        info: &'a CallInfo,
        args: &'a [ast::Arg],
        span: Span,
    ) -> Result<Val> {
        let function = &self.t.functions[id.index()];
        let args = self.args(args, info, &function.params, span)?;
        match function.kind {
            FnKind::ExternFunction => self.extern_function(id, args, span),
            FnKind::Function | FnKind::Action => {
                let types: Vec<TypeId> = info.type_args.iter().map(|&ty| self.closed(ty)).collect();
                let kept = self.subst.clone();
                for (var, ty) in function.vars.iter().zip(types) {
                    self.subst.insert(*var, ty);
                }
                let result = match (function.kind, self.mode) {
                    (FnKind::Action, Mode::Pipeline) => self.direct_action(id, args, span),
                    _ => self.inline(id, args, span),
                };
                self.subst = kept;
                result
            }
            _ => refuse(span, "this call is not lowered"),
        }
    }

    /// An action that a control calls itself: under its own name, as the reference compiler has it.
    fn direct_action(&mut self, id: FnId, args: Vec<(Val, TypeId)>, span: Span) -> Result<Val> {
        let function = &self.t.functions[id.index()];
        let code = std::mem::take(&mut self.code);
        self.mode = Mode::Action;
        self.inline(id, args, span)?;
        self.mode = Mode::Pipeline;
        let made = std::mem::replace(&mut self.code, code);
        self.check_once(&made)?;
        let body = super::code::body(&made, span)?;
        if !body.is_empty() {
            let action = self.named_action(id, Vec::new(), body);
            let node = self.unique(&format!("tbl_{}", function.name));
            self.emit(Ins::Call(action, node));
        }
        Ok(Val::Nothing)
    }

    /// A function or action in place.
    pub(crate) fn inline(&mut self, id: FnId, args: Vec<(Val, TypeId)>, span: Span) -> Result<Val> {
        let function = &self.t.functions[id.index()];
        let body = match self.decls.get(&function.node).map(|decl| &decl.kind) {
            Some(DeclKind::Function(f)) => &f.body,
            Some(DeclKind::Action(a)) => &a.body,
            _ => return refuse(span, format!("the body of `{}` is not known", function.name)),
        };
        self.bounded(span)?;
        self.depth += 1;
        if self.depth > 200 {
            return refuse(span, "calls nest too deeply");
        }
        let mut copies = Vec::new();
        let mut bound = Vec::new();
        for (param, (arg, from)) in function.params.iter().zip(args) {
            let symbol = self.symbol_at(param.decl.id, span)?;
            let ty = self.closed(param.ty);
            let value = match param.direction {
                Direction::None | Direction::In => {
                    let arg = if arg == Val::Nothing { arg } else { self.cast(arg, from, ty, span)? };
                    self.saved(&arg, ty, &param.name, span)?
                }
                Direction::InOut => {
                    let place = self.storage(&param.name, ty, span)?;
                    self.assign(&place, &arg, ty, span)?;
                    copies.push((self.place_of(&arg).unwrap_or(arg), place.clone(), ty));
                    place
                }
                Direction::Out => {
                    let place = self.storage(&param.name, ty, span)?;
                    self.forget(&place, ty, span)?;
                    copies.push((arg, place.clone(), ty));
                    place
                }
            };
            bound.push((symbol, value));
        }
        self.env.extend(bound);
        let result = self.closed(function.result);
        let result = match self.types.get(result) {
            Type::Void | Type::Callable => None,
            _ => Some((self.storage("ret", result, span)?, result)),
        };
        let leave = self.label();
        self.frames.push(Frame { leave, result: result.clone(), copies });
        let loops = std::mem::take(&mut self.loops);
        self.block(&body.stmts)?;
        self.loops = loops;
        self.emit(Ins::Label(leave));
        let copies = self.frames.pop().map(|frame| frame.copies).unwrap_or_default();
        for (to, from, ty) in &copies {
            self.assign(to, from, *ty, span)?;
        }
        self.depth -= 1;
        Ok(result.map_or(Val::Nothing, |(val, _)| val))
    }

    // ---- instances ------------------------------------------------------------------------------------------------

    /// An instance by its constructor; without a name it is named by its type.
    pub(crate) fn construct(
        &mut self,
        info: &'a CallInfo,
        args: &'a [ast::Arg],
        name: Option<(&str, &'a [ast::Annotation])>,
        node: NodeId,
        span: Span,
    ) -> Result<Val> {
        let type_args: Vec<TypeId> = info.type_args.iter().map(|&ty| self.closed(ty)).collect();
        match info.callee {
            Callee::BlockConstructor(block) => {
                let decl = &self.t.blocks[block.index()];
                let args = self.args(args, info, &decl.constructor, span)?;
                let args = args.into_iter().map(|(val, _)| val).collect();
                let id = self.instance_of(node, span)?;
                Ok(Val::Object(Object::Block(Rc::new(BlockInstance { block, type_args, args, id }))))
            }
            Callee::Constructor(constructor) => {
                let args = self.args(args, info, &self.t.functions[constructor.index()].params, span)?;
                let full = match name {
                    Some((name, annotations)) => self.control_name(name, annotations),
                    None => {
                        let name = self.t.functions[constructor.index()].name.to_string();
                        let full = self.control_name(&name, &[]);
                        self.unique(&full)
                    }
                };
                self.extern_instance(constructor, full, args, &type_args, span)
            }
            Callee::PackageConstructor(package) => {
                let args = self.args(args, info, &self.t.packages[package.index()].params, span)?;
                let parts: Vec<Val> = args.into_iter().map(|(val, _)| val).collect();
                Ok(Val::Object(Object::Package(parts.into())))
            }
            _ => refuse(span, "this instance is not lowered"),
        }
    }

    pub(crate) fn instance(&mut self, decl: &'a ast::Decl, instance: &'a ast::Instance) -> Result<Val> {
        let span = decl.span;
        // The program itself implements its methods; what is called beside these is the target's, which has no such thing.
        let implements = |body: &Vec<ast::Decl>| body.iter().any(|d| matches!(d.kind, DeclKind::Function(_)));
        if instance.body.as_ref().is_some_and(implements) {
            return Ok(Val::Object(Object::Own(decl.id)));
        }
        let Some(info) = self.t.calls.get(&decl.id) else {
            return refuse(span, "this instance is not known");
        };
        let name = Some((instance.name.as_str(), &decl.annotations[..]));
        self.construct(info, &instance.args, name, decl.id, span)
    }

    /// The instances inside one that implements methods.
    fn inner_instances(&mut self, decl: &'a ast::Decl, instance: &'a ast::Instance) -> Result<()> {
        let around = external_name(&decl.annotations, instance.name.as_str());
        for decl in instance.body.iter().flatten() {
            let DeclKind::Instance(inner) = &decl.kind else { continue };
            let symbol = self.symbol_at(decl.id, decl.span)?;
            let key = (self.here, symbol);
            let val = match self.owned.get(&key) {
                Some(val) => val.clone(),
                None => {
                    let Some(info) = self.t.calls.get(&decl.id) else {
                        return refuse(decl.span, "this instance is not known");
                    };
                    let own = external_name(&decl.annotations, inner.name.as_str());
                    let name = if own.starts_with('.') { own } else { format!("{around}.{own}") };
                    let val = self.construct(info, &inner.args, Some((&name, &[])), decl.id, decl.span)?;
                    self.owned.insert(key, val.clone());
                    val
                }
            };
            self.env.insert(symbol, val);
        }
        Ok(())
    }

    /// A call of an abstract method: what the instance says of it, in place.
    fn own_method(
        &mut self,
        method: FnId,
        object: &Val,
        args: Vec<(Val, TypeId)>,
        span: Span,
    ) -> Result<Val> {
        let wanted = &self.t.functions[method.index()];
        let Val::Object(Object::Own(node)) = object else {
            return refuse(span, format!("the method `{}` has no body here", wanted.name));
        };
        let Some(DeclKind::Instance(instance)) = self.decls.get(node).map(|decl| &decl.kind) else {
            return refuse(span, "this instance is not known");
        };
        // What is optional may be left out.
        let bodies = instance.body.iter().flatten().filter(|decl| match &decl.kind {
            DeclKind::Function(f) => f.proto.name.name == wanted.name,
            _ => false,
        });
        let bodies: Vec<NodeId> = bodies.map(|decl| decl.id).collect();
        let functions = self.t.functions.iter().enumerate();
        let found = functions
            .filter(|(_, f)| bodies.contains(&f.node) && f.params.len() <= wanted.params.len())
            .max_by_key(|(_, f)| f.params.len())
            .map(|(at, f)| (FnId(at as u32), f.params.len()));
        let Some((id, count)) = found else {
            return refuse(span, format!("the method `{}` has no body here", wanted.name));
        };
        self.this.push(object.clone());
        let result = self.inline(id, args.into_iter().take(count).collect(), span);
        self.this.pop();
        result
    }

    /// An instance of the top level, made when it is first used.
    pub(crate) fn global_instance(&mut self, id: SymbolId, span: Span) -> Result<Val> {
        let Some(decl) = self.decls.get(&self.t.symbol(id).node).copied() else {
            return refuse(span, "this instance is not known");
        };
        let DeclKind::Instance(instance) = &decl.kind else { return refuse(span, "this is no instance") };
        let here = self.here.take();
        let val = self.instance(decl, instance).and_then(|val| {
            self.inner_instances(decl, instance)?;
            Ok(val)
        });
        self.here = here;
        let val = val?;
        self.env.insert(id, val.clone());
        Ok(val)
    }

    /// Variables and instances that a parser or control declares.
    pub(crate) fn locals(&mut self, decls: &'a [ast::Decl]) -> Result<()> {
        for decl in decls {
            match &decl.kind {
                DeclKind::Variable(variable) => {
                    let symbol = self.symbol_at(decl.id, decl.span)?;
                    let ty = self.closed(self.t.symbol(symbol).ty);
                    let key = (self.here, symbol);
                    let place = match self.owned.get(&key) {
                        Some(place) => place.clone(),
                        None => {
                            let place = self.storage(&variable.name.name.clone(), ty, decl.span)?;
                            self.owned.insert(key, place.clone());
                            place
                        }
                    };
                    self.env.insert(symbol, place.clone());
                    self.initial(&place, variable, ty, decl.span)?;
                }
                DeclKind::Instance(instance) => {
                    let symbol = self.symbol_at(decl.id, decl.span)?;
                    let key = (self.here, symbol);
                    let val = match self.owned.get(&key) {
                        Some(val) => val.clone(),
                        None => {
                            let val = self.instance(decl, instance)?;
                            self.owned.insert(key, val.clone());
                            val
                        }
                    };
                    self.env.insert(symbol, val);
                    self.inner_instances(decl, instance)?;
                }
                DeclKind::ValueSet(set) => self.value_set(decl, set)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The first value of a variable.
    pub(crate) fn initial(
        &mut self,
        place: &Val,
        variable: &'a ast::Variable,
        ty: TypeId,
        span: Span,
    ) -> Result<()> {
        match &variable.init {
            Some(init) => {
                let (val, from) = self.value(init)?;
                let val = self.cast(val, from, ty, span)?;
                self.assign(place, &val, ty, span)
            }
            None => self.forget(place, ty, span),
        }
    }

    // ---- parsers and controls -------------------------------------------------------------------------------------

    pub(crate) fn apply_block(
        &mut self,
        instance: &Rc<BlockInstance>,
        args: Vec<(Val, TypeId)>,
        span: Span,
    ) -> Result<()> {
        let block = &self.t.blocks[instance.block.index()];
        self.bounded(span)?;
        self.depth += 1;
        if self.depth > 200 {
            return refuse(span, "applications nest too deeply");
        }
        let here = self.here.replace(instance.id);
        let kept = self.subst.clone();
        for (var, ty) in block.vars.iter().zip(&instance.type_args) {
            self.subst.insert(*var, *ty);
        }
        for (param, val) in block.constructor.iter().zip(&instance.args) {
            let symbol = self.symbol_at(param.decl.id, span)?;
            self.env.insert(symbol, val.clone());
        }
        let copies = self.bind_params(instance.block, args, span)?;
        let again =
            block.kind == BlockKind::Control && self.applied.get(&instance.block).is_some_and(|n| *n > 1);
        self.again += u32::from(again);
        let leave = self.label();
        self.frames.push(Frame { leave, result: None, copies });
        let loops = std::mem::take(&mut self.loops);
        match &block.decl.kind {
            DeclKind::Control(control) if block.kind == BlockKind::Control => {
                self.locals(&control.locals)?;
                if self.mode == Mode::Deparser && self.frames.len() == 1 {
                    self.deparser_block(&control.apply.stmts)?;
                } else {
                    self.block(&control.apply.stmts)?;
                }
            }
            DeclKind::Parser(parser) => {
                self.locals(&parser.locals)?;
                self.parser_body(parser, leave)?;
            }
            _ => return refuse(span, format!("`{}` has no body", block.name)),
        }
        self.loops = loops;
        self.emit(Ins::Label(leave));
        let copies = self.frames.pop().map(|frame| frame.copies).unwrap_or_default();
        for (to, from, ty) in &copies {
            self.assign(to, from, *ty, span)?;
        }
        self.again -= u32::from(again);
        self.here = here;
        self.subst = kept;
        self.depth -= 1;
        Ok(())
    }

    /// Parameters of `apply`: arguments themselves where nothing can tell the difference, else copies.
    fn bind_params(
        &mut self,
        id: BlockId,
        args: Vec<(Val, TypeId)>,
        span: Span,
    ) -> Result<Vec<(Val, Val, TypeId)>> {
        let block = &self.t.blocks[id.index()];
        // When a packet arrives at v1model's parser, all headers are invalid and all fields zero.
        let arrives =
            self.frames.is_empty() && self.mode == Mode::Parser && self.program.arch == Arch::V1Model;
        // A loop that is written out applies it in each round, to what may be others each time.
        let once = self.applied.get(&id).copied().unwrap_or(0) <= 1 && self.written_out == 0
            || block.kind == BlockKind::Parser;
        let mut seen: HashSet<Leaf> = HashSet::new();
        let mut clash = false;
        for (val, _) in &args {
            let mut own = HashSet::new();
            self.leaves(val, &mut own);
            clash |= !seen.is_disjoint(&own);
            seen.extend(own);
        }
        let mut copies = Vec::new();
        let mut bound = Vec::new();
        for (param, (arg, from)) in block.params.iter().zip(args) {
            let symbol = self.symbol_at(param.decl.id, span)?;
            let ty = self.closed(param.ty);
            let place = matches!(
                arg,
                Val::Field(_)
                    | Val::Parts(_)
                    | Val::Header(_)
                    | Val::Union(UnionRef::Union(_))
                    | Val::Stack(_)
                    | Val::UnionStack(_)
            ) && is_place(&arg);
            let known = matches!(arg, Val::Nothing | Val::Object(_) | Val::Text(_));
            // A number that is known here may be another one elsewhere: tables and their actions are made once.
            let value = if known || once && Self::is_fixed(&arg) {
                if param.direction == Direction::None || known {
                    arg
                } else {
                    self.cast(arg, from, ty, span)?
                }
            } else if once
                && !clash
                && place
                // What is no variable may be kept elsewhere the next time that the control around is lowered.
                && (self.again == 0 || param.direction != Direction::In)
                && !self.after.iter().any(|(_, copy, _)| *copy == arg)
            {
                if param.direction == Direction::Out && !arrives {
                    self.forget(&arg, ty, span)?;
                }
                arg
            } else {
                let key = (self.here, symbol);
                let storage = match self.owned.get(&key) {
                    Some(storage) => storage.clone(),
                    None => {
                        let storage = self.storage(&param.name, ty, span)?;
                        self.owned.insert(key, storage.clone());
                        storage
                    }
                };
                if param.direction == Direction::Out {
                    self.forget(&storage, ty, span)?;
                } else {
                    let arg = self.cast(arg.clone(), from, ty, span)?;
                    self.assign(&storage, &arg, ty, span)?;
                }
                if matches!(param.direction, Direction::Out | Direction::InOut) {
                    copies.push((self.place_of(&arg).unwrap_or(arg), storage.clone(), ty));
                }
                storage
            };
            bound.push((symbol, value));
        }
        self.env.extend(bound);
        Ok(copies)
    }
}

fn is_place(val: &Val) -> bool {
    match val {
        Val::Field(field) => field.fixed().is_some(),
        Val::Header(header) => matches!(header, barewire_p4::ir::HeaderRef::Header(_)),
        Val::Parts(parts) => parts.iter().all(is_place),
        Val::Union(UnionRef::Union(_)) | Val::Stack(_) | Val::UnionStack(_) => true,
        _ => false,
    }
}

/// Something that a value is made of. The usual ones are numbers: calls with structs of hundreds of fields compare them all.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum Leaf {
    Scalar(u32),
    Header(HeaderId),
}

impl Lower<'_> {
    /// What a value is made of, to see whether two share something: numbers, and headers as a whole. An element that the
    /// packet tells may be any of its stack.
    pub(crate) fn leaves(&self, val: &Val, out: &mut HashSet<Leaf>) {
        match val {
            Val::Parts(parts) | Val::HeaderParts(parts) => {
                parts.iter().for_each(|part| self.leaves(part, out))
            }
            Val::Slice { base, .. } | Val::Bits { base, .. } => self.leaves(base, out),
            Val::Element { elements, .. } => elements.iter().for_each(|element| self.leaves(element, out)),
            Val::Field(FieldRef { header: HeaderRef::Header(SCALARS), field }) => {
                out.insert(Leaf::Scalar(*field));
            }
            Val::Field(field) => self.header_leaves(&field.header, out),
            Val::Header(header) => self.header_leaves(header, out),
            Val::Union(UnionRef::Union(id)) => self.union_leaves(*id, out),
            Val::Union(UnionRef::Element(stack, _)) | Val::UnionStack(stack) => {
                let unions = &self.program.union_stacks[stack.at()].elements;
                unions.iter().for_each(|union| self.union_leaves(*union, out));
            }
            Val::Stack(stack) => self.stack_leaves(*stack, out),
            other => Self::reads(other, &mut |field| self.leaves(&Val::Field(field.clone()), out)),
        }
    }

    fn header_leaves(&self, header: &HeaderRef, out: &mut HashSet<Leaf>) {
        match header {
            HeaderRef::Header(id) => match self.program.headers[id.at()].union {
                // To make one member valid makes the others invalid.
                Some(union) => self.union_leaves(union, out),
                None => {
                    out.insert(Leaf::Header(*id));
                }
            },
            HeaderRef::StackNext(stack) | HeaderRef::StackLast(stack) | HeaderRef::StackElement(stack, _) => {
                self.stack_leaves(*stack, out);
            }
            HeaderRef::UnionStackNext(stack, _)
            | HeaderRef::UnionStackLast(stack, _)
            | HeaderRef::UnionStackElement(stack, ..) => self.leaves(&Val::UnionStack(*stack), out),
        }
    }

    fn stack_leaves(&self, stack: StackId, out: &mut HashSet<Leaf>) {
        out.extend(self.program.stacks[stack.at()].elements.iter().copied().map(Leaf::Header));
    }

    fn union_leaves(&self, union: UnionId, out: &mut HashSet<Leaf>) {
        out.extend(self.program.unions[union.at()].members.iter().copied().map(Leaf::Header));
    }
}
