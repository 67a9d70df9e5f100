//! One run of one cell: processes started in order, watched, ended; rows out of what they wrote.

use super::assign::Values;
use super::fleet::Clock;
use super::merge::merge_hosts;
use super::overlap::Part;
use super::rows::{self, Row};
use super::{Controller, Stop};
use crate::agent::protocol::{Event, Request, SignalWord, Stream};
use crate::plan::{Collect, Plan, Point, RolePlan, StopSignal};
use barewire_base::Duration;
use barewire_measure::{realtime_ns, stamp};
use std::collections::VecDeque;

/// Between the order to start and the start itself: the order must have arrived everywhere.
const LEAD_NS: u64 = 200_000_000;
/// How long roles may take to end when they are asked to.
const STOP_WAIT: Duration = Duration::from_secs(3);
/// How long an agent may take to end what is left.
const SWEEP_WAIT: Duration = Duration::from_secs(8);
/// Exchanges of clock readings before each run.
const CLOCK_EXCHANGES: u32 = 3;
/// Output of one process that is kept for its rows, in bytes, and of all processes of a run.
const OUT_BYTES_MAX: usize = 64 << 20;
const OUTS_BYTES_MAX: usize = 512 << 20;
/// Lines of one process that are shown; the log keeps more.
const SHOWN_LINES_MAX: u32 = 200;
/// A longer row is not shown while it runs.
const SHOWN_JSON_BYTES: usize = 200;
/// Lines that are told when a process fails.
const TAIL_LINES: usize = 5;
/// The exit code of a bench verb whose figures are void: the rows say why.
const VOID_CODE: i32 = 4;

/// What a process has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// It could not be started.
    Failed(String),
}

/// A process of the run.
#[derive(Debug)]
pub(super) struct Task {
    id: u32,
    role: usize,
    /// The host's place.
    host: usize,
    state: State,
    ready: bool,
    /// It was told to end: how it ends is no failure.
    stopped: bool,
    started_unix_ns: Option<u64>,
    ended_unix_ns: Option<u64>,
    out: String,
    all: String,
    /// The line that has not ended, of each stream.
    partial: [String; 2],
    tail: VecDeque<String>,
    overflow: bool,
    /// Lines that were shown.
    shown: u32,
}

impl Task {
    fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Whether it is this process of this host: numbers are easily guessed, and no host speaks for another's.
    fn is(&self, host: usize, id: u32) -> bool {
        (self.host, self.id) == (host, id)
    }
}

/// What one run of a cell came to: its rows, or why there are none.
pub(super) type RunOutcome = Result<RunRows, String>;

/// Which role printed a row, and its place in what that role printed.
pub(super) type RowPlace = (usize, usize);

/// Rows of a run, hosts merged, each with the role that printed it and its place there.
#[derive(Clone, Debug, Default)]
pub(super) struct RunRows {
    pub(super) rows: Vec<(RowPlace, Row)>,
    /// How far apart the hosts started, in ns, and how wrong that may be.
    pub(super) spread_ns: Option<(u64, u64)>,
    /// What failed and left the others' rows as they are.
    pub(super) failures: Vec<String>,
}

