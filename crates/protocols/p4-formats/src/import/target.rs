//! Which target a program was compiled for, and what that target asks of it.

use super::Importer;
use super::error::{Fault, Result, nearest};
use super::json::Json;
use barewire_p4::ir::Arch;

/// Fields `simple_switch` cannot do without.
const V1MODEL: [(&str, &str); 5] = [
    ("standard_metadata", "ingress_port"),
    ("standard_metadata", "packet_length"),
    ("standard_metadata", "instance_type"),
    ("standard_metadata", "egress_spec"),
    ("standard_metadata", "egress_port"),
];

/// Fields `psa_switch` cannot do without.
const PSA: [(&str, &str); 25] = [
    ("psa_ingress_parser_input_metadata", "ingress_port"),
    ("psa_ingress_parser_input_metadata", "packet_path"),
    ("psa_ingress_input_metadata", "ingress_port"),
    ("psa_ingress_input_metadata", "packet_path"),
    ("psa_ingress_input_metadata", "ingress_timestamp"),
    ("psa_ingress_input_metadata", "parser_error"),
    ("psa_ingress_output_metadata", "class_of_service"),
    ("psa_ingress_output_metadata", "clone"),
    ("psa_ingress_output_metadata", "clone_session_id"),
    ("psa_ingress_output_metadata", "drop"),
    ("psa_ingress_output_metadata", "resubmit"),
    ("psa_ingress_output_metadata", "multicast_group"),
    ("psa_ingress_output_metadata", "egress_port"),
    ("psa_egress_parser_input_metadata", "egress_port"),
    ("psa_egress_parser_input_metadata", "packet_path"),
    ("psa_egress_input_metadata", "class_of_service"),
    ("psa_egress_input_metadata", "egress_port"),
    ("psa_egress_input_metadata", "packet_path"),
    ("psa_egress_input_metadata", "instance"),
    ("psa_egress_input_metadata", "egress_timestamp"),
    ("psa_egress_input_metadata", "parser_error"),
    ("psa_egress_output_metadata", "clone"),
    ("psa_egress_output_metadata", "clone_session_id"),
    ("psa_egress_output_metadata", "drop"),
    ("psa_egress_deparser_input_metadata", "egress_port"),
];

/// The architecture, by the names of parsers, deparsers and pipelines, which each compiler back end fixes.
pub(super) fn arch(root: &Json<'_>) -> Result<Arch> {
    let parsers = root.get("parsers").unwrap_or(root);
    let mut names = Vec::new();
    for parser in root.list("parsers")? {
        names.push(parser.need_str("name")?);
    }
    let arch = if names.contains(&"main_parser") {
        let reason = "it is compiled for the Portable NIC Architecture; this switch has v1model and PSA";
        return Fault::unsupported(parsers, "the program", reason);
    } else if names.contains(&"ingress_parser") || names.contains(&"egress_parser") {
        Arch::Psa
    } else {
        Arch::V1Model
    };
    let wanted: [(&str, &[&str]); 3] = match arch {
        Arch::V1Model => {
            [("parsers", &["parser"]), ("deparsers", &["deparser"]), ("pipelines", &["ingress", "egress"])]
        }
        Arch::Psa => [
            ("parsers", &["ingress_parser", "egress_parser"]),
            ("deparsers", &["ingress_deparser", "egress_deparser"]),
            ("pipelines", &["ingress", "egress"]),
        ],
    };
    for (key, wanted) in wanted {
        let list = root.list(key)?;
        for wanted in wanted {
            if !list.iter().any(|item| item.get("name").is_some_and(|n| n.str().is_ok_and(|n| n == *wanted)))
            {
                let at = root.get(key).unwrap_or(root);
                return Fault::invalid(at, format!("there is no '{wanted}' among the {key}"));
            }
        }
    }
    Ok(arch)
}

/// Refuse a program that lacks a field its target writes or reads.
pub(super) fn required_fields(importer: &Importer, root: &Json<'_>) -> Result<()> {
    let fields: &[(&str, &str)] = match importer.program.arch {
        Arch::V1Model => &V1MODEL,
        Arch::Psa => &PSA,
    };
    for (header, field) in fields {
        if importer.program.field(&format!("{header}.{field}")).is_none() {
            let names = importer.program.headers.iter().map(|h| h.name.as_str());
            let hint = match nearest(header, names) {
                Some(near) if near != *header => format!(" (there is a header '{near}')"),
                _ => String::new(),
            };
            let at = root.get("headers").unwrap_or(root);
            return Fault::invalid(at, format!("the target needs a field '{header}.{field}'{hint}"));
        }
    }
    Ok(())
}
