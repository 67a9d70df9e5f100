//! Enums and sets as transparent numbers whose values have names: what the generated files are made of. A value that
//! the schema does not name is kept.

/// An enum: a value a line.
#[doc(hidden)]
#[macro_export]
macro_rules! __values {
    ($doc:literal, $name:ident($repr:ident), null $null:expr, {
        $($constant:ident = $value:expr, $text:literal since $since:literal,)*
    }) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        #[allow(dead_code)]
        impl $name {
            $(
                #[doc = concat!("`", $text, "`; since version ", $since, ".")]
                pub const $constant: $name = $name($value);
            )*
            /// No value, or a field that the message's version does not have.
            pub const NULL: $name = $name($null);

            /// The schema's name of the value, where it has one.
            #[allow(unreachable_patterns)]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $($name::$constant => Some($text),)*
                    _ => None,
                }
            }

            /// Whether this is [`NULL`](Self::NULL).
            #[inline]
            pub const fn is_null(self) -> bool {
                self.0 == Self::NULL.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::NULL
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None if self.is_null() => f.pad("null"),
                    None => std::fmt::Display::fmt(&self.0, f),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// A set: a bit a line.
#[doc(hidden)]
#[macro_export]
macro_rules! __bits {
    ($doc:literal, $name:ident($repr:ident), {
        $($constant:ident, $test:ident = $bit:literal $text:literal since $since:literal,)*
    }) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        #[allow(dead_code)]
        impl $name {
            $(
                #[doc = concat!("`", $text, "`; since version ", $since, ".")]
                pub const $constant: $name = $name(1 << $bit);
            )*
            /// No bit: what a field is that the message's version does not have.
            pub const NULL: $name = $name(0);
            /// The bits that have names.
            pub const NAMES: &[(&'static str, $name)] = &[$(($text, $name::$constant)),*];

            /// Whether every bit of `other` is set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether no bit is set.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            $(
                #[doc = concat!("Whether `", $text, "` is set.")]
                #[inline]
                pub const fn $test(self) -> bool {
                    self.contains(Self::$constant)
                }
            )*
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                $name(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        /// The names of the bits that are set with `|` between them; bits without a name in hexadecimal.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let names = Self::NAMES.iter().map(|(name, bit)| (*name, u64::from(bit.0)));
                $crate::rt::fmt_set(f, u64::from(self.0), names)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
