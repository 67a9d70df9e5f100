//! What may be set beside what: whether two rows did the same work, by what they say of themselves. The page asks here, and so do the texts
//! of the bench verbs.

use serde_json::{Map, Value};

/// A row as documents have it.
type Fields = Map<String, Value>;

/// More busy cores than this, of those that were left to sleep: they did not.
pub const SLEEPS_BELOW: f64 = 1.0;

/// Settings that two rows must share for one to be a baseline of the other, where both have them: a baseline has no program, or no engine
/// settings, of ours.
const WORKLOAD: [&str; 28] = [
    "program",
    "message",
    "what",
    "base",
    "workload",
    "loop",
    "arrivals",
    "size",
    "burst",
    "window",
    "connections",
    "offered_per_s",
    "threads",
    "hosts",
    "nics",
    "teardown",
    "live_qps",
    "protocol",
    "streams",
    "operation",
    "instruments",
    "lines",
    "entries",
    "masks",
    "offloads",
    "gro",
    "gap_us",
    // A core that sleeps takes tens of microseconds to wake: who is measured so is compared with who is.
    "idle_state",
];

/// Settings of which a row that does not say them has one: two engines have twice the cores of a baseline.
const ONE_UNLESS_SAID: [&str; 1] = ["engines"];

/// Floors that are of one kind of ports: a loop over others says nothing of these.
const FLOORS_OF_PORTS: [&str; 1] = ["bare-loop"];

/// Baselines that make a receive and a send call for each message.
const CALLS_EACH: [&str; 7] = [
    "kernel-tcp",
    "kernel-tcp-spin",
    "kernel-tcp-spin-sleep",
    "kernel-tcp-busy-poll",
    "kernel-udp",
    "kernel-udp-spin",
    "kernel-udp-busy-poll",
];

/// What lies between two ends, as far as it decides what may stand beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// Memory: no system call, no packet.
    Memory,
    /// Sockets of one host: system calls, and no interface.
    Local,
    /// Capture files.
    Files,
    /// Packets of no interface, in the kernel.
    TestRun,
    /// Interfaces.
    Wire,
}

impl Between {
    /// `mem`, `fault+mem`, `xdp:eth0`, ...
    fn of(over: &str) -> Between {
        // A target stands behind a scheme, wrappers before it.
        let scheme = over.split(':').next().unwrap_or(over).rsplit('+').next().unwrap_or(over);
        match scheme {
            "mem" | "memory" => Between::Memory,
            "unix" | "loopback" | "socketpair" => Between::Local,
            "pcap" => Between::Files,
            at if at.starts_with("test-run") => Between::TestRun,
            _ => Between::Wire,
        }
    }

    fn of_row(row: &Fields) -> Option<Between> {
        text(row, "over").map(Between::of)
    }
}

fn text<'a>(row: &'a Fields, key: &str) -> Option<&'a str> {
    row.get(key).and_then(Value::as_str)
}

/// Cores that were left to sleep and did not, as an engine that polls before it sleeps kept them busy: what it saved is the wake-up, not
/// what a wake-up costs.
fn never_slept(row: &Fields) -> bool {
    let busy = row.get("cpu").and_then(|cpu| cpu.get("cores")?.as_f64());
    text(row, "idle_state") == Some("cold") && busy.is_some_and(|cores| cores > SLEEPS_BELOW)
}

/// The same load was put on both, over what can stand beside each other, on as many engines, in the same state of the cores.
pub fn same_load(a: &Fields, b: &Fields) -> bool {
    let said = |row: &Fields, key: &str| row.get(key).filter(|value| !value.is_null()).cloned();
    let alike = |key: &&'static str| match (said(a, key), said(b, key)) {
        // One writes a rate as a whole number, another does not.
        (Some(a), Some(b)) => a == b || a.as_f64().is_some_and(|n| b.as_f64() == Some(n)),
        _ => true,
    };
    let count = |row: &Fields, key: &str| row.get(key).and_then(Value::as_f64).unwrap_or(1.0);
    let without_wires = |between| [Between::Memory, Between::Local].contains(&between);
    let together = match (Between::of_row(a), Between::of_row(b)) {
        (Some(a), Some(b)) => a == b || without_wires(a) && without_wires(b),
        _ => true,
    };
    let of_ports = |row: &Fields| text(row, "system").is_some_and(|system| FLOORS_OF_PORTS.contains(&system));
    let same_ports = !(of_ports(a) || of_ports(b)) || text(a, "over") == text(b, "over");
    together
        && same_ports
        && never_slept(a) == never_slept(b)
        && ONE_UNLESS_SAID.iter().all(|key| count(a, key) == count(b, key))
        && WORKLOAD.iter().all(alike)
}

/// [`same_load`], encrypted or not. A cipher alone carries nothing, and is nobody's baseline.
pub fn same_work(a: &Fields, b: &Fields) -> bool {
    let encrypts = |row: &Fields| row.get("secure") == Some(&Value::Bool(true));
    let is_cipher = |row: &Fields| text(row, "system") == Some("aead");
    encrypts(a) == encrypts(b) && !is_cipher(a) && !is_cipher(b) && same_load(a, b)
}

