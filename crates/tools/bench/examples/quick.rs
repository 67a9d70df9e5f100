use barewire_base::Duration;
use barewire_bench::embedded::*;
use barewire_bench::interleave::interleave;
use barewire_bench::kernel::*;
use barewire_bench::*;
use std::sync::Arc;
fn main() {
    let secs: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let which = std::env::args().nth(2).unwrap_or("mem".into());
    let w = |window| MsgWorkload {
        size: 1024,
        window,
        duration: Duration::from_secs(secs),
        warmup: Duration::from_millis(200),
        ..Default::default()
    };
    let mut cells: Vec<Box<dyn Cell>> = vec![];
    let cores = Some((0, 1));
    let hosts = if which == "mem" {
        None
    } else {
        Some(Arc::new(
            barewire_lab::TwoHosts::create(&barewire_lab::TwoHostsConfig {
                twin: Some(Default::default()),
                ..Default::default()
            })
            .unwrap(),
        ))
    };
    for window in [1, 32] {
        match &hosts {
            None => {
                cells.push(Box::new(EmbeddedCell::new(
                    Wires::Mem,
                    Idle::Spin,
                    cores,
                    w(window),
                    IdleState::Warm,
                    String::new(),
                )));
                cells.push(Box::new(EmbeddedCell::new(
                    Wires::MemOneThread,
                    Idle::Spin,
                    cores,
                    w(window),
                    IdleState::Warm,
                    String::new(),
                )));
            }
            Some(h) => {
                cells.push(Box::new(EmbeddedCell::new(
                    Wires::Veth {
                        hosts: h.clone(),
                        scheme: which.clone(),
                        options: std::env::args().nth(3).unwrap_or_default(),
                    },
                    Idle::Spin,
                    cores,
                    w(window),
                    IdleState::Warm,
                    String::new(),
                )));
                cells.push(Box::new(KernelCell::new(
                    Protocol::Tcp,
                    Waiting::Spin,
                    Ends::hosts(h),
                    cores,
                    w(window),
                    IdleState::Warm,
                    String::new(),
                )));
                cells.push(Box::new(KernelCell::new(
                    Protocol::Tcp,
                    Waiting::Blocking,
                    Ends::hosts(h),
                    cores,
                    w(window),
                    IdleState::Cold,
                    String::new(),
                )));
            }
        }
    }
    let out = interleave(&mut cells, 2, &mut Silent);
    for o in &out {
        if let Some(e) = &o.failed {
            println!("FAILED: {e}");
        }
    }
    let rows: Vec<Row> = out.into_iter().map(|o| o.row).collect();
    print!("{}", render::text_table(&rows));
}
