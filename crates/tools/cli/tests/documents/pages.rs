//! Fenced blocks of a page, and the marker above each.

use std::path::Path;

/// How a block is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct How {
    /// It needs root.
    pub root: bool,
    /// It goes on while later blocks run, and ends with the page.
    pub background: bool,
    /// The next block waits until this was printed.
    pub wait: Option<String>,
    /// The host of the page's lab that it runs in.
    pub on: Option<String>,
    /// The exit code that it must have.
    pub exit: i32,
    /// The reader does not see it.
    pub hidden: bool,
}

/// What a block is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Run(How),
    Output {
        background: bool,
    },
    File(String),
    Code(String),
    /// Nothing to run, or the reason is given.
    Shown,
}

/// One fenced block, or the commands of a `setup`.
#[derive(Clone, Debug)]
pub struct Block {
    /// The line of the fence, from 1.
    pub line: usize,
    pub kind: Kind,
    pub text: String,
}

/// A page.
#[derive(Debug)]
pub struct Page {
    pub name: String,
    pub blocks: Vec<Block>,
    /// Blocks without a marker, and markers that say nothing known.
    pub faults: Vec<String>,
}

/// Reads a page of the repository.
pub fn read(root: &Path, name: &str) -> Page {
    let text = std::fs::read_to_string(root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Page::parse(name, &text)
}

impl Page {
    pub fn parse(name: &str, text: &str) -> Page {
        let mut page = Page { name: name.to_owned(), blocks: Vec::new(), faults: Vec::new() };
        let generated = text.contains("<!-- generated");
        let mut marker: Option<Result<Kind, String>> = None;
        let mut lines = text.lines().enumerate();
        while let Some((i, line)) = lines.next() {
            let at = i + 1;
            if let Some(rest) = line.strip_prefix("<!-- setup") {
                let body: Vec<&str> = lines.by_ref().map(|(_, l)| l).take_while(|l| *l != "-->").collect();
                match how(rest) {
                    Ok(how) => page.add(at, Kind::Run(How { hidden: true, ..how }), &body),
                    Err(why) => page.faults.push(format!("{name}:{at}: {why}")),
                }
            } else if let Some(indent) = fence(line) {
                let body: Vec<&str> = lines
                    .by_ref()
                    .map(|(_, l)| l)
                    .take_while(|l| fence(l).is_none())
                    .map(|l| l.get(indent..).unwrap_or_default())
                    .collect();
                match marker.take() {
                    Some(Ok(kind)) => page.add(at, kind, &body),
                    Some(Err(why)) => page.faults.push(format!("{name}:{at}: {why}")),
                    None if generated => page.add(at, Kind::Shown, &body),
                    None => page.faults.push(format!(
                        "{name}:{at}: a block without a marker; put `<!-- run -->`, `<!-- not run: why -->` or another above it \
                         (tests/documents/main.rs lists them)"
                    )),
                }
            } else if let Some(text) = line.trim().strip_prefix("<!-- ").and_then(|l| l.strip_suffix(" -->"))
            {
                // Comments about figures stand above tables.
                let words = ["fig", "table", "record", "verdict", "not measured", "generated"];
                if !words.iter().any(|word| text.starts_with(word)) {
                    marker = Some(kind(text));
                }
            } else if !line.trim().is_empty() {
                marker = None;
            }
        }
        page
    }

    fn add(&mut self, line: usize, kind: Kind, body: &[&str]) {
        let text = body.iter().map(|line| format!("{line}\n")).collect();
        self.blocks.push(Block { line, kind, text });
    }
}

/// The blanks before a fence, when the line is one.
fn fence(line: &str) -> Option<usize> {
    let indent = line.len() - line.trim_start().len();
    line.trim_start().starts_with("```").then_some(indent)
}

fn kind(text: &str) -> Result<Kind, String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "run" => how(rest).map(Kind::Run),
        "output" => match rest {
            "" => Ok(Kind::Output { background: false }),
            "background" => Ok(Kind::Output { background: true }),
            _ => Err(format!("`output {rest}` is not known")),
        },
        "file" if !rest.is_empty() => Ok(Kind::File(rest.to_owned())),
        "code" if !rest.is_empty() => Ok(Kind::Code(rest.to_owned())),
        "diagram" => Ok(Kind::Shown),
        "not" if rest.len() > "run: ".len() && rest.starts_with("run: ") => Ok(Kind::Shown),
        _ => Err(format!("the marker `{text}` is not known")),
    }
}

fn how(text: &str) -> Result<How, String> {
    let mut how = How::default();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.split_once("=\"") {
            // A value in quotes may have blanks.
            Some((key, value)) if !key.contains(' ') => {
                let (value, after) = value.split_once('"').ok_or("a quote that does not end")?;
                (format!("{key}={value}"), after)
            }
            _ => rest.split_once(' ').map_or((rest.to_owned(), ""), |(word, after)| (word.to_owned(), after)),
        };
        rest = after.trim_start();
        match word.split_once('=') {
            None if word == "root" => how.root = true,
            None if word == "background" => how.background = true,
            Some(("wait", value)) => how.wait = Some(value.to_owned()),
            Some(("on", value)) => {
                how.on = Some(value.to_owned());
                how.root = true;
            }
            Some(("exit", value)) => {
                how.exit = value.parse().map_err(|_| format!("exit={value} is not a code"))?
            }
            _ => return Err(format!("`{word}` is not known")),
        }
    }
    Ok(how)
}
