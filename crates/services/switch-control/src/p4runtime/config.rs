//! `SetForwardingPipelineConfig`: a new program, checked, saved, committed, with or without the old one's entries.

use super::arbitration::role_name;
use super::device::{Device, Forwarding, Saved, lock};
use super::error::{P4Error, Result, invalid, not_found};
use super::message::{ConfigAction, ForwardingPipelineConfig, SetForwardingPipelineConfigRequest};
use super::target::{Pipeline, Target};
use crate::p4info::Index;
use barewire_p4::ir::Program;
use barewire_p4::key::MatchParam;
#[cfg(doc)]
use barewire_switch::control::Switch;
use barewire_switch::control::link::MAX_ATOMIC;
use barewire_switch::control::{NewEntry, TableWrite, Takeover};
use barewire_switch::prepared::{EngineKind, Prepared, prepare};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pushed config held against its program.
///
/// # Errors
/// INVALID_ARGUMENT when it has no P4Info, or one of another program.
pub(super) fn pipeline(config: ForwardingPipelineConfig, program: Arc<Program>) -> Result<Pipeline> {
    let info = config.p4info.as_ref().ok_or_else(|| invalid("config.p4info is not set"))?;
    let index = Index::new(info, program).map_err(|error| invalid(error.to_string()))?;
    Ok(Pipeline { config, index })
}

impl Target {
    /// Entries that come with a program without being const have the program's priorities, which are better than any a
    /// controller can give. Give them the ones P4Runtime counts them by: as many as there are for the first.
    pub(super) fn normalise_initial_entries(&self) -> Result<()> {
        let index = self.index();
        for table in
            index.tables.iter().filter(|table| table.needs_priority && table.initial > 0 && !table.is_const)
        {
            // Another control plane's priorities may be as low: only the program's own are meant.
            let mut own: BTreeMap<u32, Vec<&[MatchParam]>> = BTreeMap::new();
            for entry in index.program.tables.get(table.table.at()).iter().flat_map(|known| &known.entries) {
                own.entry(entry.priority).or_default().push(&entry.key);
            }
            let mut writes = Vec::new();
            for entry in self.switch.entries(table.table)? {
                if entry.is_const
                    || entry.priority > table.initial
                    || !own.get(&entry.priority).is_some_and(|keys| keys.contains(&&entry.key[..]))
                {
                    continue;
                }
                let counted = (table.initial + 1).saturating_sub(entry.priority);
                let priority = super::keys::store_priority(table, i32::try_from(counted).unwrap_or(i32::MAX));
                writes.push(TableWrite::Delete { table: table.table, handle: entry.handle });
                let new = NewEntry {
                    key: entry.key,
                    priority,
                    action: entry.action,
                    ttl_ms: entry.ttl_ms,
                    cookie: entry.cookie,
                };
                writes.push(TableWrite::Add { table: table.table, entry: new });
            }
            // Where the program runs already, no packet may find one of them missing.
            for some in writes.chunks(MAX_ATOMIC & !1) {
                self.switch.write_all(some.to_vec()).map_err(|(_, error)| error)?;
            }
        }
        Ok(())
    }
}

impl Device {
    /// `SetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// As the specification says of each action; the program that runs goes on.
    pub fn set_config(&self, request: SetForwardingPipelineConfigRequest) -> Result<()> {
        self.check_device(request.device_id)?;
        let role = role_name(request.role_id, &request.role);
        lock(&self.arbiter).check_writer(&role, request.election_id)?;
        let action = match ConfigAction::try_from(request.action) {
            Ok(ConfigAction::Unspecified) | Err(_) => {
                return Err(invalid(format!("action {} is not known", request.action)));
            }
            Ok(action) => action,
        };
        if action == ConfigAction::Commit {
            if request.config.is_some() {
                return Err(invalid("COMMIT takes the config that was saved: config must not be set"));
            }
            let mut forwarding = lock(&self.forwarding);
            lock(&self.arbiter).check_writer(&role, request.election_id)?;
            let saved = forwarding.saved.take().ok_or_else(|| not_found("no config is saved"))?;
            return self.install(&mut forwarding, saved, Takeover::Fresh).map_err(|(saved, error)| {
                // It may be committed again.
                forwarding.saved = Some(*saved);
                error
            });
        }
        // Compiling takes long; writes go on meanwhile.
        let config = request.config.ok_or_else(|| invalid("config is not set"))?;
        let (prepared, pipeline) = self.verify(config)?;
        let mut forwarding = lock(&self.forwarding);
        lock(&self.arbiter).check_writer(&role, request.election_id)?;
        match action {
            ConfigAction::Verify => Ok(()),
            ConfigAction::VerifyAndSave => {
                forwarding.saved = Some(self.shadow(prepared, pipeline)?);
                Ok(())
            }
            ConfigAction::ReconcileAndCommit => self.reconcile(&mut forwarding, prepared, pipeline),
            _ => {
                let fresh = self.shadow(prepared, pipeline)?;
                self.install(&mut forwarding, fresh, Takeover::Fresh).map_err(|(_, error)| error)
            }
        }
    }

    fn verify(&self, config: ForwardingPipelineConfig) -> Result<(Arc<Prepared>, Arc<Pipeline>)> {
        if config.p4_device_config.is_empty() {
            return Err(invalid("config.p4_device_config is empty: it holds the compiler's JSON"));
        }
        let json = std::str::from_utf8(&config.p4_device_config).map_err(|error| {
            invalid(format!(
                "config.p4_device_config is not UTF-8 at byte {}: it holds the compiler's JSON",
                error.valid_up_to()
            ))
        })?;
        let kind = self.switch.info().engine.parse::<EngineKind>().unwrap_or_default();
        let prepared =
            prepare(json, kind).map_err(|error| invalid(format!("config.p4_device_config: {error}")))?;
        let pipeline = pipeline(config, Arc::clone(&prepared.program))?;
        Ok((Arc::new(prepared), Arc::new(pipeline)))
    }

    /// A program that takes writes and does not run yet.
    pub(super) fn shadow(&self, prepared: Arc<Prepared>, pipeline: Arc<Pipeline>) -> Result<Saved> {
        let target = Target::with_ports(self.switch.shadow(prepared)?, self.switch.clone(), pipeline);
        target.normalise_initial_entries()?;
        Ok(Saved { target })
    }

    /// A program from now on, whole, with what was written to it. What was saved before is dropped.
    ///
    /// # Errors
    /// As [`Switch::commit_shadow`]: then all goes on as it was, and the program is given back.
    pub(super) fn install(
        &self,
        forwarding: &mut Forwarding,
        mut saved: Saved,
        takeover: Takeover,
    ) -> std::result::Result<(), (Box<Saved>, P4Error)> {
        // Nobody told it of ports while it did not run. What changes from here on is told after it runs.
        saved.target.look_at_ports();
        let epoch = match self.switch.commit_shadow(&saved.target.switch, takeover) {
            Ok(epoch) => epoch,
            Err(error) => return Err((Box::new(saved), error.into())),
        };
        saved.target.moves_to(&self.switch, epoch);
        self.forget_lists(epoch);
        forwarding.live = Some(saved.target);
        forwarding.saved = None;
        self.publish(forwarding);
        Ok(())
    }
}
