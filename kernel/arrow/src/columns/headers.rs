//! The headers column: list<element: struct<key: string, value: binary>>. It is null for a record without headers.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields};

use kafka_log_format::java_utf8::java_utf8;
use kafka_log_format::record::RecordHeader;

use super::binary::MAX_BYTES;
use super::validity::Validity;

#[derive(Default)]
pub struct HeadersColumn {
    /// Where the headers of each row end. Rows after the last one have no headers.
    ends: Vec<i32>,
    validity: Validity,
    names: String,
    name_ends: Vec<i32>,
    values: Vec<u8>,
    value_ends: Vec<i32>,
    value_validity: Validity,
}

impl HeadersColumn {
    /// Rows without headers need not be appended. Panics if all headers take more than MAX_BYTES.
    pub fn append(&mut self, row: usize, headers: &[RecordHeader]) {
        if headers.is_empty() {
            return;
        }
        self.fill(row);
        for (name, value) in headers {
            match value {
                Some(value) => self.values.extend_from_slice(value),
                None => self.value_validity.set_null(self.value_ends.len()),
            }
            self.value_ends.push(self.values.len() as i32);
            self.names.push_str(&java_utf8(name));
            self.name_ends.push(self.names.len() as i32);
        }
        self.ends.push(self.name_ends.len() as i32);
        assert!(self.data_bytes() <= MAX_BYTES, "has_room was ignored");
    }

    /// Appends rows without headers, up to `rows` rows.
    fn fill(&mut self, rows: usize) {
        if self.ends.len() < rows {
            self.validity.set_nulls(self.ends.len(), rows);
            self.ends.resize(rows, self.name_ends.len() as i32);
        }
    }

    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.validity.truncate(rows.min(self.ends.len()));
        let headers = self.ends.last().map_or(0, |&end| end as usize);
        self.name_ends.truncate(headers);
        self.value_ends.truncate(headers);
        self.value_validity.truncate(headers);
        self.names.truncate(self.name_ends.last().map_or(0, |&end| end as usize));
        self.values.truncate(self.value_ends.last().map_or(0, |&end| end as usize));
    }

    /// Bytes of names and values, and of the offsets between them.
    pub fn data_bytes(&self) -> usize {
        self.names.len() + self.values.len() + 8 * self.name_ends.len()
    }

    pub fn finish(mut self, rows: usize) -> ArrayRef {
        self.fill(rows);
        let headers = self.name_ends.len();
        // SAFETY: the ends do not decrease, and are indexes into the names, the values and the entries. Each name is a part
        // of a String that was pushed as a whole.
        unsafe {
            let names =
                StringArray::new_unchecked(offsets(self.name_ends), Buffer::from_vec(self.names.into_bytes()), None);
            let values = BinaryArray::new_unchecked(
                offsets(self.value_ends),
                Buffer::from_vec(self.values),
                self.value_validity.finish(headers),
            );
            let entries = StructArray::new(entry_fields(), vec![Arc::new(names), Arc::new(values)], None);
            Arc::new(ListArray::new(element(), offsets(self.ends), Arc::new(entries), self.validity.finish(rows)))
        }
    }
}

/// The Arrow offsets for these ends.
///
/// # Safety
/// The ends do not decrease.
unsafe fn offsets(mut ends: Vec<i32>) -> OffsetBuffer<i32> {
    ends.insert(0, 0);
    // SAFETY: the caller's promise.
    unsafe { OffsetBuffer::new_unchecked(ScalarBuffer::from(ends)) }
}

fn entry_fields() -> Fields {
    [Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)].into_iter().collect()
}

fn element() -> FieldRef {
    Arc::new(Field::new("element", DataType::Struct(entry_fields()), true))
}

pub fn data_type() -> DataType {
    DataType::List(element())
}
