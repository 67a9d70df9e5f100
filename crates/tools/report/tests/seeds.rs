//! The published tables are those of the reports: every figure stands in its text.

use barewire_report::figure::Unit;
use barewire_report::published::tables;
use std::fs;
use std::path::PathBuf;

#[test]
fn every_figure_stands_in_its_report() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/seeds");
    let Ok(entries) = fs::read_dir(&folder) else {
        return eprintln!("SKIPPED: no texts of the reports in {}", folder.display());
    };
    let mut texts: Vec<(String, String)> = entries
        .filter_map(|e| {
            let path = e.ok()?.path();
            Some((path.file_name()?.to_string_lossy().into_owned(), fs::read_to_string(path).ok()?))
        })
        .collect();
    texts.sort();
    let mut checked = 0;
    for table in tables() {
        let number = match table.id {
            "machnet" => "000",
            "bmv2" => "001",
            id if id.starts_with("onixs") => "002",
            id if id.starts_with("machnet-page") => "003",
            _ => "004",
        };
        let (_, text) = texts.iter().find(|(name, _)| name.starts_with(number)).expect("the text");
        for row in table.rows {
            for (column, value) in table.columns.iter().zip(row.values) {
                let Some(value) = value else { continue };
                let forms: Vec<String> = match column.unit {
                    Unit::Ns => vec![
                        format!("{} us", value / 1e3),
                        format!("{:.3}", value / 1e3),
                        format!("{:.2}ms", value / 1e6),
                    ],
                    Unit::PerSecond => vec![
                        format!("{:.0}K", value / 1e3),
                        format!("{},{:03}K", (*value / 1e6) as u32, (*value / 1e3) as u32 % 1_000),
                        format!("{},{:03}pps", (*value / 1e3) as u32, *value as u32 % 1_000),
                        format!("{value}"),
                    ],
                    _ => vec![format!("{value} Mbps")],
                };
                assert!(
                    forms.iter().any(|f| text.contains(f)),
                    "{} {}: none of {forms:?}",
                    table.id,
                    row.system
                );
                checked += 1;
            }
        }
    }
    // 10 rows of 4 twice, bmv2's two figures, 10 columns of 6, 2 + 5 + 4 + 5 of connections.
    assert_eq!(checked, 40 + 40 + 2 + 60 + 16);
}
