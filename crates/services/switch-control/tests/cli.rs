//! The command line, over loopback against a running switch of ours: what each command says, and what it does.

mod rig;

use barewire_switch_control::cli::commands::COMMANDS;
use barewire_switch_control::cli::complete::complete;
use barewire_switch_control::cli::{ScriptOptions, Session, run_script};
use rig::{PROGRAM, Rig};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

struct Talk {
    session: Session,
    used: BTreeSet<String>,
}

impl Talk {
    fn with(rig: &Rig) -> Talk {
        let session =
            Session::connect(rig.thrift.local_addr(), Duration::from_secs(10)).expect("the server listens");
        Talk { session, used: BTreeSet::new() }
    }

    fn run(&mut self, line: &str) -> barewire_switch_control::cli::Outcome {
        self.used.insert(line.split_whitespace().next().unwrap_or_default().to_owned());
        self.session.run_line(line)
    }

    /// What a line that must be done says.
    fn says(&mut self, line: &str) -> String {
        let outcome = self.run(line);
        assert!(outcome.ok, "{line}: {}", outcome.text);
        outcome.text
    }

    /// What a line that must not be done says.
    fn fails(&mut self, line: &str) -> String {
        let outcome = self.run(line);
        assert!(!outcome.ok, "{line}: {}", outcome.text);
        outcome.text
    }

    fn json(&mut self, line: &str) -> serde_json::Value {
        let outcome = self.run(line);
        assert!(outcome.ok, "{line}: {}", outcome.text);
        outcome.json["result"].clone()
    }
}

fn tables(t: &mut Talk) {
    assert!(t.says("show_tables").starts_with(
        "In.acl                         [implementation=None, mk=h.mac(ternary, 48),\th.b(exact, 16)]\n\
         In.ecmp                        [implementation=In.hops, mk=h.b(exact, 16)]\n"
    ));
    assert!(t.says("show_actions").contains("In.tag                         [value(32),\tmac(48)]\n"));
    assert_eq!(
        t.says("table_show_actions acl"),
        "NoAction                       []\nset_port                       [port(9)]\n"
    );
    assert!(t.says("table_info In.route").contains("mk=h.a(lpm, 32)"));
    assert_eq!(
        t.says("table_add In.exact set_port 10.0.0.1 => 3"),
        "Adding entry to exact match table In.exact\n\
         match key:           EXACT-0a:00:00:01\n\
         action:              set_port\n\
         runtime data:        00:03\n\
         Entry has been added with handle 0\n"
    );
    assert!(t.says("table_add exact In.tag 0xa000002 => 7 00:aa:bb:00:00:01").ends_with("with handle 1\n"));
    assert!(
        t.says("table_add exact tag 4 => 7 00:aa:bb:00:00:01").ends_with("with handle 2\n"),
        "ends of names"
    );
    let twice = t.fails("table_add In.exact set_port 10.0.0.1 => 3");
    assert!(twice.starts_with("Adding entry to exact match table In.exact\n"), "{twice}");
    assert!(twice.contains("\nInvalid table operation (DUPLICATE_ENTRY): "), "{twice}");
    assert_eq!(t.says("table_num_entries exact"), "3\n");
    assert_eq!(t.says("table_modify exact set_port 1 5"), "Modifying entry 1 for exact match table exact\n");
    assert_eq!(t.says("table_delete exact 2"), "Deleting entry 2 from exact\n");
    assert_eq!(t.says("table_set_timeout exact 0 60000"), "Setting a 60000 ms timeout for entry 0\n");
    let entry = t.says("table_dump_entry exact 0");
    assert!(
        entry.starts_with(
            "Dumping entry 0x0\nMatch key:\n* h.a                 : EXACT     0a000001\n\
             Action entry: set_port - 03\nLife: "
        ),
        "{entry}"
    );
    t.says("table_add route set_port 10.0.0.1/12 => 4");
    t.says("table_add In.acl set_port 00:00:00:00:00:01&&&0x0f 80 => 9 7");
    t.says("table_add In.acl NoAction 0x02 &&& 0x0f 81 => 8");
    t.says("table_add ranges set_port 80 -> 443 => 2 1");
    t.says("table_add valid In.count_it 1 2001:db8::1 =>");
    assert_eq!(
        t.says("table_dump_entry_from_key acl 1&&&15 80 7"),
        "Dumping entry 0x0\nMatch key:\n\
         * h.mac               : TERNARY   000000000001 &&& 00000000000f\n\
         * h.b                 : EXACT     0050\n\
         Priority: 7\nAction entry: set_port - 09\n"
    );
    assert_eq!(
        t.says("table_dump route"),
        "==========\nTABLE ENTRIES\n**********\nDumping entry 0x0\nMatch key:\n\
         * h.a                 : LPM       0a000000/12\nAction entry: set_port - 04\n\
         ==========\nDumping default entry\nAction entry: NoAction - \n==========\n"
    );
    assert_eq!(
        t.json("table_dump ranges"),
        json!({
            "table": "In.ranges",
            "entries": [{
                "handle": 0,
                "key": [{"field": "h.b", "kind": "range", "low": "0x0050", "high": "0x01bb"}],
                "priority": 1,
                "action": {"action": "set_port", "args": ["0x02"]},
            }],
            "default": {"action": "NoAction", "args": []},
        })
    );
    assert_eq!(
        t.says("table_set_default exact set_port 3"),
        "Setting default action of exact\naction:              set_port\nruntime data:        00:03\n"
    );
    t.says("table_reset_default exact");
    t.says("table_clear exact");
    assert_eq!(t.says("table_num_entries exact"), "0\n");
}

