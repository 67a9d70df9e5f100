//! Descriptions that make no sense: refused with their place, whether in our form or in XML.

use barewire_base::Prng;
use barewire_sbe::Message;
use barewire_sbe::dynamic::json;
use barewire_sbe::layout::Schema;

/// A little schema in XML: everything that we read, in a schema that is not CME's.
const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="toy" id="7" version="2" byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
    <composite name="groupSizeEncoding">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="numInGroup" primitiveType="uint16"/>
    </composite>
    <composite name="Pair">
      <type name="left" primitiveType="int16" presence="optional"/>
      <type name="right" primitiveType="uint8" offset="4"/>
    </composite>
    <composite name="Cents">
      <type name="mantissa" primitiveType="int32"/>
      <type name="exponent" primitiveType="int8" presence="constant">-2</type>
    </composite>
    <enum name="Colour" encodingType="char">
      <validValue name="Red">R</validValue>
      <validValue name="Blue" sinceVersion="2">B</validValue>
    </enum>
    <set name="Flags" encodingType="uint8"><choice name="First">0</choice><choice name="Last">7</choice></set>
    <type name="Name" primitiveType="char" length="4"/>
    <type name="Kind" primitiveType="char" presence="constant">k</type>
  </types>
  <sbe:message name="Toy" id="1" blockLength="24">
    <field name="count" id="10" type="uint32"/>
    <field name="maybe" id="11" type="int8" presence="optional"/>
    <field name="pair" id="12" type="Pair" offset="6"/>
    <field name="price" id="13" type="Cents"/>
    <field name="colour" id="14" type="Colour"/>
    <field name="flags" id="15" type="Flags"/>
    <field name="name" id="16" type="Name"/>
    <field name="kind" id="17" type="Kind"/>
    <group name="outer" id="20">
      <field name="a" id="21" type="uint8"/>
      <group name="inner" id="22">
        <field name="b" id="23" type="uint8"/>
      </group>
    </group>
  </sbe:message>
</sbe:messageSchema>
"#;

#[test]
fn another_schema_reads_with_groups_within_groups() {
    let schema = Schema::from_xml(XML).unwrap();
    #[rustfmt::skip]
    let bytes = [
        58, 0, 24, 0, 1, 0, 7, 0, 2, 0,
        1, 0, 0, 0, 0x80, 0, 0xff, 0xff, 0, 0, 9, 0xf6, 0xff, 0xff, 0xff, b'Q', 0x83, b'a', b'"', 0, 0, 0, 0, 0,
        1, 0, 2, 0,
        5, 1, 0, 1, 0, 6,
        7, 0, 0, 0, 0,
        1, 2, 3, 4, 5, 6, 7, 8, 9,
    ];
    let mut line = String::new();
    assert_eq!(json(&schema, &Message::parse(&bytes).unwrap(), &mut line), Ok(9));
    assert_eq!(
        line,
        r#"{"template":1,"name":"Toy","version":2,"fields":{"count":1,"maybe":null,"pair":{"left":-1,"right":9},"price":-0.1,"colour":"Q","flags":["First","Last","0x2"],"name":"a\"","kind":"k","outer":[{"a":5,"inner":[{"b":6}]},{"a":7,"inner":[]}]},"trailing":9}"#
    );
}

/// The schema with `from` replaced by `to`, and the error: (line, column, words of it).
fn refused(from: &str, to: &str) -> (u32, u32, String) {
    assert_eq!(XML.matches(from).count(), 1, "{from}");
    let error = Schema::from_xml(&XML.replace(from, to)).unwrap_err();
    (error.line, error.column, error.reason)
}

