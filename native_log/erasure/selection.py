"""Which records are to be erased."""

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
class Selection:
    """Records that meet any of these.

    Attributes:
        keys: whole keys (binary).
        key_prefixes: what a key begins with.
        headers: (name, value) of a header; value None: whatever it is.
        header_prefixes: (name, what its value begins with).
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
    ) -> Selection:
        """Text stands for its UTF-8. Raises ValueError: nothing is selected, or all would be, or what was
        given is no key."""
        prefixes = [key_prefix] if isinstance(key_prefix, str | bytes) else list(key_prefix)
        is_one = isinstance(header, str | bytes | tuple) and len(header) > 0
        headers = cast("list[Header]", [header] if is_one else list(header))
        found = cls(
            _keys(keys),
            tuple(map(_bytes, prefixes)),
            tuple(_header(one) for one in headers),
            tuple(_header_prefix(one) for one in header_prefix),
        )
        if not (len(found.keys) or found.key_prefixes or found.headers or found.header_prefixes):
            raise ValueError("expected keys, a beginning of keys or a header to select by, found none")
        if b"" in found.key_prefixes:
            raise ValueError("expected the beginning of keys, found an empty one: every key begins with that")
        return found

    @property
    def columns(self) -> list[str]:
        """Those of RECORD_SCHEMA that `mask` asks for."""
        return ["key", "headers"] if self.headers or self.header_prefixes else ["key"]

    def mask(self, records: pa.RecordBatch) -> pa.BooleanArray:
        """Which of the records are selected; no nulls."""
        key = records.column("key")
        mask = pc.is_in(key, value_set=self.keys)
        for prefix in self.key_prefixes:
            mask = pc.or_(mask, pc.starts_with(key, prefix).fill_null(False))
        if self.headers or self.header_prefixes:
            mask = pc.or_(mask, self._with_header(records.column("headers")))
        return mask

    def _with_header(self, headers: pa.ListArray) -> pa.BooleanArray:
        entries, parents = pc.list_flatten(headers), pc.list_parent_indices(headers)
        names, values = pc.struct_field(entries, "key"), pc.struct_field(entries, "value")
        hits = pa.array([False] * len(entries), pa.bool_())
        for name, value in self.headers:
            hit = pc.equal(names, name)
            if value is not None:
                hit = pc.and_(hit, pc.equal(values, pa.scalar(value, pa.binary())))
            hits = pc.or_(hits, hit.fill_null(False))
        for name, prefix in self.header_prefixes:
            hit = pc.and_(pc.equal(names, name), pc.starts_with(values, prefix))
            hits = pc.or_(hits, hit.fill_null(False))
        rows = pa.array(range(len(headers)), pa.int64())
        return pc.is_in(rows, value_set=parents.filter(hits).cast(pa.int64()))


def _keys(keys: Any) -> pa.Array | pa.ChunkedArray:
    """As binary, without nulls: of an Arrow array, a table with one column, a DataFrame likewise, or of
    texts."""
    if isinstance(keys, str | bytes):
        keys = [keys]
    if hasattr(keys, "toArrow"):  # a DataFrame of Spark's
        keys = keys.toArrow()
    if hasattr(keys, "__arrow_c_stream__"):
        keys = pa.chunked_array(keys)
    elif hasattr(keys, "__arrow_c_array__"):
        keys = pa.array(keys)
    else:
        keys = pa.array([_bytes(key) for key in keys if key is not None], pa.binary())
    if pa.types.is_struct(keys.type):
        if keys.type.num_fields != 1:
            names = ", ".join(field.name for field in keys.type)
            raise ValueError(f"expected one column, of keys, found {keys.type.num_fields}: {names}")
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


def _bytes(text: Text) -> bytes:
    if not isinstance(text, str | bytes | bytearray | memoryview):
        raise ValueError(f"expected text or bytes, found {text!r}")
    return text.encode() if isinstance(text, str) else bytes(text)


def _header(header: Header) -> tuple[str, bytes | None]:
    name, value = header if isinstance(header, tuple) else (header, None)
    return name if isinstance(name, str) else name.decode(), None if value is None else _bytes(value)


def _header_prefix(header: tuple[Text, Text | None]) -> tuple[str, bytes]:
    name, prefix = _header(header)
    if not prefix:
        raise ValueError(f"expected what the value of header {name} begins with, found nothing")
    return name, prefix
