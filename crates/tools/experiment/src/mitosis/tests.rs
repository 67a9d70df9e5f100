use super::*;
use crate::plan::{RoleHosts, RolePlan};
use barewire_report::run::AxisValue;
use proptest::prelude::*;

const RUN: &str = r#"
global_configs = 'nic_count=1 gids="fe80::1"'
user = "wxd"
pwd = "hunter2"
passphrase = "hunter3"
null = ["val01"]

[[sync]]
source = "m.ko"
targets = ["wxd@val01:/opt/", "val04:/opt/n.ko"]

[[pass]]
host = 'val01'
path = ''
cmd = 'sudo insmod server.ko'

[[pass]]
host = 'val04'
path = 'exp'
cmd = "sudo insmod client.ko {} & dmesg -wH | awk '{{print $1}}'"

[[pass]]
host = 'here'
path = 'scripts'
cmd = './collect.sh'
local = "yes"
"#;

fn read_text(text: &str, options: &MitosisOptions) -> Result<MitosisFile, MitosisError> {
    assert!(is_mitosis(text));
    // What the texts send.
    let folder = tempfile::tempdir().unwrap();
    for name in ["m.ko", "x"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    parse(text, "exp/run.toml", folder.path(), options)
}

fn script(role: &RolePlan) -> String {
    let fill = |name: &str| Ok::<_, ()>(format!("<{name}>"));
    role.command.last().unwrap().fill(fill).unwrap()
}

#[test]
fn a_run_file_is_a_plan() {
    let MitosisFile { plan, warnings } = read_text(RUN, &MitosisOptions::default()).unwrap();
    let reach: Vec<_> = plan.hosts.iter().map(|host| (host.name.as_str(), host.reach.as_str())).collect();
    assert_eq!(reach, [("val01", "wxd@val01"), ("val04", "wxd@val04")]);
    assert_eq!(plan.roles.len(), 3);
    assert_eq!(plan.roles[0].hosts, RoleHosts::Named(vec!["val01".into()]));
    assert_eq!(script(&plan.roles[0]), "cd || exit 1\nsudo insmod server.ko");
    let client = "cd || exit 1\ncd exp || exit 1\nsudo insmod client.ko nic_count=1 gids=\"fe80::1\" & dmesg -wH | awk '{print $1}'";
    assert_eq!(script(&plan.roles[1]), client);
    assert_eq!(plan.roles[2].hosts, RoleHosts::Here);
    assert_eq!(script(&plan.roles[2]), "cd scripts || exit 1\n./collect.sh");
    assert_eq!(plan.roles[1].settle, Duration::from_secs(1));
    assert!(plan.quiet.contains("val01") && plan.points == [vec![]] && plan.name == "run");
    assert_eq!(plan.method.timeout, None);
    let sync: Vec<_> = plan.sync.iter().map(|s| (s.to.to_str().unwrap(), s.targets[0].as_str())).collect();
    assert_eq!(sync, [("/opt/m.ko", "val01"), ("/opt/n.ko", "val04")]);
    // Secrets are neither in the plan nor in what is said.
    assert_eq!(warnings.len(), 2);
    assert!(!format!("{plan:?} {warnings:?}").contains("hunter"));
}

#[test]
fn the_black_list_takes_passes_out() {
    let options =
        MitosisOptions { black: ["val01".into(), "val99".into()].into(), ..MitosisOptions::default() };
    let MitosisFile { plan, warnings } = read_text(RUN, &options).unwrap();
    assert_eq!((plan.hosts.len(), plan.roles.len(), plan.sync.len()), (1, 2, 1));
    assert_eq!(plan.roles[0].name, "pass-2");
    assert!(warnings.iter().any(|warning| warning.contains("val99")));
    let options = MitosisOptions { black: ["a".into()].into(), ..MitosisOptions::default() };
    let one = "[[pass]]\nhost='a'\npath=''\ncmd='x'\n";
    assert!(read_text(one, &options).unwrap_err().to_string().contains("left out"));
}

#[test]
fn commands_run_in_their_folder_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("exp")).unwrap();
    let text = "global_configs='a b'\n[[pass]]\nhost='h'\npath='PATH'\ncmd='echo $PWD [{}]; [[ x == x ]] && echo bash'\n";
    let run = |path: &str| {
        let file = read_text(&text.replace("PATH", path), &MitosisOptions::default()).unwrap();
        let words: Vec<String> =
            file.plan.roles[0].command.iter().map(|word| word.fill(|_| Err(())).unwrap()).collect();
        let mut command = std::process::Command::new(&words[0]);
        let output = command.args(&words[1..]).env("HOME", home.path()).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let folder = home.path().join("exp").canonicalize().unwrap();
    let (ok, said) = run("exp");
    assert!(ok && said.starts_with(&format!("{} [a b]\n", folder.display())), "{said}");
    assert!(run("").0);
    assert_eq!(run("nowhere"), (false, String::new()));
}

