//! Big-endian integers at an index of a slice, which must hold them.

#[inline]
pub fn i16_at(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub fn i32_at(bytes: &[u8], at: usize) -> i32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    i32::from_be_bytes(field)
}

#[inline]
pub fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    i64::from_be_bytes(field)
}
