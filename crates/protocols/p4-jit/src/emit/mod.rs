//! From the program's IR to Cranelift's: one function for each parser, pipeline and deparser.
//!
//! [`Gen`] holds what every part needs; the parts are [`access`] (fields in the vector), [`stack`] (elements found by an
//! index), [`expr`] and [`wide`] (arithmetic), [`stmt`] (actions), [`table`] (keys, lookups, nodes), [`parser`],
//! [`checksum`], [`deparse`] (lengths, emission); [`known`] is what is in registers. What no part does itself becomes a [`Delegate`](crate::delegate::Delegate): the interpreter does it on the same vector.

pub mod access;
pub mod chain;
pub mod checksum;
pub mod deparse;
pub mod expr;
pub mod known;
pub mod parser;
pub mod stack;
pub mod stmt;
pub mod table;
pub mod wide;

use crate::delegate::{Delegate, Delegates};
use crate::env;
use crate::facts::Facts;
use barewire_p4::ir::{ActionId, FieldId, HeaderId, Program};
use barewire_p4::phv::Layout;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, BlockArg, BlockCall, InstBuilder, JumpTableData, MemFlags, Signature, Type,
    Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use known::{Entries, Known};
use std::collections::BTreeMap;

/// Up to so many targets a choice is a chain of comparisons.
const CHAIN: usize = 5;

/// This construct is not done in machine code here: delegate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported;

/// The result of generating something that may have to be delegated.
pub type Emit<T> = Result<T, Unsupported>;

/// The program and what was found out about it: shared by all functions.
#[derive(Debug)]
pub struct Unit<'p> {
    /// The program.
    pub program: &'p Program,
    /// The layout of its vectors.
    pub layout: &'p Layout,
    /// Which fields are ever read.
    pub facts: &'p Facts,
    /// Words that each table's key takes, and its fields' places.
    pub keys: &'p [barewire_p4::key::KeyLayout],
}

/// How the memory flags of each kind of memory look. None of it ever traps.
#[derive(Debug, Clone, Copy)]
pub struct Flags {
    /// The packet header vector.
    pub phv: MemFlags,
    /// The packet, and what is emitted.
    pub packet: MemFlags,
    /// Table records and the engine's own memory.
    pub record: MemFlags,
    /// The environment's pointers, which do not change during a call.
    pub env: MemFlags,
}

/// The generator of one function.
pub struct Gen<'a, 'p> {
    /// What all functions share.
    pub unit: &'a Unit<'p>,
    /// What the interpreter will do for this function.
    pub delegates: &'a mut Delegates,
    /// Cranelift's builder.
    pub b: FunctionBuilder<'a>,
    /// Facts at the current point.
    pub known: Known,
    /// Facts at blocks to come.
    pub entries: Entries,
    /// `*mut Env`.
    pub env: Value,
    /// The vector's first byte.
    pub phv: Value,
    /// The packet's first byte.
    pub packet: Value,
    /// The packet's length.
    pub packet_len: Value,
    /// Where `exit` goes: the end of the function.
    pub end: Block,
    /// The running action.
    pub action: Option<ActionFrame>,
    /// Actions of the pipeline that are generated once.
    pub shared: BTreeMap<ActionId, stmt::SharedAction>,
    /// The parser's frame, in parsers.
    pub parsing: Option<parser::ParserFrame>,
    /// IR statements delegated in this function, in words.
    pub notes: Vec<String>,
    /// Memory flags.
    pub flags: Flags,
}

/// The action whose statements are being generated.
#[derive(Debug, Clone)]
pub struct ActionFrame {
    /// The position in the program's actions; none for a deparser's or parser's own statements.
    pub action: Option<usize>,
    /// Where the arguments lie.
    pub args: Value,
    /// Widths of the parameters.
    pub widths: Vec<u32>,
    /// Each parameter's first word.
    pub first_word: Vec<u32>,
}

/// The signature of every generated function: `(env, phv, packet, packet_len) -> u64`.
pub fn signature(call_conv: CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params.extend([AbiParam::new(I64); 4]);
    signature.returns.push(AbiParam::new(I64));
    signature
}

