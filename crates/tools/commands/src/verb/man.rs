//! `barewire man`: a manual page for each verb, or the same as Markdown.

use crate::args::{Cli, EXIT_CODES};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_text::{Quote, did_you_mean, nearest};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use std::path::PathBuf;

mod markdown;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Write the pages of all verbs into this folder, which is created
    #[arg(long, value_name = "FOLDER", required_unless_present = "page", conflicts_with = "page")]
    out: Option<PathBuf>,
    /// With --out: Markdown instead of roff, one page for each top-level verb
    #[arg(long, requires = "out")]
    markdown: bool,
    /// Print the page of one verb, such as `bench msg`; `barewire` itself: `-`
    #[arg(value_name = "VERB")]
    page: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// When there is no such verb, or a file cannot be written.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let (pages, end) = match args.markdown {
        true => (markdown::pages(), "md"),
        false => (pages()?, "1"),
    };
    let Some(folder) = &args.out else {
        let words: Vec<&str> = args.page.iter().map(String::as_str).filter(|word| *word != "-").collect();
        let wanted = page_name(&words);
        let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
            let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
            let hint = nearest(&wanted, names).map_or_else(
                || "barewire --help".to_owned(),
                |near| did_you_mean(&near.replace('-', " "), Quote::Back),
            );
            return Err(Failure::new(Code::Usage, format!("no verb `{}`", words.join(" ")))
                .hint(hint)
                .into());
        };
        print(page)?;
        return Ok(Code::Done);
    };
    let writing = || format!("writing to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(writing)?;
    for (name, page) in &pages {
        std::fs::write(folder.join(format!("{name}.{end}")), page).with_context(writing)?;
    }
    console.note(&format!("{} pages in {}", pages.len(), folder.display()));
    Ok(Code::Done)
}

/// The name of the page of a verb, by whichever of its names: each word that is an alias stands for the verb's own.
fn page_name(words: &[&str]) -> String {
    let root = Cli::command();
    let (mut at, mut name) = (Some(&root), "barewire".to_owned());
    for word in words {
        at = at.and_then(|command| command.find_subcommand(word));
        name.push('-');
        name.push_str(at.map_or(word, |command| command.get_name()));
    }
    name
}

/// Name without `.1`, and text, of every page.
fn pages() -> anyhow::Result<Vec<(String, String)>> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add(&root, "barewire", &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, name: &str, pages: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    // What belongs to every page is a section of its own here.
    let extra = command.get_after_help().map(ToString::to_string).filter(|text| text != EXIT_CODES);
    let page = command
        .clone()
        .name(name.to_owned())
        .display_name(name.to_owned())
        .after_help("")
        .after_long_help("");
    let man = Man::new(page).source(format!("barewire {}", env!("CARGO_PKG_VERSION"))).manual("barewire");
    let mut out = Vec::new();
    man.render(&mut out)?;
    let mut text = String::from_utf8(out)?;
    if let Some(extra) = extra {
        text.push_str(&section("NOTES", &extra));
    }
    text.push_str(&section("EXIT STATUS", EXIT_CODES));
    if name != "barewire" {
        text.push_str(&section("SEE ALSO", "barewire(1)"));
    }
    pages.push((name.to_owned(), text));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        add(sub, &format!("{name}-{}", sub.get_name()), pages)?;
    }
    Ok(())
}

/// A section whose lines stand as they are.
fn section(title: &str, text: &str) -> String {
    let mut out = format!(".SH \"{title}\"\n.nf\n");
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A dot or a quote at the beginning would be a request.
        let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
        out.push_str(&format!("{guard}{line}\n"));
    }
    out + ".fi\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_verb_has_a_page_with_its_exit_codes() {
        let pages = pages().unwrap();
        let names: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), pages.len());
        for name in [
            "barewire",
            "barewire-up",
            "barewire-bench-msg",
            "barewire-switch-run",
            "barewire-doctor",
            "barewire-metrics",
        ] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        for (name, page) in &pages {
            assert!(page.contains(".SH \"EXIT STATUS\"") && page.contains("130  interrupted"), "{name}");
            assert!(
                page.contains(".SH SYNOPSIS") && page.contains(&name.replace('-', "\\-")),
                "{name}: {page}"
            );
        }
        let metrics = &pages.iter().find(|(name, _)| name == "barewire-metrics").unwrap().1;
        assert!(metrics.contains(".SH \"NOTES\"") && metrics.contains("\\-\\-grafana"), "{metrics}");
        assert!(!metrics.contains("\n\\-with\\-parent"));
    }

    #[test]
    fn a_page_has_every_name_of_its_verb() {
        assert_eq!(page_name(&["rc", "serve"]), "barewire-rdma-serve");
        assert_eq!(page_name(&["bench", "seeds"]), page_name(&["bench", "published"]));
        assert_eq!(page_name(&["bench", "control"]), "barewire-bench-floor");
        assert_eq!(
            (page_name(&[]).as_str(), page_name(&["nothing", "x"]).as_str()),
            ("barewire", "barewire-nothing-x")
        );
        let pages = pages().unwrap();
        assert!(pages.iter().any(|(name, _)| *name == page_name(&["bench", "rc"])));
    }

    #[test]
    fn lines_of_a_section_are_no_requests() {
        assert_eq!(section("X", ".a\n'b\nc\\d"), ".SH \"X\"\n.nf\n\\&.a\n\\&'b\nc\\ed\n.fi\n");
    }
}
