use super::*;
use crate::plan::{Collect, Count, RoleHosts};
use proptest::prelude::*;

const GOOD: &str = r#"
name = "rates"
table = "rc.threads"
hardware = "bare-metal"

[[host]]
name = "h1"
ssh = "alice@one"
settings = { interface = "eth0", nics = 2 }
[[host]]
name = "h2"
address = "10.0.0.2"
[[host]]
name = "h3"

[method]
runs = 2
seconds = 0.5
timeout_s = 30

[sweep]
threads = [1, 2]
idle = ["park", "spin"]
zip = [{ size = 64, window = 1 }, { size = 1024, window = 8 }]

[[role]]
name = "server"
hosts = ["h2"]
command = ["barewire", "rc", "serve", "--port", "xdp:{host.interface}"]
ready = "listening"

[[role]]
name = "client"
count = "{threads}"
command = ["sh", "-c", "echo {server.address} {threads} {{x}}", "{size}"]
collect = { regex = '(?P<rate_per_s>[0-9.]+)/s' }

[merge]
sum = ["rate_per_s"]
[environment]
API_TOKEN = "geheim"
"#;

fn parsed(text: &str) -> Result<Plan, FileError> {
    parse(text, "x.toml", Path::new(""))
}

#[test]
fn a_file_becomes_a_plan() {
    let plan = parsed(GOOD).unwrap();
    assert_eq!((plan.name.as_str(), plan.table.as_deref()), ("rates", Some("rc.threads")));
    assert_eq!(plan.hardware, Some(HardwareClass::BareMetal));
    assert_eq!(plan.hosts[0].reach, "alice@one");
    assert_eq!(plan.hosts[0].settings["nics"], "2");
    assert_eq!((plan.method.runs, plan.method.timeout), (2, Some(Duration::from_secs(30))));
    assert_eq!(plan.points.len(), 8);
    assert_eq!(point_text(&plan.points[0]), "threads 1, idle park, size 64, window 1");
    assert_eq!(point_text(&plan.points[1]), "threads 1, idle park, size 1024, window 8");
    assert_eq!(point_text(&plan.points[7]), "threads 2, idle spin, size 1024, window 8");
    assert_eq!(plan.roles[0].hosts, RoleHosts::Named(vec!["h2".into()]));
    assert_eq!(plan.roles[1].hosts, RoleHosts::Free);
    assert_eq!(plan.roles[1].count, Some(Count::Axis("threads".into())));
    assert!(matches!(plan.roles[1].collect, Some(Collect::Regex(_))));
}