#[test]
fn xml_is_refused_where_and_why() {
    let said = [
        (r#"type="Colour""#, r#"type="Color""#, "no type `Color`; did you mean `Colour`?"),
        (
            r#"primitiveType="int32""#,
            r#"primitiveType="int33""#,
            "type `mantissa`: primitive type `int33` is not read; did you mean `int32`?",
        ),
        (
            r#"encodingType="char""#,
            r#"encodingType="Cents""#,
            "`Colour` is encoded as `Cents`, which is no scalar type",
        ),
        (r#"offset="6""#, r#"offset="4""#, "offset 4 lies in what is before it, which ends at 5"),
        (r#"blockLength="24""#, r#"blockLength="12""#, "a block of 12 bytes, but its fields end at 21"),
        (r#"presence="constant">k"#, r#"presence="constant">"#, "constant `Kind` says no value of its own"),
        (r#">-2</type>"#, r#">-200</type>"#, "`-200` does not fit int8"),
        (
            r#"<choice name="Last">7"#,
            r#"<choice name="Last">8"#,
            "set `Flags` names a bit that uint8 has not",
        ),
        (r#"length="4""#, r#"length="4" presence="constant""#, "constant `Name` says no value of its own"),
        (r#"length="4""#, r#"length="0""#, "type `Name`: a length of 0"),
        (
            r#"<field name="a" id="21" type="uint8"/>"#,
            r#"<data name="d" type="uint8"/>"#,
            "`uint8` has no number `length` before `varData`",
        ),
        (
            r#"<group name="outer" id="20">"#,
            r#"<group name="outer" dimensionType="Pair">"#,
            "`Pair` is no header of a group",
        ),
        (r#"byteOrder="littleEndian""#, r#"byteOrder="middleEndian""#, "byte order `middleEndian`"),
        (
            r#"<set name="Flags" encodingType="uint8">"#,
            r#"<set name="Pair" encodingType="uint8">"#,
            "a second type `Pair`",
        ),
        (
            r#"<field name="count" id="10" type="uint32"/>"#,
            r#"<field id="10" type="uint32"/>"#,
            "`field` without `name`",
        ),
        (r#"id="1" blockLength"#, r#"id="x" blockLength"#, "`x` is not a number that `id` can be"),
        (
            r#"<type name="version" primitiveType="uint16"/>"#,
            "",
            "message header `messageHeader` has no number `version`",
        ),
    ];
    for (from, to, words) in said {
        let (line, column, reason) = refused(from, to);
        assert!(reason.contains(words), "{to}: {reason}");
        // The element's place; of the message header, which is missing a part, the schema's.
        let part = if to.is_empty() { "<sbe:messageSchema" } else { from };
        let before = &XML[..XML.find(part).unwrap()];
        assert_eq!(line as usize, 1 + before.matches('\n').count(), "{to}: {reason}");
        assert!(column > 0);
    }
    let open = Schema::from_xml("<messageSchema id='1'\n version='2'>").unwrap_err();
    assert!(open.reason.contains("no well-formed XML"), "{open}");
    assert!(Schema::from_xml("").is_err());
    let other = Schema::from_xml("<schema/>").unwrap_err();
    assert_eq!((other.line, other.column), (1, 1));
    let twice = XML.replace("</sbe:messageSchema>", r#"<message name="Again" id="1"/></sbe:messageSchema>"#);
    assert!(Schema::from_xml(&twice).unwrap_err().reason.contains("a second message 1"));
}

#[test]
fn xml_of_any_bytes_is_read_or_refused() {
    let seed = 0x5be_0003;
    eprintln!("seed {seed:#x}");
    let mut prng = Prng::new(seed);
    for _ in 0..2000 {
        let mut bytes = XML.as_bytes().to_vec();
        for _ in 0..=prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            match prng.below(3) {
                0 => bytes[at] = b' ' + prng.below(95) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Err(error) = Schema::from_xml(&String::from_utf8_lossy(&bytes)) {
            assert!(error.line > 0 && error.column > 0 && !error.reason.is_empty());
        }
    }
    // Groups within groups without end.
    let deep = 5000;
    let xml = format!(
        r#"<messageSchema id="1" version="1"><types><composite name="groupSizeEncoding"><type name="blockLength" primitiveType="uint16"/><type name="numInGroup" primitiveType="uint8"/></composite></types><message name="m" id="1">{}{}</message></messageSchema>"#,
        r#"<group name="g">"#.repeat(deep),
        "</group>".repeat(deep)
    );
    assert!(Schema::from_xml(&xml).unwrap_err().reason.contains("deep"));
}

/// A group of entries without bytes costs nothing to claim: four billion of them are refused.
#[test]
fn entries_without_bytes_do_not_hold_the_reader() {
    let xml = XML
        .replace(
            r#"<type name="numInGroup" primitiveType="uint16"/>"#,
            r#"<type name="numInGroup" primitiveType="uint32"/>"#,
        )
        .replace(r#"<field name="b" id="23" type="uint8"/>"#, r#"<field name="b" id="23" type="Kind"/>"#);
    let schema = Schema::from_xml(&xml).unwrap();
    let mut bytes = vec![0; 10 + 24];
    bytes[2] = 24;
    bytes[4] = 1;
    bytes[6] = 7;
    bytes[8] = 2;
    bytes.extend([1, 0, 1, 0, 0, 0, 5, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    bytes[0] = bytes.len() as u8;
    let error = json(&schema, &Message::parse(&bytes).unwrap(), &mut String::new()).unwrap_err();
    assert!(matches!(error, barewire_sbe::DecodeError::GroupPastEnd { block_length: 0, .. }), "{error}");
}

#[test]
fn descriptions_are_refused_where_and_why() {
    let said = [
        ("typ A u8", 1, "`typ` begins no declaration"),
        ("type A u9", 1, "`u9` is no primitive"),
        ("type A u8 null 256", 1, "`256` does not fit uint8"),
        ("type A u8\ntype A u8", 2, "a second type `A`"),
        ("enum E A X=1", 1, "no type `A`"),
        ("type A u8\nset S A First", 2, "`First` is no NAME=VALUE"),
        ("composite C x", 1, "`x` is no name:type"),
        ("composite C x@18446744073709551615:u8", 1, "`18446744073709551615` is not a number that fits here"),
        ("type T char[70000]", 1, "`70000` is not a number that fits here"),
        ("type A u8\n    X=1", 2, "only an enum or a set can be continued"),
        ("    X=1", 1, "nothing to continue"),
        ("type A u8\n@0 f 1 A", 2, "no message is open"),
        ("type A u8\nmessage 1 M X block 4\n  - f 1 A", 3, "`f` is no constant"),
        ("type A u8\nmessage 1 M X block 4\n  @0 f 1 A until 3", 3, "`since VERSION` or nothing"),
        ("message 1 M X block", 1, "a block length is missing"),
        ("message 1 M X block 4 since", 1, "nothing follows `since`"),
        ("message 1 M X block 4 from 3", 1, "`from` where `since` or `until`"),
        ("message 1 M X block 4\nmessage 1 N X block 4\n", 2, "a second message 1"),
        ("type A u8\nmessage 1 M X block 4\n  group G 1 A block 1", 3, "`A` is no header of a group"),
        (
            "composite g blockLength:u16 numInGroup:u8\nmessage 1 M X block 4\n  group G 1 g block 1\nmessage 2 N X block 1",
            4,
            "group `G` is not ended",
        ),
        ("message 1 M X block 4\n  end", 2, "`end` without a group"),
    ];
    for (text, line, words) in said {
        let error = Schema::from_layout(&[("toy.layout", text)]).unwrap_err();
        assert!(error.reason.contains(words), "{text}: {error}");
        assert_eq!((error.source_name.as_str(), error.line), ("toy.layout", line), "{text}: {error}");
    }
}
