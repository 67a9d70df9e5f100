//! What blocks printed, beside what the page shows. Numbers, and the units behind them, are those of one run: they are not compared.

use crate::pages::{Kind, Page};
use crate::session::Ran;
use std::path::Path;

/// Any lines.
const ANY: &str = "...";
/// Units that a number may have in one run and not in the next.
const UNITS: &[&str] = &["ns", "us", "ms", "s", "K", "M", "G", "k"];

/// Faults: codes that differ, outputs that differ. With BAREWIRE_UPDATE_DOCS, outputs go into the page instead.
pub fn compare(root: &Path, page: &Page, ran: &[Ran]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut updates = Vec::new();
    let (mut last, mut last_background) = (None, None);
    for (block, ran) in page.blocks.iter().zip(ran) {
        match (&block.kind, ran) {
            (Kind::Run(how), Ran::Done { code, text }) => {
                if how.background {
                    last_background = Some(text);
                } else {
                    last = Some(text);
                    // Figures that are void are those of a busy machine, and no fault of the page.
                    let is_void = *code == Some(4)
                        && block.text.contains("barewire bench")
                        && text.lines().any(|line| crate::patience::excuses(line, line));
                    if *code != Some(how.exit) && !is_void {
                        faults.push(format!(
                            "{}:{}: exit code {code:?} instead of {}:\n{}{text}",
                            page.name, block.line, how.exit, block.text
                        ));
                    }
                }
            }
            (Kind::Run(how), Ran::NotRun) if !how.background => last = None,
            (Kind::Output { background }, _) => {
                let Some(text) = (if *background { last_background } else { last }) else { continue };
                if !matches(&block.text, text) {
                    if std::env::var_os("BAREWIRE_UPDATE_DOCS").is_some() {
                        updates.push((block.line, text.clone()));
                    } else {
                        faults.push(format!(
                            "{}:{}: shows\n{}where this was printed:\n{text}(BAREWIRE_UPDATE_DOCS=1 writes it)",
                            page.name, block.line, block.text
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    if !updates.is_empty() {
        write(root, &page.name, &updates);
    }
    faults
}

/// Puts each text between the fence of its line and the next one.
fn write(root: &Path, name: &str, updates: &[(usize, String)]) {
    let path = root.join(name);
    let old = std::fs::read_to_string(&path).expect("the page");
    let (mut new, mut skipping) = (String::new(), false);
    for (i, line) in old.lines().enumerate() {
        if skipping && line.starts_with("```") {
            skipping = false;
        }
        if !skipping {
            new += line;
            new.push('\n');
        }
        if let Some((_, text)) = updates.iter().find(|(at, _)| *at == i + 1) {
            for line in text.trim_end().lines() {
                new += line.trim_end();
                new.push('\n');
            }
            skipping = true;
        }
    }
    std::fs::write(path, new).expect("writing the page");
}

/// Whether the lines that are shown are those that were printed, but for numbers.
fn matches(shown: &str, printed: &str) -> bool {
    let lines =
        |text: &str| -> Vec<String> { text.lines().map(plain).filter(|line| !line.is_empty()).collect() };
    fit(&lines(shown), &lines(printed))
}

fn fit(shown: &[String], printed: &[String]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((one, after)), _) if one == ANY => {
            (0..=printed.len()).any(|skipped| fit(after, &printed[skipped..]))
        }
        (Some((one, after)), Some((other, rest))) => one == other && fit(after, rest),
        (Some(_), None) => false,
    }
}

/// A line with each number as `#`, whatever its unit of time or size, and single blanks.
fn plain(line: &str) -> String {
    if line.trim() == ANY {
        return ANY.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let mut out = String::new();
        for c in word.chars() {
            let of_number = c.is_ascii_digit() || (out.ends_with('#') && matches!(c, '.' | ',' | ':'));
            match c {
                _ if of_number && out.ends_with('#') => {}
                _ if of_number => out.push('#'),
                // Tables are as wide as their numbers.
                '-' | '─' if out.ends_with(c) => {}
                c => out.push(c),
            }
        }
        let unit = out.strip_prefix('#').unwrap_or(&out).trim_end_matches([',', ';', ')']);
        let follows = words.last().is_some_and(|last| last.ends_with('#'));
        if UNITS.contains(&unit) && (out.starts_with('#') || follows) {
            let end = &out[out.len() - (out.len() - out.trim_end_matches([',', ';', ')']).len())..];
            out = if out.starts_with('#') { format!("#{end}") } else { format!("~{end}") };
        }
        words.push(out);
    }
    words.join(" ").replace("# ~", "#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_units_are_aside() {
        assert_eq!(plain("5 sent, 3.7 us  at most (1.2K)"), "# sent, # at most (#K)");
        assert!(matches("a 3 us\n...\nz\n", "a 412 ns\nb\nc\nz 1\n".trim_end_matches(" 1\n")));
        assert!(matches("x\n...\n", "x\ny\nz\n") && matches("...\nz\n", "x\nz\n"));
        assert!(!matches("x\n", "x\ny\n") && !matches("x\ny\n", "x\n") && !matches("sent 3\n", "lost 3\n"));
    }
}
