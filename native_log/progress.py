"""Progress of a run over many partitions."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 1000
"""The number of progress steps for one partition, regardless of its size."""


class Progress:
    """Report the progress of several partitions. Each partition counts the same. Threads may share it.

    Args:
        report: called with the number of steps done and the total number of steps; None: do not report.
        partitions: the number of partitions.
    """

    def __init__(self, report: Callable[[int, int], None] | None, partitions: int) -> None:
        self._report = report
        self._total = partitions * _STEPS
        self._done = 0.0
        self._lock = Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Stop the run: the next `check` or `add` of each thread raises a KafkaLogError."""
        self._is_stopped = True

    def check(self) -> None:
        """Raise KafkaLogError if the run was stopped."""
        if self._is_stopped:
            raise KafkaLogError("the run was interrupted")

    def partition(self) -> PartitionProgress:
        """Return the progress of one more partition."""
        return PartitionProgress(self)

    def add(self, steps: float) -> None:
        """Add steps done and report the sum."""
        if self._report is not None:
            with self._lock:
                self._done += steps
                self._report(round(self._done), self._total)


class PartitionProgress:
    """Progress of one partition, measured in bytes processed."""

    def __init__(self, whole: Progress) -> None:
        self._whole = whole
        self._total_bytes = 0
        self._left = float(_STEPS)

    def begin(self, total_bytes: int) -> None:
        """Set the estimated number of bytes to process."""
        self._total_bytes = total_bytes

    def add(self, size_bytes: int) -> None:
        """Add bytes processed. Raises KafkaLogError if the run was stopped. Any thread may add 0."""
        self._whole.check()
        if self._total_bytes and size_bytes:
            steps = min(self._left, size_bytes * _STEPS / self._total_bytes)
            self._left -= steps
            self._whole.add(steps)

    def end(self) -> None:
        """Count the whole partition as done."""
        self._whole.add(self._left)
        self._left = 0
