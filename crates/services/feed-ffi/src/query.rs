//! Entries: books, instruments, statistics and counters, asked for between two packets.

use crate::boundary::{Failure, get, guard, put, text};
use crate::convert::{self, Measured, chars};
use crate::error::{BWF_ERR_INVALID, BWF_ERR_NO_INSTRUMENT, BWF_ERR_VERSION};
use crate::session::{Session, with};
use crate::types::{
    BWF_BID, BWF_DEPTH_MAX, BWF_NULL_U32, BWF_OFFER, BwfBook, BwfBookRoom, BwfChannel, BwfEachCount, BwfFeed,
    BwfInstrument, BwfLevel, BwfLevels, BwfLimits, BwfLine, BwfOrder, BwfStatistic,
};
use barewire_feed::{BookSide, Channel, Consolidated, Feed, Instrument, Level, Line, LineSide, Reason};
use barewire_sbe::Price9;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Copies a structure out to C, when C's is as large as ours.
///
/// # Safety
/// `to` is null, or valid for reads and writes of as many bytes as its `size` says, and of that size at least.
unsafe fn put_measured<T: Measured>(
    to: *mut T,
    value: impl FnOnce() -> Result<T, Failure>,
) -> Result<c_int, Failure> {
    // SAFETY: this function's contract.
    unsafe { check_measured(to) }?;
    let value = value()?;
    // SAFETY: as large as ours, as was just seen, and valid by this function's contract.
    unsafe { put(to, value) }?;
    Ok(0)
}

/// Whether C's structure is as large as ours.
///
/// # Safety
/// `of` is null, or valid for a read of its `size`.
unsafe fn check_measured<T: Measured>(of: *const T) -> Result<(), Failure> {
    // SAFETY: the size is at the beginning of what is `Measured`; this function's contract.
    let size = unsafe { get(of.cast::<u32>()) }?;
    if size < T::SIZE {
        let why = format!("a structure's size is {size}; this library's has {} bytes", T::SIZE);
        return Err(Failure::new(BWF_ERR_VERSION, why));
    }
    Ok(())
}

fn side(side: u32) -> Result<BookSide, Failure> {
    match side as usize {
        BWF_BID => Ok(BookSide::Bid),
        BWF_OFFER => Ok(BookSide::Offer),
        _ => Err(BWF_ERR_INVALID.into()),
    }
}

/// How many feed channels the configuration has.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_channel_count(feed: *mut BwfFeed) -> c_int {
    guard(|| with(feed, |session, _| Ok(session.channels().len() as c_int)))
}

/// How a feed channel is.
///
/// @param channel  Its index, from 0.
/// @param out      Receives it; `size` is to be set.
/// @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_VERSION.
///
/// # Safety
/// `out` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_channel_get(feed: *mut BwfFeed, channel: u32, out: *mut BwfChannel) -> c_int {
    let found = |session: &mut Session| {
        let plan = session.channels().get(channel as usize);
        let (channel_id, label) = plan.map_or((0, [0; _]), |plan| (plan.id, chars(&plan.label)));
        session.look(channel, |core| {
            let info = core.recovery_info();
            Ok(BwfChannel {
                size: BwfChannel::SIZE,
                channel,
                channel_id,
                expected_seq_num: core.expected_seq().unwrap_or(BWF_NULL_U32),
                label,
                instruments: info.instruments as u32,
                unsettled: info.unsettled as u32,
                unsettled_orders: info.unsettled_orders as u32,
                state: convert::line_state(core.state()),
                recovering: core.is_recovering().into(),
                definitions_complete: core.definitions_complete().into(),
                reserved: 0,
            })
        })
    };
    guard(|| {
        with(feed, |session, _| {
            // SAFETY: this entry's contract.
            unsafe { put_measured(out, || found(session)) }
        })
    })
}

