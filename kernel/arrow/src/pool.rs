//! Recycled memory of columns. To fault in a new page costs more than to fill it, so the next call reuses the memory of columns
//! that Python has dropped.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;
use kafka_log_format::memory::{LARGE_PAGE, advise_large_pages};

/// How many bytes after the capacity of a vector may be written. They are not kept.
pub const SLACK: usize = 64;
const ALIGNMENT: usize = 64;
const SMALLEST: usize = 4 << 10;
/// The largest power of two that an allocation can have.
const MOST_BYTES: usize = 1 << (usize::BITS - 2);
/// The size of all free blocks that are kept. Others are given back to the allocator.
const KEPT_BYTES: usize = 64 << 20;

static FREE: Mutex<Free> = Mutex::new(Free { by_exponent: [const { Vec::new() }; usize::BITS as usize], bytes: 0 });

struct Free {
    by_exponent: [Vec<Address>; usize::BITS as usize],
    bytes: usize,
}

struct Address(NonNull<u8>);

// SAFETY: this is the only pointer to a free block.
unsafe impl Send for Address {}

/// Uninitialized memory whose size is a power of two. Dropping it adds it to the free blocks.
struct Block {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block is owned memory.
unsafe impl Send for Block {}
// SAFETY: a block has no interior mutability; shared blocks are only read.
unsafe impl Sync for Block {}

impl Block {
    fn of(bytes: usize) -> Self {
        let bytes = bytes.max(SMALLEST).next_power_of_two();
        // try_lock: a child process that was forked while another thread held the lock would wait for ever.
        if let Ok(mut free) = FREE.try_lock()
            && let Some(Address(address)) = free.by_exponent[bytes.trailing_zeros() as usize].pop()
        {
            free.bytes -= bytes;
            return Block { address, bytes };
        }
        let layout = Self::layout(bytes);
        // SAFETY: the size is not zero.
        let address = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        advise_large_pages(address.as_ptr(), bytes);
        Block { address, bytes }
    }

    fn layout(bytes: usize) -> Layout {
        let alignment = if bytes < LARGE_PAGE { ALIGNMENT } else { LARGE_PAGE };
        Layout::from_size_align(bytes, alignment).expect("a size that was checked against the input")
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Ok(mut free) = FREE.try_lock()
            && free.bytes + self.bytes <= KEPT_BYTES
        {
            free.bytes += self.bytes;
            free.by_exponent[self.bytes.trailing_zeros() as usize].push(Address(self.address));
            return;
        }
        // SAFETY: the block was allocated with the same layout and is freed once.
        unsafe { dealloc(self.address.as_ptr(), Self::layout(self.bytes)) }
    }
}

/// A vector of plain values in a recycled block. It becomes an Arrow buffer without a copy.
pub struct PoolVec<T> {
    block: Option<Block>,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Copy> PoolVec<T> {
    pub fn new() -> Self {
        PoolVec { block: None, len: 0, kind: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes room for `more` values and SLACK bytes after them. Panics if an allocation cannot be so large.
    pub fn reserve(&mut self, more: usize) {
        let values = self.len.checked_add(more).and_then(|len| len.checked_mul(size_of::<T>()));
        let needed = values.and_then(|bytes| bytes.checked_add(SLACK)).filter(|&bytes| bytes <= MOST_BYTES);
        let needed = needed.expect("a size that was checked against the input");
        if self.block.as_ref().is_none_or(|block| block.bytes < needed) {
            let bigger = Block::of(needed);
            if let Some(block) = &self.block {
                // SAFETY: both blocks hold `len` values at least, and are different memory.
                unsafe { block.address.copy_to_nonoverlapping(bigger.address, self.len * size_of::<T>()) }
            }
            self.block = Some(bigger);
        }
    }

    pub fn push(&mut self, value: T) {
        self.reserve(1);
        // SAFETY: there is room for one more.
        unsafe {
            self.start().add(self.len).write(value);
            self.set_len(self.len + 1);
        }
    }

    pub fn extend(&mut self, values: &[T]) {
        self.reserve(values.len());
        // SAFETY: there is room for them, in memory that `values` cannot overlap.
        unsafe {
            self.start().add(self.len).copy_from_nonoverlapping(values.as_ptr(), values.len());
            self.set_len(self.len + values.len());
        }
    }

    /// The address of the first value. It is dangling before the first `reserve`.
    pub fn start(&mut self) -> *mut T {
        self.block.as_ref().map_or(std::ptr::dangling_mut(), |block| block.address.as_ptr().cast())
    }

    /// # Safety
    /// The first `len` values were reserved and written.
    pub unsafe fn set_len(&mut self, len: usize) {
        self.len = len;
    }

    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub fn into_buffer(self) -> Buffer {
        let bytes = self.len * size_of::<T>();
        match self.block {
            Some(block) if bytes > 0 => {
                let address = block.address;
                // SAFETY: the first `bytes` bytes are written, and live as long as the block, which the buffer owns.
                unsafe { Buffer::from_custom_allocation(address, bytes, Arc::new(block)) }
            }
            _ => Buffer::default(),
        }
    }
}

impl<T: Copy> Default for PoolVec<T> {
    fn default() -> Self {
        PoolVec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_keeps_what_it_had() {
        let mut vector = PoolVec::new();
        for value in 0..5000i64 {
            vector.push(value);
        }
        vector.extend(&[7, 8]);
        let buffer = vector.into_buffer();
        let values = buffer.typed_data::<i64>();
        assert_eq!(values.len(), 5002);
        assert!(values[..5000].iter().copied().eq(0..5000));
        assert_eq!(values[5000..], [7, 8]);
    }

    #[test]
    #[should_panic(expected = "a size that was checked")]
    fn no_room_for_more_than_can_be() {
        PoolVec::<i64>::new().reserve(usize::MAX / 8);
    }

    #[test]
    fn empty_ones_become_empty_buffers() {
        let mut vector = PoolVec::<i64>::new();
        vector.reserve(10);
        assert_eq!(vector.into_buffer().len(), 0);
    }
}
