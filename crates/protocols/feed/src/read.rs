//! Packets before anything of them is used: [`check`]. And what differs between templates that mean the same: exponents of prices,
//! widths of quantities.

use crate::book::NULL_PRICE;
use barewire_sbe::mdp3::*;
use barewire_sbe::{AnyMessage, DecodeError, MessageView, Packet, Price7, Price9};

use crate::counters::Reason;

/// A price as a mantissa of 10^-9, [`NULL_PRICE`] where there is none.
pub(crate) trait Nanos {
    fn nanos(self) -> i64;
}

impl Nanos for Price9 {
    #[inline(always)]
    fn nanos(self) -> i64 {
        self.0
    }
}

impl Nanos for Price7 {
    /// Before version 9 prices counted 10^-7.
    fn nanos(self) -> i64 {
        if self.is_null() { NULL_PRICE } else { self.0.saturating_mul(100) }
    }
}

impl<P: Nanos> Nanos for Option<P> {
    #[inline(always)]
    fn nanos(self) -> i64 {
        self.map_or(NULL_PRICE, Nanos::nanos)
    }
}

/// A quantity of either width.
pub(crate) trait Quantity {
    /// `None` for the null value.
    fn some(self) -> Option<i64>;

    /// Zero for the null value.
    #[inline(always)]
    fn or_zero(self) -> i64
    where
        Self: Sized,
    {
        self.some().unwrap_or(0)
    }
}

impl Quantity for i32 {
    #[inline(always)]
    fn some(self) -> Option<i64> {
        (self != i32::MAX).then_some(i64::from(self))
    }
}

impl Quantity for u64 {
    #[inline(always)]
    fn some(self) -> Option<i64> {
        (self != u64::MAX).then(|| i64::try_from(self).unwrap_or(i64::MAX))
    }
}

impl<Q: Quantity> Quantity for Option<Q> {
    #[inline(always)]
    fn some(self) -> Option<i64> {
        self.and_then(Quantity::some)
    }
}

/// Checks a whole packet before anything of it is used: a packet that is not whole counts as not received, so that its copy on
/// another line may take its place. Messages of foreign schemas and unknown templates are no fault.
#[inline]
pub(crate) fn check(packet: &Packet<'_>) -> Result<(), Reason> {
    if packet.body().is_empty() {
        return Err(Reason::ShortPacket);
    }
    for message in packet.messages() {
        let Ok(message) = message else { return Err(Reason::BadMessageSize) };
        let result = match message.template_id {
            MdIncrementalRefreshBook46::TEMPLATE_ID => MdIncrementalRefreshBook46::decode(&message).map(drop),
            MdIncrementalRefreshBookLongQty64::TEMPLATE_ID => {
                MdIncrementalRefreshBookLongQty64::decode(&message).map(drop)
            }
            SnapshotFullRefresh52::TEMPLATE_ID => SnapshotFullRefresh52::decode(&message).map(drop),
            _ => AnyMessage::decode(&message).map(drop),
        };
        match result {
            Ok(()) | Err(DecodeError::ForeignSchema { .. } | DecodeError::UnknownTemplate { .. }) => {}
            Err(_) => return Err(Reason::TruncatedMessage),
        }
    }
    Ok(())
}
