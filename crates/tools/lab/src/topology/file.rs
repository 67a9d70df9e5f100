//! The file, and its way into the plan.

use super::TopologyError;
use super::addresses;
use super::impairment::ImpairmentTable;
use super::plan::{HostPlan, InterfacePlan, NODES_MAX, Node, NodePort, SwitchKind, SwitchPlan, Topology};
use barewire_netns::{check_interface, check_label};
use barewire_text::{Place, suggest, with_nearest_key};
use barewire_wire::MacAddr;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Longest name of a lab, a host, a switch or a link.
pub(super) const NAME_MAX: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) seed: Option<u64>,
    #[serde(default)]
    pub(super) static_neighbours: bool,
    #[serde(default)]
    pub(super) host: Vec<HostTable>,
    #[serde(default)]
    pub(super) switch: Vec<SwitchTable>,
    #[serde(default)]
    pub(super) link: Vec<LinkTable>,
    #[serde(default)]
    pub(super) group: Vec<GroupTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) addresses: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) interface: Vec<InterfaceTable>,
    #[serde(default)]
    pub(super) route: Vec<RouteTable>,
    #[serde(default)]
    pub(super) forwarding: bool,
    pub(super) ipv6: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) addresses: Vec<Spanned<String>>,
    pub(super) mac: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteTable {
    pub(super) to: Spanned<String>,
    pub(super) via: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchTable {
    pub(super) name: Spanned<String>,
    pub(super) kind: Spanned<String>,
    pub(super) program: Option<Spanned<PathBuf>>,
    pub(super) entries: Option<Spanned<PathBuf>>,
    pub(super) port: Option<Spanned<String>>,
    pub(super) arguments: Option<Spanned<Vec<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub(super) ends: Spanned<Vec<Spanned<String>>>,
    pub(super) name: Option<Spanned<String>>,
    pub(super) mtu_bytes: Option<Spanned<u32>>,
    pub(super) queues: Option<Spanned<u32>>,
    pub(super) tx_queue_frames: Option<u32>,
    pub(super) offloads: Option<Spanned<OffloadTable>>,
    pub(super) port: Option<Spanned<String>>,
    pub(super) seed: Option<u64>,
    pub(super) trace: Option<PathBuf>,
    pub(super) both: Option<Spanned<ImpairmentTable>>,
    pub(super) forward: Option<Spanned<ImpairmentTable>>,
    pub(super) reverse: Option<Spanned<ImpairmentTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    pub(super) prefix: Spanned<String>,
    pub(super) count: Spanned<u32>,
    pub(super) subnet: Option<Spanned<String>>,
    pub(super) switch: Spanned<String>,
    pub(super) mtu_bytes: Option<Spanned<u32>>,
    pub(super) queues: Option<Spanned<u32>>,
    pub(super) tx_queue_frames: Option<u32>,
    pub(super) offloads: Option<Spanned<OffloadTable>>,
    pub(super) port: Option<Spanned<String>>,
    pub(super) both: Option<Spanned<ImpairmentTable>>,
    pub(super) forward: Option<Spanned<ImpairmentTable>>,
    pub(super) reverse: Option<Spanned<ImpairmentTable>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OffloadTable {
    pub(super) rx: bool,
    pub(super) tx: bool,
    pub(super) sg: bool,
    pub(super) tso: bool,
    pub(super) gso: bool,
    pub(super) gro: bool,
    pub(super) vlan: bool,
}

impl Topology {
    /// Reads a topology file.
    ///
    /// # Errors
    /// [`TopologyError`], with file and place.
    pub fn read(path: &Path) -> Result<Topology, TopologyError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| TopologyError::Read { path: shown.clone(), source })?;
        let folder = path.canonicalize().ok().and_then(|p| p.parent().map(Path::to_path_buf));
        Topology::parse(&text, &shown, &folder.unwrap_or_default())
    }

    /// Parses a topology's text. `path` is for messages, `folder` is what paths in it are relative to.
    ///
    /// # Errors
    /// [`TopologyError`], with file and place.
    pub fn parse(text: &str, path: &str, folder: &Path) -> Result<Topology, TopologyError> {
        let file: File = toml::from_str(text).map_err(|e| TopologyError::Syntax {
            path: path.to_owned(),
            message: with_nearest_key(&e.to_string()),
        })?;
        let mut builder = Builder {
            text,
            path,
            folder,
            nodes: HashMap::new(),
            topology: Topology {
                name: file.name.get_ref().clone(),
                seed: file.seed.unwrap_or(1),
                static_neighbours: file.static_neighbours,
                hosts: Vec::new(),
                switches: Vec::new(),
                links: Vec::new(),
                file: path.to_owned(),
            },
            declared: Vec::new(),
            link_names: HashSet::new(),
        };
        builder.check_name("name", &file.name)?;
        if file.host.is_empty() && file.group.is_empty() {
            return Err(builder.at(&file.name, "[[host]]", "missing: a lab has at least one host"));
        }
        builder.nodes(&file)?;
        builder.links(&file)?;
        builder.hosts(&file)?;
        builder.no_loop(&file)?;
        Ok(builder.topology)
    }
}

