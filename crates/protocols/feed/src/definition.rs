//! Instrument definitions, from their loop or from the incremental feed.

use crate::book::MAX_DEPTH;
use crate::channel::Channel;
use crate::config::DefinitionLoop;
use crate::counters::Reason;
use crate::instrument::{Instrument, Text, TradingStatus};
use crate::line::Feed;
use crate::listener::{BookCause, DefinitionAction, Listener, PacketInfo};
use crate::loops::{LoopTracker, Part, Unlisted};
use crate::read::Nanos;
use crate::store::State;
use crate::terms::{Leg, Terms, Underlying};
use barewire_base::Instant;
use barewire_sbe::mdp3::*;
use barewire_sbe::{AnyMessage, DecodeError, Message, MessageView};

/// What a definition message says.
struct Definition {
    instrument: Instrument,
    action: u8,
    indicator: MatchEventIndicator,
    total: u32,
}

/// A definition `$view`; `$more` adds what its kind has beside.
macro_rules! definition {
    ($view:ident: $message:expr, |$v:ident, $terms:ident| $more:block) => {{
        let view = $view::decode($message)?;
        let (mut depth, mut implied_depth) = (None, None);
        for feed in view.md_feed_types() {
            let levels = feed.market_depth().clamp(0, MAX_DEPTH as i8) as u8;
            match feed.md_feed_type().as_bytes() {
                b"GBX" => depth = Some(levels),
                b"GBI" => implied_depth = Some(levels),
                _ => {}
            }
        }
        let mut terms = Terms::NONE;
        let ($v, $terms) = (&view, &mut terms);
        $more
        Definition {
            instrument: Instrument {
                security_id: view.security_id(),
                defined: true,
                template_id: $view::TEMPLATE_ID,
                symbol: Text::new(view.symbol().raw()),
                group: Text::new(view.security_group().raw()),
                asset: Text::new(view.asset().raw()),
                security_type: Text::new(view.security_type().raw()),
                cfi_code: Text::new(view.cfi_code().raw()),
                currency: Text::new(view.currency().raw()),
                market_segment: view.market_segment_id(),
                channel_id: view.appl_id(),
                depth: depth.unwrap_or(u8::MAX),
                implied_depth: implied_depth.unwrap_or(0),
                min_price_increment: view.min_price_increment().nanos(),
                display_factor: view.display_factor().nanos(),
                trading_status: TradingStatus(view.md_security_trading_status().0),
                terms,
            },
            action: view.security_update_action().0,
            indicator: view.match_event_indicator(),
            total: view.tot_num_reports().unwrap_or(0),
        }
    }};
}

/// The legs of a spread.
macro_rules! legs {
    ($view:expr, $terms:expr) => {{
        $terms.legs_total = $view.legs().len() as u8;
        for leg in $view.legs() {
            $terms.legs.push(Leg {
                security_id: leg.leg_security_id(),
                side: leg.leg_side().0,
                ratio: leg.leg_ratio_qty(),
                price: leg.leg_price().nanos(),
                delta: leg.leg_option_delta_raw().0,
            });
        }
    }};
}

/// The underlyings of an option or a repo.
macro_rules! underlyings {
    ($view:expr, $terms:expr, $id:ident) => {{
        $terms.underlyings_total = $view.underlyings().len() as u8;
        for underlying in $view.underlyings() {
            $terms.underlyings.push(Underlying {
                security_id: underlying.$id(),
                symbol: Text::new(underlying.underlying_symbol().raw()),
            });
        }
    }};
}

/// Whether messages of this template define instruments.
pub(crate) fn is_definition(template_id: u16) -> bool {
    use template::*;
    matches!(
        template_id,
        MD_INSTRUMENT_DEFINITION_FUTURE27
            | MD_INSTRUMENT_DEFINITION_SPREAD29
            | MD_INSTRUMENT_DEFINITION_OPTION41
            | MD_INSTRUMENT_DEFINITION_FUTURE54
            | MD_INSTRUMENT_DEFINITION_OPTION55
            | MD_INSTRUMENT_DEFINITION_SPREAD56
            | MD_INSTRUMENT_DEFINITION_FIXED_INCOME57
            | MD_INSTRUMENT_DEFINITION_REPO58
            | MD_INSTRUMENT_DEFINITION_FX63
    )
}

