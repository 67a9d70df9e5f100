//! The command line.

use crate::verb;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use serde_json::{Map, Value};

/// What the exit codes mean; each manual page says it, too.
pub const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed, or found worse than asked for
    2  the command line is wrong
    3  this machine or this user cannot: rights, kernel, hardware
    4  it ran, but its figures are void
  130  interrupted (Ctrl-C)

Data goes to stdout, everything else to stderr.";

/// Help is wrapped at the terminal's width, and never wider: longer lines are hard to read.
pub const HELP_COLUMNS: usize = 100;

/// Heading of the options that every verb has.
const EVERYWHERE: &str = "Everywhere";

/// A user-space network data plane and the programs on it.
#[derive(Parser)]
#[command(name = "barewire", version, after_help = EXIT_CODES, subcommand_required = true, max_term_width = HELP_COLUMNS)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// When to color messages: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN", global = true, hide_possible_values = true, help_heading = EVERYWHERE)]
    pub color: Color,
    /// Print results and errors only
    #[arg(long, short, global = true, help_heading = EVERYWHERE)]
    pub quiet: bool,
}

/// Every option of this program's command line with its value, those that were not typed included: the configuration as it was
/// resolved. Null when there is no such command line.
pub fn resolved() -> Value {
    let command = Cli::command();
    let Ok(matches) = command.clone().try_get_matches_from(std::env::args_os()) else { return Value::Null };
    of_matches(&command, &matches)
}

/// A verb that stands below others is suggested where it is, before one that is only spelt alike: `compare` is `bench compare`.
pub fn tell_where_it_is(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let command = Cli::command();
    let has = |verb: &&clap::Command| verb.find_subcommand(typed).is_some_and(|below| !below.is_hide_set());
    let found: Vec<String> = command
        .get_subcommands()
        .filter(has)
        .map(|verb| format!("barewire {} {typed}", verb.get_name()))
        .collect();
    if !found.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(found));
    }
}

fn of_matches(command: &clap::Command, matches: &clap::ArgMatches) -> Value {
    let (mut command, mut matches, mut verb) = (command, matches, Vec::new());
    while let Some((name, below)) = matches.subcommand()
        && let Some(found) = command.find_subcommand(name)
    {
        verb.push(name);
        (command, matches) = (found, below);
    }
    let mut all = Map::new();
    all.insert("verb".to_owned(), verb.join(" ").into());
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let Ok(Some(values)) = matches.try_get_raw(id) else { continue };
        let mut values: Vec<Value> = values
            .map(|raw| {
                let text = raw.to_string_lossy();
                serde_json::from_str(&text)
                    .ok()
                    .filter(|v: &Value| !v.is_object())
                    .unwrap_or_else(|| text.into())
            })
            .collect();
        let value = if values.len() == 1 { values.remove(0) } else { values.into() };
        all.insert(id.to_owned(), value);
    }
    all.into()
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
    /// Measure messages, switch, market data and RDMA beside their baselines
    Bench {
        /// What to measure.
        #[command(subcommand)]
        what: Bench,
    },
    /// Measure all four programs beside their baselines, on hosts created for the run; takes about four minutes
    Demo(verb::demo::Args),
    /// Run the message daemon: own a port and serve applications
    Up(Box<verb::up::Args>),
    /// Keys for encrypted messages, and trust in peers: new, show, trust
    Key(verb::key::Args),
    /// Exchange messages through the daemon: listen, send, ping
    Msg(verb::msg::Args),
    /// Run a P4 switch; check, inspect, trace and test programs
    Switch {
        /// What to do.
        #[command(subcommand)]
        what: verb::switch::Switch,
    },
    /// Market data: receive feed channels, keep books, record, replay, emulate an exchange
    Feed {
        /// What to do.
        #[command(subcommand)]
        what: verb::feed::Feed,
    },
    /// RDMA connections without RDMA hardware: serve, ping, connect, perf
    #[command(name = "rdma", visible_alias = "rc")]
    Rc {
        /// What to do.
        #[command(subcommand)]
        what: verb::rdma::Rc,
    },
    /// Hosts, switches and links on this machine, from one file
    Lab {
        /// What to do.
        #[command(subcommand)]
        what: verb::lab::What,
    },
    /// Open a port and show the options in effect, and why
    Port(verb::port::Args),
    /// Check this machine for sources of latency: findings, their cost, and commands that fix them
    Doctor(verb::doctor::Args),
    /// Show the counters of running engines: live on a terminal, or printed
    Stat(verb::stat::Args),
    /// Export counters of running engines to Prometheus; print a Grafana dashboard
    Metrics(verb::metrics::Args),
    /// Turn runs into an HTML page, Markdown, CSV, Parquet and charts, with the published tables beside them
    Report(Box<verb::report::Args>),
    /// Run the agent of an experiment (started by `bench run`)
    #[command(hide = true)]
    Agent,
    /// Write the manual pages
    Man(verb::man::Args),
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
    /// Market data: from a packet's arrival to the callback, over sockets and ports, at several paces
    Feed(Box<verb::bench_feed::Args>),
    /// RDMA: how fast reliable connections are made, and what goes over them
    #[command(name = "rdma", visible_alias = "rc")]
    Rc(Box<verb::bench_rdma::Args>),
    /// TCP and UDP streams between two hosts over the kernel's sockets: what the network between them carries
    Stream(Box<verb::bench_stream::Args>),
    /// Raw frames between two ports, without any protocol: packets a second and time a packet
    Port(verb::bench_port::Args),
    /// The languages of the bindings: requests and responses through the daemon, beside each language's own TCP sockets
    Bindings(Box<verb::bench_bindings::Args>),
    /// The published tables of all four fields, with the same experiments run on this machine
    #[command(name = "published", visible_alias = "seeds")]
    Seeds(verb::bench_published::Args),
    /// What this machine adds to every figure: clock, system call, core to core, wake-up, hiccups, the kernel's round trip
    #[command(name = "floor", visible_alias = "control")]
    Control(verb::bench_floor::Args),
    /// Run an experiment over several hosts, from a file to a run folder
    Run(Box<verb::bench_run::Args>),
    /// Compare two runs, figure by figure
    Compare(verb::report::CompareArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_configuration_has_what_was_typed_and_what_was_not() {
        let command = Cli::command();
        let words = ["barewire", "bench", "rc", "--threads", "1,2", "--over", "mem", "--data"];
        let got = of_matches(&command, &command.clone().try_get_matches_from(words).unwrap());
        assert_eq!(got["verb"], "bench rdma", "by its name, whichever of them was typed");
        assert_eq!(
            (&got["threads"], &got["over"], &got["data"]),
            (&json!([1, 2]), &json!("mem"), &json!(true))
        );
        assert_eq!((&got["seconds"], &got["runs"], got.get("cores")), (&json!(3), &json!(5), None));
    }

    #[test]
    fn a_verb_below_another_is_suggested_where_it_is() {
        let said = |typed: &str| {
            let mut error = Cli::command().try_get_matches_from(["barewire", typed]).unwrap_err();
            tell_where_it_is(&mut error);
            error.to_string()
        };
        assert!(said("compare").contains("'barewire bench compare'"), "{}", said("compare"));
        assert!(!said("compare").contains("completions"), "{}", said("compare"));
        assert!(said("swich").contains("'switch'"), "{}", said("swich"));
    }
}
