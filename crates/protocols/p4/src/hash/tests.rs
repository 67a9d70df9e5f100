//! Published check values, and the fast algorithms against slow ones.

use super::*;
use barewire_base::Prng;

const SAMPLE: [u8; 4] = [0x0b, 0xb8, 0x1f, 0x90];

#[test]
fn check_values_of_the_named_crcs() {
    // The CRC of "123456789" that every catalogue of CRCs gives.
    let checks: &[(&str, u64)] = &[
        ("crc_8", 0xf4),
        ("crc_8_darc", 0x15),
        ("crc_8_i_code", 0x7e),
        ("crc_8_itu", 0xa1),
        ("crc_8_maxim", 0xa1),
        ("crc_8_rohc", 0xd0),
        ("crc_8_wcdma", 0x25),
        ("crc_16", 0xbb3d),
        ("crc_16_buypass", 0xfee8),
        ("crc_16_dds_110", 0x9ecf),
        ("crc_16_dect", 0x007e),
        ("crc_16_dnp", 0xea82),
        ("crc_16_en_13757", 0xc2b7),
        ("crc_16_genibus", 0xd64e),
        ("crc_16_maxim", 0x44c2),
        ("crc_16_mcrf4xx", 0x6f91),
        ("crc_16_riello", 0x63d0),
        ("crc_16_t10_dif", 0xd0db),
        ("crc_16_teledisk", 0x0fb3),
        ("crc_16_usb", 0xb4c8),
        ("x_25", 0x906e),
        ("xmodem", 0x31c3),
        ("modbus", 0x4b37),
        ("kermit", 0x2189),
        ("crc_ccitt_false", 0x29b1),
        ("crc_aug_ccitt", 0xe5cc),
        ("crc_32", 0xcbf4_3926),
        ("crc_32_bzip2", 0xfc89_1918),
        ("crc_32c", 0xe306_9283),
        ("crc_32d", 0x8731_5576),
        ("crc_32_mpeg", 0x0376_e6e7),
        ("posix", 0x765e_7680),
        ("crc_32q", 0x3010_bf7f),
        ("jamcrc", 0x340b_c6d9),
        ("xfer", 0xbd0b_e338),
        ("crc_64", 0x46a5_a938_8a5b_effe),
        ("crc_64_we", 0x62ec_59e3_f1a4_f00a),
        ("crc_64_jones", 0xcaa7_1716_8609_f281),
    ];
    assert_eq!(checks.len(), crc::NAMED.len());
    for &(name, check) in checks {
        let spec = CrcParameters::named(name).expect(name);
        assert_eq!(hash(HashAlgorithm::Crc(spec), None, b"123456789"), check, "{name}");
    }
}

#[test]
fn a_crc_may_be_spelled_out() {
    let bzip2 = CrcParameters::named("poly_0x104c11db7_init_0xffffffff_xout_0xffffffff_not_rev").unwrap();
    assert_eq!(bzip2, CrcParameters::named("crc_32_bzip2").unwrap());
    assert_eq!(CrcParameters::named("poly_0x107_not_rev").unwrap().compute(b"123456789"), 0xf4);
    for wrong in
        ["", "crc", "poly", "poly_0x11", "poly_8005", "init_0x1", "poly_0x18005_lsb", "poly_0x18005_not"]
    {
        assert_eq!(CrcParameters::named(wrong), None, "{wrong:?}");
    }
}