/// Whether a row is a result that others can be judged by: not void, and not overloaded, as its times leave out who was not answered.
pub fn is_judged(row: &Fields) -> bool {
    ["void", "overloaded"].iter().all(|key| text(row, key).is_none_or(str::is_empty))
}

/// In what `theirs` had less freedom than `ours`, behind its name; else nothing.
pub fn handicap(ours: &Fields, theirs: &Fields) -> String {
    let system = text(theirs, "system").unwrap_or_default();
    let at_once = ["window", "burst"].iter().find_map(|key| theirs.get(*key)?.as_f64()).unwrap_or(1.0);
    let mut said = String::new();
    // A connection is no message: as many calls open it, however many are in flight.
    let connects = theirs.contains_key("connections_per_s");
    if at_once > 1.0 && CALLS_EACH.contains(&system) && !connects {
        said += " (a call for each message)";
    } else if at_once > 1.0 && system == "kernel-unix" {
        said += " (a call for each frame)";
    }
    if (Between::of_row(ours), Between::of_row(theirs)) == (Some(Between::Memory), Some(Between::Local)) {
        said += " (by system calls; ours are none, in memory)";
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(more: Value) -> Fields {
        let mut row = json!({"system": "barewire", "over": "xdp", "size": 64, "idle_state": "warm"});
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn what_lies_between_the_ends_decides() {
        let over = |ours: &str, theirs: &str| {
            same_work(&row(json!({"over": ours})), &row(json!({"system": "x", "over": theirs})))
        };
        for (ours, theirs) in [
            ("xdp", "veth"),
            ("packet", "xdp"),
            ("fault+xdp:eth0?loss=0.1", "veth"),
            ("mem", "mem"),
            ("mem", "loopback"),
            ("unix", "socketpair"),
            ("pcap", "pcap"),
        ] {
            assert!(over(ours, theirs) && over(theirs, ours), "{ours} {theirs}");
        }
        // A ring in a cache is no file, and neither is a wire.
        for (ours, theirs) in [
            ("mem", "pcap"),
            ("mem", "veth"),
            ("xdp", "loopback"),
            ("test-run at xdp", "xdp"),
            ("pcap", "veth"),
        ] {
            assert!(!over(ours, theirs) && !over(theirs, ours), "{ours} {theirs}");
        }
    }

    #[test]
    fn other_work_is_no_baseline() {
        let base = |more| row(more);
        let same = |a: Value, b: Value| same_work(&base(a), &base(b));
        for (a, b) in [
            (json!({"teardown": false}), json!({"teardown": true})),
            (json!({"live_qps": 1000}), json!({"live_qps": 0})),
            (json!({"idle_state": "cold"}), json!({"idle_state": "warm"})),
            (json!({"engines": 2}), json!({})),
            (json!({"loop": "open", "arrivals": "cbr"}), json!({"loop": "open", "arrivals": "poisson"})),
            (json!({"secure": true}), json!({"secure": false})),
            (json!({"system": "aead"}), json!({})),
            (json!({"system": "bare-loop", "over": "packet"}), json!({"over": "xdp"})),
            (json!({"program": "acl"}), json!({"program": "simple_router"})),
            (
                json!({"idle_state": "cold", "cpu": {"cores": 1.9}}),
                json!({"idle_state": "cold", "cpu": {"cores": 0.7}}),
            ),
        ] {
            assert!(!same(a.clone(), b.clone()) && !same(b.clone(), a.clone()), "{a} {b}");
        }
        for (a, b) in [
            (json!({"program": "acl"}), json!({"program": null})),
            (json!({"engines": 1}), json!({})),
            (json!({"offered_per_s": 5}), json!({"offered_per_s": 5.0})),
            (json!({"system": "bare-loop"}), json!({})),
        ] {
            assert!(same(a.clone(), b.clone()), "{a} {b}");
        }
        let (plain, secret) = (base(json!({})), base(json!({"secure": true})));
        assert!(same_load(&plain, &secret), "what a cipher costs is asked of the same load");
    }

    #[test]
    fn less_freedom_is_said() {
        let of = |theirs: Value, ours: Value| handicap(&row(ours), &row(theirs));
        let tcp = |window| json!({"system": "kernel-tcp", "over": "veth", "window": window});
        assert_eq!(of(tcp(1), json!({})), "");
        assert_eq!(of(tcp(32), json!({})), " (a call for each message)");
        assert_eq!(of(json!({"system": "kernel-tcp-batch", "over": "veth", "window": 32}), json!({})), "");
        let connects =
            json!({"system": "kernel-tcp", "over": "veth", "window": 32, "connections_per_s": 5.0});
        assert_eq!(of(connects, json!({})), "");
        let frames = json!({"system": "kernel-unix", "over": "socketpair", "burst": 32});
        assert_eq!(of(frames.clone(), json!({"over": "unix"})), " (a call for each frame)");
        let both = of(frames, json!({"over": "mem"}));
        assert!(both.contains("each frame) (by system calls"), "{both}");
    }

    #[test]
    fn void_and_overloaded_rows_judge_nobody() {
        for (more, judged) in [
            (json!({}), true),
            (json!({"void": null, "overloaded": ""}), true),
            (json!({"void": "late"}), false),
            (json!({"overloaded": "12 % were never sent"}), false),
        ] {
            assert_eq!(is_judged(&row(more.clone())), judged, "{more}");
        }
    }
}
