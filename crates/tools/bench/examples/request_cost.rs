//! What a request costs above a bare message: two endpoints in one thread, over memory, in turns.
//!
//! ```text
//! request_cost [SLICES] [ROUND TRIPS A SLICE] [BYTES]
//! request_cost 1 10000 1024 plain        one kind alone, to count instructions
//! ```
//!
//! A plain round trip is a message and its echo by copy; the other is a request with a deadline and its response of the same bytes.

use barewire_base::Duration;
use barewire_client::requests::{Answer, Asked, Requests, Taken};
use barewire_client::{ConnectOptions, Embedded, EmbeddedConfig, Event, FlowId};
use std::error::Error;
use std::net::Ipv4Addr;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Ends {
    client: Embedded,
    server: Embedded,
    flow: FlowId,
    requests: Requests,
    body: Vec<u8>,
}

impl Ends {
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
    fn slice(&mut self, is_request: bool, count: u32) -> Outcome<f64> {
        let begin = barewire_engine::now();
        for _ in 0..count {
            if is_request { self.request()? } else { self.plain()? }
        }
        Ok(barewire_engine::now().since(begin).as_nanos() as f64 / f64::from(count))
    }
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| args.get(at).map_or(Ok(default), |arg| arg.parse());
    let (slices, count, bytes) = (number(0, 20u32)?, number(1, 20_000u32)?, number(2, 1024u32)?);
    let open = |host| Embedded::open(&EmbeddedConfig::new("mem:request-cost", Ipv4Addr::new(10, 0, 0, host)));
    let (mut client, mut server) = (open(1)?, open(2)?);
    server.listen(888, 0)?;
    let flow = client.connect("10.0.0.2:888".parse()?, &ConnectOptions::default())?;
    let body = vec![7; bytes as usize];
    let mut ends = Ends { client, server, flow, requests: Requests::new(64), body };
    let warm = count.min(1000);
    if let Some(only) = args.get(3) {
        let is_request = only == "request";
        println!("{only}: {:.0} ns", ends.slice(is_request, count)?);
        return Ok(());
    }
    ends.slice(false, warm)?;
    ends.slice(true, warm)?;
    let (mut plain, mut request) = (Vec::new(), Vec::new());
    for slice in 0..slices {
        for is_request in if slice % 2 == 0 { [false, true] } else { [true, false] } {
            let ns = ends.slice(is_request, count)?;
            if is_request { request.push(ns) } else { plain.push(ns) }
        }
    }
    let mut differences: Vec<f64> = request.iter().zip(&plain).map(|(r, p)| r - p).collect();
    for (name, all) in [("plain", &mut plain), ("request", &mut request), ("difference", &mut differences)] {
        all.sort_by(f64::total_cmp);
        println!("{name}: {:.0} ns ({:.0} to {:.0})", all[all.len() / 2], all[0], all[all.len() - 1]);
    }
    Ok(())
}
