//! What is asked of Slurm: which hosts an experiment has, what each needs, and which node it gets.

use super::Node;
use crate::launcher::{LaunchError, Needs};
use barewire_text::{Quote, did_you_mean, hint, nearest};
use std::collections::{BTreeMap, BTreeSet};

/// Minutes that an allocation lasts beyond the longest run: hosts are made ready in it, and it is given back long before.
const SPARE_MINUTES: u64 = 5;

/// A host that the experiment needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its name; `None`: that of the node.
    pub(super) name: Option<String>,
    /// The node that it must be.
    pub(super) node: Option<String>,
    /// The first role that runs there.
    pub(super) role: Option<String>,
    /// The component of a heterogeneous job whose nodes it wants.
    pub(super) component: Option<usize>,
    pub(super) address: String,
    pub(super) settings: BTreeMap<String, String>,
}

/// The hosts of an experiment. Their names are nodes of the cluster, or none of them is: then each gets some node.
pub(super) fn slots(needs: &Needs, cluster: &BTreeSet<String>) -> Result<Vec<Slot>, LaunchError> {
    let mut slots: Vec<Slot> = Vec::new();
    for host in &needs.hosts {
        // A file for SSH may name a user: jobs are ours.
        let node = host.reach.rsplit('@').next().filter(|node| !node.is_empty()).map(str::to_owned);
        let (address, settings) = (host.address.clone(), host.settings.clone());
        slots.push(Slot { name: Some(host.name.clone()), node, address, settings, ..Slot::default() });
    }
    for role in &needs.roles {
        for name in &role.named {
            let of_name = |slot: &&mut Slot| slot.name.as_ref() == Some(name);
            match slots.iter_mut().find(of_name) {
                Some(slot) => drop(slot.role.get_or_insert_with(|| role.role.clone())),
                None => {
                    let (name, role) = (Some(name.clone()), Some(role.role.clone()));
                    slots.push(Slot { name, role, ..Slot::default() });
                }
            }
        }
    }
    for role in needs.roles.iter().filter(|role| role.named.is_empty()) {
        let free = slots.iter_mut().filter(|slot| slot.role.is_none()).take(role.count);
        let found = free.map(|slot| slot.role = Some(role.role.clone())).count();
        // The experiment that lists its hosts has those; the plan has been checked for that.
        if needs.hosts.is_empty() {
            let more = (found..role.count).map(|_| Slot { role: Some(role.role.clone()), ..Slot::default() });
            slots.extend(more);
        }
    }
    if slots.is_empty() {
        return Err(LaunchError::Unsuited("no role needs a host".into()));
    }
    bind(&mut slots, cluster)?;
    Ok(slots)
}

/// Finds the nodes that are named.
fn bind(slots: &mut [Slot], cluster: &BTreeSet<String>) -> Result<(), LaunchError> {
    let by_name = slots.iter().filter(|slot| slot.node.is_none());
    let any = by_name.clone().any(|slot| slot.name.as_ref().is_some_and(|name| cluster.contains(name)));
    if any {
        slots.iter_mut().filter(|slot| slot.node.is_none()).for_each(|slot| slot.node.clone_from(&slot.name));
    }
    let mut taken = BTreeSet::new();
    for node in slots.iter().filter_map(|slot| slot.node.as_deref()) {
        if !cluster.contains(node) {
            let near = nearest(node, cluster.iter().map(String::as_str));
            let near =
                near.map_or_else(|| "`sinfo -N` lists them".into(), |near| did_you_mean(near, Quote::Back));
            return Err(LaunchError::Unsuited(format!("the cluster has no node {node:?}: {near}")));
        }
        if !taken.insert(node) {
            return Err(LaunchError::Unsuited(format!("two hosts are assigned to node {node:?}")));
        }
    }
    Ok(())
}

/// What `salloc` is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    name: String,
    minutes: Option<u64>,
    components: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Component {
    ask: Vec<String>,
    count: usize,
    nodes: Vec<String>,
}

