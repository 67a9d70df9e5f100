//! Accessors of fields: what the generated files are made of.
//!
//! In a view, `block` is the array of the bytes that every version has, so a load from it has no check; `whole` is the
//! acting block, where fields that came later may be. A setter writes by `self.0`, which knows the block and the version.

/// A getter, or two where a field has a null value: as an `Option`, and raw.
macro_rules! get {
    ($doc:literal, $name:ident: constant $ty:ident = $value:expr) => {
        #[doc = concat!($doc, "; constant.")]
        #[inline(always)]
        pub const fn $name(&self) -> $ty {
            $value
        }
    };
    ($doc:literal, $name:ident: number $ty:ident at $at:literal) => {
        #[doc = concat!($doc, ".")]
        #[inline(always)]
        pub fn $name(&self) -> $ty {
            <$ty as crate::bytes::Word>::load(self.block, $at)
        }
    };
    ($doc:literal, $name:ident: number $ty:ident at $at:literal since $since:literal) => {
        #[doc = concat!($doc, "; since version ", $since, ", `None` before.")]
        #[inline(always)]
        pub fn $name(&self) -> Option<$ty> {
            <$ty as crate::bytes::Word>::tail(self.whole, $at, self.version >= $since)
        }
    };
    ($doc:literal, $name:ident, $raw:ident: number $ty:ident null $null:expr, at $at:literal) => {
        #[doc = concat!($doc, "; `None` for no value.")]
        #[inline(always)]
        pub fn $name(&self) -> Option<$ty> {
            Some(self.$raw()).filter(|&value| value != $null)
        }

        #[doc = concat!($doc, "; `", stringify!($null), "` for no value.")]
        #[inline(always)]
        pub fn $raw(&self) -> $ty {
            <$ty as crate::bytes::Word>::load(self.block, $at)
        }
    };
    ($doc:literal, $name:ident, $raw:ident: number $ty:ident null $null:expr, at $at:literal since $since:literal) => {
        #[doc = concat!($doc, "; since version ", $since, "; `None` for no value and before.")]
        #[inline(always)]
        pub fn $name(&self) -> Option<$ty> {
            Some(self.$raw()).filter(|&value| value != $null)
        }

        #[doc = concat!($doc, "; since version ", $since, "; `", stringify!($null), "` for no value and before.")]
        #[inline(always)]
        pub fn $raw(&self) -> $ty {
            <$ty as crate::bytes::Word>::tail(self.whole, $at, self.version >= $since).unwrap_or($null)
        }
    };
    ($doc:literal, $name:ident: word $ty:ident at $at:literal) => {
        #[doc = concat!($doc, ".")]
        #[inline(always)]
        pub fn $name(&self) -> $ty {
            $ty(crate::bytes::Word::load(self.block, $at))
        }
    };
    ($doc:literal, $name:ident: word $ty:ident at $at:literal since $since:literal) => {
        #[doc = concat!($doc, "; since version ", $since, ", null before.")]
        #[inline(always)]
        pub fn $name(&self) -> $ty {
            crate::bytes::Word::tail(self.whole, $at, self.version >= $since).map_or($ty::NULL, $ty)
        }
    };
    ($doc:literal, $name:ident, $raw:ident: word $ty:ident null at $at:literal) => {
        #[doc = concat!($doc, "; `None` for no value.")]
        #[inline(always)]
        pub fn $name(&self) -> Option<$ty> {
            self.$raw().some()
        }

        #[doc = concat!($doc, "; `", stringify!($ty), "::NULL` for no value.")]
        #[inline(always)]
        pub fn $raw(&self) -> $ty {
            $ty(crate::bytes::Word::load(self.block, $at))
        }
    };
    ($doc:literal, $name:ident, $raw:ident: word $ty:ident null at $at:literal since $since:literal) => {
        #[doc = concat!($doc, "; since version ", $since, "; `None` for no value and before.")]
        #[inline(always)]
        pub fn $name(&self) -> Option<$ty> {
            self.$raw().some()
        }

        #[doc = concat!($doc, "; since version ", $since, "; `", stringify!($ty), "::NULL` for no value and before.")]
        #[inline(always)]
        pub fn $raw(&self) -> $ty {
            crate::bytes::Word::tail(self.whole, $at, self.version >= $since).map_or($ty::NULL, $ty)
        }
    };
    ($doc:literal, $name:ident: text $len:literal at $at:literal) => {
        #[doc = concat!($doc, ".")]
        #[inline(always)]
        pub fn $name(&self) -> crate::Text<'a> {
            crate::Text::new(crate::bytes::slice(self.block, $at, $len))
        }
    };
    ($doc:literal, $name:ident: text $len:literal at $at:literal since $since:literal) => {
        #[doc = concat!($doc, "; since version ", $since, ", empty before.")]
        #[inline(always)]
        pub fn $name(&self) -> crate::Text<'a> {
            let block = if self.version >= $since { self.whole } else { &[] };
            crate::Text::new(crate::bytes::slice(block, $at, $len))
        }
    };
    ($doc:literal, $name:ident: month at $at:literal) => {
        #[doc = concat!($doc, ".")]
        #[inline(always)]
        pub fn $name(&self) -> crate::MonthYear {
            crate::MonthYear::from_bytes(crate::bytes::array(self.block, $at))
        }
    };
}

