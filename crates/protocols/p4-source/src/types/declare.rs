//! Declarations in their order (specification, chapters 6, 7, 10 and 11): a name is known from its declaration on, inside
//! itself it may not be used.

use super::resolve::Use;
use super::ty::{BlockId, ExternId, FnId, PackageId, Type, TypeId, TypeList, TypeVar};
use super::{
    BlockInfo, BlockKind, Checker, Context, FnInfo, FnKind, PackageInfo, ParamInfo, Place, Stage, SymbolId,
    SymbolKind, code,
};
use crate::ast::{self, Annotation, Decl, DeclKind, Direction, Ident, Param, Prototype, TypeParam};
use crate::diag::Diagnostic;

/// The file of an architecture that declares a name: for suggestions.
pub(super) fn architecture_of(name: &str) -> Option<&'static str> {
    let core = ["packet_in", "packet_out", "NoAction", "exact", "ternary", "lpm", "verify", "static_assert"];
    let v1model = [
        "standard_metadata_t",
        "mark_to_drop",
        "V1Switch",
        "counter",
        "direct_counter",
        "meter",
        "direct_meter",
        "register",
        "action_profile",
        "action_selector",
        "CounterType",
        "MeterType",
        "HashAlgorithm",
        "hash",
        "digest",
        "random",
        "clone",
        "truncate",
        "log_msg",
        "verify_checksum",
        "update_checksum",
        "clone_preserving_field_list",
        "resubmit_preserving_field_list",
        "recirculate_preserving_field_list",
        "range",
        "optional",
        "selector",
    ];
    let psa = [
        "PSA_Switch",
        "IngressPipeline",
        "EgressPipeline",
        "PacketReplicationEngine",
        "BufferingQueueingEngine",
    ];
    if core.contains(&name) {
        Some("core.p4")
    } else if v1model.contains(&name) {
        Some("v1model.p4")
    } else if psa.contains(&name) || name.starts_with("psa_") || name.starts_with("PSA_") {
        Some("psa.p4")
    } else if name.starts_with("pna_") || name.starts_with("PNA_") {
        Some("pna.p4")
    } else if name == "ebpfFilter" {
        Some("ebpf_model.p4")
    } else {
        None
    }
}

