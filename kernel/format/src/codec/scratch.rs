//! Memory for the decompressed bytes of one batch.

use crate::damage::Fault;

/// Bytes behind the decompressed ones that may be read (their content means nothing).
pub const SLACK: usize = 64;

/// More scratch memory than this is given back after use: one huge batch must not stay with its thread.
const KEPT_SCRATCH: usize = 16 << 20;

/// Decompressed bytes of one batch. Grows only when what is there was really filled, never by a claimed size.
#[derive(Default)]
pub struct Scratch {
    /// Initialised to its length, which is the capacity in use plus SLACK.
    pub memory: Vec<u8>,
    pub filled: usize,
    pub limit: usize,
}

impl Scratch {
    pub fn begin(&mut self, limit: usize) {
        self.filled = 0;
        self.limit = limit;
    }

    /// Makes room for `more` bytes behind those filled, as far as the limit lets it, and at least for one.
    pub fn reserve(&mut self, more: usize) -> Result<(), Fault> {
        let wanted = self.filled.saturating_add(more.max(1)).min(self.limit);
        if wanted <= self.filled {
            return Err(Fault::too_large("the batch decompresses to more than", self.filled, self.limit));
        }
        if self.memory.len() < wanted + SLACK {
            let doubled = (self.memory.len() * 2).max(64 << 10).min(self.limit.saturating_add(SLACK));
            self.memory.resize(doubled.max(wanted + SLACK), 0);
        }
        Ok(())
    }

    /// Twice the room there was: called when the rest was too small.
    pub fn grow(&mut self) -> Result<(), Fault> {
        let room = self.room().len();
        if self.filled + room >= self.limit {
            return Err(Fault::too_large("the batch decompresses to more than", self.limit, self.limit));
        }
        self.reserve(room.saturating_mul(2).max(64 << 10))
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
