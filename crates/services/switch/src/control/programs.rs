//! Programs: loaded, staged, swapped in. While a program is staged all control operations go to it (names, entries,
//! arrays, groups, value sets: bmv2's `bm_load_new_config`), so that it is swapped in with full tables; the running
//! one goes on as it is. What is of the switch and not of a program stays with the engines: multicast groups, mirror
//! sessions, queues, ports, digests.

use super::link::{Answer, EngineLink, Replica, ThrowAway};
use super::switch::{Control, Result, Switch};
use super::{ControlError, CounterValue, ErrorKind, Notification};
use crate::kernel::{Fold, Kernel};
use crate::prepared::{Prepared, prepare};
use crate::store::{StateWrite, Store, Write};
use barewire_p4::ir::Program;
use barewire_p4_state::ProgramState;
use std::sync::{Arc, mpsc};

/// Which program a handle means while one is staged.
#[derive(Debug, Clone)]
pub(super) enum View {
    /// The staged one if there is one.
    Newest,
    /// The running one.
    Running,
    /// The running one as long as it is this.
    Only(Arc<Program>),
}

impl View {
    /// The program that is staged is meant, if there is one.
    fn is_newest(&self) -> bool {
        matches!(self, View::Newest)
    }

    /// A handle of one program means no other: its tables' numbers are other tables there.
    fn check(&self, master: &Master) -> Result<()> {
        match self {
            View::Only(program) if !Arc::ptr_eq(program, &master.prepared.program) => {
                let why = "another control plane has swapped in a different program";
                Err(ControlError::new(ErrorKind::Overtaken, why))
            }
            _ => Ok(()),
        }
    }
}

/// A program with the master copy of what was written to it.
pub(super) struct Master {
    pub prepared: Arc<Prepared>,
    pub store: Store,
    /// Digest settings in force.
    pub digests: Vec<Write>,
}

/// Who gets the state that a program follows, with these of the kernel's counters in it.
#[derive(Clone)]
pub(super) struct ToOld {
    pub to: mpsc::Sender<ProgramState>,
    pub carried: Arc<[Fold]>,
}

/// A program that waits to be swapped in.
pub(super) struct Staged {
    pub master: Master,
    /// What the first engine will get: it holds the counters and registers that were written.
    pub state: Box<ProgramState>,
}

impl Master {
    pub(super) fn new(prepared: Arc<Prepared>) -> Result<Master> {
        let store = Store::new(Arc::clone(&prepared.program))?;
        Ok(Master { prepared, store, digests: Vec::new() })
    }

    /// Run this on an engine from now on, which is this epoch. No packet sees it without the writes; `old` gets the state it
    /// follows.
    pub(super) fn install_on(
        &self,
        link: &EngineLink,
        epoch: u64,
        state: Box<ProgramState>,
        beside: &[Write],
        old: Option<ToOld>,
        throw_away: &ThrowAway,
    ) {
        let prepared = Arc::clone(&self.prepared);
        let throw_away = throw_away.clone();
        // Made here: engines do not allocate.
        let old = old.map(|old| (old, ProgramState::new(&Program::empty())));
        let mut kernel = self.kernel();
        if let Ok(Some(kernel)) = &mut kernel
            && let Err(error) = kernel.begin_registers(&state)
        {
            kernel.failed(&error);
        }
        let install = move |replica: &mut dyn Replica| {
            // What the kernel has counted and nobody has asked for is a part of what the old program counted. The kernel runs
            // that program until the next one stands in its place.
            let carried = old.as_ref().map_or(&[][..], |(old, _)| &old.carried[..]);
            replica.install_kernel(kernel, carried);
            if let (Some((old, none)), Some(state)) = (old, replica.state()) {
                let _ = old.to.send(std::mem::replace(state, none));
            }
            let garbage = replica.install(&prepared, state);
            // Nobody is left to take it only when the switch is gone.
            let _ = throw_away.send(garbage);
        };
        link.install(install, beside.iter().chain(&self.digests).cloned().collect(), epoch);
    }
}

impl Master {
    /// The program in the kernel with everything that is here, where it is one for the kernel. It was loaded before, when it
    /// was prepared; should it fail now, for want of memory, user space does it all, and ports say why.
    fn kernel(&self) -> std::result::Result<Option<Box<Kernel>>, String> {
        let Some(compiled) = self.prepared.kernel() else { return Ok(None) };
        let mut kernel = Kernel::load(Arc::clone(&self.prepared.program), Arc::clone(compiled))
            .map_err(|error| error.to_string())?;
        self.store.populate(&mut |write| {
            if let Err(error) = kernel.apply(&write) {
                kernel.failed(&error);
            }
        });
        Ok(Some(Box::new(kernel)))
    }
}

impl Staged {
    pub(super) fn new(master: Master) -> Staged {
        let state = Box::new(master.store.build_state());
        Staged { master, state }
    }

    /// Apply a write; gives how many were refused.
    fn apply(&mut self, write: StateWrite) -> u64 {
        let accepted = write.apply(&mut self.state);
        // This is a thread that may stall.
        drop(self.state.take_garbage());
        u64::from(!accepted)
    }
}

