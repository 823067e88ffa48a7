"""Records as text or JSON: one line a record."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from native_log.cli.times import format_time_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]

CORRUPT_RECORD = "_corrupt_record"

_NULL = "\\N"
# Whatever would move a terminal's cursor or break a line; \x85, \u2028 and \u2029 do for some programs.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """The records as dictionaries by column name; timestamps as epoch ms: not each is a Python datetime."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            columns[name] = [us if us is None else us // 1000 for us in column.cast(pa.int64()).to_pylist()]
        else:
            columns[name] = column.to_pylist()
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def text_line(row: Row, *, color: bool = False) -> str:
    """topic-partition, offset, time, key, value, then each header as name=value; tabs between.

    In keys and values what does not print is escaped as in Python, backslashes doubled, and null is `\\N`.
    A damaged range has "damaged" instead of the offset, and then what is wrong with it.
    """
    source = f"{row['topic']}-{row['partition']}"
    if row.get(CORRUPT_RECORD) is not None:
        fields = [source, "damaged", printable(row[CORRUPT_RECORD].encode())]
        return click.style("\t".join(fields), fg="red") if color else "\t".join(fields)
    where = "\t".join([source, str(row["offset"]), format_time_ms(row["timestamp"])])
    key = printable(row["key"])
    if color:
        where, key = click.style(where, dim=True), click.style(key, bold=True)
    headers = (
        f"{printable(header['key'].encode())}={printable(header['value'])}"
        for header in row.get("headers") or ()
    )
    return "\t".join([where, key, printable(row["value"]), *headers])


def printable(value: bytes | None) -> str:
    if value is None:
        return _NULL
    return value.replace(b"\\", b"\\\\").decode(errors="backslashreplace").translate(_ESCAPES)


def json_line(row: Row, *, always_base64: bool = False) -> str:
    """One JSON object: topic, partition, offset, timestamp (epoch ms), timestampType, key, value.

    Keys, values and header values are strings where the bytes are UTF-8, else (or always) {"base64": "..."};
    null stays null. `headers`, if read, is null or a list of {"key", "value"}. A damaged range has
    `_corrupt_record`.
    """

    def data(value: bytes | None) -> str | dict[str, str] | None:
        if value is None:
            return None
        if not always_base64:
            try:
                return value.decode()
            except UnicodeDecodeError:
                pass
        return {"base64": base64.b64encode(value).decode()}

    record = {name: row[name] for name in ("topic", "partition", "offset", "timestamp", "timestampType")}
    record["key"] = data(row["key"])
    record["value"] = data(row["value"])
    if "headers" in row:
        headers = row["headers"]
        record["headers"] = headers and [{"key": one["key"], "value": data(one["value"])} for one in headers]
    if row.get(CORRUPT_RECORD) is not None:
        record[CORRUPT_RECORD] = row[CORRUPT_RECORD]
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
