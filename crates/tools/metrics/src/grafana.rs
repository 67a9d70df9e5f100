//! A Grafana dashboard made of the registry: a row for each group, so that it cannot name what does not exist.

use barewire_engine::{CounterKind, Family, Unit, families};
use serde_json::{Value, json};

/// Width of a panel of Grafana's 24 columns, and its height.
const WIDTH: u32 = 8;
const HEIGHT: u32 = 7;
/// Version of the dashboard's own form, which newer Grafana brings up to date by itself.
const SCHEMA_VERSION: u32 = 39;

/// The dashboard as JSON, for Grafana's import.
pub fn dashboard() -> String {
    let mut panels = Vec::new();
    let (mut x, mut y) = (0, 0);
    let mut group = "";
    let mut id = 0;
    for family in families() {
        if family.group != group {
            group = family.group;
            y += if x > 0 { HEIGHT } else { 0 };
            x = 0;
            id += 1;
            panels.push(json!({
                "id": id, "type": "row", "title": group.replace('_', " "), "collapsed": false,
                "gridPos": { "x": 0, "y": y, "w": 24, "h": 1 }, "panels": [],
            }));
            y += 1;
        }
        id += 1;
        panels.push(panel(family, id, x, y));
        x += WIDTH;
        if x >= 24 {
            x = 0;
            y += HEIGHT;
        }
    }
    let dashboard = json!({
        "title": "barewire",
        "uid": "barewire-counters",
        "tags": ["barewire"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": true,
        "refresh": "10s",
        "time": { "from": "now-30m", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source" },
            {
                "name": "name", "label": "Engine", "type": "query", "multi": true, "includeAll": true,
                "datasource": { "type": "prometheus", "uid": "${datasource}" },
                "query": { "query": "label_values(barewire_page_alive, name)", "refId": "name" },
                "refresh": 2, "current": { "text": "All", "value": "$__all" },
            },
        ] },
        "panels": panels,
    });
    serde_json::to_string_pretty(&dashboard).unwrap_or_default()
}

fn panel(family: &Family, id: u32, x: u32, y: u32) -> Value {
    let sample = family.sample();
    let chosen = if family.has_page() { format!("{sample}{{name=~\"$name\"}}") } else { sample };
    let counter = family.kind == CounterKind::Counter;
    let (expr, unit) = match (counter, family.unit) {
        (true, Unit::Bytes) => (format!("rate({chosen}[$__rate_interval])"), "Bps"),
        (true, _) => (format!("rate({chosen}[$__rate_interval])"), "cps"),
        (false, Unit::Bytes) => (chosen, "bytes"),
        (false, Unit::Nanoseconds) => (chosen, "s"),
        (false, _) => (chosen, "short"),
    };
    // Dozens of reasons never happen: those are left out.
    let expr = if family.counts_drops() { format!("{expr} > 0") } else { expr };
    let legend: Vec<String> = family
        .has_page()
        .then_some(&"name")
        .into_iter()
        .chain(family.labels)
        .map(|label| format!("{{{{{label}}}}}"))
        .collect();
    let color = if family.counts_drops() {
        json!({ "mode": "palette-classic-by-name" })
    } else {
        json!({ "mode": "palette-classic" })
    };
    json!({
        "id": id,
        "type": "timeseries",
        "title": family.name.replace('_', " "),
        "description": family.help,
        "datasource": { "type": "prometheus", "uid": "${datasource}" },
        "gridPos": { "x": x, "y": y, "w": WIDTH, "h": HEIGHT },
        "fieldConfig": { "defaults": { "unit": unit, "min": 0, "color": color }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
        "targets": [{ "refId": "A", "expr": expr, "legendFormat": legend.join(" ") }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_expression_names_a_metric_that_exists_and_none_is_left_out() {
        let dashboard: Value = serde_json::from_str(&dashboard()).unwrap();
        let known: BTreeSet<String> = families().iter().map(Family::sample).collect();
        let mut seen = BTreeSet::new();
        let mut places = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let at = &panel["gridPos"];
            assert!(places.insert((at["x"].as_u64(), at["y"].as_u64())), "two panels at one place: {panel}");
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expr = target["expr"].as_str().unwrap();
                let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let names: Vec<&str> = words.filter(|word| word.starts_with("barewire_")).collect();
                assert_eq!(names.len(), 1, "{expr}");
                assert!(known.contains(names[0]), "{expr}");
                assert_eq!(expr.starts_with("rate("), names[0].ends_with("_total"), "{expr}");
                assert_eq!(expr.contains("$name"), names[0] != "barewire_pages_left_out", "{expr}");
                seen.insert(names[0].to_owned());
            }
        }
        assert_eq!(seen, known);
        let query = dashboard["templating"]["list"][1]["query"]["query"].as_str().unwrap();
        assert!(known.iter().any(|name| query.contains(name)), "{query}");
    }
}
