//! `barewire switch info --engine kernel`: what of a program the kernel does, what it does not, and what the verifier says.

use super::prepare;
use crate::console::print;
use crate::failure::{Code, Failure};
use barewire_p4::ir::Program;
use barewire_switch::kernel::{Kernel, SlowPath};
use barewire_switch::prepared::EngineKind;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Compiles a program for the kernel, loads it, and tells of both.
///
/// # Errors
/// When the compiler refuses the program, or the kernel does.
pub(super) fn info(path: &Path, program: &Arc<Program>, as_json: bool) -> anyhow::Result<Code> {
    let prepared = prepare(program, EngineKind::Kernel)?;
    let Some(compiled) = prepared.kernel() else {
        return Err(Failure::new(Code::Failed, "the program cannot run in the kernel").into());
    };
    let kernel = Kernel::load(Arc::clone(program), Arc::clone(compiled)).map_err(|error| {
        let failure = Failure::new(Code::Failed, error.to_string());
        if error.is_unavailable() {
            failure.hint("this needs root, or CAP_BPF and CAP_NET_ADMIN")
        } else {
            failure
        }
    })?;
    let verified = kernel.verified();
    let of_program = |path: &&SlowPath| path.reason.is_of_the_program();
    let slow: Vec<_> = kernel.slow().iter().filter(of_program).collect();
    // What goes to user space at tc beside that.
    let more_at_tc: Vec<&SlowPath> = match &compiled.tc {
        Ok(form) => form.slow.iter().filter(of_program).filter(|path| !slow.contains(path)).collect(),
        Err(_) => Vec::new(),
    };
    let told = |path: &&SlowPath| json!({"place": path.place, "reason": path.reason.to_string()});
    if as_json {
        let document = json!({
            "schema": 1,
            "program": program.name,
            "engine": "kernel",
            "instructions": compiled.insns.len(),
            "maps": compiled.maps.iter().map(|map| json!({
                "name": map.name,
                "kind": format!("{:?}", map.kind),
                "key_bytes": map.key,
                "value_bytes": map.value,
                "entries": map.entries,
            })).collect::<Vec<_>>(),
            "multicast": compiled.multicasts,
            "rounds": compiled.rounds,
            "clones": compiled.clones,
            "user_space": slow.iter().map(told).collect::<Vec<_>>(),
            "tc": match &compiled.tc {
                Ok(form) => json!({
                    "instructions": form.insns.len(),
                    "user_space": more_at_tc.iter().map(told).collect::<Vec<_>>(),
                }),
                Err(why) => json!({"none": why.to_string()}),
            },
            "verifier": {
                "instructions": verified.instructions,
                "states": verified.states,
                "peak_states": verified.peak_states,
                "stack_bytes": verified.stack,
            },
        });
        print(&document.to_string())?;
        return Ok(Code::Done);
    }
    let mut text = format!("{}: {} instructions of eBPF\n", path.display(), compiled.insns.len());
    let _ = writeln!(
        text,
        "the verifier walked {} instructions, with {} states ({} at a time) and {} bytes of stack",
        verified.instructions, verified.states, verified.peak_states, verified.stack
    );
    for map in &compiled.maps {
        let _ = writeln!(
            text,
            "map {}: {:?}, {} entries of {} + {} bytes",
            map.name, map.kind, map.entries, map.key, map.value
        );
    }
    if compiled.multicasts {
        let back = if compiled.not_back { ", and none goes back where it came from" } else { "" };
        let _ = writeln!(text, "multicast in the kernel: all copies of a packet are the same{back}");
    }
    if compiled.rounds {
        let _ = writeln!(text, "resubmission and recirculation in the kernel: at most 33 rounds more");
    }
    if compiled.clones {
        let _ =
            writeln!(text, "clones of what comes in in the kernel, at tc: to mirror sessions with one port");
    }
    if slow.is_empty() {
        let _ = writeln!(text, "no way of the program leads to user space");
    }
    for path in slow {
        let _ = writeln!(text, "to user space: {}: {}", path.place, path.reason);
    }
    let _ = match &compiled.tc {
        Ok(form) => writeln!(text, "at tc: {} instructions", form.insns.len()),
        Err(why) => writeln!(text, "not at tc: {why}"),
    };
    for path in more_at_tc {
        let _ = writeln!(text, "to user space, at tc: {}: {}", path.place, path.reason);
    }
    print(&text)?;
    Ok(Code::Done)
}