fn wrong_words(t: &mut Talk) {
    for (line, expected) in [
        ("table_ad exact", "Error: unknown command 'table_ad', did you mean 'table_add'?\n"),
        ("table_add exakt set_port 1 => 1", "Error: Invalid table name (exakt), did you mean 'In.exact'?\n"),
        (
            "table_add exact set_prt 1 => 1",
            "Error: Invalid action of table In.exact name (set_prt), did you mean 'set_port'?\n",
        ),
        (
            "table_add exact set_port 1 2 => 1",
            "Error: table In.exact needs 1 key fields, 2 were given: h.a(exact, 32)\n",
        ),
        (
            "table_add exact set_port 1 =>",
            "Error: action set_port needs 1 arguments, 0 were given: port(9)\n",
        ),
        ("table_add exact set_port 1 => 512", "Error: argument port: '512': it does not fit in 9 bits\n"),
        ("table_add exact set_port 10.0.0.256 => 1", "Error: key field h.a: '10.0.0.256': no IPv4 address\n"),
        (
            "table_add route set_port 10.0.0.1 => 1",
            "Error: key field h.a: '10.0.0.1': a longest prefix match is written A/B\n",
        ),
        ("table_num_entries", "Error: wrong number of words; usage: table_num_entries TABLE\n"),
        ("table_delete exact x", "Error: entry handle: 'x' is not an integer\n"),
        ("table_set_timeout route 0 5", "Error: Table In.route does not support entry timeouts\n"),
        ("mc_node_create 1 70000", "Error: '70000' is not a port number\n"),
        ("meter_set_rates In.rates 0 1:1", "Error: the meter has 2 rates, 1 were given\n"),
        ("register_read In.reg x", "Error: index: 'x' is not an integer\n"),
        ("help table_ad", "Error: unknown command 'table_ad', did you mean 'table_add'?\n"),
    ] {
        assert_eq!(t.fails(line), expected, "{line}");
    }
    let missing = t.fails("table_add In.acl set_port 1&&&2 80 => 9 x");
    assert!(missing.contains("need a priority"), "{missing}");
    let expired = t.fails("table_delete exact 5");
    assert!(expired.contains("\nInvalid table operation (INVALID_HANDLE)"), "{expired}");
}

