//! One file for each verb.

pub mod agent;
pub mod bench_bindings;
pub mod bench_feed;
pub mod bench_floor;
pub mod bench_msg;
pub mod bench_port;
pub mod bench_published;
pub mod bench_rdma;
pub mod bench_run;
pub mod bench_stream;
pub mod bench_switch;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod feed;
pub mod key;
pub mod lab;
pub mod launching;
pub mod man;
pub mod metrics;
pub mod msg;
pub mod port;
pub mod rdma;
pub mod report;
pub mod stat;
pub mod switch;
pub mod up;

mod measured;
mod programs;
mod searching;

use crate::args::{Bench, Verb};
use crate::console::Console;
use crate::failure::Code;

/// Runs the verb.
///
/// # Errors
/// Whatever it could not do; [`failure`](crate::failure) says what that means.
pub fn run(verb: &Verb, console: &Console) -> anyhow::Result<Code> {
    match verb {
        Verb::Bench { what: Bench::Msg(args) } => bench_msg::run(args, console),
        Verb::Bench { what: Bench::Switch(args) } => bench_switch::run(args, console),
        Verb::Bench { what: Bench::Feed(args) } => bench_feed::run(args, console),
        Verb::Bench { what: Bench::Rc(args) } => bench_rdma::run(args, console),
        Verb::Bench { what: Bench::Bindings(args) } => bench_bindings::run(args, console),
        Verb::Bench { what: Bench::Port(args) } => bench_port::run(args, console),
        Verb::Bench { what: Bench::Control(args) } => bench_floor::run(args, console),
        Verb::Bench { what: Bench::Run(args) } => bench_run::run(args, console),
        Verb::Agent => agent::run(),
        Verb::Bench { what: Bench::Stream(args) } => bench_stream::run(args, console),
        Verb::Bench { what: Bench::Compare(args) } => report::run_compare(args, console),
        Verb::Report(args) => report::run(args, console),
        Verb::Bench { what: Bench::Seeds(args) } => bench_published::run(args, console),
        Verb::Demo(args) => demo::run(args, console),
        Verb::Up(args) => up::run(args, console),
        Verb::Key(args) => key::run(args, console),
        Verb::Msg(args) => msg::run(args, console),
        Verb::Port(args) => port::run(args),
        Verb::Doctor(args) => doctor::run(args, console),
        Verb::Metrics(args) => metrics::run(args, console),
        Verb::Stat(args) => stat::run(args, console),
        Verb::Switch { what } => switch::run(what, console),
        Verb::Feed { what } => feed::run(what, console),
        Verb::Rc { what } => rdma::run(what, console),
        Verb::Lab { what } => lab::run(what, console),
        Verb::Man(args) => man::run(args, console),
        Verb::Completions(args) => completions::run(args),
    }
}
