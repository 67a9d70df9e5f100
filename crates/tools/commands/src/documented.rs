//! Every command line that help texts and experiments show is one that the binary understands. Nothing is run.

use crate::args::Cli;
use clap::{Command, CommandFactory as _};
use std::path::{Path, PathBuf};

/// The words of a line as a shell would have them, up to what is not the command's: a comment, a pipe, a redirection.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            ('#' | '|' | '>' | ';', None) if word.is_none() => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words.retain(|word| word != "&");
    words
}

/// The first value that an experiment gives to a name: of a setting, of a sweep, of the method.
fn value_of(experiment: &str, name: &str) -> Option<String> {
    let name = format!("{} = ", name.rsplit('.').next()?);
    let begins = |at: usize| !experiment[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let (at, _) = experiment.match_indices(&name).find(|(at, _)| begins(*at))?;
    let after = experiment[at + name.len()..].trim_start_matches(['[', ' ', '\n']);
    let value = match after.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => after.split([',', ']', '}', '\n']).next()?.trim_end(),
    };
    (!value.is_empty()).then(|| value.to_owned())
}

/// A word with the values that an experiment has for it.
fn filled(word: &str, experiment: &str) -> String {
    let (mut out, mut rest) = (String::new(), word);
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        out += before;
        // What only a host's own file says is an address, an interface or a number, which all of these can be.
        let is = |part: &str| name.contains(part);
        out += &match value_of(experiment, name) {
            // Of another host's settings: a value that stands for itself would never end.
            Some(value) if value.contains('{') && !value.contains(name) => filled(&value, experiment),
            // An address alone is what every option for addresses takes; whose it is makes no difference here.
            Some(value) => match value.split_once('/') {
                Some((ip, _)) if ip.parse::<std::net::IpAddr>().is_ok() => ip.to_owned(),
                _ => value,
            },
            None if is("ip") || is("address") || is("cidr") => "10.0.0.1".to_owned(),
            None if is("port") => "mem:x".to_owned(),
            None => "1".to_owned(),
        };
        rest = after;
    }
    out + rest
}

/// Why the binary does not understand these words, if so. Help and version are understood.
fn refused(words: &[String]) -> Option<String> {
    let error = Cli::command().try_get_matches_from(words).err()?;
    error
        .use_stderr()
        .then(|| format!("{}: {}", words.join(" "), error.to_string().lines().next().unwrap_or_default()))
}

/// Lines that begin with the binary's name, whatever host they are said to be for; and what stands between backquotes.
fn shown(text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['#', ' ']);
        let command = line.split_once(":  ").map_or(line, |(_, after)| after.trim_start());
        if command.starts_with("barewire ") {
            // What stands apart behind it says what it does.
            all.push(words(command.split("  ").next().unwrap_or(command)));
        }
        // A sentence may name a verb without what it needs.
        let quoted = line.split('`').skip(1).step_by(2);
        all.extend(
            quoted
                .filter(|part| part.starts_with("barewire ") && (part.contains(" -") || part.contains('/')))
                .map(words),
        );
    }
    all
}

/// Commands of roles in an experiment.
fn of_roles(text: &str) -> Vec<Vec<String>> {
    let arrays = text.split("\ncommand = ").skip(1).filter_map(|rest| rest.split_once(']'));
    arrays
        .map(|(array, _)| {
            let array = format!("{}]", array.trim_end().trim_end_matches(','));
            let words: Vec<String> = serde_json::from_str(&array).unwrap_or_else(|e| panic!("{array}: {e}"));
            words.iter().map(|word| filled(word, text)).collect::<Vec<_>>()
        })
        .filter(|words| words[0] == "barewire")
        .collect()
}

fn texts(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, ends, found);
        } else if ends.iter().any(|end| path.extension().is_some_and(|e| e == *end)) {
            found.push(path);
        }
    }
}

