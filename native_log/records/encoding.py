"""What both implementations of `encode` share: checks of the arguments, the result, and the errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import pyarrow as pa

from native_log.errors import InvalidRecordError, InvalidTimestampError, RecordTooLargeError
from native_log.records.options import expect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from native_log.records.options import EncodeOptions

_COLUMNS = ("key", "value", "headers", "timestamp")
_BINARY = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.null())
MAX_ENCODED_BATCH_BYTES = 2**31 - 1
"""The most bytes of a batch that can be written."""
Part: TypeAlias = tuple[pa.RecordBatch, "pa.Array | None"]
"""Records, and the numbers of the rows to use (uint32, no nulls), in that order; None: all rows."""


class Encoded:
    """Result of `encode`.

    Attributes:
        data: the bytes of the batches.
        rows: the number of records in them.
        estimated_ratio: the estimated compression ratio, to be passed to the next call of `encode`.
    """

    __slots__ = ("_batches", "data", "estimated_ratio", "rows")

    def __init__(self, data: Buffer, batches: Any, rows: int, estimated_ratio: float = 1.0) -> None:
        """`batches`: a record batch, or any object with Arrow's PyCapsule interface for one."""
        self.data = data
        self.rows = rows
        self._batches = batches
        self.estimated_ratio = estimated_ratio

    @property
    def batches(self) -> pa.RecordBatch:
        """The result of `scan` with check_crcs (BATCH_SCHEMA)."""
        # Imported on demand: importing the many columns takes as long as encoding a few hundred KB.
        if not isinstance(self._batches, pa.RecordBatch):
            self._batches = pa.record_batch(self._batches)
        return self._batches

    def __repr__(self) -> str:
        return f"Encoded({memoryview(self.data).nbytes} bytes, {self.batches.num_rows} batches)"


def check_position(
    options: EncodeOptions, base_offset: int, base_sequence: int, rows: int, estimated_ratio: float
) -> None:
    """Raise ValueError for arguments of `encode` that are out of range or contradict its options."""
    expect(0 < estimated_ratio < 1e9, "an estimated_ratio above 0", estimated_ratio)
    expect(
        0 <= base_offset < 2**63 - rows,
        f"a base_offset of 0 or more, so that {rows} offsets are below 2^63",
        base_offset,
    )
    expect(-1 <= base_sequence < 2**31, "a base_sequence from -1 to 2^31 - 1", base_sequence)
    if options.producer_id >= 0:
        expect(base_sequence >= 0, "a base_sequence of 0 or more with a producer_id", base_sequence)


def known_parts(records: pa.RecordBatch | Sequence[Part]) -> list[Part]:
    """Return the records as parts with known columns. Raise ValueError like known_columns."""
    if isinstance(records, pa.RecordBatch):
        return [(known_columns(records), None)]
    known: list[Part] = []
    schema = None
    for batch, rows in records:
        if rows is not None and (rows.type != pa.uint32() or rows.null_count):
            raise ValueError(f"expected row numbers of type uint32 without nulls, found {rows.type}")
        if schema is not None and batch.schema.equals(schema):
            known.append((batch, rows))
            continue
        known.append((known_columns(batch), rows))
        schema = (
            batch.schema if known[-1][0] is batch else None
        )  # the next batches mostly have the same schema
    return known


def count_rows(parts: Sequence[Part]) -> int:
    """Return the number of rows in all parts."""
    return sum(batch.num_rows if rows is None else len(rows) for batch, rows in parts)


def known_columns(records: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns key, value, headers and timestamp, as far as present, with types that both
    implementations know.

    These types are, for key and value: (large) binary, (large) string, null; for headers: a list of structs
    with two such fields, key and value, or null; for timestamp: timestamp of any unit, int64 (ms), null.
    Other types are cast. If nothing has to change, the batch itself is returned.

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
    """Return the column as (large) binary, (large) string or null. Raise ValueError with its name."""
    return _known(name, column)


def known_timestamps(column: pa.Array) -> pa.Array:
    """Return the column as timestamp, int64 (ms) or null. Raise ValueError."""
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
        # A cast would fill a missing field with nulls.
        if not pa.types.is_struct(entry) or {field.name for field in entry} != {"key", "value"}:
            raise pa.ArrowInvalid("no list of such structs")
    return column.cast(pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])))


def _is_header(entry: pa.DataType) -> bool:
    """Return whether the kernel knows this type of a header."""
    if not pa.types.is_struct(entry) or [field.name for field in entry] != ["key", "value"]:
        return False
    return all(field.type in _BINARY for field in entry)


def _as_list(lists: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    is_null = lists.is_null()
    lengths = pc.if_else(is_null, 0, pc.list_value_length(lists)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, lists.flatten(), mask=is_null)


def raise_rejection(
    rejection: tuple[str, int, int, int], first_row: int, max_message_bytes: int | None
) -> NoReturn:
    """Raise the InvalidRecordError, or its subclass, for rows that cannot be encoded.

    Args:
        rejection: kind, first row, last row (inclusive), the value found.
        first_row: the number, in the message, of row 0 in `rejection`.
    """
    kind, first, last, value = rejection
    rows = f"row {first_row + first}"
    if last > first:
        rows = f"rows {first_row + first} to {first_row + last}"
    if kind == "too-large":
        limit = MAX_ENCODED_BATCH_BYTES if max_message_bytes is None else max_message_bytes
        raise RecordTooLargeError(
            f"{rows}: expected a batch of at most {limit} bytes (max.message.bytes), found {value}; "
            "raise that, or make batches or values smaller"
        )
    if kind == "timestamp":
        raise InvalidTimestampError(
            f"{rows}: expected a timestamp of 0 or more, or -1 for none, found {value} ms"
        )
    if kind == "headers":
        raise InvalidRecordError(f"{rows}: expected no headers with magic 0 or 1, found some")
    raise InvalidRecordError(f"{rows}: expected a key in each header, found null")


def batch_positions(batches: pa.RecordBatch | pa.Array | Sequence[int], base_position: int) -> pa.Array:
    """Return the positions of batches (int64) relative to `base_position`."""
    if isinstance(batches, pa.RecordBatch):
        batches = batches.column("position")
    positions = batches if isinstance(batches, pa.Array) else pa.array(batches, pa.int64())
    if not base_position:
        return positions
    import pyarrow.compute as pc

    return pc.subtract(positions.cast(pa.int64()), base_position)


def raise_no_batch(position: int, base_offset: int) -> NoReturn:
    """Raise InvalidRecordError for a batch that cannot be patched."""
    raise InvalidRecordError(
        f"expected a batch of magic 2 whose offsets, {base_offset} more, are from 0 to 2^63 - 1; found none",
        position=position,
    )
