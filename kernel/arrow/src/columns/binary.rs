//! A column of keys or values.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};

use super::validity::Validity;
use crate::pool::PoolVec;

/// Arrow's 32-bit offsets end here.
pub const MAX_BYTES: usize = i32::MAX as usize;

/// A column being built. Its values have at most MAX_BYTES bytes: see RecordColumns::has_room.
#[derive(Default)]
pub struct BinaryColumn {
    pub(super) data: PoolVec<u8>,
    /// Arrow's offsets: 0, which `reserve` adds, and where each value ends. They do not decrease, and the last one is the
    /// length of `data`.
    pub(super) offsets: PoolVec<i32>,
    pub(super) validity: Validity,
    /// Up to this length, `data` has room.
    reserved_bytes: usize,
}

impl BinaryColumn {
    /// Makes room for `rows` values of `bytes` bytes together.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.data.reserve(bytes);
        self.offsets.reserve(rows + 1);
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.reserved_bytes = self.reserved_bytes.max((self.data.len() + bytes).min(MAX_BYTES));
    }

    /// How many bytes all values have.
    pub fn data_bytes(&self) -> usize {
        self.data.len()
    }

    /// Whether `bytes` more bytes were reserved, and all of them together are not too many.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.data.len() + bytes <= self.reserved_bytes
    }

    /// Panics if all values take more than MAX_BYTES.
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