pub(super) struct Builder<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a str,
    pub(super) folder: &'a Path,
    pub(super) nodes: HashMap<String, Node>,
    pub(super) topology: Topology,
    /// Interfaces of each host that its table declares, with their addresses as parsed.
    pub(super) declared: Vec<Vec<InterfacePlan>>,
    pub(super) link_names: HashSet<String>,
}

impl Builder<'_> {
    pub(super) fn at<T>(
        &self,
        of: &Spanned<T>,
        what: impl Into<String>,
        why: impl ToString,
    ) -> TopologyError {
        TopologyError::At {
            path: self.path.to_owned(),
            place: Place::of(self.text, of.span().start),
            what: what.into(),
            why: why.to_string(),
        }
    }

    pub(super) fn check_name(&self, key: &str, given: &Spanned<String>) -> Result<(), TopologyError> {
        let name = given.get_ref();
        if name.len() > NAME_MAX || check_label(name).is_err() {
            let why = format!("1 to {NAME_MAX} of a to z, 0 to 9, `-` and `_`");
            return Err(self.at(given, format!("{key} = {name:?}"), why));
        }
        Ok(())
    }

    pub(super) fn one_of<T: Copy>(
        &self,
        key: &str,
        given: &Spanned<String>,
        words: &[(&str, T)],
    ) -> Result<T, TopologyError> {
        let word = given.get_ref();
        words.iter().find(|(known, _)| known == word).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.at(given, format!("{key} = {word:?}"), suggest(word, &known))
        })
    }

    pub(super) fn number(
        &self,
        key: &str,
        given: Option<&Spanned<u32>>,
        default: u32,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, TopologyError> {
        let Some(given) = given else { return Ok(default) };
        let value = *given.get_ref();
        if bounds.contains(&value) {
            return Ok(value);
        }
        Err(self.at(
            given,
            format!("{key} = {value}"),
            format!("from {} to {}", bounds.start(), bounds.end()),
        ))
    }

    fn add_node(&mut self, name: &Spanned<String>, text: &str, node: Node) -> Result<(), TopologyError> {
        if self.nodes.len() >= NODES_MAX {
            return Err(self.at(name, text, format!("more than {NODES_MAX} hosts and switches")));
        }
        match self.nodes.insert(text.to_owned(), node) {
            None => Ok(()),
            Some(_) => Err(self.at(name, format!("name = {text:?}"), "a second host or switch of this name")),
        }
    }

    /// Names of all hosts and switches, so that links may be declared in any order.
    fn nodes(&mut self, file: &File) -> Result<(), TopologyError> {
        for table in &file.host {
            self.check_name("host.name", &table.name)?;
            let node = Node::Host(self.topology.hosts.len());
            self.add_node(&table.name, table.name.get_ref(), node)?;
            let declared = self.interfaces(table)?;
            let has_v6 = declared.iter().flat_map(|i| &i.addresses).any(|(a, _)| a.is_ipv6());
            self.declared.push(declared);
            self.topology.hosts.push(HostPlan {
                name: table.name.get_ref().clone(),
                interfaces: Vec::new(),
                routes: Vec::new(),
                forwarding: table.forwarding,
                ipv6: table.ipv6.unwrap_or(has_v6),
            });
        }
        for table in &file.switch {
            self.check_name("switch.name", &table.name)?;
            let node = Node::Switch(self.topology.switches.len());
            self.add_node(&table.name, table.name.get_ref(), node)?;
            let kind = self.switch_kind(table)?;
            self.topology.switches.push(SwitchPlan { name: table.name.get_ref().clone(), kind });
        }
        for table in &file.group {
            self.group(table)?;
        }
        Ok(())
    }

    fn group(&mut self, table: &GroupTable) -> Result<(), TopologyError> {
        self.check_name("group.prefix", &table.prefix)?;
        let count = self.number("group.count", Some(&table.count), 0, 1..=NODES_MAX as u32)?;
        let subnet = match &table.subnet {
            None => None,
            Some(given) => Some((
                given,
                addresses::parse(given.get_ref())
                    .map_err(|why| self.at(given, format!("group.subnet = {:?}", given.get_ref()), why))?,
            )),
        };
        for n in 1..=count {
            let name = format!("{}{n}", table.prefix.get_ref());
            let node = Node::Host(self.topology.hosts.len());
            self.add_node(&table.prefix, &name, node)?;
            let mut addresses = Vec::new();
            if let Some((given, subnet)) = subnet {
                let address = addresses::nth(subnet, n).ok_or_else(|| {
                    let what = format!("group.subnet = {:?}", given.get_ref());
                    self.at(given, what, format!("has no room for {count} hosts"))
                })?;
                addresses.push((address, subnet.1));
            }
            let ipv6 = addresses.iter().any(|(a, _): &(IpAddr, u8)| a.is_ipv6());
            self.declared.push(vec![InterfacePlan { name: "eth0".into(), mac: MacAddr([0; 6]), addresses }]);
            let (interfaces, routes) = (Vec::new(), Vec::new());
            self.topology.hosts.push(HostPlan { name, interfaces, routes, forwarding: false, ipv6 });
        }
        Ok(())
    }

    fn interfaces(&self, table: &HostTable) -> Result<Vec<InterfacePlan>, TopologyError> {
        let mut interfaces: Vec<InterfacePlan> = Vec::new();
        if !table.addresses.is_empty() {
            interfaces.push(InterfacePlan {
                name: "eth0".into(),
                mac: MacAddr([0; 6]),
                addresses: self.addresses("host.addresses", &table.addresses)?,
            });
        }
        for given in &table.interface {
            let name = given.name.get_ref();
            let what = format!("host.interface.name = {name:?}");
            check_interface(name).map_err(|e| self.at(&given.name, what.clone(), e))?;
            if interfaces.iter().any(|other| other.name == *name) {
                return Err(self.at(&given.name, what, "a second interface of this name"));
            }
            let mac = match &given.mac {
                None => MacAddr([0; 6]),
                Some(mac) => {
                    let what = format!("host.interface.mac = {:?}", mac.get_ref());
                    let parsed: MacAddr = mac.get_ref().parse().map_err(|e| self.at(mac, what.clone(), e))?;
                    if parsed.0[0] & 1 != 0 || parsed.0 == [0; 6] {
                        return Err(self.at(
                            mac,
                            what,
                            "no address of one interface: it is zero or a group's",
                        ));
                    }
                    parsed
                }
            };
            let addresses = self.addresses("host.interface.addresses", &given.addresses)?;
            interfaces.push(InterfacePlan { name: name.clone(), mac, addresses });
        }
        let mut seen = HashSet::new();
        let given = table.addresses.iter().chain(table.interface.iter().flat_map(|i| &i.addresses));
        let all = interfaces.iter().flat_map(|i| &i.addresses);
        for (given, (address, _)) in given.zip(all) {
            if !seen.insert(*address) {
                return Err(self.at(given, format!("address {address}"), "twice at one host"));
            }
        }
        Ok(interfaces)
    }

    fn addresses(&self, key: &str, given: &[Spanned<String>]) -> Result<Vec<(IpAddr, u8)>, TopologyError> {
        let parse = |given: &Spanned<String>| {
            let what = format!("{key} = {:?}", given.get_ref());
            let parsed =
                addresses::parse(given.get_ref()).map_err(|why| self.at(given, what.clone(), why))?;
            if parsed.0.is_unspecified() || parsed.0.is_multicast() {
                return Err(self.at(given, what, "no address of one host"));
            }
            Ok(parsed)
        };
        given.iter().map(parse).collect()
    }

    fn switch_kind(&self, table: &SwitchTable) -> Result<SwitchKind, TopologyError> {
        let words = [("bridge", false), ("barewire", true)];
        if !self.one_of("switch.kind", &table.kind, &words)? {
            let start = |at: usize| Spanned::new(at..at, ());
            for (key, given) in [
                ("program", table.program.as_ref().map(|given| given.span().start)),
                ("entries", table.entries.as_ref().map(|given| given.span().start)),
                ("port", table.port.as_ref().map(|given| given.span().start)),
                ("arguments", table.arguments.as_ref().map(|given| given.span().start)),
            ] {
                if let Some(at) = given {
                    let what = format!("switch.{key}");
                    return Err(self.at(&start(at), what, "a bridge has none; kind = \"barewire\" does"));
                }
            }
            return Ok(SwitchKind::Bridge);
        }
        let Some(program) = &table.program else {
            let why = "missing: the P4 program, as the JSON of p4c's bmv2 back end";
            return Err(self.at(&table.kind, "switch.program", why));
        };
        let path = |key: &str, given: &Spanned<PathBuf>| {
            let path = self.folder.join(given.get_ref());
            match self.folder.as_os_str().is_empty() || path.is_file() {
                true => Ok(path),
                false => Err(self.at(
                    given,
                    format!("switch.{key} = {:?}", given.get_ref()),
                    format!("no such file: {}", path.display()),
                )),
            }
        };
        Ok(SwitchKind::Barewire {
            program: path("program", program)?,
            entries: table.entries.as_ref().map(|given| path("entries", given)).transpose()?,
            port: self.port("switch.port", table.port.as_ref())?,
            arguments: table.arguments.as_ref().map(|given| given.get_ref().clone()).unwrap_or_default(),
        })
    }

    pub(super) fn port(&self, key: &str, given: Option<&Spanned<String>>) -> Result<NodePort, TopologyError> {
        given.map_or(Ok(NodePort::default()), |given| self.one_of(key, given, NodePort::WORDS))
    }
}
