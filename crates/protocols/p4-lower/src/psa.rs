//! The Portable Switch Architecture: two pipelines, each with a parser and a deparser of its own; and its externs.

use std::rc::Rc;

use barewire_p4::ir::{
    Arch, BinaryOp, CalcInput, ChecksumUnitId, Deparser, Expr, HashAlgorithm, HashSource, HeaderId, MeterId,
    Parser, Stmt,
};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, StmtKind};
use barewire_p4_source::types::ty::TypeId;
use num_bigint::BigUint;

use super::code;
use super::externs::{Args, arg};
use super::ops::{and, binary, int, not, to_truth};
use super::{BlockInstance, Lower, Mode, Object, Result, Val, refuse};

/// What follows the packet and the headers in the parameters of each part: the target's metadata by name, or a value
/// of the program's own type that this target carries nowhere.
struct Side {
    name: &'static str,
    parser: [&'static str; 3],
    control: [&'static str; 2],
    deparser: &'static [&'static str],
}

const SIDES: [Side; 2] = [
    Side {
        name: "ingress",
        parser: ["psa_ingress_parser_input_metadata", "", ""],
        control: ["psa_ingress_input_metadata", "psa_ingress_output_metadata"],
        deparser: &["psa_ingress_output_metadata"],
    },
    Side {
        name: "egress",
        parser: ["psa_egress_parser_input_metadata", "", ""],
        control: ["psa_egress_input_metadata", "psa_egress_output_metadata"],
        deparser: &["psa_egress_output_metadata", "psa_egress_deparser_input_metadata"],
    },
];

impl<'a> Lower<'a> {
    /// A program of PSA by the arguments of its `main`.
    pub(crate) fn psa(&mut self, args: &[Val], span: Span) -> Result<()> {
        self.program.arch = Arch::Psa;
        let pipes: Vec<Rc<[Val]>> = args
            .iter()
            .filter_map(|arg| match arg {
                Val::Object(Object::Package(parts)) => Some(Rc::clone(parts)),
                _ => None,
            })
            .collect();
        let [ingress, egress] = &pipes[..] else {
            return refuse(span, "`main` has not the parts of a PSA_Switch");
        };
        self.begin();
        let packet = (Val::Object(Object::Packet), TypeId::VOID);
        // Pipelines with headers of one type parse into the same ones: the packet is parsed anew between them.
        let mut known: Vec<(TypeId, Val)> = Vec::new();
        let mut made = Vec::new();
        for (parts, side) in [ingress, egress].into_iter().zip(&SIDES) {
            let mut blocks = Vec::new();
            for part in parts.iter() {
                match part {
                    Val::Object(Object::Block(block)) => blocks.push(Rc::clone(block)),
                    _ => return refuse(span, "a part of a pipeline that is no parser or control"),
                }
            }
            let [parser, control, deparser] = &blocks[..] else {
                return refuse(span, "a pipeline is a parser, a control and a deparser");
            };
            let params = self.param_types(parser);
            let &[_, headers_ty, meta_ty, ..] = &params[..] else {
                return refuse(span, "the parser has not the parameters of PSA");
            };
            let headers = match known.iter().find(|(ty, _)| *ty == headers_ty) {
                Some((_, headers)) => headers.clone(),
                None => {
                    let headers = self.headers(headers_ty, span)?;
                    known.push((headers_ty, headers.clone()));
                    headers
                }
            };
            let meta = self.storage(&format!("{}_meta", side.name), meta_ty, span)?;
            let mut args = vec![packet.clone(), (headers.clone(), headers_ty), (meta.clone(), meta_ty)];
            for (at, &ty) in params.iter().enumerate().skip(3) {
                args.push((self.psa_part(side.parser.get(at - 3).copied().unwrap_or(""), ty, span)?, ty));
            }
            made.push((Rc::clone(parser), Rc::clone(control), Rc::clone(deparser), args, side));
        }
        self.errors();
        for (parser, _, _, args, side) in &made {
            self.mode = Mode::Parser;
            self.apply_block_bare(parser, args.clone(), span)?;
            let code = std::mem::take(&mut self.code);
            self.check_once(&code)?;
            let (start, states) = code::states(&code, span)?;
            self.program.parsers.push(Parser { name: format!("{}_parser", side.name), start, states });
        }
        for (_, control, _, parsed, side) in &made {
            self.mode = Mode::Pipeline;
            let params = self.param_types(control);
            let mut args = parsed[1..3].to_vec();
            for (name, &ty) in side.control.iter().zip(params.iter().skip(2)) {
                args.push((self.psa_part(name, ty, span)?, ty));
            }
            self.apply_block_bare(control, args, span)?;
            let code = std::mem::take(&mut self.code);
            let pipeline = self.graph(&code, side.name, span)?;
            self.program.pipelines.push(pipeline);
        }
        for (_, _, deparser, parsed, side) in &made {
            let params = self.param_types(deparser);
            let target = params.len().saturating_sub(side.deparser.len());
            let mut args = vec![packet.clone()];
            for (at, &ty) in params.iter().enumerate().skip(1) {
                args.push(match at {
                    _ if at >= target => (self.psa_part(side.deparser[at - target], ty, span)?, ty),
                    _ if at + 2 == target => parsed[1].clone(),
                    _ if at + 1 == target => parsed[2].clone(),
                    _ => (self.psa_part("", ty, span)?, ty),
                });
            }
            let (order, stmts) = self.deparser_with_stmts(deparser, args)?;
            self.program.deparsers.push(Deparser { name: format!("{}_deparser", side.name), order, stmts });
        }
        self.value_set_widths();
        Ok(())
    }

