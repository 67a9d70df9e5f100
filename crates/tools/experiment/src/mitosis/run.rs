//! `run.toml`: passes as they are run.

use super::commands::{CommandPieces, Piece, format_braces, place};
use super::{MitosisError, Source};
use serde::Deserialize;
use toml::Spanned;

/// Copies of one pass, at most.
const LOOP_MAX: u32 = 1024;

/// A file of either form, its commands filled in.
pub(super) struct Read {
    pub(super) global: Global,
    pub(super) passes: Vec<Pass>,
    /// The sweep: its name and values, as the file spells them.
    pub(super) axis: Option<(String, Vec<toml::Value>)>,
}

/// One command on one host.
pub(super) struct Pass {
    pub(super) host: String,
    pub(super) path: String,
    pub(super) words: CommandPieces,
    pub(super) local: bool,
    /// Where it stands.
    pub(super) at: usize,
}

/// What the tables beside the passes say. Secrets are of any type, and are used for nothing but to hide them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Global {
    pub(super) global_configs: String,
    pub(super) user: Option<Spanned<String>>,
    pub(super) pwd: Option<toml::Value>,
    pub(super) passphrase: Option<toml::Value>,
    pub(super) null: Vec<String>,
    pub(super) sync: Vec<SyncTable>,
}

/// A file to copy, in the words of `scp`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SyncTable {
    pub(super) source: Spanned<String>,
    pub(super) targets: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFile {
    #[serde(default)]
    global_configs: String,
    user: Option<Spanned<String>>,
    pwd: Option<toml::Value>,
    passphrase: Option<toml::Value>,
    #[serde(default)]
    null: Vec<String>,
    #[serde(default)]
    sync: Vec<SyncTable>,
    pass: Vec<Spanned<PassTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassTable {
    host: String,
    path: String,
    cmd: Spanned<String>,
    local: Option<Spanned<String>>,
    /// As the generator of this kind of file writes it.
    order: Option<Spanned<i64>>,
    #[serde(rename = "loop")]
    copies: Option<Spanned<u32>>,
}

/// Reads a `run.toml`. One that a generator wrote (its passes have `order` or `loop`) appends global_configs to each command; in one
/// that was written by hand `{}` says where they go.
pub(super) fn read(source: Source<'_>) -> Result<Read, MitosisError> {
    let file: RunFile = toml::from_str(source.text).map_err(|e| source.syntax(&e))?;
    let RunFile { global_configs, user, pwd, passphrase, null, sync, pass } = file;
    let global = Global { global_configs, user, pwd, passphrase, null, sync };
    let generated = pass.iter().any(|pass| pass.get_ref().order.is_some() || pass.get_ref().copies.is_some());
    let first =
        pass.iter().filter_map(|pass| pass.get_ref().order.as_ref()).map(|order| *order.get_ref()).next();
    let mut passes = Vec::new();
    for pass in pass {
        let at = pass.span().start;
        let PassTable { host, path, cmd, local, order, copies } = pass.into_inner();
        check_order(source, order.as_ref(), first)?;
        let text = if generated {
            appended(cmd.get_ref(), &global.global_configs)
        } else {
            format_braces(cmd.get_ref(), &global.global_configs).map_err(|(byte, why)| {
                source.at(place(source, &cmd.span(), cmd.get_ref(), byte), "cmd", why)
            })?
        };
        let local = match local.as_ref().map(|local| local.get_ref().as_str()) {
            None | Some("no") => false,
            Some("yes") => true,
            Some(_) => {
                let at = local.as_ref().map_or(at, |local| local.span().start);
                return Err(source.at(at, "local", "`yes` or `no`"));
            }
        };
        for text in copied(source, text, copies.as_ref())? {
            passes.push(Pass {
                host: host.clone(),
                path: path.clone(),
                words: vec![Piece::Text(text)],
                local,
                at,
            });
        }
    }
    Ok(Read { global, passes, axis: None })
}

/// Passes of a higher order wait for the end of those of a lower one, which a plan does not say.
pub(super) fn check_order(
    source: Source<'_>,
    order: Option<&Spanned<i64>>,
    first: Option<i64>,
) -> Result<(), MitosisError> {
    match order {
        Some(order) if Some(*order.get_ref()) != first => {
            let why = "passes of different order run one after the other: put them into files of their own, and run these in turn";
            Err(source.at(order.span().start, "order", why))
        }
        _ => Ok(()),
    }
}

/// What is appended to every command.
pub(super) fn appended(command: &str, configs: &str) -> String {
    if configs.is_empty() { command.to_owned() } else { format!("{command} {configs}") }
}

/// A pass so many times, each told its number.
pub(super) fn copied(
    source: Source<'_>,
    text: String,
    copies: Option<&Spanned<u32>>,
) -> Result<Vec<String>, MitosisError> {
    match copies.map(|copies| (*copies.get_ref(), copies.span().start)) {
        None | Some((1, _)) => Ok(vec![text]),
        Some((2..=LOOP_MAX, _)) => {
            let copies = copies.map_or(1, |copies| *copies.get_ref());
            Ok((0..copies).map(|n| format!("{text} -loop={n}")).collect())
        }
        Some((_, at)) => Err(source.at(at, "loop", format!("from 1 to {LOOP_MAX}"))),
    }
}
