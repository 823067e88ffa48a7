//! Memory for the decompressed bytes of one batch.

use crate::damage::Fault;

/// How many bytes after the decompressed ones may be read. They mean nothing.
pub const SLACK: usize = 64;

/// More memory than this is freed after use: a thread must not keep the memory of one huge batch.
const KEPT_SCRATCH: usize = 16 << 20;

/// The decompressed bytes of one batch. The memory grows when it is full, never by a size that the input claims.
#[derive(Default)]
pub struct Scratch {
    /// All of it is initialized. The last SLACK bytes are not filled.
    pub memory: Vec<u8>,
    pub filled: usize,
    pub limit: usize,
}

impl Scratch {
    pub fn begin(&mut self, limit: usize) {
        self.filled = 0;
        self.limit = limit;
    }

    /// Makes room for `more` bytes, as far as the limit allows, and at least for one.
    pub fn reserve(&mut self, more: usize) -> Result<(), Fault> {
        let end = self.filled.saturating_add(more.max(1)).min(self.limit);
        if end <= self.filled {
            return Err(self.too_large());
        }
        if self.memory.len() < end + SLACK {
            let doubled = (self.memory.len() * 2).max(64 << 10).min(self.limit.saturating_add(SLACK));
            self.memory.resize(doubled.max(end + SLACK), 0);
        }
        Ok(())
    }

    /// Doubles the room, which was too small.
    pub fn grow(&mut self) -> Result<(), Fault> {
        let room = self.room().len();
        if self.filled + room >= self.limit {
            return Err(self.too_large());
        }
        self.reserve(room.saturating_mul(2).max(64 << 10))
    }

    /// The fault of a batch that decompresses to more than the limit.
    pub fn too_large(&self) -> Fault {
        Fault::too_large("one that decompresses to more", self.limit)
    }

    /// All the free room.
    pub fn room(&mut self) -> &mut [u8] {
        let end = self.memory.len().saturating_sub(SLACK).min(self.limit);
        &mut self.memory[self.filled.min(end)..end]
    }

    /// Frees the memory if an unusually large batch needed it.
    pub fn trim(&mut self) {
        if self.memory.len() > KEPT_SCRATCH {
            self.memory = Vec::new();
        }
    }

    pub fn finish(&mut self) -> &[u8] {
        if self.memory.len() < self.filled + SLACK {
            self.memory.resize(self.filled + SLACK, 0);
        }
        &self.memory[..self.filled + SLACK]
    }
}
