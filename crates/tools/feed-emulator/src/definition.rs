//! Definitions: of which kind an instrument is, on which terms, and the message that says so.

use super::config::EmulatorConfig;
use super::encode::MESSAGE_MAX;
use super::market::Instrument;
use barewire_base::Prng;
use barewire_feed::{NULL_I32, NULL_PRICE};
use barewire_sbe::mdp3::md_instrument_definition_fixed_income57::MdInstrumentDefinitionFixedIncome57Encoder;
use barewire_sbe::mdp3::md_instrument_definition_future54::MdInstrumentDefinitionFuture54Encoder;
use barewire_sbe::mdp3::md_instrument_definition_fx63::MdInstrumentDefinitionFx63Encoder;
use barewire_sbe::mdp3::md_instrument_definition_option55::MdInstrumentDefinitionOption55Encoder;
use barewire_sbe::mdp3::md_instrument_definition_spread56::MdInstrumentDefinitionSpread56Encoder;
use barewire_sbe::mdp3::{InstAttribValue, LegSide, MatchEventIndicator, PutOrCall, SecurityUpdateAction};
use barewire_sbe::{EncodeError, MonthYear, Price9};
use serde::{Deserialize, Serialize};

/// Templates of the kinds.
const FUTURE: u16 = 54;
const OPTION: u16 = 55;
const SPREAD: u16 = 56;
const FIXED_INCOME: u16 = 57;
const FX: u16 = 63;
/// Legs of a spread, at most.
const LEGS_MAX: usize = 4;
/// 2026-01-05 in days since 1970.
const DAY: u16 = 20_458;

/// One leg of a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthLeg {
    /// SecurityID of the leg.
    pub security_id: i32,
    /// 1 bought, 2 sold.
    pub side: u8,
    /// How many for one of the spread.
    pub ratio: i8,
}

/// What an option is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthUnderlying {
    /// SecurityID of the underlying.
    pub security_id: i32,
    /// Its symbol.
    pub symbol: String,
}

/// What an instrument's definition says beside its names. Prices and rates are whole numbers of 10^-9, days count from 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthDefinition {
    /// Template: 54 future, 55 option, 56 spread, 57 fixed income, 63 FX.
    pub template: u16,
    /// DisplayFactor.
    pub display_factor_e9: i64,
    /// Year and month of the contract.
    pub month: Option<(u16, u8)>,
    /// Of options: 0 put, 1 call.
    pub put_or_call: Option<u8>,
    /// Of options.
    pub strike_e9: Option<i64>,
    /// Of fixed income.
    pub issue_day: Option<u16>,
    /// Of fixed income.
    pub maturity_day: Option<u16>,
    /// Of fixed income.
    pub coupon_e9: Option<i64>,
    /// Of fixed income.
    pub par_e9: Option<i64>,
    /// Of spreads.
    pub legs: Vec<TruthLeg>,
    /// Of options.
    pub underlyings: Vec<TruthUnderlying>,
}

impl TruthDefinition {
    /// Draws what kind the next instrument is of. Options and spreads are of futures that there are already; as long as there
    /// are none, futures come first.
    pub(crate) fn draw(
        config: &EmulatorConfig,
        long: bool,
        price_e9: i64,
        tick_e9: i64,
        others: &[Instrument],
        prng: &mut Prng,
    ) -> TruthDefinition {
        let (kind, many) = (prng.below(1_000) as f64 / 1_000.0, 2 + prng.below(LEGS_MAX as u64 - 1) as usize);
        let [mut draws, month] = [prng.fork(), prng.fork()];
        let mut it = TruthDefinition { display_factor_e9: Price9::ONE, ..TruthDefinition::default() };
        it.month = Some((2026, 1 + month.clone().below(12) as u8));
        let futures: Vec<&Instrument> =
            others.iter().filter(|i| i.listed && i.definition.template == FUTURE).collect();
        let (options, spreads) = (config.option_share, config.option_share + config.spread_share);
        if long {
            it.template = FX;
        } else if kind < options && !futures.is_empty() {
            let on = futures[draws.below(futures.len() as u64) as usize];
            it.template = OPTION;
            it.put_or_call = Some(draws.below(2) as u8);
            it.strike_e9 = Some(price_e9 + tick_e9 * (draws.below(200) as i64 - 100));
            it.underlyings.push(TruthUnderlying { security_id: on.id, symbol: on.symbol.clone() });
        } else if (options..spreads).contains(&kind) && futures.len() >= 2 {
            it.template = SPREAD;
            let first = draws.below(futures.len() as u64) as usize;
            for n in 0..many.min(futures.len()) {
                let leg = futures[(first + n) % futures.len()];
                let ratio = 1 + draws.below(3) as i8;
                it.legs.push(TruthLeg { security_id: leg.id, side: 1 + n as u8 % 2, ratio });
            }
        } else if (spreads..spreads + config.fixed_income_share).contains(&kind) {
            it.template = FIXED_INCOME;
            it.month = None;
            it.issue_day = Some(DAY - draws.below(3_000) as u16);
            it.maturity_day = Some(DAY + draws.below(11_000) as u16);
            it.coupon_e9 = Some(125_000_000 * draws.below(50) as i64);
            it.par_e9 = Some(100 * Price9::ONE);
        } else {
            it.template = FUTURE;
        }
        it
    }

