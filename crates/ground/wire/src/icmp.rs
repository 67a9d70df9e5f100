//! What messages of ICMP (RFC 792) and ICMPv6 (RFC 4443) have in common: type, code, checksum, and the numbers of an echo.

/// Where the fields are.
pub(crate) mod at {
    pub const KIND: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const IDENT: usize = 4;
    pub const SEQ: usize = 6;
    pub const DATA: usize = 8;
}

/// The view of a message, with what is the same in both.
macro_rules! message {
    ($(#[$doc:meta])*) => {
        $crate::field::view! {
            $(#[$doc])*
            Packet, min HEADER_LEN
        }

        impl<T: AsRef<[u8]>> Packet<T> {
            /// `Truncated` when the header is not whole.
            #[inline]
            pub fn check(&self) -> Result<(), $crate::Error> {
                self.check_min()
            }

            /// The type.
            #[inline]
            pub fn kind(&self) -> u8 {
                $crate::field::u8_at(self.data(), $crate::icmp::at::KIND)
            }

            /// The code.
            #[inline]
            pub fn code(&self) -> u8 {
                $crate::field::u8_at(self.data(), $crate::icmp::at::CODE)
            }

            /// The checksum.
            #[inline]
            pub fn checksum(&self) -> u16 {
                $crate::field::u16_at(self.data(), $crate::icmp::at::CHECKSUM)
            }

            /// The identifier of an echo.
            #[inline]
            pub fn ident(&self) -> u16 {
                $crate::field::u16_at(self.data(), $crate::icmp::at::IDENT)
            }

            /// The sequence number of an echo; in IPv4 also the next hop's MTU of "fragmentation needed".
            #[inline]
            pub fn seq(&self) -> u16 {
                $crate::field::u16_at(self.data(), $crate::icmp::at::SEQ)
            }
        }

        impl<'a> Packet<&'a [u8]> {
            /// What follows the eight bytes of header.
            #[inline]
            pub fn payload(&self) -> &'a [u8] {
                $crate::field::slice(self.buffer, $crate::icmp::at::DATA, usize::MAX)
            }
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
            /// Sets type and code.
            #[inline]
            pub fn set_kind(&mut self, kind: u8, code: u8) {
                $crate::field::put(self.data_mut(), $crate::icmp::at::KIND, [kind, code]);
            }

            /// Sets the checksum.
            #[inline]
            pub fn set_checksum(&mut self, check: u16) {
                $crate::field::put(self.data_mut(), $crate::icmp::at::CHECKSUM, check.to_be_bytes());
            }

            /// Sets identifier and sequence number.
            #[inline]
            pub fn set_ident_seq(&mut self, ident: u16, seq: u16) {
                $crate::field::put(self.data_mut(), $crate::icmp::at::IDENT, ident.to_be_bytes());
                $crate::field::put(self.data_mut(), $crate::icmp::at::SEQ, seq.to_be_bytes());
            }
        }
    };
}

pub(crate) use message;
