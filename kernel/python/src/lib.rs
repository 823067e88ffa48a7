//! The Python module native_log._kernel. It only converts: Python values in, Arrow capsules and tuples out.

mod bytes;
mod compaction;
mod convert;
mod encode;
mod headers;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use kafka_log_arrow::batch_columns::batch_columns;
use kafka_log_arrow::columns::{Column, Constants, RecordColumns};
use kafka_log_arrow::decode::{decode, decode_file};
use kafka_log_format::decode::Options;
use kafka_log_format::find::find_batch;
use kafka_log_format::scan::{scan, scan_headers};
use kafka_log_format::selection::Selection;
use kafka_log_format::status::Stopped;

use crate::convert::{
    ArrowBatch, DEFAULT_MAX_BATCH_BYTES, DamageTuple, OpenOrder, OrderTuple, Source, aborted_of, arrow_error, borrowed,
    bytes_of, damage_tuple, io_error,
};

/// Increases when the functions below change.
const API_VERSION: u32 = 13;

/// (batch, status, position, next_offset, needed_bytes, damage)
type ResultTuple = (ArrowBatch, &'static str, i64, Option<i64>, usize, Option<DamageTuple>);

#[pymodule]
mod _kernel {
    use super::*;

    #[pymodule_export]
    const API_VERSION: u32 = super::API_VERSION;

    #[pymodule_export]
    use crate::bytes::Bytes;
    #[pymodule_export]
    use crate::compaction::{KeyBuckets, OffsetMap, Survivors, merge_packs, rewrite_batches};
    #[pymodule_export]
    use crate::convert::ArrowBatch;
    #[pymodule_export]
    use crate::headers::Headers;

    #[pymodule_export]
    use crate::encode::{deal, encode, murmur2, patch, write_prefixes};

    #[pyfunction]
    #[pyo3(signature = (
        buffer, *, base_position = 0, check_crcs = false, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, order = None
    ))]
    fn scan(
        py: Python<'_>,
        buffer: PyBuffer<u8>,
        base_position: i64,
        check_crcs: bool,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
    ) -> PyResult<ResultTuple> {
        let bytes = bytes_of(&buffer)?;
        let order = OpenOrder::of(order)?;
        let order = order.as_ref().map(OpenOrder::order);
        let (batch, stopped) = py.detach(|| {
            let (rows, stopped) = super::scan(bytes, base_position, check_crcs, max_batch_bytes, order);
            let (fields, arrays) = batch_columns(&rows);
            (ArrowBatch::new(fields, arrays, rows.len()), stopped)
        });
        Ok(result(batch.map_err(arrow_error)?, stopped))
    }

    #[pyfunction]
    #[pyo3(signature = (
        descriptor, position, end, *, max_rows, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, order = None
    ))]
    fn scan_headers(
        py: Python<'_>,
        descriptor: i32,
        position: u64,
        end: u64,
        max_rows: usize,
        max_batch_bytes: usize,
        order: Option<OrderTuple>,
    ) -> PyResult<ResultTuple> {
        let file = borrowed(descriptor)?;
        let order = OpenOrder::of(order)?;
        let order = order.as_ref().map(OpenOrder::order);
        let scanned = py.detach(|| {
            super::scan_headers(&file, position, end, max_rows, max_batch_bytes, order).map(|(rows, stopped)| {
                let (fields, arrays) = batch_columns(&rows);
                (ArrowBatch::new(fields, arrays, rows.len()), stopped)
            })
        });
        let (batch, stopped) = scanned.map_err(io_error)?;
        Ok(result(batch.map_err(arrow_error)?, stopped))
    }

    #[pyfunction]
    #[pyo3(signature = (
        source, columns, *, base_position = 0, start_offset = None, end_offset = None, aborted = None, max_rows = None,
        max_bytes = None, check_crcs = true, max_batch_bytes = DEFAULT_MAX_BATCH_BYTES, control = false, topic = None,
        partition = None, segment = None, order = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of native_log.records.decode")]
    fn decode(
        py: Python<'_>,
        source: Source,
        columns: Vec<String>,
        base_position: i64,
        start_offset: Option<i64>,
        end_offset: Option<i64>,
        aborted: Option<PyBuffer<u8>>,
        max_rows: Option<usize>,
        max_bytes: Option<usize>,
        check_crcs: bool,
        max_batch_bytes: usize,
        control: bool,
        topic: Option<String>,
        partition: Option<i32>,
        segment: Option<String>,
        order: Option<OrderTuple>,
    ) -> PyResult<ResultTuple> {
        let order = OpenOrder::of(order)?;
        let columns = columns.iter().map(|name| column(name)).collect::<PyResult<Vec<_>>>()?;
        let options = Options {
            base_position: if let Source::File(_, position, _) = source { position } else { base_position },
            selection: Selection {
                start_offset,
                end_offset,
                aborted: aborted.as_ref().map(aborted_of).transpose()?.unwrap_or_default(),
            },
            order: order.as_ref().map(OpenOrder::order),
            max_rows,
            max_bytes,
            check_crcs,
            max_batch_bytes,
            control,
        };
        let constants = Constants { topic: topic.as_deref(), partition, segment: segment.as_deref() };
        let arrow = |(records, stopped): (RecordColumns, Stopped)| {
            let (fields, rows) = (records.fields(), records.rows());
            (ArrowBatch::new(fields, records.finish(), rows), stopped)
        };
        let (batch, stopped) = match &source {
            Source::Buffer(buffer) => {
                let bytes = bytes_of(buffer)?;
                py.detach(|| arrow(super::decode(bytes, &columns, constants, &options)))
            }
            &Source::File(descriptor, _, end) => {
                let file = borrowed(descriptor)?;
                py.detach(|| decode_file(&file, end, &columns, constants, &options).map(arrow)).map_err(io_error)?
            }
        };
        Ok(result(batch.map_err(arrow_error)?, stopped))
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
        let found = py.detach(|| super::find_batch(bytes, start, min_offset, max_offset, max_batch_bytes));
        Ok(found.map(|index| base_position.saturating_add(index as i64)))
    }
}

fn result(batch: ArrowBatch, stopped: Stopped) -> ResultTuple {
    let Stopped { status, position, next_offset, needed_bytes, damage } = stopped;
    (batch, status.name(), position, next_offset, needed_bytes, damage.map(damage_tuple))
}

fn column(name: &str) -> PyResult<Column> {
    Column::named(name).ok_or_else(|| PyValueError::new_err(format!("unknown column {name:?}")))
}
