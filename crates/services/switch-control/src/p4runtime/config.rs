//! `SetForwardingPipelineConfig`: a new program, checked, saved, committed, with or without the old one's entries.

use super::arbitration::role_name;
use super::device::{Device, Forwarding, Saved, lock};
use super::error::{P4Error, Result, invalid, not_found};
use super::message::{
    Atomicity, ConfigAction, ForwardingPipelineConfig, SetForwardingPipelineConfigRequest, Update,
};
use super::target::{Notes, Pipeline, Target};
use crate::p4info::Index;
use barewire_p4::ir::Program;
use barewire_switch::control::{NewEntry, Switch, SwitchConfig};
use barewire_switch::prepared::{EngineKind, Prepared, prepare};
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// Updates that may be written to a program before it is committed.
const MAX_SAVED_UPDATES: usize = 1 << 20;

/// A pushed config held against its program.
///
/// # Errors
/// INVALID_ARGUMENT when it has no P4Info, or one of another program.
pub(super) fn pipeline(config: ForwardingPipelineConfig, program: Arc<Program>) -> Result<Pipeline> {
    let info = config.p4info.as_ref().ok_or_else(|| invalid("config.p4info is not set"))?;
    let index = Index::new(info, program).map_err(|error| invalid(error.to_string()))?;
    Ok(Pipeline { config, index })
}

impl Saved {
    /// Write to the shadow, and remember it for the commit.
    pub(super) fn write(&mut self, updates: Vec<Update>, atomicity: Atomicity) -> Result<Vec<Result<()>>> {
        self.updates += updates.len();
        if self.updates > MAX_SAVED_UPDATES {
            let message = format!("a saved config takes {MAX_SAVED_UPDATES} updates: commit it");
            return Err(P4Error::new(Code::ResourceExhausted, message));
        }
        let results = self.target.write(&updates, atomicity);
        if results.iter().any(Result::is_ok) {
            self.written.push((updates, atomicity));
        }
        Ok(results)
    }
}

impl Target {
    /// Entries that come with a program without being const have the program's priorities, which are better than any a
    /// controller can give. Give them the ones P4Runtime counts them by: as many as there are for the first.
    pub(super) fn normalise_initial_entries(&self) -> Result<()> {
        let index = self.index();
        for table in
            index.tables.iter().filter(|table| table.needs_priority && table.initial > 0 && !table.is_const)
        {
            for entry in self.switch.entries(table.table)? {
                if entry.is_const || entry.priority > table.initial {
                    continue;
                }
                let counted = (table.initial + 1).saturating_sub(entry.priority);
                let priority = super::keys::store_priority(table, i32::try_from(counted).unwrap_or(i32::MAX));
                self.switch.delete_entry(table.table, entry.handle)?;
                let new = NewEntry {
                    key: entry.key,
                    priority,
                    action: entry.action,
                    ttl_ms: entry.ttl_ms,
                    cookie: entry.cookie,
                };
                self.switch.add_entry_with(table.table, new)?;
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
            return self.commit(&mut forwarding, saved);
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
            ConfigAction::ReconcileAndCommit => self.reconcile(&mut forwarding, &prepared, &pipeline),
            _ => {
                forwarding.saved = None;
                self.replace(&mut forwarding, &prepared, &pipeline)
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

    /// A switch without engines that takes writes to a program which does not run.
    pub(super) fn shadow(&self, prepared: Arc<Prepared>, pipeline: Arc<Pipeline>) -> Result<Saved> {
        let info = self.switch.info();
        let config = SwitchConfig {
            device_id: info.device_id,
            drop_port: info.drop_port,
            cpu_port: info.cpu_port,
            sweep_interval: Duration::ZERO,
            ..SwitchConfig::default()
        };
        let switch = Switch::new(config, Some(Arc::clone(&prepared)))?;
        let target = Target::with_ports(switch, self.switch.clone(), pipeline);
        target.normalise_initial_entries()?;
        Ok(Saved { prepared, target, written: Vec::new(), updates: 0 })
    }

    /// The program from now on, as fresh.
    fn replace(
        &self,
        forwarding: &mut Forwarding,
        prepared: &Arc<Prepared>,
        pipeline: &Arc<Pipeline>,
    ) -> Result<()> {
        if let Some(live) = &mut forwarding.live {
            live.clear_replication()?;
        }
        self.install(forwarding, prepared, pipeline, Notes::default())
    }

    /// The program from now on, with notes that outlive the old one.
    pub(super) fn install(
        &self,
        forwarding: &mut Forwarding,
        prepared: &Arc<Prepared>,
        pipeline: &Arc<Pipeline>,
        notes: Notes,
    ) -> Result<()> {
        self.switch.commit_prepared(Arc::clone(prepared))?;
        let mut target = Target::new(self.switch.clone(), Arc::clone(pipeline));
        target.notes = notes;
        let normalised = target.normalise_initial_entries();
        forwarding.live = Some(target);
        self.publish(forwarding);
        normalised
    }

    /// The saved program, and all that was written to it.
    fn commit(&self, forwarding: &mut Forwarding, saved: Saved) -> Result<()> {
        let Saved { prepared, target, written, .. } = saved;
        self.replace(forwarding, &prepared, &target.pipeline)?;
        let Some(live) = &mut forwarding.live else { return Ok(()) };
        for (updates, atomicity) in written {
            // What failed in the shadow fails here too, and its writer was told.
            live.write(&updates, atomicity);
        }
        self.publish(forwarding);
        Ok(())
    }
}
