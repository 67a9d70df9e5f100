//! What the architectures call the externs that P4Info knows.

use barewire_p4_source::instances::{Bound, InstanceId, Instances, Of};
use barewire_p4_source::types::value::Value;

use super::ids::Kind;
use crate::message::{CounterUnit, MeterUnit};

/// An architecture that P4Info can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// v1model.
    V1Model,
    /// Portable Switch Architecture.
    Psa,
    /// Portable NIC Architecture.
    Pna,
    /// ubpf_model.
    Ubpf,
}

/// What a table's property says of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Its action profile or selector.
    Implementation,
    /// Its direct counter.
    Counter,
    /// Its direct meter.
    Meter,
    /// Whether its entries age.
    Ageing,
}

impl Arch {
    /// By the name that the checker gives it.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "v1model" => Self::V1Model,
            "psa" => Self::Psa,
            "pna" => Self::Pna,
            "ubpf" => Self::Ubpf,
            _ => return None,
        })
    }

    /// What an extern is for P4Info.
    pub fn extern_kind(self, name: &str) -> Option<Kind> {
        Some(match (self, name) {
            (Self::V1Model, "counter") => Kind::Counter,
            (Self::V1Model, "direct_counter") => Kind::DirectCounter,
            (Self::V1Model, "meter") => Kind::Meter,
            (Self::V1Model, "direct_meter") => Kind::DirectMeter,
            (Self::V1Model, "action_profile" | "action_selector") => Kind::ActionProfile,
            (Self::V1Model, "register") => Kind::Register,
            (Self::V1Model, _) => return None,
            (_, "Counter") => Kind::Counter,
            (_, "DirectCounter") => Kind::DirectCounter,
            (_, "Meter") => Kind::Meter,
            (_, "DirectMeter") => Kind::DirectMeter,
            (_, "ActionProfile" | "ActionSelector") => Kind::ActionProfile,
            (_, "Register") => Kind::Register,
            (Self::Psa | Self::Pna, "Digest") => Kind::Digest,
            _ => return None,
        })
    }

    /// What a property is for P4Info.
    pub fn property(self, name: &str) -> Option<Property> {
        Some(match (self, name) {
            (Self::V1Model, "implementation") => Property::Implementation,
            (Self::V1Model, "counters") => Property::Counter,
            (Self::V1Model, "meters") => Property::Meter,
            (Self::V1Model, "support_timeout") => Property::Ageing,
            (Self::Psa | Self::Ubpf, "psa_implementation") => Property::Implementation,
            (Self::Psa | Self::Ubpf, "psa_direct_counter") => Property::Counter,
            (Self::Psa | Self::Ubpf, "psa_direct_meter") => Property::Meter,
            (Self::Psa, "psa_idle_timeout") => Property::Ageing,
            (Self::Pna, "pna_implementation") => Property::Implementation,
            (Self::Pna, "pna_direct_counter") => Property::Counter,
            (Self::Pna, "pna_direct_meter") => Property::Meter,
            (Self::Pna, "pna_idle_timeout" | "psa_idle_timeout") => Property::Ageing,
            _ => return None,
        })
    }

    /// Which type argument of an extern is the type of its index.
    pub fn index_argument(self, kind: Kind) -> Option<usize> {
        match (self, kind) {
            (Self::V1Model, _) => None,
            (_, Kind::Counter | Kind::Register) => Some(1),
            (_, Kind::Meter) => Some(0),
            _ => None,
        }
    }
}

/// What the constructor of an extern was given for a parameter.
pub fn argument<'i>(instances: &'i Instances<'_, '_>, id: InstanceId, names: &[&str]) -> Option<&'i Value> {
    let instance = instances.get(id);
    let Of::Extern(of, _) = &instance.of else { return None };
    let typed = instances.typed;
    let methods = &typed.externs[of.index()].methods;
    let params = methods.iter().flat_map(|method| &typed.functions[method.index()].params);
    params.filter(|param| names.contains(&&*param.name)).find_map(|param| {
        match instance.bound.get(&param.decl.id) {
            Some(Bound::Value(value)) => Some(value),
            _ => None,
        }
    })
}

/// How many elements it has.
pub fn size(instances: &Instances<'_, '_>, id: InstanceId) -> i64 {
    let value = argument(instances, id, &["size", "n_counters", "n_meters"]);
    value.and_then(Value::as_u32).map_or(0, i64::from)
}

/// The word for its unit.
fn unit_word(instances: &Instances<'_, '_>, id: InstanceId) -> String {
    match argument(instances, id, &["type"]) {
        Some(Value::Enum(of, at)) => {
            let members = &instances.typed.enums[of.index()].members;
            members.get(*at as usize).map(|(name, _)| name.to_lowercase()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// What a counter counts.
pub fn counter_unit(instances: &Instances<'_, '_>, id: InstanceId) -> CounterUnit {
    match &*unit_word(instances, id) {
        "packets" => CounterUnit::Packets,
        "bytes" => CounterUnit::Bytes,
        "packets_and_bytes" => CounterUnit::Both,
        _ => CounterUnit::Unspecified,
    }
}

/// What a meter meters.
pub fn meter_unit(instances: &Instances<'_, '_>, id: InstanceId) -> MeterUnit {
    match &*unit_word(instances, id) {
        "packets" => MeterUnit::Packets,
        "bytes" => MeterUnit::Bytes,
        _ => MeterUnit::Unspecified,
    }
}
