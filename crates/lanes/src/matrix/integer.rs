//! i8, iu8 and iu4 products summed into i32: wrapping, or saturated with the clamp bit.

/// `c + a . b`; saturates once at the end if `clamp` is set.
pub(super) fn i32(a: &[i32], b: &[i32], c: i32, clamp: bool) -> i32 {
    let exact = a.iter().zip(b).fold(i64::from(c), |sum, (a, b)| {
        sum + i64::from(*a) * i64::from(*b)
    });
    if clamp {
        exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
    } else {
        exact as i32
    }
}
