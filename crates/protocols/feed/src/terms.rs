//! What a definition says beyond the common fields: legs, underlyings, strike, maturity, coupon.

use crate::book::{NULL_I32, NULL_PRICE};
use crate::instrument::Text;
use barewire_sbe::MonthYear;
use core::fmt;
use core::ops::Deref;

/// The most legs of a spread that are kept. [`Terms::legs_total`] says how many it has.
pub const MAX_LEGS: usize = 40;
/// The most underlyings of an option or a repo that are kept.
pub const MAX_UNDERLYINGS: usize = 4;

/// At most `N` values, kept in place. It is read as a slice.
#[derive(Clone, Copy)]
pub struct List<T, const N: usize> {
    items: [T; N],
    len: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    const fn empty(filler: T) -> Self {
        List { items: [filler; N], len: 0 }
    }

    /// Appends a value where there is room.
    pub(crate) fn push(&mut self, value: T) {
        if let Some(place) = self.items.get_mut(self.len) {
            *place = value;
            self.len += 1;
        }
    }
}

impl<T, const N: usize> Deref for List<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..self.len]
    }
}

impl<T: PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for List<T, N> {}

impl<T: fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// One leg of a spread (group NoLegs).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Leg {
    /// The leg's security id (tag 602).
    pub security_id: i32,
    /// LegSide (tag 624): 1 bought, 2 sold.
    pub side: u8,
    /// LegRatioQty (tag 623): how many for one of the spread.
    pub ratio: i8,
    /// LegPrice (tag 566): mantissa of 10^-9; [`NULL_PRICE`] where there is none.
    pub price: i64,
    /// LegOptionDelta (tag 1017): mantissa of 10^-4; [`NULL_I32`] where there is none.
    pub delta: i32,
}

/// What an option or a repo is on (group NoUnderlyings).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Underlying {
    /// The underlying's security id (tag 309); [`NULL_I32`] where there is none.
    pub security_id: i32,
    /// Its symbol (tag 311).
    pub symbol: Text<20>,
}

/// The terms of an instrument, as far as its kind has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The contract's month (tag 200) of futures, options, spreads and FX.
    pub month: MonthYear,
    /// PutOrCall (tag 201) of options: 0 put, 1 call; 255 where there is none.
    pub put_or_call: u8,
    /// StrikePrice (tag 202) of options: mantissa of 10^-9, or [`NULL_PRICE`].
    pub strike_price: i64,
    /// IssueDate (tag 225) of fixed income: days since 1970-01-01; 65,535 where there is none.
    pub issue_date: u16,
    /// MaturityDate (tag 541) of fixed income, EndDate (tag 917) of repos: days since 1970-01-01, or 65,535.
    pub maturity_date: u16,
    /// CouponRate (tag 223) of fixed income: mantissa of 10^-9, or [`NULL_PRICE`].
    pub coupon_rate: i64,
    /// ParValue (tag 37723) of fixed income: mantissa of 10^-9, or [`NULL_PRICE`].
    pub par_value: i64,
    /// SecuritySubType (tag 762) of spreads.
    pub sub_type: Text<5>,
    /// Whether a user made it (tag 9779).
    pub user_defined: bool,
    /// Legs of spreads.
    pub legs: List<Leg, MAX_LEGS>,
    /// Legs that the definition named; more than [`MAX_LEGS`] are not kept.
    pub legs_total: u8,
    /// Underlyings of options and repos.
    pub underlyings: List<Underlying, MAX_UNDERLYINGS>,
    /// Underlyings that the definition named.
    pub underlyings_total: u8,
}

impl Terms {
    /// Nothing is known.
    pub const NONE: Terms = Terms {
        month: MonthYear::NULL,
        put_or_call: u8::MAX,
        strike_price: NULL_PRICE,
        issue_date: u16::MAX,
        maturity_date: u16::MAX,
        coupon_rate: NULL_PRICE,
        par_value: NULL_PRICE,
        sub_type: Text::EMPTY,
        user_defined: false,
        legs: List::empty(Leg { security_id: 0, side: 0, ratio: 0, price: NULL_PRICE, delta: NULL_I32 }),
        legs_total: 0,
        underlyings: List::empty(Underlying { security_id: NULL_I32, symbol: Text::EMPTY }),
        underlyings_total: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_what_has_room() {
        let mut list: List<u8, 2> = List::empty(9);
        assert!(list.is_empty());
        for value in 1..=3 {
            list.push(value);
        }
        assert_eq!(*list, [1, 2]);
        assert_eq!(format!("{list:?}"), "[1, 2]");
        let mut other = List::empty(0);
        other.push(1);
        assert_ne!(list, other, "the filler does not count");
        other.push(2);
        assert_eq!(list, other);
    }
}