fn read(message: &Message<'_>) -> Result<Definition, DecodeError> {
    Ok(match message.template_id {
        MdInstrumentDefinitionFuture27::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionFuture27: message, |v, t| {
                t.month = v.maturity_month_year();
                t.user_defined = v.user_defined_instrument() == Some(b'Y');
            })
        }
        MdInstrumentDefinitionFuture54::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionFuture54: message, |v, t| {
                t.month = v.maturity_month_year();
                t.user_defined = v.user_defined_instrument() == b'Y';
            })
        }
        MdInstrumentDefinitionSpread29::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionSpread29: message, |v, t| {
                t.month = v.maturity_month_year();
                t.user_defined = v.user_defined_instrument() == b'Y';
                t.sub_type = Text::new(v.security_sub_type().raw());
                legs!(v, t);
            })
        }
        MdInstrumentDefinitionSpread56::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionSpread56: message, |v, t| {
                t.month = v.maturity_month_year();
                t.user_defined = v.user_defined_instrument() == b'Y';
                t.sub_type = Text::new(v.security_sub_type().raw());
                legs!(v, t);
            })
        }
        MdInstrumentDefinitionOption41::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionOption41: message, |v, t| {
                t.month = v.maturity_month_year();
                t.put_or_call = v.put_or_call().0;
                t.strike_price = v.strike_price().nanos();
                t.user_defined = v.user_defined_instrument() == b'Y';
                underlyings!(v, t, underlying_security_id);
            })
        }
        MdInstrumentDefinitionOption55::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionOption55: message, |v, t| {
                t.month = v.maturity_month_year();
                t.put_or_call = v.put_or_call().0;
                t.strike_price = v.strike_price().nanos();
                t.user_defined = v.user_defined_instrument() == b'Y';
                underlyings!(v, t, underlying_security_id);
            })
        }
        MdInstrumentDefinitionFixedIncome57::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionFixedIncome57: message, |v, t| {
                t.issue_date = v.issue_date_raw();
                t.maturity_date = v.maturity_date_raw();
                t.coupon_rate = v.coupon_rate().nanos();
                t.par_value = v.par_value().nanos();
                t.user_defined = v.user_defined_instrument() == b'Y';
            })
        }
        MdInstrumentDefinitionRepo58::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionRepo58: message, |v, t| {
                t.maturity_date = v.end_date_raw();
                t.user_defined = v.user_defined_instrument() == b'Y';
                underlyings!(v, t, underlying_security_id_raw);
            })
        }
        MdInstrumentDefinitionFx63::TEMPLATE_ID => {
            definition!(MdInstrumentDefinitionFx63: message, |v, t| {
                t.month = v.maturity_month_year();
                t.user_defined = v.user_defined_instrument() == b'Y';
            })
        }
        template_id => return Err(DecodeError::UnknownTemplate { template_id }),
    })
}

/// How far the definition loop has been heard. A loop counts as heard when it has named as many different instruments as it
/// says there are: what rounds have in common cannot be told from packet numbers alone.
#[derive(Debug)]
pub(crate) struct Definitions {
    tracker: LoopTracker,
    /// Instruments that the loop says there are.
    total: u32,
    /// Different instruments named so far: each has the mark.
    reports: u32,
    mark: u16,
    unlisted: Unlisted,
    /// When the first of the packets counted was sent.
    started_ns: u64,
    /// Packets of the loop sent before this do not count: what the incremental feed said until then may have been lost.
    since_ns: u64,
    /// Deletions may have been lost.
    doubtful: bool,
    /// An instrument was added or deleted since the round began: what the next one names is another set.
    changed: bool,
    /// SendingTime of the last packet that deleted an instrument.
    deleted_ns: u64,
    /// It has been heard in full.
    pub(crate) complete: bool,
}

impl Definitions {
    pub(crate) fn new(unlisted: usize) -> Self {
        Definitions {
            tracker: LoopTracker::new(),
            total: 0,
            reports: 0,
            mark: 1,
            unlisted: Unlisted::new(unlisted),
            started_ns: u64::MAX,
            since_ns: 0,
            doubtful: false,
            changed: false,
            deleted_ns: 0,
            complete: false,
        }
    }

    /// An instrument with this mark is not handled any more.
    pub(crate) fn give_back(&mut self, id: i32, mark: u16) {
        if mark == self.mark {
            self.unlisted.mark(id, mark);
        }
    }

    /// The mark of an instrument that was not handled so far.
    pub(crate) fn mark_of(&self, id: i32) -> u16 {
        self.unlisted.get(id)
    }