    fn param_types(&mut self, instance: &Rc<BlockInstance>) -> Vec<TypeId> {
        let block = &self.t.blocks[instance.block.index()];
        let kept = self.subst.clone();
        for (var, ty) in block.vars.iter().zip(&instance.type_args) {
            self.subst.insert(*var, *ty);
        }
        let types = block.params.iter().map(|param| self.closed(param.ty)).collect();
        self.subst = kept;
        types
    }

    /// Metadata of the target, or storage for what it does not carry.
    fn psa_part(&mut self, name: &str, ty: TypeId, span: Span) -> Result<Val> {
        if name.is_empty() {
            return self.storage("unused", ty, span);
        }
        if let Some((_, val)) = self.target_parts.iter().find(|(known, _)| known == name) {
            return Ok(val.clone());
        }
        let val = self.target_metadata(name, ty, span)?;
        self.target_parts.push((name.to_owned(), val.clone()));
        Ok(val)
    }

    // ---- deparsers ------------------------------------------------------------------------------------------------

    /// A deparser with statements: the headers it emits, in order, and what it does before.
    pub(crate) fn deparser_with_stmts(
        &mut self,
        instance: &Rc<BlockInstance>,
        args: Vec<(Val, TypeId)>,
    ) -> Result<(Vec<HeaderId>, Vec<Stmt>)> {
        self.mode = Mode::Deparser;
        let span = self.t.blocks[instance.block.index()].decl.span;
        self.apply_block_bare(instance, args, span)?;
        let made = std::mem::take(&mut self.code);
        self.check_once(&made)?;
        Ok((std::mem::take(&mut self.emitted), code::body(&made, span)?))
    }

    /// The statements of a deparser. What it emits at its end is emitted as it then is; in front of other statements,
    /// and wherever something may leave before, as copies.
    pub(crate) fn deparser_block(&mut self, stmts: &'a [ast::Stmt]) -> Result<()> {
        let tail = stmts.iter().rev().take_while(|stmt| self.only_emits(stmt)).count();
        let split = if stmts.iter().any(leaves) { stmts.len() } else { stmts.len() - tail };
        self.block(&stmts[..split])?;
        for stmt in &stmts[split..] {
            let mut list = Vec::new();
            self.emit_as_is(stmt, &mut list)?;
            self.emitted.append(&mut list);
        }
        Ok(())
    }

    // ---- externs --------------------------------------------------------------------------------------------------

