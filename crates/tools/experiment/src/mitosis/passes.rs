//! From passes to a plan.

use super::commands::template;
use super::run::{Pass, Read, SyncTable};
use super::template::text_of;
use super::{MitosisError, MitosisFile, MitosisOptions, Source};
use crate::launcher::{HOSTS_MAX, HostSpec};
use crate::plan::{MergePlan, MethodPlan, Plan, RoleHosts, RolePlan, StopSignal, SyncPlan, Template};
use crate::redact::Secrets;
use barewire_report::run::AxisValue;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between the starts of two passes.
const BETWEEN: Duration = Duration::from_secs(1);
/// Runs the command, its argument, by bash where there is one: these commands were written for a login shell. `cd` alone goes home.
const SHELL: &str = "exec \"$(command -v bash || command -v sh)\" -c \"$1\"";

pub(super) fn plan(
    source: Source<'_>,
    folder: &Path,
    read: Read,
    options: &MitosisOptions,
) -> Result<MitosisFile, MitosisError> {
    let Read { global, passes, axis } = read;
    let mut warnings = Vec::new();
    let mut secrets = Secrets::default();
    for (key, value) in [("pwd", &global.pwd), ("passphrase", &global.passphrase)] {
        if let Some(value) = value {
            warnings.push(format!(
                "{}: `{key}` is skipped: log-in is by key, and no password is used or kept",
                source.path
            ));
            // Commands may repeat it: it is known only to be hidden there.
            secrets.0.extend(text_of(value));
        }
    }
    let user = match &global.user {
        Some(user) if !is_user(user.get_ref()) => {
            return Err(source.at(user.span().start, "user", "no name of a user"));
        }
        Some(user) => Some(user.get_ref()),
        None => options.user.as_ref(),
    };
    let mut hosts: Vec<HostSpec> = Vec::new();
    let mut roles = Vec::new();
    for (number, pass) in passes.iter().enumerate() {
        if !pass.local {
            check_host(source, pass)?;
            if options.black.contains(&pass.host) {
                continue;
            }
            if !hosts.iter().any(|host| host.name == pass.host) {
                let reach = user.map_or_else(String::new, |user| format!("{user}@{}", pass.host));
                hosts.push(HostSpec { name: pass.host.clone(), reach, ..HostSpec::default() });
            }
        }
        roles.push(role(source, folder, pass, number + 1, options)?);
    }
    if roles.is_empty() {
        let why = if passes.is_empty() { "no pass" } else { "every pass is on a host that is left out" };
        return Err(source.at(0, "file", why));
    }
    if hosts.len() > HOSTS_MAX {
        return Err(source.at(0, "file", format!("more than {HOSTS_MAX} hosts")));
    }
    for host in options.black.iter().filter(|host| !passes.iter().any(|pass| pass.host == **host)) {
        warnings.push(format!("{}: no pass is on {host}, which is to be left out", source.path));
    }
    for host in options.serving.iter().filter(|host| !passes.iter().any(|pass| pass.host == **host)) {
        warnings.push(format!("{}: no pass is on {host}, which is to serve", source.path));
    }
    let mut sync = Vec::new();
    for table in &global.sync {
        sync.extend(synced(source, folder, table, &hosts, options)?);
    }
    let points = match &axis {
        None => vec![Vec::new()],
        Some((name, values)) => values.iter().map(|value| vec![(name.clone(), axis_value(value))]).collect(),
    };
    let name = Path::new(source.path)
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let plan = Plan {
        file: source.path.to_owned(),
        folder: folder.to_owned(),
        name: plain_name(&name),
        title: String::new(),
        about: String::new(),
        table: None,
        hardware: None,
        seed: 1,
        topology: None,
        hosts,
        method: MethodPlan {
            runs: 1,
            warmup_s: 0.0,
            timeout: options.timeout,
            endless: true,
            interleave: false,
            ..MethodPlan::default()
        },
        points,
        systems: BTreeSet::new(),
        roles,
        // Passes stand for themselves.
        merge: MergePlan { apart: true, ..MergePlan::default() },
        environment: BTreeMap::new(),
        sync,
        black: options.black.clone(),
        quiet: global.null.iter().cloned().collect(),
        everywhere: BTreeMap::new(),
        secrets,
    };
    Ok(MitosisFile { plan, warnings })
}

