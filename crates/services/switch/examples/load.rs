//! From P4-16 source to the first packet, stage by stage: a first look, not a measurement. Give a file, and how often (1 by
//! default; the least of each stage is shown).

use barewire_p4_source::{Diagnostics, Options, SourceMap, parse, types};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::harness::Harness;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::source::Files;
use std::sync::Arc;

const STAGES: [&str; 7] =
    ["parse", "check", "lower", "write JSON", "prepare", "first packet", "machine code after"];

fn once(path: &str, least: &mut [u64; STAGES.len()]) {
    let mut stage = 0;
    let mut begin = barewire_engine::now();
    let mut done = || {
        let now = barewire_engine::now();
        least[stage] = least[stage].min(now.as_nanos() - begin.as_nanos());
        (stage, begin) = (stage + 1, now);
    };
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, &Files, &Options::default(), path, &mut found);
    done();
    let typed = types::check(&source, &map, &mut found);
    assert_eq!(found.error_count(), 0, "`barewire switch check` says why");
    done();
    let name = path.rsplit('/').next().unwrap_or(path);
    let program = barewire_p4_lower::lower(&source, &typed, &map, name).expect("it runs here");
    done();
    let json = barewire_p4_formats::export::export_compact(&program).map_or(0, |json| json.len());
    done();
    let prepared = Arc::new(Prepared::deferred(Arc::new(program), EngineKind::Native).expect("it compiles"));
    done();
    let mut harness = Harness::new(Arc::clone(&prepared), TargetConfig::default()).expect("a switch");
    harness.send(1, &[0; 64]);
    done();
    prepared.wait().expect("it compiles");
    done();
    std::hint::black_box(json);
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a file of P4-16 source");
    let times: u32 = args.next().and_then(|times| times.parse().ok()).unwrap_or(1);
    let mut least = [u64::MAX; STAGES.len()];
    (0..times.max(1)).for_each(|_| once(&path, &mut least));
    for (stage, ns) in STAGES.iter().zip(least) {
        println!("{stage:<20}{:>10.2} ms", ns as f64 / 1e6);
    }
    let until = least[..STAGES.len() - 1].iter().sum::<u64>();
    println!("{:<20}{:>10.2} ms", "to the first packet", until as f64 / 1e6);
}
