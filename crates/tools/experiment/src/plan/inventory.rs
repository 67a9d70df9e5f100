//! Where hosts really are and what they have: what stands above the experiment's own `[[host]]` tables, so that one file runs in a lab,
//! on machines and on a cluster.

use super::{Plan, RoleHosts};
use crate::launcher::HostSpec;
use std::collections::{BTreeMap, BTreeSet};

/// Hosts as somebody has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Settings of every host: `[[host]]` with the name `*`.
    pub everywhere: BTreeMap<String, String>,
    /// Hosts by name. What is empty stays as the experiment says it.
    pub hosts: Vec<HostSpec>,
}

impl Plan {
    /// The hosts that the file, its roles and its lab name.
    pub(super) fn host_names(&self) -> BTreeSet<String> {
        let named = self.roles.iter().filter_map(|role| match &role.hosts {
            RoleHosts::Named(names) => Some(names),
            _ => None,
        });
        let of_file = self.hosts.iter().map(|host| host.name.clone());
        // It could be read when the file was.
        let lab = self.topology.as_ref().and_then(|path| barewire_lab::Topology::read(path).ok());
        let of_lab = lab.into_iter().flat_map(|lab| lab.hosts).map(|host| host.name);
        of_file.chain(named.flatten().cloned()).chain(of_lab).collect()
    }

    /// Puts the experiment on these hosts.
    ///
    /// # Errors
    /// In words, with the nearest right word, when the experiment names its hosts and one of these is none of them.
    pub fn place(&mut self, inventory: &Inventory) -> Result<(), String> {
        let known = self.host_names();
        let stranger = |host: &&HostSpec| !known.is_empty() && !known.contains(&host.name);
        if let Some(host) = inventory.hosts.iter().find(stranger) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let near = crate::file::near(&host.name, &known);
            return Err(format!("the experiment has no host `{}`{near}", host.name));
        }
        for host in &mut self.hosts {
            host.settings.extend(inventory.everywhere.clone());
        }
        self.everywhere.extend(inventory.everywhere.clone());
        for given in &inventory.hosts {
            let Some(host) = self.hosts.iter_mut().find(|host| host.name == given.name) else {
                self.hosts.push(given.clone());
                continue;
            };
            if !given.reach.is_empty() {
                host.reach.clone_from(&given.reach);
            }
            if !given.address.is_empty() {
                host.address.clone_from(&given.address);
            }
            host.settings.extend(given.settings.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn host(name: &str, reach: &str, settings: &[(&str, &str)]) -> HostSpec {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        HostSpec { name: name.into(), reach: reach.into(), address: String::new(), settings }
    }

    fn plan(rest: &str) -> Plan {
        crate::file::parse(&format!("name = \"x\"\n{rest}"), "x", Path::new("")).unwrap()
    }

    #[test]
    fn the_named_host_stands_above_all_hosts_and_they_above_the_file() {
        let mut plan = plan(
            "[[host]]\nname = \"client\"\naddress = \"10.0.0.1\"\nsettings = { port = \"xdp:t0\", ip = \"a\", own = \"1\" }\n\
             [[host]]\nname = \"server\"\n\
             [[role]]\nname = \"r\"\nhosts = [\"client\", \"server\"]\ncommand = [\"x\", \"{host.port}\"]\n",
        );
        let everywhere =
            [("port".to_owned(), "packet:eth0".to_owned()), ("ip".to_owned(), "b".to_owned())].into();
        let hosts = vec![host("client", "me@m1", &[("ip", "c")])];
        plan.place(&Inventory { everywhere, hosts }).unwrap();
        let client = &plan.hosts[0];
        assert_eq!((client.reach.as_str(), client.address.as_str()), ("me@m1", "10.0.0.1"));
        let of = |key: &str| client.settings[key].as_str();
        assert_eq!((of("port"), of("ip"), of("own")), ("packet:eth0", "c", "1"));
        assert_eq!(plan.everywhere["port"], "packet:eth0");
    }

    #[test]
    fn a_stranger_is_refused_where_hosts_are_named_and_welcome_where_none_is() {
        let role = "[[role]]\nname = \"r\"\ncommand = [\"x\"]\n";
        let mut named = plan(&format!("[[host]]\nname = \"client\"\n{role}"));
        let given = |name: &str| Inventory { hosts: vec![host(name, "", &[])], ..Inventory::default() };
        let why = named.place(&given("clinet")).unwrap_err();
        assert!(why.contains("`clinet`") && why.contains("did you mean `client`"), "{why}");
        let mut free = plan(role);
        free.place(&given("m1")).unwrap();
        assert_eq!(free.hosts[0].name, "m1");
    }
}
