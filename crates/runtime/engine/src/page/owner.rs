//! A process that cannot be taken for a later one with the same id: whose page it is, and whether it still lives.

use crate::sys;

/// A process: its id, and when it started, as ids are used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The process id that it has for itself.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat` (proc_pid_stat(5)): clock ticks since boot. 0: unknown.
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    pub fn current() -> Owner {
        let pid = std::process::id();
        Owner { pid, start_ticks: Stat::of(pid).map_or(0, |stat| stat.start_ticks) }
    }

    /// The process that has this id now; `None` when there is none, or it is dead and not yet waited for.
    pub fn of(pid: u32) -> Option<Owner> {
        let stat = Stat::of(pid)?;
        (!stat.is_dead()).then_some(Owner { pid, start_ticks: stat.start_ticks })
    }

    /// Does the process still run? When in doubt, yes: what is its own is then kept, not replaced or removed.
    pub fn is_alive(self) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().filter(|&pid| pid > 0) else {
            return false;
        };
        match Stat::of(self.pid) {
            Some(stat) => !stat.is_dead() && (self.start_ticks == 0 || stat.start_ticks == self.start_ticks),
            // No such process, or /proc hides those of others (hidepid): the kernel knows.
            None => sys::process_exists(pid),
        }
    }
}

/// What is needed of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    threads: u64,
    start_ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Stat> {
        // The second field is the program's name in parentheses, which may hold spaces and parentheses.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse().ok();
        Some(Stat { state: fields.first()?.chars().next()?, threads: number(20)?, start_ticks: number(22)? })
    }

    /// Dead and only not yet waited for. A first thread that has ended while others run looks alike but for their number.
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_parse_whatever_the_program_is_called() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        for name in ["(cat)", "(a b)", "(:) S 9 9)", "(()", "(a) Z (1 2)"] {
            let expected = Stat { state: 'S', threads: 17, start_ticks: 4242 };
            assert_eq!(Stat::parse(&format!("17 {name} {rest}")), Some(expected), "{name}");
        }
        assert_eq!(Stat::parse("17 (cat) S 1 2"), None);
        assert_eq!(Stat::parse(""), None);
        assert!(Stat { state: 'Z', threads: 1, start_ticks: 0 }.is_dead());
        assert!(
            !Stat { state: 'Z', threads: 2, start_ticks: 0 }.is_dead(),
            "only its first thread has ended"
        );
        assert!(!Stat { state: 'S', threads: 1, start_ticks: 0 }.is_dead());
    }

    #[test]
    fn life_and_death() {
        let me = Owner::current();
        assert!(me.start_ticks > 0 && me.is_alive());
        assert!(!Owner { start_ticks: me.start_ticks + 1, ..me }.is_alive(), "the id was used again");
        assert!(Owner { start_ticks: 0, ..me }.is_alive(), "start unknown: the id decides");
        for pid in [0, u32::MAX, i32::MAX as u32] {
            assert!(!Owner { pid, start_ticks: 0 }.is_alive(), "{pid}");
        }
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let owner = Owner::of(child.id()).unwrap();
        assert!(owner.is_alive());
        child.kill().unwrap();
        // Not yet waited for, so it is a zombie as soon as the kernel has ended it.
        while owner.is_alive() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(Owner::of(owner.pid), None);
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }
}
