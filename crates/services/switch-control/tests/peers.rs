//! Beside the field's own programs, when they are on the PATH: p4lang's `simple_switch_CLI` against our server, and our
//! command line against a real `simple_switch`. The same lines must say the same.

mod rig;

use barewire_netns::{Namespace, is_root_capable};
use barewire_switch_control::cli::Session;
use barewire_testing::{Needs, have, program, shared};
use rig::{PROGRAM, Rig};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Lines whose answers do not depend on which program is asked.
const SCRIPT: &str = "\
(the first line is left out)
table_num_entries In.exact
table_add In.exact set_port 10.0.0.1 => 3
table_add exact In.tag 0x0a000002 => 7 00:aa:bb:00:00:01
table_add In.exact set_port 10.0.0.1 => 4
table_num_entries In.exact
table_dump_entry exact 0
table_dump_entry_from_key exact 10.0.0.2
table_modify exact set_port 1 5
table_dump In.exact
table_delete exact 0
table_delete exact 0
table_delete exact 9
table_add exact set_port 10.0.0.3 => 1
table_add exact set_port 10.0.0.4 => 1
table_dump exact
table_set_timeout exact 1 60000
table_set_timeout exact 77 60000
table_add route set_port 10.0.0.0/8 => 4
table_add route set_port 10.0.0.0/8 => 4
table_add route set_port 0.0.0.0/0 => 5
table_dump route
table_add acl set_port 00:00:00:00:00:01&&&0x0f 80 => 9 7
table_add acl set_port 00:00:00:00:00:01&&&0x0f 80 => 9 8
table_add acl set_port 00:00:00:00:00:01&&&0x0f 80 => 9 7
table_dump acl
table_add ranges set_port 80->443 => 2 1
table_dump ranges
table_dump fixed
table_add fixed set_port 9 => 1
table_set_default fixed NoAction
table_set_default fixed set_port 1
table_set_default exact set_port 3
table_dump exact
table_reset_default exact
table_dump exact
table_set_default nokey In.learn
table_dump nokey
table_dump ecmp
act_prof_create_group hops
act_prof_create_member hops set_port 1
act_prof_create_member hops set_port 2
act_prof_add_member_to_group hops 0 0
act_prof_add_member_to_group hops 0 0
act_prof_add_member_to_group hops 9 0
act_prof_add_member_to_group hops 0 9
table_indirect_add ecmp 1 => 0
table_indirect_add ecmp 1 => 1
table_indirect_add ecmp 3 => 9
table_indirect_add_with_group ecmp 2 => 0
table_dump ecmp
act_prof_delete_member hops 0
act_prof_delete_group hops 0
act_prof_remove_member_from_group hops 1 0
act_prof_modify_member hops set_port 1 7
act_prof_dump_member hops 1
act_prof_dump_group hops 0
table_indirect_set_default ecmp 1
table_dump ecmp
table_indirect_reset_default ecmp
table_indirect_delete ecmp 0
table_indirect_delete ecmp 0
table_clear ecmp
act_prof_dump hops
counter_read In.packets 0
counter_read In.packets 16
counter_write In.packets 1 3 200
counter_read In.packets 1
counter_read In.exact_counter 1
counter_reset In.packets
counter_read In.packets 1
meter_set_rates In.rates 0 1:1 2:1
meter_set_rates In.rates 16 1:1 2:1
meter_set_rates In.rates 0 2:1 1:1
meter_get_rates In.rates 0
meter_get_rates In.rates 16
meter_array_set_rates In.rates 0.5:10 0.75:20
meter_get_rates In.rates 3
register_read In.reg 0
register_read In.reg 16
register_write In.reg 0 17
register_write In.reg 16 1
register_read In.reg
register_reset In.reg
register_read In.reg
show_pvs
pvs_get In.ports
pvs_clear In.ports
mc_mgrp_create 1
mc_node_create 2 1 5 8 | 1 3
mc_node_associate 1 0
mc_node_create 4 5 8 | 1 2
mc_node_associate 1 1
mc_dump
mc_node_update 0 2
mc_node_dissociate 1 0
mc_node_dissociate 1 0
mc_node_destroy 0
mc_node_destroy 0
mc_mgrp_destroy 1
mc_mgrp_destroy 1
mirroring_get 3
mirroring_add 3 4
mirroring_get 3
mirroring_add_mc 3 9
mirroring_get 3
mirroring_delete 3
mirroring_delete 3
set_crc16_parameters calc16 0x1021 0xffff 0x0000 true false
set_crc32_parameters calc32 0x04c11db7 0xffffffff 0 true false
set_queue_depth 64
set_queue_rate 0 1
show_ports
swap_configs
table_num_entries exact
register_write In.reg 3 4
load_new_config_file OTHER
load_new_config_file OTHER
table_num_entries exact
table_num_entries route
table_num_entries paths
table_add paths set_port 10.0.0.0/8 => 4
table_add paths set_port 10.0.0.0/8 => 4
table_add exact set_port 10.0.0.9 => 1
table_set_default exact set_port 6
counter_write In.packets 2 5 500
counter_read In.packets 2
register_read In.reg 3
register_write In.reg 3 5
register_read In.reg 3
meter_set_rates In.rates 0 1:1 2:1
act_prof_create_member hops set_port 3
table_indirect_add ecmp 1 => 0
mirroring_add 4 4
swap_configs
swap_configs
table_dump paths
table_dump exact
table_dump ecmp
counter_read In.packets 2
register_read In.reg 3
meter_get_rates In.rates 0
mirroring_get 4
load_new_config_file OTHER
table_add paths set_port 11.0.0.0/8 => 4
reset_state
table_num_entries paths
swap_configs
table_dump paths
table_dump exact
";

