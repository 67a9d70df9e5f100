//! Rows as documents have them: flat, but for the objects that keys name.

use super::{Kind, Measure, Row, Run, Stat, Subject, Value, with_cpu};
use crate::cpu::CpuPerOp;
use crate::histograms::Histograms;
use crate::talk::client::OtherEnd;
use crate::wall_clock::WallTime;
use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value as Json, json};

impl Row {
    /// The row of `subject` as another process's document has it.
    ///
    /// # Errors
    /// What cannot be read of it.
    pub fn read(
        subject: Subject,
        measures: &'static [Measure],
        row: Map<String, Json>,
    ) -> Result<Row, serde_json::Error> {
        let measures = with_cpu(measures);
        let values = |of: &Map<String, Json>, in_run: bool| -> Vec<Value> {
            let each = |m: &Measure| match (m.pooled, m.kind) {
                (Some(pooled), Kind::Spans(stats)) => pooled.read(m.key, stats, of, in_run),
                _ => at(m, of).map_or(Value::None, |json| read(m, json)),
            };
            measures.iter().map(each).collect()
        };
        let (all, told) = (values(&row, false), Told::deserialize(Json::Object(row))?);
        let each = |run: &Map<String, Json>| {
            let own = RunTold::deserialize(Json::Object(run.clone()))?;
            Ok(Run {
                values: values(run, true),
                contended: own.contended,
                void: own.void,
                when: own.measured,
            })
        };
        let runs = told.runs.iter().map(each).collect::<Result<_, serde_json::Error>>()?;
        Ok(Row {
            subject,
            values: all,
            runs,
            cpu: told.cpu,
            contended: told.contended,
            contention: told.contention,
            notes: told.notes,
            missing: told.missing,
            recorded: told.recorded,
            void: told.void,
            no_baseline: told.no_baseline,
            other_end: told.waits.map(|waits| OtherEnd { waits, cpu_unknown: told.cpu_unknown }),
            broken_off: told.broken_off,
            histograms: told.histograms,
            measures,
        })
    }
}

/// What a row in a document says besides its measures.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    runs: Vec<Map<String, Json>>,
    contended: bool,
    contention: Vec<String>,
    notes: Vec<String>,
    missing: Option<String>,
    recorded: Option<String>,
    void: Option<String>,
    no_baseline: Option<String>,
    waits: Option<String>,
    cpu_unknown: Option<String>,
    broken_off: Option<String>,
    cpu: Option<CpuPerOp>,
    histograms: Histograms,
}

/// What a run in it says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RunTold {
    contended: bool,
    void: Option<String>,
    measured: Option<WallTime>,
}

/// Where a row, or a run, has the measure.
fn at<'a>(measure: &Measure, of: &'a Map<String, Json>) -> Option<&'a Json> {
    match measure.object() {
        Some((object, key)) => of.get(object)?.get(key),
        None => of.get(measure.key),
    }
}

