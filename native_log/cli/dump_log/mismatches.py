"""What dump-log reports after all files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class IndexMismatches:
    """Differences between indexes and logs: for each path of an index, pairs of what index and log have.

    Attributes:
        offsets: the offset of an entry, and the last offset of the batch at its position.
        timestamps: the timestamp of an entry, and that of the batch.
        out_of_order: the timestamp of an entry, and that of the entry before.
        not_found: the offset of an entry, and the last offset of the first batch that reaches it.
    """

    offsets: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    out_of_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        for path, pairs in self.offsets.items():
            yield f"Mismatches in :{path}"
            for offset, log_offset in reversed(pairs):
                yield f"  Index offset: {offset}, log offset: {log_offset}"
        for path, pairs in self.timestamps.items():
            yield f"Found timestamp mismatch in :{path}"
            for timestamp, log_timestamp in pairs:
                yield f"  Index timestamp: {timestamp}, log timestamp: {log_timestamp}"
        for path, pairs in self.out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            for timestamp, before in pairs:
                yield f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
        for pairs in self.not_found.values():
            yield "The following indexed offsets are not found in the log."
            for offset, log_offset in pairs:
                yield f"Indexed offset: {offset}, found log offset: {log_offset}"


@dataclass(slots=True)
class Mismatches:
    """What is printed to stderr after all files.

    Attributes:
        non_consecutive: for each path, pairs of successive offsets with a gap between them.
    """

    indexes: IndexMismatches = field(default_factory=IndexMismatches)
    non_consecutive: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield from self.indexes.lines()
        for path, pairs in self.non_consecutive.items():
            if pairs:
                yield f"Non-consecutive offsets in {path}"
            for previous, offset in reversed(pairs):
                yield f"  {previous} is followed by {offset}"
