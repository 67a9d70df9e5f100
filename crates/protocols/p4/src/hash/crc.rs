//! CRCs: by tables for the algorithms that run for each packet, bit by bit for what a control plane defines.
//!
//! bmv2 keeps its remainder with the most significant bit first and reflects each byte going in and the remainder
//! coming out. Where both are reflected the tables here work on the mirrored remainder, which gives the same.

use crate::ir::CrcParameters;

const fn spec(width: u8, polynomial: u64, initial: u64, final_xor: u64, reflect: bool) -> CrcParameters {
    CrcParameters { width, polynomial, initial, final_xor, reflect_data: reflect, reflect_remainder: reflect }
}

/// The CRCs bmv2 knows by name (`crc_map.cpp`).
pub const NAMED: &[(&str, CrcParameters)] = &[
    ("crc_8", spec(8, 0x07, 0x00, 0x00, false)),
    ("crc_8_darc", spec(8, 0x39, 0x00, 0x00, true)),
    ("crc_8_i_code", spec(8, 0x1d, 0xfd, 0x00, false)),
    ("crc_8_itu", spec(8, 0x07, 0x00, 0x55, false)),
    ("crc_8_maxim", spec(8, 0x31, 0x00, 0x00, true)),
    ("crc_8_rohc", spec(8, 0x07, 0xff, 0x00, true)),
    ("crc_8_wcdma", spec(8, 0x9b, 0x00, 0x00, true)),
    ("crc_16", spec(16, 0x8005, 0x0000, 0x0000, true)),
    ("crc_16_buypass", spec(16, 0x8005, 0x0000, 0x0000, false)),
    ("crc_16_dds_110", spec(16, 0x8005, 0x800d, 0x0000, false)),
    ("crc_16_dect", spec(16, 0x0589, 0x0000, 0x0001, false)),
    ("crc_16_dnp", spec(16, 0x3d65, 0x0000, 0xffff, true)),
    ("crc_16_en_13757", spec(16, 0x3d65, 0x0000, 0xffff, false)),
    ("crc_16_genibus", spec(16, 0x1021, 0xffff, 0xffff, false)),
    ("crc_16_maxim", spec(16, 0x8005, 0x0000, 0xffff, true)),
    ("crc_16_mcrf4xx", spec(16, 0x1021, 0xffff, 0x0000, true)),
    ("crc_16_riello", spec(16, 0x1021, 0xb2aa, 0x0000, true)),
    ("crc_16_t10_dif", spec(16, 0x8bb7, 0x0000, 0x0000, false)),
    ("crc_16_teledisk", spec(16, 0xa097, 0x0000, 0x0000, false)),
    ("crc_16_usb", spec(16, 0x8005, 0xffff, 0xffff, true)),
    ("x_25", spec(16, 0x1021, 0xffff, 0xffff, true)),
    ("xmodem", spec(16, 0x1021, 0x0000, 0x0000, false)),
    ("modbus", spec(16, 0x8005, 0xffff, 0x0000, true)),
    ("kermit", spec(16, 0x1021, 0x0000, 0x0000, true)),
    ("crc_ccitt_false", spec(16, 0x1021, 0xffff, 0x0000, false)),
    ("crc_aug_ccitt", spec(16, 0x1021, 0x1d0f, 0x0000, false)),
    ("crc_32", spec(32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true)),
    ("crc_32_bzip2", spec(32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, false)),
    ("crc_32c", spec(32, 0x1edc_6f41, 0xffff_ffff, 0xffff_ffff, true)),
    ("crc_32d", spec(32, 0xa833_982b, 0xffff_ffff, 0xffff_ffff, true)),
    ("crc_32_mpeg", spec(32, 0x04c1_1db7, 0xffff_ffff, 0x0000_0000, false)),
    ("posix", spec(32, 0x04c1_1db7, 0x0000_0000, 0xffff_ffff, false)),
    ("crc_32q", spec(32, 0x8141_41ab, 0x0000_0000, 0x0000_0000, false)),
    ("jamcrc", spec(32, 0x04c1_1db7, 0xffff_ffff, 0x0000_0000, true)),
    ("xfer", spec(32, 0x0000_00af, 0x0000_0000, 0x0000_0000, false)),
    ("crc_64", spec(64, 0x1b, 0, 0, true)),
    ("crc_64_we", spec(64, 0x42f0_e1eb_a9ea_3693, u64::MAX, u64::MAX, false)),
    ("crc_64_jones", spec(64, 0xad93_d235_94c9_35a9, u64::MAX, 0, true)),
];

impl CrcParameters {
    /// The CRC bmv2 knows by this name (`polynomial`, `initial` and `final_xor` are not reflected), or the one that a name of the form
    /// `poly_0x1HEX[_init_0xHEX][_xout_0xHEX][_not_rev]` spells out.
    pub fn named(name: &str) -> Option<CrcParameters> {
        match NAMED.iter().find(|(known, _)| *known == name) {
            Some((_, spec)) => Some(*spec),
            None => CrcParameters::spelled(name),
        }
    }

