//! Values of fields that are no plain integers: decimals, months, text.

use std::fmt;

/// A decimal with a constant exponent, as a transparent mantissa.
#[doc(hidden)]
#[macro_export]
macro_rules! __decimal {
    ($(#[$doc:meta])* $name:ident, $mantissa:ty, $exponent:literal, null $null:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $mantissa);

        #[allow(dead_code)]
        impl $name {
            /// The mantissa that says "no value".
            pub const NULL: $name = $name($null);
            /// The power of ten that the mantissa counts.
            pub const EXPONENT: i8 = $exponent;
            /// Mantissas that a whole unit has: ten to the power of minus the exponent.
            const UNIT: f64 = {
                let (mut unit, mut n) = (1.0f64, 0);
                while n < Self::EXPONENT.unsigned_abs() {
                    unit *= 10.0;
                    n += 1;
                }
                if Self::EXPONENT > 0 { 1.0 / unit } else { unit }
            };

            /// The mantissa.
            #[inline]
            pub const fn mantissa(self) -> $mantissa {
                self.0
            }

            /// Whether this says "no value".
            #[inline]
            pub const fn is_null(self) -> bool {
                self.0 == Self::NULL.0
            }

            /// `None` for "no value".
            #[inline]
            pub const fn some(self) -> Option<$name> {
                if self.is_null() { None } else { Some(self) }
            }

            /// The nearest binary floating-point number: for display and export, not for books.
            pub fn to_f64(self) -> f64 {
                self.0 as f64 / Self::UNIT
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if self.is_null() {
                    return f.pad("null");
                }
                $crate::rt::fmt_decimal(f, i64::from(self.0), $exponent)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl From<$name> for Option<$mantissa> {
            fn from(value: $name) -> Self {
                value.some().map(|v| v.0)
            }
        }
    };
}

__decimal! {
    /// A price or factor in units of 10^-9 (`PRICE9`, `PRICENULL9`, `Decimal9`, `Decimal9NULL`).
    Price9, i64, -9, null i64::MAX
}
__decimal! {
    /// A price or factor in units of 10^-7 (`PRICE`, `PRICENULL`, `FLOAT`; before version 9).
    Price7, i64, -7, null i64::MAX
}
__decimal! {
    /// A quantity in units of 10^-4 (`DecimalQty`).
    DecimalQty, i32, -4, null i32::MAX
}

/// Mantissas of one.
macro_rules! one {
    ($($name:ident: $mantissa:ty = $one:literal),*) => { $(
        impl $name {
            /// The mantissa of one.
            pub const ONE: $mantissa = $one;
        }
    )* };
}

one!(Price9: i64 = 1_000_000_000, Price7: i64 = 10_000_000, DecimalQty: i32 = 10_000);

/// Writes `mantissa` times ten to the power `exponent` exactly, without trailing zeros.
pub fn fmt_decimal(f: &mut fmt::Formatter<'_>, mantissa: i64, exponent: i8) -> fmt::Result {
    let mut places = usize::from(exponent.min(0).unsigned_abs());
    let mut digits = mantissa.unsigned_abs();
    while places > 0 && digits.is_multiple_of(10) {
        digits /= 10;
        places = if digits == 0 { 0 } else { places - 1 };
    }
    let mut text = format!("{digits:0width$}", width = places + 1);
    if places > 0 {
        text.insert(text.len() - places, '.');
    }
    if digits != 0 {
        text.extend(std::iter::repeat_n('0', usize::from(exponent.max(0).unsigned_abs())));
    }
    f.pad_integral(mantissa >= 0, "", &text)
}

/// Writes the names of the bits of `value` that are set, then what has no name in hexadecimal.
pub fn fmt_set<'n>(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    names: impl Iterator<Item = (&'n str, u64)>,
) -> fmt::Result {
    let mut rest = value;
    let mut between = "";
    for (name, bit) in names.filter(|(_, bit)| value & bit != 0) {
        write!(f, "{between}{name}")?;
        rest &= !bit;
        between = "|";
    }
    if rest != 0 || value == 0 {
        write!(f, "{between}{rest:#x}")?;
    }
    Ok(())
}

/// A contract's month (`MaturityMonthYear`). Each part may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MonthYear {
    /// Year; 65,535 when missing.
    pub year: u16,
    /// Month, 1 to 12; 255 when missing.
    pub month: u8,
    /// Day of the month; 255 when missing.
    pub day: u8,
    /// Week of the month; 255 when missing.
    pub week: u8,
}

impl MonthYear {
    /// All parts missing.
    pub const NULL: MonthYear = MonthYear { year: u16::MAX, month: u8::MAX, day: u8::MAX, week: u8::MAX };

    /// A month without day or week.
    pub const fn new(year: u16, month: u8) -> Self {
        MonthYear { year, month, ..MonthYear::NULL }
    }

    /// Whether every part is missing.
    pub fn is_null(self) -> bool {
        self == MonthYear::NULL
    }

    #[doc(hidden)]
    pub const fn from_bytes(b: [u8; 5]) -> Self {
        MonthYear { year: u16::from_le_bytes([b[0], b[1]]), month: b[2], day: b[3], week: b[4] }
    }

    #[doc(hidden)]
    pub const fn to_bytes(self) -> [u8; 5] {
        let [lo, hi] = self.year.to_le_bytes();
        [lo, hi, self.month, self.day, self.week]
    }
}

impl Default for MonthYear {
    fn default() -> Self {
        MonthYear::NULL
    }
}

/// As FIX writes it: `YYYYMM`, `YYYYMMDD` or `YYYYMMwW`.
impl fmt::Display for MonthYear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return f.write_str("null");
        }
        if self.year != u16::MAX {
            write!(f, "{:04}", self.year)?;
        }
        if self.month != u8::MAX {
            write!(f, "{:02}", self.month)?;
        }
        if self.day != u8::MAX {
            write!(f, "{:02}", self.day)?;
        }
        if self.week != u8::MAX {
            write!(f, "w{}", self.week)?;
        }
        Ok(())
    }
}

/// A text field of fixed length in place: ASCII, filled up with zeros (or spaces).
#[derive(Clone, Copy, Eq)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// A text over the whole field's bytes.
    #[inline]
    pub const fn new(field: &'a [u8]) -> Self {
        Text(field)
    }

    /// The field's bytes as they lie there.
    #[inline]
    pub const fn raw(self) -> &'a [u8] {
        self.0
    }

    /// The bytes before the first zero, without trailing spaces.
    pub fn as_bytes(self) -> &'a [u8] {
        let text = self.0.split(|&b| b == 0).next().unwrap_or_default();
        let end = text.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
        &text[..end]
    }

    /// The text, where it is UTF-8 (which includes ASCII).
    pub fn to_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// Whether there is no text.
    pub fn is_empty(self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_str() {
            Some(text) if !text.contains(char::is_control) => f.pad(text),
            _ => write!(f, "{}", self.as_bytes().escape_ascii()),
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}