/// What a line of a feed channel has brought.
///
/// @param feed_type  BWF_FEED_...
/// @param side       0 for A, 1 for B.
/// @param out        Receives it; `size` is to be set.
/// @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_INVALID, BWF_ERR_VERSION.
///
/// # Safety
/// `out` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_line_get(
    feed: *mut BwfFeed,
    channel: u32,
    feed_type: u32,
    side: u32,
    out: *mut BwfLine,
) -> c_int {
    let find = || {
        const FEEDS: [Feed; 4] = [Feed::Incremental, Feed::Snapshot, Feed::Instrument, Feed::OrderSnapshot];
        let feed = FEEDS.into_iter().find(|feed| u32::from(convert::feed(*feed)) == feed_type);
        let side = [LineSide::A, LineSide::B].get(side as usize).copied();
        let (feed, side) = feed.zip(side).ok_or(BWF_ERR_INVALID)?;
        Ok::<_, Failure>(Line::new(feed, side))
    };
    guard(|| {
        let line = find()?;
        with(feed, |session, _| {
            let look = |core: &Channel| {
                let of = core.line_stats(line);
                Ok(BwfLine {
                    size: BwfLine::SIZE,
                    state: convert::line_state(of.state),
                    reserved: [0; 3],
                    packets: of.packets,
                    bytes: of.bytes,
                    first: of.first,
                    duplicates: of.duplicates,
                    lost: of.lost,
                    reordered: of.reordered,
                    leads: of.leads,
                    lead_ns_total: of.lead_ns_total,
                    lead_ns_max: of.lead_ns_max,
                })
            };
            // SAFETY: this entry's contract.
            unsafe { put_measured(out, || session.look(channel, look)) }
        })
    })
}

/// The ids of a channel's instruments.
///
/// @param security_ids  Receives the first `max` of them; may be null when `max` is 0.
/// @return How many there are, or BWF_ERR_NO_CHANNEL, BWF_ERR_INVALID.
///
/// # Safety
/// `security_ids` has room for `max` ids.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_instruments(
    feed: *mut BwfFeed,
    channel: u32,
    security_ids: *mut i32,
    max: usize,
) -> c_int {
    guard(|| {
        with(feed, |session, _| {
            session.look(channel, |core| {
                let mut count = 0;
                for instrument in core.instruments() {
                    if count < max {
                        if security_ids.is_null() {
                            return Err(BWF_ERR_INVALID.into());
                        }
                        // SAFETY: `count` is below `max`, for which there is room by this entry's contract.
                        unsafe { put(security_ids.add(count), instrument.security_id) }?;
                    }
                    count += 1;
                }
                Ok(count as c_int)
            })
        })
    })
}

/// Finds an instrument and writes it out.
///
/// # Safety
/// `out` is null or valid.
unsafe fn put_instrument(
    feed: *mut BwfFeed,
    channel: u32,
    out: *mut BwfInstrument,
    find: impl FnOnce(&Channel) -> Option<&Instrument>,
) -> Result<c_int, Failure> {
    with(feed, |session, _| {
        let look = |core: &Channel| {
            let instrument = find(core).ok_or(BWF_ERR_NO_INSTRUMENT)?;
            Ok(BwfInstrument::new(channel, instrument))
        };
        // SAFETY: this function's contract.
        unsafe { put_measured(out, || session.look(channel, look)) }
    })
}

/// An instrument's definition.
///
/// @param out  Receives it; `size` is to be set.
/// @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_VERSION.
///
/// # Safety
/// `out` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_instrument_get(
    feed: *mut BwfFeed,
    channel: u32,
    security_id: i32,
    out: *mut BwfInstrument,
) -> c_int {
    // SAFETY: this entry's contract.
    guard(|| unsafe { put_instrument(feed, channel, out, |core| core.instrument(security_id)) })
}

/// An instrument's definition, by its symbol. Looks at one after the other.
///
/// @param out  Receives it; `size` is to be set.
/// @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_VERSION.
///
/// # Safety
/// The string ends with a zero byte; `out` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_instrument_find(
    feed: *mut BwfFeed,
    channel: u32,
    symbol: *const c_char,
    out: *mut BwfInstrument,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let symbol = unsafe { text(symbol) }.ok_or(BWF_ERR_INVALID)?;
        let find = |core: &Channel| {
            let named = |i: &Instrument| i.symbol.as_str() == symbol.as_ref();
            core.instruments().find(|i| named(i)).map(|i| i.security_id)
        };
        // SAFETY: this entry's contract.
        unsafe { put_instrument(feed, channel, out, |core| find(core).and_then(|id| core.instrument(id))) }
    })
}

