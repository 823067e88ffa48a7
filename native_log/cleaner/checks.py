"""Whether headers can be believed: nothing is judged, or thrown away, by one that cannot."""

from __future__ import annotations

from operator import lt
from typing import TYPE_CHECKING, NoReturn

import pyarrow.compute as pc

from native_log.errors import CorruptRecordError
from native_log.segment.damage import LEFT_ALONE
from native_log.segment.scan import int64s

if TYPE_CHECKING:
    import pyarrow as pa

    from native_log.segment.segment import LogSegment


class OffsetCheck:
    """Batches of one segment come in the order of their offsets, from its base offset on, and end where the
    next segment begins. (A batch's offset is not covered by its CRC.)

    Args:
        end_offset: the next segment's base offset, or where a part of this one ends; None: there is none.
        start_offset: where a part of the segment begins; None: at its base offset.
    """

    def __init__(self, segment: LogSegment, end_offset: int | None, start_offset: int | None = None) -> None:
        self._segment = segment
        self._end_offset = end_offset
        self._next_offset = segment.base_offset if start_offset is None else start_offset

    def apply(self, batches: pa.RecordBatch) -> None:
        """Takes the batches (BATCH_SCHEMA) that follow. Raises CorruptRecordError."""
        last = int64s(batches, "lastOffset").tolist()
        if not last:
            return
        first = last
        if batches.column("baseOffset").null_count == 0:  # a compressed batch of magic 0 or 1 has none
            first = int64s(batches, "baseOffset").tolist()
        expected = [self._next_offset, *(offset + 1 for offset in last)]
        if self._end_offset is not None:
            expected[-1] = min(expected[-1], self._end_offset)
        if any(map(lt, first, expected)) or last[-1] >= expected[-1]:
            self._fail(batches, first, expected)
        self._next_offset = expected[-1]

    def _fail(self, batches: pa.RecordBatch, first: list[int], expected: list[int]) -> NoReturn:
        wrong = next((i for i, offset in enumerate(first) if offset < expected[i]), len(first) - 1)
        row = batches.slice(wrong, 1).to_pylist()[0]
        bound = "" if self._end_offset is None else f" to before {self._end_offset}"
        raise CorruptRecordError(
            f"expected offsets from {expected[wrong]}{bound}, found a batch of {row['baseOffset']} to "
            f"{row['lastOffset']}. {LEFT_ALONE}",
            path=self._segment.path,
            position=row["position"],
            offset=row["baseOffset"],
        )


def check_crcs(batches: pa.RecordBatch, path: object) -> None:
    """Of batches (BATCH_SCHEMA) scanned with check_crcs. Raises CorruptRecordError."""
    wrong = pc.index(batches.column("isValid"), False).as_py()
    if wrong >= 0:
        raise CorruptRecordError(
            f"expected a batch that fits its CRC, found another. {LEFT_ALONE}",
            path=path,
            position=batches.column("position")[wrong].as_py(),
            offset=batches.column("baseOffset")[wrong].as_py(),
        )
