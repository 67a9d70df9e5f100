//! Externs that P4Info knows: counters, meters, registers, action profiles, digests.

use barewire_p4_source::ast::{self, Annotation};
use barewire_p4_source::instances::{InstanceId, Of};
use barewire_p4_source::types::ty::TypeId;

use super::Builder;
use super::annotate::{self, Notes, notes, preamble};
use super::arch::{self, Property};
use super::collect::{TableAt, property_extern};
use super::ids::Kind;
use crate::message::{
    ActionProfileInfo, CounterInfo, CounterSpec, DigestInfo, DirectCounterInfo, DirectMeterInfo, MeterInfo,
    MeterSpec, MeterType, Preamble, RegisterInfo, SelectorSizeSemantics, SumOfMembers, SumOfWeights,
    TableInfo,
};
use crate::types::P4NamedType;

impl<'a> Builder<'_, 'a, '_> {
    fn preamble_of(&self, kind: Kind, name: &str, notes: Notes) -> Option<Preamble> {
        let id = self.symbols.id(kind, name);
        Some(preamble(id, name.to_owned(), self.symbols.alias(name), notes))
    }

    fn type_argument(&self, id: InstanceId, at: usize) -> Option<TypeId> {
        match &self.instances.get(id).of {
            Of::Extern(_, args) => {
                let parent = self.instances.get(id).parent;
                args.get(at).map(|&ty| self.instances.type_in(parent, ty))
            }
            _ => None,
        }
    }

    fn index_type(&mut self, id: InstanceId, kind: Kind) -> Option<P4NamedType> {
        let at = self.arch.index_argument(kind)?;
        let ty = self.type_argument(id, at)?;
        self.specs.spec(self.instances.get(id).parent, ty);
        self.specs.type_name(ty)
    }

    /// An extern with a declaration. Direct ones are told with their table.
    pub(super) fn extern_instance(&mut self, id: InstanceId) {
        self.specs.open();
        let Some(kind) = self.extern_of(id) else { return };
        let name = self.instances.name(id);
        let annotations = self.instances.annotations(id);
        let all = notes(self.instances, annotations, &|_| false);
        match kind {
            Kind::Counter => {
                let index_type_name = self.index_type(id, kind);
                self.out.counters.push(CounterInfo {
                    preamble: self.preamble_of(kind, &name, all),
                    spec: Some(CounterSpec { unit: arch::counter_unit(self.instances, id) as i32 }),
                    size: arch::size(self.instances, id),
                    index_type_name,
                });
            }
            Kind::Meter => {
                let index_type_name = self.index_type(id, kind);
                self.out.meters.push(MeterInfo {
                    preamble: self.preamble_of(kind, &name, all),
                    spec: Some(self.meter_spec(id)),
                    size: arch::size(self.instances, id),
                    index_type_name,
                });
            }
            Kind::Register => {
                let parent = self.instances.get(id).parent;
                let type_spec = self.type_argument(id, 0).and_then(|ty| self.specs.spec(parent, ty));
                let index_type_name = self.index_type(id, kind);
                self.out.registers.push(RegisterInfo {
                    preamble: self.preamble_of(kind, &name, all),
                    type_spec,
                    size: arch::size(self.instances, id) as i32,
                    index_type_name,
                });
            }
            Kind::ActionProfile => self.profile(id, &name, annotations),
            Kind::Digest => {
                if let Some(ty) = self.type_argument(id, 0) {
                    let within = self.instances.get(id).parent.unwrap_or(id);
                    self.digest(within, name, ty, all);
                }
            }
            _ => {}
        }
    }

    fn meter_spec(&self, id: InstanceId) -> MeterSpec {
        let unit = arch::meter_unit(self.instances, id) as i32;
        MeterSpec { unit, r#type: MeterType::TwoRateThreeColor as i32 }
    }

    pub(super) fn digest(&mut self, within: InstanceId, name: String, ty: TypeId, notes: Notes) {
        let id = self.symbols.id(Kind::Digest, &name);
        if !self.told.insert(id) {
            return;
        }
        let type_spec = self.specs.spec(Some(within), ty);
        let preamble = self.preamble_of(Kind::Digest, &name, notes);
        self.out.digests.push(DigestInfo { preamble, type_spec });
    }

    fn profile(&mut self, id: InstanceId, name: &str, annotations: &'a [Annotation]) {
        let Of::Extern(of, _) = &self.instances.get(id).of else { return };
        let word = &self.instances.typed.externs[of.index()].name;
        let with_selector = matches!(&**word, "action_selector" | "ActionSelector");
        let own =
            |name: &str| matches!(name, "max_group_size" | "selector_size_semantics" | "max_member_weight");
        let of = notes(self.instances, annotations, &own);
        let number = |name: &str| {
            ast::annotation(annotations, name)
                .filter(|_| with_selector)
                .and_then(annotate::number)
                .unwrap_or(0) as i32
        };
        let semantics = ast::annotation(annotations, "selector_size_semantics")
            .filter(|_| with_selector)
            .and_then(Annotation::string);
        let selector_size_semantics = match semantics.map(|word| word.to_lowercase()).as_deref() {
            Some("sum_of_weights") => Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
            Some("sum_of_members") => Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers {
                max_member_weight: number("max_member_weight"),
            })),
            _ => None,
        };
        let tables = self.profile_tables.get(name);
        let table_ids =
            tables.into_iter().flatten().map(|table| self.symbols.id(Kind::Table, table)).collect();
        self.out.action_profiles.push(ActionProfileInfo {
            preamble: self.preamble_of(Kind::ActionProfile, name, of),
            table_ids,
            with_selector,
            size: arch::size(self.instances, id),
            max_group_size: number("max_group_size"),
            selector_size_semantics,
        });
    }

    /// What the properties of a table name or make.
    pub(super) fn table_externs(&mut self, at: TableAt<'a>, table_name: &str, table: &mut TableInfo) {
        let direct_table_id = self.symbols.id(Kind::Table, table_name);
        if let Some(found) = property_extern(self.instances, self.arch, at, Property::Implementation) {
            table.implementation_id = self.symbols.id(Kind::ActionProfile, &found.name);
            if found.in_place {
                self.profile(found.id, &found.name, found.annotations);
            }
        }
        if let Some(found) = property_extern(self.instances, self.arch, at, Property::Counter) {
            table.direct_resource_ids.push(self.symbols.id(Kind::DirectCounter, &found.name));
            let of = notes(self.instances, found.annotations, &|_| false);
            self.out.direct_counters.push(DirectCounterInfo {
                preamble: self.preamble_of(Kind::DirectCounter, &found.name, of),
                spec: Some(CounterSpec { unit: arch::counter_unit(self.instances, found.id) as i32 }),
                direct_table_id,
            });
        }
        if let Some(found) = property_extern(self.instances, self.arch, at, Property::Meter) {
            table.direct_resource_ids.push(self.symbols.id(Kind::DirectMeter, &found.name));
            let of = notes(self.instances, found.annotations, &|_| false);
            self.out.direct_meters.push(DirectMeterInfo {
                preamble: self.preamble_of(Kind::DirectMeter, &found.name, of),
                spec: Some(self.meter_spec(found.id)),
                direct_table_id,
            });
        }
    }
}