/// An instrument's books as of the last end of an event: never half of one.
///
/// @param book  Receives them; `size` is to be set.
/// @param room  Receives the levels and orders that `book` then points to; `size` is to be set. Null: `book` has none.
/// @return BWF_OK, BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_VERSION, BWF_ERR_INVALID.
///
/// # Safety
/// Pointers that are not null are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_book_get(
    feed: *mut BwfFeed,
    channel: u32,
    security_id: i32,
    book: *mut BwfBook,
    room: *mut BwfBookRoom,
) -> c_int {
    let copy = |found: &mut BwfBook| {
        let sides = found.direct.iter_mut().chain(&mut found.implied);
        if room.is_null() {
            sides.for_each(|side| *side = BwfLevels { levels: std::ptr::null(), count: 0, reserved: 0 });
            for orders in &mut found.orders {
                (orders.orders, orders.count) = (std::ptr::null(), 0);
            }
            found.market_best = [std::ptr::null(); 2];
            return;
        }
        for side in [BWF_BID, BWF_OFFER] {
            // SAFETY: `room` is aligned and large enough, as was seen before, and valid by this entry's contract; so are the
            // places in it. Nothing in it is read here or made a reference of.
            let (direct, implied, orders, best) = unsafe {
                (
                    (&raw mut (*room).direct[side]).cast::<BwfLevel>(),
                    (&raw mut (*room).implied[side]).cast::<BwfLevel>(),
                    (&raw mut (*room).orders[side]).cast::<BwfOrder>(),
                    &raw mut (*room).market_best[side],
                )
            };
            for (levels, to) in [(&mut found.direct[side], direct), (&mut found.implied[side], implied)] {
                let count = levels.count as usize;
                debug_assert!(count <= BWF_DEPTH_MAX);
                if count > 0 {
                    // SAFETY: a ladder has no more levels than the array. The two do not overlap: one is ours.
                    unsafe { to.copy_from_nonoverlapping(levels.levels, count) };
                    levels.levels = to;
                }
            }
            let found_orders = &mut found.orders[side];
            // A book of every order may have more than there is room for: the best are given.
            found_orders.count = found_orders.count.min(crate::types::BWF_ORDERS_MAX as u32);
            if found_orders.count > 0 {
                // SAFETY: as above, for orders; there are no more of them than the array has.
                unsafe { orders.copy_from_nonoverlapping(found_orders.orders, found_orders.count as usize) };
                found_orders.orders = orders;
            }
            if !found.market_best[side].is_null() {
                // SAFETY: as above, for one level.
                unsafe { best.copy_from_nonoverlapping(found.market_best[side], 1) };
                found.market_best[side] = best;
            }
        }
    };
    guard(|| {
        if !room.is_null() {
            // SAFETY: this entry's contract.
            unsafe { check_measured(room) }?;
            if !room.is_aligned() {
                return Err(BWF_ERR_INVALID.into());
            }
        }
        with(feed, |session, _| {
            let look = |core: &Channel| {
                let view = core.book(security_id).ok_or(BWF_ERR_NO_INSTRUMENT)?;
                let mut found = BwfBook::of(channel, &view);
                copy(&mut found);
                Ok(found)
            };
            // SAFETY: this entry's contract.
            unsafe { put_measured(book, || session.look(channel, look)) }
        })
    })
}

