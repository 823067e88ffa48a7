"""What `encode` asks for and comes to: the same for both implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import pyarrow as pa

from native_log.errors import InvalidRecordError, InvalidTimestampError, RecordTooLargeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

LEVELS = {"none": None, "gzip": range(1, 10), "snappy": None, "lz4": range(1, 18), "zstd": range(-131072, 23)}
"""The levels each compression has (KIP-390), gzip's -1 apart."""
_COLUMNS = ("key", "value", "headers", "timestamp")
_BINARY = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.null())
MOST_BYTES = 2**31 - 1
"""No batch is larger."""
Part: TypeAlias = tuple[pa.RecordBatch, "pa.Array | None"]
"""Records, and the numbers of those rows that are meant (uint32, no nulls), in that order; None: all."""


class Encoded:
    """Records as batches.

    Attributes:
        data: the bytes, batches one behind the other.
        rows: how many records they hold.
        estimated_ratio: how well records that come next may be compressed: what encoding them is to be given.
    """

    __slots__ = ("_batches", "data", "estimated_ratio", "rows")

    def __init__(self, data: Buffer, batches: Any, rows: int, estimated_ratio: float = 1.0) -> None:
        """`batches`: anything that Arrow's PyCapsule interface takes a record batch of."""
        self.data = data
        self.rows = rows
        self._batches = batches
        self.estimated_ratio = estimated_ratio

    @property
    def batches(self) -> pa.RecordBatch:
        """What `scan` with check_crcs says of them (BATCH_SCHEMA)."""
        # Importing its many columns takes as long as encoding some hundred KB, and not all ask for them.
        if not isinstance(self._batches, pa.RecordBatch):
            self._batches = pa.record_batch(self._batches)
        return self._batches

    def __repr__(self) -> str:
        return f"Encoded({memoryview(self.data).nbytes} bytes, {self.batches.num_rows} batches)"


def check_settings(
    *,
    magic: int,
    compression: str,
    level: int | None,
    batch_size: int,
    rows: int,
    max_message_bytes: int | None,
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
    timestamp_type: int,
    estimated_ratio: float,
) -> None:
    """Raises ValueError for what no records can be written with (Kafka: MemoryRecordsBuilder)."""
    _expect(magic in (0, 1, 2), "magic 0, 1 or 2", magic)
    check_compression(compression, level)
    _expect(compression != "zstd" or magic == 2, "magic 2, which zstd needs", magic)
    _expect(timestamp_type in (0, 1), "timestamp_type 0 (CreateTime) or 1 (LogAppendTime)", timestamp_type)
    _expect(0 < estimated_ratio < 1e9, "an estimated_ratio above 0", estimated_ratio)
    _expect(batch_size >= 0, "a batch_size of 0 bytes or more", batch_size)
    _expect(
        0 <= base_offset < 2**63 - rows,
        f"a base_offset of 0 or more, so that {rows} offsets are below 2^63",
        base_offset,
    )
    _expect(max_message_bytes is None or max_message_bytes >= 0, "max_message_bytes >= 0", max_message_bytes)
    _expect(-1 <= leader_epoch < 2**31, "a leader_epoch from -1 to 2^31 - 1", leader_epoch)
    _expect(-1 <= producer_id < 2**63, "a producer_id from -1 to 2^63 - 1", producer_id)
    _expect(-1 <= producer_epoch < 2**15, "a producer_epoch from -1 to 32767", producer_epoch)
    _expect(-1 <= base_sequence < 2**31, "a base_sequence from -1 to 2^31 - 1", base_sequence)
    if producer_id >= 0:
        _expect(magic == 2, "magic 2, which a producer_id needs", magic)
        _expect(producer_epoch >= 0, "a producer_epoch from 0 on with a producer_id", producer_epoch)
        _expect(base_sequence >= 0, "a base_sequence from 0 on with a producer_id", base_sequence)
    else:
        _expect(not is_transactional, "a producer_id, for the batches are transactional", producer_id)


def _expect(fine: bool, what: str, found: object) -> None:
    if not fine:
        raise ValueError(f"expected {what}, found {found!r}")


def check_compression(compression: str, level: int | None) -> None:
    """Raises ValueError for a compression that there is not, or a level that it does not have."""
    _expect(compression in LEVELS, f"a compression of {', '.join(LEVELS)}", compression)
    if level is None or (compression == "gzip" and level == -1):
        return
    levels = LEVELS[compression]
    if levels is None:
        raise ValueError(f"expected no level, for compression {compression} has none, found {level}")
    _expect(level in levels, f"a level from {levels[0]} to {levels[-1]} for {compression}", level)


def known_parts(records: pa.RecordBatch | Sequence[Part]) -> list[Part]:
    """What `encode` is given as parts of known columns. Raises ValueError: see known_columns."""
    if isinstance(records, pa.RecordBatch):
        return [(known_columns(records), None)]
    known: list[Part] = []
    schema = None
    for batch, rows in records:
        if rows is not None and (rows.type != pa.uint32() or rows.null_count):
            raise ValueError(f"expected numbers of rows as uint32 without nulls, found {rows.type}")
        if schema is not None and batch.schema.equals(schema):
            known.append((batch, rows))
            continue
        known.append((known_columns(batch), rows))
        schema = batch.schema if known[-1][0] is batch else None  # the next ones are mostly as this one
    return known


