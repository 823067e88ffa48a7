"""Select the records to erase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    Text = str | bytes
    Header = Text | tuple[Text, Text | None]


@dataclass(frozen=True)
class RecordSelection:
    """The records that meet at least one of these conditions.

    Attributes:
        keys: the record's key is one of these (binary).
        key_prefixes: the record's key begins with one of these.
        headers: the record has a header with this (name, value); value None: any value.
        header_prefixes: the record has a header with this name whose value begins with this prefix.
    """

    keys: pa.Array
    key_prefixes: tuple[bytes, ...]
    headers: tuple[tuple[str, bytes | None], ...]
    header_prefixes: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(
        cls,
        keys: Any,
        key_prefix: Text | Iterable[Text],
        header: Header | Iterable[Header],
        header_prefix: Iterable[tuple[Text, Text | None]] = (),
    ) -> RecordSelection:
        """Return a selection. Text is encoded as UTF-8.

        Args:
            keys: text or bytes, an iterable of them, an Arrow array, or a table or DataFrame with one column.
            key_prefix: one key prefix or several.
            header: a header name or (name, value), or several of them.
            header_prefix: pairs of a header name and the prefix of its value.

        Raises:
            ValueError: no condition is given, a prefix is empty, or `keys` are neither text nor bytes.
        """
        prefixes = [key_prefix] if isinstance(key_prefix, str | bytes) else list(key_prefix)
        is_single = isinstance(header, str | bytes | tuple) and len(header) > 0
        headers = cast("list[Header]", [header] if is_single else list(header))
        selection = cls(
            _key_array(keys),
            tuple(map(_to_bytes, prefixes)),
            tuple(map(_header, headers)),
            tuple(map(_header_prefix, header_prefix)),
        )
        if not (
            len(selection.keys) or selection.key_prefixes or selection.headers or selection.header_prefixes
        ):
            raise ValueError("expected keys, a key prefix or a header to select records by, found none")
        if b"" in selection.key_prefixes:
            raise ValueError("expected a key prefix, found an empty one, which every key begins with")
        return selection

    @property
    def columns(self) -> list[str]:
        """The columns of RECORD_SCHEMA that `mask` needs."""
        return ["key", "headers"] if self.headers or self.header_prefixes else ["key"]

    def mask(self, records: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each record whether it is selected, without nulls.

        Args:
            records: the columns of RECORD_SCHEMA that `columns` names, or more.
        """
        keys = records.column("key")
        mask = pc.is_in(keys, value_set=self.keys)
        for prefix in self.key_prefixes:
            mask = pc.or_(mask, pc.starts_with(keys, prefix).fill_null(False))
        if self.headers or self.header_prefixes:
            mask = pc.or_(mask, self._header_mask(records.column("headers")))
        return mask

    def _header_mask(self, headers: pa.ListArray) -> pa.BooleanArray:
        entries, parents = pc.list_flatten(headers), pc.list_parent_indices(headers)
        names, values = pc.struct_field(entries, "key"), pc.struct_field(entries, "value")
        matches = pa.array([False] * len(entries), pa.bool_())
        for name, value in self.headers:
            match = pc.equal(names, name)
            if value is not None:
                match = pc.and_(match, pc.equal(values, pa.scalar(value, pa.binary())))
            matches = pc.or_(matches, match.fill_null(False))
        for name, prefix in self.header_prefixes:
            match = pc.and_(pc.equal(names, name), pc.starts_with(values, prefix))
            matches = pc.or_(matches, match.fill_null(False))
        rows = pa.array(range(len(headers)), pa.int64())
        return pc.is_in(rows, value_set=parents.filter(matches).cast(pa.int64()))


def _key_array(keys: Any) -> pa.Array | pa.ChunkedArray:
    """Return the keys as a binary array without nulls. Raises ValueError."""
    if isinstance(keys, str | bytes):
        keys = [keys]
    if hasattr(keys, "toArrow"):  # a Spark DataFrame
        keys = keys.toArrow()
    if hasattr(keys, "__arrow_c_stream__"):
        keys = pa.chunked_array(keys)
    elif hasattr(keys, "__arrow_c_array__"):
        keys = pa.array(keys)
    else:
        keys = pa.array([_to_bytes(key) for key in keys if key is not None], pa.binary())
    if pa.types.is_struct(keys.type):
        if keys.type.num_fields != 1:
            names = ", ".join(field.name for field in keys.type)
            raise ValueError(f"expected one column with keys, found {keys.type.num_fields}: {names}")
        keys = pc.struct_field(keys, 0)
    value_type = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if not (_is_text(value_type) or pa.types.is_null(value_type)):
        raise ValueError(f"expected keys as text or bytes, found {value_type}")
    return keys.cast(value_type).cast(pa.binary()).drop_null()


def _is_text(type: pa.DataType) -> bool:
    return any(
        is_type(type)
        for is_type in (
            *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
            *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
            pa.types.is_fixed_size_binary,
        )
    )


def _to_bytes(text: Text) -> bytes:
    if not isinstance(text, str | bytes | bytearray | memoryview):
        raise ValueError(f"expected text or bytes, found {text!r}")
    return text.encode() if isinstance(text, str) else bytes(text)


def _header(header: Header) -> tuple[str, bytes | None]:
    name, value = header if isinstance(header, tuple) else (header, None)
    return name if isinstance(name, str) else name.decode(), None if value is None else _to_bytes(value)


def _header_prefix(header: tuple[Text, Text | None]) -> tuple[str, bytes]:
    name, prefix = _header(header)
    if not prefix:
        raise ValueError(f"expected a prefix of the value of header {name}, found an empty one")
    return name, prefix
