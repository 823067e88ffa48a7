"""Read repair: check the batches of a joined log where they are read, and replace those that are damaged.

A few megabytes are checked at a time, and are then decoded while they are still in the page cache.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.log.gaps import DOUBT
from native_log.log.offset_span import OffsetSpan
from native_log.log.sources.slice_check import Damaged, Gap, Intact, SliceCheck, join_slices
from native_log.policies import Gaps
from native_log.segment.files import MAX_OFFSET
from native_log.segment.scan import int32s, int64s
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.log.log_state import LogSource, LogState
    from native_log.log.slices import SegmentSlice
    from native_log.log.sources.log_part import LogPart
    from native_log.log.sources.slice_check import Missing
    from native_log.segment.damage import DamagedRange

logger = logging.getLogger(__name__)

_MOST_GAP_LOOKUPS = 100
"""In how many gaps of a range records of other copies are looked for. A compacted log has very many."""


class ReadRepair:
    """Reads lost offsets from other places, for one range of a joined log.

    Lost offsets are read from the next best place that has them. A warning names each place whose damage was
    replaced, and its first damaged range.
    """

    def __init__(
        self, spares: Sequence[LogPart], gaps: Gaps, path: str, log_end_offset: int, max_batch_bytes: int
    ) -> None:
        """Begin a range. The arguments are attributes of JoinedSource."""
        self._spares = spares
        self._gaps = gaps
        self._path = path
        self._log_end_offset = log_end_offset
        self._max_batch_bytes = max_batch_bytes
        self._slice_check = SliceCheck(max_batch_bytes, gaps)
        self._states: dict[str, LogState] = {}
        self._reported: set[str | None] = set()
        self._gap_lookups = _MOST_GAP_LOOKUPS

    def slices(self, located: Iterable[SegmentSlice], span: OffsetSpan) -> Iterator[SegmentSlice]:
        """Yield what to read for the slices that were located for `span`.

        Damaged bytes stay in the slices if no place has their records, so that a reader reports them.

        Raises:
            LogTruncatedError, FileNotFoundError: a file has changed since the slices were located.
            OSError: a file cannot be read.
        """
        held: list[SegmentSlice] = []  # damaged bytes: a reader needs the bytes after them to see their end
        for part, is_damaged in self._parts(located, span):
            held.append(part)
            if not is_damaged:
                yield from join_slices(held)
                held.clear()
        yield from join_slices(held)

    def _parts(
        self, located: Iterable[SegmentSlice], span: OffsetSpan
    ) -> Iterator[tuple[SegmentSlice, bool]]:
        """Yield the slices in the order of offsets, each with whether it is damaged."""
        for checked in self._slice_check.check(located, span):
            if isinstance(checked, Intact):
                yield checked.slice, False
                continue
            if isinstance(checked, Gap):
                self._look_into(checked)
                continue
            directory = checked.slice.segment.directory if isinstance(checked, Damaged) else None
            replacements, unavailable = self._replace(checked.lost, directory)
            if isinstance(checked, Damaged) and unavailable and self._fills(checked, replacements):
                unavailable = []
            if replacements or not (unavailable or checked.lost.is_empty):
                self._report(checked)
            if isinstance(checked, Damaged) and (unavailable or self._is_at_end(checked)):
                begin = unavailable[0].start_offset if unavailable else MAX_OFFSET
                index = sum(part.first_offset < begin for part in replacements)
                yield from ((part, False) for part in join_slices(replacements[:index]))
                # At the end of the log, the offset in the header of a damaged batch must not exclude it.
                yield checked.slice if unavailable else replace(checked.slice, max_offset=None), True
                replacements = replacements[index:]
            yield from ((part, False) for part in join_slices(replacements))

    def _is_at_end(self, damaged: Damaged) -> bool:
        """Return whether bytes after the last record of the log are damaged."""
        return damaged.lost.is_empty and damaged.lost.start_offset >= self._log_end_offset

    def _replace(
        self, lost: OffsetSpan, directory: str | None
    ) -> tuple[list[SegmentSlice], list[OffsetSpan]]:
        """Look for lost offsets in other copies than that in `directory`.

        Returns:
            The slices with the records, and the offsets that are in no copy. Both are sorted.
        """
        slices: list[SegmentSlice] = []
        unavailable = [] if lost.is_empty else [lost]
        for spare in self._spares:
            if spare.source.path != directory:
                supplied = [self._supply(spare, span) for span in unavailable]
                slices += (part for parts, _ in supplied for part in parts)
                unavailable = [span for _, spans in supplied for span in spans]
        unavailable.sort(key=lambda span: span.start_offset)
        return sorted(slices, key=lambda part: part.first_offset), unavailable

    def _fills(self, damaged: Damaged, replacements: list[SegmentSlice]) -> bool:
        """Return whether the batches that replace damaged bytes have exactly their size.

        Then the bytes held no other batch. Of a compacted topic, the offsets that are damaged in all copies
        are gaps between batches in that case.
        """
        if self._gaps is Gaps.UNEXPLAINED:
            return False
        size = sum(self._batch_bytes(part, damaged.lost) for part in replacements)
        return size == damaged.slice.size_bytes

    def _batch_bytes(self, part: SegmentSlice, span: OffsetSpan) -> int:
        """Return the size of the batches of a slice whose last offsets are in a span."""
        size = 0
        with part.lookup(Window(), self._max_batch_bytes) as lookup:
            for scanned in lookup.batches(part.start_position, _ignore, next_offset=part.next_offset):
                lasts = int64s(scanned.batches, "lastOffset")
                sizes = int32s(scanned.batches, "sizeInBytes")
                size += sum(
                    batch_bytes
                    for last, batch_bytes in zip(lasts, sizes, strict=True)
                    if span.start_offset <= last < span.end_offset
                )
        return size

    def _supply(self, spare: LogPart, span: OffsetSpan) -> tuple[list[SegmentSlice], list[OffsetSpan]]:
        """Return the intact slices of a place with offsets of `span`, and the offsets that it lacks."""
        held = span.intersection(spare.span)
        if not held.is_empty:
            state = self._open(spare.source)
            held = held.intersection(OffsetSpan(state.local_log_start_offset, state.log_end_offset))
        if held.is_empty:
            return [], [span]
        slices, lacking = [], span.without(held)
        for checked in self._slice_check.check(state.locate(held).slices, held):
            if isinstance(checked, Intact):
                slices.append(checked.slice)
            elif not isinstance(checked, Gap) and not checked.lost.is_empty:
                lacking.append(checked.lost)
        return slices, lacking

    def _open(self, source: LogSource) -> LogState:
        if source.path not in self._states:
            self._states[source.path] = source.open()
        return self._states[source.path]

    def _look_into(self, gap: Gap) -> None:
        """Warn of the first gap in which another copy has records. They are not read."""
        if not self._gap_lookups:
            return
        self._gap_lookups -= 1
        for spare in self._spares:
            if spare.source.path == gap.directory:
                continue
            slices, _ = self._supply(spare, gap.span)
            if any(self._batch_bytes(part, gap.span) for part in slices):
                logger.warning(
                    "%s: offsets %d to %d have no records, but %s has some, which are not read. %s; compare "
                    "the copies with kafkalog diff",
                    *(gap.directory, gap.span.start_offset, gap.span.end_offset - 1),
                    *(spare.source.path, DOUBT),
                )
                self._gap_lookups = 0
                return

    def _report(self, checked: Damaged | Missing) -> None:
        """Log the first replacement for each copy with damage, and the first one of missing offsets."""
        directory = checked.slice.segment.directory if isinstance(checked, Damaged) else None
        if directory in self._reported:
            return
        self._reported.add(directory)
        if isinstance(checked, Damaged):
            logger.warning(
                "%s: damaged bytes are read from other copies; the first range is %s",
                *(directory, checked.range),
            )
        else:
            logger.warning(
                "%s: offsets %d to %d are missing in the best copy, and are read from other copies",
                *(self._path, checked.lost.start_offset, checked.lost.end_offset - 1),
            )


def _ignore(damaged: DamagedRange) -> None:
    """Ignore damage: intact slices have none."""