impl Request {
    /// Hosts that need the same make one component; `slots` are told theirs.
    pub(super) fn new(
        needs: &Needs,
        slots: &mut [Slot],
        ask: &[String],
        ask_of_role: &BTreeMap<String, Vec<String>>,
    ) -> Result<Request, LaunchError> {
        for role in ask_of_role.keys() {
            let known = needs.roles.iter().map(|known| known.role.as_str());
            if !known.clone().any(|known| known == role) {
                let near = hint(", ", nearest(role, known), Quote::Back);
                return Err(LaunchError::Unsuited(format!(
                    "options are given for role {role:?}, which does not exist{near}"
                )));
            }
        }
        for word in ask.iter().chain(ask_of_role.values().flatten()) {
            check_word(word)?;
        }
        let mut components: Vec<Component> = Vec::new();
        for slot in slots.iter_mut() {
            let own = slot.role.as_ref().and_then(|role| ask_of_role.get(role));
            let ask: Vec<String> = ask.iter().chain(own.into_iter().flatten()).cloned().collect();
            let at = components.iter().position(|component| component.ask == ask).unwrap_or_else(|| {
                components.push(Component { ask, count: 0, nodes: Vec::new() });
                components.len() - 1
            });
            components[at].count += 1;
            components[at].nodes.extend(slot.node.clone());
            slot.component = Some(at);
        }
        if components.len() == 1 {
            slots.iter_mut().for_each(|slot| slot.component = None);
        }
        let minutes = needs.longest_s.map(|longest| (longest / 60.0).ceil() as u64 + SPARE_MINUTES);
        Ok(Request { name: needs.name.clone(), minutes, components })
    }

    /// Components stand between colons. What the user asked comes last: there the last word counts.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (at, component) in self.components.iter().enumerate() {
            match at {
                0 => words.push(format!("--job-name=barewire-{}", self.name)),
                _ => words.push(":".into()),
            }
            words.push("--exclusive".into());
            words.push(format!("--nodes={}", component.count));
            words.extend(self.minutes.map(|minutes| format!("--time={minutes}")));
            if !component.nodes.is_empty() {
                words.push(format!("--nodelist={}", component.nodes.join(",")));
            }
            words.extend(component.ask.iter().cloned());
        }
        words
    }
}

/// Only options, and none of those that are ours.
fn check_word(word: &str) -> Result<(), LaunchError> {
    const OURS: [&str; 9] = [
        "nodes",
        "nodelist",
        "no-shell",
        "job-name",
        "exclusive",
        "ntasks",
        "overcommit",
        "immediate",
        "bell",
    ];
    let name = word.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or(rest));
    let why = match name {
        None | Some("") => "in the form --key=value",
        Some(name) if OURS.contains(&name) => "the launcher sets it",
        Some(_) if word.contains(char::is_control) => "in one line",
        Some(_) => return Ok(()),
    };
    Err(LaunchError::Unsuited(format!("Slurm option {word:?}: {why}")))
}

