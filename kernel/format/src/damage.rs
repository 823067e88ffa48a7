//! Damaged batches.

/// The kinds of damage. Python's `Damage.kind` has the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Size,
    Magic,
    Crc,
    Codec,
    Compression,
    Records,
    Order,
    TooLarge,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Size => "size",
            Kind::Magic => "magic",
            Kind::Crc => "crc",
            Kind::Codec => "codec",
            Kind::Compression => "compression",
            Kind::Records => "records",
            Kind::Order => "order",
            Kind::TooLarge => "too-large",
        }
    }
}

/// Why a batch cannot be read. The message is one line that says what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    pub message: String,
}

impl Fault {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Fault { kind, message: message.into() }
    }

    pub fn records(message: impl Into<String>) -> Self {
        Fault::new(Kind::Records, message)
    }

    pub fn compression(message: impl Into<String>) -> Self {
        Fault::new(Kind::Compression, message)
    }

    /// `found` describes the batch that is larger than `limit`.
    pub fn too_large(found: impl std::fmt::Display, limit: usize) -> Self {
        let message = format!(
            "expected a batch of at most max_batch_bytes = {limit} bytes, found {found}; raise max_batch_bytes"
        );
        Fault::new(Kind::TooLarge, message)
    }
}

/// A fault, and the batch that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub fault: Fault,
    /// Position of the batch's first byte.
    pub position: i64,
    /// 12 + the size in the header, or 0 if that size is impossible.
    pub size_bytes: i64,
    /// The offset in the header.
    pub offset: i64,
}

impl Damage {
    pub fn kind(&self) -> Kind {
        self.fault.kind
    }
}

/// Damaged bytes that a call has skipped.
#[derive(Debug, PartialEq, Eq)]
pub struct Skipped {
    /// How many rows the call returns before the damage.
    pub rows: usize,
    pub damage: Damage,
    /// Position of the batch that follows.
    pub end_position: i64,
    /// The offset after the previous batches.
    pub offset: i64,
    /// First offset of the batch that follows.
    pub next_offset: i64,
}
