"""Read repair: check the batches of a merged log where they are read, and replace those that are damaged.

A few megabytes are checked at a time, and are then decoded while they are still in the page cache.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from native_log.log.replicas.copies import gaps, lost_offsets
from native_log.log.replicas.plan import OffsetSpan
from native_log.segment.files import MAX_OFFSET
from native_log.segment.lookup import SegmentLookup
from native_log.segment.scan import int64s
from native_log.storage import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.log.local_log import LocalLog
    from native_log.log.replicas.merged_source import MergedSource
    from native_log.log.segment_slices import SegmentSlice, SlicedRange
    from native_log.segment.damage import DamagedRange

logger = logging.getLogger(__name__)

CHECKED_BYTES = 4 << 20
"""About how many bytes are checked before they are read."""


def repair(range: SlicedRange, source: MergedSource) -> Iterator[SegmentSlice]:
    """Yield the slices to read for a range of the merged log `source`.

    Lost offsets of a copy are read from the next best copy that has them. Damaged bytes stay in the slices if
    no copy has their records, so that a reader reports them. A warning names each copy whose damage was
    replaced, and its first damaged range.

    Raises:
        LogTruncatedError, FileNotFoundError: a file has changed since the range was planned.
        OSError: a file cannot be read.
    """
    return _Repair(range, source).slices()


@dataclass(frozen=True, slots=True)
class _Checked:
    """Bytes that were checked.

    Attributes:
        slice: the bytes; None if there are none, as in a gap.
        lost: the offsets that they may have held, if they are damaged; None: they are intact. No offsets may
            be lost.
        damage: the damaged bytes; None: there are none.
    """

    slice: SegmentSlice | None
    lost: OffsetSpan | None = None
    damage: DamagedRange | None = None


class _Repair:
    def __init__(self, range: SlicedRange, source: MergedSource) -> None:
        self._range = range
        self._source = source
        self._logs: dict[str, LocalLog] = {}
        self._reported: set[str | None] = set()

    def slices(self) -> Iterator[SegmentSlice]:
        """See `repair`."""
        span = OffsetSpan(self._range.start_offset, self._range.end_offset)
        kept: SegmentSlice | None = None  # damaged bytes, which are read together with the bytes after them
        for checked in self._check(self._range.slices, span):
            if checked.lost is None:
                following = [] if checked.slice is None else [checked.slice]
            else:
                directory = None if checked.slice is None else checked.slice.directory
                replaced, missing = self._replace(checked.lost, directory)
                if replaced or not (checked.damage is None or missing or _is_empty(checked.lost)):
                    self._report(checked, directory)
                is_kept = bool(missing) or (
                    _is_empty(checked.lost) and checked.lost.start_offset >= self._source.log_end_offset
                )
                following = replaced
                if is_kept and checked.slice is not None:
                    begin = missing[0].start_offset if missing else MAX_OFFSET
                    before = [each for each in replaced if each.first_offset < begin]
                    following = replaced[len(before) :]
                    *complete, kept = _join([*([] if kept is None else [kept]), *before, checked.slice])
                    yield from complete
            if following:
                yield from _join([*([] if kept is None else [kept]), *following])
                kept = None
        if kept is not None:
            yield kept

    def _replace(
        self, lost: OffsetSpan, directory: str | None
    ) -> tuple[list[SegmentSlice], list[OffsetSpan]]:
        """Return slices of other copies than that in `directory`, and the offsets that no copy has."""
        found: list[SegmentSlice] = []
        left = [] if _is_empty(lost) else [lost]
        for copy in self._source.copies:
            spans, left = left, []
            for span in spans:
                within = _overlap(span, OffsetSpan(copy.start_offset, copy.end_offset))
                if copy.path != directory and not _is_empty(within):
                    log = self._open(copy.path)
                    within = _overlap(within, OffsetSpan(log.local_log_start_offset, log.log_end_offset))
                if copy.path == directory or _is_empty(within):
                    left.append(span)
                    continue
                left += (
                    each
                    for each in (
                        OffsetSpan(span.start_offset, within.start_offset),
                        OffsetSpan(within.end_offset, span.end_offset),
                    )
                    if not _is_empty(each)
                )
                located = log.locate(within.start_offset, within.end_offset)[0]
                for checked in self._check((replace(each, directory=copy.path) for each in located), within):
                    if checked.lost is not None:
                        left += [] if _is_empty(checked.lost) else [checked.lost]
                    elif checked.slice is not None:
                        found.append(checked.slice)
            left.sort(key=lambda span: span.start_offset)
        return sorted(found, key=lambda each: each.first_offset), left

    def _check(self, slices: Iterable[SegmentSlice], span: OffsetSpan) -> Iterator[_Checked]:
        """Yield the bytes of the slices, which hold the offsets of `span`, and what is lost of them."""
        expected = span.start_offset
        for part in _join(slices):
            limits = (
                span.end_offset,
                part.end_offset,
                MAX_OFFSET if part.max_offset is None else part.max_offset,
            )
            start = expected if self._source.fills_gaps else max(expected, part.first_offset)
            end = max(start, min(limits))
            yield from self._check_slice(part, OffsetSpan(start, end))
            expected = end
        if self._source.fills_gaps and expected < span.end_offset:
            yield _Checked(None, OffsetSpan(expected, span.end_offset))

    def _check_slice(self, part: SegmentSlice, span: OffsetSpan) -> Iterator[_Checked]:
        part = replace(part, min_offset=span.start_offset, max_offset=span.end_offset)
        rest, expected = part, span.start_offset  # `rest` was not yielded yet
        damaged: list[DamagedRange] = []
        with SegmentLookup(
            part.to_segment(self._range.path),
            part.end_position,
            Window(),
            max_batch_bytes=self._range.max_batch_bytes,
        ) as lookup:
            part.check_file(lookup.file)
            headers = lookup.batches(
                part.start_position, damaged.append, next_offset=part.next_offset, only_valid=True
            )
            while True:
                scanned = next(headers, None)
                for damage in damaged:
                    lost = lost_offsets(damage, part)
                    intact, rest = _cut(rest, damage.position, lost.start_offset)
                    yield _Checked(intact)
                    bad, rest = _cut(rest, damage.end_position, lost.end_offset)
                    yield _Checked(bad, _overlap(lost, span), damage)
                    expected = max(expected, min(lost.end_offset, span.end_offset))
                damaged.clear()
                if scanned is None:
                    break
                if scanned.batches.num_rows:
                    if self._source.fills_gaps:
                        positions = int64s(scanned.batches, "position")
                        for gap, index in gaps(scanned.batches, expected - 1):
                            if not _is_empty(within := _overlap(gap, span)):
                                intact, rest = _cut(rest, positions[index], gap.end_offset)
                                yield _Checked(intact)
                                yield _Checked(None, within)
                    expected = max(expected, scanned.next_offset or 0)
                if scanned.position - rest.start_position >= CHECKED_BYTES:
                    intact, rest = _cut(rest, scanned.position, scanned.next_offset or 0)
                    yield _Checked(intact)
        yield _Checked(rest if rest.size_bytes else None)
        if self._source.fills_gaps and expected < span.end_offset:
            yield _Checked(None, OffsetSpan(expected, span.end_offset))

    def _open(self, path: str) -> LocalLog:
        if path not in self._logs:
            from native_log.log.local_log import LocalLog

            self._logs[path] = LocalLog.open(
                path,
                topic=self._range.topic,
                partition=self._range.partition,
                checkpoints=self._source.checkpoints_of(path),
                max_batch_bytes=self._range.max_batch_bytes,
            )
        return self._logs[path]

    def _report(self, checked: _Checked, directory: str | None) -> None:
        if directory in self._reported:
            return
        self._reported.add(directory)
        if checked.damage is not None:
            logger.warning(
                "%s: damaged bytes are read from other copies; the first range is %s",
                *(directory, checked.damage),
            )
        elif checked.lost is not None:
            logger.warning(
                "%s: offsets %d to %d are missing in the best copy, and are read from other copies",
                *(self._range.path, checked.lost.start_offset, checked.lost.end_offset - 1),
            )


def _cut(part: SegmentSlice, position: int, next_offset: int) -> tuple[SegmentSlice | None, SegmentSlice]:
    """Cut a slice at a batch. `next_offset` is that of the second part."""
    before = replace(part, end_position=position) if part.start_position < position else None
    return before, replace(part, start_position=position, next_offset=max(part.next_offset, next_offset))


def _join(slices: Iterable[SegmentSlice]) -> Iterator[SegmentSlice]:
    """Yield the slices, and those that follow each other in a file as one."""
    joined: SegmentSlice | None = None
    for each in slices:
        if joined is None:
            joined = each
        elif (joined.directory, joined.segment, joined.end_position) == (
            each.directory,
            each.segment,
            each.start_position,
        ):
            joined = replace(joined, end_position=each.end_position, max_offset=each.max_offset)
        else:
            yield joined
            joined = each
    if joined is not None:
        yield joined


def _overlap(one: OffsetSpan, other: OffsetSpan) -> OffsetSpan:
    """Return the offsets in both; the result is empty if there are none."""
    start = max(one.start_offset, other.start_offset)
    return OffsetSpan(start, max(start, min(one.end_offset, other.end_offset)))


def _is_empty(span: OffsetSpan) -> bool:
    return span.start_offset >= span.end_offset