const TEMPLATE: &str = r#"
[global]
global_configs = "-undefok=or_sz"
pwd = 123

[template]
[[template.pass]]
role = 'server'
path = "exp"
cmd = "./server -port=${port} -threads=${threads}"

[[template.pass]]
role = 'client'
path = "exp"
cmd = './client -host=${@incr} -id=${@incr} -threads=${threads} -w=${warm} | awk "{print $1}"'

[template.placeholder]
threads = [1, 2, 4]
port = 8888
warm = true
@incr = 0
"#;

fn hosts() -> MitosisOptions {
    let roles = [("server", vec!["v1"]), ("client", vec!["v2", "v3"])];
    let roles = roles.map(|(role, hosts)| (role.to_owned(), hosts.into_iter().map(str::to_owned).collect()));
    MitosisOptions { roles: roles.into(), path: Some("projects".into()), ..MitosisOptions::default() }
}

#[test]
fn a_template_is_a_sweep() {
    let MitosisFile { plan, warnings } = read_text(TEMPLATE, &hosts()).unwrap();
    let points: Vec<_> = plan.points.iter().map(|point| point[0].clone()).collect();
    assert_eq!(points, [1.0, 2.0, 4.0].map(|n| ("threads".to_owned(), AxisValue::Number(n))));
    let scripts: Vec<String> = plan.roles.iter().map(script).collect();
    let head = "cd || exit 1\ncd projects/exp || exit 1\n";
    let client = |n: u32| {
        format!(
            "{head}./client -host={n} -id={n} -threads=<threads> -w=True | awk \"{{print $1}}\" -undefok=or_sz"
        )
    };
    assert_eq!(
        scripts,
        [format!("{head}./server -port=8888 -threads=<threads> -undefok=or_sz"), client(1), client(2)]
    );
    assert_eq!(warnings.len(), 1);
    // Values of the command line are over those of the file.
    let mut options = hosts();
    options.placeholders = [("threads".to_owned(), vec!["8".to_owned()])].into();
    let plan = read_text(TEMPLATE, &options).unwrap().plan;
    assert!(plan.points == [vec![]] && script(&plan.roles[0]).contains("-threads=8 "));
    // A list of one value that only names the file is no sweep.
    let build = "[template]\n[[template.pass]]\nrole='b'\npath=''\nhost=['x']\nloop=2\ncmd='make'\n[template.placeholder]\nname=['build']\n";
    let plan = read_text(build, &MitosisOptions::default()).unwrap().plan;
    assert!(
        plan.points == [vec![]] && plan.roles.len() == 2 && script(&plan.roles[1]).ends_with("make -loop=1")
    );
}

