use super::*;
use crate::run::interleave;

fn asked() -> Settings {
    Settings {
        binary: "barewire".into(),
        wire: Wire::Mem,
        size: 64,
        warmup: Duration::from_millis(5),
        seconds: Duration::from_millis(50),
        idle: IdleStrategy::Yield,
        idle_state: IdleState::Warm,
        cores: None,
        command: String::new(),
    }
}

fn row(language: Language, carrier: Carrier, ns: u64) -> Row {
    rows_of(language, carrier, &[ns])
}

fn rows_of(language: Language, carrier: Carrier, of_runs: &[u64]) -> Row {
    let measured = of_runs.iter().map(|ns| {
        let mut round_trips = Histogram::new();
        round_trips.record_n(*ns, 1_000);
        Measured::default().spans("rtt_ns", round_trips).number("rate_per_s", 1.0)
    });
    Row::of(subject(language, carrier, 1, &asked()), MEASURES, &measured.collect::<Vec<_>>())
}

/// A ratio without its range says more than was seen.
#[test]
fn ratios_have_the_least_and_the_most_of_the_runs() {
    let mut rows = vec![
        rows_of(Language::Rust, Carrier::Barewire, &[10_000, 20_000, 10_000]),
        rows_of(Language::Rust, Carrier::Tcp, &[20_000, 20_000, 40_000]),
    ];
    compare(&mut rows);
    let of_runs = rows[0].of_runs("p50_to_tcp");
    assert_eq!((rows[0].number("p50_to_tcp"), of_runs), (Some(0.5), vec![0.5, 1.0, 0.25]));
    let text = crate::render::table(&rows);
    assert!(text.contains("0.25..1.00"), "{text}");
}

#[test]
fn each_row_is_beside_rust_and_beside_its_own_tcp() {
    let mut rows = vec![
        row(Language::Rust, Carrier::Barewire, 10_000),
        row(Language::Rust, Carrier::Tcp, 30_000),
        row(Language::Go, Carrier::Barewire, 15_000),
        row(Language::Go, Carrier::Tcp, 60_000),
    ];
    compare(&mut rows);
    let of = |key: &str| rows.iter().map(|row| row.number(key)).collect::<Vec<_>>();
    let near = |got: &Option<f64>, wanted: Option<f64>| match (got, wanted) {
        (Some(got), Some(wanted)) => (got - wanted).abs() < 0.02,
        (got, wanted) => got.is_none() && wanted.is_none(),
    };
    let holds = |key: &str, wanted: [Option<f64>; 4]| of(key).iter().zip(wanted).all(|(a, b)| near(a, b));
    assert!(holds("p50_to_rust", [Some(1.0), Some(1.0), Some(1.5), Some(2.0)]), "{:?}", of("p50_to_rust"));
    assert!(holds("p50_to_tcp", [Some(0.33), None, Some(0.25), None]), "{:?}", of("p50_to_tcp"));
}

#[test]
fn a_language_that_is_not_here_says_why() {
    let empty = std::env::temp_dir().join(format!("barewire-no-packages-{}", std::process::id()));
    let mut kit = Kit::of(&empty).unwrap();
    for language in Language::OTHERS {
        let made = BindingWorkload::new(&mut kit, language, Carrier::Tcp, 1, None, asked());
        let why = made.err().unwrap();
        let says_how = why.contains("is not installed: on Debian") || why.contains("no package");
        assert!(says_how, "{language}: {why}");
        let row = missing(language, Carrier::Tcp, 1, &asked(), &why);
        assert!(!row.is_usable() && row.missing == Some(why));
        assert_eq!(language.word().parse(), Ok(language));
    }
    assert!("perl".parse::<Language>().unwrap_err().contains("there are rust, python, go"));
}

