//! What `stacks` makes of a protocol that blocks: its round trips, its CPU, and what it says of TCP beside it.

use barewire_base::Duration;
use barewire_bench::bindings::{Carrier, Settings, Wire};
use barewire_bench::row::{Measured, Row};
use barewire_bench::run::{Workload, interleave};
use barewire_bench::stacks::{Place, Serving, Stack, StackWorkload, Trips, compare};
use barewire_bench::{BenchError, IdleState};
use barewire_engine::IdleStrategy;
use barewire_measure::Histogram;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

fn other(error: io::Error) -> BenchError {
    BenchError::Other(error.into())
}

/// Bytes that come back, over sockets that block.
struct Echo;

impl Stack for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn serve(&self, at: &Place<'_>, serving: &Serving<'_>) -> Result<(), BenchError> {
        let listener = TcpListener::bind(("127.0.0.1", at.port())).map_err(other)?;
        serving.ready(listener.local_addr().map_err(other)?.port());
        let (mut stream, _) = listener.accept().map_err(other)?;
        let mut bytes = vec![0; at.size as usize];
        // Until the client goes.
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes).map_err(other)?;
        }
        Ok(())
    }

    fn ask(&self, at: &Place<'_>, server: SocketAddr, trips: &mut Trips<'_>) -> Result<(), BenchError> {
        let mut stream = TcpStream::connect(server).map_err(other)?;
        let mut bytes = vec![7; at.size as usize];
        loop {
            let sent = trips.send();
            stream.write_all(&bytes).map_err(other)?;
            stream.read_exact(&mut bytes).map_err(other)?;
            if !trips.record(sent)? {
                return Ok(());
            }
        }
    }
}

fn workload(carrier: Carrier, size: u32, idle_state: IdleState) -> StackWorkload {
    let asked = Settings {
        binary: "barewire".into(),
        wire: Wire::Mem,
        size,
        warmup: Duration::from_millis(20),
        seconds: Duration::from_millis(100),
        idle: IdleStrategy::default(),
        idle_state,
        cores: None,
        command: "stacks".to_owned(),
    };
    StackWorkload::new(Arc::new(Echo), carrier, None, asked)
}

#[test]
fn what_cannot_be_run_is_said() {
    let why = |workload: StackWorkload| workload.check().unwrap_err().to_string();
    let warm = IdleState::Warm;
    assert!(why(workload(Carrier::Zmq, 64, warm)).contains("not over zmq"));
    assert!(why(workload(Carrier::Tcp, 0, warm)).contains("1 to 65536"));
    assert!(workload(Carrier::Tcp, 1, warm).check().is_ok());
}

#[test]
fn a_run_has_its_round_trips_and_the_cpu_of_both_ends() {
    let mut all: Vec<Box<dyn Workload>> = vec![Box::new(workload(Carrier::Tcp, 64, IdleState::Cold))];
    let (rows, failed) = interleave(&mut all, 2, &mut |_| {}, &mut |_| {});
    assert!(failed.is_empty(), "{failed:?}");
    let row = &rows[0];
    assert_eq!(row.subject.title(), "kernel-tcp epoll over loopback, echo, 64 B");
    assert!(row.samples() > Some(10) && row.runs.len() == 2, "{row:?}");
    assert!(row.number("cpu_ns_per_op") > Some(0.0) && row.number("rate_per_s") > Some(10.0), "{row:?}");
    // The warm-up is charged and not counted, so that its responses are in neither alone.
    assert!(!row.notes.iter().any(|note| note.contains("sets a run up")), "{:?}", row.notes);
}

#[test]
fn rows_stand_beside_tcp_of_the_same_state() {
    let row = |carrier, state, p50_ns: u64| {
        let mut times = Histogram::new();
        (0..100).for_each(|_| times.record(p50_ns));
        let of = workload(carrier, 64, state);
        Row::of(of.subjects().remove(0), of.measures(), &[Measured::default().spans("rtt_ns", times)])
    };
    let (warm, cold) = (IdleState::Warm, IdleState::Cold);
    let mut rows = [
        row(Carrier::Barewire, warm, 10_000),
        row(Carrier::Tcp, warm, 20_000),
        row(Carrier::Barewire, cold, 90_000),
        row(Carrier::Tcp, cold, 30_000),
    ];
    compare(&mut rows);
    let beside = rows.each_ref().map(|row| row.number("p50_to_tcp"));
    assert_eq!(beside, [Some(0.5), None, Some(3.0), None]);
}