/// Direct and implied levels of a book merged by price, best first. May be called in a callback.
///
/// @param book  As a callback or bwf_book_get gave it.
/// @param side  BWF_BID or BWF_OFFER.
/// @param out   Receives the first `max` levels; BWF_DEPTH_MAX is enough. May be null when `max` is 0.
/// @return How many levels there are, or BWF_ERR_INVALID, BWF_ERR_VERSION.
///
/// # Safety
/// `book` and what it points to are valid; `out` has room for `max` levels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_consolidated(
    book: *const BwfBook,
    side: u32,
    out: *mut BwfLevel,
    max: usize,
) -> c_int {
    /// # Safety
    /// The levels are null or valid for their count.
    unsafe fn slice<'a>(of: BwfLevels) -> Result<&'a [Level], Failure> {
        let count = of.count as usize;
        if count == 0 {
            return Ok(&[]);
        }
        if of.levels.is_null() || !of.levels.is_aligned() || count > BWF_DEPTH_MAX {
            return Err(BWF_ERR_INVALID.into());
        }
        // SAFETY: not null, aligned, few, and valid by this function's contract; the two kinds of level are laid out alike.
        Ok(unsafe { std::slice::from_raw_parts(of.levels.cast(), count) })
    }
    guard(|| {
        let of = self::side(side)?;
        // SAFETY: this entry's contract.
        unsafe { check_measured(book) }?;
        // SAFETY: this entry's contract; as large as ours, as was just seen.
        let book = unsafe { get(book) }?;
        // SAFETY: this entry's contract.
        let (direct, implied) =
            unsafe { (slice(book.direct[side as usize])?, slice(book.implied[side as usize])?) };
        let mut count = 0;
        for level in Consolidated::new(of, direct, implied) {
            if count < max {
                if out.is_null() {
                    return Err(BWF_ERR_INVALID.into());
                }
                let Level { price, quantity, orders, tradeable } = level;
                // SAFETY: `count` is below `max`, for which there is room by this entry's contract.
                unsafe { put(out.add(count), BwfLevel { price, quantity, orders, tradeable }) }?;
            }
            count += 1;
        }
        Ok(count as c_int)
    })
}

/// The last value of a statistic.
///
/// @param kind  BWF_STATISTIC_...
/// @param out   Receives it; `size` is to be set.
/// @return 1, or 0 when there has been none; BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_INVALID, BWF_ERR_VERSION.
///
/// # Safety
/// `out` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_statistic_get(
    feed: *mut BwfFeed,
    channel: u32,
    security_id: i32,
    kind: u32,
    out: *mut BwfStatistic,
) -> c_int {
    guard(|| {
        let known = convert::STATISTICS.iter().find(|(_, number)| u32::from(*number) == kind);
        let (kind, _) = *known.ok_or(BWF_ERR_INVALID)?;
        let found = with(feed, |session, _| {
            session.look(channel, |core| {
                let values = core.statistics(security_id).ok_or(BWF_ERR_NO_INSTRUMENT)?;
                let instrument = core.instrument(security_id).ok_or(BWF_ERR_NO_INSTRUMENT)?;
                Ok(values.get(kind).map(|value| BwfStatistic::new(channel, instrument, value)))
            })
        })?;
        // SAFETY: this entry's contract.
        unsafe { put_found(out, found) }
    })
}

/// The last price limits.
///
/// @param out  Receives them; `size` is to be set.
/// @return 1, or 0 when there have been none; BWF_ERR_NO_CHANNEL, BWF_ERR_NO_INSTRUMENT, BWF_ERR_INVALID, BWF_ERR_VERSION.
///
/// # Safety
/// `out` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_limits_get(
    feed: *mut BwfFeed,
    channel: u32,
    security_id: i32,
    out: *mut BwfLimits,
) -> c_int {
    guard(|| {
        let found = with(feed, |session, _| {
            session.look(channel, |core| {
                let values = core.statistics(security_id).ok_or(BWF_ERR_NO_INSTRUMENT)?;
                let instrument = core.instrument(security_id).ok_or(BWF_ERR_NO_INSTRUMENT)?;
                Ok(values.limits().map(|limits| BwfLimits::new(channel, instrument, limits)))
            })
        })?;
        // SAFETY: this entry's contract.
        unsafe { put_found(out, found) }
    })
}