impl<'a, 'p> Gen<'a, 'p> {
    /// Begin a function: its entry block is open, its parameters bound.
    pub fn new(unit: &'a Unit<'p>, delegates: &'a mut Delegates, mut b: FunctionBuilder<'a>) -> Gen<'a, 'p> {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let end = b.create_block();
        let params: Vec<Value> = b.block_params(entry).to_vec();
        let trusted = MemFlags::trusted().with_notrap();
        // Only `notrap`: packets lie anywhere, and fields at any byte.
        let mut plain = MemFlags::new();
        plain.set_notrap();
        let flags = Flags {
            phv: plain.with_alias_region(Some(AliasRegion::Heap)),
            packet: plain.with_alias_region(Some(AliasRegion::Table)),
            record: plain.with_alias_region(Some(AliasRegion::Vmctx)),
            env: trusted.with_alias_region(Some(AliasRegion::Vmctx)),
        };
        Gen {
            unit,
            delegates,
            b,
            known: Known::default(),
            entries: Entries::default(),
            env: params[0],
            phv: params[1],
            packet: params[2],
            packet_len: params[3],
            end,
            action: None,
            shared: BTreeMap::new(),
            parsing: None,
            notes: Vec::new(),
            flags,
        }
    }

    /// End the function: whatever reached its end returns `value`.
    pub fn finish_with(mut self, value: impl FnOnce(&mut Self) -> Value) -> Vec<String> {
        if self.entries.reached(self.end) {
            self.enter(self.end);
            let value = value(&mut self);
            self.b.ins().return_(&[value]);
        }
        self.b.seal_all_blocks();
        self.b.finalize();
        self.notes
    }

    /// A 64-bit constant.
    pub fn int(&mut self, value: u64) -> Value {
        self.b.ins().iconst(I64, value as i64)
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) -> Value {
        self.b.ins().iconst(I8, i64::from(value))
    }

    /// A new block.
    pub fn block(&mut self) -> Block {
        self.b.create_block()
    }

    /// A new block that is rarely reached.
    pub fn cold_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    /// Go on generating in `block`. All forward jumps to it must have been generated.
    pub fn enter(&mut self, block: Block) {
        self.known = self.entries.take(block);
        self.b.switch_to_block(block);
    }

    /// Jump, which ends the current block.
    pub fn jump(&mut self, to: Block) {
        self.entries.arrive(to, &self.known);
        self.b.ins().jump(to, &[]);
    }

    /// Branch on a truth value, which ends the current block.
    pub fn branch(&mut self, condition: Value, yes: Block, no: Block) {
        self.entries.arrive(yes, &self.known);
        self.entries.arrive(no, &self.known);
        self.b.ins().brif(condition, yes, &[] as &[BlockArg], no, &[] as &[BlockArg]);
    }

    /// Go to `yes` if the condition holds, else go on here in a new block.
    pub fn leave_if(&mut self, condition: Value, yes: Block) {
        let on = self.block();
        self.branch(condition, yes, on);
        self.enter(on);
    }

    /// Branch on a 64-bit number: `targets[n]`, or `default` beyond them.
    pub fn switch(&mut self, index: Value, targets: &[Block], default: Block) {
        let limit = self.int(targets.len() as u64);
        let index = self.b.ins().umin(index, limit);
        let index = self.b.ins().ireduce(I32, index);
        self.switch32(index, targets, default);
    }

    /// The same on a 32-bit number.
    pub fn switch32(&mut self, index: Value, targets: &[Block], default: Block) {
        if targets.len() <= CHAIN {
            // A few comparisons are cheaper than an indirect jump. Number 0 is the rare one everywhere here: last.
            for (number, block) in targets.iter().enumerate().skip(1) {
                let is = self.b.ins().icmp_imm(IntCC::Equal, index, number as i64);
                let on = self.block();
                self.branch(is, *block, on);
                self.enter(on);
            }
            let beyond = self.b.ins().icmp_imm(IntCC::NotEqual, index, 0);
            self.branch(beyond, default, targets.first().copied().unwrap_or(default));
            return;
        }
        for block in targets.iter().chain([&default]) {
            self.entries.arrive(*block, &self.known);
        }
        let none: &[BlockArg] = &[];
        let lists = &mut self.b.func.dfg.value_lists;
        let mut call = |block: Block| BlockCall::new(block, none.iter().copied(), lists);
        let calls: Vec<BlockCall> = targets.iter().map(|block| call(*block)).collect();
        let default = call(default);
        let table = self.b.create_jump_table(JumpTableData::new(default, &calls));
        self.b.ins().br_table(index, table);
    }

