//! bmv2's own command line: `simple_switch`, `simple_switch_grpc` and `psa_switch`, by the name the binary was started
//! under. A script that starts one of them changes only the program's name.
//!
//! Every option of theirs is either done or refused by its name with the reason; nothing is silently ignored but what
//! only tunes their logging. What they lack, the engine, is chosen behind `--` or by the environment, which scripts such as
//! p4lang's `p4_mininet.py` leave alone.

use super::choose::{Choice, Wanted};
use super::serve::{Plan, base, serve};
use super::{load, prepare};
use crate::console::Console;
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::kernel::HookChoice;
use barewire_switch::pre::PreLimits;
use barewire_switch_control::p4info;
use barewire_switch_control::p4runtime::message::ForwardingPipelineConfig;
use barewire_switch_control::p4runtime::{GrpcOptions, Tls};
use barewire_text::{Quote, hint, nearest, suggest};
use clap::ValueEnum as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Which of bmv2's programs is stood in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `simple_switch`
    Simple,
    /// `simple_switch_grpc`
    Grpc,
    /// `psa_switch`
    Psa,
}

/// The version of the JSON format that is read.
const JSON_VERSION: &str = "2.24";

/// The engine of a switch that was started by bmv2's name and without `--engine`.
const ENGINE_VARIABLE: &str = "BAREWIRE_ENGINE";

/// What the words said.
#[derive(Debug)]
pub struct Parsed {
    program: Option<PathBuf>,
    interfaces: Vec<(u32, String)>,
    pcap: Option<PathBuf>,
    use_files: Option<u64>,
    thrift_port: u16,
    device_id: u64,
    restore: Option<PathBuf>,
    log: bool,
    no_p4: bool,
    enable_swap: bool,
    drop_port: u32,
    priorities: usize,
    engine: Option<Wanted>,
    replication: PreLimits,
    grpc: SocketAddr,
    cpu_port: Option<u32>,
    tls: bool,
    tls_files: Tls,
}

/// What to do.
#[derive(Debug)]
pub enum Action {
    /// Run.
    Run(Box<Parsed>),
    /// Print this.
    Say(String),
}

struct Words {
    words: std::vec::IntoIter<String>,
}

impl Words {
    /// The value of an option: behind `=`, or the next word.
    fn value(&mut self, name: &str, inline: Option<String>) -> Result<String, String> {
        inline.or_else(|| self.words.next()).ok_or_else(|| format!("{name} needs a value"))
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str, inline: Option<String>) -> Result<T, String> {
        let value = self.value(name, inline)?;
        value.parse().map_err(|_| format!("{name}: '{value}' is not a number here"))
    }
}

const OPTIONS: &[&str] = &[
    "-h",
    "--help",
    "-i",
    "--interface",
    "--pcap",
    "--use-files",
    "--packet-in",
    "--thrift-port",
    "--device-id",
    "--nanolog",
    "--log-console",
    "--log-file",
    "-L",
    "--log-level",
    "--log-flush",
    "--log-file-max-size",
    "--log-file-max-files",
    "--notifications-addr",
    "--debugger",
    "--debugger-addr",
    "--restore-state",
    "--dump-packet-data",
    "-v",
    "--version",
    "--json-version",
    "--no-p4",
    "--max-port-count",
];
const TARGET_OPTIONS: &[&str] = &[
    "--load-modules",
    "--enable-swap",
    "--disable-swap",
    "--drop-port",
    "--engine",
    "--priority-queues",
    "--max-mc-groups",
    "--max-l1-entries",
    "--max-l2-entries",
    "--grpc-server-addr",
    "--grpc-server-ssl",
    "--grpc-server-cacert",
    "--grpc-server-cert",
    "--grpc-server-key",
    "--grpc-server-with-client-auth",
    "--cpu-port",
    "--dp-grpc-server-addr",
];

