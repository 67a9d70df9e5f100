//! Views and encoders of a schema that is not CME's: `tests/venue.xml`, big-endian as it stands there and little-endian beside.

use barewire_base::Prng;
use barewire_sbe::layout::{ByteOrder, Schema};
use barewire_sbe::{DecodeError, EncodeError, FrameError, Message, MessageView, dynamic};

#[allow(missing_docs)]
mod big {
    include!(concat!(env!("OUT_DIR"), "/venue_big.rs"));
}
#[allow(missing_docs)]
mod little {
    include!(concat!(env!("OUT_DIR"), "/venue_little.rs"));
}

const XML: &str = include_str!("venue.xml");

/// Bytes of the root block: what version 1 has, and what came with version 2.
const BLOCK: usize = 56 + 1 + 4 + 13;

macro_rules! same_in_both_orders {
    ($name:ident, $venue:ident, $order:expr) => {
        mod $name {
            use super::*;
            use $venue::{Flags, Order, OrderEncoder, Phase, Px, Side, Unit};

            fn schema() -> Schema {
                let order = if $order == ByteOrder::Big { "bigEndian" } else { "littleEndian" };
                Schema::from_xml(&XML.replace("bigEndian", order)).unwrap()
            }

            fn write(buf: &mut [u8], version: u16) -> Result<usize, EncodeError> {
                let mut order = OrderEncoder::with_version(buf, version)?;
                order.order_id(0x0102_0304_0506_0708).type_(Side::SELL).price(Px(-5)).ratio(0.5).weight(-1.5);
                order.levels([1, 2, 3]).symbol("ABC").flags(Flags::HIDDEN | Flags::ICEBERG);
                order.instrument().venue(9).unit(Unit::PIECES).home(Side::BUY).label("toolong");
                order.instrument().tick().numerator(-2).denominator(3);
                order.phase(Phase::OPEN).count(77);
                order.other().venue(10);
                let mut legs = order.legs()?;
                legs.push()?.leg_id(1).leg_price(Px(100));
                legs.push()?.leg_id(2);
                let mut parties = order.parties()?;
                {
                    let mut party = parties.push()?;
                    party.party_id(11);
                    let mut subs = party.subs()?;
                    subs.push()?.sub_id(-1);
                    subs.push()?.sub_id(-2);
                    party.note(b"first")?;
                }
                parties.push()?.party_id(12);
                order.comment(b"hello")?;
                if version >= 2 {
                    order.tail(b"end")?;
                }
                order.finish()
            }

            fn written(version: u16) -> Vec<u8> {
                let mut buf = vec![0xa5; 512];
                let len = write(&mut buf, version).unwrap();
                buf.truncate(len);
                buf
            }

            fn check(order: &Order<'_>, version: u16) {
                assert_eq!(order.order_id(), 0x0102_0304_0506_0708);
                assert_eq!((order.type_(), order.price()), (Side::SELL, Some(Px(-5))));
                assert_eq!((order.ratio(), order.weight()), (Some(0.5), -1.5));
                assert_eq!((order.levels(), order.symbol().to_str()), ([1, 2, 3], Some("ABC")));
                let instrument = order.instrument();
                assert_eq!((instrument.venue(), instrument.unit()), (9, Unit::PIECES));
                assert_eq!((instrument.tick().numerator(), instrument.tick().denominator()), (-2, Some(3)));
                assert_eq!((instrument.home(), instrument.label().to_str()), (Side::BUY, Some("tool")));
                assert!(order.flags().hidden() && order.flags().iceberg());
                assert_eq!((order.currency(), order.home(), order.away()), ("EUR", Side::BUY, Side::SELL));
                if version >= 2 {
                    assert_eq!((order.phase(), order.count()), (Phase::OPEN, Some(77)));
                    let other = order.other().unwrap();
                    assert_eq!((other.venue(), other.tick().denominator()), (10, None));
                    assert_eq!(order.tail(), b"end");
                } else {
                    assert_eq!((order.phase(), order.count(), order.other()), (Phase::NULL, None, None));
                    assert_eq!(order.tail(), b"");
                }
                let legs: Vec<_> = order.legs().iter().map(|leg| (leg.leg_id(), leg.leg_price())).collect();
                assert_eq!(legs, [(1, Some(Px(100))), (2, None)]);
                assert_eq!(order.legs().get(1).map(|leg| leg.leg_id()), Some(2));
                let parties: Vec<_> = order.parties().iter().map(|p| (p.party_id(), p.note())).collect();
                assert_eq!(parties, [(11, b"first".as_slice()), (12, b"")]);
                let subs: Vec<i8> =
                    order.parties().iter().flat_map(|p| p.subs()).map(|sub| sub.sub_id()).collect();
                assert_eq!(subs, [-1, -2]);
                assert_eq!(order.comment(), b"hello");
                assert_eq!(order.trailing(), b"");
            }

            #[test]
            fn what_is_written_is_read() {
                for version in [1, 2] {
                    let bytes = written(version);
                    let message = $venue::message(&bytes).unwrap();
                    assert_eq!((message.template_id, message.schema_id, message.version), (7, 300, version));
                    let order = Order::decode(&message).unwrap();
                    check(&order, version);
                    let mut again = vec![0x5a; bytes.len()];
                    assert_eq!(order.encode(&mut again), Ok(bytes.len()));
                    assert_eq!(again, bytes);
                    let any = $venue::AnyMessage::decode(&message).unwrap();
                    assert_eq!((any.name(), any.template_id(), any.version()), ("Order", 7, version));
                }
            }

            #[test]
            fn run_time_and_typed_views_say_the_same() {
                let (bytes, mut line) = (written(2), String::new());
                let message = $venue::message(&bytes).unwrap();
                assert_eq!(dynamic::json(&schema(), &message, &mut line), Ok(0));
                assert_eq!(
                    line,
                    concat!(
                        r#"{"template":7,"name":"Order","version":2,"fields":{"OrderID":72623859790382856,"type":"Sell","#,
                        r#""Price":-0.00000005,"Ratio":0.5,"Weight":-1.5,"Levels":[1,2,3],"Symbol":"ABC","#,
                        r#""Instrument":{"venue":9,"Unit":"Pieces","Tick":{"numerator":-2,"denominator":3},"home":"Buy","label":"tool"},"#,
                        r#""Flags":["Hidden","Iceberg"],"Currency":"EUR","Home":"Buy","Away":"Sell","Phase":"Open","Count":77,"#,
                        r#""Other":{"venue":10,"Unit":0,"Tick":{"numerator":0,"denominator":null},"home":"\u0000","label":""},"#,
                        r#""Legs":[{"LegID":1,"LegPrice":0.000001},{"LegID":2,"LegPrice":null}],"#,
                        r#""NoParties":[{"PartyID":11,"NoSubs":[{"SubID":-1},{"SubID":-2}],"Note":"first"},"#,
                        r#"{"PartyID":12,"NoSubs":[],"Note":""}],"Comment":"hello","Tail":"end"}}"#
                    )
                );
            }

            #[test]
            fn whatever_is_cut_or_changed_is_refused_or_read() {
                let (bytes, schema) = (written(2), schema());
                for len in 0..bytes.len() {
                    let cut = $venue::message(&bytes[..len]).map(|m| Order::decode(&m).is_ok());
                    assert!(!matches!(cut, Ok(true)), "{len} of {} bytes", bytes.len());
                }
                let seed = 0x5be_0004;
                eprintln!("seed {seed:#x}");
                let mut prng = Prng::new(seed);
                let mut read = 0;
                for _ in 0..5000 {
                    let mut bytes = bytes.clone();
                    for _ in 0..=prng.below(3) {
                        let at = prng.below(bytes.len() as u64) as usize;
                        bytes[at] = prng.next_u64() as u8;
                    }
                    let message = $venue::message(&bytes).unwrap();
                    let Ok(order) = Order::decode(&message) else { continue };
                    // What the views read, the reader at run time reads, and behind it the same is left.
                    let left = dynamic::json(&schema, &message, &mut String::new());
                    assert_eq!(left, Ok(order.trailing().len()));
                    assert!(!format!("{order:?}").is_empty());
                    assert_eq!(order.parties().iter().count(), order.parties().len());
                    read += 1;
                }
                assert!(read > 100, "{read}");
            }

            #[test]
            fn what_does_not_fit_is_an_error() {
                let whole = written(2).len();
                for room in 0..whole {
                    assert!(matches!(write(&mut vec![0; room], 2), Err(EncodeError::Full { .. })), "{room}");
                }
                let mut buf = vec![0; 512];
                let mut order = OrderEncoder::new(&mut buf).unwrap();
                let long = order.tail(&[0; 255]).unwrap_err();
                assert_eq!(long, EncodeError::DataTooLong { data: "Tail", len: 255 });
                order.comment(b"").unwrap();
                let late = order.legs().map(drop).unwrap_err();
                assert_eq!(late, EncodeError::GroupOrder { group: "Legs" });
                let mut order = OrderEncoder::with_version(&mut buf, 1).unwrap();
                let early = EncodeError::GroupVersion { group: "Tail", since: 2, version: 1 };
                assert_eq!(order.tail(b"").map(drop), Err(early));
            }

            #[test]
            fn foreign_messages_are_told_apart() {
                let bytes = written(2);
                let message = $venue::message(&bytes).unwrap();
                let foreign = Message { schema_id: 1, ..message };
                assert_eq!(Order::decode(&foreign).unwrap_err(), DecodeError::ForeignSchema { schema_id: 1 });
                let found = DecodeError::WrongTemplate { expected: 1, found: 7 };
                assert_eq!($venue::Ping::decode(&message).unwrap_err(), found);
                let unknown = Message { template_id: 99, ..message };
                assert!(matches!($venue::AnyMessage::decode(&unknown), Err(DecodeError::UnknownTemplate { .. })));
                assert!(matches!($venue::message(&bytes[..7]), Err(FrameError::NoMessageHeader { .. })));
                assert_eq!(($venue::template::ORDER, Order::TEMPLATE_ID, $venue::SCHEMA_ID), (7, 7, 300));
            }
        }
    };
}

