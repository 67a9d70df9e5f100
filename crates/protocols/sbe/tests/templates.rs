//! Every template in every version that had it: views, encoders and the dynamic decoder agree on messages that were
//! built from the layout alone.

mod support;

use barewire_base::Prng;
use barewire_sbe::dynamic::{self, Value, Visitor};
use barewire_sbe::layout::Field;
use barewire_sbe::mdp3::VERSION;
use barewire_sbe::{AnyMessage, DecodeError, Message};
use support::{build, versions};

const ROUNDS: u64 = 40;

#[test]
fn views_and_encoders_agree_with_the_layout() {
    let schema = barewire_sbe::mdp3::schema();
    let mut made = 0;
    for template in &schema.templates {
        for version in versions(schema, template) {
            for round in 0..ROUNDS {
                let seed = u64::from(template.id) << 32 | u64::from(version) << 16 | round;
                let bytes = build(template, version, &mut Prng::new(seed), 5, 0);
                let message = Message::parse(&bytes).unwrap();
                let context = || format!("{} version {version} seed {seed:#x}", template.name);
                let view =
                    AnyMessage::decode(&message).unwrap_or_else(|error| panic!("{}: {error}", context()));
                assert_eq!((view.template_id(), view.name()), (template.id, template.name.as_str()));
                assert!(view.trailing().is_empty(), "{}", context());
                let mut again = vec![0xa5; bytes.len()];
                assert_eq!(view.encode(&mut again).as_ref(), Ok(&bytes.len()), "{}", context());
                assert_eq!(again, bytes, "{}", context());
                assert_eq!(
                    dynamic::visit(schema, &message, &mut Count::default()),
                    Ok(&[][..]),
                    "{}",
                    context()
                );
                made += 1;
            }
        }
    }
    assert!(made > 40 * 100, "{made}");
}

/// Counts fields, and those with a value.
#[derive(Default)]
struct Count {
    fields: usize,
    values: usize,
}

impl Visitor for Count {
    fn field(&mut self, _: &Field, value: Value<'_>) {
        self.fields += 1;
        self.values += usize::from(!value.is_null());
    }
}

/// Bytes that a later version has added to blocks are stepped over; nothing that we know changes.
#[test]
fn longer_blocks_of_a_later_version_read_the_same() {
    let schema = barewire_sbe::mdp3::schema();
    for template in schema.templates.iter().filter(|template| template.until.is_none()) {
        for extra in [1, 7, 64] {
            let seed = u64::from(template.id) << 16 | extra as u64;
            let plain = build(template, VERSION, &mut Prng::new(seed), 3, 0);
            let longer = build(template, VERSION, &mut Prng::new(seed), 3, extra);
            let mut later = longer.clone();
            later[8..10].copy_from_slice(&(VERSION + 1).to_le_bytes());
            for bytes in [&longer, &later] {
                let view = AnyMessage::decode(&Message::parse(bytes).unwrap()).unwrap();
                let mut again = vec![0; plain.len()];
                assert_eq!(view.encode(&mut again), Ok(plain.len()), "{} seed {seed:#x}", template.name);
                again[8..10].copy_from_slice(&VERSION.to_le_bytes());
                assert_eq!(again, plain, "{} seed {seed:#x}", template.name);
            }
        }
    }
}

/// An older version's message has nulls where later fields would be, whatever its padding holds.
#[test]
fn fields_that_came_later_are_null_in_older_versions() {
    let schema = barewire_sbe::mdp3::schema();
    for template in &schema.templates {
        let mut bytes = build(template, template.since, &mut Prng::new(7), 2, 0);
        let message = Message::parse(&bytes).unwrap();
        let (mut late, mut seen) = (Late::default(), Late::default());
        dynamic::visit(schema, &message, &mut late).unwrap();
        assert!(late.wrong.is_empty(), "{}: {:?}", template.name, late.wrong);
        // The version says more than the blocks hold: still null, no error, except for groups that are missing.
        let newest = template.until.unwrap_or(VERSION);
        bytes[8..10].copy_from_slice(&newest.to_le_bytes());
        let message = Message::parse(&bytes).unwrap();
        match dynamic::visit(schema, &message, &mut seen) {
            Ok(rest) => assert!(rest.is_empty()),
            Err(error) => assert!(matches!(error, DecodeError::GroupHeaderPastEnd { .. }), "{error}"),
        }
        match AnyMessage::decode(&message) {
            Ok(view) => assert!(view.trailing().is_empty()),
            Err(error) => assert!(matches!(error, DecodeError::GroupHeaderPastEnd { .. }), "{error}"),
        }
    }
}

/// Fields of later versions that nevertheless have a value.
#[derive(Default)]
struct Late {
    wrong: Vec<String>,
}

impl Visitor for Late {
    fn field(&mut self, field: &Field, value: Value<'_>) {
        let came_later =
            ["TradeableSize", "InstrumentGUID", "TermCode", "BrokenDateTermType", "MaxBidAskConstraint"];
        if field.since > 9 && came_later.contains(&field.name.as_str()) && !value.is_null() {
            self.wrong.push(field.name.clone());
        }
    }
}

#[test]
fn other_schemas_and_unknown_templates_are_told_apart() {
    let template = barewire_sbe::mdp3::schema().template(46).unwrap();
    let mut bytes = build(template, 13, &mut Prng::new(1), 2, 0);
    bytes[4] = 45;
    let unknown = Err(DecodeError::UnknownTemplate { template_id: 45 });
    let decode =
        |bytes: &[u8]| AnyMessage::decode(&Message::parse(bytes).unwrap()).map(|view| view.template_id());
    let visit = |bytes: &[u8]| {
        let message = Message::parse(bytes).unwrap();
        dynamic::visit(barewire_sbe::mdp3::schema(), &message, &mut Count::default()).map(|_| 0)
    };
    assert_eq!(decode(&bytes), unknown);
    assert_eq!(visit(&bytes), unknown);
    bytes[6] = 9;
    let foreign = Err(DecodeError::ForeignSchema { schema_id: 9 });
    assert_eq!(decode(&bytes), foreign);
    assert_eq!(visit(&bytes), foreign);
}
