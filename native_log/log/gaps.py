"""Find the offsets between the batches of a log that no batch has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.log.offset_span import OffsetSpan
from native_log.log.problems import Problem
from native_log.policies import Gaps
from native_log.segment.scan import int64s
from native_log.sizes import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from native_log.segment.damage import DamagedRange

UNEXPLAINED = "The topic is not compacted, so a segment or batches are missing"
"""What a gap means if compaction cannot explain it."""

GAP_ADVICE = (
    "Take the segment or the partition from another replica. Brokers do not notice the gap, and consumers "
    "skip it without an error"
)
"""What to do about records that are missing."""

DOUBT = "Compaction may have removed them, or segments are missing: the policy of the topic is unknown here"


def gaps_between(
    batches: pa.RecordBatch, expected: int, damaged: Sequence[DamagedRange] = ()
) -> Iterator[tuple[OffsetSpan, int]]:
    """Yield the offsets between batches (BATCH_SCHEMA), each with the position of the batch after them.

    Args:
        batches: at least one batch.
        expected: the offset that should come first.
        damaged: the damaged ranges before the last batch. They may have held the offsets before the next one.
    """
    after_damage = {each.end_position for each in damaged}
    bases = batches.column("baseOffset")
    known = bases.to_pylist() if bases.null_count else int64s(batches, "baseOffset")
    positions = int64s(batches, "position")
    for gap, index in offset_gaps(known, int64s(batches, "lastOffset"), expected):
        if positions[index] not in after_damage:
            yield gap, positions[index]


def offset_gaps(
    base_offsets: Sequence[int | None], last_offsets: Sequence[int], expected: int
) -> Iterator[tuple[OffsetSpan, int]]:
    """Yield the offsets between batches, each with the index of the batch after them.

    Args:
        base_offsets: the first offset of each batch. The header of a compressed batch of magic 0 or 1 has
            none, so it is unknown whether there is a gap before it.
        last_offsets: the last offset of each batch.
        expected: the offset that should come first.
    """
    # There are few batches at a time, so this loop takes less time than calls of Arrow's functions.
    for index, (first, last) in enumerate(zip(base_offsets, last_offsets, strict=True)):
        if first is not None and first > expected:
            yield OffsetSpan(expected, first), index
        expected = last + 1


@dataclass(slots=True)
class GapCount:
    """The number of gaps, of their offsets, and where they are.

    Attributes:
        gaps: the number of gaps.
        offsets: the number of offsets in them.
        first: the first gap; None if there is none.
        position: the position of the batch after the first gap.
        last_offset: the last offset of the last gap.
    """

    gaps: int = 0
    offsets: int = 0
    first: OffsetSpan | None = None
    position: int = 0
    last_offset: int = -1

    def add(self, gap: OffsetSpan, position: int = 0) -> None:
        """Count a gap, which ends at the batch at `position`."""
        if self.first is None:
            self.first, self.position = gap, position
        self.gaps += 1
        self.offsets += gap.end_offset - gap.start_offset
        self.last_offset = gap.end_offset - 1

    def __str__(self) -> str:
        return f"{format_count(self.offsets, 'offset')} in {format_count(self.gaps, 'gap')}"

    def include(self, later: GapCount) -> None:
        """Count the gaps of a later part of the log."""
        if self.first is None:
            self.first, self.position = later.first, later.position
        self.gaps += later.gaps
        self.offsets += later.offsets
        self.last_offset = max(self.last_offset, later.last_offset)

    @property
    def doubt(self) -> str:
        """What these gaps mean in a topic whose policy is unknown."""
        return f"{self} have no records. {DOUBT}"


def gap_problem(found: GapCount, path: Path) -> Problem:
    """Return the problem of a segment with gaps, in the file `path`, whose topic is not compacted."""
    assert found.first is not None
    first, last = found.first.start_offset, found.first.end_offset - 1
    message = f"no batch has {found}, the first from {first} to {last}. {UNEXPLAINED}"
    return Problem("missing", str(path), found.position, first, message, GAP_ADVICE)


class GapCheck:
    """Check that a log has all its offsets. Its segments, batches and damage are passed in order.

    A gap belongs to the segment in which it ends. Offsets that damage may have held, and those whose absence
    compaction explains, are in no gap.
    """

    def __init__(self, gaps: Gaps, start_offset: int) -> None:
        """Begin a check. `gaps`: whether compaction explains gaps; `start_offset`: the first offset."""
        self._gaps = gaps
        self._expected = start_offset
        self._found = GapCount()
        self._ends_damaged = False

    def begin(self, base_offset: int, *, is_reported: bool) -> None:
        """Begin a segment. `is_reported`: the segment before it is missing, which is a problem already."""
        if not (is_reported or self._ends_damaged):
            self._count(OffsetSpan(self._expected, base_offset), 0)
        self._ends_damaged = False
        self._expected = max(self._expected, base_offset)

    def take(self, batches: pa.RecordBatch, damaged: Sequence[DamagedRange]) -> None:
        """Check the next valid batches (BATCH_SCHEMA) of the segment, and the damage before the last one."""
        if self._gaps is not Gaps.COMPACTED:
            for gap, position in gaps_between(batches, self._expected, damaged):
                self._count(OffsetSpan(max(self._expected, gap.start_offset), gap.end_offset), position)
        self._expected = max(self._expected, int64s(batches, "lastOffset")[batches.num_rows - 1] + 1)

    def lose(self, damaged: DamagedRange) -> None:
        """Note a damaged range, which may have held the offsets before the next batch or segment."""
        self._ends_damaged = damaged.next_offset is None
        self._expected = max(self._expected, damaged.next_offset or 0)

    def finish(self) -> GapCount:
        """End the segment, and return its gaps."""
        found, self._found = self._found, GapCount()
        return found

    def _count(self, gap: OffsetSpan, position: int) -> None:
        if not gap.is_empty and self._gaps is not Gaps.COMPACTED:
            self._found.add(gap, position)