#[test]
fn mistakes_are_shown_with_their_place_and_the_right_word() {
    let run = |text: &str| read_text(text, &MitosisOptions::default()).unwrap_err().to_string();
    let pass = "[[pass]]\nhost='a'\npath=''\n";
    for (text, said) in [
        (format!("{pass}cmd='awk {{print}}'\n"), ":4:10: cmd: write a literal brace"),
        (
            format!("{pass}cnd='x'\n"),
            ":4:1: file: unknown field `cnd`, expected one of `host`, `path`, `cmd`, `local`, `order`, `loop`: did you mean `cmd`?",
        ),
        (format!("{pass}cmd='x'\nlocal='ja'\n"), ":5:7: local: `yes` or `no`"),
        ("[[pass]]\nhost='-oProxy'\npath=''\ncmd='x'\n".into(), ":1:1: host \"-oProxy\""),
        ("[[pass]]\nhost='a'\npath=''\n".into(), "missing field `cmd`"),
        (format!("global_confgs='x'\n{pass}cmd='x'\n"), "did you mean `global_configs`"),
        (format!("user='a b'\n{pass}cmd='x'\n"), ":1:6: user"),
        (format!("{pass}cmd='x'\norder=0\n{pass}cmd='y'\norder=1\n"), ":10:7: order"),
        (format!("{pass}cmd='x'\nloop=0\n"), ":5:6: loop"),
        (format!("{pass}cmd='x'\n[[sync]]\nsource='b:/x'\ntargets=[]\n"), "copy it here first"),
        (format!("{pass}cmd='x'\n[[sync]]\nsource='y'\ntargets=[]\n"), "no such file:"),
        (
            format!("{pass}cmd='x'\n[[sync]]\nsource='x'\ntargets=['a:~b/rel']\n"),
            ":7:10: target \"a:~b/rel\": the folder of another user",
        ),
        (format!("{pass}cmd='x'\n[[sync]]\nsource='x'\ntargets=['b:/x']\n"), "no pass is on this host"),
    ] {
        let got = run(&text);
        assert!(got.starts_with("exp/run.toml:") && got.contains(said), "{text}\n{got}");
    }
    let template = |text: &str, options: &MitosisOptions| read_text(text, options).unwrap_err().to_string();
    let got = template(&TEMPLATE.replace("${port}", "${prot}"), &hosts());
    assert!(
        got.contains(":10:23: cmd: `${prot}` is not in [template.placeholder], did you mean `${port}`?"),
        "{got}"
    );
    let got = template(&TEMPLATE.replace("8888", "[1, 2]"), &hosts());
    assert!(got.contains("only one list can be swept"), "{got}");
    let got = template(TEMPLATE, &MitosisOptions::default());
    assert!(got.contains(":8:8: role \"server\": no hosts are assigned to it"), "{got}");
    let mut options = hosts();
    options.roles.insert("clint".into(), vec![]);
    assert!(template(TEMPLATE, &options).contains("did you mean `client`"));
}

#[test]
fn secrets_are_in_no_message_however_the_file_is_wrong() {
    for line in [
        "pwd = hunter2",
        "pwd = \"hunter2",
        "passphrase = 'hunter2' x",
        "pwd = \"a\"\npwd = \"hunter2\"",
        "password = 'hunter2'",
    ] {
        let text = format!("{line}\n[[pass]]\nhost='a'\npath=''\ncmd='x'\n");
        let e = read_text(&text, &MitosisOptions::default()).unwrap_err();
        assert!(!format!("{e} {e:?}").contains("hunter2"), "{e:?}");
    }
}

#[test]
fn the_rate_pattern_finds_what_the_modules_print() {
    let pattern = regex_lite::Regex::new(RATE_PATTERN).unwrap();
    let line = "[12.3] check global reporter states: 197, passed: 1000021 usec. thpt : 196.99";
    assert_eq!(&pattern.captures(line).unwrap()["thpt"], "196.99");
}

#[test]
fn ours_are_not_taken_for_theirs() {
    assert!(!is_mitosis("name = 'x'\n[[role]]\ncommand = ['[[pass]]']\n"));
    assert!(is_mitosis(" [[ pass ]] # x\n") && is_mitosis("[template]\n"));
}

proptest! {
    #[test]
    fn no_file_panics(lines in proptest::collection::vec(prop_oneof![
        Just("[[pass]]".to_owned()), Just("[template]".to_owned()), Just("[[template.pass]]".to_owned()),
        Just("[template.placeholder]".to_owned()), Just("[global]".to_owned()), Just("[[sync]]".to_owned()),
        Just("@incr = 0".to_owned()), Just("host = 'a'".to_owned()), Just("path = ''".to_owned()), Just("role = 'r'".to_owned()),
        "(cmd|host|source|threads|loop|order|targets) = ('[{}$a@]{0,8}'|\\[1, 2\\]|-?[0-9]{1,20}|\\['[a:/]{0,4}'\\])", ".{0,12}",
    ], 0..14)) {
        let text = lines.join("\n");
        let _ = parse(&text, "x.toml", Path::new(""), &MitosisOptions::default());
        let _ = parse(&text, "x.toml", Path::new(""), &hosts());
    }
}