    /// Compare two values.
    pub fn icmp(&mut self, how: IntCC, left: Value, right: Value) -> Value {
        self.b.ins().icmp(how, left, right)
    }

    /// Compare with a constant.
    pub fn icmp_imm(&mut self, how: IntCC, left: Value, right: u64) -> Value {
        self.b.ins().icmp_imm(how, left, right as i64)
    }

    /// A word of the environment that stays the same during a call.
    pub fn env_word(&mut self, offset: usize) -> Value {
        self.b.ins().load(I64, self.flags.env, self.env, offset as i32)
    }

    /// A [`slot`] of the vector.
    pub fn slot(&mut self, slot: usize) -> Value {
        self.b.ins().load(I64, self.flags.phv, self.phv, slot as i32 * 8)
    }

    /// Write a [`slot`] of the vector.
    pub fn set_slot(&mut self, slot: usize, value: Value) {
        self.b.ins().store(self.flags.phv, value, self.phv, slot as i32 * 8);
    }

    /// The current action's arguments, or a null pointer.
    pub fn args(&mut self) -> Value {
        match &self.action {
            Some(frame) => frame.args,
            None => self.int(0),
        }
    }

    /// Call a helper. It may write anything but the facts that are constants of validity: the caller says what is
    /// forgotten.
    pub fn call(&mut self, address: usize, args: &[Value], returns: Option<Type>) -> Option<Value> {
        let mut signature = Signature::new(self.b.func.signature.call_conv);
        for arg in args {
            signature.params.push(AbiParam::new(self.b.func.dfg.value_type(*arg)));
        }
        signature.returns.extend(returns.map(AbiParam::new));
        let signature = self.b.import_signature(signature);
        let callee = self.int(address as u64);
        let call = self.b.ins().call_indirect(signature, callee, args);
        self.known.forget_fields();
        self.b.inst_results(call).first().copied()
    }

    /// Call a helper that gives a value.
    pub fn call_value(&mut self, address: usize, args: &[Value], returns: Type) -> Value {
        self.call(address, args, Some(returns)).expect("the signature says it returns one")
    }

    /// Leave a whole function to the interpreter; ends at [`Gen::end`].
    pub fn interpret(&mut self, what: Delegate) {
        self.delegate(what, || "all of it: too large to be compiled".to_owned());
        let end = self.end;
        self.jump(end);
    }

    /// Have the interpreter do something on the vector, and forget all facts. The result is what it gives (see
    /// [`env::delegate`]).
    pub fn delegate(&mut self, what: Delegate, note: impl FnOnce() -> String) -> Value {
        self.notes.push(note());
        let index = self.delegates.add(what);
        let index = self.int(index as u64);
        let args = self.args();
        let env = self.env;
        let result = self.call_value(env::delegate as *const () as usize, &[env, index, args], I64);
        self.known.forget_all();
        result
    }

    /// Bytes from the vector's start to a header's validity.
    pub fn valid_offset(&self, header: HeaderId) -> i32 {
        self.unit.layout.headers[header.at()].valid_byte as i32
    }

    /// Whether a header is valid, as 0 or 1.
    pub fn header_valid(&mut self, header: HeaderId) -> Value {
        if self.unit.program.headers[header.at()].metadata {
            return self.bool(true);
        }
        if let Some(valid) = self.known.valid(header) {
            return self.bool(valid);
        }
        let offset = self.valid_offset(header);
        self.b.ins().load(I8, self.flags.phv, self.phv, offset)
    }

    /// Write a header's validity.
    pub fn set_header_valid(&mut self, header: HeaderId, valid: bool) {
        if self.known.valid(header) == Some(valid) {
            return;
        }
        let value = self.bool(valid);
        let offset = self.valid_offset(header);
        self.b.ins().store(self.flags.phv, value, self.phv, offset);
        self.known.set_valid(header, Some(valid));
    }

    /// Whether writing this field can ever be seen.
    pub fn is_dead(&self, field: FieldId) -> bool {
        self.unit.facts.is_dead(field)
    }
}
