"""A part of a log in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log.log.log_state import LogSource
    from native_log.log.offset_span import OffsetSpan


@dataclass(frozen=True, slots=True)
class LogPart:
    """Offsets of a log, and the place that has them."""

    source: LogSource
    span: OffsetSpan

    def without(self, span: OffsetSpan) -> list[LogPart]:
        """Return the parts before and after `span`."""
        if not self.span.overlaps(span):
            return [self]
        return [replace(self, span=each) for each in self.span.without(self.span.intersection(span))]
