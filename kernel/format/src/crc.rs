//! The two checksums: CRC-32C of v2 batches, CRC-32 of v0/v1 messages.

use crc_fast::{CrcAlgorithm, Digest};

#[cfg(target_arch = "x86_64")]
use crate::cpu;

/// CRC-32C (Castagnoli). A v2 batch has the CRC-32C of its bytes from the attributes to its end.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // crc-fast is faster with instructions of AVX-512 and of aarch64, crc32c with SSE 4.2.
    #[cfg(target_arch = "x86_64")]
    if !cpu::has_avx512() {
        return crc32c::crc32c(bytes);
    }
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32 (IEEE 802.3, as in zlib). A v0/v1 message has the CRC-32 of its bytes from the magic byte to its end.
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}

/// Computes the checksums of many, possibly overlapping ranges of the same bytes. The bytes are read once for all ranges;
/// each checksum then takes as long as that of a few hundred bytes, no matter how long its range is.
///
/// A CRC is the remainder of a polynomial division. The CRC of a range is therefore the CRC of all bytes before its end,
/// plus the CRC of all bytes before its start times x^8 for each byte of the range.
pub struct RangeCrcs<'a> {
    bytes: &'a [u8],
    checksum: &'static Checksum,
    /// The checksums of the first 0, STEP, 2 * STEP ... bytes, as far as they were needed.
    prefixes: Vec<u32>,
}

const STEP: usize = 256;

/// A checksum, and what is needed to compute that of a range from those of its parts.
pub struct Checksum {
    pub of: fn(&[u8]) -> u32,
    algorithm: CrcAlgorithm,
    /// The lowest bit is the coefficient of x^31.
    polynomial: u32,
    /// x^8, x^16, x^32 ...: the factors for 1, 2, 4 ... bytes.
    powers: [u32; u64::BITS as usize],
}

pub static CRC32C: Checksum = Checksum::new(crc32c, CrcAlgorithm::Crc32Iscsi, 0x82f6_3b78);
pub static CRC32: Checksum = Checksum::new(crc32, CrcAlgorithm::Crc32IsoHdlc, 0xedb8_8320);

impl Checksum {
    const fn new(of: fn(&[u8]) -> u32, algorithm: CrcAlgorithm, polynomial: u32) -> Self {
        let (mut powers, mut power, mut index) = ([0; u64::BITS as usize], 1 << (31 - 8), 0);
        while index < powers.len() {
            powers[index] = power;
            power = product(power, power, polynomial);
            index += 1;
        }
        Checksum { of, algorithm, polynomial, powers }
    }

    /// The checksum of a prefix that has the checksum `crc`, and of the bytes after it.
    pub fn extended(&self, crc: u32, bytes: &[u8]) -> u32 {
        let mut digest = Digest::new_with_init_state(self.algorithm, u64::from(!crc));
        digest.update(bytes);
        digest.finalize() as u32
    }

    /// Shifts the checksum of a prefix past the `bytes` bytes that follow it. XORing the result with the checksum of the
    /// prefix and those bytes gives the checksum of those bytes.
    pub fn shifted(&self, crc: u32, bytes: u64) -> u32 {
        let powers = self.powers.iter().enumerate().filter(|(bit, _)| bytes >> bit & 1 != 0);
        powers.fold(crc, |crc, (_, &power)| product(crc, power, self.polynomial))
    }
}

impl<'a> RangeCrcs<'a> {
    pub fn crc32c(bytes: &'a [u8]) -> Self {
        RangeCrcs { bytes, checksum: &CRC32C, prefixes: vec![0] }
    }

    pub fn crc32(bytes: &'a [u8]) -> Self {
        RangeCrcs { bytes, checksum: &CRC32, prefixes: vec![0] }
    }

    /// The checksum of the bytes in `range`.
    pub fn of(&mut self, range: std::ops::Range<usize>) -> u32 {
        if range.len() <= 2 * STEP {
            return (self.checksum.of)(&self.bytes[range]);
        }
        let (start, end) = (self.before(range.start), self.before(range.end));
        self.checksum.shifted(start, range.len() as u64) ^ end
    }

    /// The checksum of all bytes before `end`.
    fn before(&mut self, end: usize) -> u32 {
        let steps = end / STEP;
        for step in self.prefixes.len()..=steps {
            let bytes = &self.bytes[(step - 1) * STEP..step * STEP];
            self.prefixes.push(self.checksum.extended(self.prefixes[step - 1], bytes));
        }
        self.checksum.extended(self.prefixes[steps], &self.bytes[steps * STEP..end])
    }
}

/// The product of two polynomials modulo a third one. The lowest bit is the coefficient of x^31.
const fn product(a: u32, mut b: u32, polynomial: u32) -> u32 {
    let (mut product, mut bit) = (0, u32::BITS);
    while bit > 0 {
        bit -= 1;
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = b >> 1 ^ polynomial & (b & 1).wrapping_neg();
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn ranges_have_the_checksums_of_their_bytes() {
        let bytes: Vec<u8> = (0..5000u32).map(|at| (at * at / 7) as u8).collect();
        let (mut castagnoli, mut ieee) = (RangeCrcs::crc32c(&bytes), RangeCrcs::crc32(&bytes));
        for start in (0..5000).step_by(37) {
            for end in (start..5000).step_by(61).chain([5000]) {
                assert_eq!(castagnoli.of(start..end), crc32c(&bytes[start..end]), "{start} {end}");
                assert_eq!(ieee.of(start..end), crc32(&bytes[start..end]), "{start} {end}");
            }
        }
    }
}
