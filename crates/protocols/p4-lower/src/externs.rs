//! What v1model offers: counters, meters, registers, profiles, hashes, digests, copies of packets.

use barewire_p4::ir::MAX_ARRAY_SIZE;
use barewire_p4::ir::{
    ActionProfile, BinaryOp, CalcInput, Calculation, CalculationId, ChecksumUnitId, CounterArray, CounterId,
    Expr, FieldList, FieldListId, FieldRef, HashAlgorithm, HashSource, LearnList, LearnListId, ListItem,
    MeterArray, MeterId, MeterUnit, ParserOp, ProfileId, RegisterArray, RegisterId, Selector, Stmt,
};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{Annotation, AnnotationBody, ExprKind};
use barewire_p4_source::types::ty::{FnId, Type, TypeId};
use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive as _;

use super::code::Ins;
use super::ops::{binary, int, to_truth, wrap};
use super::{Lower, Object, Result, Val, refuse};

pub(crate) type Args = Vec<(Val, TypeId)>;

pub(crate) fn arg(args: &Args, at: usize, span: Span) -> Result<(Val, TypeId)> {
    match args.get(at) {
        Some(arg) => Ok(arg.clone()),
        None => refuse(span, "an argument is missing"),
    }
}

/// Bytes of a counter, and of a meter of two rates.
const COUNTER_BYTES: u64 = 16;
pub(crate) const METER_BYTES: u64 = 80;

/// How many there may be of what a program keeps: as many as the import of JSON takes.
pub(crate) fn at_most(size: &BigInt, what: &str, span: Span) -> Result<u32> {
    match size.to_u32() {
        Some(size) if size <= MAX_ARRAY_SIZE => Ok(size),
        _ => refuse(span, format!("{size} {what}: {MAX_ARRAY_SIZE} are the most")),
    }
}

fn size(args: &Args, at: usize, span: Span) -> Result<u32> {
    match arg(args, at, span)?.0 {
        Val::Num(Expr::Int(size)) => at_most(&size, "cells", span),
        _ => refuse(span, "a size has to be known when the program is compiled"),
    }
}

