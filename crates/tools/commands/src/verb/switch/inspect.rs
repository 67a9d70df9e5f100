//! `barewire switch check` and `info`: what a program is.

use super::source::{CANNOT_RUN, SourceArgs, WarningArgs, draw, read};
use super::{Engine, load, prepare};
use crate::console::{Console, print};
use crate::failure::Code;
use barewire_p4::ir::{Arch, Program, Table, TableActions, TableKind};
use barewire_p4::phv::Layout;
use barewire_p4_source::Read;
use barewire_p4_source::diag::to_json;
use barewire_p4_source::{Diagnostic, types};
use barewire_switch::prepared::{EngineKind, Prepared};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Arguments of `check`.
#[derive(clap::Args)]
#[command(
    after_help = "P4 source (`.p4`) of any architecture is checked for names, types and every static rule. A correct v1model or PSA \
                  program that cannot run here gets a warning (`cannot-run`). JSON is also compiled to machine code. Exit code 1 when \
                  a program is refused, else 0."
)]
pub struct CheckArgs {
    /// Programs: P4 source, or JSON as p4c's bmv2 back end writes it
    #[arg(required = true)]
    programs: Vec<PathBuf>,
    /// Architecture of P4 source, if it must be a particular one
    #[arg(long, value_name = "NAME", value_parser = ["v1model", "psa", "pna", "ebpf", "ubpf", "xdp"])]
    arch: Option<String>,
    #[command(flatten)]
    warnings: WarningArgs,
    /// Messages about P4 source as one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// Arguments of `info`.
#[derive(clap::Args)]
pub struct InfoArgs {
    /// The program: P4 source (`.p4`), or JSON as p4c's bmv2 back end writes it
    program: PathBuf,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// With kernel: the maps there, what goes to user space and why, and the verifier's statistics (root)
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    #[command(flatten)]
    source: SourceArgs,
}

/// Reads, checks and compiles each program.
///
/// # Errors
/// The first that is refused.
pub fn check(args: &CheckArgs, console: &Console) -> anyhow::Result<Code> {
    let mut code = Code::Done;
    let mut messages = Vec::new();
    for path in &args.programs {
        if path.extension().is_some_and(|extension| extension == "p4") {
            if !check_source(path, args, console, &mut messages)? {
                code = Code::Failed;
            }
            continue;
        }
        let program = load(path, &args.source.options(), console)?;
        prepare(&program, EngineKind::Native)?;
        print(&format!(
            "{}: good ({} tables, {} actions, {} parser states)",
            path.display(),
            program.tables.len(),
            program.actions.len(),
            program.parsers.iter().map(|p| p.states.len()).sum::<usize>()
        ))?;
    }
    if args.json {
        print(&serde_json::to_string_pretty(&Value::Array(messages))?)?;
    }
    Ok(code)
}

/// Checks P4 source; says whether it is accepted.
fn check_source(
    path: &Path,
    args: &CheckArgs,
    console: &Console,
    messages: &mut Vec<Value>,
) -> anyhow::Result<bool> {
    let Read { map, found, made } = read(path, &args.source.options(), |source, typed, map, found| {
        if let Some(wanted) = &args.arch
            && found.error_count() == 0
        {
            types::require_architecture(typed, wanted, found);
        }
        // A program for one of our targets that is right may still ask for what they do not have.
        if found.error_count() == 0
            && matches!(types::architecture(typed), Some("v1model" | "psa"))
            && let Err(refusal) = barewire_p4_lower::lower(source, typed, map, "")
        {
            let text = format!("this program cannot run here: {}", refusal.message);
            found.push(Diagnostic::warning(CANNOT_RUN, refusal.span(), text));
        }
        format!(
            "{} ({} tables, {} actions)",
            types::architecture(typed).unwrap_or("no `main`"),
            typed.tables.len(),
            typed.functions.iter().filter(|function| function.kind == types::FnKind::Action).count()
        )
    });
    let counts = made.unwrap_or_default();
    let shown = args.warnings.wanted(&found)?;
    let accepted = shown.error_count() == 0;
    if args.json {
        if let Value::Array(list) = to_json(&map, &shown) {
            messages.extend(list);
        }
        return Ok(accepted);
    }
    draw(&map, &shown, console);
    if accepted {
        print(&format!("{}: good, {counts}", path.display()))?;
    }
    Ok(accepted)
}

/// Tells what a program has.
///
/// # Errors
/// When it is refused.
pub fn info(args: &InfoArgs) -> anyhow::Result<Code> {
    let console = Console::new(crate::args::Color::Never, true);
    let start = barewire_engine::now();
    let program = load(&args.program, &args.source.options(), &console)?;
    if args.engine == Some(Engine::Kernel) {
        return super::kernel::info(&args.program, &program, args.json);
    }
    let prepared = prepare(&program, EngineKind::Native)?;
    let load_ms = barewire_engine::now().since(start).as_secs_f64() * 1e3;
    if args.json {
        print(&info_json(&program, &prepared, load_ms).to_string())?;
    } else {
        print(&info_text(&args.program, &program, &prepared, load_ms))?;
    }
    Ok(Code::Done)
}

fn info_json(program: &Program, prepared: &Prepared, load_ms: f64) -> Value {
    let report = prepared.report();
    let functions: Vec<Value> = report
        .iter()
        .flat_map(|r| &r.functions)
        .map(|f| {
            json!({
                "name": f.name,
                "ir_instructions": f.instructions,
                "code_bytes": f.bytes,
                "interpreted": f.delegated,
            })
        })
        .collect();
    json!({
        "schema": 1,
        "program": program.name,
        "architecture": architecture(program),
        "parsers": program.parsers.iter().map(|p| json!({"name": p.name, "states": p.states.len()}))
            .collect::<Vec<_>>(),
        "tables": program.tables.iter().map(|t| table_json(program, t)).collect::<Vec<_>>(),
        "actions": program.actions.iter().map(|a| json!({
            "name": a.name,
            "parameters": a.params.iter().map(|p| json!({"name": p.name, "bits": p.width})).collect::<Vec<_>>(),
            "statements": a.body.len(),
        })).collect::<Vec<_>>(),
        "externs": {
            "counters": program.counters.len(),
            "meters": program.meters.len(),
            "registers": program.registers.len(),
            "value_sets": program.value_sets.len(),
            "learn_lists": program.learn_lists.len(),
        },
        "packet_vector_bytes": Layout::of(program).words * 8,
        "functions": functions,
        "code_bytes": report.as_ref().map(|r| r.bytes()),
        "load_ms": load_ms,
    })
}

fn info_text(file: &Path, program: &Program, prepared: &Prepared, load_ms: f64) -> String {
    let mut text = format!("{}: {}\n", file.display(), architecture(program));
    for parser in &program.parsers {
        let _ = writeln!(text, "parser {}: {} states", parser.name, parser.states.len());
    }
    for pipeline in &program.pipelines {
        let _ = writeln!(text, "control {}: {} nodes", pipeline.name, pipeline.nodes.len());
    }
    for table in &program.tables {
        let key: Vec<String> =
            table.key.iter().map(|k| format!("{} {} ({} bits)", k.name, k.kind.name(), k.width)).collect();
        let _ = writeln!(
            text,
            "table {}: {}, {} entries of {} bytes at most",
            table.name,
            table_kind(table.kind),
            table.max_size,
            entry_bytes(program, table)
        );
        let _ =
            writeln!(text, "    key: {}", if key.is_empty() { "none".to_owned() } else { key.join(", ") });
        let actions: Vec<&str> =
            table.actions.iter().map(|a| program.actions[a.at()].name.as_str()).collect();
        let _ = writeln!(text, "    actions: {}{}", actions.join(", "), through(program, table));
    }
    for action in &program.actions {
        let params: Vec<String> =
            action.params.iter().map(|p| format!("{}: {} bits", p.name, p.width)).collect();
        let _ = writeln!(text, "action {}({})", action.name, params.join(", "));
    }
    for counter in &program.counters {
        let _ =
            writeln!(text, "counter {}: {}", counter.name, size_of(counter.size, counter.direct.is_some()));
    }
    for meter in &program.meters {
        let _ = writeln!(text, "meter {}: {}", meter.name, size_of(meter.size, meter.direct.is_some()));
    }
    for register in &program.registers {
        let _ = writeln!(text, "register {}: {} of {} bits", register.name, register.size, register.width);
    }
    let _ = writeln!(text, "packet header vector: {} bytes", Layout::of(program).words * 8);
    if let Some(report) = prepared.report() {
        let _ = writeln!(text, "{report}");
        let _ = writeln!(text, "read, checked and compiled in {load_ms:.1} ms");
        let _ = writeln!(
            text,
            "(instructions are Cranelift's before it chooses machine instructions: the longest way through a function,\n\
             not what one packet runs; `barewire bench switch --count` counts those)"
        );
    }
    text
}

fn architecture(program: &Program) -> &'static str {
    match program.arch {
        Arch::V1Model => "v1model",
        Arch::Psa => "psa",
    }
}

