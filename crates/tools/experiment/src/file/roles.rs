//! The file's roles: hosts, commands, placeholders, what is collected.

use super::tables::{File, RoleTable};
use super::{BUILT_IN, FileError, Known, ROLE_FACTS, Reader, near};
use crate::launcher::HOSTS_MAX;
use crate::plan::{
    Collect, Count, Point, RoleHosts, RolePlan, StopSignal, Template, count_of, placeholder_of_host,
};
use regex_lite::RegexBuilder;
use std::collections::BTreeSet;
use std::time::Duration;
use toml::{Spanned, Value};

/// Most memory of a compiled expression, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

impl Reader<'_> {
    pub(super) fn roles(&self, file: &File, known: &Known) -> Result<Vec<RolePlan>, FileError> {
        let mut roles: Vec<RolePlan> = Vec::new();
        for table in &file.role {
            self.check_name("role.name", &table.name)?;
            let name = table.name.get_ref();
            if roles.iter().any(|role| role.name == *name) {
                return Err(self.at(&table.name, format!("role.name = {name:?}: a second role of this name")));
            }
            if name == "host" || BUILT_IN.contains(&name.as_str()) || known.axes.contains_key(name) {
                let what = format!("role.name = {name:?}: `{{{name}}}` already has a meaning");
                return Err(self.at(&table.name, what));
            }
            roles.push(self.role(table, known)?);
        }
        let rest: Vec<&RoleTable> = file
            .role
            .iter()
            .zip(&roles)
            .filter(|(_, role)| role.hosts == RoleHosts::Rest)
            .map(|(table, _)| table)
            .collect();
        if let [_, second, ..] = rest.as_slice() {
            return Err(self.at(&second.name, "role.hosts = \"rest\": another role already has the rest"));
        }
        Ok(roles)
    }

    fn role(&self, table: &RoleTable, known: &Known) -> Result<RolePlan, FileError> {
        let hosts = self.role_hosts(table, known)?;
        let count = table.count.as_ref().map(|given| self.count(given, known)).transpose()?;
        if let Some(given) = &table.count {
            let most = match &count {
                Some(Count::Fixed(n)) => *n as usize,
                Some(Count::Axis(axis)) => {
                    known.axes.get(axis).into_iter().flatten().filter_map(count_of).max().unwrap_or(0)
                }
                None => 0,
            };
            let there = match &hosts {
                RoleHosts::Named(names) => names.len(),
                RoleHosts::Free if !known.hosts.is_empty() => known.hosts.len(),
                RoleHosts::Free => HOSTS_MAX,
                RoleHosts::Rest | RoleHosts::Here => {
                    return Err(self.at(given, "role.count: for a list of hosts, or without `hosts`"));
                }
            };
            if most > there {
                return Err(self.at(given, format!("role.count: {most} hosts, of {there}")));
            }
        }
        if table.command.get_ref().is_empty() {
            return Err(self.at(&table.command, "role.command: the list is empty"));
        }
        let command = table.command.get_ref().iter();
        let stops =
            [("INT", StopSignal::Interrupt), ("TERM", StopSignal::Terminate), ("KILL", StopSignal::Kill)];
        let ready = table.ready.as_ref();
        if let Some(given) = ready.filter(|text| text.get_ref().trim().is_empty()) {
            return Err(self.at(given, "role.ready: an empty text is in every line"));
        }
        Ok(RolePlan {
            name: table.name.get_ref().clone(),
            hosts,
            count,
            command: command
                .map(|word| self.template("role.command", word, known))
                .collect::<Result<_, _>>()?,
            cwd: table.cwd.as_ref().map(|cwd| self.template("role.cwd", cwd, known)).transpose()?,
            environment: self.environment(&table.environment)?,
            cleanup: self.cleanup(table, known)?,
            ready: ready.map(|text| text.get_ref().clone()),
            settle: Duration::from_secs_f64(self.seconds("role.settle_s", table.settle_s.as_ref(), 0.0)?),
            collect: table.collect.as_ref().map(|given| self.collect(given)).transpose()?,
            stop: match &table.stop {
                Some(given) => self.one_of("role.stop", given, &stops)?,
                None => StopSignal::default(),
            },
        })
    }

    /// A command of no point of the sweep: it runs once, when all of them are over.
    fn cleanup(&self, table: &RoleTable, known: &Known) -> Result<Vec<Template>, FileError> {
        let Some(given) = &table.cleanup else { return Ok(Vec::new()) };
        if given.get_ref().is_empty() {
            return Err(self.at(given, "role.cleanup: the list is empty"));
        }
        let mut words = Vec::new();
        for word in given.get_ref() {
            let template = self.template("role.cleanup", word, known)?;
            if let Some(axis) = template.names().find(|name| known.axes.contains_key(*name) || *name == "run")
            {
                let what = format!("role.cleanup: `{{{axis}}}` has no one value when all runs are over");
                return Err(self.at(word, what));
            }
            words.push(template);
        }
        Ok(words)
    }

    /// Values of axes that are placeholders of hosts.
    pub(super) fn axis_placeholders(
        &self,
        file: &File,
        points: &[Point],
        known: &Known,
    ) -> Result<(), FileError> {
        for (axis, value) in points.iter().flatten() {
            let name = placeholder_of_host(&value.to_string(), |of| known.roles.contains(of));
            let Some(what) = name.and_then(|name| not_known(&name, known)) else { continue };
            // By itself, or within `zip` or `systems`.
            let has_it = |given: &Value| {
                given.as_array().is_some_and(|steps| steps.iter().any(|step| step.get(axis).is_some()))
            };
            let given = file.sweep.iter().find(|(key, given)| *key == axis || has_it(given.get_ref()));
            let at = given.map_or(file.name.span().start, |(_, given)| given.span().start);
            return Err(self.at_byte(at, format!("sweep: axis `{axis}`: {what}")));
        }
        Ok(())
    }

    fn role_hosts(&self, table: &RoleTable, known: &Known) -> Result<RoleHosts, FileError> {
        const WANTED: &str = "role.hosts: a list of hosts, \"rest\" or \"here\" is expected";
        let Some(given) = &table.hosts else { return Ok(RoleHosts::Free) };
        match given.get_ref() {
            Value::String(word) if word == "rest" => Ok(RoleHosts::Rest),
            Value::String(word) if word == "here" => Ok(RoleHosts::Here),
            Value::String(word) => {
                let hint = if known.hosts.contains(word) {
                    format!("; write [\"{word}\"]")
                } else {
                    near(word, &["rest", "here"])
                };
                Err(self.at(given, format!("role.hosts = {word:?}: not known{hint}")))
            }
            Value::Array(list) => {
                let mut names: Vec<String> = Vec::new();
                for value in list {
                    let name = value.as_str().ok_or_else(|| self.at(given, WANTED))?;
                    self.check_host("role.hosts", given.span().start, name, known)?;
                    if names.iter().any(|other| other == name) {
                        return Err(self.at(given, format!("role.hosts: `{name}` is listed twice")));
                    }
                    names.push(name.to_owned());
                }
                match names.is_empty() {
                    true => Err(self.at(given, "role.hosts: the list is empty")),
                    false => Ok(RoleHosts::Named(names)),
                }
            }
            _ => Err(self.at(given, WANTED)),
        }
    }

    fn count(&self, given: &Spanned<Value>, known: &Known) -> Result<Count, FileError> {
        const WANTED: &str = "role.count: a number of hosts from 1, or \"{AXIS}\" is expected";
        match given.get_ref() {
            Value::Integer(n) => match usize::try_from(*n) {
                Ok(n) if (1..=HOSTS_MAX).contains(&n) => Ok(Count::Fixed(n as u32)),
                _ => Err(self.at(given, format!("role.count = {n}: from 1 to {HOSTS_MAX}"))),
            },
            Value::String(text) => {
                let template = Template::parse(text).ok().filter(Template::is_one_placeholder);
                let axis = template.as_ref().and_then(|t| t.names().next());
                let axis = axis.ok_or_else(|| self.at(given, WANTED))?;
                let Some(values) = known.axes.get(axis) else {
                    let axes: Vec<&str> = known.axes.keys().map(String::as_str).collect();
                    return Err(self.at(given, format!("role.count: no axis `{axis}`{}", near(axis, &axes))));
                };
                match values.iter().find(|value| count_of(value).is_none()) {
                    Some(value) => Err(self.at(
                        given,
                        format!("role.count: `{value}` of axis `{axis}` is not a number of hosts"),
                    )),
                    None => Ok(Count::Axis(axis.to_owned())),
                }
            }
            _ => Err(self.at(given, WANTED)),
        }
    }

    fn template(&self, key: &str, given: &Spanned<String>, known: &Known) -> Result<Template, FileError> {
        let text = given.get_ref();
        if text.contains('\0') {
            return Err(self.at(given, format!("{key}: a byte 0 cannot be in a command")));
        }
        let template = Template::parse(text).map_err(|e| self.at(given, format!("{key}: {text:?}: {e}")))?;
        let wrong = template.names().find_map(|name| not_known(name, known));
        match wrong {
            Some(what) => Err(self.at(given, format!("{key}: {what}"))),
            None => Ok(template),
        }
    }

    fn collect(&self, given: &Spanned<Value>) -> Result<Collect, FileError> {
        const WANTED: &str = "role.collect: \"json\" or { regex = '…' } is expected";
        match given.get_ref() {
            Value::String(word) if word == "json" => Ok(Collect::Json),
            Value::String(word) => {
                Err(self.at(given, format!("role.collect = {word:?}: not known{}", near(word, &["json"]))))
            }
            Value::Table(table) => {
                if let Some(key) = table.keys().find(|key| *key != "regex") {
                    let what = format!("role.collect: unknown key `{key}`{}", near(key, &["regex"]));
                    return Err(self.at(given, what));
                }
                let text =
                    table.get("regex").and_then(Value::as_str).ok_or_else(|| self.at(given, WANTED))?;
                let regex = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build().map_err(|e| {
                    let told = e.to_string();
                    let why = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    self.at(given, format!("role.collect.regex: {why}"))
                })?;
                match regex.capture_names().flatten().next() {
                    Some(_) => Ok(Collect::Regex(regex)),
                    None => Err(self.at(
                        given,
                        "role.collect.regex: no group has a name; (?P<rate_per_s>[0-9.]+) is a column of that name",
                    )),
                }
            }
            _ => Err(self.at(given, WANTED)),
        }
    }
}

/// What is wrong with a placeholder that is none of the file's.
fn not_known(name: &str, known: &Known) -> Option<String> {
    let all = placeholders(known);
    let words: Vec<&str> = all.iter().map(String::as_str).collect();
    (!all.contains(name)).then(|| format!("no placeholder `{{{name}}}`{}", near(name, &words)))
}

/// Every placeholder of the file.
fn placeholders(known: &Known) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = BUILT_IN.iter().map(|&word| word.to_owned()).collect();
    all.extend(known.axes.keys().cloned());
    all.extend(known.settings.iter().map(|setting| format!("host.{setting}")));
    for role in &known.roles {
        all.extend(known.settings.iter().map(|setting| format!("{role}.{setting}")));
        all.extend(ROLE_FACTS.iter().map(|fact| format!("{role}.{fact}")));
    }
    all
}
