//! `barewire bench floor`: the floor under every figure of this machine.

use super::measured::{MeasuredOutputArgs, warn_of_debug_build};
use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_bench::Results;
use barewire_bench::control::Control;
use barewire_report::control_words;
use barewire_report::run::HardwareClass;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    output: MeasuredOutputArgs,
}

/// Runs it.
///
/// # Errors
/// When they cannot be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    let mut results = Results::begin();
    let control = Control::measure(args.output.hiccup)
        .map_err(|e| Failure::new(Code::Unfit, format!("the machine's own figures: {e}")))?;
    for (what, why) in control.missing() {
        console.note(&format!("{what} was not measured: {why}"));
    }
    let row = serde_json::to_value(&control)?;
    results.set_control(control);
    let words = control_words(row.as_object().into_iter());
    let width = words.iter().map(|(what, _)| what.chars().count()).max().unwrap_or_default();
    let lines: Vec<String> = words.iter().map(|(what, much)| format!("{what:<width$}  {much}")).collect();
    let text = lines.join("\n");
    args.output.end(&results, "control", HardwareClass::OneMachine, &[], console, || text)?;
    Ok(Code::Done)
}