/// Reads the words behind the program's name.
///
/// # Errors
/// What is wrong with them, in a line.
pub fn parse(target: Target, words: Vec<String>) -> Result<Action, String> {
    let mut parsed = Parsed {
        program: None,
        interfaces: Vec::new(),
        pcap: None,
        use_files: None,
        thrift_port: 9090,
        device_id: 0,
        restore: None,
        log: false,
        no_p4: false,
        enable_swap: target == Target::Grpc,
        drop_port: 511,
        priorities: 1,
        engine: None,
        replication: PreLimits::default(),
        grpc: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 9559)),
        cpu_port: None,
        tls: false,
        tls_files: Tls::default(),
    };
    let mut words = Words { words: words.into_iter() };
    let mut behind = false;
    while let Some(word) = words.words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        if word == "--" {
            behind = true;
        } else if behind {
            target_option(target, &mut parsed, &name, inline, &mut words)?;
        } else if let Some(said) = common_option(&mut parsed, &name, inline, &mut words)? {
            return Ok(Action::Say(said));
        }
    }
    if parsed.program.is_none() && !parsed.no_p4 {
        return Err("no program was given: PROGRAM.json, or --no-p4".into());
    }
    Ok(Action::Run(Box::new(parsed)))
}

fn common_option(
    parsed: &mut Parsed,
    name: &str,
    inline: Option<String>,
    words: &mut Words,
) -> Result<Option<String>, String> {
    let refuse = |why: &str| Err(format!("{name} is not supported: {why}"));
    match name {
        "-h" | "--help" => {
            return Ok(Some(format!(
                "options: {}\nbehind --: {}\n--engine is barewire's own: {}; without it {ENGINE_VARIABLE} says it\n\
                 `barewire switch run --help` has the native form",
                OPTIONS.join(" "),
                TARGET_OPTIONS.join(" "),
                engines().join(", ")
            )));
        }
        "-v" | "--version" => return Ok(Some(env!("CARGO_PKG_VERSION").to_owned())),
        "--json-version" => return Ok(Some(JSON_VERSION.to_owned())),
        "-i" | "--interface" => {
            let value = words.value(name, inline)?;
            let (number, uri) = super::run::port(&value)?;
            // The second part is the file of a capture in bmv2, which no longer reads it.
            let uri = uri.split_once(',').map_or(uri.as_str(), |(interface, _)| interface).to_owned();
            parsed.interfaces.push((number, uri));
        }
        "--pcap" => parsed.pcap = Some(PathBuf::from(inline.unwrap_or_else(|| ".".into()))),
        "--use-files" => parsed.use_files = Some(words.number(name, inline)?),
        "--thrift-port" => parsed.thrift_port = words.number(name, inline)?,
        "--device-id" => parsed.device_id = words.number(name, inline)?,
        "--restore-state" => parsed.restore = Some(words.value(name, inline)?.into()),
        "--no-p4" => parsed.no_p4 = true,
        "--log-console" => parsed.log = true,
        // They tune bmv2's logger; ours writes to the standard error stream, or nothing.
        "--log-flush" => {}
        "-L" | "--log-level" | "--log-file" | "--log-file-max-size" | "--log-file-max-files" => {
            words.value(name, inline)?;
        }
        // Nothing is allocated per port number, so there is no limit to set; nothing is published over nanomsg, where
        // these addresses would be listened at: P4Runtime has the same events.
        "--max-port-count" | "--notifications-addr" | "--nanolog" | "--dump-packet-data" => {
            words.value(name, inline)?;
        }
        "--packet-in" => {
            return refuse("packets over nanomsg; use -i N@unix:MINE.sock,THEIRS.sock or N@mem:NAME");
        }
        "--debugger" | "--debugger-addr" => {
            return refuse("there is no debugger; `barewire switch trace` shows every step of a packet");
        }
        other if other.starts_with('-') => {
            let near = near(other, OPTIONS);
            let place = if TARGET_OPTIONS.contains(&other) { " (it goes behind --)" } else { "" };
            return Err(format!("unknown option {other}{place}{near}"));
        }
        _ if parsed.program.is_none() => parsed.program = Some(name.into()),
        other => return Err(format!("unexpected argument '{other}': the program is already given")),
    }
    Ok(None)
}