    /// Counts anew.
    fn restart(&mut self) {
        self.mark = self.mark.wrapping_add(1).max(1);
        (self.reports, self.total, self.started_ns) = (0, 0, u64::MAX);
    }
}

/// Tells of a definition, and of all its fields where a message has them.
fn tell<L: Listener>(
    instrument: &Instrument,
    action: DefinitionAction,
    message: Option<&Message<'_>>,
    listener: &mut L,
) {
    listener.on_definition(instrument, action);
    if let Some(Ok(fields)) = message.map(AnyMessage::decode) {
        listener.on_definition_fields(instrument, action, &fields);
    }
}

impl Channel {
    /// Packets sent until `until_ns` are lost, definitions perhaps among them: the loop has to be heard again, from then on.
    #[cold]
    pub(crate) fn doubt_definitions(&mut self, until_ns: u64) {
        if self.config.definitions == DefinitionLoop::Unused {
            return;
        }
        let it = &mut self.definitions;
        (it.complete, it.doubtful) = (false, true);
        self.store.set_names_known(false);
        it.since_ns = it.since_ns.max(until_ns);
        it.restart();
    }

    /// Takes a definition in. Returns its indicator, and of the loop the instrument and how many it says there are; `None`
    /// where the loop is behind what the incremental feed has said.
    pub(crate) fn definition<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        message: &Message<'_>,
        listener: &mut L,
    ) -> Result<(MatchEventIndicator, Option<(i32, u32)>), DecodeError> {
        let Definition { mut instrument, action, indicator, total } = read(message)?;
        let (id, sent_ns) = (instrument.security_id, packet.sending_time_ns);
        let said = Some((id, total));
        let live = packet.line.feed == Feed::Incremental;
        if instrument.depth == u8::MAX {
            instrument.depth = self.config.depth;
        }
        let known = self.store.table.get(id);
        let is_old = match known {
            Some(at) => sent_ns < self.store.learned[at].sent_ns,
            None => sent_ns < self.definitions.deleted_ns && !live,
        };
        if is_old && !live {
            self.store.counters.drop(Reason::OldDefinition);
            // One that is known exists, whatever else the loop says of it.
            return Ok((indicator, known.and(said)));
        }
        self.definitions.changed |= action == b'D' || live && known.is_none();
        if action == b'D' {
            if live {
                self.store.deleted_seq = packet.seq;
            }
            self.definitions.deleted_ns = self.definitions.deleted_ns.max(sent_ns);
        }
        match known {
            Some(at) if action == b'D' => {
                self.store.instruments[at] = instrument;
                self.delete(at, Some(message), listener);
            }
            Some(at) => {
                if live && action == b'A' {
                    self.store.begin(at, false);
                }
                if !is_old {
                    self.store.learned[at].sent_ns = sent_ns;
                    self.redefine(at, instrument, (live, message), listener);
                }
            }
            None if action == b'D' => {}
            None if !self.store.admits(&instrument) => {
                self.store.counters.drop(Reason::DefinitionNotListed);
            }
            None => match self.store.add(instrument) {
                Some(at) => {
                    self.store.learned[at].sent_ns = sent_ns;
                    self.adopt_marks(at, id);
                    if live && action == b'A' {
                        self.store.begin(at, true);
                    }
                    tell(&self.store.instruments[at], DefinitionAction::Add, Some(message), listener);
                }
                None => self.drop(packet.line, Reason::InstrumentTableFull, listener),
            },
        }
        Ok((indicator, said))
    }

    /// Another definition of a known instrument.
    fn redefine<L: Listener>(
        &mut self,
        at: usize,
        mut instrument: Instrument,
        (live, message): (bool, &Message<'_>),
        listener: &mut L,
    ) {
        let (depth, implied_depth) = (instrument.depth, instrument.implied_depth);
        let old = &self.store.instruments[at];
        let (first, resize) = (!old.defined, old.depth != depth || old.implied_depth != implied_depth);
        // The status has moved on since the definition was written into its loop.
        if old.trading_status != TradingStatus::NULL {
            instrument.trading_status = old.trading_status;
        }
        let changed = first || *old != instrument;
        self.store.instruments[at] = instrument;
        let was_known = std::mem::replace(&mut self.store.slots[at].depth_known, true);
        // A book that was made before it was named may have become deeper than it is said to be.
        if resize || !was_known {
            self.store.direct[at].set_depth(depth);
            self.store.implied[at].set_depth(implied_depth);
        }
        if changed {
            let action = if first { DefinitionAction::Add } else { DefinitionAction::Modify };
            tell(&self.store.instruments[at], action, Some(message), listener);
        } else if live && let Ok(fields) = AnyMessage::decode(message) {
            // What changed is not among what is kept. The loop repeats itself, and is not told of.
            listener.on_definition_fields(&self.store.instruments[at], DefinitionAction::Modify, &fields);
        }
        if !was_known && self.store.state(at).is_good() {
            listener.on_book(&self.store.view(at, BookCause::Definition));
        }
    }

    fn delete<L: Listener>(&mut self, at: usize, message: Option<&Message<'_>>, listener: &mut L) {
        tell(&self.store.instruments[at], DefinitionAction::Delete, message, listener);
        let it = &mut self.definitions;
        it.reports -= u32::from(self.store.learned[at].mark == it.mark);
        self.store.remove(at);
    }

    /// A packet of the definition loop that has been checked.
    pub(crate) fn definition_packet<L: Listener>(
        &mut self,
        now: Instant,
        packet: &PacketInfo<'_>,
        listener: &mut L,
    ) {
        let part = self.definitions.tracker.packet(now, packet.seq, packet.sending_time_ns);
        match part {
            Part::Old => {
                self.duplicate(packet, listener);
                return;
            }
            // A hole starts over; under Fast the next round fills it, if it is of the same instruments.
            Part::NewLoop => {
                let changed = std::mem::take(&mut self.definitions.changed);
                if self.config.definitions == DefinitionLoop::Accurate || changed {
                    self.definitions.restart();
                }
            }
            Part::New | Part::Stray => {}
        }
        listener.on_packet(packet);
        for message in self.messages(packet) {
            listener.on_message(packet, &message);
            self.store.counters.messages += 1;
            let result = match message.template_id {
                template::ADMIN_HEARTBEAT12 => continue,
                found if !is_definition(found) => Err(DecodeError::WrongTemplate { expected: 0, found }),
                _ => self.definition(packet, &message, listener),
            };
            match result {
                Ok((_, Some((id, total)))) if part != Part::Stray => {
                    self.definition_report(id, total, packet.sending_time_ns);
                }
                Ok(_) => {}
                Err(error) => self.message_failed(packet, error, listener),
            }
        }
        let it = &self.definitions;
        let waits = self.config.definitions != DefinitionLoop::Unused && !it.complete;
        if waits && it.total != 0 && it.reports == it.total {
            self.definitions_heard(listener);
        }
        listener.on_end_of_packet(packet);
        self.report_recovery(listener);
    }

    /// Counts an instrument that the loop has named, once.
    fn definition_report(&mut self, id: i32, total: u32, sent_ns: u64) {
        let it = &mut self.definitions;
        if sent_ns < it.since_ns {
            return;
        }
        if it.total != total {
            // Another set of instruments.
            it.restart();
            it.total = total;
        }
        let before = match self.store.table.get(id) {
            Some(at) => std::mem::replace(&mut self.store.learned[at].mark, it.mark),
            None => it.unlisted.mark(id, it.mark),
        };
        it.reports += u32::from(before != it.mark);
        it.started_ns = it.started_ns.min(sent_ns);
    }

    /// Every instrument of the loop was named. One that was not, though it had been known before the loop began, is gone, and
    /// the packet that said so was lost. One that never had a definition stays as long as it is good and has a book.
    fn definitions_heard<L: Listener>(&mut self, listener: &mut L) {
        self.definitions.complete = true;
        self.store.set_names_known(true);
        if std::mem::take(&mut self.definitions.doubtful) {
            let (mark, started_ns) = (self.definitions.mark, self.definitions.started_ns);
            for at in 0..self.store.slots.len() {
                let learned = self.store.learned[at];
                let alive = self.store.slots[at].state == State::Free
                    || learned.mark == mark
                    || learned.sent_ns.max(learned.seen_ns) >= started_ns
                    || !self.store.instruments[at].defined && self.stays_undefined(at);
                if !alive {
                    self.delete(at, None, listener);
                }
            }
        }
        listener.on_definitions_complete(self.store.len);
    }

    fn stays_undefined(&self, at: usize) -> bool {
        let store = &self.store;
        let listed = self.config.white_list.ids().contains(&store.slots[at].security_id);
        listed || store.is_settled(at) && store.slots[at].last_rpt > 0
    }
}
