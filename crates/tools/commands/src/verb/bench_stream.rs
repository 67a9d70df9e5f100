//! `barewire bench stream`: what lies between two hosts, by streams over the kernel's sockets.

use super::measured::{self, Ended, OutputArgs, seconds, tables_text};
use crate::console::Console;
use crate::failure::{Code, Failure};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::render::table;
use barewire_bench::run::{Workload, interleave};
use barewire_bench::stream::client::ClientConfig;
use barewire_bench::stream::{Interval, PORT, Protocol, StreamError, Streams, server};
use barewire_bench::{Results, TalkError};
use barewire_report::run::HardwareClass;
use clap::ValueEnum;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
The receiver counts, by its own clock. TCP streams send as fast as they can, and so do datagrams unless --rate paces them; the row is \
then void if the sender could not keep the pace. A server serves any number of clients, one after another or at once.

  host 2:  barewire bench stream -s
  host 1:  barewire bench stream -c 10.0.0.2 --seconds 5 --runs 5 --json
  host 1:  barewire bench stream -c 10.0.0.2 --protocol udp --rate 50000 --size 18

`-s` is `--role server`, `-c HOST` is `--role client --server HOST`.")]
pub struct Args {
    /// Which end this is
    #[arg(long, value_enum, required_unless_present_any = ["serves", "server"])]
    role: Option<End>,
    /// Be the server
    #[arg(short = 's', long = "serve", conflicts_with_all = ["role", "server"])]
    serves: bool,
    /// Server: address, or address and port, to listen on [default: all addresses]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = at, conflicts_with = "server")]
    listen: Option<SocketAddr>,
    /// Client: the server's address, or address and port
    #[arg(long, short = 'c', visible_alias = "connect", value_name = "HOST[:PORT]", value_parser = at, required_if_eq("role", "client"))]
    server: Option<SocketAddr>,
    /// Client: our own address, if there are several
    #[arg(long, value_name = "ADDR")]
    from: Option<IpAddr>,
    /// Client: tcp, udp
    #[arg(long, default_value = "tcp")]
    protocol: Protocol,
    /// Client: parallel streams
    #[arg(long, default_value_t = 1)]
    streams: u32,
    /// Client: bytes of a datagram's payload (18: the shortest frame)
    #[arg(long, default_value_t = 18)]
    size: usize,
    /// Client: datagrams per second, over all streams [default: as fast as possible]
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<u64>,
    /// Client: measured time of a run
    #[arg(long, default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Client: warm-up before it
    #[arg(long, default_value = "0.5", value_parser = seconds, value_name = "SECONDS")]
    warmup: Duration,
    /// Client: time between two reports
    #[arg(long, default_value = "1", value_parser = seconds, value_name = "SECONDS")]
    interval: Duration,
    /// Client: runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Client: offloads of the hosts, for the row; sets nothing
    #[arg(long, value_enum)]
    offloads: Option<Switched>,
    /// Client: the system under test between the hosts, for the row
    #[arg(long, default_value = "kernel", value_name = "NAME")]
    system: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    /// Receives, and counts
    Server,
    /// Sends
    Client,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switched {
    /// As the kernel has them
    On,
    /// No checksum or segmentation offload
    Off,
}

fn at(text: &str) -> Result<SocketAddr, String> {
    crate::address::endpoint_or(text, PORT)
}

/// Runs it.
///
/// # Errors
/// When nothing can be listened on, or measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    signals::catch()?;
    let Some(server) = args.server.filter(|_| args.role != Some(End::Server)) else {
        return serve(args, console);
    };
    let config = ClientConfig {
        server,
        from: args.from,
        protocol: args.protocol,
        streams: args.streams,
        size: args.size,
        rate: args.rate,
        duration: args.seconds,
        warmup: args.warmup,
        interval: args.interval,
    };
    config.check().map_err(of_stream)?;
    let mut results = Results::begin();
    let tell = &mut |interval: &Interval| {
        let datagrams = interval.datagrams_per_s.map_or(String::new(), |pps| format!(", {pps} datagrams/s"));
        let Interval { from_s, to_s, mbps, .. } = interval;
        console.tell(&format!("{from_s:.1} to {to_s:.1} s: {mbps} Mbit/s{datagrams}"));
    };
    let streams = Streams {
        config,
        system: args.system.clone(),
        offloads: args.offloads.map(|switched| switched == Switched::On),
        command: results.fingerprint().run.command_line.clone(),
        tell,
    };
    // What lies between the hosts is not known here.
    let so_far = args.output.so_far("stream", &results, HardwareClass::Unknown);
    let mut all: [Box<dyn Workload + '_>; 1] = [Box::new(streams)];
    let (rows, failures) = interleave(&mut all, args.runs, &mut |_| {}, &mut |rows| so_far.keep(rows));
    let failures: Vec<anyhow::Error> = failures.into_iter().map(measured::of_bench).collect();
    results.add(&rows)?;
    let text = || tables_text(&[table(&rows)], &results);
    args.output.end(&results, "stream", HardwareClass::Unknown, &[], console, text)?;
    so_far.end();
    Ok(Ended::default().and(&rows).conclude(&failures, console))
}

/// Serves until somebody interrupts.
fn serve(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let at = args.listen.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)));
    let mut ready = |at: SocketAddr| console.tell(&format!("receiving on {at}, TCP and UDP; Ctrl-C ends it"));
    server::serve(at, &mut ready, &AtomicBool::new(false)).map_err(of_stream)?;
    Ok(Code::Done)
}

/// What an error of streams means here.
pub fn of_stream(error: StreamError) -> anyhow::Error {
    let code = match &error {
        StreamError::Plan(_) => Code::Usage,
        StreamError::Interrupted => Code::Interrupted,
        StreamError::Io { what, .. } if what.starts_with("listening") => Code::Unfit,
        _ => Code::Failed,
    };
    let text = error.to_string();
    match &error {
        StreamError::Talk(TalkError::Unreachable { server, .. }) => Failure::new(code, text)
            .hint(format!("on the other host: barewire bench stream -s --listen {}", server.ip()))
            .into(),
        StreamError::Talk(TalkError::Words | TalkError::Version(_)) => {
            Failure::new(code, text).hint("is it another program's port, or another version?").into()
        }
        _ => Failure::new(code, text).into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{Bench, Cli, Verb};
    use clap::Parser as _;

    #[test]
    fn an_end_is_named_by_its_role_or_by_a_letter() {
        let is_client = |words: &str| {
            let words = ["barewire", "bench", "stream"].into_iter().chain(words.split(' '));
            match Cli::try_parse_from(words).ok()?.verb {
                Verb::Bench { what: Bench::Stream(args) } => {
                    Some(args.server.is_some() && args.role != Some(super::End::Server))
                }
                _ => None,
            }
        };
        for (words, wanted) in [
            ("-s", Some(false)),
            ("--serve", Some(false)),
            ("--connect 10.0.0.2", Some(true)),
            ("--role server --listen 10.0.0.2", Some(false)),
            ("-c 10.0.0.2", Some(true)),
            ("--role client --server 10.0.0.2:99", Some(true)),
            ("-s -c 10.0.0.2", None),
            ("--role client", None),
            ("--protocol udp", None),
        ] {
            assert_eq!(is_client(words), wanted, "{words}");
        }
    }
}