/// The file of another program, which takes the place of OTHER in the script.
fn other_program() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers-other.json");
        std::fs::write(&file, PROGRAM.replace("In.route", "In.paths")).unwrap();
        file.display().to_string()
    })
}

fn lines() -> impl Iterator<Item = String> {
    SCRIPT.lines().skip(1).map(|line| line.replace("OTHER", other_program()))
}

/// An answer without what may differ: the reasons we give after a code, and spaces at lines' ends.
fn plain(answer: &str) -> String {
    let line = |line: &str| match line.split_once(')') {
        Some((code, _)) if line.starts_with("Invalid ") => format!("{code})"),
        _ if line.starts_with("Life: ") => "Life".to_owned(),
        _ => line.trim_end().to_owned(),
    };
    answer.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What differs between bmv2 and us on purpose: a multicast group that does not exist can be destroyed there.
fn excused(line: &str, again: bool) -> bool {
    line == "mc_mgrp_destroy 1" && again
}

struct Bmv2 {
    space: Namespace,
    child: Child,
    folder: std::path::PathBuf,
}

impl Bmv2 {
    /// A `simple_switch` in a namespace of its own; none when this machine has none.
    fn start(label: &str) -> Option<Bmv2> {
        let binary = have(Needs::Bmv2, program("simple_switch"))?;
        have(Needs::Root, is_root_capable())?;
        let folder = std::env::temp_dir().join(format!("barewire-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("control.json");
        std::fs::write(&program, PROGRAM).unwrap();
        let space = Namespace::anonymous().expect("root makes namespaces");
        space.set_up("lo").expect("root sets lo up");
        let mut command = Command::new(binary);
        command
            .args(["--thrift-port", "9090", "--notifications-addr"])
            .arg(format!("ipc://{}/notifications", folder.display()))
            .arg(&program)
            .args(["--", "--enable-swap"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = space.spawn_in(&mut command).expect("simple_switch starts");
        Some(Bmv2 { space, child, folder })
    }

    fn session(&self) -> Session {
        let connect = || Session::connect("127.0.0.1:9090", Duration::from_secs(10));
        for _ in 0..200 {
            if let Ok(session) = self.space.enter(connect).expect("the namespace is there") {
                return session;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("simple_switch does not answer within 10 s");
    }
}

impl Drop for Bmv2 {
    fn drop(&mut self) {
        // It may have died already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Feed lines to p4lang's command line and give its answers, one a line.
fn p4lang_answers(
    mut command: Command,
    spawn: impl FnOnce(&mut Command) -> std::io::Result<Child>,
) -> Vec<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut command).expect("simple_switch_CLI starts");
    let mut input = child.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || {
        for line in lines() {
            if writeln!(input, "{line}").is_err() {
                break;
            }
        }
    });
    let mut errors = child.stderr.take().expect("it is piped");
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = errors.read_to_string(&mut said);
        said
    });
    let mut said = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut said).expect("text");
    writer.join().expect("the writer ends");
    let errors = reader.join().expect("the reader ends");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "simple_switch_CLI: {status}\n{errors}\n{said}");
    // What stands before the first prompt is its greeting, after the last the end of its input.
    let mut answers: Vec<String> = said.split("RuntimeCmd: ").skip(1).map(plain).collect();
    answers.pop();
    answers
}

fn our_answers(mut session: Session) -> Vec<String> {
    lines().map(|line| plain(&session.run_line(&line).text)).collect()
}

fn compare(name: &str, expected: &[String], found: &[String]) {
    assert_eq!(expected.len(), lines().count(), "{name}: an answer for each line");
    assert_eq!(found.len(), expected.len(), "{name}: an answer for each line");
    let mut wrong = Vec::new();
    for (at, ((line, expected), found)) in lines().zip(expected).zip(found).enumerate() {
        let again = at > 0 && lines().nth(at - 1).is_some_and(|before| before == line);
        if expected != found && !excused(&line, again) {
            wrong.push(format!("{line}\n--- expected\n{expected}\n--- found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n\n"));
}

#[test]
fn p4langs_command_line_drives_our_server() {
    let Some(cli) = have(Needs::Bmv2, program("simple_switch_CLI")) else { return };
    let rig = Rig::start();
    let ours = {
        let mut command = Command::new(&cli);
        let port = rig.thrift.local_addr().port().to_string();
        command.args(["--thrift-ip", "127.0.0.1", "--thrift-port", &port]);
        p4lang_answers(command, Command::spawn)
    };
    assert_eq!(rig.thrift.stats().malformed.load(std::sync::atomic::Ordering::Relaxed), 0);
    rig.stop();
    // Two answers by themselves, for a machine with p4lang's command line alone.
    let answer = |line: &str| ours[lines().position(|known| known == line).expect("in the script")].clone();
    assert_eq!(
        answer("table_add In.exact set_port 10.0.0.1 => 3"),
        "Adding entry to exact match table In.exact\nmatch key:           EXACT-0a:00:00:01\n\
         action:              set_port\nruntime data:        00:03\nEntry has been added with handle 0"
    );
    assert_eq!(answer("counter_read In.packets 16"), "Invalid counter operation (INVALID_INDEX)");
    let Some(bmv2) = Bmv2::start("p4lang") else { return };
    // Waits until it answers.
    drop(bmv2.session());
    let mut command = Command::new(&cli);
    command.args(["--thrift-port", "9090"]);
    let theirs = p4lang_answers(command, |command| bmv2.space.spawn_in(command));
    compare("p4lang's command line, our server against bmv2's", &theirs, &ours);
}

#[test]
fn our_command_line_says_the_same_of_a_bmv2_and_of_ours() {
    let Some(bmv2) = Bmv2::start("ours") else { return };
    let theirs = our_answers(bmv2.session());
    // What only ours can do is refused without a word to a bmv2, which would end the connection.
    let mut session = bmv2.session();
    assert_eq!(
        session.run_line("show_drops").text,
        "Error: this switch cannot do it: it is not a barewire switch\n"
    );
    assert!(session.run_line("register_write In.wide 0 9223372036854775806").ok);
    assert_eq!(session.run_line("register_read In.wide 0").text, "In.wide[0]= 9223372036854775806\n");
    assert!(!session.run_line("register_write In.wide 0 9223372036854775808").ok);
    let rig = Rig::start();
    let ours = our_answers(Session::connect(rig.thrift.local_addr(), Duration::from_secs(10)).unwrap());
    rig.stop();
    compare("our command line, our server against bmv2's", &theirs, &ours);
}

/// The commands that bmv2's own throughput test loads, in the program of that test, compiled by the retired p4c-bm.
#[test]
fn the_tables_of_bmv2s_throughput_test() {
    let Some(folder) = shared("data/p4/legacy") else { return };
    let program = std::fs::read_to_string(folder.join("simple_router.json")).unwrap();
    let commands = std::fs::read_to_string(folder.join("simple_router.commands.txt")).unwrap();
    let rig = Rig::start();
    rig.switch().commit(&program).unwrap();
    let mut session = Session::connect(rig.thrift.local_addr(), Duration::from_secs(10)).unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let options = barewire_switch_control::cli::ScriptOptions::default();
    let report = barewire_switch_control::cli::run_script(
        &mut session,
        commands.as_bytes(),
        &mut out,
        &mut notes,
        options,
    );
    let report = report.unwrap();
    assert!(report.commands > 5 && report.failed == 0, "{report:?}\n{}", String::from_utf8_lossy(&out));
    rig.stop();
}

#[test]
fn both_command_lines_say_the_same_of_a_bmv2() {
    let Some(cli) = have(Needs::Bmv2, program("simple_switch_CLI")) else { return };
    let Some(first) = Bmv2::start("both-1") else { return };
    let ours = our_answers(first.session());
    drop(first);
    let Some(second) = Bmv2::start("both-2") else { return };
    drop(second.session());
    let mut command = Command::new(&cli);
    command.args(["--thrift-port", "9090"]);
    let theirs = p4lang_answers(command, |command| second.space.spawn_in(command));
    compare("a bmv2, our command line against p4lang's", &theirs, &ours);
}