#[test]
fn values_of_bmv2() {
    assert_eq!(hash(HashAlgorithm::Crc16, None, &SAMPLE), 0x5d8a);
    assert_eq!(hash(HashAlgorithm::CrcCcitt, None, &SAMPLE), 0x5d75);
    assert_eq!(hash(HashAlgorithm::Crc32, None, &SAMPLE), 0x005d_6a6f);
    assert_eq!(hash(HashAlgorithm::Crc16Custom, None, &SAMPLE), 0x5d8a);
    assert_eq!(hash(HashAlgorithm::Crc32Custom, None, &SAMPLE), 0x005d_6a6f);
    let crc16 = |polynomial, initial, reflect| Parameters::Crc16 {
        polynomial,
        initial,
        final_xor: 0,
        reflect_data: reflect,
        reflect_remainder: reflect,
    };
    assert_eq!(hash(HashAlgorithm::Crc16Custom, Some(&crc16(0x8005, 0, true)), &SAMPLE), 0x5d8a);
    assert_eq!(hash(HashAlgorithm::Crc16Custom, Some(&crc16(0x1021, 0xffff, false)), &SAMPLE), 0x5d75);
    assert_eq!(hash(HashAlgorithm::Crc16Custom, Some(&crc16(0x1021, 0, false)), &SAMPLE), 0xd9b5);
    let mpeg2 = Parameters::Crc32 {
        polynomial: 0x04c1_1db7,
        initial: 0xffff_ffff,
        final_xor: 0,
        reflect_data: false,
        reflect_remainder: false,
    };
    assert_eq!(hash(HashAlgorithm::Crc32Custom, Some(&mpeg2), &SAMPLE), 0x125e_1592);
    assert!(!mpeg2.fits(HashAlgorithm::Crc16Custom) && mpeg2.fits(HashAlgorithm::Crc32Custom));
    assert_eq!(hash(HashAlgorithm::Identity, None, &[1, 2, 3, 4, 5]), 0x01_0203_0405);
    assert_eq!(hash(HashAlgorithm::Identity, None, &[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
    assert_eq!(hash(HashAlgorithm::Xor16, None, &SAMPLE), 0x1428);
    assert_eq!(hash(HashAlgorithm::Xor16, None, &[0x0b, 0xb8, 0x1f, 0x90, 0x5a]), 0x4e28);
    let words = [0x0b, 0x0b, 0xb8, 0xb8, 0x1f, 0x1f, 0x90, 0x90, 0x5a, 0x5a, 0xbd];
    for (len, xor) in [(8, 0x1414_2828), (9, 0x4e14_2828), (10, 0x4e4e_2828), (11, 0x4e4e_9528)] {
        assert_eq!(hash(HashAlgorithm::Xor32, None, &words[..len]), xor, "{len} bytes");
    }
    // The example of a header checksum in Wikipedia's article on it.
    let ipv4 = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];
    assert_eq!(hash(HashAlgorithm::Csum16, None, &ipv4), 0xb861);
}

#[test]
fn toeplitz_of_the_receive_side_scaling_specification() {
    let key = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    let flow = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
    let parameters = Parameters::Toeplitz(key.to_vec());
    assert!(parameters.fits(HashAlgorithm::Toeplitz));
    assert_eq!(hash(HashAlgorithm::Toeplitz, Some(&parameters), &flow), 0x51cc_c178);
    assert_eq!(hash(HashAlgorithm::Toeplitz, Some(&parameters), &flow[..8]), 0x323e_8fc2);
    assert_eq!(hash(HashAlgorithm::Toeplitz, None, &flow), 0);
    assert_eq!(toeplitz(&key[..3], &flow), 0);
    // One word of key serves all words of input, and follows itself.
    assert_eq!(toeplitz(&[0x80, 0, 0, 0], &[0x80, 0, 0, 0, 0x40, 0, 0, 0]), 0x8000_0001);
}

#[test]
fn xxhash64_of_its_specification() {
    let vectors: &[(&[u8], u64)] = &[
        (b"", 0xef46_db37_51d8_e999),
        (b"a", 0xd24e_c4f1_a98c_6e5b),
        (b"abc", 0x44bc_2cf5_ad77_0999),
        (b"123456789", 0x8cb8_41db_40e6_ae83),
        (b"Nobody inspects the spammish repetition", 0xfbce_a83c_8a37_8bf1),
    ];
    for (input, output) in vectors {
        assert_eq!(hash(HashAlgorithm::Xxh64, None, input), *output, "{:?}", str::from_utf8(input));
        assert_eq!(hash(HashAlgorithm::Bmv2Hash, None, input), *output);
    }
}

#[test]
fn hash_ex_takes_bytes_as_signed() {
    // 0xff goes in as 0xffffffff.
    let mut hash = (2_166_136_261_u32 ^ 0xffff_ffff).wrapping_mul(16_777_619);
    hash = hash.wrapping_add(hash << 13);
    hash ^= hash >> 7;
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 17;
    hash = hash.wrapping_add(hash << 5);
    assert_eq!(hash_ex(&[0xff]), hash);
    assert_ne!(hash_ex(&[0x7f]), hash);
}

#[test]
fn tables_agree_with_bits_and_words_with_bytes() {
    let seed = 0x5eed_0001;
    let mut random = Prng::new(seed);
    for round in 0..2000 {
        let mut bytes = vec![0; random.below(70) as usize];
        random.fill(&mut bytes);
        let by_name = |name| CrcParameters::named(name).unwrap().compute(&bytes);
        assert_eq!(u64::from(crc32(&bytes)), by_name("crc_32"), "seed {seed:#x} round {round}");
        assert_eq!(u64::from(crc16(&bytes)), by_name("crc_16"), "seed {seed:#x} round {round}");
        assert_eq!(u64::from(crc::crc_ccitt(&bytes)), by_name("crc_ccitt_false"));
        assert_eq!(u64::from(crc::crc8(&bytes)), by_name("crc_8"));
        assert_eq!(crc::crc64(&bytes), by_name("crc_64"));
        let mut slow = 0_u32;
        for pair in bytes.chunks(2) {
            slow += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            slow = (slow >> 16) + (slow & 0xffff);
        }
        assert_eq!(fold(ones_complement_sum(&bytes)), slow as u16, "seed {seed:#x} round {round}");
        // Pieces of even length add up.
        let cut = bytes.len() / 4 * 2;
        let pieces = ones_complement_sum(&bytes[..cut]) + ones_complement_sum(&bytes[cut..]);
        assert_eq!(fold(pieces), slow as u16);
    }
    assert_eq!(csum16(&[0xff; 64]), 0);
    assert_eq!(csum16(&[]), 0xffff);
}
