//! How values read and look.

use barewire_sbe::mdp3::{InstAttribValue, MatchEventIndicator, MdEntryTypeBook, SecurityTradingStatus};
use barewire_sbe::{DecimalQty, MonthYear, Price7, Price9, Text};

#[test]
fn decimals_are_exact() {
    for (mantissa, text) in [
        (0, "0"),
        (1, "0.000000001"),
        (-1, "-0.000000001"),
        (10, "0.00000001"),
        (1_000_000_000, "1"),
        (-2_768_250_000_000, "-2768.25"),
        (100_000_000_000, "100"),
        (i64::MIN, "-9223372036.854775808"),
        (i64::MAX - 1, "9223372036.854775806"),
        (i64::MAX, "null"),
    ] {
        assert_eq!(Price9(mantissa).to_string(), text);
    }
    assert_eq!(
        format!("[{:>8}] [{:<6}] [{:08}]", Price9(1_500_000_000), Price7(5_000_000), DecimalQty(-15_000)),
        "[     1.5] [0.5   ] [-00001.5]"
    );
    assert_eq!((Price9::NULL.some(), Price9(7).some()), (None, Some(Price9(7))));
    assert!((Price9(2_500_000_000).to_f64() - 2.5).abs() < 1e-12);
    assert!(Price9(1) < Price9(2) && Price7::ONE == 10_000_000);
}

#[test]
fn months_look_as_in_fix() {
    assert_eq!(MonthYear::new(2026, 3).to_string(), "202603");
    assert_eq!(MonthYear { day: 9, ..MonthYear::new(2026, 3) }.to_string(), "20260309");
    assert_eq!(MonthYear { week: 2, ..MonthYear::new(2026, 12) }.to_string(), "202612w2");
    assert_eq!(MonthYear::NULL.to_string(), "null");
    assert!(MonthYear::default().is_null());
}

#[test]
fn text_ends_at_a_zero_or_before_blanks() {
    assert_eq!(Text::new(b"ESZ6\0\0\0x").as_bytes(), b"ESZ6");
    assert_eq!(Text::new(b"ESZ6    "), "ESZ6");
    assert_eq!(Text::new(b"full"), Text::new(b"full\0\0"));
    assert!(Text::new(&[0; 20]).is_empty());
    assert_eq!(
        format!("{:>6}|{}|{:?}", Text::new(b"ES\0"), Text::new(b"\xffA\n"), Text::new(b"\xff\"")),
        r#"    ES|\xffA\n|"\xff\"""#
    );
    assert_eq!(Text::new(b"\xff").to_str(), None);
}

#[test]
fn names_of_values_and_bits() {
    assert_eq!(MdEntryTypeBook::IMPLIED_BID.to_string(), "ImpliedBid");
    assert_eq!(MdEntryTypeBook(b'?').name(), None);
    assert_eq!(SecurityTradingStatus::NULL.to_string(), "null");
    assert_eq!(SecurityTradingStatus(203).to_string(), "203");
    let mut both = MatchEventIndicator::END_OF_EVENT | MatchEventIndicator::LAST_TRADE_MSG;
    assert_eq!(both.to_string(), "LastTradeMsg|EndOfEvent");
    assert!(
        both.end_of_event() && !both.recovery_msg() && both.contains(MatchEventIndicator::LAST_TRADE_MSG)
    );
    both |= MatchEventIndicator::RECOVERY_MSG;
    assert_eq!(both.0, 0b1010_0001);
    assert_eq!(InstAttribValue(1 << 31 | 1 << 3).to_string(), "EFPEligible|0x80000000");
    assert_eq!(
        (MatchEventIndicator(0).to_string().as_str(), MatchEventIndicator(0).is_empty()),
        ("0x0", true)
    );
}