/// Which slot is which node: those that must be one first, the others in order, each from its component.
pub(super) fn assign(slots: Vec<Slot>, nodes: &[Node]) -> Result<Vec<(Slot, Node)>, LaunchError> {
    let fixed: BTreeSet<&str> = slots.iter().filter_map(|slot| slot.node.as_deref()).collect();
    let mut free: Vec<&Node> = nodes.iter().filter(|node| !fixed.contains(node.name.as_str())).collect();
    let count = slots.len();
    let mut placed = Vec::new();
    for slot in slots {
        let node = match &slot.node {
            Some(name) => nodes.iter().find(|node| node.name == *name),
            None => {
                let suits = |node: &&Node| slot.component.is_none() || node.component == slot.component;
                free.iter().position(suits).map(|at| free.remove(at))
            }
        };
        let node = node.cloned().ok_or_else(|| {
            let wanted = slot.node.as_deref().unwrap_or("another node");
            LaunchError::Unsuited(format!(
                "the allocation has {} nodes for {count} hosts, and not {wanted}",
                nodes.len()
            ))
        })?;
        placed.push((slot, node));
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::{HostSpec, RoleNeed};

    fn role(role: &str, named: &[&str], count: usize) -> RoleNeed {
        RoleNeed { role: role.into(), named: named.iter().map(|&n| n.into()).collect(), count }
    }

    fn needs(hosts: &[(&str, &str)], roles: Vec<RoleNeed>) -> Needs {
        let host = |&(name, reach): &(&str, &str)| HostSpec {
            name: name.into(),
            reach: reach.into(),
            ..HostSpec::default()
        };
        let hosts = hosts.iter().map(host).collect();
        Needs { name: "x".into(), hosts, roles, topology: None, longest_s: Some(100.0) }
    }

    fn cluster(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn shown(slots: &[Slot]) -> Vec<(Option<&str>, Option<&str>, Option<&str>)> {
        slots.iter().map(|s| (s.name.as_deref(), s.node.as_deref(), s.role.as_deref())).collect()
    }

    #[test]
    fn names_are_nodes_or_none_is() {
        let roles = || vec![role("server", &["h1"], 1), role("client", &[], 2)];
        let three = cluster(&["n1", "n2", "n3"]);
        let some = |t| Some(t);
        let hosts = [("h1", ""), ("h2", ""), ("h3", "")];
        let found = slots(&needs(&hosts, roles()), &three).unwrap();
        let want = [
            (some("h1"), None, some("server")),
            (some("h2"), None, some("client")),
            (some("h3"), None, some("client")),
        ];
        assert_eq!(shown(&found), want);
        // Named in a lab's file only, or by count.
        let found = slots(&needs(&[], roles()), &three).unwrap();
        assert_eq!(
            shown(&found),
            [(some("h1"), None, some("server")), (None, None, some("client")), (None, None, some("client"))]
        );
        // Nodes, by either way.
        let found = slots(&needs(&[("n1", ""), ("b", "n3")], vec![role("r", &["b"], 1)]), &three).unwrap();
        assert_eq!(shown(&found), [(some("n1"), some("n1"), None), (some("b"), some("n3"), some("r"))]);
        for (hosts, said) in [
            (vec![("a", "n11")], "did you mean `n1`?"),
            (vec![("n1", ""), ("m", "")], "no node \"m\""),
            (vec![("a", "n1"), ("b", "n1")], "two hosts"),
            (vec![], "no role"),
        ] {
            let e = slots(&needs(&hosts, vec![]), &three).unwrap_err();
            assert!(matches!(&e, LaunchError::Unsuited(why) if why.contains(said)), "{e}");
        }
    }

    #[test]
    fn equal_hosts_make_one_request_and_different_ones_a_heterogeneous_one() {
        let needs = needs(
            &[("a", ""), ("b", "n2"), ("c", "")],
            vec![role("server", &["a"], 1), role("client", &["b", "c"], 2)],
        );
        let mut slots = slots(&needs, &cluster(&["n1", "n2", "n3"])).unwrap();
        let ask = ["--partition=p".to_owned()];
        let mut words = |of_role: &[(&str, &str)]| {
            let of_role =
                of_role.iter().map(|&(role, ask)| (role.to_owned(), vec![ask.to_owned()])).collect();
            Request::new(&needs, &mut slots, &ask, &of_role).map(|request| request.arguments().join(" "))
        };
        let one = "--job-name=barewire-x --exclusive --nodes=3 --time=7 --nodelist=n2 --partition=p";
        assert_eq!(words(&[]).unwrap(), one);
        let two = "--job-name=barewire-x --exclusive --nodes=1 --time=7 --partition=p --constraint=big : \
                   --exclusive --nodes=2 --time=7 --nodelist=n2 --partition=p";
        assert_eq!(words(&[("server", "--constraint=big")]).unwrap(), two);
        for (role, ask, said) in [
            ("serve", "--x", "did you mean `server`"),
            ("server", "--nodes=9", "launcher"),
            ("server", "rm", "form"),
            ("server", ":", "form"),
        ] {
            let e = words(&[(role, ask)]).unwrap_err().to_string();
            assert!(e.contains(said), "{e}");
        }
    }

    #[test]
    fn slots_get_the_nodes_that_they_must_have_and_the_rest_in_order() {
        let slot = |node: Option<&str>| Slot { node: node.map(str::to_owned), ..Slot::default() };
        let node = |name: &str| Node { name: name.into(), component: None };
        let nodes = [node("n1"), node("n2"), node("n3")];
        let names = |slots: &[Slot]| {
            let placed = assign(slots.to_vec(), &nodes);
            placed.map(|placed| placed.into_iter().map(|(_, node)| node.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[slot(None), slot(Some("n1")), slot(None)]).unwrap(), ["n2", "n1", "n3"]);
        assert!(names(&[slot(None), slot(None), slot(None), slot(None)]).is_err());
        assert!(names(&[slot(Some("n9"))]).is_err());
        // Of a heterogeneous job each takes from its own component.
        let nodes = [("n1", 0), ("n2", 1), ("n3", 0)];
        let nodes = nodes.map(|(name, at)| Node { name: name.into(), component: Some(at) });
        let slots = [1, 0, 0].map(|at| Slot { component: Some(at), ..Slot::default() });
        let names: Vec<String> =
            assign(slots.into(), &nodes).unwrap().into_iter().map(|(_, n)| n.name).collect();
        assert_eq!(names, ["n2", "n1", "n3"]);
    }
}
