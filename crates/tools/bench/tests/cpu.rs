//! What rows say of CPU: who spins is charged with about a core a thread, who sleeps with little, and nobody has to ask for it.
//!
//! One test, in a process of its own: a row is charged with all that its process does.

use barewire_base::Duration;
use barewire_bench::cpu::Charge;
use barewire_bench::row::{Measure, Measured, Row, Subject};
use barewire_bench::run::{Workload, interleave};
use barewire_bench::{BenchError, KeepAwake};
use barewire_measure::{Task, stamp};
use std::process::Command;

const MEASURES: &[Measure] = &[Measure::rate("rate_per_s", "rate/s", "rate")];
/// CPU that a thread which spins takes, however long that lasts on a machine that is busy.
const WORK_NS: u64 = 100_000_000;
const ASLEEP: Duration = Duration::from_millis(200);

/// What a workload does in its measured time.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Spin {
        threads: usize,
    },
    Sleep,
    /// Spins in a process that it starts, and waits for.
    Child,
    /// As `Spin`, and never says when it begins.
    Unmarked,
}

struct One(&'static str, Does);

fn spin() {
    let task = Task::current().unwrap();
    let before = task.time().unwrap();
    while task.time().unwrap().since(&before).run_ns < WORK_NS {
        (0..10_000).for_each(|_| std::hint::spin_loop());
    }
}

impl Workload for One {
    fn subjects(&self) -> Vec<Subject> {
        vec![Subject { bench: "test", system: self.0.to_owned(), ..Subject::default() }]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        ASLEEP
    }

    fn slice(&mut self, _: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let began = stamp();
        if self.1 != Does::Unmarked {
            // Set-up that no operation is charged with.
            spin();
            cpu.begins();
        }
        match self.1 {
            Does::Spin { threads } => std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(spin);
                }
            }),
            Does::Unmarked => spin(),
            Does::Sleep => std::thread::sleep(ASLEEP.into()),
            Does::Child => {
                let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
                let mut shell = Command::new("sh").args(["-c", script]).spawn().unwrap();
                assert!(shell.wait().unwrap().success());
            }
        }
        if self.1 != Does::Unmarked {
            cpu.ends();
        }
        Ok(vec![
            Measured::default()
                .operations(1_000)
                .number("rate_per_s", 1e3 / stamp().since(began).as_secs_f64()),
        ])
    }
}

fn busy(row: &Row) -> f64 {
    row.cpu.as_ref().unwrap().cores
}

#[test]
fn who_spins_is_charged_with_its_cores_and_who_sleeps_is_not() {
    let all = [
        One("spins", Does::Spin { threads: 1 }),
        One("spins twice", Does::Spin { threads: 2 }),
        One("sleeps", Does::Sleep),
        One("starts", Does::Child),
        One("unmarked", Does::Unmarked),
    ];
    let mut all: Vec<Box<dyn Workload>> = all.map(|one| Box::new(one) as _).into();
    // Who keeps cores awake is nobody's cost.
    let _awake = KeepAwake::start(&[]).unwrap();
    let (rows, failures) = interleave(&mut all, 2, &mut |_| {}, &mut |_| {});
    assert!(failures.is_empty(), "{failures:?}");
    let [spins, twice, sleeps, starts, unmarked] = rows.as_slice() else { panic!("{rows:?}") };
    // 100 ms of CPU for 1,000 operations: 100 us each and for each thread, with nothing of what set it up. Besides, there is only this test.
    let cost = |row: &Row| row.number("cpu_ns_per_op").unwrap();
    let share = WORK_NS as f64 / 1e3;
    assert!((share..1.4 * share).contains(&cost(spins)), "{spins:?}");
    assert!((2.0 * share..2.8 * share).contains(&cost(twice)), "{twice:?}");
    assert!(cost(sleeps) < share / 5.0, "{sleeps:?}");
    assert!(cost(starts) > share / 10.0, "what it started and waited for counts: {starts:?}");
    assert!((share..1.4 * share).contains(&cost(unmarked)), "{unmarked:?}");
    assert_eq!(unmarked.notes, ["CPU with what sets a run up"]);
    assert!(spins.notes.is_empty(), "{spins:?}");
    // A thread is on one core at most, on fewer where others are on it, too; who sleeps is on none.
    assert!(busy(spins) > 0.0 && busy(spins) < 1.1 && busy(twice) < 2.1, "{spins:?} {twice:?}");
    assert!(busy(sleeps) < 0.1, "{sleeps:?}");
    assert_eq!(spins.of_runs("cpu_ns_per_op").len(), 2, "compared run by run");
    // In the line of each row, and under the same keys as of messages.
    let text = barewire_bench::render::table(&rows);
    let head = text.lines().next().unwrap();
    assert!(head.contains("cpu/op") && head.contains("cores"), "{text}");
    let json = serde_json::to_value(spins).unwrap();
    assert!(json["cpu_ns_per_op"].is_number() && json["runs"][0]["cpu_ns_per_op"].is_number(), "{json}");
    for key in ["user_ns", "system_ns", "softirq_ns", "cores"] {
        assert!(json["cpu"][key].is_number(), "{key}: {json}");
    }
    assert_eq!(json["measures"]["cpu_ns_per_op"]["better"], "lower");
    let serde_json::Value::Object(written) = json else { panic!("no object") };
    let read = Row::read(spins.subject.clone(), MEASURES, written).unwrap();
    assert_eq!((read.cpu, read.of_runs("cpu_ns_per_op")), (spins.cpu, spins.of_runs("cpu_ns_per_op")));
}
