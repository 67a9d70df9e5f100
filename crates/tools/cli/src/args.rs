//! The command line.

use crate::verb;
use clap::{Parser, Subcommand, ValueEnum};

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed, or found worse than asked for
    2  the command line is wrong
    3  this machine or this user cannot: rights, kernel, hardware
    4  it ran, but its figures are void
  130  interrupted (Ctrl-C)

Data goes to stdout, everything else to stderr.";

/// A user-space network data plane and the programs on it.
#[derive(Parser)]
#[command(name = "barewire", version, after_help = EXIT_CODES, subcommand_required = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Color messages
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN", global = true)]
    pub color: Color,
    /// Print results and errors only
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// When messages have colors.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The verbs. Each has a file under `verb/`.
#[derive(Subcommand)]
pub enum Verb {
    /// Measure
    Bench {
        /// What to measure.
        #[command(subcommand)]
        what: Bench,
    },
    /// Show barewire beside the kernel's TCP, on hosts made for it, in half a minute
    Demo(verb::demo::Args),
    /// Run the message daemon: own a port and serve applications
    Up(Box<verb::up::Args>),
    /// Exchange messages through the daemon: listen, send, ping
    Msg(verb::msg::Args),
    /// Run a P4 switch, and look into programs and packets
    Switch {
        /// What to do.
        #[command(subcommand)]
        what: verb::switch::Switch,
    },
    /// Market data: feed channels to books, captures, and an emulated exchange
    Feed {
        /// What to do.
        #[command(subcommand)]
        what: verb::feed::Feed,
    },
    /// RDMA connections without RDMA hardware: serve, ping, connect, perf
    Rc {
        /// What to do.
        #[command(subcommand)]
        what: verb::rc::Rc,
    },
    /// Hosts, switches and links on this machine, from one file
    Lab {
        /// What to do.
        #[command(subcommand)]
        what: verb::lab::What,
    },
    /// Open a port and say what was chosen and why
    Port(verb::port::Args),
    /// Show the counters of a running engine
    Stat(verb::stat::Args),
    /// Runs as one HTML page, as Markdown, CSV and pictures, with the published tables beside them
    Report(Box<verb::report::Args>),
    /// Be the agent of an experiment: started by `bench run`
    #[command(hide = true)]
    Agent,
    /// Print a completion script for a shell
    Completions(verb::completions::Args),
}

/// What `bench` measures.
#[derive(Subcommand)]
pub enum Bench {
    /// Request-response messages: round trips and rates, beside kernel sockets
    Msg(Box<verb::bench_msg::Args>),
    /// The P4 switch: its engine alone, from file to file, between hosts beside the kernel's bridge and bmv2
    Switch(Box<verb::bench_switch::Args>),
    /// Market data: from a packet's arrival to the callback, with sockets and ports, at several paces
    Feed(Box<verb::bench_feed::Args>),
    /// RDMA: how fast reliable connections are made, and what goes over them
    Rc(Box<verb::bench_rc::Args>),
    /// Streams between two hosts over the kernel's sockets: what a switch or a wire between them carries
    Stream(Box<verb::bench_stream::Args>),
    /// The published tables of the message service, bmv2, a feed handler and RDMA connections, with the same experiments run here beside them
    Seeds(verb::bench_seeds::Args),
    /// An experiment over several hosts, from a file to a run folder
    Run(Box<verb::bench_run::Args>),
    /// Whether one run is worse than another, figure by figure
    Compare(verb::report::CompareArgs),
}
