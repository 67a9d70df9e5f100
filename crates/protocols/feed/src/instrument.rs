//! What is known of an instrument: its definition, and its trading status.

use crate::terms::Terms;
use core::fmt;

/// Text of at most `N` bytes, kept in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Text { bytes: [0; N] };

    /// The field's text: up to the first zero, without trailing spaces, cut to `N` bytes.
    pub fn new(field: &[u8]) -> Self {
        let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
        let text = field[..end].trim_ascii_end();
        let mut bytes = [0; N];
        let n = text.len().min(N);
        bytes[..n].copy_from_slice(&text[..n]);
        Text { bytes }
    }

    /// The text; empty where it is not UTF-8 (the exchange writes ASCII).
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|&b| b == 0).unwrap_or(N);
        core::str::from_utf8(&self.bytes[..end]).unwrap_or("")
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.bytes.first().is_none_or(|&b| b == 0)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// SecurityTradingStatus (tags 326 and 1682). Values without a name are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TradingStatus(pub u8);

impl TradingStatus {
    /// Trading halt.
    pub const HALT: Self = TradingStatus(2);
    /// Closed.
    pub const CLOSE: Self = TradingStatus(4);
    /// New price indication.
    pub const NEW_PRICE_INDICATION: Self = TradingStatus(15);
    /// Ready to trade.
    pub const READY_TO_TRADE: Self = TradingStatus(17);
    /// Not available for trading.
    pub const NOT_AVAILABLE: Self = TradingStatus(18);
    /// Unknown or invalid.
    pub const UNKNOWN: Self = TradingStatus(20);
    /// Before the opening.
    pub const PRE_OPEN: Self = TradingStatus(21);
    /// Before a cross.
    pub const PRE_CROSS: Self = TradingStatus(24);
    /// Cross.
    pub const CROSS: Self = TradingStatus(25);
    /// After the close.
    pub const POST_CLOSE: Self = TradingStatus(26);
    /// The status stays as it was; only the event is news.
    pub const NO_CHANGE: Self = TradingStatus(103);
    /// Private workup.
    pub const PRIVATE_WORKUP: Self = TradingStatus(201);
    /// Public workup.
    pub const PUBLIC_WORKUP: Self = TradingStatus(202);
    /// No value.
    pub const NULL: Self = TradingStatus(255);
}

/// What a definition said (templates 54 to 58 and 63, and 27, 29, 41 before version 9), or defaults without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// The exchange's id (tag 48).
    pub security_id: i32,
    /// Whether a definition has been seen.
    pub defined: bool,
    /// Template of the definition; zero without one.
    pub template_id: u16,
    /// Symbol (tag 55).
    pub symbol: Text<20>,
    /// Security group (tag 1151).
    pub group: Text<6>,
    /// Asset (tag 6937).
    pub asset: Text<6>,
    /// Security type (tag 167).
    pub security_type: Text<6>,
    /// CFI code (tag 461).
    pub cfi_code: Text<6>,
    /// Currency (tag 15).
    pub currency: Text<3>,
    /// Market segment (tag 1300).
    pub market_segment: u8,
    /// Channel (tag 1180).
    pub channel_id: i16,
    /// Depth of the direct book (tag 264 of feed type GBX).
    pub depth: u8,
    /// Depth of the implied book (tag 264 of feed type GBI); zero without one.
    pub implied_depth: u8,
    /// Tick (tag 969): mantissa of 10^-9.
    pub min_price_increment: i64,
    /// Factor from prices on the wire to display (tag 9787): mantissa of 10^-9.
    pub display_factor: i64,
    /// Trading status as of the definition, a snapshot or the last status message.
    pub trading_status: TradingStatus,
    /// What its kind has beside: legs, underlyings, strike, maturity, coupon.
    pub terms: Terms,
}

impl Instrument {
    /// An instrument of which only the id is known.
    pub const fn undefined(security_id: i32, depth: u8, implied_depth: u8) -> Self {
        Instrument {
            security_id,
            defined: false,
            template_id: 0,
            symbol: Text::EMPTY,
            group: Text::EMPTY,
            asset: Text::EMPTY,
            security_type: Text::EMPTY,
            cfi_code: Text::EMPTY,
            currency: Text::EMPTY,
            market_segment: 0,
            channel_id: 0,
            depth,
            implied_depth,
            min_price_increment: 0,
            display_factor: 0,
            trading_status: TradingStatus::NULL,
            terms: Terms::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_at_zero_and_is_cut() {
        assert_eq!(Text::<6>::new(b"ES\0\0\0\0").as_str(), "ES");
        assert_eq!(Text::<6>::new(b"ES    ").as_str(), "ES");
        assert_eq!(Text::<3>::new(b"ABCDEF").as_str(), "ABC");
        assert_eq!(Text::<3>::new(&[0xff, 0xfe]).as_str(), "");
        assert!(Text::<3>::new(b"").is_empty() && Text::<0>::EMPTY.is_empty());
    }
}
