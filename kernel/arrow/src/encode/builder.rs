//! A v2 batch to which records are appended one by one (MemoryRecordsBuilder).

use super::options::{EncodeError, MOST, MOST_PLAIN, NO_TIMESTAMP, Options};
use super::ratio::Ratio;
use super::v2::{Batch, header};
use super::workspace::with_workspace;
use kafka_log_format::codec::Codec;
use kafka_log_format::header::V2_HEADER;
use kafka_log_format::varint::{bytes_of, write_i64};

/// A header of a record: its name and its value.
pub type RecordHeader<'a> = (&'a [u8], Option<&'a [u8]>);

/// Records as a v2 batch has them before compression, without the header of the batch.
pub struct Builder {
    /// The estimated size, header included, up to which the batch takes records.
    pub limit: usize,
    /// None: the batch will not be compressed.
    ratio: Option<Ratio>,
    records: Vec<u8>,
    pub rows: usize,
    base_timestamp: i64,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    pub first_null_key: Option<usize>,
    /// A closed batch takes no more records.
    pub closed: bool,
}

impl Builder {
    pub fn new(limit: usize, ratio: Option<f32>) -> Self {
        Builder::with_memory(limit, ratio, Vec::with_capacity(capacity(limit)))
    }

    fn with_memory(limit: usize, ratio: Option<f32>, records: Vec<u8>) -> Self {
        Builder {
            limit,
            ratio: ratio.map(Ratio),
            records,
            rows: 0,
            base_timestamp: NO_TIMESTAMP,
            min_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            first_null_key: None,
            closed: false,
        }
    }

    /// Returns an empty builder with the memory of this one, but none above the limit. This one is empty and closed then.
    pub fn renew(&mut self, limit: usize, ratio: Option<f32>) -> Self {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        records.shrink_to(capacity(limit));
        *self = Builder { closed: true, ..Builder::with_memory(self.limit, None, Vec::new()) };
        Builder::with_memory(limit, ratio, records)
    }

    /// The size of the records before compression.
    pub fn plain_bytes(&self) -> usize {
        self.records.len()
    }

    /// The estimated size of the batch as written.
    #[inline]
    pub fn estimated_bytes(&self) -> usize {
        let plain = self.records.len();
        V2_HEADER + self.ratio.as_ref().map_or(plain, |ratio| ratio.compressed(plain))
    }

    pub fn is_full(&self) -> bool {
        self.rows > 0 && self.estimated_bytes() >= self.limit
    }

    /// Appends a record unless it does not fit or the batch is closed. The first record always fits.
    pub fn append(
        &mut self,
        value: Option<&[u8]>,
        key: Option<&[u8]>,
        headers: &[RecordHeader<'_>],
        timestamp: i64,
    ) -> bool {
        let base = if self.rows == 0 { timestamp } else { self.base_timestamp };
        let timestamp_delta = timestamp.wrapping_sub(base);
        let of_headers =
            headers.iter().map(|&(name, value)| sized_bytes(Some(name)) + sized_bytes(value)).sum::<usize>();
        let body_bytes = 1
            + bytes_of(timestamp_delta)
            + bytes_of(self.rows as i64)
            + sized_bytes(key)
            + sized_bytes(value)
            + bytes_of(headers.len() as i64)
            + of_headers;
        let record_bytes = bytes_of(body_bytes as i64) + body_bytes;
        let is_first = self.rows == 0;
        let fits = self.estimated_bytes() + record_bytes <= self.limit && self.rows < MOST;
        if self.closed || !is_first && (!fits || self.records.len() + record_bytes > MOST_PLAIN) {
            return false;
        }
        if self.records.capacity() - self.records.len() < record_bytes {
            self.records.reserve_exact(record_bytes.max(self.limit / 4)); // rather than twice the memory
        }
        let out = &mut self.records;
        varint(body_bytes as i64, out);
        out.push(0); // attributes, all unused
        varint(timestamp_delta, out);
        varint(self.rows as i64, out);
        sized(key, out);
        sized(value, out);
        varint(headers.len() as i64, out);
        for &(name, value) in headers {
            sized(Some(name), out);
            sized(value, out);
        }
        if key.is_none() && self.first_null_key.is_none() {
            self.first_null_key = Some(self.rows);
        }
        self.base_timestamp = base;
        self.min_timestamp = if is_first { timestamp } else { self.min_timestamp.min(timestamp) };
        self.max_timestamp = if is_first { timestamp } else { self.max_timestamp.max(timestamp) };
        self.rows += 1;
        true
    }
}

/// Appends one batch for each builder, which must have records. Returns the number of records. After an error, `out` must be
/// discarded.
pub fn encode_builders(builders: &[&Builder], options: &Options, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
    with_workspace(|workspace| {
        let compressor = &mut workspace.compressor;
        compressor.begin(options.level);
        let mut row = 0;
        for builder in builders {
            let begins = out.len();
            out.resize(begins + V2_HEADER, 0);
            match options.codec {
                Codec::None => out.extend_from_slice(&builder.records),
                codec => compressor.compress(codec, 2, &builder.records, out),
            }
            let size_bytes = out.len() - begins;
            let too_large = EncodeError::TooLarge { first_row: row, last_row: row + builder.rows - 1, size_bytes };
            if size_bytes > options.max_message_bytes.unwrap_or(MOST).min(MOST) {
                return Err(too_large);
            }
            let batch = Batch {
                rows: builder.rows,
                base_timestamp: builder.base_timestamp,
                max_timestamp: builder.max_timestamp,
            };
            header(&batch, row, options).write(&mut out[begins..]).map_err(|_| too_large)?;
            row += builder.rows;
        }
        Ok(row)
    })
}

fn capacity(limit: usize) -> usize {
    limit.saturating_sub(V2_HEADER)
}

fn sized_bytes(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| bytes_of(bytes.len() as i64) + bytes.len())
}

#[inline]
fn varint(value: i64, out: &mut Vec<u8>) {
    let mut bytes = [0; 10];
    let count = write_i64(value, &mut bytes);
    out.extend_from_slice(&bytes[..count]);
}

#[inline]
fn sized(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    varint(bytes.map_or(-1, |bytes| bytes.len() as i64), out);
    out.extend_from_slice(bytes.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_record_always_fits_and_others_up_to_the_limit() {
        let mut builder = Builder::new(100, None);
        assert!(builder.append(Some(&[0; 200]), None, &[], 5));
        assert!(builder.is_full());
        assert!(!builder.append(None, None, &[], 5));
        let mut old = builder;
        builder = old.renew(V2_HEADER + 2 * 7, None);
        assert!(!old.append(None, None, &[], 5));
        assert!(builder.append(None, None, &[], 5));
        assert!(!builder.is_full());
        assert!(builder.append(None, Some(b""), &[], 4));
        assert!(builder.is_full());
        assert!(!builder.append(None, None, &[], 5));
        assert_eq!((builder.rows, builder.min_timestamp, builder.max_timestamp), (2, 4, 5));
        assert_eq!((builder.plain_bytes(), builder.first_null_key), (14, Some(0)));
    }
}
