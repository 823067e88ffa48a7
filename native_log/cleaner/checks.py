"""Whether headers can be believed: nothing is judged, or thrown away, by one that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.errors import CorruptRecordError

if TYPE_CHECKING:
    import pyarrow as pa

    from native_log.segment.segment import LogSegment

_LEFT_ALONE = "The partition is left as it was: take the file from another replica"


class OffsetCheck:
    """Batches of one segment come in the order of their offsets, from its base offset on, and end where the
    next segment begins. (A batch's offset is not covered by its CRC.)

    Args:
        end_offset: the next segment's base offset; None: there is none.
    """

    def __init__(self, segment: LogSegment, end_offset: int | None) -> None:
        self._segment = segment
        self._end_offset = end_offset
        self._next_offset = segment.base_offset

    def apply(self, batches: pa.RecordBatch) -> None:
        """Takes the batches (BATCH_SCHEMA) that follow. Raises CorruptRecordError."""
        count = batches.num_rows
        if count == 0:
            return
        last = batches.column("lastOffset")
        # A compressed batch of magic 0 or 1 does not say its first offset.
        first = batches.column("baseOffset").fill_null(2**63 - 1)
        if first[0].as_py() < self._next_offset:
            self._fail(batches, 0)
        if self._end_offset is not None and last[count - 1].as_py() >= self._end_offset:
            self._fail(batches, count - 1)
        in_order = pc.and_(
            pc.less(last.slice(0, count - 1), first.slice(1)),
            pc.less(last.slice(0, count - 1), last.slice(1)),
        )
        wrong = pc.index(in_order, False).as_py()
        if wrong >= 0:
            self._fail(batches, wrong + 1)
        self._next_offset = last[count - 1].as_py() + 1

    def _fail(self, batches: pa.RecordBatch, index: int) -> None:
        row = batches.slice(index, 1).to_pylist()[0]
        before = batches.column("lastOffset")[index - 1].as_py() + 1 if index else self._next_offset
        bound = "" if self._end_offset is None else f" to before {self._end_offset}"
        raise CorruptRecordError(
            f"expected offsets from {before}{bound}, found a batch of {row['baseOffset']} to "
            f"{row['lastOffset']}. {_LEFT_ALONE}",
            path=self._segment.path,
            position=row["position"],
            offset=row["baseOffset"],
        )


def check_crcs(batches: pa.RecordBatch, path: object) -> None:
    """Of batches (BATCH_SCHEMA) scanned with check_crcs. Raises CorruptRecordError."""
    wrong = pc.index(batches.column("isValid"), False).as_py()
    if wrong >= 0:
        raise CorruptRecordError(
            f"expected a batch that fits its CRC, found another. {_LEFT_ALONE}",
            path=path,
            position=batches.column("position")[wrong].as_py(),
            offset=batches.column("baseOffset")[wrong].as_py(),
        )