/// A setter; `since` names the first version that is written with the field.
macro_rules! set {
    ($name:ident: number $ty:ident at $at:literal $(since $since:literal)?) => {
        set!(@value $name, (value: $ty), value, $at, $($since)?);
    };
    ($name:ident: maybe $ty:ident at $at:literal since $since:literal) => {
        set!(@value $name, (value: impl Into<Option<$ty>>), value.into().unwrap_or_default(), $at, $since);
    };
    ($name:ident: number $ty:ident null $null:expr, at $at:literal $(since $since:literal)?) => {
        set!(@value $name, (value: impl Into<Option<$ty>>), value.into().unwrap_or($null), $at, $($since)?);
    };
    ($name:ident: word $ty:ident at $at:literal $(since $since:literal)?) => {
        set!(@value $name, (value: $ty), value.0, $at, $($since)?);
    };
    ($name:ident: word $ty:ident null at $at:literal $(since $since:literal)?) => {
        set!(@value $name, (value: impl Into<Option<$ty>>), value.into().unwrap_or($ty::NULL).0, $at, $($since)?);
    };
    ($name:ident: text $len:literal at $at:literal $(since $since:literal)?) => {
        #[doc = concat!("Sets the field at byte ", $at, ": at most ", $len, " bytes, the rest is cut off.")]
        #[inline]
        pub fn $name(&mut self, value: impl AsRef<[u8]>) -> &mut Self {
            if true $(&& self.0.version() >= $since)? {
                crate::bytes::put_text(self.0.block(), $at, $len, value.as_ref());
            }
            self
        }
    };
    ($name:ident: month at $at:literal) => {
        #[doc = concat!("Sets the field at byte ", $at, ".")]
        #[inline]
        pub fn $name(&mut self, value: crate::MonthYear) -> &mut Self {
            crate::bytes::put(self.0.block(), $at, value.to_bytes());
            self
        }
    };
    (@value $name:ident, ($value:ident: $ty:ty), $number:expr, $at:literal, $($since:literal)?) => {
        #[doc = concat!("Sets the field at byte ", $at, ".")]
        #[inline]
        pub fn $name(&mut self, $value: $ty) -> &mut Self {
            if true $(&& self.0.version() >= $since)? {
                crate::bytes::Word::put($number, self.0.block(), $at);
            }
            self
        }
    };
}

/// An entry's view, `block` its bytes in every version, `late` where fields came later.
macro_rules! entry {
    ($doc:literal, $name:ident, block $len:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a> {
            block: &'a [u8; $len],
        }

        impl<'a> crate::GroupEntry<'a> for $name<'a> {
            const MIN_BLOCK: usize = $len;

            #[inline(always)]
            fn from_block(whole: &'a [u8], _: u16) -> Option<Self> {
                Some($name { block: whole.first_chunk()? })
            }
        }
    };
    ($doc:literal, $name:ident, block $len:literal, late) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a> {
            block: &'a [u8; $len],
            whole: &'a [u8],
            version: u16,
        }

        impl<'a> crate::GroupEntry<'a> for $name<'a> {
            const MIN_BLOCK: usize = $len;

            #[inline(always)]
            fn from_block(whole: &'a [u8], version: u16) -> Option<Self> {
                Some($name { block: whole.first_chunk()?, whole, version })
            }
        }
    };
    ($doc:literal, $name:ident, late) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a> {
            whole: &'a [u8],
            version: u16,
        }

        impl<'a> crate::GroupEntry<'a> for $name<'a> {
            const MIN_BLOCK: usize = 0;

            #[inline(always)]
            fn from_block(whole: &'a [u8], version: u16) -> Option<Self> {
                Some($name { whole, version })
            }
        }
    };
}

/// The encoders of a group and of its entries.
macro_rules! entry_encoder {
    ($group_name:literal, $group:ident, $entry:ident) => {
        #[doc = concat!("Writes the entries of `", $group_name, "`.")]
        #[derive(Debug)]
        pub struct $group<'w, 'b>(crate::encode::GroupWriter<'w, 'b>);

        impl $group<'_, '_> {
            /// The next entry. Fields that are not set are null, or zero where they cannot be.
            pub fn push(&mut self) -> Result<$entry<'_>, crate::EncodeError> {
                Ok($entry(self.0.push()?))
            }
        }

        #[doc = concat!("Writes an entry of `", $group_name, "`.")]
        #[derive(Debug)]
        pub struct $entry<'e>(crate::encode::EntryWriter<'e>);
    };
}

/// The encoder of a message; its `LAYOUT` is beside it.
macro_rules! message_encoder {
    ($message_name:literal, $encoder:ident, version $version:literal) => {
        #[doc = concat!("Writes a `", $message_name, "`. Fields that are not set are null, or zero where they cannot be.")]
        #[derive(Debug)]
        pub struct $encoder<'b>(crate::encode::Writer<'b>);

        impl<'b> $encoder<'b> {
            #[doc = concat!("Begins a message of version ", $version, ", its size field first, at the start of `buf`.")]
            pub fn new(buf: &'b mut [u8]) -> Result<Self, crate::EncodeError> {
                Self::with_version(buf, $version)
            }

            /// Begins a message as `version` writes it: fields that came later are not written.
            pub fn with_version(buf: &'b mut [u8], version: u16) -> Result<Self, crate::EncodeError> {
                Ok($encoder(crate::encode::Writer::begin(buf, &LAYOUT, version)?))
            }

            /// Ends the message: groups left out are empty. Returns its length, size field and header included.
            pub fn finish(self) -> Result<usize, crate::EncodeError> {
                self.0.finish(&LAYOUT)
            }
        }
    };
}

pub(crate) use {entry, entry_encoder, get, message_encoder, set};
