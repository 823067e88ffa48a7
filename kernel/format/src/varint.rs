//! Zigzag varints, as in Kafka's ByteUtils.

/// Reads a varint of at most 5 bytes. None if it is longer, or the bytes end before it does.
#[inline]
pub fn read_i32(bytes: &[u8], at: &mut usize) -> Option<i32> {
    let mut raw: u32 = 0;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        raw |= u32::from(byte & 0x7f) << shift; // bits after the 32nd are lost, as in Java
        if byte < 0x80 {
            return Some(unzigzag_i32(raw));
        }
    }
    None
}

/// Reads a varlong of at most 10 bytes. None if it is longer, or the bytes end before it does.
#[inline]
pub fn read_i64(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut raw: u64 = 0;
    for shift in [0, 7, 14, 21, 28, 35, 42, 49, 56, 63] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(unzigzag_i64(raw));
        }
    }
    None
}

/// How many bytes `write_i64` writes.
#[inline(always)]
pub fn bytes_of(value: i64) -> usize {
    let bits = 64 - (((value << 1 ^ value >> 63) as u64) | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}

/// Writes a varint or varlong in as few bytes as possible, at most 10. Returns their number.
#[inline(always)]
pub fn write_i64(value: i64, out: &mut [u8]) -> usize {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    let mut bytes = 0;
    while rest >= 0x80 {
        out[bytes] = rest as u8 | 0x80;
        rest >>= 7;
        bytes += 1;
    }
    out[bytes] = rest as u8;
    bytes + 1
}

#[inline(always)]
pub fn unzigzag_i32(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

#[inline(always)]
pub fn unzigzag_i64(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn i32_of(bytes: &[u8]) -> Option<(i32, usize)> {
        let mut at = 0;
        read_i32(bytes, &mut at).map(|value| (value, at))
    }

    #[test]
    fn zigzag_sizes_change_where_kafka_says() {
        assert_eq!(i32_of(&[0x01]), Some((-1, 1)));
        assert_eq!(i32_of(&[0x7e]), Some((63, 1)));
        assert_eq!(i32_of(&[0x7f]), Some((-64, 1)));
        assert_eq!(i32_of(&[0x80, 0x01]), Some((64, 2)));
        assert_eq!(i32_of(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some((i32::MIN, 5)));
        assert_eq!(i32_of(&[0xfe, 0xff, 0xff, 0xff, 0x0f]), Some((i32::MAX, 5)));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for value in [0, 1, -1, 63, -64, 64, -65, 8191, 8192, -1 << 40, i64::MAX, i64::MIN] {
            let mut bytes = [0; 10];
            let written = write_i64(value, &mut bytes);
            let mut at = 0;
            assert_eq!(read_i64(&bytes[..written], &mut at), Some(value));
            assert_eq!(at, written);
            assert_eq!(bytes_of(value), written);
        }
        assert_eq!(write_i64(-64, &mut [0; 10]), 1);
        assert_eq!(write_i64(64, &mut [0; 10]), 2);
    }

    #[test]
    fn longer_than_minimal_is_read_and_longer_than_the_type_is_not() {
        assert_eq!(i32_of(&[0x82, 0x80, 0x80, 0x80, 0x00]), Some((1, 5)));
        assert_eq!(i32_of(&[0x82, 0x80, 0x80, 0x80, 0x80, 0x00]), None);
        assert_eq!(i32_of(&[0x80]), None);
        let mut at = 0;
        assert_eq!(read_i64(&[0xff; 10], &mut at), None);
        let mut at = 0;
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(read_i64(&longest, &mut at), Some(i64::MIN));
    }
}
