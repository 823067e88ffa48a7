"""LogFollower: an iterator of record batches as they arrive."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from native_log.arguments import integer, optional_integer
from native_log.log.reading.columns import record_schema
from native_log.watch import DirectoryWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence
    from typing import Self

    import pyarrow as pa

    from native_log.log.live.live_log import LiveLog
    from native_log.log.live.partition_follower import PartitionFollower

DEFAULT_POLL_INTERVAL_MS = 1000
"""How often files are looked at where inotify does not report changes (as by `tail -f`)."""


class FollowedLogs(Protocol):
    """Logs that a LogFollower follows."""

    def refresh(self, changed: Collection[str] | None) -> None:
        """Bring the logs up to date.

        Args:
            changed: the directories that have changed; None: any of them may have.
        """

    def new_directories(self) -> list[str]:
        """Return the directories to watch, apart from those that an earlier call returned."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the records that are new since the last call."""


class LogFollower:
    """An iterator of record batches as they arrive, and a context manager.

        with log.follow(timeout_ms=10_000) as batches:
            for batch in batches:
                ...

    It waits for new records without using the processor. It ends after `stop`, or after its timeout. Iterate
    in one thread only; `stop` may be called in any thread and in a signal handler.

    Attributes:
        schema: the schema of the batches.
    """

    def __init__(
        self,
        logs: FollowedLogs,
        columns: Sequence[str],
        *,
        timeout_ms: int | None = None,
        poll_interval_ms: int = DEFAULT_POLL_INTERVAL_MS,
        watch: Callable[[int], DirectoryWatch] = DirectoryWatch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do not call this; use PartitionLog.follow or LogDir.follow.

        Args:
            logs: the logs.
            columns: the columns to read.
            timeout_ms: end after no records arrived for this time; None: never.
            poll_interval_ms: see DirectoryWatch.
            watch: creates the watch.
            clock: the current time in seconds.
        """
        timeout_ms = optional_integer("timeout_ms", timeout_ms)
        self._timeout = None if timeout_ms is None else timeout_ms / 1000
        self._poll_interval_ms = integer("poll_interval_ms", poll_interval_ms)
        if self._poll_interval_ms <= 0:
            raise ValueError(f"poll_interval_ms: expected at least 1, found {poll_interval_ms}")
        self.schema: pa.Schema = record_schema(columns)
        self._logs = logs
        self._columns = list(columns)
        self._new_watch = watch
        self._clock = clock
        self._watch: DirectoryWatch | None = None
        self._is_stopped = False
        self._lock = threading.RLock()
        self._batches = self._follow()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch. Wait for it if necessary."""
        return next(self._batches)

    def stop(self) -> None:
        """End the iteration: no batch is returned after the current one."""
        self._is_stopped = True
        with self._lock:
            if self._watch is not None:
                self._watch.wake()

    def close(self) -> None:
        """End the iteration and release its resources."""
        self.stop()
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> Generator[pa.RecordBatch, None, None]:
        with self._new_watch(self._poll_interval_ms) as watch:
            self._watch = watch
            try:
                yield from self._read_and_wait(watch)
            finally:
                with self._lock:
                    self._watch = None

    def _read_and_wait(self, watch: DirectoryWatch) -> Iterator[pa.RecordBatch]:
        arrived = self._clock()
        while not self._is_stopped:
            if watch.add(self._logs.new_directories()):
                self._logs.refresh(None)
                continue
            for batch in self._logs.read(self._columns):
                yield batch
                arrived = self._clock()
                if self._is_stopped:
                    return
            left_ms = None
            if self._timeout is not None:
                left_ms = round((arrived + self._timeout - self._clock()) * 1000)
                if left_ms <= 0:
                    return
            self._logs.refresh(watch.wait(left_ms))


class FollowedLog:
    """Follow one log. The checkpoints are read once, at opening."""

    def __init__(self, log: LiveLog, follower: PartitionFollower) -> None:
        """Follow `log` from the position of `follower`."""
        self._log = log
        self._follower = follower
        self._new_directories = log.directories

    def refresh(self, changed: Collection[str] | None) -> None:  # noqa: ARG002
        """See FollowedLogs."""
        change = self._log.refresh()
        if change.is_recreated:
            self._new_directories = self._log.directories
        self._follower.apply(change)

    def new_directories(self) -> list[str]:
        """See FollowedLogs."""
        directories, self._new_directories = self._new_directories, []
        return directories

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See FollowedLogs."""
        return self._follower.read(columns)