fn target_option(
    target: Target,
    parsed: &mut Parsed,
    name: &str,
    inline: Option<String>,
    words: &mut Words,
) -> Result<(), String> {
    let grpc = name.contains("grpc") || matches!(name, "--cpu-port" | "--disable-swap");
    if grpc && target != Target::Grpc {
        return Err(format!("{name} is an option of simple_switch_grpc"));
    }
    match name {
        "--load-modules" => {
            let file = words.value(name, inline)?;
            return Err(format!("--load-modules {file} is not supported: only bmv2 loads its C++ plug-ins"));
        }
        "--enable-swap" => parsed.enable_swap = true,
        "--disable-swap" => parsed.enable_swap = false,
        "--drop-port" => parsed.drop_port = words.number(name, inline)?,
        "--engine" => parsed.engine = Some(engine(name, &words.value(name, inline)?)?),
        "--priority-queues" => {
            parsed.priorities = words.number(name, inline)?;
            if !(1..=256).contains(&parsed.priorities) {
                return Err(format!("{name}: from 1 to 256 queues"));
            }
        }
        "--max-mc-groups" => parsed.replication.groups = words.number(name, inline)?,
        "--max-l1-entries" => parsed.replication.nodes = words.number(name, inline)?,
        "--max-l2-entries" => parsed.replication.l2_nodes = words.number(name, inline)?,
        "--grpc-server-addr" => {
            let address = words.value(name, inline)?;
            parsed.grpc =
                address.parse().map_err(|_| format!("{name}: '{address}' is not an ADDRESS:PORT"))?;
        }
        "--cpu-port" => parsed.cpu_port = Some(words.number(name, inline)?),
        "--grpc-server-ssl" => parsed.tls = true,
        "--grpc-server-cert" => parsed.tls_files.cert = words.value(name, inline)?.into(),
        "--grpc-server-key" => parsed.tls_files.key = words.value(name, inline)?.into(),
        "--grpc-server-cacert" => parsed.tls_files.ca_cert = Some(words.value(name, inline)?.into()),
        "--grpc-server-with-client-auth" => parsed.tls_files.client_auth = true,
        "--dp-grpc-server-addr" => {
            return Err(format!(
                "{name} is not supported: packets come over ports; use -i N@unix:MINE.sock,THEIRS.sock"
            ));
        }
        other => return Err(format!("unknown option {other} behind --{}", near(other, TARGET_OPTIONS))),
    }
    Ok(())
}

/// What was meant, perhaps; the list of all is in `--help`.
fn near(option: &str, known: &[&str]) -> String {
    hint("; ", nearest(option, known.iter().copied()), Quote::Back)
}

fn engines() -> Vec<String> {
    Wanted::value_variants()
        .iter()
        .filter_map(Wanted::to_possible_value)
        .map(|v| v.get_name().to_owned())
        .collect()
}

fn engine(from: &str, name: &str) -> Result<Wanted, String> {
    Wanted::from_str(name, false).map_err(|_| {
        let known = engines();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        format!("{from}: there is no engine '{name}'; {}", suggest(name, &known))
    })
}

/// The pipeline configuration of a program whose P4Info stands in a file.
///
/// # Errors
/// When the file cannot be read or is no P4Info.
pub fn pipeline_config(path: &Path, json: &str) -> anyhow::Result<ForwardingPipelineConfig> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let info = p4info::text::parse(&text)
        .map_err(|e| Failure::new(Code::Failed, format!("{}: {e}", path.display())))?;
    Ok(ForwardingPipelineConfig {
        p4info: Some(info),
        p4_device_config: json.as_bytes().to_vec(),
        cookie: None,
    })
}

