//! The two checksums: CRC-32C over a v2 batch, CRC-32 over a v0/v1 message.

/// CRC-32C (Castagnoli), of the bytes from a v2 batch's attributes to its end.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32 (IEEE 802.3, zlib's), of the bytes from a v0/v1 message's magic to its end.
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_values() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