    /// A member of PSA's `PSA_HashAlgorithm_t`.
    pub(crate) fn psa_algorithm(&mut self, val: &Val, span: Span) -> Result<HashAlgorithm> {
        let names = self.t.enums.iter().find(|e| &*e.name == "PSA_HashAlgorithm_t");
        let name = Self::known(val)
            .and_then(|at| names.and_then(|e| e.members.get(at as usize)).map(|(name, _)| &**name));
        Ok(match name {
            Some("IDENTITY") => HashAlgorithm::Identity,
            Some("CRC32" | "TARGET_DEFAULT") => HashAlgorithm::Crc32,
            Some("CRC32_CUSTOM") => HashAlgorithm::Crc32Custom,
            Some("CRC16") => HashAlgorithm::Crc16,
            Some("CRC16_CUSTOM") => HashAlgorithm::Crc16Custom,
            Some("ONES_COMPLEMENT16") => HashAlgorithm::Csum16,
            _ => return refuse(span, "a hash algorithm that is not known when the program is compiled"),
        })
    }

    /// What is handed to a hash or sum: numbers of their widths, zeroes in front up to whole bytes or words.
    pub(crate) fn psa_data(
        &mut self,
        data: &(Val, TypeId),
        align: u32,
        span: Span,
    ) -> Result<Vec<CalcInput>> {
        let mut list = Vec::new();
        self.inputs(&data.0, data.1, span, &mut list)?;
        let mut bits = 0;
        let mut out = Vec::new();
        for input in list {
            let (input, width) = match input {
                CalcInput::Field(field) => {
                    let width = self.program.field_def_of_ref(&field).bits();
                    (CalcInput::Expr { value: Expr::Field(field), width }, width)
                }
                CalcInput::Expr { value, width } => (CalcInput::Expr { value, width }, width),
                CalcInput::Const { value, width } => (CalcInput::Const { value, width }, width),
                CalcInput::Header(_) | CalcInput::Payload => return refuse(span, "this data of an extern"),
            };
            bits += width;
            out.push(input);
        }
        let missing = bits.next_multiple_of(align) - bits;
        if missing > 0 {
            out.insert(0, CalcInput::Const { value: BigUint::ZERO, width: missing });
        }
        Ok(out)
    }

    pub(crate) fn psa_hash(
        &mut self,
        algorithm: HashAlgorithm,
        args: &Args,
        result: TypeId,
        span: Span,
    ) -> Result<Val> {
        let Some(shape) = self.scalar(result) else { return refuse(span, "a hash that is not a number") };
        let (data, range) = match args.len() {
            1 => (arg(args, 0, span)?, None),
            _ => {
                let base = self.num(&arg(args, 0, span)?.0, span)?;
                let max = self.num(&arg(args, 2, span)?.0, span)?;
                (arg(args, 1, span)?, Some((base, max)))
            }
        };
        let mut input = self.psa_data(&data, 8, span)?;
        // What hangs on an action's parameters is kept in a field first.
        if input
            .iter()
            .any(|i| matches!(i, CalcInput::Expr { value, .. } if super::externs::has_param(value)))
        {
            let saved = self.copied(&data.0, data.1, "hashed", span)?;
            input = self.psa_data(&(saved, data.1), 8, span)?;
        }
        let dst = self.temp("hash", shape.width.max(1), false);
        let (base, max) = match range {
            Some((base, max)) => (Some(base), Some(max)),
            None => (None, None),
        };
        let source = HashSource::Inline { algorithm, input };
        self.stmt_out(Stmt::Hash { dst: dst.clone(), source, base, max });
        Ok(Val::Field(dst))
    }

    /// A colour of PSA as meters number it.
    pub(crate) fn target_color(&mut self, color: &Val, span: Span) -> Result<Expr> {
        Ok(self.num(color, span)?.psa_to_meter_color())
    }