fn role(
    source: Source<'_>,
    folder: &Path,
    pass: &Pass,
    number: usize,
    options: &MitosisOptions,
) -> Result<RolePlan, MitosisError> {
    // A folder that is not there ends the pass; what follows would otherwise run in another.
    let go = if pass.path.is_empty() { String::new() } else { format!("cd {} || exit 1\n", pass.path) };
    let home = if pass.local { "" } else { "cd || exit 1\n" };
    let script = template(&format!("{home}{go}"), &pass.words).ok_or_else(|| {
        source.at(pass.at, "pass", "the swept name is of letters, digits, `_`, `.` and `-`, a letter first")
    })?;
    let mut command: Vec<Template> = ["sh", "-c", SHELL, "sh"].map(Template::literal).into();
    command.push(script);
    Ok(RolePlan {
        name: format!("pass-{number}"),
        hosts: if pass.local { RoleHosts::Here } else { RoleHosts::Named(vec![pass.host.clone()]) },
        count: None,
        command,
        cwd: pass.local.then(|| Template::literal(folder.to_string_lossy())),
        environment: BTreeMap::new(),
        cleanup: Vec::new(),
        ready: None,
        settle: BETWEEN,
        collect: options.collect.clone().filter(|_| !options.serving.contains(&pass.host)),
        stop: StopSignal::Terminate,
    })
}

/// A host's name goes to SSH, into file names and onto terminals.
fn check_host(source: Source<'_>, pass: &Pass) -> Result<(), MitosisError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    let first = pass.host.starts_with(|c: char| c.is_ascii_alphanumeric());
    if first && pass.host.len() <= 253 && pass.host.chars().all(plain) {
        return Ok(());
    }
    Err(source.at(
        pass.at,
        format!("host {:?}", pass.host),
        "a host's name: letters, digits, `.`, `-` and `_`",
    ))
}

fn is_user(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && name.chars().all(plain)
}

/// `[[sync]]`: from here to `HOST:PATH`.
fn synced(
    source: Source<'_>,
    folder: &Path,
    table: &SyncTable,
    hosts: &[HostSpec],
    options: &MitosisOptions,
) -> Result<Vec<SyncPlan>, MitosisError> {
    let from = table.source.get_ref();
    let at = table.source.span().start;
    if from.split('/').next().is_some_and(|first| first.contains(':')) {
        return Err(source.at(at, "source", "only files of this machine are sent: copy it here first"));
    }
    let file = folder.join(from);
    let Some(name) = file.file_name().map(PathBuf::from) else {
        return Err(source.at(at, "source", "the path of a file"));
    };
    if !file.is_file() {
        return Err(source.at(at, "source", format!("no such file: {}", file.display())));
    }
    let mut sync = Vec::new();
    for target in &table.targets {
        let wrong = |why: &str| source.at(target.span().start, format!("target {:?}", target.get_ref()), why);
        let (host, to) = target.get_ref().split_once(':').ok_or_else(|| wrong("in the form HOST:PATH"))?;
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if options.black.contains(host) {
            continue;
        }
        if !hosts.iter().any(|known| known.name == host) {
            return Err(wrong("no pass is on this host"));
        }
        // As `scp` has it: what is no absolute path begins in the user's folder, and nothing at all is that folder.
        let to = match to.starts_with(['/', '~']) {
            true => to.to_owned(),
            false => format!("~/{to}"),
        };
        if to.starts_with('~') && !to.starts_with("~/") {
            return Err(wrong("the folder of another user is not known here"));
        }
        let to = if to.ends_with('/') { PathBuf::from(to).join(&name) } else { PathBuf::from(to) };
        sync.push(SyncPlan { source: file.clone(), to, targets: vec![host.to_owned()] });
    }
    Ok(sync)
}

fn axis_value(value: &toml::Value) -> AxisValue {
    match value {
        // Exact, or a text: a command gets what the file says.
        toml::Value::Integer(number) if number.unsigned_abs() < 1 << 53 => AxisValue::Number(*number as f64),
        other => AxisValue::Text(text_of(other).unwrap_or_default()),
    }
}

/// A name for the run's folder.
fn plain_name(stem: &str) -> String {
    let plain =
        stem.to_ascii_lowercase().replace(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)), "-");
    let plain: String = plain.chars().take(32).collect();
    if plain.is_empty() { "passes".into() } else { plain }
}
