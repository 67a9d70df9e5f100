//! `fuzz-smoke`: the fuzz targets on seeded inputs, without libFuzzer.

use anyhow::Context as _;
use barewire_fuzz::{CANARY, Failure, TARGETS, Target, smoke, target};
use std::fs;
use std::path::{Path, PathBuf};

/// Inputs of a run over all targets.
const ITERATIONS_DEFAULT: u64 = 200_000;
const SEED_DEFAULT: u64 = 1;
/// Inputs within which the canary has to sing.
const CANARY_ITERATIONS: u64 = 1_000;
/// Where failing inputs are kept, from the root.
const ARTIFACTS: &str = "fuzz/artifacts";

const USAGE: &str = "\
usage: cargo run --release -p xtask -- fuzz-smoke [--target NAME] [--iterations N] [--seed S] [--input FILE]

  --target NAME    this target only, with all iterations; `canary` fails by intent
  --iterations N   inputs, over all targets (default 200000)
  --seed S         what the inputs follow from (default 1)
  --input FILE     run this one input; needs --target";

#[derive(Debug, PartialEq, Eq)]
struct Options {
    target: Option<String>,
    iterations: u64,
    seed: u64,
    input: Option<PathBuf>,
}

fn parse(args: &[String]) -> anyhow::Result<Options> {
    let mut options =
        Options { target: None, iterations: ITERATIONS_DEFAULT, seed: SEED_DEFAULT, input: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        let known = ["--target", "--iterations", "--seed", "--input"].contains(&name);
        anyhow::ensure!(known, "unknown option `{name}`\n{USAGE}");
        let value = inline.or_else(|| args.next().map(String::as_str));
        let value = value.with_context(|| format!("{name} needs a value\n{USAGE}"))?;
        match name {
            "--target" => options.target = Some(value.to_owned()),
            "--iterations" => options.iterations = number(name, value)?,
            "--seed" => options.seed = number(name, value)?,
            _ => options.input = Some(value.into()),
        }
    }
    anyhow::ensure!(options.input.is_none() || options.target.is_some(), "--input needs --target\n{USAGE}");
    Ok(options)
}

fn number(name: &str, value: &str) -> anyhow::Result<u64> {
    value.replace('_', "").parse().with_context(|| format!("{name} {value}: expected a number"))
}

/// The task.
pub fn main(args: &[String]) -> anyhow::Result<bool> {
    if args.iter().any(|a| a == "--help" || a == "-h") {
        println!("{USAGE}");
        return Ok(true);
    }
    let options = parse(args)?;
    let Some(name) = &options.target else {
        anyhow::ensure!(
            canary_sings(),
            "the canary does not sing: panics are not seen, so no target can be trusted"
        );
        println!("canary: fails, as it must");
        let whole: u64 = TARGETS.iter().map(|t| t.weight).sum();
        let mut good = true;
        for target in TARGETS {
            good &= run(target, options.seed, (options.iterations * target.weight / whole).max(1))?;
        }
        return Ok(good);
    };
    let names = || TARGETS.iter().map(|t| t.name).collect::<Vec<_>>().join(", ");
    let target = target(name).with_context(|| format!("no target `{name}`; known: {}, canary", names()))?;
    match &options.input {
        Some(path) => {
            let input = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            // Not caught: whoever replays wants the backtrace.
            let things = (target.run)(&input);
            println!("{name}: {} bytes, {things} things, no panic", input.len());
            Ok(true)
        }
        None => run(&target, options.seed, options.iterations),
    }
}

/// Whether the harness sees the canary fail. Its panic is not printed.
fn canary_sings() -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = smoke(&CANARY, SEED_DEFAULT, CANARY_ITERATIONS, |_, _| std::process::abort());
    std::panic::set_hook(hook);
    outcome.failure.is_some()
}

fn run(target: &Target, seed: u64, iterations: u64) -> anyhow::Result<bool> {
    let outcome = smoke(target, seed, iterations, |target, failure| {
        // The seed stands in no failure; the iteration and the input say enough.
        let path = save(&crate::root(), target.name, "hang", &failure);
        eprintln!("{}: {}\n{}", target.name, failure.message, replay(target.name, path.as_deref().ok()));
        std::process::exit(i32::from(crate::FOUND_FAULT))
    });
    println!("{}: seed {seed}, {} inputs, {} things", target.name, outcome.inputs, outcome.things);
    let Some(failure) = outcome.failure else { return Ok(true) };
    let path = save(&crate::root(), target.name, &seed.to_string(), &failure)?;
    println!("{}: FAILED at iteration {}: {}", target.name, failure.iteration, failure.message);
    println!("{}", replay(target.name, Some(&path)));
    Ok(false)
}

/// Writes the input to `fuzz/artifacts/NAME-SEED-ITERATION.bin` below `root`; the path from there.
fn save(root: &Path, name: &str, seed: &str, failure: &Failure) -> anyhow::Result<PathBuf> {
    let path = Path::new(ARTIFACTS).join(format!("{name}-{seed}-{}.bin", failure.iteration));
    let whole = root.join(&path);
    let context = || format!("writing {}", whole.display());
    fs::create_dir_all(root.join(ARTIFACTS)).with_context(context)?;
    fs::write(&whole, &failure.input).with_context(context)?;
    Ok(path)
}

fn replay(name: &str, path: Option<&Path>) -> String {
    match path {
        Some(path) => {
            format!("replay: cargo run -p xtask -- fuzz-smoke --target {name} --input {}", path.display())
        }
        None => "the input could not be written".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_are_read() {
        let options = parse(&words("--target wire --iterations=10_000 --seed 7")).unwrap();
        let target = Some("wire".to_owned());
        assert_eq!(options, Options { target, iterations: 10_000, seed: 7, input: None });
        for bad in ["--tarot wire", "--seed", "--seed x", "--input a.bin", "wire"] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
        assert!(main(&words("--target nothing")).unwrap_err().to_string().contains("transport"));
    }

    #[test]
    fn the_canary_sings_and_its_song_is_kept() {
        assert!(canary_sings());
        let outcome = smoke(&CANARY, 5, CANARY_ITERATIONS, |_, _| std::process::abort());
        let failure = outcome.failure.unwrap();
        let root = std::env::temp_dir().join(format!("barewire-smoke-{}", std::process::id()));
        let path = save(&root, CANARY.name, "5", &failure).unwrap();
        assert_eq!(path, Path::new(ARTIFACTS).join(format!("canary-5-{}.bin", failure.iteration)));
        assert_eq!(fs::read(root.join(&path)).unwrap(), failure.input);
        fs::remove_dir_all(&root).unwrap();
        assert!(replay("canary", Some(&path)).ends_with(".bin"));
    }
}
