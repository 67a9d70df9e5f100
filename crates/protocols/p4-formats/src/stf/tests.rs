//! The language, its mistakes, and its comparisons.

use super::*;

fn one(text: &str) -> Command {
    let lines = parse(text).unwrap();
    assert_eq!(lines.len(), 1, "{text}");
    lines[0].command.clone()
}

fn number(base: u32, digits: &str) -> Number {
    Number { base, digits: digits.to_owned() }
}

#[test]
fn commands() {
    let text = "ADD test2 100 data.f2:0x0404 hdr.s[1].x:5/3 data.$valid:0b1 c4(val4:0x40, port:2) = A  # why";
    let Command::Add { table, priority, key, action, id } = one(text) else { panic!("no add") };
    assert_eq!((table.as_str(), priority, id.as_deref()), ("test2", Some(100), Some("A")));
    assert_eq!(key[0], ("data.f2".to_owned(), KeyValue::Number(number(16, "0404"))));
    assert_eq!(key[1], ("hdr.s[1].x".to_owned(), KeyValue::Prefix(number(10, "5"), number(10, "3"))));
    assert_eq!(key[2].0, "data.$valid");
    assert_eq!(action.name, "c4");
    assert_eq!(action.args, [("val4".to_owned(), number(16, "40")), ("port".to_owned(), number(10, "2"))]);
    let Command::Add { key, .. } = one("add t a:0x12**34 b:1->5 c:0x1&&&0xf0 d:0b1*0 a.b()") else {
        panic!()
    };
    assert!(
        matches!(&key[0].1, KeyValue::Number(n) if n.has_wildcards() && n.mask(32) == BigUint::from(0xff00ff_u32))
    );
    assert_eq!(key[1].1, KeyValue::Range(number(10, "1"), number(10, "5")));
    assert_eq!(key[2].1, KeyValue::Masked(number(16, "1"), number(16, "f0")));
    assert!(matches!(&key[3].1, KeyValue::Number(n) if n.mask(3) == BigUint::from(0b101_u32)));
    assert_eq!(one("packet 7 01 2\t3 # x"), Command::Packet { port: 7, bytes: vec![0x01, 0x23] });
    assert_eq!(one("expect 5"), Command::Expect { port: 5, pattern: None });
    let pattern = |nibbles: &[Option<u8>], exact| Some(Pattern { nibbles: nibbles.to_vec(), exact });
    assert_eq!(one("expect 5 *1$"), Command::Expect { port: 5, pattern: pattern(&[None, Some(1)], true) });
    assert_eq!(one("expect 5 $"), Command::Expect { port: 5, pattern: pattern(&[], true) });
    assert_eq!(one("wait"), Command::Wait);
    assert_eq!(one("Remove ALL"), Command::RemoveAll);
    assert_eq!(
        one("setdefault t a()"),
        Command::SetDefault {
            table: "t".to_owned(),
            action: ActionText { name: "a".to_owned(), args: vec![] }
        }
    );
    assert_eq!(
        one("check_counter cnt($A) packets == 3"),
        Command::CheckCounter {
            counter: "cnt".to_owned(),
            index: CounterIndex::Entry("A".to_owned()),
            check: Some((CounterUnit::Packets, Comparison::Equal, 3)),
        }
    );
    assert_eq!(
        one("check_counter cnt(10)"),
        Command::CheckCounter { counter: "cnt".to_owned(), index: CounterIndex::Index(10), check: None }
    );
    assert_eq!(one("mirroring_add_mc 9 4"), Command::MirroringAddMc { session: 9, group: 4 });
    assert_eq!(one("mc_node_create 257 8 9"), Command::McNodeCreate { rid: 257, ports: vec![8, 9] });
    assert_eq!(
        one("register_write c.regfile 5 0x100"),
        Command::RegisterWrite { register: "c.regfile".to_owned(), index: 5, value: BigUint::from(256_u32) }
    );
    let rates = vec![MeterRate { per_us: 0.000_005, burst: 4 }, MeterRate { per_us: 2.0, burst: 5 }];
    assert_eq!(
        one("meter_set_rates m 2 0.000005:4 2:5"),
        Command::MeterSetRates { meter: "m".to_owned(), index: 2, rates }
    );
    assert_eq!(one("mirroring_delete 5"), Command::MirroringDelete(5));
}

