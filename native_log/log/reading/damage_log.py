"""What a read does with the damaged ranges that it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Sequence

    from native_log.log.reading.options import ReadOptions
    from native_log.segment.damage import DamagedRange

MOST_LINES = 10


class DamageLog:
    """The damaged ranges of one read: the first ones are logged in full, of the others number and size."""

    def __init__(self, logger: logging.Logger, options: ReadOptions) -> None:
        """Begin a read. `options`: its mode, and what is called with each range."""
        self._logger = logger
        self._options = options
        self._ranges = self._further_bytes = 0
        self._path = ""

    def add(self, damaged: Sequence[DamagedRange]) -> None:
        """Note damaged ranges, in order. Raises CorruptRecordError in mode failFast."""
        if damaged and self._options.mode == "failFast":
            raise damaged[0].error()
        in_full = max(0, MOST_LINES - self._ranges)
        self._ranges += len(damaged)
        for each in damaged[:in_full]:
            self._logger.warning("skipped damaged bytes of a log: %s", each)
        further = damaged[in_full:]
        if further:
            self._further_bytes += sum([each.end_position - each.position for each in further])
            self._path = further[-1].path
        if self._options.on_damage is not None:
            for each in damaged:
                self._options.on_damage(each)

    def finish(self) -> None:
        """Log how many ranges were counted only."""
        if self._ranges > MOST_LINES:
            self._logger.warning(
                "skipped damaged bytes of a log: %d more ranges, %d bytes, the last one in %s",
                self._ranges - MOST_LINES,
                self._further_bytes,
                self._path,
            )
        self._ranges = self._further_bytes = 0
