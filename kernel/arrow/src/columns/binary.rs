//! A column of keys or values.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};

use super::validity::Validity;
use crate::pool::PoolVec;

/// A column being built. It has less than 2^31 bytes of values: see RecordColumns::has_room.
#[derive(Default)]
pub struct BinaryColumn {
    pub(super) data: PoolVec<u8>,
    /// Arrow's offsets: 0, put there by `reserve`, and where each value ends. They do not decrease, and the last one is
    /// the length of `data`.
    pub(super) offsets: PoolVec<i32>,
    pub(super) validity: Validity,
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

    /// How many bytes all values have.
    pub fn data_bytes(&self) -> usize {
        self.data.len()
    }

    /// Whether there is room for so many bytes more, and for any rows at all.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.data.has_room(bytes)
    }

    /// Panics if the values take 2^31 bytes or more.
    pub fn append(&mut self, row: usize, value: Option<&[u8]>) {
        self.reserve(1, 0);
        match value {
            Some(value) => self.data.extend(value),
            None => self.validity.set_null(row),
        }
        self.offsets.push(i32::try_from(self.data.len()).expect("has_room was ignored"));
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