/// The error that `from` in place of `to` makes.
fn broken(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    match parsed(&text) {
        Ok(_) => panic!("accepted: {to}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn what_is_wrong_is_told_with_place_reason_and_nearest_word() {
    let cases = [
        ("runs = 2", "rusn = 2", "x.toml:17:1: unknown key `rusn`; did you mean `runs`?"),
        (
            "hosts = [\"h2\"]",
            "hosts = [\"h22\"]",
            "x.toml:28:9: role.hosts: no host `h22`; did you mean `h2`?",
        ),
        ("{host.interface}", "{host.interfaec}", "did you mean `host.interface`?"),
        ("{server.address}", "{serwer.address}", "did you mean `server.address`?"),
        ("{{x}}", "{x}", "no placeholder `{x}`"),
        ("{{x}}", "{ x", "write a literal brace twice"),
        ("name = \"rates\"", "name = \"Rates!\"", "x.toml:2:8: name = \"Rates!\": a name is"),
        ("rc.threads", "rc.thraeds", "did you mean `rc.threads`?"),
        ("bare-metal", "bare_metal", "did you mean `bare-metal`?"),
        ("threads = [1, 2]", "threads = []", "sweep.threads: the list is empty"),
        ("threads = [1, 2]", "threads = [1, 1]", "sweep.threads: threads 1 stands there twice"),
        ("threads = [1, 2]", "threads = 1", "sweep.threads: expected a list of values"),
        ("threads = [1, 2]", "threads = [1, 9]", "role.count: 9 hosts, of 3"),
        ("threads = [1, 2]", "threads = [1, 1.5]", "`1.5` of axis `threads` is not a number of hosts"),
        ("threads = [1, 2]", "threads = [1, 2]\nrun = [1]", "`{run}` already has a meaning"),
        ("size = 1024, window = 8", "size = 1024", "sweep.zip: every table needs the same keys"),
        ("idle = [\"park\", \"spin\"]", "systems = [\"park\"]", "sweep.systems: expected a list of tables"),
        (
            "threads = [1, 2]",
            "threads = [1, 2]\nsystems = [{ threads = 1 }]",
            "sweep.systems: `threads` is an axis of its own",
        ),
        ("count = \"{threads}\"", "count = \"{treads}\"", "no axis `treads`; did you mean `threads`?"),
        ("(?P<rate_per_s>[0-9.]+)/s", "([0-9.]+)/s", "no group has a name"),
        ("(?P<rate_per_s>[0-9.]+)/s", "(?P<a>[0-9", "role.collect.regex: "),
        ("name = \"client\"", "name = \"server\"", "a second role of this name"),
        ("name = \"client\"", "name = \"threads\"", "`{threads}` already has a meaning"),
        ("name = \"h3\"", "name = \"h2\"", "a second host of this name"),
        ("ready = \"listening\"", "ready = \"\"", "an empty text is in every line"),
        ("ready = \"listening\"", "stop = \"HUP\"", "role.stop = \"HUP\": not known"),
        ("seconds = 0.5", "seconds = -1", "seconds, from 0 to a week"),
        ("seconds = 0.5", "seconds = inf", "seconds, from 0 to a week"),
        ("seconds = 0.5", "seconds = 40", "a run measures for 40 s"),
        ("runs = 2", "runs = 0", "from 1 to 10000"),
        ("runs = 2", "runs = \"two\"", "x.toml:17:8: invalid type"),
        (
            "[merge]\nsum = [\"rate_per_s\"]",
            "[merge]\nsum = [\"a\"]\nmax = [\"a\"]",
            "`a` stands there already",
        ),
        ("API_TOKEN = \"geheim\"", "API_TOKEN = [1]", "expected a text, a number, true or false"),
        (
            "command = [\"barewire\", \"rc\", \"serve\", \"--port\", \"xdp:{host.interface}\"]",
            "",
            "key `command` is missing",
        ),
    ];
    for (from, to, told) in cases {
        let got = broken(from, to);
        assert!(got.contains(told), "{to}: {got}");
        assert!(got.starts_with("x.toml:") && !got.contains("geheim"), "{got}");
    }
}

#[test]
fn files_that_it_names_must_be_there() {
    let with = |more: &str| parsed(&format!("{GOOD}\n{more}")).unwrap_err().to_string();
    assert!(
        with("[[sync]]\nsource = \"nowhere\"").contains("no such file: nowhere"),
        "{}",
        with("[[sync]]\nsource = \"nowhere\"")
    );
    assert!(with("[lab]\ntopology = \"nowhere.toml\"").contains("lab.topology: nowhere.toml"));
    let none = parsed("name = \"a\"\n").err().unwrap().to_string();
    assert!(none.contains("[[role]] is missing"), "{none}");
    assert!(read(Path::new("nowhere.toml")).unwrap_err().to_string().starts_with("nowhere.toml: "));
}

proptest! {
    #[test]
    fn no_file_makes_it_panic(cut in 0usize..1400, more in "[\\PC\n]{0,40}") {
        let at = (0..=cut.min(GOOD.len())).rev().find(|&at| GOOD.is_char_boundary(at)).unwrap_or(0);
        let _ = parsed(&format!("{}{more}{}", &GOOD[..at], &GOOD[at..]));
        let _ = parsed(&format!("{}{more}", &GOOD[..at]));
    }
}

/// Each published table that we can repeat has an experiment whose rows go there.
#[test]
fn the_experiments_of_the_published_tables_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs");
    let mut plans = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let plan = read(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Some(plan.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert!(plan.roles.iter().any(|role| role.collect.is_some()), "{}: no rows", plan.name);
        plans.insert(plan.name.clone(), plan);
    }
    for table in published::tables() {
        let of_file = plans.values().any(|plan| plan.table.as_deref() == Some(table.records_of));
        // Rows of these say themselves to which table they belong.
        let by_rows = match table.records_of {
            "machnet" => plans.contains_key("machnet"),
            "onixs.app-5ms" | "onixs.net-5ms" => plans.contains_key("onixs-5ms"),
            "onixs.app-0" | "onixs.net-0" => plans.contains_key("onixs-0"),
            _ => false,
        };
        assert!(of_file || by_rows, "{} has no experiment", table.id);
    }
    let plan = &plans["rc-machines"];
    assert_eq!((plan.points.len(), plan.systems.contains("baseline"), plan.systems.len()), (8, true, 1));
}

#[test]
fn a_value_that_names_a_host_is_checked_where_it_stands() {
    let of = |sweep: &str| {
        let text = format!(
            "name = \"x\"\n[[host]]\nname = \"h1\"\nsettings = {{ own = \"a\" }}\n[sweep]\nsize = [1]\n{sweep}\n\
             [[role]]\nname = \"r\"\nhosts = [\"h1\"]\ncommand = [\"x\"]\n"
        );
        parse(&text, "x.toml", Path::new("")).map(drop).map_err(|e| e.to_string())
    };
    for good in ["peer = [\"{r.own}\", \"{host.address}\"]", "peer = [\"{other.own}\", \"a{r.no}\"]"] {
        assert_eq!(of(good), Ok(()), "{good}");
    }
    for wrong in ["peer = [\"{r.onw}\"]", "systems = [{ peer = \"{r.own}\" }, { peer = \"{r.onw}\" }]"] {
        let why = of(wrong).unwrap_err();
        assert!(why.starts_with("x.toml:7:") && why.contains("did you mean `r.own`"), "{why}");
    }
}
