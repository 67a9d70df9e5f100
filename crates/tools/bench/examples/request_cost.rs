//! What a request costs above a bare message: two endpoints in one thread on one core, over memory, in turns.
//!
//! ```text
//! request_cost [SLICES] [ROUND TRIPS A SLICE] [BYTES] [--json] [--run FOLDER]
//! request_cost 1 10000 1024 plain        one kind alone, to count instructions
//! ```
//!
//! A plain round trip is a message and its echo by copy; the other is a request with a deadline and its response of the same bytes. Both go
//! over one flow of one pair of endpoints, slice by slice, and the difference is that of the two slices of a round. `--json` prints the rows
//! with the machine's fingerprint, `--run` makes a run folder of them. Both times are of both ends together, as one thread works for both.

#[path = "record/mod.rs"]
mod record;

use barewire_base::Duration;
use barewire_bench::BenchError;
use barewire_bench::cpu::Charge;
use barewire_bench::row::{Measure, Measured, Param, Row, Subject, Unit};
use barewire_bench::run::Workload;
use barewire_client::requests::{Answer, Asked, Requests, Taken};
use barewire_client::{ConnectOptions, Embedded, EmbeddedConfig, Event, FlowId};
use barewire_measure::{Contention, allowed_cores, pin_to_core, stamp};
use record::{Leave, Outcome, Words};
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::rc::Rc;

struct Ends {
    client: Embedded,
    server: Embedded,
    flow: FlowId,
    requests: Requests,
    body: Vec<u8>,
}

impl Ends {
    fn open(bytes: u32) -> Outcome<Ends> {
        let open =
            |host| Embedded::open(&EmbeddedConfig::new("mem:request-cost", Ipv4Addr::new(10, 0, 0, host)));
        let (mut client, mut server) = (open(1)?, open(2)?);
        server.listen(888, 0)?;
        let flow = client.connect("10.0.0.2:888".parse()?, &ConnectOptions::default())?;
        let body = vec![7; bytes as usize];
        Ok(Ends { client, server, flow, requests: Requests::new(64), body })
    }

    fn poll(&mut self) -> Outcome<()> {
        self.client.poll()?;
        self.server.poll()?;
        Ok(())
    }

    /// One message there, and a copy of it back.
    fn plain(&mut self) -> Outcome<()> {
        self.client.send(self.flow, &self.body)?;
        loop {
            self.poll()?;
            while let Some(event) = self.server.next_event() {
                if let Event::Message(message) = event {
                    let flow = message.flow();
                    self.server.send(flow, &self.body)?;
                    self.server.release(message);
                }
            }
            while let Some(event) = self.client.next_event() {
                if let Event::Message(message) = event {
                    self.client.release(message);
                    return Ok(());
                }
            }
        }
    }

    /// The same as a request with a deadline.
    fn request(&mut self) -> Outcome<()> {
        let now = self.client.now();
        let deadline = now + Duration::from_secs(1);
        let id = self.requests.call(now, &mut self.client, self.flow, &self.body, Some(deadline))?;
        loop {
            self.poll()?;
            while let Some(event) = self.server.next_event() {
                if let Asked::Request(request) = Asked::of(&mut self.server, event) {
                    let to = request.reply_to();
                    to.respond(&mut self.server, &self.body)?;
                    request.release(&mut self.server);
                }
            }
            while let Some(event) = self.client.next_event() {
                match self.requests.take(&mut self.client, event) {
                    Taken::Answer(answered, Answer::Response(body)) if answered == id => {
                        body.release(&mut self.client);
                        return Ok(());
                    }
                    Taken::Answer(..) | Taken::Late => return Err("another answer".into()),
                    _ => {}
                }
            }
            if let Some((_, ended)) = self.requests.poll(self.client.now(), &mut self.client) {
                return Err(format!("no answer: {ended:?}").into());
            }
        }
    }

    /// Nanoseconds for each of `count` round trips.
    fn slice(&mut self, kind: Kind, count: u32) -> Outcome<f64> {
        let begin = stamp();
        for _ in 0..count {
            match kind {
                Kind::Plain => self.plain()?,
                Kind::Request => self.request()?,
            }
        }
        Ok(stamp().since(begin).as_nanos() as f64 / f64::from(count))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Request,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Request => "request",
        }
    }
}

