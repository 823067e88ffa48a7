//! The codecs, and the ids that batches have them by.

/// Attribute bits 0-2 of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
    Unknown(u8),
}

impl Codec {
    pub fn from_attributes(attributes: u8) -> Self {
        match attributes & 7 {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            id => Codec::Unknown(id),
        }
    }

    /// One that can be written.
    pub fn named(name: &str) -> Option<Self> {
        [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
            .into_iter()
            .find(|codec| codec.name() == name)
    }

    /// What `from_attributes` makes it of.
    pub fn id(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
            Codec::Unknown(id) => id,
        }
    }

    /// As the `compression` column has it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::Unknown(5) => "unknown(5)",
            Codec::Unknown(6) => "unknown(6)",
            Codec::Unknown(_) => "unknown(7)",
        }
    }
}