impl Lower<'_> {
    pub(crate) fn extern_instance(
        &mut self,
        constructor: FnId,
        name: String,
        args: Args,
        type_args: &[TypeId],
        span: Span,
    ) -> Result<Val> {
        let kind = self.t.functions[constructor.index()].name.clone();
        // Instances of inner scopes may share a name; control planes tell them apart by a number, as they do tables.
        let name = self.unique(&format!("{kind} {name}")).split_off(kind.len() + 1);
        Ok(Val::Object(match &*kind {
            "counter" | "direct_counter" | "Counter" | "DirectCounter" => {
                let size = if kind.eq_ignore_ascii_case("counter") { size(&args, 0, span)? } else { 0 };
                self.keeps(u64::from(size) * COUNTER_BYTES, span)?;
                let id = CounterId::from(self.program.counters.len());
                self.program.counters.push(CounterArray { name, id: id.0, size, direct: None });
                Object::Counter(id)
            }
            "meter" | "direct_meter" | "Meter" | "DirectMeter" => {
                let direct = !kind.eq_ignore_ascii_case("meter");
                let size = if direct { 0 } else { size(&args, 0, span)? };
                let unit = match Self::known(&arg(&args, usize::from(!direct), span)?.0) {
                    Some(0) => MeterUnit::Packets,
                    _ => MeterUnit::Bytes,
                };
                self.keeps(u64::from(size) * METER_BYTES, span)?;
                let id = MeterId::from(self.program.meters.len());
                self.program.meters.push(MeterArray {
                    name,
                    id: id.0,
                    size,
                    unit,
                    rate_count: 2,
                    direct: None,
                    result: None,
                });
                Object::Meter(id)
            }
            "register" | "Register" => {
                let of = type_args.first().copied().unwrap_or(TypeId::VOID);
                Object::Register(self.register_instance(name, of, &args, span)?)
            }
            "action_profile" | "ActionProfile" => {
                let id = ProfileId::from(self.program.profiles.len());
                let max_size = size(&args, 0, span)?;
                self.program.profiles.push(ActionProfile { name, id: id.0, max_size, selector: None });
                Object::Profile(id)
            }
            "action_selector" | "ActionSelector" => {
                let id = ProfileId::from(self.program.profiles.len());
                let val = arg(&args, 0, span)?.0;
                let algorithm = match &*kind {
                    "ActionSelector" => self.psa_algorithm(&val, span)?,
                    _ => self.algorithm(&val, span)?,
                };
                let selector = Some(Selector { algorithm, input: Vec::new() });
                let max_size = size(&args, 1, span)?;
                self.program.profiles.push(ActionProfile { name, id: id.0, max_size, selector });
                Object::Profile(id)
            }
            "Checksum16" => Object::Checksum16,
            "Hash" => Object::Hash(self.psa_algorithm(&arg(&args, 0, span)?.0, span)?),
            "InternetChecksum" => {
                self.program.checksum_units.push(name);
                Object::Sum(ChecksumUnitId::from(self.program.checksum_units.len() - 1))
            }
            "Checksum" => {
                let algorithm = self.psa_algorithm(&arg(&args, 0, span)?.0, span)?;
                let running = self.new_running(algorithm, span)?;
                self.running.push(running);
                Object::Running(self.running.len() - 1)
            }
            "Random" => {
                let low = self.num(&arg(&args, 0, span)?.0, span)?;
                Object::Random(low, self.num(&arg(&args, 1, span)?.0, span)?)
            }
            "Digest" => Object::Digest(name.into()),
            // They are the target's own, and have nothing to say to a program.
            "PacketReplicationEngine" | "BufferingQueueingEngine" => Object::Packet,
            other => return refuse(span, format!("the extern `{other}` is not lowered")),
        }))
    }

    /// A register array with cells of type `of`.
    fn register_instance(&mut self, name: String, of: TypeId, args: &Args, span: Span) -> Result<RegisterId> {
        let width = match self.cell_width(of) {
            Some(width) if width > 0 => width,
            _ => return refuse(span, "a register of what is neither a number nor a struct of numbers"),
        };
        // PSA's may begin with a value.
        let initial = match args.get(1) {
            Some((val, from)) if *val != Val::Nothing => {
                let val = self.cast(val.clone(), *from, of, span)?;
                match self.packed(&val, of, span)? {
                    Expr::Int(number) => number.to_biguint().unwrap_or_default(),
                    _ => return refuse(span, "a first value that is not known when the program is compiled"),
                }
            }
            _ => BigUint::ZERO,
        };
        self.register_types.push(of);
        let size = size(args, 0, span)?;
        self.keeps(u64::from(size) * u64::from(width.div_ceil(64)) * 8, span)?;
        let id = RegisterId::from(self.program.registers.len());
        self.program.registers.push(RegisterArray { name, id: id.0, size, width, initial });
        Ok(id)
    }

    /// A member of v1model's `HashAlgorithm`.
    pub(crate) fn algorithm(&mut self, val: &Val, span: Span) -> Result<HashAlgorithm> {
        let names = self.t.enums.iter().find(|e| &*e.name == "HashAlgorithm");
        let name = Self::known(val)
            .and_then(|at| names.and_then(|e| e.members.get(at as usize)).map(|(name, _)| &**name));
        Ok(match name {
            Some("crc32") => HashAlgorithm::Crc32,
            Some("crc32_custom") => HashAlgorithm::Crc32Custom,
            Some("crc16") => HashAlgorithm::Crc16,
            Some("crc16_custom") => HashAlgorithm::Crc16Custom,
            Some("random") => HashAlgorithm::Random,
            Some("identity") => HashAlgorithm::Identity,
            Some("csum16") => HashAlgorithm::Csum16,
            Some("xor16") => HashAlgorithm::Xor16,
            _ => return refuse(span, "a hash algorithm that is not known when the program is compiled"),
        })
    }

    /// A digest of `data`. What is sent is the data of now, not of the end of the pipeline; those of one name and type are of
    /// one list, as in P4Info.
    pub(crate) fn digest(&mut self, data: &Val, ty: TypeId, name: String, span: Span) -> Result<()> {
        let key = (name.clone(), self.bare(ty));
        if let Some((place, list)) = self.digests.get(&key).cloned() {
            self.assign(&place, data, ty, span)?;
            self.stmt_out(Stmt::Digest { list });
            return Ok(());
        }
        let data = self.copied(data, ty, "digest", span)?;
        let name = self.unique(&format!("digest {name}")).split_off("digest ".len());
        let mut input = Vec::new();
        self.inputs(&data, ty, span, &mut input)?;
        let mut items = Vec::new();
        for item in input {
            let width = match &item {
                CalcInput::Field(field) => self.program.field_def_of_ref(field).bits(),
                CalcInput::Const { width, .. } => *width,
                _ => return refuse(span, "a digest of this is not lowered"),
            };
            items.push((item, width));
        }
        let list = LearnListId::from(self.program.learn_lists.len());
        self.program.learn_lists.push(LearnList { id: list.0 + 1, name, items });
        self.digests.insert(key, (data, list));
        self.stmt_out(Stmt::Digest { list });
        Ok(())
    }

    /// What a calculation feeds on, field by field.
    pub(crate) fn inputs(
        &mut self,
        val: &Val,
        ty: TypeId,
        span: Span,
        out: &mut Vec<CalcInput>,
    ) -> Result<()> {
        match val {
            Val::Parts(parts) | Val::HeaderParts(parts) => {
                let types = match self.header_fields(ty) {
                    Some(fields) => fields,
                    None => self.parts_of(ty).unwrap_or_default(),
                };
                for (part, (_, ty)) in parts.iter().zip(types) {
                    self.inputs(part, ty, span, out)?;
                }
                Ok(())
            }
            Val::Header(header) => {
                let value = self.header_value(header, ty, span)?;
                let types = self.header_fields(ty).unwrap_or_default();
                let parts = self.parts(&value, span)?;
                for (part, (_, ty)) in parts.iter().zip(types) {
                    self.inputs(part, ty, span, out)?;
                }
                Ok(())
            }
            Val::Field(field) => {
                out.push(CalcInput::Field(field.clone()));
                Ok(())
            }
            other => {
                let Some(shape) = self.scalar(ty) else { return refuse(span, "an input without a width") };
                if shape.width == 0 {
                    return Ok(());
                }
                match self.num(other, span)? {
                    Expr::Int(_) => {
                        out.push(CalcInput::Const { value: self.bits(other, ty, span)?, width: shape.width });
                    }
                    value => out.push(CalcInput::Expr { value, width: shape.width }),
                }
                Ok(())
            }
        }
    }

    pub(crate) fn calculation(&mut self, algorithm: HashAlgorithm, input: Vec<CalcInput>) -> CalculationId {
        let id = CalculationId::from(self.program.calculations.len());
        let name = self.unique("calc");
        self.program.calculations.push(Calculation { name, algorithm, input });
        id
    }

    /// Runs something that writes a field, and brings the field to its place.
    fn result(
        &mut self,
        place: &(Val, TypeId),
        span: Span,
        make: impl FnOnce(FieldRef) -> Stmt,
    ) -> Result<()> {
        let (field, copied) = self.written(&place.0, place.1, span)?;
        self.stmt_out(make(field.clone()));
        if copied {
            self.assign(&place.0, &Val::Field(field), place.1, span)?;
        }
        Ok(())
    }

    pub(crate) fn method(
        &mut self,
        id: FnId,
        object: &Val,
        args: Args,
        (type_arg, result): (TypeId, TypeId),
        span: Span,
    ) -> Result<Val> {
        let name = self.t.functions[id.index()].name.clone();
        let Val::Object(object) = object else { return refuse(span, "this object is not lowered") };
        match (object, &*name) {
            (Object::Packet, _) => return self.packet(&name, args, type_arg, span),
            (Object::Counter(counter), "count") => {
                // A direct counter counts by itself.
                if let Some((index, _)) = args.first() {
                    let index = self.num(index, span)?;
                    self.stmt_out(Stmt::Count { counter: *counter, index });
                }
            }
            (Object::Meter(meter), "execute_meter") => {
                let index = self.num(&arg(&args, 0, span)?.0, span)?;
                let meter = *meter;
                self.result(&arg(&args, 1, span)?, span, |dst| Stmt::Meter {
                    meter,
                    index,
                    precolor: None,
                    dst: Some(dst),
                })?;
            }
            (Object::Meter(meter), "read") => {
                // The table finds the colour before its action runs, and keeps it until the action asks.
                let (place, ty) = arg(&args, 0, span)?;
                let Some(shape) = self.scalar(ty) else {
                    return refuse(span, "a colour that is not a number");
                };
                let color = match &self.program.meters[meter.at()].result {
                    Some(known) => known.clone(),
                    None => self.temp("color", shape.width.max(2), false),
                };
                self.program.meters[meter.at()].result = Some(color.clone());
                self.meter_reads.push((*meter, span));
                let color = wrap(Expr::Field(color), shape.width, shape.signed);
                self.assign(&place, &Val::Num(color), ty, span)?;
            }
            (Object::Meter(meter), "execute") => {
                let meter = *meter;
                if self.program.meters[meter.at()].size > 0 {
                    return self.psa_meter(meter, &args, span);
                }
                // A direct meter: the table has found the colour.
                let color = match &self.program.meters[meter.at()].result {
                    Some(known) => known.clone(),
                    None => self.temp("color", 32, false),
                };
                self.program.meters[meter.at()].result = Some(color.clone());
                self.meter_reads.push((meter, span));
                let color = Expr::Field(color);
                // A packet never gets a better colour than it had: tokens are taken alike.
                let color = match args.first() {
                    Some((before, _)) => {
                        let before = self.target_color(before, span)?;
                        let worse = binary(BinaryOp::Lt, color.clone(), before.clone());
                        Expr::Select(Box::new(worse), Box::new(before), Box::new(color))
                    }
                    None => color,
                };
                return Ok(Val::Num(color.meter_to_psa_color()));
            }
            (Object::Hash(algorithm), "get_hash") => return self.psa_hash(*algorithm, &args, result, span),
            (Object::Sum(unit), name) => return self.psa_sum(*unit, name, &args, span),
            (Object::Running(at), name) => return self.psa_running(*at, name, &args, result, span),
            (Object::Digest(name), "pack") => return self.psa_pack(&name.clone(), &args, span),
            (Object::Random(low, high), "read") => {
                let Some(shape) = self.scalar(result) else { return refuse(span, "this is not a number") };
                let dst = self.temp("random", shape.width.max(1), shape.signed);
                let (low, high) = (low.clone(), high.clone());
                self.stmt_out(Stmt::Random { dst: dst.clone(), low, high });
                return Ok(Val::Field(dst));
            }
            (Object::Register(register), "read" | "write") => {
                return self.register(*register, &name, &args, result, span);
            }
            _ => return refuse(span, format!("the method `{name}` is not lowered here")),
        }
        Ok(Val::Nothing)
    }

    /// v1model's `read` gives its result through an argument, PSA's returns it.
    fn register(
        &mut self,
        register: RegisterId,
        name: &str,
        args: &Args,
        result: TypeId,
        span: Span,
    ) -> Result<Val> {
        let of = self.register_types[register.at()];
        if name == "write" {
            let index = self.num(&arg(args, 0, span)?.0, span)?;
            let (value, from) = arg(args, 1, span)?;
            let value = self.cast(value, from, of, span)?;
            let value = self.packed(&value, of, span)?;
            self.stmt_out(Stmt::RegisterWrite { register, index, value });
            return Ok(Val::Nothing);
        }
        let returns = args.len() == 1;
        let index = self.num(&arg(args, if returns { 0 } else { 1 }, span)?.0, span)?;
        if self.scalar(of).is_some() && !returns {
            self.result(&arg(args, 0, span)?, span, |dst| Stmt::RegisterRead { dst, register, index })?;
            return Ok(Val::Nothing);
        }
        let (width, signed) = match self.scalar(of) {
            Some(shape) => (shape.width, shape.signed),
            None => (self.program.registers[register.at()].width, false),
        };
        let dst = self.temp("read", width.max(1), signed);
        self.stmt_out(Stmt::RegisterRead { dst: dst.clone(), register, index });
        if self.scalar(of).is_some() {
            return Ok(Val::Field(dst));
        }
        let mut left = width;
        let val = self.unpacked(&Expr::Field(dst), of, &mut left, span)?;
        if returns {
            return self.cast(val, of, result, span);
        }
        let (place, ty) = arg(args, 0, span)?;
        self.assign(&place, &val, ty, span)?;
        Ok(Val::Nothing)
    }

    /// The bits of a number, or of a struct of numbers: as many as its fields have together.
    fn cell_width(&mut self, ty: TypeId) -> Option<u32> {
        if let Some(shape) = self.scalar(ty) {
            return Some(shape.width);
        }
        self.parts_of(ty)?.into_iter().try_fold(0_u32, |sum, (_, ty)| sum.checked_add(self.cell_width(ty)?))
    }

    /// A number, or a struct of numbers as one: its first field has the highest bits.
    fn packed(&mut self, val: &Val, ty: TypeId, span: Span) -> Result<Expr> {
        if let Some(shape) = self.scalar(ty) {
            return Ok(wrap(self.num(val, span)?, shape.width, false));
        }
        let Some(types) = self.parts_of(ty) else { return refuse(span, "this is no struct of numbers") };
        let mut all = int(0);
        for (part, (_, ty)) in self.parts(val, span)?.iter().zip(types) {
            let Some(width) = self.cell_width(ty) else {
                return refuse(span, "this is no struct of numbers");
            };
            let part = self.packed(part, ty, span)?;
            all = binary(BinaryOp::BitOr, binary(BinaryOp::Shl, all, int(width)), part);
        }
        Ok(all)
    }

    /// The same back: `left` bits of the number are those of this value and of what follows it.
    fn unpacked(&mut self, number: &Expr, ty: TypeId, left: &mut u32, span: Span) -> Result<Val> {
        if let Some(shape) = self.scalar(ty) {
            *left = left.saturating_sub(shape.width);
            let bits = wrap(binary(BinaryOp::Shr, number.clone(), int(*left)), shape.width, shape.signed);
            return Ok(if shape.truth { Val::Truth(to_truth(bits)) } else { Val::Num(bits) });
        }
        let Some(types) = self.parts_of(ty) else { return refuse(span, "this is no struct of numbers") };
        let mut parts = Vec::new();
        for (_, ty) in types {
            parts.push(self.unpacked(number, ty, left, span)?);
        }
        Ok(Val::Parts(parts.into()))
    }

    fn packet(&mut self, name: &str, args: Args, type_arg: TypeId, span: Span) -> Result<Val> {
        match name {
            "extract" => {
                let header = match arg(&args, 0, span)? {
                    (Val::Header(header), _) => header,
                    (Val::Nothing, _) => match self.storage("skipped", type_arg, span)? {
                        Val::Header(header) => header,
                        _ => return refuse(span, "only a header can be extracted"),
                    },
                    _ => return refuse(span, "only a header can be extracted"),
                };
                let op = match args.get(1) {
                    Some((bits, _)) => ParserOp::ExtractVarbit { header, bits: self.num(bits, span)? },
                    None => {
                        let ty = self.program.type_of_ref(&header);
                        let ty = &self.program.header_types[ty.at()];
                        if ty.varbit().is_some() {
                            return refuse(span, "a header with a varbit field is extracted with its length");
                        }
                        if ty.fields.last().is_some_and(|f| f.name == "_padding") {
                            return refuse(span, "a header that is not of whole bytes cannot be extracted");
                        }
                        ParserOp::Extract(header)
                    }
                };
                self.emit(Ins::Op(op));
                Ok(Val::Nothing)
            }
            "advance" => {
                let bits = self.num(&arg(&args, 0, span)?.0, span)?;
                self.emit(Ins::Op(ParserOp::Advance { bits }));
                Ok(Val::Nothing)
            }
            // v1model's switch has the whole packet when it parses it.
            "length" => match self.program.field("standard_metadata.packet_length") {
                Some(field) => Ok(Val::Num(Expr::Field(field.into()))),
                None => refuse(span, "`length` of a packet without `standard_metadata.packet_length`"),
            },
            "emit" => {
                let (val, ty) = arg(&args, 0, span)?;
                self.emit_now(&val, ty, span)?;
                Ok(Val::Nothing)
            }
            "lookahead" => {
                let mut bits = 0;
                let value = self.look(type_arg, &mut bits, span)?;
                // The whole has to be there, whichever parts of it are looked at.
                if bits > 0 && matches!(value, Val::Parts(_) | Val::HeaderParts(_)) {
                    let last = self.temp("ahead", 1, false);
                    let value = Expr::Lookahead { offset: bits - 1, width: 1 };
                    self.stmt_out(Stmt::Assign { dst: last, value });
                }
                Ok(value)
            }
            other => refuse(span, format!("`{other}` of a packet is not lowered here")),
        }
    }

    /// What a lookahead of a type reads.
    fn look(&mut self, ty: TypeId, offset: &mut u32, span: Span) -> Result<Val> {
        if let Some(shape) = self.scalar(ty) {
            if shape.width == 0 {
                return Ok(Val::Num(int(0)));
            }
            let bits = Expr::Lookahead { offset: *offset, width: shape.width };
            *offset += shape.width;
            return Ok(match (shape.truth, shape.signed) {
                (true, _) => Val::Truth(to_truth(bits)),
                (_, true) => Val::Num(wrap(bits, shape.width, true)),
                _ => Val::Num(bits),
            });
        }
        let bare = self.bare(ty);
        if let Type::Stack(of, size) = *self.types.get(bare) {
            let elements: Result<Vec<Val>> = (0..size).map(|_| self.look(of, offset, span)).collect();
            return Ok(Val::Parts(elements?.into()));
        }
        let header = self.header_fields(ty);
        let is_header = header.is_some();
        let parts = match header {
            Some(fields) => Some(fields),
            None => self.parts_of(ty),
        };
        let Some(parts) = parts else { return refuse(span, "a lookahead of this type") };
        let mut out = Vec::new();
        for (_, ty) in parts {
            out.push(self.look(ty, offset, span)?);
        }
        Ok(if is_header { Val::HeaderParts(out.into()) } else { Val::Parts(out.into()) })
    }

    pub(crate) fn extern_function(&mut self, id: FnId, args: Args, span: Span) -> Result<Val> {
        let function = &self.t.functions[id.index()];
        match &*function.name {
            "verify" => {
                let condition = self.truth(&arg(&args, 0, span)?.0, span)?;
                let error = self.num(&arg(&args, 1, span)?.0, span)?;
                self.emit(Ins::Op(ParserOp::Verify { condition, error }));
            }
            "mark_to_drop" => self.mark_to_drop(&args, span)?,
            "hash" => self.hash(&args, span)?,
            "random" => {
                let low = self.num(&arg(&args, 1, span)?.0, span)?;
                let high = self.num(&arg(&args, 2, span)?.0, span)?;
                self.result(&arg(&args, 0, span)?, span, |dst| Stmt::Random { dst, low, high })?;
            }
            "digest" => {
                let (data, ty) = arg(&args, 1, span)?;
                let bare = self.bare(ty);
                let name = match self.types.get(bare) {
                    Type::Struct(id, _) => self.t.structs[id.index()].name.to_string(),
                    _ => String::from("digest"),
                };
                self.digest(&data, ty, name, span)?;
            }
            "clone" | "clone_preserving_field_list" => {
                let fields = match args.get(2) {
                    Some((index, _)) => self.field_list(index, span)?,
                    None => None,
                };
                let session = self.num(&arg(&args, 1, span)?.0, span)?;
                match Self::known(&arg(&args, 0, span)?.0) {
                    Some(0) => self.stmt_out(Stmt::CloneIngress { session, fields }),
                    Some(1) => self.stmt_out(Stmt::CloneEgress { session, fields }),
                    _ => {
                        return refuse(
                            span,
                            "the type of a clone has to be known when the program is compiled",
                        );
                    }
                }
            }
            "resubmit_preserving_field_list" => {
                let fields = self.field_list(&arg(&args, 0, span)?.0, span)?;
                self.stmt_out(Stmt::Resubmit { fields });
            }
            "recirculate_preserving_field_list" => {
                let fields = self.field_list(&arg(&args, 0, span)?.0, span)?;
                self.stmt_out(Stmt::Recirculate { fields });
            }
            "truncate" => {
                let len = self.num(&arg(&args, 0, span)?.0, span)?;
                self.stmt_out(Stmt::Truncate { len });
            }
            "assert" => {
                let condition = self.truth(&arg(&args, 0, span)?.0, span)?;
                self.stmt_out(Stmt::Assert(condition));
            }
            "assume" => {
                let condition = self.truth(&arg(&args, 0, span)?.0, span)?;
                self.stmt_out(Stmt::Assume(condition));
            }
            "log_msg" => self.log_msg(&args, span)?,
            // It was checked with the types.
            "static_assert" => return Ok(Val::Truth(Expr::Bool(true))),
            name if name.starts_with("psa_") => return self.psa_path(name, &args, span),
            "clone3" | "resubmit" | "recirculate" => {
                let new = if &*function.name == "clone3" { "clone" } else { &*function.name };
                return refuse(span, format!("`{}` of values is not lowered here", function.name)).map_err(|d| {
                    Box::new(d.help(format!(
                        "write `{new}_preserving_field_list` with a number, and `@field_list` with that number at each field"
                    )))
                });
            }
            other => return refuse(span, format!("`{other}` is not lowered here")),
        }
        Ok(Val::Nothing)
    }

    fn mark_to_drop(&mut self, args: &Args, span: Span) -> Result<()> {
        let (standard, ty) = match args.first() {
            Some(arg) => arg.clone(),
            None => {
                return refuse(span, "`mark_to_drop()` without an argument")
                    .map_err(|d| Box::new(d.help("write `mark_to_drop(standard_metadata)`")));
            }
        };
        let names = self.parts_of(ty).unwrap_or_default();
        let parts = self.parts(&standard, span)?;
        let field = |wanted: &str| {
            let at = names.iter().position(|(name, _)| &**name == wanted)?;
            match parts.get(at)? {
                Val::Field(field) => field.fixed(),
                _ => None,
            }
        };
        let (egress_spec, mcast_grp) = (field("egress_spec"), field("mcast_grp"));
        self.stmt_out(Stmt::MarkToDrop { egress_spec, mcast_grp });
        Ok(())
    }

    fn hash(&mut self, args: &Args, span: Span) -> Result<()> {
        let algorithm = self.algorithm(&arg(args, 1, span)?.0, span)?;
        let base = Some(self.num(&arg(args, 2, span)?.0, span)?);
        let max = Some(self.num(&arg(args, 4, span)?.0, span)?);
        let (data, ty) = arg(args, 3, span)?;
        let mut input = Vec::new();
        self.inputs(&data, ty, span, &mut input)?;
        // A calculation belongs to the program and knows no action's parameters.
        if input.iter().any(|i| matches!(i, CalcInput::Expr { value, .. } if has_param(value))) {
            let saved = self.copied(&data, ty, "hashed", span)?;
            input.clear();
            self.inputs(&saved, ty, span, &mut input)?;
        }
        let source = HashSource::Calculation(self.calculation(algorithm, input));
        self.result(&arg(args, 0, span)?, span, |dst| Stmt::Hash { dst, source, base, max })
    }

    fn log_msg(&mut self, args: &Args, span: Span) -> Result<()> {
        let Val::Text(format) = arg(args, 0, span)?.0 else {
            return refuse(span, "a message that is no text");
        };
        // A struct or header among the arguments is written field by field.
        let (mut values, mut text) = (Vec::new(), String::new());
        let mut pieces = format.split("{}");
        text.push_str(pieces.next().unwrap_or(""));
        let mut shown = Vec::new();
        if let Some((data, ty)) = args.get(1) {
            let types = self.parts_of(*ty).unwrap_or_default();
            for (part, (_, ty)) in self.parts(data, span)?.iter().zip(types) {
                let mut form = String::new();
                self.logged(part, ty, span, &mut form, &mut values)?;
                shown.push(form);
            }
        }
        let mut shown = shown.into_iter();
        for piece in pieces {
            text.push_str(shown.next().as_deref().unwrap_or("{}"));
            text.push_str(piece);
        }
        self.stmt_out(Stmt::Log { format: text, args: values });
        Ok(())
    }

    /// How a message shows a value, and the numbers in it.
    fn logged(
        &mut self,
        val: &Val,
        ty: TypeId,
        span: Span,
        form: &mut String,
        values: &mut Vec<Expr>,
    ) -> Result<()> {
        if self.scalar(ty).is_some() {
            form.push_str("{}");
            values.push(self.num(val, span)?);
            return Ok(());
        }
        let (val, fields) = match (val, self.header_fields(ty)) {
            (Val::Header(header), Some(fields)) => (self.header_value(header, ty, span)?, fields),
            (val, Some(fields)) => (val.clone(), fields),
            (val, None) => (val.clone(), self.parts_of(ty).unwrap_or_default()),
        };
        form.push('(');
        for (at, (part, (name, ty))) in self.parts(&val, span)?.iter().zip(fields).enumerate() {
            form.push_str(if at > 0 { "," } else { "" });
            form.push_str(&name);
            form.push(':');
            self.logged(part, ty, span, form, values)?;
        }
        form.push(')');
        Ok(())
    }

    /// The fields that `@field_list(index)` marks.
    fn field_list(&mut self, index: &Val, span: Span) -> Result<Option<FieldListId>> {
        let Some(index) = Self::known(index) else {
            return refuse(span, "a field list's number has to be known when the program is compiled");
        };
        if let Some(&list) = self.lists.get(&index) {
            return Ok(Some(list));
        }
        let mut items = Vec::new();
        if let Some((val, ty)) = self.metadata.clone() {
            self.marked(&val, ty, index, false, &mut items, span)?;
        }
        let id = FieldListId::from(self.program.field_lists.len());
        let name = format!("field_list_{index}");
        self.program.field_lists.push(FieldList { id: index + 1, name, items });
        self.lists.insert(index, id);
        Ok(Some(id))
    }

    fn marked(
        &mut self,
        val: &Val,
        ty: TypeId,
        index: u32,
        all: bool,
        out: &mut Vec<ListItem>,
        span: Span,
    ) -> Result<()> {
        match val {
            Val::Field(field) if all => {
                out.push(ListItem::Field(field.clone()));
                Ok(())
            }
            Val::Parts(parts) => {
                let bare = self.bare(ty);
                let Type::Struct(id, args) = self.types.get(bare).clone() else { return Ok(()) };
                let types = self.fields(id, &args);
                for (at, part) in parts.iter().enumerate() {
                    let annotations = &self.t.structs[id.index()].fields[at].decl.annotations;
                    let mine = all
                        || annotations.iter().any(|a| &a.name == "field_list" && self.names_list(a, index));
                    self.marked(part, types[at].1, index, mine, out, span)?;
                }
                Ok(())
            }
            Val::Header(header) if all => {
                let value = self.header_value(header, ty, span)?;
                let types = self.header_fields(ty).unwrap_or_default();
                for (part, (_, ty)) in self.parts(&value, span)?.iter().zip(types) {
                    self.marked(part, ty, index, true, out, span)?;
                }
                Ok(())
            }
            _ if all => refuse(span, "a field of this type cannot be kept"),
            _ => Ok(()),
        }
    }

    fn names_list(&self, annotation: &Annotation, index: u32) -> bool {
        match &annotation.body {
            AnnotationBody::Unstructured(tokens) => tokens.iter().any(|token| {
                let text = token.text.rsplit(['w', 's']).next().unwrap_or("");
                match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                    Some(hex) => u32::from_str_radix(hex, 16) == Ok(index),
                    None => text.parse() == Ok(index),
                }
            }),
            AnnotationBody::Expressions(list) => {
                list.iter().any(|expr| match (&expr.kind, self.t.constants.get(&expr.id)) {
                    (_, Some(value)) => value.as_u32() == Some(index),
                    (ExprKind::Int(literal), _) => literal.value.to_u32() == Some(index),
                    _ => false,
                })
            }
            _ => false,
        }
    }
}

pub(crate) fn has_param(expr: &Expr) -> bool {
    match expr {
        Expr::Param(_) => true,
        Expr::Unary(_, a) | Expr::Wrap { value: a, .. } | Expr::Saturate { value: a, .. } => has_param(a),
        Expr::Binary(_, a, b) => has_param(a) || has_param(b),
        Expr::Select(a, b, c) => has_param(a) || has_param(b) || has_param(c),
        _ => false,
    }
}