same_in_both_orders!(big_endian, big, ByteOrder::Big);
same_in_both_orders!(little_endian, little, ByteOrder::Little);

#[test]
fn bytes_are_as_the_standard_has_them() {
    let mut buf = [0xa5; 128];
    let mut order = big::OrderCopyEncoder::new(&mut buf).unwrap();
    order.order_id(1);
    order.legs().unwrap().push().unwrap().leg_id(2).leg_price(big::Px(3));
    let len = order.finish().unwrap();
    #[rustfmt::skip]
    let expected = [
        0, 8, 8, 1, 44, 2, 0, 0,                    // block length, template, schema 300, version, groups
        0, 0, 0, 0, 0, 0, 0, 1,
        0, 12, 0, 1,                                // length of an entry, count
        0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3,
    ];
    assert_eq!(buf[..len], expected);
    let mut ping = [0; 8];
    assert_eq!(little::PingEncoder::new(&mut ping).unwrap().finish(), Ok(8));
    assert_eq!(ping, [0, 0, 1, 44, 1, 2, 0, 0]);
}

#[test]
fn absent_values_are_the_null_values_of_the_standard() {
    let mut buf = [0xa5; 256];
    let order = big::OrderEncoder::new(&mut buf).unwrap();
    let len = order.finish().unwrap();
    assert_eq!(len, 8 + BLOCK + 4 + 2 + 4 + 1);
    let message = big::message(&buf[..len]).unwrap();
    let order = big::Order::decode(&message).unwrap();
    assert_eq!((order.price(), order.price_raw(), order.ratio()), (None, big::Px(i64::MIN), None));
    assert!(order.ratio_raw().is_nan());
    assert_eq!(order.instrument().tick().denominator_raw(), 255);
    assert_eq!(big::Px(123).to_string(), "0.00000123");
}

