"""Which records are to be erased."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

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
    """

    keys: pa.Array
    key_prefixes: tuple[bytes, ...]
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def of(
        cls,
        keys: pa.Array | pa.ChunkedArray | Iterable[Text],
        key_prefix: Text | Iterable[Text],
        header: Header | Iterable[Header],
    ) -> Selection:
        """Text stands for its UTF-8. Raises ValueError: nothing is selected, or all would be."""
        if isinstance(keys, str | bytes):
            keys = [keys]
        if not isinstance(keys, pa.Array | pa.ChunkedArray):
            keys = pa.array([_bytes(key) for key in keys], pa.binary())
        prefixes = [key_prefix] if isinstance(key_prefix, str | bytes) else list(key_prefix)
        is_one = isinstance(header, str | bytes | tuple) and len(header) > 0
        headers = cast("list[Header]", [header] if is_one else list(header))
        found = cls(
            keys.cast(pa.binary()).drop_null(),
            tuple(map(_bytes, prefixes)),
            tuple(_header(one) for one in headers),
        )
        if not (len(found.keys) or found.key_prefixes or found.headers):
            raise ValueError("expected keys, a beginning of keys or a header to select by, found none")
        if b"" in found.key_prefixes:
            raise ValueError("expected the beginning of keys, found an empty one: every key begins with that")
        return found

    @property
    def columns(self) -> list[str]:
        """Those of RECORD_SCHEMA that `mask` asks for."""
        return ["key", "headers"] if self.headers else ["key"]

    def mask(self, records: pa.RecordBatch) -> pa.BooleanArray:
        """Which of the records are selected; no nulls."""
        key = records.column("key")
        mask = pc.is_in(key, value_set=self.keys)
        for prefix in self.key_prefixes:
            mask = pc.or_(mask, pc.starts_with(key, prefix).fill_null(False))
        if self.headers:
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
        rows = pa.array(range(len(headers)), pa.int64())
        return pc.is_in(rows, value_set=parents.filter(hits).cast(pa.int64()))


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def _header(header: Header) -> tuple[str, bytes | None]:
    name, value = header if isinstance(header, tuple) else (header, None)
    return name if isinstance(name, str) else name.decode(), None if value is None else _bytes(value)
