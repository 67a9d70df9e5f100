//! Whose page it is, and whether that process still lives.

use crate::sys;

/// A process: its id, and when it started, as ids are used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat` (proc_pid_stat(5)): clock ticks since boot. 0: unknown.
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    pub fn current() -> Owner {
        let pid = std::process::id();
        Owner { pid, start_ticks: stat(pid).map_or(0, |(_, start)| start) }
    }

    /// Does the process still run? When in doubt, yes: a page is then kept, not replaced.
    pub fn is_alive(self) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().filter(|&pid| pid > 0) else {
            return false;
        };
        match stat(self.pid) {
            // A zombie writes no more.
            Some((state, start)) => {
                !matches!(state, 'Z' | 'X') && (self.start_ticks == 0 || start == self.start_ticks)
            }
            // No such process, or /proc hides those of others (hidepid): the kernel knows.
            None => sys::process_exists(pid),
        }
    }
}

/// State and start time of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<(char, u64)> {
    // The second field is the program's name in parentheses, which may hold spaces and parentheses.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_parse_whatever_the_program_is_called() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        for name in ["(cat)", "(a b)", "(:) S 9 9)", "(()"] {
            assert_eq!(parse_stat(&format!("17 {name} {rest}")), Some(('S', 4242)), "{name}");
        }
        assert_eq!(parse_stat("17 (cat) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
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
        let start_ticks = stat(child.id()).unwrap().1;
        let owner = Owner { pid: child.id(), start_ticks };
        assert!(owner.is_alive());
        child.kill().unwrap();
        // Not yet waited for, so it is a zombie as soon as the kernel has ended it.
        while owner.is_alive() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }
}
