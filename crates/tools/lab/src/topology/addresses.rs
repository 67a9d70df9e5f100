//! Addresses with prefix lengths, in text and as numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of an address of this family.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// `10.0.0.1/24`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, length) =
        text.split_once('/').ok_or("the prefix length is missing, as in 10.0.0.1/24 or fd00::1/64")?;
    let address: IpAddr = address.parse().map_err(|_| format!("`{address}` is not an IP address"))?;
    let most = bits(address);
    match length.parse::<u8>() {
        Ok(length) if length <= most => Ok((address, length)),
        _ => Err(format!("the prefix length is a number up to {most}")),
    }
}

/// Whether `address` is in the subnet of another.
pub(super) fn contains(subnet: (IpAddr, u8), address: IpAddr) -> bool {
    let shift = u32::from(bits(address) - subnet.1.min(bits(address)));
    let net = |a: IpAddr| number(a).checked_shr(shift).unwrap_or(0);
    subnet.0.is_ipv4() == address.is_ipv4() && net(subnet.0) == net(address)
}

/// The subnet's own address: the bits of the host are zero.
pub(super) fn base(subnet: (IpAddr, u8)) -> IpAddr {
    let shift = u32::from(bits(subnet.0) - subnet.1.min(bits(subnet.0)));
    let value = number(subnet.0).checked_shr(shift).and_then(|net| net.checked_shl(shift)).unwrap_or(0);
    match subnet.0 {
        // No more bits than the address had.
        IpAddr::V4(_) => Ipv4Addr::from(value as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(value).into(),
    }
}

/// The `n`th address of a subnet, counted from its base; `None` when it has no such host.
pub(super) fn nth(subnet: (IpAddr, u8), n: u32) -> Option<IpAddr> {
    let host_bits = u32::from(bits(subnet.0) - subnet.1);
    let size = 1u128.checked_shl(host_bits).unwrap_or(u128::MAX);
    let base = number(subnet.0).checked_shr(host_bits).unwrap_or(0).checked_shl(host_bits).unwrap_or(0);
    // The last one of an IPv4 subnet is its broadcast address.
    let last = size - u128::from(subnet.0.is_ipv4());
    if u128::from(n) >= last {
        return None;
    }
    let value = base + u128::from(n);
    Some(match subnet.0 {
        IpAddr::V4(_) => Ipv4Addr::from(u32::try_from(value).ok()?).into(),
        IpAddr::V6(_) => Ipv6Addr::from(value).into(),
    })
}