impl Controller<'_> {
    /// Runs a cell once. Everything it started has ended when this returns, but for `Err`, after which the agents end it.
    pub(super) fn run_cell(
        &mut self,
        point: &Point,
        run: u32,
        assigned: &[Vec<usize>],
    ) -> Result<RunOutcome, Stop> {
        self.tasks.clear();
        self.measure_clocks(CLOCK_EXCHANGES)?;
        let lost = assigned.iter().flatten().find_map(|host| Some((*host, self.why_gone(*host)?)));
        if let Some((host, why)) = lost {
            return Ok(Err(format!("host {} was lost: {why}", self.hosts[host].name)));
        }
        let outcome = self.start_and_watch(point, run, assigned)?;
        // Before they are told to end, after which no end is a failure.
        let failures =
            self.tasks.iter().filter(|task| failed(task)).map(|task| self.describe_exit(task)).collect();
        self.stop_rest()?;
        self.sweep()?;
        Ok(outcome.and_then(|()| self.collect()).map(|rows| RunRows { failures, ..rows }))
    }

    fn start_and_watch(
        &mut self,
        point: &Point,
        run: u32,
        assigned: &[Vec<usize>],
    ) -> Result<Result<(), String>, Stop> {
        let plan = self.plan;
        let mut role = 0;
        while role < plan.roles.len() {
            // Neighbours that collect start together, at one instant, unless one is to wait for the other.
            let together = |role: &RolePlan| role.collect.is_some() && role.ready.is_none();
            let collects = together(&plan.roles[role]);
            let mut last = role;
            while collects
                && plan.roles[last].settle.is_zero()
                && plan.roles.get(last + 1).is_some_and(together)
            {
                last += 1;
            }
            let at = realtime_ns() + LEAD_NS;
            for each in role..=last {
                if let Err(why) = self.start_role(each, point, run, assigned, if collects { at } else { 0 }) {
                    return Ok(Err(why));
                }
            }
            if let Err(why) = self.await_ready(role)? {
                return Ok(Err(why));
            }
            if let Err(why) = self.settle(plan.roles[last].settle)? {
                return Ok(Err(why));
            }
            role = last + 1;
        }
        self.await_end()
    }

    fn start_role(
        &mut self,
        role: usize,
        point: &Point,
        run: u32,
        assigned: &[Vec<usize>],
        at: u64,
    ) -> Result<(), String> {
        let spec = &self.plan.roles[role];
        for (index, &host) in assigned[role].iter().enumerate() {
            if let Some(why) = self.why_gone(host) {
                return Err(format!("{} on {}: its host was lost: {why}", spec.name, self.hosts[host].name));
            }
            let agent = &self.fleet.agents[host];
            let (exe, scratch) =
                agent.hello.as_ref().map_or(("barewire", ""), |h| (h.exe.as_str(), h.scratch.as_str()));
            let values = Values {
                plan: self.plan,
                hosts: self.hosts,
                assigned,
                point,
                run,
                role,
                index,
                exe,
                scratch,
            };
            let of_role = |why: String| format!("role {}: {why}", spec.name);
            let argv = values.command(spec).map_err(of_role)?;
            let cwd = spec.cwd.as_ref().map(|cwd| values.fill(cwd)).transpose().map_err(of_role)?;
            let mut env = self.plan.environment.clone();
            env.extend(spec.environment.clone());
            let id = self.next_id;
            self.next_id += 1;
            let ahead = agent.clock.map_or(0, |clock| clock.ahead_ns);
            let at_unix_ns = if at == 0 { 0 } else { at.saturating_add_signed(ahead) };
            let told = self.redactor.text(crate::redact::words(&argv).join(" "));
            self.log(host, &format!("$ {told}"));
            self.tasks.push(Task {
                id,
                role,
                host,
                state: State::Running,
                ready: spec.ready.is_none(),
                stopped: false,
                started_unix_ns: None,
                ended_unix_ns: None,
                out: String::new(),
                all: String::new(),
                partial: Default::default(),
                tail: VecDeque::new(),
                overflow: false,
                shown: 0,
            });
            self.fleet.send(host, Request::Start { id, argv, cwd, env, at_unix_ns });
        }
        Ok(())
    }

    /// Handles events until `done`, or the time is up (`Ok(false)`).
    fn pump(&mut self, wait: Option<Duration>, done: impl Fn(&[Task]) -> bool) -> Result<bool, Stop> {
        let began = stamp();
        loop {
            if (self.interrupted)() {
                return Err(Stop::Interrupted);
            }
            if done(&self.tasks) {
                return Ok(true);
            }
            if wait.is_some_and(|wait| stamp().since(began) > wait) {
                return Ok(false);
            }
            self.handle_next()?;
        }
    }

    /// Takes in what comes next. A host that is lost ends what it had a part in, and nothing else, once measuring has begun.
    pub(super) fn handle_next(&mut self) -> Result<Option<(usize, Event)>, Stop> {
        let event = match self.next() {
            Err(Stop::Lost { host, why }) => return self.lose(host, why).map(|()| None),
            other => other?,
        };
        match event {
            Some((host, Event::Line { id, stream, text, more })) => {
                self.line(host, id, stream, text, more);
                Ok(None)
            }
            Some((host, Event::Started { id, unix_ns, .. })) => {
                if let Some(task) = self.tasks.iter_mut().find(|task| task.is(host, id)) {
                    task.started_unix_ns = Some(unix_ns);
                }
                Ok(None)
            }
            Some((host, Event::Exited { id, code, signal, unix_ns })) => {
                if let Some(task) = self.tasks.iter_mut().find(|task| task.is(host, id)) {
                    task.state = State::Exited { code, signal };
                    task.ended_unix_ns = Some(unix_ns);
                    self.log(host, &ended_text(code, signal));
                }
                Ok(None)
            }
            Some((host, Event::Error { id: Some(id), text })) => {
                self.log(host, &text);
                if let Some(task) = self.tasks.iter_mut().find(|task| task.is(host, id)) {
                    task.state = State::Failed(text);
                }
                Ok(None)
            }
            // Nothing of a run asks for what only an agent as a whole can refuse: it cannot go on.
            Some((host, Event::Error { id: None, text })) => {
                self.log(host, &text);
                self.fleet.give_up(host);
                self.lose(host, text).map(|()| None)
            }
            other => Ok(other),
        }
    }

    /// Why a host is lost, if it is.
    fn why_gone(&self, host: usize) -> Option<&str> {
        self.gone.iter().find(|(gone, _)| *gone == host).map(|(_, why)| why.as_str())
    }

    /// A host is lost: with it goes what ran there. Before anything was measured, that ends everything.
    fn lose(&mut self, host: usize, why: String) -> Result<(), Stop> {
        if !self.measuring {
            return Err(Stop::Lost { host, why });
        }
        let name = &self.hosts[host].name;
        // At once: ending what others run for it takes seconds.
        self.watch.note(&format!("host {name}: {why}; runs that need it fail, the rest continues"));
        for task in self.tasks.iter_mut().filter(|task| task.host == host && task.is_running()) {
            task.state = State::Failed(format!("its host was lost: {why}"));
        }
        self.gone.push((host, why));
        Ok(())
    }

    /// The last lines of processes that nobody waits for any more.
    pub(super) fn log_leftover(&mut self) {
        for (host, event) in self.fleet.take_leftover() {
            if let Event::Line { id, stream, text, more } = event {
                self.line(host, id, stream, text, more);
            }
        }
    }

    fn line(&mut self, host: usize, id: u32, stream: Stream, text: String, more: bool) {
        // Of a process of an earlier run, at its end.
        let Some(at) = self.tasks.iter().position(|task| task.is(host, id)) else { return };
        let most = OUT_BYTES_MAX.min(OUTS_BYTES_MAX / self.tasks.len());
        let task = &mut self.tasks[at];
        let held = &mut task.partial[usize::from(stream == Stream::Err)];
        if held.len() < most {
            held.push_str(&text);
        } else {
            task.overflow = true;
        }
        if more {
            return;
        }
        let line = std::mem::take(held);
        let role = &self.plan.roles[task.role];
        if let Some(ready) = role.ready.as_ref().filter(|_| !task.ready) {
            task.ready = line.contains(ready);
        }
        let keep = |kept: &mut String, overflow: &mut bool| match kept.len() + line.len() < most {
            true => {
                kept.push_str(&line);
                kept.push('\n');
            }
            false => *overflow = true,
        };
        match role.collect {
            Some(Collect::Json) if stream == Stream::Out => keep(&mut task.out, &mut task.overflow),
            Some(Collect::Regex(_)) => keep(&mut task.all, &mut task.overflow),
            _ => {}
        }
        let line = self.redactor.text(line);
        if !line.trim().is_empty() && (stream == Stream::Err || role.collect.is_none()) {
            if task.tail.len() == TAIL_LINES {
                task.tail.pop_front();
            }
            // It will stand in an error, on somebody's terminal.
            task.tail.push_back(line.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}"));
        }
        self.log(host, &line);
        let name = &self.hosts[host].name;
        if self.plan.quiet.contains(name) {
            return;
        }
        let shown = &mut self.tasks[at].shown;
        *shown += 1;
        if *shown >= SHOWN_LINES_MAX {
            if *shown == SHOWN_LINES_MAX {
                self.watch.line(name, "… more; the log in the run folder has all of it");
            }
            return;
        }
        // A document of kilobytes is for the folder, not for people.
        let document = matches!(role.collect, Some(Collect::Json))
            && line.len() > SHOWN_JSON_BYTES
            && line.starts_with(['{', '[']);
        let shown = if document { format!("… a row of {} bytes", line.len()) } else { line };
        self.watch.line(name, &shown);
    }

    fn await_ready(&mut self, role: usize) -> Result<Result<(), String>, Stop> {
        let Some(text) = &self.plan.roles[role].ready else { return Ok(Ok(())) };
        let wait = self.plan.method.ready_timeout;
        let of_role = move |task: &&Task| task.role == role;
        let ends_run = ends_run(self.plan);
        self.pump(Some(wait.into()), |tasks| {
            tasks.iter().filter(of_role).all(|t| t.ready)
                || tasks.iter().filter(of_role).any(|t| !t.ready && !t.is_running())
                || tasks.iter().any(ends_run)
        })?;
        if let Some(why) = self.failure() {
            return Ok(Err(why));
        }
        let of_role = |task: &&Task| of_role(task) && !task.ready;
        let ended = self.tasks.iter().filter(of_role).find(|task| !task.is_running());
        let waiting = ended.or_else(|| self.tasks.iter().find(of_role));
        Ok(match waiting {
            None => Ok(()),
            Some(task) if !task.is_running() => {
                Err(self.with_last_words(task, &format!("ended before it said {text:?}")))
            }
            Some(task) => {
                Err(self
                    .with_last_words(task, &format!("did not say {text:?} within {} s", wait.as_secs_f64())))
            }
        })
    }

    fn settle(&mut self, wait: std::time::Duration) -> Result<Result<(), String>, Stop> {
        if !wait.is_zero() {
            let ends_run = ends_run(self.plan);
            self.pump(Some(wait.into()), |tasks| tasks.iter().any(ends_run))?;
        }
        Ok(self.failure().map_or(Ok(()), Err))
    }

    /// Until the collecting roles have ended, or all have; or one that should not has.
    fn await_end(&mut self) -> Result<Result<(), String>, Stop> {
        let plan = self.plan;
        let collecting = |task: &Task| plan.roles[task.role].collect.is_some();
        let any = self.tasks.iter().any(collecting);
        let counts = |task: &&Task| !any || collecting(task);
        let wait = plan.method.timeout;
        let done = self.pump(wait.map(Duration::from), |tasks| {
            tasks.iter().filter(counts).all(|task| !task.is_running()) || tasks.iter().any(ends_run(plan))
        })?;
        if let Some(why) = self.failure() {
            return Ok(Err(why));
        }
        if done || plan.method.endless {
            return Ok(Ok(()));
        }
        let late = self.tasks.iter().filter(counts).find(|task| task.is_running());
        let seconds = wait.unwrap_or_default().as_secs_f64();
        Ok(Err(late.map_or_else(String::new, |task| {
            self.with_last_words(task, &format!("did not end within {seconds} s"))
        })))
    }

    /// Why the run has failed, if it has.
    fn failure(&self) -> Option<String> {
        let ends_run = ends_run(self.plan);
        self.tasks.iter().find(|task| ends_run(task)).map(|task| self.describe_exit(task))
    }

    /// How a process ended, with what it said last.
    fn describe_exit(&self, task: &Task) -> String {
        match &task.state {
            State::Failed(why) => self.with_last_words(task, why),
            State::Exited { code, signal } => self.with_last_words(task, &ended_text(*code, *signal)),
            State::Running => self.with_last_words(task, "was stopped"),
        }
    }

    /// What happened to a process, with what it said last.
    fn with_last_words(&self, task: &Task, what: &str) -> String {
        let role = &self.plan.roles[task.role].name;
        let tail: Vec<&str> = task.tail.iter().map(|line| line.trim()).collect();
        let said = if tail.is_empty() { String::new() } else { format!("; it said: {}", tail.join(" | ")) };
        format!("{role} on {}: {what}{said}", self.hosts[task.host].name)
    }

    /// Ends what still runs, as each role wants it.
    fn stop_rest(&mut self) -> Result<(), Stop> {
        let mut asked = Vec::new();
        for task in self.tasks.iter_mut().filter(|task| task.is_running()) {
            task.stopped = true;
            let signal = match self.plan.roles[task.role].stop {
                StopSignal::Interrupt => SignalWord::Int,
                StopSignal::Terminate => SignalWord::Term,
                StopSignal::Kill => SignalWord::Kill,
            };
            asked.push((task.host, task.id, signal));
        }
        for (host, id, signal) in asked {
            self.fleet.send(host, Request::Signal { id, signal });
        }
        // Who does not want to go is ended by the sweep.
        self.pump(Some(STOP_WAIT), |tasks| tasks.iter().all(|task| !task.is_running()))?;
        Ok(())
    }

    /// Ends everything that runs below the agents, whoever started it.
    fn sweep(&mut self) -> Result<(), Stop> {
        self.fleet.send_all(&Request::Sweep);
        let mut swept = vec![false; self.fleet.agents.len()];
        let began = stamp();
        // What still fills the network holds the order up, too.
        let longest = SWEEP_WAIT.max(self.silence());
        while let Some(host) = (0..swept.len()).find(|host| !swept[*host] && self.why_gone(*host).is_none()) {
            if (self.interrupted)() {
                return Err(Stop::Interrupted);
            }
            if stamp().since(began) > longest {
                self.fleet.give_up(host);
                self.lose(host, "did not end what it had started".to_owned())?;
                continue;
            }
            if let Some((host, Event::Swept { left, .. })) = self.handle_next()? {
                swept[host] = true;
                if left > 0 {
                    let name = &self.hosts[host].name;
                    let told = format!("host {name}: {left} processes of the run do not end");
                    self.watch.note(&told);
                    self.unended.push(told);
                }
            }
        }
        // The ends of what was swept are told before or soon after.
        self.pump(Some(Duration::from_secs(1)), |tasks| tasks.iter().all(|task| !task.is_running()))?;
        Ok(())
    }

    /// Asks every agent for its clock some times, and keeps the reading of the shortest exchange.
    pub(super) fn measure_clocks(&mut self, exchanges: u32) -> Result<(), Stop> {
        for host in 0..self.fleet.agents.len() {
            let mut best: Option<Clock> = None;
            for _ in 0..exchanges {
                if self.why_gone(host).is_some() {
                    break;
                }
                self.clock_seq += 1;
                let seq = self.clock_seq;
                let (sent, from) = (stamp(), realtime_ns());
                self.fleet.send(host, Request::Clock { seq });
                let theirs = loop {
                    if (self.interrupted)() {
                        return Err(Stop::Interrupted);
                    }
                    match self.handle_next()? {
                        Some((who, Event::Clock { seq: got, unix_ns })) if who == host && got == seq => {
                            break Some(unix_ns);
                        }
                        _ if self.why_gone(host).is_some() => break None,
                        _ if stamp().since(sent) > self.silence() => {
                            self.fleet.give_up(host);
                            self.lose(host, "did not report its clock".to_owned())?;
                        }
                        _ => {}
                    }
                };
                let Some(theirs) = theirs else { break };
                let trip = stamp().since(sent).as_nanos();
                let ours = from + trip / 2;
                let clock = Clock { ahead_ns: theirs.wrapping_sub(ours) as i64, error_ns: trip.div_ceil(2) };
                if best.is_none_or(|best| clock.error_ns < best.error_ns) {
                    best = Some(clock);
                }
            }
            self.fleet.agents[host].clock = best.or(self.fleet.agents[host].clock);
        }
        Ok(())
    }

    /// After how much silence a host is lost.
    fn silence(&self) -> Duration {
        self.plan.method.silence.into()
    }

    fn collect(&mut self) -> RunOutcome {
        let mut run = RunRows::default();
        let mut starts: Vec<(u64, u64)> = Vec::new();
        for (number, role) in self.plan.roles.iter().enumerate() {
            let Some(how) = &role.collect else { continue };
            let mut hosts: Vec<(Part, Vec<Row>)> = Vec::new();
            for task in self.tasks.iter().filter(|task| task.role == number) {
                if task.overflow {
                    let most = OUT_BYTES_MAX.min(OUTS_BYTES_MAX / self.tasks.len());
                    return Err(self.with_last_words(task, &format!("wrote more than {most} bytes")));
                }
                let rows =
                    rows::rows(how, &task.out, &task.all).map_err(|why| self.with_last_words(task, &why))?;
                if rows.is_empty() && !self.plan.method.endless {
                    return Err(
                        self.with_last_words(task, &format!("printed no row: {}", rows::none_text(how)))
                    );
                }
                // Ours end so when figures are void, others when something went wrong.
                let void = || rows.iter().any(|row| rows::is_void(&row.row));
                if matches!(task.state, State::Exited { code: Some(VOID_CODE), .. }) && !void() {
                    return Err(self.describe_exit(task));
                }
                let clock = self.fleet.agents[task.host].clock;
                let lived = task.started_unix_ns.zip(task.ended_unix_ns);
                let host = self.hosts[task.host].name.clone();
                hosts.push((Part { host, clock, lived, ..Part::default() }, rows));
                if let (Some(at), Some(clock)) = (task.started_unix_ns, clock) {
                    // Hosts say what they like of their clocks: what makes no sense wraps.
                    starts.push((at.wrapping_sub(clock.ahead_ns as u64), clock.error_ns));
                }
            }
            run.rows.extend(merged(number, role, hosts, self.plan.merge.apart, &self.plan.merge)?);
        }
        if let (true, Some(how)) =
            (run.rows.is_empty(), self.plan.roles.iter().find_map(|r| r.collect.as_ref()))
        {
            return Err(format!("no process printed a row: {}", rows::none_text(how)));
        }
        let (first, last) = (starts.iter().map(|s| s.0).min(), starts.iter().map(|s| s.0).max());
        if let (Some(first), Some(last), true) = (first, last, starts.len() > 1) {
            run.spread_ns = Some((last - first, starts.iter().map(|s| s.1).max().unwrap_or_default()));
        }
        Ok(run)
    }
}