#[test]
fn commands_of_experiments_and_their_comments_are_understood() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs");
    let mut files = Vec::new();
    texts(&labs, &["toml", "md"], &mut files);
    let (mut roles, mut comments, mut wrong) = (0, 0, Vec::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let of_roles =
            if file.extension().is_some_and(|e| e == "toml") { of_roles(&text) } else { Vec::new() };
        let comments_of: Vec<Vec<String>> = match of_roles.is_empty() {
            // What is shown between the fences of a text, and in every comment of a file.
            true => shown(&text),
            false => shown(&text.lines().filter(|l| l.starts_with('#')).collect::<Vec<_>>().join("\n")),
        };
        (roles, comments) = (roles + of_roles.len(), comments + comments_of.len());
        let all = of_roles.iter().chain(&comments_of);
        wrong.extend(all.filter_map(|words| refused(words)).map(|why| format!("{}: {why}", file.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(roles >= 12 && comments >= 1, "{roles} commands of roles, {comments} in comments");
}

/// README and book; their blocks are run or compared by `tests/documents`, and what they name in a sentence is held against the command line here.
#[test]
fn commands_of_the_documents_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut files: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].iter().map(|name| root.join(name)).collect();
    texts(&root.join("docs/src"), &["md"], &mut files);
    let (mut count, mut wrong) = (0, Vec::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        if text.contains("<!-- generated by") {
            // It is made from the command line.
            continue;
        }
        // A line that goes on is one command; a sentence may begin with the program's name.
        let mut fenced = false;
        let text: String = text
            .replace(" \\\n    ", " ")
            .lines()
            .map(|line| {
                fenced ^= line.starts_with("```");
                format!("{}{line}\n", if fenced { "" } else { "- " })
            })
            .collect();
        let commands: Vec<Vec<String>> = shown(&text).into_iter().filter(|words| is_whole(words)).collect();
        count += commands.len();
        wrong.extend(
            commands
                .iter()
                .filter_map(|words| refused(words))
                .map(|why| format!("{}: {why}", file.display())),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 80, "{count}");
}

/// Whether these are words to type: not `FILE`, `PEER` or three dots in the place of something.
fn is_whole(words: &[String]) -> bool {
    let stands_for = |word: &String| {
        word == "..."
            || word.contains('[')
            || (word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'.'))
    };
    !words.iter().any(stands_for)
}

#[test]
fn words_of_an_experiment_have_its_values() {
    let text = "seconds = 5\n[sweep]\nstate = [\"warm\", \"cold\"]\nsystems = [{ address = \"{receiver.way}\" }]\nway = \"10.0.1.10\"\n";
    for (word, value) in [
        ("{seconds}", "5"),
        ("{state}", "warm"),
        ("{address}:5301", "10.0.1.10:5301"),
        ("{host.port}", "mem:x"),
        ("--json", "--json"),
    ] {
        assert_eq!(filled(word, text), value);
    }
}

#[test]
fn commands_in_help_texts_are_understood() {
    fn add(command: &Command, found: &mut Vec<Vec<String>>) {
        let help = [command.get_after_help(), command.get_after_long_help(), command.get_long_about()];
        found.extend(help.into_iter().flatten().flat_map(|text| shown(&text.to_string())));
        command.get_subcommands().for_each(|sub| add(sub, found));
    }
    let mut found = Vec::new();
    add(&Cli::command(), &mut found);
    let wrong: Vec<String> = found.iter().filter_map(|words| refused(words)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(found.len() > 30, "{}", found.len());
}

/// Help is wrapped at the terminal's width: what is broken by hand as well comes apart.
#[test]
fn help_texts_are_broken_in_one_place() {
    fn add(command: &Command, found: &mut Vec<String>) {
        let help = [command.get_after_help(), command.get_after_long_help()];
        found.extend(help.into_iter().flatten().map(ToString::to_string));
        command.get_subcommands().for_each(|sub| add(sub, found));
    }
    let mut found = Vec::new();
    add(&Cli::command(), &mut found);
    assert!(found.len() > 20, "{}", found.len());
    let fits = |line: &str| line.chars().count() < crate::args::HELP_COLUMNS;
    for text in &found {
        let lines: Vec<&str> = text.lines().collect();
        for (line, next) in lines.iter().zip(lines[1..].iter().copied().chain([""])) {
            let prose = !line.starts_with(' ');
            let alone = next.is_empty() || next.starts_with(' ');
            assert!(fits(line) || prose && alone, "{line}\n{next}");
        }
    }
}

#[test]
fn options_stand_in_groups_and_every_old_name_is_one_still() {
    let root = Cli::command();
    let of = |path: &[&str]| {
        path.iter()
            .fold(&root, |at, word| at.find_subcommand(word).unwrap_or_else(|| panic!("{path:?}")))
            .clone()
    };
    for (old, new) in [
        (&["rc", "serve"][..], &["rdma", "serve"][..]),
        (&["bench", "rc"], &["bench", "rdma"]),
        (&["bench", "seeds"], &["bench", "published"]),
        (&["bench", "control"], &["bench", "floor"]),
    ] {
        assert_eq!(of(old).get_name(), new[new.len() - 1]);
    }
    for verb in ["msg", "switch", "feed", "rdma", "published", "floor"] {
        let command = of(&["bench", verb]);
        let without: Vec<&str> = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set() && arg.get_help_heading().is_none())
            .map(|arg| arg.get_id().as_str())
            .collect();
        assert!(without.is_empty(), "{verb}: {without:?}");
        let heading = |id: &str| command.get_arguments().find(|arg| arg.get_id() == id)?.get_help_heading();
        assert_eq!(heading("json"), Some("Output"), "{verb}");
        if verb == "switch" || verb == "rdma" {
            assert_eq!(
                (heading("runs"), heading("baseline")),
                (Some("Workload"), Some("Baselines")),
                "{verb}"
            );
        }
    }
}

/// Old words of the command line go on working.
#[test]
fn old_words_are_understood() {
    for line in [
        "barewire rc serve --port mem:x --address 10.0.0.1/24",
        "barewire rc connect 10.0.0.1 --row --port mem:x --address 10.0.0.2/24 --seconds 3",
        "barewire rc ping 10.0.0.1 -i 10 --port mem:x --address 10.0.0.2/24",
        "barewire bench rc --baseline kernel-tcp --seconds 0.5",
        "barewire bench seeds --only rc --quick",
        "barewire bench published --only rdma",
        "barewire bench control --hiccup 0.1",
        "barewire bench switch --baseline bridge,bmv2 --core none --search ndr --trial 2",
        "barewire bench switch --baseline all --seconds 500ms",
        "barewire bench feed --gap-us 0,5000 --engine socket,xdp",
        "barewire bench feed --gap-us 0,5ms --seconds 10s",
        "barewire bench stream --role client --server 10.0.0.1",
        "barewire feed emulate --conflation-ms 50 --reset 1,2.5 --after 3s",
    ] {
        assert_eq!(refused(&words(line)), None);
    }
}
