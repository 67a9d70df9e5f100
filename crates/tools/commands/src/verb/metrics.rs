//! `barewire metrics`, and the option `--metrics` of what runs for long.

use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use barewire_bench::interrupted;
use barewire_metrics::{Format, MetricsServer, Page, Which, dashboard, render};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Between two looks at the flag that a signal came.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Reads the counters pages of running engines, at no cost to them. GET /metrics returns Prometheus text, or OpenMetrics to clients that accept it.
  barewire metrics --listen 9464                 on the loopback
  barewire metrics --once | grep drops
  barewire metrics --grafana > dashboard.json")]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct Args {
    /// Serve metrics at this address until a signal comes; a port alone listens on the loopback
    #[arg(long, value_name = "ADDR:PORT", value_parser = address, group = "what")]
    listen: Option<SocketAddr>,
    /// Print one scrape
    #[arg(long, group = "what")]
    once: bool,
    /// Print a Grafana dashboard of all counters
    #[arg(long, group = "what")]
    grafana: bool,
    /// Only this engine, even if it is dead; may be repeated [default: all that run]
    #[arg(long)]
    name: Vec<String>,
    /// With --once: OpenMetrics instead of Prometheus' own text
    #[arg(long, conflicts_with_all = ["listen", "grafana"])]
    openmetrics: bool,
}

/// The option of verbs that run for long.
#[derive(Clone, Copy, clap::Args)]
pub struct Endpoint {
    /// Serve Prometheus metrics at this address; a port alone listens on the loopback
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    metrics: Option<SocketAddr>,
}

impl Endpoint {
    /// None.
    pub const NONE: Endpoint = Endpoint { metrics: None };

    /// Whether one is wanted.
    pub fn is_wanted(self) -> bool {
        self.metrics.is_some()
    }

    /// Starts it for the page of this name, if it is wanted. It ends when what is given back is dropped.
    ///
    /// # Errors
    /// When nobody can listen there.
    pub fn start(self, name: &str, console: &Console) -> anyhow::Result<Option<MetricsServer>> {
        self.metrics.map(|address| listen(address, Which::Named(vec![name.to_owned()]), console)).transpose()
    }
}

/// `9464`, `:9464`, `127.0.0.1:9464`, `[::1]:9464`.
///
/// # Errors
/// In words.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| {
        format!("'{text}' is not an ADDR:PORT, such as 127.0.0.1:9464, [::1]:9464, or 9464 for the loopback")
    })
}

fn listen(address: SocketAddr, which: Which, console: &Console) -> anyhow::Result<MetricsServer> {
    let server = MetricsServer::start(address, which).map_err(|e| {
        Failure::new(Code::Failed, e.to_string()).hint("another port, or 0 for any that is free")
    })?;
    console.note(&format!("metrics at http://{}/metrics", server.address()));
    if !server.address().ip().is_loopback() {
        console.note("anyone who can reach that address can read them: there is no password");
    }
    Ok(server)
}

/// Runs it.
///
/// # Errors
/// When nobody can listen there, or stdout fails.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let which = if args.name.is_empty() { Which::All } else { Which::Named(args.name.clone()) };
    if args.grafana {
        print(&dashboard())?;
    } else if let Some(address) = args.listen {
        crate::signals::catch()?;
        let server = listen(address, which, console)?;
        while !interrupted() {
            std::thread::sleep(LOOK_EVERY);
        }
        drop(server);
        console.note("stopped");
    } else {
        let pages = Page::look_at(&which);
        if pages.pages.is_empty() {
            let missing = if args.name.is_empty() {
                "no engine runs here".to_owned()
            } else {
                format!("no counters page `{}`", args.name.join("`, `"))
            };
            return Err(Failure::new(Code::Failed, missing)
                .hint("`barewire up` starts one; `barewire stat` lists their names")
                .into());
        }
        print(&render(&pages, if args.openmetrics { Format::OpenMetrics } else { Format::Prometheus }))?;
    }
    Ok(Code::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_host_is_the_loopback() {
        for (text, wanted) in [
            ("9464", "127.0.0.1:9464"),
            (":0", "127.0.0.1:0"),
            ("[::1]:7", "[::1]:7"),
            ("0.0.0.0:1", "0.0.0.0:1"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), wanted);
        }
        for text in ["", ":", "localhost:9464", "1.2.3.4", "99999", "-1"] {
            assert!(address(text).unwrap_err().contains("such as"), "{text}");
        }
    }
}
