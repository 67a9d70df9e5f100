//! `--engine auto`: the kernel where program and interfaces allow it, and what was chosen and why.

use crate::console::Console;
use barewire_p4::ir::Program;
use barewire_switch::kernel::{HookChoice, may_stand_at};
use barewire_switch::prepared::{EngineKind, Prepared};
use clap::ValueEnum;
use std::sync::Arc;

/// Which engine is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Wanted {
    /// The kernel where program and interfaces allow it, else machine code; says which and why
    Auto,
    /// Machine code
    Native,
    /// The reference interpreter
    Interpreter,
    /// eBPF in the kernel, machine code for what the kernel cannot do
    Kernel,
}

/// Where in the kernel a program stands.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Hook {
    /// XDP; tc from the first segment on that is larger than a frame
    Auto,
    /// XDP in the driver; veth pairs need other ends that poll (ethtool -K INTERFACE gro on tx off), without checksum offload
    Native,
    /// XDP after the driver
    Generic,
    /// Traffic control: tcx (kernel 6.6), or a filter of a clsact queueing discipline
    Tc,
    /// Traffic control by a filter, as on kernels before 6.6
    Clsact,
}

impl From<Hook> for HookChoice {
    fn from(hook: Hook) -> HookChoice {
        match hook {
            Hook::Auto => HookChoice::Auto,
            Hook::Native => HookChoice::Native,
            Hook::Generic => HookChoice::Generic,
            Hook::Tc => HookChoice::Tc,
            Hook::Clsact => HookChoice::Clsact,
        }
    }
}

/// What the choice depends on, beside the program.
pub(super) struct Choice<'a> {
    pub ports: &'a [(u32, String)],
    pub engines: usize,
    pub drop_port: u32,
}

impl Choice<'_> {
    /// The engine; an `auto` is told what it became.
    pub fn engine(&self, wanted: Wanted, program: Option<&Arc<Program>>, console: &Console) -> EngineKind {
        match wanted {
            Wanted::Native => EngineKind::Native,
            Wanted::Interpreter => EngineKind::Interpreter,
            Wanted::Kernel => EngineKind::Kernel,
            Wanted::Auto => {
                let (engine, why) = match self.kernel(program) {
                    Ok(why) => (EngineKind::Kernel, why),
                    Err(why) => (EngineKind::Native, why),
                };
                console.note(&format!("engine {engine}: {why}"));
                engine
            }
        }
    }

    /// Why the kernel, or why not.
    fn kernel(&self, program: Option<&Arc<Program>>) -> Result<String, String> {
        let Some(program) = program else { return Err("there is no program yet".to_owned()) };
        if self.ports.is_empty() {
            return Err("there are no ports yet, and those of the kernel are interfaces".to_owned());
        }
        if self.engines > 1 {
            return Err("several engines share the ports".to_owned());
        }
        for (_, uri) in self.ports {
            let interface = uri.strip_prefix("packet:").unwrap_or(uri);
            if interface.contains([':', '?']) {
                return Err(format!("port `{uri}` is not a network interface"));
            }
            may_stand_at(interface)?;
        }
        let prepared =
            Prepared::for_kernel(Arc::clone(program), self.drop_port).map_err(|e| e.to_string())?;
        let slow = prepared.kernel().map_or(0, |compiled| {
            compiled.slow.iter().filter(|path| path.reason.is_of_the_program()).count()
        });
        Ok(match slow {
            0 => "no way of the program leads to user space".to_owned(),
            1 => {
                "all but one way of the program stay there; `switch info --engine kernel` shows it".to_owned()
            }
            _ => {
                format!(
                    "all but {slow} ways of the program stay there; `switch info --engine kernel` shows them"
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(choice: &Choice<'_>, program: Option<&Arc<Program>>) -> String {
        choice.kernel(program).expect_err("nothing is loaded in this test")
    }

    #[test]
    fn what_keeps_a_program_from_the_kernel_is_said() {
        let program = Arc::new(Program::empty());
        let ports = [(1, "packet:lo?rx=64".to_owned()), (2, "no-such-interface".to_owned())];
        let choice = Choice { ports: &ports, engines: 1, drop_port: 511 };
        assert!(why(&choice, None).contains("no program"));
        assert!(why(&choice, Some(&program)).contains("`packet:lo?rx=64` is not a network interface"));
        assert!(
            why(&Choice { ports: &ports[1..], ..choice }, Some(&program)).contains("`no-such-interface`")
        );
        let choice = Choice { ports: &ports, engines: 2, drop_port: 511 };
        assert!(why(&choice, Some(&program)).contains("several engines"));
    }
}
