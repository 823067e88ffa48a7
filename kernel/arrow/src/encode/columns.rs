//! The columns from which records are encoded.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, TimeUnit};

use kafka_log_format::memory::prefetch;

use super::options::{EncodeError, NO_TIMESTAMP};

const CACHE_LINE: usize = 64;
/// How much of a value is prefetched. The processor prefetches the rest of a longer value by itself.
const FORESEEN: usize = 256;

/// The columns of the records. If a column is missing, all of its rows are null.
pub struct Records<'a> {
    pub(super) rows: usize,
    pub(super) key: Binary<'a>,
    pub(super) value: Binary<'a>,
    pub(super) headers: Headers<'a>,
    pub(super) timestamp: Timestamps<'a>,
}

impl<'a> Records<'a> {
    /// Takes the columns key, value, headers and timestamp of a batch, and ignores others.
    pub fn of(batch: &'a StructArray) -> Result<Self, String> {
        let named = |name: &str| batch.column_by_name(name);
        let within = |name, error| format!("column {name}: {error}");
        Ok(Records {
            rows: batch.len(),
            key: Binary::of(named("key")).map_err(|error| within("key", error))?,
            value: Binary::of(named("value")).map_err(|error| within("value", error))?,
            headers: Headers::of(named("headers")).map_err(|error| within("headers", error))?,
            timestamp: Timestamps::of(named("timestamp")).map_err(|error| within("timestamp", error))?,
        })
    }

    /// Prefetches the key and the value of a row.
    #[inline(always)]
    pub fn prefetch(&self, row: usize) {
        self.key.prefetch(row);
        self.value.prefetch(row);
    }

    /// An upper limit of the bytes that all rows take without their deltas and lengths.
    pub fn content_bytes(&self) -> usize {
        let headers = &self.headers;
        self.key.content_bytes()
            + self.value.content_bytes()
            + headers.lists.map_or(0, |_| headers.names.content_bytes() + headers.values.content_bytes())
    }
}

fn unexpected(found: &DataType, expected: &str) -> String {
    format!("expected {expected}, found {found}")
}

/// A column of bytes or text, with or without nulls.
pub struct Binary<'a> {
    offsets: Offsets<'a>,
    data: &'a [u8],
    nulls: Option<&'a NullBuffer>,
}

enum Offsets<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
    AllNull,
}

impl<'a> Binary<'a> {
    /// Reads a column. None is a column of nulls.
    pub fn of(column: Option<&'a ArrayRef>) -> Result<Self, String> {
        let Some(column) = column else { return Ok(Binary { offsets: Offsets::AllNull, data: &[], nulls: None }) };
        macro_rules! column_of {
            ($array:expr, $width:ident) => {{
                let array = $array;
                let offsets = ascending(array.offsets(), array.values().len())?;
                Ok(Binary { offsets: Offsets::$width(offsets), data: array.values(), nulls: array.nulls() })
            }};
        }
        match column.data_type() {
            DataType::Binary => column_of!(column.as_binary::<i32>(), Narrow),
            DataType::Utf8 => column_of!(column.as_string::<i32>(), Narrow),
            DataType::LargeBinary => column_of!(column.as_binary::<i64>(), Wide),
            DataType::LargeUtf8 => column_of!(column.as_string::<i64>(), Wide),
            DataType::Null => Self::of(None),
            other => Err(unexpected(other, "binary or string")),
        }
    }

    /// The value of a row. None: null.
    #[inline(always)]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let (start, end) = match self.offsets {
            Offsets::Narrow(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
            Offsets::Wide(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
            Offsets::AllNull => return None,
        };
        // SAFETY: `of` has checked that the offsets are ascending and the last one is within the data.
        Some(unsafe { self.data.get_unchecked(start..end) })
    }

    #[inline(always)]
    fn prefetch(&self, row: usize) {
        if let Some(value) = self.get(row) {
            let foreseen = &value[..value.len().min(FORESEEN)];
            foreseen.iter().step_by(CACHE_LINE).for_each(|byte| prefetch(byte));
            prefetch(foreseen.as_ptr_range().end);
        }
    }

    /// Whether any row may be null.
    pub fn has_nulls(&self) -> bool {
        self.nulls.is_some() || matches!(self.offsets, Offsets::AllNull)
    }

    /// The values from a row on, which are contiguous.
    pub fn bytes_from(&self, row: usize) -> &'a [u8] {
        match self.offsets {
            Offsets::Narrow(offsets) => &self.data[offsets[row] as usize..],
            Offsets::Wide(offsets) => &self.data[offsets[row] as usize..],
            Offsets::AllNull => &[],
        }
    }

    /// A value of this column and the `more` bytes after it, if there are so many. (The slice of the value does not permit
    /// reading them.)
    #[inline(always)]
    pub fn extended(&self, value: &[u8], more: usize) -> Option<&'a [u8]> {
        let start = value.as_ptr().addr() - self.data.as_ptr().addr();
        self.data.get(start..start + value.len() + more)
    }

    fn content_bytes(&self) -> usize {
        match self.offsets {
            Offsets::Narrow([first, .., last]) => (last - first) as usize,
            Offsets::Wide([first, .., last]) => (last - first) as usize,
            _ => 0,
        }
    }
}

