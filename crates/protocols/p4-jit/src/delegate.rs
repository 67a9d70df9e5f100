//! What machine code leaves to the interpreter, by number.

use crate::emit::Unit;
use crate::gather::GatherPlan;
use barewire_p4::interp::trace::NoTrace;
use barewire_p4::interp::{Context, Flow, ParserFault, Plan};
use barewire_p4::ir::{
    ActionId, CalcInput, CalculationId, Expr, FieldRef, HashAlgorithm, ParserState, Stmt, TableId,
    TransitionMatch,
};
use barewire_p4::phv::{Phv, slot};
use barewire_p4::state::State;
use barewire_p4_state::ProgramState;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, ToPrimitive};
use std::collections::BTreeMap;

/// One thing the interpreter does.
#[derive(Debug, Clone)]
pub enum Delegate {
    /// A statement without jumps, in an action. Gives 0, or 1 when the pipeline ends.
    Stmt { stmt: Stmt, action: Option<usize> },
    /// A truth value: gives 0 or 1, or a parser error's number plus 2.
    Truth { expr: Expr, action: Option<usize> },
    /// A parser operation. Gives 0, or 1 when parsing ends without error, or an error's number plus 2.
    ParserOp { parser: usize, state: usize, op: usize },
    /// A state's transition: gives its number plus 1 (0 for none), or an error's number plus 2^32. Of one that tests a
    /// value set: gives 1 when it is taken.
    Transition { parser: usize, state: usize, transition: Option<usize> },
    /// A whole parser, which is too large to be compiled.
    Parser(usize),
    /// A whole pipeline, the same.
    Pipeline(usize),
    /// A table's key, into the environment.
    Key(TableId),
    /// Write the direct meter's colour that the last lookup gave.
    Color { dst: FieldRef },
    /// Verify a checksum whose header is valid and whose condition holds. Gives 1 when it is wrong.
    Verify(usize),
    /// Update such a checksum.
    Update(usize),
}

/// An error's number plus this is the result of a delegate that met it.
pub const FAULT: u64 = 2;
/// The same for transitions.
pub const TRANSITION_FAULT: u64 = 1 << 32;

/// All delegates of a program, and the calculations whose input is gathered by a plan.
#[derive(Debug, Default)]
pub struct Delegates {
    /// By number.
    pub list: Vec<Delegate>,
    /// Gather plans, by number.
    pub plans: Vec<GatherPlan>,
    by_calculation: BTreeMap<CalculationId, Option<usize>>,
}

impl Delegates {
    /// Add one; gives its number.
    pub fn add(&mut self, delegate: Delegate) -> usize {
        self.list.push(delegate);
        self.list.len() - 1
    }

    /// The number of a calculation's gather plan, if it has one.
    pub fn plan(&mut self, unit: &Unit<'_>, calculation: CalculationId) -> Option<usize> {
        let plans = &mut self.plans;
        *self.by_calculation.entry(calculation).or_insert_with(|| {
            plans.push(GatherPlan::of_calculation(unit.program, unit.layout, calculation)?);
            Some(plans.len() - 1)
        })
    }

    /// The number of a gather plan for an input without a name.
    pub fn inline_plan(
        &mut self,
        unit: &Unit<'_>,
        algorithm: HashAlgorithm,
        input: &[CalcInput],
    ) -> Option<usize> {
        self.plans.push(GatherPlan::of(unit.program, unit.layout, input, algorithm, None)?);
        Some(self.plans.len() - 1)
    }
}

/// What a delegate works on.
pub struct Work<'a> {
    /// The program.
    pub plan: &'a Plan,
    /// The vector.
    pub phv: &'a mut Phv,
    /// The packet.
    pub packet: &'a [u8],
    /// The parser's place in it, or where the payload begins.
    pub at: &'a mut u64,
    /// The running action's arguments.
    pub args: &'a [u64],
    /// Tables and so on.
    pub state: &'a mut ProgramState,
    /// Where keys are built.
    pub key: &'a mut [u64],
    /// The colour of the last lookup.
    pub color: u64,
}

impl Delegate {
    /// The action whose arguments it uses.
    pub fn action(&self) -> Option<ActionId> {
        match self {
            Delegate::Stmt { action, .. } | Delegate::Truth { action, .. } => action.map(ActionId::from),
            _ => None,
        }
    }