fn profiles(t: &mut Talk) {
    assert_eq!(t.says("act_prof_create_group In.hops"), "Group has been created with handle 0\n");
    assert_eq!(t.says("act_prof_create_member hops set_port 1"), "Member has been created with handle 0\n");
    t.says("act_prof_create_member hops set_port 2");
    assert_eq!(
        t.says("table_indirect_add ecmp 1 => 0"),
        "Adding entry to indirect match table In.ecmp\nEntry has been added with handle 0\n"
    );
    t.says("act_prof_add_member_to_group hops 0 0");
    t.says("table_indirect_add_with_group ecmp 2 => 0");
    assert_eq!(
        t.says("table_dump ecmp"),
        "==========\nTABLE ENTRIES\n**********\nDumping entry 0x0\nMatch key:\n\
         * h.b                 : EXACT     0001\nIndex: member(0)\n**********\nDumping entry 0x1\nMatch key:\n\
         * h.b                 : EXACT     0002\nIndex: group(0)\n==========\nMEMBERS\n**********\n\
         Dumping member 0\nAction entry: set_port - 01\n**********\nDumping member 1\nAction entry: set_port - 02\n\
         ==========\nGROUPS\n**********\nDumping group 0\nMembers: [0]\n==========\nDumping default entry\nEMPTY\n\
         ==========\n"
    );
    t.says("act_prof_modify_member hops set_port 1 7");
    assert_eq!(t.says("act_prof_dump_member hops 1"), "Dumping member 1\nAction entry: set_port - 07\n");
    assert_eq!(t.says("table_dump_member ecmp 1"), "Dumping member 1\nAction entry: set_port - 07\n");
    assert_eq!(t.says("act_prof_dump_group hops 0"), "Dumping group 0\nMembers: [0]\n");
    assert_eq!(t.says("table_dump_group ecmp 0"), "Dumping group 0\nMembers: [0]\n");
    assert!(t.says("act_prof_dump hops").contains("GROUPS"));
    t.says("table_indirect_set_default ecmp 1");
    t.says("table_indirect_set_default_with_group ecmp 0");
    t.says("table_indirect_reset_default ecmp");
    t.says("table_indirect_delete ecmp 0");
    t.says("table_indirect_delete ecmp 1");
    t.says("act_prof_remove_member_from_group hops 0 0");
    t.says("act_prof_delete_member hops 1");
    t.says("act_prof_delete_group hops 0");
    // The older forms name the table, and say so.
    let outcome = t.run("table_indirect_create_member ecmp set_port 3");
    assert_eq!(outcome.text, "Member has been created with handle 1\n");
    assert_eq!(
        outcome.note.as_deref(),
        Some("This is a deprecated command, use 'act_prof_create_member' instead")
    );
    t.says("table_indirect_create_group ecmp");
    t.says("table_indirect_add_member_to_group ecmp 1 0");
    t.says("table_indirect_remove_member_from_group ecmp 1 0");
    t.says("table_indirect_modify_member ecmp set_port 1 => 4");
    t.says("table_indirect_delete_group ecmp 0");
    t.says("table_indirect_delete_member ecmp 1");
    assert!(t.fails("table_indirect_add exact 1 => 0").contains("is not an indirect table"));
    assert!(t.fails("table_indirect_add ecmp 1 =>").contains("one member handle must follow"));
}

fn arrays(t: &mut Talk) {
    assert_eq!(t.says("counter_read In.packets 0"), "In.packets[0]= (0 bytes, 0 packets)\n");
    assert_eq!(t.says("counter_write In.packets 0 2 128"), "In.packets[0] has been updated\n");
    assert_eq!(t.json("counter_read packets 0"), json!({"index": 0, "packets": 2, "bytes": 128}));
    assert!(t.fails("counter_read packets 16").starts_with("Invalid counter operation (INVALID_INDEX)"));
    t.says("counter_reset packets");
    t.says("table_add exact set_port 1 => 1");
    let direct = "this is the direct counter for table In.exact\nIn.exact_counter[0]= (0 bytes, 0 packets)\n";
    assert_eq!(t.says("counter_read In.exact_counter 0"), direct);
    t.says("meter_array_set_rates rates 1:1 2:1");
    t.says("meter_set_rates In.rates 0 0.5:10 2:20");
    assert_eq!(
        t.says("meter_get_rates In.rates 0"),
        "0: info rate = 0.5, burst size = 10\n1: info rate = 2.0, burst size = 20\n"
    );
    let falling = t.fails("meter_set_rates In.rates 0 2:1 1:1");
    assert!(falling.starts_with("Invalid meter operation (INVALID_INFO_RATE_VALUE)"), "{falling}");
    t.says("meter_set_rates In.route_meter 0 1:1 2:1");
    t.says("register_write In.reg 1 -1");
    assert_eq!(t.says("register_read reg 1"), "reg[1]= 4294967295\n");
    let all = t.run("register_read In.reg");
    assert_eq!(all.text, "In.reg= 0, 4294967295, 0, 0\n");
    assert_eq!(all.note.as_deref(), Some("register index omitted, reading entire array"));
    assert!(t.fails("register_read reg 16").starts_with("Invalid register operation (INVALID_INDEX)"));
    t.says("register_write In.wide 1 0x0102030405060708090a0b0c0d0e0f10");
    assert_eq!(
        t.says("register_read wide 1"),
        format!("wide[1]= {}\n", 0x0102030405060708090a0b0c0d0e0f10u128)
    );
    t.says("register_reset reg");
    assert_eq!(t.says("show_pvs"), "In.ports                       [compressed bitwidth:16]\n");
    t.says("pvs_add In.ports 443");
    assert_eq!(t.says("pvs_get ports"), "01bb\n");
    t.says("pvs_remove ports 0x1bb");
    t.says("pvs_clear ports");
    assert!(t.fails("pvs_add ports 65536").contains("does not fit in 16 bits"));
}