#[test]
fn mistakes_have_their_place() {
    for (text, error) in [
        ("\n  pakcet 1 00", "line 2, column 3: unknown command 'pakcet', did you mean 'packet'?"),
        ("!", "line 1, column 1: unknown command '!'"),
        ("packet x", "line 1, column 8: expected a port (decimal), found 'x'"),
        ("packet 1", "line 1, column 9: expected the bytes of a packet, found the end of the line"),
        ("packet 1 0g", "line 1, column 11: expected a hexadecimal digit, found 'g'"),
        ("packet 1 012", "line 1, column 8: a packet needs an even number of hexadecimal digits"),
        ("packet 99999999999 00", "line 1, column 8: 99999999999 is too large (at most 4294967295)"),
        ("expect 1 00$11", "line 1, column 13: expected nothing behind '$', found '1'"),
        ("expect 1 0?", "line 1, column 11: expected a hexadecimal digit, '*' or '$', found '?'"),
        ("add t k=3 a()", "line 1, column 8: expected ':' (of a key field) or '(' (of an action), found '='"),
        ("add t k:a()", "line 1, column 9: expected a value, found 'a'"),
        ("add t k:3", "line 1, column 10: expected a key field or an action, found the end of the line"),
        ("add t a(x:1", "line 1, column 12: expected ',' or ')', found the end of the line"),
        ("add t a() b", "line 1, column 11: expected the end of the line, found 'b'"),
        ("add t 0x a()", "line 1, column 9: expected a digit of base 16, found ' '"),
        ("add t k:3 \"a()", "line 1, column 11: the quote is not closed"),
        ("add t ; a()", "line 1, column 7: stray character ';'"),
        ("check_counter c(1) drops == 3", "line 1, column 20: expected 'packets' or 'bytes', found 'drops'"),
        ("mc_node_create 1", "line 1, column 17: expected a port, found the end of the line"),
        ("mirroring_add 1 0x*", "line 1, column 17: expected a port, found '0x*'"),
        ("wait 5", "line 1, column 6: expected the end of the line, found '5'"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), error, "{text}");
    }
    let long = format!("packet 1 {}", "00".repeat(MAX_PACKET + 1));
    assert_eq!(parse(&long).unwrap_err().kind, StfErrorKind::TooLong);
}

#[test]
fn packets_are_compared_by_prefix_in_the_order_of_their_port() {
    let lines = parse("packet 1 00\nexpect 2 0a*b\nexpect 3\nexpect 2 ff $\nexpect 4").unwrap();
    let mut all = Expectations::of(&lines);
    assert_eq!(all.ports().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(all.outstanding(), 4);
    all.received(2, &[0x0a, 0x5b, 0x99]);
    all.received(3, &[1, 2, 3]);
    all.received(4, &[]);
    all.received(2, &[0xff]);
    all.received(77, &[1]);
    assert_eq!((all.outstanding(), all.finish()), (0, Ok(())));
    let mut wrong = Expectations::of(&lines);
    wrong.received(1, &[1, 2, 3, 4, 5]);
    wrong.received(2, &[0x0a, 0x5c]);
    wrong.received(2, &[0xff, 0]);
    wrong.received(3, &[]);
    let text: Vec<String> = wrong.finish().unwrap_err().iter().map(Mismatch::to_string).collect();
    assert_eq!(
        text,
        [
            "a packet nobody expected came out of port 1\n  received 01020304 05",
            "line 2: another packet came out of port 2\n  expected 0a*b\n  received 0a5c\n              ^ digit 3",
            "line 4: another packet came out of port 2\n  expected ff $\n  received ff00\n             ^ digit 2",
            "line 5: no packet came out of port 4",
        ]
    );
    let short = Pattern { nibbles: vec![Some(1), None, None], exact: false };
    assert!(!short.matches(&[0x12]) && short.matches(&[0x12, 0x34]));
    assert!(!Pattern { nibbles: vec![], exact: true }.matches(&[0]));
}

#[test]
fn no_text_makes_it_panic() {
    let seed = 0x5eed_0003;
    let mut random = barewire_base::Prng::new(seed);
    let words = [
        "add",
        "packet",
        "expect",
        "t",
        "a",
        ":",
        "(",
        ")",
        "0x",
        "0b1",
        "12",
        "*",
        "$",
        "=",
        "A",
        ".",
        "[",
        "]",
        "\"",
        "#",
        " ",
        "\n",
        "\t",
        "/",
        "&&&",
        "->",
        "é",
        "check_counter",
        "meter_set_rates",
        ",",
        "packets",
        "==",
        "wait",
    ];
    for _ in 0..20_000 {
        let text: String =
            (0..random.below(14)).map(|_| words[random.below(words.len() as u64) as usize]).collect();
        let spaced: String = (0..random.below(14))
            .flat_map(|_| [words[random.below(words.len() as u64) as usize], " "])
            .collect();
        let _ = (parse(&text), parse(&spaced));
    }
}