fn size_of(size: u32, direct: bool) -> String {
    if direct { "one each entry".to_owned() } else { size.to_string() }
}

fn through(program: &Program, table: &Table) -> String {
    match table.source {
        TableActions::Direct => String::new(),
        TableActions::Profile(profile) => {
            let profile = &program.profiles[profile.at()];
            let kind = if profile.selector.is_some() { "action selector" } else { "action profile" };
            format!(" (through {kind} {})", profile.name)
        }
    }
}

/// A record's words: four of its own and the longest action's arguments; and the key's value and mask.
fn entry_bytes(program: &Program, table: &Table) -> u32 {
    let args = |action: &barewire_p4::ir::ActionId| {
        let params = &program.actions[action.at()].params;
        barewire_p4::key::arg_words(params.iter().map(|p| p.width)).1
    };
    let args = table.actions.iter().map(args).max().unwrap_or(0);
    let key = barewire_p4::key::KeyLayout::of(table).words;
    (4 + args + if table.kind == TableKind::Exact { key } else { 2 * key }) * 8
}

fn table_kind(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Exact => "exact",
        TableKind::Lpm => "lpm",
        TableKind::Ternary => "ternary",
        TableKind::Range => "range",
    }
}

fn table_json(program: &Program, table: &Table) -> Value {
    let key: Vec<Value> =
        table.key.iter().map(|k| json!({"name": k.name, "match": k.kind.name(), "bits": k.width})).collect();
    json!({
        "name": table.name,
        "match": table_kind(table.kind),
        "key": key,
        "actions": table.actions.iter().map(|a| program.actions[a.at()].name.clone()).collect::<Vec<_>>(),
        "max_size": table.max_size,
        "entry_bytes": entry_bytes(program, table),
        "const_entries": table.entries.len(),
        "immutable": table.immutable,
        "ageing": table.support_timeout,
    })
}
