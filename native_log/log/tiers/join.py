"""Join the remote segments of a log with the local ones."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from native_log.log.listing import next_offset
from native_log.log.missing_segments import missing_segments
from native_log.log.offset_span import OffsetSpan
from native_log.log.sources.directory import DirectorySource
from native_log.log.sources.joined import JoinedSource
from native_log.log.sources.log_part import LogPart
from native_log.log.tiers.cut_storage import CutStorage
from native_log.log.tiers.lineage import epochs_of, trace_lineage
from native_log.log.tiers.segment_source import SegmentSource
from native_log.segment.files import MAX_OFFSET
from native_log.storage import Folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from native_log.log.log_state import LogState
    from native_log.log.tiers.remote_segment import RemoteSegment
    from native_log.log.tiers.tier import StoredSegments
    from native_log.policies import Gaps

logger = logging.getLogger(__name__)


def join(
    log: LogState, stored: StoredSegments, segments: Sequence[RemoteSegment], gaps: Gaps, *, keeps_start: bool
) -> JoinedSource:
    """Join a local log with the remote segments before it. The log may consist of several merged copies.

    Offsets that are in both are read locally. Remote segments replace damaged local bytes. The offsets of
    damaged segments are lost. A segment that has no objects left may have been deleted by retention since
    the metadata was written: the log does not begin or end with it.

    Args:
        log: the local log. It has no segments if the tier is read alone.
        stored: the segments in remote storage.
        segments: those that can be read, in the order in which their copies were finished.
        gaps: whether compaction explains offsets that no batch has.
        keeps_start: whether the log start offset of the directory is that of the whole log.

    Raises KafkaLogError, OSError.
    """
    segments = _existing(log, stored, segments)
    epochs = epochs_of(segments, log.leader_epochs if any(each.is_end_known for each in segments) else ())
    stored_start = log.checkpoints.stored_start if keeps_start else None
    first = min((segment.span.start_offset for segment in segments), default=log.local_log_start_offset)
    start = first if stored_start is None else stored_start[0]
    if log.segments:
        start = min(start, log.local_log_start_offset) if stored_start is None else start
        remote_end, end = max(start, log.local_log_start_offset), log.log_end_offset
    else:
        remote_end = end = MAX_OFFSET
    _warn_of_end(log, segments, end)
    complete = [segment for segment in segments if segment.key in stored.logs]
    sources = {segment.key: _source(log, stored, segment) for segment in complete}
    copied = readable = trace_lineage(segments, epochs, OffsetSpan(start, end))
    if len(complete) < len(segments):
        readable = trace_lineage(complete, epochs, OffsetSpan(start, end))
    copies = [LogPart(sources[part.segment.key], part.span) for part in readable]
    parts = _within(copies, OffsetSpan(0, remote_end))
    local = _local_source(log, gaps)
    if log.segments:
        parts += _local_parts(log, local, copies, OffsetSpan(remote_end, end))
    else:
        end = copied[-1].span.end_offset if copied else start
    in_both = _within(copies, OffsetSpan(remote_end, end))
    starts = [part.span.start_offset for part in copied] + [part.span.start_offset for part in parts]
    return replace(
        local,
        parts=tuple(parts),
        spares=(*(local.spares or parts[-1:]), *in_both) if in_both else local.spares,
        log_start_offset=min(starts, default=max(start, log.local_log_start_offset)),
        log_end_offset=end,
        gaps=gaps,
        checkpoints=replace(log.checkpoints, log_start_offset=start, remote_start_offset=None),
    )


def _local_source(log: LogState, gaps: Gaps) -> JoinedSource:
    """Return the local log as a joined log. It has a single part unless several copies were merged."""
    if isinstance(log.source, JoinedSource):
        return log.source
    directory = DirectorySource.as_part(log)
    start, end = log.local_log_start_offset, log.log_end_offset
    return JoinedSource(
        directory,
        (LogPart(directory, OffsetSpan(start, end)),),
        (),
        gaps,
        start,
        end,
        log.tail.damage_position is not None and not log.checkpoints.live,
        None,
        log.checkpoints,
    )


def _local_parts(
    log: LogState, local: JoinedSource, copies: Iterable[LogPart], span: OffsetSpan
) -> list[LogPart]:
    """Return the parts of the local log in `span`, and remote ones in the place of missing local segments."""
    missing = [each.span.intersection(span) for each in missing_segments(log)]
    remote = [part for each in missing for part in _within(copies, each)]
    parts = _within(local.parts, span)
    for copy in remote:
        parts = [part for each in parts for part in each.without(copy.span)]
    return sorted((*parts, *remote), key=lambda part: part.span.start_offset)


def _warn_of_end(log: LogState, segments: Iterable[RemoteSegment], end: int) -> None:
    """Log a warning if the local directory ends before the remote segments, as an older copy does.

    Remote records of earlier leader epochs are ignored: an unclean election removed them from the log.
    """
    last_epoch = log.leader_epochs[-1].epoch if log.leader_epochs else 0
    spans = [each for segment in segments for each in segment.epoch_spans()]
    remote_end = max((each.span.end_offset for each in spans if each.epoch >= last_epoch), default=0)
    if remote_end > end:
        logger.warning(
            "%s: the log ends at offset %d here, but in remote storage at %d: this directory lacks the last "
            "records; read remote storage alone to get them",
            *(log.path, end, remote_end),
        )


def _existing(
    log: LogState, stored: StoredSegments, segments: Iterable[RemoteSegment]
) -> list[RemoteSegment]:
    """Return the segments that have any objects, with their ends. Log a warning if some are missing."""
    existing = []
    for segment in segments:
        file = stored.logs.get(segment.key)
        if file is None:
            logger.warning(
                "%s-%d: expected a complete copy of segment %s, with offsets %d to %d, found none in remote "
                "storage",
                *(log.source.topic, log.source.partition, segment.id),
                *(segment.span.start_offset, segment.span.end_offset - 1),
            )
        elif segment.span.end_offset == MAX_OFFSET:
            end = next_offset(file, log.max_batch_bytes) if file.size_bytes else segment.span.start_offset
            segment = replace(segment, span=OffsetSpan(segment.span.start_offset, end))
        if file is not None or segment.key in stored.damaged:
            existing.append(segment)
    return existing


def _source(log: LogState, stored: StoredSegments, segment: RemoteSegment) -> SegmentSource:
    end = segment.span.end_offset if segment.is_end_known else None
    file = stored.logs[segment.key]
    file = replace(file, end_offset=MAX_OFFSET if end is None else end)
    if segment.size_bytes is not None and file.size_bytes < segment.size_bytes:
        folder = Folder(file.folder.path, CutStorage(file.folder.storage, segment.size_bytes))
        file = replace(file, folder=folder, size_bytes=segment.size_bytes)
    return SegmentSource(file, log.source.topic, log.source.partition, end, log.max_batch_bytes)


def _within(parts: Iterable[LogPart], limit: OffsetSpan) -> list[LogPart]:
    """Return what parts have of some offsets."""
    clipped = (replace(part, span=part.span.intersection(limit)) for part in parts)
    return [part for part in clipped if not part.span.is_empty]