/// Entries of one layout are one type, whatever message they are in.
#[test]
fn equal_layouts_share_their_types() {
    fn total(legs: barewire_sbe::Group<'_, big::order::Leg<'_>>) -> u32 {
        legs.iter().map(|leg| leg.leg_id()).sum()
    }
    let mut buf = [0; 64];
    let mut order = big::OrderCopyEncoder::new(&mut buf).unwrap();
    order.legs().unwrap().push().unwrap().leg_id(2);
    let len = order.finish().unwrap();
    let message = big::message(&buf[..len]).unwrap();
    assert_eq!(total(big::OrderCopy::decode(&message).unwrap().legs()), 2);
}

#[test]
fn slips_in_a_schema_are_told_with_their_place() {
    let said = [
        (
            r#"valueRef="Side.Sell""#,
            r#"valueRef="Side.Sel""#,
            "enum `Side` has no value `Sel`; did you mean `Sell`?",
        ),
        (r#"valueRef="Side.Sell""#, r#"valueRef="Side""#, "is not of the form `Enum.Value`"),
        (r#"valueRef="Side.Sell""#, r#"valueRef="Sides.Sell""#, "no enum `Sides`; did you mean `Side`?"),
        (r#"<ref name="home" type="Side"/>"#, r#"<ref name="home" type="Instrument"/>"#, "deep"),
        (
            r#"<ref name="home" type="Side"/>"#,
            r#"<ref name="home" type="Sid"/>"#,
            "no type `Sid`; did you mean `Side`?",
        ),
        (r#"id="59" type="text32""#, r#"id="59" type="Px""#, "`Px` has no number `length` before `varData`"),
        (r#"byteOrder="bigEndian""#, r#"byteOrder="bigendian""#, "did you mean `bigEndian`?"),
        (
            r#"<enum name="Unit" encodingType="uint8">"#,
            r#"<enum name="Side" encodingType="uint8">"#,
            "two types are called `Side`",
        ),
    ];
    for (from, to, words) in said {
        assert_eq!(XML.matches(from).count(), 1, "{from}");
        let error = Schema::from_xml(&XML.replace(from, to)).unwrap_err();
        assert!(error.reason.contains(words) && error.line > 1, "{to}: {error}");
    }
}

/// Whatever schema can be read can be written as Rust, and the same schema gives the same Rust.
#[test]
fn every_schema_that_reads_is_written() {
    let seed = 0x5be_0005;
    eprintln!("seed {seed:#x}");
    let (mut prng, mut read) = (Prng::new(seed), 0);
    let generator = barewire_sbe_gen::Generator::new();
    for _ in 0..500 {
        let mut bytes = XML.as_bytes().to_vec();
        for _ in 0..=prng.below(2) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = b' ' + prng.below(95) as u8;
        }
        let Ok(schema) = Schema::from_xml(&String::from_utf8_lossy(&bytes)) else { continue };
        let text = generator.source(&schema);
        assert_eq!(text, generator.source(&schema));
        assert!(text.contains("pub enum AnyMessage"));
        read += 1;
    }
    assert!(read > 50, "{read}");
}
