//! Rows of the four programs in one command: what `demo` and `bench published` measure, one program after the other.

use super::bench_feed;
use super::measured::{self, Ended, Measured, SoFar};
use barewire_bench::published::plan::Program;
use barewire_bench::row::Row;
use barewire_bench::switch::Told;
use barewire_bench::{Cell, Results, ResultsError, Ticker, feed, rdma, switch};

/// What was measured, and why a part of it was not.
#[derive(Default)]
pub struct Programs {
    /// Messages, one or some in flight.
    pub messages: Vec<Row>,
    /// Messages at given loads.
    pub sweep: Vec<Row>,
    /// Switches.
    pub switches: Vec<Row>,
    /// Market data.
    pub feeds: Vec<Row>,
    /// RDMA connections.
    pub connections: Vec<Row>,
    /// Of which program, and why.
    pub failures: Vec<(Program, anyhow::Error)>,
}

impl Programs {
    /// All rows, in the order of programs.
    ///
    /// # Errors
    /// [`ResultsError`].
    pub fn add_to(&self, results: &mut Results) -> Result<(), ResultsError> {
        results.add(&self.messages)?;
        results.add(&self.sweep)?;
        results.add(&self.switches)?;
        results.add(&self.feeds)?;
        results.add(&self.connections)
    }

    /// How all rows ended.
    pub fn ended(&self) -> Ended {
        let ended = Ended::default().and(&self.messages).and(&self.sweep).and(&self.switches);
        ended.of_cells(&self.feeds, bench_feed::broken_off(&self.feeds)).and(&self.connections)
    }

    /// What failed, whatever it was of.
    pub fn errors(self) -> Vec<anyhow::Error> {
        self.failures.into_iter().map(|(_, error)| error).collect()
    }
}

/// Measures them, tells of it, and keeps the rows so far.
pub struct Measuring<'a> {
    /// What runs now.
    pub ticker: &'a mut Ticker,
    /// Where rows are kept.
    pub so_far: SoFar,
    /// What there is.
    pub rows: Programs,
}

impl Measuring<'_> {
    /// Messages: the rows of cells that ran.
    pub fn messages(&mut self, cells: &mut [Box<dyn Cell>], runs: u32) -> Vec<Row> {
        let so_far = &self.so_far;
        let measured = Measured::run(cells, runs, self.ticker, &mut |rows| so_far.keep(rows));
        self.so_far.add(&measured.rows);
        let failures = measured.failures.into_iter().map(|error| (Program::Messages, error));
        self.rows.failures.extend(failures);
        measured.rows
    }

    /// A switch.
    pub fn switch(&mut self, request: &switch::plan::Request) {
        let Measuring { ticker, so_far, .. } = self;
        let keep = &mut |rows: &[Row]| so_far.keep(rows);
        let (rows, failed) = request.run(Told { tell: &mut |line| ticker.step(&line), keep });
        self.so_far.add(&rows);
        self.rows.switches.extend(rows);
        self.failed(Program::Switch, failed);
    }

    /// A feed handler.
    pub fn feed(&mut self, request: &feed::plan::Request) {
        let Measuring { ticker, so_far, .. } = self;
        let (rows, failed) = request.run(&mut |line| ticker.step(&line), &mut |rows| so_far.keep(rows));
        self.so_far.add(&rows);
        self.rows.feeds.extend(rows);
        self.failed(Program::Feed, failed);
    }

    /// RDMA connections.
    pub fn connections(&mut self, request: &rdma::plan::Request) {
        let Measuring { ticker, so_far, .. } = self;
        let (rows, failed) = request.run(&mut |line| ticker.step(&line), &mut |rows| so_far.keep(rows));
        self.so_far.add(&rows);
        self.rows.connections.extend(rows);
        self.failed(Program::Connections, failed);
    }

    fn failed(&mut self, program: Program, failed: Vec<barewire_bench::BenchError>) {
        self.rows.failures.extend(failed.into_iter().map(|error| (program, measured::of_bench(error))));
    }
}
