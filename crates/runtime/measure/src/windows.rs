//! Measured times of several parties: rates add up only over what all of them have in common.

/// What two lists of windows (from, to), each in order and without overlap, have in common.
pub fn common_windows<T: Copy + Ord>(a: &[(T, T)], b: &[(T, T)]) -> Vec<(T, T)> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut out = Vec::new();
    while let (Some(&&one), Some(&&other)) = (a.peek(), b.peek()) {
        let both = (one.0.max(other.0), one.1.min(other.1));
        if both.0 < both.1 {
            out.push(both);
        }
        // The one that ends first has nothing more in common with what comes.
        if one.1 <= other.1 {
            a.next()
        } else {
            b.next()
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_several_windows_are_found_and_none_is_common_with_nothing() {
        let (a, b) = ([(0, 10), (20, 30), (40, 50)], [(5, 25), (28, 29), (50, 60)]);
        assert_eq!(common_windows(&a, &b), [(5, 10), (20, 25), (28, 29)]);
        assert_eq!(common_windows(&a, &[]), []);
    }
}
