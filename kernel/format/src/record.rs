//! One record of any format.

/// The fields of a record that all formats have, and its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub offset: i64,
    pub timestamp_ms: i64,
    /// -1 where the batch has none.
    pub sequence: i32,
}

/// The key of a record's header, which should be UTF-8, and its value.
pub type RecordHeader<'a> = (&'a [u8], Option<&'a [u8]>);
