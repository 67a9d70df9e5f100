//! Our layout description against the exchange's own schemas: every template, field, group, type and name of every
//! version that is there.

mod support;

use barewire_sbe::layout::{Body, Kind, Schema, Template};
use std::collections::BTreeSet;

/// Names that the exchange has changed: (version, type, name then, name in our description).
const RENAMED: &[(u16, &str, &str, &str)] = &[
    (5, "MDEntryType", "OpeningPrice", "OpenPrice"),
    (5, "MDEntryType", "TradeVolume", "ClearedVolume"),
    (5, "MDEntryType", "EmptyBook", "BookReset"),
    (5, "SettlPriceType", "Final", "FinalDaily"),
    (8, "SettlPriceType", "Final", "FinalDaily"),
];

/// Every type that a body uses, with those of its groups.
fn types<'s>(body: &'s Body, into: &mut Vec<&'s barewire_sbe::layout::NamedType>) {
    into.extend(body.fields.iter().map(|field| &*field.ty));
    for group in &body.groups {
        types(&group.body, into);
    }
}

/// `xml` with today's names for what was renamed, and without what differs between versions by editing only: the version
/// that a name came with (asserted elsewhere), and the version of the template itself.
fn plain(mut template: Template, version: u16) -> Template {
    fn body(of: &mut Body, version: u16) {
        for field in &mut of.fields {
            let mut ty = (*field.ty).clone();
            if let Kind::Enum { values: names, .. } | Kind::Set { choices: names, .. } = &mut ty.kind {
                for name in names {
                    let renamed = RENAMED.iter().find(|(v, ty_name, then, _)| {
                        *v == version && *ty_name == ty.name && *then == name.name
                    });
                    name.name = renamed.map_or(name.name.clone(), |(.., now)| (*now).to_owned());
                }
            }
            field.ty = ty.into();
        }
        for group in &mut of.groups {
            body(&mut group.body, version);
        }
    }
    body(&mut template.body, version);
    template.until = None;
    template
}

/// CME gives `since` of a field also where it is not above its message's; what counts is the later.
fn lift(body: &mut Body, since: u16) {
    body.fields.iter_mut().for_each(|field| field.since = field.since.max(since));
    for group in &mut body.groups {
        group.since = group.since.max(since);
        lift(&mut group.body, group.since);
    }
}

#[test]
fn our_description_equals_every_schema() {
    let Some(folder) = support::shared("schema") else { return };
    let mut compared = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let xml = Schema::from_xml(&std::fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
        let ours = barewire_sbe::mdp3::schema().at_version(xml.version);
        assert_eq!((xml.id, xml.package.as_str()), (ours.id, ours.package.as_str()));
        let ids =
            |schema: &Schema| schema.templates.iter().map(|t| (t.id, t.name.clone())).collect::<Vec<_>>();
        assert_eq!(ids(&ours), ids(&xml), "version {}", xml.version);
        for (ours, theirs) in ours.templates.iter().zip(&xml.templates) {
            let mut ours = plain(ours.clone(), 0);
            let mut theirs = plain(theirs.clone(), xml.version);
            lift(&mut ours.body, ours.since);
            lift(&mut theirs.body, theirs.since);
            // Version 12 left the message type of this one empty; version 13 has it.
            if (xml.version, ours.id) == (12, 62) {
                theirs.message_type = "X".to_owned();
            }
            assert_eq!(ours, theirs, "version {}, template {}", xml.version, ours.id);
        }
        let mut used = Vec::new();
        xml.templates.iter().for_each(|template| types(&template.body, &mut used));
        assert!(used.len() > 100);
        compared.insert(xml.version);
    }
    eprintln!("compared versions {compared:?}");
    assert!(compared.contains(&13) && compared.len() >= 5, "only {compared:?}");
}

#[test]
fn our_description_is_whole_and_in_order() {
    let schema = barewire_sbe::mdp3::schema();
    assert_eq!((schema.id, schema.version, schema.package.as_str()), (1, 13, "mktdata"));
    assert_eq!(schema.templates.len(), 43);
    fn check(body: &Body, what: &str) {
        for window in body.block_lengths.windows(2) {
            assert!(window[0] < window[1] && window[0].1 < window[1].1, "{what}: {:?}", body.block_lengths);
        }
        let mut end = 0;
        for field in body.fields.iter().filter(|field| !matches!(field.ty.kind, Kind::Constant { .. })) {
            assert!(field.offset >= end, "{what}: {} overlaps", field.name);
            end = field.offset + field.ty.kind.size();
            assert!(
                end <= body.block_length(field.since),
                "{what}: {} ends past its version's block",
                field.name
            );
        }
        for group in &body.groups {
            check(&group.body, &format!("{what}.{}", group.name));
        }
    }
    for template in &schema.templates {
        check(&template.body, &template.name);
        assert!(template.name.ends_with(&template.id.to_string()), "{}", template.name);
        assert!(!template.message_type.is_empty(), "{}", template.name);
    }
}

#[test]
fn our_description_reads_again_from_its_sources() {
    let again = Schema::from_layout(barewire_sbe::mdp3::LAYOUT).unwrap();
    assert_eq!(&again, barewire_sbe::mdp3::schema());
}