fn no_program() -> ControlError {
    ControlError::new(ErrorKind::BadProgram, "no program has been loaded yet")
}

/// A state for another engine: the same entries; the registers, of which each engine has all; the counters start from
/// 0, as those of all engines are summed.
fn another(store: &Store, first: &ProgramState) -> Box<ProgramState> {
    let mut state = store.build_state();
    for (to, from) in state.registers.iter_mut().zip(&first.registers) {
        to.cells.copy_from_slice(&from.cells);
    }
    Box::new(state)
}

impl Control {
    /// Several engines have a state each, so a program that needs one for all is refused.
    pub(super) fn check_engines(&self, prepared: &Prepared) -> Result<()> {
        if self.links.iter().filter(|link| link.is_alive()).count() < 2 {
            return Ok(());
        }
        crate::server::may_be_shared_out(&prepared.program)
            .map_err(|why| ControlError::new(ErrorKind::BadProgram, why))
    }

    pub(super) fn is_staged(&self, view: &View) -> bool {
        view.is_newest() && self.staged.is_some()
    }

    pub(super) fn staged_mut(&mut self, view: &View) -> Option<&mut Staged> {
        self.staged.as_mut().filter(|_| view.is_newest())
    }

    /// The program that is meant.
    pub(super) fn master(&self, view: &View) -> Result<&Master> {
        let staged = self.staged.as_ref().filter(|_| view.is_newest());
        let master = staged.map(|staged| &staged.master).or(self.running.as_ref()).ok_or_else(no_program)?;
        view.check(master)?;
        Ok(master)
    }

    pub(super) fn store(&self, view: &View) -> Result<&Store> {
        Ok(&self.master(view)?.store)
    }

    pub(super) fn store_mut(&mut self, view: &View) -> Result<&mut Store> {
        self.master_mut(view).map(|master| &mut master.store)
    }

    pub(super) fn master_mut(&mut self, view: &View) -> Result<&mut Master> {
        let staged = self.staged.as_mut().filter(|_| view.is_newest());
        let master = staged.map(|staged| &mut staged.master).or(self.running.as_mut());
        let master = master.ok_or_else(no_program)?;
        view.check(master)?;
        Ok(master)
    }

    /// Send what the store of the program that is meant gave: to all engines, or to the staged state.
    pub(super) fn send_state(&mut self, view: &View, writes: Vec<Write>) {
        let Some(staged) = self.staged_mut(view) else { return self.send(writes) };
        let mut refused = 0;
        for write in writes {
            if let Write::State(write) = write {
                refused += staged.apply(write);
            }
        }
        debug_assert_eq!(refused, 0, "a replica accepts what the store accepted");
        self.refused += refused;
    }

    /// Set one thing on the first engine, and nothing on the others: reads sum over all.
    pub(super) fn send_shares(
        &mut self,
        view: &View,
        value: CounterValue,
        write: impl Fn(CounterValue) -> StateWrite,
    ) {
        if self.is_staged(view) {
            return self.send_state(view, vec![Write::State(write(value))]);
        }
        let mut share = value;
        self.links
            .retain(|link| link.write(&Arc::new(vec![Write::State(write(std::mem::take(&mut share)))])));
    }

    /// Send writes of many elements each, one at a time, so that no engine is held up for long.
    pub(super) fn send_in_pieces(&mut self, view: &View, pieces: impl Iterator<Item = StateWrite>) {
        let mut pace = !self.is_staged(view);
        for (at, piece) in pieces.enumerate() {
            // The first few may wait together. An engine that does not answer gets the rest at once.
            if at >= 4 && pace {
                let done: Vec<Answer<()>> = self.links.iter().map(|link| link.ask(|_| ())).collect();
                pace = done.into_iter().all(|answer| answer.wait().is_ok());
            }
            self.send_state(view, vec![Write::State(piece)]);
        }
    }

    /// Run this from now on, on all engines, with these writes at the same instant. `state` is what the first gets;
    /// without one all get what the store says. `old` gets the states that they had.
    pub(super) fn install(
        &mut self,
        master: Master,
        state: Option<Box<ProgramState>>,
        beside: &[Write],
        old: Option<&ToOld>,
        throw_away: &ThrowAway,
    ) {
        self.epoch += 1;
        self.began = self.epoch;
        let alive: Vec<&EngineLink> = self.links.iter().filter(|link| link.is_alive()).collect();
        let mut states: Vec<Box<ProgramState>> = Vec::with_capacity(alive.len());
        match state {
            Some(first) => {
                let others = (1..alive.len()).map(|_| another(&master.store, &first));
                states.extend(others);
                states.insert(0, first);
            }
            None => states.extend(alive.iter().map(|_| Box::new(master.store.build_state()))),
        }
        for (link, state) in alive.into_iter().zip(states) {
            master.install_on(link, self.began, state, beside, old.cloned(), throw_away);
        }
        self.running = Some(master);
        self.version += 1;
    }

