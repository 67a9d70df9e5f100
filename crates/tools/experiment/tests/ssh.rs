//! The ssh launcher against real sshds, one in each host of a network of namespaces. Needs root and Debian's `openssh-server`;
//! without either the tests say so and prove nothing.

mod hosts;

use barewire_experiment::launcher::{
    AgentBinary, HostSpec, LaunchError, Launcher, Needs, SshLauncher, SshOptions,
};
use barewire_measure::stamp;
use barewire_report::run::HardwareClass;
use hosts::{Hosts, Told, agent_binary, can_run, comes_true, output, play_agent};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

#[test]
#[ignore = "the process that launchers of other tests start"]
fn agent() {
    play_agent();
}

const SSHD: &str = "/usr/sbin/sshd";
const PROGRAMS: [&str; 3] = [SSHD, "ssh", "ssh-keygen"];

/// Hosts with an sshd each, and an `ssh_config` that knows them.
struct Sshds {
    hosts: Hosts,
    pids: Vec<u32>,
}

impl Sshds {
    fn new(count: u32) -> Sshds {
        let hosts = Hosts::new(count);
        // sshd's own, for its unprivileged half; packages make it at boot.
        let _ = fs::DirBuilder::new().mode(0o755).create("/run/sshd");
        let file = |name: &str| hosts.folder.join(name).display().to_string();
        let keygen = |name: &str| {
            drop(output(Command::new("ssh-keygen").args([
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-f",
                &file(name),
            ])))
        };
        keygen("user");
        let mut config = String::new();
        let mut known = String::new();
        let mut pids = Vec::new();
        for n in 1..=count {
            keygen(&format!("host{n}"));
            let key = fs::read_to_string(file(&format!("host{n}.pub"))).unwrap();
            known.push_str(&format!("[10.91.0.{n}]:{} {key}", 2200 + n));
            config.push_str(&format!("Host h{n}\n  HostName 10.91.0.{n}\n  Port {}\n", 2200 + n));
            let daemon = format!(
                "Port {}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
                 PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 SetEnv XDG_CACHE_HOME={}\n",
                2200 + n,
                file(&format!("host{n}")),
                file("user.pub"),
                file(&format!("cache{n}")),
            );
            fs::write(file(&format!("sshd{n}.conf")), daemon).unwrap();
            let mut command = Command::new(SSHD);
            command.args(["-D", "-e", "-f", &file(&format!("sshd{n}.conf"))]);
            pids.push(hosts.spawn(Some(&format!("h{n}")), &mut command, &format!("sshd{n}.log")));
        }
        config.push_str(&format!(
            "Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
            file("user"),
            file("known")
        ));
        fs::write(file("known"), known).unwrap();
        fs::write(file("config"), config).unwrap();
        (1..=count).for_each(|n| hosts.wait_for_port(&format!("10.91.0.{n}:{}", 2200 + n)));
        Sshds { hosts, pids }
    }

    fn options(&self) -> SshOptions {
        // An sshd that is there answers, though a busy machine takes its time.
        let config = Some(self.hosts.folder.join("config"));
        SshOptions { config, connect_timeout_s: 60, ..SshOptions::default() }
    }

    fn launcher(&self) -> SshLauncher {
        SshLauncher::new(agent_binary(&self.hosts.folder), self.options())
    }

    /// The files that a host has in its cache.
    fn cached(&self, host: u32) -> Vec<PathBuf> {
        let folder = self.hosts.folder.join(format!("cache{host}/barewire"));
        fs::read_dir(folder)
            .map_or_else(|_| Vec::new(), |all| all.flatten().map(|entry| entry.path()).collect())
    }

    /// What obtaining one host by this destination ends with.
    fn refused(&self, launcher: &mut SshLauncher, reach: &str) -> (String, String) {
        let host = HostSpec { name: "x".into(), reach: reach.into(), ..HostSpec::default() };
        let needs =
            Needs { name: "x".into(), hosts: vec![host], roles: vec![], topology: None, longest_s: None };
        let done = self.hosts.inside(|| launcher.obtain(&needs, &|| false));
        match done {
            Err(LaunchError::Unfit { what, why, hint: Some(hint) }) => {
                assert!(what.starts_with("host x"), "{what}");
                (why, hint)
            }
            other => panic!("{reach}: {other:?}\n{}", self.hosts.logs()),
        }
    }
}

fn experiment(clients: &str, hosts: u32) -> String {
    let mut text = format!(
        "name = \"over-ssh\"\n[method]\nruns = 2\nseconds = 0.1\nwarmup_s = 0\ntimeout_s = 300\n\
         [[role]]\nname = \"server\"\nhosts = [\"h1\"]\nready = \"up\"\n\
         command = [\"sh\", \"-c\", \"echo up; exec sleep 100\"]\n{clients}"
    );
    (1..=hosts).for_each(|n| text.push_str(&format!("[[host]]\nname = \"h{n}\"\n")));
    text
}