    pub(crate) fn psa_meter(&mut self, meter: MeterId, args: &Args, span: Span) -> Result<Val> {
        let index = self.num(&arg(args, 0, span)?.0, span)?;
        let precolor = match args.get(1) {
            Some((color, _)) => Some(self.target_color(color, span)?),
            None => None,
        };
        let dst = self.temp("color", 32, false);
        self.stmt_out(Stmt::Meter { meter, index, precolor, dst: Some(dst.clone()) });
        let color = Expr::Field(dst.clone()).meter_to_psa_color();
        self.stmt_out(Stmt::Assign { dst: dst.clone(), value: color });
        Ok(Val::Field(dst))
    }

    pub(crate) fn psa_sum(
        &mut self,
        unit: ChecksumUnitId,
        name: &str,
        args: &Args,
        span: Span,
    ) -> Result<Val> {
        match name {
            "clear" => self.stmt_out(Stmt::ChecksumClear(unit)),
            "add" | "subtract" => {
                let input = self.psa_data(&arg(args, 0, span)?, 16, span)?;
                self.stmt_out(match name {
                    "add" => Stmt::ChecksumAdd { unit, input },
                    _ => Stmt::ChecksumSubtract { unit, input },
                });
            }
            "get" | "get_state" => {
                let dst = self.temp("sum", 16, false);
                self.stmt_out(match name {
                    "get" => Stmt::ChecksumGet { unit, dst: dst.clone() },
                    _ => Stmt::ChecksumGetState { unit, dst: dst.clone() },
                });
                return Ok(Val::Field(dst));
            }
            "set_state" => {
                let value = self.num(&arg(args, 0, span)?.0, span)?;
                self.stmt_out(Stmt::ChecksumSetState { unit, value });
            }
            other => return refuse(span, format!("the method `{other}` is not lowered here")),
        }
        Ok(Val::Nothing)
    }

    /// `pack` of a digest: one list for each call.
    pub(crate) fn psa_pack(&mut self, name: &Rc<str>, args: &Args, span: Span) -> Result<Val> {
        let (data, ty) = arg(args, 0, span)?;
        let name = self.unique(name);
        self.digest(&data, ty, name, span)?;
        Ok(Val::Nothing)
    }

    /// Which way the packet goes, asked in a deparser.
    pub(crate) fn psa_path(&mut self, name: &str, args: &Args, span: Span) -> Result<Val> {
        let mut field = |at: usize, wanted: &str| -> Result<Expr> {
            let (val, ty) = arg(args, at, span)?;
            let names = self.parts_of(ty).unwrap_or_default();
            let parts = self.parts(&val, span)?;
            match names.iter().position(|(name, _)| &**name == wanted).and_then(|at| parts.get(at)) {
                Some(part) => self.num(&part.clone(), span),
                None => refuse(span, format!("there is no field `{wanted}`")),
            }
        };
        Ok(Val::Truth(match name {
            "psa_clone_i2e" | "psa_clone_e2e" => to_truth(field(0, "clone")?),
            "psa_resubmit" => {
                let stays = not(to_truth(field(0, "drop")?));
                and(stays, to_truth(field(0, "resubmit")?))
            }
            "psa_normal" => {
                let stays = not(to_truth(field(0, "drop")?));
                and(stays, not(to_truth(field(0, "resubmit")?)))
            }
            "psa_recirculate" => {
                let stays = not(to_truth(field(0, "drop")?));
                let port = field(1, "egress_port")?;
                and(stays, binary(BinaryOp::Eq, port, int(0xffff_fffa_u32)))
            }
            other => return refuse(span, format!("`{other}` is not lowered here")),
        }))
    }
}

/// Whether a statement may leave the control before its end.
fn leaves(stmt: &ast::Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::Block(block) => block.stmts.iter().any(leaves),
        StmtKind::If(chain) => {
            chain.arms.iter().any(|arm| leaves(&arm.body))
                || chain.otherwise.as_ref().is_some_and(|s| leaves(s))
        }
        StmtKind::Switch(switch) => switch
            .cases
            .iter()
            .any(|case| case.body.as_ref().is_some_and(|body| body.stmts.iter().any(leaves))),
        StmtKind::For(repeat) => leaves(&repeat.body),
        StmtKind::ForIn(repeat) => leaves(&repeat.body),
        // An action or a control that is called may.
        StmtKind::DirectApply { .. } => true,
        _ => false,
    }
}