pub(super) fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl<'a> Checker<'a> {
    pub(super) fn program(&mut self, program: &'a ast::Program) {
        for decl in &program.decls {
            self.declaration(decl);
        }
        self.check_main();
    }

    /// A declaration, of the top level or local.
    pub(super) fn declaration(&mut self, decl: &'a Decl) {
        self.check_annotations(&decl.annotations);
        match &decl.kind {
            DeclKind::Const(it) => self.constant(decl, it),
            DeclKind::Variable(it) => {
                self.variable(decl, it, SymbolKind::Variable);
            }
            DeclKind::Instance(it) => self.instance(decl, it),
            DeclKind::Extern(it) => self.extern_type(decl, it),
            DeclKind::ExternFunction(it) => {
                self.function_head(decl.id, &decl.annotations, it, FnKind::ExternFunction, None, true);
            }
            DeclKind::Function(it) => self.function(decl, it),
            DeclKind::Action(it) => self.action(decl, it),
            DeclKind::Struct(it) => {
                self.structure(decl, it);
            }
            DeclKind::Enum(it) => {
                self.enumeration(decl, it);
            }
            DeclKind::Error(members) => self.error_members(members),
            DeclKind::MatchKind(members) => self.match_kind_members(members),
            DeclKind::Typedef(it) => self.typedef(decl, it),
            DeclKind::ParserType(it) => {
                let (_, symbol) = self.block_type(decl, it, BlockKind::Parser);
                self.check_same_constructor(symbol);
            }
            DeclKind::ControlType(it) => {
                let (_, symbol) = self.block_type(decl, it, BlockKind::Control);
                self.check_same_constructor(symbol);
            }
            DeclKind::PackageType(it) => self.package(decl, it),
            DeclKind::Parser(it) => self.parser(decl, it),
            DeclKind::Control(it) => self.control(decl, it),
            DeclKind::Table(it) => self.table(decl, it),
            DeclKind::ValueSet(it) => self.value_set(decl, it),
        }
    }

    /// `<T, U>`: new type parameters, declared in the innermost scope.
    pub(super) fn new_vars(&mut self, params: &'a [TypeParam]) -> Vec<TypeVar> {
        params
            .iter()
            .map(|param| {
                let var = TypeVar(index(self.out.vars.len()));
                self.out.vars.push(param.name.name.clone());
                self.declare_var(param, var);
                var
            })
            .collect()
    }

    pub(super) fn declare_var(&mut self, param: &'a TypeParam, var: TypeVar) {
        let ty = self.out.types.intern(Type::Var(var));
        let id = self.declare(&param.name, SymbolKind::TypeParam(var), ty, param.id, &[]);
        self.out.symbols[id.index()].used = true;
    }

    pub(super) fn redeclare_vars(&mut self, params: &'a [TypeParam], vars: &[TypeVar]) {
        for (param, &var) in params.iter().zip(vars) {
            let ty = self.out.types.intern(Type::Var(var));
            self.put(&param.name, SymbolKind::TypeParam(var), ty, param.id, &[]);
        }
    }

    /// Puts a name into the innermost scope again, without looking for another one.
    pub(super) fn put(
        &mut self,
        name: &Ident,
        kind: SymbolKind,
        ty: TypeId,
        node: ast::NodeId,
        annotations: &'a [Annotation],
    ) -> SymbolId {
        let id = SymbolId(index(self.out.symbols.len()));
        self.out.symbols.push(super::Symbol {
            name: name.name.clone(),
            span: name.span,
            kind,
            ty,
            node,
            annotations,
            global: false,
            used: matches!(kind, SymbolKind::TypeParam(_)),
        });
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.name.clone(), vec![id]);
        }
        self.set_type(node, ty);
        id
    }

    /// Parameters: their types, their rules.
    pub(super) fn param_list(&mut self, params: &'a [Param]) -> Vec<ParamInfo<'a>> {
        let mut list: Vec<ParamInfo<'a>> = Vec::with_capacity(params.len());
        for param in params {
            self.check_annotations(&param.annotations);
            let ty = self.value_type(&param.ty);
            let ty = if let Some(why) = self.direction_problem(param.direction, ty) {
                self.report(Diagnostic::error(code::TYPE, param.span, why));
                TypeId::ERROR
            } else {
                ty
            };
            if let Some(other) = list.iter().find(|other| other.name == param.name.name) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        param.name.span,
                        format!("parameter `{}` stands twice", param.name),
                    )
                    .label(other.decl.name.span, "here before"),
                );
            }
            self.set_type(param.id, ty);
            if let Some(default) = &param.default {
                let ty = self.open_vars(ty);
                if self.expect(default, ty) && !self.is_known(default) {
                    let text = format!("the default value of `{}` is no constant", param.name);
                    self.type_error(default.span, text);
                }
            }
            list.push(ParamInfo {
                name: param.name.name.clone(),
                direction: param.direction,
                ty,
                optional: ast::annotation(&param.annotations, "optional").is_some(),
                decl: param,
            });
        }
        list
    }

    /// Parameters that are given a value at run time, or those of an extern's constructor: parsers, controls and packages cannot
    /// be that (section 7.2.11, appendix F).
    pub(super) fn no_blocks(&mut self, stage: Stage, params: &[ParamInfo<'a>]) {
        for param in params {
            if matches!(self.kind(param.ty), Type::Block(..) | Type::Package(..)) {
                let shown = self.show(param.ty);
                let text = format!("parameter `{}` cannot be `{shown}`", param.name);
                self.report_at(stage, Diagnostic::error(code::TYPE, param.decl.name.span, text));
            }
        }
    }

    /// Type parameters become something to infer: of a default value.
    pub(super) fn open_vars(&mut self, ty: TypeId) -> TypeId {
        let mut vars: Vec<TypeVar> = Vec::new();
        self.out.types.replace(ty, &mut |leaf| {
            if let Type::Var(var) = leaf
                && !vars.contains(var)
            {
                vars.push(*var);
            }
            None
        });
        let args = self.fresh_list(&vars);
        self.out.types.substitute(ty, &vars, &args)
    }

    /// Declares parameters in the innermost scope.
    pub(super) fn declare_params(&mut self, params: &[ParamInfo<'a>], constructor: bool) {
        for param in params {
            let kind =
                if constructor { SymbolKind::ConstructorParam } else { SymbolKind::Param(param.direction) };
            let seen = self.scopes.last().is_some_and(|scope| scope.names.contains_key(&param.name));
            let same_list = params.iter().filter(|other| other.name == param.name).count() > 1;
            if seen && same_list {
                continue;
            }
            self.declare(&param.decl.name, kind, param.ty, param.decl.id, &param.decl.annotations);
        }
    }

    /// The prototype of a function; it is declared when `declare` says so.
    pub(super) fn function_head(
        &mut self,
        node: ast::NodeId,
        annotations: &'a [Annotation],
        proto: &'a Prototype,
        kind: FnKind,
        owner: Option<ExternId>,
        declare: bool,
    ) -> FnId {
        self.push_scope();
        let vars = self.new_vars(&proto.type_params);
        let result = match &proto.result {
            None => TypeId::VOID,
            Some(ty) => self.type_as(ty, Use::Result),
        };
        let result = if self.out.types.has_dont_care(result) {
            let span = proto.result.as_ref().map_or(proto.span, |ty| ty.span);
            self.type_error(span, "`_` cannot stand in the type of a result")
        } else if matches!(kind, FnKind::Method | FnKind::AbstractMethod)
            && matches!(result, TypeId::INT | TypeId::STRING)
        {
            let span = proto.result.as_ref().map_or(proto.span, |ty| ty.span);
            let shown = self.show(result);
            self.type_error(span, format!("a method cannot return `{shown}`: only constants are"))
        } else {
            result
        };
        let params = self.param_list(&proto.params);
        self.no_blocks(Stage::Flow, &params);
        for param in &params {
            if self.scopes.last().is_some_and(|scope| scope.names.contains_key(&param.name)) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        param.decl.name.span,
                        format!("`{}` is a type parameter and a parameter", param.name),
                    ),
                );
            }
        }
        self.pop_scope();
        let id = FnId(index(self.out.functions.len()));
        self.out.functions.push(FnInfo {
            kind,
            name: proto.name.name.clone(),
            span: proto.span,
            vars,
            params,
            result,
            owner,
            annotations,
            node,
            global: self.scopes.len() == 1,
        });
        if declare {
            // Which of several a call means is asked where there is one (section 7.2.9.2).
            self.declare(&proto.name, SymbolKind::Function(id), TypeId::CALLABLE, node, annotations);
        }
        id
    }

    pub(super) fn function(&mut self, decl: &'a Decl, it: &'a ast::Function) {
        let id = self.function_head(decl.id, &decl.annotations, &it.proto, FnKind::Function, None, true);
        let symbol = self.lookup(&it.proto.name.name, false).last().copied();
        if let Some(symbol) = symbol {
            self.open.insert(symbol);
        }
        self.function_body(id, &it.proto, &it.body, Place::Function);
        if let Some(symbol) = symbol {
            self.open.remove(&symbol);
        }
    }

    pub(super) fn function_body(
        &mut self,
        id: FnId,
        proto: &'a Prototype,
        body: &'a ast::Block,
        place: Place,
    ) {
        let info = &self.out.functions[id.index()];
        let (vars, params, result, name) =
            (info.vars.clone(), info.params.clone(), info.result, info.name.clone());
        self.push_scope();
        self.redeclare_vars(&proto.type_params, &vars);
        if let Some(scope) = self.scopes.last_mut() {
            scope.params = true;
        }
        self.body_params(&params);
        let context = Context { place, result: Some(result), loops: 0 };
        self.inside(context, |this| this.block(body));
        self.pop_scope();
        self.check_returns(&name, proto.name.span, result, body);
    }

    pub(super) fn body_params(&mut self, params: &[ParamInfo<'a>]) {
        for param in params {
            let kind = SymbolKind::Param(param.direction);
            let clash = self.scopes.last().is_some_and(|scope| scope.names.contains_key(&param.name));
            if clash {
                continue;
            }
            self.declare(&param.decl.name, kind, param.ty, param.decl.id, &param.decl.annotations);
        }
    }

    pub(super) fn action(&mut self, decl: &'a Decl, it: &'a ast::Action) {
        let params = self.param_list(&it.params);
        let mut plain = false;
        for param in &params {
            match param.direction {
                Direction::None => plain = true,
                _ if plain => {
                    self.report(
                        Diagnostic::error(
                            code::TYPE,
                            param.decl.span,
                            format!(
                                "`{}` has a direction: it stands before those that have none",
                                param.name
                            ),
                        )
                        .note("parameters without direction come from the control plane, and last"),
                    );
                }
                _ => {}
            }
            if matches!(self.kind(param.ty), Type::Extern(..)) {
                self.type_error(param.decl.span, "the parameter of an action cannot be an extern object");
            }
            if param.direction == Direction::None && param.ty == TypeId::INT {
                let text = format!("parameter `{}` of an action needs a width", param.name);
                self.report(
                    Diagnostic::error(code::TYPE, param.decl.span, text)
                        .note("an `int` is known when the program is compiled")
                        .help("write one, such as `bit<32>`"),
                );
            }
        }
        self.no_blocks(Stage::Flow, &params);
        let id = FnId(index(self.out.functions.len()));
        self.out.functions.push(FnInfo {
            kind: FnKind::Action,
            name: it.name.name.clone(),
            span: it.name.span,
            vars: Vec::new(),
            params: params.clone(),
            result: TypeId::VOID,
            owner: None,
            annotations: &decl.annotations,
            node: decl.id,
            global: self.scopes.len() == 1,
        });
        let symbol =
            self.declare(&it.name, SymbolKind::Function(id), TypeId::CALLABLE, decl.id, &decl.annotations);
        self.open.insert(symbol);
        self.push_scope();
        if let Some(scope) = self.scopes.last_mut() {
            scope.params = true;
        }
        self.body_params(&params);
        let context = Context { place: Place::Action, result: None, loops: 0 };
        self.inside(context, |this| this.block(&it.body));
        self.pop_scope();
        self.check_ends(&it.body);
        self.open.remove(&symbol);
    }

    /// The head of a parser or control: its type parameters and those of `apply`.
    pub(super) fn block_type(
        &mut self,
        decl: &'a Decl,
        it: &'a ast::BlockType,
        kind: BlockKind,
    ) -> (BlockId, SymbolId) {
        let id = BlockId(index(self.out.blocks.len()));
        self.out.blocks.push(BlockInfo {
            kind,
            name: it.name.name.clone(),
            vars: Vec::new(),
            params: Vec::new(),
            constructor: Vec::new(),
            has_body: false,
            decl,
        });
        let of = self.out.types.intern(Type::Block(id, [].into()));
        let symbol = self.declare(&it.name, SymbolKind::Block(id), of, decl.id, &decl.annotations);
        self.open.insert(symbol);
        self.push_scope();
        let vars = self.new_vars(&it.type_params);
        self.out.blocks[id.index()].vars.clone_from(&vars);
        let args: TypeList = vars.iter().map(|&var| self.out.types.intern(Type::Var(var))).collect();
        let of = self.out.types.intern(Type::Block(id, args));
        self.out.symbols[symbol.index()].ty = of;
        self.set_type(decl.id, of);
        let params = self.param_list(&it.params);
        self.no_blocks(Stage::Types, &params);
        self.out.blocks[id.index()].params = params;
        self.pop_scope();
        self.open.remove(&symbol);
        (id, symbol)
    }

    /// Two parsers, controls or packages of one name differ in the parameters of their constructors.
    pub(super) fn check_same_constructor(&mut self, symbol: SymbolId) {
        let names = |this: &Self, symbol: SymbolId| -> Option<Vec<ast::Name>> {
            let params = match this.symbol(symbol).kind {
                SymbolKind::Block(id) => &this.out.blocks[id.index()].constructor,
                SymbolKind::Package(id) => &this.out.packages[id.index()].params,
                _ => return None,
            };
            Some(params.iter().map(|param| param.name.clone()).collect())
        };
        let mine = names(self, symbol);
        let name = self.symbol(symbol).name.clone();
        let others: Vec<SymbolId> = self.lookup(&name, true).to_vec();
        let Some(&other) = others.iter().find(|&&other| other < symbol && names(self, other) == mine) else {
            return;
        };
        let (span, first) = (self.symbol(symbol).span, self.symbol(other).span);
        self.report_at(
            Stage::List,
            Diagnostic::error(code::DUPLICATE, span, format!("`{name}` is declared twice"))
                .label(first, "declared here before"),
        );
    }

    pub(super) fn package(&mut self, decl: &'a Decl, it: &'a ast::BlockType) {
        let id = PackageId(index(self.out.packages.len()));
        self.out.packages.push(PackageInfo {
            name: it.name.name.clone(),
            vars: Vec::new(),
            params: Vec::new(),
            decl,
        });
        let of = self.out.types.intern(Type::Package(id, [].into()));
        let symbol = self.declare(&it.name, SymbolKind::Package(id), of, decl.id, &decl.annotations);
        self.open.insert(symbol);
        self.push_scope();
        let vars = self.new_vars(&it.type_params);
        self.out.packages[id.index()].vars.clone_from(&vars);
        let args: TypeList = vars.iter().map(|&var| self.out.types.intern(Type::Var(var))).collect();
        let of = self.out.types.intern(Type::Package(id, args));
        self.out.symbols[symbol.index()].ty = of;
        self.set_type(decl.id, of);
        let params = self.param_list(&it.params);
        self.out.packages[id.index()].params = params;
        self.pop_scope();
        self.open.remove(&symbol);
        self.check_same_constructor(symbol);
    }

    pub(super) fn constant(&mut self, decl: &'a Decl, it: &'a ast::Const) {
        let mut ty = self.value_type(&it.ty);
        if self.out.types.has_dont_care(ty) {
            ty = self.type_error(it.ty.span, "`_` cannot stand in the type of a constant");
        }
        if self.is_object(ty) {
            let shown = self.show(ty);
            ty = self.type_error(it.ty.span, format!("a constant cannot be `{shown}`"));
        }
        let good = self.at_site(it.name.span, |checker| checker.expect(&it.value, ty));
        if good && ty != TypeId::ERROR {
            match self.fold(&it.value) {
                Some(value) => {
                    self.out.constants.insert(decl.id, value);
                }
                None if self.is_known(&it.value) => {}
                None => {
                    self.report(
                        Diagnostic::error(
                            code::TYPE,
                            it.value.span,
                            format!("the value of `{}` is no constant", it.name),
                        )
                        .here("not known when the program is compiled"),
                    );
                }
            }
        }
        self.declare(&it.name, SymbolKind::Const, ty, decl.id, &decl.annotations);
    }

    pub(super) fn variable(&mut self, decl: &'a Decl, it: &'a ast::Variable, kind: SymbolKind) -> SymbolId {
        let mut ty = self.value_type(&it.ty);
        if self.out.types.has_dont_care(ty) {
            ty = self.type_error(it.ty.span, "`_` cannot stand in the type of a variable");
        }
        // The initializer first: what it says of itself is more to the point.
        if let Some(init) = &it.init {
            let ok = self.variable_ok(ty);
            if ok {
                self.at_site(it.name.span, |checker| checker.expect(init, ty));
            } else {
                let before = self.problems.len();
                self.expr(init);
                if self.problems[before..]
                    .iter()
                    .any(|(_, problem)| problem.severity == crate::diag::Severity::Error)
                {
                    ty = TypeId::ERROR;
                }
            }
        }
        if !self.variable_ok(ty) {
            let shown = self.show(ty);
            let mut problem =
                Diagnostic::error(code::TYPE, it.name.span, format!("a variable cannot be `{shown}`"));
            if self.is_object(ty) {
                problem = problem
                    .help(format!("an instance is declared with parentheses: `{shown}(…) {};`", it.name));
            }
            if ty == TypeId::INT {
                problem = problem.help("give it a width, such as `bit<32>`, or `int<32>` with a sign");
            }
            self.report(problem);
            ty = TypeId::ERROR;
        }
        self.declare(&it.name, kind, ty, decl.id, &decl.annotations)
    }

    pub(super) fn value_set(&mut self, decl: &'a Decl, it: &'a ast::ValueSet) {
        let mut ty = self.value_type(&it.ty);
        let plain = self.plain(ty);
        let ok = match self.kind(plain).clone() {
            Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::Enum(_) | Type::ErrorCode | Type::Error => {
                true
            }
            Type::Tuple(parts) => parts.iter().all(|&part| !matches!(self.kind(part), Type::Int | Type::Str)),
            Type::Struct(..) => !self.is_header(plain) && !self.is_union(plain),
            _ => false,
        };
        if !ok {
            let shown = self.show(ty);
            ty = self.type_error(it.ty.span, format!("a value set cannot hold `{shown}`"));
        }
        let size = self.expr(&it.size);
        let size = self.resolve(size);
        if !matches!(self.out.types.get(size), Type::Int | Type::Bit(_) | Type::Signed(_) | Type::Error) {
            let shown = self.show(size);
            self.type_error(it.size.span, format!("the size of a value set is a number, not `{shown}`"));
        } else if !self.is_known(&it.size) {
            self.report(Diagnostic::error(
                code::EXPECTED,
                it.size.span,
                "the size of a value set is not known when the program is compiled",
            ));
        } else {
            self.fold(&it.size);
        }
        self.declare(&it.name, SymbolKind::ValueSet, ty, decl.id, &decl.annotations);
    }
}
