//! One line for each record.

use std::borrow::Cow;

use super::Options;
use super::writer::{NUMBER_BYTES, Writer};
use crate::common_records::CommonRecords;
use crate::java_utf8::java_utf8;
use crate::record::{Record, RecordHeader};
use crate::sink::{BatchValues, RecordSink};

/// More than the fixed parts of a line and its five numbers take.
const FIXED_BYTES: usize = 128 + 5 * NUMBER_BYTES;

/// Collects the lines of records.
pub struct RecordLines<'a> {
    options: &'a Options,
    pub text: Vec<u8>,
    pub offsets: Offsets,
    /// Pairs of offsets of consecutive records between which there is a gap.
    pub gaps: Vec<(i64, i64)>,
    records: usize,
    log_append_time: bool,
}

/// The first and the last offset of all records.
#[derive(Default)]
pub struct Offsets {
    pub first: Option<i64>,
    pub last: Option<i64>,
}

impl<'a> RecordLines<'a> {
    /// `text` is empty memory for reuse.
    pub fn new(options: &'a Options, text: Vec<u8>) -> Self {
        RecordLines { options, text, offsets: Offsets::default(), gaps: Vec::new(), records: 0, log_append_time: false }
    }

    /// Begins the records of a batch.
    pub fn begin_batch(&mut self, log_append_time: bool) {
        self.log_append_time = log_append_time;
    }

    #[inline(always)]
    fn add_offset(&mut self, offset: i64) {
        if let Some(last) = self.offsets.last {
            if offset != last.wrapping_add(1) {
                self.gaps.push((last, offset));
            }
        } else {
            self.offsets.first = Some(offset);
        }
        self.offsets.last = Some(offset);
        self.records += 1;
    }

    #[inline(always)]
    fn write(&mut self, record: &Record, headers: &[RecordHeader]) {
        let Options { record_metadata, contents, .. } = *self.options;
        let key = record.key.filter(|_| contents).map(java_utf8);
        let value = record.value.filter(|_| contents).map(java_utf8);
        if !record_metadata && key.is_none() && value.is_none() {
            self.text.push(b'\n');
            return;
        }
        let bytes_of = |field: &Option<Cow<str>>| field.as_ref().map_or(0, |text| text.len());
        let bytes = FIXED_BYTES + bytes_of(&key) + bytes_of(&value);
        let mut writer = Writer::new(&mut self.text, bytes);
        // SAFETY: there is room for the fixed parts, the numbers, the key and the value. The names of headers are
        // appended to the vector between two writers.
        unsafe {
            // kafka-dump-log prints no bar before a payload alone.
            if record_metadata || key.is_some() {
                writer.put(b"|");
            }
            if record_metadata {
                writer.put(b" offset: ");
                writer.number(record.offset);
                match self.log_append_time {
                    true => writer.put(b" LogAppendTime: "),
                    false => writer.put(b" CreateTime: "),
                }
                writer.number(record.timestamp_ms);
                writer.put(b" keySize: ");
                writer.number(size(record.key));
                writer.put(b" valueSize: ");
                writer.number(size(record.value));
                writer.put(b" sequence: ");
                writer.number(record.sequence.into());
                writer.put(b" headerKeys: [");
                if !headers.is_empty() {
                    writer.finish();
                    push_names(&mut self.text, headers);
                    writer = Writer::new(&mut self.text, bytes);
                }
                writer.put(b"]");
            }
            if let Some(key) = &key {
                writer.put(b" key: ");
                writer.copy(key.as_bytes());
            }
            if let Some(value) = &value {
                writer.put(b" payload: ");
                writer.copy(value.as_bytes());
            }
            writer.put(b"\n");
            writer.finish();
        }
    }
}

impl RecordSink for RecordLines<'_> {
    fn record_count(&self) -> usize {
        self.records
    }

    fn size_bytes(&self) -> usize {
        self.text.len()
    }

    fn has_room(&self, _records: usize, _bytes: usize) -> bool {
        true
    }

    fn append(&mut self, record: &Record, headers: &[RecordHeader]) {
        self.add_offset(record.offset);
        self.write(record, headers);
    }

    fn append_common(&mut self, records: &mut CommonRecords) {
        let header = records.header();
        records.for_each_block::<false>(|block| {
            for common in block {
                // SAFETY: the batch outlives the record.
                let record = unsafe { common.record(header) };
                self.add_offset(record.offset);
                self.write(&record, &[]);
            }
        });
    }

    fn end_batch(&mut self, _batch: BatchValues) {}

    /// Keeps them: kafka-dump-log prints the records before damage, too.
    fn discard_batch(&mut self) {}
}

/// The size of a key or a value; -1 for null.
fn size(field: Option<&[u8]>) -> i64 {
    field.map_or(-1, |field| field.len() as i64)
}

fn push_names(text: &mut Vec<u8>, headers: &[RecordHeader]) {
    for (index, (name, _)) in headers.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(java_utf8(name).as_bytes());
    }
}
