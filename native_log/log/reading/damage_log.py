"""Log the damaged ranges that a read skips: the first ones in full, of all others the number and size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Sequence

    from native_log.segment.damage import DamagedRange

MOST_LINES = 10


class DamageLog:
    """The lines of one read."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._ranges = self._further_bytes = 0
        self._path = ""

    def add(self, damaged: Sequence[DamagedRange]) -> None:
        """Log damaged ranges, or count them if there were many before."""
        in_full = max(0, MOST_LINES - self._ranges)
        self._ranges += len(damaged)
        for each in damaged[:in_full]:
            self._logger.warning("skipped damaged bytes of a log: %s", each)
        further = damaged[in_full:]
        if further:
            self._further_bytes += sum([each.end_position - each.position for each in further])
            self._path = further[-1].path

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
