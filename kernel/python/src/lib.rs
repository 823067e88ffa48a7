//! The Python module native_log._kernel. It only converts: Python values in, Python values and Arrow capsules out. The
//! exception is `log_directory`, which reads a directory.

mod builder;
mod bytes;
mod compaction;
mod conditions;
mod convert;
mod encode;
mod headers;
mod log_directory;
mod open_batches;
mod options;
mod results;
mod skipper;
mod survivors;
mod text;

use arrow_schema::ArrowError;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use kafka_log_arrow::batch_columns::{BatchColumn, batch_column, batch_columns, some_batch_columns};
use kafka_log_arrow::columns::{Column, Constants, RecordColumns};
use kafka_log_arrow::decode::{decode, decode_file};
use kafka_log_format::check::{self, check_file};
use kafka_log_format::damage::Skipped;
use kafka_log_format::decode::Options;
use kafka_log_format::find::find_batch;
use kafka_log_format::ranges::divide_file;
use kafka_log_format::scan::{BatchRow, scan, scan_headers};
use kafka_log_format::status::Stopped;

use crate::convert::{
    ArrowBatch, DEFAULT_MAX_BATCH_BYTES, OpenOrder, OrderTuple, arrow_error, borrowed, bytes_of, io_error,
};
use crate::options::{DecodeOptions, selection};
use crate::results::{checked, decoded, divided, scanned};
use crate::skipper::DamageSkipper;

/// Goes up when the functions below, or the attributes of options, change.
const API_VERSION: u32 = 28;

#[pymodule]
mod _kernel {
    use super::*;

    #[pymodule_export]
    const API_VERSION: u32 = super::API_VERSION;

    #[pymodule_export]
    use super::DamageSkipper;
    #[pymodule_export]
    use crate::builder::{BatchBuilder, encode_builders};
    #[pymodule_export]
    use crate::bytes::Bytes;
    #[pymodule_export]
    use crate::compaction::{KeyBuckets, OffsetMap, merge_packs, rewrite_batches, rewrite_file_batches};
    #[pymodule_export]
    use crate::conditions::Conditions;
    #[pymodule_export]
    use crate::convert::ArrowBatch;
    #[pymodule_export]
    use crate::headers::BatchHeaders;
    #[pymodule_export]
    use crate::log_directory::list_logs;
    #[pymodule_export]
    use crate::open_batches::{AppendedRecord, OpenBatches};
    #[pymodule_export]
    use crate::survivors::Survivors;
    #[pymodule_export]
    use crate::text::format_batches;

    #[pymodule_export]
    use crate::encode::{encode, murmur2, partition_of_key, patch, rows_by_partition, write_prefixes};

