//! A column of keys or values.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};

use super::Validity;
use crate::pool::PoolVec;

/// A column being built. Its bytes must stay below 2^31, which RecordColumns::fits tells beforehand.
#[derive(Default)]
pub struct BinaryColumn {
    pub(crate) data: PoolVec<u8>,
    /// Arrow's offsets: 0, put there by `reserve`, and where each value ends. They do not decrease, and the last one is
    /// the length of `data`.
    pub(crate) offsets: PoolVec<i32>,
    pub(crate) validity: Validity,
}

impl BinaryColumn {
    /// Makes room for `rows` values of `bytes` bytes together.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.data.reserve(bytes);
        self.offsets.reserve(rows + 1);
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
    }

    pub fn append(&mut self, row: usize, value: Option<&[u8]>) {
        self.reserve(1, 0);
        match value {
            Some(value) => self.data.extend(value),
            None => self.validity.set_null(row),
        }
        self.offsets.push(self.data.len() as i32);
    }

    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.validity.truncate(rows);
        let end = self.last_end();
        self.data.truncate(end);
    }

    /// Where the last value ends.
    fn last_end(&mut self) -> usize {
        match self.offsets.len() {
            0 => 0,
            // SAFETY: the offsets below `len` are written.
            len => unsafe { self.offsets.start().add(len - 1).read() as usize },
        }
    }

    pub fn finish(mut self, rows: usize) -> ArrayRef {
        self.reserve(0, 0);
        let offsets = ScalarBuffer::new(self.offsets.into_buffer(), 0, rows + 1);
        // SAFETY: that is what `offsets` promises, and ScalarBuffer has checked that there are so many.
        unsafe {
            let offsets = OffsetBuffer::new_unchecked(offsets);
            Arc::new(BinaryArray::new_unchecked(offsets, self.data.into_buffer(), self.validity.finish(rows)))
        }
    }
}
