//! The codecs and their ids.

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

    /// The known codec with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
            .into_iter()
            .find(|codec| codec.name() == name)
    }

    /// The id in the attributes of a batch.
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

    /// The name in the `compression` column.
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
