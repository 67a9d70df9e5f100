//! Instrument definitions, from their loop or from the incremental feed.

use crate::book::MAX_DEPTH;
use crate::channel::Channel;
use crate::config::DefinitionLoop;
use crate::counters::Reason;
use crate::instrument::{Instrument, Text, TradingStatus};
use crate::listener::{DefinitionAction, Listener, PacketInfo};
use crate::loops::Part;
use crate::read::Nanos;
use barewire_sbe::mdp3::*;
use barewire_sbe::{DecodeError, Message, MessageView};

/// What a definition message says.
struct Definition {
    instrument: Instrument,
    action: u8,
    indicator: MatchEventIndicator,
    total: u32,
}

macro_rules! definition {
    ($view:expr, $template_id:expr) => {{
        let view = $view;
        let (mut depth, mut implied_depth) = (None, None);
        for feed in view.md_feed_types() {
            let levels = feed.market_depth().clamp(0, MAX_DEPTH as i8) as u8;
            match feed.md_feed_type().as_bytes() {
                b"GBX" => depth = Some(levels),
                b"GBI" => implied_depth = Some(levels),
                _ => {}
            }
        }
        Definition {
            instrument: Instrument {
                security_id: view.security_id(),
                defined: true,
                template_id: $template_id,
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
            },
            action: view.security_update_action().0,
            indicator: view.match_event_indicator(),
            total: view.tot_num_reports().unwrap_or(0),
        }
    }};
}

fn read(message: &Message<'_>) -> Result<Definition, DecodeError> {
    Ok(match message.template_id {
        27 => definition!(MdInstrumentDefinitionFuture27::decode(message)?, 27),
        29 => definition!(MdInstrumentDefinitionSpread29::decode(message)?, 29),
        41 => definition!(MdInstrumentDefinitionOption41::decode(message)?, 41),
        54 => definition!(MdInstrumentDefinitionFuture54::decode(message)?, 54),
        55 => definition!(MdInstrumentDefinitionOption55::decode(message)?, 55),
        56 => definition!(MdInstrumentDefinitionSpread56::decode(message)?, 56),
        57 => definition!(MdInstrumentDefinitionFixedIncome57::decode(message)?, 57),
        58 => definition!(MdInstrumentDefinitionRepo58::decode(message)?, 58),
        63 => definition!(MdInstrumentDefinitionFx63::decode(message)?, 63),
        template_id => return Err(DecodeError::UnknownTemplate { template_id }),
    })
}

impl Channel {
    /// Takes a definition in. Returns its indicator and how many definitions the loop has.
    pub(crate) fn definition<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        message: &Message<'_>,
        listener: &mut L,
    ) -> Result<(MatchEventIndicator, u32), DecodeError> {
        let Definition { mut instrument, action, indicator, total } = read(message)?;
        if instrument.depth == u8::MAX {
            instrument.depth = self.config.depth;
        }
        let known = self.store.table.get(instrument.security_id);
        match known {
            Some(at) if action == b'D' => {
                self.store.instruments[at] = instrument;
                listener.on_definition(&self.store.instruments[at], DefinitionAction::Delete);
                self.store.remove(at);
            }
            Some(at) => {
                let (depth, implied_depth) = (instrument.depth, instrument.implied_depth);
                let old = &self.store.instruments[at];
                let (first, resize) =
                    (!old.defined, old.depth != depth || old.implied_depth != implied_depth);
                // The status has moved on since the definition was written into its loop.
                if old.trading_status != TradingStatus::NULL {
                    instrument.trading_status = old.trading_status;
                }
                let changed = first || *old != instrument;
                self.store.instruments[at] = instrument;
                if resize {
                    self.store.direct[at].set_depth(depth);
                    self.store.implied[at].set_depth(implied_depth);
                }
                if changed {
                    let action = if first { DefinitionAction::Add } else { DefinitionAction::Modify };
                    listener.on_definition(&self.store.instruments[at], action);
                }
            }
            None if action == b'D' => {}
            None if !self.store.white_list.admits(&instrument) => {
                self.store.counters.drop(Reason::DefinitionNotListed);
            }
            None => match self.store.add(instrument) {
                Some(at) => listener.on_definition(&self.store.instruments[at], DefinitionAction::Add),
                None => self.drop(packet.line, Reason::InstrumentTableFull, listener),
            },
        }
        Ok((indicator, total))
    }

    /// A packet of the definition loop that has been checked.
    pub(crate) fn definition_packet<L: Listener>(&mut self, packet: &PacketInfo<'_>, listener: &mut L) {
        if self.definition_loop.packet(packet.seq, packet.sending_time_ns) == Part::Old {
            self.duplicate(packet, listener);
            return;
        }
        listener.on_packet(packet);
        let mut reports = 0;
        for message in self.messages(packet) {
            listener.on_message(packet, &message);
            self.store.counters.messages += 1;
            let result = match message.template_id {
                12 => continue,
                27 | 29 | 41 | 54..=58 | 63 => self.definition(packet, &message, listener),
                found => Err(DecodeError::WrongTemplate { expected: 0, found }),
            };
            match result {
                Ok((_, total)) => {
                    self.definitions_total = total;
                    reports += 1;
                }
                Err(error) => self.message_failed(packet, error, listener),
            }
        }
        self.definition_loop.reports += reports;
        let waits = self.config.definitions != DefinitionLoop::Unused && !self.definitions_complete;
        if waits && self.definition_loop.is_complete(self.definitions_total) {
            self.definitions_complete = true;
            listener.on_definitions_complete(self.store.len);
        }
        listener.on_end_of_packet(packet);
    }
}
