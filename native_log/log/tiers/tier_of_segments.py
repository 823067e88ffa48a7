"""Tell the segments in remote storage from local ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.log.sources.joined import JoinedSource
from native_log.log.tiers.segment_source import SegmentSource

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.log.log_state import LogSource
    from native_log.log.sources.log_part import LogPart

LOCAL, REMOTE = "local", "remote"


def remote_segments(source: LogSource) -> frozenset[Path]:
    """Return the paths of the segments of a log that are read from remote storage."""
    parts = source.parts if isinstance(source, JoinedSource) else ()
    return frozenset(part.source.segment.path for part in parts if isinstance(part.source, SegmentSource))


def is_remote(part: LogPart) -> bool:
    """Return whether a part of a joined log is read from remote storage."""
    return isinstance(part.source, SegmentSource)
