"""Format batches of records, column by column, as text, as JSON Lines or by a format string."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from native_log.cli.escapes import (
    ESCAPE_SEQUENCES,
    concatenated_values,
    join,
    json_column,
    printable,
    printable_column,
    scalar,
)
from native_log.records import CORRUPT_RECORD
from native_log.times import LATEST_MS, format_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Column = Callable[[pa.RecordBatch], pa.Array | bytes]
    """Formats a field of all records of a batch: a binary array without nulls; bytes if all are equal."""
    Part = bytes | Column


_CONSTANT_COLUMNS = ("topic", "partition")

_MINUS_ONE = scalar(b"-1")
# Made of buffers, because pa.scalar and pa.array import pandas.
_ZEROS = pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(bytes(4))])
_NULL = pa.nulls(1, pa.binary())[0]
_DIM, _BOLD, _RED, _PLAIN = b"\x1b[2m", b"\x1b[1m", b"\x1b[31m", b"\x1b[0m"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A way to print records.

    Attributes:
        columns: the columns of RECORD_SCHEMA that are needed.
        record: the parts of a record's text: literals and columns.
        damaged: the parts of the text of a damaged range.
    """

    columns: tuple[str, ...]
    record: tuple[Part, ...]
    damaged: tuple[Part, ...] = ()

    def render(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """Yield the text of all rows, in several parts."""
        for rows, is_damaged in _split_damaged(batch):
            texts: list[bytes | pa.Array] = []
            for part in self.damaged if is_damaged else self.record:
                text = part if isinstance(part, bytes) else part(rows)
                if texts and isinstance(text, bytes) and isinstance(texts[-1], bytes):
                    texts[-1] += text
                else:
                    texts.append(text)
            if all(isinstance(text, bytes) for text in texts):
                yield memoryview(b"".join(texts) * len(rows))
            else:
                yield concatenated_values(join(*texts))


def text_rendering(columns: Sequence[str] | None, *, include_headers: bool, color: bool) -> Rendering:
    """Print a line for each record. Unprintable characters are escaped, and null is `\\N`.

    Args:
        columns: separated by tabs, headers as JSON; None: topic-partition, offset, time, key and value, and
            with `include_headers` each header as name=value.
        color: use colors, for a terminal.
    """
    source: tuple[Part, ...] = (_text("topic"), b"-", _text("partition"))
    damaged: tuple[Part, ...] = (*source, b"\tdamaged\t", _text(CORRUPT_RECORD))
    if columns is not None:
        cells = [part for name in columns for part in (b"\t", _text(name))]
        record = tuple(cells[1:])
        read = tuple(dict.fromkeys(("topic", "partition", *columns)))
    else:
        where = (*source, b"\t", _text("offset"), b"\t", _text("timestamp"))
        key: tuple[Part, ...] = (_text("key"),)
        if color:
            where, key = (_DIM, *where, _PLAIN), (_BOLD, *key, _PLAIN)
        record = (*where, b"\t", *key, b"\t", _text("value"), *((_tabbed_headers,) * include_headers))
        read = (
            "topic",
            "partition",
            "offset",
            "timestamp",
            "key",
            "value",
            *(("headers",) * include_headers),
        )
    if color:
        damaged = (_RED, *damaged, _PLAIN)
    return Rendering(read, (*record, b"\n"), (*damaged, b"\n"))


def json_rendering(columns: Sequence[str], *, always_base64: bool, with_headers: bool = False) -> Rendering:
    """Print JSON Lines: an object for each record, with times in epoch ms.

    Keys, values and header values are strings if they are UTF-8, otherwise (or always) {"base64": "..."}.
    `headers` is null or a list of {"key", "value"}. A damaged range also has `_corrupt_record`.

    Args:
        columns: the columns to print.
        always_base64: whether to encode keys, values and header values that are UTF-8, too.
        with_headers: also print the headers of records that have some. Do not name them in `columns`.
    """
    headers = ("headers",) * with_headers
    last = (partial(_json_member_headers, always_base64=always_base64),) * with_headers

    def members(names: Sequence[str]) -> tuple[Part, ...]:
        pairs = [
            part
            for name in names
            for part in (f',"{name}":'.encode(), _column(_json, name, always_base64=always_base64))
        ]
        return b"{" + pairs[0][1:], *pairs[1:], *last, b"}\n"  # type: ignore[index]

    return Rendering((*columns, *headers), members(columns), members([*columns, CORRUPT_RECORD]))


_FORMAT_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)


def format_rendering(text: str) -> Rendering:
    r"""Print fields as kcat's -f does.

    The fields are %t topic, %p partition, %o offset, %T timestamp in epoch ms, %k key, %s value (unchanged),
    %K and %S their lengths (-1 for null), %h headers (name=value, separated by commas), and %% percent. The
    escapes are \n \r \t \0 \\ \xHH. Null keys and values print nothing.

    Raises:
        ValueError: unknown field or escape.
    """
    parts: list[Part] = []
    read = []
    for match in _FORMAT_TOKEN.finditer(text):
        field, code, escape, literal, _ = match.groups()
        if literal is not None:
            parts.append(literal.encode(errors="surrogateescape"))
        elif code is not None:
            parts.append(bytes.fromhex(code))
        elif escape in ESCAPE_SEQUENCES:
            parts.append(ESCAPE_SEQUENCES[escape])
        elif field == "%":
            parts.append(b"%")
        elif field in _FIELDS:
            name, column = _FIELDS[field]
            read.append(name)
            parts.append(column)
        else:
            raise ValueError(
                f"expected fields %{' %'.join(_FIELDS)} %% and escapes \\n \\r \\t \\0 \\xHH, "
                f"found {match[0]!r} at {match.start()}"
            )
    return Rendering(tuple(dict.fromkeys(read or ["offset"])), tuple(parts))


