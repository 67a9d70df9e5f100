//! The slurm launcher against a real slurmctld and one real slurmd in each host of a network of namespaces, each with a host name of
//! its own. Needs root and Debian's `slurmctld`, `slurmd`, `slurm-client` and `munge`; without them the tests say so and prove nothing.

mod hosts;

use barewire_experiment::launcher::{
    HostSpec, LaunchError, Launcher, Needs, RoleNeed, SlurmLauncher, SlurmOptions,
};
use barewire_measure::stamp;
use barewire_report::run::HardwareClass;
use hosts::{Hosts, MARK, Told, agent_binary, can_run, comes_true, play_agent};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
#[ignore = "the process that launchers of other tests start"]
fn agent() {
    play_agent();
}

const PROGRAMS: [&str; 7] =
    ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "salloc", "srun", "scancel", "unshare"];

/// A cluster of one machine.
struct Cluster {
    hosts: Hosts,
    /// The nodes' daemons.
    slurmds: Vec<u32>,
}

impl Cluster {
    fn new(count: u32) -> Cluster {
        let hosts = Hosts::new(count);
        let file = |name: &str| hosts.folder.join(name).display().to_string();
        // Munge insists that nobody else could have put its files there.
        fs::set_permissions(&hosts.folder, fs::Permissions::from_mode(0o755)).unwrap();
        let key = fs::read("/proc/sys/kernel/random/uuid").unwrap();
        fs::write(file("munge.key"), key.repeat(4)).unwrap();
        fs::set_permissions(file("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        let mut munged = Command::new("/usr/sbin/munged");
        munged.args(["-F", "--force"]);
        for (option, name) in [
            ("key-file", "munge.key"),
            ("socket", "munge.sock"),
            ("pid-file", "munge.pid"),
            ("seed-file", "munge.seed"),
            ("log-file", "munge.out"),
        ] {
            munged.arg(format!("--{option}={}", file(name)));
        }
        hosts.spawn(None, &mut munged, "munged.log");
        assert!(comes_true(|| hosts.folder.join("munge.sock").exists()), "{}", hosts.logs());

        let mut conf = format!(
            "ClusterName=bw\nSlurmctldHost=c(10.91.0.200)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={munge}\nCredType=cred/munge\nStateSaveLocation={state}\n\
             SlurmdSpoolDir={folder}/spool-%n\nSlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSwitchType=switch/none\nMpiDefault=none\n\
             ReturnToService=2\nSlurmdTimeout=10\nKillWait=2\nSchedulerParameters=bf_interval=1,sched_interval=1\n",
            munge = file("munge.sock"),
            state = file("state"),
            folder = hosts.folder.display(),
        );
        for n in 1..=count {
            conf.push_str(&format!(
                "NodeName=n{n} NodeAddr=10.91.0.{n} CPUs=1 RealMemory=100 Feature=f{n}\n"
            ));
            fs::create_dir(file(&format!("spool-n{n}"))).unwrap();
        }
        conf.push_str("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\nPartitionName=short Nodes=ALL MaxTime=1 State=UP\n");
        fs::create_dir(file("state")).unwrap();
        fs::write(file("slurm.conf"), conf).unwrap();
        fs::write(file("plugstack.conf"), "").unwrap();
        // Version 22.05 knows no way to do without; nothing is asked of it.
        fs::write(file("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();

        let daemon = |name: &str, program: &str| {
            let mut command = Command::new("unshare");
            command.args(["--uts", "sh", "-c", &format!("hostname {name}; exec {program}")]);
            command.env("SLURM_CONF", file("slurm.conf"));
            command
        };
        hosts.spawn(Some("c"), &mut daemon("c", "slurmctld -D -c"), "slurmctld.log");
        hosts.wait_for_port("10.91.0.200:6817");
        let start = |n: u32| {
            let name = format!("n{n}");
            // Not what the daemon after `-b` says: when the node was booted, as the machine was long ago.
            hosts.spawn(
                Some(&format!("h{n}")),
                &mut daemon(&name, "slurmd -D -b"),
                &format!("slurmd-{name}.log"),
            )
        };
        let slurmds: Vec<u32> = (1..=count).map(start).collect();
        let cluster = Cluster { hosts, slurmds };
        let idle = || {
            cluster
                .ask("sinfo", &["-h", "-N", "-p", "all", "-o", "%T"])
                .lines()
                .filter(|state| *state == "idle")
                .count()
        };
        assert!(comes_true(|| idle() == count as usize), "{}", cluster.hosts.logs());
        cluster
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.hosts.folder.join("slurm.conf"));
        let done = self.hosts.inside(|| command.output().unwrap());
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn options(&self) -> SlurmOptions {
        let conf = self.hosts.folder.join("slurm.conf").into_os_string();
        let cache = Some(self.hosts.folder.join("cache").display().to_string());
        SlurmOptions {
            environment: vec![("SLURM_CONF".into(), conf)],
            cache,
            queue_wait: Duration::from_secs(30),
            ..SlurmOptions::default()
        }
    }

    fn launcher(&self, change: impl FnOnce(&mut SlurmOptions)) -> SlurmLauncher {
        let mut options = self.options();
        change(&mut options);
        SlurmLauncher::new(agent_binary(&self.hosts.folder), options)
    }

    fn obtain(
        &self,
        launcher: &mut SlurmLauncher,
        needs: &Needs,
    ) -> Result<Vec<(String, String)>, LaunchError> {
        let done = self.hosts.inside(|| launcher.obtain(needs, &|| false));
        Ok(done?.into_iter().map(|facts| (facts.name, facts.address)).collect())
    }

    fn release(&self, launcher: &mut SlurmLauncher) {
        self.hosts.inside(|| launcher.release()).unwrap();
        self.no_jobs();
    }

    fn no_jobs(&self) {
        assert!(comes_true(|| self.ask("squeue", &["-h"]).is_empty()), "{}", self.ask("squeue", &[]));
    }
}

fn experiment(roles: &str) -> String {
    format!(
        "name = \"over-slurm\"\n[method]\nruns = 2\nseconds = 0.1\nwarmup_s = 0\ntimeout_s = 300\n{roles}"
    )
}

const SERVER: &str = "[[role]]\nname = \"server\"\ncount = 1\nready = \"up\"\ncommand = [\"sh\", \"-c\", \"echo up; exec sleep 100\"]\n";
const CLIENT: &str = "[[role]]\nname = \"client\"\ncount = COUNT\ncollect = \"json\"\n\
     command = [\"sh\", \"-c\", \"echo '{{\\\"connections_per_s\\\": 5, \\\"peer\\\": \\\"{server.address}\\\"}}'\"]\n\
     [merge]\nsum = [\"connections_per_s\"]\n";

fn needs(roles: &[(&str, usize)]) -> Needs {
    let role = |&(role, count): &(&str, usize)| RoleNeed { role: role.into(), named: vec![], count };
    Needs {
        name: "t".into(),
        hosts: vec![],
        roles: roles.iter().map(role).collect(),
        topology: None,
        longest_s: Some(10.0),
    }
}

#[test]
fn an_experiment_on_an_allocation_that_is_given_back() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let cluster = Cluster::new(2);
    let plan = cluster.hosts.plan(&experiment(&format!("{SERVER}{}", CLIENT.replace("COUNT", "1"))));
    let mut launcher = cluster.launcher(|_| {});
    let outcome = cluster.hosts.run(&plan, &mut launcher, &mut Told::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{e:?}\n{}", cluster.hosts.logs()));
    assert!(
        outcome.failures.is_empty() && outcome.lost.is_none() && outcome.left_behind.is_none(),
        "{outcome:?}"
    );
    assert_eq!(outcome.rows, 1);
    assert!(cluster.hosts.rows(&outcome).contains("10.91.0."), "{}", cluster.hosts.rows(&outcome));
    assert_eq!(launcher.hardware(), HardwareClass::OneMachine);
    assert_eq!(launcher.job(), None);
    cluster.no_jobs();
    cluster.hosts.nothing_runs();
    // Sent once: the nodes share the folder.
    assert_eq!(fs::read_dir(cluster.hosts.folder.join("cache")).unwrap().count(), 1);

    // Somebody cancels the job meanwhile: the run ends, and says so.
    let slow = "[[role]]\nname = \"client\"\ncount = 1\ncollect = \"json\"\ncommand = [\"sh\", \"-c\", \"echo busy; exec sleep 1000\"]\n";
    let plan = cluster.hosts.plan(&experiment(&format!("{SERVER}{slow}")));
    let conf = cluster.hosts.folder.join("slurm.conf");
    let cancelled = Arc::new(Mutex::new(None));
    let at = Arc::clone(&cancelled);
    // The act runs on the runner's thread, which is where the controller is reached.
    let cancel = move || {
        *at.lock().unwrap() = Some(stamp());
        let _ =
            Command::new("scancel").args(["--name=barewire-over-slurm"]).env("SLURM_CONF", &conf).status();
    };
    let mut told = Told { at_line: Some(("busy", Box::new(cancel))), ..Told::default() };
    let outcome = cluster.hosts.run(&plan, &mut cluster.launcher(|_| {}), &mut told).unwrap();
    assert!(outcome.lost.is_some() && outcome.left_behind.is_none(), "{outcome:?}");
    let took = stamp().since(cancelled.lock().unwrap().unwrap());
    assert!(took < barewire_base::Duration::from_secs(60), "{took:?}");
    cluster.no_jobs();
    cluster.hosts.nothing_runs();
}

#[test]
fn eight_nodes_give_one_table() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let cluster = Cluster::new(8);
    let plan = cluster.hosts.plan(&experiment(&format!("{SERVER}{}", CLIENT.replace("COUNT", "7"))));
    let outcome = cluster.hosts.run(&plan, &mut cluster.launcher(|_| {}), &mut Told::default());
    let outcome = outcome.unwrap_or_else(|e| panic!("{e:?}\n{}", cluster.hosts.logs()));
    assert!(outcome.failures.is_empty() && outcome.lost.is_none(), "{outcome:?}");
    let rows = cluster.hosts.rows(&outcome).replace(' ', "");
    assert!(rows.contains("\"connections_per_s\":35"), "{rows}");
    cluster.no_jobs();
    cluster.hosts.nothing_runs();
}

#[test]
fn roles_that_ask_for_different_things_get_their_nodes_in_one_heterogeneous_job() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let cluster = Cluster::new(3);
    let ask = |options: &mut SlurmOptions| {
        options.ask_of_role = [("server".to_owned(), vec!["--constraint=f3".to_owned()])].into();
    };
    let mut launcher = cluster.launcher(ask);
    let hosts = cluster.obtain(&mut launcher, &needs(&[("server", 1), ("client", 2)]));
    let hosts = hosts.unwrap_or_else(|e| panic!("{e:?}\n{}", cluster.hosts.logs()));
    let names: Vec<(&str, &str)> =
        hosts.iter().map(|(name, address)| (name.as_str(), address.as_str())).collect();
    assert_eq!(names, [("n3", "10.91.0.3"), ("n1", "10.91.0.1"), ("n2", "10.91.0.2")]);
    assert_eq!(cluster.ask("squeue", &["-h", "-o", "%i"]).lines().count(), 2, "two components");
    let mut pipes = cluster.hosts.inside(|| launcher.start("n1")).unwrap();
    drop(pipes.child.stdin.take());
    assert!(pipes.child.wait().unwrap().code().is_some());
    cluster.release(&mut launcher);
    cluster.hosts.inside(|| launcher.release()).unwrap();

    // The whole way of it, the clients added.
    let plan = cluster.hosts.plan(&experiment(&format!("{SERVER}{}", CLIENT.replace("COUNT", "2"))));
    let outcome = cluster.hosts.run(&plan, &mut cluster.launcher(ask), &mut Told::default()).unwrap();
    assert!(outcome.failures.is_empty() && outcome.lost.is_none(), "{outcome:?}");
    let rows = cluster.hosts.rows(&outcome).replace(' ', "");
    assert!(rows.contains("\"connections_per_s\":10") && rows.contains("10.91.0.3"), "{rows}");

    // Within an allocation that is there: used, and not given back.
    let mut outer = cluster.launcher(|_| {});
    cluster.obtain(&mut outer, &needs(&[("any", 2)])).unwrap();
    let job = outer.job();
    let mut inner = cluster.launcher(|options| options.job = job);
    assert_eq!(cluster.obtain(&mut inner, &needs(&[("any", 2)])).unwrap().len(), 2);
    let too_many = cluster.obtain(&mut cluster.launcher(|options| options.job = job), &needs(&[("any", 3)]));
    assert!(
        matches!(&too_many, Err(LaunchError::Unsuited(why)) if why.contains("2 nodes for 3")),
        "{too_many:?}"
    );
    cluster.hosts.inside(|| inner.release()).unwrap();
    assert!(!cluster.ask("squeue", &["-h"]).is_empty());
    cluster.release(&mut outer);
}

#[test]
fn refusals_and_waits_are_named_and_leave_no_job() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let cluster = Cluster::new(2);
    let refused = |change: &dyn Fn(&mut SlurmOptions), needs: &Needs| match cluster
        .obtain(&mut cluster.launcher(|o| change(o)), needs)
    {
        Err(LaunchError::Unfit { what, why, hint: Some(hint) }) => format!("{what}: {why} / {hint}"),
        Err(LaunchError::Unsuited(why)) => why,
        other => panic!("{other:?}\n{}", cluster.hosts.logs()),
    };
    let two = needs(&[("any", 2)]);
    let said = refused(&|options| options.ask.push("--partition=nosuch".into()), &two);
    assert!(said.contains("artition") && said.contains("`sinfo`"), "{said}");
    let said = refused(&|options| options.environment[0].1 = "/no/such/slurm.conf".into(), &two);
    assert!(said.contains("SLURM_CONF"), "{said}");
    let mut named = needs(&[]);
    named.hosts.push(HostSpec { name: "a".into(), reach: "n11".into(), ..HostSpec::default() });
    let said = refused(&|_| {}, &named);
    assert!(said.contains("did you mean `n1`"), "{said}");

    // More than there is, or not yet. The controller has to have given its reason when the time is up: a busy one gets more of it.
    let in_vain = |needs: &Needs, hint: &str| {
        let mut said = String::new();
        for seconds in [2, 8, 32] {
            let short = |options: &mut SlurmOptions| options.queue_wait = Duration::from_secs(seconds);
            said = refused(&short, needs);
            assert!(said.contains(&format!("no allocation within {seconds} s")), "{said}");
            if said.contains(hint) {
                return;
            }
        }
        panic!("{said}");
    };
    let short = |options: &mut SlurmOptions| options.queue_wait = Duration::from_secs(2);
    let said = refused(&short, &needs(&[("any", 9)]));
    assert!(said.contains("no allocation within 2 s") || said.contains("fewer hosts"), "{said}");
    cluster.no_jobs();
    let mut holds = cluster.launcher(|_| {});
    cluster.obtain(&mut holds, &two).unwrap();
    in_vain(&needs(&[("any", 1)]), "others have the nodes");
    cluster.release(&mut holds);

    // Interrupted while it waits.
    let mut waits = cluster.launcher(|_| {});
    let done = cluster.hosts.inside(|| waits.obtain(&needs(&[("any", 9)]), &|| true));
    assert!(matches!(done, Err(LaunchError::Interrupted | LaunchError::Unfit { .. })), "{done:?}");
    cluster.no_jobs();

    // A node that is taken out is not waited for longer than asked, and Slurm's reason is told. (One that is only `down` comes back by itself
    // when its daemon answers.)
    cluster.ask("scontrol", &["update", "nodename=n2", "state=drain", "reason=test"]);
    let mut named = needs(&[]);
    named.hosts.push(HostSpec { name: "n2".into(), ..HostSpec::default() });
    in_vain(&named, "sinfo -R");
    cluster.no_jobs();
}

/// Runs an experiment for ever, ends the daemon of its client's node, `steps_too` or not, and waits for the run to end.
fn a_node_dies(steps_too: bool) {
    let cluster = Cluster::new(2);
    let slow = "[[role]]\nname = \"client\"\ncount = 1\ncollect = \"json\"\ncommand = [\"sh\", \"-c\", \"echo busy; exec sleep 1000\"]\n";
    let plan = cluster.hosts.plan(&experiment(&format!("{SERVER}{slow}")));
    // The first host is the server's, so the second is the client's.
    let daemon = cluster.slurmds[1];
    // Its host has a name, and so a namespace for names, of its own.
    let uts = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/uts")).ok();
    let of_node = uts(daemon);
    let killed = Arc::new(Mutex::new(None));
    let at = Arc::clone(&killed);
    let kill = move || {
        *at.lock().unwrap() = Some(stamp());
        let kill = |pid: u32| Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        kill(daemon);
        let pids = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok()?.parse::<u32>().ok());
        let step = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("slurmstepd") && uts(*pid) == of_node
        };
        for pid in pids.filter(|pid| steps_too && step(pid)) {
            kill(pid);
        }
    };
    let mut told = Told { at_line: Some(("busy", Box::new(kill))), ..Told::default() };
    let outcome = cluster.hosts.run(&plan, &mut cluster.launcher(|_| {}), &mut told).unwrap();
    let killed = killed.lock().unwrap().take().unwrap();
    let lost = outcome.lost.as_ref().unwrap();
    let (noted, note) = told.notes.iter().find(|(_, note)| note.contains("the rest continues")).unwrap();
    assert_eq!(outcome.left_behind, None);
    println!(
        "{note}: told {:?} after the kill, all over after {:?}",
        noted.since(killed),
        stamp().since(killed)
    );
    // Seconds, but for a machine that is busy; far less than the run may take.
    assert!(noted.since(killed) < barewire_base::Duration::from_secs(60), "{:?}", noted.since(killed));
    assert!(stamp().since(killed) < barewire_base::Duration::from_secs(120), "{:?}", stamp().since(killed));
    assert_eq!(lost.0, "n2");
    assert!(steps_too || lost.1.contains("slurmd of node n2 is gone"), "{lost:?}");
    cluster.hosts.nothing_runs();
}

#[test]
fn a_slurmd_that_dies_ends_the_run_in_seconds_and_leaves_nothing() {
    if can_run(&PROGRAMS) {
        a_node_dies(false);
    }
}

#[test]
fn a_node_that_dies_ends_the_run_in_seconds_and_leaves_nothing() {
    if can_run(&PROGRAMS) {
        a_node_dies(true);
    }
}

#[test]
fn a_killed_controller_leaves_no_job() {
    if !can_run(&PROGRAMS) {
        return;
    }
    let cluster = Cluster::new(2);
    // Whoever holds an allocation and is killed: the command that holds it ends with its input.
    let held = cluster.hosts.folder.join("held");
    let conf = cluster.hosts.folder.join("slurm.conf");
    let script = format!(
        "salloc --exclusive --nodes=1 sh -c 'echo $SLURM_JOB_ID >{}; exec cat >/dev/null'",
        held.display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .env("SLURM_CONF", &conf)
        .env(MARK, "held")
        .stdin(std::process::Stdio::piped());
    let mut child = cluster.hosts.inside(|| command.spawn()).unwrap();
    assert!(comes_true(|| held.exists()));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(comes_true(|| !cluster.ask("squeue", &["-h", "-o", "%T"]).contains("RUNNING")));
}