/// Runs as that program.
///
/// # Errors
/// What was refused or could not be opened.
pub fn run(target: Target, words: Vec<String>, console: &Console) -> anyhow::Result<Code> {
    let parsed = match parse(target, words).map_err(|e| Failure::new(Code::Usage, e))? {
        Action::Say(text) => {
            crate::console::print(&text)?;
            return Ok(Code::Done);
        }
        Action::Run(parsed) => *parsed,
    };
    let wanted = match (parsed.engine, std::env::var(ENGINE_VARIABLE)) {
        (Some(wanted), _) => wanted,
        (None, Ok(name)) => engine(ENGINE_VARIABLE, &name).map_err(|e| Failure::new(Code::Usage, e))?,
        (None, Err(_)) => Wanted::Native,
    };
    let options = barewire_p4_source::Options::default();
    let program = parsed.program.as_ref().map(|path| load(path, &options, console)).transpose()?;
    let choice = Choice { ports: &parsed.interfaces, engines: 1, drop_port: parsed.drop_port };
    let engine = choice.engine(wanted, program.as_ref(), console);
    let prepared = program.map(|program| prepare(&program, engine)).transpose()?;
    let config = TargetConfig {
        drop_port: parsed.drop_port,
        cpu_port: parsed.cpu_port,
        priorities: parsed.priorities,
        replication: parsed.replication,
        pass_offloads: false,
        hook: HookChoice::Auto,
    };
    let mut server = base(config, parsed.device_id);
    server.ports = match parsed.use_files {
        // The files are opened when the wait is over, as in bmv2: tables can be filled before.
        Some(_) => Vec::new(),
        None => parsed.interfaces.clone(),
    };
    server.capture = parsed.pcap;
    server.control.enable_swap = parsed.enable_swap;
    server.control.engine = engine;
    let grpc_options = GrpcOptions {
        device_id: parsed.device_id,
        tls: parsed.tls.then_some(parsed.tls_files),
        ..GrpcOptions::default()
    };
    let later = parsed.use_files.map(|seconds| super::serve::Later {
        seconds,
        ports: parsed
            .interfaces
            .iter()
            .map(|(number, name)| (*number, format!("pcap:{name}_in.pcap?out={name}_out.pcap")))
            .collect(),
    });
    let plan = Plan {
        prepared,
        server,
        // As bmv2: from everywhere.
        thrift: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, parsed.thrift_port))),
        grpc: (target == Target::Grpc).then_some(parsed.grpc),
        grpc_options,
        restore: parsed.restore,
        name: None,
        metrics: crate::verb::metrics::Endpoint::NONE,
        follow: parsed.log,
        later,
        watch: None,
    };
    serve(plan, console)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn run_of(target: Target, text: &str) -> Parsed {
        match parse(target, words(text)) {
            Ok(Action::Run(parsed)) => *parsed,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_mininet_and_p4_utils_write_is_read() {
        let parsed = run_of(
            Target::Simple,
            "-i 1@s1-eth1 -i 2@s1-eth2 --pcap=/logs --thrift-port 9091 --nanolog ipc:///tmp/bm-1-log.ipc \
             --device-id 1 p.json --log-console --debugger-like -- --priority-queues 8"
                .replace("--debugger-like ", "")
                .as_str(),
        );
        assert_eq!(parsed.interfaces, [(1, "s1-eth1".to_owned()), (2, "s1-eth2".to_owned())]);
        assert_eq!((parsed.thrift_port, parsed.device_id, parsed.priorities), (9091, 1, 8));
        assert_eq!(parsed.pcap, Some("/logs".into()));
        assert_eq!(parsed.program, Some("p.json".into()));
        assert!(parsed.log);
        let parsed =
            run_of(Target::Grpc, "--no-p4 -i 1@a,b -- --grpc-server-addr 127.0.0.1:5 --cpu-port 255");
        assert_eq!((parsed.cpu_port, parsed.grpc.port()), (Some(255), 5));
        assert_eq!(parsed.interfaces, [(1, "a".to_owned())]);
        assert!(parsed.enable_swap);
    }

    #[test]
    fn what_is_not_done_is_refused_by_name() {
        for (text, part) in [
            ("p.json --debugger", "--debugger is not supported"),
            ("p.json --packet-in ipc:///x", "--packet-in is not supported"),
            ("p.json -- --load-modules x.so", "plug-in"),
            ("p.json -- --cpu-port 3", "simple_switch_grpc"),
            ("p.json --thrift-prot 3", "unknown option --thrift-prot; did you mean `--thrift-port`?"),
            ("p.json --drop-port 3", "behind --"),
            ("p.json -i eth0", "NUMBER@URI"),
            ("p.json q.json", "the program is already given"),
            ("", "no program"),
            ("p.json --thrift-port", "needs a value"),
            ("p.json -- --priority-queues 0", "from 1 to 256"),
            ("p.json -- --engine kernal", "no engine 'kernal'; did you mean `kernel`?"),
        ] {
            let error = parse(Target::Simple, words(text)).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_option_has_its_place() {
        for name in OPTIONS {
            let result = parse(Target::Simple, words(&format!("p.json {name} 1@x")));
            if let Err(error) = result {
                assert!(!error.contains("unknown"), "{name}: {error}");
            }
        }
        for name in TARGET_OPTIONS {
            let result = parse(Target::Grpc, words(&format!("p.json -- {name} 7")));
            if let Err(error) = result {
                // `7` stands alone behind an option without a value.
                assert!(!error.contains(&format!("unknown option {name}")), "{name}: {error}");
            }
        }
    }
}