    /// Do it.
    pub fn run(&self, work: Work<'_>) -> u64 {
        let plan = work.plan;
        let at = usize::try_from(*work.at).unwrap_or(usize::MAX).min(work.packet.len());
        let mut tracer = NoTrace;
        let mut context = Context {
            plan,
            phv: work.phv,
            packet: work.packet,
            at,
            action: self.action(),
            args: work.args,
            state: work.state,
            tracer: &mut tracer,
        };
        match self {
            Delegate::Stmt { stmt, .. } => end(context.exec_stmt(stmt)),
            Delegate::Truth { expr, .. } => match context.eval_bool(expr) {
                Ok(truth) => u64::from(truth),
                Err(ParserFault(code)) => code.saturating_add(FAULT),
            },
            Delegate::ParserOp { parser, state, op } => {
                let op = &plan.program.parsers[*parser].states[*state].ops[*op];
                let flow = context.exec_parser_op(op);
                *work.at = context.at as u64;
                match flow {
                    Ok(Flow::End) => 1,
                    Ok(_) => 0,
                    Err(ParserFault(code)) => code.saturating_add(FAULT),
                }
            }
            Delegate::Transition { parser, state, transition } => {
                let state = &plan.program.parsers[*parser].states[*state];
                match select(&mut context, state, *transition) {
                    Ok(taken) => taken,
                    Err(ParserFault(code)) => code.saturating_add(TRANSITION_FAULT),
                }
            }
            Delegate::Parser(parser) => {
                context.parse(*parser);
                0
            }
            Delegate::Pipeline(pipeline) => {
                context.run_pipeline(*pipeline);
                0
            }
            Delegate::Key(table) => {
                let mut words = Vec::new();
                if context.build_key(*table, &mut words).is_ok() {
                    for (to, word) in work.key.iter_mut().zip(words) {
                        *to = word;
                    }
                }
                0
            }
            Delegate::Color { dst } => {
                let value = Expr::Int(BigInt::from(work.color));
                end(context.exec_stmt(&Stmt::Assign { dst: dst.clone(), value }))
            }
            Delegate::Verify(index) => {
                let checksum = &plan.program.checksums[*index];
                let Ok(computed) = context.calculate(checksum.calculation) else { return 0 };
                let found = match checksum.target.fixed() {
                    Some(field) => context.phv.field(&plan.layout, field).to_u64(),
                    None => match context.eval(&Expr::Field(checksum.target.clone())) {
                        Ok(value) => value.int().to_u64(),
                        Err(_) => return 0,
                    },
                };
                if found != Some(computed) {
                    context.phv.set_slot(slot::CHECKSUM_ERROR, 1);
                }
                0
            }
            Delegate::Update(index) => {
                let checksum = &plan.program.checksums[*index];
                let Ok(computed) = context.calculate(checksum.calculation) else { return 0 };
                let value = Expr::Int(BigInt::from(computed));
                end(context.exec_stmt(&Stmt::Assign { dst: checksum.target.clone(), value }))
            }
        }
    }
}

fn end(flow: Result<Flow, ParserFault>) -> u64 {
    // Outside parsers nothing fails.
    u64::from(matches!(flow, Ok(Flow::End)))
}

/// The transition that is taken, plus 1; or whether the one of number `only` is.
fn select<S: State>(
    context: &mut Context<'_, S>,
    state: &ParserState,
    only: Option<usize>,
) -> Result<u64, ParserFault> {
    let mut key = Vec::with_capacity(state.key.len());
    for (part, width) in &state.key {
        let value = context.eval(part)?.int();
        key.push(low_bits(&value, *width));
    }
    for (index, transition) in state.transitions.iter().enumerate() {
        if only.is_some_and(|only| only != index) {
            continue;
        }
        let hit = match &transition.when {
            TransitionMatch::Masked(cases) => {
                cases.iter().zip(&key).all(|((value, mask), part)| part & mask == *value)
            }
            TransitionMatch::ValueSet(set, mask) => {
                let masked: Vec<BigUint> = match mask {
                    Some(mask) => key.iter().zip(mask).map(|(part, mask)| part & mask).collect(),
                    None => key.clone(),
                };
                context.state.value_set_contains(*set, &masked, mask.as_deref())
            }
            TransitionMatch::Default => true,
        };
        if hit {
            return Ok(if only.is_some() { 1 } else { index as u64 + 1 });
        }
    }
    Ok(0)
}

fn low_bits(value: &BigInt, width: u32) -> BigUint {
    let modulus = BigInt::one() << width;
    let rest = value % &modulus;
    let rest = if rest.sign() == Sign::Minus { rest + modulus } else { rest };
    rest.into_parts().1
}