def _split_damaged(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Split a batch into slices of records and single damaged ranges. Yield whether each is damaged."""
    damaged = []
    if CORRUPT_RECORD in batch.schema.names:
        damaged = pc.indices_nonzero(batch.column(CORRUPT_RECORD).is_valid()).to_pylist()
    start = 0
    for index in (*damaged, batch.num_rows):
        if start < index:
            yield batch.slice(start, index - start), False
        if index < batch.num_rows:
            yield batch.slice(index, 1), True
        start = index + 1


def _text(name: str) -> Column:
    return _column(_text_column, name)


def _column(function: Callable[..., pa.Array], name: str, **options: bool) -> Column:
    column = partial(function, name=name, **options)
    return partial(_format_first_row, column=column) if name in _CONSTANT_COLUMNS else column


def _format_first_row(batch: pa.RecordBatch, column: Callable[[pa.RecordBatch], pa.Array]) -> bytes:
    return column(batch.slice(0, 1))[0].as_py()  # type: ignore[no-any-return]


def _text_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    values = batch.column(name)
    if name == "headers":
        return _json_headers(values)
    if pa.types.is_timestamp(values.type):
        return _times(values)
    if pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        return printable_column(values)
    return _plain(values).fill_null(scalar(printable(None).encode()))


def _plain(values: pa.Array) -> pa.Array:
    """Format numbers and booleans."""
    return values.cast(pa.string()).cast(pa.binary())


def _epoch_ms(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())


def _times(times: pa.Array) -> pa.Array:
    epoch_ms = _epoch_ms(times)
    min_max = pc.min_max(epoch_ms)
    smallest, largest = (min_max[name].as_py() for name in ("min", "max"))
    if smallest is None or smallest < 0 or largest > LATEST_MS or epoch_ms.null_count:
        return pa.array([format_time_ms(time_ms).encode() for time_ms in epoch_ms.to_pylist()], pa.binary())
    texts = epoch_ms.cast(pa.timestamp("ms")).cast(pa.string()).cast(pa.binary())
    return join(pc.binary_replace_slice(texts, 10, 11, b"T"), b"Z")


def _json(batch: pa.RecordBatch, name: str, always_base64: bool) -> pa.Array:
    values = batch.column(name)
    if name == "headers":
        return _json_headers(values, always_base64)
    if pa.types.is_timestamp(values.type):
        values = _epoch_ms(values)
    if pa.types.is_binary(values.type):
        return json_column(values, always_base64)
    if pa.types.is_string(values.type):
        return json_column(values)
    return _plain(values).fill_null(scalar(b"null"))


def _json_headers(headers: pa.Array, always_base64: bool = False) -> pa.Array:
    return _json_list(headers, always_base64).fill_null(scalar(b"null"))


def _json_member_headers(batch: pa.RecordBatch, always_base64: bool) -> pa.Array:
    """Format headers as a further member of an object. A record without headers gets none."""
    return join(b',"headers":', _json_list(batch.column("headers"), always_base64)).fill_null(scalar(b""))


def _json_list(headers: pa.Array, always_base64: bool) -> pa.Array:
    names, values = _header_parts(headers)
    objects = join(b'{"key":', json_column(names), b',"value":', json_column(values, always_base64), b"}")
    return join(b"[", _join_by_record(headers, objects, b","), b"]")


def _tabbed_headers(batch: pa.RecordBatch) -> pa.Array:
    headers = batch.column("headers")
    names, values = _header_parts(headers)
    texts = join(b"\t", printable_column(names), b"=", printable_column(values))
    return _join_by_record(headers, texts, b"").fill_null(scalar(b""))


def _format_headers(batch: pa.RecordBatch) -> pa.Array:
    headers = batch.column("headers")
    names, values = _header_parts(headers)
    texts = join(names.cast(pa.binary()), b"=", values.fill_null(scalar(b"NULL")))
    return _join_by_record(headers, texts, b",").fill_null(scalar(b""))


def _header_parts(headers: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    entries = pc.list_flatten(headers)
    return pc.struct_field(entries, "key"), pc.struct_field(entries, "value")


def _join_by_record(headers: pa.ListArray, texts: pa.Array, separator: bytes) -> pa.Array:
    """Join the texts of the headers of each record. A record without a list of headers gets null."""
    lengths = pc.list_value_length(headers).fill_null(_ZEROS[0])
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([_ZEROS, ends.cast(pa.int32())])
    lists = pa.ListArray.from_arrays(offsets, texts)
    joined = pc.binary_join(lists, scalar(separator))
    return pc.if_else(headers.is_valid(), joined, _NULL)


def _raw(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(name).cast(pa.binary()).fill_null(scalar(b""))


def _number(batch: pa.RecordBatch, name: str) -> pa.Array:
    return _plain(batch.column(name))


def _milliseconds(batch: pa.RecordBatch) -> pa.Array:
    return _plain(_epoch_ms(batch.column("timestamp"))).fill_null(_MINUS_ONE)


def _length(batch: pa.RecordBatch, name: str) -> pa.Array:
    return _plain(pc.binary_length(batch.column(name))).fill_null(_MINUS_ONE)


_FIELDS: dict[str, tuple[str, Column]] = {
    "t": ("topic", _column(_raw, name="topic")),
    "p": ("partition", _column(_number, name="partition")),
    "o": ("offset", _column(_number, name="offset")),
    "T": ("timestamp", _milliseconds),
    "k": ("key", _column(_raw, name="key")),
    "s": ("value", _column(_raw, name="value")),
    "K": ("key", _column(_length, name="key")),
    "S": ("value", _column(_length, name="value")),
    "h": ("headers", _format_headers),
}