/// Keys and values of some measures, in their order; those of one object, which follow each other, together. One of which nothing was
/// measured is null.
fn entries<'a>(all: impl Iterator<Item = (&'a Measure, &'a Value)>) -> Vec<(&'static str, Json)> {
    let mut entries: Vec<(&'static str, Json)> = Vec::new();
    for (measure, value) in all {
        let told = json_of(measure, value);
        let Some((object, key)) = measure.object() else {
            entries.push((measure.key, told));
            continue;
        };
        if entries.last().is_none_or(|(last, _)| *last != object) {
            entries.push((object, Json::Null));
        }
        if let (Some((_, last)), false) = (entries.last_mut(), told.is_null()) {
            last[key] = told;
        }
    }
    entries
}

/// The inverse of [`json_of`].
fn read(measure: &Measure, json: &Json) -> Value {
    match measure.kind {
        Kind::Word if json.is_null() => Value::None,
        Kind::Word => Value::Word(json.clone()),
        Kind::Median | Kind::Sum => json.as_f64().map_or(Value::None, Value::Number),
        Kind::Spans(stats) => json.get("samples").and_then(Json::as_u64).map_or(Value::None, |samples| {
            Value::Spans(
                samples,
                stats.iter().map(|(key, ..)| json.get(key).and_then(Json::as_f64)).collect(),
            )
        }),
    }
}

/// A value as JSON; whole numbers where the measure has no parts.
fn json_of(measure: &Measure, value: &Value) -> Json {
    let whole = |n: f64| json!(n as i64);
    match (value, measure.kind) {
        (Value::None, _) => Json::Null,
        (Value::Word(word), _) => word.clone(),
        (Value::Number(n), _) if measure.is_whole() && n.fract() == 0.0 => whole(*n),
        (Value::Number(n), _) => json!(n),
        (Value::Spans(samples, values), Kind::Spans(stats)) => {
            let mut object = Map::new();
            // Those of all runs together are the row's own.
            if measure.pooled.is_none() {
                object.insert("samples".to_owned(), json!(samples));
            }
            for ((key, _, stat), value) in stats.iter().zip(values) {
                let told =
                    value.map_or(Json::Null, |ns| if *stat == Stat::Mean { json!(ns) } else { whole(ns) });
                object.insert((*key).to_owned(), told);
            }
            object.into()
        }
        (Value::Spans(..), _) => Json::Null,
    }
}

/// Samples of the first spans, which stand at the row as at the run.
pub(super) fn samples(values: &[Value]) -> Option<u64> {
    values.iter().find_map(|value| match value {
        Value::Spans(samples, _) => Some(*samples),
        _ => None,
    })
}

struct RunJson<'a>(&'a Row, &'a Run);

impl Serialize for RunJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunJson(row, run) = self;
        let mut map = serializer.serialize_map(None)?;
        if let Some(samples) = samples(&run.values) {
            map.serialize_entry("samples", &samples)?;
        }
        let measured = || row.measures.iter().zip(&run.values).filter(|(_, value)| **value != Value::None);
        for (measure, value) in measured() {
            for (key, value) in measure.pooled.iter().flat_map(|pooled| pooled.in_run(measure, value)) {
                map.serialize_entry(key, &value)?;
            }
        }
        for (key, value) in entries(measured().filter(|(measure, _)| measure.pooled.is_none())) {
            map.serialize_entry(key, &value)?;
        }
        map.serialize_entry("contended", &run.contended)?;
        map.serialize_entry("void", &run.void)?;
        if let Some(when) = &run.when {
            map.serialize_entry("measured", when)?;
        }
        map.end()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let who = &self.subject;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("system", &who.system)?;
        for (key, value) in [("mode", &who.mode), ("engine", &who.engine), ("over", &who.over)] {
            if value.is_some() {
                map.serialize_entry(key, value)?;
            }
        }
        for param in &who.params {
            map.serialize_entry(param.key, &param.value)?;
        }
        if let Some(samples) = samples(&self.values) {
            map.serialize_entry("samples", &samples)?;
        }
        for (key, value) in entries(self.measures.iter().zip(&self.values)) {
            map.serialize_entry(key, &value)?;
        }
        for (key, value) in self.measures.iter().filter_map(|measure| self.each_of_runs(measure)) {
            map.serialize_entry(key, &value)?;
        }
        map.serialize_entry("cpu", &self.cpu)?;
        map.serialize_entry("runs", &self.runs.iter().map(|run| RunJson(self, run)).collect::<Vec<_>>())?;
        if let Some(state) = &who.idle_state {
            map.serialize_entry("idle_state", state)?;
        }
        map.serialize_entry("contended", &self.contended)?;
        map.serialize_entry("contention", &self.contention)?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("void", &self.void)?;
        let other = self.other_end.clone().unwrap_or_default();
        for (key, value) in [
            ("missing", &self.missing),
            ("recorded", &self.recorded),
            ("broken_off", &self.broken_off),
            ("no_baseline", &self.no_baseline),
            ("waits", &self.other_end.as_ref().map(|_| other.waits)),
            ("cpu_unknown", &other.cpu_unknown),
        ] {
            if value.is_some() {
                map.serialize_entry(key, value)?;
            }
        }
        map.serialize_entry("command", &who.command)?;
        let explained = who.params.iter().filter(|param| !param.is_implied);
        let units: Map<_, _> =
            explained.map(|param| (param.key.to_owned(), param.unit.word().into())).collect();
        map.serialize_entry("params", &units)?;
        let explained: Map<_, _> = self
            .measures
            .iter()
            .map(|m| (m.key.to_owned(), json!({"unit": m.unit.word(), "better": m.better, "words": m.words})))
            .collect();
        map.serialize_entry("measures", &explained)?;
        map.end()
    }
}
