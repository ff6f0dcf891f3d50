//! Cube map face selection. Denormal operands and results are always flushed (RDNA4 manual 7.2.4).

use crate::fp::mode::flush32;

/// The axis that is largest in magnitude: 0 x, 1 y, 2 z; z wins over y over x.
#[inline(always)]
fn axis(x: f32, y: f32, z: f32) -> u32 {
    let xy = if y.abs() >= x.abs() { 1 } else { 0 };
    if (z.abs() >= x.abs()) & (z.abs() >= y.abs()) {
        2
    } else {
        xy
    }
}

#[inline(always)]
fn values(x: u32, y: u32, z: u32) -> (f32, f32, f32) {
    let value = |v| f32::from_bits(flush32(v, true));
    (value(x), value(y), value(z))
}

/// Face number 0.0 to 5.0 of the direction (x, y, z): +x, -x, +y, -y, +z, -z.
#[inline(always)]
#[must_use]
pub fn v_cubeid_f32(x: u32, y: u32, z: u32) -> u32 {
    let (x, y, z) = values(x, y, z);
    let axis = axis(x, y, z);
    let xy = if axis == 1 { y } else { x };
    let major = if axis == 2 { z } else { xy };
    let face = (axis * 2) as i32 + i32::from(major < 0.0);
    (face as f32).to_bits()
}

/// Twice the major axis coordinate.
#[inline(always)]
#[must_use]
pub fn v_cubema_f32(x: u32, y: u32, z: u32) -> u32 {
    let (x, y, z) = values(x, y, z);
    let axis = axis(x, y, z);
    let xy = if axis == 1 { y } else { x };
    let major = if axis == 2 { z } else { xy };
    crate::fp::nan::nan1_32(major.to_bits(), (major * 2.0).to_bits())
}

/// S coordinate on the face.
#[inline(always)]
#[must_use]
pub fn v_cubesc_f32(x: u32, y: u32, z: u32) -> u32 {
    let (x, y, z) = values(x, y, z);
    let axis = axis(x, y, z);
    let on_z = if z < 0.0 { -x } else { x };
    let on_x = if x < 0.0 { z } else { -z };
    let xy = if axis == 1 { x } else { on_x };
    (if axis == 2 { on_z } else { xy }).to_bits()
}

/// T coordinate on the face.
#[inline(always)]
#[must_use]
pub fn v_cubetc_f32(x: u32, y: u32, z: u32) -> u32 {
    let (x, y, z) = values(x, y, z);
    let on_y = if y < 0.0 { -z } else { z };
    (if axis(x, y, z) == 1 { on_y } else { -y }).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces() {
        let cube = |x: f32, y: f32, z: f32| {
            let (x, y, z) = (x.to_bits(), y.to_bits(), z.to_bits());
            let f = f32::from_bits;
            (
                f(v_cubeid_f32(x, y, z)),
                f(v_cubema_f32(x, y, z)),
                f(v_cubesc_f32(x, y, z)),
                f(v_cubetc_f32(x, y, z)),
            )
        };
        assert_eq!(cube(3.0, 1.0, 2.0), (0.0, 6.0, -2.0, -1.0));
        assert_eq!(cube(-3.0, 1.0, 2.0), (1.0, -6.0, 2.0, -1.0));
        assert_eq!(cube(1.0, 3.0, 2.0), (2.0, 6.0, 1.0, 2.0));
        assert_eq!(cube(1.0, -3.0, 2.0), (3.0, -6.0, 1.0, -2.0));
        assert_eq!(cube(1.0, 2.0, 3.0), (4.0, 6.0, 1.0, -2.0));
        assert_eq!(cube(1.0, 2.0, -3.0), (5.0, -6.0, -1.0, -2.0));
        // Ties: z before y before x.
        assert_eq!(cube(1.0, 1.0, 1.0).0, 4.0);
        assert_eq!(cube(-1.0, -1.0, 0.5).0, 3.0);
    }
}