/// The rows of one role, those of several hosts together.
fn merged(
    number: usize,
    role: &RolePlan,
    hosts: Vec<(Part, Vec<Row>)>,
    apart: bool,
    merge: &crate::plan::MergePlan,
) -> Result<Vec<(RowPlace, Row)>, String> {
    if apart {
        let all = hosts.into_iter().flat_map(|(part, rows)| {
            rows.into_iter().map(move |mut row| {
                row.row.insert("host".to_owned(), part.host.clone().into());
                row.row.insert("role".to_owned(), role.name.clone().into());
                row
            })
        });
        return Ok(all.enumerate().map(|(index, row)| ((number, index), row)).collect());
    }
    let most = hosts.iter().map(|(_, rows)| rows.len()).max().unwrap_or_default();
    if let Some((part, rows)) = hosts.iter().find(|(_, rows)| rows.len() != most) {
        let host = &part.host;
        return Err(format!("{} on {host}: {} rows, {most} on another host", role.name, rows.len()));
    }
    let mut by_host: Vec<(Part, std::vec::IntoIter<Row>)> =
        hosts.into_iter().map(|(part, rows)| (part, rows.into_iter())).collect();
    let row = |index| {
        let same = by_host
            .iter_mut()
            .filter_map(|(part, rows)| Some(Part { row: rows.next()?, ..part.clone() }))
            .collect();
        ((number, index), merge_hosts(same, merge))
    };
    Ok((0..most).map(row).collect())
}

/// Whether the run ends with how a process has ended. Of commands that nobody made for this, one that fails leaves the others to go on.
fn ends_run(plan: &Plan) -> impl Fn(&Task) -> bool + Copy + use<> {
    let endless = plan.method.endless;
    move |task| !endless && failed(task)
}

/// It could not be started, or ended in another way than well.
fn failed(task: &Task) -> bool {
    match task.state {
        State::Running => false,
        State::Failed(_) => true,
        State::Exited { code, .. } => !task.stopped && !matches!(code, Some(0 | VOID_CODE)),
    }
}

fn ended_text(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
