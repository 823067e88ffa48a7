"""Begin and end transactions (Kafka: TransactionCoordinator)."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.checkpoints.write_session import WriteSession
from native_log.errors import KafkaLogError, ProducerFencedError, UnknownTopicOrPartitionError
from native_log.producer import open_logs
from native_log.producer.producer_ids import random_producer_id
from native_log.producer.transaction_file import TransactionFile
from native_log.producer.transaction_state import (
    UNFINISHED,
    TransactionEntry,
    TransactionState,
    next_producer,
    with_partitions,
)
from native_log.records import encode_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from native_log.producer.batch import TopicPartition
    from native_log.producer.clock import Clock
    from native_log.producer.log_directories import LogDirectories

logger = logging.getLogger(__name__)

_COORDINATOR_EPOCH = 0
_guard = threading.RLock()
"""Only one thread of the process changes the state of transactions at a time."""
_files: dict[str, tuple[TransactionFile, int]] = {}
"""By log directory: the open file, and how many coordinators of the process use it."""


class TransactionCoordinator:
    """The coordinator of one producer. Those of other producers in the process share its file.

    The file is in the first log directory, whose lock is held from `init_producer` to `close`. As with
    transaction.version 1 of brokers, markers have the epoch of their data. The order of changes is that of a
    broker: first the file says how the transaction ends, then the markers are written, then the file says
    that they are. So the next producer with the same id completes what a crash has interrupted.

    Args:
        transactional_id: the id.
        directories: the log directories.
        clock: the current time.
        new_id: returns a producer id that was never used.
    """

    def __init__(
        self,
        transactional_id: str,
        directories: LogDirectories,
        clock: Clock,
        new_id: Callable[[], int] = random_producer_id,
    ) -> None:
        self._id = transactional_id
        self._directories = directories
        self._log_dir = Path(directories.paths[0])
        self._clock = clock
        self._new_id = new_id
        self._session: WriteSession | None = None
        self._file: TransactionFile | None = None

    def init_producer(self) -> tuple[int, int]:
        """Fence earlier producers with the same id, and end their transaction. Return producer id and epoch.

        A transaction that was about to be committed is committed. Any other one is aborted.

        Raises LogDirInUseError, KafkaLogError, OSError.
        """
        with _guard:
            if self._session is None:
                self._session = WriteSession.enter(self._log_dir)
            if self._file is None:
                self._file = _acquire(self._log_dir)
            entry = self._file.get(self._id, self._clock.now_ms())
            if entry is not None and entry.state in UNFINISHED:
                if entry.state == TransactionState.ONGOING:
                    # The epoch of the marker fences the earlier producer in the logs.
                    epoch = entry.producer_epoch + 1
                    entry = replace(entry, producer_epoch=epoch, state=TransactionState.PREPARE_ABORT)
                    self._save(entry)
                entry = self._complete(entry)
            entry = next_producer(entry, self._new_id)
            self._save(entry)
            return entry.producer_id, entry.producer_epoch

    def add_partitions(self, producer_epoch: int, partitions: Iterable[TopicPartition]) -> None:
        """Note that data of a transaction are about to be written to partitions.

        Raises ProducerFencedError, KafkaLogError, OSError.
        """
        with _guard:
            entry = self._entry(producer_epoch)
            added = with_partitions(entry, tuple(partitions))
            if added != entry:
                self._save(added)

    def end(self, producer_epoch: int, *, commit: bool) -> None:
        """Write the markers that end a transaction. If an error is raised, the call may be repeated.

        Raises ProducerFencedError, KafkaLogError, OSError.
        """
        with _guard:
            entry = self._entry(producer_epoch)
            if entry.state not in UNFINISHED:
                return  # nothing was written
            if entry.state == TransactionState.ONGOING:
                state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
                entry = replace(entry, state=state)
                self._save(entry)
            self._complete(entry)

    def close(self) -> None:
        """Release the lock of the log directory."""
        with _guard:
            if self._file is not None:
                self._file = None
                _release(self._log_dir)
            if self._session is not None:
                session, self._session = self._session, None
                session.leave()

    def _entry(self, producer_epoch: int) -> TransactionEntry:
        entry = None if self._file is None else self._file.get(self._id, self._clock.now_ms())
        if entry is None or entry.producer_epoch != producer_epoch:
            epoch = "none" if entry is None else f"epoch {entry.producer_epoch}"
            raise ProducerFencedError(
                f"expected epoch {producer_epoch} of transactional.id {self._id}, found {epoch}: there is a "
                "newer producer which fences the current one",
                path=self._log_dir,
            )
        return entry

    def _complete(self, entry: TransactionEntry) -> TransactionEntry:
        commit = entry.state == TransactionState.PREPARE_COMMIT
        for index, target in enumerate(entry.partitions):
            try:
                self._write_marker(target, entry, commit=commit)
            except (KafkaLogError, OSError):
                if index:  # another attempt need not write the earlier markers again
                    with contextlib.suppress(KafkaLogError, OSError):
                        self._save(replace(entry, partitions=entry.partitions[index:]))
                raise
        state = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        entry = replace(entry, state=state, partitions=())
        self._save(entry)
        return entry

    def _write_marker(self, target: TopicPartition, entry: TransactionEntry, *, commit: bool) -> None:
        now_ms = self._clock.now_ms()
        marker = encode_marker(
            offset=0,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            commit=commit,
            coordinator_epoch=_COORDINATOR_EPOCH,
            timestamp_ms=now_ms,
        )
        try:
            path = self._directories.path(target)
            log = open_logs.acquire(path, lambda: self._directories.log(target))
        except (UnknownTopicOrPartitionError, FileNotFoundError):
            if self._directories.has(target):
                raise
            # A broker skips partitions that are no longer in its metadata (TransactionMarkerChannelManager).
            logger.warning(
                "partition %s was removed; the transaction of transactional.id %s is %s without it",
                target,
                self._id,
                "committed" if commit else "aborted",
            )
            return
        try:
            log.append_batches(marker, origin="coordinator", now_ms=now_ms)
        finally:
            open_logs.release(path)

    def _save(self, entry: TransactionEntry) -> None:
        if self._session is not None:
            self._session.check_lock()
        if self._file is not None:
            self._file.put(self._id, replace(entry, updated_ms=self._clock.now_ms()))


def _acquire(log_dir: Path) -> TransactionFile:
    """Return the file of a log directory, which is read once while coordinators use it."""
    name = os.path.realpath(log_dir)
    file, users = _files.get(name) or (TransactionFile(log_dir), 0)
    _files[name] = file, users + 1
    return file


def _release(log_dir: Path) -> None:
    name = os.path.realpath(log_dir)
    file, users = _files.pop(name)
    if users > 1:
        _files[name] = file, users - 1
    else:
        file.close()


def _reset_in_child() -> None:
    global _guard
    _guard = threading.RLock()
    _files.clear()


os.register_at_fork(after_in_child=_reset_in_child)
