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

/// Checksums of many ranges of the same bytes, which may overlap. Each takes about as long as one of a few hundred bytes,
/// however long the range is; the bytes are gone over once for all of them.
///
/// A CRC is the remainder of a division of polynomials. So that of a range follows from those of the bytes before its
/// end and of the bytes before its start, the latter times x^8 for each byte of the range.
pub struct RangeCrcs<'a> {
    bytes: &'a [u8],
    crc: fn(&[u8]) -> u32,
    polynomial: u32,
    /// x^8, x^16, x^32 and so on: for lengths of 1, 2, 4 ... bytes.
    powers: [u32; usize::BITS as usize],
    /// Of no bytes, the first STEP bytes, twice as many, and so on as far as they were needed.
    beginnings: Vec<u32>,
}

const STEP: usize = 256;

impl<'a> RangeCrcs<'a> {
    pub fn crc32c(bytes: &'a [u8]) -> Self {
        Self::new(bytes, crc32c, 0x82f6_3b78)
    }

    pub fn crc32(bytes: &'a [u8]) -> Self {
        Self::new(bytes, crc32, 0xedb8_8320)
    }

    /// `polynomial`: the coefficient of x^31 is its lowest bit.
    fn new(bytes: &'a [u8], crc: fn(&[u8]) -> u32, polynomial: u32) -> Self {
        let mut power = 1 << (31 - 8);
        let powers = std::array::from_fn(|_| {
            let this = power;
            power = product(power, power, polynomial);
            this
        });
        RangeCrcs { bytes, crc, polynomial, powers, beginnings: vec![0] }
    }

    pub fn of(&mut self, range: std::ops::Range<usize>) -> u32 {
        if range.len() <= 2 * STEP {
            return (self.crc)(&self.bytes[range]);
        }
        let (start, end) = (self.before(range.start), self.before(range.end));
        self.shifted(start, range.len()) ^ end
    }

    /// Of the bytes before `end`.
    fn before(&mut self, end: usize) -> u32 {
        let steps = end / STEP;
        for step in self.beginnings.len()..=steps {
            let crc = (self.crc)(&self.bytes[(step - 1) * STEP..step * STEP]);
            self.beginnings.push(self.shifted(self.beginnings[step - 1], STEP) ^ crc);
        }
        let rest = &self.bytes[steps * STEP..end];
        self.shifted(self.beginnings[steps], rest.len()) ^ (self.crc)(rest)
    }

    /// The checksum, times x^8 for each of so many bytes.
    fn shifted(&self, crc: u32, bytes: usize) -> u32 {
        let powers = self.powers.iter().enumerate().filter(|(bit, _)| bytes >> bit & 1 != 0);
        powers.fold(crc, |crc, (_, &power)| product(crc, power, self.polynomial))
    }
}

/// The product of two polynomials, less what a third one divides. The coefficient of x^31 is the lowest bit.
fn product(a: u32, mut b: u32, polynomial: u32) -> u32 {
    let mut product = 0;
    for bit in (0..u32::BITS).rev() {
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