const CLIENT: &str = "[[role]]\nname = \"client\"\nhosts = \"rest\"\ncollect = \"json\"\n\
     command = [\"sh\", \"-c\", \"echo '{{\\\"connections_per_s\\\": 5, \\\"peer\\\": \\\"{server.address}\\\"}}'\"]\n\
     [merge]\nsum = [\"connections_per_s\"]\n";

#[test]
fn an_experiment_over_two_sshds_sends_the_binary_once_and_leaves_nothing() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let sshds = Sshds::new(2);
    let plan = sshds.hosts.plan(&experiment(CLIENT, 2));
    let mut inodes = Vec::new();
    for _ in 0..2 {
        let mut launcher = sshds.launcher();
        let mut told = Told::default();
        let outcome = sshds.hosts.run(&plan, &mut launcher, &mut told);
        let outcome = outcome.unwrap_or_else(|e| panic!("{e:?}\n{}", sshds.hosts.logs()));
        assert!(
            outcome.failures.is_empty() && outcome.lost.is_none() && outcome.left_behind.is_none(),
            "{outcome:?}"
        );
        assert_eq!(outcome.rows, 1, "{outcome:?}");
        // The address that the host itself is reached under, though the file names none.
        assert!(sshds.hosts.rows(&outcome).contains("10.91.0.1"), "{:?}", told.lines);
        assert_eq!(launcher.hardware(), HardwareClass::OneMachine);
        sshds.hosts.nothing_runs();
        let files: Vec<PathBuf> = [1, 2].into_iter().flat_map(|host| sshds.cached(host)).collect();
        assert_eq!(files.len(), 2, "{files:?}");
        inodes.push(files.iter().map(|file| fs::metadata(file).unwrap().ino()).collect::<Vec<_>>());
    }
    assert_eq!(inodes[0], inodes[1], "the second time it was there");
}

#[test]
fn eight_hosts_give_one_table() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let sshds = Sshds::new(8);
    let plan = sshds.hosts.plan(&experiment(CLIENT, 8));
    let outcome = sshds.hosts.run(&plan, &mut sshds.launcher(), &mut Told::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{e:?}\n{}", sshds.hosts.logs()));
    assert!(outcome.failures.is_empty() && outcome.lost.is_none(), "{outcome:?}");
    assert_eq!(outcome.rows, 1);
    // Seven clients, added.
    let rows = sshds.hosts.rows(&outcome);
    assert!(rows.replace(' ', "").contains("\"connections_per_s\":35"), "{rows}");
    sshds.hosts.nothing_runs();
}

#[test]
fn a_shared_connection_is_shared_and_closed() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let sshds = Sshds::new(2);
    let options = SshOptions { share: true, ..sshds.options() };
    let mut launcher = SshLauncher::new(agent_binary(&sshds.hosts.folder), options);
    let plan = sshds.hosts.plan(&experiment(CLIENT, 2));
    let outcome = sshds.hosts.run(&plan, &mut launcher, &mut Told::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{e:?}\n{}", sshds.hosts.logs()));
    assert!(outcome.failures.is_empty() && outcome.left_behind.is_none(), "{outcome:?}");
    let log = fs::read_to_string(sshds.hosts.folder.join("sshd1.log")).unwrap();
    assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
    let closed = || {
        fs::read_to_string(sshds.hosts.folder.join("sshd1.log")).unwrap().contains("Disconnected from user")
    };
    assert!(comes_true(closed), "{}", sshds.hosts.logs());
}

#[test]
fn what_can_be_wrong_is_told_apart_and_comes_with_a_hint() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let sshds = Sshds::new(1);
    let folder = &sshds.hosts.folder;
    let refused = |change: &dyn Fn(&mut SshOptions), reach: &str| {
        let mut options = sshds.options();
        change(&mut options);
        sshds.refused(&mut SshLauncher::new(agent_binary(folder), options), reach)
    };
    let with = |option: &'static str| move |options: &mut SshOptions| options.options.push(option.into());

    let (why, hint) = refused(&with("UserKnownHostsFile=/dev/null"), "h1");
    assert!(why.contains("host key is unknown") && hint.contains("`ssh h1`"), "{why} / {hint}");

    let wrong = fs::read_to_string(folder.join("user.pub")).unwrap();
    fs::write(folder.join("wrong"), format!("[10.91.0.1]:2201 {wrong}")).unwrap();
    let other = folder.join("wrong").display().to_string();
    let (why, hint) = refused(&|options| options.options.push(format!("UserKnownHostsFile={other}")), "h1");
    assert!(why.contains("differs from the known one") && hint.contains("ssh-keygen -R"), "{why} / {hint}");

    let (why, hint) = refused(&with("PubkeyAuthentication=no"), "h1");
    assert!(why.contains("log-in refused") && hint.contains("passwords are not supported"), "{why} / {hint}");

    let (why, hint) = refused(&|_| {}, "nobody@h1");
    assert!(why.contains("not available") && hint.contains("needs a shell"), "{why} / {hint}");

    let (why, hint) = refused(&with("Port=1"), "h1");
    assert!(why.contains("refused") && hint.contains("sshd running"), "{why} / {hint}");

    // Nobody is there: within ten seconds, but for a machine that is busy.
    let began = stamp();
    let (why, hint) = refused(&|options| options.connect_timeout_s = 2, "10.91.0.77");
    assert!(why.contains("No route") || why.contains("timed out"), "{why}");
    assert!(hint.contains("is it up?"), "{hint}");
    assert!(stamp().since(began) < barewire_base::Duration::from_secs(60));

    let (why, hint) = refused(&|_| {}, "no-such-host.invalid");
    assert!(why.contains("resolve") && hint.contains("HostName"), "{why} / {hint}");

    // A program of another processor is not even sent.
    let mut elf = vec![0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[18] = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    fs::write(folder.join("foreign"), &elf).unwrap();
    let foreign = AgentBinary::read(&folder.join("foreign"), &["agent"]).unwrap();
    let (why, hint) = sshds.refused(&mut SshLauncher::new(foreign, sshds.options()), "h1");
    assert!(why.contains("is for") && hint.contains("built for"), "{why} / {hint}");
    assert!(sshds.cached(1).is_empty());

    // One that does not run there.
    fs::write(folder.join("broken"), "#!/no/such/loader\n").unwrap();
    let broken = AgentBinary::read(&folder.join("broken"), &["agent"]).unwrap();
    let (why, hint) = sshds.refused(&mut SshLauncher::new(broken, sshds.options()), "h1");
    assert!(why.contains("does not run") && hint.contains("static"), "{why} / {hint}");

    // A cache that cannot be written.
    let options = SshOptions { cache: Some("/proc/barewire".into()), ..sshds.options() };
    let (why, _) = sshds.refused(&mut SshLauncher::new(agent_binary(folder), options), "h1");
    assert!(why.contains("cannot be stored"), "{why}");
}

