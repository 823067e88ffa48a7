"""How far a run over many partitions has come."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 1000


class Progress:
    """Tells `report` (steps done, of how many), whatever thread it is told by. Partitions count the same.

    Args:
        report: None: no one asks.
    """

    def __init__(self, report: Callable[[int, int], None] | None, partitions: int) -> None:
        self._report = report
        self._total = partitions * _STEPS
        self._done = 0.0
        self._lock = Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Have all threads end where they next tell of progress, by a KafkaLogError."""
        self._is_stopped = True

    def check(self) -> None:
        if self._is_stopped:
            raise KafkaLogError("the run was interrupted")

    def partition(self) -> PartitionProgress:
        return PartitionProgress(self)

    def add(self, steps: float) -> None:
        if self._report is not None:
            with self._lock:
                self._done += steps
                self._report(round(self._done), self._total)


class PartitionProgress:
    """One partition's part: of bytes that are to be gone over, and at last, all."""

    def __init__(self, whole: Progress) -> None:
        self._whole = whole
        self._total_bytes = 0
        self._left = float(_STEPS)

    def begin(self, total_bytes: int) -> None:
        """How many bytes there are to go over, estimated."""
        self._total_bytes = total_bytes

    def add(self, size_bytes: int) -> None:
        self._whole.check()
        if self._total_bytes:
            steps = min(self._left, size_bytes * _STEPS / self._total_bytes)
            self._left -= steps
            self._whole.add(steps)

    def end(self) -> None:
        self._whole.add(self._left)
        self._left = 0