    /// Put another master copy in the place of that of the program that is meant.
    pub(super) fn replace(&mut self, view: &View, store: Store, digests: Vec<Write>, throw_away: &ThrowAway) {
        let Ok(old) = self.master(view) else { return };
        let master = Master { prepared: Arc::clone(&old.prepared), store, digests };
        match self.staged_mut(view) {
            Some(staged) => *staged = Staged::new(master),
            None => self.install(master, None, &[], None, throw_away),
        }
    }
}

impl Switch {
    /// A handle of the same switch whose operations always go to the running program, while another is staged too.
    pub fn of_running(&self) -> Switch {
        Switch { inner: Arc::clone(&self.inner), view: View::Running }
    }

    /// A handle of the same switch for the running program while it is this one: once another is swapped in, whatever is of a
    /// program is refused with [`ErrorKind::Overtaken`], for one program's tables have other numbers than another's.
    pub fn of_program(&self, program: Arc<Program>) -> Switch {
        Switch { inner: Arc::clone(&self.inner), view: View::Only(program) }
    }

    /// The program that control operations go to: the staged one if there is one, else the running one; none before one
    /// is loaded.
    pub fn program(&self) -> Option<Arc<Program>> {
        self.lock().master(&self.view).ok().map(|master| Arc::clone(&master.prepared.program))
    }

    fn check_swap(&self) -> Result<()> {
        if self.inner.config.enable_swap {
            return Ok(());
        }
        Err(ControlError::new(
            ErrorKind::SwapDisabled,
            "the switch was started without permission to swap programs",
        ))
    }

    /// Check and compile a program, to be swapped in later. From now on control operations go to it, except those of
    /// [`Switch::of_running`]: its tables can be filled before it runs.
    ///
    /// # Errors
    /// [`ErrorKind`]: `SwapDisabled`, `OngoingSwap`, `BadProgram`.
    pub fn load(&self, json: &str) -> Result<()> {
        let check = |control: &Control| match &control.staged {
            None => Ok(()),
            Some(_) => {
                Err(ControlError::new(ErrorKind::OngoingSwap, "another program waits to be swapped in"))
            }
        };
        self.check_swap()?;
        check(&self.lock())?;
        let prepared = Arc::new(prepare(json, self.inner.config.engine)?);
        // What takes long is done without the lock.
        let staged = Staged::new(Master::new(prepared)?);
        let mut control = self.lock();
        check(&control)?;
        control.check_engines(&staged.master.prepared)?;
        control.staged = Some(staged);
        Ok(())
    }

    /// Run the program that was loaded last, with what was written to it since. Entries, groups and members of the old
    /// one are gone; multicast groups and mirror sessions stay. Idle time-outs begin now. No packet is lost.
    ///
    /// # Errors
    /// [`ErrorKind`]: `SwapDisabled`, `NoOngoingSwap`, `Unavailable`.
    pub fn swap(&self) -> Result<()> {
        self.check_swap()?;
        let now_us = self.time_us();
        let mut control = self.lock_for_write()?;
        let Some(Staged { mut master, state }) = control.staged.take() else {
            return Err(ControlError::new(ErrorKind::NoOngoingSwap, "no program waits to be swapped in"));
        };
        master.store.restart_ages(now_us);
        control.install(master, Some(state), &[], None, &self.inner.throw_away);
        control.tell(Notification::ProgramSwapped);
        drop(control);
        self.take_out_garbage();
        Ok(())
    }

    /// Check, compile and run a program; everything written before is gone, multicast groups, mirror sessions and a
    /// staged program too. No packet is lost. (P4Runtime's `VERIFY_AND_COMMIT`; it needs no leave to swap.)
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`]; then the old program keeps running.
    pub fn commit(&self, json: &str) -> Result<()> {
        self.commit_prepared(Arc::new(prepare(json, self.inner.config.engine)?))
    }

    /// [`Switch::commit`] for a program that was made ready before (P4Runtime's `VERIFY_AND_SAVE`, then `COMMIT`).
    ///
    /// # Errors
    /// [`ErrorKind::BadProgram`]; then the old program keeps running.
    pub fn commit_prepared(&self, prepared: Arc<Prepared>) -> Result<()> {
        let master = Master::new(prepared)?;
        let mut control = self.lock_for_write()?;
        control.check_engines(&master.prepared)?;
        let staged = control.staged.take();
        let forgotten = control.forget_traffic();
        control.install(master, None, &forgotten, None, &self.inner.throw_away);
        control.tell(Notification::ProgramSwapped);
        drop(control);
        drop(staged);
        self.take_out_garbage();
        Ok(())
    }

    /// Everything as after start: entries, members, groups, arrays, multicast groups, mirror sessions. While a program is
    /// staged it is its entries and arrays, and the running one's stay.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when an engine does not catch up.
    pub fn reset_state(&self) -> Result<()> {
        let mut control = self.lock_for_write()?;
        let forgotten = control.forget_traffic();
        control.send(forgotten);
        if let Ok(master) = control.master(&self.view) {
            let store = Store::new(Arc::clone(&master.prepared.program))?;
            let digests = master.digests.clone();
            control.replace(&self.view, store, digests, &self.inner.throw_away);
        }
        drop(control);
        self.take_out_garbage();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