#[test]
fn an_sshd_that_dies_ends_the_run_and_is_named() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let sshds = Sshds::new(2);
    let slow = "[[role]]\nname = \"client\"\nhosts = [\"h2\"]\ncollect = \"json\"\ncommand = [\"sh\", \"-c\", \"echo busy; exec sleep 1000\"]\n";
    let plan = sshds.hosts.plan(&experiment(slow, 2));
    // The session's own process: the one that listens has no connection of ours.
    let listener = sshds.pids[1];
    let killed = Arc::new(Mutex::new(None));
    let at = Arc::clone(&killed);
    let kill = move || {
        *at.lock().unwrap() = Some(stamp());
        let pids = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok()?.parse::<u32>().ok());
        let child_of = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
                stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok())
                    == Some(listener)
            })
        };
        for pid in pids.filter(child_of) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    };
    let mut told = Told { at_line: Some(("busy", Box::new(kill))), ..Told::default() };
    let outcome = sshds.hosts.run(&plan, &mut sshds.launcher(), &mut told).unwrap();
    let (host, why) = outcome.lost.unwrap_or_else(|| panic!("{:?}", told.lines));
    assert_eq!(host, "h2", "{why}");
    // Seconds, but for a machine that is busy; far less than the run may take.
    let took = stamp().since(killed.lock().unwrap().unwrap());
    assert!(took < barewire_base::Duration::from_secs(60), "{took:?}");
    sshds.hosts.nothing_runs();
}

#[test]
fn an_agent_that_is_killed_whole_leaves_nothing() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let sshds = Sshds::new(2);
    // A grandchild that has left its group: the kernel's ties do not reach it.
    let slow = "[[role]]\nname = \"client\"\nhosts = [\"h2\"]\ncollect = \"json\"\ncommand = [\"sh\", \"-c\", \"setsid sh -c 'sleep 0.3; echo busy; exec sleep 1000' & wait\"]\n";
    let plan = sshds.hosts.plan(&experiment(slow, 2));
    let mark = format!("{}={}", hosts::MARK, sshds.hosts.name);
    let kill = move || {
        let environ = |pid: u32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let has = |pid: u32, text: &str| String::from_utf8_lossy(&environ(pid)).contains(text);
        let net = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let pids: Vec<u32> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok()?.parse().ok())
            .collect();
        let says = |pid: u32, words: &str| {
            let cmdline = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&cmdline).contains(words)
        };
        let busy = pids.iter().copied().find(|&pid| has(pid, &mark) && says(pid, "setsid sh")).unwrap();
        let is_agent = |pid: u32| net(pid) == net(busy) && says(pid, "--exact\0agent");
        let agents: Vec<u32> = pids.iter().copied().filter(|&pid| is_agent(pid)).collect();
        assert_eq!(agents.len(), 2, "guardian and worker");
        let words = agents.iter().map(u32::to_string);
        assert!(Command::new("kill").arg("-KILL").args(words).status().unwrap().success());
    };
    let mut told = Told { at_line: Some(("busy", Box::new(kill))), ..Told::default() };
    let outcome = sshds.hosts.run(&plan, &mut sshds.launcher(), &mut told).unwrap();
    assert_eq!(outcome.lost.map(|(host, _)| host).as_deref(), Some("h2"), "{:?}", told.lines);
    assert_eq!(outcome.left_behind, None);
    sshds.hosts.nothing_runs();
}
