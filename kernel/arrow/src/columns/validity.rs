//! A null bitmap that is only allocated if there is a null.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

#[derive(Default)]
pub struct Validity {
    /// One bit for each row: 1 = not null. Rows after the end are not null.
    bits: Vec<u8>,
}

impl Validity {
    #[cold]
    pub fn set_null(&mut self, row: usize) {
        if self.bits.len() <= row / 8 {
            self.bits.resize(row / 8 + 1, 0xff);
        }
        self.bits[row / 8] &= !(1 << (row % 8));
    }

    /// Makes the rows from `from` (inclusive) to `to` (exclusive) null.
    pub fn set_nulls(&mut self, from: usize, to: usize) {
        // Single bits up to a byte boundary, whole bytes, and the remaining bits.
        let middle = from.next_multiple_of(8).min(to);
        (from..middle).for_each(|row| self.set_null(row));
        let tail = (to / 8 * 8).max(middle);
        if tail > middle {
            self.bits.resize(self.bits.len().max(tail / 8), 0xff);
            self.bits[middle / 8..tail / 8].fill(0);
        }
        (tail..to).for_each(|row| self.set_null(row));
    }

    /// Removes the nulls from row `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        if self.bits.len() > rows / 8 {
            self.bits.truncate(rows / 8 + 1);
            self.bits[rows / 8] |= 0xff << (rows % 8);
        }
    }

    pub fn finish(mut self, rows: usize) -> Option<NullBuffer> {
        if self.bits.is_empty() {
            return None;
        }
        self.bits.resize(rows.div_ceil(8), 0xff);
        let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.bits), 0, rows));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_nulls_are_forgotten() {
        let mut validity = Validity::default();
        for row in [3, 9, 17] {
            validity.set_null(row);
        }
        validity.truncate(9);
        let nulls = validity.finish(20).unwrap();
        assert_eq!((nulls.null_count(), nulls.is_null(3)), (1, true));
    }

    #[test]
    fn ranges_of_nulls() {
        for from in 0..20 {
            for to in from..40 {
                let mut validity = Validity::default();
                validity.set_nulls(from, to);
                let nulls = validity.finish(40);
                let found = nulls.map_or(vec![], |nulls| (0..40).filter(|&row| nulls.is_null(row)).collect());
                assert_eq!(found, (from..to).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_null_no_bitmap() {
        let mut validity = Validity::default();
        assert!(Validity::default().finish(5).is_none());
        validity.set_null(2);
        validity.truncate(2);
        assert!(validity.finish(5).is_none());
    }
}
