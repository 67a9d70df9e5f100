//! Which hosts a role has at a point of the sweep, and what placeholders are there.

use crate::launcher::{HERE, HostFacts};
use crate::plan::{Plan, Point, RoleHosts, RolePlan, Template};

/// The hosts of each role, as places in `hosts`.
///
/// # Errors
/// In words: there are too few.
pub(crate) fn assign(plan: &Plan, hosts: &[HostFacts], point: &Point) -> Result<Vec<Vec<usize>>, String> {
    let place = |name: &String| hosts.iter().position(|host| host.name == *name);
    let mut taken: Vec<bool> =
        hosts.iter().map(|host| host.name == HERE || plan.black.contains(&host.name)).collect();
    for role in &plan.roles {
        if let RoleHosts::Named(names) = &role.hosts {
            names.iter().filter_map(place).for_each(|at| taken[at] = true);
        }
    }
    let mut assigned = Vec::with_capacity(plan.roles.len());
    for role in &plan.roles {
        let wanted = role.count.as_ref().map(|count| count.at(point));
        let mut free = || {
            let next = taken.iter().position(|taken| !taken)?;
            taken[next] = true;
            Some(next)
        };
        let mine: Vec<usize> = match &role.hosts {
            RoleHosts::Named(names) => {
                let mut mine = Vec::new();
                // No more than are wanted: others may not have been obtained.
                let usable = names.iter().filter(|name| !plan.black.contains(*name));
                for name in usable.take(wanted.unwrap_or(usize::MAX)) {
                    let known = || hosts.iter().map(|h| h.name.as_str()).collect::<Vec<_>>().join(", ");
                    let at = place(name).ok_or_else(|| {
                        format!("role {}: no host `{name}` (there are: {})", role.name, known())
                    })?;
                    mine.push(at);
                }
                mine
            }
            RoleHosts::Free => std::iter::from_fn(&mut free).take(wanted.unwrap_or(1)).collect(),
            // After all others.
            RoleHosts::Rest => Vec::new(),
            RoleHosts::Here => place(&HERE.to_owned()).into_iter().collect(),
        };
        assigned.push(mine);
    }
    for (role, mine) in plan.roles.iter().zip(&mut assigned) {
        if role.hosts == RoleHosts::Rest {
            *mine = (0..hosts.len()).filter(|&at| !taken[at]).collect();
        }
        let wanted = role.count.as_ref().map_or(1, |count| count.at(point));
        if mine.len() < wanted {
            let black = if plan.black.is_empty() { "" } else { " (some are on the black list)" };
            return Err(format!("role {}: {wanted} hosts needed, {} left{black}", role.name, mine.len()));
        }
    }
    Ok(assigned)
}

/// Whether every placeholder of every command has a value on every host.
///
/// # Errors
/// In words: which has none.
pub(crate) fn can_be_filled(
    plan: &Plan,
    hosts: &[HostFacts],
    assigned: &[Vec<usize>],
    point: &Point,
) -> Result<(), String> {
    for (role, spec) in plan.roles.iter().enumerate() {
        for index in 0..assigned[role].len() {
            // Any binary and folder: the agents say theirs later.
            let values =
                Values { plan, hosts, assigned, point, run: 1, role, index, exe: "barewire", scratch: "/" };
            let of_role = |why: String| format!("role {}: {why}", spec.name);
            values.command(spec).map_err(of_role)?;
            values.words(&spec.cleanup).map_err(of_role)?;
            spec.cwd.as_ref().map(|cwd| values.fill(cwd)).transpose().map_err(of_role)?;
        }
    }
    Ok(())
}

/// What placeholders are at one place.
pub(crate) struct Values<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) hosts: &'a [HostFacts],
    pub(crate) assigned: &'a [Vec<usize>],
    pub(crate) point: &'a Point,
    pub(crate) run: u32,
    pub(crate) role: usize,
    /// The place among the role's hosts.
    pub(crate) index: usize,
    /// The agent's binary and scratch folder.
    pub(crate) exe: &'a str,
    pub(crate) scratch: &'a str,
}

