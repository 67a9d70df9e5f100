//! `barewire feed run` and `record`: live feed channels.

use super::live::{self, State, Watched};
use super::show;
use super::{Channels, seconds};
use crate::console::{self, Console};
use crate::failure::{Code, Failure};
use crate::signals;
use crate::verb::measured::{Void, machine, warn_of_debug_build};
use crate::verb::metrics::Endpoint;
use anyhow::Context as _;
use barewire_base::Duration;
use barewire_bench::feed::receive::{self, Reception, Timed};
use barewire_bench::render::table;
use barewire_bench::{Results, interrupted};
use barewire_engine::{EngineConfig, EngineError, StopFlag, now};
use barewire_feed::Listener;
use barewire_feed_handler::print::{self, Printer, Show};
use barewire_feed_handler::{
    Consumer, FeedChannel, FeedCounters, FeedHandler, FeedHandlerBuilder, Input, Plan, RecordPlan,
    SourceError,
};
use barewire_report::run::HardwareClass;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Between two looks at the clock and the flag that somebody interrupted.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// Arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --each the books are printed at the end. Exit code 1 when --truth is given and a book differs from it.

Measured, with the exchange on another host:
  host 2:  barewire feed run --interface eth0 --seconds 8 --measure --warmup 1 --json
  host 1:  barewire feed emulate --interface eth0 --seconds 5 --events-per-s 5000")]
pub struct Args {
    #[command(flatten)]
    channels: Channels,
    /// Stop after this many seconds instead of at Ctrl-C
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
    /// Print every book at the end of each event that changed it, and every trade
    #[arg(long)]
    each: bool,
    /// The emulator's truth file; the books are compared with it at the end
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Also write the packets into a capture
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Draw books, gaps and latencies on the terminal while it runs
    #[arg(long, conflicts_with_all = ["each", "json"])]
    live: bool,
    /// Instead of books, print packet latencies from the receive stamp (t3) and from the engine (t4) to the callback (t5), and losses and recoveries
    #[arg(long, conflicts_with_all = ["each", "live"])]
    measure: bool,
    /// Measure: do not time packets in this many seconds after the first
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", requires = "measure")]
    warmup: Duration,
    /// Measure: HDR histograms in the rows of the JSON object
    #[arg(long, requires_all = ["measure", "json"])]
    histograms: bool,
    /// Name of the counters page that `barewire stat` reads; `none`: no page
    #[arg(long, value_name = "NAME", default_value = "feed")]
    counters: String,
    #[command(flatten)]
    metrics: Endpoint,
    /// A JSON object for each book
    #[arg(long)]
    json: bool,
}

/// Arguments of `record`.
#[derive(clap::Args)]
pub struct RecordArgs {
    #[command(flatten)]
    channels: Channels,
    /// The capture (pcap with nanoseconds)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Start a new file at this size in bytes; 0: never
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    rotate_bytes: u64,
    /// Stop after this many seconds instead of at Ctrl-C
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,
}

/// Runs feed channels.
///
/// # Errors
/// What cannot be opened, or failed later.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let mut plan = args.channels.plan()?;
    if let Some(path) = &args.record {
        plan.record = Some(RecordPlan { path: path.clone(), rotate_bytes: 0 });
    }
    if args.measure {
        return measure(args, plan, console);
    }
    if args.live {
        live::check()?;
    }
    let show = Show { each: args.each, json: args.json, quiet: console.is_quiet() || args.live };
    let picture = args.live.then(Arc::<Mutex<State>>::default);
    let counters = if args.counters == "none" { None } else { Some(args.counters.as_str()) };
    if counters.is_none() && args.metrics.is_wanted() {
        return Err(
            Failure::new(Code::Usage, "--metrics reads the counters page, and --counters is none").into()
        );
    }
    let handler = received(
        plan.clone(),
        args.seconds,
        picture.as_ref(),
        counters,
        args.metrics,
        console,
        print::run,
        |builder| {
            builder.listen(|_, channel| {
                let mut printer = Printer::new(show, channel.id);
                let live = picture.as_ref().map(|state| Watched::new(state, channel.id));
                printer.live = live.map(|live| Box::new(live) as Box<dyn Listener>);
                printer
            })
        },
    )?;
    let channels: Vec<_> = plan.channels.iter().map(|c| c.id).zip(handler.channels()).collect();
    show::end(&channels, show, console)?;
    show::judge(args.truth.as_deref(), &channels, console)
}