    #[pyfunction]
    #[pyo3(signature = (
        buffer, *, base_position = 0, check_crcs = false, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, order = None,
        columns = None
    ))]
    fn scan<'py>(
        py: Python<'py>,
        buffer: PyBuffer<u8>,
        base_position: i64,
        check_crcs: bool,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (bytes, columns) = (bytes_of(&buffer)?, batch_columns_of(columns)?);
        let order = OpenOrder::of(order)?;
        let order = order.as_ref().map(OpenOrder::order);
        let (batch, stopped) = py.detach(|| {
            let (rows, stopped) = super::scan(bytes, base_position, check_crcs, max_batch_bytes, order);
            (arrow_headers(&rows, columns.as_deref()), stopped)
        });
        scanned(py, batch.map_err(arrow_error)?, stopped)
    }

    #[pyfunction]
    #[pyo3(signature = (
        descriptor, position, end, *, max_rows, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, order = None, columns = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords of a Python function")]
    fn scan_headers<'py>(
        py: Python<'py>,
        descriptor: i32,
        position: u64,
        end: u64,
        max_rows: usize,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (file, columns) = (borrowed(descriptor)?, batch_columns_of(columns)?);
        let order = OpenOrder::of(order)?;
        let order = order.as_ref().map(OpenOrder::order);
        let result = py.detach(|| {
            super::scan_headers(&file, position, end, max_rows, max_batch_bytes, order)
                .map(|(rows, stopped)| (arrow_headers(&rows, columns.as_deref()), stopped))
        });
        let (batch, stopped) = result.map_err(io_error)?;
        scanned(py, batch.map_err(arrow_error)?, stopped)
    }

    #[pyfunction]
    #[pyo3(signature = (buffer, columns, options, *, base_position = 0, order = None))]
    fn decode<'py>(
        py: Python<'py>,
        buffer: PyBuffer<u8>,
        columns: Vec<String>,
        options: DecodeOptions,
        base_position: i64,
        order: Option<OrderTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (bytes, order) = (bytes_of(&buffer)?, OpenOrder::of(order)?);
        let columns = columns_of(&columns)?;
        let (format, constants) = (format_options(&options, base_position, order.as_ref())?, constants(&options));
        let (batch, stopped, skipped) = py.detach(|| arrow(super::decode(bytes, &columns, constants, &format)));
        decoded(py, batch.map_err(arrow_error)?, stopped, skipped)
    }

    #[pyfunction]
    #[pyo3(signature = (descriptor, position, end, columns, options, *, order = None))]
    fn decode_file<'py>(
        py: Python<'py>,
        descriptor: i32,
        position: i64,
        end: u64,
        columns: Vec<String>,
        options: DecodeOptions,
        order: Option<OrderTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (file, order) = (borrowed(descriptor)?, OpenOrder::of(order)?);
        let columns = columns_of(&columns)?;
        let (format, constants) = (format_options(&options, position, order.as_ref())?, constants(&options));
        let result = py.detach(|| super::decode_file(&file, end, &columns, constants, &format).map(arrow));
        let (batch, stopped, skipped) = result.map_err(io_error)?;
        decoded(py, batch.map_err(arrow_error)?, stopped, skipped)
    }

    /// See native_log.records.reference.find_batch.
    #[pyfunction]
    #[pyo3(signature = (
        buffer, start = 0, *, base_position = 0, min_offset = 0, max_offset = i64::MAX, max_batch_bytes = 0
    ))]
    fn find_batch(
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        start: i64,
        base_position: i64,
        min_offset: i64,
        max_offset: i64,
        max_batch_bytes: usize,
    ) -> PyResult<Option<i64>> {
        let bytes = bytes_of(&buffer)?;
        let start = usize::try_from(start).unwrap_or(0);
        let index = py.detach(|| super::find_batch(bytes, start, min_offset, max_offset, max_batch_bytes));
        Ok(index.map(|index| base_position.saturating_add(index as i64)))
    }

    /// See native_log.records.reference.check_file.
    #[pyfunction]
    #[pyo3(signature = (
        descriptor, position, end, *, check_records, max_rows, max_bytes, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES,
        order = None, accept_newer = false, skipper = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords of a Python function")]
    fn check_file<'py>(
        py: Python<'py>,
        descriptor: i32,
        position: i64,
        end: u64,
        check_records: bool,
        max_rows: usize,
        max_bytes: u64,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
        accept_newer: bool,
        skipper: Option<Py<DamageSkipper>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (file, order) = (borrowed(descriptor)?, OpenOrder::of(order)?);
        let order = order.as_ref().map(OpenOrder::order);
        let skipper = skipper.as_ref().map(|skipper| &skipper.get().skipper);
        let options =
            check::Options { check_records, accept_newer, max_rows, max_bytes, max_batch_bytes, order, skipper };
        let result = py.detach(|| {
            super::check_file(&file, position, end, &options).map(|checked| {
                let (fields, arrays) = batch_columns(&checked.rows);
                (ArrowBatch::new(fields, arrays, checked.rows.len()), checked)
            })
        });
        let (batch, found) = result.map_err(io_error)?;
        checked(py, batch.map_err(arrow_error)?, found)
    }

    /// See native_log.records.reference.divide_file.
    #[pyfunction]
    #[pyo3(signature = (
        descriptor, position, end, *, range_bytes, max_rows, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES
    ))]
    fn divide_file<'py>(
        py: Python<'py>,
        descriptor: i32,
        position: i64,
        end: u64,
        range_bytes: u64,
        max_rows: usize,
        max_batch_bytes: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let file = borrowed(descriptor)?;
        let result = py.detach(|| super::divide_file(&file, position, end, range_bytes, max_rows, max_batch_bytes));
        let (ranges, stopped) = result.map_err(io_error)?;
        divided(py, ranges, stopped)
    }
}

fn format_options<'a>(
    options: &'a DecodeOptions,
    base_position: i64,
    order: Option<&'a OpenOrder>,
) -> PyResult<Options<'a>> {
    Ok(Options {
        base_position,
        selection: selection(options.start_offset, options.end_offset, &options.aborted)?,
        conditions: options.conditions.as_ref().map(|conditions| &conditions.get().conditions),
        order: order.map(OpenOrder::order),
        max_rows: options.max_rows,
        max_bytes: options.max_bytes,
        check_crcs: options.check_crcs,
        max_batch_bytes: options.max_batch_bytes,
        control: options.control,
        skipper: options.skipper.as_ref().map(|skipper| &skipper.get().skipper),
    })
}

fn constants(options: &DecodeOptions) -> Constants<'_> {
    Constants { topic: options.topic.as_deref(), partition: options.partition, segment: options.segment.as_deref() }
}

fn arrow((mut records, stopped): (RecordColumns, Stopped)) -> (Result<ArrowBatch, ArrowError>, Stopped, Vec<Skipped>) {
    let (fields, rows, skipped) = (records.fields(), records.rows(), records.take_skipped());
    (ArrowBatch::new(fields, records.finish(), rows), stopped, skipped)
}

fn arrow_headers(rows: &[BatchRow], columns: Option<&[&BatchColumn]>) -> Result<ArrowBatch, ArrowError> {
    let (fields, arrays) = columns.map_or_else(|| batch_columns(rows), |columns| some_batch_columns(rows, columns));
    ArrowBatch::new(fields, arrays, rows.len())
}

fn batch_columns_of(names: Option<Vec<String>>) -> PyResult<Option<Vec<&'static BatchColumn>>> {
    let column =
        |name: &String| batch_column(name).ok_or_else(|| PyValueError::new_err(format!("unknown column {name:?}")));
    names.map(|names| names.iter().map(column).collect()).transpose()
}

fn columns_of(names: &[String]) -> PyResult<Vec<Column>> {
    let column =
        |name: &String| Column::named(name).ok_or_else(|| PyValueError::new_err(format!("unknown column {name:?}")));
    names.iter().map(column).collect()
}