    /// What a handler knows of an instrument, in the emulator's terms.
    pub(crate) fn known(instrument: &barewire_feed::Instrument) -> TruthDefinition {
        let terms = &instrument.terms;
        let price = |price: i64| (price != NULL_PRICE).then_some(price);
        let day = |day: u16| (day != u16::MAX).then_some(day);
        let leg = |leg: &barewire_feed::Leg| TruthLeg {
            security_id: leg.security_id,
            side: leg.side,
            ratio: leg.ratio,
        };
        let underlying = |on: &barewire_feed::Underlying| TruthUnderlying {
            security_id: on.security_id,
            symbol: on.symbol.to_string(),
        };
        debug_assert!(terms.underlyings.iter().all(|on| on.security_id != NULL_I32));
        TruthDefinition {
            template: instrument.template_id,
            display_factor_e9: instrument.display_factor,
            month: (terms.month != MonthYear::NULL).then_some((terms.month.year, terms.month.month)),
            put_or_call: (terms.put_or_call != u8::MAX).then_some(terms.put_or_call),
            strike_e9: price(terms.strike_price),
            issue_day: day(terms.issue_date),
            maturity_day: day(terms.maturity_date),
            coupon_e9: price(terms.coupon_rate),
            par_e9: price(terms.par_value),
            legs: terms.legs.iter().map(leg).collect(),
            underlyings: terms.underlyings.iter().map(underlying).collect(),
        }
    }
}

/// The message of an instrument's definition, whole with its end of event. `reports`: how many instruments there are.
pub(crate) fn encode(
    instrument: &Instrument,
    action: SecurityUpdateAction,
    config: &EmulatorConfig,
    reports: u32,
) -> Result<Vec<u8>, EncodeError> {
    let it = &instrument.definition;
    let mut buf = vec![0xa5; MESSAGE_MAX];
    let month =
        it.month.map_or(MonthYear::NULL, |(year, month)| MonthYear { year, month, ..MonthYear::NULL });
    macro_rules! definition {
        ($encoder:ident, $kind:literal, $cfi:literal, |$message:ident| $more:block) => {{
            let mut $message = $encoder::new(&mut buf)?;
            $message
                .match_event_indicator(MatchEventIndicator::END_OF_EVENT)
                .tot_num_reports(reports)
                .security_update_action(action)
                .last_update_time(instrument.defined_ns)
                .md_security_trading_status(instrument.status)
                .appl_id(config.channel_id as i16)
                .market_segment_id(1)
                .underlying_product(2)
                .security_exchange("XBWX")
                .security_group(&instrument.group)
                .asset(&instrument.asset)
                .symbol(&instrument.symbol)
                .security_id(instrument.id)
                .security_type($kind)
                .cfi_code($cfi)
                .currency("USD")
                .match_algorithm(b'F')
                .min_trade_vol(1)
                .max_trade_vol(1_000_000)
                .min_price_increment(Price9(instrument.tick_e9))
                .display_factor(Price9(it.display_factor_e9))
                .high_limit_price(Price9(instrument.limits.high_e9))
                .low_limit_price(Price9(instrument.limits.low_e9))
                .user_defined_instrument(b'N');
            $more
            let mut feeds = $message.md_feed_types()?;
            feeds.push()?.md_feed_type("GBX").market_depth(config.depth as i8);
            if instrument.implied {
                feeds.push()?.md_feed_type("GBI").market_depth(2);
            }
            $message.inst_attrib()?.push()?.inst_attrib_value(InstAttribValue::ELECTRONIC_MATCH_ELIGIBLE);
            $message
        }};
    }
    let variation = Price9(instrument.limits.variation_e9);
    let len = match it.template {
        OPTION => {
            let mut message =
                definition!(MdInstrumentDefinitionOption55Encoder, "OOF", "OCXFXX", |message| {
                    message.maturity_month_year(month).settl_currency("USD").strike_currency("USD");
                    message.put_or_call(PutOrCall(it.put_or_call.unwrap_or(u8::MAX)));
                    message.strike_price(it.strike_e9.map(Price9));
                });
            let mut group = message.underlyings()?;
            for on in &it.underlyings {
                group.push()?.underlying_security_id(on.security_id).underlying_symbol(&on.symbol);
            }
            message.finish()?
        }
        SPREAD => {
            let mut message =
                definition!(MdInstrumentDefinitionSpread56Encoder, "MLEG", "FMXXXX", |message| {
                    message.maturity_month_year(month).max_price_variation(variation).security_sub_type("SP");
                });
            let mut group = message.legs()?;
            for leg in &it.legs {
                let entry = &mut group.push()?;
                entry.leg_security_id(leg.security_id).leg_side(LegSide(leg.side)).leg_ratio_qty(leg.ratio);
            }
            message.finish()?
        }
        FIXED_INCOME => {
            let message =
                definition!(MdInstrumentDefinitionFixedIncome57Encoder, "TNOTE", "DBXXXX", |message| {
                    message.settl_currency("USD").max_price_variation(variation);
                    message.issue_date(it.issue_day).maturity_date(it.maturity_day);
                    message.coupon_rate(it.coupon_e9.map(Price9)).par_value(it.par_e9.map(Price9));
                    message.country_of_issue("US").issuer("BAREWIRE");
                });
            message.finish()?
        }
        FX => {
            let message = definition!(MdInstrumentDefinitionFx63Encoder, "FXSPOT", "SSSSSS", |message| {
                message.maturity_month_year(month).settl_currency("USD").max_price_variation(variation);
            });
            message.finish()?
        }
        _ => {
            let message = definition!(MdInstrumentDefinitionFuture54Encoder, "FUT", "FFCXXX", |message| {
                message.maturity_month_year(month).settl_currency("USD").max_price_variation(variation);
            });
            message.finish()?
        }
    };
    buf.truncate(len);
    Ok(buf)
}