fn multicast_and_target(t: &mut Talk) {
    assert_eq!(t.says("mc_mgrp_create 1"), "Creating multicast group 1\n");
    assert_eq!(
        t.says("mc_node_create 2 1 5 8 | 1 3"),
        "Creating node with rid 2 , port map 100100010 and lag map 1010\nnode was created with handle 0\n"
    );
    assert_eq!(t.says("mc_node_associate 1 0"), "Associating node 0 to multicast group 1\n");
    assert_eq!(t.says("mc_set_lag_membership 1 6 9 12"), "Setting lag membership: 1 <- 1001001000000\n");
    assert_eq!(
        t.says("mc_dump"),
        "==========\nMC ENTRIES\n**********\nmgrp(1)\n  -> (L1h=0, rid=2) -> (ports=[1, 5, 8], lags=[1, 3])\n\
         ==========\nLAGS\nlag(1) -> ports=[6, 9, 12]\n==========\n"
    );
    t.says("mc_node_update 0 2 3");
    t.says("mc_node_dissociate 1 0");
    t.says("mc_node_destroy 0");
    t.says("mc_mgrp_destroy 1");
    assert!(t.fails("mc_mgrp_destroy 1").contains("\nInvalid PRE operation (INVALID_MGRP_HANDLE)"));
    t.says("mirroring_add 3 4");
    assert_eq!(t.says("mirroring_get 3"), "MirroringSessionConfig(port=4, mgid=None)\n");
    t.says("mirroring_add_mc 3 9");
    assert_eq!(t.json("mirroring_get 3"), json!({"port": null, "group": 9}));
    t.says("mirroring_delete 3");
    assert!(t.fails("mirroring_get 3").starts_with("Invalid mirroring operation (SESSION_NOT_FOUND)"));
    for line in ["set_queue_depth 64", "set_queue_depth 64 1", "set_queue_depth 64 1 0"] {
        assert_eq!(t.says(line), "");
    }
    for line in ["set_queue_rate 1000", "set_queue_rate 1000 1", "set_queue_rate 1000 1 0"] {
        assert_eq!(t.says(line), "");
    }
    assert!(t.says("get_time_elapsed").trim().parse::<u64>().unwrap() > 0);
    assert!(t.says("get_time_since_epoch").trim().parse::<u64>().unwrap() > 1_577_836_800_000_000);
}

