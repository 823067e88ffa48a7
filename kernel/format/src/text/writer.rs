//! Write short text and numbers to memory that was reserved.

/// The most bytes a number takes: that of i64::MIN.
pub const NUMBER_BYTES: usize = 20;

/// Appends to a vector without a check for each part of a line.
pub struct Writer<'a> {
    text: &'a mut Vec<u8>,
    at: *mut u8,
}

impl<'a> Writer<'a> {
    /// Makes room for `bytes` bytes, which is all that may be written.
    #[inline(always)]
    pub fn new(text: &'a mut Vec<u8>, bytes: usize) -> Self {
        text.reserve(bytes);
        let at = text.as_mut_ptr().wrapping_add(text.len());
        Writer { text, at }
    }

    /// # Safety
    /// There is room.
    #[inline(always)]
    pub unsafe fn put<const BYTES: usize>(&mut self, literal: &[u8; BYTES]) {
        // SAFETY: the caller's promise.
        unsafe {
            self.at.cast::<[u8; BYTES]>().write_unaligned(*literal);
            self.at = self.at.add(BYTES);
        }
    }

    /// # Safety
    /// There is room.
    #[inline(always)]
    pub unsafe fn copy(&mut self, text: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            self.at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.at = self.at.add(text.len());
        }
    }

    /// # Safety
    /// There is room for NUMBER_BYTES.
    #[inline(always)]
    pub unsafe fn number(&mut self, value: i64) {
        // SAFETY: the caller's promise.
        unsafe {
            if value < 0 {
                self.put(b"-");
            }
            self.digits(value.unsigned_abs());
        }
    }

    /// # Safety
    /// There is room for NUMBER_BYTES.
    #[inline(always)]
    unsafe fn digits(&mut self, mut value: u64) {
        let count = digit_count(value);
        // SAFETY: the caller's promise: there are `count` digits, which are written from the last to the first.
        unsafe {
            let mut to = self.at.add(count);
            self.at = to;
            while value >= 100 {
                to = to.sub(2);
                to.cast::<[u8; 2]>().write_unaligned(PAIRS[(value % 100) as usize]);
                value /= 100;
            }
            if value >= 10 {
                to.sub(2).cast::<[u8; 2]>().write_unaligned(PAIRS[value as usize]);
            } else {
                to.sub(1).write(b'0' + value as u8);
            }
        }
    }

    /// Ends the text after what was written.
    ///
    /// # Safety
    /// Everything since `new` was written by the methods above.
    #[inline(always)]
    pub unsafe fn finish(self) {
        // SAFETY: `at` is within the reserved memory, all of which up to there is written.
        unsafe {
            let len = self.at.offset_from(self.text.as_ptr()) as usize;
            self.text.set_len(len);
        }
    }
}

/// How many decimal digits the value has, at least one.
#[inline(always)]
fn digit_count(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    let least = (bits * 1233) >> 12; // bits * log10(2), which is the count or one less
    least + usize::from(value >= POWERS[least])
}

/// 1, 10, 100, ...; the first is 0, because 0 has one digit, too.
const POWERS: [u64; 20] = {
    let mut powers = [0; 20];
    let (mut index, mut power) = (1, 1);
    while index < 20 {
        power *= 10;
        powers[index] = power;
        index += 1;
    }
    powers
};

/// The digits of 00 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + value as u8 / 10, b'0' + value as u8 % 10];
        value += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: i64) -> String {
        let mut text = Vec::new();
        let mut writer = Writer::new(&mut text, NUMBER_BYTES);
        // SAFETY: there is room for a number.
        unsafe {
            writer.number(value);
            writer.finish();
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_are_those_of_the_standard_library() {
        let mut value = 1i64;
        for _ in 0..63 {
            for near in [value.wrapping_sub(1), value, value.wrapping_add(1)] {
                assert_eq!(number(near), near.to_string());
                assert_eq!(number(near.wrapping_neg()), near.wrapping_neg().to_string());
            }
            value = value.wrapping_mul(2);
        }
        for digits in 0..19 {
            for near in [10i64.pow(digits) - 1, 10i64.pow(digits)] {
                assert_eq!(number(near), near.to_string());
            }
        }
        assert_eq!(number(i64::MIN), i64::MIN.to_string());
        assert_eq!(number(i64::MAX), i64::MAX.to_string());
    }
}