/// Checks that the offsets are ascending, not negative, and at most `end`. An empty array has one offset that means nothing:
/// Arrow Java leaves any number there.
fn ascending<O: arrow_buffer::ArrowNativeType + PartialOrd>(
    offsets: &OffsetBuffer<O>,
    end: usize,
) -> Result<&[O], String> {
    let rising = offsets.windows(2).fold(true, |rising, pair| rising & (pair[0] <= pair[1]));
    let within = |offset: O| offset.to_usize().is_some_and(|offset| offset <= end);
    if offsets.len() == 1 || rising && within(offsets.first()) && within(offsets.last()) {
        return Ok(offsets);
    }
    Err("its offsets do not fit its data: the column is not a valid Arrow array".into())
}

/// A column with a list of header keys and values for each row. Null is an empty list.
pub struct Headers<'a> {
    lists: Option<&'a [i32]>,
    nulls: Option<&'a NullBuffer>,
    names: Binary<'a>,
    values: Binary<'a>,
}

impl<'a> Headers<'a> {
    fn of(column: Option<&'a ArrayRef>) -> Result<Self, String> {
        let none = || Ok(Headers { lists: None, nulls: None, names: Binary::of(None)?, values: Binary::of(None)? });
        let Some(column) = column else { return none() };
        match column.data_type() {
            DataType::Null => none(),
            DataType::List(_) => {
                let lists = column.as_list::<i32>();
                let Some(entries) = lists.values().as_struct_opt() else {
                    return Err(unexpected(column.data_type(), "a list of structs"));
                };
                let [names, values] = entries.columns() else {
                    return Err(unexpected(column.data_type(), "a list of structs of key and value"));
                };
                if entries.null_count() > 0 {
                    return Err("expected a struct of key and value, found a header that is null".into());
                }
                Ok(Headers {
                    lists: Some(ascending(lists.offsets(), entries.len())?),
                    nulls: lists.nulls(),
                    names: Binary::of(Some(names))?,
                    values: Binary::of(Some(values))?,
                })
            }
            other => Err(unexpected(other, "a list of structs of key and value")),
        }
    }

    /// Whether no row has headers.
    pub fn missing(&self) -> bool {
        self.lists.is_none()
    }

    /// The keys and values of the headers of a row. The caller must reject a key that is null.
    pub fn of_row(&self, row: usize) -> impl ExactSizeIterator<Item = (Option<&'a [u8]>, Option<&'a [u8]>)> {
        let range = match self.lists {
            Some(lists) if self.nulls.is_none_or(|nulls| nulls.is_valid(row)) => {
                lists[row] as usize..lists[row + 1] as usize
            }
            _ => 0..0,
        };
        range.map(|entry| (self.names.get(entry), self.values.get(entry)))
    }
}

/// A column of timestamps.
pub struct Timestamps<'a> {
    values: Option<&'a [i64]>,
    nulls: Option<&'a NullBuffer>,
    unit: TimeUnit,
}

impl<'a> Timestamps<'a> {
    fn of(column: Option<&'a ArrayRef>) -> Result<Self, String> {
        let missing = Timestamps { values: None, nulls: None, unit: TimeUnit::Millisecond };
        let Some(column) = column else { return Ok(missing) };
        let (values, unit): (&[i64], TimeUnit) = match column.data_type() {
            DataType::Null => return Ok(missing),
            DataType::Int64 => (column.as_primitive::<Int64Type>().values(), TimeUnit::Millisecond),
            DataType::Timestamp(unit, _) => {
                let values = match unit {
                    TimeUnit::Second => column.as_primitive::<TimestampSecondType>().values(),
                    TimeUnit::Millisecond => column.as_primitive::<TimestampMillisecondType>().values(),
                    TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().values(),
                    TimeUnit::Nanosecond => column.as_primitive::<TimestampNanosecondType>().values(),
                };
                (values, *unit)
            }
            other => return Err(unexpected(other, "a timestamp or int64 (milliseconds)")),
        };
        Ok(Timestamps { values: Some(values), nulls: column.nulls(), unit })
    }

    /// Milliseconds since the epoch. None: null. Seconds that are out of range become the least or the greatest value.
    #[inline(always)]
    pub fn get(&self, row: usize) -> Option<i64> {
        let value = self.values?[row];
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match self.unit {
            TimeUnit::Second => value.saturating_mul(1000),
            TimeUnit::Millisecond => value,
            TimeUnit::Microsecond => value.div_euclid(1000),
            TimeUnit::Nanosecond => value.div_euclid(1_000_000),
        })
    }
}

impl Records<'_> {
    /// The valid timestamp of a row. `number` is the index of the row among all rows.
    #[inline(always)]
    pub(super) fn checked_timestamp(&self, row: usize, number: usize, now_ms: i64) -> Result<i64, EncodeError> {
        let timestamp_ms = self.timestamp.get(row).unwrap_or(now_ms);
        if timestamp_ms < NO_TIMESTAMP {
            return Err(EncodeError::NegativeTimestamp { row: number, timestamp_ms });
        }
        Ok(timestamp_ms)
    }
}