    fn spelled(name: &str) -> Option<CrcParameters> {
        let number = |text: Option<&str>| {
            let digits = text?.strip_prefix("0x")?;
            u64::from_str_radix(digits, 16).ok()
        };
        let mut tokens = name.split('_');
        let (mut polynomial, mut initial, mut final_xor, mut reflect) = (None, 0, 0, true);
        while let Some(token) = tokens.next() {
            match token {
                "poly" => {
                    let digits = tokens.next()?.strip_prefix("0x1")?;
                    let width = match digits.len() {
                        2 => 8,
                        4 => 16,
                        8 => 32,
                        16 => 64,
                        _ => return None,
                    };
                    polynomial = Some((width, u64::from_str_radix(digits, 16).ok()?));
                }
                "init" => initial = number(tokens.next())?,
                "xout" => final_xor = number(tokens.next())?,
                "not" if tokens.next() == Some("rev") => reflect = false,
                _ => return None,
            }
        }
        let (width, polynomial) = polynomial?;
        let mask = u64::MAX >> (64 - u32::from(width));
        Some(spec(width, polynomial, initial & mask, final_xor & mask, reflect))
    }

    /// The CRC of some bytes, bit by bit. A width that is none of 8, 16, 32, 64 is taken as the next of them.
    pub fn compute(&self, bytes: &[u8]) -> u64 {
        let width = match self.width {
            0..=8 => 8,
            9..=16 => 16,
            17..=32 => 32,
            _ => 64,
        };
        // The remainder stands at the top of the word, so one loop serves all widths.
        let up = 64 - width;
        let polynomial = self.polynomial << up;
        let mut remainder = self.initial << up;
        for &byte in bytes {
            let byte = if self.reflect_data { byte.reverse_bits() } else { byte };
            remainder ^= u64::from(byte) << 56;
            for _ in 0..8 {
                let carry = (remainder as i64 >> 63) as u64;
                remainder = remainder << 1 ^ polynomial & carry;
            }
        }
        let remainder = if self.reflect_remainder { remainder.reverse_bits() } else { remainder >> up };
        (remainder ^ self.final_xor) & (u64::MAX >> up)
    }
}

/// `T[k][b]`: the mirrored remainder of byte `b` followed by `k` zero bytes.
const fn reflected_tables<const K: usize>(width: u32, polynomial: u64) -> [[u32; 256]; K] {
    let mirrored = (polynomial.reverse_bits() >> (64 - width)) as u32;
    let mut tables = [[0; 256]; K];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 != 0 { remainder >> 1 ^ mirrored } else { remainder >> 1 };
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut k = 1;
    while k < K {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// The remainder of each byte, most significant bit first, at the top of a 64-bit word.
const fn straight_table(width: u32, polynomial: u64) -> [u64; 256] {
    let polynomial = polynomial << (64 - width);
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u64) << 56;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder >> 63 != 0 { remainder << 1 ^ polynomial } else { remainder << 1 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

static CRC32: [[u32; 256]; 8] = reflected_tables(32, 0x04c1_1db7);
static CRC16: [[u32; 256]; 8] = reflected_tables(16, 0x8005);
static CCITT: [u64; 256] = straight_table(16, 0x1021);
static CRC8: [u64; 256] = straight_table(8, 0x07);
static CRC64: [u64; 256] = straight_table(64, 0x1b);

/// Eight bytes a step; the remainder has at most 32 bits.
fn by_eight(tables: &[[u32; 256]; 8], mut remainder: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for &word in words {
        let word = u64::from_le_bytes(word) ^ u64::from(remainder);
        let part = |at: usize| tables[7 - at][(word >> (8 * at)) as usize & 0xff];
        remainder = part(0) ^ part(1) ^ part(2) ^ part(3) ^ part(4) ^ part(5) ^ part(6) ^ part(7);
    }
    for &byte in rest {
        remainder = remainder >> 8 ^ tables[0][((remainder ^ u32::from(byte)) & 0xff) as usize];
    }
    remainder
}

fn straight(table: &[u64; 256], mut remainder: u64, bytes: &[u8]) -> u64 {
    for &byte in bytes {
        remainder = remainder << 8 ^ table[(remainder >> 56) as usize ^ usize::from(byte)];
    }
    remainder
}

/// CRC-32 as Ethernet has it.
pub fn crc32(bytes: &[u8]) -> u32 {
    !by_eight(&CRC32, u32::MAX, bytes)
}

/// CRC-16/ARC.
pub fn crc16(bytes: &[u8]) -> u16 {
    by_eight(&CRC16, 0, bytes) as u16
}

/// CRC-16 with polynomial 0x1021 from 0xffff, nothing reflected.
pub fn crc_ccitt(bytes: &[u8]) -> u16 {
    (straight(&CCITT, 0xffff << 48, bytes) >> 48) as u16
}

/// CRC-8 with polynomial 7, nothing reflected.
pub fn crc8(bytes: &[u8]) -> u8 {
    (straight(&CRC8, 0, bytes) >> 56) as u8
}

/// CRC-64/ISO as bmv2 starts its custom one: polynomial 0x1b from 0, all reflected.
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut remainder = 0;
    for &byte in bytes {
        remainder = straight(&CRC64, remainder, &[byte.reverse_bits()]);
    }
    remainder.reverse_bits()
}