const TRIP: &str = "round_trip_ns";
const ABOVE: &str = "above_plain_ns";

const MEASURES: &[Measure] = &[
    Measure::cost(TRIP, "ns/round trip", "time a round trip"),
    Measure::cost(ABOVE, "above plain", "time above a plain round trip"),
];

/// One kind of round trip, over ends that both kinds have in common.
struct Trips {
    ends: Rc<RefCell<Ends>>,
    kind: Kind,
    count: u32,
    command: String,
}

impl Workload for Trips {
    fn subjects(&self) -> Vec<Subject> {
        vec![Subject {
            bench: "requests",
            system: "barewire".to_owned(),
            mode: Some("embedded-one-thread".to_owned()),
            over: Some("mem".to_owned()),
            params: vec![
                Param::word("kind", self.kind.word()),
                Param::new("size", Unit::Bytes, self.ends.borrow().body.len()),
            ],
            command: self.command.clone(),
            ..Subject::default()
        }]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        Duration::from_micros(3).saturating_mul(self.count.into())
    }

    fn slice(&mut self, _: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let watch = Contention::start();
        cpu.begins();
        let ns = self.ends.borrow_mut().slice(self.kind, self.count)?;
        cpu.ends();
        let measured = Measured::default().operations(self.count.into()).watched(&watch.finish());
        Ok(vec![measured.number(TRIP, ns)])
    }
}

/// Of each round what a request took above a plain round trip.
fn above(rows: &mut [Row]) {
    let [plain, request] = rows else { return };
    request.set_beside(ABOVE, TRIP, &plain.each_run(TRIP), |own, plain| own - plain);
}

/// The middle of all slices, the least and the most, a line for each figure.
fn lines(rows: &[Row]) -> String {
    let [plain, request] = rows else { return String::new() };
    let figures = [("plain", plain, TRIP), ("request", request, TRIP), ("difference", request, ABOVE)];
    let line = |(name, row, key): (&str, &Row, &str)| {
        let mut all = row.of_runs(key);
        all.sort_by(f64::total_cmp);
        let (first, last) = (all.first().copied().unwrap_or(0.0), all.last().copied().unwrap_or(0.0));
        format!("{name}: {:.0} ns ({first:.0} to {last:.0})\n", row.number(key).unwrap_or(0.0))
    };
    figures.map(line).concat()
}

fn main() -> Outcome<ExitCode> {
    let mut words = Words::of_command();
    let leave = Leave::of(&mut words)?;
    let args = words.rest()?;
    let number = |at: usize, usual| args.get(at).map_or(Ok(usual), |arg| arg.parse());
    let (slices, count, bytes) = (number(0, 20u32)?, number(1, 20_000u32)?, number(2, 1024u32)?);
    let mut ends = Ends::open(bytes)?;
    if let Some(only) = args.get(3) {
        let kind = if only == "request" { Kind::Request } else { Kind::Plain };
        println!("{only}: {:.0} ns", ends.slice(kind, count)?);
        return Ok(ExitCode::SUCCESS);
    }
    if slices == 0 || count == 0 {
        return Err("nothing to measure: one slice of one round trip at least".into());
    }
    // Control rows first: they use more cores than the one that everything else stays on.
    let results = leave.begin();
    if let Some(core) = allowed_cores()?.first() {
        pin_to_core(*core)?;
    }
    let warm = count.min(1000);
    ends.slice(Kind::Plain, warm)?;
    ends.slice(Kind::Request, warm)?;
    let ends = Rc::new(RefCell::new(ends));
    let command = results.fingerprint().run.command_line.clone();
    let trips = |kind| Trips { ends: Rc::clone(&ends), kind, count, command: command.clone() };
    let workloads: Vec<Box<dyn Workload>> =
        vec![Box::new(trips(Kind::Plain)), Box::new(trips(Kind::Request))];
    leave.measured("requests", workloads, slices, results, above, lines)
}
