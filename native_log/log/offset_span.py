"""Ranges of offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """Offsets from `start_offset` to before `end_offset`. A span that ends where it starts is empty."""

    start_offset: int
    end_offset: int

    @property
    def is_empty(self) -> bool:
        """Whether there is no offset in the span."""
        return self.start_offset >= self.end_offset

    def intersection(self, other: OffsetSpan) -> OffsetSpan:
        """Return the offsets that are in both spans."""
        start = max(self.start_offset, other.start_offset)
        return OffsetSpan(start, max(start, min(self.end_offset, other.end_offset)))

    def overlaps(self, other: OffsetSpan) -> bool:
        """Return whether an offset is in both spans."""
        return not self.intersection(other).is_empty

    def without(self, part: OffsetSpan) -> list[OffsetSpan]:
        """Return the offsets before and after `part`, which lies within this span."""
        sides = (
            OffsetSpan(self.start_offset, part.start_offset),
            OffsetSpan(part.end_offset, self.end_offset),
        )
        return [side for side in sides if not side.is_empty]

    def describe_loss(self) -> str:
        """Return the text of a LostOffsetsError about these offsets."""
        offsets = f"{self.start_offset} to {self.end_offset - 1}"
        return f"expected offsets {offsets} in a segment, found none with them: they are lost"


def union(spans: Iterable[OffsetSpan]) -> tuple[OffsetSpan, ...]:
    """Return the offsets that are in any of the spans, sorted, with spans that overlap or touch joined."""
    joined: list[OffsetSpan] = []
    for span in sorted(spans, key=lambda span: span.start_offset):
        if joined and span.start_offset <= joined[-1].end_offset:
            before = joined.pop()
            span = OffsetSpan(before.start_offset, max(before.end_offset, span.end_offset))
        joined.append(span)
    return tuple(joined)