/// Receives, and times what comes.
fn measure(args: &Args, plan: Plan, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    let mut results = Results::begin();
    let engine = match &plan.input {
        Input::Sockets(_) => "socket".to_owned(),
        Input::Ports(ports) => ports.port_a.split(':').next().unwrap_or("port").to_owned(),
    };
    let ids: Vec<u32> = plan.channels.iter().map(|channel| channel.id).collect();
    let (bytes, warmup) = (plan.packet_bytes_max(), args.warmup);
    let counters = if args.counters == "none" { None } else { Some(args.counters.as_str()) };
    let reception = Reception::begin();
    let handler =
        received(plan, args.seconds, None, counters, args.metrics, console, receive::run, |builder| {
            builder.try_build(|_, channel| {
                Ok(Timed::new(warmup, |heard| FeedChannel::new(channel, bytes, now(), heard))?)
            })
        })?;
    let timed = handler.channels();
    let rows = reception.end(timed, &ids, &engine, &results.fingerprint().run.command_line);
    let void = Void::of(&rows);
    results.add(&rows)?;
    if args.json {
        // What lies between the hosts is not known here.
        console::print(&results.document(HardwareClass::Unknown, args.histograms, &[])?)?;
    } else {
        console::print(&format!("{}\nMeasured on: {}", table(&rows), machine(results.fingerprint())))?;
    }
    if let Some(path) = &args.truth {
        let cores: Vec<_> = ids.iter().copied().zip(timed.iter().map(|t| t.channel().core())).collect();
        let code = show::confirm(path, &cores, console)?;
        if code != Code::Done {
            return Ok(code);
        }
    }
    if void.rows > 0 {
        console.note(&void.text());
        return Ok(Code::Void);
    }
    Ok(Code::Done)
}

/// Records feed channels.
///
/// # Errors
/// What cannot be opened, or failed later.
pub fn record(args: &RecordArgs, console: &Console) -> anyhow::Result<Code> {
    let mut plan = args.channels.plan()?;
    plan.record = Some(RecordPlan { path: args.out.clone(), rotate_bytes: args.rotate_bytes });
    let quiet = Show { quiet: true, ..Show::default() };
    let handler = received(plan, args.seconds, None, None, Endpoint::NONE, console, print::run, |builder| {
        builder.listen(|_, channel| Printer::new(quiet, channel.id))
    })?;
    if let Some(recorder) = handler.recorder() {
        let counts = recorder.counts();
        console.tell(&format!("{}: {counts:?}", args.out.display()));
    }
    Ok(Code::Done)
}

/// [`FeedHandler::run`], compiled where packets are not to pay for the size of this program.
type Run<C> = fn(FeedHandler<C>, EngineConfig, &StopFlag) -> Result<FeedHandler<C>, EngineError>;

/// Receives until the time is over or a signal comes.
#[expect(clippy::too_many_arguments, reason = "what one reception needs")]
fn received<C: Consumer + 'static>(
    plan: Plan,
    time: Option<Duration>,
    picture: Option<&Arc<Mutex<State>>>,
    counters: Option<&str>,
    metrics: Endpoint,
    console: &Console,
    run: Run<C>,
    build: impl FnOnce(FeedHandlerBuilder) -> Result<FeedHandler<C>, SourceError>,
) -> anyhow::Result<FeedHandler<C>> {
    signals::catch()?;
    for channel in &plan.channels {
        let lines: Vec<String> =
            channel.received().map(|c| format!("{}{} {}", c.feed.letters(), c.side, c.to)).collect();
        console.note(&format!("feed channel {}: {}", channel.id, lines.join(", ")));
    }
    let config = plan.engine_config();
    let stop = StopFlag::new()?;
    let mut builder = FeedHandler::builder(plan).stop_at_end(stop.clone());
    let mut page = None;
    match counters.map(|name| (name, FeedCounters::create(name))) {
        Some((name, Ok(counters))) => {
            builder = builder.publish_to(counters);
            page = Some(name);
        }
        // The books are what was asked for; somebody else's page is no reason to go without.
        Some((_, Err(why))) => {
            console.note(&format!("no counters page: {why} (another name: `--counters NAME`)"));
        }
        None => {}
    }
    let metrics = page.map(|name| metrics.start(name, console)).transpose()?;
    let handler = build(builder)?;
    let end = time.map(|time| now() + time);
    let done = AtomicBool::new(false);
    let (handler, drawn) = std::thread::scope(|scope| {
        let drawing = picture.map(|state| scope.spawn(|| live::draw_until(&done, state)));
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if interrupted() || end.is_some_and(|end| now() >= end) {
                    stop.stop();
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        let handler = run(handler, config, &stop);
        done.store(true, Ordering::Relaxed);
        (handler, drawing.and_then(|drawing| drawing.join().ok()))
    });
    drop(metrics);
    drawn.unwrap_or(Ok(())).context("drawing")?;
    let handler = handler?;
    match handler.failure() {
        Some(failure) => Err(anyhow::anyhow!("{failure}")),
        None => Ok(handler),
    }
}