impl Values<'_> {
    fn of_host(&self, role: usize, index: usize, key: &str) -> Result<String, String> {
        let host = self.assigned.get(role).and_then(|mine| self.hosts.get(*mine.get(index)?));
        let host = host.ok_or_else(|| format!("role {} has no host", self.plan.roles[role].name))?;
        match key {
            "name" => Ok(host.name.clone()),
            "address" if host.address.is_empty() => Err(format!("host {} has no address", host.name)),
            "address" => Ok(host.address.clone()),
            "index" => Ok(index.to_string()),
            key => host
                .settings
                .get(key)
                .cloned()
                .ok_or_else(|| format!("host {} has no setting `{key}`", host.name)),
        }
    }

    fn value(&self, name: &str) -> Result<String, String> {
        if let Some((_, value)) = self.point.iter().find(|(key, _)| key == name) {
            let value = value.to_string();
            return match self.plan.placeholder_of_host(&value) {
                Some(name) => self.of_hosts(&name),
                None => Ok(value),
            };
        }
        let method = &self.plan.method;
        match name {
            "seconds" => return Ok(method.seconds.to_string()),
            "warmup" => return Ok(method.warmup_s.to_string()),
            "run" => return Ok(self.run.to_string()),
            "runs" => return Ok(method.runs.to_string()),
            "seed" => return Ok(self.plan.seed.to_string()),
            "self" => return Ok(self.exe.to_owned()),
            "scratch" => return Ok(self.scratch.to_owned()),
            "name" => return Ok(self.plan.name.clone()),
            _ => {}
        }
        self.of_hosts(name)
    }

    /// `host.KEY` or `ROLE.KEY`.
    fn of_hosts(&self, name: &str) -> Result<String, String> {
        let (of, key) = name.split_once('.').ok_or_else(|| format!("no placeholder `{{{name}}}`"))?;
        if of == "host" {
            return self.of_host(self.role, self.index, key);
        }
        let role = self.plan.roles.iter().position(|role| role.name == of);
        let role = role.ok_or_else(|| format!("no placeholder `{{{name}}}`"))?;
        match key {
            "addresses" => {
                let mine = self.assigned.get(role).map(Vec::as_slice).unwrap_or_default();
                let addresses = mine.iter().filter_map(|&at| Some(self.hosts.get(at)?.address.as_str()));
                Ok(addresses.collect::<Vec<_>>().join(","))
            }
            "count" => Ok(self.assigned.get(role).map_or(0, Vec::len).to_string()),
            key => self.of_host(role, 0, key),
        }
    }

    /// A text, its placeholders filled in.
    pub(crate) fn fill(&self, template: &Template) -> Result<String, String> {
        template.fill(|name| self.value(name))
    }

    /// A command, without arguments that are one placeholder with an empty value.
    pub(crate) fn command(&self, role: &RolePlan) -> Result<Vec<String>, String> {
        self.words(&role.command)
    }

    /// The words of a command, likewise.
    pub(crate) fn words(&self, command: &[Template]) -> Result<Vec<String>, String> {
        let mut words = Vec::with_capacity(command.len());
        for template in command {
            let word = self.fill(template)?;
            if !(word.is_empty() && template.is_one_placeholder()) {
                words.push(word);
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn plan(roles: &str) -> Plan {
        let hosts: String = (1..=5).map(|n| format!("[[host]]\nname = \"h{n}\"\n")).collect();
        let text = format!(
            "name = \"x\"\nblack = [\"h5\"]\n{hosts}[sweep]\nmachines = [1, 2]\nflag = [\"\", \"--x\"]\n{roles}"
        );
        crate::file::parse(&text, "x", Path::new("")).unwrap()
    }

    fn facts() -> Vec<HostFacts> {
        let host = |n: u32| HostFacts {
            name: format!("h{n}"),
            address: format!("10.0.0.{n}"),
            settings: [("cidr".to_owned(), format!("10.0.0.{n}/24"))].into(),
        };
        (1..=5).map(host).collect()
    }

    #[test]
    fn hosts_are_given_out_and_placeholders_filled_in() {
        let plan = plan(
            "[[role]]\nname = \"server\"\nhosts = [\"h2\"]\ncommand = [\"s\"]\n\
             [[role]]\nname = \"client\"\ncount = \"{machines}\"\n\
             command = [\"c\", \"{client.addresses} {server.cidr} {host.index} {machines} {client.count}\", \"{flag}\", \"{run}\"]\n\
             [[role]]\nname = \"noise\"\nhosts = \"rest\"\ncommand = [\"n\"]\n",
        );
        let facts = facts();
        // The last axis goes fastest: machines 2 without the flag is the third.
        let point = &plan.points[2];
        let assigned = assign(&plan, &facts, point).unwrap();
        assert_eq!(assigned, [vec![1], vec![0, 2], vec![3]]);
        let values = Values {
            plan: &plan,
            hosts: &facts,
            assigned: &assigned,
            point,
            run: 7,
            role: 1,
            index: 1,
            exe: "/x",
            scratch: "/s",
        };
        let words = values.command(&plan.roles[1]).unwrap();
        assert_eq!(words, ["c", "10.0.0.1,10.0.0.3 10.0.0.2/24 1 2 2", "7"]);
        let missing = values.fill(&Template::parse("{server.mac}").unwrap()).unwrap_err();
        assert_eq!(missing, "host h2 has no setting `mac`");
        assert_eq!(
            assign(&plan, &facts[..1], point).unwrap_err(),
            "role server: no host `h2` (there are: h1)"
        );
        let few = assign(&plan, &facts[..2], point).unwrap_err();
        assert!(few.starts_with("role client: 2 hosts needed, 1 left (some are on the black list)"), "{few}");
    }
}