def count_rows(parts: Sequence[Part]) -> int:
    """Of all parts."""
    return sum(batch.num_rows if rows is None else len(rows) for batch, rows in parts)


def known_columns(records: pa.RecordBatch) -> pa.RecordBatch:
    """Those of key, value, headers and timestamp that there are, of Arrow types both implementations know.

    Those are, of key and value: (large) binary, (large) string, null; of headers: list of structs of two of
    them, named key and value, null; of timestamp: timestamp of any unit, int64 (ms), null. Others are cast.
    The same batch, if there is nothing to change.

    Raises:
        ValueError: no column `value`, two columns of one name, or a type that cannot be cast.
    """
    names = [name for name in _COLUMNS if name in records.schema.names]
    if "value" not in names:
        raise ValueError(f"expected a column value, found {', '.join(records.schema.names) or 'no column'}")
    columns, is_known = [], len(names) == records.num_columns
    for name in names:
        index = records.schema.get_field_index(name)
        if index < 0:
            raise ValueError(f"expected one column {name}, found {records.schema.names.count(name)}")
        column = records.column(index)
        columns.append(_known(name, column))
        is_known = is_known and columns[-1] is column
    return records if is_known else pa.RecordBatch.from_arrays(columns, names)


def known_binary(name: str, column: pa.Array) -> pa.Array:
    """The column as (large) binary, (large) string or null. Raises ValueError naming it."""
    return _known(name, column)


def known_timestamps(column: pa.Array) -> pa.Array:
    """The column as timestamps, int64 (ms) or null. Raises ValueError."""
    return _known("timestamp", column)


def _known(name: str, column: pa.Array) -> pa.Array:
    try:
        if name == "headers":
            return _known_headers(column)
        if name == "timestamp":
            kind = column.type
            known = pa.types.is_timestamp(kind) or pa.types.is_int64(kind) or pa.types.is_null(kind)
            return column if known else column.cast(pa.int64())
        return column if column.type in _BINARY else column.cast(pa.large_binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        expected = {"headers": "a list of structs of key and value", "timestamp": "timestamps or int64 (ms)"}
        raise ValueError(
            f"column {name}: expected {expected.get(name, 'binary or string')}, found {column.type}: {error}"
        ) from None


def _known_headers(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_null(kind):
        return column
    if isinstance(kind, pa.ListViewType | pa.LargeListViewType | pa.FixedSizeListType):
        column = _as_list(column)  # pyarrow's own cast makes an invalid array of views
        kind = column.type
    if pa.types.is_list(kind) and _is_header(kind.value_type):
        return column
    if not isinstance(kind, pa.MapType):
        entry = getattr(kind, "value_type", kind)
        # A cast would make nulls of a field that is not there.
        if not pa.types.is_struct(entry) or {field.name for field in entry} != {"key", "value"}:
            raise pa.ArrowInvalid("no list of such structs")
    return column.cast(pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])))


def _is_header(entry: pa.DataType) -> bool:
    """Whether an entry of a list of headers is as the kernel knows it."""
    if not pa.types.is_struct(entry) or [field.name for field in entry] != ["key", "value"]:
        return False
    return all(field.type in _BINARY for field in entry)


def _as_list(lists: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    is_null = lists.is_null()
    lengths = pc.if_else(is_null, 0, pc.list_value_length(lists)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, lists.flatten(), mask=is_null)


def refuse(refused: tuple[str, int, int, int], first_row: int, max_message_bytes: int | None) -> NoReturn:
    """Raises what tells of these rows: InvalidRecordError, or one of its kind.

    Args:
        refused: kind, first row, last row (inclusive), what was found.
        first_row: the number of what `refused` has as row 0.
    """
    kind, first, last, found = refused
    rows = f"row {first_row + first}"
    if last > first:
        rows = f"rows {first_row + first} to {first_row + last}"
    if kind == "too-large":
        limit = MOST_BYTES if max_message_bytes is None else max_message_bytes
        raise RecordTooLargeError(
            f"{rows}: expected a batch of at most {limit} bytes (max.message.bytes), found {found}; "
            "raise that, or make batches or values smaller"
        )
    if kind == "timestamp":
        raise InvalidTimestampError(
            f"{rows}: expected a timestamp from 0 on, or -1 for none, found {found} ms"
        )
    if kind == "headers":
        raise InvalidRecordError(f"{rows}: expected no headers with magic 0 or 1, found some")
    raise InvalidRecordError(f"{rows}: expected a key in each header, found null")


def batch_positions(batches: pa.RecordBatch | pa.Array | Sequence[int], base_position: int) -> pa.Array:
    """Where batches begin (int64), counted from `base_position`."""
    if isinstance(batches, pa.RecordBatch):
        batches = batches.column("position")
    positions = batches if isinstance(batches, pa.Array) else pa.array(batches, pa.int64())
    if not base_position:
        return positions
    import pyarrow.compute as pc

    return pc.subtract(positions.cast(pa.int64()), base_position)


def no_batch_at(position: int, base_offset: int) -> NoReturn:
    """Raises InvalidRecordError: a batch that cannot be patched."""
    raise InvalidRecordError(
        f"expected a batch of magic 2 whose offsets, {base_offset} more, are from 0 to 2^63 - 1; found none",
        position=position,
    )
