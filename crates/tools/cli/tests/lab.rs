//! `barewire lab`: files drawn and simulated by anybody, made by root.

mod common;

use common::run;

fn sample(name: &str) -> String {
    format!("{}/../../../labs/topologies/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn files_are_drawn_exported_and_simulated() {
    let two = sample("two-hosts.toml");
    let drawn = run(&["lab", "graph", &two, "--style", "dot"]);
    assert_eq!(drawn.code, Some(0), "{}", drawn.err);
    assert!(drawn.out.contains("10.0.0.1") && drawn.out.contains("h2"), "{}", drawn.out);
    let simulated = run(&["lab", "simulate", &two, "--seconds", "0.5"]);
    assert_eq!(simulated.code, Some(0), "{}", simulated.err);
    assert!(simulated.out.starts_with("simulated: lab two-hosts, seed 7, 2 hosts"), "{}", simulated.out);
    let again = run(&["lab", "simulate", &two, "--seconds", "0.5"]);
    assert_eq!(simulated.out, again.out, "the same file gives the same world");
    let folder = std::env::temp_dir().join(format!("barewire-lab-cli-{}", std::process::id()));
    let out = folder.display().to_string();
    for to in ["containerlab", "mininet"] {
        let exported = run(&["lab", "export", &two, "--to", to, "--out", &out]);
        assert_eq!(exported.code, Some(0), "{}", exported.err);
    }
    assert!(std::fs::read_dir(&folder).unwrap().count() >= 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn slips_are_answered() {
    let two = sample("two-hosts.toml");
    for (args, code, near) in [
        (&["lab", "graph", &two, "--style", "dto"][..], 2, "dot"),
        (&["lab", "simulate", &two, "--pattern", "pair"], 2, "pairs"),
        (&["lab", "up", "/no/such.toml"], 2, "/no/such.toml"),
        (&["lab", "down", "no-such-lab-here"], 2, "no lab `no-such-lab-here`"),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(near), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_lab_goes_up_runs_programs_and_goes_down() {
    if let Err(why) = barewire_lab::is_root_capable() {
        eprintln!("SKIPPED: a_lab_goes_up_runs_programs_and_goes_down: {why}; {}", why.hint());
        return;
    }
    // A name of its own: another test run may be on this machine.
    let name = format!("cli-{}", std::process::id());
    let text = std::fs::read_to_string(sample("two-hosts.toml")).unwrap();
    let file = std::env::temp_dir().join(format!("barewire-{name}.toml"));
    std::fs::write(&file, text.replace("two-hosts", &name)).unwrap();
    let path = file.display().to_string();
    let up = run(&["lab", "up", &path]);
    assert_eq!(up.code, Some(0), "{}", up.err);
    let twice = run(&["lab", "up", &path]);
    assert_eq!(twice.code, Some(1), "{}", twice.err);
    assert!(twice.err.contains("is there already") && twice.err.contains("hint:"), "{}", twice.err);
    let code = run(&["lab", "exec", "--lab", &name, "h1", "--", "sh", "-c", "exit 7"]);
    assert_eq!(code.code, Some(7), "{}", code.err);
    let wrong = run(&["lab", "exec", "--lab", &name, "h3", "--", "true"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    let status = run(&["lab", "status", &name, "--json"]);
    assert_eq!(status.code, Some(0), "{}", status.err);
    let document: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(document["whole"], true, "{document}");
    assert!(document["link_counters"]["wan"].is_object(), "{document}");
    let down = run(&["lab", "down", &name]);
    assert_eq!(down.code, Some(0), "{}", down.err);
    let gone = run(&["lab", "down", &name]);
    assert_eq!(gone.code, Some(2), "{}", gone.err);
    std::fs::remove_file(&file).unwrap();
}