/// # Safety
/// `out` is null or valid.
unsafe fn put_found<T: Measured>(out: *mut T, found: Option<T>) -> Result<c_int, Failure> {
    match found {
        // SAFETY: this function's contract.
        Some(found) => unsafe { put_measured(out, || Ok(found)) }.map(|_| 1),
        // SAFETY: this function's contract.
        None => unsafe { check_measured(out) }.map(|()| 0),
    }
}

/// Tells C names and values.
struct Tell {
    each: unsafe extern "C" fn(user: *mut c_void, name: *const c_char, value: u64),
    user: *mut c_void,
    told: c_int,
}

impl Tell {
    fn new(each: BwfEachCount, user: *mut c_void) -> Result<Tell, Failure> {
        Ok(Tell { each: each.ok_or(BWF_ERR_INVALID)?, user, told: 0 })
    }

    fn tell(&mut self, name: &str, value: u64) {
        // Names are ours, and have no zero byte in them.
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: whoever asks for counters vouches for the function and its user pointer.
        unsafe { (self.each)(self.user, name.as_ptr(), value) };
        self.told += 1;
    }
}

/// A channel's counters, one after the other: packets, messages, gaps and so on, then each reason why something was not used,
/// as "drop." and the reason's name, where it occurred.
///
/// @param each  Called for each, as a callback.
/// @return How many there are, or BWF_ERR_NO_CHANNEL, BWF_ERR_INVALID.
///
/// # Safety
/// `each` may be called with `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_counters(
    feed: *mut BwfFeed,
    channel: u32,
    each: BwfEachCount,
    user: *mut c_void,
) -> c_int {
    guard(|| {
        let mut tell = Tell::new(each, user)?;
        with(feed, |session, _| {
            session.look(channel, |core| {
                let of = core.counters();
                for (name, value) in [
                    ("packets", of.packets),
                    ("messages", of.messages),
                    ("book_entries", of.book_entries),
                    ("events", of.events),
                    ("abandoned_events", of.abandoned_events),
                    ("gaps", of.gaps),
                    ("lost_packets", of.lost_packets),
                    ("held_packets", of.held_packets),
                    ("snapshots_applied", of.snapshots_applied),
                    ("natural_refreshes", of.natural_refreshes),
                    ("loops_completed", of.loops_completed),
                    ("resets", of.resets),
                ] {
                    tell.tell(name, value);
                }
                for (reason, value) in of.drops() {
                    tell.tell(&format!("drop.{reason}"), value);
                }
                Ok(tell.told)
            })
        })
    })
}

/// What the sockets, ports or captures have counted, which all channels share; a name may come once for each of them.
///
/// @param each  Called for each, as a callback.
/// @return How many there are, or BWF_ERR_INVALID.
///
/// # Safety
/// `each` may be called with `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_source_counters(
    feed: *mut BwfFeed,
    each: BwfEachCount,
    user: *mut c_void,
) -> c_int {
    guard(|| {
        let mut tell = Tell::new(each, user)?;
        with(feed, |session, _| {
            session.source_counts(&mut |name, value| tell.tell(name, value));
            Ok(tell.told)
        })
    })
}

/// The name of a reason that the drop callback was given, such as "duplicate". Never null; the text lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn bwf_reason_name(reason: u32) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    const UNKNOWN: &CStr = c"unknown";
    let names = NAMES.get_or_init(|| {
        Reason::ALL.iter().map(|reason| CString::new(reason.as_str()).unwrap_or_default()).collect()
    });
    names.get(reason as usize).map_or(UNKNOWN, CString::as_c_str).as_ptr()
}

/// Writes a price as a decimal without needless zeros, and a zero byte. BWF_PRICE_TEXT_MAX bytes hold any.
///
/// @return The text's length, or BWF_ERR_INVALID when it does not fit.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwf_price_format(price: i64, out: *mut c_char, len: usize) -> c_int {
    guard(|| {
        let text = Price9(price).to_string();
        if out.is_null() || text.len() >= len {
            return Err(BWF_ERR_INVALID.into());
        }
        // SAFETY: the text and a zero byte fit into `len` bytes, for which `out` has room by this entry's contract.
        unsafe {
            out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            out.add(text.len()).write(0);
        }
        Ok(text.len() as c_int)
    })
}