fn device(t: &mut Talk, folder: &std::path::Path) {
    let file = |name: &str| folder.join(name).display().to_string();
    t.says("port_add mem:cli-test 4");
    assert!(t.says("show_ports").contains("\n    4     "));
    t.says("port_remove 4");
    assert!(t.fails("port_remove 4").starts_with("Invalid device manager operation (ERROR)"));
    assert!(t.says("switch_info").contains("device_id                : 7\n"));
    assert!(t.json("show_drops").is_object());
    t.says(&format!("serialize_state {}", file("state")));
    t.says("reset_state");
    assert_eq!(t.says("table_num_entries exact"), "0\n");
    t.says(&format!("restore_state {}", file("state")));
    assert_eq!(t.says("table_num_entries exact"), "1\n");
    t.says(&format!("write_config_to_file {}", file("config")));
    assert_eq!(std::fs::read_to_string(folder.join("config")).unwrap(), PROGRAM);
    t.says("set_crc16_parameters calc16 0x1021 0xffff 0x0000 true false");
    t.says("set_crc32_parameters calc32 0x04c11db7 0xffffffff 0 1 0");
    t.says("set_toeplitz_hash_key calct 00112233445566778899aabbccddeeff");
    assert!(t.fails("set_crc16_parameters calcx 1 1 1 1 1").contains("Invalid crc16_custom name (calcx)"));
    assert!(t.fails("set_crc16_parameters calc16 0x10000 1 1 1 1").contains("16 bits"));
    assert!(t.fails("set_toeplitz_hash_key calct 001122").contains("multiple of 4"));
    std::fs::write(folder.join("other"), PROGRAM.replace("In.route", "In.paths")).unwrap();
    assert!(t.fails("load_new_config_file /nonexistent.json").contains("/nonexistent.json"));
    t.says(&format!("load_new_config_file {}", file("other")));
    assert_eq!(t.says("table_num_entries paths"), "0\n", "the names follow the program");
    assert_eq!(t.says("table_num_entries exact"), "0\n", "the running one's entries are not this one's");
    t.says("table_add paths set_port 10.0.0.0/8 => 4");
    t.says(&format!("write_config_to_file {}", file("config")));
    assert!(std::fs::read_to_string(folder.join("config")).unwrap().contains("In.paths"));
    assert!(t.fails(&format!("load_new_config_file {}", file("other"))).contains("(ONGOING_SWAP)"));
    t.says("swap_configs");
    assert_eq!(t.says("table_num_entries paths"), "1\n", "what was written before it ran is there");
    assert_eq!(t.says("greet"), "hello\n");
    assert_eq!(t.says("shell echo a   b"), "a b\n\n");
    assert_eq!(t.says("!echo 'a   b'"), "a   b\n\n");
    assert!(t.says("help").contains("table_add"));
    assert!(t.says("help table_add").starts_with("table_add TABLE ACTION KEY… => ARGUMENTS… [PRIORITY]\n"));
    assert!(t.run("quit").quit && t.run("EOF").quit);
    assert_eq!(t.run("# a comment").json, serde_json::Value::Null);
}

