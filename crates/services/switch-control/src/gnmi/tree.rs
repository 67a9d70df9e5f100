//! The tree of values: `openconfig-interfaces`, as far as the switch's ports fill it.

use super::message::{Encoding, Path, PathElem, TypedValue, ValueKind};
use barewire_switch::control::PortInfo;
use std::collections::BTreeMap;
use tonic::Status;

/// A leaf's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaf {
    /// Text.
    Text(String),
    /// A counter of 64 bits.
    Counter(u64),
    /// A number of 32 bits.
    Number(u32),
    /// Yes or no.
    Flag(bool),
}

/// Leaves with their places, in the tree's order.
pub type Leaves = Vec<(Vec<PathElem>, Leaf)>;

fn elem(name: &str) -> PathElem {
    PathElem { name: name.into(), key: BTreeMap::new() }
}

/// The kernel's number of an interface; ports that are none have their number in the program.
fn ifindex(port: &PortInfo) -> u32 {
    let kernel = (!port.name.contains('/'))
        .then(|| std::fs::read_to_string(format!("/sys/class/net/{}/ifindex", port.name)).ok())
        .flatten()
        .and_then(|text| text.trim().parse().ok());
    kernel.unwrap_or(port.port)
}

/// The name of a port's interface: its own, or its number where it has none.
fn name_of(port: &PortInfo) -> String {
    if port.name.is_empty() { port.port.to_string() } else { port.name.clone() }
}

/// All leaves of these ports.
pub fn leaves(ports: &[PortInfo]) -> Leaves {
    let mut out = Vec::new();
    for port in ports {
        let name = name_of(port);
        let interface =
            PathElem { name: "interface".into(), key: BTreeMap::from([("name".to_owned(), name.clone())]) };
        let mut leaf = |steps: &[&str], value: Leaf| {
            let path = [elem("interfaces"), interface.clone()]
                .into_iter()
                .chain(steps.iter().map(|step| elem(step)));
            out.push((path.collect(), value));
        };
        leaf(&["name"], Leaf::Text(name.clone()));
        leaf(&["config", "name"], Leaf::Text(name.clone()));
        leaf(&["config", "enabled"], Leaf::Flag(true));
        leaf(&["state", "name"], Leaf::Text(name.clone()));
        leaf(&["state", "ifindex"], Leaf::Number(ifindex(port)));
        leaf(&["state", "id"], Leaf::Number(port.port));
        leaf(&["state", "enabled"], Leaf::Flag(true));
        leaf(&["state", "admin-status"], Leaf::Text("UP".into()));
        leaf(&["state", "oper-status"], Leaf::Text(if port.up { "UP" } else { "DOWN" }.into()));
        for (name, value) in [
            ("in-octets", port.rx.bytes),
            ("in-pkts", port.rx.packets),
            ("in-discards", port.rx_dropped),
            ("out-octets", port.tx.bytes),
            ("out-pkts", port.tx.packets),
            ("out-discards", port.tx_dropped),
        ] {
            leaf(&["state", "counters", name], Leaf::Counter(value));
        }
    }
    out
}

/// Whether a leaf is below a place: steps may be `*`, or `...` for any number of them; keys may be `*` or left out.
pub fn below(wanted: &[PathElem], leaf: &[PathElem]) -> bool {
    match (wanted.split_first(), leaf.split_first()) {
        (None, _) => true,
        (Some((any, rest)), _) if any.name == "..." => {
            (0..=leaf.len()).any(|skipped| below(rest, &leaf[skipped..]))
        }
        (Some(_), None) => false,
        (Some((want, wanted)), Some((have, leaf))) => {
            (want.name == "*" || want.name == have.name)
                && want.key.iter().all(|(name, value)| value == "*" || have.key.get(name) == Some(value))
                && below(wanted, leaf)
        }
    }
}

/// The steps of a path behind a prefix.
///
/// # Errors
/// INVALID_ARGUMENT for more than 32 steps or another origin, NOT_FOUND for what the model does not have.
pub fn steps(prefix: Option<&Path>, path: Option<&Path>) -> Result<Vec<PathElem>, Status> {
    let empty = Path::default();
    let (prefix, path) = (prefix.unwrap_or(&empty), path.unwrap_or(&empty));
    for origin in [&prefix.origin, &path.origin] {
        if !matches!(origin.as_str(), "" | "openconfig") {
            return Err(Status::invalid_argument(format!(
                "origin '{origin}' is not known, there is openconfig only"
            )));
        }
    }
    let mut steps: Vec<PathElem> = prefix.elem.iter().chain(&path.elem).cloned().collect();
    if steps.len() > 32 || steps.iter().filter(|step| step.name == "...").count() > 2 {
        return Err(Status::invalid_argument("the path has more than 32 steps, or more than two '...'"));
    }
    for step in &mut steps {
        // `openconfig-interfaces:interfaces` is the same with its model's name.
        if let Some((_, name)) = step.name.split_once(':') {
            step.name = name.to_owned();
        }
    }
    // What no port could have is not there; a port that is not there now may come.
    let any = PortInfo {
        port: 0,
        uri: String::new(),
        name: "*".into(),
        up: true,
        note: String::new(),
        rx: Default::default(),
        tx: Default::default(),
        rx_dropped: 0,
        tx_dropped: 0,
    };
    let mut without_keys = steps.clone();
    without_keys.iter_mut().for_each(|step| step.key.clear());
    if !leaves(&[any]).iter().any(|(leaf, _)| below(&without_keys, leaf)) {
        let text: String = steps.iter().map(|step| format!("/{}", step.name)).collect();
        let message = format!("there is no {text}: interfaces are at /interfaces/interface[name=...]/state");
        return Err(Status::not_found(message));
    }
    let bad_key = |step: &&PathElem| {
        step.key.keys().any(|key| step.name != "*" && (step.name != "interface" || key != "name"))
    };
    if let Some(step) = steps.iter().find(bad_key) {
        return Err(Status::invalid_argument(format!(
            "'{}' has no such key; interface has 'name'",
            step.name
        )));
    }
    Ok(steps)
}