/// Rows are read elsewhere: no folder of this machine is in them.
#[test]
fn what_is_missing_is_said_without_this_machines_folders() {
    let place = std::env::temp_dir().join(format!("barewire-no-source-{}", std::process::id()));
    let assembly = place.join("nuget/barewire.0.1.0/lib/netstandard2.0/Barewire.dll");
    std::fs::create_dir_all(assembly.parent().unwrap()).unwrap();
    std::fs::write(&assembly, "").unwrap();
    std::fs::write(place.join("barewire-0.1.0.tgz"), "no archive").unwrap();
    let mut kit = Kit::of(&place).unwrap();
    kit.shown = "target/dist".to_owned();
    for language in [Language::CSharp, Language::Node] {
        let why = kit.program(language).map(|_| ()).unwrap_err();
        let temporary = std::env::temp_dir().join("barewire-kit").display().to_string();
        assert!(!why.contains(&place.display().to_string()) && !why.contains(&temporary), "{why}");
    }
    for (language, carrier) in [(Language::Node, Carrier::Grpc), (Language::Python, Carrier::Zmq)] {
        let words = ["sh", "-c", "echo no module in $PWD >&2; exit 1"].map(str::to_owned).into();
        kit.made.insert(language, Ok(program::Program { words, env: Vec::new() }));
        let why = kit.ask_for(language, carrier).unwrap_err();
        assert!(why.contains(" install ") && !why.contains("no module in"), "{why}");
    }
    std::fs::remove_dir_all(&place).unwrap();
}

/// A program that fails says what it said, and one that does not speak is no measurement.
#[test]
fn what_a_program_says_when_it_fails_is_told() {
    let mut all: Vec<Box<dyn Workload>> = Vec::new();
    for (script, _) in FAILURES {
        let words = ["sh", "-c", script].map(str::to_owned).into();
        all.push(Box::new(BindingWorkload {
            language: Language::Cpp,
            carrier: Carrier::Tcp,
            window: 1,
            hosts: None,
            program: Some(program::Program { words, env: Vec::new() }),
            asked: asked(),
        }));
    }
    let (rows, failures) = interleave(&mut all, 1, &mut |_| {}, &mut |_| {});
    assert!(rows.is_empty());
    for ((_, wanted), failure) in FAILURES.iter().zip(failures) {
        assert!(failure.to_string().contains(wanted), "{failure}");
    }
}

const FAILURES: [(&str, &str); 3] = [
    ("echo no room >&2; exit 3", "its server did not start: no room"),
    (
        "[ $0 = serve ] && echo ready 5 && exec sleep 60; echo nobody there >&2; exit 1",
        "did not measure: nobody there",
    ),
    (
        "[ $0 = serve ] && echo ready 5 && exec sleep 60; echo measured 7; echo measured 8",
        "did not measure, and said `measured 7\\nmeasured 8`",
    ),
];

#[test]
fn rust_over_tcp_is_measured() {
    let mut kit = Kit::of(&std::env::temp_dir()).unwrap();
    for window in [1, 8] {
        let mut workload =
            BindingWorkload::new(&mut kit, Language::Rust, Carrier::Tcp, window, None, asked()).unwrap();
        workload.check().unwrap();
        let measured = workload.slice(0, &Charge::start()).unwrap();
        let row = Row::of(workload.subjects().remove(0), MEASURES, &measured);
        assert!(
            row.is_usable() && row.samples() > Some(0) && row.number("rate_per_s") > Some(0.0),
            "{row:?}"
        );
    }
}

#[test]
fn what_cannot_be_run_is_refused_first() {
    let why = |size, window| {
        let mut kit = Kit::of(&std::env::temp_dir()).unwrap();
        let own = Settings { size, ..asked() };
        let workload = BindingWorkload::new(&mut kit, Language::Rust, Carrier::Tcp, window, None, own);
        workload.unwrap().check().unwrap_err().to_string()
    };
    assert!(why(0, 1).contains("1 to 65536"));
    assert!(why(64, 257).contains("1 to 256"));
}