#[test]
fn every_command() {
    let rig = Rig::start();
    let mut talk = Talk::with(&rig);
    let folder = std::env::temp_dir().join(format!("barewire-cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    tables(&mut talk);
    wrong_words(&mut talk);
    profiles(&mut talk);
    arrays(&mut talk);
    multicast_and_target(&mut talk);
    device(&mut talk, &folder);
    std::fs::remove_dir_all(&folder).unwrap();
    let unused: Vec<&str> =
        COMMANDS.iter().map(|command| command.name).filter(|name| !talk.used.contains(*name)).collect();
    assert!(unused.is_empty(), "not run: {unused:?}");
    rig.stop();
}

/// Lines of right and wrong words in any order: each is answered, and the switch goes on.
#[test]
fn any_line_is_answered() {
    let rig = Rig::start();
    let mut session = Session::local(rig.switch().clone()).unwrap();
    let seed = 0xc11;
    eprintln!("seed {seed:#x}");
    let mut prng = barewire_base::Prng::new(seed);
    let fixed = [
        "In.exact",
        "route",
        "acl",
        "ranges",
        "valid",
        "ecmp",
        "nokey",
        "fixed",
        "hops",
        "set_port",
        "In.tag",
        "0",
        "1",
        "-1",
        "4294967296",
        "10.0.0.1",
        "10.0.0.0/8",
        "1&&&2",
        "&&&",
        "->",
        "3->9",
        "=>",
        "|",
        "1:1",
        "2:2",
        "x",
        "é",
        "0x",
        "nan:1",
        "99999999999999999999999999999999999999999",
        "true",
        "In.reg",
        "In.wide",
        "packets",
        "rates",
        "00:00:00:00:00:01",
        "::1",
        "calc16",
        "",
    ];
    // Those that leave the process: files, ports, a shell.
    let outside = [
        "shell",
        "load_new_config_file",
        "write_config_to_file",
        "serialize_state",
        "restore_state",
        "port_add",
    ];
    let commands: Vec<&str> =
        COMMANDS.iter().map(|command| command.name).filter(|name| !outside.contains(name)).collect();
    let (mut done, mut failed) = (0, 0);
    for _ in 0..20_000 {
        let mut line = commands[prng.below(commands.len() as u64) as usize].to_owned();
        for _ in 0..prng.below(7) {
            line.push(' ');
            line.push_str(fixed[prng.below(fixed.len() as u64) as usize]);
        }
        let outcome = session.run_line(&line);
        if outcome.ok {
            done += 1
        } else {
            failed += 1
        }
        assert!(outcome.ok || !outcome.text.is_empty(), "{line}: refused without a word");
        let _ = complete(session.loaded().map(|program| &**program), &line, line.len());
    }
    assert!(done > 500 && failed > 500, "both were met: {done} done, {failed} refused");
    assert_eq!(session.run_line("table_num_entries fixed").text, "1\n");
    rig.stop();
}

#[test]
fn scripts_in_words_and_in_json() {
    let rig = Rig::start();
    let mut session = Session::local(rig.switch().clone()).unwrap();
    let script = "# routes\ntable_add route set_port 10.0.0.0/8 => 1\n\ntable_num_entries route\nnonsense\ntable_num_entries route\n";
    let mut run = |options: ScriptOptions| {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let report = run_script(&mut session, script.as_bytes(), &mut out, &mut notes, options).unwrap();
        (report, String::from_utf8(out).unwrap())
    };
    let (report, out) = run(ScriptOptions::default());
    assert_eq!((report.commands, report.failed, report.first_failure), (4, 1, Some(5)));
    assert!(
        out.contains("Entry has been added with handle 0\n1\nError: unknown command 'nonsense'"),
        "{out}"
    );
    let (report, out) = run(ScriptOptions { json: true, stop_at_failure: true, ..ScriptOptions::default() });
    assert_eq!(
        (report.commands, report.failed, report.first_failure),
        (1, 1, Some(2)),
        "the route is there already"
    );
    let line: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&line["command"], &line["ok"]), (&json!("table_add"), &json!(false)));
    let (_, out) = run(ScriptOptions { prompt: true, ..ScriptOptions::default() });
    assert_eq!(out.matches("RuntimeCmd: ").count(), 7, "one a line, one at the end");
    rig.stop();
}

#[test]
fn completion_follows_the_program() {
    let rig = Rig::start();
    let session = Session::local(rig.switch().clone()).unwrap();
    let program = session.loaded().cloned();
    let at_end = |line: &str| complete(program.as_deref(), line, line.len());
    assert_eq!(
        at_end("table_dump_e"),
        (0, vec!["table_dump_entry".into(), "table_dump_entry_from_key".into()])
    );
    assert_eq!(at_end("table_add In.e"), (10, vec!["In.ecmp".into(), "In.exact".into()]));
    assert_eq!(at_end("table_add ex"), (10, vec!["In.exact".into()]), "the last part is enough");
    assert_eq!(at_end("table_add exact In"), (16, vec!["In.tag".into()]));
    assert_eq!(at_end("table_indirect_add "), (19, vec!["In.ecmp".into()]));
    assert_eq!(at_end("act_prof_create_member hops s"), (28, vec!["set_port".into()]));
    assert_eq!(at_end("register_read "), (14, vec!["In.reg".into(), "In.wide".into()]));
    assert_eq!(at_end("set_crc16_parameters "), (21, vec!["calc16".into()]));
    assert_eq!(at_end("help mirroring_d").1, ["mirroring_delete"]);
    assert!(at_end("table_add exact set_port 1").1.is_empty());
    assert_eq!(complete(program.as_deref(), "table_add In.ex rest", 15).1, ["In.exact"]);
    // A cursor inside a character, or beyond the end, is no panic.
    assert!(complete(program.as_deref(), "é", 1).1.is_empty() && complete(None, "x", 9).1.is_empty());
    rig.stop();
}