/// A value as an encoding writes it.
pub fn value(leaf: &Leaf, encoding: Encoding) -> TypedValue {
    let json = |ietf: bool| match leaf {
        Leaf::Text(text) => serde_json::Value::from(text.as_str()),
        // RFC 7951: numbers of 64 bits are strings.
        Leaf::Counter(count) if ietf => serde_json::Value::from(count.to_string()),
        Leaf::Counter(count) => serde_json::Value::from(*count),
        Leaf::Number(number) => serde_json::Value::from(*number),
        Leaf::Flag(flag) => serde_json::Value::from(*flag),
    };
    let kind = match encoding {
        Encoding::Json => ValueKind::JsonVal(json(false).to_string().into_bytes()),
        Encoding::JsonIetf => ValueKind::JsonIetfVal(json(true).to_string().into_bytes()),
        Encoding::Ascii => ValueKind::AsciiVal(match leaf {
            Leaf::Text(text) => text.clone(),
            Leaf::Counter(count) => count.to_string(),
            Leaf::Number(number) => number.to_string(),
            Leaf::Flag(flag) => flag.to_string(),
        }),
        Encoding::Proto | Encoding::Bytes => match leaf {
            Leaf::Text(text) => ValueKind::StringVal(text.clone()),
            Leaf::Counter(count) => ValueKind::UintVal(*count),
            Leaf::Number(number) => ValueKind::UintVal(u64::from(*number)),
            Leaf::Flag(flag) => ValueKind::BoolVal(*flag),
        },
    };
    TypedValue { value: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<PathElem> {
        text.split('/')
            .filter(|step| !step.is_empty())
            .map(|step| match step.split_once("[name=") {
                Some((name, key)) => PathElem {
                    name: name.into(),
                    key: BTreeMap::from([("name".to_owned(), key.trim_end_matches(']').to_owned())]),
                },
                None => elem(step),
            })
            .collect()
    }

    fn port(number: u32, name: &str) -> PortInfo {
        PortInfo {
            port: number,
            uri: format!("mem:{name}"),
            name: name.into(),
            up: number != 2,
            note: String::new(),
            rx: barewire_switch::control::CounterValue { packets: 3, bytes: 180 },
            tx: Default::default(),
            rx_dropped: 1,
            tx_dropped: 0,
        }
    }

    #[test]
    fn paths_with_and_without_wildcards_find_leaves() {
        let leaves = leaves(&[port(1, "a"), port(2, "b")]);
        let count = |text: &str| leaves.iter().filter(|(leaf, _)| below(&path(text), leaf)).count();
        assert_eq!(count(""), 30);
        assert_eq!(count("/interfaces/interface[name=a]/state/counters"), 6);
        assert_eq!(count("/interfaces/interface[name=*]/state/oper-status"), 2);
        assert_eq!(count("/interfaces/interface/state/counters/in-octets"), 2);
        assert_eq!(count("/interfaces/*/state/ifindex"), 2);
        assert_eq!(count("/.../in-pkts"), 2);
        assert_eq!(count("/interfaces/interface[name=c]/state"), 0);
        let found = |text: &str| {
            leaves.iter().find(|(leaf, _)| below(&path(text), leaf)).map(|(_, value)| value.clone())
        };
        assert_eq!(found("/interfaces/interface[name=a]/state/counters/in-octets"), Some(Leaf::Counter(180)));
        assert_eq!(found("/interfaces/interface[name=b]/state/oper-status"), Some(Leaf::Text("DOWN".into())));
    }

    #[test]
    fn places_that_are_not_there_are_refused() {
        let check = |text: &str| {
            let path = Path { elem: path(text), ..Path::default() };
            steps(None, Some(&path)).map_err(|status| status.code())
        };
        assert!(check("/openconfig-interfaces:interfaces/interface[name=x]/state").is_ok());
        assert_eq!(check("/system/cpu"), Err(tonic::Code::NotFound));
        assert_eq!(check("/interfaces/interface[name=x]/stat"), Err(tonic::Code::NotFound));
        assert_eq!(check(&"/.../".repeat(5)), Err(tonic::Code::InvalidArgument));
        assert_eq!(check("/interfaces[name=x]"), Err(tonic::Code::InvalidArgument));
    }

    #[test]
    fn values_are_written_as_the_encoding_has_them() {
        let json = |leaf: Leaf, encoding| match value(&leaf, encoding).value {
            Some(ValueKind::JsonVal(text) | ValueKind::JsonIetfVal(text)) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(json(Leaf::Counter(7), Encoding::Json), "7");
        assert_eq!(json(Leaf::Counter(7), Encoding::JsonIetf), "\"7\"");
        assert_eq!(json(Leaf::Text("a\"b".into()), Encoding::Json), "\"a\\\"b\"");
        assert_eq!(value(&Leaf::Counter(7), Encoding::Proto).value, Some(ValueKind::UintVal(7)));
    }
}
